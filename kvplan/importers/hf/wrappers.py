"""Multimodal wrappers: a text stack of a known family, towers beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvplan.errors import UnsupportedError
from kvplan.importers.hf.audio_towers import AUDIO
from kvplan.importers.hf.classes import class_part
from kvplan.importers.hf.decoder import Stack
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.projectors import PROJECTORS, Sides
from kvplan.importers.hf.towers import TOWERS
from kvplan.importers.hf.towers_joined import JOINED
from kvplan.importers.hf.towers_of_one_family import OF_ONE_FAMILY
from kvplan.importers.hf.towers_with_mergers import WITH_MERGERS

EVERY_TOWER = (TOWERS, WITH_MERGERS, AUDIO, OF_ONE_FAMILY, JOINED)
#: Where configs keep the settings of a nested model.
NESTED = ("text_config", "llm_config", "language_config", "thinker_config")


class Tower(NamedTuple):
    """key: the tower's config; model_type: its class where the config does not say.

    projector  what joins it to the text: a row of PROJECTORS, `none` where the tower has it inside, or `unknown`
    """

    key: str
    model_type: str
    projector: str = "none"
    name: str = "vision_tower"
    names: Mapping[str, tuple[str, ...]] = {}
    older: str = ""  # the key under which older files keep it
    own: bool = False  # the wrapper builds its own class whatever model_type the tower's config states (MiniMax-M3 writes CLIP's)


class Wrapper(NamedTuple):
    """text: key of the text model's config; flat: older files keep its settings on top; family: its class where the config is silent."""

    family: str
    towers: tuple[Tower, ...] = ()
    text: str = "text_config"
    flat: bool = False
    inside: str | None = None  # all of it nested once more under this key (Qwen omni: thinker_config)
    unstated: str | None = None  # what else the checkpoint has that engines do not load
    uncounted: str | None = None  # what else it has that they do, and no formula is known for
    inner_head: bool = False  # the head is the text model's, and so is tying it


def wrapper(f: Fields, t: Wrapper) -> Stack:
    """The text stack with its towers as parameter counts."""
    if t.inside and (t.inside in f.data or "text_config" not in f.data):
        f = f.part(t.inside)
    text = text_part(f, t)
    stack, notes, towers = text_stack(f, text, t), [], []
    uncounted = [t.uncounted] if t.uncounted else []
    for tower in t.towers:
        key = tower.older if tower.older in f.data and tower.key not in f.data else tower.key
        declared = class_part(f.model_type, key)
        if f.data.get(key) is None and (declared is None or declared[2]):
            uncounted += [] if declared and declared[2] else [f"{tower.name} not counted: the config has no {tower.key}"]
            continue
        part = f.part(key, tower.model_type)
        own = declared[0] if declared and not declared[1] else tower_class(f, part, tower)
        count = next((table[own] for table in EVERY_TOWER if own in table), None)
        if count is None:
            uncounted.append(f"{tower.name} not counted: no formula for {own[:60]!r}")
            continue
        part = part.of_class(own).named(tower.names, {})
        if own_parameters := count(part):
            towers.append({"name": tower.name, "parameters": own_parameters})
        if tower.projector == "unknown":
            uncounted.append(f"what joins {tower.name} to the text model is not counted: no formula")
            continue
        joined = PROJECTORS[tower.projector](Sides(f, part, stack["hidden_size"]))
        if joined:
            towers.append({"name": tower.name.replace("_tower", "_projector"), "parameters": joined})
    if t.unstated:
        notes.append(t.unstated)
    named = text.file.get("architectures") if t.text == "llm_config" else None
    if isinstance(named, list) and named and isinstance(named[0], str):
        stack = {**stack, "text_class": named[0][:100]}
    return {**stack, "towers": towers, "notes": [*stack.get("notes", []), *notes], "uncounted": [*stack.get("uncounted", []), *uncounted]}


def tower_class(f: Fields, part: Fields, tower: Tower) -> str:
    """The class of a tower: what its config states, unless it states nothing or repeats the wrapper's own model type."""
    stated = part.file.get("model_type")
    if tower.own or not isinstance(stated, str) or stated in ("", f.file.get("model_type")):
        declared = class_part(f.model_type, tower.key)
        return declared[0] if declared else tower.model_type
    return _RENAMED.get(stated, stated)


def text_part(f: Fields, t: Wrapper) -> Fields:
    """The text model's settings. A text config inside a text config is refused."""
    declared = class_part(f.model_type, t.text)
    if f.data.get(t.text) is None:
        if t.flat:
            return f.of_class(declared[0] if declared else t.family)
        raise f.fault(t.text, "missing; this architecture keeps its text model there")
    part = f.part(t.text, t.family)
    for key in NESTED:
        if isinstance(part.data.get(key), dict):
            raise part.fault(key, "a text model nested twice; take one level out")
    return part


def text_family(f: Fields, text: Fields, t: Wrapper) -> str:
    """The family that lowers the text model: the wrapper's own choice where its class fixes it, else what the text config states.

    Raises UnsupportedError for a text model that is not known.
    """
    from kvplan.importers.hf.architectures import ARCHITECTURES, FAMILIES

    declared = class_part(f.model_type, t.text)
    stated = text.file.get("model_type")
    fixed = declared and (not declared[1] or not isinstance(stated, str))
    known = [name for name in (stated, f"{stated}_text", _RENAMED.get(str(stated))) if isinstance(name, str) and name in FAMILIES]
    if declared and fixed and (known or stated in (None, declared[0], f.file.get("model_type"))):
        known = [declared[0]]
    elif text.path != f.path:
        names = text.file.get("architectures")
        named = ARCHITECTURES.get(names[0]) if isinstance(names, list) and names and isinstance(names[0], str) else None
        if named and not isinstance(FAMILIES[named].traits, Wrapper):  # some text parts repeat the wrapper's own class
            return named
    if text.path == f.path and not declared:
        return t.family
    for family in known:
        if family in FAMILIES and not isinstance(FAMILIES[family].traits, Wrapper):
            return family
    if isinstance(stated, str) and stated not in (t.family, f.file.get("model_type")):
        raise UnsupportedError(
            f"{f.source}: {text.dotted('model_type')}: {stated[:60]!r} is not a text model that kvplan knows; declare a spec file"
        )
    return t.family


#: Parts as released files name them -> the class that transformers has for them.
_RENAMED = {
    "exaone4_5_text": "exaone4",
    "qwen3_asr_text": "qwen3",
    "qwen3_asr_audio_encoder": "qwen3_asr_encoder",
    "step_audio_2_text": "qwen2",
}


def text_stack(f: Fields, text: Fields, t: Wrapper) -> Stack:
    """The text model lowered by its own family; tying is the wrapper's to say (absent: its class default), then the text model's."""
    from kvplan.importers.hf.architectures import FAMILIES
    from kvplan.importers.hf.rows import lowering

    family = text_family(f, text, t)
    row = FAMILIES[family]
    stack = lowering(row)(text.of_class(row.model_type or family).named(row.names, row.defaults), row.traits)
    if t.inner_head:
        return stack
    if "tie_word_embeddings" in f.data or class_part(f.model_type, t.text):
        return {**stack, "tied_embeddings": f.flag("tie_word_embeddings")}
    if text.path != f.path and "tie_word_embeddings" not in text.data:
        return {**stack, "tied_embeddings": bool(f.defaults.get("tie_word_embeddings", stack["tied_embeddings"]))}
    return stack
