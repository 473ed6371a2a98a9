"""The verdict on what a file starts: each Found asked of the planner, what is open named, what would go wrong put on its line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kvplan import catalogue, engines
from kvplan.engines.common.own_names import has
from kvplan.engines.common.passed import NOT_COMPUTED
from kvplan.engines.common.words import Finding, Place, Unresolved
from kvplan.errors import KvplanError, SpecError, UnknownName, UnsupportedError
from kvplan.manifests import host, undecided, weights
from kvplan.manifests.advised import advised
from kvplan.manifests.asked import Ask, GivenError, blaming, in_own_names, remembered
from kvplan.manifests.mentions import why_empty
from kvplan.manifests.pool import SIZES
from kvplan.manifests.private import Private, private
from kvplan.manifests.read import read, read_file, read_text
from kvplan.manifests.together import judged as together
from kvplan.manifests.values import Found, Status, Verdict
from kvplan.planner.plan import Plan
from kvplan.planner.surer import in_doubt
from kvplan.units import show_bytes

POOL_SIZES = frozenset(name.removeprefix("option:") for name in SIZES)
MAX_FINDINGS = 100


class Source(NamedTuple):
    """A text to check that is no file: standard input, a command line."""

    name: str
    text: str


def check(
    files: Sequence[str | Source],
    ask: Ask,
    *,
    models: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    strict: bool = False,
    **given: Any,
) -> tuple[Verdict, ...]:
    """A verdict for every engine that the files start, in their order; one for each file that can not be read or starts none.

    files   paths, or a Source
    ask     answers a question: `kvplan.estimate`
    models  `ID` for every engine, or `TEXT=ID` where a file says TEXT (a path in a volume, an Ollama tag)
    env     variables that may be expanded besides those the files set themselves; never the caller's environment unasked
    strict  warnings, and verdicts too close to call, count as failures
    given   names of the question (device, context, batch, engine_version, ...): they win over what the files say

    Raises SpecError for one of `models` without a text or an id.
    """
    not_said(models, ())
    verdicts: list[Verdict] = []
    ask, version = remembered(ask), given.get("engine_version")
    for file in files:
        name = file.name if isinstance(file, Source) else file
        try:
            found = read(file.text, name, env, version=version) if isinstance(file, Source) else read_file(file, env, version)
        except KvplanError as error:
            verdicts.append(_broken(name, error)._replace(private=_private(file, env, ())))
            continue
        hidden = _private(file, env, found)
        if not found:
            message, line = why_empty(file.text if isinstance(file, Source) else read_text(file))
            finding = Finding("no-engine", "note", message, Place(line), name)
            verdicts.append(Verdict(name, name, "empty", finding.message, findings=(finding,)))
        verdicts += together([judge(one, ask, models=models, strict=strict, given=given)._replace(private=hidden) for one in found])
    return tuple(verdicts)


def _private(file: str | Source, env: Mapping[str, str] | None, found: Sequence[Found]) -> Private:
    """What of the environment a verdict on a file keeps to itself."""
    if not env:
        return Private()
    try:
        text = file.text if isinstance(file, Source) else read_text(file)
    except SpecError:
        return Private()
    return private(
        env, text, {name for one in found if one.engine for row in engines.arguments(one.engine).rows for name in row.variables}, _is_public
    )


def _is_public(value: str) -> bool:
    """Whether the catalogue has a model or a device of this name."""
    for find in (catalogue.find_model, catalogue.find_device):
        with suppress(KvplanError):
            return bool(find(value))
    return False


def exit_code(verdicts: Sequence[Verdict], *, allow_empty: bool = False) -> int:
    """The gravest of all: 0 fits, 1 does not, 2 not known. `allow_empty`: files without an engine count as 0, for hooks over many files."""
    codes = [0 if v.status == "empty" and allow_empty else v.exit_code for v in verdicts]
    return max(codes, default=0 if allow_empty else 2)


def judge(found: Found, ask: Ask, *, models: Sequence[str] = (), strict: bool = False, given: Mapping[str, Any] | None = None) -> Verdict:
    """The verdict on one engine."""
    if not found.engine:
        one = found.unresolved[0]
        if one.what == "document":
            finding = Finding("unreadable", "error", one.why, one.place, found.file)
            return Verdict(found.file, found.name, "broken", one.why, findings=(finding,))
        finding = Finding("not-modelled-engine", "warning", f"{one.why}; {one.give}", one.place, found.file)
        return Verdict(found.file, found.name, "unknown", one.why, findings=(finding,), unresolved=found.unresolved)
    given = {name: value for name, value in (given or {}).items() if value is not None}
    given, weights_given, said = in_own_names(found.engine, found.engine_version, given)
    found = found._replace(weights=weights_given or found.weights)
    model = _override(found.model, models)
    question = {**found.question, **given, "engine": found.engine}
    if "engine_option" in given:
        question["engine_option"] = {**found.question.get("engine_option", {}), **dict(given["engine_option"])}
    if found.engine_version and "engine_version" not in given:
        question["engine_version"] = found.engine_version
    has_model = model != found.model or (models and any("=" not in m for m in models))
    closed = {*given, *given.get("engine_option", ())} | ({"model"} if has_model else set())
    closed |= {"device"} if "kv_memory" in question else set()
    if all(name in question for name in ("tp", "max_model_len")):
        closed.add("options")
    unresolved = [u for u in found.unresolved if u.what not in closed]
    findings = [*found.findings, *(Finding("note", "note", note, found.place) for note in said)]
    quiet = [u for u in found.unresolved if u.what == "options" and _is_quiet(u, unresolved)]
    findings += [Finding("open-words", "warning", u.why, u.place) for u in quiet]
    plan: Plan | None = None
    if model is not None and not any(u.what == "model" for u in unresolved):
        plan, more, open_model = _weighed(blaming(ask, given), model, question, found, given)
        findings += more
        unresolved += open_model
    if plan is not None and model is not None:
        release = str(plan.question["engine_version"][0])
        untrusted = weights.untrusted(found, model, engines.arguments(found.engine), release)
        findings += [untrusted] if untrusted else []
        findings += weights.of_its_kind(found, model)
        findings += _devices(found, plan, question, unresolved)
        findings += _too_long(found, plan, question)
        findings += _notes(found, plan) + _risks(found, plan)
    findings += host.findings(found.limits, plan, found.place)
    status, message = _status(found, plan, findings, unresolved, strict)
    located = tuple(f._replace(file=found.file) for f in findings[:MAX_FINDINGS])
    if len(findings) > MAX_FINDINGS:
        located += (Finding("note", "note", f"and {len(findings) - MAX_FINDINGS:,} findings more", found.place, found.file),)
    return Verdict(found.file, found.name, status, message, found, plan, located, tuple(unresolved))


def _is_quiet(one: Unresolved, unresolved: Sequence[Unresolved]) -> bool:
    """Whether nothing would speak of it, and it is more than what a script itself is called with (`$@`)."""
    return one not in unresolved and not one.why.startswith(("$@ ", "$* "))


def not_said(models: Sequence[str], verdicts: Sequence[Verdict]) -> list[str]:
    """Those of `TEXT=ID` whose text no file has as the name of its model. Raises SpecError for one without a text or an id."""
    for text in models:
        name, equals, target = text.rpartition("=")
        if not target.strip() or (equals and not name.strip()):
            raise SpecError("model", [("", f"{text[:60]!r}: write ID, or TEXT=ID")])
    said = {one.found.model for one in verdicts if one.found}
    return [text for text in models if "=" in text and text.rpartition("=")[0] not in said]


def _override(model: str | None, models: Sequence[str]) -> str | None:
    plain = [m for m in models if "=" not in m]
    for text in models:
        name, equals, target = text.rpartition("=")
        if equals and name == model:
            return target
    return plain[-1] if plain else model


def _weighed(
    ask: Ask, model: str, question: dict[str, Any], found: Found, given: Mapping[str, Any]
) -> tuple[Plan | None, list[Finding], list[Unresolved]]:
    """The plan with the weights that the command says; open where it says another format than can be counted."""
    claim = weights.claims(found.weights, found.model, model, found.places.get("model", found.place))
    if "weight_dtype" in given:
        return _ask(ask, model, question, found)
    said = question.pop("weight_dtype", None) if claim else None
    options, known = dict(question.get("engine_option", {})), weights.is_release(found.model, model)
    named = bool(claim) and options.pop("quantization", None) is not None
    experts = bool(found.weights) and str(found.weights.value) in engines.arguments(found.engine).experts_only  # type: ignore[union-attr]
    if (known or experts) and found.weights and found.engine in engines.ENGINES:
        options = dict(weights.told(found.engine, options.items(), found.weights))
    as_stored = {**question, "engine_option": options}
    plan, findings, unresolved = _ask(ask, model, as_stored, found)
    if plan is None or claim is None:
        return plan, findings, unresolved
    own, packed = str(plan.question["weight_dtype"][0]), engines.arguments(found.engine).packed_only
    format_, why = weights.settled(claim, own, packed if known else ())
    if why and known and plan.starts is False:
        return plan, findings, unresolved
    if why:
        give = f"ask with --weight-dtype {claim.format or 'NAME'}, or --model with the release that is meant"
        return None, findings, [*unresolved, Unresolved("weights", why, give, claim.place)]
    if format_ is None:
        return _ask(ask, model, question, found) if named and not known else (plan, findings, unresolved)
    note = weights.counted_as(claim, said or format_, own, plan.model.id)
    findings = [Finding("weights-as-said", "note", note, claim.place)]
    again, more, unresolved = _ask(ask, model, {**question, "weight_dtype": said or format_}, found)
    return again, [*more, *findings], unresolved


def _ask(ask: Ask, model: str, question: dict[str, Any], found: Found) -> tuple[Plan | None, list[Finding], list[Unresolved]]:
    """The plan; options that the engine's model does not know are named and left out."""
    findings: list[Finding] = []
    question = dict(question)
    if not engines.arguments(found.engine).takes_devices:
        question.pop("n_devices", None)
    options = dict(question.get("engine_option", {}))
    known = engines.facts(found.engine).options if found.engine in engines.ENGINES else options
    for key in [k for k in options if k not in known and not has(engines.arguments(found.engine), k)]:
        findings.append(_dropped(key, options.pop(key), found))
    question["engine_option"] = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}
    try:
        return ask(model, **question), findings, []
    except GivenError:
        raise
    except UnknownName as error:
        place = found.places.get(error.kind, found.places.get("model", found.place))
        if error.kind in ("model", "device"):
            give = f"--model {model}=ID" if error.kind == "model" else "--device NAME"
            return None, findings, [Unresolved(error.kind, f"{error}; give a spec or an id of the catalogue", give, place)]
        if error.kind == "weight format" and "weight_dtype" not in question:  # of the model's own name: a type that our table has not
            return None, findings, [Unresolved("weights", str(error), "--weight-dtype NAME", place)]
        if any(f.rule == "unknown-option" for f in found.findings):  # a fork, or a newer release
            return None, findings, [Unresolved(error.kind, str(error), "the name that kvplan has for it", found.place)]
        return None, [*findings, _fault(str(error), found, error.kind)], []
    except SpecError as error:
        if error.source == "context" and "context" not in question:  # a model that declares no length
            return None, findings, [Unresolved("context", error.faults[0][1], "--context N", found.places.get("model", found.place))]
        keys = {path: message for path, message in error.faults if error.source == "engine_option" and path in options}
        if not keys or not keys.keys() <= found.question.get("engine_option", {}).keys():  # of somebody who asks
            return None, [*findings, *(_fault(message, found, path or error.source) for path, message in error.faults)], []
        give = "--engine-option {}=VALUE, or with nothing behind the = to leave it out"
        places = {key: found.places.get(f"engine_option.{key}", found.place) for key in keys}
        return None, findings, [Unresolved(key, message, give.format(key), places[key]) for key, message in keys.items()]
    except UnsupportedError as error:
        return None, findings, [Unresolved("engine", str(error), "an engine or options that are modelled", found.place)]
    except KvplanError as error:  # a model that is neither in the catalogue nor to be had
        place = found.places.get("model", found.place)
        return None, findings, [Unresolved("model", str(error), f"--model {model}=ID", place)]


