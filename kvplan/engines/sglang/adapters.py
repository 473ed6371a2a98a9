"""SGLang's LoRA buffers: zeros for every slot of a batch, of every kind of matrix that adapters may change, in every layer.

Source: sglang lora/mem_pool.py (LoRAMemoryPool.init_buffers, get_lora_A_shape and _B_shape, get_embedding_lora_*_shape), lora/utils.py
(get_hidden_dim, get_stacked_multiply, get_normalized_target_modules). A kind has a buffer in each of the model's layers, whether that
layer has such a matrix or not, and on each pipeline stage; factors of matrices that are stored as one (q, k and v) are stacked.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options, read_lora
from kvplan.engines.sglang.rules import SglangRules
from kvplan.errors import SpecError
from kvplan.ledger import Entry
from kvplan.tensors import Layer, Lowered, WeightTensor, distinct, routed
from kvplan.units import cdiv, round_up

#: Modules as a user names them -> the kind of buffer.
TARGETS: dict[str, str] = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj", "qkv_proj"), "qkv"), "o_proj": "o",
    **dict.fromkeys(("gate_proj", "up_proj", "gate_up_proj"), "gate_up"), "down_proj": "down",
    **dict.fromkeys(("q_a_proj", "kv_a_proj_with_mqa", "fused_qkv_a_proj_with_mqa"), "qkv_a"), "q_b_proj": "q_b", "kv_b_proj": "kv_b",
    "in_proj_qkvz": "in_qkvz", "out_proj": "out",
    **dict.fromkeys(("embed_tokens", "vocab_emb", "embeddings", "word_embeddings"), "embed"),
    **dict.fromkeys(("lm_head", "output", "unembed_tokens"), "head"),
}  # fmt: skip
LINEAR = frozenset({"qkv", "o", "gate_up", "down", "qkv_a", "q_b", "kv_b", "in_qkvz", "out"})
VOCABULARY = frozenset({"embed", "head"})
ALL = ("all", "all-linear")
#: Classes that give sizes of their own (`get_hidden_dim` of models/*.py), of which only Qwen3.5's are modelled; or whose config has others.
QWEN35 = frozenset({
    "Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration",
})  # fmt: skip
OF_THEIR_OWN = frozenset({
    "Gemma3nForConditionalGeneration", "Gemma4ForConditionalGeneration", "InklingForConditionalGeneration", "LagunaForCausalLM",
    "InternS2MobiusForConditionalGeneration", "Llama4ForConditionalGeneration", "NemotronHForCausalLM", "NemotronHPuzzleForCausalLM",
    "NemotronH_Nano_VL_V2", "NemotronH_Omni_Reasoning_V3", "Qwen2MoeForCausalLM", "Qwen3NextForCausalLM",
})  # fmt: skip
#: Rows of the vocabulary are padded to this many before ranks share them (layers/vocab_parallel_embedding.py).
VOCABULARY_ROWS = 64
SOURCE = "slots x rank x (inputs + outputs) of every kind of matrix, in every layer; lora/mem_pool.py"


class Widths(NamedTuple):
    """Ranks that share one layer's matrices: attention's, all of tp, an expert's; ranks that experts are dealt to."""

    attention: int
    tp: int
    expert: int
    apart: int


def asked_kinds(d: Deployment, rules: SglangRules) -> frozenset[str] | None:
    """The kinds of buffer that `lora_target_modules` asks for; None where nothing is said. Raises SpecError for a module not known."""
    text = Options(d).text("lora_target_modules")
    if text is None:
        return None
    names = [name.strip().strip("'\"").rsplit(".", 1)[-1] for name in str(text).strip("[]() ").replace(" ", ",").split(",") if name.strip()]
    if any(name in ALL for name in names):
        return LINEAR | VOCABULARY if rules.lora_all_embeds else LINEAR
    if strange := [name for name in names if name not in TARGETS]:
        raise SpecError("engine_option", [("lora_target_modules", f"{strange[0][:40]!r} is not one of all, {', '.join(TARGETS)}")])
    return frozenset(TARGETS[name] for name in names)


def slots(d: Deployment, model: Lowered, widths: Widths, rules: SglangRules, element_bytes: int) -> list[Entry]:
    """The lines of the buffers on a rank (`element_bytes`: of one element); none without adapters.

    Where the modules come from the adapters' files, buffers of experts may be there or not: the interval's low end is without.
    """
    asked = read_lora(d.lora)
    if asked is None:
        return []
    told = asked_kinds(d, rules)
    kinds = LINEAR if told is None else told
    one = asked.adapters * asked.rank * element_bytes
    found = [("LoRA slots", one * _of_layers(d, model, widths, rules, kinds), True)]
    if rules.lora_experts and (experts := _of_experts(model, widths, rules, kinds, outer=Options(d).flag("experts_shared_outer_loras"))):
        found.append(("LoRA slots of experts", one * experts, told is not None))
    if rules.lora_vocabulary and (held := _of_vocabulary(d, widths, rules, kinds)):
        found.append(("LoRA slots of the vocabulary", one * held, True))
    return [Entry(name, n, n if sure else 0, n, "exact" if sure else "modelled", SOURCE, "weights") for name, n, sure in found]


def _of_layers(d: Deployment, model: Lowered, widths: Widths, rules: SglangRules, kinds: frozenset[str]) -> int:
    """Inputs and outputs of a slot's factors of plain matrices, a unit of rank, over all layers of the model."""
    layers, n = distinct(model.layers), len(model.layers)
    held = sum(n * width for kind, width in _attention(d, layers, widths, rules).items() if kind in kinds)
    mixture = rules.lora_experts and routed(layers)
    shared = any(w.role == "shared_experts" for layer in layers for w in layer.weights)
    if mixture and not shared:
        return held  # layers without experts have no buffers either
    by_layer = {id(layer): _mlp(layer, widths.tp) for layer in layers}
    usual = next((found for found in by_layer.values() if found), {})
    for layer in model.layers:
        held += sum(width for kind, width in (by_layer[id(layer)] or usual).items() if kind in kinds)
    return held


