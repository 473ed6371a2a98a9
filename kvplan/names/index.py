"""The index: names.tsv beside this file, one line a name, written by tools/build_names.py.

name, base, weights, length, evidence, parted by tabs and sorted by name in lower case.

name      as the Hub or Ollama spells it, or a short name; a base model whose hub id is, in lower case, the id of its tuned release, which
          is of another length, has a line of its own after that id's
base      the catalogue id whose YAML file has its shapes
weights   the checkpoint's format, where it is not the base's; `gguf` where the repository holds several files
length    its own maximum, where it is not the base's; `?` where no source states it
evidence  a key of EVIDENCE; `r`, `y`, `q`, `g`, `b` may be of a name that is no line, as look_up.py reads it
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kvplan.names.releases import TAG, taken_apart

_FILE = Path(__file__).parent / "names.tsv"

#: What a line rests on -> what the plan says of it; nothing of a line that rests on the model's own config or was written by hand.
EVIDENCE: dict[str, str] = {
    "a": "",
    "c": "",
    "d": "the config.json of {name} does not say how its weights are stored: the format is by its name",
    "f": "the sizes of {name} are from a table, not its config.json; parameters recounted to the Hub's total",
    "w": "the sizes of {name} are from a table, recounted to the Hub's total; its window, which the table leaves out, is that of its base",
    "v": "the sizes of {name} are from a table, recounted to the Hub's total; no source states whether it has a window: it is counted "
    "without, so that its cache is at most what is shown",
    "u": "{name} has the shapes of {base}: a table (llmfit 1.1.17) gives both the same sizes; no source states whether it has a "
    "window: it is counted without, so that its cache is at most what is shown",
    "m": "{name} has the shapes of {base}, which its makers say it was tuned from; its config.json was not read",
    "j": "{name} has the shapes of {base}: a public file states its sizes; its config.json was not read",
    "z": "{name} has the shapes of {base}: MTEB's registry names the model that it was adapted from, and gives it that model's count of "
    "parameters to the last one; its config.json was not read",
    "e": "{name} has the shapes of {base}, as its name says, DSpark's stages among them, as its card says; its config.json was not read",
    "s": "{name} has the shapes of {base}; the format of its weights is by the size of the file (ollama.com/library, June 2026)",
    "t": "{name} has the shapes of {base}: a table (llmfit 1.1.17) gives both the same sizes and total; its config.json was not read",
    "x": "{name} has the shapes of {base}: a table (llmfit 1.1.17) gives both the same sizes; its total is not known, so that it may be "
    "stored without a tower or a draft module; its config.json was not read",
    "h": "{name} has the shapes of {base}, by its sizes in a table (llmfit 1.1.17); the Hub's total for it has a head beside the "
    "embeddings, which an engine loads as the embeddings where its config.json ties them, as is counted here, else beside them",
    "n": "{name} has the shapes of {base}: a table (llmfit 1.1.17) gives both the same sizes; the format of its weights is by its name",
    "p": "{name} has the shapes of {base}: the Hub gives both one total and model type (llmfit 1.1.17); its sizes could not be read there",
    "o": "{name} has the shapes of {base}, by the name and digest of the tag (ollama.com/library, June 2026)",
    "q": "{name} has the shapes of {base}, as the same tag in the quantisation that is listed (ollama.com/library, June 2026)",
    "l": "{name} is not in the copy of Ollama's library (June 2026): it is taken as {base}, in q4_k_m where its tag names no type",
    "g": "{name} has the shapes of {base}, by its name: a GGUF conversion keeps them",
    "r": "{name} is taken to have the shapes and length of {base}, in the format that its name says; its config.json was not read. "
    "Of 350 quantised releases by the makers themselves that are known, 6 have MLPs wider by up to 1 % and 8 are of another length; "
    "NVIDIA's mostly store the cache in fp8 (--kv-dtype fp8)",
    "y": "{name} is taken to have the shapes and length of {base}, in the format that its name says; its config.json was not read. Of 135 "
    "uploads by others whose packing the Hub's count of elements tells (llmfit 1.1.17), the weights of 132 are in the interval shown",
    "k": "{name} has the shapes of {base}, by its name and the Hub's count of its elements (llmfit 1.1.17); its config.json was not read",
    "b": "{name} has the shapes of {base}, by its name and publisher; its config.json was not read",
}


#: Words that say how a model was tuned: catalogue ids never have them.
TUNED = frozenset(("instruct", "it", "hf", "chat"))


def _called(name: str) -> str:
    """The letters and numbers of a name's last part, without its tuning and its format."""
    key = name.lower()
    release = taken_apart(key)
    words = re.split(r"[-_.]", (release.of if release else key).rpartition("/")[2])
    return "".join(word for word in words if word not in TUNED and word != "base")


