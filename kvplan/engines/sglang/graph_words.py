"""What a command line says of CUDA graphs: backends of both phases, sizes, and --cuda-graph-config, whose keys go before these.

sglang 0.5.14 to 0.5.23 model_executor/cuda_graph_config.py parse_cuda_graph_config_arg; server_args.py _parse_cuda_graph_config.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engines.common.arguments import counted, moved
from kvplan.engines.common.kinds import counts
from kvplan.engines.common.words import Finding, Given, refuse, warn
from kvplan.units import spelled

SIZES = {"@graph_bs": "cuda_graph_bs", "@graph_tokens": "cuda_graph_bs_prefill"}
#: Phase -> its keys as options.
_KEYS = {
    "decode": {"bs": "cuda_graph_bs", "max_bs": "cuda_graph_max_bs"},
    "prefill": {"bs": "cuda_graph_bs_prefill", "max_bs": "cuda_graph_max_bs_prefill", "backend": "cuda_graph_backend_prefill"},
}
#: Phase -> keys that a release has (ALLOWED_KEYS_PER_PHASE).
_OF_BOTH = {"backend", "bs", "max_bs", "tc_compiler"}
_PROMPTS = {"max_context_size", "full_prefill_max_req", "full_prefill_prefix_chunk_tokens", "max_seq_len"}
_TAKEN = {"decode": _OF_BOTH, "prefill": _OF_BOTH | _PROMPTS}
_BACKENDS = ("full", "breakable", "tc_piecewise", "disabled")
_BACKEND = {"decode": "@decode_graphs", "prefill": "option:cuda_graph_backend_prefill"}


def _is_config(value: Any) -> bool:
    """Whether --cuda-graph-config's parser takes it: phases, their keys and backends."""
    return isinstance(value, dict) and all(
        phase in _TAKEN and isinstance(said, dict) and said.keys() <= _TAKEN[phase] and said.get("backend", "full") in _BACKENDS
        for phase, said in value.items()
    )


def graphs_of(given: Mapping[str, Given], question: dict[str, Given]) -> list[Finding]:
    """Options of graphs, into the question."""
    findings = [found for at, key in SIZES.items() if (one := given.get(at)) for found in counted(one, question, key)]
    backends = {phase: given.get(at) for phase, at in _BACKEND.items()}
    if config := given.get("@graph_config"):
        if not _is_config(config.value):
            text = f"{config.spelled}: not a phase, or none of its keys or backends; the engine would stop with a usage error"
            return [*findings, refuse(text, config.place)]
        for phase, key, value in ((phase, *one) for phase, said in config.value.items() for one in said.items()):
            if key == "backend":
                backends[phase] = moved(config, value)
            if to := _KEYS[phase].get(key):
                question[f"engine_option.{to}"] = moved(config, spelled(value) if isinstance(value, list) else value)
            elif key != "backend":
                findings.append(
                    warn("not-modelled-either", f"{config.spelled}: {phase}.{key} moves graphs in a way that is not modelled", config.place)
                )
    eager = question.pop("enforce_eager", None)
    decode, prefill = (eager if one is None else one if one.value == "disabled" else None for one in backends.values())
    if decode and prefill:
        question["enforce_eager"] = eager or moved(decode, True)
    elif prefill:
        question["engine_option.disable_prefill_cuda_graph"] = moved(prefill, True)
    elif decode:
        question["engine_option.disable_decode_cuda_graph"] = moved(decode, True)
        findings.append(warn("not-modelled-less", f"{decode.spelled}: graphs for prefill alone are not modelled", decode.place))
    return findings


def sizes_said(asked: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Sizes as words again, and the options that they are of."""
    told = {at: sizes for at, key in SIZES.items() if (sizes := asked.get(f"option:{key}"))}
    return {at: counts(str(sizes)).split(",") for at, sizes in told.items()}, {f"option:{SIZES[at]}" for at in told}
