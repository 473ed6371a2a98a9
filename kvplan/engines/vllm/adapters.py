"""What `enable_lora` sets aside on a rank: stacked factors of every matrix, of routed experts and of the vocabulary, for every slot.

All of it is allocated in zeros when the model is loaded, as wide as `max_lora_rank` whatever the adapters are (vLLM 0.33 `lora/layers`:
base_linear.py, fused_moe.py, vocal_parallel_embedding.py, logits_processor.py create_lora_weights). `lora_target_modules` restricts it to
the matrices that it names; `fully_sharded_loras` shares over the ranks what each would have a copy of; with `enable_moe_shared_loras`
experts have outer factors in common. Adapters wait in host memory; the dummies of the profile run are made there too.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from kvplan.deployment import Deployment
from kvplan.engines.common import lora
from kvplan.engines.common.lines import Span, modelled
from kvplan.engines.common.options import Lora, Options, read_lora
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.ledger import Entry, exact
from kvplan.tensors import Layer, Lowered
from kvplan.units import cdiv

#: Bytes of one element of a factor: of the model's 16-bit type.
ELEMENT_BYTES = 2
#: Tokens that an adapter might add, up to 0.11: rows of their own beside the vocabulary's (config.py lora_extra_vocab_size).
EXTRA_ROWS = 256
#: Classes whose embedding and head take adapters (`embedding_modules` of model_executor/models) -> first release that says so, the release
#: that no longer does. Llama's class serves others under their own names (registry.py).
VOCABULARY: dict[str, tuple[str, str]] = {
    **dict.fromkeys((
        "DeciLMForCausalLM", "ExaoneForCausalLM", "FalconH1ForCausalLM", "GlmForCausalLM", "GraniteForCausalLM", "GraniteMoeForCausalLM",
        "GraniteMoeHybridForCausalLM", "GraniteMoeSharedForCausalLM", "InternLM3ForCausalLM", "JambaForCausalLM", "LlamaForCausalLM",
        "MiniCPMForCausalLM", "MiniCPM3ForCausalLM", "MixtralForCausalLM", "NemotronForCausalLM", "NemotronHForCausalLM",
        "Phi3ForCausalLM", "PhiMoEForCausalLM", "SolarForCausalLM",
    ), ("", "")),
    "MistralForCausalLM": ("", "0.15"), "BambaForCausalLM": ("", "0.27"), "InternLMForCausalLM": ("", "0.27"),
    "Exaone4ForCausalLM": ("0.10", ""), "Ernie4_5ForCausalLM": ("0.10", ""), "Llama4ForCausalLM": ("0.10", ""),
    "ApertusForCausalLM": ("0.11", ""), "Lfm2ForCausalLM": ("0.11", ""), "Lfm2MoeForCausalLM": ("0.11.1", ""),
    **dict.fromkeys((
        "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration",
    ), ("0.16", "")),
    "HyperCLOVAXForCausalLM": ("0.18", ""),
}  # fmt: skip
#: Classes whose embedding alone does.
EMBEDDING = frozenset({"CohereForCausalLM", "Cohere2ForCausalLM"})
#: Classes whose experts' gate and up are one matrix with one first factor (`is_3d_moe_weight`) -> since.
FUSED_EXPERTS: dict[str, str] = {
    "GptOssForCausalLM": "0.12", "Qwen3VLMoeForConditionalGeneration": "0.12", "Qwen3_5MoeForConditionalGeneration": "0.19",
    "Qwen3OmniMoeForConditionalGeneration": "0.31",
}  # fmt: skip
#: Matrices of Qwen 3.5's delta nets that are stored as one.
STACKED = {"in_proj_qkvz": 4, "in_proj_ba": 2}
#: Modules that adapters change beside matrices of layers, by vLLM's names: experts, routers, the vocabulary, delta nets' convolutions.
BESIDE = frozenset({"experts", "gate", "embed_tokens", "lm_head", "conv1d"})
#: From which release on an embedding or a head that is named is adapted whatever its class (model_manager.py _create_lora_modules).
NAMED_SINCE = "0.30"
#: Options of adapters that are on or off.
SWITCHES = ("fully_sharded_loras", "specialize_active_lora", "enable_mixed_moe_lora_format", "enable_moe_shared_loras")
#: Roles of the matrices that are vLLM's linear layers.
ROLES = (*lora.ADAPTED, "shared_experts")


def slots(d: Deployment, model: Lowered, stage: range, s: VllmSettings) -> list[Entry]:
    """The lines of one stage's rank; none without adapters. Raises SpecError for an option of theirs that is no switch, even then."""
    for name in SWITCHES:
        Options(d).flag(name)
    asked = read_lora(d.lora)
    if asked is None:
        return []
    layers = [model.layers[i] for i in stage]
    found = lora.slots(d, layers, s.tp, ELEMENT_BYTES, roles=ROLES)
    one = asked.adapters * asked.rank * ELEMENT_BYTES
    if held := _of_nets(d, layers, s):
        source = "slots x rank x (inputs + outputs) of their convolutions, and inputs once more for each matrix that is stored with others"
        found.append(exact("LoRA slots of delta nets", one * held, source, "weights"))
    named = BESIDE.intersection(BESIDE if (names := lora.asked_names(d)) is None else names)
    if "gate" in named and (
        held := one * sum(sum(w.shape) for layer in layers for w in layer.weights if w.name == "router" and len(w.shape) == 2)
    ):
        source = "slots x rank x (hidden + experts); lora/layers/replicated_linear.py, of a subclass of which some releases take none"
        found.append(modelled("LoRA slots of routers", Span(held, 0, held), source, "weights"))
    if s.rules.lora_experts and "experts" in named:
        held = _of_experts(d, layers, s) * one
        found.append(exact("LoRA slots of experts", held, "slots x experts x rank x (inputs + outputs) of every expert", "weights"))
    held = _of_vocabulary(d, model, stage, s, asked, named if names is not None else None) * asked.adapters * ELEMENT_BYTES
    found.append(exact("LoRA slots of the vocabulary", held, "slots x rank x (vocabulary + hidden) of embedding and head", "weights"))
    return found


