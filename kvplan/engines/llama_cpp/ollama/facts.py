"""What Ollama is: llama.cpp with other defaults."""

from __future__ import annotations

from kvplan.engines.common.protocol import Setting
from kvplan.engines.llama_cpp import facts

#: The release whose defaults these are, and the llama.cpp build in it.
VERSION, BUNDLED = "main-2026-08", 10488
_NOT_ITS_OWN = ("kv_unified", "kv_unified_per_slot", "server")
OPTIONS: dict[str, str] = {name: meaning for name, meaning in facts.OPTIONS.items() if name not in _NOT_ITS_OWN} | {
    "num_ctx": "tokens of one slot",
    "num_parallel": "slots",
    "num_batch": "tokens of one batch",
}

FACTS = facts.FACTS._replace(
    name="ollama",
    title="Ollama",
    versions=(VERSION,),
    options=OPTIONS,
    settings=(Setting("flash_attn", ("on",), "flash attention"),),
)
