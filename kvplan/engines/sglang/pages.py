"""The page size in tokens, by model and attention backend.

Source: sglang 0.5.23 arg_groups/overrides.py, _mla_backend_page_constraints, _fa4_page_constraint, _page_size_default;
arg_groups/model_overrides/deepseek_v2.py and deepseek_v4.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Constraint(NamedTuple):
    """The page sizes that a backend takes, and the one it is changed to otherwise."""

    allowed: tuple[int, ...]
    forced: int


#: In the order in which their pages are looked at: a later one changes what an earlier one left.
BACKENDS: dict[str, Constraint | None] = {
    "ascend": Constraint((128,), 128),
    "flashmla": Constraint((64,), 64),
    "cutlass_mla": Constraint((128,), 128),
    "trtllm_mla": Constraint((32, 64), 64),
    "tokenspeed_mla": Constraint((32, 64), 64),
    "cutedsl_mla": Constraint((32, 64), 64),
    "trtllm_mha": Constraint((16, 32, 64, 128), 64),
    "hpc_ops": Constraint((64,), 64),
    "fa4": Constraint((128,), 128),
    "intel_xpu": Constraint((64, 128), 128),
    **dict.fromkeys((
        "flashinfer", "fa3", "triton", "torch_native", "flex_attention", "aiter", "wave", "dsa", "nsa", "qsa", "dsv4", "compressed",
        "intel_amx", "dual_chunk_flash_attn", "llada2_cfg_flashinfer", "minicpm_flashattn", "minicpm_flashinfer", "hybrid_linear_attn",
    )),
}  # fmt: skip
#: Backends whose pages bind where they decode, not where they prefill alone.
DECODE_ALONE = ("flashmla", "trtllm_mla", "cutlass_mla", "tokenspeed_mla", "intel_xpu")
DSA_PAGE, DSV4_PAGE = 64, 256
DSV4_RUNNING = 256  # max_running_requests of DeepSeek-V4 (arg_groups/deepseek_v4_hook.py)


def page_size(
    asked: int | None, named: tuple[str, ...], *, latent: bool, pooled_index: int | None, compressed: bool, sparse_page: int = DSA_PAGE,
    own: Mapping[str, tuple[int, ...]] = {},
) -> int:  # fmt: skip
    """Tokens per page.

    named         backends whose pages bind
    pooled_index  for a sparse latent model: tokens per indexer key (1, or more where keys are pooled); None: not sparse
    compressed    DeepSeek-V4, whose pages the engine sets itself
    sparse_page   indexer keys per page of a sparse latent model
    own           backend -> the sizes that it takes in this release, where those changed
    """
    if compressed:
        return DSV4_PAGE
    if pooled_index is not None:
        return sparse_page * pooled_index
    page = asked or 1
    for backend, constraint in BACKENDS.items():
        if constraint is None or backend not in named or (backend == "fa4" and latent):
            continue
        more = (16, 32) if latent and backend == "intel_xpu" else ()  # since 0.5.11
        page = page if page in own.get(backend, (*constraint.allowed, *more)) else constraint.forced
    return page
