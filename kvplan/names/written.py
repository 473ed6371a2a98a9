"""How people write where a model is: an address of the Hub or Ollama's library, a repository with the name of one of its files."""

from __future__ import annotations

import re

_PREFIX = re.compile(
    r"(?:hf://|huggingface://|(?:https?://)?(?:www\.)?(?:hf\.co|huggingface\.co|modelscope\.c(?:n|om)/models|ollama\.com/library|ollama)/)",
    re.IGNORECASE,
)
_CACHED = re.compile(r"models--([^-/]+(?:-[^-/]+)*)--([^/]+)")  # a folder of the Hub's cache
#: `organisation/repository`, and a file in it: after a colon, a slash, or as the Hub's pages and downloads have it.
_FILE = re.compile(
    r"([a-z0-9][\w.-]{0,95}/[a-z0-9][\w.-]{0,95})(?::|/|/(?:resolve|blob)/[\w.-]{1,60}/)((?:[\w. -]{1,120}/){0,3}[\w. -]{1,200})\.gguf",
    re.IGNORECASE,
)
_TYPE = re.compile(r"(?:^|.*?[-_./])((?:ud-)?(?:i?q\d|tq\d|mxfp4|b?f16|fp16|f32)\w*?)(?:-\d{5}-of-\d{5})?", re.IGNORECASE)
LONGEST = 500  # characters of a name that are looked at


def plain(name: str) -> str:
    """A name without its address; a file of a GGUF repository as llama.cpp's `-hf` has it, `repository:TYPE`.

    >>> plain("https://huggingface.co/unsloth/Qwen3-8B-GGUF/resolve/main/Qwen3-8B-UD-Q4_K_XL.gguf")
    'unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL'
    """
    text = _PREFIX.sub("", name.strip(), count=1).partition("?")[0].rstrip("/").removesuffix("/tree/main")
    if cached := _CACHED.fullmatch(text[:LONGEST]):
        return f"{cached[1]}/{cached[2]}"
    found = _FILE.fullmatch(text) if len(text) <= LONGEST else None
    if found is None or not re.search(r"[-_.]gguf$", found[1], re.IGNORECASE):
        return text
    if _TYPE.fullmatch(found[1][:-5]):  # a repository of one type says which
        return found[1]
    kind = _TYPE.fullmatch(found[2])
    return f"{found[1]}:{re.sub('fp16', 'f16', kind[1], flags=re.IGNORECASE)}" if kind else text


def names_a_file(name: str) -> bool:
    """Whether a name that ends in .gguf is a file of a repository, by its address or by how repositories of such files are called."""
    return not plain(name).lower().endswith(".gguf")
