"""Configs as real files differ, against what transformers itself builds and keeps (tests/oracle/mutants; long runs: tools/fuzz_configs.py).

config_cases.jsonl holds mutants that were once read wrong, made small, with what transformers 5.23.0 (torch 2.13.0) built of them on the
meta device and what a forward left in its cache: `parameters` are right counts (with the buffers of a checkpoint or without; with a
head of its own where the file says untied and the class ties), `cache` is bytes by length, empty where a forward hands none back.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import KvplanError
from tests.conftest import planned, rows_of

CASES = rows_of(Path(__file__).with_name("config_cases.jsonl"))
MUTANTS = int(os.environ.get("CONFIG_MUTANTS", "50"))


def asked(config: dict[str, Any], folder: Path, tokens: int) -> tuple[int, int]:
    """Parameters and cache bytes of the answer under transformers."""
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    plan = planned(str(path), engine="transformers", engine_version="5.23.0", context=tokens, batch=1).as_dict()
    return plan["model"]["parameters"], sum(e["bytes"] for e in plan["ledgers"][0]["entries"] if e["name"].startswith("cache"))


@pytest.mark.parametrize("case", CASES, ids=[case["why"] for case in CASES])
def test_mutants_once_read_wrong(case: dict[str, Any], tmp_path: Path) -> None:
    assert asked(case["config"], tmp_path, 5)[0] in case["parameters"]
    for length, kept in case["cache"].items():
        assert asked(case["config"], tmp_path, int(length))[1] == kept


def test_gemma_3_4b_counts_are_those_of_its_release(tmp_path: Path) -> None:
    """google/gemma-3-4b-it on the hub: 4,300,079,472 parameters; five of six layers keep 1023 of 4096 tokens (4 KV heads of 256)."""
    case = next(case for case in CASES if "gemma-3-4b-it" in case["why"])
    parameters, cache = asked(case["config"], tmp_path, 4096)
    assert parameters == 4_300_079_472
    assert cache == 2 * 4 * 256 * 2 * (5 * 4096 + 29 * 1023)


@pytest.mark.filterwarnings("ignore")
def test_mutants(tmp_path: Path) -> None:
    """Fifty, over bases drawn by a fixed seed: none wrong, few refused. CONFIG_MUTANTS draws more."""
    pytest.importorskip("torch", reason="building models needs torch")
    pytest.importorskip("transformers", reason="the test-only dependency transformers is not installed")
    from tests.oracle.mutants import judge, truth

    wrong, words = [], {"right": 0, "refused": 0, "skipped": 0, "wrong": 0, "crash": 0}
    rng = random.Random("config mutants")
    with truth.quiet():
        starts = judge.starts(real=False)
        for i in range(MUTANTS):
            name, start = rng.choice(starts)
            try:
                mutant = judge.mutant(name, start, 7, 2 + i % 40)
            except Exception:  # a class default that is no config
                continue
            verdict = judge.judge(mutant.config, tmp_path)
            unknown = verdict.word == "refused" and "that kvplan knows" in verdict.why
            words["skipped" if unknown else verdict.word] += 1
            if verdict.word in ("wrong", "crash"):
                wrong.append(f"{name} {2 + i % 40} {[e.what for e in mutant.edits]}: {verdict.why}")
    assert not wrong, f"{words}\n" + "\n".join(wrong)
    assert words["right"] > MUTANTS // 3
    assert words["refused"] <= max(3, 0.05 * (words["right"] + words["refused"])), words


def test_what_is_not_a_config_is_refused_in_one_error(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="missing"):
        asked({"architectures": ["LlamaForCausalLM"], "model_type": "llama"}, tmp_path, 5)
