"""What public starts of SGLang ran out of and nothing here sizes: such a start is too close to call, whatever room is left."""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.conditions import experts
from kvplan.engines.common.options import Options
from kvplan.engines.sglang import adapters, exchange
from kvplan.engines.sglang.fraction import on_amd
from kvplan.engines.sglang.rules import SglangRules
from kvplan.tensors import Lowered

#: Flags whose refusals are known, and not what they hold; two public starts ran out with HiSparse (tests/threads, dg-glm52).
MORE = ("enable_two_batch_overlap", "enable_hisparse")


def undecided(d: Deployment, model: Lowered, rules: SglangRules, attention_dp: int, *, scores: bool) -> tuple[str, ...]:
    """Reasons, in words that finish `too close to call at most:`. `scores`: decode graphs hold those of an indexer.

    Experts under attention data parallelism: their kernels keep every rank's tokens for every expert beside the fraction. 6.38 GiB of
    256 experts x 4,352 tokens ran out of a B200 at 0.90 (sglang issue 25453), graphs of an H200 on 0.4.5 (issue 5634).
    Scores: DeepSeek-V4.1's ran out of B200s, GB300s and H200s (sglang PR 38861), dense ones of every request at the most context.
    """
    found, options = [*adapters.undecided(d, model, rules), *exchange.unsized(d, model)], Options(d)
    more = [key for key in MORE if options.flag(key)] + ["moe_dp_size"] * ((options.count("moe_dp_size") or 1) > 1)
    found += [f"--{key.replace('_', '-')} takes more memory in a way that is not modelled" for key in more]
    if attention_dp > 1 and experts(model):
        found.append("what the experts' kernels hold of every rank's tokens under attention data parallelism is not modelled")
    if scores:
        found.append("what decode graphs hold of an indexer's scores over the whole context is not modelled")
    if on_amd(d) and "nvfp4" in (d.weight_dtype or ""):
        found.append("on AMD GPUs SGLang takes few NVFP4 checkpoints: modelopt_fp4 quantization is currently not supported in ROCm")
    return tuple(found)
