"""Values that a release's parser takes, and options that exclude one another: server_args.py of the wheels named in each row."""

from __future__ import annotations

import pytest

from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.common.written import write
from kvplan.engines.sglang.arguments import ARGUMENTS

LORA = "--enable-lora --max-lora-rank 8 --lora-target-modules all"


def refused(release: str | None, line: str) -> list[str]:
    findings = read(ARGUMENTS, words("--model-path", "m/x", *line.split()), {}, release).findings
    return [one.message for one in findings if one.severity == "error"]


@pytest.mark.parametrize(("release", "line", "stops"), [
    ("0.5.5", "--quantization mxfp8", True), ("0.5.9", "--quantization mxfp8", False),
    ("0.5.20", "--quantization marlin", True), ("0.5.18", "--quantization marlin", False),
    ("0.4.10", "--decode-attention-backend flex_attention", True), ("0.5.3", "--decode-attention-backend flex_attention", False),
    ("0.5.15", "--kv-cache-dtype mxfp8", True), ("0.5.16", "--kv-cache-dtype mxfp8", False),
    (None, "--quantization marlin", False),  # gone in the newest: a warning, where nothing says the release
])  # fmt: skip
def test_values_by_release(release: str | None, line: str, stops: bool) -> None:
    assert any("invalid choice" in message for message in refused(release, line)) is stops


@pytest.mark.parametrize(("release", "line", "says"), [
    ("0.5.9", "--enable-pdmux", "not compatible with chunked prefill"),
    ("0.5.9", "--enable-pdmux --chunked-prefill-size -1 --disable-overlap-schedule", None),
    ("0.5.9", "--enable-pdmux --chunked-prefill-size -1 --disable-overlap-schedule --pp-size 2", "pp_size=1"),
    ("0.5.6", "--enable-double-sparsity", "TypeError"), ("0.5.6", "--enable-double-sparsity --ds-channel-config-path c.json", None),
    ("0.5.9", "--moe-a2a-backend mori --chunked-prefill-size 8192", "MORI"),
    ("0.5.9", "--moe-a2a-backend mori --chunked-prefill-size 4096", None),
    ("0.5.3", "--enable-priority-scheduling --schedule-policy lpm", "fcfs"), ("0.5.3", "--enable-priority-scheduling", None),
    # check_lora_server_args of 0.4.6, 0.4.10, 0.5.1, 0.5.3, 0.5.9: adapters held and of a batch, prefixes beside them
    ("0.5.3", f"{LORA} --max-loras-per-batch 8 --max-loaded-loras 4", "max_loaded_loras should be greater"),
    ("0.5.3", f"{LORA} --max-loaded-loras 4", "max_loaded_loras should be greater"), ("0.5.3", f"{LORA} --max-loaded-loras 8", None),
    ("0.5.3", "--max-loras-per-batch 8 --max-loaded-loras 4", None), ("0.5.3", "--max-loras-per-batch 0", "must be positive"),
    ("0.5.9", f"{LORA} --enable-lora-overlap-loading", "overlap loading"),
    ("0.4.10", "--lora-paths a=/a", "lora and radix attention"), ("0.4.10", "--lora-paths a=/a --disable-radix-cache", None),
    ("0.5.1", "--lora-paths a=/a", None),
    # check_server_args: tp_size * pp_size over nnodes
    ("0.5.9", "--nnodes 2", "divisible by number of nodes"), ("0.5.9", "--nnodes 2 --tp-size 3", "divisible by number of nodes"),
    ("0.5.9", "--nnodes 2 --pp-size 2 --tp-size 1 --disable-overlap-schedule", None), ("0.5.9", "--nnodes 2 --tp-size 16", None),
    # 0.5.6: the run stops at the prefix cache, then at chunks; 0.5.3 looks at neither
    ("0.5.6", "--multi-item-scoring-delimiter 8", "radix cache to be disabled"),
    ("0.5.6", "--multi-item-scoring-delimiter 8 --disable-radix-cache --chunked-prefill-size -1", None),
    ("0.4.6", "--tp-size 4 --moe-dense-tp-size 2", "moe_dense_tp_size"), ("0.5.6", "--dllm-block-size 64", None),
    # every one alone on 0.5.9: what its check_server_args and handlers stop at
    ("0.5.9", "--base-gpu-id -1", "non-negative"), ("0.5.9", "--gpu-id-step 0", "positive"), ("0.5.9", "--tokenizer-worker-num 0", ">= 1"),
    ("0.5.9", "--schedule-conservativeness -1", "non-negative"), ("0.5.9", "--schedule-conservativeness 0.3", None),
    ("0.5.9", "--served-model-name a:b", "colon"), ("0.5.5", "--served-model-name a:b", None), ("0.5.9", "--served-model-name $A:b", None),
    ("0.5.9", "--model-impl mindspore", "MindSpore"), ("0.5.9", "--encoder-only --disaggregation-mode prefill", "--encoder-only"),
    ("0.5.9", "--tp-size 2 --ep-size 2 --enable-eplb --elastic-ep-backend mooncake --eplb-algorithm deepseek", "elasticity_aware"),
    ("0.5.9", "--disaggregation-mode decode --disaggregation-decode-tp 2", "for the decode engine"),
    ("0.5.9", "--tp-size 4 --disaggregation-mode prefill --disaggregation-decode-tp 3", "decode_tp=3, prefill_tp=4"),
    ("0.5.9", "--tp-size 4 --disaggregation-mode prefill --disaggregation-decode-tp 8", None),
    ("0.4.10", "--speculative-algorithm EAGLE --speculative-num-steps 2", "TypeError"),  # 0.4.10 model_runner.py: int * None
    ("0.5.20", "--enable-lmcache --disable-radix-cache", None), ("0.5.23", "--enable-lmcache --disable-radix-cache", "radix cache"),
])  # fmt: skip
def test_options_that_exclude_one_another(release: str, line: str, says: str | None) -> None:
    found = " ".join(refused(release, line))
    assert (says in found) if says else not found


@pytest.mark.parametrize(("release", "word"), [("0.5.12", "fp4_e2m1"), ("0.5.18", "fp4_mx_block16"), (None, "fp4_mx_block16")])
def test_a_format_is_written_by_its_name_of_the_release(release: str | None, word: str) -> None:
    assert write(ARGUMENTS, {"kv_dtype": "nvfp4"}, release).words == ("--kv-cache-dtype", word)
