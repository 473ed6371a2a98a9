"""Which methods of quantisation LMDeploy's backends read of a checkpoint's config, as of 0.18: with another a start is too close to call.

TurboMind: lmdeploy/turbomind/converter.py ("unsupported quant_config", "compressed-tensors only supports pack-quantized format"). PyTorch:
lmdeploy/pytorch/nn/linear/__init__.py ("Unsupported quant method").
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.dtypes import weight_scheme
from kvplan.engines.common.settling import checkpoint_format

READ = {
    "turbomind": frozenset({"awq", "compressed-tensors", "fp8", "gptq", "mxfp4"}),
    "pytorch": frozenset({"awq", "compressed-tensors", "fp8", "gptq", "modelslim", "mxfp4", "smooth-quant"}),
}


def unread(d: Deployment, backend: str) -> tuple[str, ...]:
    """Reasons, in words that finish `too close to call at most:`."""
    own, method = checkpoint_format(d), d.model.method
    if d.kv_memory is not None or not method or d.weight_dtype not in (None, own):
        return ()
    title = {"turbomind": "TurboMind", "pytorch": "LMDeploy's PyTorch engine"}[backend]
    if method not in READ[backend]:
        return (f"{title} reads no checkpoints in {method}",)
    if backend == "turbomind" and method == "compressed-tensors" and any(weight_scheme(one) != "int" for one in own.split("+")):
        return (f"{title} reads compressed-tensors of 4-bit integers alone",)
    return ()
