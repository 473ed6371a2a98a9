"""What `vllm serve` takes: vllm/engine/arg_utils.py of the releases below, and the server's own options.

Sizes are read as human_readable_int does (32k = 32,000); `_` and `-` are one; dotted options make JSON; a beginning stands for the option.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engines.common.arguments import (
    MIRRORED,
    Answer,
    Arguments,
    Repository,
    adapters_of,
    allowed,
    block,
    loaded_as,
    moved,
    names,
    number,
    row,
)
from kvplan.engines.common.kinds import limits, structure
from kvplan.engines.common.libraries import LOUD
from kvplan.engines.common.options import read_lora, read_speculative
from kvplan.engines.common.stored import PACKED_ONLY
from kvplan.engines.common.words import Finding, Given, refuse
from kvplan.engines.vllm import for_v0, objects
from kvplan.engines.vllm.bounds import BOUNDS
from kvplan.engines.vllm.choices import CHOICES
from kvplan.engines.vllm.classes import OWN_CODE
from kvplan.engines.vllm.connectors import hybrid_off
from kvplan.engines.vllm.exclusions import EXCLUSIONS
from kvplan.engines.vllm.images import NGC, RUNPOD
from kvplan.engines.vllm.keys import OBJECTS
from kvplan.engines.vllm.media import LIMITS, MEDIA_IO, PROCESSOR
from kvplan.engines.vllm.media_said import media_said
from kvplan.engines.vllm.option_values import POOLING
from kvplan.engines.vllm.together import METHODS, NGRAMS, asked_of, by_value, few_cpu_loras, together
from kvplan.engines.vllm.unmodelled import EITHER, IRRELEVANT, LESS, MORE
from kvplan.engines.vllm.variables import EITHER as EITHER_VARIABLES
from kvplan.engines.vllm.variables import QUIET, TIMES
from kvplan.errors import UnsupportedError

RELEASES = (
    "0.8.5", "0.9.1", "0.9.2", "0.10.0", "0.10.2", "0.11.0", "0.11.1", "0.12.0", "0.13.0", "0.14.0", "0.15.0", "0.16.0", "0.17.1",
    "0.18.0", "0.19.0", "0.20.0", "0.21.0", "0.22.0", "0.23.0", "0.24.0", "0.25.0", "0.26.0", "0.27.0", "0.28.0", "0.29.0", "0.30.0",
    "0.31.0", "0.32.0", "0.33.0",
)  # fmt: skip
#: Formats of a cache that it calls otherwise.
KV_FORMATS = {"bf16": "bfloat16", "f16": "float16"}

RUNNER = "option:runner"
#: Options of words, which are joined by commas.
WORDS = {"@lora_modules": "lora_target_modules", "@skipped": "kv_cache_dtype_skip_layers"}
#: --task and --convert values under which the pooling runner serves (config/model.py _get_runner_type).
POOLED = frozenset({"pooling", "embed", "embedding", "classify", "score", "reward", "pool", "token_embed", "token_classify"})

ROWS = (
    row("--model", "@model", printed="model_tag"),
    row("--config", "@config"),
    row("--max-model-len", "max_model_len", "auto", printed="max_seq_len"),
    row("--max-num-seqs", "max_num_seqs", "int"),
    row("--max-num-batched-tokens", "max_num_batched_tokens", "human"),
    row("--block-size", "block_size", "int"),
    row("--gpu-memory-utilization", "memory_fraction", "float"),
    row("--device-memory-utilization", "memory_fraction", "float", since="0.31.0"),
    row("--kv-cache-memory-bytes", "kv_memory", "human", since="0.10.2", printed="kv_cache_memory"),
    row("--tensor-parallel-size -tp", "tp", "int"),
    row("--pipeline-parallel-size -pp", "pp", "int"),
    row("--data-parallel-size -dp", "dp", "int"),
    row("--data-parallel-size-local -dpl", "@local_dp", "int", since="0.9.0"),
    row("--decode-context-parallel-size -dcp", "dcp", "int", since="0.10.2"),
    row("--prefill-context-parallel-size -pcp", "option:prefill_context_parallel_size", "int", since="0.12.0", effect="more"),
    row("--enable-expert-parallel", "@ep", takes="switch"),
    row("-ep", "@ep", takes="flag", since="0.14.0"),
    row("--nnodes -n", "@nodes", "int", since="0.11.1"),
    row("--node-rank -r", "@rank", "int", since="0.11.1"),
    row("--headless", "@headless", takes="flag"),
    row("--dtype", "dtype", "compute"),
    row("--kv-cache-dtype", "kv_dtype", "format", says=KV_FORMATS),
    row("--kv-cache-dtype-skip-layers", "@skipped", takes="many", since="0.19.0"),
    row("--quantization -q", "@quantization"),
    row("--load-format", "@load"),
    row("--enforce-eager", "enforce_eager", takes="switch"),
    row("--compilation-config -cc", "@compilation", "json"),
    row("--cudagraph-capture-sizes", "@captured", takes="many", since="0.11.1"),
    row("--max-cudagraph-capture-size", "@captured_most", "int", since="0.11.1"),
    row("--cuda-graph-sizes", "@captured_early", takes="many", since="0.9.0", until="0.12.0"),
    row("--optimization-level -O", "@level"),
    row("--speculative-config -sc", "@speculative", "json"),
    row("--spec-method", "@spec_method", since="0.22.0"),
    row("--spec-model", "@spec_model", since="0.22.0"),
    row("--spec-tokens", "@spec_tokens", "int", since="0.22.0"),
    row("--speculative-model", "@spec_model", until="0.8.2"),
    row("--num-speculative-tokens", "@spec_tokens", "int", until="0.8.2"),
    row("--enable-lora", "@lora", takes="switch"),
    row("--max-lora-rank", "@lora_rank", "int"),
    row("--max-loras", "@loras", "int"),
    row("--lora-modules", "@adapters", takes="many"),
    row("--lora-target-modules", "@lora_modules", takes="many", since="0.19.0"),
    row("--fully-sharded-loras", "option:fully_sharded_loras", takes="switch"),
    row("--specialize-active-lora", "option:specialize_active_lora", takes="switch", since="0.16.0"),
    row("--enable-mixed-moe-lora-format", "option:enable_mixed_moe_lora_format", takes="switch", since="0.22.0"),
    row("--enable-moe-shared-loras", "option:enable_moe_shared_loras", takes="switch", since="0.26.0"),
    row("--skip-mm-profiling", "option:skip_mm_profiling", takes="switch", since="0.10.1"),
    row("--all2all-backend", "option:all2all_backend", since="0.11.1", variables="VLLM_ALL2ALL_BACKEND"),
    row("", "option:deepep_buffer_size_mb", "int", variables="VLLM_DEEPEP_BUFFER_SIZE_MB"),
    row("", "option:moe_dp_chunk_size", "int", variables="VLLM_MOE_DP_CHUNK_SIZE"),
    row("--enable-eplb", "option:enable_eplb", takes="switch", since="0.9.2"),
    row("--num-redundant-experts", "@redundant", "int", since="0.9.2", until="0.11.1"),
    row("--eplb-window-size", "@eplb_window", "int", since="0.9.2", until="0.11.1"),
    row("--eplb-config", "@eplb", "json", since="0.10.2"),
    row("--limit-mm-per-prompt", "@limit_mm", "limits"),
    row("--mm-processor-kwargs", "@processor", "json"),
    row("--mm-processor-device", "@processor_device", since="0.28.0"),
    row("--mm-ipc-gpu-memory-gb", "option:mm_ipc_gpu_memory_gb", "float", since="0.25.0"),
    row("--media-io-kwargs", "@media_io", "json", since="0.9.2"),
    row("", "option:engram_cpu_offload", "truth", "flag", until="0.30.0", variables="VLLM_PLE_CPU_OFFLOAD"),
    row("--engram-config", "@engram", "json", since="0.30.0"),
    row("", "option:video_loader_backend", variables="VLLM_VIDEO_LOADER_BACKEND"),
    row("--mm-encoder-tp-mode", "option:mm_encoder_tp_mode", since="0.10.2"),
    row("--enable-multimodal-encoder-data-parallel", "@tower_dp", takes="switch", since="0.9.1", until="0.12.0"),
    row("--disable-chunked-mm-input", "option:disable_chunked_mm_input", takes="switch"),
    row("--mm-processor-cache-gb", "option:mm_processor_cache_gb", "float", since="0.10.1", variables="VLLM_MM_INPUT_CACHE_GIB"),
    row("--mm-processor-cache-type", "option:mm_processor_cache_type", since="0.11.0"),
    row("--disable-mm-preprocessor-cache", "@no_mm_cache", takes="switch", until="0.12.0"),
    row("--api-server-count -asc", "option:api_server_count", "int"),
    row("--max-logprobs", "option:max_logprobs", "int"),
    row("--max-cpu-loras", "option:max_cpu_loras", "int"),
    row("--enable-sleep-mode", "option:enable_sleep_mode", takes="switch"),
    row("--disable-custom-all-reduce", "option:disable_custom_all_reduce", takes="switch"),
    row("--model-impl", "@model_impl"),
    row("--distributed-executor-backend", "@executor"),
    row("--worker-extension-cls", "@worker_extension"),
    row("--language-model-only", "@text_only", takes="switch", since="0.17.1"),
    row("--swap-space", "option:swap_space", "float", until="0.17.1"),
    row("--kv-offloading-size", "option:kv_offloading_size", "float", since="0.11.1"),
    row("--kv-offloading-backend", "option:kv_offloading_backend", since="0.11.1"),
    row("--cpu-offload-gb", "option:cpu_offload_gb", "float"),
    row("--num-gpu-blocks-override", "option:num_gpu_blocks_override", "int"),
    row("--runner", RUNNER, since="0.10.1"),
    row("--convert", "@convert", since="0.10.1"),
    row("--pooler-config", "@pooler", "json", since="0.11.0"),
    row("--task", RUNNER, says={"pooling": "embed"}, until="0.12.0"),
    row("--enable-prefix-caching", "option:enable_prefix_caching", takes="switch"),
    row("--async-scheduling", "option:async_scheduling", takes="switch", since="0.10.0"),
    row("--mamba-cache-mode", "option:mamba_cache_mode", since="0.15.0"),
    row("--mamba-block-size", "option:mamba_block_size", "int", since="0.11.1"),
    row("--prefix-cache-retention-interval", "option:prefix_cache_retention_interval", "int", since="0.29.0"),
    row("--use-replayssm", "option:use_replayssm", takes="switch", since="0.27.0"),
    row("--replayssm-buffer-len", "option:replayssm_buffer_len", "int", since="0.27.0"),
    row("--enable-return-routed-experts", "option:enable_return_routed_experts", takes="switch", since="0.14.0", effect="either"),
    row("--prefix-match-unit", "option:prefix_match_unit", "int", since="0.26.0"),
    row("--mamba-cache-dtype", "option:mamba_cache_dtype", since="0.10.1"),
    row("--mamba-ssm-cache-dtype", "option:mamba_ssm_cache_dtype", since="0.10.1"),
    row("--attention-backend", "option:attention_backend", since="0.13.0"),
    row("--attention-config -ac", "@attention", "json", since="0.13.0"),
    row("", "option:dyn_kvbm_cpu_cache_gb", "float", variables="DYN_KVBM_CPU_CACHE_GB"),
    row("", "option:dyn_kvbm_disk_cache_gb", "float", variables="DYN_KVBM_DISK_CACHE_GB"),
    row("", "option:attention_backend", variables="VLLM_ATTENTION_BACKEND", until="0.12.0"),  # what is written; read: TIMES
    row("", "option:allow_long_max_model_len", "one_or_true", "flag", variables="VLLM_ALLOW_LONG_MAX_MODEL_LEN"),
    row("", "option:pp_layer_partition", variables="VLLM_PP_LAYER_PARTITION"),
    row("", "option:use_v1", "truth", "flag", variables="VLLM_USE_V1"),
    row("", "option:v2_model_runner", "truth", "flag", variables="VLLM_USE_V2_MODEL_RUNNER"),
    row("", "option:use_flashinfer_sampler", "truth", "flag", variables="VLLM_USE_FLASHINFER_SAMPLER"),
    row("", "option:estimate_graphs", "truth", "flag", variables="VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"),
    row("", "option:flashinfer_workspace", "int", variables="VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE"),
    row("", "option:allocator", variables="PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF"),
    row("--performance-mode", "option:performance_mode", since="0.17.1"),
    row("--disable-hybrid-kv-cache-manager", "option:disable_hybrid_kv_cache_manager", takes="switch", since="0.9.1"),
    row("--device", "@device", until="0.9.2"),
    row("--kv-transfer-config", "!kv_transfer", "json", effect="either"),
    row("--kv-events-config", "@kv_events", "json", since="0.9.0"),
    row("--disable-sliding-window", "option:disable_sliding_window", takes="switch"),
    row("--trust-remote-code", "@trust", takes="switch"),
    row("--hf-overrides", "@overrides", "json"),
    row("--rope-scaling", "@rope", "json", until="0.11.0"),
    row("--enable-chunked-prefill", "option:enable_chunked_prefill", takes="switch"),
    row("--long-prefill-token-threshold", "@long_prefill", "int"),
    row("--max-num-scheduled-tokens", "!scheduled", "human", since="0.26.0", effect="either"),
    *for_v0.ROWS,
    *block(IRRELEVANT),
    *block(EITHER, "either"),
    *block(MORE, "more"),
    *block(LESS, "less"),
)  # fmt: skip

#: From which release on requests are no longer than a draft model's, by the V2 runner (config/vllm.py _limit_max_model_len_to_draft).
CUT_TO_DRAFT = (0, 33)
#: --quantization values that change a checkpoint while it is loaded; all others name what the checkpoint already is.
ON_LOAD = {"fp8": "fp8", "bitsandbytes": "nf4", "mxfp8": "mxfp8"}
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
    if quantised and quantised.value in ON_LOAD:
        question["weight_dtype"] = moved(quantised, ON_LOAD[quantised.value])
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
            question[f"engine_option.{option}"] = moved(one, ",".join(one.value))
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
    if tokens is None and method == "mtp":
        tokens = 1
    if not isinstance(tokens, int) or tokens < 1:
        return [refuse(f"{one.spelled}: num_speculative_tokens is not given", one.place)]
    question["speculative"] = moved(one, f"{method}:{tokens}" + (f":{model}" if model and method != "ngram" else ""))
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
        said |= {"weight_dtype", "option:quantize_on_load"}
    elif own := asked.get("option:quantization"):
        says["@quantization"] = own
        said.add("option:quantization")
    if draft := read_speculative(asked.get("speculative")):
        config = {"method": draft.method, "num_speculative_tokens": draft.tokens}
        says["@speculative"] = config | ({"model": draft.model} if draft.model else {})
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
    objects=OBJECTS,
    bounds=BOUNDS,
    packed_only=PACKED_ONLY | {"modelopt", "modelopt_fp4"},
    own_code=OWN_CODE,
    exclusions=EXCLUSIONS,
    optional=frozenset(
        {"max_model_len", "max_num_seqs", "max_num_batched_tokens", "kv_memory", "block_size", "option:num_gpu_blocks_override"}
    ),
    repositories=(
        Repository(r"(^|/)vllm/vllm-openai(-rocm|-cpu)?$", ("vllm", "serve")),
        Repository(r"(^|/)lmcache/vllm-openai$", ("vllm", "serve"), tag=""),  # v0.3.12 is LMCache's own release
        Repository(r"(^|/)vllm-openai$", ("vllm", "serve"), tag=MIRRORED),
        Repository(r"(^|/)(vllm-cuda-rhel9|vllm-rocm-rhel9)$", ("vllm", "serve"), tag=""),
        Repository(r"(^|/)nvidia/vllm$", tag="", holds=NGC),
        Repository(r"(^|/)runpod(-workers)?/worker-(v1-)?vllm$", ("vllm", "serve"), tag="", holds=RUNPOD),
        Repository(r"(^|/)rocm/(vllm|vllm-dev)[^/]*$|(^|/)llm-d(-(cuda|dev|xpu|cpu|hpu|rocm|aws|gke)(-[a-z0-9]+)*)?$", tag=""),
        Repository(r"(^|/)(q9t5s3a7|vllm)/vllm-cpu[^/]*$", ("vllm", "serve")),  # docker/Dockerfile.cpu
        Repository(r"(^|/)vllm-cpu[^/]*$", ("vllm", "serve"), tag=MIRRORED),
        Repository(r"(^|/)(q9t5s3a7|vllm)/vllm-(tpu|xpu|ci)[^/]*$"),
        Repository(r"(^|/)(vllm-(tpu|xpu|ci))[^/]*$", tag=""),
        Repository(r"(^|/)(kserve/huggingfaceserver|huggingfaceserver)$", ("kserve-huggingfaceserver",), tag=""),
    ),
)
