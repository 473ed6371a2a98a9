"""Where vLLM's releases begin to refuse numbers, keys and pairs of options: Field(ge=...) and extra="forbid" in their config."""

from __future__ import annotations

import pytest

from kvplan.engines.common.command_line import read
from kvplan.engines.common.words import words
from kvplan.engines.vllm.arguments import ARGUMENTS

TORN = """{"kv_connector": "NixlConnector"}"""


def severities(version: str | None, *told: str) -> set[str]:
    """Of the findings that are no note on memory."""
    found = read(ARGUMENTS, words("--model", "m/x", *told), {}, version).findings
    return {one.severity for one in found if not one.rule.startswith("not-modelled")}


@pytest.mark.parametrize(
    ("told", "taken", "refused"),
    [
        (("--stream-interval", "1"), "0.33.0", ""),
        (("--stream-interval", "0"), "", "0.11.1"),
        (("--watermark", "1"), "", "0.24.0"),
        (("--ubatch-size", "-1"), "0.22.0", "0.23.0"),
        (("--kv-transfer-config", TORN), "", "0.33.0"),
        (("--enable-dbo",), "", "0.32.0"),
        (("--enable-dbo", "--all2all-backend", "deepep_low_latency"), "0.33.0", ""),
        (("--enable-dbo", "--all2all-backend", "nixl_ep"), "0.24.0", "0.23.0"),
        (("--quantization", "gguf"), "0.23.0", "0.24.0"),
        (("--quantization", "fp4"), "0.17.0", "0.16.0"),
        (("--kv-cache-dtype", "FP8"), "", "0.33.0"),
        (("--enable-lora", "--max-cpu-loras", "0"), "0.33.0", ""),
        (("--api-server-count", "0"), "0.33.0", ""),
        (("--compilation-config", '{"level": 3}'), "0.17.1", "0.18.0"),
        (("--compilation-config", "3"), "", "0.33.0"),
        (("--kv-sharing-fast-prefill", "--spec-method", "mtp", "--spec-tokens", "1"), "", "0.33.0"),
    ],
)
def test_which_release_refuses(told: tuple[str, ...], taken: str, refused: str) -> None:
    if taken:
        assert "error" not in severities(taken, *told)
    if refused:
        assert "error" in severities(refused, *told)


@pytest.mark.parametrize(("version", "of"), [("0.26.0", set()), ("0.27.0", {"decoder"})])
def test_prefills_longer_than_requests_stop_decoders_alone(version: str, of: set[str]) -> None:
    told = ("--long-prefill-token-threshold", "9000", "--max-model-len", "8192")
    assert {kind for kind, _ in read(ARGUMENTS, words("--model", "m/x", *told), {}, version).by_kind} == of


@pytest.mark.parametrize(("version", "severity"), [("0.15.0", "warning"), ("0.16.0", "error"), (None, "warning")])
def test_a_key_that_a_release_has_not(version: str | None, severity: str) -> None:
    """Up to 0.15 in silence; without a release nothing is sure."""
    assert severities(version, "--kv-events-config", '{"nope": 1}') == {severity}


@pytest.mark.parametrize(
    ("told", "of"), [((), {"media"}), (("--mm-processor-cache-gb", "4"), {"media"}), (("--mm-processor-cache-gb", "0"), set[str]())]
)
def test_renderers_beside_a_cache_of_media(told: tuple[str, ...], of: set[str]) -> None:
    """config/model.py of 0.19 to 0.26: renderer_num_workers > 1 and mm_processor_cache_gb > 0 stop, whether or not the size is said."""
    words_ = words("--model", "m/x", "--renderer-num-workers", "2", *told)
    assert {kind for kind, _ in read(ARGUMENTS, words_, {}, "0.21.0").by_kind} == of


@pytest.mark.parametrize(
    ("told", "version", "value", "severity"),
    [
        (("--enable-chunked-prefill=False",), "0.7.3", False, set[str]()),
        (("--enable-chunked-prefill", "false"), "0.8.4", False, set[str]()),
        (("--enable-chunked-prefill", "true"), "0.8.4", True, set[str]()),
        (("--enable-chunked-prefill",), "0.7.3", True, set[str]()),
        (("--enable-chunked-prefill=False",), "0.8.5", True, {"error"}),
        (("--enable-chunked-prefill=false",), None, False, {"warning"}),
        (("--enable-prefix-caching=true",), "0.7.3", None, {"error"}),
    ],
)
def test_truths_behind_a_switch(told: tuple[str, ...], version: str | None, value: bool | None, severity: set[str]) -> None:
    """engine/arg_utils.py: StoreBoolean, nargs="?", up to 0.8.4; argparse's actions of no argument stop at an explicit one."""
    parsed = read(ARGUMENTS, words("--model", "m/x", *told), {}, version)
    given = parsed.question.get("engine_option.enable_chunked_prefill")
    assert (given.value if given else None) is value
    assert {one.severity for one in parsed.findings} == severity
