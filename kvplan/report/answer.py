"""The answer in a sentence that a person would say, made of a plan's own figures, and what people ask next."""

from __future__ import annotations

from kvplan.ledger import Ledger
from kvplan.planner import remedies
from kvplan.planner.changes import in_the_way
from kvplan.planner.offload import in_ram, layers_said
from kvplan.planner.plan import Advice, Plan
from kvplan.report.printable import one_line
from kvplan.report.words import engine, flag, hardware, held, ranks, requests
from kvplan.units import GIB, counted, size


def sentence(plan: Plan) -> str:
    """Whether it fits, by how much, and the next number or the smallest change."""
    if plan.outcome.unknown:
        return f"Not known: {one_line(plan.outcome.unknown)}."
    if plan.fits is None:
        return _nothing_limits(plan)
    if plan.outcome.split:
        return _split(plan)
    return _yes(plan) if plan.fits else _no(plan)


def _split(plan: Plan) -> str:
    runs = "runs" if plan.asked("batch") == 1 else "run"
    change = next(iter(changes(plan)), None)
    then = "" if change is None else f" All on the GPU: {options(change)}."
    return f"Split: {requests(plan)} {runs} {_where(plan)}, {layers_said(plan)}.{then}"


def _nothing_limits(plan: Plan) -> str:
    total = sum(ledger.total_bytes * len(ledger.ranks) for ledger in plan.ledgers)
    parts = f"{size(plan.model.weight_bytes)} of weights and {size(plan.cache.total_bytes)} of cache"
    beside = (
        "" if total <= 1.01 * (plan.model.weight_bytes + plan.cache.total_bytes) else f", {size(total)} with all that {engine(plan)} holds"
    )
    return f"{requests(plan)}: {parts}{beside}. Whether that fits: name a --device, or the cache's own memory with --kv-memory."


def _yes(plan: Plan) -> str:
    opening = {"certain": "Yes", "likely": "Likely yes", "too close to call": "Too close to call, by the estimate yes"}[plan.certainty]
    if (split := layers_said(plan)) and plan.question["n_gpu_layers"][1] != "you":
        return f"{opening}, split: {requests(plan)} run{'s' if plan.asked('batch') == 1 else ''} {_where(plan)}, {split}."
    more = plan.capacity.max_batch if plan.capacity else None
    upto = f"; up to {more:,} at once" if more and more > plan.asked("batch") else ""
    verb = "fits" if plan.asked("batch") == 1 else "fit"
    risk = f" After the start: {one_line(plan.outcome.risk)}." if plan.outcome.risk else ""
    return f"{opening}: {requests(plan)} {verb} {_where(plan)}, {_spare(plan)}{upto}.{risk}{_in_doubt(plan)}"


def _in_doubt(plan: Plan) -> str:
    """What an answer that is too close to call hangs on, and what settles it."""
    if plan.certainty != "too close to call":
        return ""
    from kvplan.planner.surer import in_doubt, unmoved

    if not (text := in_doubt(plan, _a_device(plan))):
        return ""
    change = next(iter(changes(plan)), None) if plan.fits and not unmoved(plan) else None
    return f" In doubt: {one_line(text)}." + ("" if change is None else f" Surer: {options(change)}.")


def _where(plan: Plan) -> str:
    return f"{'on' if plan.asked('device') else 'in'} {hardware(plan)}"


def _spare(plan: Plan) -> str:
    left = size(plan.margin_bytes or 0)
    return f"{left}{_a_device(plan)} to spare"


def _a_device(plan: Plan) -> str:
    tight = plan.outcome.tightest
    if tight is not None and tight.device == "host":
        return " of RAM"
    return " a GPU" if ranks(plan) > 1 else ""


def _no(plan: Plan) -> str:
    opening = {"certain": "No", "likely": "Likely no", "too close to call": "Too close to call, by the estimate no"}[plan.certainty]
    if plan.certainty == "likely" and plan.margin_bytes is None and not plan.starts:
        opening = "No, by a check of this release"
    change = next(iter(changes(plan)), None)
    then = "" if change is None else f" Smallest change: {options(change)}."
    return f"{opening}: {_why(plan)}.{_in_doubt(plan)}{then}"


