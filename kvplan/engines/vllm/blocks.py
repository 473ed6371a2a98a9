"""Which block size vLLM ends up with: the attention backend's preference, then the alignment of hybrids and of mixed formats.

vLLM 0.33 `vllm/platforms/interface.py` (update_block_size_for_backend, _align_hybrid_block_size, _align_heterogeneous_kv_block_size),
`vllm/platforms/cuda.py` (_get_backend_priorities), `vllm/platforms/cpu.py`; up to 0.19 `models/config.py` HybridAttentionMambaModelConfig.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import lcm
from typing import NamedTuple

from kvplan.engines.vllm.backends import BACKENDS, Backend
from kvplan.engines.vllm.backends import backend as backend_rows
from kvplan.engines.vllm.layers import Mixer
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.engines.vllm.specs import Blocks, latent_row, lexical_bytes, state_bytes, token_bytes
from kvplan.engines.vllm.states import drafts_kept
from kvplan.errors import UnsupportedError
from kvplan.forms import ATTENTION, Form
from kvplan.tensors import CacheTensor
from kvplan.units import cdiv, round_up

#: Backends of latent attention whose block was forced where another was asked for (platforms/cuda.py check_and_update_config).
LATENT_ALONE: tuple[str, ...] = ("FLASHMLA", "CUTLASS_MLA", "FLASHINFER_MLA")
#: Those of sparse latents, likewise, up to the same release: one that is named and takes blocks of 32, too, keeps them.
SPARSE_ALONE: tuple[str, ...] = ("SPARSE_MLA", "FLASHMLA_SPARSE")
#: What FlashInfer's prefill of gated delta nets aligns the states to that it leaves (v1/attention/backends/gdn_attn.py).
CHECKPOINT_ALIGNMENT = 64
#: Heads for which FlashInfer's kernels took no blocks of 16 on compute capability 10.x (models/config.py of 0.11.1 to 0.17).
WIDE = 256
#: Forms whose rows set the block of a hybrid.
_ALIGNED: frozenset[Form] = ATTENTION - {"encoder-kv", "compressed", "compressed+shared"}


class Choice(NamedTuple):
    """The block sizes, and the lines vLLM logs about them."""

    blocks: Blocks
    lines: tuple[str, ...] = ()


def backend_of(mixers: Sequence[Mixer], s: VllmSettings) -> str:
    """The attention backend that decides the block size: the one asked for where it is known, else the release's own choice."""
    if s.backend in BACKENDS:
        return s.backend
    forms, cpu = {mixer.form for mixer in mixers}, s.platform == "cpu"
    if "compressed" in forms:
        return "DEEPSEEK_V4"
    if s.records is not None:
        return "DEEPSEEK_V41"
    sparse = forms & {"latent+index", "latent+pooled-index"}
    if sparse or "latent" in forms:
        return "CPU_MLA" if cpu else "TRITON_MLA" if not s.rules.v1 else "SPARSE_MLA" if sparse else s.latent_backend
    return "CPU_ATTN" if cpu else "FLASH_ATTN"


def uncommon_below(s: VllmSettings) -> int:
    """Tokens that a block of DeepSeek-V4's must be a multiple of: its kernels' pages (v1/worker/utils.py select_common_block_size).

    From 0.32 on blocks whose layers lie beside one another are not split, and only hold at least one entry of 128 tokens.
    """
    return 128 if s.since("0.32") else 256


def choose_blocks(mixers: Sequence[Mixer], s: VllmSettings) -> Choice:
    """The block sizes for the mixers of a model (one entry per layer and mixer, in layer order)."""
    backend = backend_of(mixers, s)
    kernel = backend_rows(backend, s.release)
    chosen = 128 if backend == "CPU_ATTN" else s.records.block if s.records else kernel.preferred
    if s.platform == "cpu" and all(m.is_state for m in mixers):
        chosen = 16  # no backend chooses: config/cache.py, DEFAULT_BLOCK_SIZE
    block = s.block_size or chosen
    if backend == "CPU_MLA" or (s.rules.forces_latent and backend in SPARSE_ALONE) or (backend == "DEEPSEEK_V4" and s.platform == "cpu"):
        block = kernel.base  # whatever is asked for
    if backend == "DEEPSEEK_V4" and block > kernel.base and block % kernel.base == 0 and s.since("0.32"):
        raise UnsupportedError(f"vllm: blocks of {block} tokens of DeepSeek-V4's layers are not modelled: leave --block-size out")
    if (
        s.rules.forces_latent
        and backend in LATENT_ALONE
        and not (block in kernel.only or (s.since("0.12") and any(block % size == 0 for size in kernel.only)))
    ):
        block = kernel.preferred
    lines: list[str] = []
    state_page = 0
    attention = next((m for m in mixers if m.form in _ALIGNED), None)
    first = kernel
    if attention and attention.skipped and attention.form == "latent" and backend == "FLASHMLA" and not s.backend:
        first = backend_rows("FLASH_ATTN_MLA", s.release)  # Hopper's where the first layer stays in 16 bits
        block = block if s.block_size or s.since("0.31") else first.preferred  # which alone chooses before
    states = [m for m in mixers if m.is_state]
    if attention and states and s.rules.v1:
        grouped = s.pooled is not None and s.pooled.group
        beside = [lexical_bytes(m.tensors, s.draft_tokens) for m in mixers if m.form == "depthwise-conv" and grouped]
        block, state_page, lines = _align_hybrid(attention, states, block, kernel, s, [0, *beside])
    shared = 0
    if attention and s.aligned_format and s.since("0.25"):  # whatever the layers keep: Falcon's are handed no format
        block, shared = _align_formats(block, attention, first, s, state_page)
        state_page = shared if state_page and shared else state_page
    keeps_one = s.state_mode == "none"
    state_block = s.max_model_len if keeps_one or (attention is None and _whole_state(s)) else block
    if attention is None and s.state_block and not keeps_one:
        state_block = s.state_block
    inferred = s.blackwell and not s.backend and backend == "FLASH_ATTN" and "per_token_head" not in s.formats.k
    slides = backend_rows("FLASHINFER", s.release) if inferred else kernel
    starts = {"primary": block, "smallest": kernel.within(0), "kernel": slides.within(block)}  # 10.x's own choice: 48 is no page of it
    fits = (kernel if kernel.only or s.rules.window_block == "kernel" else kernel._replace(only=(kernel.base,))) if shared else None
    return Choice(Blocks(block, starts[s.rules.window_block], state_block, state_page, shared, fits), tuple(lines))


