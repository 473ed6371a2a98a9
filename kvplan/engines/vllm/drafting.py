"""What vLLM stops at of a drafter beside a model, in its words; methods that a release does not have are in ways.py."""

from __future__ import annotations

from functools import partial

from kvplan.engines.common import conditions as on
from kvplan.engines.common.drafters import whole_model
from kvplan.engines.common.lines import query_heads
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import in_force
from kvplan.engines.common.stops import Move, Stop, Values, words_of
from kvplan.engines.vllm.aux_states import FIRST as AUX_STATES
from kvplan.engines.vllm.layers import stages as layers_of
from kvplan.engines.vllm.model import longest_of
from kvplan.engines.vllm.registered import REGISTRY, before_its_class
from kvplan.engines.vllm.settings import settings_of
from kvplan.engines.vllm.ways import DRAFTING
from kvplan.units import round_up

_OTHERS = (Move("speculative", "none, ngram, eagle, eagle3 or mtp"),)


def vocabularies(settled: Settled) -> Values:
    """A drafter that is a whole model, of another vocabulary than the target's."""
    d = settled.question
    if settings_of(settled).method != "draft_model" or d.drafter is None or d.drafter.vocab_size == d.model.vocab_size:
        return None
    return {"target": d.model.vocab_size, "draft": d.drafter.vocab_size}


def too_long(settled: Settled) -> Values:
    """A length of the drafter's that is beyond its own, or the target's (config/speculative.py _maybe_override_draft_max_model_len)."""
    d, s = settled.question, settings_of(settled)
    asked = Options(d).count("draft_max_model_len")
    if asked is None or s.method not in ("eagle", "eagle3", "draft_model", "mtp", "medusa", "mlp_speculator", "dflash", "dspark"):
        return None
    lengths = {"draft": longest_of(d.drafter, s.rules) if d.drafter else None, "target": s.max_model_len}
    return next(({"asked": asked, "whose": whose, "most": most} for whose, most in lengths.items() if most and asked > most), None)


#: Classes whose config is rewritten to one of their own modules (config/speculative.py hf_config_override), from which release on: read of
#: 30 releases, 0.9.1 to 0.33.
_OWN_MODULES: dict[str, str] = {
    "0.7.3": "DeepseekV3ForCausalLM",
    "0.9": "MiMoForCausalLM",
    "0.10": "Glm4MoeForCausalLM",
    "0.10.2": "Ernie4_5_MoeForCausalLM Qwen3NextForCausalLM",
    "0.11": "DeepseekV32ForCausalLM LongcatFlashForCausalLM",
    "0.11.1": "PanguUltraMoEForCausalLM",
    "0.12": "MistralLarge3ForCausalLM",
    "0.14": "ExaoneMoEForCausalLM ExaoneMoeForCausalLM",
    "0.15": "Glm4MoeLiteForCausalLM Step3p5ForCausalLM",
    "0.16": "GlmMoeDsaForCausalLM GlmOcrForConditionalGeneration",
    "0.17": "NemotronHForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration",
    "0.19": "NemotronHPuzzleForCausalLM",
    "0.20": (
        "DeepseekV4ForCausalLM DeepseekV4ForConditionalGeneration Exaone4_5_ForConditionalGeneration HYV3ForCausalLM "
        "NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Super_Omni_Reasoning_V3"
    ),
    "0.21": "MiMoV2FlashForCausalLM MiMoV2ForCausalLM MiMoV2OmniForCausalLM",
    "0.22": "InternS2PreviewForConditionalGeneration Qwen3_5MoeForCausalLM",
    "0.23": "Step3p7FlashForCausalLM Step3p7ForConditionalGeneration",
    "0.24": "MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration",
    "0.25": "BailingHybridForCausalLM BailingMoeV2_5ForCausalLM",
    "0.26": "InklingForCausalLM InklingForConditionalGeneration LongcatFlashNgramForCausalLM",
    "0.27": "KimiK3ForConditionalGeneration",
    "0.28": (
        "BailingMoeV3ForCausalLM Dots3NoteForCausalLM Dots3NoteForConditionalGeneration InternS2MobiusForConditionalGeneration "
        "Qwen3_5ForCausalLM"
    ),
    "0.29": "HYV4ForCausalLM NemotronH_Omni_Reasoning_V3 Qwen4ExpForCausalLM Qwen4ExpForConditionalGeneration",
    "0.30": ("BailingMoeV3VLForConditionalGeneration DeepseekV41ForCausalLM Glm5NextForCausalLM Glm5NextForConditionalGeneration"),
    "0.33": "RadioMBartPrefixForCausalLM Step5ForCausalLM Step5ForConditionalGeneration",
}
OF_THEIR_OWN: dict[str, str] = {named: first for first, classes in _OWN_MODULES.items() for named in classes.split()}

