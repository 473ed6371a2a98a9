"""Which of vLLM's two engines a question runs: 0.8 to 0.10 fall back to V0 for what their V1 could not do, and stop where V1 is asked for.

vLLM 0.8.0 to 0.11.0 `vllm/engine/arg_utils.py` _is_v1_supported_oracle (15 releases line by line), with `platforms/*.py` supports_v1,
default_v1 and is_kv_cache_dtype_supported, and SupportsV0Only of `model_executor/models`. _raise_or_fallback stops with VLLM_USE_V1=1,
_warn_or_fallback then runs V1. 0.11.0 asks it still and has no V0; 0.11.1 does not read the variable.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical, parse_kv_dtype, weight_scheme
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.common.releases import release as numbers
from kvplan.engines.common.settling import checkpoint_format
from kvplan.engines.vllm import for_v0
from kvplan.engines.vllm.rules import VERSIONS, VllmRules, find_rules, since
from kvplan.forms import STATES
from kvplan.spec import ModelSpec

LAST_V0, FIRST_V1, LAST_ORACLE = "0.7.3", "0.8", "0.11.0"
#: The last release that runs classes with V0 -> classes (SupportsV0Only in the file of the class or of one that it inherits from).
_V0_ONLY = {
    "0.8.0": "Gemma3ForConditionalGeneration",
    "0.8.2": "MiniCPMO MiniCPMV",
    "0.8.4": "GlmForCausalLM Phi4MMForCausalLM",
    "0.9.1": (
        "BambaForCausalLM FalconH1ForCausalLM GraniteMoeHybridForCausalLM Mamba2ForCausalLM NemotronHForCausalLM Zamba2ForCausalLM "
        "Qwen2ForProcessRewardModel Qwen2ForRewardModel"
    ),
    "0.9.2": "PrithviGeoSpatialMAE",
    "0.10.0": (
        "FalconMambaForCausalLM JambaForCausalLM JambaForSequenceClassification MambaForCausalLM MiniMaxForCausalLM "
        "MiniMaxM1ForCausalLM MiniMaxText01ForCausalLM BertForSequenceClassification BertModel GteModel GteNewModel "
        "ModernBertForSequenceClassification NomicBertModel RobertaForMaskedLM RobertaForSequenceClassification RobertaModel "
        "XLMRobertaForSequenceClassification XLMRobertaModel"
    ),
    "0.10.1.1": "BloomForCausalLM GritLM Plamo2ForCausalLM WhisperForConditionalGeneration",
    "0.10.2": (
        "BartForConditionalGeneration BartModel DonutForConditionalGeneration Florence2ForConditionalGeneration "
        "MBartForConditionalGeneration MllamaForConditionalGeneration Phi4FlashForCausalLM"
    ),
    "0.11.0": "MotifForCausalLM",
}
V0_ONLY: dict[str, str] = {named: last for last, classes in _V0_ONLY.items() for named in classes.split()}
#: Methods that V1 drafts by where they are asked for by their name, and the release from which it does so unasked.
DRAFTS = (("ngram", "0.8", "0.9"), ("eagle", "0.8.3", "0.9"), ("eagle3", "0.8.5", "0.9"), ("medusa", "0.9", "0.9"), ("mtp", "0.9", "0.9"))
EIGHT_BITS = "a cache of 8 bits needs FlashAttention 3, which is for Hopper"


class Reason(NamedTuple):
    """Why V1 is not run.

    said   in words
    named  what the engine calls it: "VLLM_USE_V1=1 is not supported with {named}."; empty: V1 runs where it is asked for
    """

    said: str
    named: str = ""


def rules_of(d: Deployment) -> tuple[str, VllmRules, tuple[str, ...]]:
    """The release, the rules of the engine that it runs this question with, and notes.

    `0.1.dev…` is a build of the main branch without its tags.
    """
    asked = numbers(d.engine_version) if d.engine_version else ()
    if asked and asked < numbers(VERSIONS[0]) and ".dev" in str(d.engine_version):
        release, rules, _ = find_rules(None)
        notes: tuple[str, ...] = (f"{str(d.engine_version)[:40]} does not say its release: the rules of {release} are used",)
    else:
        release, rules, notes = find_rules(d.engine_version)
    chosen = asked_v1(d)
    if not rules.v1:
        if not chosen:
            return release, rules, notes
        return release, find_rules(FIRST_V1)[1], (*notes, f"the V1 engine of vLLM {release} is taken for that of {FIRST_V1}")
    if since(release, "0.11"):
        unread = chosen is not None and _at(d) > numbers(LAST_ORACLE)
        return release, rules, (*notes, "VLLM_USE_V1 is not read any more: there is one engine") if unread else notes
    reason = falls_back(d) if chosen is None else None
    if reason is None and chosen is not False:
        return release, rules, notes
    kept = {name: getattr(rules, name) for name in ("absorbs", "even_stages", "whole_on_rocm", "cuts_batch")}
    older = find_rules(LAST_V0)[1]._replace(**kept)
    return release, older, (*notes, f"vLLM {release} runs its V0 engine here: {reason.said if reason else 'VLLM_USE_V1=0'}")


def asked_v1(d: Deployment) -> bool | None:
    """VLLM_USE_V1; None where it is not set."""
    options = Options(d)
    return options.flag("use_v1", True) if options.text("use_v1") is not None else None


def _at(d: Deployment) -> tuple[int, ...]:
    """The release's numbers; of a name without one, beyond all."""
    return numbers(d.engine_version or "") or (10**6,)


