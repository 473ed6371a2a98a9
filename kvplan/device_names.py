"""Devices by the names that people, drivers, clouds and Kubernetes have for them; each is a file of device_specs/."""

from __future__ import annotations

import difflib
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from kvplan import machines
from kvplan.devices import MIG, Device, bare, parse_device, share_of, slice_of, smallest_slice
from kvplan.errors import AmbiguousName, KvplanError, UnknownName
from kvplan.files import parse_yaml, read_text

_DEVICES = Path(__file__).parent / "device_specs"
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,100}")
#: Devices that are kept once they were read: whoever asks often asks for few of them.
KEPT = 256

#: Spellings that several cards have -> the word that has to be said with them.
SHARED_NAMES = {"rtx6000": "quadro"}
#: A name with its memory: `RTX 3060 Ti (8GB)`.
_SIZED = re.compile(r"(.{1,80}?)(?:[ _-]+\(?(?=\d{1,4} ?gi?\)?$)|[ _-]*\(?(?=\d{1,4} ?gi?b))(\d{1,4}) ?gi?b?\)?")
#: A name with its form after its memory: `a100-80gb-sxm`.
_FORM_LAST = re.compile(r"^(.{1,80}?)[ _-]+(\d{1,4} ?gi?b)[ _-]+(sxm\d?|pcie|nvl)$")
#: Words that make a name another card's.
_OTHER_CARD = re.compile(r"-(?:ti|super|xtx?|d|gre)(?:-|$)")
#: Words that a device's name may have or not, and the marks around them.
_MAKERS = re.compile(
    r"\((?:r|tm)\)|\b(?:nvidia|geforce|tesla|quadro|amd|radeon|instinct|oam|intel|apple|graphics|generation"
    r"|mac ?(?:studio|mini|pro)|macbook ?(?:air|pro)?|imac)\b"
)
_BETWEEN = r"(?:\((?:r|tm)\)|[ _()-])*"


def spelling(name: str) -> str:
    """What is left of a device's name when makers, marks and separators are taken out: "NVIDIA GeForce RTX 4090 D" is `rtx4090d`."""
    return re.sub(r"[ ()-]", "", _MAKERS.sub(" ", name.lower().replace("_", " ")))


def _called(name: str, word: str) -> str | None:
    """The file of the device that is called `name` to the letter, else whose id or alias is spelled `word`, else whose label is."""
    letters = re.compile(_BETWEEN.join(map(re.escape, word)).encode("utf-8", "surrogatepass"))
    found = []
    for id_ in device_ids():
        path = str(_DEVICES / f"{id_}.yaml")
        with open(path, "rb") as file:
            text = file.read()
        if letters.search(text.lower()):  # only files that have these letters in this order are parsed
            data = parse_yaml(text.decode(), path)
            names, labels = (
                [str(name).lower() for field in fields for name in _many(data.get(field))]
                for fields in (("id", "aliases"), ("name", "product_names", "kubernetes_labels"))
            )
            ranks = (name in names + labels, word in map(spelling, names), word in map(spelling, labels))
            found += [(ranks.index(True), path)] if True in ranks else []
    return min(found, default=(0, None))[1]


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def device_ids() -> list[str]:
    """The ids of all packaged devices, sorted."""
    return sorted(entry.name[:-5] for entry in os.scandir(_DEVICES) if entry.name.endswith(".yaml"))


def read_device(path: str | Path) -> Device:
    """A device from its YAML file."""
    return parse_device(parse_yaml(read_text(path), str(path)), str(path))


@lru_cache(maxsize=KEPT)
def find_device(name: str) -> Device:
    """A packaged device by id, alias, NVML product name or Kubernetes label, in any case, with or without its maker and its memory, as
    lspci or `nvidia-smi -L` print it, or by the machine type of a cloud that carries it.

    A number alone is a GeForce, RTX or Radeon card's ("3060 Ti", "RTX 3060 Ti 8GB", "rtx3060ti"). A name that is sold with several sizes of
    memory is the one that has the name, which says so in `taken`. Raises UnknownName, AmbiguousName where several devices are called so.
    """
    typed = bare(name)
    key = typed.lower()
    path = _DEVICES / f"{key}.yaml"
    if _ID.fullmatch(key) and os.path.isfile(path):
        return read_device(path)
    machine = machines.find(typed)
    if machine is not None:
        return read_device(_DEVICES / f"{machine.device}.yaml").changed(taken=machine.note)
    key = _FORM_LAST.sub(r"\1-\3-\2", key)
    found = _by_spelling(key)
    if found is None and (sized_name := _SIZED.fullmatch(key)):
        found = _of_size(_by_spelling(sized_name[1]), int(sized_name[2]))
    if found is None and (part := _SLICE.fullmatch(key)) and (slice_ := _slice(part[1], part[2])):
        return slice_
    if found is None or SHARED_NAMES.get(spelling(key), "") not in key:
        raise _no_device(name, key)
    return read_device(found).as_typed(typed)


