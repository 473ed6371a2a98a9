"""Why a name is not known, and what to write instead: the command that answers, the same model by its maker's name, the nearest names."""

from __future__ import annotations

import os
import re

from kvplan.dtypes import SHORT_TYPES
from kvplan.errors import AmbiguousName, KvplanError, UnknownName
from kvplan.names.index import Named, at, lowered
from kvplan.names.look_up import MOST_WORDS, by_its_name, look_up, namesake, of_files, released
from kvplan.names.nearest import FORMAT, nearest, parts
from kvplan.names.releases import COPIERS, TAG, Release, taken_apart
from kvplan.names.spellings import alike, sharing, words
from kvplan.names.written import plain

#: A word that speaks of a format by itself; others do beside one.
_SAYS_ONE = re.compile(r".*(?:fp\d|int\d|awq|gptq|bnb|gguf|mlx|bit|w\d|q\d|exl|quant|bpw|autoround|hqq|aqlm|eetq)")


#: A word that says that some parts of a model are in another format than the rest, or in one that is not known.
_MIXED = re.compile(
    r"optiq|ud|mixed|\w*mix|jang\w*|oq\d\w*|dq\d?\w*|paro|[23567]bits?|rotorquant|turboquant|mtplx|qx\d+|hi|rocmfp4|tr\d|k\dk\d"
)
#: A word that says that a release has other shapes than the model whose name it begins with, or is a part that goes with it.
_RESHAPED = re.compile(
    r"reap\d*|reaped|prun(?:ed|e)|(?:\d+x)?\d+(?:\.\d+)?[bmt]|a\d+(?:\.\d+)?b|\d+e|moe|eagle\d?|dflash\d?|dspark|draft\w*|lora|adapter|mmproj|onnx|vl|vision"
    r"|flash|mini|nano|micro|small|medium|large|max|plus|pro|lite|next|tiny|super|ultra|air|coder|omni|multimodal|audio|asr|tts|embed\w*|rerank\w*|reward|speculator\S*|distill\w*|upscaled?|\d+layers?|merge\w*|frankenmerge|assistant"
)


#: Families that are served by their makers alone, and what bears such a word and is published.
_CLOSED = re.compile(r"\b(gpt-(?:3\.5|[45])[\w.-]*|chatgpt[\w.-]*|claude[\w.-]*|gemini[\w.-]*|o[134](?:-mini|-preview|-pro)?$)")
_OPEN = re.compile(r"/|gpt-oss|distill")


#: Of a type that is said by its bits alone, what engines that serve no GGUF files have with so many.
_PACKED = {"q4": "int4", "q8": "int8"}


def unknown(name: str, *, files: bool = True) -> KvplanError:
    """The error for a name that nothing has: the command that answers for a known model's release, else the nearest models.

    files  whether who asks serves GGUF files, so that `q4` is a type of these
    """
    written = plain(name)
    key = written.lower()
    release = taken_apart(key) or taken_apart(re.sub(r"[-_]mtp(?=[-_]|$)", "", key)) or _spelt_apart(key)
    if not _OPEN.search(key) and (maker := _CLOSED.search(key)):
        return UnknownName("model", name, [], hint=f"{maker[0]}'s weights are not published: nobody but its maker runs it")
    if release is not None and release.weights == "gguf" and _resolves(f"{written}:Q4_K_M"):
        return of_files(name.strip(), written)
    if release is not None and (known := released(release) or _with_its_size(release)) is not None:
        weights = "q4_k_m" if release.weights == "gguf" else _written(release.weights, files)
        command = f"kvplan estimate {known.name} --weight-dtype {weights}"
        text = f"it is not known whether it is {known.name} in another format, as its name says; if it is: {command}"
        return UnknownName("model", name, [], hint=text)
    if release is None and (hint := _of_a_format(key)):
        return UnknownName("model", name, [], hint=hint)
    family, _, tag = key.partition(":")
    if tag and "/" not in family:
        size = f"{family}:{tag.partition('-')[0]}"
        tags = _tags(family)
        listed = [found for found in tags if found.lower().startswith(size)]
        if tags:
            return UnknownName("model", name, [], nearest=(listed or tags)[:3])
    asked = release.of if release else key
    same = _namesakes(key) if "/" in key else []
    if same:
        return UnknownName("model", name, [], nearest=same)
    if (not tag or "/" in family) and (hint := _made_of(key)):
        return UnknownName("model", name, [], hint=hint)
    near = _with_its_words(asked) or nearest(asked)
    hint = _other_versions(asked, near)
    if not near:
        hint = "give its config.json or its file" if "/" in key else "give its Hub id (organisation/name), its config.json or its file"
        if os.path.isdir(name.strip()):
            hint = f"for the folder of that name write ./{name.strip()}"
    return UnknownName("model", name, [], nearest=near, hint=hint)


def _spelt_apart(key: str) -> Release | None:
    """`qwen3-32b q4_k_m`, `llama 3.1 8b q8_0`: a name, a blank and a type of GGUF files."""
    of, _, type_ = key.rpartition(" ")
    return Release("-".join(of.split()), type_.replace("fp16", "f16")) if of and TAG.fullmatch(type_) else None