def falls_back(d: Deployment) -> Reason | None:
    """Why a release that has V1 takes V0 all the same, in the engine's order as to those that stop; None where it does not."""
    at = _at(d)
    if not numbers(FIRST_V1) <= at <= numbers(LAST_ORACLE):
        return None
    options = Options(d)
    if found := for_v0.reason(options.text(for_v0.OPTION), options.text("attention_backend"), at):
        return Reason(*found)
    return _of_the_model(d, at, options) or _of_the_question(d, at, options) or _of_the_platform(d, at, options)


def _until(at: tuple[int, ...], last: str) -> bool:
    return at <= numbers(last)


def _of_the_model(d: Deployment, at: tuple[int, ...], options: Options) -> Reason | None:
    """Its class, its states, its quantisation, its task."""
    named = d.model.architecture or ""
    if _until(at, V0_ONLY.get(named, "0")):
        return Reason(f"its V1 has no {named} yet", f"[{named!r}]")
    if d.model.encoder is not None and _until(at, "0.10.1.1"):
        return Reason("V1 has no encoder-decoder models yet", f"[{named!r}]")
    formats = (d.weight_dtype or checkpoint_format(d)).split("+")
    own = {weight_scheme(name) for name in formats if name != "int8"}  # which may be compressed-tensors' or GPTQ's, too
    lacks = own & ({"bitsandbytes", "gguf"} if _until(at, "0.8.2") else {"gguf"} if _until(at, "0.8.5") else set())
    if lacks:
        return Reason(f"its V1 does not run {min(lacks)}", f"--quantization {min(lacks)}")
    pooled = options.text("runner") == "pooling" or not d.model.lm_head
    if pooled and _until(at, "0.9.1"):
        return Reason("its V1 does not pool", "--task embed")
    if not options.text("use_v1") and _until(at, "0.10.1.1") and _states(d.model):
        return Reason("V1 runs models with states only where VLLM_USE_V1=1 asks for it")
    return None


