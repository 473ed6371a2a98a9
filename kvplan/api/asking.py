"""What a question names, read and found: models, devices, sizes."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from kvplan import catalogue, engines, files
from kvplan.api.several import several
from kvplan.deployment import NAMES, Deployment
from kvplan.devices import Device, sized
from kvplan.dtypes import GGUF_TYPES
from kvplan.engines.common.releases import is_version
from kvplan.errors import AmbiguousName, KvplanError, SpecError, UnknownName
from kvplan.spec import ModelSpec
from kvplan.units import GIB, MIB, MOST_DEVICES, MOST_TOKENS, parse_bytes, parse_tokens, plain_number, scalar

if TYPE_CHECKING:
    from os import PathLike

    from kvplan.api.names import Question
    from kvplan.stored import StoredWeights


#: Whether a model that is not known here is asked of the Hub; whether what a question names on this machine is read.
_ASKS_HUB: ContextVar[bool] = ContextVar("asks_hub", default=True)
_READS_FILES: ContextVar[bool] = ContextVar("reads_files", default=True)


def hub_asked(asked: bool) -> AbstractContextManager[None]:
    """Inside, names that are not known here are asked of the Hub, or not: a file that somebody else wrote is not to choose what is."""
    return _within(_ASKS_HUB, asked)


def files_read(read: bool) -> AbstractContextManager[None]:
    """Inside, files that a question names are read, and this machine's GPU and calibration, or not: a stranger's are refused."""
    return _within(_READS_FILES, read)


@contextmanager
def _within(switch: ContextVar[bool], on: bool) -> Iterator[None]:
    token = switch.set(on)
    try:
        yield
    finally:
        switch.reset(token)


def _ours(name: str, value: str, what: str) -> None:
    """Raises SpecError where what lies on this machine is not for who asks."""
    if not _READS_FILES.get():
        raise SpecError(name, [("", f"{value[:60]!r} is {what}, which is read with --allow-files only")])


#: Names of which engines call `auto` what is not chosen.
_AUTO = ("dtype", "weight_dtype")


def deployment(model: str | PathLike[str] | ModelSpec, **question: Unpack[Question]) -> Deployment:
    """The question as a value, every name read and checked; None is "not chosen".

    >>> asked = deployment("meta-llama/llama-3.1-8b", context="32k", device="h100")
    >>> asked.context, asked.device.id, asked.batch
    (32768, 'h100-80gb', None)
    """
    faults: list[tuple[str, str]] = []
    values: dict[str, Any] = {}
    given = several({name: scalar(value) for name, value in question.items()}, _is_device)
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
        values["reserve"] = _this_machine()[1]
    spec, stored = _of_files(model, values)
    values["counted"] = "n_devices" in values and question.get("n_devices") is None
    return calibrated(Deployment(model=spec, stored=stored, drafter=_drafter(values.get("speculative")), **values))


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


def _is_device(name: str) -> bool:
    try:
        return bool(device(name))
    except KvplanError:
        return False


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
        return _file(name)[0] if _is_path(name) else catalogue.find_model(name)
    except KvplanError:
        return None


def calibrated(d: Deployment, engine: str | None = None) -> Deployment:
    """The question with the measured constants it names, of the engine it would be put to. Raises SpecError."""
    if d.calibration == "user":
        _ours("calibration", "user", "a file of this machine")
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


def model(name: str | PathLike[str] | ModelSpec) -> ModelSpec:
    """The spec that a name or a path means. Raises UnknownName, SpecError, FormatError, UnsupportedError.

    >>> model("meta-llama/Llama-3.1-8B-Instruct").id
    'meta-llama/llama-3.1-8b'
    """
    return _find(name)[0]


def import_model(source: str, revision: str | None = None) -> str:
    """A reviewable spec, as YAML text, of a config.json, a checkpoint's folder, a GGUF file or a Hub id.

    >>> import json, tempfile, pathlib
    >>> config = pathlib.Path(tempfile.mkdtemp(), "config.json")
    >>> sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
    >>> names = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16"}
    >>> written = config.write_text(json.dumps(names | sizes))
    >>> "hidden_size: 64" in import_model(str(config))
    True
    """
    from kvplan import importers
    from kvplan.importers.spec_yaml import dump_spec

    spec = _file(source)[0] if _is_path(source) else importers.from_hub(source, revision).spec
    return dump_spec(spec.plain())


def _of_files(model: str | PathLike[str] | ModelSpec, values: dict[str, Any]) -> tuple[ModelSpec, StoredWeights | None]:
    """`_find`; of a repository of GGUF files the one in the type that is asked for, which is its checkpoint's own then."""
    try:
        return _find(model)
    except AmbiguousName as error:
        several = error
    kind = str(values.get("weight_dtype") or "").strip().upper().replace("UD_", "UD-")
    try:
        found = _find(f"{model}:{kind}") if kind.lower().replace("-", "_") in GGUF_TYPES else None
    except KvplanError:
        found = None
    if found is None:
        raise several
    del values["weight_dtype"]
    return found


