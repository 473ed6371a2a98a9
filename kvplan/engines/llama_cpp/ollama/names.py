"""The architecture of a model as its GGUF file names it, where Ollama's rules ask for it by that name.

llama.cpp convert_hf_to_gguf.py (class -> MODEL_ARCH); Ollama's own convert/*.go call a few otherwise.
"""

from __future__ import annotations

from kvplan.rows import rows

_NAMES = {named: name for name, classes in rows("engines/llama_cpp/ollama/names.tsv") for named in classes.split()}
#: llama.cpp's name -> Ollama's.
_OWN = {"gpt-oss": "gptoss", "qwen2vl": "qwen25vl", "cohere": "command-r"}


def gguf_name(architecture: str) -> str:
    """`LlamaForCausalLM` -> `llama`; a name that is in no rule comes back as it is."""
    return _OWN.get(architecture, _NAMES.get(architecture, architecture))
