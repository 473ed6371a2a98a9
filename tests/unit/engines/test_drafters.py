"""What drafts, engine by engine: lines of its own, by figures from outside or arithmetic written out here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.ledger import Entry
from kvplan.planner.plan import Plan
from tests.conftest import planned

QWEN, TINY = "qwen/qwen3-8b", "qwen/qwen3-0.6b"
#: A token of Qwen3-8B: 36 layers of 8 KV heads of 128, K and V, bf16; of Qwen3-0.6B: 28 such layers.
TOKEN, TINY_TOKEN = 36 * 2 * 8 * 128 * 2, 28 * 2 * 8 * 128 * 2


def ask(engine: str, speculative: str, **question: Any) -> Plan:
    return planned(QWEN, engine=engine, speculative=speculative, **{"context": 4096, **question})


def lines(plan: Plan) -> dict[str, Entry]:
    return {entry.name: entry for entry in plan.ledgers[0].entries}


def drafted(plan: Plan) -> int:
    """Bytes of the drafter's cache lines."""
    return sum(e.bytes for e in plan.ledgers[0].entries if e.kind == "cache" and "drafter" in e.name)


def test_vllm_puts_the_drafters_layers_into_the_same_blocks() -> None:
    plan = ask("vllm", f"draft_model:4:{TINY}", kv_memory="16GiB", max_model_len=4096)
    assert plan.capacity is not None
    assert plan.capacity.bytes_per_block == 16 * (TOKEN + TINY_TOKEN)
    assert drafted(plan) == plan.ledgers[0].cache_bytes * 28 // 64


def test_sglang_gives_its_draft_worker_as_many_tokens_in_a_pool_of_its_own() -> None:
    # pool_configurator.py: a token is charged 28/36 of the target's beside the target's; the draft worker's pool has the same tokens and a
    # page beside them
    plan = ask("sglang", f"standalone:3:{TINY}", kv_memory="16GiB")
    assert plan.capacity is not None
    tokens = (16 << 30) // (TOKEN + TOKEN * 28 // 36)
    assert plan.capacity.tokens == tokens
    assert drafted(plan) == (tokens + 1) * TINY_TOKEN


def test_sglang_charged_nothing_for_drafts_before_0_5_14() -> None:
    plan = ask("sglang", f"standalone:3:{TINY}", kv_memory="16GiB", engine_version="0.5.6")
    assert plan.capacity is not None
    # 0.5.6 model_runner.py init_memory_pool: beside it 48 running requests' rows for 3 steps and 4 tokens to verify, and 100
    assert plan.capacity.tokens == (16 << 30) // TOKEN + 48 * (3 + 4) + 100
    assert "its pools exceed their budget" in " ".join(plan.capacity.warnings)


def test_dflash_of_tensorrt_llm_as_its_issue_16005_measured_it() -> None:
    # NVIDIA/TensorRT-LLM#16005: 64 slots, max_seq_len 131,072, a drafter of 5 layers of 8 KV heads of 128 at tp 2: about 80 GB a rank
    asked = {"engine": "tensorrt-llm", "tp": 2, "max_num_seqs": 64, "max_model_len": 131072, "context": 4096, "device": "b200"}
    plan = planned("qwen/qwen3.5-4b", speculative="dflash:7:z-lab/qwen3.5-4b-dflash", **asked)
    buffers = lines(plan)["drafter: context buffers"].bytes
    assert buffers == 64 * (131072 + 8) * 2 * 5 * 4 * 128 * 2
    assert buffers == pytest.approx(64 * 131_091 * 10 * 1024, rel=1e-3)  # the issue's own product
    assert not drafted(plan)  # its cache is not in the pools as well


