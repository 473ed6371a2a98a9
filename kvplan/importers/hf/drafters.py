"""Drafters that are checkpoints of their own: heads that read hidden states of another model, from their own config.json.

Shapes: SpecForge specforge/modeling/draft/*.py, which trains and writes them; vLLM 0.32 llama_eagle3.py, qwen3_eagle3.py, qwen3_dflash.py,
qwen3_dspark.py, transformers_utils/configs/speculators/algos.py, which serves them. An embedding or output of the target's shape is the
target's (engines/common/drafters.py).
"""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.attention import mixer
from kvplan.importers.hf.decoder import Stack, decoder, lengths, model
from kvplan.importers.hf.experts import dense, dense_of
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.gemma import gemma4, reader
from kvplan.importers.hf.latent import Latent, mla
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.stack import Block, block, weight

#: Hidden states of the target that a head reads where its file does not list their layers (vLLM num_aux_hidden_states, SpecForge fc).
STATES = 3
_SAID = "a drafter: --speculative METHOD:TOKENS:PATH puts it beside the model it drafts for"


def _layers(f: Fields) -> Fields:
    """Where the shape of its layers stands: `transformer_layer_config` of the format of speculators, else the file itself."""
    return f.part("transformer_layer_config", "llama") if isinstance(f.data.get("transformer_layer_config"), dict) else f


def _states(f: Fields, otherwise: int) -> int:
    """How many hidden states it reads."""
    inside = [f.data, *(part for key in ("eagle_config", "dflash_config") if isinstance(part := f.data.get(key), dict))]
    for key in ("eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids", "target_layer_ids", "dspark_target_layer_ids"):
        for part in inside:
            if isinstance(part.get(key), list) and part[key]:
                return len(part[key])
    return f.dim_or("num_aux_hidden_states", otherwise)


def _joined(f: Fields, layers: Fields, states: int) -> list[dict[str, Any]]:
    """The projection of the hidden states it reads to its own width."""
    hidden = layers.dim("hidden_size")
    return [weight("fc", hidden, states * f.dim_or("target_hidden_size", hidden))]


def _output(f: Fields, layers: Fields) -> list[dict[str, Any]]:
    """Its output, over fewer words where it drafts fewer, with the table that says which."""
    words = f.dim_or("draft_vocab_size", layers.dim("vocab_size"))
    return [weight("lm_head", words, layers.dim("hidden_size"), role="head"), weight("d2t", words, role="buffer")]


def eagle3(f: Fields, t: Decoder) -> Stack:
    """EAGLE-3 and P-EAGLE: the first layer reads an embedding and a hidden state side by side."""
    inner = _layers(f)
    n, hidden = inner.dim("num_hidden_layers"), inner.dim("hidden_size")
    t = t._replace(qk_norm="head") if inner.model_type == "qwen3" else t
    whole = not isinstance(f.data.get("eagle_config"), dict) or f.data["eagle_config"].get("use_aux_hidden_state") is not False
    states = _states(f, STATES)
    width = f.dim_or("target_hidden_size", hidden)

    def layer(i: int) -> Block:
        attention = mixer(inner, t, "full") | ({} if i else {"input_size": 2 * hidden})
        return block([attention], [dense(inner, t)], 2 if i else 3)

    weights = _joined(f, inner, states) if whole else []
    if whole and f.flag("norm_before_fc"):
        weights.append(weight("input_norm", states * width, role="norm"))
    if whole and f.flag("fc_norm"):
        weights += [weight(f"fc_norm_{i}", width, role="norm") for i in range(states)]
    if str(f.file.get("architectures") or "").lower().startswith("['peagle") or f.data.get("speculators_model_type") == "peagle":
        weights.append(weight("mask_hidden", states * width))
    return {
        "vocab_size": inner.dim("vocab_size"),
        "hidden_size": hidden,
        **lengths(inner),
        "lm_head": False,
        "norm": "rms",
        "layers": [layer(i) for i in range(n)],
        "weights": [*weights, *_output(f, inner)],
        "notes": [_SAID],
    }


