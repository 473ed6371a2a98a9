"""What `llama-server` takes: common/arg.cpp of llama.cpp (build 11312).

Numbers are read with std::stoi; an option on the command line beats LLAMA_ARG_*.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvplan.engines.common.arguments import RELEASE, Adapters, Answer, Arguments, Repository, adapters_of, block, moved, names, row
from kvplan.engines.common.options import read_speculative
from kvplan.engines.common.words import Finding, Given, Unresolved, refuse, warn
from kvplan.engines.llama_cpp.named import DENSE, EXPERTS
from kvplan.engines.llama_cpp.rules import RULES, LlamaRules, build_of, find
from kvplan.engines.llama_cpp.unmodelled import EITHER, IRRELEVANT, LESS, MORE
from kvplan.engines.llama_cpp.variables import LOUD, NEGATED, PREFIXES, QUIET
from kvplan.errors import UnsupportedError

ROWS = (
    row("-m --model", "@path", variables="LLAMA_ARG_MODEL"),
    row("-hf -hfr --hf-repo", "@hub", variables="LLAMA_ARG_HF_REPO"),
    row("-hff --hf-file", "@hub_file", variables="LLAMA_ARG_HF_FILE"),
    row("-mu --model-url -dr --docker-repo", "@elsewhere", variables="LLAMA_ARG_MODEL_URL LLAMA_ARG_DOCKER_REPO"),
    row("-c --ctx-size", "max_model_len", "c_int", printed="n_ctx", variables="LLAMA_ARG_CTX_SIZE"),
    row("-np --parallel", "max_num_seqs", "c_int", variables="LLAMA_ARG_N_PARALLEL"),
    row("-b --batch-size", "max_num_batched_tokens", "c_int", variables="LLAMA_ARG_BATCH"),
    row("-ub --ubatch-size", "option:n_ubatch", "c_int", printed="n_ubatch", variables="LLAMA_ARG_UBATCH"),
    row("-ngl --gpu-layers --n-gpu-layers", "@ngl", variables="LLAMA_ARG_N_GPU_LAYERS"),
    row("-ngld --spec-draft-ngl --gpu-layers-draft --n-gpu-layers-draft", "@ngl_draft", variables="LLAMA_ARG_N_GPU_LAYERS_DRAFT"),
    row("-ctk --cache-type-k", "@k", printed="k_type", variables="LLAMA_ARG_CACHE_TYPE_K"),
    row("-ctv --cache-type-v", "@v", printed="v_type", variables="LLAMA_ARG_CACHE_TYPE_V"),
    row("-fa --flash-attn", "option:flash_attn", "on_off_auto", "maybe", value="bare",
        words="on off auto true false 0 1 -1 enabled disabled", variables="LLAMA_ARG_FLASH_ATTN"),
    row("-kvu --kv-unified", "option:kv_unified", takes="switch", variables="LLAMA_ARG_KV_UNIFIED"),
    row("--kv-unified-per-slot", "option:kv_unified_per_slot", "c_int"),
    row("-no-kvu", "option:kv_unified", takes="flag", value=False),
    row("--swa-full", "option:swa_full", takes="flag", variables="LLAMA_ARG_SWA_FULL"),
    row("-nkvo", "option:no_kv_offload", takes="flag"),
    row("-kvo --kv-offload", "@kv_offload", takes="switch", variables="LLAMA_ARG_KV_OFFLOAD"),
    row("-ts --tensor-split", "option:tensor_split", variables="LLAMA_ARG_TENSOR_SPLIT"),
    row("-ncmoe --n-cpu-moe", "option:n_cpu_moe", "c_int", variables="LLAMA_ARG_N_CPU_MOE"),
    row("-cmoe --cpu-moe", "@cpu_moe", takes="flag", variables="LLAMA_ARG_CPU_MOE"),
    row("-fit --fit", "option:fit", variables="LLAMA_ARG_FIT"),
    row("-fitt --fit-target", "option:fit_target", variables="LLAMA_ARG_FIT_TARGET"),
    row("-fitc --fit-ctx", "option:fit_ctx", "c_int", variables="LLAMA_ARG_FIT_CTX"),
    row("-cram --cache-ram", "option:cache_ram", "c_int", variables="LLAMA_ARG_CACHE_RAM"),
    row("-ctxcp --ctx-checkpoints --swa-checkpoints", "option:ctx_checkpoints", "c_int", variables="LLAMA_ARG_CTX_CHECKPOINTS"),
    row("-sm --split-mode", "@split", variables="LLAMA_ARG_SPLIT_MODE"),
    row("-lm --load-mode", "option:load_mode", variables="LLAMA_ARG_LOAD_MODE"),
    row("--mmap", "@mmap", takes="switch", variables="LLAMA_ARG_MMAP"),
    row("--mlock", "@mlock", takes="flag", variables="LLAMA_ARG_MLOCK"),
    row("-dio --direct-io", "@direct_io", takes="switch", variables="LLAMA_ARG_DIO"),
    row("-ndio", "@direct_io", takes="flag", value=False),
    row("-dev --device", "@device", variables="LLAMA_ARG_DEVICE"),
    row("-ncffn --n-cpu-ffn", "option:n_cpu_ffn", "c_int", variables="LLAMA_ARG_N_CPU_FFN"),
    row("-ot --override-tensor", "option:override_tensor", takes="each", variables="LLAMA_ARG_OVERRIDE_TENSOR"),
    row("--override-kv", "option:override_kv", takes="each"),
    row("--rope-scaling", "option:rope_scaling", variables="LLAMA_ARG_ROPE_SCALING_TYPE"),
    row("--rope-scale", "option:rope_scale", variables="LLAMA_ARG_ROPE_SCALE"),
    row("--yarn-orig-ctx", "option:yarn_orig_ctx", "c_int", variables="LLAMA_ARG_YARN_ORIG_CTX"),
    row("--op-offload", "option:op_offload", takes="switch"),
    row("--mmproj-offload", "option:mmproj_offload", takes="switch", variables="LLAMA_ARG_MMPROJ_OFFLOAD"),
    row("-mg --main-gpu", "@main_gpu", "c_int", variables="LLAMA_ARG_MAIN_GPU"),
    row("-mm --mmproj -mmu --mmproj-url", "!mmproj", effect="more", variables="LLAMA_ARG_MMPROJ LLAMA_ARG_MMPROJ_URL"),
    row("--lora --lora-scaled", "@adapters", takes="each"),
    row("--mmproj-auto", "@mmproj", takes="switch", variables="LLAMA_ARG_MMPROJ_AUTO"),
    row("--no-mmproj", "@no_mmproj", takes="flag"),
    row("--spec-type", "@spec_type", variables="LLAMA_ARG_SPEC_TYPE"),
    row("--spec-draft-n-max --draft --draft-n --draft-max", "@draft", "c_int", variables="LLAMA_ARG_SPEC_DRAFT_N_MAX"),
    row("-md --spec-draft-model --model-draft -hfd --spec-draft-hf -hfrd --hf-repo-draft", "@draft_model",
        variables="LLAMA_ARG_SPEC_DRAFT_MODEL LLAMA_ARG_SPEC_DRAFT_HF_REPO"),
    row("--rpc", "@rpc", variables="LLAMA_ARG_RPC"),
    row("--models-dir --models-preset", "@router", variables="LLAMA_ARG_MODELS_DIR LLAMA_ARG_MODELS_PRESET"),
    row("", "!unified", effect="less", variables="GGML_CUDA_ENABLE_UNIFIED_MEMORY"),
    row("", "!drafted", effect="less", variables="LLAMA_ARG_SPEC_DRAFT_CPU_MOE LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE"),
    *block(IRRELEVANT, whole="c_int"),
    *block(EITHER, "either", "c_int"),
    *block(MORE, "more", "c_int"),
    *block(LESS, "less", "c_int"),
)  # fmt: skip

LONGEST = 1 << 31
MOST_LAYERS = 512
#: Words of options that take no others (common/arg.cpp, as in llama-cpp-python 0.3.36).
WORDS = {
    "@split": "none layer row tensor",
    "option:load_mode": "auto none mmap mlock mmap+mlock dio",
    "option:rope_scaling": "none linear yarn",
    "option:fit": "on enabled true 1 off disabled false 0",
}
OF_A_FORK = ("graph", "attn")
#: What each part of a list looks like, and in words.
PARTS = {
    "option:override_tensor": (r"[^=]*=.+", "PATTERN=BUFFER"),
    "option:override_kv": (r"[^=]{1,127}=(?:int|float|bool|str):.*", "KEY=TYPE:VALUE, of int, float, bool or str"),
}
LEAST_ZERO = ("option:n_cpu_moe", "option:n_cpu_ffn")
#: The build from which flash attention is a choice of three.
FLASH_TAKES_A_VALUE = next(rules.build for rules in RULES.values() if rules.flash_auto)
#: Older switches, which of their values keeps weights from being the pages of their file, and the --load-mode that says so since
#: (common/arg.cpp).
LOADS = (("@mmap", False, "none"), ("@direct_io", True, "dio"), ("@mlock", True, "mlock"))
EVERY_LAYER = 10_000  # more layers than any model has


def finish(given: Mapping[str, Given], positional: tuple[Given, ...]) -> Answer:
    """The question: what several options say together."""
    question, findings = names(given), _stopped_by(given)
    findings += _bare_switch(given, question)
    model = given.get("@path") or _of_hub(given) or given.get("@elsewhere")
    if (one := question.get("max_model_len")) and one.value == 0:
        del question["max_model_len"]  # the model's own length, which --fit leaves as it is
        question["engine_option.fit_ctx"] = moved(one, LONGEST)
    if (one := question.get("max_num_seqs")) and one.value < 1:
        del question["max_num_seqs"]
    if one := given.get("@ngl"):
        findings += _layers(one, question, "n_gpu_layers")
    if one := given.get("@ngl_draft"):
        findings += _layers(one, question, "engine_option.n_gpu_layers_draft")
    k, v = given.get("@k"), given.get("@v")
    if k or v:
        first = k or v
        assert first is not None
        pair = (k.value if k else "f16", v.value if v else "f16")
        question["kv_dtype"] = moved(first, pair[0] if pair[0] == pair[1] else "/".join(pair))
    if (one := given.get("@kv_offload")) and not one.value:
        question["engine_option.no_kv_offload"] = moved(one, True)
    if one := given.get("@cpu_moe"):
        question["engine_option.n_cpu_moe"] = moved(one, EVERY_LAYER)
    for switch, reads, mode in LOADS:
        if (one := given.get(switch)) and one.value is reads:
            question["engine_option.load_mode"] = moved(one, mode)
    _in_order(given, question)
    split, open_ = given.get("@split"), list[Unresolved]()
    if split and split.value in OF_A_FORK:
        why = f"{split.spelled} {split.value} is a mode of ik_llama.cpp, which is not modelled"
        open_.append(Unresolved("split_mode", why, "--engine-option split_mode=layer", split.place))
    elif split and split.value != "layer":
        question["engine_option.split_mode"] = split
        if split.value == "none":
            question["n_devices"] = moved(split, 1)
            question |= {"engine_option.main_gpu": given["@main_gpu"]} if "@main_gpu" in given else {}
    if one := given.get("@device"):
        if one.value == "none":
            question["n_gpu_layers"] = moved(one, 0)
        else:
            question["n_devices"] = moved(one, len(str(one.value).split(",")))
    if one := given.get("@rpc"):
        n = len(str(one.value).split(","))
        message = f"{one.spelled}: {n} servers are devices before this machine's own; say the memory of all, in order, with device_memory"
        findings.append(warn("not-modelled-either", message, one.place))
    images = given.get("@mmproj")
    if one := given.get("@no_mmproj") or (images if images and not images.value else None):
        question["multimodal"] = moved(one, "off")
    findings += _written_over(question)
    findings += _speculative(given, question)
    if model is None and (one := given.get("@router")):
        findings.append(warn("router", f"{one.spelled}: the server loads models when they are asked for; name one with --model", one.place))
    return Answer(question, model, tuple(findings), tuple(open_), adapters=_adapters(given.get("@adapters")))


def _stopped_by(given: Mapping[str, Given]) -> list[Finding]:
    """Values that stop the parser (common/arg.cpp: std::invalid_argument, std::runtime_error)."""
    stops = [
        refuse(f"{one.spelled}: {str(one.value)[:40]!r} is none of {', '.join(WORDS[key].split())}; it would not start", one.place)
        for key, one in given.items()
        if key in WORDS and str(one.value) not in (*WORDS[key].split(), *OF_A_FORK)
    ]
    for key, (form, said) in PARTS.items():
        one = given.get(key)
        odd = next((part for part in str(one.value).split(",") if not re.fullmatch(form, part)), None) if one else None
        if one and odd is not None:
            stops.append(refuse(f"{one.spelled}: {odd[:40]!r} is not {said}; it would not start", one.place))
    for key in LEAST_ZERO:
        if (one := given.get(key)) and one.value < 0:
            stops.append(refuse(f"{one.spelled}: {one.value} is below 0; it would not start", one.place))
    if (one := given.get("max_num_seqs")) and one.value == 0 and _rules(given).server_slots > 1:
        stops.append(refuse(f"{one.spelled}: invalid value for n_parallel: 0 (-1: its own choice); it would not start", one.place))
    return stops


def _rules(given: Mapping[str, Given]) -> LlamaRules:
    said = given.get(RELEASE)
    return find(str(said.value) if said else None)[0]


def _bare_switch(given: Mapping[str, Given], question: dict[str, Given]) -> list[Finding]:
    """-fa without a value: a switch up to b6324 and, since, an option that takes the next word for its value and stops at it."""
    one = given.get("option:flash_attn")
    if one is None or one.value != "bare":
        return []
    question["engine_option.flash_attn"] = moved(one, "on")
    said = given.get(RELEASE)
    build = build_of(str(said.value)) if said else None
    since = f"from b{FLASH_TAKES_A_VALUE} on {one.spelled} takes on, off or auto, and the next word is taken for it"
    if build and build >= FLASH_TAKES_A_VALUE:
        return [refuse(f"{one.spelled} has no value: {since}; it would not start", one.place)]
    return [] if build else [warn("unknown-choice", f"{one.spelled} has no value: {since}; nothing here says the build", one.place)]


def _of_hub(given: Mapping[str, Given]) -> Given | None:
    """A repository, or the file of it that --hf-file names (common/arg.cpp: it takes the place of the type behind `:`)."""
    hub, file = given.get("@hub"), given.get("@hub_file")
    return moved(hub, f"{str(hub.value).partition(':')[0]}/resolve/main/{file.value}") if hub and file and file.value else hub


def _adapters(one: Given | None) -> Adapters | None:
    """Files apart by commas, with a scale or not (common/arg.cpp --lora, --lora-scaled): all are loaded at the start."""
    return adapters_of(one and moved(one, re.sub(r":[0-9.]+(?=,|$)", "", str(one.value))))


def _written_over(question: dict[str, Given]) -> list[Finding]:
    """Of the keys of a file that are written over, the length is modelled."""
    if (over := question.pop("engine_option.override_kv", None)) is None:
        return []
    parts = str(over.value).split(",")
    lengths = [part for part in parts if ".context_length=" in part]
    if lengths:
        question["engine_option.override_kv"] = moved(over, lengths[-1])
    others = [part.partition("=")[0][:60] for part in parts if part not in lengths]
    return [warn("not-modelled-either", f"{over.spelled}: what {key} moves is not modelled", over.place) for key in others]


def _in_order(given: Mapping[str, Given], question: dict[str, Given]) -> None:
    """The first pattern that knows a tensor decides: what is said before -ot becomes a pattern of it."""
    if (own := given.get("option:override_tensor")) is None:
        return
    for said in list(given)[: list(given).index("option:override_tensor")]:
        option, pattern = _PATTERNS.get(said, ("", ""))
        one = question.pop(option, None)
        if one is not None:
            layers = "" if one.value == EVERY_LAYER else rf"blk\.({'|'.join(map(str, range(min(one.value, MOST_LAYERS))))})"
            own = moved(own, f"{layers}{pattern}=CPU,{own.value}")
    question["engine_option.override_tensor"] = own


_PATTERNS = {
    "@cpu_moe": ("engine_option.n_cpu_moe", EXPERTS),
    "option:n_cpu_moe": ("engine_option.n_cpu_moe", EXPERTS),
    "option:n_cpu_ffn": ("engine_option.n_cpu_ffn", DENSE),
}


def _layers(one: Given, question: dict[str, Given], to: str) -> list[Finding]:
    text = str(one.value).strip()
    if text == "auto" or text == "-1":
        return []
    if text == "all" or text == "-2":
        question[to] = moved(one, EVERY_LAYER)
    elif text.isdecimal():
        question[to] = moved(one, int(text[:9]))
    else:
        return [refuse(f"{one.spelled}: {text[:40]!r} is not a number, auto or all", one.place)]
    return []


def _speculative(given: Mapping[str, Given], question: dict[str, Given]) -> list[Finding]:
    kind, n, model = given.get("@spec_type"), given.get("@draft"), given.get("@draft_model")
    tokens, said = n.value if n else 3, str(kind.value).split(",")[0] if kind else ""
    if kind and said not in SPEC_TYPES and said != "none":
        return [warn("not-modelled-more", f"{kind.spelled}: {said[:40]!r} is not modelled", kind.place)]
    if one := model or (kind if said != "none" else None):
        method = SPEC_TYPES.get(said, "draft_model")
        question["speculative"] = moved(one, f"{method}:{tokens}" + (f":{model.value}" if model else ""))
    return []


#: --spec-type (common/speculative.cpp) -> METHOD.
SPEC_TYPES = {
    "draft-mtp": "mtp", "mtp": "mtp", "draft-simple": "draft_model", "draft-eagle3": "eagle3", "draft-dflash": "dflash",
    "draft-dspark": "dspark", "ngram-simple": "ngram", "ngram-map-k": "ngram", "ngram-map-k4v": "ngram", "ngram-mod": "ngram",
    "ngram-cache": "ngram",
}  # fmt: skip


def say(asked: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The other way of `finish`."""
    says: dict[str, Any] = {}
    said = {"kv_dtype", "n_gpu_layers", "speculative", "option:server"}
    said |= {name for name in ("lora", "multimodal") if asked.get(name) == ("off" if name == "lora" else "on")}
    if (formats := str(asked.get("kv_dtype", "auto")).strip().lower()) != "auto":
        k, _, v = formats.partition("/")
        says |= {"@k": k, "@v": v or k}
    if "n_gpu_layers" in asked:
        says["@ngl"] = asked["n_gpu_layers"]
    if draft := read_speculative(asked.get("speculative")):
        kinds = [kind for kind, method in SPEC_TYPES.items() if method == draft.method]
        if not kinds:
            raise UnsupportedError(f"llama.cpp has no speculative method {draft.method}")
        says |= {"@spec_type": kinds[0], "@draft": draft.tokens} | ({"@draft_model": draft.model} if draft.model else {})
    if asked.get("multimodal") == "off":
        says["@no_mmproj"] = True
        said.add("multimodal")
    return says, said


