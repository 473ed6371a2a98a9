"""A question read from its names: every value checked, its model and device found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from kvplan import catalogue, engines, files
from kvplan.api.allowed import ours
from kvplan.api.found import device, engine_of, is_path, of_file, of_files, this_machine
from kvplan.api.several import several
from kvplan.deployment import NAMES, Deployment
from kvplan.engines.common.releases import is_version
from kvplan.errors import KvplanError, SpecError, UnknownName
from kvplan.spec import ModelSpec, Quantization
from kvplan.units import MIB, MOST_DEVICES, MOST_TOKENS, parse_bytes, parse_tokens, plain_number, scalar, spelled

if TYPE_CHECKING:
    from os import PathLike

    from kvplan.api.names import Question
    from kvplan.engines.common.words import Given


#: How a text is written that people give as something else.
TEXTS = {"speculative": '"ngram:3"', "lora": '"32x4"', "multimodal": '"on" or "off"', "engine_version": '"0.33.0"'}
#: Names of which engines call `auto` what is not chosen.
_AUTO = ("dtype", "weight_dtype")


def deployment(model: str | PathLike[str] | ModelSpec, **question: Unpack[Question]) -> Deployment:
    """The question as a value, every name read and checked; None is "not chosen".

    >>> asked = deployment("meta-llama/llama-3.1-8b", context="32k", device="h100")
    >>> asked.context, asked.device.id, asked.batch
    (32768, 'h100-80gb', None)
    """
    values = values_of(question)
    notes, flag = _in_own_names(values)
    spec, stored = of_files(model, values)
    values["counted"] = "n_devices" in values and question.get("n_devices") is None
    drafting = _drafter(values.get("speculative"))
    if drafting is None and (beside := _beside(spec, values)) is not None:
        drafting, type_ = beside
        spec = spec.changed(notes=(*spec.notes, f"drafts with {drafting.id} in {type_}, the file that conversions have beside it"))
    spec = spec.changed(notes=(*spec.notes, *notes)) if notes else spec
    d = calibrated(Deployment(model=spec, stored=stored, drafter=drafting, **values))
    return d if flag is None else _stored_as(d, flag, said=question.get("weight_dtype") is not None)


def _stored_as(d: Deployment, flag: Given, *, said: bool) -> Deployment:
    """The question with the weights that an engine's option says, or with that option beside those that are `said`; where the model's are
    others, the engine's own check says it. Raises SpecError where it has none."""
    from kvplan.engines.common.settling import checkpoint_format, stored_plain
    from kvplan.manifests.weights import claims, counted_as, settled, told

    engine, claim, own = str(d.engine or engines.DEFAULT), claims(flag, None, None, flag.place), checkpoint_format(d)
    if said:
        made = claim is not None and claim.format and claim.method not in engines.arguments(engine).packed_only
        if made and stored_plain(str(d.weight_dtype)):
            raise SpecError("weight_dtype", [("", f"{d.weight_dtype}, and quantization {flag.value} makes others of these; keep one")])
        return replace(d, engine_option=told(engine, d.engine_option, flag))
    if claim is None:
        d = replace(d, engine_option=told(engine, d.engine_option, flag))
        experts = engines.arguments(engine).experts_only.get(str(flag.value))
        return d if experts is None or not stored_plain(own) else _experts_in(d, experts)
    format_, why = settled(claim, own, engines.arguments(engine).packed_only)
    if why and "quantization" not in engines.facts(engine).options:
        raise SpecError("engine_option", [("", why)])
    if format_ is None or why:
        return replace(d, weight_dtype=None, engine_option=told(engine, d.engine_option, flag))
    counted = d.weight_dtype or format_
    return replace(d, weight_dtype=counted, model=d.model.changed(notes=(*d.model.notes, counted_as(claim, counted, own, d.model.id))))


def _experts_in(d: Deployment, format_: str) -> Deployment:
    """The question with a plain checkpoint's experts in a format that they are made in as they are loaded."""
    routed = [Quantization(format=format_, roles=("experts",))] if d.model.routed else []
    note = f"its experts are counted as {format_}, in which they are made as they are loaded"
    notes = (*d.model.notes, note) if routed else d.model.notes
    return replace(d, stored=None if routed else d.stored, model=d.model.changed(quantization=tuple(routed), notes=notes))


