"""A simulation as a picture: occupancy, waste by cause, concurrency against the promise, hit rate. Needs matplotlib (the `plot` extra)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvplan.errors import SpecError
from kvplan.extras import missing
from kvplan.report.printable import one_line

if TYPE_CHECKING:
    from kvplan.planner.simulation import Simulation

ENDINGS = (".png", ".svg", ".pdf")
CAUSES = {"stored": "tokens stored", "reserved": "reserved", "internal": "internal", "external": "free or external"}


def ready(path: str) -> None:
    """Says before a long run what would stop the picture after it. Raises KvplanError."""
    if not path.endswith(ENDINGS):
        raise SpecError("plot", [("", f"{path!r}: a file that ends in {', '.join(ENDINGS)}")])
    if not os.path.isdir(Path(path).absolute().parent):
        raise SpecError("plot", [("", f"{path!r}: there is no such folder")])
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise missing("a picture needs matplotlib", "plot") from None


def draw(simulation: Simulation, path: str) -> None:
    """Writes the picture to a file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8), layout="constrained")
    panels = figure.subplots(2, 2)
    what = simulation.workload
    title = f"{one_line(simulation.plan.model.name)}: {one_line(what['trace'] or what['name'])}, {what['rate'] or 'no'} requests a second"
    figure.suptitle(title, parse_math=False)
    _occupancy(panels[0][0], simulation)
    _waste(panels[0][1], simulation)
    _concurrency(panels[1][0], simulation)
    _hits(panels[1][1], simulation)
    save(figure, path)


def save(figure: Any, path: str) -> None:
    """Writes a figure of matplotlib. Raises SpecError where the file can not be written."""
    try:
        figure.savefig(path)
    except OSError as error:
        raise SpecError("plot", [("", f"{path!r} can not be written: {error.strerror or error}")]) from None


def _occupancy(panel: Any, simulation: Simulation) -> None:
    for result in simulation.policies:
        panel.plot(result.timeline.seconds, [100 * n / result.pages for n in result.timeline.pages], label=result.policy, linewidth=1)
    panel.set(title="Occupancy", xlabel="seconds", ylabel="pool in use, %", ylim=(0, 105))
    panel.legend(fontsize="small")


def _waste(panel: Any, simulation: Simulation) -> None:
    names, below = [result.policy for result in simulation.policies], [0.0] * len(simulation.policies)
    for cause, label in CAUSES.items():
        shares = [100 * getattr(result, cause) for result in simulation.policies]
        panel.bar(names, shares, bottom=below, label=label)
        below = [a + b for a, b in zip(below, shares, strict=True)]
    panel.set(title="What the pool holds", ylabel="share of the pool, %", ylim=(0, 115))
    panel.legend(fontsize="small", loc="upper center", ncols=4)


def _concurrency(panel: Any, simulation: Simulation) -> None:
    for result in simulation.policies:
        panel.plot(result.timeline.seconds, result.timeline.running, label=f"{result.policy}: running", linewidth=1)
    promised = next((result.promised for result in simulation.policies if result.promised), None)
    if promised:
        panel.axhline(promised, color="black", linestyle="--", label="longest requests promised at once")
    panel.set(title="Concurrency against the promise", xlabel="seconds", ylabel="requests")
    panel.set_ylim(bottom=0)
    panel.legend(fontsize="small")


def _hits(panel: Any, simulation: Simulation) -> None:
    panel.set(title="Prefix tokens found so far", xlabel="seconds", ylabel="of prompt tokens, %", ylim=(0, 105))
    looked = [result for result in simulation.policies if result.asked_tokens]
    for result in looked:
        line = result.timeline
        rates = [100 * hit / asked if asked else 0.0 for hit, asked in zip(line.hit_tokens, line.asked_tokens, strict=True)]
        panel.plot(line.seconds, rates, label=result.policy, linewidth=1)
    if looked:
        panel.legend(fontsize="small")
    else:
        panel.text(0.5, 0.5, "no prefixes were shared", ha="center", transform=panel.transAxes)
