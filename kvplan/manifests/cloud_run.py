"""`gcloud run deploy`: a container on Cloud Run, with the GPU that its flags name.

cloud.google.com/sdk/gcloud/reference/run/deploy: --image, --command, --args, --set-env-vars, --gpu, --gpu-type; lists are apart by commas,
or by what stands between two `^` at their start (`gcloud topic escaping`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kvplan.engines.common.words import Given, Word
from kvplan.manifests import requested

_LISTS = ("--command", "--args", "--set-env-vars", "--update-env-vars")


class Deployed(NamedTuple):
    """What the flags say: the container's parts, as the runtime takes them."""

    image: Word | None
    entry: list[Word] | None
    args: list[Word] | None
    env: dict[str, Word]
    gpus: Given | None
    device: Given | None


def read(run: Sequence[Word]) -> Deployed | None:
    """What a command deploys; None for any other command."""
    plain = [w.text for w in run if not w.text.startswith("-")]
    if plain[:1] != ["gcloud"] or not any(plain[n : n + 2] == ["run", "deploy"] for n in (1, 2)):
        return None
    given = _flags(run)
    lists = {name: _list(given[name]) for name in _LISTS if name in given}
    pairs = [w for name in _LISTS[2:] for w in lists.get(name, ())]
    env = {w.text.partition("=")[0]: w._replace(text=w.text.partition("=")[2]) for w in pairs}
    kind, count = given.get("--gpu-type"), given.get("--gpu")
    device = requested.device(kind.text.removeprefix("nvidia-")) if kind and not kind.missing else None
    return Deployed(
        given.get("--image"), lists.get("--command"), lists.get("--args"), env,
        Given(int(count.text), "--gpu", count.place) if count and count.text.isdecimal() and len(count.text) < 4 else None,
        Given(device, "--gpu-type", kind.place) if device and kind else None,
    )  # fmt: skip


def _flags(run: Sequence[Word]) -> dict[str, Word]:
    """--name=value and --name value."""
    found = {}
    for n, word in enumerate(run):
        name, equals, value = word.text.partition("=")
        if name.startswith("--") and equals:
            found[name] = word._replace(text=value)
        elif name.startswith("--") and n + 1 < len(run) and not run[n + 1].text.startswith("--"):
            found[name] = run[n + 1]
    return found


def _list(word: Word) -> list[Word]:
    other = re.match(r"\^(.{1,8}?)\^", word.text)
    text = word.text[other.end() :] if other else word.text
    return [Word(part, word.place, tuple(m for m in word.missing if m in part)) for part in text.split(other[1] if other else ",")]
