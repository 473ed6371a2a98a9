"""What may run out after a start: by name, bytes by hand from each engine's own source, the flag that removes it, silence where there is
room."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan import api
from kvplan.engines.common.protocol import Risk
from kvplan.manifests import Source
from kvplan.planner.plan import Plan
from kvplan.units import GIB, MIB
from tests.conftest import planned

LLAMA, QWEN = "meta-llama/llama-3.1-8b", "qwen/qwen3.6-27b"


def ask(model: str = LLAMA, **question: Any) -> Plan:
    return planned(model, **({"engine": "vllm", "device": "rtx-4090", "context": 8192} | question))


def told(plan: Plan) -> dict[str, Risk]:
    return {risk.name: risk for risk in plan.outcome.risks}


def lines(plan: Plan) -> dict[str, int]:
    return {entry.name: entry.bytes for entry in plan.ledgers[0].entries}


def test_prompt_logprobs_are_beyond_what_the_profile_took() -> None:
    """2,048 tokens x 128,256 entries x (2 + 4 + 4) bytes are 2.45 GiB; the batch of the profile run is there for them."""
    plan = ask()
    batch = next(entry.bytes for entry in plan.ledgers[0].entries if entry.name == "activations")
    assert told(plan)["prompt logprobs"] == Risk(
        "prompt logprobs", 0, 0, 2048 * 128_256 * 10 - batch, "serve", "--max-logprobs 0, or a smaller max_num_batched_tokens"
    )
    assert "prompt logprobs" not in told(ask(max_num_batched_tokens=256, max_num_seqs=256))


def test_a_risk_is_told_where_less_is_left() -> None:
    assert not told(ask(memory_fraction=0.5))
    tight = told(ask(memory_fraction=0.93, engine_version="0.19"))
    assert {"prompt logprobs", "fragmentation", "first use of libraries"} <= set(tight)
    quiet = ask(memory_fraction=0.93, engine_version="0.19", engine_option={"allocator": "expandable_segments:True"})
    assert set(tight) - set(told(quiet)) == {"fragmentation"}


@pytest.mark.parametrize(("engine", "more", "name"), [
    ("sglang", {"memory_fraction": 0.96}, "first use of libraries"),
    ("tensorrt-llm", {"memory_fraction": 0.97}, "first use of libraries"),
    ("lmdeploy", {"memory_fraction": 0.97}, "first use of libraries"),
    ("vllm", {"memory_fraction": 0.93, "engine_version": "0.19", "reserve": "2GiB"}, "neighbours"),
])  # fmt: skip
def test_each_engine_has_its_own(engine: str, more: dict[str, Any], name: str) -> None:
    found = ask(engine=engine, **more)
    assert not found.starts or name in told(found)


def test_an_adapter_is_there_twice_while_it_is_loaded() -> None:
    """Rank 256 of Llama-3.1-8B in 16 bits: q and o 8,192, k and v 5,120 each, three matrices of 18,432, of 32 layers: 1.25 GiB."""
    sides = 2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336)
    plan = ask(engine="sglang", lora="256x1", memory_fraction=0.96)
    assert told(plan)["loading an adapter"].high == 2 * 256 * 32 * sides


def test_check_warns_of_what_was_asked_for_and_notes_the_rest() -> None:
    command = "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 --enforce-eager"
    (verdict,) = api.check([Source("serve.sh", command)], device="rtx-4090")
    found = {finding.message.split(":")[0]: finding.severity for finding in verdict.findings if finding.rule == "may-run-out"}
    assert found["prompt logprobs"] == "note"
    assert verdict.exit_code == 0


@pytest.mark.parametrize(("strict", "status", "code"), [(False, "unknown", 2), (True, "refuses", 1)])
def test_too_close_to_call_is_not_known_to_check(strict: bool, status: str, code: int) -> None:
    """0.975 of an RTX 4090 on 0.8.5 leaves 0.59 GiB: less than 67 graphs are thought to take and more than they may be."""
    command = "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192 --gpu-memory-utilization 0.975"
    (verdict,) = api.check([Source("serve.sh", command)], device="rtx-4090", engine_version="0.8.5", strict=strict)
    assert verdict.plan is not None
    assert verdict.plan.certainty == "too close to call"
    assert (verdict.status, verdict.exit_code) == (status, code)
    assert "too-close-to-call" in {finding.rule for finding in verdict.findings} or strict


def test_a_start_may_be_surer_than_a_fit() -> None:
    """Half a terabyte of sequences do not fit; that it starts is another question, with an answer of its own."""
    plan = ask(batch=1000, device="h100-80gb", max_model_len=8192)
    assert (plan.starts, plan.fits, plan.outcome.start_certainty) == (True, False, "certain")
    assert plan.as_dict()["start_certainty"] == "certain"
    assert plan.margin_bytes is not None
    assert plan.margin_bytes < -GIB


@pytest.mark.parametrize(
    ("model", "asked", "left_out"),
    [
        # QwenLM/Qwen3-VL issue 1684: out of memory with 128,000 tokens on eight A100
        (
            "Qwen/Qwen3-VL-235B-A22B-Instruct",
            {"engine": "vllm", "engine_version": "0.11.0", "device": "a100-80gb", "tp": 8, "ep": 8, "max_model_len": 128000},
            {"multimodal": "off"},
        ),
        # sglang issue 5634: out of memory with attention data parallelism on eight H200
        (
            "deepseek-ai/DeepSeek-V3",
            {
                "engine": "sglang",
                "engine_version": "0.4.5",
                "device": "h200",
                "tp": 8,
                "engine_option": {"enable_dp_attention": "true"},
                "dp": 8,
            },
            {"dp": None, "engine_option": None},
        ),
        # vllm issues 18446 and 17469: out of memory on V1 alone, and with graphs alone
        (
            "Qwen/Qwen3-235B-A22B",
            {"engine": "vllm", "engine_version": "0.8.5", "device": "a100-80gb", "tp": 8},
            {"enforce_eager": True},
        ),
        # lmdeploy issue 1298: out of memory on cards of 22 GB, which were of 2018
        (
            "Qwen/Qwen2.5-7B-Instruct",
            {"engine": "lmdeploy", "device": "22016MiB", "dtype": "fp16", "context": 4096},
            {"device": "a10"},
        ),
        # lmdeploy issue 4558: out of memory while weights are loaded on a V100
        ("Qwen/Qwen2.5-7B-Instruct", {"engine": "lmdeploy", "device": "v100-32gb", "dtype": "fp16"}, {"device": "a100-40gb"}),
    ],
)
def test_what_public_starts_ran_out_of_and_nothing_sizes_is_too_close_to_call(
    model: str, asked: dict[str, Any], left_out: dict[str, Any]
) -> None:
    plan, other = (planned(model, **question).as_dict() for question in (asked, asked | left_out))
    assert (plan["starts"], plan["start_certainty"]) == (True, "too close to call")
    assert any(note.startswith("too close to call at most: what ") for note in plan["model"]["notes"])
    assert not any(note.startswith("too close to call at most") for note in other["model"]["notes"])


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "lmdeploy", "llama.cpp", "ollama", "exllamav3"])
def test_a_plan_with_room_to_spare_names_none(engine: str) -> None:
    """A model of 2.5 GB on 80 GB; engines that set the cache aside are told to leave half. Ollama's other model goes beside it."""
    plan = ask("meta-llama/llama-3.2-1b", engine=engine, device="h100-80gb", memory_fraction=0.5)
    assert plan.starts
    assert plan.outcome.survives
    assert not plan.outcome.risks


