"""`llama-server`: common/arg.cpp of llama.cpp (build 11312).

Numbers are read with std::stoi; an option on the command line beats LLAMA_ARG_*.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.manifests.arguments.llama_cpp_more import IRRELEVANT
from kvplan.manifests.arguments.plain import moved, names, warn
from kvplan.manifests.arguments.table import Answer, Engine, Given, block, row
from kvplan.manifests.values import Finding, Place

ROWS = (
    row("-m --model", "@path"),
    row("-hf -hfr --hf-repo", "@hub"),
    row("-hff --hf-file", "@hub_file"),
    row("-mu --model-url -dr --docker-repo", "@elsewhere"),
    row("-c --ctx-size", "max_model_len", "c_int"),
    row("-np --parallel", "max_num_seqs", "c_int"),
    row("-b --batch-size", "max_num_batched_tokens", "c_int"),
    row("-ub --ubatch-size", "option:n_ubatch", "c_int"),
    row("-ngl --gpu-layers --n-gpu-layers", "@ngl"),
    row("-ctk --cache-type-k", "@k"),
    row("-ctv --cache-type-v", "@v"),
    row("-fa --flash-attn", "option:flash_attn", takes="maybe", value="on", words="on off auto true false 0 1 -1 enabled disabled"),
    row("-kvu --kv-unified", "option:kv_unified", takes="switch"),
    row("-no-kvu", "option:kv_unified", takes="flag", value=False),
    row("--swa-full", "option:swa_full", takes="flag"),
    row("-nkvo", "option:no_kv_offload", takes="flag"),
    row("-kvo --kv-offload", "@kv_offload", takes="switch"),
    row("-ts --tensor-split", "option:tensor_split"),
    row("-ncmoe --n-cpu-moe", "option:n_cpu_moe", "c_int"),
    row("-cmoe --cpu-moe", "@cpu_moe", takes="flag"),
    row("-fit --fit", "option:fit"),
    row("-fitt --fit-target", "option:fit_target"),
    row("-fitc --fit-ctx", "option:fit_ctx", "c_int"),
    row("-sm --split-mode", "@split"),
    row("-dev --device", "@device"),
    row("-ncffn --n-cpu-ffn", "!cpu_ffn", "c_int", effect="less"),
    row("-ot --override-tensor", "!override_tensor", effect="less"),
    row("-mm --mmproj -mmu --mmproj-url", "!mmproj", effect="more"),
    row("--mmproj-auto", "@mmproj", takes="switch"),
    row("--no-mmproj", "@no_mmproj", takes="flag"),
    row("--mmproj-offload", "", takes="switch"),
    row("-mmdev --mmproj-device", ""),
    row("--lora --lora-scaled --control-vector", "!lora", effect="more"),
    row("--spec-type", "@spec_type"),
    row("--spec-draft-n-max --draft --draft-n --draft-max", "@draft", "c_int"),
    row("-md --spec-draft-model --model-draft -hfd --spec-draft-hf -hfrd --hf-repo-draft", "@draft_model"),
    row("-ngld --spec-draft-ngl --gpu-layers-draft --n-gpu-layers-draft -devd --spec-draft-device --device-draft", ""),
    row("-ctkd --spec-draft-type-k --cache-type-k-draft -ctvd --spec-draft-type-v --cache-type-v-draft", "!draft_type", effect="either"),
    row("-cmoed --spec-draft-cpu-moe --cpu-moe-draft", "!draft_moe", takes="flag", effect="less"),
    row("-ncmoed --spec-draft-n-cpu-moe --spec-draft-ncmoe --n-cpu-moe-draft", "!draft_moe", effect="less"),
    row("-otd --spec-draft-override-tensor --override-tensor-draft", "!draft_tensor", effect="less"),
    row("--rpc", "!rpc", effect="either"),
    row("--rope-scaling --rope-scale --yarn-orig-ctx", ""),
    row("--override-kv", "!override_kv", effect="either"),
    row("--models-dir --models-preset", "@router"),
    row("--embedding --embeddings --rerank --reranking", "", takes="flag"),
    row("-cram --cache-ram -ctxcp --ctx-checkpoints --swa-checkpoints -n --predict --n-predict -mg --main-gpu", "", "c_int"),
    row("--mlock --no-mmap --mmap --no-host -nr --no-repack --repack --op-offload --no-op-offload -dio --direct-io", "", takes="flag"),
    *block(IRRELEVANT),
)  # fmt: skip

ENVIRONMENT = {
    "LLAMA_ARG_MODEL": "-m", "LLAMA_ARG_HF_REPO": "-hf", "LLAMA_ARG_HF_FILE": "-hff", "LLAMA_ARG_MODEL_URL": "-mu",
    "LLAMA_ARG_DOCKER_REPO": "-dr", "LLAMA_ARG_CTX_SIZE": "-c", "LLAMA_ARG_N_PARALLEL": "-np", "LLAMA_ARG_BATCH": "-b",
    "LLAMA_ARG_UBATCH": "-ub", "LLAMA_ARG_N_GPU_LAYERS": "-ngl", "LLAMA_ARG_CACHE_TYPE_K": "-ctk", "LLAMA_ARG_CACHE_TYPE_V": "-ctv",
    "LLAMA_ARG_FLASH_ATTN": "-fa", "LLAMA_ARG_KV_UNIFIED": "-kvu", "LLAMA_ARG_SWA_FULL": "--swa-full", "LLAMA_ARG_KV_OFFLOAD": "-kvo",
    "LLAMA_ARG_TENSOR_SPLIT": "-ts", "LLAMA_ARG_N_CPU_MOE": "-ncmoe", "LLAMA_ARG_CPU_MOE": "-cmoe", "LLAMA_ARG_FIT": "-fit",
    "LLAMA_ARG_FIT_TARGET": "-fitt", "LLAMA_ARG_FIT_CTX": "-fitc", "LLAMA_ARG_SPLIT_MODE": "-sm", "LLAMA_ARG_DEVICE": "-dev",
    "LLAMA_ARG_OVERRIDE_TENSOR": "-ot", "LLAMA_ARG_MMPROJ": "-mm", "LLAMA_ARG_MMPROJ_AUTO": "--mmproj-auto",
    "LLAMA_ARG_SPEC_TYPE": "--spec-type", "LLAMA_ARG_SPEC_DRAFT_MODEL": "-md", "LLAMA_ARG_SPEC_DRAFT_N_MAX": "--draft",
    "LLAMA_ARG_RPC": "--rpc", "LLAMA_ARG_MODELS_DIR": "--models-dir", "LLAMA_ARG_MODELS_PRESET": "--models-preset",
}  # fmt: skip
EVERY_LAYER = 10_000  # more layers than any model has


def finish(given: Mapping[str, Given], env: Mapping[str, Given], positional: Mapping[str, Given]) -> Answer:
    """The question: what several options say together. The server is said to be one: it picks its slots by itself."""
    question, findings = names(given), list[Finding]()
    model = given.get("@path") or given.get("@hub") or given.get("@elsewhere")
    if (one := question.get("max_model_len")) and one.value == 0:
        del question["max_model_len"]  # the model's own length
    if (one := question.get("max_num_seqs")) and one.value < 1:
        del question["max_num_seqs"]
    if one := given.get("@ngl"):
        findings += _layers(one, question)
    k, v = given.get("@k"), given.get("@v")
    if k or v:
        first = k or v
        assert first is not None
        question["kv_dtype"] = moved(first, f"{k.value if k else 'f16'}/{v.value if v else 'f16'}")
    if (one := given.get("@kv_offload")) and not one.value:
        question["engine_option.no_kv_offload"] = moved(one, True)
    if one := given.get("@cpu_moe"):
        question["engine_option.n_cpu_moe"] = moved(one, EVERY_LAYER)
    split = given.get("@split")
    if split and split.value in ("row", "tensor"):
        findings.append(warn("not-modelled-either", f"{split.spelled} {split.value} is not modelled; layers are split", split.place))
    if split and split.value == "none":
        question["n_devices"] = moved(split, 1)
    if one := given.get("@device"):
        if one.value == "none":
            question["n_gpu_layers"] = moved(one, 0)
        else:
            question["n_devices"] = moved(one, len(str(one.value).split(",")))
    if (one := given.get("@no_mmproj") or given.get("@mmproj")) and (one.spelled.startswith("--no") or one.value is False):
        question["multimodal"] = moved(one, "off")
    findings += _speculative(given, question)
    if model is None and (one := given.get("@router")):
        findings.append(warn("router", f"{one.spelled}: the server loads models when they are asked for; name one with --model", one.place))
    question["engine_option.server"] = Given(True, "llama-server", Place())
    return Answer(question, model, tuple(findings))


def _layers(one: Given, question: dict[str, Given]) -> list[Finding]:
    text = str(one.value).strip()
    if text == "auto" or text == "-1":
        return []
    if text == "all" or text == "-2":
        question["n_gpu_layers"] = moved(one, EVERY_LAYER)
    elif text.isdecimal():
        question["n_gpu_layers"] = moved(one, int(text[:9]))
    else:
        return [Finding("bad-value", "error", f"{one.spelled}: {text[:40]!r} is not a number, auto or all", one.place)]
    return []


def _speculative(given: Mapping[str, Given], question: dict[str, Given]) -> list[Finding]:
    kind, n, model = given.get("@spec_type"), given.get("@draft"), given.get("@draft_model")
    if model:
        return [warn("not-modelled-more", f"{model.spelled}: a draft model of its own is not modelled", model.place)]
    if kind and "mtp" in str(kind.value):
        question["speculative"] = moved(kind, f"mtp:{n.value if n else 3}")
    return []


ENGINE = Engine("llama.cpp", ROWS, finish, underscores=True, environment=ENVIRONMENT)
