"""When SGLang stops over an attention backend, as the numbers of its texts (refusals.py)."""

from __future__ import annotations

from kvplan.engines.common import conditions as on
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import release
from kvplan.engines.common.stops import Values
from kvplan.engines.sglang.backends import TRTLLM_MHA, TRTLLM_MLA, picked, usual
from kvplan.engines.sglang.classes import NO_TRITON
from kvplan.engines.sglang.drafts import is_tree
from kvplan.engines.sglang.fraction import on_amd
from kvplan.engines.sglang.settle import settings_of
from kvplan.engines.sglang.traits import keeps_prefixes, read_traits, with_buffers

#: Backends that an fp4 cache may be given (arg_groups/kv_cache_hook.py KV4_ATTENTION_*_BACKEND_CHOICES); fa4 has rules of its own.
_FP4_LATENT = frozenset({"cutlass_mla", "flashinfer", "trtllm_mla", "fa4"})
_FP4_HEADS = frozenset({"triton", "torch_native", "flex_attention", "trtllm_mha", "fa4"})
#: Backends that verify a tree of drafts in pages (arg_groups/speculative_hook.py): to 0.5.12, without Triton's.
_TREES = frozenset({"flashinfer", "fa3", "triton"})


def _asked(settled: Settled) -> str | None:
    return Options(settled.question).text("attention_backend")


def _known(settled: Settled) -> str | None:
    """The backend that is asked for, or that Blackwell's default is known to be."""
    return _asked(settled) or picked(settled.question, settings_of(settled).rules, read_traits(settled.model))


def mha_blackwell(settled: Settled) -> Values:
    """trtllm_mha before 0.5.19: on compute capability 10.x alone."""
    has = on.capability(settled.question)
    return {"has": on.version_of(has)} if _asked(settled) == TRTLLM_MHA and has and not 100 <= has < 110 else None


def mha_gpus(settled: Settled) -> Values:
    has = on.capability(settled.question)
    return {"has": on.version_of(has)} if _asked(settled) == TRTLLM_MHA and has and has // 10 not in (9, 10, 12) else None


def mla_blackwell(settled: Settled) -> Values:
    has = on.capability(settled.question)
    return {"has": on.version_of(has)} if _asked(settled) == TRTLLM_MLA and has and has < 100 else None


def mla_format(settled: Settled) -> Values:
    return {} if _known(settled) == TRTLLM_MLA and settled.question.kv_dtype == "fp8_e5m2" else None


def _fp4_backend(settled: Settled, latent: bool, takes: frozenset[str]) -> Values:
    asked = _asked(settled)
    if asked is None and "engine_version" not in settled.chosen_by:  # forks have kernels of their own: no refusal by a default of theirs
        asked = usual(settled.question, settings_of(settled).rules, read_traits(settled.model))
    fp4 = settings_of(settled).formats.k == "nvfp4" and read_traits(settled.model).latent is latent
    return {"backend": asked} if asked and fp4 and asked not in takes else None


def fp4_latent(settled: Settled) -> Values:
    return _fp4_backend(settled, True, _FP4_LATENT)


def fp4_heads(settled: Settled) -> Values:
    return _fp4_backend(settled, False, _FP4_HEADS)


def paged_ngram(settled: Settled) -> Values:
    """N-grams are a tree of ten branches, which FlashInfer alone verifies in pages; Hopper's default is FlashAttention 3."""
    d, s, spec = settled.question, settings_of(settled), read_speculative(settled.question.speculative)
    if spec is None or spec.method != "ngram" or s.pools.page <= 1:
        return None
    known = "dsa" if read_traits(settled.model).pooled_index is not None else _known(settled)
    hopper = (on.capability(d) or 0) // 10 == 9 and (
        release(s.release) >= (0, 5, 7) or read_traits(settled.model).latent or d.model.architecture == "GptOssForCausalLM"
    )
    if known is None and (on_amd(d) or hopper):
        known = "aiter" if on_amd(d) else "fa3"
    return {"topk": 10, "page": s.pools.page, "backend": known} if known and known != "flashinfer" else None


def mha_tree(settled: Settled) -> Values:
    return {} if is_tree(settled.question) and _known(settled) == TRTLLM_MHA else None


def paged_tree(settled: Settled) -> Values:
    sparse = read_traits(settled.model).pooled_index is not None
    known = _asked(settled) or ("dsa" if sparse else _known(settled))
    paged = is_tree(settled.question) and settings_of(settled).pools.page > 1
    return {"backend": known} if paged and known and known not in (*_TREES, TRTLLM_MHA) else None


def not_triton(settled: Settled) -> Values:
    named, now = settled.question.model.architecture or "", release(settings_of(settled).release)
    since, before = NO_TRITON.get(named, ("", ""))
    says = bool(since) and release(since) <= now and not (before and now >= release(before))
    return {"architecture": named} if says and _asked(settled) == "triton" else None


def unbuffered_mha(settled: Settled) -> Values:
    """States that a prefix cache keeps without extra buffers want pages of one token, which this backend does not have."""
    d, rules, traits = settled.question, settings_of(settled).rules, read_traits(settled.model)
    unbuffered = traits.states and keeps_prefixes(d, rules, traits) and with_buffers(d, rules, traits, d.block_size or 1) == "no_buffer"
    return {} if unbuffered and _known(settled) == TRTLLM_MHA else None
