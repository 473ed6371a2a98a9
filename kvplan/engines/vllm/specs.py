"""Cache specs: what vLLM's model runner declares for every layer, here derived from the layer's tensors.

vLLM 0.33 `vllm/v1/kv_cache_interface.py` (AttentionSpec and its kin), `customize_spec` of the attention backends,
`layers/mamba/mamba_utils.py` (MambaStateShapeCalculator), `models/deepseek_v4` (window, compressor and indexer caches).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd
from typing import Literal, NamedTuple

from kvplan.dtypes import row_bytes
from kvplan.engines.vllm.backends import BACKENDS, Backend
from kvplan.engines.vllm.deepseek_v41 import PACKED_ROWS, SharedRows
from kvplan.engines.vllm.rings import POSITIONS, Pooled, key_stride, latent_bytes, latent_stride, ring, whole_groups
from kvplan.engines.vllm.wordings import Refused
from kvplan.forms import STATES, Form
from kvplan.parallel import heads_per_rank
from kvplan.tensors import CacheTensor, Curve, Term
from kvplan.units import cdiv, round_up

Kind = Literal[
    "full_attention", "mla_attention", "mla_indexer", "sliding_window", "sliding_window_mla", "chunked_local_attention",
    "cross_attention", "mamba", "circular_buffer",
]  # fmt: skip
#: Kinds whose request keeps every token: one block table can serve them all.
FULL: tuple[Kind, ...] = ("full_attention", "mla_attention", "mla_indexer")
LATENT: tuple[Kind, ...] = ("mla_attention", "mla_indexer", "sliding_window_mla")


#: Forms that vLLM keeps as one state a sequence: the inputs of Inkling's convolutions are rows of a short window instead.
KEPT_STATES: frozenset[Form] = STATES - {"depthwise-conv"}


class Spec(NamedTuple):
    """One layer's cache.

    block             tokens of a block (of a state: tokens between two kept states)
    state_bytes       bytes of one stored entry over all heads of the rank; of a recurrent layer all its states
    shape             what must agree, beside the rest, for two layers to have the same spec
    tokens_per_state  tokens that share one entry
    span              window or chunk, in tokens
    padded, align     a page is at least `padded` bytes and a multiple of `align`
    checkpoints       states kept beside the running ones for prefill checkpoints
    local             of full attention: what it was before the hybrid manager was turned off, `window 128`
    stride            blocks of packed pages are a multiple of so many bytes apart
    replicated        a state that every rank keeps whole
    """

    kind: Kind
    block: int
    state_bytes: int
    shape: tuple[int | str, ...]
    tokens_per_state: int = 1
    span: int = 0
    padded: int = 0
    align: int = 1
    checkpoints: int = 0
    local: str = ""
    stride: int = 1
    replicated: bool = False

    @property
    def content(self) -> int:
        """Bytes of the entries of one block of this layer on one rank."""
        return (1 if self.kind == "mamba" else self.block // self.tokens_per_state) * self.state_bytes

    @property
    def page(self) -> int:
        """Bytes of one block of this layer on one rank."""
        return max(self.padded, round_up(self.content, self.align))


class Blocks(NamedTuple):
    """Block sizes that layers take: the primary one, a window layer's first one, a recurrent layer's, and what its page is padded to.

    shared  bytes of a page that windows are padded to where the cache's format leaves layers out; `kernel`: what then sets their blocks
    """

    primary: int
    window: int
    state: int
    state_page: int = 0
    shared: int = 0
    kernel: Backend | None = None


class Recurrence(NamedTuple):
    """What vLLM's class for a recurrent layer does: drafts widen the convolution, prefill checkpoints, prefix-cache mode `all`."""

    name: str
    drafts_widen: bool = True
    checkpoints: bool = False
    all_mode: bool = False


RECURRENCES: dict[Form, Recurrence] = {
    "mamba1": Recurrence("mamba1", drafts_widen=False, all_mode=True),
    "mamba2": Recurrence("mamba2", checkpoints=True, all_mode=True),
    "gated-delta-net": Recurrence("gated delta net"),
    "kda": Recurrence("kda"),
    "short-conv": Recurrence("short conv"),
    "linear-attention": Recurrence("linear attention"),
}


def recurrence(form: Form) -> Recurrence:
    """Which of vLLM's recurrent layers keeps this form. Refused where vLLM has none."""
    if form not in RECURRENCES:
        raise Refused("vLLM's V1 engine has no RWKV layers")
    return RECURRENCES[form]


