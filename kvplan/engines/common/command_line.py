"""Words of a command line, and variables, against an engine's table."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kvplan.engines.common.arguments import RELEASE, Answer, Argument, Arguments, has, lacks
from kvplan.engines.common.choices import unknown, within
from kvplan.engines.common.dotted import is_negative, undotted
from kvplan.engines.common.environment import SURE, environment, open_variable, refused, unmodelled
from kvplan.engines.common.exclusions import excluded
from kvplan.engines.common.kinds import KINDS
from kvplan.engines.common.releases import release, three_parts
from kvplan.engines.common.words import Finding, Given, Place, Severity, Unresolved, Word

#: What decides a verdict alone: parallel sizes and the length.
DECIDING = frozenset({"tp", "pp", "dp", "dcp", "@local_dp", "@nodes", "max_model_len"})
#: Options that differ between the members of a group; left open, the leader is meant.
OWN_TO_A_MEMBER = frozenset({"@rank"})


Missing = tuple[str, ...]


class Parsed(NamedTuple):
    """Options by what they set (`to`), all of them by their long spelling, positional words, and what is to be said."""

    given: Mapping[str, Given]
    seen: Mapping[str, Any]
    positional: tuple[Word, ...]
    findings: tuple[Finding, ...]
    unresolved: tuple[Unresolved, ...]


#: Beginnings of switches, and of what turns them off (Arguments.opposites).
OPPOSITES = {"--enable-": "--disable-", "--disable-": "--enable-"}


def parse(engine: Arguments, words: Sequence[Word], version: str | None) -> Parsed:
    """The options among `words`. What the engine does not know, or would refuse, is a finding; nothing is dropped in silence."""
    table = spellings(engine, version)
    given: dict[str, Given] = {}
    seen: dict[str, Any] = {}
    positional: list[Word] = []
    findings: list[Finding] = []
    unresolved: list[Unresolved] = []
    queue = list(undotted(words) if engine.dotted else words)
    n = 0
    while n < len(queue):
        word = queue[n]
        n += 1
        if not word.text.startswith("-") or word.text == "-" or is_negative(word.text):
            if word.missing and (positional or word.maybe or _holds_words(word)):
                findings, unresolved = _more_words(engine, table, word, findings, unresolved)
                if not positional:
                    continue
            positional.append(word)
            continue
        if word.text == "--":
            positional += queue[n:]
            break
        name, equals, attached = word.text.partition("=")
        argument, spelled = _find(engine, table, name, version)
        if argument is None and not equals and (short := _attached(table, word.text)):
            argument, spelled, equals, attached = short[0], short[1], "=", short[2]
        if argument is None:
            finding = _unknown(engine, table, name, word.place, version)
            findings.append(finding)
            unresolved += _meant(finding, table, name)
            if not equals and n < len(queue) and not queue[n].text.startswith("-"):
                n += 1
            continue
        findings += _release(engine, argument, name, word.place, version)
        until, told = engine.truths.get(argument.names[0], ""), attached if equals else queue[n].text if n < len(queue) else ""
        if until and told.lower() in ("true", "false") and (not version or release(version) < release(until)):
            n, spelled = n + (not equals), "no" if told.lower() == "false" else spelled
            if not version:
                says = f"{name} takes {told} before {until}, and stops at it from then on; nothing here says the release"
                findings.append(Finding("removed-option", "warning", says, word.place))
        elif equals and (argument.takes in ("flag", "switch") or engine.apart):
            what = "takes its value as a word of its own, behind no =" if engine.apart else f"takes no value, and has {attached[:40]!r}"
            findings.append(refused(name, what, word.place))
        try:
            text, missing, n = _text(argument, attached if equals else None, word.missing, queue, n)
            if argument.to in engine.optional and not missing and _is_none(argument, text):
                continue
            value = _value(argument, text, missing, negated=spelled == "no")
        except ValueError as error:
            findings.append(refused(name, str(error), word.place))
            continue
        shown = value if argument.takes in ("many", "maybe") or text is None else text
        seen[argument.names[0].lstrip("-").replace("-", "_")] = spelled != "no" if argument.takes in ("flag", "switch") else shown
        if not missing:
            findings += _of_value(engine, argument, name, text, value, word.place, version)
        if not argument.to:
            continue
        if not missing:
            last = given.get(argument.to)
            if last and argument.takes not in ("each", "many") and last.value != value and last.spelled in argument.names:
                message = f"{name} is given twice: the last, {str(text if text is not None else name)[:40]}, counts"
                findings.append(Finding("given-twice", "warning", message, word.place))
            before = last if argument.takes == "each" else None
            given[argument.to] = Given(f"{before.value},{value}" if before else value, name, word.place)
        elif argument.to not in OWN_TO_A_MEMBER:
            unresolved.append(open_variable(argument.to, name, missing, word.place))
            if argument.to in ("@model", "@path") and _tail(str(text)):
                given[argument.to] = Given(str(text), name, word.place)
    return Parsed(given, seen, tuple(positional), tuple(findings), tuple(unresolved))


Text = str | list[str] | None


def _of_value(
    engine: Arguments, argument: Argument, name: str, text: Text, value: Any, place: Place, version: str | None
) -> Iterator[Finding]:
    """What is to be said of an option's value where all of it is known."""
    if argument.names[0] in engine.choices and text is not None:
        yield from unknown(engine, argument, name, text if isinstance(text, list) else [text], place, version)
    yield from within(engine, argument.names[0], name, value, place, version)
    if argument.to and argument.kind == "c_int" and str(text).strip() != str(value):
        message = f"{name}: {engine.name} reads {str(text)[:40]!r} as {value:,}; write the number out"
        yield Finding("number-cut", "warning", message, place)
    if argument.to and argument.effect and value is not False:
        yield unmodelled(argument, name, place)


