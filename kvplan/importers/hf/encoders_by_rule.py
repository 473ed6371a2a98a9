"""Encoders with a rule of their own: ALBERT, DeBERTa, ModernBERT, RemBERT, Nomic's and Jina's releases."""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.decoder import Stack
from kvplan.importers.hf.encoder_heads import head, norm
from kvplan.importers.hf.encoders import Encoder, encoder, layer_of, suffix_of, whole
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.stack import Block, weight


def albert(f: Fields, t: Encoder) -> Stack:
    """ALBERT: `num_hidden_groups` sets of weights, dealt over the layers in order."""
    n, groups = f.dim("num_hidden_layers"), f.dim("num_hidden_groups")
    if f.dim_or("inner_group_num", 1) != 1:
        raise f.fault("inner_group_num", "more than one layer to a step is not modelled; declare the model as a spec file")
    first = layer_of(f, t)
    again: Block = {part: [{**kind, "tied": True} for kind in first[part]] for part in ("mixers", "mlps")} | {"norms": 0}
    owners = [int(i / (n / groups)) for i in range(n)]
    layers = [first if owner not in owners[:i] else again for i, owner in enumerate(owners)]
    return whole(f, t, layers)


def modernbert(f: Fields, t: Encoder) -> Stack:
    """ModernBERT: no attention norm in the first layer; norms with a bias where `norm_bias`."""
    return encoder(f, t._replace(norm="layer") if f.flag("norm_bias") else t)


def rembert(f: Fields, t: Encoder) -> Stack:
    """RemBERT: a narrow input embedding, and a wide one of its own for the output."""
    made = encoder(f, t)
    if made.get("lm_head", True):
        hidden, width, vocab = f.dim("hidden_size"), f.dim("output_embedding_size"), f.dim("vocab_size")
        kept = [w for w in made["weights"] if not w["name"].startswith("mlm_")]
        out = [weight("mlm_dense", width, hidden), weight("mlm_dense_bias", width), *norm("mlm_norm", width), weight("mlm_bias", vocab)]
        made |= {"weights": [*kept, *out, weight("lm_head", vocab, width, role="head")], "lm_head": False, "tied_embeddings": False}
    return made


def _positions(f: Fields) -> list[str]:
    value = f.opt("pos_att_type") or []
    return [part.strip() for part in value.lower().split("|")] if isinstance(value, str) else [str(part) for part in value]


def _relative(f: Fields) -> int:
    """Rows of the table of relative positions."""
    most = f.opt("max_relative_positions")
    most = most if isinstance(most, int) and most > 0 else f.dim("max_position_embeddings")
    buckets = f.opt("position_buckets")
    return 2 * (buckets if isinstance(buckets, int) and buckets > 0 else most)


def deberta(f: Fields, t: Encoder) -> Stack:
    """DeBERTa, first version: K without a bias, projections of relative positions in every layer."""
    layer = layer_of(f, t)
    hidden, heads = f.dim("hidden_size"), f.dim("num_attention_heads")
    layer["mixers"][0] = {**layer["mixers"][0], "kv_bias": False}
    own = [weight("v_bias", hidden, role="norm")]
    own += [weight("talking_heads", 2, heads, heads, role="attention")] if f.flag("talking_head") else []
    if f.flag("relative_attention"):
        kinds = _positions(f)
        own += [weight("pos_k", hidden, hidden, role="attention")] if "c2p" in kinds else []
        own += [weight("pos_q", hidden, hidden, role="attention"), weight("pos_q_bias", hidden, role="norm")] if "p2c" in kinds else []
    return _disentangled(f, t, {**layer, "weights": own}, buckets=False)


def deberta_v2(f: Fields, t: Encoder) -> Stack:
    """DeBERTa-v2 and v3: positions read with the content's own projections (`share_att_key`) or their own; a convolution beside layer 1."""
    layer = layer_of(f, t)
    hidden = f.dim("hidden_size")
    if f.flag("relative_attention") and not f.flag("share_att_key"):
        own: list[dict[str, Any]] = []
        for kind, name in (("c2p", "pos_k"), ("p2c", "pos_q")):
            if kind in _positions(f):
                own += [weight(name, hidden, hidden, role="attention"), weight(name + "_bias", hidden, role="norm")]
        layer = {**layer, "weights": own} if own else layer
    return _disentangled(f, t, layer, buckets=True)


