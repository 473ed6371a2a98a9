"""When what was asked of experts over ranks stops vLLM, as the numbers of its texts (refusals.py).

config/parallel.py, model_executor/layers/fused_moe/layer.py, fused_moe/prepare_finalize/deepep_ll.py of vllm 0.9.2 to 0.33.0.
"""

from __future__ import annotations

from kvplan.engines.common import conditions as on
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.stops import Values
from kvplan.engines.vllm.exchange import HIDDEN, LOW_LATENCY
from kvplan.engines.vllm.settings import settings_of


def copies_alone(settled: Settled) -> Values:
    copies = Options(settled.question).count("num_redundant_experts", 0)
    return {"copies": copies} if copies and settings_of(settled).redundant is None else None


def unshared_experts(settled: Settled) -> Values:
    return {} if settings_of(settled).redundant is not None and (settled.question.ep or 1) == 1 else None


def uneven_experts(settled: Settled) -> Values:
    s, ep = settings_of(settled), settled.question.ep or 1
    n = on.experts(s.served)
    return {"experts": n, "ep": ep} if s.redundant is not None and n % ep else None


def wide_tokens(settled: Settled) -> Values:
    hidden = settled.question.model.hidden_size
    return {"hidden": hidden, "most": HIDDEN[-1]} if settings_of(settled).exchange == LOW_LATENCY and hidden > HIDDEN[-1] else None
