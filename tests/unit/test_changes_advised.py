"""Changes that are advised: what somebody who runs such servers would do first, and nothing that they would laugh at."""

from __future__ import annotations

import re
from typing import Any

import pytest

import kvplan
from kvplan.report.answer import changes, options, sentence


def advised(model: str, **question: Any) -> list[str]:
    return [options(one) for one in changes(kvplan.estimate(model, **question))]


def test_ranks_share_tokens_before_requests_are_given_up() -> None:
    """32 x 65,536 x 70,272 B of latents are 137.3 GiB on each rank of tp 8, which has 43.9: 34.3 on each of 4 that share."""
    found = advised("deepseek-ai/deepseek-v3", device="8xh200", context="64k", batch=32)
    assert found[0] == "--dcp 4"
    plan = kvplan.estimate("deepseek-ai/deepseek-v3", device="8xh200", context="64k", batch=32, dcp=4)
    assert (plan.fits, plan.asked("tp")) == (True, 8)


@pytest.mark.parametrize(
    ("model", "version", "tp", "asked", "change"),
    [
        ("qwen/qwen3-235b-a22b", "0.10.2", 8, 4, "--dcp 1"),  # before 0.11.1 no kernel of K and V of heads takes part
        ("meta-llama/llama-3.1-8b", "0.33", 16, 4, "--dcp 2"),  # 16 ranks and 8 KV heads: two copies of each
    ],
)
def test_so_many_ranks_share_tokens_as_the_engine_lets(model: str, version: str, tp: int, asked: int, change: str) -> None:
    found = advised(model, device=f"{tp}xh100", tp=tp, dcp=asked, context="4k", engine_version=version, weight_dtype="fp8")
    assert found[0] == change


def test_none_share_tokens_where_no_kernel_can() -> None:
    found = advised("qwen/qwen3-235b-a22b", device="8xh100", tp=8, context="40k", batch=64, engine_version="0.10.2", weight_dtype="fp8")
    assert found
    assert not any("--dcp" in one for one in found)


@pytest.mark.parametrize("ep", [8, None])
def test_replicas_of_a_model_too_large_for_one_device_are_of_its_attention(ep: int | None) -> None:
    """627.7 GiB of weights a replica; SGLang's recipe for DeepSeek is --tp 8 --dp 8 --enable-dp-attention (deepseek_v3.md)."""
    found = advised("deepseek-ai/DeepSeek-V3.2", device="8xh200", dp=8, ep=ep, engine="sglang", context="32k")
    assert found == ["--tp 8 --dp 8 --engine-option enable_dp_attention=true"]
    asked = {"engine": "sglang", "device": "8xh200", "context": "32k", "tp": 8, "dp": 8, "ep": ep, "advise": False}
    plan = kvplan.estimate("deepseek-ai/DeepSeek-V3.2", engine_option={"enable_dp_attention": "true"}, **asked)
    assert plan.fits
    assert plan.asked("ep") == (ep or 1)


@pytest.mark.parametrize(
    ("engine", "sizes", "tp", "pp"),
    [
        ("vllm", {"pp": 2}, 4, 2),
        ("vllm", {"dp": 2}, 4, 1),
        ("vllm", {"dcp": 2}, 8, 1),
        ("vllm", {"ep": 8}, 8, 1),
        ("sglang", {"dp": 2}, 4, 1),
        ("sglang", {"dp": 8, "engine_option": {"enable_dp_attention": "true"}}, 8, 1),
    ],
)
def test_tp_is_what_other_sizes_leave_of_the_devices(engine: str, sizes: dict[str, Any], tp: int, pp: int) -> None:
    plan = kvplan.estimate("deepseek-ai/deepseek-v3", engine=engine, device="8xh200", context="8k", advise=False, **sizes)
    assert (plan.asked("tp"), plan.asked("pp") or 1, plan.asked("n_devices")) == (tp, pp, 8)


def test_a_checkpoint_in_four_bits_is_not_advised_another() -> None:
    found = advised("openai/gpt-oss-120b", device="h100", context="128k", batch=4)
    assert found
    assert not any("weight-dtype" in one for one in found)


@pytest.mark.parametrize(
    ("model", "question", "device"),
    [
        ("qwen3:32b", {"engine": "llama.cpp", "device": "rtx-4090", "context": "32k", "kv_dtype": "q8_0"}, "rtx-5090"),
        ("meta-llama/llama-3.1-8b", {"device": "h100", "context": "32k", "batch": 24}, "h200"),
    ],
)
def test_a_larger_device_is_no_older_one(model: str, question: dict[str, Any], device: str) -> None:
    """A P40 has 346 GB/s where an RTX 4090 has 1,008, and an H20 148 TFLOPS where an H100 has 989."""
    found = advised(model, **question)
    assert f"--device {device}" in found
    assert not {"--device p40", "--device h20-96gb", "--device h20-141gb"} & set(found)


