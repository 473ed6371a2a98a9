"""A question's settings with LMDeploy's defaults filled in, the backend that runs it, and the model as that backend keeps it.

Source: lmdeploy/messages.py (TurbomindEngineConfig, PytorchEngineConfig), lmdeploy/archs.py (autoget_backend), lmdeploy/utils.py
(get_max_batch_size), lmdeploy/pytorch/config.py (DistConfig) and lmdeploy/turbomind/turbomind.py (update_parallel_config).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical
from kvplan.engines.common import lora
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.drafters import both_kept, drafter, unknown, without_weights
from kvplan.engines.common.lines import query_heads
from kvplan.engines.common.measured import uncalibrated
from kvplan.engines.common.options import Options, read_lora, read_speculative
from kvplan.engines.common.protocol import ChosenBy, Settled
from kvplan.engines.common.registries import Registry, listed
from kvplan.engines.common.settling import cache_formats, lowered_or_plain, resolve, served_in, wrong_number
from kvplan.engines.lmdeploy.facts import FACTS
from kvplan.engines.lmdeploy.methods import unread
from kvplan.engines.lmdeploy.rules import RELEASES, LmdeployRules
from kvplan.errors import UnsupportedError
from kvplan.forms import Form
from kvplan.tensors import ALL, Cache, CacheFormats, Lowered, distinct

Backend = Literal["turbomind", "pytorch"]
BY_EITHER, BY_TURBOMIND = (Registry(listed("lmdeploy/classes", column), RELEASES.versions) for column in (1, 2))
BLOCK = 64
#: What quant_policy 4, 8, 16 and 17 store; 4 and 8 with a 16-bit scale and zero point per token and head.
POLICIES = {"int4": "int4_per_token_head", "int8": "int8_per_token_head"}
TURBO = "turbo_quant"
_FP8 = ("fp8_e4m3", "fp8_e5m2")
_NOT_SPARSE = frozenset({*POLICIES.values(), "fp8_e5m2"})
_NO_BUDGET = ("max_num_batched_tokens moves what is left for the cache, and kv_memory is given: it changes nothing here",)
_WIDE = 512  # PyTorch: keys of so many elements go into blocks of 32 tokens, unless flash_mla runs them


class LmdeployLayout(NamedTuple):
    """How the ranks are arranged. attn_tp: ranks that share a sequence's heads; workers: groups of ranks that hold different requests."""

    attn_tp: int
    mlp_tp: int
    ep: int
    workers: int
    n_devices: int


class LmdeploySettings(NamedTuple):
    """A settled question as LMDeploy sees it.

    flash         flash_mla reads the blocks
    asked_blocks  blocks counted by the user
    state_budget  PyTorch: slots of states kept for prefixes
    score_mib     PyTorch: MiB kept for an indexer's scores
    """

    backend: Backend
    rules: LmdeployRules
    layout: LmdeployLayout
    block: int
    flash: bool
    session_len: int
    max_batch: int
    max_prefill: int
    fraction: float
    asked_blocks: int | None
    state_budget: int
    score_mib: int
    prefixes: bool
    refused: str = ""


