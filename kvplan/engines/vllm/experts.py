"""--moe-backend: which kernels experts of a format have, and on which GPUs (fused_moe/oracle/*.py map_*_backend, select_*_moe_backend and
the experts' _supports_current_device, 0.17 to 0.33)."""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common import conditions as on
from kvplan.engines.common.arguments import Effect, Times
from kvplan.engines.common.choices import among
from kvplan.engines.common.options import Options, read_lora
from kvplan.engines.common.passed import Passed
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.settling import stored_plain, weight_formats
from kvplan.engines.common.stops import Move, Stop, Values

#: How formats of experts begin -> the kernels' name in the message, and the backends that it takes.
KERNELS: dict[str, tuple[str, Times]] = {
    "fp8": (
        "FP8",
        {("", ""): "triton deep_gemm cutlass flashinfer_trtllm flashinfer_cutlass marlin aiter", ("0.24.0", ""): "humming hpc"},
    ),
    "nvfp4": (
        "NvFP4",
        {
            ("", ""): "cutlass flashinfer_trtllm flashinfer_cutlass flashinfer_cutedsl marlin",
            ("0.20.0", ""): "emulation",
            ("0.22.0", ""): "flashinfer_b12x",
            ("0.24.0", ""): "humming",
            ("0.28.0", ""): "b12x",
            ("0.31.0", ""): "flashinfer_moe_ep_cutedsl",
        },
    ),
}
#: Those of plain experts; from a release on they go by none of some quantised ones, instead of stopping.
PLAIN: Times = {
    ("", ""): "triton flashinfer_trtllm flashinfer_cutlass aiter",
    ("0.24.0", ""): "humming",
    ("0.26.0", ""): "batched_triton",
    ("0.32.0", ""): "marlin",
}
#: Backend, or experts' kind and backend -> majors of compute capability that it runs on, and not on AMD's; none: on AMD's alone.
#: FP8's cutlass: csrc scaled_mm_entry.cu cutlass_group_gemm_supported; deep_gemm: platforms/cuda.py support_deep_gemm.
MAJORS: dict[str, tuple[int, ...]] = {
    "flashinfer_trtllm": (10,), "flashinfer_cutlass": (9, 10, 11, 12), "flashinfer_cutedsl": (10,),
    "flashinfer_b12x": (12,), "b12x": (12,), "FP8 cutlass": (9, 10, 11, 12), "NvFP4 cutlass": (10, 11, 12),
    "deep_gemm": (9, 10, 12), "hpc": (9,), **dict.fromkeys(("marlin", "humming"), (7, 8, 9, 10, 11, 12)), "aiter": (),
}  # fmt: skip
_OTHER = (Move("option:moe_backend", "auto"),)


def _asked(settled: Settled) -> tuple[str, str, Times] | None:
    """The backend that experts are to run on, their kernels' name and backends; adapters have their own."""
    d = settled.question
    asked = (Options(d).text("moe_backend") or "auto").lower().replace("-", "_")
    if asked == "auto" or read_lora(d.lora) or not on.experts(settled.model):
        return None
    format_ = weight_formats(d)["experts"]
    if stored_plain(format_):
        return asked, "unquantized", PLAIN
    found = next((said for begins, said in KERNELS.items() if format_.startswith(begins)), None)
    return (asked, *found) if found else None


def chosen(d: Deployment) -> tuple[Passed, ...]:
    """What is asked of experts and not modelled: workspaces of one kind of kernels are 11 GiB more than another's (vllm#49476), and
    the experts of each token are kept for every slot of the cache, on the host (fused_moe/routed_experts_capturer.py)."""
    effect: Effect = "either" if d.model.routed else ""
    asked, returned = Options(d).text("moe_backend"), Options(d).flag("enable_return_routed_experts")
    kernels = () if asked in (None, "auto") else (Passed("moe_backend", asked, "--moe-backend", effect),)
    return (*kernels, Passed("enable_return_routed_experts", "true", "--enable-return-routed-experts", effect)) if returned else kernels


def unmapped(settled: Settled) -> Values:
    """A backend that experts of this format do not have."""
    found = _asked(settled)
    if found is None or among(found[2], found[0], settled.question.engine_version):
        return None
    return {"backend": found[0], "kind": found[1]}


def elsewhere(settled: Settled) -> Values:
    """A backend of other GPUs."""
    found, device = _asked(settled), settled.question.device
    if found is None or device is None or unmapped(settled):
        return None
    backend, kind, _ = found
    majors, has = MAJORS.get(backend, MAJORS.get(f"{kind} {backend}")), device.capability
    if kind == "unquantized" and backend in ("marlin", "humming"):  # they go by the release's own choice
        return None
    if majors is None or (not majors if device.vendor == "amd" else has is None or has // 10 in majors):
        return None
    return {"backend": backend, "platform": "rocm" if device.vendor == "amd" else "cuda"}


CHECKS: tuple[Stop, ...] = (
    Stop(
        "kernels of experts", "moe_backend='{backend:w}' is not supported for {kind:w} MoE.", "experts of this format have no such kernels",
        _OTHER, "model_executor/layers/fused_moe/oracle", since="0.17", when=unmapped, loading=True,
    ),
    Stop(
        "kernels of experts and GPU",
        "does not support the deployment configuration since kernel does not support current device {platform:w}.",
        "the kernels asked for are of other GPUs", (*_OTHER, Move("device", "another GPU")),
        "model_executor/layers/fused_moe/oracle", since="0.20", when=elsewhere, loading=True, numbers="{backend}",
    ),
)  # fmt: skip
