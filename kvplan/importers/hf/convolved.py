"""Models with depthwise convolutions beside their layers: Qwen4-Exp (an n-gram layer), Inkling and Inkling 2 (four a layer).

transformers 5.23.0 models/qwen4_exp/modeling_qwen4_exp.py, models/inkling/modeling_inkling.py, models/inkling2/modeling_inkling2.py.
"""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.attention import flags, head_dim, kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, model, with_head
from kvplan.importers.hf.experts import dense_of, moe, where
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.linear import LINEAR, delta_net
from kvplan.importers.hf.rows import Decoder, Experts
from kvplan.importers.hf.stack import Block, block, weight

INDEXED = "indexed_attention"


def qwen4(f: Fields, t: Decoder) -> Stack:
    """Qwen4-Exp: gated delta nets and gated attention over chosen tokens, each half layer in `hc_count` residual streams; no other norm."""
    n, hidden, experts = f.dim("num_hidden_layers"), f.dim("hidden_size"), t.experts or Experts()
    full: dict[str, Any] = {
        **softmax(f.dim("num_attention_heads"), kv_heads(f), head_dim(f), **flags(f, t)), "kind": "gqa_indexed", "kv_heads": kv_heads(f),
        "index_heads": f.dim("indexer_n_heads"), "index_head_dim": f.dim("indexer_head_dim"), "index_topk": f.dim("indexer_budget"),
    }  # fmt: skip
    if group := f.count("indexer_compress_ratio"):
        full["index_group"] = group
    gate = [weight("gate_bias", f.dim("num_attention_heads") * head_dim(f), role="norm")] if f.flag("attention_bias") else []
    streams = [w for half in ("attention", "mlp") for w in _streams(f, f"{half}_hyper", inject=True)]
    lexical = [f.whole(i, "ple_layer_ids", 1) for i in f.items("ple_layer_ids") or []]
    mixers, layers = {LINEAR: delta_net(f), INDEXED: full}, list[Block]()
    kinds = f.items("layer_types", n) or []
    if set(kinds) - mixers.keys() or not kinds or max(lexical, default=0) > n:
        raise f.fault("layer_types", f"with ple_layer_ids must name linear_attention or indexed_attention for each of {n} layers")
    for i, kind in enumerate(kinds):
        own, more = _lexical(f, sorted(set(lexical)).index(i + 1)) if i + 1 in lexical else ([], [])
        layers.append(block([mixers[kind], *own], [moe(f, experts)], 0, [*streams, *(gate if kind == INDEXED else []), *more]))
    notes = ["the ids of the last tokens of an n-gram (8 bytes each) are not counted"] if lexical else []
    made = model(f, layers, weights=_streams(f, "output_hyper", inject=False))
    return {**made, "final_norm": False, "notes": [*made.get("notes", []), *notes], "hidden_size": hidden}


def _streams(f: Fields, name: str, *, inject: bool) -> list[dict[str, Any]]:
    """What mixes the residual streams before one half layer."""
    wide, low = f.dim("hc_count") * f.dim("hidden_size"), f.dim("hc_lowrank")
    made = [weight(f"{name}_norm", wide, role="norm"), weight(f"{name}_down", low, wide), weight(f"{name}_up", wide, low)]
    return [*made, weight(f"{name}_inject", f.dim("hc_count"), wide)] if inject else made