def settle(d: Deployment) -> Settled:
    """The question with LMDeploy's defaults, read and lowered.

    Raises SpecError for choices that contradict, UnsupportedError for forms that this backend and release were not read for.
    """
    options, dtype = Options(d), compute_type(d)
    version, rules, notes = RELEASES.find(d.engine_version)
    d, about_dtype = served_in(d, dtype, FACTS.title)
    plain, _ = lowered_or_plain(d, cache_formats(replace(d, kv_dtype=None)))
    backend, why = read_backend(d, options, rules, plain)
    layout, misdealt = read_layout(d, backend, rules)
    forms = {cache.form for layer in distinct(plain.layers) for cache in layer.caches}
    check_forms(d, backend, rules, forms, plain)
    block, flash, about_blocks = _block(d, options, backend, plain, forms, rules.block)
    defaults: dict[str, Any] = {
        "engine": (FACTS.name, "kvplan"),
        "n_devices": (layout.n_devices, "kvplan"),
        "max_model_len": (d.context or d.model.max_context, "you" if d.context else "model"),
        "max_num_seqs": (rules.batch or default_batch(d, rules), "engine default"),
        "max_num_batched_tokens": (rules.prefill, "engine default"),
        "memory_fraction": (rules.fraction, "engine default"),
    }
    stored, unstored = formats(d, rules, backend, forms, options)
    auto = d.kv_dtype in (None, "auto")
    asked = replace(d, engine_version=version, kv_dtype=d.kv_dtype if unstored else stored.k, block_size=block)
    notes = (
        *notes,
        *about_dtype,
        *why,
        *_ranks(d, backend, rules),
        *_deaf(d, backend, rules),
        *about_blocks,
        *_windows(plain),
        *_prefixes(options, rules, backend, forms),
        *(_NO_BUDGET if d.kv_memory is not None and d.max_num_batched_tokens else ()),
        *uncalibrated(d, FACTS.name),
    )
    question, found, notes = resolve(asked, defaults, notes)
    chosen: dict[str, ChosenBy] = dict(found)
    chosen |= {"engine_version": "engine default"} if d.engine_version != version else {}
    chosen |= {"block_size": "engine default"} if d.block_size != block else {}
    chosen |= {"kv_dtype": "model"} if auto else {}
    settings = LmdeploySettings(
        backend=backend,
        rules=rules,
        layout=layout,
        block=block,
        flash=flash,
        session_len=question.max_model_len or question.context or 1,
        max_batch=question.max_num_seqs or 1,
        max_prefill=question.max_num_batched_tokens or rules.prefill,
        fraction=question.memory_fraction or rules.fraction,
        asked_blocks=options.count("num_gpu_blocks"),
        state_budget=options.count("prefix_cache_state_budget", 0) or 0,
        score_mib=_score_mib(options, backend, rules, forms),
        prefixes=options.flag("enable_prefix_caching"),
        refused=_dtype(dtype)
        or unstored
        or misdealt
        or _refused_blocks(backend, rules, block, options.count("num_gpu_blocks"))
        or _sparse(d, forms)
        or _unflashed(d, options, forms),
    )
    model, misfit = lowered_or_plain(question, stored, cast=True)
    drafted = drafter(question, model, stored) if backend == "pytorch" else None
    model, found_drafter = both_kept(model, drafted, lambda _, cache: as_kept(cache, stored.state))
    drafts = without_weights(found_drafter.layers) if found_drafter else ()
    lora.asked_modules(question)
    notes = (*notes, *lora.note(question, model.layers))
    if backend == "turbomind" and read_lora(question.lora):
        notes = (*notes, "lora: TurboMind loads no adapters; --backend pytorch does, and its slots are counted")
    if backend == "turbomind" and read_speculative(question.speculative):  # serve/core/async_engine.py: a warning, and it goes on
        notes = (*notes, "speculative: TurboMind does not draft and goes on without; --backend pytorch does, and its drafter is counted")
    missing = unknown(question, found_drafter) if backend == "pytorch" else ""
    made = Settled(question, chosen, notes, settings, model, drafts, misfit, found_drafter, missing)
    return made._replace(undecided=(*undecided(d), *unread(question, backend)))


def undecided(d: Deployment) -> tuple[str, ...]:
    """Cards before Ampere: weights are converted there while they are loaded (lmdeploy issues 4558, 1298, 2127 ran out of memory in it).

    A size without a name may be such a card, as two of those were.
    """
    has = d.device.capability if d.device else None
    named = d.device is None or (d.device.size_bytes is None and d.device.vendor != "other")
    if (has is None or has >= 80) and named:
        return ()
    which = "cards before Ampere" if named else "cards before Ampere, of which this may be one,"
    return (f"what LMDeploy takes to convert weights on {which} while it loads them is not modelled",)


def compute_type(d: Deployment) -> str:
    """--dtype: bf16 for bf16 models, else f16, unless another is asked for."""
    return canonical(d.dtype, "dtype") if d.dtype else "bf16" if d.model.dtype == "bf16" else "f16"


def _dtype(asked: str) -> str:
    """What the command line says to another compute type (cli/utils.py, ArgumentHelper.dtype)."""
    return "" if asked in ("f16", "bf16") else f"argument --dtype: invalid choice: {asked!r} (choose from 'auto', 'float16', 'bfloat16')"


