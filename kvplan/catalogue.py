"""What ships with kvplan, as files: model specs, found by id, alias or product name, device specs and measured constants."""

from __future__ import annotations

import os
import re
import sys
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvplan import engines
from kvplan.device_names import device_ids as device_ids
from kvplan.device_names import find_device as find_device
from kvplan.devices import Device
from kvplan.dtypes import COMPUTE, canonical_weight
from kvplan.errors import SpecError
from kvplan.files import parse_yaml, read_text
from kvplan.llama_quantize import TABLE
from kvplan.packed import as_packed
from kvplan.spec import ModelSpec, parse_spec
from kvplan.uploads import cache_stated, file_of

if TYPE_CHECKING:
    from kvplan.constants import Constants, UserFile
    from kvplan.names import Named

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,100}(/[a-z0-9][a-z0-9._-]{0,100})?")

#: Models that are kept once they were read: whoever asks often asks for few of them.
KEPT = 256
_PACKAGE = Path(__file__).parent
_CALIBRATION = _PACKAGE / "calibration"


def model_folder() -> Path:
    """Where the model specs are: inside an installed package, beside it in a checkout."""
    inside = _PACKAGE / "model_specs"
    return inside if os.path.isdir(inside) else _PACKAGE.parent / "model_specs"


def read_spec(path: str | Path) -> ModelSpec:
    """A model spec from a YAML file."""
    return parse_spec(parse_yaml(read_text(path), str(path)), str(path))


def model_ids() -> list[str]:
    """The ids of all packaged models, sorted."""
    folders = [org for org in os.scandir(model_folder()) if os.path.isdir(org)]
    return sorted(f"{org.name}/{file.name[:-5]}" for org in folders for file in os.scandir(org) if file.name.endswith(".yaml"))


def model_names() -> list[str]:
    """Every name that answers offline: ids, then the short names and hub ids of the index."""
    from kvplan import names

    return list(dict.fromkeys((*model_ids(), *(line.name for line in names.everything()))))


@lru_cache(maxsize=KEPT)
def find_model(name: str, *, by_name: bool = True, released: bool = False) -> ModelSpec:
    """A packaged model by id, or one that the index of names has, in any case: `kvplan.names.look_up` says which names mean what.

    A release in another format or of another length is a spec of its own, under its own name. by_name: a quantised release that the index
    does not have is what its name says, with a note. released: a tag of Ollama's library that names no type is the model as it was
    released. Raises UnknownName, AmbiguousName.
    """
    key = name.strip().lower()
    path = _model_file(key)
    own = bool(_ID.fullmatch(key)) and os.path.isfile(path)
    if own and name == key:
        return _own_spec(path)
    from kvplan import names

    line = names.look_up(name) or (names.by_its_name(name) if by_name else None)
    if line is None:
        raise names.unknown(name, files=not released)
    line = line.as_released if released else line
    if own and line.name == key:
        return _own_spec(path)
    return _as_named(_own_spec(_model_file(line.base)), line)


@lru_cache(maxsize=KEPT)
def _own_spec(path: Path) -> ModelSpec:
    """A packaged spec, read once for all names that it answers to."""
    return read_spec(path)


def _model_file(id_: str) -> Path:
    org, _, model = id_.partition("/")
    return model_folder() / org / f"{model}.yaml"