@pytest.mark.parametrize(("engine", "device"), [("llama.cpp", "rtx-4090"), ("transformers", "rtx-4090"), ("mlx-lm", "apple-m4-max-64gb")])
def test_what_holds_its_largest_step_survives_and_what_does_not_fit_does_not(engine: str, device: str) -> None:
    assert ask(engine=engine, device=device).outcome.survives is True
    assert ask(engine=engine, device=device, context=131_072, batch=8).outcome.survives in (False, None)


def test_llama_cpp_keeps_prompts_in_ram() -> None:
    """--cache-ram is 8,192 MiB where nobody says (common/common.h cache_ram_mib); 0 turns it off, -1 has no end."""
    plan = ask(engine="llama.cpp", device="rtx-4090", host_memory="6GiB")
    assert told(plan)["prompts kept in RAM"] == Risk(
        "prompts kept in RAM", 0, 0, 8192 * MIB, "serve", "--cache-ram 0 (LLAMA_ARG_CACHE_RAM)", "host"
    )
    for n, there in (("0", False), ("4096", False), ("7000", True), ("-1", True)):
        plan = ask(engine="llama.cpp", device="rtx-4090", host_memory="6GiB", engine_option={"cache_ram": n})
        assert ("prompts kept in RAM" in told(plan)) is there
    old = ask(engine="llama.cpp", engine_version="b6324", device="rtx-4090", host_memory="6GiB")
    assert "prompts kept in RAM" not in told(old)


