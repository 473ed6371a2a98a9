"""Environment variables against an engine's table: what they set, which of them a release reads, which are not known."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence

from kvplan.engines.common.arguments import Argument, Arguments, by_variable, has, lacks
from kvplan.engines.common.kinds import KINDS
from kvplan.engines.common.releases import three_parts
from kvplan.engines.common.words import Finding, Given, Place, Unresolved, Word, refuse, warn

#: How alike a word is to an option or a variable that it is taken for a slip of.
SURE = 0.85


def open_variable(to: str, name: str, missing: Sequence[str], place: Place) -> Unresolved:
    """An option whose value hangs on a variable."""
    what = to.lstrip("@!").partition(":")[2] or to.lstrip("@!")
    shown = ", ".join(dict.fromkeys(missing))
    contract = to.isidentifier()
    give = f"--{to.replace('_', '-')} VALUE" if contract else f"set {shown} where it is used, or ask with --env"
    if all(one.isdecimal() for one in missing):
        shown = ", ".join(f"${one}" for one in dict.fromkeys(missing))
        return Unresolved(what, f"{name} is {shown}, which the script or a function of it is called with", give, place)
    return Unresolved(what, f"{name} is {shown}, which is not known from the file", give, place)


def refused(name: str, message: str, place: Place) -> Finding:
    return refuse(f"{name}: {message}; the engine would stop with a usage error", place)


def unmodelled(argument: Argument, name: str, place: Place) -> Finding:
    means = {"more": "takes more memory", "less": "takes less memory on the device", "either": "changes memory"}[argument.effect]
    return Finding(f"not-modelled-{argument.effect}", "warning", f"{name} {means} in a way that is not modelled", place)


def environment(
    engine: Arguments, env: Mapping[str, Word], given: Mapping[str, Given], version: str | None
) -> tuple[dict[str, Given], list[Finding], list[Unresolved]]:
    """What variables set (values by `to`), what is to be said of them, what is open. `given`: the options, which win over them."""
    values: dict[str, Given] = {}
    findings: list[Finding] = []
    unresolved: list[Unresolved] = []
    table = by_variable(engine)
    for name, word in env.items():
        argument, off = table.get(name), False
        if argument is None and engine.negated[1] and name.startswith(engine.negated[1]):
            twin = table.get(name.replace(engine.negated[1], engine.negated[0], 1))
            argument, off = (twin, True) if twin and twin.takes == "switch" else (None, False)
        unread = list(_unread(engine, argument, name, word.place, version))
        findings += unread
        if unread and (version or argument is None):
            continue
        if argument is None:
            findings += _variable(engine, table, name, word.place)
            continue
        before = values.get(argument.to)
        if not argument.to or argument.to in given or (before and engine.negated[1] and before.spelled.startswith(engine.negated[1])):
            continue
        if off:
            values[argument.to] = Given(not argument.value, name, word.place)
            continue
        if word.missing:
            unresolved.append(open_variable(argument.to, name, word.missing, word.place))
            continue
        kind = "truth" if argument.takes in ("flag", "switch") and argument.kind == "text" else argument.kind
        try:
            value = KINDS[kind].read(word.text)
        except ValueError as error:
            heedless = engine.heedless and name.startswith(engine.prefix)
            if not heedless:
                findings.append(refused(name, str(error), word.place))
            elif kind != "truth":
                findings.append(warn("no-effect", f"{name} sets nothing: {error}; {engine.name} takes its default", word.place))
            if not heedless or kind != "truth":
                continue
            value = True
        if value is False and kind == "one_or_true" and argument.takes == "flag":
            continue
        values[argument.to] = Given(value, name, word.place)
        if argument.effect and value is not False:
            findings.append(unmodelled(argument, name, word.place))
    return values, findings, unresolved


def _unread(engine: Arguments, argument: Argument | None, name: str, place: Place, version: str | None) -> Iterator[Finding]:
    """That a release takes no notice of a variable that others read: what it would set is not set."""
    since, until = next((times for times, names in engine.variable_times.items() if name in names), ("", ""))
    times = Argument((name,), since=since, until=until)
    if not (since or until) or not (lacks(engine, times, version) if version else until):
        return
    option = next(
        (row.names[-1] for row in engine.rows if argument and row.to == argument.to and row.names and has(engine, row, version)), ""
    )
    instead = f"; {option} says it" if option else ""
    if not version:
        message = f"{engine.name} reads {name} up to {until}{instead}, and nothing here says the release: give --engine-version, or a tag"
    elif since and three_parts(version) < three_parts(since):
        message = f"{name} sets nothing: {engine.name} {version} does not read it yet; it is read from {since} on{instead}"
    else:
        message = f"{name} sets nothing: {engine.name} {version} does not read it any more; it was read up to {until}{instead}"
    yield Finding("unread-variable", "warning", message, place)


def _variable(engine: Arguments, table: Mapping[str, Argument], name: str, place: Place) -> Iterator[Finding]:
    """A variable that sets no option."""
    if name in engine.loud_variables:
        yield Finding("not-modelled-either", "warning", f"{name} changes memory in a way that is not modelled", place)
        return
    positive = name.replace(engine.negated[1], engine.negated[0], 1) if engine.negated[1] else name
    quiet = {name, positive} & {*engine.quiet_variables} or re.search(engine.quiet_named, name)
    if name.startswith(engine.prefix) and not quiet:
        near = difflib.get_close_matches(name, [*table, *engine.loud_variables], n=1, cutoff=SURE)
        hint = f"; did you mean {near[0]}?" if near else ""
        message = f"{name} is not a variable of {engine.name} that we know; it may change memory{hint}"
        yield Finding("unknown-variable", "warning" if engine.quiet_variables or near else "note", message, place)