def _lexical(f: Fields, place: int) -> tuple[list[Any], list[dict[str, Any]]]:
    """The n-gram layer at that place among its kind: a hashed table for each head, prime numbers of rows, and a dilated convolution."""
    hidden, wide, embedded = f.dim("hidden_size"), f.dim("hc_count") * f.dim("hidden_size"), f.dim_or("ple_embed_dim", f.dim("hidden_size"))
    heads = (f.dim("ngram_size") - 1) * f.dim("heads_per_ngram")
    base = f.raw("ngram_vocab_size_base")
    if isinstance(base, bool) or not isinstance(base, int) or not 0 < base < 1 << 30:
        raise f.fault("ngram_vocab_size_base", f"must be a positive whole number (is {base!r:.60})")
    if (place + 1) * heads > 512:
        raise f.fault("heads_per_ngram", f"{heads} tables a layer: more than is modelled")
    sizes = _primes(base - 1, (place + 1) * heads)[place * heads :]
    step = f.dim("make_ngram_vocab_size_divisible_by")
    conv = {"kind": "depthwise_conv", "channels": wide, "d_conv": f.dim("ple_conv_kernel_size"), "dilation": f.dim("ngram_size")}
    return [conv | {"exact_columns": True}], [
        weight("ngram_embedding", step, -(-sum(sizes) // step), embedded // heads, role="embedding"), weight("ngram_key", wide, embedded),
        weight("ngram_value", hidden, embedded), *(weight(f"ngram_norm_{x}", wide, role="norm") for x in ("key", "query", "conv")),
    ]  # fmt: skip


def _primes(start: int, n: int) -> list[int]:
    """The first n primes above start."""
    found: list[int] = []
    while len(found) < n:
        start += 1
        if start > 1 and all(start % d for d in range(2, int(start**0.5) + 1)):
            found.append(start)
    return found


def inkling(f: Fields, t: Decoder) -> Stack:
    """Inkling: sliding and full layers of different heads, relative positions, four convolutions a layer whose states are in f32."""
    n, hidden, kernel = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("conv_kernel_size")
    mixers, extra = {}, {}
    for kind, prefix, window in (("hybrid", "", None), ("hybrid_sliding", "swa_", f.dim("sliding_window_size"))):
        heads, kv, dim = (f.dim(f"{prefix}{key}") for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))
        reach = window or f.dim("rel_extent")
        conv = {"kind": "depthwise_conv", "channels": 2 * kv * dim + 2 * hidden, "d_conv": kernel, "state_dtype": "f32"}
        mixers[kind] = [softmax(heads, kv, dim, window=window, **flags(f, t)), conv]
        extra[kind] = [weight("relative_proj", heads * f.dim("d_rel"), hidden, role="attention"),
                       weight("relative_logits", f.dim("d_rel"), reach)]  # fmt: skip
    e = Experts(n="n_routed_experts", shared_count="n_shared_experts", bias="buffer")
    scored = [weight("shared_router", f.count("n_shared_experts"), hidden)]  # whatever shared_expert_sink says: no class reads it
    scale, dense, sparse = weight("global_scale", 1, role="norm"), dense_of(f.dim("intermediate_size")), where(f, e, n)
    kinds = f.items("layer_types", n) or []
    if set(kinds) - mixers.keys() or not kinds:
        raise f.fault("layer_types", f"must name hybrid or hybrid_sliding for each of {n} layers")
    layers = [
        block(mixers[kind], [moe(f, e) if has else dense], 2, [*extra[kind], scale, *(scored if has else [])])
        for kind, has in zip(kinds, sparse, strict=True)
    ]
    return model(f, layers, weights=[weight("embedding_norm", hidden, role="norm")])


def inkling2(f: Fields, t: Decoder) -> Stack:
    """Inkling 2: experts in every layer, learned scales and sinks, residuals of earlier blocks; full layers' taps follow the token.

    Inkling 2 Loop goes through the layers from loop_layer_index_start on several times; each pass keeps caches of its own, and the layers
    have gates for what the pass before tells them (transformers 5.24 models/inkling2_loop).
    """
    n, hidden, kernel, low = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("conv_kernel_size"), f.dim("d_rel")
    kinds = f.items("layer_types", n) or []
    if set(kinds) - {"hybrid", "hybrid_sliding"} or not kinds:
        raise f.fault("layer_types", f"must name hybrid or hybrid_sliding for each of {n} layers")
    routed, window, layers = moe(f, Experts(n="n_routed_experts", bias="buffer")), f.dim("sliding_window_size"), list[Block]()
    looped, passes, gates = _loop(f, n)
    for i, kind in enumerate(kinds):
        full = kind == "hybrid"
        heads, kv, dim = (f.dim(f"{'' if full else 'swa_'}{key}") for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))
        conv = {"kind": "depthwise_conv", "channels": 2 * kv * dim + 2 * hidden, "d_conv": kernel, "state_dtype": "f32"}
        own = [weight("relative_proj", heads * low, hidden, role="attention"), weight("relative_logits", low, f.dim("rel_extent")
               if full else window), weight("sink_proj", heads, hidden, role="attention"), weight("query_scale", heads, dim),
               weight("relative_scale", heads, low), weight("mlp_query", hidden)]  # fmt: skip
        own += [weight("attention_query", 3 if full else 1, hidden)] if i else []
        own += [weight(f"{x}_conv_proj", kv * kernel, hidden) for x in "kv"] if full else []
        mixer = softmax(heads, kv, dim, window=None if full else window, output_gate="element")
        again = [{**kept, "tied": True} for kept in (mixer, conv)] * (passes - 1 if i in looped else 0)
        layers.append(block([mixer, conv, *again], [routed], 4 if full else 2, own + (gates if i in looped else [])))
    told = [weight("message_query", len(looped), 4, hidden)] if looped else []
    made = model(f, layers, weights=[weight("embedding_norm", hidden, role="norm"), weight("final_query", hidden), *told])
    return with_head(made, f.dim("unpadded_vocab_size"))


def _loop(f: Fields, n: int) -> tuple[range, int, list[dict[str, Any]]]:
    """The layers that are gone through again, how often in all, and the gates of each."""
    older = f.part("loop_config") if isinstance(f.data.get("loop_config"), dict) else f
    names = ("core_start", "core_end", "num_passes", "gate_rank")
    usual = ("loop_layer_index_start", "loop_layer_index_end", "loop_num_passes", "loop_gate_rank")
    start, end, passes, rank = (
        older.count(a) if older is not f and older.given(a) else f.count(b) for a, b in zip(names, usual, strict=True)
    )
    if not passes:
        return range(0), 1, []
    if not 0 < start < end <= n or passes > 64:
        raise f.fault("loop_layer_index_end", f"{passes} passes of layers {start} to {end}: not layers of {n}, or more than 64 passes")
    hidden = f.dim("hidden_size")
    shapes = (("down", rank, 2 * hidden), ("forget", hidden, rank), ("message", hidden, rank))
    return range(start, end), passes, [weight(f"{of}_{name}_gate", *shape) for of in ("q", "k", "v", "mlp") for name, *shape in shapes]