def _in_own_names(values: dict[str, Any]) -> tuple[tuple[str, ...], Given | None]:
    """Puts what engine options say in their engine's own names where the question has it (own_names.py); what is to be said of it, and
    the engine's word for what the weights are stored in."""
    if not values.get("engine_option"):
        return (), None
    meant = engines.in_own_names(engine_of(values), values.get("engine_version"), values["engine_option"])
    values["engine_option"] = meant.options
    for name, value in values_of(meant.question).items():
        if values.setdefault(name, value) != value:
            raise SpecError("engine_option", [(name, f"is said twice: {values[name]} and {value}; keep one")])
    return meant.notes, meant.weights


def values_of(question: Mapping[str, Any]) -> dict[str, Any]:
    """The names of a question, each read and checked; None is "not chosen". Raises every fault at once."""
    faults: list[tuple[str, str]] = []
    values: dict[str, Any] = {}
    given = several({name: scalar(value) for name, value in question.items()})
    for name, value in given.items():
        if name not in NAMES:
            from kvplan.api.called import unknown_question

            raise unknown_question(name)
        if value is None or (name in _AUTO and value == "auto"):
            continue
        try:
            if NAMES[name].parts and (not isinstance(value, int | str) or "=" in str(value)):
                values["neighbours"] = neighbours(name, [value] if isinstance(value, str) else value)
                values[name] = sum(n_bytes for _, n_bytes in values["neighbours"])
            else:
                values[name] = read(name, value)
        except SpecError as error:
            faults += [(name, message) for _, message in error.faults]
        except UnknownName as error:
            faults.append((name, str(error)))
    if faults:
        raise SpecError("question", faults)
    if given.get("device") == "auto" and "reserve" not in values:
        values["reserve"] = this_machine()[1]
    return values


