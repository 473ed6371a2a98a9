"""What builds of llama.cpp do differently, as data. A build takes the newest row that is not younger than it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from kvplan.engines.common.releases import cumulative


class LlamaRules(NamedTuple):
    """The rules from `build` (the b-number of a release) on, until the next row.

    pad           n_ctx and cells are rounded up to this many (flash attention on, off)
    swa           window layers have a cache of their own, sized by the window
    streams       sequences may have separate streams; else one unified pool
    flash_auto    flash attention is on where the backend has it; else off unless asked for
    server_slots  slots of llama-server where -np is not given (more than one: unified)
    fit           --fit shrinks what was not set until it fits
    mla           what a latent layer stores: `k` the latent alone, `k+v` the latent and its first part again as V, `heads` K and V of
                  every head
    window_least  window layers keep at least this many tokens of a sequence
    state_copies  copies of every sequence's recurrent states that are kept beside them, to go back to
    all_outputs   the graph of a prompt is reserved with logits of every token, not of the last alone
    own_graphs    graphs are another engine's: the constants measured on llama.cpp's do not hold
    unpacks       in the compute buffer, attention has room to unpack K and V of a quantised cache (CUDA); before, a pool grows for it
    prompt_cache  MiB of host memory that llama-server keeps prompts in (--cache-ram); 0: it has no such cache
    checkpoints   states kept of each slot in host memory to go back to (--ctx-checkpoints), where a model can not go back without
    host_attention  attention is computed in host memory where the cache stays there (#5049); else its scores are on the layer's device
    newest_type   number of the newest type of ggml's tensors: a file with a newer one is not loaded
    split_rows    CUDA's --split-mode row; split_tensor: --split-mode tensor is known
    index_keys    keys that an indexer keeps of a token beside K, V and states: its own, and from some build on the one of its group
    index_v       V beside them, one head's of the model's
    most_sequences  a context with more is refused (llama-cparams.h LLAMA_MAX_SEQ); None: nothing is looked at
    slot_capped   llama-server gives a slot no more than the model's own length; yarn_lifts: what YaRN's options make of that
    flash_towers  flash attention in encoders of images, too (#16837 of November 2025, between b6869 and b6990)
    wide_masks    masks of attention are made in 32 bits; flash attention casts them
    old_systems   of 2023: what macOS left a GPU then was the lower of a Mac's two limits
    unsaid        nobody says the build: some older ones are used as well
    one_batch     an encoder's request that is longer than -ub is refused; else it is cut
    output_first  the output layer goes on the devices before the last layers; else after all of them
    """

    build: int
    source: str
    pad: tuple[int, int] = (256, 32)
    swa: bool = False
    streams: bool = False
    flash_auto: bool = False
    server_slots: int = 1
    fit: bool = False
    mla: str = "heads"
    output_first: bool = False
    window_least: int = 0
    state_copies: int = 0
    all_outputs: bool = True
    own_graphs: bool = False
    unpacks: bool = False
    prompt_cache: int = 0
    checkpoints: int = 0
    host_attention: bool = True
    newest_type: int = 38
    split_rows: bool = True
    split_tensor: bool = False
    flash_towers: bool = False
    index_keys: int = 1
    index_v: bool = True
    most_sequences: int | None = None
    slot_capped: bool = False
    yarn_lifts: bool = False
    wide_masks: bool = True
    old_systems: bool = False
    unsaid: bool = False
    one_batch: bool = True


#: Build, where its change is read from, the rules that are others from it on. b11312 was read and run; older rows are the pull requests
#: named, placed at the builds that followed their merge; those of March and April 2026 by their date, b8667 being of 4 April.
CHANGES: tuple[tuple[int, str, dict[str, Any]], ...] = (
    (2000, "before #12801 latent attention", {}),
    (5130, "before #13194", {"mla": "k+v"}),
    (5427, "#13194 window caches", {"swa": True}),
    # a limit came between b5427 and #14188 of June 2025: none in llama-cpp-python 0.3.9 (before window caches), 64 in 0.3.10 to 0.3.16
    (5546, "#13746 attention on the devices whatever keeps the cache", {"host_attention": False, "most_sequences": 64}),
    (5912, "#14363 streams", {"streams": True}),
    (6096, "#15091 MXFP4", {"newest_type": 39}),
    (6324, "#15434 flash attention auto", {"flash_auto": True}),
    (6500, "#15916 256 sequences, of September 2025", {"most_sequences": 256}),
    # prompts in host memory came some builds before (#16391)
    (6869, "#16812 no padding", {"pad": (1, 1), "prompt_cache": 8192, "checkpoints": 8}),
    (6924, "#16736 four unified slots", {"server_slots": 4, "slot_capped": True}),
    (6990, "#17046 n_ctx padded to 256", {"pad": (256, 256), "flash_towers": True}),
    (7406, "#16653 --fit", {"fit": True}),
    (7480, "#18148 output layer first", {"output_first": True}),
    (7850, "#19067 latent without V", {"mla": "k"}),
    (8350, "#19769 NVFP4", {"newest_type": 40}),
    (8600, "#19378 --split-mode tensor", {"split_tensor": True}),
    (9410, "#23764 masks in 16 bits for flash attention", {"wide_masks": False}),
    (9460, "#23861 logits of a sequence's last token", {"all_outputs": False}),
    (9501, "#23907 room to unpack a quantised cache", {"unpacks": True, "checkpoints": 32}),
    (9890, "#25594 devices without rows of matrices", {"split_rows": False}),
    (10754, "#28030 YaRN's options move n_ctx_train", {"yarn_lifts": True}),
    (11063, "xllamacpp 2026.9.11063: index keys alone", {"index_v": False}),
    # between b11063, which keeps one, and b11549, which keeps two
    (11312, "0c1e570, as in llama-cpp-python 0.3.36", {"index_keys": 2}),
)
RULES = cumulative(LlamaRules(0, ""), ((f"b{build}", {"build": build, "source": source, **change}) for build, source, change in CHANGES))
VERSIONS = tuple(RULES)
NEWEST = VERSIONS[-1]
#: Of January 2024; logs of builds before it, June to December 2023, show the lower limit alone: 10,922.67 MiB of 16 GB, 21,845.34 of 32,
#: 49,152 of 64, 73,728 of 96 (ggml-org/llama.cpp#1870, #2011, #3213, #3606, ollama/ollama#352, #434, abetlen/llama-cpp-python#687).
FIRST = CHANGES[0][0]


def build_of(version: str) -> int | None:
    """`b11312`, `11312 (0c1e570)` -> 11312; None where a text names no build."""
    match = re.match(r"(?:llama\.cpp[- ]?)?b?(\d{3,6})(?!\.)\b", version.strip().lower())
    return int(match[1]) if match else None


def find(version: str | None) -> tuple[LlamaRules, tuple[str, ...]]:
    """The rules of a build (`b11312`, `11312 (0c1e570)`), and a note where the build itself is not known."""
    if version is None or version == NEWEST:
        return RULES[NEWEST]._replace(unsaid=version is None), ()
    build = build_of(version)
    if build is None:
        return RULES[NEWEST], (f"llama.cpp {version} names no build; the rules of {NEWEST} are used",)
    rules = max((r for r in RULES.values() if r.build <= build), default=RULES[VERSIONS[0]])
    if build < FIRST:
        rules = rules._replace(old_systems=True)
    if rules.build == build:
        return rules, ()
    return rules, (f"llama.cpp b{build} is not known by itself; the rules of b{rules.build} are used ({rules.source})",)


#: Architectures (GGUF name, transformers class) whose windows llama.cpp does not use: src/models/*.cpp set no swa_type.
WINDOWS_IGNORED = frozenset(
    {
        "llama", "phi3", "phimoe", "starcoder2", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "minicpm3", "mistral3",
        "mistral4", "smollm3",
        "MistralForCausalLM", "MixtralForCausalLM", "Phi3ForCausalLM", "Phi4ForCausalLM", "PhimoeForCausalLM", "PhiMoEForCausalLM",
        "Starcoder2ForCausalLM", "Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM",
        "Mistral3ForConditionalGeneration", "MinistralForCausalLM", "Ministral3ForCausalLM", "SmolLM3ForCausalLM",
        "Phi4MultimodalForCausalLM", "Phi4MMForCausalLM",
    }
)  # fmt: skip

#: Architectures that keep 1 + n_rs_seq rows of recurrent state, to roll drafts back (llm_arch_supports_rs_rollback).
ROLLBACK = frozenset(
    {
        "kimi-k3", "qwen35", "qwen35moe", "qwen4exp", "deepseek4", "glm5-next", "nemotron_h", "nemotron_h_moe", "lfm2", "lfm2moe",
        "bailingmoe3",
        "Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration",
        "DeepseekV4ForCausalLM", "NemotronHForCausalLM", "Lfm2ForCausalLM", "Lfm2MoeForCausalLM",
    }
)  # fmt: skip
