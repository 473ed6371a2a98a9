"""What ships with kvplan, as files: model specs and device specs, found by id, alias or product name."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kvplan.devices import Device, parse_device
from kvplan.errors import SpecError, UnknownName
from kvplan.files import parse_yaml, read_text
from kvplan.spec import ModelSpec, parse_spec

if TYPE_CHECKING:
    from kvplan.constants import Constants, UserFile

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,100}(/[a-z0-9][a-z0-9._-]{0,100})?")

_PACKAGE = Path(__file__).parent
_DEVICES = _PACKAGE / "device_specs"
_CALIBRATION = _PACKAGE / "calibration"


def model_folder() -> Path:
    """Where the model specs are: inside an installed package, beside it in a checkout."""
    inside = _PACKAGE / "model_specs"
    return inside if inside.is_dir() else _PACKAGE.parent / "model_specs"


def read_spec(path: str | Path) -> ModelSpec:
    """A model spec from a YAML file."""
    return parse_spec(parse_yaml(read_text(path), str(path)), str(path))


def model_ids() -> list[str]:
    """The ids of all packaged models, sorted."""
    folder = model_folder()
    return sorted(f"{org.name}/{name.name[:-5]}" for org, name in _model_files(folder))


def _model_files(folder: Path) -> Iterator[tuple[os.DirEntry[str], os.DirEntry[str]]]:
    for org in os.scandir(folder):
        if org.is_dir():
            for file in os.scandir(org):
                if file.name.endswith(".yaml"):
                    yield org, file


def find_model(name: str) -> ModelSpec:
    """A packaged model by id or alias, in any case. Raises UnknownName with the nearest ids."""
    key = name.strip().lower()
    folder = model_folder()
    org, _, model = key.partition("/")
    path = folder / org / f"{model}.yaml"
    if _ID.fullmatch(key) and path.is_file():
        return read_spec(path)
    found = _by_alias(key, (file.path for _, file in _model_files(folder)))
    if found is None:
        raise UnknownName("model", name, model_ids())
    return read_spec(found)


def _by_alias(key: str, paths: Iterator[str]) -> str | None:
    """The file one of whose names is `key`; only files that contain the text at all are parsed."""
    needle = key.encode("utf-8", "replace")
    for path in sorted(paths):
        with open(path, "rb") as file:
            text = file.read()
        if needle and needle in text.lower():
            data = parse_yaml(text.decode(), path)
            fields = ("aliases", "product_names", "kubernetes_labels")
            names = [data.get("id"), data.get("name"), *(n for field in fields for n in data.get(field) or ())]
            if key in (str(n).lower() for n in names):
                return path
    return None


def device_ids() -> list[str]:
    """The ids of all packaged devices, sorted."""
    return sorted(entry.name[:-5] for entry in os.scandir(_DEVICES) if entry.name.endswith(".yaml"))


def read_device(path: str | Path) -> Device:
    """A device from its YAML file."""
    return parse_device(parse_yaml(read_text(path), str(path)), str(path))


def find_device(name: str) -> Device:
    """A packaged device by id, alias, NVML product name or Kubernetes label, in any case. Raises UnknownName."""
    key = name.strip().lower()
    path = _DEVICES / f"{key}.yaml"
    if _ID.fullmatch(key) and path.is_file():
        return read_device(path)
    found = _by_alias(key, (str(_DEVICES / f"{id_}.yaml") for id_ in device_ids()))
    if found is None:
        raise UnknownName("device", name, device_ids())
    return read_device(found)


def device_of_total(gib: float) -> Device | None:
    """The packaged device whose CUDA total is the one that an engine printed (two decimals); None where that fits none, or several GPUs."""
    near = [d for d in devices() if d.cuda_total_mib and abs(d.cuda_total_mib / 1024 - gib) <= 0.011]
    return near[0] if len({d.compute_capability for d in near}) == 1 else None


def devices() -> list[Device]:
    """Every packaged device."""
    return [read_device(_DEVICES / f"{id_}.yaml") for id_ in device_ids()]


#: Engines that are another engine inside, and take its constants; or that are torch and nothing else beside their tensors.
_SAME_CONSTANTS = {"ollama": "llama.cpp", "transformers": "torch", "exllamav3": "torch"}


def constants(engine: str, which: str = "packaged", device: str | None = None) -> Constants | None:
    """The measured constants of an engine: None for `none` and for an engine that has no file.

    `user` adds what this machine's user file holds: recorded starts, and constants fitted on `device`. Raises SpecError for any other
    name or a broken file.
    """
    name = _SAME_CONSTANTS.get(engine, engine)
    path = _CALIBRATION / f"{name}.yaml"
    if which == "packaged" and (_ID.fullmatch(name) is None or not path.is_file()):
        return None
    from kvplan.constants import CALIBRATIONS, PROCESS, Constants, UserFile, parse_constants, with_user

    if which not in CALIBRATIONS:
        raise SpecError("calibration", [("", f"{which[:60]!r} is not one of {', '.join(CALIBRATIONS)}")])
    if which == "none" or _ID.fullmatch(name) is None or not (path.is_file() or name == PROCESS):
        return None
    packaged = Constants("packaged", PROCESS, "", ())  # nothing is shipped: every machine's is its own
    if name != PROCESS:
        packaged = parse_constants(parse_yaml(read_text(path), str(path)), str(path))
    if which == "packaged":
        return packaged
    file = user_calibration()
    user = read_user_file(file) if file.exists() else UserFile()
    return with_user(packaged, user, device, str(file))


def read_user_file(path: Path) -> UserFile:
    """A user's calibration file. Raises SpecError."""
    from kvplan.constants import parse_user_file

    return parse_user_file(parse_yaml(read_text(path), str(path)), str(path))


def user_calibration() -> Path:
    """The user's calibration file: KVPLAN_CALIBRATION, else calibration.yaml in the platform's folder for settings."""
    named = os.environ.get("KVPLAN_CALIBRATION")
    if named:
        return Path(named)
    if sys.platform == "win32":
        folder = Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support"
    else:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return folder / "kvplan" / "calibration.yaml"