#: Classes of which the first module alone is loaded, however many the checkpoint has (models/mimo_v2_mtp.py _MIMO_V2_FLASH_NUM_MTP_LAYERS).
FIRST_ALONE = ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM", "MiMoV2OmniForCausalLM")


def none_of_its_own(settled: Settled) -> Values:
    """The model's own modules where its class has none: its whole config is then taken for a drafter, of no method that there is."""
    d, spec = settled.question, read_speculative(settled.question.speculative)
    own = settings_of(settled).method == "mtp" and spec is not None and spec.model is None and d.drafter is None
    if not own or d.model.architecture is None:
        return None
    first = OF_THEIR_OWN.get(d.model.architecture)
    return {} if first is None or not in_force(first, "", d.engine_version) else None


#: Target models that EAGLE-3 heads go with (config/speculative.py, by the text model's type): the release's words for it, from which on, as
#: they stand in a class's name. From 0.22 on the class itself says it.
EAGLE3_TARGETS: tuple[tuple[str, str], ...] = (
    ("0.9", "llama"),
    ("0.10.1", "llama qwen"),
    ("0.11", "llama qwen minicpm gptoss"),
    ("0.16", "llama qwen minicpm gptoss hunyuanvl hunyuandensev1 afmoe"),
    ("0.17", "llama qwen minicpm gptoss hunyuanvl hunyuandensev1 afmoe nemotronh"),
    ("0.18", "llama qwen minicpm gptoss hunyuanvl hunyuandensev1 afmoe nemotronh deepseekv2 deepseekv3"),
    ("0.19.1", "llama qwen minicpm gptoss hunyuanvl hunyuandensev1 afmoe nemotronh deepseekv2 deepseekv3 minimaxm2 gemma4"),
    ("0.21", "llama qwen minicpm gptoss hunyuanvl hunyuandensev1 afmoe nemotronh deepseekv2 deepseekv3 minimaxm2 gemma4 laguna"),
)
#: Classes of a model type that their name does not say.
_TYPED = ("YiForCausalLM", "IQuestCoderForCausalLM", "TeleChat3ForCausalLM", "SDARForCausalLM", "SDARMoeForCausalLM")


def not_a_target(settled: Settled) -> Values:
    """An EAGLE-3 head beside a text model of a type that the release does not take; of a model with towers nothing is said."""
    named, s = settled.question.model.architecture or "", settings_of(settled)
    asked = settled.question.engine_version
    types = next((words for first, words in reversed(EAGLE3_TARGETS) if in_force(first, "", asked)), "")
    said = named.lower().replace("_", "")
    if s.method != "eagle3" or not named.endswith("ForCausalLM") or settled.question.model.towers or named in _TYPED or not types:
        return None
    return None if any(one in said for one in types.split()) else {"class": named}


#: Classes whose name with Eagle3 before it is one of a head -> from which release on (model_executor/models/registry.py).
EAGLE3_OF = {"LlamaForCausalLM": "", "MiniMaxM2ForCausalLM": "0.20.2", "Qwen3ForCausalLM": "0.24"}


def whole_head(settled: Settled, *, known: bool) -> Values:
    """A whole model named as an EAGLE-3 head: built as one where the release knows a head by that name (`known`), else unknown."""
    d = settled.question
    if settings_of(settled).method != "eagle3" or not whole_model(d) or d.drafter is None or d.drafter.architecture is None:
        return None
    first = EAGLE3_OF.get(d.drafter.architecture)
    if known is not (first is not None and in_force(first, "", d.engine_version)):
        return None
    return {"class": f"Eagle3{d.drafter.architecture}", "layers": d.drafter.n_layers, "width": 2 * d.drafter.hidden_size}


