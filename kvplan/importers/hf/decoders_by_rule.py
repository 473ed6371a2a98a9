"""Decoders that need a rule of their own beside the usual traits."""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.attention import flags, head_dim, kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, decoder, model, with_head, with_towers
from kvplan.importers.hf.experts import dense, dense_of
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.stack import block, weight
from kvplan.importers.hf.towers import linear
from kvplan.importers.hf.towers_of_one_family import qwen_vl


def no_cache(f: Fields, t: Decoder) -> Stack:
    """OpenAI GPT: its class keeps nothing, each step reads the whole sequence anew."""
    made = decoder(f, t)
    reads = {"kind": "encoder", "kv_heads": f.dim("num_attention_heads")}
    layers = [{**layer, "mixers": [{**mixer, **reads} for mixer in layer["mixers"]]} for layer in made["layers"]]
    return {**made, "layers": layers, "notes": ["its class keeps no cache: each step reads the whole sequence anew"]}


def fewer_words_out(f: Fields, t: Decoder) -> Stack:
    """Apertus 1.5 (transformers 5.24 models/apertus1p5): a head of the first output_vocab_size words, where the file says so."""
    made, words = decoder(f, t), f.opt("output_vocab_size")
    return made if words is None else with_head(made, f.whole(words, "output_vocab_size", 1))


def qwen(f: Fields, t: Decoder) -> Stack:
    """Qwen of 2023, with the image tower that Qwen-VL keeps under `visual`."""
    made = decoder(f, t)
    if not isinstance(f.data.get("visual"), dict):
        return made
    return with_towers(made, ("vision_tower", qwen_vl(f.part("visual"))))


def post_normed(f: Fields, t: Decoder) -> Stack:
    """HyperCLOVA X: two more norms per layer with `use_post_norm`."""
    return decoder(f, t._replace(norms=4 if f.flag("use_post_norm") else 2))


def opt(f: Fields, t: Decoder) -> Stack:
    """OPT: embeddings of another width, norms before or after, a final norm only with the former."""
    biased = f.flag("enable_bias")
    made = decoder(f, t._replace(q_bias=biased, kv_bias=biased, o_bias=biased, mlp_bias=biased))
    if f.opt("layer_norm_elementwise_affine") is False:
        made["norm"] = "none"
    hidden = f.dim("hidden_size")
    width = f.dim_or("word_embed_proj_dim", hidden)
    if width != hidden:
        made["embedding_size"] = width
        made["weights"] += [weight("project_in", hidden, width), weight("project_out", width, hidden)]
    if not f.flag("do_layer_norm_before") or f.flag("_remove_final_layer_norm"):
        made["final_norm"] = False
    return made


def falcon(f: Fields, t: Decoder) -> Stack:
    """Falcon: the new decoder (grouped KV heads, two parallel norms) and the old ones (one KV head, or all).

    Its first files are RefinedWeb's: of the 40B, whose code (modelling_RW.py) is the new decoder, n_head_kv says the KV heads.
    """
    heads = f.dim("num_attention_heads")
    first = (f.items("architectures") or [""])[0] == "RWForCausalLM" and f.given("n_head_kv")
    new = first or f.flag("new_decoder_architecture")
    kv = f.dim("n_head_kv") if first else f.dim_or("num_key_value_heads", heads) if new else 1 if f.flag("multi_query") else heads
    norms = 2
    if new:
        norms = f.dim_or("num_ln_in_parallel_attn", 2)
    elif f.flag("parallel_attn"):
        norms = 1
    biased = f.flag("bias")
    t = t._replace(q_bias=biased, kv_bias=biased, o_bias=biased, mlp_bias=biased)
    hidden = f.dim("hidden_size")
    width = f.opt("ffn_hidden_size")
    width = 4 * hidden if width is None else f.whole(width, "ffn_hidden_size", 1)
    attention = softmax(heads, kv, f.divided("hidden_size", "num_attention_heads"), **flags(f, t))
    layer = block([attention], [dense_of(width, gated=False, bias=biased)], norms)
    made = model(f, [layer] * f.dim("num_hidden_layers"), norm="layer")
    if new and kv == 1 < heads:
        said = "new_decoder_architecture with one KV head: transformers keeps K and V for every query head, which is not counted"
        return {**made, "notes": [*made.get("notes", []), said]}
    return made


