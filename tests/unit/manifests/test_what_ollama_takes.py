"""What Ollama makes of values and parameters that it can not read: envconfig/config.go, parser/parser.go, api/types.go of 0.33."""

from __future__ import annotations

import pytest

from kvplan import api
from kvplan.manifests import Source, Verdict


def checked(text: str, name: str = "serve.sh") -> Verdict:
    (verdict,) = api.check([Source(name, text)], device="rtx-4090")
    return verdict


def test_a_length_that_is_no_number_is_as_none() -> None:
    """Uint: `invalid environment variable, using default`; with 24 GB that is 32,768 from 0.15.5 on."""
    verdict = checked("OLLAMA_CONTEXT_LENGTH=64k ollama serve &\nollama run llama3.1:8b")
    assert verdict.status == "fits"
    assert verdict.plan is not None
    assert verdict.plan.question["max_model_len"][0] == 32768
    assert "no-effect" in [f.rule for f in verdict.findings]


def test_a_switch_that_is_no_truth_is_on() -> None:
    """BoolWithDefault: where strconv.ParseBool fails it is true, so that a quantised cache is kept."""
    verdict = checked("OLLAMA_FLASH_ATTENTION=maybe OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve &\nollama run llama3.1:8b")
    assert verdict.status == "fits"


@pytest.mark.parametrize(
    ("parameter", "status", "rules"),
    [
        ("numctx 32768", "refuses", ["unknown-option"]),  # FormatParams: unknown parameter 'numctx'
        ("num_ctx 32k", "refuses", ["bad-value"]),  # invalid int value
        ("low_vram true", "fits", []),  # deprecatedParameters
        ("num_gqa 8", "fits", ["unknown-option"]),
    ],
)
def test_parameters(parameter: str, status: str, rules: list[str]) -> None:
    verdict = checked(f"FROM llama3.1:8b\nPARAMETER {parameter}", "Modelfile")
    assert verdict.status == status
    assert [f.rule for f in verdict.findings if f.severity != "note"] == rules
