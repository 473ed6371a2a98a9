"""Inkling under SGLang. Expected: sglang 0.5.16 to 0.5.23, whose code is named beside each; sizes by hand from the published config:
66 layers of 6144, 11 of them full with 8 KV heads of 128 and 55 with a window and 16, four convolutions of 4 taps a layer."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from kvplan.engines.sglang.inkling import modules
from kvplan.errors import UnsupportedError
from kvplan.planner.plan import Plan
from kvplan.spec import lower
from kvplan.tensors import CacheFormats
from tests.conftest import asked, planned

FULL, LOCAL = 8 * 2 * 128, 16 * 2 * 128  # elements of K and V of a token in one layer
#: configs/inkling.py mamba2_cache_params: 3 inputs of K's and V's convolutions in full and in window layers, and of both streams, in bf16.
SLOT = 3 * (2 * 8 * 128 + 2 * 16 * 128 + 2 * 6144) * 2


def served(release: str = "0.5.23", model: str = "thinkingmachines/inkling", **more: Any) -> Plan:
    options = {"max_mamba_cache_size": "100", **more.pop("options", {})}
    question = {"device": "b300", "tp": 1, "kv_memory": 64 << 30, "context": 4096, "memory_fraction": 0.8, "engine_option": options, **more}
    return planned(model, engine="sglang", engine_version=release, **question)


def entry(plan: Plan, name: str) -> int:
    return next(e.bytes for e in plan.ledgers[0].entries if e.name == name)


def test_states_of_every_layer_stand_beside_a_full_and_a_window_pool_of_a_tenth() -> None:
    """Slots and one more of padding; the rest at 11 full layers and a tenth of 55 with windows, in pages of 128 that fa4 has."""
    plan = served()
    assert plan.capacity is not None
    assert entry(plan, "cache: state pool") == 101 * 66 * SLOT
    share = plan.capacity.groups
    assert {group.role for group in share} == {"full", "window", "state"}
    tokens = plan.capacity.tokens or 0
    assert tokens == int(((64 << 30) - 101 * 66 * SLOT) // (11 * FULL * 2 + 0.1 * 55 * LOCAL * 2)) // 128 * 128
    assert next(group.cells for group in share if group.role == "window") == int(tokens * 0.1) // 128 * 128


@pytest.mark.parametrize(
    ("release", "device", "backend"),
    [("0.5.16", "b200", "fa4"), ("0.5.21", "h200", "triton"), ("0.5.22", "h200", "fa4"), ("0.5.23", "gb10", "triton")],
)
def test_backends_are_the_classs_own(release: str, device: str, backend: str) -> None:
    """arg_groups/model_overrides/inkling.py."""
    plan = served(release, "thinkingmachines/inkling-small", device=device, kv_memory=16 << 30)
    assert any(f"attention_backend {backend}" in note for note in plan.model.notes)


@pytest.mark.parametrize(("release", "taken"), [("0.5.19", "0.1"), ("0.5.20", "0.8")])
def test_the_usual_share_is_taken_for_none_asked_up_to_0519(release: str, taken: str) -> None:
    """arg_groups/overrides.py: ServerArgs.swa_full_tokens_ratio == 0.8; None from 0.5.20 on."""
    plan = served(release, options={"swa_full_tokens_ratio": "0.8"})
    window = next(group.cells for group in plan.capacity.groups if group.role == "window")  # type: ignore[union-attr]
    assert window == int((plan.capacity.tokens or 0) * float(taken)) // 128 * 128  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"disable_radix_cache": "true"}, "assert not server_args.disable_radix_cache"),
        ({"disable_hybrid_swa_memory": "true"}, "assert not server_args.disable_hybrid_swa_memory"),
        ({"mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": "true", "attention_backend": "triton"}, "extra_buffer"),
        ({"attention_backend": "trtllm_mha"}, "server_args.attention_backend in ('fa4', 'triton')"),
        ({"decode_attention_backend": "trtllm_mha"}, "server_args.attention_backend in ('fa4', 'triton')"),
    ],
)
def test_what_the_class_asserts(options: dict[str, str], words: str) -> None:
    plan = served(options=options)
    assert not plan.fits
    assert words in plan.verdict


def test_a_step_of_drafts_wants_a_module_of_its_own() -> None:
    """speculative/draft_utils.py _assert_draft_needs_no_conv_sidecar."""
    plan = served(speculative="mtp:3")
    assert "--enable-multi-layer-eagle" in plan.verdict
    assert not plan.fits


@pytest.mark.parametrize(("model", "elements"), [("inkling", 5_260_445_704), ("inkling-small", 2_231_912_456)])
def test_the_modules_make_the_hubs_count(model: str, elements: int) -> None:
    """The Hub's counts, 952,377,623,626 and 265,956,439,090, less those of copies without the modules (catalogue's notes)."""
    d = asked(f"thinkingmachines/{model}", engine="sglang")
    made = modules(d, lower(d.model, CacheFormats("bf16", "bf16", "bf16", "bf16", "f32")))
    assert sum(prod(w.shape) for layer in made for w in layer.weights) == elements


@pytest.mark.parametrize(("release", "charged"), [("0.5.19", 0), ("0.5.20", 2 * FULL * 2 + 6 * LOCAL * 2)])
def test_a_token_is_charged_for_all_modules_from_0520_on(release: str, charged: int) -> None:
    """pool_configurator.py HybridSWAPoolConfigurator; three modules are then loaded, of whose pools the second has no window."""
    plan = served(release, speculative="mtp:3", options={"enable_multi_layer_eagle": "true"})
    assert plan.capacity is not None
    tokens, copies = plan.capacity.tokens or 0, (100 // 5 + 1) * 4  # of the inputs: 4 of each of 20 requests that 100 slots serve, and one
    cell = 11 * FULL * 2 + 0.1 * 55 * LOCAL * 2 + charged
    assert tokens == int(((64 << 30) - (101 + copies) * 66 * SLOT) // cell) // 128 * 128
    assert entry(plan, "cache: drafter") == (tokens + 128) * (FULL + 2 * LOCAL) * 2 + 101 * 3 * SLOT


def test_what_is_not_modelled_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="one pool"):
        served(options={"enable_unified_memory": "true"})
    before = served("0.5.12")
    assert not before.starts
    assert "['InklingForConditionalGeneration'] are not supported for now. (its first release is 0.5.16)" in before.outcome.reason