def _whole_state(s: VllmSettings) -> bool:
    """Whether a model of states alone keeps one for each length, prefix caching or not.

    The state's block is taken from the block size before that has its default (0.12 to 0.14), or not at all (0.11.1): models/config.py
    MambaModelConfig.
    """
    return s.rules.states_per_request == "length" and (s.block_size is None or not s.rules.state_block_asked)


def _align_hybrid(
    attention: Mixer, states: Sequence[Mixer], block: int, kernel: Backend, s: VllmSettings, beside: Sequence[int]
) -> tuple[int, int, list[str]]:
    """The smallest aligned block whose attention page holds a state; the state's page is padded to that page."""
    rows = {t.name: t for t in attention.tensors}
    latent = rows.get("latent")
    if latent is not None:
        per_token = latent_row(latent, False)
    else:
        # the model's one head size, for K and V alike
        per_token = token_bytes([rows["k"], rows["k"] if rows["v"].dtype == rows["k"].dtype else rows["v"]], s.tp)
    drafts = s.draft_tokens if s.sizes_drafts else 0
    sizes = (state_bytes(m.form, m.tensors, s.tp, drafts_kept(m.form, drafts, s.release), s.replayed, s.formats.compute) for m in states)
    needed = max(*sizes, *beside)
    if not needed:
        return block, 0, []
    align = kernel.base
    if s.rules.align_from_block:
        align = max(kernel.base, block)
    if latent is not None:
        align = max(align, s.rules.mla_hybrid_align)
    elif (
        s.blackwell
        and rows["k"].elems_per_state == WIDE
        and s.backend in (None, "FLASHINFER")
        and s.since("0.11.1")
        and not s.since("0.18")
    ):
        align = max(align, 32)
    if s.exports_states:
        align = lcm(align, CHECKPOINT_ALIGNMENT)
    if s.state_mode == "all":
        chunk = lcm(s.state_chunk, align)
        aligned = chunk * cdiv(cdiv(needed, per_token), chunk)
    else:
        aligned = round_up(align * cdiv(needed, align * per_token), _kernels_agree(rows, kernel, s))
    lines = []
    if block < aligned:
        block = aligned
        lines.append(f"Setting attention block size to {block} tokens to ensure that attention page size is >= mamba page size.")
    page = block * per_token
    if page > needed:
        padding = 100 * (page - needed) / needed
        lines.append(f"Padding mamba page size by {padding:.2f}% to ensure that mamba page size and attention page size are exactly equal.")
    return block, page, lines


def _kernels_agree(rows: dict[str, CacheTensor], kernel: Backend, s: VllmSettings) -> int:
    """Tokens that every kernel's smallest block divides: the attention's, and a page of the indexer's keys of several tokens."""
    key = rows.get("index_k")
    pool = key.tokens_per_state if key is not None and s.pooled is not None and not s.pooled.group else None
    return lcm(kernel.base, pool * s.pooled.key_page) if pool and s.pooled is not None else kernel.base


def _align_formats(block: int, attention: Mixer, kernel: Backend, s: VllmSettings, state_page: int) -> tuple[int, int]:
    """Layers left out of a cache format share the pool: a primary page must cover one of theirs at the smallest kernel block.

    The block, and the page that windows and states are then padded to; 0 where pages agree. From 0.28 on the backend of the first layer
    says how a row is packed, which is a byte an element where that layer is left out, as TurboQuant's always is before
    (platforms/interface.py _align_heterogeneous_kv_block_size).
    """
    row = next(t for t in attention.tensors if t.name in ("k", "latent"))
    asked, whole = s.aligned_format, replace(row, dtype=s.formats.compute)
    if asked == s.formats.compute:
        return block, 0
    bare = (attention.skipped or asked != s.formats.k) if s.since("0.28") else asked.startswith("turboquant")
    primary, widest = token_bytes([replace(row, dtype="fp8_e4m3" if bare else asked)] * 2, s.tp), token_bytes([whole, whole], s.tp)
    if widest == primary:
        return block, 0
    needed, align = max(widest * kernel.base, state_page), max(kernel.base, block)
    block = max(block, align * cdiv(needed, align * primary))
    return block, block * primary
