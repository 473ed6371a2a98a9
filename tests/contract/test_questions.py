"""Every name and option of a question against every engine: nothing is ignored in silence, and printed limits hold when they are asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan import engines
from kvplan.deployment import NAMES
from kvplan.engines import ENGINES
from tests.conftest import examples, planned
from tests.contract import laws
from tests.contract.models import DEVICES, model

PLAIN, ENCODER, STATES = model("kv"), model("encoder-kv"), model("gated-delta-net")
OPEN_ENCODER = model("encoder-kv", encoder_tokens=None)
#: Name -> values that differ from what any engine would choose for 4 x 2,048 tokens.
VALUES: dict[str, tuple[Any, ...]] = {
    "engine": (), "device": (), "engine_option": (),  # tried by themselves
    "engine_version": ("0.0.1",), "n_devices": (2,), "tp": (2,), "pp": (2,), "dp": (2,), "ep": (2,), "dcp": (2,),
    "context": (3000,), "batch": (5,), "encoder_tokens": (700,), "max_model_len": (9216,), "max_num_seqs": (7,),
    "max_num_batched_tokens": (1024,), "block_size": (128,), "dtype": ("f32",), "weight_dtype": ("fp8",), "kv_dtype": ("fp8",),
    "memory_fraction": (0.5,), "kv_memory": ("1GiB",), "reserve": ("1GiB",), "n_gpu_layers": (1,), "host_memory": ("8GiB",),
    "speculative": ("mtp:1", "eagle3:3", "ngram:4", "draft_model:3", "medusa:3"), "lora": ("32x4",), "multimodal": ("on", "off"),
    "enforce_eager": (True,), "calibration": ("none",),
}  # fmt: skip
PAIRS = [(name, value) for name, values in VALUES.items() for value in values]


def limits_of(engine: str) -> list[dict[str, str]]:
    device = DEVICES[engine][0]
    return [{"device": device}, {"kv_memory": "2GiB"}, {"device": device, "kv_memory": "2GiB"}, {}]


def test_every_name_is_here() -> None:
    assert set(VALUES) == set(NAMES)


@pytest.mark.parametrize(("engine", "limit"), [(engine, limit) for engine in ENGINES for limit in limits_of(engine)])
def test_no_name_is_ignored(engine: str, limit: dict[str, str]) -> None:
    laws.names_are_not_ignored(engine, PLAIN, PAIRS, **limit)


@pytest.mark.parametrize("spec", [ENCODER, OPEN_ENCODER], ids=["fixed", "open"])
@pytest.mark.parametrize("engine", [engine for engine in ENGINES if "encoder-kv" in engines.facts(engine).forms])
def test_the_length_of_an_encoder_is_not_ignored(engine: str, spec: Any) -> None:
    laws.names_are_not_ignored(engine, spec, [("encoder_tokens", 700)], device=DEVICES[engine][0])


@pytest.mark.parametrize("spec", [PLAIN, STATES], ids=["kv", "states"])
@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engines.facts(engine).options])
def test_every_option_is_read(engine: str, spec: Any) -> None:
    laws.options_are_read(engine, spec, engines.facts(engine).options, device=DEVICES[engine][0])


ASKED = st.fixed_dictionaries(
    {"context": st.integers(1, 40_000), "batch": st.integers(1, 300)},
    optional={
        "max_model_len": st.sampled_from([2048, 8192, 32_768]),
        "max_num_seqs": st.sampled_from([1, 4, 64]),
        "max_num_batched_tokens": st.sampled_from([512, 2048, 16_384]),
        "dp": st.just(2),
        "tp": st.just(2),
        "pp": st.just(2),
    },
)
LIMIT = st.sampled_from(["device", "small device", "kv_memory"])
SPECS = {form: model(form) for form in ("kv", "latent", "gated-delta-net", "mamba2", "kv+index", "compressed", "encoder-kv")}


@examples(60)
@given(st.sampled_from([*ENGINES]), st.sampled_from([*SPECS]), LIMIT, ASKED)
def test_limits_that_are_printed_hold_when_asked(engine: str, form: str, limit: str, asked: dict[str, Any]) -> None:
    memory = {"device": {"device": DEVICES[engine][0]}, "small device": {"device": "6GiB"}, "kv_memory": {"kv_memory": "300MiB"}}[limit]
    try:
        laws.limits_hold(SPECS[form], engine=engine, **asked, **memory)
    except laws.KvplanError:
        return  # refused by name: no limit is printed


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("qwen/qwen3-embedding-4b", {"engine": "exllamav3", "device": "80GB", "context": "8k", "batch": 257}),
        ("meta-llama/llama-3.1-8b", {"engine": "ollama", "device": "h100", "context": "8k", "batch": 4}),
        ("openai/gpt-oss-20b", {"engine": "vllm", "device": "h100", "context": 131072, "batch": 2, "max_model_len": 8192}),
        ("mistralai/mistral-7b-v0.3", {"engine": "tensorrt-llm", "device": "h100", "context": 1000, "max_model_len": 8192, "dp": 2}),
        ("meta-llama/llama-3.1-8b", {"engine": "vllm", "device": "h100", "context": "8k", "dp": 2}),
        ("state-spaces/mamba2-2.7b", {"engine": "vllm", "device": "rtx-4090", "context": "8k", "batch": 4}),
    ],
)  # fmt: skip
def test_limits_that_were_wrong(name: str, asked: dict[str, Any]) -> None:
    laws.limits_hold(name, **asked)


@pytest.mark.parametrize("engine", [name for name in ENGINES if engines.facts(name).pool == "set aside"])
def test_a_release_before_all_that_were_read_is_not_known(engine: str) -> None:
    plan = planned("meta-llama/llama-3.1-8b", engine=engine, engine_version="0.0.1", device="h200")
    assert (plan.starts, plan.fits) == (None, None)
    assert "0.0.1 is not modelled: the oldest release that is, is 0." in plan.verdict


def test_a_refusal_by_rules_of_a_later_release_is_not_known_either_unless_weights_alone_are_too_many() -> None:
    """LMDeploy 0.0.6 ran Llama 2 13B on two RTX 4090 (InternLM/lmdeploy issue 394), where the rules of 0.2 find no room for the cache."""
    asked = {"engine": "lmdeploy", "engine_version": "0.0.6", "device": "rtx-4090", "dtype": "fp16"}
    assert planned("meta-llama/llama-2-13b", tp=2, **asked).starts is None
    assert planned("meta-llama/llama-2-70b", tp=2, **asked).starts is False
