"""The context arithmetic: what -c, -np and the batch sizes become.

llama.cpp src/llama-context.cpp, llama_context::llama_context and llama_init_from_model; tools/server/server.cpp (b11312).
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import FORMATS, canonical
from kvplan.engines.common.conditions import encodes
from kvplan.engines.llama_cpp.options import LlamaOptions
from kvplan.engines.llama_cpp.rules import ROLLBACK, LlamaRules
from kvplan.units import cdiv, round_up

N_UBATCH, N_BATCH = 512, 2048
QUANTIZED = frozenset({"q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"})
#: Drafting methods that want past states kept (common.h need_n_rs_seq).
ROLLS_BACK = frozenset({"mtp", "eagle3", "dflash", "dspark"})
CACHE_TYPES = frozenset({"f32", "f16", "bf16"}) | QUANTIZED


class Context(NamedTuple):
    """A llama_context's parameters. Cells are counted per stream; `n_outputs` rows of logits are reserved for.

    all_outputs  the graph of a prompt has them for every token besides
    slot         the most tokens that one sequence may hold; trained: what the model was trained for, which caps it
    wide_masks   masks of attention are made in 32 bits, whatever reads them; older_too: some builds that may be meant did
    one_batch    an encoder without a cache: a request that is longer than -ub is refused (server-context.cpp can_split)
    """

    n_ctx: int
    n_ctx_seq: int
    n_seq_max: int
    unified: bool
    streams: int
    n_batch: int
    n_ubatch: int
    n_outputs: int
    type_k: str
    type_v: str
    flash_attn: bool
    swa_full: bool
    n_rs_seq: int
    offload_kqv: bool
    pad: int
    window_least: int = 0
    all_outputs: bool = False
    slot: int = 0
    trained: int | None = None
    wide_masks: bool = False
    older_too: bool = False
    most_sequences: int | None = None
    one_batch: bool = False


def is_unified(options: LlamaOptions, rules: LlamaRules, asked_seqs: int | None) -> bool:
    """One pool for all sequences: where asked for, before streams existed, or in a server that chose its own slots."""
    if not rules.streams:
        return True
    if options.kv_unified is not None:
        return options.kv_unified
    return options.server and asked_seqs is None and rules.server_slots > 1


def cache_types(d: Deployment) -> tuple[str, str]:
    """--cache-type-k and -v: f16 unless asked for otherwise, whatever the model computes in."""
    asked = d.kv_dtype if d.kv_dtype and d.kv_dtype != "auto" else "f16"
    parts = asked.split("/")
    return canonical(parts[0], "KV cache format"), canonical(parts[-1], "KV cache format")


def resolve(d: Deployment, options: LlamaOptions, rules: LlamaRules, *, n_ctx: int, n_seq_max: int, unified: bool) -> Context:
    """The context that llama.cpp would make. `n_ctx` is what -c asks for, before padding."""
    flash = options.flash_attn or ("auto" if rules.flash_auto else "off")
    type_k, type_v = cache_types(d)
    pad = rules.pad[0 if flash != "off" else 1]
    n_batch = min(n_ctx, d.max_num_batched_tokens or N_BATCH)
    n_ubatch = min(n_batch, options.n_ubatch or (n_batch if options.n_ubatch == 0 else N_UBATCH))
    padded = round_up(n_ctx, pad)
    n_ctx_seq = padded
    if not unified:
        n_ctx_seq = round_up(padded // n_seq_max, pad)
        padded = n_ctx_seq * n_seq_max
    rollback = d.model.architecture in ROLLBACK
    drafts = draft_tokens(d)
    kept = drafts if draft_method(d) in ROLLS_BACK else 0
    length = trained(d, options, rules)
    one_batch = rules.one_batch and encodes(d.model)
    caps = (
        n_ubatch if one_batch else 0,
        n_ctx_seq,
        options.kv_unified_per_slot if unified else None,
        length if rules.slot_capped else None,
    )
    outputs = options.n_outputs_max if options.n_outputs_max is not None else n_seq_max * (1 + drafts)
    return Context(
        n_ctx=padded,
        n_ctx_seq=n_ctx_seq,
        n_seq_max=n_seq_max,
        unified=unified,
        streams=1 if unified else n_seq_max,
        n_batch=n_batch,
        n_ubatch=n_ubatch,
        n_outputs=min(n_ubatch, outputs or n_batch),
        type_k=type_k,
        type_v=type_v,
        flash_attn=flash != "off",
        swa_full=options.swa_full,
        n_rs_seq=rules.state_copies or ((kept if options.n_rs_seq is None else options.n_rs_seq) if rollback else 0),
        offload_kqv=options.offload_kqv,
        pad=pad,
        window_least=rules.window_least,
        all_outputs=rules.all_outputs and options.n_outputs_max is None,
        slot=min((cap for cap in caps if cap), default=0),
        trained=length,
        wide_masks=rules.wide_masks and not rules.own_graphs,
        older_too=rules.unsaid,
        most_sequences=rules.most_sequences,
        one_batch=one_batch,
    )


def trained(d: Deployment, options: LlamaOptions, rules: LlamaRules) -> int | None:
    """n_ctx_train: the file's context_length, or what --override-kv writes over it, or YaRN's options make of it."""
    own = options.override_kv or d.model.max_context
    if not rules.yarn_lifts or options.rope_scaling != "yarn" or options.rope_scale is None:
        return own
    return int((options.yarn_orig_ctx or own or 0) * options.rope_scale)


def draft_method(d: Deployment) -> str:
    """`mtp:2` -> mtp; off where nothing is drafted."""
    return (d.speculative or "off").split(":")[0].strip().lower()


def draft_tokens(d: Deployment) -> int:
    """Tokens that are drafted ahead: `mtp:2` -> 2."""
    parts = (d.speculative or "off").split(":")
    return int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else 0


def pool_for(context: int, batch: int, *, unified: bool, n_seq_max: int, pad: int) -> int:
    """The -c that keeps `batch` sequences of `context` tokens resident."""
    return context * batch if unified else round_up(context, pad) * n_seq_max if n_seq_max > 1 else context


def refusal(ctx: Context, *, is_mla: bool, k_dims: frozenset[int], v_dims: frozenset[int], rows: frozenset[int]) -> str | None:
    """Why llama_init_from_model would return no context, in its own words; None where it starts."""
    for name in (ctx.type_k, ctx.type_v):
        if name not in CACHE_TYPES:
            return f"Unsupported cache type: {name}"
    if ctx.most_sequences and ctx.n_seq_max > ctx.most_sequences:
        return f"n_seq_max must be <= {ctx.most_sequences}"
    if is_mla and ctx.type_k != ctx.type_v:
        return f"model does not support different K ({ctx.type_k}) and V ({ctx.type_v}) cache types"
    if ctx.type_v in QUANTIZED and not ctx.flash_attn:
        return "quantized V cache requires flash_attn to be enabled"
    for name, type_, dims in (("K", ctx.type_k, k_dims), ("V", ctx.type_v, v_dims)):
        block = FORMATS[type_].block
        odd = min((dim for dim in dims if dim % block), default=None)
        if type_ in QUANTIZED and ctx.flash_attn and odd is not None:
            return f"{name} cache type {type_} with block size {block} does not divide n_embd_head_{name.lower()}={odd}"
    odd = min((row for row in rows if row % FORMATS[ctx.type_k].block), default=None)
    if odd is not None:
        return f"GGML_ASSERT(ne % ggml_blck_size(type) == 0): a row of {odd} elements is no whole number of {ctx.type_k} blocks"
    return None


def resident(ctx: Context, context: int) -> float:
    """How many sequences of `context` tokens stay resident at once; a server answers a longer one with an error (n_ctx_slot)."""
    if context > ctx.slot and not (ctx.unified and ctx.slot == ctx.n_ctx_seq):
        return 0.0
    return min(float(ctx.n_seq_max), ctx.n_ctx / context) if ctx.unified else float(ctx.n_seq_max)


def cells(tokens: int, ratio: int) -> int:
    """Rows of a compressed cache: one for each started `ratio` tokens (dsv4_comp_size)."""
    return max(1, cdiv(tokens, ratio))
