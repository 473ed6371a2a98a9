"""The types that llama-quantize gives the tensors of a file: each tensor in the one its rule says, by role, layer and shape.

llama.cpp src/llama-quant.cpp at 007dbbf3 (llama_tensor_get_type_impl, tensor_type_fallback), with an importance matrix where the types
need one and without where they do not. The same rule in data: a mixture is its default type and, for a category of tensor, the types that
replace it under a condition; the first condition that holds decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from kvplan.dtypes import GGML_BLOCKS, OLLAMA_TYPES
from kvplan.tensors import Layer, Lowered, WeightTensor

Category = Literal["embedding", "output", "v", "k", "q", "o", "up", "gate", "down", "other", "position", "table"]
#: The table of embeddings for each layer (per_layer_token_embd), which the rule treats as the model's own.
TABLE = "embedding_per_layer"
#: That of a layer of n-grams (Qwen4-Exp), which GGUF names alike. Its rows of 160 are no whole blocks of q4_k: 27,466 MiB of it in
#: UD-Q4_K_XL (ggml-org/llama.cpp#27742) are 4.5 bits of each.
NGRAMS, _OF_NGRAMS = "ngram_embedding", {"q4_k": "iq4_nl"}
#: What a gated delta net reads, in one tensor here.
DELTA_NET = "in_proj_qkvz"
#: What reads the table in each layer (inp_gate, proj).
BESIDE_TABLE = ("per_layer_input_gate", "per_layer_projection")
#: more: use_more_bits; eighth, sixteenth: the first part of the layers; gqa: 4 or more query heads a KV head; middle: all but the first and
#: the last eighth.
Condition = Literal["all", "more", "eighth", "sixteenth", "first2", "first4", "gqa", "gqa_or_experts", "middle"]
Rule = tuple[tuple[Condition, str], ...]


class Mixture(NamedTuple):
    """What a file type is made of. `low`: the branch of the 1- and 2-bit types, which the bumps of 70B and of 8 experts leave alone."""

    default: str
    output: str = "q6_k"
    rules: Mapping[str, Rule] = {}
    low: bool = False


def _low(default: str, embedding: str, v: str, o: str | None) -> Mixture:
    rules: dict[str, Rule] = {"embedding": (("all", embedding),), "v": (("gqa_or_experts", "q4_k"), ("all", v)), "down": (("eighth", v),)}
    if o:
        rules["o"] = (("all", o),)
    return Mixture(default, "q5_k", rules, low=True)


_MORE: Rule = (("more", "q6_k"),)
MIXTURES: dict[str, Mixture] = {
    "q4_0": Mixture("q4_0"), "q4_1": Mixture("q4_1"), "q5_0": Mixture("q5_0"), "q5_1": Mixture("q5_1"), "q8_0": Mixture("q8_0", "q8_0"),
    "q6_k": Mixture("q6_k"), "mxfp4_moe": Mixture("q8_0", "q8_0"), "q1_0": Mixture("q1_0"),
    "q2_0": Mixture("q2_0", "q6_k", {"embedding": (("all", "q4_k"),)}),
    "tq1_0": Mixture("tq1_0", "q6_k", {"embedding": (("all", "q4_k"),)}),
    "tq2_0": Mixture("tq2_0", "q6_k", {"embedding": (("all", "q4_k"),)}),
    "q2_k": Mixture("q2_k", "q6_k", {"v": (("gqa", "q4_k"), ("all", "q3_k")), "down": (("all", "q3_k"),), "o": (("all", "q3_k"),)}),
    "q2_k_s": Mixture("q2_k", "q6_k", {"v": (("gqa", "q4_k"),), "down": (("eighth", "q4_k"),)}),
    "q3_k_s": Mixture("q3_k"),
    "q3_k_m": Mixture("q3_k", "q6_k", {
        "v": (("first2", "q5_k"), ("all", "q4_k")), "down": (("sixteenth", "q5_k"), ("all", "q4_k")), "o": (("all", "q4_k"),),
    }),
    "q3_k_l": Mixture("q3_k", "q6_k", {"v": (("all", "q5_k"),), "down": (("all", "q5_k"),), "o": (("all", "q5_k"),)}),
    "q4_k_s": Mixture("q4_k", "q6_k", {"v": (("first4", "q5_k"),), "down": (("eighth", "q5_k"),)}),
    "q4_k_m": Mixture("q4_k", "q6_k", {"v": _MORE, "down": _MORE}),
    "q5_k_s": Mixture("q5_k"),
    "q5_k_m": Mixture("q5_k", "q6_k", {"v": _MORE, "down": _MORE}),
    "iq1_s": _low("iq1_s", "q2_k", "q2_k", "iq2_xxs"), "iq1_m": _low("iq1_m", "q2_k", "q2_k", "iq2_xxs"),
    "iq2_xxs": _low("iq2_xxs", "q2_k", "q2_k", None), "iq2_xs": _low("iq2_xs", "q2_k", "q2_k", None),
    "iq2_s": _low("iq2_xs", "iq3_s", "iq3_s", "iq3_s"), "iq2_m": _low("iq2_s", "iq3_s", "iq3_s", "iq3_s"),
    "iq3_xxs": Mixture("iq3_xxs", "q5_k", {
        "embedding": (("all", "iq3_s"),), "v": (("gqa", "q4_k"),), "k": (("all", "iq2_s"),), "q": (("all", "iq2_s"),),
        "o": (("all", "iq3_s"),),
    }),
    "iq3_xs": Mixture("iq3_s", "q6_k", {
        "v": (("gqa", "q4_k"),), "k": (("all", "iq3_xxs"),), "q": (("all", "iq3_xxs"),),
        "gate": (("middle", "iq3_xxs"),), "up": (("middle", "iq3_xxs"),),
    }),
    "iq3_s": Mixture("iq3_s", "q6_k", {"v": (("gqa", "q4_k"),)}),
    "iq3_m": Mixture("iq3_s", "q6_k", {"v": (("all", "q4_k"),), "down": (("eighth", "q4_k"),), "o": (("all", "q4_k"),)}),
    "iq4_nl": Mixture("iq4_nl", "q6_k", {"v": (("gqa", "q5_k"),), "down": (("eighth", "q5_k"),)}),
    "iq4_xs": Mixture("iq4_xs", "q6_k", {"v": (("gqa", "q5_k"),), "down": (("eighth", "q5_k"),)}),
}  # fmt: skip

#: Architectures whose attention is one fused tensor in GGUF, which the rule treats as V (gguf-py constants.py MODEL_TENSORS).
FUSED = frozenset((
    "FalconForCausalLM", "GPT2LMHeadModel", "BloomForCausalLM", "MptForCausalLM", "GPTNeoXForCausalLM", "Phi3ForCausalLM",
    "QWenLMHeadModel", "ChatGLMModel", "ChatGLMForConditionalGeneration", "GPTBigCodeForCausalLM", "DbrxForCausalLM",
    "JAISLMHeadModel", "OpenELMForCausalLM",
))  # fmt: skip
#: A type whose block does not divide the row -> the one taken instead.
_FALLBACK = {
    **dict.fromkeys(("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs"), "iq4_nl"),
    **dict.fromkeys(("q2_0", "q2_k", "q3_k", "tq1_0", "tq2_0"), "q4_0"), "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0",
}  # fmt: skip
_CATEGORIES: dict[str, Category] = {"q": "q", "k": "k", "v": "v", "o": "o"}
_NETWORK: dict[str, Category] = {"up": "up", "gate": "gate", "down": "down"}
#: Mixtures whose attention output the rule raises where there are 8 experts.
_RAISED_O = frozenset((
    "q2_k", "iq3_xs", "iq3_xxs", "q3_k_s", "q3_k_m", "iq4_nl", "q4_k_s", "q4_k_m", "iq3_s", "iq3_m", "iq4_xs",
))  # fmt: skip


class Facts(NamedTuple):
    """What the rule asks of a model."""

    n_layers: int
    gqa: int
    experts: int
    architecture: str
    tied: bool

    @property
    def fused(self) -> bool:
        """Attention is one fused tensor in GGUF."""
        return self.architecture in FUSED

    @property
    def is_70b(self) -> bool:
        """LLM_TYPE_70B of llama and qwen2: 80 layers with grouped KV heads."""
        return self.n_layers == 80 and self.gqa > 1


class Publisher(NamedTuple):
    """A publisher's own name for a mixture: the file type it starts from, and the types it gives embedding and output, the experts, and the
    table of embeddings for each layer."""

    of: str
    ends: str | None = None
    experts: str | None = None
    table: str | None = None


#: google/gemma-3-*-it-qat-q4_0-gguf, whose embedding is in f16 (17.2 GB of 27B, 3.16 of 4B without their towers; not Gemma 4's);
#: bartowski's *_L and XL (model cards: "Uses Q8_0 for embed and output weights"); unsloth's dynamic types, by what their layers mostly are.
_PUBLISHED: dict[str, Publisher] = {
    "q4_0_qat": Publisher("q4_0", "f16"),
    "q2_k_l": Publisher("q2_k", "q8_0"), "q3_k_xl": Publisher("q3_k_l", "q8_0"), "q4_k_l": Publisher("q4_k_m", "q8_0"),
    "q5_k_l": Publisher("q5_k_m", "q8_0"), "q6_k_l": Publisher("q6_k", "q8_0"),
    "ud_q2_k_xl": Publisher("q2_k"), "ud_q3_k_xl": Publisher("q3_k_m"), "ud_q4_k_xl": Publisher("q4_k_m"),
    "ud_q5_k_xl": Publisher("q5_k_m"), "ud_iq4_nl_xl": Publisher("iq4_nl"),
    **dict.fromkeys(("ud_q6_k_m", "ud_q6_k_l", "ud_q6_k_xl"), Publisher("q6_k")),
    **dict.fromkeys(("ud_q8_k_l", "ud_q8_k_xl"), Publisher("q8_0")), "ud_tq1_0": Publisher("iq1_s"),
    **{f"ud_{name}": Publisher(name) for name in (
        "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m", "iq3_xxs", "iq3_xs", "iq3_s", "iq3_m", "iq4_xs", "iq4_nl",
        "q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k", "q8_0",
    )},
}  # fmt: skip

#: With the experts in the MXFP4 that they were released in (unsloth's and bartowski's files of gpt-oss: 11.5 to 12.1 GB of 20B in every
#: type), and as Ollama stores models with a table of embeddings for each layer, in f16 (gemma3n:e4b 7.5 GB, gemma4:e4b 9.6).
PUBLISHED: dict[str, Publisher] = {
    **_PUBLISHED,
    **{f"{name}_mxfp4": _PUBLISHED.get(name, Publisher(name))._replace(experts="mxfp4") for name in (*MIXTURES, *_PUBLISHED)},
    **{f"{name}_ollama": Publisher(name, table="f16") for name in OLLAMA_TYPES},
}

#: Every name that a file type goes by here.
FILE_TYPES = frozenset((*MIXTURES, *PUBLISHED))


def with_types(model: Lowered, name: str, architecture: str | None = None) -> Lowered:
    """The model with the bytes that a file of this type gives each matrix; equal layers of equal types share one object."""
    facts = _facts(model, architecture)
    made: dict[tuple[int, tuple[str, ...]], Layer] = {}
    layers = []
    for i, layer in enumerate(model.layers):
        types = tuple(_split(name, i, w, layer, facts) or _type(name, _category(w, facts), i, w, facts) for w in layer.weights)
        key = (id(layer), types)
        if key not in made:
            made[key] = replace(layer, weights=tuple(_stored(w, t) for w, t in zip(layer.weights, types, strict=True)))
        layers.append(made[key])
    return replace(
        model,
        layers=tuple(layers),
        first=_all(name, model.first, facts),
        last=_all(name, model.last, facts),
        embedding=_all(name, (model.embedding,), facts)[0] if model.embedding else None,
    )


def _split(name: str, i: int, w: WeightTensor, layer: Layer, facts: Facts) -> str:
    """The types of what a delta net reads, two tensors of a file (attn_qkv, which the rule takes for V, and attn_gate of as many rows as
    there are values): `q6_k/q4_k/6144`, with the second's rows; empty for any other tensor."""
    values = next((other.shape[1] for other in layer.weights if other.name == "out_proj"), 0) if w.name == DELTA_NET else 0
    if not values:
        return ""
    return f"{_type(name, 'v', i, w, facts)}/{_type(name, 'other', i, w, facts)}/{values}"


