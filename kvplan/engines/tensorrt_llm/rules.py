"""TensorRT-LLM's rules by release, as data.

Up to 0.21 engines that trtllm-build made are the default, from 1.0 on the PyTorch backend, which measures a dry run. Read from
the repository's copies of those files (docs and tensorrt_llm/_torch/pyexecutor); block sizes and rounding also from public logs:
64-token blocks in NVIDIA/TensorRT-LLM#2268, 86,711 tokens rounded up to 86,720 in a log of 1.1.0rc3.

Which release first rounded down is known to lie after 1.1.0rc3 and before KV cache manager V2 came (#10659, January 2026, 1.3.0): copies of
resource_manager.py with the dry run's own count of blocks (#9093, November 2025) and without V2 round down. 1.2.0 is taken to.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from kvplan.engines.common.releases import Releases


class TrtRules(NamedTuple):
    """What one release does.

    block          tokens_per_block by default
    rounding       of tokens to blocks
    profiled       the default backend measures its budget with a dry run; else it is what is free after loading
    v2             architectures that use KV cache manager V2 by default
    snapshot       tokens between snapshots of recurrent states kept for reuse; 0: none
    """

    block: int
    rounding: Literal["up", "down"]
    profiled: bool
    v2: frozenset[str] = frozenset()
    snapshot: int = 0


#: get_preferred_kv_cache_manager_version of the model classes (tensorrt_llm/_torch/models), 2026.
PREFER_V2 = frozenset({
    "NemotronHForCausalLM", "Qwen3NextForCausalLM", "DeepseekV4ForCausalLM", "GptOssForCausalLM", "Gemma3ForCausalLM",
    "Gemma3ForConditionalGeneration", "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "LlamaForCausalLM",
    "Llama4ForConditionalGeneration", "Llama4ForCausalLM",
})  # fmt: skip

RELEASES = Releases("tensorrt-llm", {
    "0.5.0": TrtRules(16, "up", False),
    "0.12.0": TrtRules(64, "up", False),
    "0.13.0": TrtRules(64, "up", False),
    "0.19.0": TrtRules(32, "up", False, snapshot=256),
    "1.0.0": TrtRules(32, "up", True, snapshot=256),
    "1.2.0": TrtRules(32, "down", True, snapshot=256),
    "1.3.0": TrtRules(32, "down", True, PREFER_V2),
})  # fmt: skip
VERSIONS = RELEASES.versions