def _of_the_question(d: Deployment, at: tuple[int, ...], options: Options) -> Reason | None:
    """Formats, drafting, adapters, stages, weights in host memory."""
    if _until(at, "0.10.2") and _eight_bits(d) and not _takes_8_bits(d, at, options):
        return Reason(EIGHT_BITS, "--kv-cache-dtype")
    if d.dtype not in (None, "auto") and canonical(d.dtype) == "f32" and _until(at, "0.9.1"):
        return Reason("its V1 computes in 16 bits", "--dtype torch.float32")
    if options.number("cpu_offload_gb", zero=True) and _until(at, "0.8.2"):
        return Reason("its V1 leaves no weights in host memory", "--cpu-offload-gb")
    draft = read_speculative(d.speculative)
    if draft is not None and _until(at, "0.9.2"):
        row = next((row for row in DRAFTS if row[0] == draft.method and numbers(row[1]) <= at), None)
        if row is None:
            return Reason(f"its V1 does not draft by {draft.method}", "Speculative Decoding")
        if at < numbers(row[2]):
            return Reason(f"V1 drafts by {draft.method} only where VLLM_USE_V1=1 asks for it")
    if (d.pp or 1) > 1 and not for_v0.staged(options.text(for_v0.OPTION), at):
        said = f"its V1 has no pipeline stages under --distributed-executor-backend {for_v0.executor(options.text(for_v0.OPTION)) or 'mp'}"
        return Reason(said, "Pipeline Parallelism without Ray distributed executor")
    if _until(at, "0.8.2") and (d.lora or (d.pp or 1) > 1):
        return Reason("V1 runs adapters and pipeline stages only where VLLM_USE_V1=1 asks for it")
    return None


def _of_the_platform(d: Deployment, at: tuple[int, ...], options: Options) -> Reason | None:
    """The device: CUDA from compute capability 8.0 on; AMD's cards from 0.9.2 on unasked, Intel's from 0.9.2 on; CPUs from 0.9.1 on."""
    has = d.device.capability if d.device is not None else None
    on_cpu, vendor = options.text("platform") == "cpu", d.device.vendor if d.device is not None else ""
    if on_cpu:
        slides = any(getattr(mixer, "window", 0) for block in d.model.blocks.values() for mixer in block.mixers)
        if _until(at, "0.9.0.1"):
            return Reason("its V1 does not run on CPUs", "device type=cpu")
        if slides and at >= numbers("0.9.2"):
            return Reason("its V1 has no sliding windows on CPUs", "sliding window (CPU backend)")
        return None
    if vendor == "intel" and _until(at, "0.9.1"):
        return Reason("its V1 does not run on Intel's GPUs", "device type=xpu")
    if vendor == "amd" and _until(at, "0.9.1"):
        return Reason("V1 runs on AMD's GPUs only where VLLM_USE_V1=1 asks for it")
    if has is not None and has < 80 and _until(at, "0.10.1.1"):
        return Reason(f"compute capability {d.device.compute_capability if d.device else ''} is below 8.0", "Compute Capability < 8.0")
    return None


def _states(model: ModelSpec) -> bool:
    """Whether layers keep a state of a sequence."""
    return any(mixer.cache_form() in STATES for block in model.blocks.values() for mixer in block.mixers)


def _eight_bits(d: Deployment) -> bool:
    """Whether a cache in FP8 is asked for."""
    formats = parse_kv_dtype(d.kv_dtype) if d.kv_dtype not in (None, "auto") else ()
    return any(name.startswith("fp8") for name in formats)


def _takes_8_bits(d: Deployment, at: tuple[int, ...], options: Options) -> bool:
    """Whether V1 takes it: FlashAttention on Hopper from 0.8.2 on, AMD's cards from 0.9 on, all on capability 10.0 from 0.10 on.

    From 0.10.2 on by backend, too: latents by FlashMLA and CUTLASS_MLA, the default; FlashInfer; Triton from 8.9 on.
    """
    has, backend = d.device.capability if d.device is not None else None, (options.text("attention_backend") or "").upper()
    if _until(at, "0.8.1") or options.text("platform") == "cpu":
        return False
    if has is None:
        return d.device is None or at >= numbers("0.9")
    latent = any(mixer.cache_form().startswith("latent") for block in d.model.blocks.values() for mixer in block.mixers)
    if at >= numbers("0.10.2") and latent:
        return backend in ("", "FLASHMLA", "CUTLASS_MLA")
    if at >= numbers("0.10") and has == 100:
        return True
    if at >= numbers("0.10.2") and backend in ("FLASHINFER", "TRITON_ATTN_VLLM_V1"):
        return backend == "FLASHINFER" or has >= 89
    return has // 10 == 9 and backend in ("", "FLASH_ATTN_VLLM_V1")
