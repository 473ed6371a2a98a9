"""`fit` against brute force over every layout, on random models, devices and engines."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvplan
from kvplan import api
from kvplan.devices import sized
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from tests.conftest import examples, one_block

MOST = 5
MIXERS = st.sampled_from([
    {"kind": "gqa", "heads": 8, "kv_heads": 4, "head_dim": 64},
    {"kind": "mla", "heads": 8, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32},
    {"kind": "mamba2", "heads": 8, "head_dim": 16, "groups": 1, "d_state": 32, "d_conv": 4},
    {"kind": "sliding", "heads": 8, "kv_heads": 4, "head_dim": 32, "window": 512},
])  # fmt: skip
MLPS = st.sampled_from([None, {"kind": "moe", "experts": 8, "experts_per_token": 2, "intermediate_size": 64}])
DTYPES = st.sampled_from(["bf16", "f32"])


def model(mixer: dict[str, Any], n_layers: int, mlp: dict[str, Any] | None, dtype: str) -> Any:
    blocks = {"block": {"mixers": [mixer], "mlps": [mlp] if mlp else []}}
    return one_block(None, n_layers, blocks=blocks, dtype=dtype)


Found = tuple[int, int, int, bool]


def brute_force(spec: Any, device: Any, question: dict[str, Any]) -> dict[int, dict[Found, Any]]:
    """Devices -> the plan of every layout of so many that fits, by tp, pp, dp and whether experts are dealt out whole."""
    found: dict[int, dict[Found, Any]] = {}
    for tp, pp, dp, whole_experts in product(range(1, MOST + 1), range(1, MOST + 1), range(1, MOST + 1), (False, True)):
        if tp * pp * dp > MOST:
            continue
        ep = {"ep": tp * dp} if whole_experts else {}
        try:
            plan = evaluate(api.deployment(spec, device=device, tp=tp, pp=pp, dp=dp, **ep, **question))  # whole: nothing is left in RAM
        except KvplanError:
            continue
        if plan.fits:
            found.setdefault(tp * pp * dp, {})[tp, pp, dp, whole_experts] = plan
    return found


def check(spec: Any, device: Any, question: dict[str, Any]) -> None:
    plans = brute_force(spec, device, question)
    (found,) = kvplan.fit(spec, devices=[device], most=MOST, every_layout=True, **question)
    assert found.n_devices == min(plans, default=None)
    if found.plan is None:
        assert found.reason
    else:
        assert found.plan.fits
        assert found.plan.question["n_devices"][0] == found.n_devices
        best = max(plan.margin_bytes for plan in plans[found.n_devices].values())
        assert found.plan.margin_bytes == best
    if question["engine"] in ("llama.cpp", "transformers"):
        return  # they place whole layers: any number of devices is as good
    usual = {n: {sizes: plan for sizes, plan in of_n.items() if common(*sizes[:3], question["batch"])} for n, of_n in plans.items()}
    (found,) = kvplan.fit(spec, devices=[device], most=MOST, **question)
    assert found.n_devices == min((n for n, of_n in usual.items() if of_n), default=None)
    if found.plan is not None:
        order = sorted(usual[found.n_devices], key=lambda s: (usual[found.n_devices][s].certainty == "too close to call", s[1], s[2], s[3]))
        tp, pp, dp = (found.plan.question[name][0] for name in ("tp", "pp", "dp"))
        assert (tp, pp, dp) == order[0][:3]


def common(tp: int, pp: int, dp: int, batch: int) -> bool:
    """By hand for the models above: 8 heads, 4 of K and V, and up to 4 devices, which are all in one machine."""
    return tp in (1, 2, 4) and pp in (1, 2, 4) and dp in (1, 2, 4) and dp <= batch


@examples(40)
@given(MIXERS, MLPS, DTYPES, st.integers(1, 12), st.integers(1, 40_000), st.integers(1, 30), st.integers(1 << 18, 1 << 26))
def test_fit_is_brute_force(mixer, mlp, dtype, n_layers, context, batch, memory):
    check(model(mixer, n_layers, mlp, dtype), sized(memory), {"context": context, "batch": batch, "engine": "ideal"})


@examples(60)
@given(
    st.sampled_from(["vllm", "sglang", "tensorrt-llm", "llama.cpp", "transformers"]), MIXERS, MLPS, DTYPES, st.integers(1, 12),
    st.integers(1, 40_000), st.integers(1, 30), st.integers(1 << 24, 1 << 32),
)  # fmt: skip
def test_fit_is_brute_force_for_engines(engine, mixer, mlp, dtype, n_layers, context, batch, memory):
    question = {"context": context, "batch": batch, "engine": engine, "calibration": "none"}
    check(model(mixer, n_layers, mlp, dtype), sized(memory), question)


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("deepseek-ai/deepseek-v3", {"engine": "vllm", "context": "8k", "batch": 8}),
        ("deepseek-ai/deepseek-v3.2", {"engine": "sglang", "context": "32k", "batch": 64}),
        ("meta-llama/llama-3.1-70b", {"engine": "vllm", "context": "32k", "batch": 8}),
        ("google/gemma-3-27b", {"engine": "llama.cpp", "context": "128k", "batch": 4}),
        ("openai/gpt-oss-120b", {"engine": "sglang", "context": "32k", "batch": 16}),
    ],
)
def test_one_device_less_carries_it_in_no_layout(name, question):
    """On real devices; the layouts are tried here one by one."""
    for found in kvplan.fit(name, devices=["h200", "h100"], most=16, every_layout=True, **question):
        assert found.plan is not None
        fewer = found.n_devices - 1
        layouts = [(tp, pp, fewer // tp // pp) for tp in range(1, fewer + 1) for pp in range(1, fewer + 1) if fewer % (tp * pp) == 0]
        for (tp, pp, dp), whole_experts in product(layouts, (False, True)):
            ep = {"ep": tp * dp} if whole_experts else {}
            try:
                plan = evaluate(api.deployment(name, device=found.device, tp=tp, pp=pp, dp=dp, **ep, **question))
            except KvplanError:
                continue
            assert not plan.fits, (tp, pp, dp, ep)


def test_the_search_can_be_wrong():
    """The brute force above is a different walk: with a search that starts too late, it would see it."""
    from kvplan.planner import fit as planner

    spec = model({"kind": "gqa", "heads": 8, "kv_heads": 4, "head_dim": 64}, 4, None, "bf16")
    question = {"context": 100, "batch": 1, "engine": "ideal"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "_least_bytes", lambda d: 1 << 26)
        with pytest.raises(AssertionError):
            check(spec, sized(1 << 25), question)
    check(spec, sized(1 << 25), question)