def mpt(f: Fields, t: Decoder) -> Stack:
    """MPT: KV heads inside attn_config, no bias where `no_bias`."""
    if not f.flag("no_bias"):
        raise f.fault("no_bias", "MPT with biases is not modelled; declare the model as a spec file")
    hidden, heads = f.dim("hidden_size"), f.dim("num_attention_heads")
    inner = f.part("attn_config") if isinstance(f.data.get("attn_config"), dict) else None
    kv = inner.dim_or("kv_n_heads", heads) if inner else heads
    released = (f.items("architectures") or [""])[0] == "MPTForCausalLM"  # transformers' own class always takes alibi and norms nothing
    qk: dict[str, Any] = {"qk_norm": "full"} if released and inner and inner.flag("qk_ln") else {}
    learned = released and inner is not None and inner.opt("alibi") is False and not inner.flag("rope")
    weights = [weight("position_embeddings", f.dim("max_seq_len"), hidden)] if learned else []
    width = (f.dim("expansion_ratio") if released else 4) * hidden
    layer = block([softmax(heads, kv, f.divided("hidden_size", "num_attention_heads"), **qk)], [dense_of(width, gated=False)])
    return model(f, [layer] * f.dim("num_hidden_layers"), norm=t.norm, weights=weights)


def diffllama(f: Fields, t: Decoder) -> Stack:
    """Differential attention: four vectors of head dim per layer and a norm of two head dims without weights."""
    extra = [weight(f"lambda_{x}", head_dim(f)) for x in ("q1", "k1", "q2", "k2")]
    attention = softmax(f.dim("num_attention_heads"), kv_heads(f), head_dim(f), **flags(f, t))
    return model(f, [block([attention], [dense(f, t)], 2, extra)] * f.dim("num_hidden_layers"))


def dory(f: Fields, t: Decoder) -> Stack:
    """Dory (nGPT, transformers 5.24 models/dory): the layers in the middle are gone through several times.

    Each pass keeps caches of its own or, where recurrent_kv_cache_mode is last_loop, the last one alone. Releases count attention and
    network of a layer apart.
    """
    n, types = f.dim("num_hidden_layers"), f.items("layer_types")
    halves = 2 if types and "mlp" in types else 1
    rule = ["sliding_attention" if (i + 1) % 4 else "full_attention" for i in range(n)]
    kinds = types[::halves] if types else f.listed("layer_types", n, rule)
    n, before, after = n // halves, f.count("n_input_layers") // halves, f.count("n_output_layers") // halves
    repeated = f.count("n_recurrent_layers") // halves if f.opt("n_recurrent_layers") is not None else n - before - after
    if len(kinds) != n or set(kinds) - {"sliding_attention", "full_attention"}:
        raise f.fault("layer_types", f"must name sliding_attention or full_attention for each of {n} layers")
    if before + repeated + after != n or repeated < 0:
        raise f.fault("n_recurrent_layers", f"{before}, {repeated} and {after} layers are not {n}")
    mode, heads, hidden, width = (
        f.text("recurrent_kv_cache_mode"),
        f.dim("num_attention_heads"),
        f.dim("hidden_size"),
        f.dim("intermediate_size"),
    )
    if mode not in ("per_loop", "last_loop"):
        raise f.fault("recurrent_kv_cache_mode", "must be per_loop or last_loop")
    kept = f.dim("n_recurrent_loops") if mode == "per_loop" else 1
    if kept > 64:
        raise f.fault("n_recurrent_loops", f"{kept} passes through a layer; 64 are modelled")
    dim = head_dim(f)
    sizes = (
        ("lambda_1", hidden),
        ("lambda_2", hidden),
        ("sqk", heads * dim),
        ("s_gate", heads * dim),
        ("suv_gate", width),
        ("suv_up", width),
    )
    own, layers = [weight(name, size, role="norm") for name, size in sizes], []
    for i, kind in enumerate(kinds):
        window = f.dim("sliding_window") if kind == "sliding_attention" else None
        mixer = softmax(heads, kv_heads(f), dim, window=window, output_gate="element", **flags(f, t))
        again = [{**mixer, "tied": True}] * (kept - 1 if before <= i < before + repeated else 0)
        layers.append(block([mixer, *again], [dense(f, t)], 0, own))
    made = model(f, layers, weights=[weight("logit_scale", f.dim("vocab_size"), role="norm")])
    return {**made, "final_norm": False}


