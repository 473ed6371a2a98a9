"""What each address answers: a JSON object in, the library's own plain data out. No HTTP here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from kvplan import api, catalogue
from kvplan.api.allowed import files_read, hub_asked
from kvplan.deployment import NAMES
from kvplan.devices import Device
from kvplan.errors import SpecError
from kvplan.importers.hf_config import import_config
from kvplan.manifests import Source
from kvplan.manifests.check import check as verdicts
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec, parse_spec
from kvplan.web.bounds import MAX_ITEMS, MAX_SECONDS, MAX_TEXT, MOST_NAMES, Refused, Settings, checked

Body = dict[str, Any]
MAX_TRIED = 64  # devices of one kind that a client's fit tries
CONFIG = "config.json"


@contextmanager
def allowed(settings: Settings) -> Iterator[None]:
    """Inside, no more of this machine and of the network is read than its owner allows."""
    with files_read(settings.files), hub_asked(settings.hub):
        yield


def estimate(body: Body) -> Any:
    """`Plan.as_dict()` of a question: `model` or `config` (what a config.json holds), the names of the contract, `advise`."""
    return planned(body).as_dict()


def planned(body: Body) -> Plan:
    """The plan of a question."""
    model, question = asked(body, ("advise",))
    advise = question.pop("advise", True)
    if not isinstance(advise, bool):
        raise SpecError("question", [("advise", "write true or false")])
    plan: Plan = api.estimate(model, advise=advise, **question)
    return plan


def asked(body: Body, more: tuple[str, ...] = ()) -> tuple[str | ModelSpec, Body]:
    """The model of a body, and its other names, bounded; `more`: names that are no part of a question."""
    question = {name: value for name, value in body.items() if name not in ("model", "config")}
    checked({name: value for name, value in question.items() if name not in more})
    model, config = body.get("model"), body.get("config")
    if config is None:
        if not isinstance(model, str) or len(model) > MAX_TEXT:
            raise SpecError(
                "question", [("model", "write a model id such as meta-llama/llama-3.1-8b, or give config: what a config.json holds")]
            )
        return model, question
    if model is not None:
        raise SpecError("question", [("config", "is the model; leave model out, or config")])
    if not isinstance(config, dict):
        raise SpecError("question", [("config", "a config is a JSON object")])
    return parse_spec(import_config(config, CONFIG), CONFIG), question


def fit(body: Body) -> Any:
    """Rows of `kvplan fit`: `devices`, `prices`, `most`, `rank_by` and `every_layout` beside the question."""
    own = ("devices", "prices", "most", "rank_by", "every_layout")
    model, question = asked(body, own)
    given = {name: question.pop(name) for name in own if question.get(name) is not None}
    listed, prices, every = given.get("devices"), given.get("prices", {}), given.get("every_layout", False)
    faults = []
    if listed is not None and not (isinstance(listed, list) and len(listed) <= MAX_ITEMS and all(map(_is_name, listed))):
        faults.append(("devices", f"write a list of at most {MAX_ITEMS} names"))
    if not isinstance(prices, dict) or len(prices) > MAX_ITEMS:
        faults.append(("prices", f"write an object of at most {MAX_ITEMS} names, each with its price"))
    if not isinstance(every, bool):
        faults.append(("every_layout", "write true or false"))
    if "rank_by" in given and not isinstance(given["rank_by"], str):
        faults.append(("rank_by", "write the name of a ranking"))
    if "most" in given and not (type(given["most"]) is int and 1 <= given["most"] <= MAX_TRIED):
        faults.append(("most", f"write a whole number from 1 to {MAX_TRIED}"))
    if faults:
        raise SpecError("fit", faults)
    timed = within(MAX_SECONDS, "name fewer devices, or a smaller most")

    def watch(i: int, n: int, device: Device) -> None:
        timed()

    rows = api.fit(model, watch=watch, **given, **question)
    return [row.as_dict() for row in rows]


def check(body: Body) -> Any:
    """Verdicts of `kvplan check` on texts: `files` are objects of `name` and `text`; `models`, `strict` and names of the contract."""
    own = ("files", "models", "strict")
    files, models, strict = body.get("files"), body.get("models", []), body.get("strict", False)
    given = checked({name: value for name, value in body.items() if name not in own})
    faults = []
    if not isinstance(files, list) or not 1 <= len(files) <= MAX_ITEMS or not all(map(_is_file, files)):
        faults.append(("files", f"write a list of 1 to {MAX_ITEMS} objects of name and text"))
    if not isinstance(models, list) or len(models) > MAX_ITEMS or not all(map(_is_name, models)):
        faults.append(("models", f"write a list of at most {MAX_ITEMS} texts, ID or TEXT=ID"))
    if not isinstance(strict, bool):
        faults.append(("strict", "write true or false"))
    if faults:
        raise SpecError("check", faults)
    options = given.get("engine_option")
    if options is not None and not isinstance(options, dict):
        raise SpecError("check", [("engine_option", "write an object of options")])
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        from kvplan.api.called import unknown_question

        raise unknown_question(unknown[0])
    sources = [Source(file["name"], file["text"]) for file in files or ()]
    timed = within(MAX_SECONDS, "check fewer files at once")

    def ask(model: str, **question: Any) -> Plan:
        timed()
        plan: Plan = api.estimate(model, **checked(question))
        return plan

    return [verdict.as_dict() for verdict in verdicts(sources, ask, models=models, strict=strict, **given)]


def _is_file(file: Any) -> bool:
    return isinstance(file, dict) and file.keys() == {"name", "text"} and _is_name(file["name"]) and isinstance(file["text"], str)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT


def emit(body: Body) -> Any:
    """The text that `kvplan emit` prints for `target`, and what of it is not as asked."""
    model, question = asked(body, ("target", "serve", "fixed_pool"))
    target, serve, fixed = question.pop("target", None), question.pop("serve", None), question.pop("fixed_pool", False)
    faults = [] if isinstance(target, str) else [("target", "write the name of an engine, compose or k8s")]
    if serve is not None and not (_is_name(serve)):
        faults.append(("serve", "write the name that the engine is to load"))
    if not isinstance(fixed, bool):
        faults.append(("fixed_pool", "write true or false"))
    if faults:
        raise SpecError("emit", faults)
    found = api.emitted(model, str(target), serve=serve, fixed_pool=fixed, **question)
    return {"text": found.text, "warnings": list(found.warnings), "fits": found.plan.fits}


#: Address -> what answers it.
POSTED: dict[str, Callable[[Body], Any]] = {"/api/estimate": estimate, "/api/fit": fit, "/api/check": check, "/api/emit": emit}


def models(text: str) -> Any:
    """Ids of the catalogue, short names and releases that contain a text: what begins with it first, at most MOST_NAMES."""
    word = text.strip().lower()
    found = [name for name in _every_model() if word in name.lower()]
    found.sort(key=lambda name: not name.lower().rpartition("/")[2].startswith(word))
    return [{"id": name} for name in found[:MOST_NAMES]]


@lru_cache(maxsize=1)
def _every_model() -> tuple[str, ...]:
    return tuple(catalogue.model_names())


def devices(text: str) -> Any:
    """Rows of `kvplan devices list`, those whose id or name contains a text."""
    word = text.strip().lower()
    return [device.as_dict() for device in _every_device() if word in device.id or word in device.name.lower()]


@lru_cache(maxsize=1)
def _every_device() -> tuple[Device, ...]:
    return tuple(catalogue.devices())


def engines(text: str) -> Any:
    """What `kvplan engines` says, of those whose name contains a text."""
    return [one for one in api.engines() if text.strip().lower() in one["engine"]]


#: Address -> what answers a text, which may be empty.
LISTED: Mapping[str, Callable[[str], Any]] = {"/api/models": models, "/api/devices": devices, "/api/engines": engines}


def within(seconds: float, instead: str) -> Callable[[], None]:
    """A call between the steps of some work: raises Refused once it took longer than one request may."""
    end = time.monotonic() + seconds

    def timed() -> None:
        if time.monotonic() > end:
            raise Refused(422, f"more work than one request may ask for ({seconds:g} s); {instead}")

    return timed
