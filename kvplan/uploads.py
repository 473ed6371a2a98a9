"""What uploads of a quantised model leave in 16 bits, where only their format is named: facts about released files, by kind of model.

Read off 115 uploads of the 16,852 models that llmfit 1.1.17 lists (`data/hf_models.json`, the Hub's counts of elements): what an upload
has more or fewer elements than its base is the scales, and the packed halves, of what it packs. Beside them the configs and model cards
named in docs/weights.md, where the counts stand.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kvplan.dtypes import GGUF_KEPT, WEIGHT_FORMATS, weight_scheme
from kvplan.tensors import Role


class Habit(NamedTuple):
    """Of the layers' matrices: the roles that most uploads keep in 16 bits, and those that some keep and others pack."""

    kept: tuple[Role, ...] = ()
    either: tuple[Role, ...] = ()


#: Kinds of mixers that keep a state in place of a cache: their matrices are what uploads of hybrids differ in.
RECURRENT = ("gated_delta_net", "kda", "lightning", "mamba1", "mamba2", "short_conv", "rg_lru", "rwkv", "mlstm")
PACKED = Habit()
ATTENTION_EITHER = Habit(either=("attention",))
EXPERTS_ONLY = Habit(kept=("attention",), either=("attention", "shared_experts"))
#: Integers of routed models that keep no states: vLLM loaded cpatonn's GPTQ and AWQ of Qwen3 30B-A3B in 15.61 GiB (start_ups.jsonl), which
#: is with attention packed; cyankiwi's of Gemma 4 26B-A4B, in 16.63, is with attention kept.
EITHER = Habit(either=("attention", "shared_experts"))
INTEGERS = ("awq", "gptq", "int")
#: FP8 in blocks of 128 x 128 is what Qwen, DeepSeek and Z.ai release: of 12 such uploads of hybrids none keeps a mixer.
ALL_PACKED = ("fp8_block128",)


def habit(asked: str, *, routed: bool, hybrid: bool) -> Habit:
    """What uploads in the format `asked` keep.

    routed  layers have experts. hybrid: layers have mixers of a kind in RECURRENT, whose matrices are of role attention
    """
    few_bits, scheme = WEIGHT_FORMATS[asked].bits < 8, weight_scheme(asked)
    if routed and few_bits:
        return EITHER if scheme in INTEGERS and not hybrid else EXPERTS_ONLY
    if asked in ("nvfp4", "mxfp4"):
        return ATTENTION_EITHER
    if hybrid and asked not in ALL_PACKED and scheme != "bitsandbytes":
        return ATTENTION_EITHER
    return PACKED


def keeps_drafts(asked: str) -> bool:
    """Whether uploads in this format mostly keep the model's own draft modules in 16 bits. FP8 releases pack them."""
    return weight_scheme(asked) in ("awq", "gptq", "int", "nvfp4", "mxfp", "affine", "mlx") and asked != "mxfp8"


class Cached(NamedTuple):
    """Uploads that state a format of their cache: names that begin so, in such families of formats; `method` as in a spec."""

    begins: str
    schemes: tuple[str, ...]
    method: str
    format: str = "fp8_e4m3"


#: 20 of NVIDIA's 24 in model_specs state FP8 (kv_cache_quant_algo, kv_cache_scheme), and three more have it, whose starts in
#: tests/threads say bytes and tokens; so have unsloth's in NVFP4, all five of them, and RadixArk's Qwen3.8-27B, the only one.
CACHED = (
    Cached("nvidia/", ("fp8", "nvfp4"), "modelopt"),
    Cached("unsloth/", ("nvfp4",), "compressed-tensors"),
    Cached("radixark/qwen3.8-27b-nvfp4", ("nvfp4",), "modelopt"),
)
#: Classes whose rows have a format of their own: neither of NVIDIA's two uploads of DeepSeek-V4 states one; vLLM refuses FP8 for
#: Qwen4Exp's, whose upload started.
OWN_ROWS = ("DeepseekV4ForCausalLM", "Qwen4ExpForConditionalGeneration")


def cache_stated(name: str, asked: str, architecture: str | None) -> Cached | None:
    """What an upload in the weight format `asked` states of its cache by its publisher's habit; None: nothing is known."""
    scheme, named = weight_scheme(asked), name.lower()
    found = (one for one in CACHED if named.startswith(one.begins) and scheme in one.schemes and architecture not in OWN_ROWS)
    return next(found, None)


#: Classes released with experts in MXFP4 -> who leaves them so in GGUF files, from types of how many bits on. unsloth's page of gpt-oss's
#: files (11.5 to 12.1 GB of 20B in every type), its guide to DeepSeek-V4 (Flash: 162 GB in 8 bits, 7 less in 4); bartowski's model card.
#: None: where nobody is named, as most do.
KEPT_EXPERTS: dict[str, dict[str | None, int]] = {
    "GptOssForCausalLM": {"bartowski": 1, "unsloth": 1, None: 1},
    "DeepseekV4ForCausalLM": {"unsloth": 4},
}


def file_of(architecture: str | None, kind: str, publisher: str | None, *, in_library: bool = False) -> str | None:
    """The type of a publisher's GGUF file that is called `kind`; None: as the model was released, in 16 bits what it has so.

    publisher  in lower case; None: nobody is named. in_library: it is a tag of Ollama's, of a model with embeddings per layer
    """
    bits = re.search(r"\d+", kind)
    kept = KEPT_EXPERTS.get(architecture or "", {}).get(publisher)
    if kept is not None and bits is not None and int(bits[0]) >= kept:
        return None if kind in ("f16", "bf16") else f"{kind}_mxfp4" if f"{kind}_mxfp4" in GGUF_KEPT else kind
    if in_library and f"{kind}_ollama" in GGUF_KEPT:
        return f"{kind}_ollama"
    return kind
