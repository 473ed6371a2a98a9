"""What a forward pass of transformers holds for a moment beside weights and caches: the widest step of the widest layer.

Read off the modeling files of 5.23.0: a layer's inputs and results that are alive at once. On an H200 (torch 2.11, transformers 5.17) ten
real classes peaked within 2 % of it, with windows within 7, with states within 5 (validation/h200-facts.jsonl);
tests/oracle/test_transformers_passes.py compares, and traces others tensor by tensor on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvplan.engines.common.lines import Span
from kvplan.tensors import Layer, WeightTensor
from kvplan.units import cdiv

SOURCE = "the widest step of the widest layer, transformers 5.23.0 modeling files"
#: Hidden states that are alive in a layer: the embeddings, the residual, its norm, and the layer's input.
HIDDEN = 4
#: Classes that make gate and up by one matrix, which stays while its halves are used.
FUSED = frozenset({"Phi3ForCausalLM", "GlmForCausalLM", "Glm4ForCausalLM"})
#: Results of the experts of a token that are alive at once, in widths of an expert: gate and up, one of them activated, their product.
EXPERT = 4
#: Those of gpt-oss: with biases, and gate and up each clamped.
EXPERTS = {"GptOssForCausalLM": 12}
#: Classes whose routers weigh in the compute type: the experts' results as they come, weighed, and put in order (traced; gpt-oss measured).
WEIGHED = frozenset({
    "Ernie4_5_MoeForCausalLM", "FlexOlmoForCausalLM", "GptOssForCausalLM", "GraniteMoeForCausalLM", "HunYuanMoEV1ForCausalLM",
    "JetMoeForCausalLM", "OlmoeForCausalLM", "PhimoeForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM",
    "Qwen3VLMoeForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration", "Qwen3NextForCausalLM",
})  # fmt: skip
#: Classes whose routers weigh in f32, and with them the results once they are weighed.
WEIGHED_F32 = frozenset({
    "AfmoeForCausalLM", "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "Dots1ForCausalLM",
    "ExaoneMoeForCausalLM", "Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM", "GlmMoeDsaForCausalLM", "MiniMaxForCausalLM",
    "MiniMaxM2ForCausalLM", "MixtralForCausalLM", "SolarOpenForCausalLM",
})  # fmt: skip
#: Classes that still go through their experts one after the other; before 5.0 all did (integrations/moe.py: grouped_mm).
LOOPED = frozenset({"DbrxForCausalLM"})
#: Classes without sdpa (`_supports_sdpa` of 5.23.0): they make every score. Gemma 2 had it until 5.20.
EAGER = frozenset({
    "BigBirdForCausalLM", "BloomForCausalLM", "CodeGenForCausalLM", "DeepseekV4ForCausalLM", "FlintForCausalLM", "GPTJForCausalLM",
    "GPTNeoForCausalLM", "GPTNeoXJapaneseForCausalLM", "GptOssForCausalLM", "GraniteMoeSWAForCausalLM", "GraniteSWAForCausalLM",
    "HYV4ForCausalLM", "Inkling2ForCausalLM", "Inkling2ForConditionalGeneration", "LEDForConditionalGeneration",
    "LongT5ForConditionalGeneration", "MiMoV2FlashForCausalLM", "MptForCausalLM", "MvpForConditionalGeneration",
    "NllbMoeForConditionalGeneration", "OpenAIGPTLMHeadModel", "PegasusXForConditionalGeneration", "ProphetNetForConditionalGeneration",
    "Speech2TextForConditionalGeneration", "SwitchTransformersForConditionalGeneration", "T5GemmaForConditionalGeneration",
    "VaultGemmaForCausalLM", "XGLMForCausalLM",
})  # fmt: skip
EAGER_FROM = {"Gemma2ForCausalLM": (5, 21)}
#: Classes made otherwise: attention and feed-forward side by side; last layers that only the last token of a prompt goes through.
OTHERWISE = frozenset({
    "CohereForCausalLM", "Cohere2ForCausalLM", "Gemma3nForConditionalGeneration", "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration",
})  # fmt: skip
#: Elements of a score's copies: masked, in f32 (two), back in the compute type; of gpt-oss with its sinks, in the compute type throughout.
COPIES, SCORES = 4, {"GptOssForCausalLM": 3}
#: Results of a gated delta net's step of a prompt without kernels of its own (flash-linear-attention), in widths of its values: ten of them
#: in f32 (torch_chunk_gated_delta_rule), beside its convolution's columns.
DELTA = 23
#: How far a pass is off, with what the allocator keeps in blocks that nothing fits: where every part of a layer is one that was read; of
#: other layers; where a gated delta net may have kernels of its own; where other states may, that take up to 2.7 times as much without.
READ, UNREAD, DELTAS, STATES = (0.93, 1.25), (0.5, 2.0), (0.4, 1.3), (0.7, 2.7)


class Widths(NamedTuple):
    """Elements of one token: of the widest step beside attention, of attention, and of its scores for each key.

    off    the low and the high end, in parts of the estimate
    masks  of tokens x keys: 0 where attention takes none, 1 where only prompts of unequal length make one, 2 where a window does
    """

    widest: int
    attention: int
    scores: int
    off: tuple[float, float]
    masks: int


def widths(layers: Sequence[Layer], architecture: str, release: tuple[int, int], tp: int = 1, attention: str = "") -> Widths:
    """Of a rank's widest layer. `attention`: the implementation that is asked for; empty: sdpa, or eager where a class has none."""
    looped = architecture in LOOPED or release < (5, 0)
    heads = max((w.units for layer in layers for w in layer.weights if w.name in ("q", "q_b")), default=0)
    makes_scores = attention == "eager" or (not attention and without_sdpa(architecture, release))
    named = [{w.name: w for w in layer.weights} for layer in layers]
    read = all(map(_is_read, named)) and not looped and architecture not in OTHERWISE
    read &= architecture in WEIGHED | WEIGHED_F32 or not any("expert_up" in by_name for by_name in named)
    slides = any(t.keep.kind in ("window", "chunk") for layer in layers for cache in layer.caches for t in cache.tensors)
    return Widths(
        widest=max((_widest(by_name, architecture, tp, looped) for by_name in named), default=0),
        attention=max((_attention(by_name, tp) for by_name in named), default=0),
        scores=cdiv(heads, tp) * SCORES.get(architecture, COPIES) if makes_scores else 0,
        off=_off(layers, read),
        masks=0 if "flash" in attention else 2 if slides else 1,
    )