def _attention(d: Deployment, layers: list[Layer], widths: Widths, rules: SglangRules) -> dict[str, int]:
    """Kind -> inputs and outputs of the factors of attention's matrices, from the first layer that has them."""
    first: dict[str, WeightTensor] = {}
    for layer in layers:
        for w in layer.weights:
            if w.role == "attention" and len(w.shape) == 2:
                first.setdefault(w.name, w)
    tp, found = widths.attention, {}
    if {"q", "k", "v"} <= first.keys():
        q, k, v = (first[name] for name in "qkv")
        gate = first["gate"].shape[0] if "gate" in first and d.model.architecture in QWEN35 else 0
        outputs = (q.shape[0] + gate + k.shape[0] + v.shape[0]) // tp
        if rules.lora_heads and k.units < tp:
            outputs = (q.shape[0] + gate) // tp + 2 * (k.shape[0] // k.units)
        found["qkv"] = 3 * q.shape[1] + outputs
    if "o" in first:
        found["o"] = first["o"].shape[1] // tp + first["o"].shape[0]
    if "kv_a" in first:
        inner = (first["q_a"].shape[0] if "q_a" in first else 0) + first["kv_a"].shape[0]
        found["qkv_a"] = 2 * first["kv_a"].shape[1] + inner
    for name, kind, stacked in (("q_b", "q_b", 1), ("kv_b", "kv_b", 1), ("in_proj_qkvz", "in_qkvz", 4)):
        if name in first:
            found[kind] = stacked * first[name].shape[1] + first[name].shape[0] // tp
    if "out_proj" in first:
        found["out"] = first["out_proj"].shape[1] // tp + first["out_proj"].shape[0]
    return found


def _mlp(layer: Layer, tp: int) -> dict[str, int]:
    """Kind -> inputs and outputs of the factors of a layer's MLP, or of its shared experts."""
    plain = {w.name.split("_")[-1]: w for w in layer.weights if w.role in ("mlp", "shared_experts") and len(w.shape) == 2}
    if "down" not in plain or "up" not in plain:
        return {}
    up, down = plain["up"], plain["down"]
    gated = 2 if "gate" in plain else 1
    return {"gate_up": 2 * up.shape[1] + gated * up.shape[0] // tp, "down": down.shape[1] // tp + down.shape[0]}


def _of_experts(model: Lowered, widths: Widths, rules: SglangRules, kinds: frozenset[str], *, outer: bool) -> int:
    """The same of routed experts, which have buffers in every layer of the model; `outer`: factors outside are shared by all experts."""
    found = {w.name: w for layer in distinct(model.layers) for w in layer.weights if w.experts and len(w.shape) == 3}
    up, down = (next((w for name, w in found.items() if name.endswith(end)), None) for end in ("up", "down"))
    if up is None or down is None:
        return 0
    apart, split = (widths.apart, widths.expert) if rules.lora_experts == "ranks" else (1, widths.tp)
    count = cdiv(up.shape[0], apart)
    wide = 1 if outer else count
    gated = 2 if any(name.endswith("gate") for name in found) else 1
    one = 0
    if "gate_up" in kinds:
        one += wide * gated * up.shape[2] + count * (gated * up.shape[1] // split)
    if "down" in kinds:
        one += count * (down.shape[2] // split) + wide * down.shape[1]
    return one * len(model.layers)


def _of_vocabulary(d: Deployment, widths: Widths, rules: SglangRules, kinds: frozenset[str]) -> int:
    """The same of embedding and head: asked for together each gets its buffers twice, once in either dictionary (init_embedding_buffer)."""
    rows, hidden, asked = d.model.vocab_size or 0, d.model.hidden_size, kinds & VOCABULARY
    share = rows if rules.lora_vocabulary == "whole" or widths.tp == 1 else min(round_up(rows, VOCABULARY_ROWS) // widths.tp, rows)
    sizes = {"embed": rows + hidden, "head": hidden + share}
    return len(asked) * sum(sizes[kind] for kind in asked)


def notes(d: Deployment, model: Lowered, rules: SglangRules) -> tuple[str, ...]:
    """What the buffers rest on that nobody said. Raises SpecError for an option of adapters that can not be read, asked for or not."""
    asked = read_lora(d.lora)
    told = asked_kinds(d, rules) is not None
    Options(d).flag("experts_shared_outer_loras")
    if asked is None:
        return ()
    found: tuple[str, ...] = ()
    mixture = routed(model.layers)
    if not told:
        found = ("lora: the adapters' files say which modules they change; taken for all linear ones: say lora_target_modules",)
    if mixture and not rules.lora_experts:
        found = (*found, "lora: this release adapts no routed experts")
    return found


def undecided(d: Deployment, model: Lowered, rules: SglangRules) -> tuple[str, ...]:
    """Classes whose buffers follow rules of their own; what releases that know no experts make of their models' configs."""
    if read_lora(d.lora) is None:
        return ()
    if d.model.architecture in OF_THEIR_OWN:
        return (f"{d.model.architecture} sizes its LoRA buffers by rules of its own, which are not modelled",)
    weights = [w for layer in distinct(model.layers) for w in layer.weights]
    if rules.lora_experts == "ranks" or not any(w.name == "kv_a" or (w.experts and not rules.lora_experts) for w in weights):
        return ()
    return ("LoRA knows experts from 0.5.10 on and latent attention from 0.5.11 on: this release sizes their buffers by other numbers",)
