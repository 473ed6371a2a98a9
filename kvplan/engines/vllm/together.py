"""What vLLM stops at of options that were given together (config/vllm.py, scheduler.py, kv_transfer.py of 0.10.2 to 0.33)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from kvplan.engines.common.arguments import RELEASE, number
from kvplan.engines.common.releases import release, three_parts
from kvplan.engines.common.words import Finding, Given, refuse, warn
from kvplan.engines.vllm.connectors import READS_HIDDEN, named
from kvplan.engines.vllm.for_v0 import MARK
from kvplan.engines.vllm.keys import CONNECTORS

METHODS = {"deepseek_mtp": "mtp", "qwen3_next_mtp": "mtp", "mimo_mtp": "mtp", "glm4_moe_mtp": "mtp", "ernie_mtp": "mtp"}
#: What stands for drafting by n-grams where a model is named (config/speculative.py).
NGRAMS = ("ngram", "[ngram]")
#: Tokens that suffix decoding drafts where none are said (config/speculative.py suffix_decoding_max_tree_depth).
SUFFIX_DEPTH = 24
#: Exchanges of experts' tokens that halved batches (DBO) were written for, and one from 0.24 on.
HALVED, HALVED_LATER = ("deepep_low_latency", "deepep_high_throughput"), "nixl_ep"

#: From which release on --async-scheduling goes with which methods, and from which on with pipeline stages.
OVERLAPPED = (
    ((0, 25), "eagle eagle3 mtp dflash extract_hidden_states draft_model ngram_gpu dspark"),
    ((0, 18), "eagle eagle3 mtp dflash extract_hidden_states draft_model ngram_gpu"),
    ((0, 16), "eagle eagle3 mtp extract_hidden_states draft_model"),
    ((0, 11, 1), "eagle eagle3 mtp"),
    ((0,), ""),
)
PIPELINED = (0, 15)
#: Methods that run a model of their own.
DRAFTERS = ("eagle", "eagle3", "mtp", "dflash", "dspark", "draft_model")


def asked_of(given: Mapping[str, Given]) -> tuple[int, ...]:
    """The release; one that is not said is the newest."""
    return release(str(given[RELEASE].value)) if RELEASE in given else (1 << 30,)


def together(given: Mapping[str, Given]) -> list[Finding]:
    """All of it."""
    version = str(given[RELEASE].value) if RELEASE in given else ""
    asked = asked_of(given)
    return [
        *_halved(given, asked),
        *_prefill(given, asked),
        *_limits(given, asked),
        *_transfer(given, version),
        *_overlaps(given, asked),
        *_drafted(given, asked),
        *_states(given, asked),
        *_steps(given, asked),
        *_converted(given, asked),
        *_nodes(given, asked),
    ]


def _nodes(given: Mapping[str, Given], asked: tuple[int, ...]) -> Iterator[Finding]:
    """engine/arg_utils.py create_engine_config of 0.12 to 0.33: each node has as many ranks."""
    one, sizes = given.get("@nodes"), ("tp", "pp", "dp", *(["option:prefill_context_parallel_size"] if asked >= (0, 27) else []))
    world = prod(number(given, size) for size in sizes)
    if one and one.value > 1 and world % one.value and asked >= (0, 12):
        yield refuse(f"{one.spelled} {one.value}: world_size={world} must be divisible by nnodes={one.value}; the engine stops", one.place)


#: What --convert makes of a generating model (config/model.py ConvertType), and the release from which on it chooses the runner, too.
CONVERTS, CONVERT_CHOOSES = ("embed", "classify", "reward"), (0, 22)


def _converted(given: Mapping[str, Given], asked: tuple[int, ...]) -> Iterator[Finding]:
    """config/model.py _get_runner_type of 0.10.1 to 0.33: a converted model has no output layer, which the generating runner looks for."""
    one, runner = given.get("@convert"), given["option:runner"].value if "option:runner" in given else "auto"
    if one is None or one.value == "auto":
        return
    if one.value in CONVERTS and runner == "generate":
        yield refuse(f"{one.spelled} {one.value} beside --runner generate, which it has no output layer for; the engine stops", one.place)
    elif one.value in CONVERTS and runner == "auto" and asked < CONVERT_CHOOSES:
        said = f"{one.spelled} {one.value} does not choose the runner before 0.22: write --runner pooling"
        yield warn("runner-not-chosen", f"{said}, or a generating model that is no sentence transformer stops", one.place)
    elif one.value == "none" and runner == "pooling":
        said = f'{one.spelled} none: a generating model stops with "This model does not support `--runner pooling`."'
        yield warn("not-converted", said, one.place)


def few_cpu_loras(given: Mapping[str, Given]) -> list[Finding]:
    """config/lora.py: adapters in host memory are at least as many as on the device."""
    one, slots = given.get("option:max_cpu_loras"), number(given, "@loras")
    if one is None or one.value <= 0 or one.value >= slots:  # none, where it is not above 0 (engine/arg_utils.py)
        return []
    return [refuse(f"{one.spelled} {one.value} is less than --max-loras {slots}; the engine stops", one.place)]


def _halved(given: Mapping[str, Given], asked: tuple[int, ...]) -> Iterator[Finding]:
    one = given.get("!--enable-dbo")
    if not (one and one.value):
        one = many if (many := given.get("!--ubatch-size")) and many.value > 1 else None
    exchange = given["option:all2all_backend"].value if "option:all2all_backend" in given else ""
    kernels = (*HALVED, HALVED_LATER) if asked >= (0, 24) else HALVED
    if one is None or exchange in kernels:
        return
    message = f"{one.spelled} without --all2all-backend {' or '.join(kernels)}: the engine stops"
    if asked >= (0, 33) and exchange in ("", "allgather_reducescatter"):
        yield warn("stops-on-cuda", f"{message}, but on AMD's cards", one.place)
    else:
        yield refuse(message, one.place)


def _prefill(given: Mapping[str, Given], asked: tuple[int, ...]) -> Iterator[Finding]:
    method = _method(given)
    if (one := given.get("!--kv-sharing-fast-prefill")) and one.value and method in READS_HIDDEN:
        yield refuse(f"{one.spelled} with {method[:40]}, which needs correct logits of every token; the engine stops", one.place)


def _limits(given: Mapping[str, Given], asked: tuple[int, ...]) -> Iterator[Finding]:
    """`image=2`, which was read up to 0.9 (engine/arg_utils.py nullable_kvs); its values are words."""
    one = given.get("@limit_mm")
    if one and asked >= (0, 10) and isinstance(one.value, dict) and any(isinstance(n, str) for n in one.value.values()):
        said = ",".join(f"{kind}={n}" for kind, n in one.value.items())
        yield refuse(f"argument {one.spelled}: Value {said[:60]} cannot be converted to <function loads>; it is JSON since 0.10", one.place)


def _transfer(given: Mapping[str, Given], version: str) -> Iterator[Finding]:
    one = given.get("!kv_transfer")
    if one is None or not isinstance(one.value, dict):
        return
    if not one.value.get("kv_connector"):
        # kv_connector/utils.py get_kv_connector_cache_layout, from 0.22 on config/vllm.py
        if "option:kv_offloading_size" not in given and asked_of(given) >= (0, 10):
            yield refuse(f"{one.spelled}: Connector name is not set in KVTransferConfig; the engine stops", one.place)
        return
    dcp, shared = number(given, "dcp"), max(number(given, "tp"), number(given, "option:prefill_context_parallel_size"))
    over_nixl = any(each.get("kv_connector") == "NixlConnector" for each in named(one.value))
    if over_nixl and dcp not in (1, shared) and asked_of(given) >= (0, 30):
        said = f"decode_context_parallel_size={dcp} must be 1 or equal to the NIXL transfer parallel size={shared}."
        yield refuse(f"{one.spelled}: {said}; the engine stops", one.place)
    if not one.value.get("kv_role"):  # as the option is parsed (config/kv_transfer.py)
        yield refuse(f"{one.spelled}: {str(one.value['kv_connector'])[:60]} without a kv_role; the engine stops", one.place)
        return
    if (tier := given.get("option:kv_offloading_size")) and tier.value and asked_of(given) >= (0, 11, 1):
        return  # whose connector takes the place of this one (config/vllm.py _post_init_kv_transfer_config)
    for each in named(one.value):
        name = str(each.get("kv_connector") or "")
        if not each.get("kv_role"):
            yield refuse(f"{one.spelled}: {name[:60]} without a kv_role; the engine stops", one.place)
        elif version and not each.get("kv_connector_module_path") and not _brought(name, version):
            message = f"{one.spelled}: {name[:60]} is no connector of vLLM's, and has no kv_connector_module_path; the engine stops"
            yield refuse(message, one.place)


def _brought(name: str, version: str) -> bool:
    """Whether a release has a connector of that name."""
    asked = three_parts(version)
    return any(
        name in names.split() and not (after and asked <= three_parts(after)) and not (before and asked >= three_parts(before))
        for (after, before), names in CONNECTORS.items()
    )


def _method(given: Mapping[str, Given]) -> str:
    """The method of drafting by its general name; empty where nothing drafts."""
    draft = given.get("@speculative") or given.get("@spec_method")
    if draft is None:
        return ""
    said = draft.value if isinstance(draft.value, dict) else {"method": draft.value}
    method = str(said.get("method") or ("ngram" if said.get("model") in NGRAMS else "draft_model"))
    return METHODS.get(method, "mtp" if method.endswith("_mtp") else method)


def _drafted(given: Mapping[str, Given], asked: tuple[int, ...]) -> Iterator[Finding]:
    """What the keys of --speculative-config do not go with (config/speculative.py __post_init__, _verify_args of 0.10.2 to 0.33)."""
    one = given.get("@speculative")
    if one is None or not isinstance(one.value, dict):
        return
    said, method, tp = one.value, _method(given), number(given, "tp")
    least, most, ranks = (said.get(key) for key in ("prompt_lookup_min", "prompt_lookup_max", "draft_tensor_parallel_size"))
    synthetic, rates = said.get("rejection_sample_method") == "synthetic", ("synthetic_acceptance_rates", "synthetic_acceptance_length")
    given_rates = sum(said.get(key) is not None for key in rates)
    tokens, window, parts, mean = (said.get(key) for key in ("num_speculative_tokens", "fly_window_size", *rates))
    drafts = tokens if isinstance(tokens, int) else 0
    adapts = bool(said.get("enable_adaptive_verification"))
    stops = (
        (method.startswith("ngram") and isinstance(least, int) and isinstance(most, int) and least > most, (0,),
         f"prompt_lookup_min={least} must be <= prompt_lookup_max={most}"),
        (method not in ("suffix",) and not method.startswith("ngram") and ranks not in (None, 1, tp), (0,),
         f"draft_tensor_parallel_size={ranks} cannot be other value than 1 or target model tensor_parallel_size"),
        (method == "draft_model" and ranks == 1 != tp and asked < (0, 33), (0, 16),
         "Currently, 'draft_tensor_parallel_size' and 'tensor_parallel_size' must be the same"),
        (said.get("tensor_parallel_size") is not None, (0, 16), "'tensor_parallel_size' is not a valid argument in the speculative_config"),
        (bool(said.get("use_heterogeneous_vocab")) and method != "draft_model", (0, 25),
         "use_heterogeneous_vocab only works with method='draft_model'"),
        (synthetic and given_rates != 1, (0, 20), f"rejection_sample_method='synthetic' requires exactly one of {' or '.join(rates)}"),
        (not synthetic and given_rates > 0, (0, 20), f"{' / '.join(rates)} are only valid with rejection_sample_method='synthetic'"),
        (said.get("rejection_sample_method") == "fly" and said.get("num_speculative_tokens") == 1, (0, 33),
         "FLy requires num_speculative_tokens to be at least 2"),
        (said.get("rejection_sample_method") == "fly" and isinstance(window, int) and 1 < drafts <= window, (0, 33),
         "FLy requires fly_window_size to be smaller than num_speculative_tokens"),
        (synthetic and isinstance(parts, list) and drafts > 0 and len(parts) != drafts, (0, 20),
         f"synthetic_acceptance_rates must have length {drafts}"),
        (synthetic and isinstance(parts, list) and any(isinstance(n, int | float) for n in parts) and sorted(parts, reverse=True) != parts,
         (0, 20), f"synthetic_acceptance_rates must be non-increasing, got {parts}"),
        (synthetic and isinstance(mean, int | float) and drafts > 0 and not 1 <= mean <= drafts + 1, (0, 20),
         f"synthetic_acceptance_length must be in [1, {drafts + 1}]"),
        (said.get("draft_lm_head_quantization") is not None and method not in ("eagle", "eagle3", "mtp"), (0, 33),
         f"draft_lm_head_quantization is not supported for method {method!r}"),
        (said.get("dspark_draft_topk") is not None and method in DRAFTERS and method != "dspark", (0, 28),
         "dspark_draft_topk is only supported by DSpark"),
        (said.get("xpress_topc") is not None and method == "mtp", (0, 33), "xpress_topc is only supported by XPress"),
        (adapts and "@lora" in given and bool(given["@lora"].value), (0, 29),
         "Adaptive verification is not currently compatible with LoRA"),
        (adapts and number(given, "pp") > 1, (0, 29), "Adaptive verification is not currently compatible with pipeline parallelism"),
        (adapts and "enforce_eager" in given and bool(given["enforce_eager"].value), (0, 30),
         "Adaptive verification requires full CUDA graphs"),
        (bool(said.get("use_heterogeneous_vocab")) and said.get("draft_sample_method", "greedy") != "greedy", (0, 25),
         "use_heterogeneous_vocab currently only supports greedy draft sampling"),
        (said.get("index_share_for_mtp_iteration") is not None and method != "mtp", (0, 29),
         "index_share_for_mtp_iteration is only supported with method='mtp'"),
    )  # fmt: skip
    for wrong, since, says in stops:
        if wrong and asked >= since:
            yield refuse(f"{one.spelled}: {says}; the engine stops", one.place)


def _overlaps(given: Mapping[str, Given], asked: tuple[int, ...]) -> Iterator[Finding]:
    """What --async-scheduling does not go with: engine/arg_utils.py to 0.11.0, config/vllm.py to 0.32 (0.33: of V1's runner)."""
    one, method = given.get("option:async_scheduling"), _method(given)
    if one is None or not one.value or asked >= (0, 33):
        return
    drafts = next(names for since, names in OVERLAPPED if asked >= since)
    if asked < PIPELINED and number(given, "pp") > 1:
        yield refuse(f"{one.spelled} with pipeline parallelism; the engine stops", one.place)
    elif method and method not in drafts.split():
        yield refuse(f"{one.spelled} with {method[:40]}, which this release does not draft ahead; the engine stops", one.place)


def _states(given: Mapping[str, Given], asked: tuple[int, ...]) -> Iterator[Finding]:
    """config/vllm.py validate_mamba_block_size, of any model: blocks of states are for prefix caching; the longest request's are none."""
    one, caching, length = given.get("option:mamba_block_size"), given.get("option:enable_prefix_caching"), given.get("max_model_len")
    if one and caching and not caching.value and asked >= (0, 11, 1) and not (length and length.value == one.value):
        yield refuse(f"{one.spelled} without prefix caching; the engine stops", one.place)


def _steps(given: Mapping[str, Given], asked: tuple[int, ...]) -> Iterator[Finding]:
    """config/scheduler.py verify_max_model_len; V1 of 0.8 to 0.11.0 takes prompts in pieces whatever is asked (engine/arg_utils.py)."""
    tokens, seqs, length = (given.get(name) for name in ("max_num_batched_tokens", "max_num_seqs", "max_model_len"))
    chunked = given.get("option:enable_chunked_prefill")
    if tokens and seqs and tokens.value < seqs.value:
        yield refuse(f"{tokens.spelled} {tokens.value:,} is less than {seqs.spelled} {seqs.value:,}; the engine stops", tokens.place)
    elif tokens and length and chunked and chunked.value is False and tokens.value < length.value and not (0, 8) <= asked < (0, 11, 1):
        message = f"{tokens.spelled} {tokens.value:,} is less than {length.spelled} {length.value:,} without chunked prefill"
        yield refuse(f"{message}; the engine stops", tokens.place)
    if (one := given.get(f"{MARK}max_num_partial_prefills")) and one.value > 1 and chunked and chunked.value is False:
        yield refuse(f"{one.spelled} {one.value} without chunked prefill; the engine stops", one.place)
    if (one := given.get("!--enable-elastic-ep")) and one.value and not ((eplb := given.get("option:enable_eplb")) and eplb.value):
        yield refuse(f"{one.spelled} without --enable-eplb; the engine stops", one.place)


#: Values of which the memory is not modelled: option -> values, effect, why.
BY_VALUE: dict[str, tuple[tuple[str, ...], str, str]] = {
    "@model_impl": (("transformers", "terratorch"), "either", "runs other code, whose activations are not modelled"),
    "@load": (("fastsafetensors", "instanttensor"), "either", "reads whole files into the device's memory first, which is not modelled"),
    "@processor_device": (("gpu", "cuda"), "more", "takes memory of the device in the server's own process, and stops where a model runs"),
}


def by_value(given: Mapping[str, Given]) -> list[Finding]:
    """Options of which some values alone move memory."""
    found = []
    for name, (values, effect, why) in BY_VALUE.items():
        if (one := given.get(name)) and one.value in values:
            found.append(warn(f"not-modelled-{effect}", f"{one.spelled} {one.value} {why}", one.place))
    return found
