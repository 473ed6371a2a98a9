"""Container images: repository -> engine and entrypoint, tag -> release. From the projects' own Dockerfiles and docs."""

from __future__ import annotations

import re
from typing import NamedTuple


class Image(NamedTuple):
    """An image we know. `entrypoint`: the words it starts with; `default`: what runs where nothing is said."""

    engine: str
    version: str | None
    entrypoint: tuple[str, ...]
    default: tuple[str, ...] = ()


_NUMBER = re.compile(r"v?(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)(?:[.-]?(?:post|rc)\d+)?(?=$|[-+_.])")
_INSIDE = re.compile(r"(?:^|[-_])vllm[-_]v?(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)(?=$|[-+_.])")  # rocm6.4.1_vllm_0.10.1_20250909
_BUILD = re.compile(r"(?:^|-)(b\d{3,6})(?:$|-)")

#: End of the repository -> engine, entrypoint, default command. The first that matches counts.
_REPOSITORIES: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    (r"(^|/)(vllm/vllm-openai(-rocm)?|lmcache/vllm-openai|vllm-openai)$", "vllm", ("vllm", "serve"), ()),
    (r"(^|/)(vllm-cuda-rhel9|vllm-rocm-rhel9)$", "vllm", ("vllm", "serve"), ()),
    (r"(^|/)(rocm/vllm|rocm/vllm-dev|nvidia/vllm|llm-d-cuda|llm-d|llm-d-dev|llm-d-xpu|vllm-(cpu|tpu|xpu|ci))[^/]*$", "vllm", (), ()),
    (r"(^|/)(kserve/huggingfaceserver|huggingfaceserver)$", "vllm", ("kserve-huggingfaceserver",), ()),
    (r"(^|/)(lmsysorg/sglang|sglang)$", "sglang", (), ()),
    (r"(^|/)tensorrt-llm/(release|devel)$", "tensorrt-llm", (), ()),
    (r"(^|/)(ggml-org|ggerganov)/llama\.cpp$", "llama.cpp", ("llama-server",), ()),
    (r"(^|/)ollama/ollama$|^ollama$", "ollama", ("ollama",), ("serve",)),
)  # fmt: skip
_OWN_NUMBERS = re.compile(r"(^|/)(nvidia/vllm|llm-d[^/]*|huggingfaceserver|vllm-(cuda|rocm)-rhel9|rocm/vllm[^/]*)$")


def find(reference: str) -> Image | None:
    """The image that a reference such as `vllm/vllm-openai:v0.11.0` names; None for one that holds no engine we know."""
    name = reference.split("@")[0]
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, ""
    for pattern, engine, entrypoint, default in _REPOSITORIES:
        if not re.search(pattern, repository):
            continue
        if engine == "llama.cpp":
            if tag and "server" not in tag and "full" not in tag:
                return None
            build = _BUILD.search(tag)
            return Image(engine, build[1] if build else None, entrypoint if "full" not in tag else ("llama-tools",))
        number = _INSIDE.search(tag) or (None if _OWN_NUMBERS.search(repository) else _NUMBER.match(tag))
        return Image(engine, number[1] if number else None, entrypoint, default)
    return None
