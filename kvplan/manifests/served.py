"""The name that an engine is told to load: the one that was typed in its own case, else the checkpoint that the catalogue names."""

from __future__ import annotations

import re

from kvplan import catalogue, names
from kvplan.engines.common.arguments import Arguments
from kvplan.errors import KvplanError, UnsupportedError
from kvplan.names import Named

HUB = "https://huggingface.co/"
#: What catalogue ids leave out of a release's name.
DRESSING = re.compile(r"(-(instruct|it|chat|hf))+$")


def served(id_: str, table: Arguments) -> str:
    """The name for a plan's model `id_`. Raises UnsupportedError where the engine loads names of a library that has none for it."""
    try:
        found = catalogue.find_model(id_)
    except KvplanError:
        return table.placeholder or _needs_tag(id_, table) or id_
    if table.config == "modelfile":
        return (found.hub_id or id_) if ":" in id_ else tag(id_) or _needs_tag(id_, table)
    if table.placeholder:
        return table.placeholder
    if found.hub_id and ":" not in found.hub_id:
        return found.hub_id
    parts = found.source.removeprefix(HUB).split("/")
    name = "/".join(parts[:2]) if found.source.startswith(HUB) and len(parts) > 1 else id_
    if name != id_ and means(name, id_):
        return name
    return _published(Named(id_, id_, None, None, "")) or id_


def typed(name: str, table: Arguments) -> str | None:
    """The release that a typed name means, as its publisher spells it; None where the catalogue's own entry was typed, or a file.

    Raises UnsupportedError for a tag of Ollama's whose model has shapes of another: what the Hub calls it is not known.
    """
    if table.placeholder:
        return None
    if table.config != "modelfile" and "/" not in name:
        _not_anothers(name)
    if ":" in name and table.config != "modelfile":
        return None
    try:
        line = names.look_up(name)
    except KvplanError:
        return None
    if line is not None and line.name == line.base and "/" in name and name.lower() == line.base != name and table.config != "modelfile":
        return name if served(line.base, table) == line.base else None  # nobody's spelling is known: as it was typed
    if line is None or (line.name == line.base and table.config != "modelfile"):
        return None
    if table.config == "modelfile":
        return line.name if ":" in line.name and "/" not in line.name else _tag_of(line)
    return (None if line.name == line.base else _published(line)) or (line.name if "/" in line.name else None)


def _not_anothers(name: str) -> None:
    try:
        line = names.look_up(name)
    except KvplanError:
        return
    if line is None or line.as_released is line or _letters(line.base.rpartition("/")[2]).startswith(_letters(line.name.partition(":")[0])):
        return
    raise UnsupportedError(f"{name[:80]} has the shapes of {line.base}, and the Hub has it under another name: give that with --serve NAME")


def means(name: str, id_: str) -> bool:
    """Whether a name is that of the model `id_`."""
    try:
        return catalogue.find_model(name).id == id_
    except KvplanError:
        return False


def tag(name: str) -> str | None:
    """The tag of Ollama's library that is called as a model is: llama3.1:8b of meta-llama/llama-3.1-8b."""
    try:
        line = names.look_up(name)
    except KvplanError:
        return None
    return _tag_of(line or Named(name, name, None, None, ""))


def _tag_of(line: Named) -> str | None:
    word = _letters(DRESSING.sub("", line.name.lower().rpartition("/")[2]))
    tags = [one.name for one in names.everything() if one.base == line.base and ":" in one.name and "/" not in one.name]
    exact = [one for one in tags if _letters(one) == word]
    sized = [one for one in tags if re.fullmatch(re.escape(word) + r"\d+b", _letters(one))]
    return min(exact or sized, key=len, default=None)


def _published(line: Named) -> str | None:
    """The release that a name in lower case, which catalogues use, leaves the end of: Llama-3.3-70B-Instruct of llama-3.3-70b."""
    word = line.name if "/" in line.name else f"{line.base.partition('/')[0]}/{line.name}"
    if word != word.lower() or ("/" not in line.name and word == line.base):
        return None
    found = []
    for one in names.everything():
        stem = DRESSING.sub("", one.name.lower())
        if stem == word and (one.base, one.weights, one.length) == (line.base, line.weights, line.length) and one.name[: len(stem)] != stem:
            found.append(one.name)
    return min(found, key=len, default=None)


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _needs_tag(id_: str, table: Arguments) -> str:
    if table.config != "modelfile":
        return ""
    message = f"no tag of Ollama's library that is known is {id_}; name what it is to load with --serve, such as hf.co/ORG/NAME-GGUF:Q4_K_M"
    raise UnsupportedError(message)