def _of_size(path: str | None, gb: int) -> str | None:
    """The file of the card that is sold by the name of the one at `path` with so many GB of memory."""
    if path is None:
        return None
    ids = (id_ for id_ in read_device(path).same_name if os.path.isfile(_DEVICES / f"{id_}.yaml"))
    return next((one for one in (path, *(str(_DEVICES / f"{id_}.yaml") for id_ in ids)) if read_device(one).memory_gb == gb), None)


#: What people call a machine without a GPU.
_NO_GPU = ("cpu", "cpu-only", "cpu only", "none", "no", "no-gpu", "no gpu", "host", "ram")


def _no_device(name: str, key: str) -> KvplanError:
    """Why a name is no one device's, and what to write instead."""
    sizes = [id_ for id_ in device_ids() if re.fullmatch(r"\d+gb", id_.removeprefix(f"apple-{_dashed(_MAKERS.sub(' ', key))}-"))]
    if len(sizes) > 1:
        return KvplanError(f"device {name[:40]!r} is sold with several sizes of memory: say which ({', '.join(_by_size(sizes))})")
    if gb := share_of(key):
        return KvplanError(f"device {name[:60]!r} is the profile of a virtual GPU, a share of {gb} GB: give its memory, --device {gb}GiB")
    if key.isdigit():
        such = f"{key}GiB" if len(key) < 5 else f"{key[:18]}B"
        return UnknownName("device", name, [], hint=f"a size has a unit, such as {such}; `kvplan devices list` has the names")
    if key in _NO_GPU:
        hint = (
            "without a GPU leave --device out: --engine llama.cpp --n-gpu-layers 0 --host-memory 64GiB; vLLM's CPU build: --device 64GiB "
            "--engine-option platform=cpu"
        )
        return UnknownName("device", name, [], hint=hint)
    several = _beginning(key)
    if re.search(r"mac|apple", key):
        several = [id_ for id_ in several if id_.startswith("apple-")] if re.search(r"\bm\d", key) else []
        if len(several) < 2:
            such = " or ".join(_macs(key) or ("apple-m4-16gb", "apple-m3-max-64gb"))
            return UnknownName("device", name, [], hint=f"a Mac goes by its chip and memory, such as {such} (`kvplan devices list apple`)")
    if len(several) > 1:
        return AmbiguousName(name, several, "can be several devices")
    if other := _NO_GPUS.search(key):
        return UnknownName("device", name, [], hint=f"{other[0]} is no GPU, and engines on it are not modelled")
    if called := _called_so(key):
        return UnknownName("device", name, [], nearest=called)
    if not re.search(r"\d", key) and not any(key in id_ for id_ in device_ids()):
        hint = "`kvplan devices list` has those that are; a size such as 24GiB stands for any"
        return UnknownName("device", name, [], hint=hint)
    if (several_of := _SEVERAL.fullmatch(key)) and (card := _one_of(several_of[2] or several_of[3])):
        number = several_of[1] or several_of[4]
        return UnknownName("device", name, [], hint=f"several devices are written --device {card} --n-devices {number}")
    near, sized_name = _nearest_device(key), _SIZED.fullmatch(key)
    hint = f"any other goes by its memory, such as {sized_name[2] if sized_name else 24}GiB"
    return UnknownName("device", name, [], nearest=near, hint=f"did you mean {' or '.join(near)}? A{hint[1:]}" if near else hint)


#: Accelerators that run engines of their own.
_NO_GPUS = re.compile(r"\b(tpu|trainium\d?|trn\d\w*|inferentia\d?|inf\d\w*|gaudi\d?|ascend|groq|cerebras|npu)\b")


def _macs(key: str) -> list[str]:
    """The Macs of a size that a name says, at most three: a Studio's chips are Max and Ultra; those of the chip that it says."""
    size = re.search(r"(?<![a-z\d])(\d{1,3}) ?(?:gb|gib|g)?\b", key)
    ids = [id_ for id_ in device_ids() if id_.startswith("apple-") and size and id_.endswith(f"-{size[1]}gb")]
    for word in ("ultra", "max", "pro", *(f"m{n}" for n in range(1, 10))):
        if re.search(rf"\b{word}\b", key.replace("macbook pro", "")):
            ids = [id_ for id_ in ids if word in id_.split("-")]
    if "studio" in key:
        ids = [id_ for id_ in ids if {"max", "ultra"} & set(id_.split("-"))]
    return ids[::-1][:3]