def _each(f: Fields, key: str, n: int) -> list[int]:
    """A whole number per layer: one for all, or a list of n."""
    value = f.raw(key)
    return [f.whole(v, key) for v in (f.items(key, n) or [])] if isinstance(value, list) else [f.whole(value, key)] * n


def hunyuan(f: Fields, t: Decoder) -> Stack:
    """Hunyuan MoE: counts per layer, and cross-layer attention: `cla_share_factor` layers share the K and V of the first."""
    n = f.dim("num_hidden_layers")
    experts = f.dim("num_experts")
    if f.opt("use_qk_norm") is False:
        t = t._replace(qk_norm="none")
    top_k, shared = (
        _each(f, "moe_topk", n),
        _each(f, "num_shared_expert", n) if f.opt("num_shared_expert") is not None else [1] * n,
    )
    widths = _each(f, "moe_intermediate_size", n) if f.given("moe_intermediate_size") else [f.dim("intermediate_size")] * n
    share = f.dim("cla_share_factor") if f.flag("use_cla") else 1
    attention = softmax(f.dim("num_attention_heads"), kv_heads(f), head_dim(f), **flags(f, t))
    reader = {**attention, "kind": "shared", "kv_heads": kv_heads(f)}
    layers = []
    for i in range(n):
        mlp: dict[str, Any] = {"kind": "moe", "experts": experts, "experts_per_token": top_k[i], "intermediate_size": widths[i]}
        if shared[i]:
            mlp["shared_intermediate_size"] = shared[i] * f.dim("intermediate_size")
        # Hunyuan-Large's own code; transformers routes to one
        alone = experts == 1 and f.file.get("model_type") != "hunyuan_v1_moe" and f.file.get("architectures") != ["HunYuanMoEV1ForCausalLM"]
        layers.append(block([attention if i % share == 0 else reader], [dense(f, t) if alone else mlp]))
    return model(f, layers)


def grok(f: Fields, t: Decoder) -> Stack:
    """Grok: experts alone (1), or narrower ones beside a dense network of intermediate_size (2: residual_moe), embedding then untied."""
    if f.given("moe_intermediate_size") and t.experts:
        t = t._replace(experts=t.experts._replace(width="moe_intermediate_size"))
    if not f.flag("residual_moe"):
        return decoder(f, t)
    made = decoder(f.named({}, {**f.defaults, "tie_word_embeddings": False}), t)
    beside = dense_of(f.dim("intermediate_size"))
    return {**made, "layers": [{**layer, "mlps": [*layer["mlps"], beside]} for layer in made["layers"]]}


def minicpm(f: Fields, t: Decoder) -> Stack:
    """MiniCPM 1, 2 and 4: dense Llama shapes, experts where counted, and block-sparse attention where sparse_config is there."""
    made = decoder(f, t)
    if not isinstance(f.data.get("sparse_config"), dict):
        return made
    stride = f.part("sparse_config").dim("kernel_stride")
    for layer in made["layers"]:
        mixer = layer["mixers"][0]
        layer["mixers"] = [{**mixer, "kind": "block_sparse", "kv_heads": kv_heads(f), "stride": stride}]
    return made


