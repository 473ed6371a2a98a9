"""A name as people write it -> a line of the index, or why there is none and what to write instead."""

from __future__ import annotations

import re

from kvplan.errors import AmbiguousName
from kvplan.names.index import Named, as_spelled, at, before_tuning, exact, lowered
from kvplan.names.releases import CONVERTERS, COPIERS, GROUPS_OF_32, IN_BLOCKS, OF_OTHERS, TAG, UNDRESSED, UNIFORM, Release, taken_apart
from kvplan.names.spellings import alike, in_format, shortened, squeezed
from kvplan.names.written import plain

#: What people leave out of a name and catalogue ids never have; `deduped` are the texts that a Pythia was trained on.
_DRESSING = re.compile(r"-(?:instruct|it|hf|chat|deduped)(?=-|\t|$)")
#: Publishers that the Hub knows by another name since, and redirects (huggingface.co/CohereForAI); Meta's models are meta/… in NVIDIA's
#: catalogue of containers (build.nvidia.com). What ModelScope calls them (modelscope.cn): llm_family.json of xorbitsai/inference has both
#: names of each release.
_RENAMED = {
    "cohereforai": "coherelabs", "thudm": "zai-org", "neuralmagic": "redhatai", "cognitivecomputations": "dphn", "meta": "meta-llama",
    "zhipuai": "zai-org", "shanghai_ai_laboratory": "internlm", "nv-community": "nvidia", "minimax": "minimaxai",
    "paddlepaddle": "baidu", "tclf90": "quanttrio", "cpatonn": "cyankiwi",
}  # fmt: skip
#: ModelScope's mirrors of several makers' releases.
_MIRRORS_OF_MANY = ("llm-research", "ai-modelscope")
#: Repositories that a publisher renamed, by what was in their names before and is since; the Hub redirects both Meta's and NVIDIA's.
_RESPELT = {"meta-llama": ("meta-llama-", "llama-"), "nvidia": ("-fp4", "-nvfp4")}
#: Who uploads other makers' releases unchanged under their own name and the same model's.
_MIRRORS = ("unsloth",)
#: A version's point, for which repositories have an underscore too: MiniCPM-V-4_6, Llama-3_1-Nemotron.
_POINT, _UNDERSCORE = re.compile(r"(?<=\d)\.(?=\d)"), re.compile(r"(?<=\d)_(?=\d)")
_FILE = re.compile(r"\.gguf$", re.IGNORECASE)
_ELSEWHERE = re.compile(r"modelscope\.|^models--", re.IGNORECASE)  # an address of another hub's, a folder of the Hub's cache
#: unsloth's files of Gemma 4 trained for Q4_0: 6.72 GB of 12B is 4.5 bits an element, 14.25 of 26B-A4B too (people who opened them).
_TRAINED_ALIKE = re.compile(r"unsloth/gemma-4-.*-qat:ud-q4_k_xl")
MOST_WORDS = 12  # of a name that are looked at
#: Repositories of one file, in the type that the model was trained in.
_AS_TRAINED = re.compile(r"ggml-org/gpt-oss-\d+b-gguf")
#: Families whose -qat tags are of one type.
_TRAINED = {"gemma3": "q4_0_qat", "gemma4": "q4_0"}