def without_sdpa(architecture: str, release: tuple[int, int]) -> bool:
    """Whether a class has no fused attention of torch's, and takes eager where nothing is asked for."""
    return architecture in EAGER or release >= EAGER_FROM.get(architecture, (1000, 0))


def _off(layers: Sequence[Layer], read: bool) -> tuple[float, float]:
    states = {cache.form for layer in layers for cache in layer.caches for t in cache.tensors if t.tokens_per_state is None}
    if states:
        return DELTAS if states == {"gated-delta-net"} else STATES
    return READ if read else UNREAD


def _is_read(by_name: dict[str, WeightTensor]) -> bool:
    """A gated feed-forward network or experts, behind attention: how most models are made."""
    return ("mlp_gate" in by_name or "expert_gate" in by_name) and ("q" in by_name or "q_b" in by_name)


def _hidden(by_name: dict[str, WeightTensor]) -> int:
    return next((w.shape[-1] for name in ("q", "q_a", "mlp_up", "expert_up", "in_proj_qkvz", "in_proj") if (w := by_name.get(name))), 0)


def _attention(by_name: dict[str, WeightTensor], tp: int) -> int:
    """Q and its result, K and V, the residual and the layer's input."""
    sizes = sum(n * cdiv(w.shape[0], tp) for name, n in (("q", 2), ("q_b", 2), ("k", 1), ("v", 1), ("kv_b", 1)) if (w := by_name.get(name)))
    return sizes + 2 * _hidden(by_name)


def _widest(by_name: dict[str, WeightTensor], architecture: str, tp: int, looped: bool) -> int:
    """Gate, up and their product; of experts, as many as serve a token: those, or their results as they come, weighed and put in order."""
    hidden = _hidden(by_name)
    steps = [0]
    if dense := by_name.get("mlp_up"):
        times = 4 if architecture in FUSED else 3 if "mlp_gate" in by_name else 2
        steps.append(times * cdiv(dense.shape[0], tp))
    if "in_proj_qkvz" in by_name:
        steps.append(DELTA * cdiv(by_name["out_proj"].shape[-1], tp) + cdiv(by_name["conv1d"].shape[0], tp))
    if shared := by_name.get("shared_up"):
        steps.append(3 * cdiv(shared.shape[0], tp) + hidden)
    if experts := by_name.get("expert_up"):
        used = cdiv(experts.active**2, experts.experts) if looped else experts.active
        weighed = 4 if architecture in WEIGHED else 6
        steps.append(used * max(EXPERTS.get(architecture, EXPERT) * cdiv(experts.shape[-2], tp) + hidden, weighed * hidden))
    return max(steps) + HIDDEN * hidden


def of_pass(w: Widths, sequences: int, tokens: int, keys: int, element: int) -> Span:
    """Bytes of a pass over `tokens` of each sequence that attends to `keys`; `element`: bytes of one of the compute type.

    A mask is booleans while a layer runs, and of the compute type too where attention takes it. Prompts of unequal length, each padded
    under a mask of its own, are the high end.
    """
    n = sequences * tokens

    def held(mask: int) -> int:
        attention = n * element * (w.attention + w.scores * keys) + mask * (1 + element)
        return max(n * element * w.widest + mask, attention)

    square = tokens * keys if tokens > 1 and w.masks else 0
    point = held(square if w.masks == 2 else 0)
    low, high = w.off
    return Span(point, int(point * low), int(max(point, held(sequences * square if sequences > 1 else 0)) * high))