def _find(model: str | PathLike[str] | ModelSpec) -> tuple[ModelSpec, StoredWeights | None]:
    """The spec, and the weights as stored where the model's files are at hand; a Hub id outside the catalogue is asked of the Hub."""
    if isinstance(model, ModelSpec):
        return model, None
    if isinstance(model, os.PathLike):
        return _file(os.fspath(model))
    if not isinstance(model, str) or not model.strip():
        raise SpecError("model", [("", "write a model id such as meta-llama/llama-3.1-8b, or a path such as ./model.yaml")])
    if _is_path(model):
        return _file(model)
    if _HUB_ID.fullmatch(model) is None:
        return catalogue.find_model(model), None
    try:
        return catalogue.find_model(model, by_name=False), None
    except UnknownName as error:
        unknown = error
    why = "; --hub asks the Hub for it"
    if _ASKS_HUB.get():
        from kvplan import importers
        from kvplan.importers.hub import NotOnHub

        try:
            return importers.from_hub(model)
        except KvplanError as error:
            why = f"; and it could not be had from the Hub: {error}"
            if isinstance(error, NotOnHub):  # a name that nobody has published says nothing
                raise KvplanError(f"{unknown}{why}") from None
    try:
        return catalogue.find_model(model), None
    except UnknownName:
        raise KvplanError(f"{unknown}{why}") from None


_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


def _is_path(model: str) -> bool:
    if model.startswith(("./", "../", "/", "~")) or model.endswith((".yaml", ".yml", ".json", ".safetensors")):
        return True
    from kvplan.names import names_a_file

    return model.endswith(".gguf") and (os.path.isfile(model) or not names_a_file(model))


def _file(path: str) -> tuple[ModelSpec, StoredWeights | None]:
    _ours("model", path, "a path")
    if path.endswith(".gguf") and not os.path.lexists(path):  # what people type is the name of a file that they have not fetched
        from kvplan.names import unknown

        _, _, told = str(unknown(os.path.basename(path))).partition("; ")
        raise SpecError(path, [("", f"no such file; {told}" if "kvplan estimate" in told else "no such file")])
    if path.endswith((".yaml", ".yml")):
        return catalogue.read_spec(path), None
    from kvplan import importers

    return importers.read(path)


def device(name: str | Device) -> Device:
    """The device that a name, a product name or a size means, or a name with the memory that it was seen with. Raises UnknownName or
    SpecError.

    >>> device("NVIDIA H100 80GB HBM3").id, device("24GiB").memory_bytes, device("rtx-4080@15.99GiB").memory_bytes
    ('h100-80gb', 25769803776, 17169131765)
    """
    if isinstance(name, Device):
        return name
    if name == "auto":
        _ours("device", "auto", "this machine's GPU")
        return _this_machine()[0]
    known, at, seen = str(name).partition("@")
    if at:
        if not (n_bytes := parse_bytes(seen, "device")):
            raise SpecError("device", [("", f"{name[:60]!r}: behind the @ is the memory it has, such as {known.strip()[:40]}@24GiB")])
        return catalogue.find_device(known).seen_with(n_bytes)
    if re.fullmatch(r"\s*\d[\d.,_]*\s*[a-z]{0,3}b\s*", str(name).lower()):
        if not (n_bytes := parse_bytes(name, "device")):
            raise SpecError("device", [("", f"{name[:60]!r} is no memory at all; write a size such as 24GiB")])
        return sized(n_bytes)
    if (card := re.fullmatch(r"\s*(\d{1,6})\s*[gG]i?\s*", str(name))) is not None:  # as cards are sold
        return sized(int(card[1]) * GIB)
    return catalogue.find_device(str(name))


#: By how much NVML's total may differ from a known card's and be that card: carve-outs of drivers, not another size of memory.
OTHER_CARD = 0.05


def _this_machine() -> tuple[Device, int]:
    """The first GPU that NVML shows, with the memory it reports, and the bytes that others hold on it now. Raises ProbeError."""
    from kvplan import probe

    gpu = probe.detect()
    total = gpu.total_bytes >> 20  # MiB
    try:
        known = catalogue.find_device(gpu.name)
    except KvplanError:
        known = None
    if known is not None and known.taken:  # how much memory it has tells which of several it is
        sizes = [known, *(catalogue.find_device(id_) for id_ in known.same_name if id_ in catalogue.device_ids())]
        known = min(sizes, key=lambda one: abs((one.nvml_total_mib or 0) - total)).changed(taken=None)
    if known is None or gpu.mig:
        return Device(id="auto", name=gpu.name, vendor="nvidia", memory_gb=None, size_bytes=gpu.total_bytes), gpu.used_bytes
    facts = {"nvml_total_mib": total}
    if known.cuda_total_mib is None or abs((known.nvml_total_mib or 0) - total) > OTHER_CARD * total:
        facts["size_bytes"] = gpu.total_bytes - gpu.reserved_bytes
    return known.changed(**facts), gpu.used_bytes


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
            raise SpecError(name, [("", f"{str(value)[:60]!r} is not a whole number")])
        return value if name == "n_gpu_layers" else at_least_one(name, value)
    if kind == "fraction":
        try:
            number = float(value)
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
        return device(value)
    if kind == "options":
        return _options(value)
    if not isinstance(value, str):
        raise SpecError(name, [("", f"{str(value)[:60]!r} is not text")])
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
        return tuple((str(k), str(v).lower() if isinstance(v, bool) else str(v)) for k, v in value.items())
    if not isinstance(value, str | list | tuple):
        raise SpecError("engine_option", [("", f"{str(value)[:60]!r}: write KEY=VALUE, a list of them, or a mapping")])
    pairs: list[tuple[str, str]] = []
    for item in [value] if isinstance(value, str) else value:
        key, equals, text = str(item).partition("=")
        if not equals or not key:
            raise SpecError("engine_option", [("", f"{str(item)[:60]!r}: write KEY=VALUE")])
        if dict(pairs).get(key.strip(), text.strip()) != text.strip():
            raise SpecError("engine_option", [(key.strip(), "is given twice, with two values; keep one")])
        pairs.append((key.strip(), text.strip()))
    return tuple(pairs)
