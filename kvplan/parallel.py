"""Who holds what: heads over tensor-parallel ranks, layers over pipeline stages."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kvplan.errors import UnsupportedError
from kvplan.units import cdiv


class Layout(NamedTuple):
    """Parallel sizes. One data-parallel replica spans tp x pp ranks; ep and dcp reuse its tensor-parallel ranks."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    dcp: int = 1


def heads_per_rank(heads: int, tp: int, rule: Literal["ceil", "floor"] = "ceil") -> int:
    """Heads on the fullest rank: at least one, so beyond `heads` ranks they are replicated (a latent has one head: always)."""
    return max(1, cdiv(heads, tp) if rule == "ceil" else heads // tp)


def split_layers(n_layers: int, stages: int, remainder: Literal["first", "last", "before_last"]) -> list[range]:
    """The layers of each pipeline stage; layers left over go one each as `remainder` says.

    `before_last` is vLLM's get_pp_indices (vllm/distributed/utils.py, 0.6 and later), which keeps the last stage, with its head,
    light; `last` is SGLang's.
    """
    if stages > n_layers:
        raise UnsupportedError(f"pp {stages} is more than the model's {n_layers} layers: at least one layer a stage")
    sizes = [n_layers // stages] * stages
    for i in range(n_layers % stages):
        sizes[{"first": i, "last": stages - 1 - i, "before_last": stages - 2 - i}[remainder]] += 1
    starts = [sum(sizes[:i]) for i in range(stages)]
    return [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]
