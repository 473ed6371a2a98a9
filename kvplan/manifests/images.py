"""Container images: repository -> engine and entrypoint, tag -> release. From the projects' own Dockerfiles and docs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kvplan import engines
from kvplan.engines.common.arguments import NUMBERED
from kvplan.engines.common.words import Finding, Place, Word

#: Words of a repository's name that say the engine; the programs that such images start with.
_NAMED = (
    ("vllm", r"vllm", ("vllm", "serve")), ("sglang", r"sglang|srt", ("python3", "-m", "sglang.launch_server")),
    ("ollama", r"ollama", ("ollama", "serve")), ("llama.cpp", r"llama\.?-?cpp|llama-server", ("llama-server",)),
    ("tensorrt-llm", r"tensorrt-?llm|trt-?llm", ("trtllm-serve",)), ("lmdeploy", r"lmdeploy", ("lmdeploy", "serve", "api_server")),
)  # fmt: skip
#: What an engine's own command begins with.
STARTS = {engine: entrypoint for engine, _, entrypoint in _NAMED}
#: Words that say that it is something beside an engine.
_BESIDE = re.compile(
    r"(^|[-_./])(router|proxy|gateway|sim|simulator|exporter|dashboard|client|bench|benchmark|benchmarks|test|tests|ui|webui|operator|"
    r"sidecar|scheduler|controller|manager|downloader|loader|pull|puller|init|grafana|monitor|nginx|litellm|agent|chat|frontend|web|"
    r"app|tools?|lmcache|k8s-device-plugin|inference-scheduler|adapter|docs?|openwebui|stack)($|[-_.])",
)  # fmt: skip
MAX_OPTIONS = 200
MOST_UNKNOWN = 0.4  # of the options, where the options tell the engine
ANY_SERVER = frozenset({"--host", "--port"})  # options that tell none


class Image(NamedTuple):
    """An image we know. `entrypoint`: the words it starts with; `default`: what runs where nothing is said; `maybe`: a release that its
    tag may mean, where it is not known to; `unsaid`: a tag that numbers something else."""

    engine: str
    version: str | None
    entrypoint: tuple[str, ...]
    default: tuple[str, ...] = ()
    maybe: str = ""
    unsaid: str = ""


def find(reference: str) -> Image | None:
    """The image that a reference such as `vllm/vllm-openai:v0.11.0` names; None for one that holds no engine we know."""
    name = re.sub(r"^\$\{\w+\}(?=\w)", "", reference.split("@")[0])  # `${PREFIX}vllm/vllm-openai`
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, ""
    for engine in engines.served():
        for known in engines.arguments(engine).repositories:
            if not re.search(known.pattern, repository) or (known.only and tag and not any(word in tag for word in known.only)):
                continue
            inside = re.search(rf"(?:^|[-_]){engine}[-_]v?{NUMBERED}(?=$|[-+_.])", tag)  # rocm6.4_vllm_0.10.1
            number = inside or (re.match(known.tag, tag) if known.tag else None)
            maybe = "" if number or not known.tag else _maybe(tag)
            version = number[1] if number else next((one for mark, one in known.holds.items() if tag.startswith(mark)), None)
            is_newest = known.tag and re.match(r"latest|nightly|main|master|dev|edge", tag)
            unsaid = tag if not version and not maybe and not is_newest and re.search(r"\d", tag) else ""
            return Image(engine, version, known.entrypoint, known.default, maybe, unsaid)
    return None


#: Images that hold a build for CPUs: by a word of theirs; llama.cpp's own, whose tags name every other backend (its docs/docker.md).
_FOR_CPU = re.compile(r"(^|[-_/:.])cpu($|[-_:.])|/llama\.cpp:(server|full|light)(-b\d+)?$")


#: Words of an image's name -> what it is built for, where that is no GPU: opea/vllm-gaudi, quay.io/ascend/vllm-ascend, vllm/vllm-tpu.
_FOR_OTHERS = {"gaudi": "Gaudi", "habana": "Gaudi", "habanaai": "Gaudi", "hpu": "Gaudi", "ascend": "Ascend", "npu": "Ascend", "tpu": "TPUs",
               "neuron": "Neuron", "neuronx": "Neuron"}  # fmt: skip


def built_for(reference: str) -> str:
    """What the image's name says that its engine uses instead of a GPU; empty where it says nothing of it."""
    name = reference.split("@")[0].lower()
    if _FOR_CPU.search(name):
        return "CPUs"
    return next((_FOR_OTHERS[word] for word in re.split(r"[-_/:.]", name) if word in _FOR_OTHERS), "")