def test_dflash_drafters_of_vllm_and_sglang_are_charged_by_their_own_rows() -> None:
    row = 5 * 2 * 8 * 128 * 2
    for engine in ("vllm", "sglang"):
        plan = ask(engine, "dflash:15:z-lab/Qwen3-8B-DFlash-b16", kv_memory="16GiB", max_model_len=4096)
        assert plan.capacity is not None
        assert plan.capacity.tokens == pytest.approx((16 << 30) // (TOKEN + row), abs=32)


def test_llama_cpp_makes_the_draft_model_a_context_of_the_targets_size() -> None:
    plan, alone = (ask("llama.cpp", spec, device="rtx-4090", batch=2) for spec in (f"draft_model:3:{TINY}", "off"))
    assert drafted(plan) == 2 * 4096 * TINY_TOKEN
    assert lines(plan)["weights: drafter mlp"].bytes == 28 * 3 * 1024 * 3072 * 2  # Qwen3-0.6B: 28 layers of 1,024 by 3,072, bf16
    assert plan.margin_bytes is not None
    assert alone.margin_bytes is not None
    assert alone.margin_bytes - plan.margin_bytes > drafted(plan)


@pytest.mark.parametrize("engine", ["ideal", "transformers", "mlx-lm", "exllamav3"])
def test_engines_that_allocate_hold_a_cache_of_both_models(engine: str) -> None:
    assert drafted(ask(engine, f"draft_model:4:{TINY}", device="64GiB")) == 4096 * TINY_TOKEN


def test_lmdeploys_draft_blocks_are_as_many_as_the_targets() -> None:
    # Llama 3.1 8B: 32 layers of 8 KV heads of 128, the head is one such layer: executor/base.py, cache_block_size.target + .spec
    plan = planned(
        "meta-llama/llama-3.1-8b", engine="lmdeploy", engine_option={"backend": "pytorch"}, kv_memory="16GiB", context=4096,
        speculative="eagle3:3:yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    )  # fmt: skip
    assert drafted(plan) == plan.ledgers[0].cache_bytes // 33


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", 0.42e9),  # a file of 850 MB in f16
        ("z-lab/Qwen3-8B-DFlash-b16", 1.05e9),
        ("z-lab/Qwen3-4B-DFlash-b16", 0.54e9),
        ("lmsys/DeepSeek-V3-NextN", 11.6e9),  # DeepSeek-V3's README: 14B of the MTP module, 2.6B of them embedding and output, shared
    ],
)
def test_sizes_of_public_drafters(name: str, parameters: float) -> None:
    assert planned(name, context=1, engine="ideal").model.parameters == pytest.approx(parameters, rel=0.02)


def test_explain_names_the_drafter() -> None:
    told = kvplan.explain(QWEN, engine="vllm", device="h100", context=4096, speculative="dflash:15:z-lab/Qwen3-8B-DFlash-b16")
    line = next(line for line in told if line.name == "drafter")
    assert "z-lab/qwen3-8b-dflash-b16" in line.formula
    assert line.source.startswith("https://github.com/sgl-project/SpecForge/")


def test_what_cannot_fit_without_the_drafter_does_not_fit_with_it() -> None:
    plan = ask("vllm", "eagle3:3", device="rtx-3060-12gb")
    assert (plan.fits, plan.outcome.unknown) == (False, "")


def test_searches_do_not_call_unknown_a_yes() -> None:
    (row,) = kvplan.fit(QWEN, devices=["h100"], context=4096, speculative="eagle3:3")
    assert row.n_devices is None
    assert "give it with --speculative" in (row.reason or "")


@pytest.mark.parametrize("engine", ["transformers", "mlx-lm", "exllamav3", "vllm"])
@pytest.mark.parametrize("speculative", ["off", f"draft_model:3:{TINY}"])
def test_a_models_own_draft_modules_are_counted_whatever_drafts(engine: str, speculative: str) -> None:
    plan = planned("qwen/qwen3.5-27b", engine=engine, speculative=speculative, context=4096)
    # its config.json: fc of 2 x 5,120; gated queries of 24 heads, K and V of 4, output, of 256; three matrices of 17,408; norms
    attention = 5120 * 256 * (2 * 24 + 2 * 4 + 24)
    assert plan.model.mtp_parameters == 2 * 5120 * 5120 + attention + 3 * 5120 * 17408 + 5 * 5120 + 2 * 256


