"""The requests that a workload's keywords mean: drawn, from a file, or of users who wait for their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kvplan import files
from kvplan.api.asking import at_least_one
from kvplan.api.names import Workload
from kvplan.deployment import Deployment
from kvplan.errors import SpecError
from kvplan.units import parse_seconds

if TYPE_CHECKING:
    from kvplan.api.names import Question
    from kvplan.simulate.users import Habits
    from kvplan.simulate.workload import Arrivals, Request, Shape

REQUESTS = 1000
KINDS = ("prompt", "output")
#: Sees the requests of each run as they arrive, and how many there will be (None: not known); for a progress bar.
Watch = Callable[[Iterable["Request"], int | None], Iterable["Request"]]

#: What each keyword is where it is left out.
DEFAULTS = Workload(
    workload=None, rate=None, burstiness=1.0, requests=None, seed=0, prompt_lengths=None, output_lengths=None, prefixes=0, prefix_tokens=0,
    branch=0, depth=1, turns=1, think_seconds=10.0, samples=1, beams=1, trace=None, trace_format=None, users=None, tool_calls=0,
    tool_tokens=None, tool_seconds=1.0,
)  # fmt: skip
#: The most of what is held for each request or user at once, and of requests in all.
MOST = {"users": 1 << 20, "turns": 10_000, "tool_calls": 10_000, "depth": 10_000, "requests": 10**9}
#: Keywords that a trace has no use for, that users have none for, and that only users have.
_DRAWN = ("workload", "prompt_lengths", "output_lengths", "prefixes", "prefix_tokens", "branch", "turns", "samples", "beams")
_NOT_OF_USERS = ("rate", "burstiness", "branch", "depth", "samples", "beams", "trace", "trace_format")
_OF_USERS = ("tool_calls", "tool_tokens", "tool_seconds")


class Requested(NamedTuple):
    """replica: the requests of one of n replicas, the same at every call; users: how they behave, where users ask instead."""

    replica: Callable[[int], Iterable[Request]]
    described: dict[str, Any]
    notes: list[str]
    users: Habits | None = None


def parted(given: Mapping[str, Any]) -> tuple[Question, Workload]:
    """The keywords of a question, and those of its workload with what is left out."""
    question = {name: value for name, value in given.items() if name not in DEFAULTS}
    return cast("Question", question), cast("Workload", {**DEFAULTS, **{name: given[name] for name in DEFAULTS if name in given}})


def _given(w: Workload, names: Iterable[str]) -> list[str]:
    """Those of the names that somebody chose."""
    chosen, plain = cast("Mapping[str, Any]", w), cast("Mapping[str, Any]", DEFAULTS)
    return [name for name in names if chosen[name] != plain[name]]


def requested(d: Deployment, w: Workload, watch: Watch | None) -> Requested:
    """The requests of a workload. Raises SpecError for what has no meaning together."""
    from kvplan.simulate.workload import Arrivals

    if w["rate"] is not None:
        number("rate", w["rate"], above=True)
    arrivals = Arrivals(w["rate"], number("burstiness", w["burstiness"], above=True) ** -0.5)
    seed = whole("seed", w["seed"], 0)
    if w["users"] is not None:
        return _asking(d, w, seed)
    if given := _given(w, _OF_USERS):
        raise SpecError("workload", [(name, "belongs to users") for name in given])
    if w["trace"] is not None:
        if given := _given(w, _DRAWN):
            raise SpecError("trace", [(name, "describes drawn requests; a trace has its own") for name in given])
        every, described, notes = _traced(w["trace"], w["trace_format"], arrivals, w["requests"], seed)
    else:
        if w["trace_format"] is not None:
            raise SpecError("trace_format", [("", "name the file with trace")])
        every, described, notes = _drawn(d, w, arrivals, seed)
    described |= {"rate": w["rate"], "burstiness": w["burstiness"], "seed": seed}
    total = described["requests"]

    def replica(n: int) -> Iterable[Request]:
        mine = islice(every(), 0, None, n)
        return mine if watch is None else watch(mine, None if total is None else -(-total // n))

    return Requested(replica, described, notes)


Made = tuple[Callable[[], Iterator["Request"]], dict[str, Any], list[str]]
_COUNTS = ("prefixes", "prefix_tokens", "branch", "depth", "turns", "samples", "beams")


def _shape(d: Deployment, w: Workload) -> tuple[Shape, dict[str, Any]]:
    """Lengths and what requests share, and how that is described."""
    from kvplan.simulate.workload import named, parse_lengths

    name = w["workload"] or "sharegpt"
    shape, lengths = named(name), (w["prompt_lengths"], w["output_lengths"])
    prompt, output = (None if text is None else parse_lengths(text, f"{kind}_lengths") for kind, text in zip(KINDS, lengths, strict=True))
    if prompt or output:
        shape = shape._replace(prompt=prompt or shape.prompt, output=output or shape.output, max_tokens=1 << 30)
    every = cast("Mapping[str, Any]", w)
    n = {key: whole(key, every[key], 1 if key in ("depth", "turns", "samples", "beams") else 0) for key in _COUNTS}
    _agree(n)
    longest = d.max_model_len or d.context or d.model.max_context or 1 << 30
    shared = n["prefix_tokens"] * (n["depth"] if n["branch"] else 1)
    think = parse_seconds(w["think_seconds"], "think_seconds")
    whole_past = n["turns"] > 1 or w["users"] is not None
    shape = shape._replace(
        max_tokens=longest if whole_past else min(shape.max_tokens + shared, 1 << 30),
        prefixes=n["prefixes"], prefix_tokens=n["prefix_tokens"], branch=n["branch"], depth=n["depth"],
        turns=n["turns"], think_seconds=think, samples=n["samples"], width=n["beams"], beam=n["beams"] > 1,
    )  # fmt: skip
    described = {"name": name, "trace": None, "prompt_lengths": str(lengths[0] or "") or None,
                 "output_lengths": str(lengths[1] or "") or None, **n, "think_seconds": think}  # fmt: skip
    return shape, described


def _agree(n: Mapping[str, int]) -> None:
    """Raises SpecError for counts of a workload that are not drawn together, or of which one is missing."""
    if n["samples"] > 1 and n["beams"] > 1:
        raise SpecError("workload", [("beams", "samples or beams, not both")])
    if (n["prefixes"] or n["branch"]) and not n["prefix_tokens"]:
        raise SpecError("workload", [("prefix_tokens", "how many tokens do they share?")])
    if n["prefix_tokens"] and not (n["prefixes"] or n["branch"]):
        raise SpecError("workload", [("prefixes", "how many different ones are there?")])
    if n["turns"] > 1 and (n["samples"] > 1 or n["beams"] > 1 or n["branch"]):
        raise SpecError("workload", [("turns", "conversations are drawn with one answer a turn and without trees")])


def _drawn(d: Deployment, w: Workload, arrivals: Arrivals, seed: int) -> Made:
    """Requests drawn from distributions, and how they are described."""
    from kvplan.simulate.workload import generate

    shape, described = _shape(d, w)
    asked = _many(w["requests"]) or REQUESTS
    generate(shape, arrivals, asked, seed)  # says now what is wrong with it
    return lambda: generate(shape, arrivals, asked, seed), described | {"requests": asked}, []


def _many(requests: int | None) -> int | None:
    return None if requests is None else at_least_one("requests", whole("requests", requests, 1))


def _asking(d: Deployment, w: Workload, seed: int) -> Requested:
    """Users who wait for their answers; one after another (for a hit curve) they ask as if each answer came at once."""
    from kvplan.simulate.users import Habits, Users, one_after_another
    from kvplan.simulate.workload import parse_lengths

    if given := _given(w, _NOT_OF_USERS):
        raise SpecError(
            "users", [(name, "is of requests at a rate; users ask when they have their answer: leave it out") for name in given]
        )
    shape, described = _shape(d, w)
    users, calls = at_least_one("users", whole("users", w["users"], 1)), whole("tool_calls", w["tool_calls"], 0)
    if bool(calls) != (w["tool_tokens"] is not None):
        raise SpecError("workload", [("tool_tokens" if calls else "tool_calls", "tool_calls and tool_tokens go together")])
    results = parse_lengths(w["tool_tokens"], "tool_tokens") if w["tool_tokens"] is not None else None
    habits = Habits(users, shape, calls, results, parse_seconds(w["tool_seconds"], "tool_seconds"), seed, _many(w["requests"]))
    described |= {
        "requests": habits.looked_at, "users": users, "tool_calls": calls, "tool_tokens": str(w["tool_tokens"]) if calls else None,
        "tool_seconds": habits.tool_seconds, "rate": None, "burstiness": 1.0, "seed": seed,
    }  # fmt: skip
    return Requested(lambda n: islice(one_after_another(Users(habits)), 0, None, n), described, [], habits)


def _traced(path: str, format_name: str | None, arrivals: Arrivals, requests: int | None, seed: int) -> Made:
    """The requests of a file, read anew each time and never kept."""
    from kvplan.simulate.traces import IN_PIECES, detect, read, timed

    if format_name is None:
        format_name = detect(next(files.text(path), "")[:4096], path)
    if format_name == "sharegpt" and arrivals.rate is None:
        raise SpecError(path, [("", "conversations have no times; say how many requests come a second with rate")])
    most = None if requests is None else whole("requests", requests, 1)

    def told() -> Iterator[Request]:
        pieces = files.text(path)
        return read(pieces if format_name in IN_PIECES else files.lines(pieces, path), format_name, path)

    def every() -> Iterator[Request]:
        return islice(told() if arrivals.rate is None else timed(told(), arrivals, seed), most)

    next(told(), None)  # says now what is wrong with its beginning
    notes = ["ShareGPT texts are counted as a token for every 4 characters, each turn as a request"] if format_name == "sharegpt" else []
    if arrivals.rate is not None and format_name != "sharegpt":
        notes.append("the trace's own times are replaced by the rate asked for")
    return every, {"name": format_name, "trace": Path(path).name, "requests": most}, notes


def number(name: str, value: Any, *, above: bool = False) -> float:
    """A number of at least 0, or above it. Raises SpecError."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12 and (value > 0 or not above)
    if not good:
        raise SpecError(name, [("", f"{str(value)[:40]!r} is not a number {'above 0' if above else 'of at least 0'}")])
    return float(value)


def whole(name: str, value: Any, least: int) -> int:
    """A whole number of at least `least`, and at most what MOST says. Raises SpecError."""
    most = MOST.get(name, (1 << 40) - 1)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        bound = f" and at most {most:,}" if name in MOST else ""
        raise SpecError(name, [("", f"{str(value)[:40]!r} is not a whole number of at least {least}{bound}")])
    return value
