"""What Ollama is: llama.cpp behind a scheduler of its own."""

from __future__ import annotations

from kvplan.engines.common.protocol import Setting
from kvplan.engines.llama_cpp import facts
from kvplan.engines.llama_cpp.ollama.rules import VERSIONS
from kvplan.engines.llama_cpp.ways import OF_OLLAMA

_NOT_ITS_OWN = (
    "kv_unified",
    "kv_unified_per_slot",
    "server",
    "load_mode",
    "tensor_split",
    "n_cpu_moe",
    "n_cpu_ffn",
    "override_tensor",
    "op_offload",
    "mmproj_offload",
    "split_mode",
    "main_gpu",
    "n_gpu_layers_draft",
    "fit",
    "fit_target",
    "fit_ctx",
    "ctx_checkpoints",
)
OPTIONS: dict[str, str] = {name: meaning for name, meaning in facts.OPTIONS.items() if name not in _NOT_ITS_OWN} | {
    "num_ctx": "tokens of one slot",
    "num_parallel": "slots",
    "num_batch": "tokens of one batch",
    "sched_spread": "every card is used, however few would do",
    "max_loaded_models": "models that are loaded at once",
}

FACTS = facts.FACTS._replace(
    name="ollama",
    title="Ollama",
    bare_is_latest=True,
    versions=VERSIONS,
    options=OPTIONS,
    beyond_one="",
    drafting=OF_OLLAMA,
    settings=(Setting("flash_attn", ("on",), "flash attention"),),
    weight_schemes=facts.FACTS.weight_schemes - {"nvfp4"},
)