def look_up(name: str) -> Named | None:
    """The line that a name means; None where none does. Raises AmbiguousName with the candidates where several do.

    A hub id or short name in any case, with or without `hf.co/`; an Ollama tag, in any quantisation of a listed one; a GGUF repository with
    `:TYPE`; the last part of an id, with or without -instruct and the like, where all ids that end in it mean the same; an id whose
    publisher was renamed, or whose model is known of that publisher but for -instruct and the like. A short name in any spelling
    (`llama3.1-8b`), and with words left out that its releases agree without (`olmo-2-7b` of OLMo-2-1124-7B).
    """
    written = plain(name)
    typed = name.strip().partition("?")[0].rstrip("/").removesuffix("/tree/main")
    if _ELSEWHERE.search(typed) or (_FILE.search(typed) and not _FILE.search(written)):
        typed = written
    key = re.sub(r" +", "-", written.lower())
    if not key or "\t" in key or "\n" in key:
        return None
    if _AS_TRAINED.fullmatch(key):
        return look_up(f"{written}:MXFP4")
    found = as_spelled(written) or exact(key)
    if found is not None:
        _one_file(typed, found)
    if found is None and key.endswith(":latest"):
        found = exact(key.removesuffix(":latest"))
    if found is None and "/" not in key and not _ending(key):
        found = _called(_DRESSING.sub("", key))
    if found is None:
        found = _quantised(typed, key) or _release(typed, key)
    if "/" in key:
        return found or _published(typed, key)
    if found is None:
        found = _tail(typed, key) or _spelled(typed, key)
        return None if found is None else _one_file(typed, found)
    return _with_others(typed, key, found)


def _one_file(typed: str, found: Named) -> Named:
    """A line that is not a repository of several files. Raises AmbiguousName where it is one."""
    if found.weights == "gguf":
        raise of_files(typed, found.name)
    return found


def of_files(typed: str, repository: str) -> AmbiguousName:
    """The error for a repository of GGUF files, with types that it is likely to have: of gpt-oss F16, with experts in MXFP4."""
    types = ", ".join(f"{repository}:{kind}" for kind in (("F16",) if "gpt-oss" in repository.lower() else ("Q4_K_M", "Q8_0")))
    return AmbiguousName(typed, [types], "is a repository of GGUF files; name one by its type, such as")


def _called(key: str) -> Named | None:
    """The model that somebody gave a short name; a tag of Ollama's is a file of one."""
    found = exact(key)
    return None if found is None or found.is_tag else found


def by_its_name(name: str) -> Named | None:
    """A quantised release that no line has, of a model that one has: what its name says it is. Evidence `r` where it is of the model's own
    maker, or NVIDIA's; `y` of anybody else's, `g` for a GGUF file of a type that a rule makes, `l` for a tag of Ollama's that is newer than
    the copy of its library.

    For where nothing better is to be had: the Hub's config is, where it is asked.
    """
    typed = re.sub(r" +", "-", plain(name))
    key = typed.lower()
    if ":" in key and "/" not in key:
        return _newer_tag(typed, key)
    release = taken_apart(key)
    known = released(release) if release and release.weights != "gguf" else None
    if release is None or known is None or "/" not in known.name or "/" not in release.of:
        return None
    publisher, maker = release.of.partition("/")[0], known.publisher
    own = publisher in (maker, _RENAMED.get(maker, maker), *OF_OTHERS)
    if maker in COPIERS:
        return None
    weights = "fp8-block" if release.weights == "fp8" and publisher in IN_BLOCKS else release.weights
    said = f"the length is that of {known.name}: {known.length:,} tokens" if known.length else ""
    if own:
        return Named(typed, known.base, weights, known.length, "r", said)
    if "gguf" in key or ":" in key:
        return Named(typed, known.base, weights, known.length, "g", said) if "gguf" in key and not weights.startswith("ud") else None
    if publisher in GROUPS_OF_32 and weights == "awq":
        weights = "int4-g32-any"
    differ = publisher == "thebloke" and weights.startswith("gptq")  # his files in GPTQ differ from model to model
    return None if differ else Named(typed, known.base, weights, known.length, "y", said)


def _newer_tag(typed: str, key: str) -> Named | None:
    """A tag that the copy of Ollama's library lacks: the model that its words begin with, in the type that follows or the usual one."""
    family, _, tag = key.partition(":")
    drafts = f"{typed} has the model's draft layer beside it, which is not counted" if "-mtp" in tag else ""
    words = [word for word in tag.split("-")[:MOST_WORDS] if word != "mtp"]
    for n in range(len(words), max(len(words) - 2, 0), -1):
        stem = "-".join(words[:n])
        called = f"{family}-{stem}"
        known = next((line for line in alike(called) or shortened(called) if "/" in line.name and line.weights is None), None)
        if known is None or _starting(f"{family}:{stem}"):
            continue
        said = taken_apart(f"{family}:{words[-1]}") if n < len(words) else None
        if n == len(words) or said:
            return Named(typed, known.base, said.weights if said else "q4_k_m", known.length, "l", drafts)
    return None