def checked(tmp_path: Path, words: str) -> tuple[str, str | None]:
    """Whether LMDeploy's command fits, and what it drafts with."""
    script = tmp_path / "serve.sh"
    script.write_text(f"lmdeploy serve api_server Qwen/Qwen3-8B --session-len 8192 {words}\n")
    (verdict,) = kvplan.check(script, device="h100")
    assert verdict.found is not None
    return verdict.status, verdict.found.question.get("speculative")


def test_drafters_of_lmdeploys_command_line(tmp_path: Path) -> None:
    """lmdeploy 0.18.0 cli/utils.py add_spec_group; a block of 16 is 15 tokens (messages.py SpeculativeConfig)."""
    dflash = "--speculative-algorithm dflash --speculative-dflash-block-size 16 --speculative-draft-model z-lab/Qwen3-8B-DFlash-b16"
    assert checked(tmp_path, f"--backend pytorch {dflash}") == ("fits", "dflash:15:z-lab/Qwen3-8B-DFlash-b16")
    unknown = "--backend pytorch --speculative-algorithm eagle3 --speculative-num-draft-tokens 3 --speculative-draft-model acme/own"
    assert checked(tmp_path, unknown) == ("unknown", "eagle3:3:acme/own")


def test_turbomind_goes_on_without_a_drafter() -> None:
    """serve/core/async_engine.py of 0.18.0: `speculative decoding is not supported by turbomind` is a warning."""
    plan, alone = (ask("lmdeploy", spec, device="h100") for spec in ("eagle3:3", "off"))
    assert (plan.fits, plan.margin_bytes) == (True, alone.margin_bytes)
    assert any("TurboMind does not draft" in note for note in plan.model.notes)


@pytest.mark.parametrize("release", ["0.6.6", "0.8.5"])
def test_v0_splits_its_blocks_between_target_and_drafter(release: str) -> None:
    """spec_decode/spec_decode_worker.py split_num_cache_blocks_evenly: int(total * scorer block / (proposer block + scorer block))."""
    asked: dict[str, Any] = {
        "engine": "vllm",
        "engine_version": release,
        "device": "h100",
        "context": 4096,
        "kv_memory": "16GiB",
    }
    plan = planned("meta-llama/llama-3.1-8b", speculative="draft_model:3:meta-llama/llama-3.2-1b", **asked)
    scorer, proposer = 16 * 32 * 2 * 8 * 128 * 2, 16 * 16 * 2 * 8 * 64 * 2  # 32 layers of 8 heads of 128; 16 of 8 of 64
    total = (16 << 30) // scorer
    assert plan.capacity is not None
    assert plan.capacity.blocks == pytest.approx(int(total * scorer / (proposer + scorer)), abs=1)


@pytest.mark.parametrize(("engine", "version", "model", "words"), [
    ("vllm", "0.33", "llama-3.1-8b", "assert param_data.shape == loaded_weight.shape"),  # models/llama_eagle3.py: 8,192 wide, not 4,096
    ("vllm", "0.33", "qwen3-8b", "assert param_data.shape == loaded_weight.shape"),  # models/qwen3_eagle3.py
    ("vllm", "0.23", "qwen3-8b", "Model architectures ['Eagle3Qwen3ForCausalLM'] are not supported for now."),  # registry.py of 0.23
    ("sglang", "0.5.23", "llama-3.1-8b", "'LlamaForCausalLM' object has no attribute 'hot_token_id'"),  # eagle_worker_v2.py
    ("vllm", "0.33", "lmsys/eagle3-gpt-oss-120b-bf16", ""),
    ("sglang", "0.5.23", "lmsys/eagle3-gpt-oss-120b-bf16", ""),
])  # fmt: skip
def test_a_whole_model_is_no_eagle3_head(engine: str, version: str, model: str, words: str) -> None:
    asked = {"engine": engine, "engine_version": version, "device": "h200", "context": "32k", "advise": False}
    plan = kvplan.estimate("openai/gpt-oss-120b", speculative=f"eagle3:3:{model}", **asked)
    assert words in (plan.outcome.reason or "") if words else plan.fits
    assert ("no EAGLE head" in str(plan.as_dict())) is bool(words)
