"""TensorRT-LLM (PyTorch backend; the C++ runtime's releases by their block arithmetic): a dry run, then one pool or pools per window.

settings: the question with the engine's defaults; cells: bytes per token; pools: bytes to blocks under the V1 and the V2 cache manager;
budget: device to bytes; plan, answer: pools to an outcome. Sources are named in each file.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.base import Outcome, Settled, only_known_options
from kvplan.engines.shared import Refusal
from kvplan.engines.tensorrt_llm.plan import Plan
from kvplan.engines.tensorrt_llm.settings import OPTIONS, fill_in
from kvplan.engines.tensorrt_llm.versions import VERSIONS


class TensorRtLlm:
    """The engine `tensorrt-llm`."""

    name = "tensorrt-llm"
    versions = VERSIONS
    options: tuple[str, ...] = OPTIONS

    def settle(self, d: Deployment) -> Settled:
        """See Engine. Raises SpecError for options it does not have and sizes that do not divide; UnsupportedError for DeepSeek-V4."""
        only_known_options(d, self)
        return fill_in(d)

    def plan(self, settled: Settled) -> Outcome:
        """See Engine. A refusal to start is an outcome with the engine's own condition."""
        plan = Plan(settled.question)
        try:
            plan.check_formats()
            return plan.outcome()
        except Refusal as refusal:
            return plan.refused(refusal)


ENGINE = TensorRtLlm()
