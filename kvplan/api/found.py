"""The models and devices that a question names: in the catalogue, in files, on the Hub, on this machine."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from kvplan import catalogue, engines
from kvplan.api.allowed import asks_hub, ours
from kvplan.devices import Device, sized
from kvplan.dtypes import GGUF_TYPES
from kvplan.errors import KvplanError, SpecError, UnknownName
from kvplan.spec import ModelSpec
from kvplan.units import GIB, parse_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from kvplan.engines.common.protocol import Facts
    from kvplan.stored import StoredWeights


def model(name: str | PathLike[str] | ModelSpec) -> ModelSpec:
    """The spec that a name or a path means. Raises UnknownName, SpecError, FormatError, UnsupportedError.

    >>> model("meta-llama/Llama-3.1-8B-Instruct").id
    'meta-llama/llama-3.1-8b'
    """
    return find(name)[0]


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

    spec = of_file(source)[0] if is_path(source) else importers.from_hub(source, revision).spec
    return dump_spec(spec.plain())


def of_files(model: str | PathLike[str] | ModelSpec, values: dict[str, Any]) -> tuple[ModelSpec, StoredWeights | None]:
    """`find`, for the engine that is asked; of a repository of GGUF files the one in the type that is asked for, which is its
    checkpoint's own then. LM Studio's NAME@TYPE asks for one too."""
    if isinstance(model, str) and (lm := _LM_STUDIO.fullmatch(model.strip())) and lm[2].lower() in GGUF_TYPES:
        if str(values.setdefault("weight_dtype", lm[2].lower())).lower() != lm[2].lower():
            raise SpecError("weight_dtype", [("", f"{model[:100]!r} names {lm[2]}, and {values['weight_dtype']} is asked for")])
        model = lm[1]
    facts = _facts(engine_of(values))
    released = facts is not None and not facts.serves_files
    if facts is not None and facts.bare_is_latest and isinstance(model, str) and not is_path(model) and (served := _in_library(model)):
        return served, None
    try:
        return find(model, released=released)
    except KvplanError as error:
        several = error
    meant = _one_of(str(model), str(values.get("weight_dtype") or "").strip())
    found = _or_none(meant) if meant else None
    if found is None:
        raise several
    del values["weight_dtype"]
    return found


def _in_library(model: str) -> ModelSpec | None:
    """The file of Ollama's library that a loose name means, as `ollama run` reads a bare one, which elsewhere may be a release's."""
    from kvplan import names

    tag = names.tag_of(model)
    if tag is None:
        return None
    spec, said = catalogue.find_model(tag.name), names.taken_as(model, tag)
    return spec.changed(notes=(*spec.notes, said)) if said else spec


def _one_of(model: str, kind: str) -> str:
    """What a repository's files or branches in one format are known by: `NAME:TYPE` of GGUF, `NAME-4.0bpw-exl3` of EXL2 and EXL3."""
    exl, bits = _EXL.fullmatch(model.strip()), _BITS.fullmatch(kind)
    if exl and bits and exl[2] == bits[1]:
        return f"{exl[1]}-{bits[2]}bpw-exl{exl[2]}"
    gguf = model.lower().endswith("gguf") or kind.lower().replace("-", "_") in GGUF_TYPES
    return f"{model}:{kind.upper().replace('UD_', 'UD-')}" if kind and gguf else ""


def _or_none(name: str) -> tuple[ModelSpec, StoredWeights | None] | None:
    """What has exactly that name; None where nothing has."""
    try:
        return find(name)
    except KvplanError:
        return None


_EXL = re.compile(r"(.+)[-_]exl([23])", re.IGNORECASE)
_BITS = re.compile(r"exl([23])[:_](\d+(?:\.\d+)?)bpw", re.IGNORECASE)
_LM_STUDIO = re.compile(r"([^@:]+)@([A-Za-z0-9_]+)")


def engine_of(values: Mapping[str, Any]) -> str:
    """The engine that is asked, or the one that is taken where none is."""
    return str(values.get("engine") or (engines.DEFAULT if "device" in values else "ideal"))


def _facts(engine: str) -> Facts | None:
    """What an engine is; of one that is not known this is not what is wrong."""
    try:
        return engines.facts(engine)
    except UnknownName:
        return None


def find(model: str | PathLike[str] | ModelSpec, *, released: bool = False) -> tuple[ModelSpec, StoredWeights | None]:
    """The spec, and the weights as stored where the model's files are at hand; a Hub id outside the catalogue is asked of the Hub.

    released: a tag of Ollama's library that names no type is the model as it was released.
    """
    if isinstance(model, ModelSpec):
        return model, None
    if isinstance(model, os.PathLike):
        return of_file(os.fspath(model))
    if not isinstance(model, str) or not model.strip():
        raise SpecError("model", [("", "write a model id such as meta-llama/llama-3.1-8b, or a path such as ./model.yaml")])
    if is_path(model):
        return of_file(model)
    if _HUB_ID.fullmatch(model) is None:
        return catalogue.find_model(model, released=released), None
    try:
        return catalogue.find_model(model, by_name=False, released=released), None
    except UnknownName as error:
        unknown = error
    why = "; --hub asks the Hub for it"
    if asks_hub():
        from kvplan import importers
        from kvplan.importers.hub import NotOnHub

        try:
            return importers.from_hub(model)
        except KvplanError as error:
            why = f"; and it could not be had from the Hub: {error}"
            if isinstance(error, NotOnHub):  # a name that nobody has published says nothing
                raise KvplanError(f"{unknown}{why}") from None
    try:
        return catalogue.find_model(model, released=released), None
    except UnknownName:
        raise KvplanError(f"{unknown}{why}") from None


_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")


def is_path(model: str) -> bool:
    if model.startswith(("./", "../", "/", "~")) or model.endswith((".yaml", ".yml", ".json", ".safetensors")):
        return True
    from kvplan.names import names_a_file

    return model.endswith(".gguf") and (os.path.isfile(model) or not names_a_file(model))


def of_file(path: str) -> tuple[ModelSpec, StoredWeights | None]:
    ours("model", path, "a path")
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
        ours("device", "auto", "this machine's GPU")
        return this_machine()[0]
    known, at, seen = str(name).partition("@")
    if at:
        if not seen.strip() or not (n_bytes := parse_bytes(seen, "device")):
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


def this_machine() -> tuple[Device, int]:
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
        device = Device(id="auto", name=gpu.name, vendor="nvidia", memory_gb=None, size_bytes=gpu.total_bytes, driver=gpu.driver)
        return device, gpu.used_bytes
    facts: dict[str, Any] = {"nvml_total_mib": total, "driver": gpu.driver}
    if known.cuda_total_mib is None or abs((known.nvml_total_mib or 0) - total) > OTHER_CARD * total:
        facts["size_bytes"] = gpu.total_bytes - gpu.reserved_bytes
    return known.changed(**facts), gpu.used_bytes