def test_hardware_comes_after_what_costs_nothing() -> None:
    found = advised("google/gemma-3-27b", device="a100-40gb", context="32k", batch=4, tp=2)
    assert found.index("--weight-dtype fp8") < next(i for i, one in enumerate(found) if one.startswith("--device"))


@pytest.mark.parametrize(("asked", "device", "runs"), [("tensorrt-llm", "mi300x", "vllm"), ("vllm", "m4-max-128gb", "llama.cpp")])
def test_an_engine_that_runs_on_the_device_is_named(asked: str, device: str, runs: str) -> None:
    assert advised("meta-llama/llama-3.1-8b", engine=asked, device=device, context="8k")[0] == f"--engine {runs}"
    assert not any("engine " in one for one in advised("meta-llama/llama-3.1-8b", engine="vllm", device="l4", context="128k"))


def test_what_a_start_lacks_is_not_what_all_requests_lack() -> None:
    """Of gpt-oss-120b's 36 layers 18 keep all of 131,072 tokens, 4.5 GiB, and 18 a step and their window, 8,320 tokens: 0.29."""
    said = sentence(kvplan.estimate("openai/gpt-oss-120b", device="h100", context="128k", batch=4, engine_version="0.19.0"))
    every, first = map(float, re.findall(r"([\d.]+) GiB (?:of cache for 4 requests|for the first of them)", " ".join(said.split())))
    assert every - first == pytest.approx(3 * (4.5 + 0.29), abs=0.11)
    assert "without which vLLM 0.19.0 would not start" in " ".join(said.split())


def test_a_target_that_is_an_engine_is_the_engine() -> None:
    assert "sglang.launch_server" in kvplan.emit("qwen/qwen3-8b", "sglang", device="h100", context="8k")
    with pytest.raises(kvplan.KvplanError, match="this plan is for vllm"):
        kvplan.emit("qwen/qwen3-8b", "sglang", engine="vllm", device="h100", context="8k")


def test_an_option_that_is_none_is_told_its_neighbours() -> None:
    for key, said in (("asinc_scheduling", "did you mean async_scheduling"), ("zzz", "`kvplan engines vllm` lists the ")):
        with pytest.raises(kvplan.KvplanError, match=said):
            kvplan.estimate("qwen/qwen3-8b", device="h100", engine_option={key: "1"})


def test_memory_is_advised_in_mebibytes() -> None:
    found = advised("meta-llama/llama-3.1-8b", device="h100", context="8k", kv_memory="200GiB")
    assert any(one.startswith("--kv-memory ") and one.endswith("MiB") for one in found)


@pytest.mark.parametrize(
    ("engine", "device", "typed", "loads"),
    [  # `mlx_lm.convert -q` writes 4 bits in groups of 64; llama.cpp's quantize calls Q4_K_M its usual 4 bits
        ("mlx-lm", "m4-max-64gb", "bitsandbytes", "--weight-dtype affine4_g64"),
        ("llama.cpp", "rtx-3090", "awq", "--weight-dtype q4_k_m"),
    ],
)
def test_a_format_that_the_engine_does_not_load_is_answered_with_its_own_of_as_many_bits(engine, device, typed, loads) -> None:
    question = {"engine": engine, "device": device, "context": "8k"}
    assert kvplan.estimate("qwen/qwen3-8b", weight_dtype=typed, **question).starts is False
    assert advised("qwen/qwen3-8b", weight_dtype=typed, **question)[0] == loads
    assert kvplan.estimate("qwen/qwen3-8b", weight_dtype=loads.split()[1], **question).fits


@pytest.mark.parametrize(
    ("model", "typed", "told"),
    [
        ("Qwen/Qwen3-8B-AWQ", "fp8", "Qwen3-8B-AWQ is stored in awq: weights in fp8 are those of another release of it"),
        ("openai/gpt-oss-20b", "bf16", "gpt-oss 20B is stored in mxfp4: weights in bf16 are those of another release of it"),
        ("Qwen/Qwen3-8B-AWQ", "awq", ""),
        ("qwen/qwen3-8b", "fp8", ""),  # engines pack plain weights themselves
        ("deepseek-ai/deepseek-v3", "fp8", ""),
    ],
)
def test_weights_of_another_release_are_said_to_be(model: str, typed: str, told: str) -> None:
    notes = kvplan.estimate(model, engine="vllm", device="8xh200", weight_dtype=typed, context="8k", advise=False).model.notes
    assert [note for note in notes if "another release" in note] == ([told] if told else [])


def test_a_larger_card_has_the_links_of_the_one_it_replaces() -> None:
    """628 GiB of weights are 78.5 GiB a rank of 8: no H100's. HGX boards carry H100 or H200 SXM; the NVL is for PCIe slots."""
    found = advised("deepseek-ai/deepseek-v3.2", engine="sglang", device="8xh100", context="8k")
    assert "--device 8xh200" in found
    assert "--device 8xh200-nvl" not in found