def _text(argument: Argument, attached: str | None, missing: Missing, queue: Sequence[Word], n: int) -> tuple[Text, Missing, int]:
    """What an option is given: its text, the variables open in it, and the word after it. Raises ValueError where it needs a value.

    attached  what follows its `=`; n: the word behind the option
    """
    if argument.takes in ("flag", "switch"):
        return attached, missing, n
    if argument.takes == "many":
        many = [] if attached is None else [attached]
        while attached is None and n < len(queue) and not _is_option(queue[n].text) and not (many and _holds_words(queue[n])):
            many.append(queue[n].text)
            missing += queue[n].missing
            n += 1
        return many, missing, n
    if attached is not None:
        return attached, missing, n
    if argument.takes == "maybe" and not (
        n < len(queue) and (queue[n].text in argument.words or (queue[n].missing and not _holds_words(queue[n])))
    ):
        return None, missing, n
    if n >= len(queue) or (_is_option(queue[n].text) and not queue[n].missing):
        raise ValueError("needs a value")
    return queue[n].text, missing + queue[n].missing, n + 1


def _is_none(argument: Argument, text: Text) -> bool:
    return argument.takes not in ("flag", "switch") and isinstance(text, str) and text.strip() in ("", "None")


def _value(argument: Argument, text: Text, missing: Missing, *, negated: bool) -> Any:
    """What that says; None where it is open. Raises ValueError for what the engine would refuse."""
    if argument.takes in ("flag", "switch"):
        return not argument.value if negated else argument.value
    if argument.takes == "many":
        return text
    if text is None:
        return argument.value
    return None if missing else KINDS[argument.kind].read(str(text))


def read(
    engine: Arguments, words: Sequence[Word], env: Mapping[str, Word], version: str | None, more: Mapping[str, Given] | None = None
) -> Answer:
    """What the engine would run with: its options over its environment variables; `more`: those of a configuration file, over both."""
    parsed = parse(engine, words, version)
    variables, findings, unresolved = environment(engine, env, parsed.given, version)
    if parsed.positional and parsed.positional[0].missing:
        first = parsed.positional[0]
        named = {row.names[0].lstrip("-").replace("-", "_") for row in engine.rows if row.to in ("@model", "@path", "@hub")}
        if "@model" in parsed.given:
            findings.append(_may_hold_more(first))
        elif not engine.positional or named & parsed.seen.keys():
            unresolved += _more_words(engine, {}, first, [], [])[1]
        else:
            unresolved.append(open_variable("model", "the model", first.missing, first.place))
    if len(parsed.positional) > engine.positional >= 0 and not any(w.missing for w in parsed.positional):
        extra = parsed.positional[engine.positional]
        findings.append(refused(extra.text[:60], "a word that no option takes", extra.place))
    elif parsed.positional and "@model" in parsed.given and not parsed.positional[0].missing:
        extra = parsed.positional[0]
        message = f"{extra.text[:60]}: a word that no option takes; the engine stops with a usage error, or takes it for the model"
        findings.append(Finding("stray-word", "warning", message, extra.place))
    told = {RELEASE: Given(version, version)} if version else {}
    answer = answered(engine, {**variables, **parsed.given, **(more or {}), **told}, parsed.positional)
    stops = dict.fromkeys(excluded(engine.exclusions, parsed.seen, version))  # two options may be refused in one sentence
    everything = (*parsed.findings, *findings, *(one for of, one in stops if not of), *answer.findings)
    by_kind = tuple((of, one) for of, one in stops if of)
    return answer._replace(findings=everything, by_kind=by_kind, unresolved=(*parsed.unresolved, *unresolved, *answer.unresolved))


