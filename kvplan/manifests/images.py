"""Container images: repository -> engine and entrypoint, tag -> release. From the projects' own Dockerfiles and docs."""

from __future__ import annotations

import re
from typing import NamedTuple

from kvplan import engines


class Image(NamedTuple):
    """An image we know. `entrypoint`: the words it starts with; `default`: what runs where nothing is said."""

    engine: str
    version: str | None
    entrypoint: tuple[str, ...]
    default: tuple[str, ...] = ()


def find(reference: str) -> Image | None:
    """The image that a reference such as `vllm/vllm-openai:v0.11.0` names; None for one that holds no engine we know."""
    name = reference.split("@")[0]
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, ""
    for engine in engines.served():
        for known in engines.arguments(engine).repositories:
            if not re.search(known.pattern, repository) or (known.only and tag and not any(word in tag for word in known.only)):
                continue
            inside = re.search(rf"(?:^|[-_]){engine}[-_]v?(\d{{1,4}}\.\d{{1,4}}(?:\.\d{{1,4}})?)(?=$|[-+_.])", tag)  # rocm6.4_vllm_0.10.1
            number = inside or (re.match(known.tag, tag) if known.tag else None)
            return Image(engine, number[1] if number else None, known.entrypoint, known.default)
    return None
