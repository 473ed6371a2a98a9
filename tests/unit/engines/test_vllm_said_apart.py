"""What vLLM's commands say of layers, states and lengths apart from the rest, and what a connector does to the hybrid manager."""

from __future__ import annotations

import json

import pytest

from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.vllm.arguments import ARGUMENTS
from tests.conftest import planned

NIXL, EXAMPLE = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}, {"kv_connector": "ExampleConnector", "kv_role": "kv_both"}
BOTH = {"kv_connector": "MultiConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"connectors": [NIXL, EXAMPLE]}}


def _hybrid_off(version: str, *argv: str) -> tuple[bool, bool]:
    """Whether a command line turns the hybrid manager off, and whether it stops."""
    answer = read(ARGUMENTS, words("--model", "google/gemma-3-27b-it", *argv), {}, version)
    asked = answer.question.get("engine_option.disable_hybrid_kv_cache_manager")
    return asked is not None and asked.value is True, any(one.severity == "error" for one in answer.findings)


@pytest.mark.parametrize(("config", "asked", "version", "off", "stops"), [
    (NIXL, None, "0.10.2", True, False), (NIXL, False, "0.12", True, False), (NIXL, False, "0.13", False, False),
    (NIXL, None, "0.21", True, False), (NIXL, None, "0.22", False, False), (EXAMPLE, None, "0.22", True, False),
    (EXAMPLE, False, "0.33", False, True), (BOTH, None, "0.33", True, False),
])  # fmt: skip
def test_a_connector_that_knows_one_group(config: object, asked: bool | None, version: str, off: bool, stops: bool) -> None:
    """config/__init__.py of 0.10.2 and 0.11.0, config/vllm.py of 0.12 to 0.33 (__post_init__), kv_connector/factory.py create_connector."""
    argv = () if asked is None else ("--no-disable-hybrid-kv-cache-manager",)
    assert _hybrid_off(version, "--kv-transfer-config", json.dumps(config), *argv) == (off, stops)


@pytest.mark.parametrize(("version", "argv", "off", "stops"), [
    ("0.12", (), True, False), ("0.19.1", (), True, False), ("0.20", (), False, False), ("0.12", ("--no-",), True, False),
    ("0.16", ("--no-",), False, True), ("0.20", ("--no-",), False, False),
])  # fmt: skip
def test_events_of_the_cache_turn_the_hybrid_manager_off(version: str, argv: tuple[str, ...], off: bool, stops: bool) -> None:
    """config/vllm.py __post_init__ of 0.12 to 0.19.1: kv_events_config is not None."""
    asked = [f"{one}disable-hybrid-kv-cache-manager" for one in argv]
    assert _hybrid_off(version, "--kv-events-config", '{"enable_kv_cache_events": true}', *asked) == (off, stops)


@pytest.mark.parametrize(("config", "version", "stops"), [
    ({}, "0.21", True), ({}, "0.22", True), (NIXL, "0.22", False), ({"kv_role": "kv_both"}, "0.33", True),
    ({**NIXL, "kv_role": None}, "0.33", True),
])  # fmt: skip
def test_a_config_of_connectors_without_one(config: object, version: str, stops: bool) -> None:
    """distributed/kv_transfer/kv_connector/utils.py get_kv_connector_cache_layout, from 0.22 on config/vllm.py."""
    assert _hybrid_off(version, "--kv-transfer-config", json.dumps(config))[1] is stops


def test_layers_left_out_of_a_format_are_words() -> None:
    argv = words("--model", "google/gemma-3-27b-it", "--kv-cache-dtype-skip-layers", "0", "1", "sliding_window")
    asked = read(ARGUMENTS, argv, {}, "0.33.0").question["engine_option.kv_cache_dtype_skip_layers"]
    assert asked.value == "0,1,sliding_window"
    said, keys = ARGUMENTS.say({"option:kv_cache_dtype_skip_layers": "0,1"})
    assert said["@skipped"] == ["0", "1"]
    assert "option:kv_cache_dtype_skip_layers" in keys


@pytest.mark.parametrize("version", ["0.17", "0.33"])
def test_a_config_without_a_length_is_one_of_2048_tokens(version: str) -> None:
    """config/model.py _get_and_verify_max_len; of medgemma-27b-text nobody read the config."""
    plan = planned("bigscience/bloom-7b1", engine="vllm", engine_version=version, device="h100")
    assert plan.question["max_model_len"] == (2048, "engine default")
    assert any("states no maximum length" in note for note in plan.model.notes)
    fitted = planned("bigscience/bloom-7b1", engine="vllm", engine_version=version, device="h100", engine_option={"auto_fit": "true"})
    assert fitted.starts is False
    assert "max_model_len must be a positive integer" in fitted.verdict


def test_scales_that_promoted_layers_lose() -> None:
    """v1/core/kv_cache_utils.py unify_hybrid_kv_cache_specs: 52 windows and 10 full layers of 16 heads of 128."""

    def block(version: str) -> int:
        plan = planned(
            "google/gemma-3-27b-it", engine="vllm", engine_version=version, device="h100", max_model_len=8192, kv_memory=1 << 34,
            kv_dtype="fp8_per_token_head", engine_option={"disable_hybrid_kv_cache_manager": "true"},
        )  # fmt: skip
        assert plan.capacity is not None
        return plan.capacity.bytes_per_block or 0

    rows, scales = 16 * 16 * 2 * 128, 16 * 16 * 2 * 4
    assert block("0.20.1") == 62 * rows + 10 * scales
    assert block("0.21") == 62 * (rows + scales)
