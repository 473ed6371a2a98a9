"""Sizes of blocks that vLLM refuses: its command line, the backend that is named, all of them, or the kernels of a group together."""

from __future__ import annotations

from kvplan.engines.common import conditions as on
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import release
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm import conditions as when
from kvplan.engines.vllm.backends import BACKENDS, DEFAULT_BLOCK
from kvplan.engines.vllm.backends import backend as backend_rows
from kvplan.engines.vllm.blocks import uncommon_below
from kvplan.engines.vllm.model import pools
from kvplan.engines.vllm.settings import settings_of
from kvplan.engines.vllm.specs import KEPT_STATES
from kvplan.forms import ATTENTION

#: `--block-size` choices from a release on; empty: any.
BLOCK_SIZES: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("0.5", (8, 16, 32, 128, 256, 512, 1024, 2048)),
    ("0.6", (8, 16, 32, 64, 128)),
    ("0.8", (1, 8, 16, 32, 64, 128)),
    ("0.12", (1, 8, 16, 32, 64, 128, 256)),
    ("0.18", ()),
)


def block_size(settled: Settled) -> Values:
    """A size that the command line does not take; the engine itself, used offline, looks at none."""
    asked, choices = settled.question.block_size, when.choices_of(settled, BLOCK_SIZES)
    if Options(settled.question).text("usage") == "offline":
        return None
    return {"size": asked, "choices": ", ".join(map(str, choices))} if asked and choices and asked not in choices else None


def _on_nvidia(settled: Settled) -> bool:
    """Whether it runs on NVIDIA's GPUs, for all that is known."""
    return when.on_gpu(settled) and on.may_be_nvidia(settled.question)


def backend_block(settled: Settled) -> Values:
    """The backend that was named takes no multiple of its own sizes in the block size that was asked for (supports_block_size)."""
    s, block = settings_of(settled), settled.question.block_size
    if block is None or s.backend not in BACKENDS or not when.on_gpu(settled):
        return None
    kernel = backend_rows(s.backend, s.release)
    refused = all(block % size for size in kernel.only or (kernel.base,))
    return {"backend": s.backend, "reason": "block_size not supported"} if refused else None


def odd_block(settled: Settled) -> Values:
    """A block that no backend of NVIDIA's GPUs takes where none is named: FlexAttention, which took any, wants 16 too from 0.22 on.

    Kernels of sparse latents take 64 alone, and FlashInfer's on 10.x also 32 (v1/attention/backends/mla/*sparse*.py).
    """
    s, asked = settings_of(settled), settled.question.block_size
    least = (32 if (on.capability(settled.question) or 0) // 10 == 10 else 64) if when.indexed(settled) else DEFAULT_BLOCK
    if not asked or asked % least == 0 or s.backend in BACKENDS or not _on_nvidia(settled):
        return None
    flexible = not on.latent(settled) and when.asked_release(settled) < release("0.22") and s.formats.k in ("f16", "bf16", "f32")
    attends = bool(s.forms & (ATTENTION - {"compressed"})) or pools(settled.question.model)
    return {"size": asked} if attends and not flexible else None


def small_block(settled: Settled) -> Values:
    """A block that the command line takes and no kernel for K and V does: FlexAttention alone has pages of any size.

    What runs f32 is not said before 0.17.
    """
    s, asked = settings_of(settled), settled.question.block_size
    flexible = s.backend == "FLEX_ATTENTION" or (s.formats.compute == "f32" and not s.since("0.17"))
    if not asked or asked % DEFAULT_BLOCK == 0 or flexible or not _on_nvidia(settled):
        return None
    return {"size": asked, "least": DEFAULT_BLOCK} if "kv" in s.forms and not s.forms & KEPT_STATES else None


def uncommon_block(settled: Settled) -> Values:
    """A block that the kernels of a group do not share: an indexer's keys lie in pages of 64, DeepSeek-V4's rows of 256."""
    s, asked = settings_of(settled), settled.question.block_size
    least = uncommon_below(s) if "compressed" in s.forms else 64 if "latent+index" in s.forms else 1
    if not asked or asked % least == 0 or not _on_nvidia(settled):
        return None
    return {"size": asked, "least": least}


_SOURCE = "v1/attention/backend.py supports_block_size; platforms/cuda.py get_attn_backend_cls"
CHOICE = Stop(
    "block size", "argument --block-size: invalid choice: {size} (choose from {choices:t})",
    "this release takes the block sizes {choices} alone", (Move("block_size", "one of these"),),
    "engine/arg_utils.py, config/cache.py BlockSize", before="0.18", when=block_size,
)  # fmt: skip
CHECKS: tuple[Stop, ...] = (
    Stop(
        "attention backend", "Selected backend AttentionBackendEnum.{backend:w} is not valid for this configuration. Reason:",
        "the backend that was named does not take blocks of this size",
        (Move("block_size", "none: it takes its own"), Move("option:attention_backend", "none: it chooses one that does")),
        _SOURCE, since="0.18", when=backend_block, loading=True, numbers="{reason}",
    ),
    Stop(
        "block size", "No valid attention backend found for cuda with AttentionSelectorConfig(...block_size={size},",
        "no attention kernel takes blocks of {size} tokens", (Move("block_size", "a multiple of 16, of 64 for sparse latents"),),
        "platforms/cuda.py get_attn_backend_cls, v1/attention/backend.py supports_block_size (FlexAttention took any before)",
        since="0.18", when=odd_block, loading=True,
    ),
    Stop(
        "block size", "No common block size for {size}.", "the kernels of this model's caches take other pages",
        (Move("block_size", "none: it chooses one"),), "v1/worker/utils.py select_common_block_size", since="0.18",
        when=uncommon_block, loading=True, numbers="pages in multiples of {least} tokens",
    ),
    Stop(
        "block size", "No common block size for {size}.", "the kernels of this model's caches take other pages",
        (Move("block_size", "none: it chooses one"),), "v1/worker/gpu_model_runner.py select_common_block_size", since="0.11.1",
        before="0.18", when=small_block, loading=True, numbers="pages in multiples of {least} tokens",
    ),
)  # fmt: skip
