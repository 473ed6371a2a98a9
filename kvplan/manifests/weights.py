"""What a command says of its checkpoint's format, beside what the model known by that name is stored in."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import NamedTuple

from kvplan import catalogue, engines
from kvplan.dtypes import canonical_weight, weight_scheme
from kvplan.engines.common.arguments import Arguments
from kvplan.engines.common.exclusions import kinds
from kvplan.engines.common.releases import in_force
from kvplan.engines.common.stored import stored
from kvplan.engines.common.words import Finding, Given, Place
from kvplan.errors import KvplanError
from kvplan.manifests.values import Found
from kvplan.names import look_up
from kvplan.names.releases import TAG, taken_apart

_PART = re.compile(r"-\d{5}-of-\d{5}$")
_FILE = re.compile(rf"(.+?)[-_.](?:gguf[-_.])?({TAG.pattern})", re.IGNORECASE)
_OLLAMA = re.compile(r"(?:.*-)?(q\d\w*|fp16|bf16|f16)", re.IGNORECASE)


class Claim(NamedTuple):
    """The format; empty: quantised, and nothing says how. schemes: families of checkpoints that it may be; said: the words that say so;
    method: the engine's own name of it."""

    format: str
    schemes: tuple[str, ...]
    said: str
    place: Place
    method: str = ""


def counted_as(claim: Claim, said: str, own: str, model: str) -> str:
    """The note of weights that are not counted as the model is stored."""
    return f"{claim.said}: the weights are counted as {said}, not as the {own} that {model} is stored in"


def claims(flag: Given | None, name: str | None, asked: str | None, place: Place) -> Claim | None:
    """What the flags say, else what the file's own name of the model says; that of a name says nothing of another quantised one."""
    if flag is not None and (says := stored(flag.value)):
        return Claim(says.format, says.schemes, f"{flag.spelled} {flag.value}"[:80], flag.place, str(flag.value))
    format_ = by_name(name) if name else None
    if format_ is None or name == asked or (asked and by_name(asked)):
        return None
    try:
        scheme = weight_scheme(canonical_weight(format_))
    except KvplanError:
        return Claim("", (), f"the name {name}"[:120], place)
    return Claim(format_, (scheme,), f"the name {name}"[:120], place)


def by_name(name: str) -> str | None:
    """The format that a name ends in: a release's suffix, a GGUF file's or repository's type, an Ollama tag's."""
    tail = name.rstrip("/").replace("\\", "/").rpartition("/")[2]
    tail = tail.rpartition("--")[2]
    if tail.lower().endswith(".gguf"):
        match = _FILE.fullmatch(_PART.sub("", tail[:-5]))
        return match[2].lower() if match else None
    found = taken_apart(tail.lower())
    if found is not None:
        return None if found.weights == "gguf" else found.weights
    _, colon, tag = tail.partition(":")
    match = _OLLAMA.fullmatch(tag) if colon else None
    return match[1].lower().replace("fp16", "f16") if match else None


def is_release(found: str | None, asked: str) -> bool:
    """Whether a file's model is what it is known as: a path, or another model than the file says, may be stored in anything."""
    return found == asked and asked.count("/") == 1 and asked[0] not in "./~"


def settled(claim: Claim, own: str, packed_only: Container[object] = ()) -> tuple[str | None, str]:
    """The format to ask for (None: the model's own is what is claimed, or what an engine stops at), or why it is open.

    packed_only  methods that the engine loads no plain weights with, where those are what is known of the model (`Arguments.packed_only`)
    """
    first = canonical_weight(own.split("+")[0])
    scheme = weight_scheme(first)
    is_own = scheme != "plain"
    if scheme in claim.schemes or ("*" in claim.schemes and is_own) or (not is_own and claim.method in packed_only):
        return None, ""
    if not claim.format:
        return None, f"{claim.said} says that the checkpoint is quantised, and not how; the model known by that name is stored in {own}"
    if claim.format in ("bf16", "f16") or not is_own:
        return claim.format, ""
    return None, f"{claim.said} says {claim.format}, and the model known by that name is stored in {own}"