#: `8xH100`, `8 x H100`, `h100:8`, `H100 x8`.
_SEVERAL = re.compile(r"(\d{1,4}) ?[x*] ?(.{2,60})|(.{2,60}?)(?::| ?[x*] ?)(\d{1,4})")


def _one_of(name: str) -> str | None:
    """The id of a device that is known by a name; None where none is."""
    try:
        return find_device(name).id
    except KvplanError:
        return None


def _nearest_device(key: str) -> list[str]:
    """The devices whose ids have a word of letters that a name has (rtx, b, mi), by spelling; a year's digits alone make no likeness."""
    sized_name = _SIZED.fullmatch(key)
    key = sized_name[1] if sized_name else key
    word = spelling(key)
    letters = set(re.findall(r"[a-z]+", _MAKERS.sub(" ", key.replace("_", " ")))) - {"gb", "gpu"}
    ids = {spelling(id_): id_ for id_ in device_ids() if letters & set(re.findall(r"[a-z]+", id_))}
    return [ids[found] for found in difflib.get_close_matches(word, list(ids), n=3, cutoff=0.5)]


def _called_so(key: str) -> list[str]:
    """A name among the aliases of each device that has all these words, where those are three at most: `spark` of dgx-spark."""
    words, found = set(key.replace("_", " ").replace("-", " ").split()), []
    for id_ in device_ids():
        listed = re.search(r"^aliases: *\[(.*)\]", read_text(_DEVICES / f"{id_}.yaml"), re.MULTILINE)
        found += [alias for alias in (listed[1].split(", ") if listed else []) if words and words <= set(alias.split("-"))][:1]
    return found if len(found) <= 3 else []


def _beginning(key: str) -> list[str]:
    """The devices whose ids have these words, or words that these are the beginnings of: `mi300` of mi300a and mi300x, `jetson orin`."""
    words = re.findall(r"[a-z0-9.]+", _MAKERS.sub(" ", key.replace("_", " ")))[:8]
    if not words or len("".join(words)) < 2:
        return []
    each = (re.escape(word) + ("(?![0-9])" if word[-1].isdigit() else "") for word in words)
    pattern = re.compile("(?:^|.*-)" + ".*-".join(each))
    said = "-" + "-".join(words)
    return [id_ for id_ in device_ids() if pattern.match(id_) and (_OTHER_CARD.search(said) or not _OTHER_CARD.search(id_))]


def _dashed(key: str) -> str:
    """`apple m3 max` -> `m3-max`: how the files of Apple's chips spell it."""
    return "-".join(re.findall(r"[a-z]+\d*|\d+", key.removeprefix("apple").replace("_", " ")[:40]))


def _by_size(ids: list[str]) -> list[str]:
    return sorted((id_.removeprefix("apple-") for id_ in ids), key=lambda id_: int(id_.rsplit("-", 1)[1].removesuffix("gb")))


#: `h100-1g.10gb`, `NVIDIA-A100-SXM4-80GB-MIG-3g.40gb`, `nvidia.com/mig-1g.10gb`, `1g.10gb`.
_SLICE = re.compile(r"(?:nvidia\.com/)?(?:(.{1,80}?)[-_ ])??(?:mig[-_ ]?)?([1-7]g\.[0-9]{1,3}gb)(?:\+me)?")


def _slice(parent: str | None, profile: str) -> Device | None:
    """A MIG slice of the GPU that is named, or of any that has one."""
    if not parent:
        return smallest_slice([read_device(_DEVICES / f"{id_}.yaml") for id_ in MIG], profile)
    try:
        whole = find_device(parent)
    except KvplanError:
        return None
    others = [find_device(id_) for id_ in whole.same_name if id_ in MIG] if whole.taken else []
    found = [one for one in (slice_of(card, profile) for card in (whole, *others)) if one is not None]
    if len(found) > 1:
        note = f"{parent} is taken as {whole.id}; {' and '.join(whole.same_name)} has slices of that name too, of another size"
        return found[0].changed(taken=note)
    return found[0] if found else None


def _by_spelling(name: str) -> str | None:
    """The file of a device by a name in lower case, however its words are joined."""
    word = spelling(name)
    words = [maker + word for maker in (("", "rtx", "gtx", "rx") if word[:1].isdigit() else ("",))]
    return next((file for each in words if 0 < len(each) <= 100 and (file := _called(name, each))), None)