def _dropped(key: str, value: Any, found: Found) -> Finding:
    place = found.places.get(f"engine_option.{key}", found.place)
    message = f"{key} = {str(value)[:40]} is not modelled for {found.engine}; the default is used"
    return Finding("not-modelled-either", "warning", message, place)


def _fault(message: str, found: Found, name: str) -> Finding:
    return Finding("contradiction", "error", f"{name}: {message}" if name else message, found.places.get(name, found.place))


def _devices(found: Found, plan: Plan, question: Mapping[str, Any], unresolved: Sequence[Unresolved]) -> list[Finding]:
    """Fewer devices than the parallel sizes need, or more."""
    there, needed = question.get("n_devices"), plan.question["n_devices"][0]
    if any(u.what in ("tp", "pp", "dp", "nodes", "local_dp", "options") for u in unresolved):
        return []  # what is open may be another number of devices
    if there is None or needed is None or engines.arguments(found.engine).takes_devices:
        return []
    there = int(there)
    dp = plan.question["dp"][0] or 1
    if found.local_dp and dp > found.local_dp:
        needed = needed * found.local_dp // dp
    place = found.places.get("n_devices", found.place)
    if there < needed:
        sizes = " x ".join(f"{name} {plan.question[name][0]}" for name in ("tp", "pp", "dp") if (plan.question[name][0] or 1) > 1)
        return [Finding("too-few-devices", "error", f"{sizes or 'it'} needs {needed} devices and gets {there}; it would not start", place)]
    if there > needed and not found.shared:
        return [Finding("idle-devices", "warning", f"{there - needed} of {there} devices would stay idle", place)]
    return []