def told(engine: str, options: Iterable[tuple[str, str]], flag: Given) -> tuple[tuple[str, str], ...]:
    """Engine options with the method that weights are to be loaded with, where the engine's plan checks it; a --load-format is none."""
    named = "quantization" in engines.facts(engine).options and "load" not in flag.spelled
    return tuple({**dict(options), **({"quantization": str(flag.value)} if named else {})}.items())


def needs_code(name: str, engine: Arguments, release: str | None) -> str:
    """The class of a released model whose config the engine reads by the repository's own code alone; empty where it knows it."""
    if not engine.own_code or name.count("/") != 1 or name[0] in "./~":
        return ""
    try:
        model = catalogue.find_model(name)
    except KvplanError:
        return ""
    named = model.architecture or ""
    starts = next((start for start in engine.own_code if "/" in start and model.id.startswith(start)), named)
    bounds = engine.own_code.get(starts)
    return named if bounds is not None and in_force(*bounds, release) else ""


def of_its_kind(found: Found, model: str) -> list[Finding]:
    """What stops an engine of a command's options with a model of this kind; nothing, of one that the catalogue does not have."""
    try:
        of = kinds(catalogue.find_model(model)) if found.by_kind else frozenset()
    except KvplanError:
        return []
    return [one for kind, one in found.by_kind if kind in of]


def untrusted(found: Found, asked: str, engine: Arguments, release: str | None) -> Finding | None:
    """What stops an engine that may not run the code of a model's repository; of a path, or a model given instead, nothing is said."""
    named = "" if found.trusts or found.model != asked else needs_code(asked, engine, release)
    message = f'{asked}: without --trust-remote-code {engine.name} stops with "contains custom code which must be executed"'
    place = found.places.get("model", found.place)
    return Finding("own-code", "error", f"{message}: it does not know the config of {named}", place) if named else None


def meant(path: str) -> str | None:
    """The known model that the end of a path names: `/models/Qwen3-8B`, `models--Qwen--Qwen3-8B/snapshots/x`, `Qwen3-8B-Q4_K_M.gguf`."""
    if path.startswith("oci://"):  # an image that holds a model, told by its tag
        path = path.rpartition("/")[2].rpartition(":")[2]
    parts = [part for part in path.replace("\\", "/").split("/") if part and part not in (".", "..", "~")]
    if parts and re.fullmatch(r"\w[\w.]*(-\w[\w.]*)*--\w[\w.-]*", parts[-1]):  # ORGANISATION--NAME, as downloads are often called
        parts = [*parts[:-1], *parts[-1].split("--", 1)]
    hub = next((part for part in parts if part.startswith("models--")), "")
    within = len(parts) > 1 and not parts[-1].lower().startswith(parts[-2].lower())  # a folder of the model's own name is no publisher
    named = re.fullmatch(r"([A-Za-z0-9-]+)_(\S+\.gguf)", parts[-1]) if parts else None  # ORGANISATION_NAME-TYPE.gguf
    names = (
        [hub.removeprefix("models--").replace("--", "/")] if hub else ["/".join(parts[-2:]) if within else "", parts[-1]] if parts else []
    )
    names += [f"{named[1]}/{named[2]}"] if named else []
    for n, name in enumerate(names):
        stem = _PART.sub("", re.sub(r"\.gguf$", "", name, flags=re.IGNORECASE))
        match = _FILE.fullmatch(stem) if name.lower().endswith(".gguf") else None
        found = taken_apart(stem.lower())
        for one in dict.fromkeys((stem, match[1] if match else stem, found.of if found else stem)):
            try:
                spec = catalogue.find_model(one, by_name=bool(hub or n)) if "$" not in one else None
            except KvplanError:
                continue
            return None if spec is None else said.name if (said := look_up(one)) is not None and "/" in said.name else spec.id
    return None