def like(reference: str) -> Image | None:
    """The engine that a private image's name says, without a release: its tags number something else."""
    name = reference.split("@")[0].lower()
    repository = name.rpartition(":")[0] if re.search(r":[^/]*$", name) else name
    last = "/".join(repository.split("/")[-2:])
    if _BESIDE.search(repository.rsplit("/", 1)[-1]):
        return None
    for engine, word, entrypoint in _NAMED:
        if re.search(rf"(^|[-_/.{{$(])({word})($|[-_./]|\d)", last):
            return Image(engine, None, entrypoint, maybe=_maybe(name.removeprefix(repository).lstrip(":")))
    return None


def _maybe(tag: str) -> str:
    numbers = re.match(rf"v?(?=\d+\.\d+\.\d){NUMBERED}(?=$|[-+_.])", tag)
    return numbers[1] if numbers else ""


def tagged(image: Image | None, place: Place, *, is_open: bool = False) -> Finding | None:
    """What a tag may say that is not known to say it. `is_open`: a variable stands for the image."""
    if image is not None and is_open and not image.version:
        return Finding("tag", "note", "which image it is stands elsewhere: the newest release is taken; give --engine-version", place)
    if image is not None and image.unsaid:
        said = f"the tag {image.unsaid[:60]} does not number {image.engine}'s releases, and which it holds is not known here"
        return Finding("tag", "note", f"{said}: the newest is taken; give --engine-version", place)
    if image is None or not image.maybe:
        return None
    said = f"the image is not {image.engine}'s own, and what its tag numbers is not known: if that is {image.engine}'s release, give"
    return Finding("tag", "note", f"{said} --engine-version {image.maybe}", place)


def not_known(reference: str, place: Place) -> Finding | None:
    """What a digest, or the tag of an image that is none of an engine's, leaves open."""
    name, _, digest = reference.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    if not digest and not re.search(r"\d", tag):
        return None
    shown = digest[:19] if digest else f"{name.rpartition('/')[2][:80]}"
    return Finding("tag", "note", f"which release {shown} holds is not known here: the newest is taken; give --engine-version", place)


def only(engine: str, words: Sequence[Word]) -> list[Word]:
    """The options among the words that the engine has, with their values."""
    rows = {name.replace("_", "-"): row for row in engines.arguments(engine).rows for name in row.names}
    kept, values = list[Word](), 0
    for word in words:
        name, attached, _ = word.text.partition("=")
        if name.startswith("-") and (row := rows.get(name.replace("_", "-"))):
            values = 0 if attached or row.takes in ("flag", "switch") else len(words) if row.takes == "many" else 1
            kept.append(word)
        elif name.startswith("-") and name.replace("_", "-") not in rows:
            values = 0
        elif values:
            kept.append(word)
            values -= 1
    return kept


def telling(engine: str, words: Sequence[Word]) -> set[str]:
    """What the options among the words set, besides the model."""
    rows = {name.replace("_", "-"): row.to for row in engines.arguments(engine).rows for name in row.names}
    return {rows.get(word.text.partition("=")[0].replace("_", "-"), "") for word in words} - {"", "@model", "@path", "@hub"}


def by_options(words: Sequence[Word]) -> str:
    """The engine whose options these are: more of them its own than any other's, two at least, and most of them known."""
    asked = {w.text.partition("=")[0].replace("_", "-") for w in words if re.match(r"--?[A-Za-z]", w.text) and not re.search(r"\s", w.text)}
    if not asked or len(asked) > MAX_OPTIONS:
        return ""
    scored = []
    for engine in engines.served():
        rows = engines.arguments(engine).rows
        names = {name.replace("_", "-") for row in rows for name in row.names}
        sets = {name.replace("_", "-") for row in rows if row.to for name in row.names}
        scored.append((len(asked & names), len(asked & sets), engine))
    (known, telling, engine), (next_known, next_telling, _) = sorted(scored, reverse=True)[:2]
    too_many = len(asked) - known > MOST_UNKNOWN * len(asked - ANY_SERVER)
    if known < 2 or not telling or too_many or (known, telling) <= (next_known, next_telling):
        return ""
    return engine