def _too_long(found: Found, plan: Plan, question: Mapping[str, Any]) -> list[Finding]:
    """vLLM config/model.py _get_and_verify_max_len, SGLang configs/model_config.py: a length beyond the one in config.json is an error."""
    asked = question.get("max_model_len")
    rules = {f.rule for f in found.findings}
    if (
        not engines.arguments(found.engine).length_bound
        or not isinstance(asked, int)
        or "longer-allowed" in rules
        or rules & {"not-modelled-rope", "overridden"}
    ):
        return []
    try:
        most = catalogue.find_model(plan.model.id).max_context
    except KvplanError:
        return []
    if most is None or asked <= most:
        return []
    message = f"{asked:,} tokens are more than the {most:,} that {plan.model.id} declares; {found.engine} stops with an error"
    return [Finding("too-long", "error", message, found.places.get("max_model_len", found.place))]


def _notes(found: Found, plan: Plan) -> list[Finding]:
    notes = (*plan.model.notes, *(plan.capacity.warnings if plan.capacity else ()))
    moving = [note.removeprefix(NOT_COMPUTED) for note in notes if note.startswith(NOT_COMPUTED)]
    said = [Finding("note", "note", note, found.place) for note in notes if not note.startswith(NOT_COMPUTED)]
    return [*said, *(Finding("not-modelled-either", "warning", note, found.place) for note in moving)]