def doge(f: Fields, t: Decoder) -> Stack:
    """Doge: a dynamic mask from the values, two residual vectors per layer. Its cross-domain experts are refused."""
    if f.flag("is_moe"):
        raise f.fault("is_moe", "Doge's cross-domain experts are not modelled; declare the model as a spec file")
    hidden, kv = f.dim("hidden_size"), kv_heads(f)
    made = decoder(f, t)
    extra = [weight("A", kv), weight("dt_proj", kv, kv * head_dim(f)), weight("input_residual", hidden), weight("post_residual", hidden)]
    if f.flag("attention_bias"):
        extra.append(weight("dt_bias", kv))
    return {**made, "layers": [{**layer, "weights": [*layer.get("weights", []), *extra]} for layer in made["layers"]]}


def molmo(f: Fields, t: Decoder) -> Stack:
    """Molmo 1: the config has the text model alone; its tower and what joins it are constants of its code (vLLM 0.33 models/molmo.py
    VisionBackboneConfig: CLIP's of width 1024 with 23 layers, of which two are read and pooled, then a network as wide as the text's)."""
    made, h, n, read, half = decoder(f, t), 1024, 23, 2, f.dim("intermediate_size") // 2
    layer = 4 * linear(h, h) + linear(4 * h, h) + linear(h, 4 * h) + 4 * h
    tower = h + 577 * h + 3 * 14**2 * h + 2 * h + n * layer
    joined = 3 * linear(h, read * h) + linear(h, h) + 2 * read * h + half * (2 * h + f.dim("hidden_size"))
    return {**made, "towers": [{"name": "vision_tower", "parameters": tower}, {"name": "vision_projector", "parameters": joined}]}


def ernie_vl(f: Fields, t: Decoder) -> Stack:
    """ERNIE 4.5 VL: experts for text and narrower ones for images, each with a router, beside networks that both share."""
    n = f.dim("num_hidden_layers")
    text, image = (f.whole(width, "moe_intermediate_size", 1) for width in f.dims("moe_intermediate_size", 2))
    count = f.opt("moe_num_experts")
    kinds = [f.whole(c, "moe_num_experts", 1) for c in count] if isinstance(count, list) else [f.dim("moe_num_experts")] * 2
    if len(kinds) != 2 or kinds[0] != kinds[1]:
        raise f.fault("moe_num_experts", "text and image experts that differ in number are not modelled")
    each = {"kind": "moe", "experts": kinds[0], "experts_per_token": f.dim("moe_k"), "router_linear_bias": True}
    shared = {"shared_intermediate_size": f.count("moe_num_shared_experts") * text} if f.count("moe_num_shared_experts") else {}
    sparse = [{**each, "intermediate_size": text, **shared}, {**each, "intermediate_size": image}]
    attention = softmax(f.dim("num_attention_heads"), kv_heads(f), head_dim(f), **flags(f, t))
    plain = dense(f, t)
    types = f.items("mlp_layer_types", n)
    has = [kind == "sparse" for kind in types] if types is not None else [i >= _first(f) for i in range(n)]
    extra: list[dict[str, Any]] = []
    if shared and f.flag("use_bias"):
        extra = [
            weight("shared_up_bias", 2 * shared["shared_intermediate_size"], role="norm"),
            weight("shared_down_bias", f.dim("hidden_size")),
        ]
    return model(f, [block([attention], sparse, 2, extra) if routed else block([attention], [plain]) for routed in has])