def _written(weights: str, files: bool) -> str:
    """A format as --weight-dtype has it; of bits alone the type that is usual with so many."""
    return SHORT_TYPES.get(weights, weights) if files else _PACKED.get(weights, SHORT_TYPES.get(weights, weights))


def _with_its_words(key: str) -> list[str]:
    """At most three releases of makers that have all words of a name which says a size, those with the fewest more first."""
    asked = set(words(key))
    if "/" in key or not parts(key).sizes or len(asked) < 3:
        return []
    lines = [line for line in sharing(key) if "/" in line.name and not line.is_tag and line.publisher not in COPIERS]
    found = [line for line in lines if asked <= set(words(line.name)) and (line.weights is None or namesake(line))]
    own = [line for line in found if namesake(line)] or found
    return [line.name for line in sorted(own, key=lambda line: (len(words(line.name)), line.name))][:3]


def _namesakes(key: str) -> list[str]:
    """At most three releases of the same name by others, the makers' own first."""
    names = [line.name for line in sorted(alike(key), key=lambda line: line.publisher != line.base.partition("/")[0]) if "/" in line.name]
    return list(dict.fromkeys(names))[:3]


def _other_versions(key: str, near: list[str]) -> str:
    """That the nearest names are of other versions, which are other models; empty where one is of the version that was asked for."""
    asked = parts(key).versions
    if not asked or not near or any(asked & parts(id_).versions for id_ in near):
        return ""
    return f"no model of that family and version is known here; of other versions: {', '.join(near)}. Its own config.json or file is read"


def _with_its_size(release: Release) -> Named | None:
    """The known model of a name that says its size too, which its maker's leaves out: Qwen3.8-Flash-Next-125B-A5B."""
    short = re.sub(r"[-_](?:\d+x)?\d+(?:\.\d+)?[bmt](?:[-_]a\d+(?:\.\d+)?b)?(?=[-_]|$)", "", release.of)
    found = released(release._replace(of=short)) if short != release.of else None
    return None if found is None or parts(found.name).sizes | parts(found.base).sizes else found


def _said(words: list[str]) -> tuple[str, list[str]]:
    """The format that the most of neighbouring words say, else empty, and the other words."""
    for n in range(len(words), 0, -1):
        for i in range(len(words) - n + 1):
            found = taken_apart(f"x-{'-'.join(words[i : i + n])}")
            if found is not None and found.of == "x":
                return found.weights, words[:i] + words[i + n :]
    return "", words


def _made_of(key: str) -> str:
    """The command that answers if a name that begins with a known model's is that model, tuned or in the format that it speaks of; empty
    where it does not begin so, or says that its shapes are others."""
    release = taken_apart(key)
    bits = release.weights if release is not None and (release.weights.startswith("exl") or ":" in key) else ""
    stem = release.of if release is not None and bits else key.removesuffix(".gguf")
    ends = [match.start() for match in re.finditer(r"[-_]|\.(?!\d)", stem) if match.start() > stem.rfind("/")][:MOST_WORDS]
    for end in reversed(ends):
        known = released(Release(stem[:end], "")) if re.search(r"\d", stem[:end]) else None
        own = taken_apart(stem[:end])
        if known is None or "/" not in known.name or (own is not None and own.weights not in ("bf16", "f16")):
            continue
        rest = [word for word in re.split(r"[-_]", stem[end + 1 :]) if word]
        if any(_RESHAPED.fullmatch(word) for word in rest):
            return ""
        said, left = _said(rest)
        others = any(_SAYS_ONE.match(word) for word in left)
        if any(_MIXED.fullmatch(word) for word in rest) or (said and others):
            text = f"its name speaks of {known.name} in a mix of formats, which its config.json tells layer by layer: give that"
            return f"{text}; or one format in its place: kvplan estimate {known.name} --weight-dtype FORMAT"
        said = bits or said
        if others:
            return ""
        command = f"kvplan estimate {known.name}"
        if not said:
            return f"its name begins as {known.name}'s; if it was tuned from that: {command}"
        return (
            f"its name speaks of {known.name} and a format; if it is that: {command} --weight-dtype {'q4_k_m' if said == 'gguf' else said}"
        )
    return ""


def _resolves(name: str) -> bool:
    try:
        return (look_up(name) or by_its_name(name)) is not None
    except AmbiguousName:
        return False


def _tags(family: str) -> list[str]:
    """The tags of Ollama's library that a family has."""
    return [at(match.start() + 1).name for match in re.finditer(rf"\n{re.escape(family)}:", lowered())]


def _of_a_format(key: str) -> str:
    """What is said of a known model with an ending that speaks of a format which is not known; empty for any other name."""
    words = [match.start() for match in re.finditer(r"[-_.]", key)][-8:]
    for end in words:
        rest = [word for word in re.split(r"[-_.]", key[end + 1 :]) if word]
        if (
            all(FORMAT.fullmatch(word) for word in rest)
            and any(_SAYS_ONE.match(word) for word in rest)
            and (known := released(Release(key[:end], ""))) is not None
        ):
            bits = next((f"{word}:4.0bpw" for word in rest if word in ("exl2", "exl3")), "FORMAT")
            command = f"kvplan estimate {known.name} --weight-dtype {bits}"
            return f"{key[end:]!r} says a format of {known.name} that is not known by that name; if it is one of those that are: {command}"
    return ""