def _quantised(typed: str, key: str) -> Named | None:
    """An Ollama tag that is listed in another quantisation: `llama3.1:8b-instruct-q8_0` beside `llama3.1:8b-instruct-q4_K_M`."""
    stem, _, kind = key.rpartition("-")
    kind = _TRAINED.get(stem.partition(":")[0], kind) if kind == "qat" else kind
    if "/" in key or ":" not in stem or not TAG.fullmatch(kind.replace("fp16", "f16")):
        return None
    lines = _starting(stem)
    listed = [line for line in lines if TAG.fullmatch(line.name[len(stem) + 1 :])]
    bare = [line for line in lines if line.name.lower() == stem]
    dated = re.compile(rf"{re.escape(stem)}-[^\t]*\d[^\t]*-{TAG.pattern}", re.IGNORECASE)
    same = {(line.base, line.length) for line in bare}
    if not any((line.base, line.length) in same and dated.fullmatch(line.name) for line in lines):
        listed = listed or bare  # else the plain tag is another name of one release's file, and in another type it may be one before that
    found = _unique([line._replace(weights="gguf") for line in listed if line.weights is not None])
    return None if found is None else Named(typed, found.base, kind.replace("fp16", "f16"), found.length, "q")


def _starting(key: str) -> list[Named]:
    """Every line whose name starts with `key`."""
    return [at(match.start() + 1) for match in re.finditer(rf"\n{re.escape(key)}", lowered())]


def _published(typed: str, key: str) -> Named | None:
    """The same model of the same publisher: by the publisher's other name, or tuned to follow instructions, or before it was."""
    publisher, _, model = key.partition("/")
    names = {publisher, _RENAMED.get(publisher, publisher), *(old for old, new in _RENAMED.items() if new == publisher)}
    respelt = [*_respelt(publisher, model), *({_UNDERSCORE.sub(".", model), _POINT.sub("_", model)} - {model})]
    others = [f"{name}/{model}" for name in names - {publisher}] + [f"{publisher}/{other}" for other in respelt]
    for name in others:
        if (found := exact(name)) is not None:
            return found
    spelled = [line for line in alike(key) if line.publisher in names and squeezed(line.name) == squeezed(key)]
    if (found := _unique(spelled)) is not None:
        return found
    if taken_apart(key) is not None:
        return None
    if publisher == "nvidia" and (found := _in_containers(typed, model)) is not None:
        return found
    if publisher in (*_MIRRORS, *_MIRRORS_OF_MANY) and (found := _unique(_ending(model))) is not None:
        return Named(typed, found.base, found.weights, 0, "b")
    found = _unique([line for line in _undressed(model) if line.publisher in names])
    return None if found is None or found.weights is not None else Named(typed, found.base, None, 0, "b")


def _in_containers(typed: str, model: str) -> Named | None:
    """NVIDIA's model as its catalogue of containers writes it: without NVIDIA- and the format, and 3.3 where its repository has 3_3."""
    underscored = _POINT.sub("_", model)
    for name in (f"{before}{middle}{after}" for after in ("", "-bf16") for middle in (model, underscored) for before in ("", "nvidia-")):
        if (found := exact(f"nvidia/{name}")) is not None and found.weights in (None, "bf16"):
            return found._replace(taken=f"{typed} is taken as {found.name}; a container may serve it in another format")
    return None


def _respelt(publisher: str, model: str) -> list[str]:
    """The names that a renamed repository had or has."""
    before, since = _RESPELT.get(publisher, ("", ""))
    found = [model.replace(since, before, 1), model.replace(before, since, 1)] if before else []
    return [name for name in found if name != model]