def dflash(f: Fields, t: Decoder) -> Stack:
    """DFlash: layers of Qwen3 that read the target's hidden states as their context and draft a block at once."""
    inner = _layers(f)
    made = decoder(inner, t)
    own = f.data.get("has_embed_tokens") is True
    reduced = f.opt("draft_vocab_size") not in (None, inner.dim("vocab_size"))
    norm = weight("hidden_norm", inner.dim("hidden_size"), role="norm")
    weights = [*_joined(f, inner, _states(f, inner.dim("num_hidden_layers"))), norm, *(_output(f, inner) if reduced else [])]
    return {
        **{key: value for key, value in made.items() if key not in ("cache_window", "unused_window", "tied_embeddings")},
        "vocab_size": inner.dim("vocab_size") if own else None,
        "lm_head": f.data.get("has_lm_head") is True and not reduced,
        "weights": [*made["weights"], *weights, *_beside(f, inner)],
        "notes": [_SAID],
    }


def dspark(f: Fields, t: Decoder) -> Stack:
    """DSpark: DFlash with a head that corrects each word by the one before, and one that says how sure it is."""
    made = dflash(f, t)
    inner, said = _layers(f), {**_part(f, "dflash_config"), **f.data}
    rank, kind = said.get("markov_rank", said.get("dspark_markov_rank")), said.get("markov_head_type") or "vanilla"
    if not isinstance(rank, int) or isinstance(rank, bool) or not 0 < rank < 1 << 16:
        raise f.fault("markov_rank", f"must be a positive whole number (is {rank!r:.40})")
    words, hidden = inner.dim("vocab_size"), inner.dim("hidden_size")
    beside = {"vanilla": (), "gated": (rank, hidden + rank), "rnn": (3 * rank, 2 * rank + hidden)}
    if kind not in beside:
        raise f.fault("markov_head_type", f"{kind!r:.40} is not known; one of {', '.join(beside)}: declare the drafter as a spec file")
    heads = [weight("markov_w1", words, rank), weight("markov_w2", f.dim_or("draft_vocab_size", words), rank)]
    if beside[kind]:
        heads += [weight("markov_gate", *beside[kind]), weight("markov_gate_bias", beside[kind][0], role="norm")]
    if said.get("enable_confidence_head"):
        width = hidden + (rank if said.get("confidence_head_with_markov") else 0)
        heads += [weight("confidence", 1, width), weight("confidence_bias", 1, role="norm")]
    return {**made, "weights": [*made["weights"], *heads]}


def dflash_laguna(f: Fields, t: Decoder) -> Stack:
    """DFlash of Laguna: each hidden state is normed before it is projected, attention has a gate (vLLM 0.26 models/laguna_dflash.py)."""
    made, inner = dflash(f, t), _layers(f)
    gate = {"output_gate": "head" if inner.opt("gating") in (True, "per-head") else "element"} if inner.opt("gating") else {}
    layers = [{**layer, "mixers": [{**mixer, **gate} for mixer in layer["mixers"]]} for layer in made["layers"]]
    norms = weight("aux_hidden_norms", _states(f, len(layers)) * inner.dim("hidden_size"), role="norm")
    return {**made, "layers": layers, "weights": [*made["weights"], norms]}


def dspark_latent(f: Fields, t: Latent) -> Stack:
    """DSpark over layers of latent attention (vLLM transformers_utils/configs/k3_dspark.py, models/kimi_k3/nvidia/dspark_mla.py)."""
    hidden, words, rank = f.dim("hidden_size"), f.dim("vocab_size"), f.dim("markov_rank")
    read = f.dim("num_target_layers") * f.dim_or("target_hidden_size", hidden)
    beside = [weight("context_proj", hidden, read), weight("context_norm", hidden, role="norm")]
    beside += [weight("markov_w1", words, rank), weight("markov_w2", f.dim_or("draft_vocab_size", words), rank)]
    if f.flag("enable_confidence_head"):
        width = hidden + (rank if f.flag("confidence_head_with_markov") else 0)
        beside += [weight("confidence", 1, width), weight("confidence_bias", 1, role="norm")]
    layers = [block([mla(f)], [dense_of(f.dim("intermediate_size"))])] * f.dim("num_hidden_layers")
    return {**model(f, layers, weights=beside), "lm_head": False, "notes": [_SAID]}


