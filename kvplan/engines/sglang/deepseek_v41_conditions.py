"""What DeepSeek-V4.1 does not start with: layouts of rows, kernels, stages and drafts that its class, or DeepSeek-V4's, refuses.

sglang 0.5.21 to 0.5.23 arg_groups/deepseek_v4_hook.py validate_deepseek_v41_features, apply_deepseek_v4_defaults;
mem_cache/deepseek_v4_memory_pool.py select_dsv4_kv_layout, resolve_compressed_kv_layout.
"""

from __future__ import annotations

from kvplan.engines.common import conditions as on
from kvplan.engines.common.options import DSPARK_BLOCK, Options, read_lora
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import release
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.sglang.deepseek_v4 import is_compressed
from kvplan.engines.sglang.deepseek_v41 import EIGHT, FOUR, SERVED_AS, backend
from kvplan.engines.sglang.settle import SglangSettings, settings_of

_REPLAY, _LATE = "enable_encoder_swa_bounded_replay", "enable_decoder_swa_bounded_replay"


def _of_it(settled: Settled) -> SglangSettings | None:
    s = settings_of(settled)
    return s if s.split.records is not None else None


def _asked(settled: Settled, key: str) -> bool:
    return Options(settled.question).flag(key)


def _kernels(settled: Settled) -> str:
    s = settings_of(settled)
    return backend(settled.question, s.layout, s.release)


def _blackwell(settled: Settled) -> bool:
    """Whether it is data-centre Blackwell, or a GPU that is not known."""
    return (on.capability(settled.question) or 100) // 10 == 10


def _role(settled: Settled) -> str:
    return Options(settled.question).text("disaggregation_mode") or "null"


def feature(settled: Settled) -> Values:
    """The first of the features that its class has not, in the order in which the release looks."""
    s, d = _of_it(settled), settled.question
    if s is None:
        return None
    trtllm, early = _kernels(settled) == "trtllm", release(s.release) < (0, 5, 22)
    lacks = {
        "speculative decoding other than DSpark": s.speculation is not None and s.speculation.method != "dspark",
        "HiSparse": _asked(settled, "enable_hisparse"),
        "the trtllm DSv4 attention backend": trtllm and early,
        "TRT-LLM with encoder SWA bounded replay": trtllm and not early and _asked(settled, _REPLAY),
        "TRT-LLM with SWA bounded replay": trtllm and release(s.release) == (0, 5, 22) and _asked(settled, _LATE),
        "two-batch overlap": _asked(settled, "enable_two_batch_overlap"),
        "pipeline parallelism": (d.pp or 1) > 1,
    }
    return next(({"feature": name} for name, holds in lacks.items() if holds), None)


def of_another(settled: Settled) -> Values:
    """DeepSeek-V4, whose class is the same; from 0.5.23 on any other (arg_groups/model_hook.py)."""
    looked = settled.question.model.architecture == SERVED_AS or release(settings_of(settled).release) >= (0, 5, 23)
    return {} if looked and _asked(settled, _REPLAY) and _of_it(settled) is None else None


def replayed(settled: Settled) -> Values:
    """What a request's own window does not go with."""
    s, d = _of_it(settled), settled.question
    if s is None or not _asked(settled, _REPLAY):
        return None
    grouped = s.layout.attention_dp > 1 or _asked(settled, "enable_dp_attention")
    lacks = {
        "DP attention": grouped and release(s.release) < (0, 5, 23),
        "context parallelism": s.layout.attn_cp > 1,
        "unified memory": _asked(settled, "enable_unified_memory"),
        "PD": _role(settled) == "decode" or (_role(settled) == "prefill" and release(s.release) < (0, 5, 23)),
        "mixed prefill/decode": _asked(settled, "enable_mixed_chunk"),
        "LoRA": read_lora(d.lora) is not None,
    }
    return next(({"feature": name} for name, holds in lacks.items() if holds), None)


def replayed_chunk(settled: Settled) -> Values:
    """A chunk that has no room for a window made again, from 0.5.23 on with a page beside it."""
    s = _of_it(settled)
    least = 128 + (s.pools.page if release(s.release) >= (0, 5, 23) else 0) if s else 0
    return {"chunk": s.pools.chunk, "least": least} if s and _asked(settled, _REPLAY) and s.pools.chunk < least else None