LLAMA_HEADS = ("LlamaForCausalLM", "EagleLlamaForCausalLM")
#: Classes with modules whose drafter has pipeline stages (model_executor/models/*_mtp.py SupportsPP, 0.15 to 0.29); up to 0.29 a drafter is
#: checked for the target's stages (create_draft_parallel_config), from 0.30 on for one.
STAGED = (
    "BailingMoeV3ForCausalLM", "BailingMoeV3VLForConditionalGeneration", "Glm4MoeLiteForCausalLM", "GlmOcrForConditionalGeneration",
    "NemotronHForCausalLM", "NemotronHPuzzleForCausalLM",
)  # fmt: skip
#: Classes whose modules are `mtp.layers.0` and so on (models/qwen3_next_mtp.py, qwen3_5_mtp.py, nemotron_h_mtp.py), not numbered on.
FROM_0 = ("Qwen3Next", "Qwen3_5", "NemotronH")
#: ... and those that had them up to a release (0.10.2 to 0.13 class DeepSeekMTP, ErnieMTP, Glm4MoeMTP, LongCatFlashMTP, OpenPanguMTP,
#: Qwen3NextMTP).
STAGED_BEFORE, STAGED_EARLY = "0.14", (
    "DeepseekV3ForCausalLM", "Ernie4_5_MoeForCausalLM", "Glm4MoeForCausalLM", "LongcatFlashForCausalLM", "PanguUltraMoEForCausalLM",
    "Qwen3NextForCausalLM",
)  # fmt: skip


def stages(settled: Settled) -> Values:
    """A model's own modules, or an EAGLE head, under pipeline parallelism, whose class has no stages."""
    s, architecture = settings_of(settled), settled.question.model.architecture
    staged = STAGED if s.since(STAGED_BEFORE) else (*STAGED, *STAGED_EARLY)
    heads = s.method in ("eagle", "eagle3") or (s.method == "mtp" and architecture and architecture not in staged)
    return {} if heads and s.pp > 1 else None


def draft_heads(settled: Settled) -> Values:
    """Heads of a draft model that the target's ranks do not share evenly."""
    drafter, tp = settled.question.drafter, settings_of(settled).tp
    heads = {getattr(mixer, "heads", 0) for block in drafter.blocks.values() for mixer in block.mixers} - {0} if drafter else set()
    return {"heads": max(heads), "tp": tp} if heads and max(heads) % tp else None


def split_draft(settled: Settled) -> Values:
    """A whole model that drafts on the last stage alone, where its class builds the last stage's layers and waits for those before."""
    d, s = settled.question, settings_of(settled)
    return {"pp": s.pp} if s.method == "draft_model" and s.pp > 1 and d.drafter is not None else None


def named_twice(settled: Settled) -> Values:
    """An EAGLE head of Llama's is numbered on after as many layers as the last stage has (models/llama_eagle.py), which may be there."""
    d, s = settled.question, settings_of(settled)
    if s.method != "eagle" or s.pp == 1 or d.drafter is None or d.drafter.architecture not in LLAMA_HEADS:
        return None
    last = layers_of(settled.model, s)[-1]
    return {"layer": len(last)} if len(last) in last else None


def adapted(settled: Settled) -> Values:
    """A batch that does not hold one token and the drafts of every sequence, with adapters."""
    s = settings_of(settled)
    least = s.max_num_seqs * (s.draft_tokens + 1)
    asked = settled.question.lora not in (None, "off") and settled.question.speculative not in (None, "off")
    return (
        {"seqs": s.max_num_seqs, "least": least, "tokens": s.max_num_batched_tokens} if asked and s.max_num_batched_tokens < least else None
    )


def no_states(settled: Settled) -> Values:
    """A head that reads hidden states of a model's layers, beside a class that the release lists and that hands out none."""
    named, version = settled.question.model.architecture or "", settled.question.engine_version
    if settings_of(settled).method not in ("eagle3", "dflash") or named not in REGISTRY.first or before_its_class(named, version):
        return None
    first = AUX_STATES.get(named)
    if first is not None and in_force(first, "", version):
        return None
    return {"class": named, "when": f"does from {first} on" if first else "does in no release that was read"}


