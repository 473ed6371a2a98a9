"""When SGLang stops over an attention backend, as the numbers of its texts (refusals.py)."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.engines.common import conditions as on
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import in_force, release
from kvplan.engines.common.stops import Values
from kvplan.engines.sglang.backends import (
    FA4,
    TRTLLM_MHA,
    TRTLLM_MLA,
    is_blackwell,
    is_sparse,
    named_backends,
    paged,
    picked,
    usual,
)
from kvplan.engines.sglang.classes import NO_TRITON, STATES_OF_ALL, UNPAGED_STATES
from kvplan.engines.sglang.drafts import is_tree
from kvplan.engines.sglang.fraction import on_amd
from kvplan.engines.sglang.pages import DSA_PAGE, page_size
from kvplan.engines.sglang.settle import settings_of
from kvplan.engines.sglang.traits import keeps_prefixes, read_traits, with_buffers

#: Backends that an fp4 cache may be given (arg_groups/kv_cache_hook.py KV4_ATTENTION_*_BACKEND_CHOICES); prompts may be fa4's.
_FP4_LATENT = frozenset({"cutlass_mla", "flashinfer", "trtllm_mla"})
_FP4_HEADS = frozenset({"triton", "torch_native", "flex_attention", "trtllm_mha"})
_CUTEDSL, _TOKENSPEED = "cutedsl_mla", "tokenspeed_mla"
#: Backends that no latent attention runs on up to 0.5.3 (model_runner.py MLA_ATTENTION_BACKENDS).
_HEADS_ALONE = frozenset({"torch_native", "flex_attention", "trtllm_mha", "dual_chunk_flash_attn", "wave", "intel_amx", "intel_xpu"})
#: Backends that verify a tree of drafts in pages, and the release that has them first (server_args.py; arg_groups/speculative_hook.py).
_TREES = {"flashinfer": (0, 5, 2), "fa3": (0, 5, 6), "triton": (0, 5, 13)}


def _asked(settled: Settled) -> str | None:
    return named_backends(settled.question).both


def _known(settled: Settled) -> str | None:
    """The backend that is asked for, or that Blackwell's default is known to be."""
    return _asked(settled) or picked(settled.question, settings_of(settled).rules, read_traits(settled.model))


def _elsewhere(settled: Settled, names: bool, generations: tuple[int, ...]) -> Values:
    """A backend that is named on a GPU of another generation than these, or on an AMD GPU."""
    has = on.capability(settled.question)
    if names and on_amd(settled.question):
        return {"has": "no compute capability"}
    return {"has": on.version_of(has)} if names and has and has // 10 not in generations else None


def ascend_alone(settled: Settled) -> Values:
    """Ascend's backend on a GPU, whose images have no torch_npu, which it imports."""
    d = settled.question
    return {"device": d.device.id} if d.device and d.device.vendor in ("nvidia", "amd") and "ascend" in named_backends(d).phases else None


def ascend_pools(settled: Settled) -> Values:
    """Pools of Ascend's own, of models without states from 0.5.10 on (model_runner_kv_cache_mixin.py init_memory_pool)."""
    plain = release(settings_of(settled).release) < (0, 5, 10) or not read_traits(settled.model).states
    return ascend_alone(settled) if _asked(settled) == "ascend" and plain else None


def mha_blackwell(settled: Settled) -> Values:
    """trtllm_mha of any phase before 0.5.10: on compute capability 10.x alone."""
    return _elsewhere(settled, TRTLLM_MHA in named_backends(settled.question), (10,))


def mha_prefill(settled: Settled) -> Values:
    """... of prompts before 0.5.19."""
    return _elsewhere(settled, named_backends(settled.question).phases[0] == TRTLLM_MHA, (10,))


def mha_shared_prompts(settled: Settled) -> Values:
    """TensorRT-LLM's kernels for prompts whose tokens ranks share, which are for 10.x alone."""
    shared = settings_of(settled).layout.attn_cp > 1
    return _elsewhere(settled, shared and named_backends(settled.question).phases[0] == TRTLLM_MHA, (10,))


def mha_gpus(settled: Settled) -> Values:
    return _elsewhere(settled, TRTLLM_MHA in named_backends(settled.question).phases, (9, 10, 12))


