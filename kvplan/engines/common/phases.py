"""Whether a device holds what a start asks of it at every moment, beside what the engine itself checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.engines.common.lines import PHASED, certainty, least_sure, sure_of
from kvplan.engines.common.protocol import Certainty, Facts, Outcome
from kvplan.ledger import PHASES, Entry, Ledger, Peak, Phase
from kvplan.units import GIB, show_bytes

#: What contexts and libraries of a process may hold on a device: SGLang's is 0.36 to 0.99 GB (calibration/sglang.yaml).
PROCESS_BYTES = GIB

#: Share of a device that no line says, beyond the high end of all of them. Of starts that were asked blind of engines that set a pool aside
#: (the eleventh to the twentieth set, docs/limits.md) five of the ten that it makes too close to call had failed, of 95 certain left, six.
UNSAID = 0.01

#: What goes wrong in a phase, for a sentence.
WORDS: dict[Phase, str] = {
    "load": "while the weights are loaded",
    "profile": "in the profile run",
    "allocate": "when the cache is allocated",
    "capture": "while CUDA graphs are captured",
    "warm up": "at warm-up",
    "serve": "in service",
}


class Moment(NamedTuple):
    """What a phase leaves of the device on a rank, in bytes: the estimate and the ends of its interval (negative: missing).

    The low end is what is left beside all lines at their high ends and what none of them says.
    """

    rank: int
    peak: Peak
    device_bytes: int
    spare: int
    low: int
    high: int


def moments(ledgers: Sequence[Ledger], *, serving: bool) -> list[Moment]:
    """The phases of every rank whose device is known. `serving`: service alone, else the start."""
    return [
        Moment(ledger.ranks[0], peak, device, device - peak.bytes, device - peak.high - int(UNSAID * device), device - peak.low)
        for ledger in ledgers
        if (device := ledger.device_bytes) is not None
        for peak in map(ledger.peak, ("serve",) if serving else PHASES[:-1])
    ]


def close(ledgers: Sequence[Ledger], room: float) -> tuple[str, ...]:
    """Why a start is likely at most: a phase may leave less than such a share of its device."""
    least = min((1 - moment.peak.high / moment.device_bytes for moment in moments(ledgers, serving=False)), default=room)
    return (f"of starts like it that may leave less than {room:.0%} of the device one in four ran out",) if least < room else ()


def tightest(ledgers: Sequence[Ledger], *, serving: bool) -> Moment | None:
    """The phase that leaves least; None where no ledger knows its device."""
    return _least(moments(ledgers, serving=serving))


def _least(found: Sequence[Moment]) -> Moment | None:
    return min(found, key=lambda moment: moment.spare, default=None)


def _sure(moment: Moment) -> Certainty:
    return sure_of(moment.spare, moment.low, moment.high, PHASED)


def doubted(outcome: Outcome, why: Sequence[str], most: Certainty) -> Outcome:
    """A start that is called no surer than `most`, where there is a reason to doubt what is not measured."""
    if not why or not outcome.starts:
        return outcome
    start = least_sure(outcome.start_certainty or outcome.certainty, most)
    return outcome._replace(start_certainty=start, certainty=least_sure(outcome.certainty, most) if outcome.fits else outcome.certainty)


def judged(outcome: Outcome, facts: Facts) -> Outcome:
    """An engine's outcome with what the device itself says: of a start, and of service after it, where the cache is set aside.

    Elsewhere no answer is surer than what a process holds that no line says; nowhere is one certain that lines of few sources decide.
    """
    found = _by_device(outcome, facts)
    start, fit = _few_start(found), _few_fit(found)
    if start or (fit and found.starts == found.fits):
        found = found._replace(start_certainty=least_sure(found.start_certainty or found.certainty, "likely"))
    return found._replace(certainty=least_sure(found.certainty, "likely")) if fit or (start and found.fits) else found


#: Sources that have nothing to do with one another, below which no line is sure enough to decide (calibration/*.yaml `groups`).
FEW = 5


def _few(entries: Sequence[Entry]) -> tuple[int, int]:
    """What lines of few sources hold together, in bytes: the estimate, and the high end."""
    lines = [entry for entry in entries if entry.basis == "modelled" and entry.sources is not None and entry.sources < FEW]
    return sum(entry.bytes for entry in lines), sum(entry.high for entry in lines)


def _decided(margin: int, entries: Sequence[Entry]) -> bool:
    """Whether the answer would be another if such lines held nothing, or as much again as their high end."""
    held, high = _few(entries)
    return -held < margin < 0 or 0 <= margin < high


def _few_start(outcome: Outcome) -> bool:
    """Lines of few sources that no budget counts decide whether the device holds a phase of the start."""
    if outcome.starts is None:
        return False
    found = False
    for ledger in outcome.ledgers:
        for phase in PHASES[:-1]:
            beside = [entry for entry in ledger.outside if entry.held_in(phase)]
            if ledger.device_bytes is not None and beside:
                found |= _decided(ledger.device_bytes - ledger.peak(phase).bytes, beside)
    return found


def _few_fit(outcome: Outcome) -> bool:
    """Lines of few sources decide what is left for the cache."""
    ledger = outcome.tightest
    if outcome.margin_bytes is None or ledger is None or ledger.limit_bytes is None:
        return False
    return _decided(outcome.margin_bytes, ledger.entries)


def _by_device(outcome: Outcome, facts: Facts) -> Outcome:
    """`judged`, by all lines alike."""
    if facts.pool != "set aside":
        found = _unsaid(outcome) if facts.versions else outcome
        known = found.starts and found.margin_bytes is not None  # its ledgers are of service: what it holds when all sequences are there
        return found._replace(
            start_certainty=found.start_certainty or found.certainty, survives=(found.margin_bytes or 0) >= 0 if known else None
        )
    outcome = _unsaid(outcome)
    starting = moments(outcome.ledgers, serving=False)
    start, service = _least(starting), tightest(outcome.ledgers, serving=True)
    if not outcome.starts or start is None or service is None:
        return outcome._replace(start_certainty=outcome.start_certainty if outcome.starts else outcome.certainty)
    if start.spare < 0:
        return outcome._replace(
            starts=False,
            fits=False,
            survives=False,
            certainty=_sure(start),
            start_certainty=_sure(start),
            margin_bytes=start.spare,
            limiting_rank=start.rank,
            reason=_reason(start),
        )
    phases = least_sure(*map(_sure, starting))
    if outcome.fits:
        outcome = outcome._replace(certainty=least_sure(outcome.certainty, phases))
    own = outcome.start_certainty or (outcome.certainty if outcome.fits else "certain")
    outcome = outcome._replace(start_certainty=least_sure(own, phases))
    if service.spare < 0:
        return outcome._replace(
            survives=False, risk=f"{_reason(service)}; a smaller memory_fraction or max_num_batched_tokens leaves it room"
        )
    return outcome._replace(survives=True)


def _unsaid(outcome: Outcome) -> Outcome:
    """Less sure where contexts and libraries have no line, and the margin is of their size, or what a pool leaves of a device."""
    rooms = [(one.device_bytes or one.limit_bytes) - one.peak("serve").bytes for one in outcome.ledgers if one.device and one.limit_bytes]
    told = any(entry.kind == "process" for ledger in outcome.ledgers for entry in (*ledger.entries, *ledger.outside))
    margin = outcome.margin_bytes
    if not outcome.fits or told or not rooms or margin is None:
        return outcome
    margin = min(margin, *rooms)
    sure = certainty(margin >= PROCESS_BYTES, True, True, margin, PROCESS_BYTES // 2, PROCESS_BYTES // 2)
    return outcome._replace(
        certainty=least_sure(outcome.certainty, sure), start_certainty=least_sure(outcome.start_certainty or sure, sure)
    )


def _reason(moment: Moment) -> str:
    """Such as: out of memory while CUDA graphs are captured: 23.90 GiB of the device's 23.53 GiB."""
    held, has = show_bytes(moment.peak.bytes), show_bytes(moment.device_bytes)
    return f"out of memory {WORDS[moment.peak.phase]}: rank {moment.rank} would hold {held} of the device's {has}"