def answered(engine: Arguments, given: Mapping[str, Given], positional: Sequence[Word] = (), *, is_command: bool = True) -> Answer:
    """What options mean together, and what a command of this engine always means."""
    unknown = bool(positional and positional[0].missing and not _tail(positional[0].text))
    first = () if unknown else tuple(Given(w.text, w.text, w.place) for w in positional if not w.missing or w is positional[0])
    answer = engine.finish(given, first)
    always = {name: Given(value, engine.program[0]) for name, value in engine.always.items()} if is_command else {}
    return answer._replace(question={**answer.question, **always})


def spellings(engine: Arguments, version: str | None) -> dict[str, tuple[Argument, str]]:
    """Every word that a release takes for an option -> the option, and `no` where the word turns it off."""
    table: dict[str, tuple[Argument, str]] = {}
    pairs = engine.opposites and (not version or three_parts(version) >= three_parts(engine.opposites))
    for argument in engine.rows:
        for name in argument.names:
            table[name] = (argument, "")
            if argument.takes == "switch" and name.startswith("--"):
                table[f"--no-{name[2:]}"] = (argument, "no")
    for name in [name for name, (one, no) in table.items() if pairs and one.takes == "switch" and not no]:
        for prefix, other in OPPOSITES.items():
            if name.startswith(prefix):
                twin = name.replace(prefix, other, 1)
                if twin not in table or not has(engine, table[twin][0], version):
                    table[twin] = (table[name][0], "no")
    return table


def _find(
    engine: Arguments, table: Mapping[str, tuple[Argument, str]], name: str, version: str | None = None
) -> tuple[Argument | None, str]:
    """The option that a word means; of several that it may begin, those that the release has."""
    if engine.underscores and name.startswith("--"):
        name = "--" + name[2:].replace("_", "-")
    if name in table:
        return table[name]
    if engine.abbreviations and name.startswith("--") and len(name) > 3:
        longer = [key for key in table if key.startswith(name)]
        if not version or (engine.releases and three_parts(version) >= three_parts(engine.releases[0])):
            longer = [key for key in longer if has(engine, table[key][0], version)] or longer
        if len({id(table[key][0]) for key in longer}) == 1:
            return table[longer[0]]
    return None, ""


def _attached(table: Mapping[str, tuple[Argument, str]], text: str) -> tuple[Argument, str, str] | None:
    """`-tp4`: a short option with its value."""
    for length in range(min(5, len(text) - 1), 1, -1):
        found = table.get(text[:length])
        if found and found[0].takes == "one" and text[length].isdigit() and not text.startswith("--"):
            return (*found, text[length:])
    return None


def _is_option(text: str) -> bool:
    return text.startswith("-") and len(text) > 1 and not is_negative(text)


def _tail(path: str) -> str:
    """What of a path behind a variable is known: `$FOLDER/Qwen3-8B`."""
    *folders, tail = re.split(r"[/\\]", path.rstrip("/"))
    return "" if "$" in tail or not folders else tail


def _holds_words(word: Word) -> bool:
    """Whether an open word stands for a list of words: `$@`, `$EXTRA_ARGS`, `${OPTIONS[@]}`; not a path or a name with a variable in it."""
    name = word.missing[0] if word.missing else ""
    whole = word.text in (f"${name}", f"$({name})", f"${{{name}}}", name)
    return whole and (name in ("@", "*") or bool(re.search(r"(^|_)(ARGS?|ARGUMENTS|OPTS?|OPTIONS|FLAGS?|PARAMS?)(_|\d|$)", name.upper())))