def read_backend(d: Deployment, options: Options, rules: LmdeployRules, model: Lowered) -> tuple[Backend, tuple[str, ...]]:
    """PyTorch where it is asked for, else TurboMind for the architectures that it supports (autoget_backend), and what is said of it."""
    asked = options.text("backend", ("turbomind", "pytorch"))
    if asked == "pytorch":
        return "pytorch", ()
    if supported(d, rules, model) or (asked and d.model.architecture is None):
        return "turbomind", ()
    if d.model.architecture is None:
        return "pytorch", ("the model's architecture is not known: the PyTorch engine is taken (engine_option backend)",)
    return "pytorch", (f"Fallback to pytorch engine because '{d.model.architecture}' not supported by turbomind engine.",)


def _widths(model: Lowered, name: str) -> set[int]:
    """How wide the tensors of that name in its caches are."""
    return {t.elems_per_state for x in distinct(model.layers) for c in x.caches for t in c.tensors if t.name == name}


def supported(d: Deployment, rules: LmdeployRules, model: Lowered) -> bool:
    """Whether TurboMind of that release has the model's class, and of some classes heads of that width (is_supported)."""
    named = d.model.architecture
    if named not in rules.turbomind or BY_TURBOMIND.later(named, d.engine_version):
        return False
    widths = _widths(model, "k")
    return not rules.widths or named not in rules.wide or widths <= set(rules.widths)