_LACKS = "this release has no such way of drafting"
_NO_STATES, _FIRST_STATES = "the model's class does not hand out the hidden states that such a head drafts from", "{class} {when}"
_NO_HEAD = "the drafter is a whole model: an EAGLE-3 head's first layer reads an embedding and hidden states of the target"
_A_HEAD = (Move("speculative", "eagle3 with a head that was trained for the target, or draft_model with a model of its vocabulary"),)
_NO_MODULES = "the model's class has no draft modules of its own"
_STAGES = "the class of what drafts has no pipeline stages"
_FEWER = (Move("pp", "1, with a larger tp"), Move("speculative", "none"))

#: DeepSeek-V4's DSpark reads its window and the drafted tokens, in steps of so many (v1/attention/backends/mla/compressor_utils.py), by
#: kernels that 0.28's FlashInfer, 0.6.16.post3, has for 128, 512 and 1,024 of them alone (mla/_sparse_mla_sm120.py _DECODE_DSV4_DISPATCH);
#: 0.6.18 of 0.29 has them for 192. 0.27 does not ask. Heads are padded to one of these.
V4, STEP, HEADS, WIDTHS = "DeepseekV4ForCausalLM", 64, (8, 16, 32, 64, 128), (128, 512, 1024)


def dspark_width(settled: Settled) -> Values:
    """On compute capability 12.x (models/deepseek_v4/nvidia/flashinfer_sparse.py _required_sm120_sparse_topk)."""
    d, s = settled.question, settings_of(settled)
    windows = {getattr(mixer, "window", 0) for block in d.model.blocks.values() for mixer in block.mixers} - {0, None}
    if s.method != "dspark" or d.model.architecture != V4 or (on.capability(d) or 0) // 10 != 12 or len(windows) != 1:
        return None
    width, own = round_up(min(windows) + s.draft_tokens, STEP), query_heads(settled.model) // s.tp
    return {"heads": next((n for n in HEADS if own <= n), own), "width": width} if width not in WIDTHS else None


