"""Releases of exllamav3 and what each does otherwise with memory, read in the wheels of all of them.

modules/{gated_delta_net,sliding_attn,attn,block_sparse_mlp_cpu}.py, modules/attention_fn/{dispatch,triton_paged}.py, cache/cache.py,
model/{config,model,model_ls,moe_cpu_host}.py, util/memory.py.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from kvplan.engines.common.releases import Releases, cumulative
from kvplan.units import MIB


class Rules(NamedTuple):
    """Those of one release.

    slots    a cache has states for so many sequences, made when it is loaded; before, a sequence brings its own
    paired   two states a slot, whatever is drafted, and the inputs of the last step; before, one and one more for each drafted token
    half     recurrent states in f16, but Mamba's
    staging  where attention of a prompt has a quantised layer in f16: all of it for a moment, nowhere, all of it from then on,
             or 65,536 tokens of it for a moment
    margin   bytes of the device that a load leaves beside its largest step (EXL3_AUTOSPLIT_MARGIN_MB)
    kept_free     bytes of a card that a load leaves free where nothing else is said
    split_of_all  gpu_split is of all that a process has allocated; else of each load, on top of what is there
    counts_twice  what a process has allocated before a load is taken off its room, and counts against it
    all_but_one   so many experts beside the device as there are, or more: all but one of them; before, none
    packed        experts that a prompt brings to the device may be packed, and have a second ring
    worst_case    a load sets aside what a step may hold in a layer of experts, whatever it chose when it was tried
    tiles         of 128 x 128, up to which an expert's result is made in a group; 0: whatever its size
    """

    slots: bool = False
    paired: bool = False
    half: bool = False
    staging: Literal["layer", "none", "pool", "window"] = "layer"
    margin: int = 0
    kept_free: int = 256 * MIB
    split_of_all: bool = False
    counts_twice: bool = True
    all_but_one: bool = False
    packed: bool = False
    worst_case: bool = False
    tiles: int = 64


_VERSIONS = (
    "0.0.1 0.0.2 0.0.3 0.0.4 0.0.5 0.0.6 0.0.7 0.0.8 0.0.9 0.0.10 0.0.11 0.0.12 0.0.15 0.0.16 0.0.17 0.0.18 0.0.19 0.0.20 0.0.21 0.0.22 "
    "0.0.23 0.0.24 0.0.25 0.0.26 0.0.27 0.0.28 0.0.29 0.0.30 0.0.31 0.0.32 0.0.33 0.0.35 0.0.36 0.0.37 0.0.39 0.0.40 0.0.41 0.0.42 0.0.43 "
    "1.0.0 1.1.0 1.2.0 1.4.0 1.4.1 1.4.2 1.4.5 1.4.6 1.4.7 1.4.8 1.4.9 1.5.0 1.5.1 1.5.2 1.5.3 1.6.0 1.6.1 1.6.2 1.6.3 1.6.4 1.6.5"
)
_CHANGES: dict[str, dict[str, Any]] = {
    "0.0.5": {"kept_free": 512 * MIB},
    "0.0.30": {"split_of_all": True},
    "0.0.35": {"slots": True},
    "1.0.0": {"staging": "none"},
    "1.4.0": {"staging": "pool"},
    "1.4.5": {"split_of_all": False, "counts_twice": False},
    "1.4.7": {"packed": True},
    "1.5.0": {"margin": 256 * MIB, "all_but_one": True, "worst_case": True},
    "1.6.1": {"paired": True},
    "1.6.2": {"half": True},
    "1.6.4": {"tiles": 0},
    "1.6.5": {"staging": "window"},
}
RELEASES = Releases("exllamav3", cumulative(Rules(), [(version, _CHANGES.get(version, {})) for version in _VERSIONS.split()]))
#: Classes whose layers with windows keep a ring of each slot, by the first release in which they do; the others keep every token of them.
RINGS = {
    "Gemma4ForConditionalGeneration": "0.0.30", "Step3p5ForCausalLM": "0.0.30", "AfmoeForCausalLM": "0.0.31",
    "Step3p7ForConditionalGeneration": "0.0.39", "Gemma4UnifiedForConditionalGeneration": "0.0.40", "GptOssForCausalLM": "1.0.0",
    "LagunaForCausalLM": "1.2.0", "MuseGlimmerForConditionalGeneration": "1.4.2", "Spark2_5ForCausalLM": "1.5.1",
    "MiMoV2ForCausalLM": "1.5.2",
}  # fmt: skip
#: The first release that has an option of the load (model_init.py, model/config.py InferParams).
SINCE = {"cpu_moe_offload_layers": "1.2.0", "cpu_moe_split_experts": "1.4.5", "ngram_ram": "1.4.5", "vision_offload": "1.4.5"}