def mla_blackwell(settled: Settled) -> Values:
    said = named_backends(settled.question)
    both = None if read_traits(settled.model).compressed else said.both  # DeepSeek-V4's is set before
    return _elsewhere(settled, bool({TRTLLM_MLA, _TOKENSPEED} & {both, said.decode}), (10, 11, 12))


def xpu_prompts(settled: Settled) -> Values:
    """Intel's backend for prompts of latent attention."""
    return {} if read_traits(settled.model).latent and named_backends(settled.question).phases[0] == "intel_xpu" else None


def cutedsl_blackwell(settled: Settled) -> Values:
    return _elsewhere(settled, _cutedsl(settled), (10,))


def cutedsl_format(settled: Settled) -> Values:
    return {} if _cutedsl(settled) and settings_of(settled).formats.k not in ("fp8_e4m3", "bf16", "f16", "f32") else None


def cutedsl_prompts(settled: Settled) -> Values:
    return {} if named_backends(settled.question).prefill == _CUTEDSL else None


def tokenspeed_format(settled: Settled) -> Values:
    said = named_backends(settled.question)
    return {} if _TOKENSPEED in (said.both, said.decode) and settled.question.kv_dtype != "fp8_e4m3" else None


def not_latent(settled: Settled) -> Values:
    """A backend without latent attention, named for a model that has it."""
    asked, early = _asked(settled), release(settings_of(settled).release) < (0, 4, 7)
    return {"backend": asked} if (asked in _HEADS_ALONE or (early and asked == "aiter")) and read_traits(settled.model).latent else None


def _cutedsl(settled: Settled) -> bool:
    """CuteDSL's kernels, by the name of TokenSpeed's from 0.5.23 on, too (arg_groups/serving_hook.py)."""
    said = named_backends(settled.question)
    alias = release(settings_of(settled).release) >= (0, 5, 23) and _TOKENSPEED in (said.both, said.decode)
    return alias or _CUTEDSL in said


def mla_format(settled: Settled) -> Values:
    named = TRTLLM_MLA in (_known(settled), named_backends(settled.question).decode)
    return {} if named and settled.question.kv_dtype in ("fp8_e5m2", "mxfp8") else None


def _fp4_backend(settled: Settled, latent: bool, takes: frozenset[str]) -> Values:
    said = named_backends(settled.question)
    asked = said.both
    if asked is None and "engine_version" not in settled.chosen_by:  # forks have kernels of their own: no refusal by a default of theirs
        asked = usual(settled.question, settings_of(settled).rules, read_traits(settled.model))
    options = Options(settled.question)
    kernels = options.flag("enable_hierarchical_cache") and options.text("hicache_io_backend") != "direct"
    tier = kernels and release(settings_of(settled).release) < (0, 5, 10)  # decodes with another then (server_args.py _handle_hicache)
    other = ("flashinfer" if not latent or is_blackwell(settled.question) else "triton") if tier else asked
    prefill, decode = said.prefill or asked, said.decode or other
    if asked is None or settings_of(settled).formats.k != "nvfp4" or read_traits(settled.model).latent is not latent:
        return None
    if prefill == FA4:
        return {"backend": decode} if decode not in takes - {TRTLLM_MHA} else None
    return {"backend": asked} if prefill == decode and asked not in takes else None


def fp4_latent(settled: Settled) -> Values:
    return _fp4_backend(settled, True, _FP4_LATENT)


def fp4_heads(settled: Settled) -> Values:
    return _fp4_backend(settled, False, _FP4_HEADS)


def native_fp4(settled: Settled) -> Values:
    """NVFP4 by that name under trtllm_mha on 10.x, beside what does not know its rows."""
    d, spec = settled.question, read_speculative(settled.question.speculative)
    traits = read_traits(settled.model)
    phases = (one or usual(d, settings_of(settled).rules, traits) for one in named_backends(d).phases)
    if (d.kv_dtype or "").lower() != "nvfp4" or not is_blackwell(d) or traits.latent or TRTLLM_MHA not in phases:
        return None
    options = Options(d)
    beside = {
        "a server of one role": options.text("disaggregation_mode") in ("prefill", "decode"),
        "a host tier": options.flag("enable_hierarchical_cache"),
        "n-grams in a tree, or this drafter": spec is not None and spec.method not in ("eagle", "eagle3", "nextn", "mtp"),
    }
    return next(({"beside": name} for name, there in beside.items() if there), None)


