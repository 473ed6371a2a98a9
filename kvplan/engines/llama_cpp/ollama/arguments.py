"""What `ollama serve` takes: variables (envconfig/config.go), and the PARAMETER lines of a Modelfile (api/types.go Runner)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engines.common.arguments import Answer, Arguments, Repository, adapters_of, block, moved, names, row
from kvplan.engines.common.words import Given
from kvplan.errors import UnsupportedError

#: `ollama` itself takes none of them on its command line.
ROWS = (
    row("", "max_model_len", "int", variables="OLLAMA_CONTEXT_LENGTH"),
    row("", "max_num_seqs", "int", variables="OLLAMA_NUM_PARALLEL"),
    row("", "kv_dtype", "format", variables="OLLAMA_KV_CACHE_TYPE"),
    row("", "option:flash_attn", "truth", "flag", variables="OLLAMA_FLASH_ATTENTION"),
    row("", "reserve", "int", variables="OLLAMA_GPU_OVERHEAD"),
    row("", "option:sched_spread", "truth", "flag", variables="OLLAMA_SCHED_SPREAD"),
    row("", "option:max_loaded_models", "int", variables="OLLAMA_MAX_LOADED_MODELS"),
    row("", "option:cache_ram", "c_int", variables="LLAMA_ARG_CACHE_RAM"),
    row("", "max_model_len", "int", key="num_ctx"),
    row("", "max_num_batched_tokens", "int", key="num_batch"),
    row("", "n_gpu_layers", "int", key="num_gpu"),
    row("", "!draft", "int", key="draft_num_predict", effect="more"),
    row("", "@adapters", key="adapter"),
    *block({("", ""): """
        verbose! keepalive format nowordwrap! insecure! hidethinking! think truncate! dimensions experimental!
    """}),
)  # fmt: skip
QUIET_PARAMETERS = frozenset({
    "temperature", "top_k", "top_p", "min_p", "typical_p", "repeat_penalty", "repeat_last_n", "seed", "stop", "num_predict", "num_keep",
    "num_thread", "mirostat", "mirostat_eta", "mirostat_tau", "presence_penalty", "frequency_penalty", "use_mmap", "main_gpu",
    "penalize_newline", "low_vram", "f16_kv", "logits_all", "vocab_only", "use_mlock",  # parser/parser.go deprecatedParameters
})  # fmt: skip
#: Those of older releases (api/types.go Options), at which the newest stops.
OLD_PARAMETERS = frozenset({"num_gqa", "embedding_only", "rope_frequency_base", "rope_frequency_scale", "tfs_z", "numa"})
QUIET = (
    "OLLAMA_HOST", "OLLAMA_ORIGINS", "OLLAMA_MODELS", "OLLAMA_KEEP_ALIVE", "OLLAMA_DEBUG", "OLLAMA_MAX_QUEUE",
    "OLLAMA_NOHISTORY", "OLLAMA_NOPRUNE", "OLLAMA_LOAD_TIMEOUT", "OLLAMA_INTEL_GPU",
    "OLLAMA_DEBUG_LOG_REQUESTS", "OLLAMA_GO_TEMPLATE", "OLLAMA_MAX_TRANSFER_STREAMS", "OLLAMA_REMOTES", "OLLAMA_AUTH", "OLLAMA_API_KEY",
    "OLLAMA_HOME", "OLLAMA_TMPDIR", "OLLAMA_EDITOR", "OLLAMA_NO_CLOUD", "OLLAMA_MULTIUSER_CACHE", "OLLAMA_RUNNERS_DIR",
    "OLLAMA_LOG_LEVEL", "OLLAMA_NO_PRUNE",
)  # fmt: skip
#: Another estimate, another card.
LOUD = ("OLLAMA_NEW_ENGINE", "OLLAMA_IGPU_ENABLE", "OLLAMA_LLM_LIBRARY", "OLLAMA_VULKAN", "GGML_CUDA_ENABLE_UNIFIED_MEMORY")


def finish(given: Mapping[str, Given], positional: tuple[Given, ...]) -> Answer:
    """The question. `ollama run MODEL`: the model is the first word after it; `ollama serve` names none."""
    question = names(given)
    for name, least in (
        ("max_model_len", 1),
        ("max_num_seqs", 1),
        ("reserve", 1),
        ("n_gpu_layers", 0),
        ("engine_option.max_loaded_models", 1),
    ):
        if name in question and question[name].value < least:
            del question[name]  # Ollama's own choice
    if one := question.get("engine_option.flash_attn"):
        question["engine_option.flash_attn"] = moved(one, "on" if one.value else "off")
    return Answer(question, positional[0] if positional else None, adapters=adapters_of(given.get("@adapters")))


def say(asked: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The other way of `finish`."""
    said = {name for name in ("speculative", "lora", "multimodal") if asked.get(name) == ("on" if name == "multimodal" else "off")}
    said |= {name for name in ("reserve", "kv_dtype") if asked.get(name) in (0, "auto")}
    for name in ("max_num_batched_tokens", "n_gpu_layers"):
        if name in asked:
            raise UnsupportedError(f"Ollama takes {name} from a Modelfile or a request, not from its command line")
    return {}, said


ARGUMENTS = Arguments(
    "ollama",
    ROWS,
    finish,
    say,
    ("ollama", "run"),
    commands=("ollama run",),
    waiting=("ollama serve", "ollama start"),
    config="modelfile",
    prefix=("OLLAMA_",),
    quiet_variables=QUIET,
    loud_variables=LOUD,
    quiet_keys=QUIET_PARAMETERS,
    old_keys=OLD_PARAMETERS,
    heedless=True,  # envconfig/config.go Uint, BoolWithDefault
    image=("ollama/ollama", "{}", "latest"),
    repositories=(Repository(r"(^|/)ollama/ollama$|^ollama$", ("ollama",), ("serve",)),),
    beside=("ollama serve",),
    takes_devices=True,
    per_slot=True,
)