def state_bytes(form: Form, states: Sequence[CacheTensor], tp: int, draft_tokens: int = 0, replayed: int = 0, compute: str = "bf16") -> int:
    """Bytes of one sequence's states of one layer on one rank.

    Groups of B and C that tp does not divide are extended to one per rank; drafts add their tokens as columns to convolutions. ReplaySSM
    keeps x and B of `replayed` tokens in the compute type, and the steps of its heads in f32 (mamba_utils.py append_replayssm_ring).
    """
    made = recurrence(form)
    drafts = draft_tokens if made.drafts_widen else 0
    channels = sum(_heads(t, tp) * t.elems_per_state // t.columns for t in states if t.columns)
    if channels % tp or any(t.heads % tp for t in states if not t.columns):
        raise Refused(f"the states of a {made.name} layer are not divisible by the tensor parallel size {tp}")
    rows = {t.name: (_heads(t, tp), t.elems_per_state // t.columns) for t in states if t.columns} if replayed and form == "mamba2" else {}
    (heads, width), (groups, both) = rows.get("conv_x", (0, 0)), rows.get("conv_bc", (0, 0))
    kept = heads * (row_bytes(compute, width) + row_bytes("f32", 1)) + groups * row_bytes(compute, both // 2)
    return (sum(_heads(t, tp) * row_bytes(t.dtype, _elems(t, drafts)) for t in states) + replayed * kept) // tp


def _heads(t: CacheTensor, tp: int) -> int:
    return tp if t.name == "conv_bc" and t.heads % tp else t.heads


def _elems(t: CacheTensor, draft_tokens: int) -> int:
    return t.elems_per_state // t.columns * (t.columns + draft_tokens) if t.columns else t.elems_per_state


def token_bytes(tensors: Sequence[CacheTensor], tp: int) -> int:
    """Bytes of one token of an attention layer on one rank: K and V of its heads, or its one latent row.

    Of TurboQuant's formats layers with windows have the type alone, a byte a value (attention.py get_kv_cache_spec, 0.20 to 0.25).
    """
    heads = heads_per_rank(tensors[0].heads, tp, "floor")
    packed = any(t.dtype.startswith("turboquant") for t in tensors)
    if packed and any(t.keep.kind == "window" for t in tensors):
        return heads * sum(t.elems_per_state for t in tensors)
    row = sum(row_bytes(t.dtype, t.elems_per_state) for t in tensors)
    if packed:
        row = round_up(row, 2)
    return heads * row


def latent_row(latent: CacheTensor, packs: bool) -> int:
    """Bytes of one latent row. Most kernels of sparse attention keep FP8 as packed rows (`packs`).

    Per-token scales come twice, as for K and V.
    """
    dtype = latent.dtype
    if packs and dtype.startswith("fp8") and latent.elems_per_state == 576:
        dtype = "fp8_ds_mla"
    scales = 4 if dtype.endswith("_per_token_head") else 0
    return row_bytes(dtype, latent.elems_per_state) + scales


def cache_specs(
    form: Form,
    tensors: Sequence[CacheTensor],
    blocks: Blocks,
    *,
    tp: int,
    draft_tokens: int = 0,
    checkpoints: bool = False,
    exports: bool = False,
    chunked: bool = True,
    pooled: Pooled | None = None,
    records: SharedRows | None = None,
    plain_latents: bool = False,
    rows_apart: bool = False,
    replayed: int = 0,
    compute: str = "bf16",
) -> list[Spec]:
    """The specs of one mixer, in the order in which vLLM registers them; empty where it keeps nothing."""
    if form == "depthwise-conv" and pooled is not None and pooled.group:
        held, n_bytes = int(exports), lexical_bytes(tensors, draft_tokens)
        return [Spec("mamba", blocks.state, n_bytes, ("short conv", n_bytes), padded=blocks.state_page, checkpoints=held, replicated=True)]
    if form == "depthwise-conv":
        return [_window_of_inputs(tensors[0], tp)]
    if form in KEPT_STATES:
        made = recurrence(form)
        n_bytes = state_bytes(form, tensors, tp, draft_tokens, replayed, compute)
        if 0 < blocks.state_page < n_bytes:
            raise Refused(
                f"AssertionError: a state of {n_bytes} bytes with what drafts add, for which a page of {blocks.state_page} was made"
            )
        shape = tuple(t.elems_per_state * t.heads for t in tensors)
        kept = made.checkpoints or (form == "kda" and pooled is not None and pooled.exports)
        held = int((checkpoints and kept) or (exports and form == "gated-delta-net"))
        return [Spec("mamba", blocks.state, n_bytes, (made.name, *shape), padded=blocks.state_page, checkpoints=held)]
    rows = {t.name: t for t in tensors}
    if form in ("latent", "latent+index"):
        return _latent(rows, blocks, packs=not plain_latents, apart=rows_apart)
    if form == "latent+pooled-index" and pooled is not None:
        return _pooled(rows, blocks, draft_tokens, pooled)
    if form == "compressed":
        return _compressed(rows, blocks)
    if form == "compressed+shared" and records is not None:
        return _shared(rows, blocks, draft_tokens, records)
    attention = _attention(rows["k"], rows["v"], blocks, tp, chunked)
    if form == "kv+index" and pooled is not None and pooled.group:
        return [*_grouped(rows["index_k"], blocks.primary, draft_tokens), attention]
    return [*_index_keys(rows, blocks), attention]


def _attention(k: CacheTensor, v: CacheTensor, blocks: Blocks, tp: int, chunked: bool) -> Spec:
    heads = heads_per_rank(k.heads, tp, "floor")
    shape = (heads, k.elems_per_state, v.elems_per_state, k.dtype, v.dtype)
    n_bytes = token_bytes((k, v), tp)
    if k.keep.kind == "window":
        packs = k.dtype.startswith("turboquant")  # whose kernels have sizes of their own
        kernel = BACKENDS["TURBOQUANT"][0][1] if packs and blocks.kernel else blocks.kernel
        block = kernel.within(blocks.shared // n_bytes) if kernel else blocks.window
        return Spec("sliding_window", block, n_bytes, shape, span=k.keep.tokens, padded=blocks.shared)
    if k.keep.kind == "chunk" and chunked:
        return Spec("chunked_local_attention", blocks.primary, n_bytes, shape, span=k.keep.tokens)
    if k.keep.kind == "source":
        return Spec("cross_attention", blocks.primary, n_bytes, shape)
    return Spec("full_attention", blocks.primary, n_bytes, shape)


def _window_of_inputs(conv: CacheTensor, tp: int) -> Spec:
    """The inputs of an Inkling layer's four convolutions as rows of a window, one block of as many tokens as there are taps.

    vLLM 0.32 models/inkling/nvidia/sconv_swa_attn.py InklingConvState.get_kv_cache_spec.
    """
    if tp > conv.heads:
        raise Refused(f"sconv SWA cache supports tp_size <= num_kv_heads ({conv.heads}), got {tp}")
    heads, taps = heads_per_rank(conv.heads, tp, "floor"), conv.keep.tokens
    n_bytes = heads * row_bytes(conv.dtype, conv.elems_per_state)
    return Spec("sliding_window", taps, n_bytes, (heads, conv.elems_per_state, "inputs"), span=taps)


def _index_keys(rows: dict[str, CacheTensor], blocks: Blocks) -> list[Spec]:
    """The keys of an indexer, on every rank: registered before the attention they choose for."""
    key = rows.get("index_k")
    if key is None:
        return []
    n_bytes = row_bytes(key.dtype, key.elems_per_state)
    return [Spec("mla_indexer", blocks.primary, n_bytes, (1, n_bytes, "index"))]


def _latent(rows: dict[str, CacheTensor], blocks: Blocks, *, packs: bool, apart: bool) -> list[Spec]:
    latent = rows["latent"]
    n_bytes = latent_row(latent, packs)
    shape = (1, latent.elems_per_state, latent.dtype)
    return [*_index_keys(rows, blocks), Spec("mla_attention", blocks.primary, n_bytes, shape, stride=n_bytes if apart else 1)]


def _pooled(rows: dict[str, CacheTensor], blocks: Blocks, draft_tokens: int, made: Pooled) -> list[Spec]:
    """Keys of several tokens, the raw key and gate of the last tokens in bf16, and the latents."""
    latent, key, block = rows["latent"], rows["index_k"], blocks.primary
    pool, row, n_bytes = key.tokens_per_state or 1, latent_bytes(latent, made), row_bytes(key.dtype, key.elems_per_state)
    raw = 2 * row_bytes("bf16", key.elems_per_state)
    return [
        Spec("mla_indexer", block, n_bytes, (1, n_bytes, "index"), pool, stride=key_stride(n_bytes, pool, block, made)),
        Spec("circular_buffer", ring(pool, draft_tokens, block, made), raw, (2, key.elems_per_state, "tail")),
        Spec("mla_attention", block, row, (1, latent.elems_per_state, latent.dtype), stride=latent_stride(row, made)),
    ]


def _grouped(key: CacheTensor, block: int, draft_tokens: int) -> list[Spec]:
    """Qwen4-Exp: the raw keys of the open group, each with its positions, and one key for each whole group."""
    pool, n_bytes = key.tokens_per_state or 1, row_bytes(key.dtype, key.elems_per_state)
    raw = row_bytes("bf16", key.elems_per_state + POSITIONS)
    return [
        Spec("circular_buffer", whole_groups(pool, draft_tokens, block), raw, (1, raw, "raw keys")),
        Spec("mla_indexer", block, n_bytes, (1, n_bytes, "index"), pool),
    ]


def lexical_bytes(inputs: Sequence[CacheTensor], draft_tokens: int) -> int:
    """Bytes of the inputs of Qwen4-Exp's n-gram convolution, on every rank: drafts add a column each (nvidia/ple_layer.py)."""
    columns = max(t.lookback for t in inputs) or 1
    return sum(row_bytes(t.dtype, t.elems_per_state // columns * (columns + draft_tokens)) for t in inputs)


def _compressed(rows: dict[str, CacheTensor], blocks: Blocks) -> list[Spec]:
    """DeepSeek-V4: packed rows whatever format is asked for; a compressor keeps the raw f32 entries (value, score) it looks back on."""
    align = 576
    window, main, key = rows["window"], rows.get("compressed"), rows.get("index_k")
    row = row_bytes(PACKED_ROWS, window.elems_per_state)
    specs = [Spec("sliding_window_mla", 64, row, (1, window.elems_per_state), span=window.keep.tokens, align=align)]
    for t, n_bytes in ((key, key and row_bytes(key.dtype, key.elems_per_state)), (main, row)):
        if t is None or not n_bytes:
            continue
        ratio = t.tokens_per_state or 1
        specs.append(Spec("mla_attention", blocks.primary, n_bytes, (1, n_bytes, t.name), ratio, align=align))
        groups = max(t.lookback // ratio, 1)
        raw = row_bytes("f32", 2 * groups * t.elems_per_state)
        specs.append(Spec("sliding_window_mla", 8 // groups, raw, (1, raw, t.name), span=t.lookback, align=align))
    return specs


def _shared(rows: dict[str, CacheTensor], blocks: Blocks, draft_tokens: int, made: SharedRows) -> list[Spec]:
    """DeepSeek-V4.1: a window in every layer; where rows are made, these, their keys, and of two tokens a ring of raw f32 entries, wide
    enough for the drafts (models/deepseek_v41/compressor.py CompressorStateCache)."""
    window, specs = rows["window"], list[Spec]()
    for t in (rows.get("compressed"), rows.get("index_k")):
        if t is not None:
            n_bytes = row_bytes(t.dtype, t.elems_per_state)
            spec = Spec("mla_attention", blocks.primary, n_bytes, (1, n_bytes, t.name), t.tokens_per_state or 1, align=made.align)
            kernel = spec._replace(block=gcd(made.block, blocks.primary))
            specs.append(spec._replace(stride=kernel.page) if made.splits and kernel != spec else spec)
    n_bytes = row_bytes(window.dtype, window.elems_per_state)
    specs.append(Spec("sliding_window_mla", 32, n_bytes, (1, n_bytes), span=window.keep.tokens, align=made.align, stride=made.stride))
    if (t := rows.get("compressed")) is not None and (t.tokens_per_state or 1) > 1:
        tokens = max(8, 1 << (draft_tokens + 1).bit_length())
        raw = row_bytes("f32", 2 * t.elems_per_state)
        specs.append(Spec("circular_buffer", tokens, raw, (1, raw, "open rows")))
    return specs


def unquantised(tensors: Sequence[CacheTensor], dtype: str) -> list[CacheTensor]:
    """The same tensors in the compute type, for layers that a cache format leaves out."""
    return [replace(t, dtype=dtype) if t.name in ("k", "v", "latent") else t for t in tensors]


class Load(NamedTuple):
    """What a longest request asks of a group depends on: tokens in flight, the encoder's length, ranks that share tokens, and states.

    states  pages of state a request holds: a number, or None for one page per started block
    """

    in_flight: int
    encoder_tokens: int
    dcp: int
    states: int | None
    draft_tokens: int


def pages(spec: Spec, load: Load) -> Curve:
    """Blocks of this layer that one request can hold, over its tokens: `max_memory_usage_bytes` over the page."""
    if spec.kind in FULL:
        return _blocks(spec.block * load.dcp)
    if spec.kind == "mamba":
        if load.states is None:
            return _blocks(spec.block, fixed=load.draft_tokens)
        return Curve(load.states + spec.checkpoints, ())
    if spec.kind == "circular_buffer":
        return Curve(1, ())
    if spec.kind == "cross_attention":
        return Curve(cdiv(load.encoder_tokens, spec.block), ())
    if spec.kind == "chunked_local_attention":
        return _blocks(spec.block, most=spec.span + load.in_flight)
    return _blocks(spec.block, most=spec.span - 1 + load.in_flight, fixed=1)


def _blocks(block: int, *, most: int | None = None, fixed: int = 0) -> Curve:
    """A block for each started `block` tokens of the first `most`, and `fixed` ones."""
    return Curve(fixed, (Term(1, block, None if most is None else cdiv(most, block)),))