def _as_named(base: ModelSpec, line: Named) -> ModelSpec:
    """The spec of a name: the base's shapes with the name's own format and length, and what that rests on."""
    notes = (*base.notes, *(note for note in (line.note, line.taken) if note))
    changes: dict[str, Any] = {"hub_id": line.name} if "/" in line.name and line.name != line.base else {}
    if line.alias:
        from kvplan.names import own_release, undressed

        called = undressed(line.name).removeprefix("meta")
        if not (changes or line.is_tag) and (own := own_release(line)):  # llama-3.3-70b, of Llama 3.1's shapes
            changes = {"hub_id": own.name}
        if (changes or line.is_tag) and called != undressed(base.id):  # GLM-4.5-Air, of INTELLECT-3's shapes
            changes["name"] = (changes.get("hub_id") or line.name).rpartition("/")[2]
        return base.changed(notes=notes, **changes)
    id_ = re.sub(r" +", "-", re.sub(r"^(?:https?|hf|huggingface)://(?:www\.)?", "", line.name.lower()))  # as it was typed, blanks and all
    changes |= {"id": id_, "name": line.name.rpartition("/")[2], "aliases": ()}
    if line.length is not None:
        before = base.original_context if line.length > (base.original_context or 0) else None
        changes |= {"max_context": line.length or None, "original_context": before, "stated_context": None}
    if line.length == 0:
        changes["length_unsaid"] = True
        notes = (*notes, f"no source states the maximum length of {line.name}: the context asked for is not checked against it")
    weights = line.weights
    if weights and (line.is_tag or line.evidence == "g"):
        kind = weights if weights in COMPUTE else canonical_weight(weights)
        table = any(weight.name == TABLE for weight in base.weights)
        weights = file_of(base.architecture, kind, line.publisher, in_library=line.in_library and table)
    if weights:  # how the base's own upload is stored, its cache's format with it, says nothing of this one
        changes |= {"quantization": (), "checkpoint": None, "kv_dtype": None}
    if weights in COMPUTE:
        changes |= {"dtype": weights}
    elif weights:
        packed = as_packed(base, line.name)
        notes = (*notes, *packed.pop("notes", ()))
        changes |= packed or {"checkpoint": canonical_weight(weights)}
        if line.evidence != "d" and (stated := cache_stated(line.name, canonical_weight(weights), base.architecture)):
            changes |= {"kv_dtype": stated.format, "method": stated.method}
            notes = (*notes, f"{line.name} is taken to state {stated.format} for its cache, as uploads like it do (--kv-dtype for another)")
    return base.changed(notes=notes, **changes)


def device_of_total(gib: float) -> Device | None:
    """The packaged device whose CUDA total is the one that an engine printed (two decimals); None where that fits none, or several GPUs."""
    near = [d for d in devices() if d.cuda_total_mib and abs(d.cuda_total_mib / 1024 - gib) <= 0.011]
    return near[0] if len({d.compute_capability for d in near}) == 1 else None


def devices() -> list[Device]:
    """Every packaged device."""
    return [find_device(id_) for id_ in device_ids()]


def constants(engine: str, which: str = "packaged", device: str | None = None) -> Constants | None:
    """The measured constants of an engine (its facts name them): None for `none` and for an engine that has none.

    `user` adds what this machine's user file holds: recorded starts, and constants fitted on `device`. Raises SpecError for any other
    name or a broken file.
    """
    name = engines.facts(engine).constants if engine in engines.ENGINES else None
    path = _CALIBRATION / f"{name}.yaml"
    if which == "packaged" and (name is None or not os.path.isfile(path)):
        return None
    from kvplan.constants import CALIBRATIONS, PROCESS, Constants, UserFile, with_user

    if which not in CALIBRATIONS:
        raise SpecError("calibration", [("", f"{which[:60]!r} is not one of {', '.join(CALIBRATIONS)}")])
    if which == "none" or name is None or not (os.path.isfile(path) or name == PROCESS):
        return None
    packaged = Constants("packaged", PROCESS, "", ())  # nothing is shipped: every machine's is its own
    if name != PROCESS:
        packaged = _packaged(path)
    if which == "packaged":
        return packaged
    file = user_calibration()
    user = read_user_file(file) if os.path.exists(file) else UserFile()
    return with_user(packaged, user, device, str(file))


@cache
def _packaged(path: Path) -> Constants:
    from kvplan.constants import parse_constants

    return parse_constants(parse_yaml(read_text(path), str(path)), str(path))


def read_user_file(path: Path) -> UserFile:
    """A user's calibration file. Raises SpecError."""
    from kvplan.constants import parse_user_file

    return parse_user_file(parse_yaml(read_text(path), str(path)), str(path))


def user_calibration() -> Path:
    """The user's calibration file: KVPLAN_CALIBRATION, else calibration.yaml in the platform's folder for settings.

    Raises SpecError where the system knows no home directory of this user (containers that run as any number).
    """
    named = os.environ.get("KVPLAN_CALIBRATION")
    if named:
        return Path(named)
    try:
        if sys.platform == "win32":
            folder = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
        elif sys.platform == "darwin":
            folder = Path.home() / "Library" / "Application Support"
        else:
            folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    except RuntimeError:
        raise SpecError(
            "calibration", [("", "this user has no home directory to keep it in; name a file with KVPLAN_CALIBRATION")]
        ) from None
    return folder / "kvplan" / "calibration.yaml"