def _loaded(model: str) -> tuple[str, ...]:
    """-hf for a repository of the Hub, -m for a file."""
    return ("-hf",) if "/" in model and not model.startswith((".", "/", "~")) and not model.endswith(".gguf") else ("-m",)


_IMAGE = Repository(r"(^|/)(ggml-org|ggerganov)/llama\.cpp$", ("llama-server",), tag=r"(?:^|.*-)(b\d{3,6})(?:$|-)", only=("server",))
ARGUMENTS = Arguments(
    "llama.cpp",
    ROWS,
    finish,
    say,
    ("llama-server",),
    _loaded,
    apart=True,  # common/arg.cpp common_params_parse_ex looks the whole word up
    commands=("llama-server(-[a-z0-9]+)?",),
    underscores=True,
    positional=0,
    always={"engine_option.server": True},
    prefix=PREFIXES,
    negated=NEGATED,
    quiet_variables=QUIET,
    loud_variables=LOUD,
    image=("ghcr.io/ggml-org/llama.cpp", "server-cuda-{}", "server-cuda"),
    repositories=(_IMAGE, _IMAGE._replace(entrypoint=("llama-tools",), only=("full",))),
    entrypoint=1,
    placeholder="./model.gguf",
    takes_devices=True,
    explicit=("max_model_len", "max_num_seqs"),
)