def test_checkpoints_are_states_of_every_slot_in_ram() -> None:
    """Qwen3.6-27B: 48 layers of 48 heads of 128 x 128 in f32 and 3 x 10,240 of their convolutions: 149.6 MiB a slot, 32 of four slots."""
    asked = {"engine": "llama.cpp", "device": "rtx-4090", "context": 4096, "batch": 4, "weight_dtype": "q4_k_m", "host_memory": "12GiB"}
    slot = 48 * 4 * (48 * 128 * 128 + 3 * 10_240)
    assert told(ask(QWEN, **asked))["checkpoints of slots"].high == 32 * 4 * slot
    assert "checkpoints of slots" not in told(ask(QWEN, **asked, engine_option={"ctx_checkpoints": "4"}))
    assert "checkpoints of slots" not in told(ask(**asked | {"weight_dtype": "q8_0"}))  # nothing that can not be gone back on


def test_a_quantised_cache_is_unpacked_for_batches() -> None:
    """131,072 cells x (1,024 + 1,024) values of K and V of a layer in f16 are 512 MiB: a pool's before b9501, then the compute buffer's,
    where the feed-forward's tensors, which are not alive at that time, have the same room. Both builds are after
    b9460, which changed for how many tokens logits are kept.
    """
    asked = {"engine": "llama.cpp", "device": "rtx-4090", "context": 131_072, "weight_dtype": "q8_0", "kv_dtype": "q8_0"}
    asked |= {"reserve": "6.8GiB", "n_gpu_layers": 99}
    size = 131_072 * 2048 * 2
    before = ask(**asked, engine_version="b9460")
    assert told(before)["unpacking the cache"].high == size
    after = ask(**asked, engine_version="b9501")
    assert "unpacking the cache" not in told(after)

    def buffer(plan: Plan) -> int:
        return next(line.bytes for line in plan.ledgers[0].entries if line.name == "compute buffer")

    assert 0.8 * size < buffer(after) - buffer(before) < 1.01 * size
    plain = {**asked, "kv_dtype": "f16", "reserve": "0GiB"}
    assert buffer(ask(**plain, engine_version="b9501")) == buffer(ask(**plain, engine_version="b9460"))
    apple = {**asked, "device": "apple-m4-max-64gb", "reserve": None}
    assert buffer(ask(**apple, engine_version="b9501")) == buffer(ask(**apple, engine_version="b9460"))