def _why(plan: Plan) -> str:
    """Why it does not fit: what lacks, and the settings that stand in the way of as much."""
    below = "".join(f", and {name} is {plan.asked(name):,}" for name in in_the_way(plan))
    return f"{_lacks(plan)}{below}" if (plan.margin_bytes or 0) < 0 else _lacks(plan)


def _lacks(plan: Plan) -> str:
    margin, where = plan.margin_bytes, hardware(plan)
    if margin is None or (margin >= 0 and not plan.starts):
        return f"{engine(plan)} would not start: {_reason(plan)}"
    if margin >= 0:
        verb = "does not fit" if plan.asked("batch") == 1 else "do not fit at once"
        return f"{requests(plan)} {verb}: {_reason(plan)}"
    worst = max(plan.ledgers, key=_over, default=None)
    over = _over(worst) if worst else 0
    if worst is not None and over > 0:
        alone = worst.bytes_of("weights") - (worst.limit_bytes or 0)
        beside = f", {size(alone)} of it for the weights alone" if 0 < alone < over else ""
        what = "for the weights alone" if alone >= over else "for weights, cache and overhead" if worst.cache_bytes else "before any cache"
        said = f"{where} lacks {size(over)}{_a_device(plan)} {what}{beside}"
        in_file = plan.starts and worst.device == "host"
        return f"{said}; it starts all the same, and reads them from their file again and again" if in_file else said
    lacks = f"{where} lacks {size(-margin)}{_a_device(plan)}"
    if plan.starts:
        capacity = plan.capacity
        n = capacity.max_batch if capacity else None
        most = f"; {n:,} {'fits' if n == 1 else 'fit'}" if n else ""
        most = f"; memory holds {more:,}" if (more := _in_memory(plan)) else most
        return f"{lacks} of cache for {requests(plan)}{most}"
    capacity, longest = plan.capacity, plan.asked("max_model_len") or plan.asked("context")
    if capacity is not None and capacity.kv_bytes > 0:
        one = (capacity.request_bytes or 0) - capacity.kv_bytes
        if plan.asked("batch") > 1 and 0 < one < -margin and longest == plan.asked("context"):
            first = f"{size(one)} for the first of them, without which {engine(plan)} would not start"
            return f"{lacks} of cache for {requests(plan)}, and {first}"
        return f"{lacks}: {engine(plan)} would not start with requests of {longest:,} tokens"
    return f"{lacks}: {_reason(plan)}"


def _in_memory(plan: Plan) -> int | None:
    """The most sequences that memory holds, where a number that was set stops before it; by the advice that lifts it."""
    return next((int(one.value) for one in plan.advice if one.option == "batch" and "max_num_seqs" in one.also), None)


def _over(ledger: Ledger) -> int:
    """What its lines hold beyond its limit."""
    return ledger.total_bytes - ledger.limit_bytes if ledger.limit_bytes is not None else 0


def _reason(plan: Plan) -> str:
    return one_line((plan.outcome.reason or plan.verdict).rstrip(". "))


def changes(plan: Plan) -> list[Advice]:
    """The advice: what costs nothing before RAM before more or other devices before half of what was asked; of each, what leaves room
    before what leaves next to nothing, what keeps the work before what halves it, more of the same before other, certain before likely."""

    def rank(one: Advice) -> tuple[int, ...]:
        other = one.option == "device" and not str(one.value).endswith(f"x{plan.asked('device')}")
        close = one.certainty == "too close to call"
        return _bought(plan, one), close, not _safe(plan, one), _halved(plan, one), other, one.certainty != "certain"

    return sorted(plan.advice, key=rank)


