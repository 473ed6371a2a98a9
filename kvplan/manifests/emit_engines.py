"""A question as the words of each engine. The spellings come from the tables that `check` reads with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kvplan.dtypes import ALIASES
from kvplan.errors import UnsupportedError
from kvplan.manifests.arguments.table import Engine

#: Our names of formats -> the engine's; others are spelled alike.
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
KV_DTYPES: dict[str, dict[str, str]] = {
    "vllm": {"bf16": "bfloat16", "f16": "float16", "nvfp4": "nvfp4"},
    "sglang": {"bf16": "bfloat16", "fp8": "fp8_e4m3", "nvfp4": "fp4_e2m1"},
    "tensorrt-llm": {"fp8_e4m3": "fp8"},
    "llama.cpp": {},
    "ollama": {},
}
ON_LOAD = {
    "vllm": {"fp8": "fp8", "nf4": "bitsandbytes", "mxfp8": "mxfp8"},
    "sglang": {"fp8": "fp8", "nf4": "bitsandbytes", "mxfp8": "mxfp8"},
}
SIZES = ("tp", "pp", "dp", "dcp")
LIMITS = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "memory_fraction", "kv_memory")


class Command(NamedTuple):
    """Words, variables and files. `said`: names of the question that they carry; `aside`: engine options that no option says."""

    words: tuple[str, ...]
    said: frozenset[str]
    aside: Mapping[str, str]
    env: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    before: tuple[str, ...] = ()


class _Words:
    """Words as they grow; local to a writer."""

    def __init__(self, engine: Engine, asked: Mapping[str, Any], *words: str) -> None:
        self.engine, self.asked = engine, asked
        self.words, self.said = [*words], set[str]()
        self._options = {a.to: a for a in reversed(engine.arguments) if a.to}

    def add(self, *names: str) -> None:
        """Options of names that were asked for, from the table."""
        for name in names:
            value, argument = self.asked.get(name), self._options.get(name)
            if value is None or argument is None or (name in SIZES and value == 1):
                if name in SIZES and value == 1:
                    self.said.add(name)
                continue
            self.words += [_long(argument.names), plain(value)]
            self.said.add(name)

    def say(self, name: str, *words: str) -> None:
        self.words += words
        self.said.add(name)

    def options(self, skip: frozenset[str] = frozenset()) -> dict[str, str]:
        """Engine options by the table; those without a row are left for the comment."""
        aside = {}
        for key, text in self.asked["engine_option"].items():
            argument = self._options.get(f"option:{key}")
            is_true = str(text).lower() in ("true", "1", "yes", "on")
            if key in skip:
                continue
            if argument is None or (argument.takes == "flag" and is_true != bool(argument.value)):
                aside[key] = str(text)
            elif argument.takes == "flag":
                self.words.append(_long(argument.names))
            elif argument.takes == "switch":
                name = _long(argument.names)
                self.words.append(name if is_true else f"--no-{name[2:]}")
            else:
                self.words += [_long(argument.names), str(text)]
        return aside

    def done(self, aside: Mapping[str, str], **more: Any) -> Command:
        return Command(tuple(self.words), frozenset(self.said), aside, **more)


def plain(value: Any) -> str:
    """A value as an option's word: integers in full, fractions as short as they are exact."""
    return repr(value) if isinstance(value, float) else str(value)


def vllm(model: str, asked: Mapping[str, Any], engine: Engine) -> Command:
    """vllm serve."""
    w = _Words(engine, asked, "vllm", "serve", model)
    w.add(*SIZES, *LIMITS)
    _formats(w, "vllm")
    ranks = (asked.get("tp") or 1) * (asked.get("dp") or 1)
    if "ep" in asked:
        if asked["ep"] not in (1, ranks):
            raise UnsupportedError(f"vLLM spreads experts over all tp x dp = {ranks} ranks or none, not {asked['ep']}")
        w.say("ep", *(["--enable-expert-parallel"] if asked["ep"] > 1 else []))
    if "enforce_eager" in asked:
        w.say("enforce_eager", *(["--enforce-eager"] if asked["enforce_eager"] else []))
    if method := _speculative(asked):
        name, tokens, draft = method
        config = {"method": name, "num_speculative_tokens": tokens} | ({"model": draft} if draft else {})
        w.say("speculative", "--speculative-config", json.dumps(config))
    _off(w, "speculative", "lora", "multimodal")
    if lora := _lora(asked):
        w.say("lora", "--enable-lora", "--max-lora-rank", lora[0], "--max-loras", lora[1])
    if asked.get("multimodal") == "off":
        w.say("multimodal", "--limit-mm-per-prompt", '{"image": 0, "video": 0, "audio": 0}')
    skip = frozenset({"auto_fit"}) if _is_on(asked, "auto_fit") and "max_model_len" not in w.said else frozenset()
    if skip:
        w.words += ["--max-model-len", "auto"]
    env, longer = _longer(asked, "allow_long_max_model_len", "VLLM_ALLOW_LONG_MAX_MODEL_LEN")
    return w.done(w.options(skip | longer), env=env)


