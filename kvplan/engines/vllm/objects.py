"""vLLM's options that are JSON objects, as names of a question, and back: --compilation-config and --eplb-config (config/*.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kvplan.engines.common.arguments import RELEASE, counted, moved
from kvplan.engines.common.kinds import counts
from kvplan.engines.common.words import Finding, Given, refuse, warn
from kvplan.engines.vllm.keys import OBJECTS
from kvplan.units import spelled

#: Keys of --eplb-config that move memory -> the engine options that they are.
EPLB = {"num_redundant_experts": "num_redundant_experts", "window_size": "eplb_window_size"}
#: Modes that have a number of their own, which stands for them, too (config/compilation.py CUDAGraphMode).
MODES = ("NONE", "PIECEWISE", "FULL")
#: Keys of --compilation-config that say which CUDA graphs are captured.
GRAPHS = ("cudagraph_mode", "cudagraph_capture_sizes", "max_cudagraph_capture_size")
_ALONE = {"@redundant": "num_redundant_experts", "@eplb_window": "eplb_window_size", "@captured_most": "max_cudagraph_capture_size"}
_LISTS = {"@captured": "cudagraph_capture_sizes", "@captured_early": "cuda_graph_sizes"}


def keys(to: str, option: str, given: Mapping[str, Given]) -> Any:
    """The object of an option with its keys as the release reads them: what stands behind the dot of `--a-b.c-d 1` stays as it is typed
    (utils/argparse_utils.py), and only EngineArgs.create_speculative_config spells it with `_`, from 0.26 on."""
    one = given.get(to)
    if one is None or not isinstance(one.value, dict):
        return one.value if one else None
    asked = str(given[RELEASE].value) if RELEASE in given else None
    return {spelled: value for key, value in one.value.items() if "-" not in (spelled := OBJECTS[option].spelled(key, asked))}


def read(given: Mapping[str, Given], question: dict[str, Given]) -> list[Finding]:
    """What they and the options that stand for one of their keys say."""
    findings = list[Finding]()
    _compilation(given, keys("@compilation", "--compilation-config", given), question)
    eager = "enforce_eager" in question and question["enforce_eager"].value
    for to, option in _ALONE.items():
        if to in given and not (to == "@captured_most" and eager and given[to].value == 0):  # 0: none, which is what runs without graphs
            question[f"engine_option.{option}"] = given[to]
    for to, option in _LISTS.items():
        if one := given.get(to):
            findings += counted(one, question, option)
    if (one := given.get("@engram")) and isinstance(one.value, dict) and isinstance(away := one.value.get("cpu_offload"), bool):
        question["engine_option.engram_cpu_offload"] = moved(one, away)
    kernels = given.get("!--kernel-config")
    if kernels and isinstance(kernels.value, dict) and (experts := kernels.value.get("moe_backend", "auto")) != "auto":
        question.setdefault("engine_option.moe_backend", moved(kernels, str(experts).lower().replace("-", "_")))
    if one := given.get("@attention"):
        said = dict(keys("@attention", "--attention-config", given) or {}) if isinstance(one.value, dict) else {}
        if backend := said.pop("backend", None):
            question.setdefault("engine_option.attention_backend", moved(one, backend))
        if keys_in := said.pop("indexer_kv_dtype", None):
            question["engine_option.indexer_kv_dtype"] = moved(one, keys_in)
        if said:
            message = f"{one.spelled}: {', '.join(sorted(said))[:80]} changes memory in a way that is not modelled"
            findings.append(warn("not-modelled-either", message, one.place))
    if one := given.get("@eplb"):
        if not isinstance(one.value, dict):
            return [*findings, refuse(f"{one.spelled}: not a JSON object", one.place)]
        question |= {f"engine_option.{option}": moved(one, one.value[key]) for key, option in EPLB.items() if key in one.value}
    return findings


def _compilation(given: Mapping[str, Given], value: Any, question: dict[str, Given]) -> None:
    """Which CUDA graphs there are: none under -O0, or a compilation config that turns them off."""
    if (one := question.get("enforce_eager")) and one.value:
        return
    level, config = given.get("@level"), given.get("@compilation")
    if level and level.value == "0":
        question["enforce_eager"] = moved(level, True)
    elif config:
        mode = value.get("cudagraph_mode") if isinstance(value, dict) else None
        if isinstance(mode, int | float) and mode in range(len(MODES)):  # pydantic: 1.0 and true are 1
            mode = MODES[int(mode)]
        off = value in (0, "0") or (isinstance(value, dict) and (value.get("level") == 0 or value.get("mode") in (0, "NONE")))
        if (mode is not None and str(mode).upper() in ("NONE", "0")) or (mode is None and off):
            question["enforce_eager"] = moved(config, True)
            return
        for key in GRAPHS if isinstance(value, dict) else ():
            if (said := value.get(key)) is not None:
                said = mode if key == "cudagraph_mode" else said
                question[f"engine_option.{key}"] = moved(config, spelled(said) if isinstance(said, list) else said)


def overrides(given: Mapping[str, Given], question: dict[str, Given]) -> list[Finding]:
    """Keys of the model's config that are replaced; up to 0.11.0 RoPE has an option of its own, which comes after them."""
    one, rope = given.get("@overrides"), given.get("@rope")
    keys = dict(one.value) if one and isinstance(one.value, dict) else {}
    if rope and isinstance(rope.value, dict):
        keys["rope_scaling"] = rope.value
    said = rope if rope and not one else one
    if said is None or not keys:
        return []
    question["engine_option.hf_overrides"] = moved(said, json.dumps(keys))
    findings = [Finding("overridden", "note", f"{said.spelled} replaces what the model's own config says", said.place)]
    loads = given["@load"].value if "@load" in given else ""
    if any("num_hidden_layers" in part for part in (keys, keys.get("text_config")) if isinstance(part, dict)) and loads != "dummy":
        message = f"{said.spelled}: layers that only the checkpoint or only the config has stop the load, but for --load-format dummy"
        findings.append(warn("not-all-layers", message, said.place))
    return findings


def say(asked: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The other way of `read`, as objects, which more releases take than the options of their own."""
    says: dict[str, Any] = {}
    if config := {key: int(asked[f"option:{option}"]) for key, option in EPLB.items() if f"option:{option}" in asked}:
        says["@eplb"] = config
    graphs: dict[str, Any] = {}
    if mode := asked.get("option:cudagraph_mode"):
        graphs["cudagraph_mode"] = str(mode).upper()
    if sizes := asked.get("option:cudagraph_capture_sizes"):
        graphs["cudagraph_capture_sizes"] = [int(n) for n in counts(str(sizes)).split(",")]
    if most := asked.get("option:max_cudagraph_capture_size"):
        graphs["max_cudagraph_capture_size"] = int(most)
    if graphs:
        says["@compilation"] = graphs
    if sizes := asked.get("option:cuda_graph_sizes"):
        says["@captured_early"] = counts(str(sizes)).split(",")
    return says, {f"option:{key}" for key in (*EPLB.values(), *GRAPHS, "cuda_graph_sizes") if f"option:{key}" in asked}
