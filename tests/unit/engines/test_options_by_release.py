"""An option that a plan follows, of a release that does not have it: the flags of the wheels' own parsers (engine/arg_utils.py)."""

from __future__ import annotations

import pytest

from kvplan.errors import SpecError
from tests.conftest import planned

MODEL = "meta-llama/llama-3.1-8b"


def ask(release: str, option: str, value: str) -> bool | None:
    return planned(
        MODEL, engine="vllm", engine_version=release, device="h100", context=4096, engine_option={option: value}
    ).starts  # fmt: skip


@pytest.mark.parametrize(
    ("option", "value", "without", "having"),
    [  # --kv-offloading-size came with 0.11.1, --swap-space went with 0.18; 0.22 is 0.22.0
        ("kv_offloading_size", "20", "0.8.5", "0.24"),
        ("swap_space", "8", "0.33", "0.17.1"),
        ("enable_mixed_moe_lora_format", "true", "0.21", "0.22"),
        ("async_scheduling", "true", "0.9.2", "0.10"),
    ],
)
def test_an_option_of_another_release_is_an_error(option: str, value: str, without: str, having: str) -> None:
    with pytest.raises(SpecError, match=f"vllm {without} has no --{option.replace('_', '-')}: it is there"):
        ask(without, option, value)
    assert ask(having, option, value) is True