def dflash2(f: Fields, t: Decoder) -> Stack:
    """DFlash2: DFlash with a head that picks a path among candidates, over two tables of the words (sglang 0.5.23 CandidateSelector)."""
    made, inner, rank = dflash(f, t), _layers(f), _size(f, "selector_rank")
    if not rank:
        raise f.fault("dflash_config.selector_rank", "missing; DFlash2 has a selector")
    tables = [weight(f"selector_{side}", inner.dim("vocab_size"), rank) for side in ("before", "after")]
    return {**made, "weights": [*made["weights"], *tables, weight("selector_projection", rank, inner.dim("hidden_size"))]}


def gemma4_assistant(f: Fields, t: Decoder) -> Stack:
    """Gemma 4's assistant: a Gemma 4 whose layers all read its target's caches, between two projections to the target's width, and an
    output by centroids where words are ordered (transformers 5.23 models/gemma4_assistant)."""
    text = f.part("text_config", "gemma4_text").over({"num_kv_shared_layers": 0})
    for key in ("enable_moe_block", "use_double_wide_mlp", "hidden_size_per_layer_input"):
        if text.opt(key) or (key == "hidden_size_per_layer_input" and text.count(key)):
            raise text.fault(key, "must be 0 or false: an assistant has none")
    made = gemma4(text, t)
    hidden, target = text.dim("hidden_size"), f.dim("backbone_hidden_size")
    layers = [{**layer, "mixers": [reader(mixer) for mixer in layer["mixers"]]} for layer in made["layers"]]
    weights = [weight("pre_projection", hidden, 2 * target), weight("post_projection", target, hidden)]
    if f.flag("use_ordered_embeddings"):
        weights += [weight("centroids", f.dim("num_centroids"), hidden), weight("token_ordering", text.dim("vocab_size"), role="buffer")]
    tied = f.flag("tie_word_embeddings")
    return {**made, "layers": layers, "tied_embeddings": tied, "weights": [*made["weights"], *weights], "notes": [_SAID]}


def _beside(f: Fields, inner: Fields) -> list[dict[str, Any]]:
    """What `dflash_config` adds to the layers: convolutions around attention and MLP made of their input, and a recurrent corrector of
    the logits (Domino).

    Source: sglang 0.5.23 models/dflash.py DFlashGroupedConv, DFlashDraftModel; SpecForge draft/domino.py.
    """
    hidden, words, n = inner.dim("hidden_size"), inner.dim("vocab_size"), inner.dim("num_hidden_layers")
    taps, group = _size(f, "conv_kernel_size"), _size(f, "conv_group_size")
    if bool(taps) != bool(group) or (group and hidden % group):
        raise f.fault(
            "dflash_config.conv_group_size", f"is {group} beside conv_kernel_size {taps}: both or none, and a divisor of {hidden}"
        )
    weights: list[dict[str, Any]] = []
    for i in range(2 * n) if taps else ():
        weights += [weight(f"conv_{i}", 2 * taps, hidden), weight(f"conv_{i}_projection", 2 * taps * (hidden // group), hidden)]
    if _part(f, "dflash_config").get("projector_type", f.data.get("projector_type")) == "domino":
        width, rank = _size(f, "gru_hidden_dim"), _size(f, "emb_dim")
        if not width or not rank:
            raise f.fault("dflash_config.gru_hidden_dim", "Domino needs it, and emb_dim")
        weights += [weight("gru_input", 3 * width, hidden), weight("gru_state", 3 * width, width)]
        weights += [weight("corrector_in", rank, hidden + width), weight("corrector_out", words, rank)]
    return weights


def _size(f: Fields, key: str) -> int:
    """A size that `dflash_config` or the file states; 0 where it is left out: the part is not there."""
    size = _part(f, "dflash_config").get(key, f.data.get(key)) or 0
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 16:
        raise f.fault(key, f"must be a whole number (is {size!r:.40})")
    return size


def _part(f: Fields, key: str) -> dict[str, Any]:
    found = f.data.get(key)
    return found if isinstance(found, dict) else {}