def _first(f: Fields) -> int:
    """The first layer with experts; a list has one number for text and one for images, which must agree."""
    value = f.opt("moe_layer_start_index")
    starts = [f.whole(v, "moe_layer_start_index") for v in (value if isinstance(value, list) else [1 if value is None else value])]
    if len(set(starts)) != 1:
        raise f.fault("moe_layer_start_index", "text and image experts that start at different layers are not modelled")
    return starts[0]


def spark(f: Fields, t: Decoder) -> Stack:
    """Spark X2.5: a gate for each head of attention, where it is on; three layers of four slide (sglang 0.5.23 models/spark2_5.py)."""
    return decoder(f, t if f.flag("headwise_attn_output_gate") else t._replace(output_gate="none"))


def k2_horizon(f: Fields, t: Decoder) -> Stack:
    """K2 Horizon: a gate of attention, norms of queries and keys, and biases of routers where it has them (vLLM 0.33 models/k2_horizon.py).
    Its experts of values (MoVA) are refused."""
    if f.count("mova_num_experts"):
        raise f.fault("mova_num_experts", "experts of attention's values are not modelled; declare the model as a spec file")
    experts = t.experts and t.experts._replace(bias="linear" if f.count("num_experts") and f.flag("moe_gate_bias") else "none")
    gate = "none" if f.opt("attention_gate_func") is None else t.output_gate
    return decoder(f, t._replace(experts=experts, output_gate=gate))


def ouro(f: Fields, t: Decoder) -> Stack:
    """Ouro: all layers several times, each pass with caches of its own, and a gate that tells when to stop (vLLM 0.26 models/ouro.py)."""
    made, passes = decoder(f, t), f.dim("total_ut_steps")
    if passes > 64:
        raise f.fault("total_ut_steps", f"{passes} passes through a layer; 64 are modelled")
    layers = [{**layer, "mixers": [*layer["mixers"], *[{**layer["mixers"][0], "tied": True}] * (passes - 1)]} for layer in made["layers"]]
    gate = [weight("early_exit_gate", 1, f.dim("hidden_size")), weight("early_exit_gate_bias", 1, role="norm")]
    return {**made, "layers": layers, "weights": [*made.get("weights", []), *gate]}


def iquest_loop(f: Fields, t: Decoder) -> Stack:
    """IQuest's LoopCoder: passes after the first read its keys and those of a window of their own, weighed by a gate of each head; vLLM's
    defaults where the file does not say (0.33 models/iquest_loopcoder.py)."""
    made, heads, dim = decoder(f, t), f.dim("num_attention_heads"), head_dim(f)
    passes, window = f.dim("loop_num"), f.dim("loop_window_size")
    if passes > 64:
        raise f.fault("loop_num", f"{passes} passes through a layer; 64 are modelled")
    again = [softmax(heads, kv_heads(f), dim, window=window, tied=True)] * (passes - 1)
    gate = [weight("loop_gate", heads, dim), weight("loop_gate_bias", heads, role="norm")]
    return {**made, "layers": [{**layer, "mixers": [*layer["mixers"], *again], "weights": gate} for layer in made["layers"]]}


def openelm(f: Fields, t: Decoder) -> Stack:
    """OpenELM: heads and networks that grow from layer to layer, in steps (apple/corenet make_divisible; llama.cpp's conversion)."""
    n, hidden, step = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("ffn_dim_divisor")
    layers, wider = [], f.items("ffn_multipliers", n)
    for heads, kv, times in zip(f.dims("num_query_heads", n), f.dims("num_kv_heads", n), wider or [None] * n, strict=True):
        if isinstance(times, bool) or not isinstance(times, int | float) or not 0 < times <= 64:
            raise f.fault("ffn_multipliers", f"must be a number of at most 64 for each layer (is {times!r:.40})")
        width = max(step, int(times * hidden + step / 2) // step * step)
        network = dense_of(width + (step if width < 0.9 * times * hidden else 0))
        layers.append(block([softmax(heads, kv, f.dim("head_dim"), qk_norm="head")], [network]))
    return model(f, layers)
