"""What a manifest says, as values: what was found, what could not be resolved, and what is to be said about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from kvplan.engines.common.words import Finding, Given, Place, Unresolved
from kvplan.manifests.host import Limits
from kvplan.manifests.private import Private
from kvplan.planner.plan import Plan, plain

Status = Literal["fits", "starts", "refuses", "unknown", "broken", "empty"]


class Found(NamedTuple):
    """One engine that a file starts.

    name        as the file calls it: a service, `Deployment/llm`, or the command
    document    of the file, from 1; span: its first and last line
    question    names of the contract -> values, as the engine reads them; n_devices is what is there, over all nodes
    places      where each of them is set
    local_dp    data parallel ranks that run here, where fewer than all
    weights     the engine's word for what the checkpoint is stored in, where the command says one
    trusts      whether code of the model's repository may run
    by_kind     what stops it with a kind of model (exclusions.py)
    host        what is started together on one machine; empty: not known. on: the devices of it that the engine sees (together.py)
    limits      what its container may hold beside the GPU
    copies      how many of it run on that machine, all with the same devices
    shared      what it leaves of its devices may be for others: a job of several nodes, devices that are chosen when it runs
    """

    file: str
    document: int
    span: tuple[int, int]
    name: str
    engine: str
    engine_version: str | None
    model: str | None
    question: Mapping[str, Any]
    places: Mapping[str, Place]
    unresolved: tuple[Unresolved, ...] = ()
    findings: tuple[Finding, ...] = ()
    local_dp: int | None = None
    weights: Given | None = None
    trusts: bool = True
    by_kind: tuple[tuple[str, Finding], ...] = ()
    host: str = ""
    on: tuple[str, ...] = ()
    limits: Limits = Limits()
    copies: int = 1
    shared: bool = False

    @property
    def place(self) -> Place:
        return self.places.get("command", Place(self.span[0]))


class Verdict(NamedTuple):
    """What one engine of a file will do.

    status   fits: starts, and holds what was asked; starts: starts, but does not hold it; refuses: would not start;
             unknown: something needed is not known; broken: the file can not be read; empty: no engine in it
    plan     the answer of the planner, None where it was not asked
    private  values of the environment that plain data does not hold
    """

    file: str
    name: str
    status: Status
    message: str
    found: Found | None = None
    plan: Plan | None = None
    findings: tuple[Finding, ...] = ()
    unresolved: tuple[Unresolved, ...] = ()
    private: Private = Private()

    @property
    def exit_code(self) -> int:
        """0: fits; 1: would not start, or does not hold what was asked; 2: not known, not readable, nothing there."""
        return {"fits": 0, "starts": 1, "refuses": 1, "unknown": 2, "broken": 2, "empty": 2}[self.status]

    @property
    def place(self) -> Place:
        return self.found.place if self.found else self.findings[0].place if self.findings else Place()

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as `--format json` prints it."""
        found, public = self.found, self.private.out_of
        findings = [(f.rule, f.severity, public(f.message), f.place) for f in self.findings]
        return {
            "file": self.file,
            "line": self.place.line,
            "name": public(self.name),
            "status": self.status,
            "exit_code": self.exit_code,
            "message": public(self.message),
            "engine": found.engine if found else None,
            "engine_version": public(found.engine_version) if found else None,
            "model": public(found.model) if found else None,
            "question": public(dict(found.question)) if found else {},
            "unresolved": [{"what": u.what, "why": public(u.why), "give": public(u.give), "line": u.place.line} for u in self.unresolved],
            "findings": [{"rule": r, "severity": s, "message": m, "line": p.line, "column": p.column} for r, s, m, p in findings],
            "plan": self._plan() if self.plan else None,
        }

    def _plan(self) -> dict[str, Any]:
        """The plan; where it repeats words of the question, without what is private."""
        assert self.plan is not None
        data: dict[str, Any] = plain(self.plan.as_dict())
        return data | {name: self.private.out_of(data[name]) for name in ("question", "verdict", "advice", "capacity")}