def sglang(model: str, asked: Mapping[str, Any], engine: Engine) -> Command:
    """python -m sglang.launch_server."""
    w = _Words(engine, asked, "python3", "-m", "sglang.launch_server", "--model-path", model)
    w.add(*SIZES, "ep", *LIMITS)
    _formats(w, "sglang")
    if "ep" in asked:
        w.said.add("ep")
    if "enforce_eager" in asked:
        w.say("enforce_eager", *(["--disable-cuda-graph"] if asked["enforce_eager"] else []))
    skip: frozenset[str] = frozenset()
    if method := _speculative(asked):
        name, steps, draft = method
        w.say("speculative", "--speculative-algorithm", name.upper(), "--speculative-num-steps", str(steps))
        w.words += ["--speculative-draft-model-path", draft] if draft else []
        tokens = asked["engine_option"].get("speculative_num_draft_tokens")
        if tokens:
            w.words += ["--speculative-num-draft-tokens", str(tokens)]
            skip = frozenset({"speculative_num_draft_tokens"})
    _off(w, "speculative", "lora", "multimodal")
    if lora := _lora(asked):
        w.say("lora", "--enable-lora", "--max-lora-rank", lora[0], "--max-loras-per-batch", lora[1])
    env, longer = _longer(asked, "allow_overwrite_longer_context_len", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN")
    return w.done(w.options(skip | longer), env=env)


def tensorrt_llm(model: str, asked: Mapping[str, Any], engine: Engine) -> Command:
    """trtllm-serve, and a YAML for what its command line does not take."""
    from kvplan.manifests.arguments.tensorrt_llm import CONFIG

    w = _Words(engine, asked, "trtllm-serve", model)
    w.add("tp", "pp", "ep", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "memory_fraction")
    config: dict[str, Any] = {}
    cache: dict[str, Any] = {}
    for name, key in (("kv_memory", "max_gpu_total_bytes"), ("block_size", "tokens_per_block")):
        if name in asked:
            cache[key] = asked[name]
            w.said.add(name)
    if "kv_dtype" in asked:
        cache["dtype"] = spelled("tensorrt-llm", asked["kv_dtype"])
        w.said.add("kv_dtype")
    if "dtype" in asked:
        config["dtype"] = DTYPES.get(ALIASES.get(asked["dtype"], asked["dtype"]), asked["dtype"])
        w.said.add("dtype")
    if "enforce_eager" in asked:
        config |= {"cuda_graph_config": None} if asked["enforce_eager"] else {}
        w.said.add("enforce_eager")
    if method := _speculative(asked):
        name, tokens, draft = method
        kind = {"mtp": "MTP", "eagle3": "Eagle", "eagle": "Eagle", "ngram": "NGram", "draft_model": "Draft_Target"}.get(name)
        if kind is None:
            raise UnsupportedError(f"TensorRT-LLM has no speculative method {name}")
        length = "num_nextn_predict_layers" if name == "mtp" else "max_draft_len"
        config["speculative_config"] = {"decoding_type": kind, length: tokens} | ({"speculative_model_dir": draft} if draft else {})
        w.said.add("speculative")
    _off(w, "speculative", "lora", "multimodal", "dp", "dcp")
    paths = {to.removeprefix("option:"): path for path, to in CONFIG.items() if to.startswith("option:")}
    paths["enable_attention_dp"] = "enable_attention_dp"
    aside = {}
    for key, text in asked["engine_option"].items():
        path = paths.get(key)
        if path is None:
            aside[key] = str(text)
        elif path.startswith("kv_cache_config."):
            cache[path.split(".")[1]] = _literal(str(text))
        else:
            config[path] = _literal(str(text))
    if cache:
        config["kv_cache_config"] = cache
    if not config:
        return w.done(aside)
    import yaml

    w.words += ["--config", "trtllm.yaml"]
    return w.done(aside, files={"trtllm.yaml": yaml.safe_dump(config, sort_keys=False)})


def llama_cpp(model: str, asked: Mapping[str, Any], engine: Engine) -> Command:
    """llama-server."""
    hub = "/" in model and not model.startswith((".", "/", "~")) and not model.endswith(".gguf")
    w = _Words(engine, asked, "llama-server", "-hf" if hub else "-m", model)
    w.add("max_model_len", "max_num_seqs", "max_num_batched_tokens")
    if "kv_dtype" in asked:
        parts = [ALIASES.get(part, part) for part in str(asked["kv_dtype"]).lower().split("/")]
        w.say("kv_dtype", *([] if parts == ["auto"] else ["--cache-type-k", parts[0], "--cache-type-v", parts[-1]]))
    if "n_gpu_layers" in asked:
        w.say("n_gpu_layers", "--n-gpu-layers", str(asked["n_gpu_layers"]))
    if method := _speculative(asked):
        if method[0] != "mtp":
            raise UnsupportedError(f"speculative {method[0]} is not modelled for llama.cpp")
        w.say("speculative", "--spec-type", "draft-mtp", "--spec-draft-n-max", str(method[1]))
    _off(w, "speculative", "lora", "multimodal", *SIZES, "ep")
    if asked.get("multimodal") == "off":
        w.say("multimodal", "--no-mmproj")
    return w.done(w.options(frozenset({"server"})))


def ollama(model: str, asked: Mapping[str, Any], engine: Engine) -> Command:
    """ollama serve with its variables, and the run that loads the model."""
    env: dict[str, str] = {}
    said: set[str] = set()
    for name, variable in (
        ("max_model_len", "OLLAMA_CONTEXT_LENGTH"),
        ("max_num_seqs", "OLLAMA_NUM_PARALLEL"),
        ("reserve", "OLLAMA_GPU_OVERHEAD"),
    ):
        if asked.get(name):
            env[variable] = str(asked[name])
            said.add(name)
    if "kv_dtype" in asked:
        parts = [ALIASES.get(part, part) for part in str(asked["kv_dtype"]).lower().split("/")]
        if parts[0] != parts[-1]:
            raise UnsupportedError("Ollama has one cache format for keys and values")
        env |= {} if parts == ["auto"] else {"OLLAMA_KV_CACHE_TYPE": parts[0]}
        said.add("kv_dtype")
    aside = dict(asked["engine_option"])
    if aside.get("flash_attn") in ("on", "off", "true", "false"):
        env["OLLAMA_FLASH_ATTENTION"] = "1" if aside.pop("flash_attn") in ("on", "true") else "0"
    for name in ("max_num_batched_tokens", "n_gpu_layers"):
        if name in asked:
            raise UnsupportedError(f"Ollama takes {name} from a Modelfile or a request, not from its command line")
    said |= {name for name in (*SIZES, "ep") if asked.get(name) == 1}
    said |= {name for name in ("speculative", "lora", "multimodal") if asked.get(name) == "off"}
    return Command(("ollama", "run", model), frozenset(said), aside, env, before=("ollama serve",))


def spelled(engine: str, kv_dtype: str) -> str:
    """A cache format as the engine spells it."""
    name = kv_dtype.strip().lower()
    if "/" in name and name.split("/")[0] != name.split("/")[1]:
        raise UnsupportedError(f"{engine} has one cache format for keys and values, not {name}")
    name = name.split("/")[0]
    table = KV_DTYPES[engine]
    return table.get(name) or table.get(ALIASES.get(name, name)) or name


def _formats(w: _Words, engine: str) -> None:
    if "dtype" in w.asked:
        name = str(w.asked["dtype"]).lower()
        w.say("dtype", "--dtype", DTYPES.get(ALIASES.get(name, name), name))
    if "kv_dtype" in w.asked:
        w.say("kv_dtype", "--kv-cache-dtype", spelled(engine, w.asked["kv_dtype"]))
    if (quantization := ON_LOAD[engine].get(str(w.asked.get("weight_dtype")))) is not None:
        w.say("weight_dtype", "--quantization", quantization)


def _speculative(asked: Mapping[str, Any]) -> tuple[str, int, str] | None:
    text = asked.get("speculative") or "off"
    if text == "off":
        return None
    method, _, rest = str(text).partition(":")
    tokens, _, model = rest.partition(":")
    return method, int(tokens or 1), model


def _lora(asked: Mapping[str, Any]) -> tuple[str, str] | None:
    text = asked.get("lora") or "off"
    if text == "off":
        return None
    rank, _, adapters = str(text).lower().replace("\N{MULTIPLICATION SIGN}", "x").partition("x")
    return rank, adapters or "1"


def _off(w: _Words, *names: str) -> None:
    """Names whose value is what the engine does unasked."""
    w.said |= {name for name in names if w.asked.get(name) in ("off", 1) and name != "multimodal"}
    if w.asked.get("multimodal") == "on" and "multimodal" in names:
        w.said.add("multimodal")


def _longer(asked: Mapping[str, Any], key: str, variable: str) -> tuple[dict[str, str], frozenset[str]]:
    """The variable that an engine option stands for, and the option to leave out of the words."""
    return ({variable: "1"}, frozenset({key})) if _is_on(asked, key) else ({}, frozenset())


def _is_on(asked: Mapping[str, Any], key: str) -> bool:
    return str(asked["engine_option"].get(key, "")).lower() in ("true", "1", "yes", "on")


def _literal(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return json.loads(text if "," not in text else f"[{text}]")
    except ValueError:
        return text


def _long(names: tuple[str, ...]) -> str:
    return next((name for name in names if name.startswith("--")), names[0])


WRITERS: dict[str, Callable[[str, Mapping[str, Any], Engine], Command]] = {
    "vllm": vllm,
    "sglang": sglang,
    "tensorrt-llm": tensorrt_llm,
    "llama.cpp": llama_cpp,
    "ollama": ollama,
}