def test_what_unpacking_takes_is_what_a_kernel_that_needs_none_of_it_saves() -> None:
    """GenerelSchwerz/llama.cpp pull request 4: 972 MiB less at 245,760 tokens, where 4 KV heads of 256 in f16 are 960."""
    asked = {
        "engine": "llama.cpp",
        "engine_version": "b7850",
        "context": 245_760,
        "weight_dtype": "q4_k_m",
        "kv_dtype": "q8_0",
        "n_gpu_layers": 99,
    }
    margin = ask(QWEN, **asked, device="l40s").margin_bytes
    assert margin is not None
    plan = ask(QWEN, **asked, device="l40s", reserve=margin - GIB // 2)
    assert plan.starts
    assert told(plan)["unpacking the cache"].high / MIB == pytest.approx(972, rel=0.02)


def test_ollama_loads_others_and_longer_contexts() -> None:
    """Of 131,072 tokens that Llama-3.1-8B was trained for, 98,304 more than 32,768, of 128 KiB each."""
    asked = {"engine": "ollama", "device": "rtx-4090", "context": 32_768}
    plan = ask(**asked)
    assert told(plan)["a longer context of a request"].high == 98_304 * 128 * 1024
    assert told(plan)["another model of this size"].high == plan.ledgers[0].total_bytes
    assert "another model of this size" not in told(ask(**asked, engine_option={"max_loaded_models": "1"}))


def test_caches_that_grow_have_no_end_of_their_own() -> None:
    """131,072 - 8,192 tokens of 128 KiB; a static cache, or one that rotates, stops."""
    more = (131_072 - 8192) * 128 * 1024
    for engine, device, option in (
        ("transformers", "rtx-4090", {"cache_implementation": "static"}),
        ("mlx-lm", "apple-m4-24gb", {"max_kv_size": "8192"}),
    ):
        weights = {} if engine == "transformers" else {"weight_dtype": "affine4_g64"}
        plan = ask(engine=engine, device=device, **weights)
        assert told(plan)["longer requests"].high == more
        assert "longer requests" not in told(ask(engine=engine, device=device, engine_option=option, **weights))


def test_mlx_lm_keeps_ten_prompts() -> None:
    """--prompt-cache-size 10: each a GiB of 8,192 tokens."""
    plan = ask(engine="mlx-lm", device="apple-m4-16gb", weight_dtype="affine4_g64")
    assert told(plan)["prompts kept by the server"].high == 10 * GIB


def test_a_step_of_a_prompt() -> None:
    """32,768 tokens in one pass: gate and up of 14,336, their product, and four hidden states of 4,096, in 16 bits: 3.6 GiB. A line of
    transformers', in passes of 1,024 tokens a thirty-second of it. MLX-LM has no such line."""
    width = 3 * 14_336 + 4 * 4096
    question = {"engine": "transformers", "device": "a100-40gb", "context": 32_768, "weight_dtype": "bf16"}
    plan = ask(**question)
    assert lines(plan)["activations of a prompt"] == 32_768 * width * 2
    assert "a step of a prompt" not in told(plan)
    shorter = ask(**question, engine_option={"prefill_chunk_size": "1024"})
    assert lines(shorter)["activations of a prompt"] == 1024 * width * 2
    other = ask(engine="mlx-lm", device="apple-m1-16gb", context=49_152, max_num_batched_tokens=49_152, weight_dtype="mlx_4bit")
    assert "--prefill-step-size" in told(other)["a step of a prompt"].removes


def test_tensorrt_llm_gives_the_logits_of_a_prompt_back() -> None:
    """8,192 tokens x 128,256 entries x (2 + 4) bytes, less what the dry run took."""
    plan = ask(engine="tensorrt-llm", device="rtx-4090")
    batch = next(entry.bytes for entry in plan.ledgers[0].entries if entry.kind == "activations")
    assert told(plan)["prompt logits"].high == 8192 * 128_256 * 6 - batch


POD = """apiVersion: v1
kind: Pod
metadata: {{name: a}}
spec:
  containers:
  - name: s
    image: ghcr.io/ggml-org/llama.cpp:server-cuda
    args: [-hf, meta-llama/Llama-3.1-8B, -c, "8192", -ngl, "99"{more}]
    resources: {{limits: {{nvidia.com/gpu: 1, memory: {limit}}}}}
"""


@pytest.mark.parametrize(
    ("limit", "more", "warned"),
    [("6Gi", "", True), ("6Gi", ', -cram, "0"', False), ("6Gi", ', --cache-ram, "1024"', False), ("64Gi", "", False)],
)
def test_check_warns_of_prompts_beyond_a_containers_limit(limit: str, more: str, warned: bool) -> None:
    """ollama issue 18264, ggml-org/llama.cpp issue 22629: the server is killed by the container's limit, days after it started."""
    (verdict,) = api.check([Source("pod.yaml", POD.format(limit=limit, more=more))], device="rtx-4090")
    found = [finding for finding in verdict.findings if finding.rule == "may-run-out" and "prompts kept in RAM" in finding.message]
    assert bool(found) is warned
    assert all(finding.severity == "warning" and "it would be killed" in finding.message for finding in found)


@pytest.mark.parametrize(
    ("release", "context", "takes"), [("0.5.17", 1_000_000, 4_096_000_000), ("0.5.17", 32_768, 134_217_728), ("0.5.23", 1_000_000, 0)]
)
def test_logits_of_an_indexer_that_is_not_cut(release: str, context: int, takes: int) -> None:
    """4,096 queries by every fourth token in f32, whole to 0.5.19 (sgl-project/sglang 35201: a prompt of 800,000 ends it)."""
    question = {"engine": "sglang", "engine_version": release, "device": "h100-80gb", "tp": 4, "memory_fraction": 0.9, "context": context}
    plan = ask("deepseek-ai/deepseek-v4-flash", **question, max_model_len=1_000_000, max_num_batched_tokens=4096)
    found = told(plan).get("logits of the indexer")
    assert (found.bytes if found else 0) == takes
    assert plan.outcome.survives is (takes < GIB)
    assert not found or found.high == 4_096_000_000
