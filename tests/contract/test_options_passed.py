"""Every option of an engine's table that moves memory and that no line follows can be asked about, and is said with its direction."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan import engines
from kvplan.engines.common.arguments import Argument
from kvplan.engines.common.passed import find
from kvplan.errors import SpecError
from tests.conftest import planned

LLAMA = "meta-llama/llama-3.1-8b"
VALUES = {"int": "3", "human": "3", "float": "0.5", "json": "{}", "truth": "1", "c_int": "3", "on_off_auto": "on"}


def key_of(row: Argument) -> str:
    long = next((name for name in row.names if name.startswith("--")), row.names[0] if row.names else "")
    return long.lstrip("-").replace("-", "_")


def value_of(row: Argument) -> str:
    return "true" if row.takes in ("flag", "switch") else VALUES.get(row.kind, "x")


@pytest.mark.parametrize("engine", engines.served())
def test_every_option_that_is_not_modelled_is_told_by_its_direction(engine: str) -> None:
    table = engines.arguments(engine)
    rows = [row for row in table.rows if row.effect and any(name.startswith("--") for name in row.names)]
    others = {name for row in table.rows if row.to[:1] not in ("", "!") for name in row.names}
    for row in rows:
        if set(row.names) & others:  # of another release
            continue
        found = find(table, key_of(row), value_of(row), row.until or None)
        assert row.effect in {one.effect for one in found}, row.names


def ask(device: str = "h100", version: str | None = None, model: str = LLAMA, **options: str) -> Any:
    return planned(
        model, engine="vllm", engine_version=version, device=device, context=4096, engine_option=options,
    )  # fmt: skip


def test_what_may_turn_an_answer_makes_it_less_sure() -> None:
    """DBO's buffers raise memory, expert offloading lowers it, a kernel's choice may do either, a parser nothing."""
    plain = ask()
    assert plain.certainty == "certain"
    more, nothing = ask(enable_dbo="true"), ask(tool_call_parser="hermes")
    either = ask(model="qwen/qwen3-30b-a3b", moe_backend="triton")
    assert (more.certainty, either.certainty, nothing.certainty) == ("too close to call", "likely", "certain")
    assert "not computed: --enable-dbo takes more memory in a way that is not modelled" in more.model.notes
    assert "not computed: --moe-backend changes memory in a way that is not modelled" in either.model.notes
    assert "--tool-call-parser is taken to move no memory" in nothing.model.notes
    assert "--moe-backend is taken to move no memory" in ask(moe_backend="triton").model.notes  # of a model without experts
    assert more.outcome.capacity == plain.outcome.capacity
    assert ask(enable_dbo="false").certainty == "certain"


def test_hisparse_is_never_sure_to_start() -> None:
    """It keeps rows in host memory, and two public starts ran out of memory with it (tests/threads, dg-glm52)."""
    asked = {"engine": "sglang", "engine_version": "0.5.23", "device": "h200", "tp": 8, "context": 8192}
    without = {"disable_radix_cache": "true"}  # which it wants beside it (server_args.py)
    options = (without, {**without, "enable_hisparse": "true"}, {"enable_hisparse": "true"})
    plain, sparse, alone = (planned("zai-org/glm-5.2-fp8", engine_option=one, **asked) for one in options)
    assert (alone.starts, "requires --disable-radix-cache" in alone.verdict) == (False, True)
    assert plain.starts
    assert sparse.starts
    assert plain.certainty != sparse.certainty == "too close to call"
    assert any("--enable-hisparse takes more memory in a way that is not modelled" in note for note in sparse.model.notes)


def test_what_lowers_memory_leaves_a_refusal_open() -> None:
    """A card of 12 GB for 15 GiB of weights: surely not, unless weights stay elsewhere."""
    small = {"device": "rtx-3060"}
    assert ask(**small).certainty == "certain"
    assert ask(**small, enable_dbo="true").certainty == "certain"
    assert ask(**small, cpu_offload_params="x").certainty == "too close to call"
    assert ask(**small, model="qwen/qwen3-30b-a3b", moe_backend="triton").certainty == "likely"
    assert ask(cpu_offload_params="x").certainty == "certain"


@pytest.mark.parametrize(
    ("options", "version"),
    [
        ({"moe_backend": "triton"}, "0.10.0"),
        ({"enable_dbo": "perhaps"}, None),
        ({"max_num_active_seqs": "many"}, None),
        ({"moe_backends": "x"}, None),
    ],
)
def test_what_the_engine_would_not_take_is_an_error(options: dict[str, str], version: str | None) -> None:
    with pytest.raises(SpecError):
        ask(version=version, **options)


def test_it_is_written_back() -> None:
    options = {"enable_dbo": "true", "moe_backend": "triton", "sparse_indexer_max_logits_mb": "256"}
    text = kvplan.emit(LLAMA, "vllm", engine="vllm", device="h100", max_model_len=4096, engine_option=options)
    assert "--enable-dbo" in text
    assert "--moe-backend triton" in text
    assert "VLLM_SPARSE_INDEXER_MAX_LOGITS_MB=256" in text