def _release(typed: str, key: str) -> Named | None:
    """A file of a GGUF repository that is listed or of a known converter, or a copy that its publisher makes alike of all models."""
    release = taken_apart(key)
    if release is None or release.weights == "gguf":
        return None
    listed = exact(key.partition(":")[0])
    if listed is not None and listed.weights == "gguf":
        return listed._replace(name=typed, weights=release.weights, evidence="g")
    publisher, _, model = release.of.rpartition("/")
    gguf = "gguf" in key
    alike = release.weights in UNIFORM.get(publisher, ()) or (release.weights.endswith("bnb-4bit") and publisher == "unsloth")
    if not (alike or (gguf and publisher in CONVERTERS)):
        return None
    known = _by_both(model) if gguf else None
    known = known or _unique(_ending(model)) or (_unique(_ending(f"{model}-hf")) if publisher in UNDRESSED else None)
    drafts = ""
    if known is None and gguf and model.endswith("-mtp"):
        known = _unique(_ending(model.removesuffix("-mtp")))
        drafts = f"{typed} has the model's draft layer beside it, which is not counted"
    weights = f"ud-{release.weights}" if publisher == "unsloth" and re.fullmatch(r"q\d_k_xl", release.weights) else release.weights
    if known is None and gguf and model.endswith("-qat"):  # a model trained for 4 bits, converted as any other
        known = _by_both(model.removesuffix("-qat")) or _unique(_ending(model.removesuffix("-qat")))
        if _TRAINED_ALIKE.fullmatch(f"{publisher}/{model}:{weights}"):
            weights = "q4_0"
            drafts = f"{typed} is Q4_0 throughout, whatever its name says, and is counted so with its embeddings in 6 bits"
    if known is None or known.weights not in (None, "bf16"):
        return None
    known = before_tuning(known)
    return Named(typed, known.base, weights, known.length, "g" if gguf else "b", drafts)


def _tail(typed: str, key: str) -> Named | None:
    for endings in (_ending(key), _undressed(key)):
        found = _unique(endings)
        if found is not None:
            return _with_others(typed, key, found)
        if endings:
            raise AmbiguousName(typed, [line.name for line in _one_of_each(endings)], "ends several names that differ in memory")
    return None


def _spelled(typed: str, key: str) -> Named | None:
    """A short name in another spelling, or without words that its releases have: the one model that it can mean."""
    if ":" in key:
        return None
    release = taken_apart(key)
    if release is None and (found := _unique(alike(key))):
        return _with_others(typed, key, found)
    lines = (alike(key) or shortened(key, sizes=True)) if release is None else in_format(release)
    found = _agreed(lines)
    if found and (release or alike(key) or shortened(key)):
        return found._replace(taken=f"{typed} is taken as {found.name}, the one model known here that it can mean")
    if lines and not found:
        raise AmbiguousName(
            typed, [line.name for line in _one_of_each(_made(lines) or lines)], "can mean several models that differ in memory"
        )
    return None


def _with_others(typed: str, key: str, found: Named) -> Named:
    """A short name that somebody gave one model: with the others that it could mean, where no release is called so."""
    if ":" in key:
        return found
    if found.is_tag:
        stored = f" in {found.weights}" if found.weights else ""
        return found._replace(taken=f"{typed} is a tag of Ollama's library, a file{stored}; {found.base} is the model as it was released")
    if any("/" in line.name and line.publisher not in COPIERS for line in alike(key)):
        return found
    mine = (found.base, found.weights, found.length)
    others = [line.name for line in _one_of_each(_made(shortened(key, sizes=True))) if (line.base, line.weights, line.length) != mine]
    if not others:
        return found
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return found._replace(
        taken=f"{typed} is taken as {found.base}; of that name too, and not of the same memory: {', '.join(others[:3])}{more}"
    )


def _made(lines: list[Named]) -> list[Named]:
    """Lines of makers, not of those who copy, and whose length is known."""
    return [line for line in lines if line.length != 0 and line.publisher not in COPIERS]


def _agreed(lines: list[Named]) -> Named | None:
    """The one meaning of makers' lines; None where there are several or none."""
    meanings = _one_of_each(_made(lines) or lines)
    return meanings[0] if len(meanings) == 1 else None