def _all(name: str, tensors: tuple[WeightTensor, ...], facts: Facts) -> tuple[WeightTensor, ...]:
    return tuple(_stored(w, _type(name, _category(w, facts), 0, w, facts)) for w in tensors)


def _facts(model: Lowered, architecture: str | None) -> Facts:
    gqa = experts = 0
    for layer in model.layers:
        sizes = {w.name: w.shape[0] for w in layer.weights if w.role == "attention"}
        gqa = max(gqa, sizes.get("q", 0) // max(1, sizes.get("k", 1)) if "k" in sizes else 1)
        experts = max([experts, *(w.experts for w in layer.weights)])
    return Facts(len(model.layers) + len(model.draft), gqa, experts, architecture or "", model.tied)


def _category(w: WeightTensor, facts: Facts) -> Category | None:
    """What the rule takes a tensor for; None: it is not quantised."""
    if w.name in BESIDE_TABLE:
        return "other"
    if len(w.shape) < 2 or w.role in ("norm", "router", "state", "buffer", "tower", "other"):
        return None
    if w.role == "embedding":
        if w.name in (TABLE, NGRAMS):
            return "table"
        return ("output" if facts.tied else "embedding") if w.name == "embedding" else "position"
    if w.role == "head":
        return "output"
    if w.role == "attention":
        found = _CATEGORIES.get(w.name, "other")
        return "v" if facts.fused and found in ("q", "k") else found
    return _NETWORK.get(w.name.rpartition("_")[2], "other") if not w.name.startswith("latent") else "other"


def _type(name: str, category: Category | None, i: int, w: WeightTensor, facts: Facts) -> str:
    """The type of one tensor of layer `i`; empty where it is not quantised."""
    if category is None:
        return ""
    if category == "position":
        return "f16"
    published = PUBLISHED.get(name, Publisher(name))
    mixture = MIXTURES[published.of]
    if category == "table":
        if published.table:
            return published.table
        category = "output" if facts.tied else "embedding"
    if published.experts and w.experts:
        chosen = published.experts
    elif category in ("embedding", "output") and published.ends and not (name == "q4_0_qat" and "Gemma4" in facts.architecture):
        chosen = published.ends
    elif category == "output":
        chosen = mixture.output if w.shape[-1] % GGML_BLOCKS[mixture.default][0] == 0 else "q8_0"
    elif published.of == "mxfp4_moe":
        chosen = "mxfp4" if w.experts else "q8_0"
    else:
        chosen = next((t for condition, t in mixture.rules.get(category, ()) if _holds(condition, i, facts)), mixture.default)
        chosen = _raised(published.of, mixture, category, chosen, facts)
    if w.name == NGRAMS:
        chosen = _OF_NGRAMS.get(chosen, chosen)
    return _fitting(chosen, w.shape[-1])


def _raised(of: str, mixture: Mixture, category: Category, chosen: str, facts: Facts) -> str:
    """The rule's exceptions for 70B and for 8 experts."""
    if mixture.low:
        if facts.experts == 8 and category in ("k", "o"):
            return "q4_k" if category == "k" else "q5_k"
        return chosen
    if category == "v" and facts.is_70b and chosen in ("q3_k", "q4_k"):
        chosen = "q5_k"
    if facts.experts == 8:
        if category in ("v", "k"):
            return "q8_0"
        if category == "o":
            return "q5_k" if of in _RAISED_O else mixture.default
    return chosen


def _holds(condition: Condition, i: int, facts: Facts) -> bool:
    n = facts.n_layers
    return {
        "all": True,
        "more": i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2,
        "eighth": i < n // 8,
        "sixteenth": i < n // 16,
        "first2": i < 2,
        "first4": i < 4,
        "gqa": facts.gqa >= 4,
        "gqa_or_experts": facts.gqa >= 4 or facts.experts >= 4,
        "middle": n // 8 <= i < 7 * n // 8,
    }[condition]


def _fitting(name: str, columns: int) -> str:
    """The type, or its fallback where a row is not whole blocks of it."""
    if columns % GGML_BLOCKS[name][0] == 0:
        return name
    other = _FALLBACK.get(name, "f16")
    return other if columns % GGML_BLOCKS[other][0] == 0 else "f16"


def _stored(w: WeightTensor, name: str) -> WeightTensor:
    if not name:
        return w
    if "/" in name:
        first, second, rows = name.split("/")
        gate = w.shape[-1] * int(rows)
        return w._replace(stored=_bytes(w.elems - gate, first) + _bytes(gate, second))
    return w._replace(stored=_bytes(w.elems, name))


def _bytes(elems: int, name: str) -> int:
    block, n_bytes = GGML_BLOCKS[name]
    return elems // block * n_bytes
