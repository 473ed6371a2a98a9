"""What `lmdeploy serve api_server` takes: lmdeploy/cli/serve.py and cli/utils.py of 0.10.2, 0.12.3, 0.14.0,
0.16.0, 0.17.0 and 0.18.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engines.common.arguments import (
    RELEASE,
    Answer,
    Arguments,
    Repository,
    adapters_of,
    block,
    moved,
    names,
    number,
    plain_finish,
    plain_say,
    row,
)
from kvplan.engines.common.libraries import LOUD
from kvplan.engines.common.options import read_speculative
from kvplan.engines.common.releases import in_force
from kvplan.engines.common.words import Finding, Given, refuse

#: --quant-policy, by number and (from 0.14 on) by name, and the cache formats of a question.
POLICIES = {"4": "int4", "8": "int8", "16": "fp8_e4m3", "17": "fp8_e5m2", "int4": "int4", "int8": "int8", "fp8": "fp8_e4m3",
            "fp8_e4m3": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2", "42": "turbo_quant", "turbo_quant": "turbo_quant"}  # fmt: skip
NONE = ("0", "none")
SAID = {"int4": "4", "int4_per_token_head": "4", "int8": "8", "int8_per_token_head": "8", "fp8": "16", "fp8_e4m3": "16", "fp8_e5m2": "17"}
#: --model-format that names how a checkpoint is quantised.
MODEL_FORMATS = {"awq": "awq", "gptq": "gptq", "fp8": "fp8"}

#: --speculative-algorithm of one model's own modules.
OWN_MODULES = {"qwen3_5_mtp": "mtp", "hy3_mtp": "mtp"}

ROWS = (
    row("--backend", "option:backend"),
    row("--dtype", "dtype", "compute"),
    row("--tp", "tp", "int"),
    row("--dp", "dp", "int"),
    row("--ep", "ep", "int"),
    row("--cp", "dcp", "int", since="0.11.0"),
    row("--session-len", "max_model_len", "int"),
    row("--max-batch-size", "max_num_seqs", "int"),
    row("--max-prefill-token-num", "max_num_batched_tokens", "int"),
    row("--cache-block-seq-len", "block_size", "int", printed="block_size"),
    row("--cache-max-entry-count", "@cache", "float"),
    row("--quant-policy", "@policy"),
    row("--model-format", "@format"),
    row("--enable-prefix-caching", "option:enable_prefix_caching", takes="flag"),
    row("--prefix-cache-state-budget", "option:prefix_cache_state_budget", "int", since="0.14.0"),
    row("--num-gpu-blocks", "@blocks", "int", printed="num_gpu_blocks", since="0.18.0"),
    row("", "option:num_gpu_blocks", "int", printed="num_gpu_blocks", until="0.17.0"),
    row("", "option:dsa_indexer_max_logits_mb", "int", variables="LMDEPLOY_DSA_INDEXER_MAX_LOGITS_MB"),
    row("", "option:fp32_mamba_ssm_dtype", "truth", variables="LMDEPLOY_FP32_MAMBA_SSM_DTYPE"),
    row("--eager-mode", "enforce_eager", takes="flag"),
    row("--disable-vision-encoder", "multimodal", takes="flag", value="off", until="0.14.0"),
    row("--language-model-only", "multimodal", takes="flag", value="off", since="0.16.0"),
    row("--adapters", "@adapters", takes="many"),
    row("--speculative-algorithm", "@drafts", since="0.11.0"),
    row("--speculative-draft-model", "@draft_model", since="0.11.0"),
    row("--speculative-num-draft-tokens", "@draft_tokens", "int", since="0.11.0"),
    row("--speculative-dflash-block-size", "@draft_block", "int", since="0.18.0"),
    row("--kernel-block-size", "!kernel_block_size", "int", since="0.14.0", effect="either"),
    row("--device", "!device", effect="either"),
    row("--hf-overrides", "!hf_overrides", "json", effect="either"),
    row("--role", "!role", effect="either"),
    row("--kv-transfer-config", "!kv_transfer_config", "json", since="0.17.0", effect="more"),
    row("--empty-init", "!empty_init", takes="flag", since="0.18.0", effect="either"),
    row("--nnodes --node-rank --rope-scaling-factor --num-tokens-per-iter --max-prefill-iters", "", "float"),
    *block({
        ("", ""): """
            -h=help! server-name server-port allow-origins* allow-credentials! allow-methods* allow-headers* proxy-url
            max-concurrent-requests log-level api-keys* ssl! model-name max-log-len disable-fastapi-docs! allow-terminate-by-client!
            chat-template tool-call-parser reasoning-parser revision download-dir logprobs-mode
            dllm-unmasking-strategy dllm-denoising-steps dllm-confidence-threshold migration-backend
        """,
        ("", "0.10.2"): "enable-metrics!",
        ("0.12.3", ""): """
            async disable-metrics! dist-init-addr distributed-executor-backend enable-abort-handling!
        """,
        ("0.14.0", ""): "trust-remote-code!",
        ("0.16.0", ""): "allowed-media-domains* generation-config",
        ("0.17.0", ""): "moe-a2a-backend",
    }),
    *block({
        ("", ""): "communicator dllm-block-length enable-microbatch! vision-max-batch-size",
        ("0.12.3", ""): "enable-return-routed-experts!",
        ("0.14.0", ""): "cudagraph-capture-batch-sizes* prefix-cache-decode-state-interval",
        ("0.18.0", ""): "piecewise-cudagraph-max-tokens",
    }, "either"),
    *block({("", ""): "enable-eplb!"}, "more"),
)  # fmt: skip


def finish(given: Mapping[str, Given], positional: tuple[Given, ...]) -> Answer:
    """The question: a share or a count of blocks, what the policy stores, what the checkpoint is."""
    question, findings = names(given), list[Finding]()
    if "dtype" in question and question["dtype"].value == "auto":
        del question["dtype"]
    if one := given.get("@cache"):
        named = given.get("option:backend")
        if one.value >= 1 and not (named and named.value == "pytorch"):
            question["engine_option.num_gpu_blocks"] = moved(one, int(one.value))
        elif 0 < one.value < 1:
            question["memory_fraction"] = one
        else:
            findings.append(refuse(f"{one.spelled} {one.value:g}: invalid cache_max_entry_count", one.place))
    if (one := given.get("@blocks")) and one.value:
        question["engine_option.num_gpu_blocks"] = one
    if (one := given.get("@policy")) and str(one.value).lower() not in NONE:
        stored, told = POLICIES.get(str(one.value).lower()), given.get(RELEASE)
        if not str(one.value).isdigit() and told and in_force("", "0.14", told.value):  # a choice of numbers before
            findings.append(refuse(f"{one.spelled}: invalid int value: {str(one.value)[:40]!r}", one.place))
        elif stored:
            question["kv_dtype"] = moved(one, stored)
        else:
            findings.append(refuse(f"{one.spelled}: invalid quant_policy: {str(one.value)[:40]!r}", one.place))
    if (one := given.get("@format")) and one.value in MODEL_FORMATS:
        question["weight_dtype"] = moved(one, MODEL_FORMATS[one.value])
    if one := given.get("@drafts"):
        question["speculative"] = moved(one, _speculative(one, given))
    return Answer(question, plain_finish(given, positional).model, tuple(findings), adapters=adapters_of(given.get("@adapters")))


def _speculative(one: Given, given: Mapping[str, Given]) -> str:
    """METHOD:TOKENS[:MODEL]; a block of DFlash is the tokens and the one that they follow (messages.py SpeculativeConfig)."""
    block, model = number(given, "@draft_block", 0), given.get("@draft_model")
    tokens = block - 1 if block > 1 else number(given, "@draft_tokens", 1)
    return f"{OWN_MODULES.get(str(one.value), one.value)}:{tokens}" + (f":{model.value}" if model else "")


def say(asked: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The other way of `finish`."""
    says, said = plain_say(asked)
    if asked.get("memory_fraction") is not None:
        says["@cache"] = asked["memory_fraction"]
        said.add("memory_fraction")
    if (policy := SAID.get(str(asked.get("kv_dtype")))) is not None:
        says["@policy"] = policy
        said.add("kv_dtype")
    if (blocks := asked.get("option:num_gpu_blocks")) is not None:
        says["@cache"] = int(blocks)
        said.add("option:num_gpu_blocks")
    draft = read_speculative(asked.get("speculative"))
    if draft and draft.method in ("eagle", "eagle3", "deepseek_mtp", "dflash"):
        says |= {"@drafts": draft.method, "@draft_tokens": draft.tokens} | ({"@draft_model": draft.model} if draft.model else {})
        said.add("speculative")
    if asked.get("weight_dtype") in MODEL_FORMATS:
        says["@format"] = asked["weight_dtype"]
        said.add("weight_dtype")
    return says, said


ARGUMENTS = Arguments(
    "lmdeploy",
    ROWS,
    finish,
    say,
    ("lmdeploy", "serve", "api_server"),
    commands=("lmdeploy serve api_server",),
    releases=("0.10.2", "0.12.3", "0.14.0", "0.16.0", "0.17.0", "0.18.0"),
    abbreviations=True,
    prefix=("LMDEPLOY_", "TM_"),
    loud_variables=LOUD,
    image=("openmmlab/lmdeploy", "v{}", "latest"),
    repositories=(Repository(r"(^|/)openmmlab/lmdeploy$"),),
)
