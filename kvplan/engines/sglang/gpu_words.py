"""Options of a release that ask for a GPU which this one is not, in its words: server_args.py, later arg_groups/*, 0.5.15 to 0.5.23."""

from __future__ import annotations

from kvplan.engines.common.conditions import capability
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.sglang.backends import is_blackwell
from kvplan.engines.sglang.fraction import on_amd


def handed_over(settled: Settled) -> Values:
    """Images handed over in the memory of NVIDIA's GPUs."""
    way = Options(settled.question).text("mm_feature_transport") or "auto"
    return {"way": way} if way.startswith("cuda") and on_amd(settled.question) else None


def exchanged(settled: Settled) -> Values:
    """Parts of attention exchanged by FlashInfer's kernel."""
    return {} if Options(settled.question).text("dcp_comm_backend") == "fi_a2a" and on_amd(settled.question) else None


def _rounds(settled: Settled) -> bool:
    return Options(settled.question).flag("enable_mamba_cache_stochastic_rounding")


def rounded_on_amd(settled: Settled) -> Values:
    return {} if _rounds(settled) and on_amd(settled.question) else None


def rounded_by_triton(settled: Settled) -> Values:
    """States rounded by chance in Triton's kernels, which releases take where none are named."""
    d = settled.question
    triton = Options(d).text("mamba_backend") in (None, "triton")
    return {} if _rounds(settled) and triton and capability(d) is not None and not is_blackwell(d) else None


_ROUNDING = Move("option:enable_mamba_cache_stochastic_rounding", "false")

STOPS: tuple[Stop, ...] = (
    Stop(
        "features in GPU memory", "--mm-feature-transport={way:w} requires NVIDIA CUDA.", "it shares the memory of NVIDIA's GPUs",
        (Move("option:mm_feature_transport", "cpu"),), "server_args.py; arg_groups/serving_hook.py", since="0.5.16", when=handed_over,
    ),
    Stop(
        "exchange of ranks", "--dcp-comm-backend fi_a2a delegates the exchange to FlashInfer's MNNVL All-to-All kernel",
        "that kernel is NVIDIA's", (Move("option:dcp_comm_backend", "a2a or ag_rs"),), "server_args.py; arg_groups/parallel_hook.py",
        since="0.5.17", when=exchanged,
    ),
    Stop(
        "rounding of states", "Stochastic rounding for the Mamba SSM cache is only supported on NVIDIA CUDA platforms.",
        "its kernels are NVIDIA's", (_ROUNDING,), "server_args.py; arg_groups/mamba_hook.py", since="0.5.15", when=rounded_on_amd,
    ),
    Stop(
        "rounding of states", "Stochastic rounding for the Mamba SSM cache with --mamba-backend triton requires SM100",
        "Triton rounds by chance on 10.x alone", (Move("option:mamba_backend", "flashinfer"), _ROUNDING),
        "server_args.py; arg_groups/mamba_hook.py", since="0.5.15", when=rounded_by_triton,
    ),
)  # fmt: skip
