"""What a change of a file does to memory and capacity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kvplan.manifests.values import Place, Verdict
from kvplan.planner.plan import Plan


class Change(NamedTuple):
    """One engine before and after; `old` or `new` is None where it is only in the other. Numbers are (old, new), None where unknown.

    settings   names of the question whose value differs
    memory     bytes of the fullest rank: weights, cache, all the rest, total
    capacity   tokens, sequences at full length, longest request
    """

    name: str
    old: Verdict | None
    new: Verdict | None
    settings: dict[str, tuple[Any, Any]]
    memory: dict[str, tuple[int | None, int | None]]
    capacity: dict[str, tuple[Any, Any]]

    @property
    def place(self) -> Place:
        verdict = self.new or self.old
        return verdict.place if verdict else Place()

    def as_dict(self) -> dict[str, Any]:
        """Plain data: every pair as {old, new}."""

        def pairs(table: dict[str, tuple[Any, Any]]) -> dict[str, dict[str, Any]]:
            return {key: {"old": old, "new": new} for key, (old, new) in table.items()}

        return {
            "name": self.name,
            "status": {"old": self.old.status if self.old else None, "new": self.new.status if self.new else None},
            "settings": pairs(self.settings),
            "memory": pairs(self.memory),
            "capacity": pairs(self.capacity),
        }


def diff(old: Sequence[Verdict], new: Sequence[Verdict]) -> tuple[Change, ...]:
    """The engines of two checks, paired by name, then by order; what is alike in a pair is left out of `settings`."""
    pairs: list[tuple[Verdict | None, Verdict | None]] = []
    left = list(old)
    open_new: list[Verdict] = []
    for verdict in new:
        same = next((o for o in left if o.name == verdict.name), None)
        if same is None:
            open_new.append(verdict)
        else:
            left.remove(same)
            pairs.append((same, verdict))
    for verdict in open_new:
        pairs.append((left.pop(0) if left else None, verdict))
    pairs += [(verdict, None) for verdict in left]
    return tuple(_change(o, n) for o, n in pairs)


def _change(old: Verdict | None, new: Verdict | None) -> Change:
    before, after = _settings(old), _settings(new)
    names = dict.fromkeys((*before, *after))
    settings = {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}
    memory = {key: (_memory(old).get(key), _memory(new).get(key)) for key in ("weights", "cache", "other", "total")}
    capacity = {key: (_capacity(old).get(key), _capacity(new).get(key)) for key in ("tokens", "max_concurrency", "max_context", "blocks")}
    name = (new or old).name  # type: ignore[union-attr]
    return Change(name, old, new, settings, memory, capacity)


def _settings(verdict: Verdict | None) -> dict[str, Any]:
    if verdict is None or verdict.found is None:
        return {}
    found = verdict.found
    shown = {"model": found.model, "engine": found.engine, "engine_version": found.engine_version}
    if verdict.plan is not None:
        plan = verdict.plan.question
        shown |= {name: value for name, (value, _) in plan.items() if name not in ("model", "engine", "engine_option")}
        shown |= {f"engine_option.{key}": value for key, value in dict(plan["engine_option"][0] or {}).items()}
        return {k: v for k, v in shown.items() if v is not None}
    return {k: v for k, v in {**shown, **found.question}.items() if v is not None}


def _memory(verdict: Verdict | None) -> dict[str, int]:
    plan: Plan | None = verdict.plan if verdict else None
    if plan is None or not plan.ledgers:
        return {}
    ledger = max(plan.ledgers, key=lambda one: one.total_bytes)
    weights = sum(e.bytes for e in ledger.entries if e.name.startswith("weights"))
    cache = sum(e.bytes for e in ledger.entries if "cache" in e.name.lower())
    return {"weights": weights, "cache": cache, "other": ledger.total_bytes - weights - cache, "total": ledger.total_bytes}


def _capacity(verdict: Verdict | None) -> dict[str, Any]:
    plan = verdict.plan if verdict else None
    if plan is None or plan.capacity is None:
        return {}
    return {key: getattr(plan.capacity, key) for key in ("tokens", "max_concurrency", "max_context", "blocks")}