def late_groups(settled: Settled) -> Values:
    """Attention groups of more ranks than one, or, at first, any, where late layers read the end of a prompt."""
    s = _of_it(settled)
    if s is None or not _asked(settled, _LATE):
        return None
    if release(s.release) < (0, 5, 22):
        return {"feature": "DP attention"} if _asked(settled, "enable_dp_attention") else None
    whole = s.layout.attn_tp == 1 and (Options(settled.question).text("moe_a2a_backend") or "none") in ("none", "megamoe")
    said = "DP attention other than attention TP 1 with supported MoE backends"
    return {"feature": said} if s.layout.attention_dp > 1 and not whole else None


def mega(settled: Settled) -> Values:
    asked = Options(settled.question).text("dsv4_attn_backend") == "flashmla_mega" and is_compressed(settled.model.layers)
    return {} if asked and (_of_it(settled) is None or not _blackwell(settled)) else None


def trtllm_gpu(settled: Settled) -> Values:
    asked = Options(settled.question).text("dsv4_attn_backend") == "trtllm" and is_compressed(settled.model.layers)
    return {} if asked and not _blackwell(settled) else None


def trtllm_beside(settled: Settled) -> Values:
    """What TensorRT-LLM's kernels do not go with: context parallelism, roles, prompts that go in whole."""
    s = _of_it(settled)
    if s is None or _kernels(settled) != "trtllm":
        return None
    lacks = {
        "does not support context parallelism": s.layout.attn_cp > 1 or s.layout.dcp > 1,
        "does not support PD disaggregation yet": _role(settled) != "null",
        "requires chunked prefill (--chunked-prefill-size > 0)": s.pools.chunk <= 0,
    }
    return next(({"feature": name} for name, holds in lacks.items() if holds), None)


def newer_rows(settled: Settled) -> Values:
    """V4.1's own layouts of rows on another GPU."""
    rows = settings_of(settled).split.records
    return {} if rows and rows.window == EIGHT and not _blackwell(settled) else None


def later_layout(settled: Settled) -> Values:
    return {} if _of_it(settled) and Options(settled.question).text("dsv4_kv_layout") == "v41_new" else None


def paired_rows(settled: Settled) -> Values:
    """Rows in four bits beside windows in V4's layout."""
    rows, asked = settings_of(settled).split.records, Options(settled.question).text("dsv4_compressed_kv_layout")
    return {} if rows and rows.window not in (EIGHT, FOUR) and asked == "fp4" else None


def another_block(settled: Settled) -> Values:
    """Tokens to verify that are not those of a block of the checkpoint's own stages, and no block beside them."""
    s, d = settings_of(settled), settled.question
    own = s.speculation is not None and s.speculation.method == "dspark" and d.drafter is None and is_compressed(settled.model.layers)
    told = Options(d).count("speculative_num_draft_tokens")
    return {"told": told, "tokens": DSPARK_BLOCK + 1} if own and told not in (None, DSPARK_BLOCK + 1) else None


def trtllm_rows(settled: Settled) -> Values:
    s, options = _of_it(settled), Options(settled.question)
    packed = options.text("dsv4_kv_layout") in ("v41", "v41_new") or options.text("dsv4_compressed_kv_layout") == "fp4"
    return {} if s and packed and _kernels(settled) == "trtllm" else None


def grouped_roles(settled: Settled) -> Values:
    """A server of one role that drafts, in attention groups."""
    s = _of_it(settled)
    apart = s is not None and s.speculation is not None and _role(settled) != "null"
    return {} if s and apart and (s.layout.attention_dp > 1 or s.layout.dp > 1 or s.layout.attn_cp > 1 or s.layout.dcp > 1) else None


_HOOK, _POOL = "arg_groups/deepseek_v4_hook.py", "mem_cache/deepseek_v4_memory_pool.py"
_KERNELS, _LAYOUT = Move("option:dsv4_attn_backend", "auto"), Move("option:dsv4_kv_layout", "v4, or auto")
_BLACKWELL, _PLAIN = Move("device", "a board of compute capability 10.x"), Move("option:dsv4_compressed_kv_layout", "auto")
_WHOLE, _OWN = Move("option:enable_encoder_swa_bounded_replay", "false"), Move("option:enable_decoder_swa_bounded_replay", "false")