def nvfp4_gpu(settled: Settled) -> Values:
    """NVFP4 by that name, whose kernels are for compute capability 10 and 12."""
    return _elsewhere(settled, (settled.question.kv_dtype or "").lower() == "nvfp4", (10, 12))


def nvfp4_backends(settled: Settled) -> Values:
    """... with a backend, named or set for the model's class, that neither reads it nor unpacks it, or decodes with another."""
    d, rules, traits = settled.question, settings_of(settled).rules, read_traits(settled.model)
    said, set_before = named_backends(d), picked(d, rules, traits)
    if traits.pooled_index is not None or traits.compressed:
        set_before = "dsa"
    elif d.model.architecture in UNPAGED_STATES and set_before is None:
        set_before = "triton"
    elif set_before == FA4 and d.model.architecture not in rules.blackwell:
        set_before = None  # of any model that none is set for, and only later
    reads = said.prefill or said.both or set_before
    odd = reads not in (None, "flashinfer", *((TRTLLM_MHA,) if is_blackwell(d) else ())) or said.decode not in (None, TRTLLM_MHA)
    return {"backend": reads, "decode": said.decode or TRTLLM_MHA} if (d.kv_dtype or "").lower() == "nvfp4" and odd else None


def unified_fp4(settled: Settled) -> Values:
    return {} if settings_of(settled).formats.k == "nvfp4" and Options(settled.question).flag("enable_unified_memory") else None


def unified_graphs(settled: Settled) -> Values:
    """One pool whose page tables trtllm_mha's decode graphs read before they are written."""
    s, d = settings_of(settled), settled.question
    options = Options(d)
    decodes = named_backends(d).phases[1] or usual(d, s.rules, read_traits(settled.model))
    eager = d.enforce_eager or options.flag("disable_decode_cuda_graph") or options.text("disaggregation_mode") == "prefill"
    return {} if options.flag("enable_unified_memory") and decodes == TRTLLM_MHA and not eager else None


def paged_ngram(settled: Settled) -> Values:
    """N-grams are a tree of ten branches, which FlashInfer alone verifies in pages."""
    d, s, spec = settled.question, settings_of(settled), read_speculative(settled.question.speculative)
    if spec is None or spec.method != "ngram" or s.pools.page <= 1:
        return None
    early = "none" if release(s.release) < (0, 5, 5) else None
    traits = read_traits(settled.model)
    known = _asked(settled) or early or ("dsa" if is_sparse(d, traits) else _known(settled) or usual(d, s.rules, traits))
    return {"topk": 10, "page": s.pools.page, "backend": known} if known and known != "flashinfer" else None


def mha_tree(settled: Settled) -> Values:
    return {} if is_tree(settled.question) and TRTLLM_MHA in (_known(settled), *named_backends(settled.question)) else None


def paged_tree(settled: Settled) -> Values:
    traits, s = read_traits(settled.model), settings_of(settled)
    own = usual(settled.question, s.rules, traits)
    early = "none" if release(s.release) < (0, 5, 5) else None  # a default is picked after this is looked at
    plain = "triton" if s.rules.unpaged_states and settled.question.model.architecture in UNPAGED_STATES else None
    plain = plain if traits.states and is_blackwell(settled.question) else None  # the default of these where no page is let
    known = _asked(settled) or early or ("dsa" if is_sparse(settled.question, traits) else _known(settled) or own or plain)
    paged = is_tree(settled.question) and settings_of(settled).pools.page > 1
    return (
        {"backend": known}
        if paged and known and known != TRTLLM_MHA and release(settings_of(settled).release) < _TREES.get(known, (9,))
        else None
    )


def not_triton(settled: Settled) -> Values:
    named, now = settled.question.model.architecture or "", release(settings_of(settled).release)
    since, before = NO_TRITON.get(named, ("", ""))
    says = bool(since) and release(since) <= now and not (before and now >= release(before))
    return {"architecture": named} if says and _asked(settled) == "triton" else None


