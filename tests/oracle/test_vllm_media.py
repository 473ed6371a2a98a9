"""The items that vLLM's profile run encodes, against its own `MultiModalBudget`: rows/vllm_media.jsonl, rows/README.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kvplan
from kvplan.catalogue import find_model
from kvplan.deployment import Deployment
from kvplan.engines.vllm.encoders import items, tower_of
from kvplan.engines.vllm.media import media
from kvplan.engines.vllm.settle import settle
from kvplan.errors import SpecError
from tests.conftest import planned, rows_of

ROWS = rows_of(Path(__file__).parent / "rows" / "vllm_media.jsonl")


def asked(row: dict[str, Any]) -> Deployment:
    options = (("limit_mm_per_prompt", row["limits"]), ("mm_processor_kwargs", row["max_pixels"] and {"max_pixels": row["max_pixels"]}))
    sizes = {name: row[name] for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens")}
    return Deployment(
        model=find_model(row["model"]), engine="vllm", engine_version="0.32", kv_memory=8 << 30, context=1024,
        engine_option=tuple((name, json.dumps(value)) for name, value in options if value), **sizes,
    )  # fmt: skip


@pytest.mark.parametrize("model", sorted({row["model"] for row in ROWS}))
def test_the_engines_own_budget(model: str) -> None:
    wrong = []
    for row in (row for row in ROWS if row["model"] == model):
        d = asked(row)
        tower, s, said = tower_of(d), settle(d).settings, media(d)
        tokens, kind = tower.largest(s, said) if tower else (0, "")
        found = (tokens, items(tokens, said.limits.get(kind), s)) if tokens else (0, 0)
        if found != (row["tokens"], row["items"]):
            wrong.append((row, found))
    assert not wrong, f"{len(wrong)} wrong, of them {wrong[0]}"


def activations(model: str, limits: str | None = None, pixels: int | None = None, version: str = "0.32", **question: Any) -> float:
    """GiB of the profile run's activations and what it holds beside them."""
    options = {"limit_mm_per_prompt": limits, "mm_processor_kwargs": pixels and json.dumps({"max_pixels": pixels})}
    plan = planned(
        model, engine="vllm", engine_version=version, device="h100", max_model_len=120000, context=1024,
        engine_option={name: value for name, value in options.items() if value}, **question,
    )  # fmt: skip
    return sum(e.bytes for e in plan.ledgers[0].entries if e.name == "activations") / 2**30


def test_without_videos_the_largest_item_is_an_image() -> None:
    """Qwen2.5-VL: a video of 14 frames is seven images' tokens, and what its tower holds falls with it."""
    whole, still = activations("qwen/qwen2.5-vl-7b"), activations("qwen/qwen2.5-vl-7b", '{"video": 0}')
    assert 5 < whole / still < 7.5
    assert activations("qwen/qwen2.5-vl-7b", '{"video": 0}', 1003520) < still
    assert activations("qwen/qwen2.5-vl-7b", "image=4,video=0", version="0.9.0") == activations(
        "qwen/qwen2.5-vl-7b", "video=0", version="0.9.0"
    )


def test_nothing_beside_text_is_no_tower() -> None:
    for model, limits in (("qwen/qwen3-vl-8b", '{"image": 0, "video": 0}'), ("google/gemma-3-27b", '{"image": 0}')):
        assert activations(model, limits) == activations(model, multimodal="off") < activations(model)
    assert activations("qwen/qwen3-vl-8b", '{"image": 0}') > activations("qwen/qwen3-vl-8b", multimodal="off")


@pytest.mark.parametrize("text", ["images", '{"image": -1}', "[1]", "{}", '{"image": {"count": "x"}}'])
def test_limits_that_vllm_would_not_read(text: str) -> None:
    with pytest.raises(SpecError, match="write it as vLLM takes it"):
        activations("qwen/qwen3-vl-8b", text)


def check(words: str, tmp_path: Path, model: str = "Qwen/Qwen2.5-VL-7B-Instruct") -> kvplan.Verdict:
    script = tmp_path / "run.sh"
    script.write_text(f"vllm serve {model} --max-model-len 65536 {words}\n")
    return kvplan.check(script, device="l40s")[0]


def test_commands_bring_their_limits(tmp_path: Path) -> None:
    whole, still, none = (
        check(words, tmp_path).plan
        for words in ("", """--limit-mm-per-prompt '{"image": 2, "video": 0}'""", """--limit-mm-per-prompt '{"image": 0, "video": 0}'""")
    )
    held = [plan.capacity.kv_bytes if plan and plan.capacity else 0 for plan in (whole, still, none)]
    assert held[0] < held[1] < held[2]
    small = check("""--mm-processor-kwargs '{"max_pixels": 1003520, "fps": 1}'""", tmp_path)
    assert small.plan
    assert small.plan.capacity
    assert small.plan.capacity.kv_bytes > held[1]
    assert "not-modelled-either" not in {finding.rule for finding in small.findings}
    other = check("""--mm-processor-kwargs '{"max_dynamic_patch": 4}'""", tmp_path).findings
    assert any(finding.rule == "not-modelled-either" and "max_dynamic_patch" in finding.message for finding in other)
