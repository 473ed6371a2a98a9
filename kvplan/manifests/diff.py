"""What a change of a file does to memory and capacity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kvplan.engines.common.words import Place
from kvplan.manifests.values import Verdict
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
    def exit_code(self) -> int:
        """That of the engine as it is now; 0 where it is gone."""
        return self.new.exit_code if self.new else 0

    @property
    def place(self) -> Place:
        verdict = self.new or self.old
        return verdict.place if verdict else Place()

    def as_dict(self) -> dict[str, Any]:
        """Plain data: every pair as {old, new}."""

        def pairs(table: dict[str, tuple[Any, Any]]) -> dict[str, dict[str, Any]]:
            return {key: {"old": old, "new": new} for key, (old, new) in table.items()}

        def public(data: Any) -> Any:
            for verdict in (self.old, self.new):
                data = verdict.private.out_of(data) if verdict else data
            return data

        return {
            "name": public(self.name),
            "was": public(self.old.name) if self.old else None,
            "status": {"old": self.old.status if self.old else None, "new": self.new.status if self.new else None},
            "message": public(self.new.message) if self.new else None,
            "settings": public(pairs(self.settings)),
            "memory": pairs(self.memory),
            "capacity": pairs(self.capacity),
        }


def diff(old: Sequence[Verdict], new: Sequence[Verdict]) -> tuple[Change, ...]:
    """The engines of two checks in pairs: of one name, else renamed; what is alike in a pair is left out of `settings`.

    One that was renamed serves the same model with the same engine. Commands of scripts have no names but their model's: those left over
    are paired in their order. Files that start nothing, and are not broken, have no engine to pair.
    """
    left, right = [v for v in old if v.status != "empty"], [v for v in new if v.status != "empty"]
    pairs: dict[int, Verdict] = {}

    def pair(alike: Callable[[Verdict, Verdict], bool]) -> None:
        for n, verdict in enumerate(right):
            same = next((o for o in left if n not in pairs and alike(o, verdict)), None)
            if same is not None:
                left.remove(same)
                pairs[n] = same

    pair(lambda o, v: o.name == v.name)
    pair(lambda o, v: _serves(o) == _serves(v) and o.found is not None)
    pair(lambda o, v: _unnamed(o) and _unnamed(v))
    changes = [_change(pairs.get(n), verdict) for n, verdict in enumerate(right)]
    return (*changes, *(_change(verdict, None) for verdict in left))


def _serves(verdict: Verdict) -> tuple[str, str | None] | None:
    return (verdict.found.engine, verdict.found.model) if verdict.found else None


def _unnamed(verdict: Verdict) -> bool:
    """A command that goes by its model, or a file that can not be read."""
    return verdict.found is None or ("/" not in verdict.name.split(" ")[0] and " " in verdict.name)


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
    weights = ledger.bytes_of("weights")
    cache = ledger.bytes_of("cache")
    return {"weights": weights, "cache": cache, "other": ledger.total_bytes - weights - cache, "total": ledger.total_bytes}


def _capacity(verdict: Verdict | None) -> dict[str, Any]:
    plan = verdict.plan if verdict else None
    if plan is None or plan.capacity is None:
        return {}
    return {key: getattr(plan.capacity, key) for key in ("tokens", "max_concurrency", "max_context", "blocks")}
