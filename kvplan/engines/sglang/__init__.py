"""SGLang 0.4.3 to 0.5.23: static pools, sized from what is free after the weights, without a profiling forward.

settings: the question with SGLang's defaults; memory: defaults by GPU memory; cells: bytes per token; pools, deepseek_v4: bytes to
tokens; budget: device to bytes; plan, answer: pools to an outcome. Sources are named in each file, with the release they were read in.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.base import Outcome, Settled, only_known_options
from kvplan.engines.sglang.plan import Plan
from kvplan.engines.sglang.settings import OPTIONS, fill_in
from kvplan.engines.sglang.versions import VERSIONS
from kvplan.engines.shared import Refusal


class Sglang:
    """The engine `sglang`."""

    name = "sglang"
    versions = VERSIONS
    options: tuple[str, ...] = OPTIONS

    def settle(self, d: Deployment) -> Settled:
        """See Engine. Raises SpecError for options it does not have and sizes that do not divide."""
        only_known_options(d, self)
        return fill_in(d)

    def plan(self, settled: Settled) -> Outcome:
        """See Engine. A refusal to start is an outcome with the engine's own condition."""
        plan = Plan(settled.question)
        try:
            plan.check_heads()
            plan.check_length()
            plan.check_formats()
            return plan.outcome()
        except Refusal as refusal:
            return plan.refused(refusal)


ENGINE = Sglang()