#: How a tag ends that says in which type its file is.
_TYPED = re.compile(rf"[-:](?:{TAG.pattern}|qat)$", re.IGNORECASE)


class Named(NamedTuple):
    """One line of the index. `weights` None: as the base; `length` None: as the base, 0: not known. `taken`: what was typed, and what else
    it could mean, where it is no release's own name."""

    name: str
    base: str
    weights: str | None
    length: int | None
    evidence: str
    taken: str = ""

    @property
    def same(self) -> bool:
        """Whether memory is the base's, whatever is asked."""
        return self.weights is None and self.length is None

    @property
    def alias(self) -> bool:
        """Whether it is the base by another name; a release in a format of its own is an answer of its own, whatever the base is in."""
        return self.same and (self.name == self.base or taken_apart(self.name.lower()) is None)

    @property
    def publisher(self) -> str:
        """Who publishes it, in lower case; of a name without a publisher the whole name."""
        return self.name.lower().partition("/")[0]

    @property
    def in_library(self) -> bool:
        """Whether it is a file of Ollama's own library."""
        return self.evidence in ("o", "s", "q")

    @property
    def is_tag(self) -> bool:
        """Whether it is a tag of Ollama's library: a file in one format."""
        return ":" in self.name or self.in_library

    @property
    def as_released(self) -> Named:
        """A tag of Ollama's library that names no type, as the model was released: what it means to who serves no files of that library.
        Any other line as it is."""
        if not self.is_tag or "/" in self.name or _TYPED.search(self.name):
            return self
        file = f"the file in {self.weights}" if self.weights else "the file"
        said = f"{self.name} is taken as it was released, not as {file} that Ollama has under this name (--engine ollama)"
        return self._replace(weights=None, evidence="o" if self.in_library else "a", taken=said)

    @property
    def note(self) -> str:
        """What the plan says about where this name's facts are from, and of which model where that is called otherwise."""
        said = EVIDENCE[self.evidence].format(name=self.name, base=self.base)
        if "shapes" in said or _called(self.base).startswith(_called(self.name)):
            return said
        return f"{said}; they are those of {self.base}" if said else f"{self.name} has the shapes of {self.base}"


@cache
def text() -> str:
    """The index with a line's end before its first line, so that every name stands between a line's end and a tab."""
    return "\n" + _FILE.read_text(encoding="utf-8")


@cache
def lowered() -> str:
    """The index in lower case; positions are those of `text`."""
    return text().lower()


def at(position: int) -> Named:
    """The line that holds a position of `text`."""
    whole = text()
    start = whole.rfind("\n", 0, position) + 1
    return parsed(whole[start : whole.find("\n", start)])


def parsed(line: str) -> Named:
    """One line. Raises ValueError where it is not one."""
    name, base, weights, length, evidence = line.split("\t")
    return Named(name, base, weights or None, (0 if length == "?" else int(length)) if length else None, evidence)


def exact(key: str) -> Named | None:
    """The line of a name, in lower case."""
    found = lowered().find(f"\n{key}\t")
    return at(found + 1) if found >= 0 else None


def as_spelled(name: str) -> Named | None:
    """The line of a name, letters in the case that they have there."""
    found = text().find(f"\n{name}\t")
    return at(found + 1) if found >= 0 else None


def before_tuning(line: Named) -> Named:
    """The base model whose hub id is, in lower case, the catalogue id that a line has; where there is none, the line."""
    end = text().find("\n", text().find(f"\n{line.name}\t") + 1)
    following = at(end + 1)
    return following if following.name.lower() == line.name else line


def everything() -> list[Named]:
    """Every line."""
    return [parsed(line) for line in text().splitlines() if line and not line.startswith("#")]
