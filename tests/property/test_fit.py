"""`fit` against brute force over every layout, on random models and devices."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

import kvplan
from kvplan.devices import sized
from kvplan.errors import KvplanError
from tests.conftest import one_block

MOST = 5
MIXERS = st.sampled_from(
    [
        {"kind": "gqa", "heads": 8, "kv_heads": 4, "head_dim": 64},
        {"kind": "mla", "heads": 8, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32},
        {"kind": "mamba2", "heads": 8, "head_dim": 16, "groups": 1, "d_state": 32, "d_conv": 4},
        {"kind": "sliding", "heads": 8, "kv_heads": 4, "head_dim": 32, "window": 512},
    ]
)


@settings(max_examples=40, deadline=None)
@given(MIXERS, st.integers(1, 12), st.integers(1, 40_000), st.integers(1, 30), st.integers(1 << 18, 1 << 26))
def test_fit_is_brute_force(mixer, n_layers, context, batch, memory):
    spec, device = one_block(mixer, n_layers), sized(memory)
    question = {"context": context, "batch": batch, "engine": "ideal"}
    margins: dict[int, list[int]] = {}
    for tp, pp, dp in product(range(1, MOST + 1), repeat=3):
        if tp * pp * dp > MOST:
            continue
        try:
            plan = kvplan.estimate(spec, device=device, tp=tp, pp=pp, dp=dp, **question)
        except KvplanError:
            continue
        if plan.fits:
            margins.setdefault(tp * pp * dp, []).append(plan.margin_bytes)
    (found,) = kvplan.fit(spec, devices=[device], most=MOST, **question)
    assert found.n_devices == min(margins, default=None)
    if found.plan is None:
        assert found.reason
    else:
        assert found.plan.fits
        assert found.plan.margin_bytes == max(margins[found.n_devices])