def _more_words(
    engine: Arguments, table: Mapping[str, tuple[Argument, str]], word: Word, findings: list[Finding], unresolved: list[Unresolved]
) -> tuple[list[Finding], list[Unresolved]]:
    """What an open word may hold: open where that is a parallel size or a length, else only to be said."""
    names = [text.partition("=")[0] for text in word.maybe if text.startswith("-")]
    harmless = bool(word.maybe) and not any((found := _find(engine, table, name)[0]) and found.to in DECIDING for name in names)
    finding = _may_hold_more(word)
    if word.maybe[:1] == ("",):  # empty in the file, and filled in a branch that an unset variable guards
        held = " ".join(word.maybe[1:])[:80]
        message = f"${word.missing[0]} is empty unless the script's environment says otherwise; it may hold {held}"
        return [*findings, finding._replace(message=message)], unresolved
    if harmless:
        return [*findings, finding], unresolved
    shown = ", ".join(name for name in dict.fromkeys(word.missing) if re.match(r"[A-Za-z_{]", name) and " " not in name)
    first = f"set {shown} where it is used, or " if shown else ""
    one = Unresolved("options", finding.message, f"{first}give --tp N and --max-model-len N", word.place)
    return findings, unresolved if any(u.what == "options" for u in unresolved) else [*unresolved, one]


def _may_hold_more(word: Word) -> Finding:
    shown = ", ".join("a value that is computed" if " " in name else f"${name.removeprefix('$')}" for name in word.missing)
    return Finding("open-words", "warning", f"what {shown} holds is not known from the file: it may be more options", word.place)


def _unknown(engine: Arguments, table: Mapping[str, Any], name: str, place: Place, version: str | None) -> Finding:
    twin = next((key for key in table if key.replace("-", "_") == name.replace("-", "_")), None)
    if twin is not None:
        return Finding("unknown-option", "error", f"{engine.name} has no option {name[:60]}; it is spelled {twin}", place)
    near = difflib.get_close_matches(name.replace("_", "-") if engine.underscores else name, table, n=1, cutoff=0.75)
    hint = f"; did you mean {near[0]}?" if near else ""
    if re.search(r"\s", name):
        message = f"{name[:60]!r} is one word, and {engine.name} takes it for one option; give each word its own"
        return Finding("not-split", "error", message, place)
    known = engine.releases and version and three_parts(engine.releases[0]) <= three_parts(version) <= three_parts(engine.releases[-1])
    severity: Severity = "error" if known else "warning"
    named = f"{engine.name} {version}" if known else engine.name
    return Finding("unknown-option", severity, f"{named} has no option {name[:60]} that we know{hint}", place)


def _meant(finding: Finding, table: Mapping[str, tuple[Argument, str]], name: str) -> Iterator[Unresolved]:
    """What stays open where an option that may not be there is nearly one that decides memory."""
    asked = finding.severity == "warning" and "; did you mean " in finding.message
    near = difflib.get_close_matches(name.replace("_", "-"), table, n=1, cutoff=SURE) if asked else []
    to = table[near[0]][0].to if near else ""
    if to.isidentifier():
        yield Unresolved(to, finding.message, f"--{to.replace('_', '-')} VALUE", finding.place)
    elif to.startswith("option:"):
        yield Unresolved(to[7:], finding.message, f"--engine-option {to[7:]}=VALUE", finding.place)
    elif to.startswith("@"):
        yield Unresolved(near[0].lstrip("-"), finding.message, f"write {near[0]}", finding.place)


def _release(engine: Arguments, argument: Argument, name: str, place: Place, version: str | None) -> Iterator[Finding]:
    if not engine.releases:
        return
    if not version:
        if argument.until:
            message = f"{engine.name} has {name} up to {argument.until}, and nothing here says the release: the newest is taken"
            yield Finding("removed-option", "warning", f"{message}; give --engine-version, or a tag of the image", place)
        return
    asked = three_parts(version)
    severity: Severity = "error" if lacks(engine, argument, version) else "warning"
    if argument.since and asked < three_parts(argument.since):
        message = f"{engine.name} {version} does not have {name} yet; it is there from {argument.since} on"
        yield Finding("too-new-option", severity, message, place)
    if argument.until and asked > three_parts(argument.until):
        message = f"{engine.name} {version} does not have {name} any more; it was there up to {argument.until}"
        yield Finding("removed-option", severity, message, place)