@pytest.mark.parametrize(("name", "value", "own"), [("memory_fraction", 0.6, 0.92), ("max_num_batched_tokens", 65536, 2048)])
def test_a_setting_that_somebody_chose_may_go_back_to_the_engines_own(name: str, value: float, own: float) -> None:
    """vLLM's own are 0.92 (config/cache.py) and, below 70 GiB, 2,048 (engine/arg_utils.py); what just fits is too close to call."""
    question: dict[str, Any] = {"engine": "vllm", "engine_version": "0.33", "device": "rtx-4090", "context": "8k"}
    plan = kvplan.estimate("meta-llama/llama-3.1-8b", **question, **{name: value})
    found = {one.value: one for one in plan.advice if one.option == name}
    assert own in found
    again = kvplan.estimate("meta-llama/llama-3.1-8b", **question, **{name: own}, advise=False)
    assert again.fits
    assert again.certainty != "too close to call"
    assert again.margin_bytes == found[own].margin_bytes


def test_no_request_of_a_few_tokens_is_advice() -> None:
    """DeepSeek V3 over 16 replicas of attention: 57.8 GiB of weights a card leave a cache for 2 tokens of 163,840."""
    plan = kvplan.estimate("deepseek-ai/deepseek-v3", engine="vllm", engine_version="0.33", device="h100", n_devices=16, dp=16, ep=16)
    lengths = [int(one.value) for one in plan.advice if one.option in ("context", "max_model_len")]
    assert (plan.capacity and plan.capacity.max_context_at_batch, [n for n in lengths if n < 256]) == (2, [])


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_option_that_a_check_stands_on_is_left_out(engine: str) -> None:
    """quantization=awq of plain weights stops at get_quant_config (weight_utils.py of both); the same weights without it fit."""
    found = advised("qwen/qwen3-8b", engine=engine, device="h100", engine_option={"quantization": "awq"})
    assert found[0] == "without --engine-option quantization"


def test_fp8_weights_are_no_advice_beside_awq() -> None:
    """_verify_quantization: a checkpoint in FP8 is not loaded by awq, so that the other weights are advised with 4 bits."""
    found = advised("qwen/qwen3-8b", engine="vllm", device="rtx-4090", engine_option={"quantization": "awq"})
    assert [one.split("_")[0] for one in found if one.startswith("--weight-dtype")] == ["--weight-dtype int4"]


@pytest.mark.parametrize("option", ["quantization", "enable_sleep_mode", "attention_backend", "kv_offloading_size"])
def test_an_option_without_a_value_is_left_out(option: str) -> None:
    left, never = (kvplan.estimate("qwen/qwen3-8b", device="h100", engine_option=given, advise=False) for given in ({option: ""}, {}))
    assert (left.verdict, left.ledgers) == (never.verdict, never.ledgers)


def test_what_costs_nothing_comes_before_gpus_however_close() -> None:
    """199.0 GiB of GLM-4.5-Air in bf16 on 23.5 GiB and 59.6 of RAM: 4.83 bits of each of 106.85 billion are 60.1 GiB, which both hold."""
    found = advised("glm 4.5 air", engine="llama.cpp", device="4090", host_memory="64GB")
    assert found[0] == "--weight-dtype q4_k_m"
    assert found.index("--weight-dtype q3_k_m") < found.index("--host-memory 192GiB") < found.index("--device 7xrtx-4090")


def test_a_context_that_nobody_asked_for_is_shortened_before_a_machine_is_bought() -> None:
    """Llama 3.3's 131,072 tokens take 40 GiB beside 39.6 of weights; the Mac gives its GPU 51.8."""
    question: dict[str, Any] = {"engine": "ollama", "device": "macbook pro m3 max 64gb"}
    found = advised("llama3.3", **question)
    assert found[0].startswith("--context ")
    asked = advised("llama3.3", **question, context="128k")
    assert asked.index("--device apple-m1-ultra-128gb") < asked.index(found[0])  # a quarter of what was asked


@pytest.mark.parametrize(("ram", "then"), [("32GB", "--host-memory 48GiB"), ("24GiB", "--host-memory 48GiB")])
def test_ram_that_is_missing_is_bought_as_ram(ram: str, then: str) -> None:
    """60.8 GiB of gpt-oss-120b beside 31.4 GiB of which the card keeps 1: some 33 GiB stay in RAM, more than 29.8 and less than 48."""
    question: dict[str, Any] = {"engine": "llama.cpp", "device": "5090", "context": "32k"}
    assert advised("gpt-oss-120b", host_memory=ram, **question)[0] == then
    assert kvplan.estimate("gpt-oss-120b", host_memory="48GiB", **question).fits
    assert not any("host-memory" in one for one in advised("gpt-oss-120b", **question))


def test_experts_that_are_in_ram_are_what_is_said_to_be_there() -> None:
    plan = kvplan.estimate("glm 4.5 air", engine="llama.cpp", device="4090", host_memory="64GB", weight_dtype="q4_k_m")
    assert plan.capacity is not None
    assert plan.capacity.offloaded == (47, 48)
    assert f"47 of 48 layers on the GPU, the experts of {plan.capacity.beside} layers beside the GPU and " in sentence(plan)