def _risks(found: Found, plan: Plan) -> list[Finding]:
    """What may stop it after it has started."""
    where = found.places.get("memory_fraction") or found.places.get("max_num_batched_tokens") or found.place
    said = [Finding("may-run-out", "warning", plan.outcome.risk, where)] if plan.outcome.risk else []
    for one in plan.outcome.risks:  # a note where only some request would bring it
        memory = " of host memory" if one.memory == "host" else ""
        message = f"{one.name}: up to {show_bytes(one.high)}{memory} in service, more than is left; {one.removes}"
        said.append(Finding("may-run-out", "warning" if one.bytes else "note", message, where))
    if (limit := found.limits.memory) is not None:
        for one in plan.outcome.host_risks:  # pages of mapped files can be dropped; these can not
            if one.high > limit.value:
                has = f"the container's {limit.spelled} is {show_bytes(int(limit.value))}: it would be killed"
                message = f"{one.name}: up to {show_bytes(one.high)} of host memory in service, and {has}; {one.removes}"
                said.append(Finding("may-run-out", "warning", message, limit.place))
    return said


def _status(found: Found, plan: Plan | None, findings: list[Finding], unresolved: list[Unresolved], strict: bool) -> tuple[Status, str]:
    """What follows from all of it; also adds the finding that says so."""
    errors = [f for f in findings if f.severity == "error"]
    if errors:
        return "refuses", errors[0].message
    shorter = _shorter(found, plan)
    if plan is not None and plan.fits is False and not shorter and not _may_be_less(findings, unresolved):
        if plan.certainty == "too close to call" and not strict:
            return _too_close(found, plan, findings)
        starts = plan.starts or plan.outcome.split  # with layers in RAM; `plan.starts` is of the whole model on its devices
        rule = "runs-split" if plan.outcome.split else "does-not-fit" if starts else "does-not-start"
        where = found.places.get("batch" if starts else "max_model_len") or found.places.get("max_model_len") or found.place
        changes = advised(found, plan, 3)
        findings.append(Finding(rule, "error", plan.verdict + (f"; would fit: {changes}" if changes else ""), where))
        return ("starts" if starts else "refuses"), plan.verdict
    if unresolved or plan is None or plan.fits is None:
        for u in unresolved:
            findings.append(Finding(f"open-{u.what.replace('_', '-')}"[:40], "warning", f"{u.what}: {u.why}; {_how(u.give)}", u.place))
        if plan is not None and plan.outcome.unknown:
            findings.append(Finding("open-speculative", "warning", plan.outcome.unknown, found.places.get("speculative", found.place)))
        names = ", ".join(dict.fromkeys(u.what for u in unresolved)) or (plan.outcome.unknown if plan else "") or "what it runs on"
        more = undecided.counted(plan) if plan is not None and {u.what for u in unresolved} == {"device"} else ""
        return "unknown", f"not known: {names}{f' ({more})' if more else ''}"
    doubts = [f for f in findings if f.rule in ("not-modelled-more", "not-modelled-less")]
    if plan.fits is False and doubts and not shorter:
        return "unknown", f"does not fit as modelled, but {doubts[0].message}"
    if first := next((f for f in findings if f.severity != "note" and f.rule in ("not-modelled-more", "host-memory-weights")), None):
        return "unknown", f"fits as modelled, but {first.message}"
    if plan.certainty == "too close to call" and not strict:
        return _too_close(found, plan, findings)
    warnings = [f for f in findings if f.severity == "warning"]
    if strict and (warnings or plan.certainty == "too close to call"):
        return "starts", warnings[0].message if warnings else plan.verdict
    if shorter:
        findings.append(Finding("shorter-pool", "note", shorter, found.place))
    return "fits", shorter or plan.verdict