def unbuffered_mha(settled: Settled) -> Values:
    """States that a prefix cache keeps without extra buffers want pages of one token, which this backend does not have."""
    d, rules, traits = settled.question, settings_of(settled).rules, read_traits(settled.model)
    strategy = with_buffers(d, rules, traits, settings_of(settled).states_page)
    seen = traits.states and d.model.architecture not in STATES_OF_ALL
    return {} if seen and keeps_prefixes(d, rules, traits) and strategy == "no_buffer" and _known(settled) == TRTLLM_MHA else None


def scored(settled: Settled) -> Values:
    """Several items of a prompt scored by another backend, named or picked."""
    d, s = settled.question, settings_of(settled)
    traits = read_traits(settled.model)
    both = _asked(settled) or ("dsa" if traits.pooled_index is not None else usual(d, s.rules, traits))
    named = {phase or both for phase in (named_backends(d).prefill, named_backends(d).decode)}
    return {} if Options(d).flag("enable_mis") and named - {"flashinfer", None} else None


def sparse_pages(settled: Settled) -> Values:
    """Sparse attention's index keys lie in pages of 64 tokens, and the backends that are named leave them at 128."""
    rules, traits = settings_of(settled).rules, read_traits(settled.model)
    if traits.pooled_index is None:
        return None
    left = page_size(DSA_PAGE, paged(settled.question, rules, traits), latent=True, pooled_index=None, compressed=False)
    return {} if left != DSA_PAGE else None


def unverified(settled: Settled) -> Values:
    """TensorRT-LLM's kernels beside a draft, before they verify any: trtllm_mla of both phases; in 0.5.0 of decoding, trtllm_mha of any."""
    said, early = named_backends(settled.question), release(settings_of(settled).release) < (0, 5)
    mla = TRTLLM_MLA in ((said.both,) if early else (said.both, said.decode))
    found = TRTLLM_MLA if mla else TRTLLM_MHA if not early and TRTLLM_MHA in (_known(settled), *said) else None
    return {"backend": found} if found and settings_of(settled).speculation else None


#: Backends that gpt-oss, Llama 4 and Gemma 4 may be given -> the release that takes them (server_args.py, later arg_groups/model_hook.py).
_WITH_SINKS = {
    "triton": "", "trtllm_mha": "", "fa3": "", "fa4": "0.5.4", "ascend": "0.5.8", "aiter": "0.5.10", "intel_xpu": "0.5.11",
    "intel_amx": "0.5.13",
}  # fmt: skip
_CHUNKED = {"fa3": "", "aiter": "", "triton": "0.5.2", "trtllm_mha": "0.5.5", "intel_xpu": "0.5.6", "ascend": "0.5.10"}
_GEMMA4 = dict.fromkeys(("trtllm_mha", "triton", "fa4", "ascend", "intel_xpu", "intel_amx", "aiter"), "")


def _backend_of(settled: Settled, begins: str, since: Mapping[str, str]) -> Values:
    said, named = named_backends(settled.question), settled.question.model.architecture or ""
    takes = {name for name, first in since.items() if in_force(first, "", settings_of(settled).release)}
    by_phase = begins == "Gemma4" or (begins == "GptOss" and release(settings_of(settled).release) >= (0, 5, 4))
    asked = said.phases if by_phase else (said.both,)
    odd = next((one for one in asked if one and one not in takes), None)
    return {"backend": odd} if odd and named.startswith(begins) else None


def sink_backend(settled: Settled) -> Values:
    """A backend of one phase alone leaves the other without one: none is picked where one is named."""
    said, named = named_backends(settled.question), settled.question.model.architecture or ""
    alone = (said.prefill is None) != (said.decode is None) and release(settings_of(settled).release) >= (0, 5, 4)
    if named.startswith("GptOss") and not said.both and alone:
        return {"backend": "none of the other phase"}
    return _backend_of(settled, "GptOss", _WITH_SINKS)


def not_fa3(settled: Settled) -> Values:
    return _backend_of(settled, "Llama4", {"fa3": ""})


def chunked_unnamed(settled: Settled) -> Values:
    """Llama 4 where no backend is named, which 0.4.10 to 0.5.5 compare with their list all the same."""
    named = settled.question.model.architecture or ""
    return {} if named.startswith("Llama4") and not named_backends(settled.question).both else None


def chunked_backend(settled: Settled) -> Values:
    return _backend_of(settled, "Llama4", _CHUNKED)


def gemma4_backend(settled: Settled) -> Values:
    return _backend_of(settled, "Gemma4", _GEMMA4)
