"""What `vllm serve` takes: vllm/engine/arg_utils.py of the releases below, and the server's own options.

Sizes are read as human_readable_int does (32k = 32,000); `_` and `-` are one; dotted options make JSON; a beginning stands for the option.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engines.common.arguments import (
    MIRRORED,
    NUMBERED,
    Answer,
    Arguments,
    Repository,
    adapters_of,
    allowed,
    loaded_as,
    moved,
    names,
    number,
)
from kvplan.engines.common.kinds import limits, structure
from kvplan.engines.common.libraries import LOUD
from kvplan.engines.common.lora import MODULES
from kvplan.engines.common.options import read_lora, read_speculative
from kvplan.engines.common.words import Finding, Given, refuse, warn
from kvplan.engines.vllm import for_v0, objects
from kvplan.engines.vllm.adapters import BESIDE
from kvplan.engines.vllm.bounds import BOUNDS
from kvplan.engines.vllm.choices import ANY_WORD, CHOICES
from kvplan.engines.vllm.classes import OWN_CODE
from kvplan.engines.vllm.connectors import hybrid_off
from kvplan.engines.vllm.drafter import KEYS as DRAFTER
from kvplan.engines.vllm.exclusions import EXCLUSIONS
from kvplan.engines.vllm.images import NGC, RUNPOD
from kvplan.engines.vllm.inside import INSIDE
from kvplan.engines.vllm.keys import OBJECTS
from kvplan.engines.vllm.media import LIMITS, MEDIA_IO, PROCESSOR
from kvplan.engines.vllm.media_said import media_said
from kvplan.engines.vllm.option_rows import ROWS
from kvplan.engines.vllm.option_values import POOLING
from kvplan.engines.vllm.quantised import EXPERTS_ALONE, MADE, NEEDS_SETTINGS, ON_LOAD
from kvplan.engines.vllm.together import METHODS, NGRAMS, SUFFIX_DEPTH, asked_of, by_value, few_cpu_loras, together
from kvplan.engines.vllm.variables import EITHER as EITHER_VARIABLES
from kvplan.engines.vllm.variables import QUIET, TIMES
from kvplan.errors import UnsupportedError

RELEASES = (
    "0.8.5", "0.9.1", "0.9.2", "0.10.0", "0.10.2", "0.11.0", "0.11.1", "0.11.2", "0.12.0", "0.13.0", "0.14.0", "0.14.1",
    "0.15.0", "0.16.0", "0.17.1", "0.18.0", "0.19.0", "0.20.0", "0.20.2", "0.21.0", "0.22.0", "0.23.0", "0.24.0", "0.25.0",
    "0.26.0", "0.27.0", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0",
)  # fmt: skip
#: Options of words, which are joined by commas.
WORDS = {"@lora_modules": "lora_target_modules", "@skipped": "kv_cache_dtype_skip_layers"}
#: --task and --convert values under which the pooling runner serves (config/model.py _get_runner_type).
POOLED = frozenset({"pooling", "embed", "embedding", "classify", "score", "reward", "pool", "token_embed", "token_classify"})

#: From which release on requests are no longer than a draft model's, by the V2 runner (config/vllm.py _limit_max_model_len_to_draft).
CUT_TO_DRAFT = (0, 33)
LONGER = "option:allow_long_max_model_len"


def finish(given: Mapping[str, Given], positional: tuple[Given, ...]) -> Answer:
    """The question: what several options say together."""
    question, findings = names(given), list[Finding]()
    length = question.get("max_model_len")
    if length and length.value == -1:
        del question["max_model_len"]
        question["engine_option.auto_fit"] = moved(length, True)
    if "dtype" in question and question["dtype"].value == "auto":
        del question["dtype"]
    if one := given.get("@ep"):
        ranks = number(given, "tp") * number(given, "dp")
        if one.value:
            question["ep" if ranks > 1 else "engine_option.expert_parallel"] = moved(one, ranks if ranks > 1 else True)
    quantised = given.get("@quantization") or loaded_as(given.get("@load"))
    if quantised and quantised.value in MADE:
        question["weight_dtype"] = moved(quantised, MADE[quantised.value])
    elif quantised and quantised.value in ("awq", "gptq"):
        question["engine_option.quantization"] = quantised
    _runner(given, question)
    for_v0.read(given, question)
    findings += objects.read(given, question)
    findings += _speculative(given, question)
    if (one := given.get("@lora")) and one.value:
        question["lora"] = moved(one, f"{number(given, '@lora_rank', 16)}x{number(given, '@loras')}")
        findings += few_cpu_loras(given)
    for name, option in WORDS.items():
        if (one := given.get(name)) and (name != "@lora_modules" or "lora" in question):
            strange = (
                [word for word in one.value if word not in (*MODULES, *BESIDE, "all", "all-linear")] if name == "@lora_modules" else []
            )
            if kept := [word for word in one.value if word not in strange]:
                question[f"engine_option.{option}"] = moved(one, ",".join(kept))
            if strange:
                message = f"{one.spelled}: what adapters hold of {', '.join(strange)[:60]} is not counted"
                findings.append(warn("not-modelled-more", message, one.place))
    for option in ("max_cpu_loras", "api_server_count"):  # below 1: as not given, and an engine without a server (entrypoints/cli/serve.py)
        if (one := given.get(f"option:{option}")) and one.value <= 0:
            del question[f"engine_option.{option}"]
    findings += media_said(given, question)
    findings += by_value(given)
    findings += together(given)
    if (one := question.get("kv_memory")) and one.value <= 0:  # 0: as not given (v1/worker/gpu_worker.py determine_available_memory)
        del question["kv_memory"]
        findings += [refuse(f"{one.spelled} {one.value}: No available memory for the cache blocks", one.place)] if one.value else []
    if (one := given.get("@device")) and one.value == "cpu":
        question["engine_option.platform"] = one
    if (one := question.get("memory_fraction")) and not 0 < one.value <= 1:
        findings.append(refuse(f"{one.spelled} {one.value:g} is not above 0 and at most 1", one.place))
        del question["memory_fraction"]
    findings += objects.overrides(given, question)
    findings += hybrid_off(given, question, asked_of(given))
    if one := given.get(LONGER):
        findings.append(allowed(one))
    local, rank = given.get("@local_dp"), given.get("@rank")
    adapters = adapters_of(given.get("@adapters"), most=number(given, "@lora_rank", 16)) if "lora" in question else None
    return Answer(
        question,
        given.get("@model") or (positional[0] if positional else None),
        tuple(findings),
        local_dp=local.value if local else None,
        nodes=number(given, "@nodes"),
        is_worker=bool("@headless" in given or (rank and rank.value)),
        weights=quantised,
        trusts=bool((one := given.get("@trust")) and one.value),
        adapters=adapters,
    )


def _runner(given: Mapping[str, Given], question: dict[str, Given]) -> None:
    """The runner by whichever of its three names, and how it pools."""
    said = pooler.value if (pooler := given.get("@pooler")) and isinstance(pooler.value, dict) else {}
    kinds = [str(said[key]).upper() for key in ("pooling_type", "seq_pooling_type", "tok_pooling_type") if said.get(key)]
    if pooler and kinds and kinds[0] in POOLING:
        question["engine_option.pooling_type"] = moved(pooler, kinds[0])
    told = question.pop("engine_option.runner", None)
    if told is None or told.value == "auto":
        told = given.get("@convert")
    if told and (told.value in POOLED or told.value == "generate"):
        question["engine_option.runner"] = told if told.value == "generate" else moved(told, "pooling")


def _speculative(given: Mapping[str, Given], question: dict[str, Given]) -> list[Finding]:
    one = given.get("@speculative")
    if one and not isinstance(one.value, dict):
        return [refuse(f"{one.spelled}: not a JSON object", one.place)]
    config: dict[str, Any] = dict(objects.keys("@speculative", "--speculative-config", given) or {})
    for key, name in (("@spec_method", "method"), ("@spec_model", "model"), ("@spec_tokens", "num_speculative_tokens")):
        if key in given:
            config.setdefault(name, given[key].value)
            one = one or given[key]
    if one is None:
        return []
    model, tokens = config.get("model"), config.get("num_speculative_tokens")
    method = str(config.get("method") or ("ngram" if model in NGRAMS else "draft_model"))
    method = METHODS.get(method, method)
    if tokens is None:
        tokens = {"mtp": 1, "suffix": config.get("suffix_decoding_max_tree_depth", SUFFIX_DEPTH)}.get(method)
    if not isinstance(tokens, int) or tokens < 1:
        return [refuse(f"{one.spelled}: num_speculative_tokens is not given", one.place)]
    question["speculative"] = moved(one, f"{method}:{tokens}" + (f":{model}" if model and method != "ngram" else ""))
    question |= {f"engine_option.{option}": moved(one, said) for key, option in DRAFTER.items() if (said := config.get(key)) is not None}
    if method == "draft_model" and (most := config.get("max_model_len")) and asked_of(given) >= CUT_TO_DRAFT:
        length, v2 = question.get("max_model_len"), given.get("option:v2_model_runner")
        if isinstance(most, int) and (length is None or length.value > most) and (v2 is None or v2.value):
            question["max_model_len"] = moved(one, most)
    return []


def say(asked: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The other way of `finish`."""
    says: dict[str, Any] = {}
    said = {name for name in ("speculative", "lora", "multimodal") if name in asked}
    if (ep := asked.get("ep", 1)) != 1:
        ranks = (asked.get("tp") or 1) * (asked.get("dp") or 1)
        if ep != ranks:
            raise UnsupportedError(f"vLLM spreads experts over all tp x dp = {ranks} ranks or none, not {ep}")
        said.add("ep")
    if ep != 1 or str(asked.get("option:expert_parallel", "")).lower() == "true":
        says["@ep"] = True
    said |= {"option:expert_parallel"} & asked.keys()
    if quantization := {ours: theirs for theirs, ours in ON_LOAD.items()}.get(asked.get("weight_dtype", "")):
        says["@quantization"] = quantization
        said |= {"weight_dtype", "option:quantize_on_load", "option:quantization"}
    elif own := asked.get("option:quantization"):
        says["@quantization"] = own
        said.add("option:quantization")
    if draft := read_speculative(asked.get("speculative")):
        config = {"method": draft.method, "num_speculative_tokens": draft.tokens}
        own = {key: value for key, option in DRAFTER.items() if (value := asked.get(f"option:{option}")) is not None}
        ranks = {key: int(own[key]) for key in ("draft_tensor_parallel_size",) if key in own}
        says["@speculative"] = config | ({"model": draft.model} if draft.model else {}) | own | ranks
        said |= {f"option:{option}" for option in DRAFTER.values()} & asked.keys()
    if lora := read_lora(asked.get("lora")):
        says |= {"@lora": True, "@lora_rank": lora.rank, "@loras": lora.adapters}
    for name, option in WORDS.items():
        if (text := asked.get(f"option:{option}")) and (name != "@lora_modules" or "lora" in asked):
            says[name] = str(text).strip("[]() ").split(",")
            said.add(f"option:{option}")
    if asked.get("multimodal") == "off":
        says["@limit_mm"] = {"image": 0, "video": 0, "audio": 0}
    for key, option, read in (("@limit_mm", LIMITS, limits), ("@processor", PROCESSOR, structure), ("@media_io", MEDIA_IO, structure)):
        if text := asked.get(f"option:{option}"):
            says.setdefault(key, read(text))
            said.add(f"option:{option}")
    if text := asked.get("option:hf_overrides"):
        says["@overrides"] = structure(text)
        said.add("option:hf_overrides")
    if text := asked.get(f"option:{for_v0.OPTION}"):
        says |= for_v0.say(text)
        said.add(f"option:{for_v0.OPTION}")
    if trust := asked.get("option:trust_remote_code"):
        says["@trust"] = str(trust).lower() == "true"
        said.add("option:trust_remote_code")
    configs, told = objects.say(asked)
    says |= configs
    said |= told
    if "max_model_len" not in asked and asked.get("option:auto_fit", "").lower() in ("true", "1", "yes", "on"):
        says["max_model_len"] = -1
        said.add("option:auto_fit")
    return says, said