def _shorter(found: Found, plan: Plan | None) -> str:
    """What a pool that the file itself made smaller than the model's length holds, where nobody asked for that length: it starts."""
    if plan is None or plan.fits is not False or plan.starts is not True or plan.capacity is None or not plan.capacity.max_context:
        return ""
    asked = [name for name in ("context", "batch", "max_model_len") if plan.question[name][1] == "you"]
    if asked or not set(found.question.get("engine_option", {})) & POOL_SIZES:
        return ""
    return f"it starts, and the longest request that the pool holds has {plan.capacity.max_context:,} tokens, fewer than the model's length"


def _too_close(found: Found, plan: Plan, findings: list[Finding]) -> tuple[Status, str]:
    """A verdict on either side that its interval does not bear."""
    surer = advised(found, plan, 2) if plan.fits else ""
    more = "".join(f"; {title}: {text}" for title, text in (("in doubt", in_doubt(plan)), ("surer", surer)) if text)
    findings.append(Finding("too-close-to-call", "warning", plan.verdict + more, found.places.get("max_model_len", found.place)))
    return "unknown", plan.verdict


def _may_be_less(findings: list[Finding], unresolved: list[Unresolved]) -> bool:
    """Whether something open could still make it fit."""
    return bool(unresolved) or any(f.rule in ("not-modelled-less",) for f in findings)


def _how(give: str) -> str:
    return f"give it with {give}" if give.startswith("--") else give


def _broken(name: str, error: KvplanError) -> Verdict:
    text = str(error)
    match = re.search(r"line (\d+)", text)
    if (message := text.removeprefix(f"{name}: ")) == "no such file" and re.search(r"\s-", name):
        message = "no such file; a command goes into one, or is piped: kvplan check -"
    finding = Finding("unreadable", "error", message, Place(int(match[1]) if match else 1), name)
    return Verdict(name, name, "broken", message, findings=(finding,))