def _ending(key: str) -> list[Named]:
    """Every line whose name ends in `/key`."""
    return [at(match.start() + 1) for match in re.finditer(f"/{re.escape(key)}\t", lowered()) if "\t" not in _before(match.start())]


def _before(position: int) -> str:
    """The line's text up to a position: a tab in it means that the match is not in the name."""
    whole = lowered()
    return whole[whole.rfind("\n", 0, position) : position]


def _undressed(key: str) -> list[Named]:
    """Every line whose name's last part is `key` but for -instruct and the like."""
    wanted = _DRESSING.sub("", key)
    like = re.finditer(rf"\n(?:[^\t\n]*/)?({re.escape(wanted[:3])}[^\t\n/]*)\t", lowered())
    return [at(match.start() + 1) for match in like if _DRESSING.sub("", match[1]) == wanted]


def _one_of_each(lines: list[Named]) -> list[Named]:
    """The first line of each meaning, catalogue ids before others, makers before those who copy."""

    def rank(line: Named) -> tuple[object, ...]:
        other = line.publisher != line.base.partition("/")[0]
        return line.name != line.base, line.publisher in COPIERS, other, len(line.name), line.name

    ordered = sorted(lines, key=rank)
    return list({(line.base, line.weights, line.length): line for line in reversed(ordered)}.values())[::-1]


def _unique(lines: list[Named]) -> Named | None:
    """The one meaning of some lines: one is a catalogue id, or all agree (but for copies whose length is not known), or the makers of
    what they mean, or all makers do."""
    meanings = _one_of_each([line for line in lines if line.length != 0] or lines)
    for some in (
        [line for line in meanings if line.name == line.base],
        meanings,
        _one_of_each([line for line in lines if line.publisher == line.base.partition("/")[0]]),
        _one_of_each([line for line in lines if line.publisher not in COPIERS]),
        _one_of_each([line for line in lines if namesake(line)]),
    ):
        if len(some) == 1:
            return some[0]
    return None


def _by_both(model: str) -> Named | None:
    """The model of `organisation_Model`, as bartowski names what he converts, or `organisation-Model`; the organisation by a name that it
    had."""
    for part in list(re.finditer("[-_]", model))[:3]:
        publisher, own = model[: part.start()], model[part.end() :]
        if (found := exact(f"{publisher}/{own}") or exact(f"{_RENAMED.get(publisher, publisher)}/{own}")) is not None:
            return found
    return None


def namesake(line: Named) -> bool:
    """Whether a model is called after its publisher: Qwen's of two called Qwen3-1.7B."""
    publisher, _, model = line.name.lower().partition("/")
    return bool(model) and model.startswith(re.split(r"[-_]", publisher)[0])


#: What catalogue ids leave out of a name.
_TUNED = re.compile(r"[-_](?:instruct|chat|it|hf)$")


def released(release: Release) -> Named | None:
    """The known model that a release's name speaks of: its catalogue id where that is what was said, else the name that people know."""
    model, inner = release.of.rpartition("/")[2], taken_apart(release.of) if release.weights else None
    if inner is not None and inner.weights not in ("bf16", "f16"):
        return None  # a name of two formats
    found = exact(release.of) if "/" in release.of else None
    found = found or _by_both(model)
    for said in (model, model.removeprefix("meta-"), f"{model}-bf16", _UNDERSCORE.sub(".", model)):
        if found is None or found.publisher in COPIERS:  # a maker that has its release in 16 bits by another name comes before a copy
            other = _unique(_ending(said)) or _unique(_undressed(said)) or _unique(alike(said))
            found = other if found is None or (other is not None and other.publisher not in COPIERS) else found
    if found is None or found.weights not in (None, "bf16", "fp8-block"):
        return None
    if "/" in release.of:
        found = before_tuning(found)
    base, tail = exact(found.base), _TUNED.sub("", found.name.lower().rpartition("/")[2])
    return base if base is not None and found.same and tail == base.name.lower().rpartition("/")[2] else found