ARGUMENTS = Arguments(
    "vllm",
    ROWS,
    finish,
    say,
    ("vllm", "serve"),
    commands=("vllm serve",),
    modules={
        "vllm.entrypoints.openai.api_server": "",
        "vllm.entrypoints.api_server": "",
        "vllm.entrypoints.cli.main": "serve",
        "vllm": "serve",
        "dynamo.vllm": "",
    },
    releases=RELEASES,
    abbreviations=True,
    opposites="0.33.0",  # utils/argparse_utils.py EnableDisableAction
    underscores=True,
    dotted=True,
    config="options",
    positional=1,
    prefix=("VLLM_",),
    quiet_variables=tuple(f"VLLM_{name}" for name in QUIET.split()),
    loud_variables=(*LOUD, *(f"VLLM_{name}" for name in EITHER_VARIABLES.split())),
    variable_times={times: tuple(f"VLLM_{name}" for name in names.split()) for times, names in TIMES.items()},
    image=("vllm/vllm-openai", "v{}", "latest"),
    entrypoint=2,
    length_bound=True,
    choices=CHOICES,
    any_word=ANY_WORD,
    truths={"--enable-chunked-prefill": "0.8.5", "--multi-step-stream-outputs": "0.8.5"},  # utils.py StoreBoolean
    objects=OBJECTS,
    bounds=BOUNDS,
    packed_only=NEEDS_SETTINGS,
    experts_only=EXPERTS_ALONE,
    own_code=OWN_CODE,
    exclusions=EXCLUSIONS + INSIDE,
    optional=frozenset(
        {"max_model_len", "max_num_seqs", "max_num_batched_tokens", "kv_memory", "block_size", "option:num_gpu_blocks_override"}
    ),
    repositories=(
        Repository(r"(^|/)vllm/vllm-openai(-rocm|-cpu)?$", ("vllm", "serve")),
        Repository(r"(^|/)lmcache/vllm-openai$", ("vllm", "serve"), tag=""),  # v0.3.12 is LMCache's own release
        Repository(r"(^|/)vllm-openai$", ("vllm", "serve"), tag=MIRRORED),
        Repository(r"(^|/)(vllm-cuda-rhel9|vllm-rocm-rhel9)$", ("vllm", "serve"), tag=""),
        Repository(r"(^|/)nvidia/vllm$", tag="", holds=NGC),
        Repository(
            r"(\.dkr\.ecr\.[\w-]+\.amazonaws\.com|/deep-learning-containers)/vllm$", tag=rf"{NUMBERED}(?=-gpu-)"
        ),  # aws/deep-learning-containers, available_images.md,
        Repository(r"(^|/)runpod(-workers)?/worker-(v1-)?vllm$", ("vllm", "serve"), tag="", holds=RUNPOD),
        Repository(r"(^|/)rocm/(vllm|vllm-dev)[^/]*$|(^|/)llm-d(-(cuda|dev|xpu|cpu|hpu|rocm|aws|gke)(-[a-z0-9]+)*)?$", tag=""),
        Repository(r"(^|/)(q9t5s3a7|vllm)/vllm-cpu[^/]*$", ("vllm", "serve")),  # docker/Dockerfile.cpu
        Repository(r"(^|/)vllm-cpu[^/]*$", ("vllm", "serve"), tag=MIRRORED),
        Repository(r"(^|/)(q9t5s3a7|vllm)/vllm-(tpu|xpu|ci)[^/]*$"),
        Repository(r"(^|/)(vllm-(tpu|xpu|ci))[^/]*$", tag=""),
        Repository(r"(^|/)(kserve/huggingfaceserver|huggingfaceserver)$", ("kserve-huggingfaceserver",), tag=""),
    ),
)