CHECKS: tuple[Stop, ...] = (
    Stop(
        "kernels of DeepSeek-V4.1", "--dsv4-attn-backend flashmla_mega requires DeepSeek-V4.1 on SM100/SM103.",
        "its kernels read that model's rows on compute capability 10.x alone", (_KERNELS, _BLACKWELL), _HOOK, since="0.5.23", when=mega,
    ),
    Stop(
        "kernels of DeepSeek-V4", "--dsv4-attn-backend trtllm requires an SM100/SM103 (Blackwell) GPU.",
        "its kernels are for compute capability 10.x", (_KERNELS, _BLACKWELL), _HOOK, since="0.5.20", when=trtllm_gpu,
    ),
    Stop(
        "kernels of DeepSeek-V4", "--dsv4-attn-backend trtllm {feature:w}", "they were made for less", (_KERNELS,), _HOOK, since="0.5.20",
        when=trtllm_beside,
    ),
    Stop(
        "a request's window", "--enable-encoder-swa-bounded-replay requires DeepSeek-V4.1", "other models keep windows in a pool",
        (_WHOLE,), _HOOK, since="0.5.21", when=of_another,
    ),
    Stop(
        "a request's window", "--enable-encoder-swa-bounded-replay does not support {feature:w}", "windows are made again for each request",
        (_WHOLE,), _HOOK, since="0.5.21", when=replayed, numbers="{feature}",
    ),
    Stop(
        "a request's window", "encoder SWA replay requires", "a chunk has to make a window again, whole",
        (Move("max_num_batched_tokens", "larger chunks"), _WHOLE), _HOOK, since="0.5.21", when=replayed_chunk,
        numbers="chunks of {chunk} tokens, of {least} at least",
    ),
    Stop(
        "features of DeepSeek-V4.1", "DeepSeek-V4.1 does not support {feature:w} yet; disable it to serve this model.",
        "its class has not got that in this release", (Move("engine_version", "a newer release"),), _HOOK, since="0.5.21", when=feature,
        numbers="{feature}",
    ),
    Stop(
        "roles of DeepSeek-V4.1", "DeepSeek-V4.1 DSpark PD requires static verify, Mooncake", "a server of one role drafts in one group",
        (Move("option:enable_dp_attention", "false"), Move("speculative", "off")), _HOOK, since="0.5.21", before="0.5.22",
        when=grouped_roles,
    ),
    Stop(
        "the end of a prompt", "--enable-decoder-swa-bounded-replay cannot be combined with {feature:w} yet; disable one of them.",
        "late layers read rows of one group", (_OWN, Move("option:enable_dp_attention", "false")), _HOOK, since="0.5.21",
        when=late_groups,
    ),
    Stop(
        "layouts of rows", "unknown SGLANG_DSV4_KV_LAYOUT=", "this release has no v41_new", (_LAYOUT, Move("engine_version", "0.5.23")),
        _POOL, since="0.5.21", before="0.5.23", when=later_layout,
    ),
    Stop(
        "layouts of rows", "the V4.1 KV cache layouts need an SM100 / SM103 GPU", "they are read on compute capability 10.x alone",
        (_LAYOUT, _BLACKWELL), _POOL, since="0.5.21", when=newer_rows,
    ),
    Stop(
        "blocks of drafts", "DSpark speculative_num_draft_tokens must equal gamma + 1 (= {tokens}", "its stages draft blocks of their own",
        (Move("option:speculative_num_draft_tokens", "none: speculative dspark:N asks for a block"),),
        "arg_groups/speculative_hook.py _handle_dspark", since="0.5.16", when=another_block, numbers="{told} is not {tokens}",
    ),
    Stop(
        "layouts of rows", "trtllm uses uniform FP8 pools, not the packed V4.1 KV layouts", "its kernels read plain rows",
        (_KERNELS, _LAYOUT), _POOL, since="0.5.22", when=trtllm_rows,
    ),
    Stop(
        "layouts of rows", "the V4 main cache only pairs with V4 caches", "rows in four bits are beside windows in V4.1's layout alone",
        (_PLAIN, _LAYOUT), _POOL, since="0.5.21", when=paired_rows,
    ),
)  # fmt: skip
