"""vLLM's rules around the planner: releases, defaults, refusals, and the laws that bind its answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan import catalogue
from kvplan.deployment import Deployment
from kvplan.engines.vllm.plan import ENGINE
from kvplan.engines.vllm.registered import REGISTRY, REMOVED, UNLISTED
from kvplan.engines.vllm.rules import VERSIONS, find_rules
from kvplan.errors import SpecError
from kvplan.importers.hf.architectures import ARCHITECTURES
from kvplan.importers.hf.classes import class_defaults
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec, parse_spec
from kvplan.units import GIB
from tests.conftest import examples, one_block, planned


def one(name: str, mixers: list[dict[str, Any]], n_layers: int = 4, **more: Any) -> ModelSpec:
    return parse_spec(
        {
            "id": f"test/{name}",
            "name": name,
            "source": "test",
            "vocab_size": 32000,
            "hidden_size": 1024,
            "n_layers": n_layers,
            "layers": [{"pattern": ["a"], "repeat": n_layers}],
            "blocks": {"a": {"mixers": mixers}},
            "max_context": 32768,
            **more,
        },
        name,
    )


GQA = {"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}
SLIDING = {**GQA, "kind": "sliding", "window": 1024}
MAMBA2 = {"kind": "mamba2", "heads": 32, "head_dim": 64, "groups": 4, "d_state": 128, "d_conv": 4}
FULL = one("full", [GQA])
WINDOWS = one("windows", [SLIDING])
STATES = one("states", [MAMBA2])
MIXED = parse_spec(
    {
        "id": "test/mixed",
        "name": "mixed",
        "source": "test",
        "vocab_size": 32000,
        "hidden_size": 1024,
        "n_layers": 12,
        "layers": [{"pattern": ["w", "w", "f", "m"], "repeat": 3}],
        "blocks": {"w": {"mixers": [SLIDING]}, "f": {"mixers": [GQA]}, "m": {"mixers": [MAMBA2]}},
        "max_context": 32768,
    },
    "mixed",
)


def ask(model: ModelSpec = FULL, **question: Any) -> Plan:
    question.setdefault("kv_memory", 4 * GIB)
    return evaluate(Deployment(model=model, engine="vllm", **question))


@pytest.mark.parametrize(
    ("asked", "found", "noted"),
    [
        (None, "0.33", False),
        ("0.20.0", "0.20", False),
        ("v0.11.1rc3.dev29+g3fa2c1218", "0.11.1", False),
        ("0.8.5.post1", "0.8.5", False),
        ("0.99", "0.33", True),
        ("0.4.2", "0.4", False),
        ("0.2.6", "0.2.6", False),
        ("nightly", "0.33", True),
    ],
)
def test_the_nearest_release(asked: str | None, found: str, noted: bool) -> None:
    release, _, notes = find_rules(asked)
    assert (release, bool(notes)) == (found, noted)


def test_releases_are_oldest_first() -> None:
    numbers = [tuple(map(int, release.split("."))) for release in VERSIONS]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("device", "version", "tokens", "seqs"),
    [  # engine/arg_utils.py get_batch_defaults of the release, for a server
        ("h100-80gb", "0.19", 8192, 1024),
        ("h200", "0.27", 8192, 1024),
        ("b200", "0.27", 8192, 1024),
        ("b200", "0.28", 16384, 1024),
        ("a100-80gb", "0.12", 2048, 256),
        ("rtx-3090", "0.8.1", 2048, 1024),  # "warming up sampler with 1024 dummy requests" on consumer cards (vllm#15105)
        ("a100-80gb", "0.8.3", 2048, 1024),
        ("h200", "0.8.3", 8192, 1024),
        ("a100-80gb", "0.8.4", 2048, 256),
        ("h100-80gb", "0.8.4", 8192, 1024),
        ("a100-80gb", "0.8.5", 8192, 1024),
        ("a100-80gb", "0.9", 2048, 256),
        ("l40s", "0.33", 2048, 256),
    ],
)
def test_batch_defaults(device: str, version: str, tokens: int, seqs: int) -> None:
    d = Deployment(model=FULL, engine="vllm", engine_version=version, device=catalogue.find_device(device))
    question = ENGINE.settle(d).question
    assert (question.max_num_batched_tokens, question.max_num_seqs) == (tokens, seqs)


@pytest.mark.parametrize(("version", "fraction"), [("0.19", 0.9), ("0.20", 0.92), ("0.33", 0.92)])
def test_memory_fraction(version: str, fraction: float) -> None:
    settled = ENGINE.settle(Deployment(model=FULL, engine="vllm", engine_version=version))
    assert settled.question.memory_fraction == fraction
    assert settled.chosen_by["memory_fraction"] == "engine default"


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(SpecError, match="no such option"):
        ask(engine_option=(("enable_prefix_cache", "true"),))


@pytest.mark.parametrize(
    ("model", "question", "words"),
    [
        (FULL, {"tp": 3}, "Total number of attention heads (32) must be divisible by tensor parallel size (3)."),
        (FULL, {"kv_dtype": "q8_0"}, "vLLM 0.33 has no KV cache format q8_0"),
        (FULL, {"kv_dtype": "nvfp4", "engine_version": "0.19"}, "vLLM 0.19 has no KV cache format nvfp4"),
        (FULL, {"kv_dtype": "bf16/fp8"}, "vLLM stores K and V in one format"),
        (STATES, {"tp": 64}, "not divisible by the tensor parallel size 64"),
        (one("rwkv", [{"kind": "rwkv", "heads": 16, "head_dim": 64}]), {}, "no RWKV layers"),
        (FULL, {"engine_option": (("auto_fit", "true"),), "engine_version": "0.13"}, "has no --max-model-len -1"),
    ],
)
def test_what_vllm_refuses_is_an_answer(model: ModelSpec, question: dict[str, Any], words: str) -> None:
    plan = ask(model, **question)
    assert (plan.starts, plan.fits) == (False, False)
    assert words in (plan.outcome.reason or "")


@pytest.mark.parametrize(
    ("version", "begins", "ends"),
    [  # 4 layers x 64 KiB a block: 128 blocks and 32 MiB available; 32,768 tokens need 512 MiB
        ("0.7", "The model's max seq len (32768) is larger than", "(2048). Try increasing `gpu_memory_utilization`"),
        ("0.9.2", "To serve at least one request with the models's max seq len (32768), (0.50 GiB KV", "length is 2048."),
        ("0.19", "To serve at least one request with the models's max seq len (32768), (0.5 GiB KV", "length is 2048."),
        ("0.33", "To serve at least one request with the model's max seq len (32768), (0.5 GiB KV", "length is 2032."),
    ],
)
def test_refusal_of_a_request_that_is_too_long(version: str, begins: str, ends: str) -> None:
    reason = ask(kv_memory=32 << 20, engine_version=version).outcome.reason or ""
    assert reason.startswith(begins)
    assert ends in reason


def test_tp_beyond_the_kv_heads_replicates() -> None:
    costs = []
    for tp in (1, 8, 16):
        capacity = ask(tp=tp).capacity
        assert capacity is not None
        costs.append(capacity.bytes_per_block)
    assert costs == [4 * 65536, 4 * 8192, 4 * 8192]


def test_fp8_keys_of_sparse_latent_attention_are_packed_rows() -> None:
    sizes = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "q_lora_rank": 1536}
    index = {"index_heads": 64, "index_head_dim": 128, "index_topk": 2048}
    model = one("sparse", [{"kind": "mla_sparse", "heads": 128, **sizes, **index}])
    capacity = ask(model, kv_dtype="fp8").capacity
    assert capacity is not None
    assert (capacity.block_tokens, capacity.bytes_per_block) == (64, 4 * 64 * (656 + 132))


def test_turboquant_leaves_the_ends_of_a_dense_model_alone() -> None:
    """10 layers of 8 heads x 128: 6 hold 134 bytes a head, 4 hold bf16; a block of a byte an element covers a bf16 page of 16 tokens.

    platforms/interface.py _align_heterogeneous_kv_block_size of 0.33; rows of rows/vllm.jsonl were run.
    """
    capacity = ask(one("dense", [GQA], 10), kv_dtype="turboquant_4bit_nc").capacity
    assert capacity is not None
    block = 32  # 16 x ceil(16 x 4096 / (16 x 2048))
    assert capacity.block_tokens == block
    assert capacity.bytes_per_block == block * 8 * (6 * 134 + 4 * 512)


def test_a_class_that_does_not_apply_the_format() -> None:
    capacity = ask(one("falcon", [GQA], architecture="FalconForCausalLM"), kv_dtype="fp8").capacity
    assert capacity is not None
    assert capacity.bytes_per_block == 4 * 65536


def test_pipeline_stages_pay_their_own_layers() -> None:
    plan = ask(one("deep", [GQA], 10), pp=3)
    assert [ledger.cache_bytes for ledger in plan.ledgers] == [n * 65536 * 16384 for n in (3, 4, 3)]  # 4 GiB / (4 x 64 KiB) blocks
    assert plan.outcome.limiting_rank == 1


def test_more_sequences_than_the_engine_runs() -> None:
    plan = ask(batch=300, context=16, max_num_seqs=256)
    assert plan.starts
    assert not plan.fits
    assert "max_num_seqs 256" in (plan.outcome.reason or "")


def test_a_context_beyond_max_model_len() -> None:
    plan = ask(context=8192, max_model_len=4096)
    assert (plan.starts, plan.fits) == (True, False)


def test_without_memory_nothing_limits() -> None:
    plan = evaluate(Deployment(model=FULL, engine="vllm"))
    assert plan.fits is None
    assert plan.capacity is None


MODELS = st.sampled_from([FULL, WINDOWS, STATES, MIXED])
RELEASES = st.sampled_from([v for v in VERSIONS if VERSIONS.index(v) >= VERSIONS.index("0.26")])


@pytest.mark.slow
@examples(60)
@given(model=MODELS, version=RELEASES, mib=st.integers(64, 2048), tp=st.sampled_from([1, 2, 4]))
def test_the_longest_context_starts_and_one_more_token_does_not(model: ModelSpec, version: str, mib: int, tp: int) -> None:
    question: dict[str, Any] = {"kv_memory": mib << 20, "engine_version": version, "tp": tp, "max_num_batched_tokens": 2048}
    question["engine_option"] = (("allow_long_max_model_len", "true"),)
    capacity = ask(model, **question).capacity
    assert capacity is not None
    longest = capacity.max_context_unbounded
    if longest is None or longest == 0:
        return
    assert ask(model, max_model_len=longest, **question).starts
    assert not ask(model, max_model_len=longest + 1, **question).starts


@pytest.mark.slow
@examples(60)
@given(model=MODELS, version=st.sampled_from(VERSIONS), mib=st.integers(64, 4096), context=st.integers(1, 8192))
def test_the_largest_batch_fits_and_one_more_sequence_does_not(model: ModelSpec, version: str, mib: int, context: int) -> None:
    question: dict[str, Any] = {"kv_memory": mib << 20, "engine_version": version, "context": context, "max_num_batched_tokens": 2048}
    plan = ask(model, **question)
    if plan.capacity is None or not plan.starts or not plan.capacity.max_batch:
        return
    batch = plan.capacity.max_batch
    assert ask(model, batch=batch, **question).fits
    assert not ask(model, batch=batch + 1, **question).fits


@pytest.mark.slow
@examples(60)
@given(model=MODELS, version=RELEASES, mib=st.integers(64, 2048), more=st.integers(0, 512))
def test_more_memory_never_holds_less(model: ModelSpec, version: str, mib: int, more: int) -> None:
    low = ask(model, kv_memory=mib << 20, engine_version=version).capacity
    high = ask(model, kv_memory=(mib + more) << 20, engine_version=version).capacity
    assert low is not None
    assert high is not None
    assert (low.blocks or 0) <= (high.blocks or 0)
    assert (low.tokens or 0) <= (high.tokens or 0)


@pytest.mark.parametrize(
    ("own", "device", "architecture", "served"),
    [
        ("f32", "h100", None, "bf16"),
        ("f32", "t4", None, "f16"),
        ("bf16", "t4", None, "f16"),
        ("bf16", "t4", "Gemma2ForCausalLM", "f32"),  # it does not run in f16 at all
        ("f32", "h100", "Gemma2ForCausalLM", "bf16"),
        ("f16", "h100", None, "f16"),
    ],
)
def test_dtype_auto(own: str, device: str, architecture: str | None, served: str) -> None:
    """vLLM 0.32 config/model.py _resolve_auto_dtype: f32 files in 16 bits; no bf16 below compute capability 8.0."""
    model = one_block({"kind": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}, dtype=own, architecture=architecture)
    plan = planned(model, device=device, engine="vllm", context=1024)
    size = {"f32": 4, "f16": 2, "bf16": 2}
    assert plan.question["dtype"] == (served, "model")
    assert plan.cache.bytes_per_token == 2 * 8 * 128 * size[served]
    assert any("dtype auto" in note for note in plan.model.notes) == (own != served)
    plain = planned(model, engine="ideal", context=1024).model.weight_bytes
    assert plan.model.weight_bytes * size[own] == plain * size[served]


def test_a_class_that_no_release_lists_is_no_start() -> None:
    """models/registry.py _raise_for_unsupported of 0.33.0, unless _try_resolve_transformers takes the repository's own code."""
    assert not UNLISTED & REGISTRY.first.keys()
    model = catalogue.find_model("meta-llama/llama-3.1-8b").changed(architecture="LlavaLlamaForCausalLM")
    plan = planned(model, engine="vllm", device="H100", context=1024)
    assert plan.outcome.certainty == "too close to call"
    assert any("no release lists LlavaLlamaForCausalLM" in note for note in plan.model.notes)


def test_every_class_that_is_read_is_of_vllm_of_transformers_or_said_to_be_of_neither() -> None:
    """A class that no registry lists and no transformers has must be in UNLISTED, or it would start for certain by nothing's code."""
    of_transformers = class_defaults()
    known = REGISTRY.first.keys() | REMOVED.keys() | UNLISTED
    halves = ("_decoder", "_encoder", "_whole", "_assistant")  # of models whose whole is in that table
    drafters = ("eagle3", "dflash", "dflash2")
    left = [
        name
        for name, family in ARCHITECTURES.items()
        if name not in known and family not in of_transformers and not family.endswith(halves) and family not in drafters
    ]
    assert left == ["NVLM_D_Model"]  # NVLM_D of the registry, as its repository once called it
