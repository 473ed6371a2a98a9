"""TensorRT-LLM's rules by release, as data.

Up to 0.21 engines that trtllm-build made are the default, from 1.0 on the PyTorch backend, which measures a dry run. What release a copy
of a file is of: its version.py, the release dates of candidates on PyPI, the pull requests in it.

block     64 to 0.6.1, 128 in 0.7 (examples/llama/build.py); 64 from 0.10.0 on (docs/source/release-notes.md: the default of trtllm-
          build); 32 in a log of 0.19.0, 64 in one of 0.13.0 (NVIDIA/TensorRT-LLM#2268), between them not known
          (tensorrt_llm/plugin/plugin.py)
fraction  0.85 to 0.7.1 (batch_manager/kvCacheConfig.h, kDefaultGpuMemFraction; docs/source/memory.md), 0.9 in every later copy
slots     max_batch_size of engines: 8 to 0.7.1 (examples/llama/build.py), 1 from 0.8 on (tensorrt_llm/commands/build.py of 0.7.1), 256 from
          0.11.0 on (release notes), 2048 in a log of 0.12.0 (NVIDIA/TensorRT-LLM#2317)
prompt    where max_num_tokens has no default, to 0.10 (8192 from 0.11.0 on, release notes), a step is max_batch_size x max_input_len
          (tensorrt_llm/models/generation_mixin.py): prompts of 2048 tokens to 0.7.1, of 1024 from 0.8 on (the same files)
rounding  _torch/pyexecutor/resource_manager.py, calculate_max_num_blocks: math.ceil in the copies of 0.20 and 1.1.0rc6 (main, September
          2025) and in three of October and November 2025; int(max_tokens // tokens_per_block) in every copy that counts the dry run's own
          blocks (#9093, opened on 12 November 2025, in review on the 17th), the first of them before manager V2 was there. 1.1.0 is
          taken to round up as main did when release/1.1 left it (no copy of that branch was found); release/1.2 left main in January
          2026 and rounds down. Of 1.2.0's candidates rc2 (7 November) rounds up; rc3 and rc4 (21 and 25 November) are not known: rc3 is
          taken to round up, rc4 down
windows   pools by window are counted in C++ to 1.2 (batch_manager/kvCacheManager.cpp, calculateMaxNumBlocks: ceilDiv in the copies of
          1.1.0rc6 and before, of October 2025 and of 2026), in Python from 1.3 on (calculate_max_num_blocks_for_vswa: //); what trtllm-
          build made in C++
shares    calculateWindowSizeToShare (window x bytes of a token) in the copies to 1.1.0rc6; equal, and TRTLLM_WINDOW_SIZE_SHARES, with
          #6768 and #7923 (end of September 2025: 1.2.0)
nvfp4     resource_manager.py, get_cache_size_per_token, by which the budget becomes tokens: 2 bytes an element in the copies that round
          up, half a byte and scales in those that round down
states    _torch/pyexecutor/mamba_cache_manager.py: tensors of their own for max_batch_size requests, and no block reuse (it asserts so);
          in the pool under CppMambaHybridCacheManager (#12896, of April 2026, builds on it: 1.3.0rc13) and V2
v2        by preference of the model's class from #15823 on (July 2026; 1.3.0rc18 is of 11 June); a plain bool, false, before
1.4        KvCacheConfig on the pages of 1.4.0rc4 (fraction 0.9, reuse on, V2 by preference); copies of autumn 2026 size pools alike
workspace  get_mla_context_workspace_reserve of _util.py in copies of summer 2026, and in none before; taken to be there from 1.3.0rc19 on
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from kvplan.engines.common.releases import Releases, cumulative


class TrtRules(NamedTuple):
    """What one release does.

    block          tokens_per_block by default
    rounding       of tokens to blocks in one pool of the PyTorch backend
    windows        the same in pools by window
    profiled       the default backend measures its budget with a dry run; else it is what is free after loading
    v2             architectures that use KV cache manager V2 by default
    snapshot       tokens between snapshots of recurrent states kept for reuse; 0: none
    fraction       of free memory, by default
    shares         of memory for the pools of several windows, where nobody says
    states         recurrent states are in the pool, or tensors apart that are there before it
    slots          max_batch_size by default
    prompt         tokens of a prompt, of which every slot has one in a step; None: steps of 8192 tokens
    workspace      latent attention over an FP8 cache has its workspace held back from the cache
    transformers   the release of transformers that it asks for (docs/source/release-notes.md); empty: not known
    nvfp4_counted  bytes of an NVFP4 element by which a budget becomes tokens; None: its own
    """

    block: int
    rounding: Literal["up", "down"]
    profiled: bool
    v2: frozenset[str] = frozenset()
    snapshot: int = 0
    fraction: float = 0.9
    shares: Literal["window", "equal"] = "equal"
    states: Literal["apart", "pool"] = "pool"
    nvfp4_counted: int | None = None
    slots: int = 2048
    prompt: int | None = None
    windows: Literal["up", "down"] = "up"
    workspace: bool = False
    transformers: str = ""


#: get_preferred_kv_cache_manager_version of the model classes (tensorrt_llm/_torch/models), 2026.
PREFER_V2 = frozenset({
    "NemotronHForCausalLM", "Qwen3NextForCausalLM", "DeepseekV4ForCausalLM", "GptOssForCausalLM", "Gemma3ForCausalLM",
    "Gemma3ForConditionalGeneration", "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "LlamaForCausalLM",
    "Llama4ForConditionalGeneration", "Llama4ForCausalLM", "Glm5NextForCausalLM", "Glm5NextForConditionalGeneration", "Qwen4ExpForCausalLM",
    "Qwen4ExpForConditionalGeneration", "DeepseekV41ForCausalLM", "DeepseekV41ForConditionalGeneration",
})  # fmt: skip
SNAPSHOT = 256  # mamba_state_cache_interval where Python's KvCacheConfig had it by default

_FIRST = TrtRules(64, "up", False, fraction=0.85, shares="window", states="apart", nvfp4_counted=2, slots=8, prompt=2048)
RELEASES = Releases("tensorrt-llm", cumulative(_FIRST, (
    ("0.5.0", {}),
    ("0.7.0", {"block": 128}),
    ("0.8.0", {"fraction": 0.9, "slots": 1, "prompt": 1024}),
    ("0.10.0", {"block": 64}),
    ("0.11.0", {"slots": 256, "prompt": None}),
    ("0.12.0", {"slots": 2048}),
    ("0.13.0", {}),
    ("0.19.0", {"block": 32}),
    ("1.0.0", {"profiled": True, "transformers": "4.53.1"}),
    ("1.1.0", {"transformers": "4.56.0"}),
    ("1.2.0", {"rounding": "down", "shares": "equal", "nvfp4_counted": None, "transformers": "4.57.3"}),
    ("1.3.0", {"v2": PREFER_V2, "states": "pool", "windows": "down", "workspace": True, "transformers": ""}),
    ("1.4.0", {}),
)))  # fmt: skip
VERSIONS = RELEASES.versions

#: Candidates that differ from the release that they are of: (release, first, last, what differs).
CANDIDATES: tuple[tuple[str, int, int, Mapping[str, Any]], ...] = (
    ("1.2.0", 0, 3, {"rounding": "up", "nvfp4_counted": 2}),
    ("1.3.0", 0, 12, {"v2": frozenset(), "states": "apart", "workspace": False}),
    ("1.3.0", 13, 18, {"v2": frozenset(), "snapshot": SNAPSHOT, "workspace": False}),
)


def find(asked: str | None) -> tuple[str, TrtRules, tuple[str, ...]]:
    """The release whose rules apply, its rules, a note where it is not the one asked for. `1.3.0rc15`: its own where they differ."""
    version, rules, notes = RELEASES.find(asked)
    candidate = re.match(r"v?(\d+\.\d+\.\d+)rc(\d{1,3})(?!\d)", (asked or "").strip().lower())
    for release, first, last, differs in CANDIDATES if candidate else ():
        if candidate and release == candidate[1] and first <= int(candidate[2]) <= last:
            rules = rules._replace(**differs)
    return version, rules, notes