def neighbours(name: str, value: Any) -> tuple[tuple[str, int], ...]:
    """Who holds how many bytes: a mapping of names to sizes, or a list of SIZE and NAME=SIZE. Raises SpecError."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list | tuple):
        parts = [str(item).rpartition("=") for item in value]
        pairs = [(who.strip() or f"neighbour {n}", size) for n, (who, _, size) in enumerate(parts, 1)]
    else:
        raise SpecError(name, [("", f"{str(value)[:60]!r}: write a size, NAME=SIZE, a list of them, or a mapping")])
    names = [str(who)[:100] for who, _ in pairs]
    if twice := {who for who in names if names.count(who) > 1}:
        raise SpecError(name, [("", f"{min(twice)[:60]!r} is named twice: add its sizes up")])
    return tuple((who, parse_bytes(size, name)) for who, (_, size) in zip(names, pairs, strict=True))


def asked(model: str | PathLike[str] | ModelSpec, **question: Unpack[Question]) -> Deployment:
    """`deployment`, with parallel sizes where only a number of devices was given."""
    from kvplan.planner.layouts import laid_out

    d = deployment(model, **question)
    return laid_out(d) if (d.n_devices or 1) > 1 else d


def _drafter(speculative: str | None) -> ModelSpec | None:
    """The drafting model of METHOD:TOKENS:MODEL; None where none is named, or what is named is no model that we can read."""
    name = str(speculative or "").partition(":")[2].partition(":")[2]
    if not name:
        return None
    try:
        return of_file(name)[0] if is_path(name) else catalogue.find_model(name)
    except KvplanError:
        return None


def _beside(spec: ModelSpec, values: Mapping[str, Any]) -> tuple[ModelSpec, str] | None:
    """The drafter whose file the engine finds beside a model's own, and that file's type; None where there is none."""
    method, _, named = str(values.get("speculative") or "").partition(":")
    engine = str(values.get("engine") or "").strip().lower()
    if method != "mtp" or ":" in named or spec.mtp or engine not in engines.ENGINES:
        return None
    beside = engines.facts(engine).drafters_beside
    found = next(
        (beside[key] for key in beside if key[1] == spec.hidden_size and (spec.architecture or "").lower().startswith(key[0])), None
    )
    return found and (catalogue.find_model(found[0]).changed(checkpoint=found[1]), found[1])


def calibrated(d: Deployment, engine: str | None = None) -> Deployment:
    """The question with the measured constants it names, of the engine it would be put to. Raises SpecError."""
    if d.calibration == "user":
        ours("calibration", "user", "a file of this machine")
    name = engine or d.engine or engines.default(d)
    device = d.device.id if d.device else None
    return replace(d, constants=catalogue.constants(name.strip().lower(), d.calibration or "packaged", device))


def question(model: str) -> dict[str, Any]:
    """A question from a deployment file (YAML with `model` and the contract's names), or just the model that `model` names."""
    if not model.endswith((".yaml", ".yml")):
        return {"model": model}
    data = files.parse_yaml(files.read_text(model), model)
    if not isinstance(data, dict) or "model" not in data or "n_layers" in data:
        return {"model": model}
    unknown = [name for name in data if name != "model" and name not in NAMES]
    if unknown:
        raise SpecError(model, [(name[:60], "no name of a question; see `kvplan estimate --help`") for name in unknown])
    return data


def read(name: str, value: Any) -> Any:
    value, kind = scalar(value), NAMES[name].kind
    if kind == "tokens":
        return at_least_one(name, parse_tokens(value, name))
    if kind == "bytes":
        n_bytes = parse_bytes(value, name)
        if isinstance(value, str) and value.strip().isdecimal() and 0 < n_bytes < MIB:
            raise SpecError(name, [("", f"{value.strip()} what? Write {value.strip()}GiB (2^30 bytes) or {value.strip()}GB (10^9)")])
        return n_bytes
    if kind == "count":
        value = plain_number(value.strip()) if isinstance(value, str) else value
        if isinstance(value, str) and value.strip().isdecimal() and len(value) < 19:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise SpecError(name, [("", f"{str(value)[:60]!r} is not a whole number; write one such as 16")])
        return value if name == "n_gpu_layers" else at_least_one(name, value)
    if kind == "fraction":
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not 0 < number <= 1:
            raise SpecError(name, [("", f"{str(value)[:60]!r} is not a fraction; write a number above 0 and at most 1")])
        return number
    if kind == "flag":
        if not isinstance(value, bool):
            raise SpecError(name, [("", f"{str(value)[:60]!r} is not true or false")])
        return value
    if kind == "device":
        if isinstance(value, list | tuple) or (isinstance(value, str) and "," in value):
            raise SpecError(
                name, [("", f"{str(value)[:60]!r} are several; one question takes one (kvplan.compare and kvplan.sweep take more)")]
            )
        return device(value)
    if kind == "options":
        return _options(value)
    if not isinstance(value, str):
        raise SpecError(name, [("", f"{str(value)[:60]!r} is not text; write {TEXTS.get(name, 'it in quotes')}")])
    if name == "engine":
        return engines.canonical(value)
    if name == "engine_version" and not is_version(value):
        raise SpecError(name, [("", f"{value[:60]!r} is no version; write a release such as 0.19.0, or b10488; left out it is the newest")])
    return value


def at_least_one(name: str, value: int) -> int:
    most = MOST_DEVICES if name in ("n_devices", "tp", "pp", "dp", "ep", "dcp") else MOST_TOKENS
    if not 1 <= value <= most:
        raise SpecError(name, [("", f"{value} is out of range: at least 1, at most {most}")])
    return value


def _options(value: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(value, Mapping):
        return tuple((_key(k), spelled(v)) for k, v in value.items())
    if not isinstance(value, str | list | tuple):
        raise SpecError("engine_option", [("", f"{str(value)[:60]!r}: write KEY=VALUE, a list of them, or a mapping")])
    pairs: list[tuple[str, str]] = []
    for item in [value] if isinstance(value, str) else value:
        key, equals, text = str(item).partition("=")
        if not equals or not key:
            raise SpecError("engine_option", [("", f"{str(item)[:60]!r}: write KEY=VALUE")])
        if dict(pairs).get(_key(key), text.strip()) != text.strip():
            raise SpecError("engine_option", [(_key(key), "is given twice, with two values; keep one")])
        pairs.append((_key(key), text.strip()))
    return tuple(pairs)


def _key(name: Any) -> str:
    """An option's name without the dashes that a command line has before it."""
    return str(name).strip().lstrip("-")
