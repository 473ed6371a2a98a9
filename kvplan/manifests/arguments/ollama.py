"""Ollama: the variables of `ollama serve` (envconfig/config.go), and the PARAMETER lines of a Modelfile (api/types.go Runner)."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.manifests.arguments.plain import moved, names
from kvplan.manifests.arguments.table import Answer, Engine, Given, block, row

#: Rows stand for variables and Modelfile parameters: `ollama` itself takes none of them on its command line.
ROWS = (
    row("OLLAMA_CONTEXT_LENGTH", "max_model_len", "int"),
    row("OLLAMA_NUM_PARALLEL", "max_num_seqs", "int"),
    row("OLLAMA_KV_CACHE_TYPE", "kv_dtype"),
    row("OLLAMA_FLASH_ATTENTION", "option:flash_attn", "truth"),
    row("OLLAMA_GPU_OVERHEAD", "reserve", "int"),
    row("OLLAMA_SCHED_SPREAD", "!spread", effect="either"),
    row("num_ctx", "max_model_len", "int"),
    row("num_batch", "max_num_batched_tokens", "int"),
    row("num_gpu", "n_gpu_layers", "int"),
    row("draft_num_predict", "!draft", "int", effect="more"),
    *block({("", ""): """
        --verbose! --keepalive --format --nowordwrap! --insecure! --hidethinking! --think --truncate! --dimensions --experimental!
    """.replace("--", "")}),
)  # fmt: skip
PARAMETERS = frozenset({"num_ctx", "num_batch", "num_gpu", "draft_num_predict"})
QUIET_PARAMETERS = frozenset({
    "temperature", "top_k", "top_p", "min_p", "typical_p", "repeat_penalty", "repeat_last_n", "seed", "stop", "num_predict", "num_keep",
    "num_thread", "mirostat", "mirostat_eta", "mirostat_tau", "presence_penalty", "frequency_penalty", "tfs_z", "use_mmap", "main_gpu",
    "penalize_newline", "numa",
})  # fmt: skip
QUIET = (
    "OLLAMA_HOST", "OLLAMA_ORIGINS", "OLLAMA_MODELS", "OLLAMA_KEEP_ALIVE", "OLLAMA_DEBUG", "OLLAMA_MAX_QUEUE", "OLLAMA_MAX_LOADED_MODELS",
    "OLLAMA_NOHISTORY", "OLLAMA_NOPRUNE", "OLLAMA_LOAD_TIMEOUT", "OLLAMA_LLM_LIBRARY", "OLLAMA_NEW_ENGINE", "OLLAMA_INTEL_GPU",
    "OLLAMA_REMOTES", "OLLAMA_AUTH", "OLLAMA_API_KEY", "OLLAMA_HOME", "OLLAMA_TMPDIR", "OLLAMA_VULKAN", "OLLAMA_EDITOR",
    "OLLAMA_NO_CLOUD", "OLLAMA_MULTIUSER_CACHE", "OLLAMA_RUNNERS_DIR", "OLLAMA_LOG_LEVEL", "OLLAMA_NO_PRUNE",
)  # fmt: skip


def finish(given: Mapping[str, Given], env: Mapping[str, Given], positional: Mapping[str, Given]) -> Answer:
    """The question. `ollama run MODEL`: the model is the first word after it; `ollama serve` names none."""
    question = names(given)
    for name in ("max_model_len", "max_num_seqs"):
        if name in question and question[name].value < 1:
            del question[name]  # 0: Ollama's own choice
    if (one := question.get("reserve")) and not one.value:
        del question["reserve"]
    if (one := question.get("n_gpu_layers")) and one.value < 0:
        del question["n_gpu_layers"]
    if one := question.get("engine_option.flash_attn"):
        question["engine_option.flash_attn"] = moved(one, "on" if one.value else "off")
    return Answer(question, positional.get("0"))


ENGINE = Engine(
    "ollama", ROWS, finish, environment={name: name for r in ROWS for name in r.names if name.startswith(("OLLAMA_", "num_", "draft_"))},
    quiet_environment=QUIET, environment_prefix="OLLAMA_",
)  # fmt: skip