def _bought(plan: Plan, one: Advice) -> int:
    """0: nothing; 1: RAM; 2: another device, or more of them; 3: half of the work that somebody asked for."""
    if _halved(plan, one) and plan.question[one.option][1] == "you":
        return 3
    if one.option == "host_memory":
        return 1
    sets = {"tp": plan.asked("tp"), "pp": plan.asked("pp"), one.option: one.value, **one.also}
    ranks = int(sets["tp"] or 1) * int(sets["pp"] or 1)
    return 2 if "device" in sets or ranks > (plan.asked("tp") or 1) * (plan.asked("pp") or 1) else 0


def advice_title(plan: Plan) -> str:
    """What the changes are for."""
    if plan.fits:
        return "what would make it surer"
    return "what would put it all on the GPU" if plan.outcome.split else "what would make it fit"


def _safe(plan: Plan, one: Advice) -> bool:
    limit = min((ledger.limit_bytes for ledger in plan.ledgers if ledger.limit_bytes), default=plan.asked("kv_memory") or GIB)
    return one.margin_bytes >= remedies.ROOM * limit


def _halved(plan: Plan, one: Advice) -> bool:
    """Whether a change leaves less than half of the requests or of the length that was asked."""
    return one.option in ("batch", "context", "max_model_len") and 2 * int(one.value) < (plan.asked(one.option) or 0)


def options(one: Advice) -> str:
    """What to type: `--tp 4`."""
    return " ".join(flag(name, value) for name, value in ((one.option, one.value), *one.also.items()))


def advice_lines(plan: Plan) -> list[str]:
    """What would make it fit, a line each: what to type, what that is, what it leaves."""
    found = changes(plan)
    width = max((len(options(one)) for one in found), default=0)
    lines = []
    for one in found:
        sure = "" if one.certainty == "certain" else f", {one.certainty}"
        lines.append(f"  {one_line(options(one)):<{width}}  {one_line(one.change)}, leaves {size(one.margin_bytes)}{sure}")
    return lines


def next_numbers(plan: Plan) -> list[tuple[str, str]]:
    """The most requests, the longest context that fits, the cache of a token: what, and how much."""
    capacity, batch, context = plan.capacity, plan.asked("batch"), plan.asked("context")
    rows = []
    if capacity is not None and capacity.request_bytes and plan.fits is not None:
        split = " in this split" if plan.outcome.split else ""
        memory = f", by max_num_seqs; memory holds {n:,}" if (n := _in_memory(plan)) else ""
        rows.append((f"most requests of {context:,} tokens", f"{_limit(plan, capacity.max_batch)}{split}{memory}"))
        rows.append((f"longest context of {counted(batch, 'request')}", f"{_longest(plan)}{split}"))
    rows += [(f"tier of {tier.system}" + ("" if tier.what == "cache" else f", {tier.what}"), held(tier)) for tier in plan.outcome.tiers]
    slope, mean = plan.cache.bytes_per_token, plan.cache.average_bytes_per_token
    told = f"{slope:,} B" if isinstance(slope, int) else f"{slope:,.1f} B"
    told += "" if abs(mean - slope) < 1 else f" at {context:,} tokens, {mean:,.0f} B on average"
    rows.append(("cache of one token, all layers", told))
    return rows


def _limit(plan: Plan, n: int | None) -> str:
    return ("no limit but that of RAM" if in_ram(plan) else "no limit") if n is None else f"{n:,}" if n else "none fits"


def _longest(plan: Plan) -> str:
    """Of the question's batch; where a length that was set is what stops it, of memory too."""
    capacity = plan.capacity
    if capacity is None or not (n := capacity.max_context_at_batch):
        few = f": max_num_seqs is {plan.asked('max_num_seqs'):,}" if "max_num_seqs" in in_the_way(plan) else ""
        return _limit(plan, None if capacity is not None and capacity.max_context_at_batch is None else 0) + few
    beyond = capacity.max_context_unbounded if plan.asked("batch") == 1 else None
    if n == plan.asked("max_model_len") and plan.question["max_model_len"][1] == "you":
        told = f"; memory holds {beyond:,}" if beyond and beyond > n else ""
        return f"{n:,} tokens{told}" if n == plan.asked("context") and not told else f"{n:,} tokens, the longest request set{told}"
    return f"{n:,} tokens"