def _of_nets(d: Deployment, layers: Sequence[Layer], s: VllmSettings) -> int:
    """Of a gated delta net what is a linear layer of vLLM's beside its matrices: the convolution, whose inputs are its columns.

    Qwen 3.5's in_proj_qkvz is four matrices with a first factor each, its in_proj_ba two (mamba/gdn/qwen_gdn_linear_attn.py
    create_qkvz_proj); Qwen3-Next's are one each.
    """
    modules, names, found = lora.asked_modules(d, beside=BESIDE), lora.asked_names(d), 0
    stacked = STACKED if (d.model.architecture or "").startswith("Qwen3_5") else {}
    for layer in layers:
        named = {w.name: w for w in layer.weights}
        if "in_proj_qkvz" not in named:
            continue
        if names is None or "conv1d" in names:
            found += named["conv1d"].shape[-1] + named["conv1d"].shape[0] // s.tp
        found += sum((n - 1) * named[name].shape[1] for name, n in stacked.items() if modules is None or name in modules)
    return found


def _of_experts(d: Deployment, layers: Sequence[Layer], s: VllmSettings) -> int:
    """Inputs and outputs of a rank's share of all matrices of experts: its own experts, or a share of every one's inner width."""
    options, ep = Options(d), d.ep or 1
    split = 1 if ep > 1 else s.tp
    fused = _says(FUSED_EXPERTS.get(d.model.architecture or ""), s) and not options.flag("enable_mixed_moe_lora_format")
    sharded, shared = options.flag("fully_sharded_loras"), options.flag("enable_moe_shared_loras")
    found = 0
    for w in (w for layer in layers for w in layer.weights if w.experts and len(w.shape) == 3):
        count, outputs, inputs = w.shape
        outer, inner = (outputs, inputs) if w.name.endswith("down") else (inputs, outputs)
        if w.name.endswith("gate") and fused:
            outer = 0
        held = cdiv(count, ep)
        found += (1 if shared else held) * cdiv(outer, split if sharded else 1) + held * cdiv(inner, split)
    return found


def _of_vocabulary(d: Deployment, model: Lowered, stage: range, s: VllmSettings, asked: Lora, names: Container[str] | None) -> int:
    """Elements of one slot for the embedding (first stage) and the head (last stage), whole on every rank. `names`: the modules asked for,
    None: all."""
    name, vocabulary, hidden = d.model.architecture or "", d.model.vocab_size or 0, d.model.hidden_size
    since, gone = VOCABULARY.get(name, (None, ""))
    both = _says(since, s) and not (gone and _says(gone, s))
    extra = EXTRA_ROWS if s.rules.lora_extra_rows else 0
    one = asked.rank * (vocabulary + hidden) + extra * hidden
    if names is not None and s.since(NAMED_SINCE):
        of_embedding = of_head = True
    else:
        of_embedding, of_head = both or name in EMBEDDING, both
    embedding = stage.start == 0 and of_embedding and (names is None or "embed_tokens" in names)
    head = of_head and (names is None or "lm_head" in names) and stage.stop == len(model.layers) and d.model.lm_head
    return one * (embedding + bool(head)) + (extra * asked.rank if embedding else 0)


def _says(first: str | None, s: VllmSettings) -> bool:
    return first is not None and (not first or s.since(first))