def _disentangled(f: Fields, t: Encoder, layer: Block, *, buckets: bool) -> Stack:
    """What both versions have around their layers."""
    hidden = f.dim("hidden_size")
    width = f.dim_or("embedding_size", hidden)
    absolute = f.opt("position_biased_input") is not False
    made = whole(f, t._replace(positions=absolute, embedding="embedding_size"), [layer] * f.dim("num_hidden_layers"))
    weights = [w for w in made["weights"] if w["name"] not in ("embedding_norm", "embedding_norm_bias", "embedding_projection_bias")]
    weights += norm("embedding_norm", hidden)
    if f.flag("relative_attention"):
        rows = _relative(f) if buckets else _relative(f.named({"position_buckets": ("",)}, {}))
        weights.append(weight("relative_embeddings", rows, hidden))
    if buckets and "layer_norm" in str(f.opt("norm_rel_ebd") or "none").lower():
        weights += norm("relative_norm", hidden)
    if buckets and f.count("conv_kernel_size"):
        groups = f.dim_or("conv_groups", 1)
        weights += [weight("conv", hidden, hidden // groups, f.dim("conv_kernel_size")), weight("conv_bias", hidden)]
        weights += norm("conv_norm", hidden)
    if suffix_of(f, t) == "ForMaskedLM" and f.opt("legacy") is False:
        weights = [w for w in weights if not w["name"].startswith("mlm_")] + head(f, ("mlm",), hidden, hidden)
        made["tied_embeddings"] = True
        if width != hidden:
            raise f.fault("embedding_size", "a head of another width than the embedding is not modelled; declare a spec file")
    return {**made, "weights": weights}


def nomic(f: Fields, t: Encoder) -> Stack:
    """Nomic's releases, whose keys are GPT-2's: biases by flag, every `moe_every_n_layers`-th layer of v2 has experts with one bias.

    Experts as vLLM 0.33 model_executor/models/bert_with_rope.py (NomicMoE): two matrices an expert, a router without bias.
    """
    released = {"n_embd", "n_head"} <= f.file.keys()
    gated = not released or f.opt("activation_function") in ("swiglu", "geglu", "glu")
    on: dict[str, Any] = {"attention_bias": f.flag("qkv_proj_bias"), "mlp_bias": f.flag("mlp_fc1_bias")} if released else {}
    t = t._replace(gated=gated, **on)
    if released and f.flag("mlp_fc1_bias") != f.flag("mlp_fc2_bias"):
        raise f.fault("mlp_fc2_bias", "a bias on one half of the network alone is not modelled; declare the model as a spec file")
    plain, n, every = layer_of(f, t), f.dim("num_hidden_layers"), f.count("moe_every_n_layers")
    hidden = f.dim("hidden_size")
    if not every:
        return whole(f, t, [plain] * n)
    moe = {"kind": "moe", "experts": f.dim("num_experts"), "experts_per_token": f.dim("moe_top_k"),
           "intermediate_size": f.dim("intermediate_size"), "gated": False}  # fmt: skip
    sparse = {**plain, "mlps": [moe], "weights": [weight("experts_bias", hidden, role="mlp")]}
    return whole(f, t, [sparse if i % every == 1 else plain for i in range(n)])


def gte_released(f: Fields, t: Encoder) -> Stack:
    """Alibaba-NLP's `NewModel`: the same layers as transformers' Gte; positions and token types by key."""
    if f.opt("position_embedding_type") not in (None, "rope"):
        raise f.fault("position_embedding_type", "only rope is modelled for this class; declare the model as a spec file")
    return encoder(f, t)


def jina_bert(f: Fields, t: Encoder) -> Stack:
    """Jina's embeddings v2: BERT with ALiBi and a gated network whose first matrix has no bias (candle-transformers jina_bert.rs).

    The release for code norms queries and keys over the whole width (text-embeddings-inference flash_jina_code.rs).
    """
    hidden, code = f.dim("hidden_size"), "qk-post-norm" in f"{f.data.get('_name_or_path')} {f.data.get('auto_map')}"
    if f.opt("position_embedding_type") not in (None, "alibi"):
        raise f.fault("position_embedding_type", "only alibi is modelled for this class; declare the model as a spec file")
    own = [w for x in "qk" for w in norm(f"{x}_norm", hidden)] if code else []
    if f.text("feed_forward_type") in ("glu", "geglu", "reglu"):
        t, own = t._replace(gated=True, mlp_bias=False), [*own, weight("mlp_down_bias", hidden, role="norm")]
    layer = layer_of(f, t)
    return whole(f, t, [{**layer, **({"weights": own} if own else {})}] * f.dim("num_hidden_layers"))


def xlm_roberta(f: Fields, t: Encoder) -> Stack:
    """XLM-RoBERTa; as jina-embeddings-v3 is released, rotary positions and a LoRA of each task on every matrix, embeddings too."""
    if f.opt("position_embedding_type") != "rotary":
        return encoder(f, t)
    made = encoder(f, t._replace(positions=False))
    tasks, rank, hidden = len(f.items("lora_adaptations") or []), f.dim_or("lora_rank", 4), f.dim("hidden_size")
    if not tasks:
        return made
    width, vocab, types = f.dim("intermediate_size"), f.dim("vocab_size"), f.dim_or("type_vocab_size", 1)

    def pair(name: str, into: int, out: int) -> list[dict[str, Any]]:
        return [weight(f"lora_{name}_a", tasks * rank, into), weight(f"lora_{name}_b", tasks * rank, out)]

    each = [*pair("qkv", hidden, 3 * hidden), *pair("o", hidden, hidden), *pair("up", hidden, width), *pair("down", width, hidden)]
    layers = [{**layer, "weights": [*layer.get("weights", []), *each]} for layer in made["layers"]]
    front = [*pair("embedding", vocab, hidden), *pair("types", types, hidden), *pair("pooler", hidden, hidden)]
    return {**made, "layers": layers, "weights": [*made["weights"], *front]}


def ernie(f: Fields, t: Encoder) -> Stack:
    """ERNIE: BERT with an embedding of the task where `use_task_id`."""
    if not f.flag("use_task_id"):
        return encoder(f, t)
    return encoder(f, t._replace(model_weights=(("task_embeddings", ("task_type_vocab_size", "hidden_size")),)))


def roformer(f: Fields, t: Encoder) -> Stack:
    """RoFormer: sinusoids stored as a table of head dim; V may carry the position too without weights."""
    rows = weight("sinusoids", f.dim("max_position_embeddings"), f.divided("hidden_size", "num_attention_heads"))
    made = encoder(f, t)
    return {**made, "weights": [*made["weights"], rows]}


def xmod(f: Fields, t: Encoder) -> Stack:
    """X-MOD: an adapter of two linears for each language in every layer."""
    hidden, narrow = f.dim("hidden_size"), f.dim("hidden_size") // f.dim("adapter_reduction_factor")
    made = encoder(f, t._replace(final_norm=f.flag("pre_norm")))
    extra = norm("adapter_norm", hidden) if f.flag("adapter_layer_norm") else []
    for language in f.items("languages") or ["en_XX"]:
        name = f"adapter_{str(language)[:60]}"
        extra += [weight(name + "_down", narrow, hidden), weight(name + "_up", hidden, narrow)]
        extra += [weight(name + "_down_bias", narrow), weight(name + "_up_bias", hidden)]
    layers = [{**layer, "weights": [*layer.get("weights", []), *extra]} for layer in made["layers"]]
    return {**made, "layers": layers}


def roc_bert(f: Fields, t: Encoder) -> Stack:
    """RoCBert: embeddings of pronunciation and shape, joined with the word's by one linear where `concat_input`."""
    hidden, made = f.dim("hidden_size"), encoder(f, t)
    width, extra = hidden, []
    for part in ("pronunciation", "shape"):
        size = f.dim(f"{part}_embed_dim")
        extra.append(weight(f"{part}_embeddings", f.dim(f"{part}_vocab_size"), size))
        width += size if f.opt(f"enable_{part}") is not False else 0
    if f.opt("concat_input") is not False:
        extra += [weight("input_map", hidden, width), weight("input_map_bias", hidden)]
    return {**made, "weights": [*made["weights"], *extra]}


def bert_generation(f: Fields, t: Encoder) -> Stack:
    """BERT for generation: a bias on the head, nothing else."""
    made = encoder(f, t)
    if "BertGenerationDecoder" in (f.items("architectures") or ["BertGenerationDecoder"]):
        biases = [weight("head_bias", f.dim("vocab_size"))] * (1 if f.flag("tie_word_embeddings") else 2)
        made |= {"weights": [*made["weights"], *biases], "lm_head": True, "tied_embeddings": f.flag("tie_word_embeddings")}
    return made