def read_layout(d: Deployment, backend: Backend, rules: LmdeployRules) -> tuple[LmdeployLayout, str]:
    """Parallel sizes as that backend defines them, and its words where they do not divide; those are then left at what one rank each has.

    Source: pytorch/config.py, DistConfig; pytorch/engine/config_builder.py; turbomind/parallel_config.py, _try_layout.
    """
    tp, dp, ep = (n or 1 for n in (d.tp, d.dp, d.ep))
    for name, size in (("pp", d.pp), ("dcp", d.dcp)):
        if (size or 1) > 1:
            raise UnsupportedError(f"{name}: LMDeploy is planned over tp, dp and ep")
    refused = ""
    if backend == "turbomind":
        if tp % ep and rules.deals_experts:
            refused = f"no valid parallel config: dp={dp}, tp={tp}, ep={ep}, cp=1"
        layout = LmdeployLayout(tp, tp, 1 if refused or not rules.deals_experts else ep, dp, tp * dp)
    else:
        world = max(tp, ep) if rules.dp_whole else ep if ep > 1 else tp
        dp = dp if world > 1 else 1
        if rules.dp_whole and (dp not in (1, world) or tp not in (1, world) or ep not in (1, world)):
            raise UnsupportedError(f"dp: data parallelism of this release is modelled with one rank to each share, dp {world}, not {dp}")
        if world % dp:
            refused = f"world_size {world}, dp {dp}"
        elif world % tp:
            refused = f"world_size {world}, mlp_tp {tp}"
        elif tp > 1 and tp % (world // dp):
            refused = f"mlp_tp {tp}, attn_tp {world // dp}"
        layout = LmdeployLayout(world, world, 1, 1, world) if refused else LmdeployLayout(world // dp, tp, ep, dp, world)
    if d.n_devices not in (None, layout.n_devices):
        raise wrong_number("these parallel sizes need", layout.n_devices, d.n_devices)
    return layout, refused


def _ranks(d: Deployment, backend: Backend, rules: LmdeployRules) -> tuple[str, ...]:
    """Parallel sizes that this backend passes over."""
    if backend == "turbomind":
        deaf = (d.ep or 1) > 1 and not rules.deals_experts
        return ("ep: TurboMind of this release takes none; experts are split like the rest",) if deaf else ()
    if (d.dp or 1) == 1 or (d.tp or 1) > 1 or (d.ep or 1) > 1:
        return ()
    return ("Data parallelism is enabled but tensor parallelism and expert parallelism are not enabled. Setting dp=1.",)


def _deaf(d: Deployment, backend: Backend, rules: LmdeployRules) -> tuple[str, ...]:
    """What the server of this release does not hand to the PyTorch engine."""
    given = d.kv_dtype not in (None, "auto") and backend == "pytorch" and not rules.policies
    return ("kv_dtype: the PyTorch engine of this release is given no quant_policy and keeps the model's type",) if given else ()


def default_batch(d: Deployment, rules: LmdeployRules) -> int:
    """max_batch_size by the device's name."""
    name = d.device.name.lower() if d.device else ""
    return next((size for word, size in rules.batches if word in name), 128)


def check_forms(d: Deployment, backend: Backend, rules: LmdeployRules, forms: set[Form], model: Lowered) -> None:
    """Raises UnsupportedError for forms that the backend's sources, in that release, were not read for, or do not have."""
    where = f"lmdeploy ({backend})"
    if backend == "pytorch" and not rules.pytorch:
        raise UnsupportedError(f"{where}: releases before 0.3 are not modelled")
    if d.model.architecture == "MiniCPM3ForCausalLM":
        raise UnsupportedError(f"{where}: MiniCPM3's keys and values are kept per head, which is not modelled")
    if "latent+index" in forms and (backend == "turbomind" or not rules.indexers):
        raise UnsupportedError(f"{where}: indexers are not supported in this release")
    if "gated-delta-net" in forms and not (rules.states if backend == "turbomind" else rules.spare_states is not None):
        raise UnsupportedError(f"{where}: gated delta nets are not supported in this release")
    if backend == "pytorch" and not rules.repeats and _misread(d, model):
        raise UnsupportedError(f"{where}: this release sizes the cache of {d.model.architecture} by other heads than it has")
    widths = _widths(model, "latent")
    if backend == "turbomind" and widths - {576}:
        raise UnsupportedError(f"{where}: latents of {max(widths)} elements are not modelled; it shares K and V for 576 only")


def _misread(d: Deployment, model: Lowered) -> bool:
    """Whether releases to 0.6.4 take a head's width of other fields (configurations/default.py: hidden_size / heads), or Falcon's heads."""
    keys = _widths(model, "k")
    named, heads = d.model.architecture or "", query_heads(model)
    if BY_EITHER.later(named, d.engine_version):  # refused for its class
        return False
    return named == "FalconForCausalLM" or (not named.startswith("Gemma") and any(n * heads != d.model.hidden_size for n in keys))


def formats(d: Deployment, rules: LmdeployRules, backend: Backend, forms: set[Form], options: Options) -> tuple[CacheFormats, str]:
    """The cache formats that quant_policy (kv_dtype) makes, and LMDeploy's words to what no policy of this backend and release stores."""
    asked = d.kv_dtype.strip().lower() if d.kv_dtype else "auto"
    found = cache_formats(replace(d, kv_dtype=None))
    found = found._replace(k=found.compute, v=found.compute, state="f32" if options.flag("fp32_mamba_ssm_dtype") else found.compute)
    if asked == TURBO:
        if not rules.turbo:
            return found, f"invalid quant_policy ({TURBO!r})"
        raise UnsupportedError(f"lmdeploy ({backend}): quant_policy 42, TurboQuant, is not modelled (int4 takes no less than it)")
    if backend == "pytorch" and not rules.policies:  # cli/serve.py hands it to TurboMind alone
        asked = "auto"
    policy = POLICIES.get(asked, asked)
    policy = policy if policy == "auto" else canonical(policy, "KV cache format")
    takes = (*POLICIES, *(_FP8 if backend == "pytorch" and rules.fp8 else ()))
    if policy not in ("auto", found.compute, *POLICIES.values(), *(_FP8 if "fp8_e4m3" in takes else ())):
        by_turbomind = policy in _FP8 and rules.fp8 and backend == "turbomind"
        words = "invalid quant_policy for TurboMind, FP8 quantization is not supported" if by_turbomind else "invalid quant_policy"
        return found, f"{words} ({asked[:40]!r}; this backend and release store {', '.join(takes)})"
    if "latent+index" in forms:
        policy = "auto" if policy in _NOT_SPARSE else policy  # which _sparse refuses
        packed = policy == "fp8_e4m3" or rules.index_fp8 in ("*", d.model.architecture)
        policy = "fp8_ds_mla" if packed else found.compute
    elif "latent" in forms and backend == "pytorch" and policy not in ("auto", found.compute):
        raise UnsupportedError("lmdeploy (pytorch): a quantised cache of latents is not modelled")
    return (found if policy == "auto" else found._replace(k=policy, v=policy)), ""


def _sparse(d: Deployment, forms: set[Form]) -> str:
    """LMDeploy's words to a quantised cache that its sparse attention does not read; empty: it reads it."""
    asked = d.kv_dtype.strip().lower() if d.kv_dtype else "auto"
    refused = "latent+index" in forms and POLICIES.get(asked, asked) in _NOT_SPARSE
    return f"Sparse MLA does not support quant_policy={asked}. Use none/0 for BF16 or fp8/16 for FP8." if refused else ""


def as_kept(cache: Cache, state: str) -> Cache:
    """The cache as LMDeploy holds it: all tokens of windows and chunks, the kernel's whole width of a convolution, states in `state`."""
    tensors = []
    for t in cache.tensors:
        if t.columns:
            elems, columns = t.elems_per_state // t.columns * (t.columns + 1), t.columns + 1
            tensors.append(replace(t, elems_per_state=elems, columns=columns))
        elif t.name == "state":
            tensors.append(replace(t, dtype=state))
        else:
            tensors.append(replace(t, keep=ALL))
    return replace(cache, tensors=tuple(tensors))


def _flash_mla(d: Deployment, options: Options) -> bool:
    """Whether flash_mla is there (configurations/utils.py, flash_mla_available): taken to be from Hopper on, and where no card is named."""
    unsaid = d.device is None or not d.device.compute_capability
    return options.flag("flash_mla", unsaid or (capability(d) or 0) >= 90)


def _unflashed(d: Deployment, options: Options, forms: set[Form]) -> str:
    """LMDeploy's words where an indexer's attention has no kernel (configurations/deepseek_v32.py); empty: it has one."""
    missing = "latent+index" in forms and not _flash_mla(d, options)
    return "DeepSeek-V3.2 requires flash_mla to be available." if missing else ""


def _block(
    d: Deployment, options: Options, backend: Backend, model: Lowered, forms: set[Form], default: int
) -> tuple[int, bool, tuple[str, ...]]:
    """Tokens of a block, whether flash_mla reads them, and a note where that depends on what is installed.

    Source: executor/base.py, _adjust_block_size.
    """
    block = d.block_size or (default if backend == "turbomind" else BLOCK)
    wide = any(t.elems_per_state >= _WIDE for x in distinct(model.layers) for c in x.caches for t in c.tensors if t.name in ("k", "latent"))
    installed = _flash_mla(d, options)
    if backend == "turbomind" or not wide:
        return block, False, ()
    latent = bool(forms & {"latent", "latent+index"})
    flash = latent and ("latent+index" in forms or installed)
    if flash:
        said = options.text("flash_mla") is not None or "latent+index" in forms
        return block, True, () if said else ("flash_mla is taken to be installed (engine_option flash_mla)",)
    return min(block, 32), False, () if block <= 32 else ("Update `block_size=32` for large `head_dim`.",)


def _refused_blocks(backend: Backend, rules: LmdeployRules, block: int, asked: int | None) -> str:
    """What PytorchEngineConfig asserts of a block, and TurboMind's words to a count of blocks where it takes a ratio; empty: neither."""
    if backend == "pytorch" and rules.powers and (block < 16 or block & (block - 1)):
        return f"kernel_block_size must be >= 16 and a power of 2, but got {block}"
    if asked is not None and backend == "turbomind" and rules.pool == "objects":
        return "object-cache path no longer accepts cache_max_block_count as a block count"
    return ""


def _score_mib(options: Options, backend: Backend, rules: LmdeployRules, forms: set[Form]) -> int:
    """What PyTorch keeps for the scores of a prompt's tokens (executor/base.py, _get_dsa_score_workspace_size)."""
    asked = options.count("dsa_indexer_max_logits_mb")
    keeps = rules.score_mib and backend == "pytorch" and "latent+index" in forms
    return (rules.score_mib if asked is None else asked) if keeps else 0


def _prefixes(options: Options, rules: LmdeployRules, backend: Backend, forms: set[Form]) -> tuple[str, ...]:
    if not options.flag("enable_prefix_caching"):
        return ()
    if backend == "pytorch" and "gated-delta-net" in forms and rules.spare_states == 1:
        return ("Prefix caching has not been support for state space model.",)
    return ("prefix caching takes no memory of its own: cached blocks give way to sequences",)


def _windows(model: Lowered) -> tuple[str, ...]:
    windows = any(t.keep.kind in ("window", "chunk") for x in distinct(model.layers) for c in x.caches for t in c.tensors)
    return ("blocks for all tokens of window layers are counted, as a prompt takes them",) if windows else ()
