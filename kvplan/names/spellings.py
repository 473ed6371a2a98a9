"""A short name as people spell it -> the lines that it can mean: other separators, and words that people leave out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations

from kvplan.names.index import TUNED, Named, at, lowered
from kvplan.names.releases import Release, taken_apart

#: Words of a release's name that people leave out: when it came out, which version it is, how long it is, how much of it works at once.
_LEFT_OUT = re.compile(r"base|pt|preview|v?\d+(?:[._]\d+)*|\d+k|[ae]\d+(?:\.\d+)?[bm]|\d+e|meta|c4ai|nvidia")
#: How much of a mixture of experts works at once, or how many experts it has: where a name says so, its whole size is left out too.
_MIXTURE = re.compile(r"a\d+(?:\.\d+)?[bm]|\d+e")
_SIZE = re.compile(r"\d+(?:\.\d+)?[bmt]\d?|\d+x\d+b")
#: Makers whose names stand before their models' names too.
_BEFORE = r"(?:meta|c4ai|nvidia)-"
#: Most words that one name leaves out.
MOST = 4
LONGEST = 100  # characters of a name that are looked at


def squeezed(name: str) -> str:
    """A name without what stands between its words, but between two numbers: spellings of one name are alike.

    >>> squeezed("llama-3.1-8b"), squeezed("Llama3.1 8B"), squeezed("llama-3.18b")
    ('llama3.1-8b', 'llama3.1-8b', 'llama3.18b')
    """
    text = re.sub(r"(?<=\d)[-_ :]+(?=\d)", "-", name.lower())
    return re.sub(r"(?<!\d)[-_ :.]+|[-_ :.]+(?!\d)", "", text)


def words(name: str) -> list[str]:
    """The words of a name's last part, in lower case; a version with an underscore for its point is one."""
    return [word for word in re.split(r"[- :]+|(?<!\d)_+|_+(?!\d)", name.lower().rpartition("/")[2]) if word]


def undressed(name: str) -> str:
    """The last part of a name, squeezed, without the words of tuning."""
    return squeezed("-".join(word for word in words(name) if word not in TUNED))


def alike(name: str) -> list[Named]:
    """Every release and alias, but no tag of Ollama's, whose last part is spelled as `name` is, whatever stands between its words; where
    there is none, but for the words of tuning."""
    exact, tuned = squeezed(name.rpartition("/")[2]), undressed(name)
    same = [line for line, own, _ in _spelled(name) if own == exact]
    return same or [line for line, _, own in _spelled(name) if tuned and own == tuned]


def own_release(line: Named) -> Named | None:
    """The maker's release that an alias is called as, where its base is called otherwise: Llama-3.3-70B-Instruct of llama-3.3-70b."""
    wanted = undressed(line.name)
    if wanted == undressed(line.base):
        return None
    own = [other for other, _, spelt in _spelled(line.name) if spelt == wanted and other.base == line.base and other.same]
    published = [other for other in own if "/" in other.name and not other.name.islower()]
    return min(published, key=lambda other: (other.publisher != line.base.partition("/")[0], len(other.name), other.name), default=None)


def shortened(name: str, *, sizes: bool = False) -> list[Named]:
    """Every release of which `name` is what is left when words that people leave out are taken from its name; with `sizes` its size too."""
    wanted = undressed(name)
    return [line for line in sharing(name) if "/" in line.name and not line.is_tag and wanted in _shorter(words(line.name), sizes=sizes)]


def in_format(release: Release) -> list[Named]:
    """Every release in the format of `release`, of the model that it is a release of, in any spelling."""
    found = []
    for line in sharing(release.of):
        own = taken_apart(line.name.lower()) if "/" in line.name else None
        if own is not None and own.weights == release.weights and undressed(own.of) == undressed(release.of):
            found.append(line)
    return found


def sharing(name: str) -> Iterable[Named]:
    """Every line whose last part begins with the letters of `name`: those before its first number, at most three."""
    return _beginning(letters) if (letters := _letters(name)) else ()


def _spelled(name: str) -> Iterable[tuple[Named, str, str]]:
    """The same lines but Ollama's tags, each with its last part squeezed, and undressed."""
    return _forms(letters) if (letters := _letters(name)) else ()


def _letters(name: str) -> str:
    first = re.match(r"[a-z]{0,3}", name.lower().rpartition("/")[2][:LONGEST])
    return first[0] if first and len(name) <= LONGEST else ""


@lru_cache(maxsize=64)
def _forms(letters: str) -> tuple[tuple[Named, str, str], ...]:
    lines = (line for line in _beginning(letters) if not line.is_tag)
    return tuple((line, squeezed(line.name.rpartition("/")[2]), undressed(line.name)) for line in lines)


@lru_cache(maxsize=64)
def _beginning(letters: str) -> tuple[Named, ...]:
    begins = "[-_ ]?".join(letters)
    return tuple(at(match.start() + 1) for match in re.finditer(rf"\n(?:[^\t\n]*/)?(?:{_BEFORE})?{begins}[^\t\n/]*\t", lowered()))


def _shorter(full: list[str], *, sizes: bool) -> set[str]:
    """What a name of these words may be written as."""
    plain = [word for word in full if word not in TUNED]
    sizes = sizes or any(_MIXTURE.fullmatch(word) for word in plain)
    out = [n for n, word in enumerate(plain) if _LEFT_OUT.fullmatch(word) or (sizes and _SIZE.fullmatch(word))]
    ways = (set(some) for size in range(min(MOST, len(out)) + 1) for some in combinations(out, size))
    return {squeezed("-".join(word for n, word in enumerate(plain) if n not in left)) for left in ways if len(left) < len(plain)}