CHECKS = (
    Stop(
        "the drafter's length", "speculative_max_model_len={asked} cannot be larger than {whose:w}_max_model_len={most}",
        "no request is longer than that", (Move("option:draft_max_model_len", "at most {most}"),),
        "config/speculative.py _maybe_override_draft_max_model_len", when=too_long,
    ),
    *words_of(DRAFTING, "a way of drafting", _LACKS, _OTHERS),
    Stop(
        "DSpark's kernels",
        "FLASHINFER_MLA_SPARSE_DSV4 on SM120 requires a FlashInfer DSV4 sparse MLA decode specialization for "
        "(num_q_heads={heads}, top_k={width}).",
        "the FlashInfer of this release has no kernel that reads the window and the drafted tokens on such a GPU",
        (Move("engine_version", "0.29 or later"), Move("speculative", "none or mtp")),
        "models/deepseek_v4/nvidia/flashinfer_sparse.py", since="0.28", before="0.29", when=dspark_width, loading=True,
    ),
    Stop(
        "no modules of its own", "num_speculative_tokens was provided without speculative", _NO_MODULES, _OTHERS,
        "config.py SpeculativeConfig", since="0.7.3", before="0.10.2", when=none_of_its_own,
    ),
    Stop(
        "no modules of its own", "Speculative decoding with draft model is not supported yet", _NO_MODULES, _OTHERS,
        "config/speculative.py __post_init__", since="0.10.2", before="0.15", when=none_of_its_own,
    ),
    Stop(
        "no modules of its own", "Unsupported speculative method: 'mtp'", _NO_MODULES, _OTHERS,
        "config/speculative.py __post_init__", since="0.15", when=none_of_its_own,
    ),
    Stop(
        "modules in stages", "Pipeline parallelism is not supported for this model", _STAGES, _FEWER,
        "config/speculative.py _verify_args", since="0.9", before="0.30", when=stages,
        tail=". Supported models implement the `SupportsPP` interface.",
    ),
    Stop(
        "heads of the draft model", "Total number of attention heads ({heads}) must be divisible by tensor parallel size ({tp}).",
        "the draft model's {heads} heads can not be dealt out evenly to {tp} ranks", (Move("tp", "a size that divides {heads}"), *_OTHERS),
        "config/speculative.py __post_init__, verify_with_parallel_config", since="0.9", when=draft_heads,
    ),
    Stop(
        "a draft model in stages", "AssertionError",
        "the draft model runs on the last stage alone, which has that stage's part of its layers",
        _FEWER, "v1/worker/gpu_model_runner.py _dummy_run; model_executor/models/llama.py LlamaModel.forward", since="0.15",
        when=split_draft, loading=True, near=("drafter.dummy_run",),
        numbers="its first layers are on none of {pp} stages, and what they make is waited for",
    ),
    Stop(
        "a head for other targets", "Eagle3 is only supported for", "EAGLE-3 heads go with some types of models in this release",
        (Move("speculative", "eagle, ngram or none"), Move("engine_version", "0.22 or later")), "config/speculative.py _verify_args",
        since="0.9", before="0.17", when=not_a_target, numbers="{class} is none of them",
    ),
    Stop(
        "a head for other targets", "eagle3 is only supported for", "EAGLE-3 heads go with some types of models in this release",
        (Move("speculative", "eagle, ngram or none"), Move("engine_version", "0.22 or later")), "config/speculative.py _verify_args",
        since="0.17", before="0.22", when=not_a_target, numbers="{class} is none of them",
    ),
    Stop(
        "a head without hidden states", "object has no attribute 'set_aux_hidden_state_layers'", _NO_STATES, _OTHERS,
        "v1/worker/gpu_model_runner.py load_model", since="0.10.1", before="0.11.1", when=no_states, loading=True, numbers=_FIRST_STATES,
    ),
    Stop(
        "a head without hidden states", "Model does not support EAGLE3 interface", _NO_STATES, _OTHERS,
        "v1/worker/gpu_model_runner.py load_model; v1/worker/gpu/spec_decode/eagle/eagle3_utils.py", since="0.11.1", when=no_states,
        loading=True, numbers=_FIRST_STATES,
    ),
    Stop(
        "a whole model as a head", "Model architectures ['{class:w}'] are not supported for now.", _NO_HEAD, _A_HEAD,
        "transformers_utils/configs/eagle.py EAGLEConfig; model_executor/models/registry.py", since="0.8.5",
        when=partial(whole_head, known=False), numbers="the drafter is a whole model of {layers} layers",
    ),
    Stop(
        "a whole model as a head", "assert param_data.shape == loaded_weight.shape", _NO_HEAD, _A_HEAD,
        "model_executor/models/llama_eagle3.py qkv_proj; model_executor/parameter.py load_qkv_weight", since="0.8.5",
        near=("eagle",), when=partial(whole_head, known=True), loading=True,
        numbers="the drafter is a whole model of {layers} layers, and an EAGLE-3 head's first layer reads {width} wide",
    ),
    Stop(
        "a head named as a layer", "Duplicate layer name: model.layers.{layer}.self_attn.attn",
        "the head is numbered as layer {layer}, which its stage has", _FEWER, "models/llama_eagle.py; layers/attention/attention.py",
        since="0.30", when=named_twice, loading=True,
    ),
    Stop(
        "drafts and adapters", "Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens",
        "with adapters a step must hold the drafts of all sequences",
        (Move("max_num_batched_tokens", "more"), Move("max_num_seqs", "fewer"), Move("speculative", "fewer tokens")),
        "engine/arg_utils.py create_engine_config", since="0.11.1", when=adapted,
        numbers="{seqs} sequences need {least} tokens a step, which takes {tokens}",
    ),
    Stop(
        "another vocabulary",
        "Target and draft model should have the same vocabulary size. Target model vocab_size={target}. Draft model vocab_size={draft}.",
        "tokens that the drafter proposes must be the target's, {target} and not {draft}", (Move("speculative", "another drafter"),),
        "config/speculative.py verify_equal_vocab_size_if_draft_model", since="0.15", when=vocabularies,
    ),
)  # fmt: skip
