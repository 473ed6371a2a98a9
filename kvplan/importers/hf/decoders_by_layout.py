"""Decoders with a layout of their own: Llama 4, Llama 3.2 Vision, DBRX, Nemotron NAS, ChatGLM, Arctic, MiMo-V2."""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf.attention import KINDS, flags, head_dim, kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, model
from kvplan.importers.hf.experts import dense_of, moe, where
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder, Experts
from kvplan.importers.hf.stack import Block, block, weight


def llama4(f: Fields, t: Decoder) -> Stack:
    """Llama 4 text: three chunked layers with RoPE to one full without (no_rope_layers: 1 = RoPE)."""
    n = f.dim("num_hidden_layers")
    types = f.items("layer_types", n)
    if types is None:
        rope = f.items("no_rope_layers")
        if not rope:
            step = f.dim_or("no_rope_layer_interval", 4)
            rope = [int((i + 1) % step != 0) for i in range(n)]
        if len(rope) != n:
            raise f.fault("no_rope_layers", f"has {len(rope)} entries for {n} layers; correct one of them")
        types = ["chunked_attention" if flag else "full_attention" for flag in rope]
    if any(kind not in KINDS for kind in types):
        raise f.fault("layer_types", "an attention this architecture does not have")
    heads, kv, head, on = f.dim("num_attention_heads"), kv_heads(f), head_dim(f), flags(f, t)
    chunk = f.opt("attention_chunk_size")
    chunk = None if chunk is None else f.whole(chunk, "attention_chunk_size", 1)
    experts = Experts(n="num_local_experts", width="intermediate_size", where="interleave", shared="intermediate_size")
    layers = []
    for kind, has in zip(types, where(f, experts, n), strict=True):
        attention = softmax(heads, kv, head, chunk=chunk if KINDS[kind] == "chunked" else None, **on)
        layers.append(block([attention], [moe(f, experts) if has else dense_of(f.dim("intermediate_size_mlp"))]))
    return model(f, layers)


def dbrx(f: Fields, t: Decoder) -> Stack:
    """DBRX: sizes inside attn_config and ffn_config."""
    if "hidden_size" in f.file and "d_model" not in f.file:
        raise f.fault("hidden_size", "write d_model: by this name the class gives its experts another width")
    attn, ffn = f.part("attn_config"), f.part("ffn_config")
    heads = f.dim("num_attention_heads")
    attention = softmax(heads, attn.dim("kv_n_heads"), f.divided("hidden_size", "num_attention_heads"))
    mlp = {"kind": "moe", "experts": ffn.dim("moe_num_experts"), "experts_per_token": ffn.dim("moe_top_k"),
           "intermediate_size": ffn.dim("ffn_hidden_size")}  # fmt: skip
    return model(f, [block([attention], [mlp])] * f.dim("num_hidden_layers"), norm="layer_no_bias")


def nemotron_nas(f: Fields, t: Decoder) -> Stack:
    """Nemotron NAS (DeciLM): each layer its own KV heads and width, some with no attention or no network at all."""
    n, hidden, heads = f.dim("num_hidden_layers"), f.dim("hidden_size"), f.dim("num_attention_heads")
    configs = f.items("block_configs", n, nested=True)
    if configs is None:
        each = f.items("num_key_value_heads_per_layer", n)
        if each is None:
            raise f.fault("block_configs", "missing; a DeciLM config states each layer's attention and network")
        head = f.divided("hidden_size", "num_attention_heads")
        mlp = dense_of(f.dim("intermediate_size"))
        return model(f, [block([softmax(heads, f.whole(kv, "num_key_value_heads_per_layer", 1), head)], [mlp]) for kv in each])
    return model(f, [_nas_layer(f, i, config, hidden, heads) for i, config in enumerate(configs)])


def _nas_layer(f: Fields, i: int, config: Any, hidden: int, heads: int) -> Block:
    whole = Fields(config if isinstance(config, dict) else {}, f.source, path=f.dotted(f"block_configs.{i}"))
    attn, ffn = whole.part("attention"), whole.part("ffn")
    mixers: list[Any] = []
    extra: list[dict[str, Any]] = []
    norms = 0
    if not attn.flag("no_op"):
        norms += 1
        if attn.flag("replace_with_linear"):
            extra.append(weight("linear_attn", hidden, hidden, role="attention"))
        else:
            group = attn.dim("n_heads_in_group")
            if heads % group:
                raise attn.fault("n_heads_in_group", f"{group} does not divide num_attention_heads ({heads})")
            window = attn.opt("window_length")
            size = {} if window is None else {"window": attn.whole(window, "window_length", 1)}
            mixers.append(softmax(heads, heads // group, f.divided("hidden_size", "num_attention_heads"), **size))
    mlps: list[Any] = []
    if not ffn.flag("no_op"):
        norms += 1
        if ffn.flag("replace_with_linear"):
            extra.append(weight("linear_mlp", hidden, hidden, role="mlp"))
        else:
            mlps.append(dense_of(nas_width(ffn, hidden)))
    return block(mixers, mlps, norms, extra)


def nas_width(ffn: Fields, hidden: int) -> int:
    """The width of a NAS network: 2/3 of ffn_mult x hidden, rounded up to 256 (modeling_decilm.py)."""
    if ffn.given("intermediate_size"):
        return ffn.dim("intermediate_size")
    mult = ffn.opt("ffn_mult")
    if not isinstance(mult, int | float) or isinstance(mult, bool) or not 0 < mult < 1024:
        raise ffn.fault("ffn_mult", "missing; neither it nor intermediate_size states the width")
    width = int(2 * mult * hidden / 3)
    return -(-width // 256) * 256


def chatglm(f: Fields, t: Decoder) -> Stack:
    """ChatGLM 2, 3 and GLM-4 in their first format; ChatGLM-6B, the first of all, says inner_hidden_size for its plain network.

    ChatGLM-6B (its repository's modeling_chatglm.py): biases everywhere, layer norms, a rotary position in two halves, the head tied:
    6,173,286,400 parameters.
    """
    heads = f.dim("num_attention_heads")
    if f.data.get("inner_hidden_size") is not None and not f.given("ffn_hidden_size"):
        biased = {"q_bias": True, "kv_bias": True, "o_bias": True}
        mlp = dense_of(f.dim("inner_hidden_size"), gated=False, bias=True)
        first = block([softmax(heads, heads, f.divided("hidden_size", "num_attention_heads"), **biased)], [mlp])
        made = model(f.over({"tie_word_embeddings": f.data.get("tie_word_embeddings", True)}), [first] * f.dim("num_hidden_layers"))
        return {**made, "norm": "layer"}
    kv = f.dim("multi_query_group_num") if f.flag("multi_query_attention") else heads
    on = {"q_bias": True, "kv_bias": True} if f.flag("add_qkv_bias") or f.flag("add_bias_linear") else {}
    if f.flag("add_bias_linear"):
        on["o_bias"] = True
    layer = block([softmax(heads, kv, f.dim("kv_channels"), **on)], [dense_of(f.dim("ffn_hidden_size"), bias=f.flag("add_bias_linear"))])
    made = model(f, [layer] * f.dim("num_hidden_layers"), norm="rms" if f.flag("rmsnorm") else "layer")
    if not f.flag("post_layer_norm"):
        made["final_norm"] = False
    return made


def arctic(f: Fields, t: Decoder) -> Stack:
    """Snowflake Arctic: experts every moe_layer_frequency-th layer, beside a residual dense network of hidden width."""
    n, every = f.dim("num_hidden_layers"), f.dim("moe_layer_frequency")
    attention = softmax(f.dim("num_attention_heads"), kv_heads(f), head_dim(f), **flags(f, t))
    mlp = moe(f, Experts(n="num_local_experts", width="intermediate_size"))
    dense = dense_of(f.dim("intermediate_size"))
    residual = f.flag("parallel_attn_mlp_res") or f.flag("use_residual")
    sparse = block([attention], [mlp, dense_of(f.dim("hidden_size"))], 3) if residual else block([attention], [mlp])
    return model(f, [sparse if (i + 1) % every == 0 else block([attention], [dense]) for i in range(n)])


#: Draft modules of MiMo-V2, which no config counts: sliding layers with a dense network. Three make the Hub's 1,023,182,841,600 parameters
#: of MiMo-V2.5-Pro to the last one. Shapes: vLLM 0.26 models/mimo_v2_mtp.py MiMoV2MTPLayer, whose projection of both states is in 16 bits.
MIMO_V2_MODULES = 3


def mimo_v2(f: Fields, t: Decoder) -> Stack:
    """MiMo-V2: sliding and full layers with head counts of their own, V narrower than K, sinks where the config has them."""
    n = f.dim("num_hidden_layers")
    pattern = f.items("hybrid_layer_pattern", n)
    if pattern is None:
        types = f.items("layer_types", n)
        if types is None:
            raise f.fault("hybrid_layer_pattern", "missing; which layers slide is not stated")
        pattern = [int(KINDS.get(kind) == "sliding") for kind in types]
    heads, kv, head, v = f.dim("num_attention_heads"), kv_heads(f), f.dim("head_dim"), f.dim("v_head_dim")
    full: dict[str, Any] = softmax(heads, kv, head, v_head_dim=v)
    narrow = [f.dim_or(key, same) for key, same in (("swa_num_attention_heads", heads), ("swa_num_key_value_heads", 2 * kv),
                                                    ("swa_head_dim", head), ("swa_v_head_dim", v))]  # fmt: skip
    if not f.given("swa_num_key_value_heads"):
        f.assumed[f.dotted("swa_num_key_value_heads")] = 2 * kv
    slides: dict[str, Any] = softmax(*narrow[:3], window=f.dim("sliding_window"), v_head_dim=narrow[3])
    if f.flag("attention_bias"):
        full |= {"q_bias": True, "kv_bias": True}
        slides |= {"q_bias": True, "kv_bias": True}
    if f.flag("add_full_attention_sink_bias"):
        full["sinks"] = True
    if f.opt("add_swa_attention_sink_bias") is not False:
        slides["sinks"] = True
    experts = Experts(n="n_routed_experts", where="first_dense", shared_count="n_shared_experts", bias="buffer")
    dense = dense_of(f.dim("intermediate_size"))
    sparse = where(f, experts, n)
    layers = [block([slides if s else full], [moe(f, experts) if has else dense]) for s, has in zip(pattern, sparse, strict=True)]
    hidden = f.dim("hidden_size")
    own = [*(weight(name, hidden, role="norm") for name in ("enorm", "hnorm", "final_layernorm")), weight("eh_proj", hidden, 2 * hidden)]
    return model(f, layers) | {"mtp": {"modules": MIMO_V2_MODULES, "block": block([slides], [dense]), "weights": own}}


def mllama(f: Fields, t: Decoder) -> Stack:
    """Llama 3.2 Vision text: gated cross-attention to the image in cross_attention_layers; eight more embedding rows than the head has."""
    n = f.dim("num_hidden_layers")
    crosses = f.items("cross_attention_layers") or []
    if any(not isinstance(i, int) or not 0 <= i < n for i in crosses):
        raise f.fault("cross_attention_layers", f"names a layer beyond the {n} there are")
    heads, kv, head = f.dim("num_attention_heads"), kv_heads(f), head_dim(f)
    dense = dense_of(f.dim("intermediate_size"))
    gates = [weight("cross_attn_gate", 1), weight("cross_mlp_gate", 1)]
    cross = block([{"kind": "cross", "heads": heads, "kv_heads": kv, "head_dim": head, "qk_norm": "head"}], [dense], 2, gates)
    plain = block([softmax(heads, kv, head)], [dense])
    layers = [cross if i in crosses else plain for i in range(n)]
    return model(f, layers, weights=[weight("embedding_of_image_tokens", 8, f.dim("hidden_size"), role="embedding")])


def laguna(f: Fields, t: Decoder) -> Stack:
    """Laguna: heads counted per layer, a gate per head (or per element), one dense layer before the experts."""
    n = f.dim("num_hidden_layers")
    listed = f.items("num_attention_heads_per_layer", n) or [f.dim("num_attention_heads")] * n
    types = f.listed("layer_types", n, ["full_attention"] * n)
    if any(kind not in KINDS for kind in types):
        raise f.fault("layer_types", "an attention this architecture does not have")
    gating = f.opt("gating")
    on = flags(f, t) | {"output_gate": "head" if gating is True or gating == "per-head" else "element"}
    experts = Experts(shared="shared_expert_intermediate_size", bias="linear", where="first_dense")
    kv, head, dense = kv_heads(f), head_dim(f), dense_of(f.dim("intermediate_size"))
    layers = []
    for count, kind, has in zip(listed, types, where(f, experts, n), strict=True):
        heads = f.whole(count, "num_attention_heads_per_layer", 1)
        if heads % kv:
            raise f.fault("num_attention_heads_per_layer", f"{kv} KV heads do not divide {heads} heads")
        window = f.dim("sliding_window") if KINDS[kind] == "sliding" else None
        layers.append(block([softmax(heads, kv, head, window=window, **on)], [moe(f, experts) if has else dense]))
    return model(f, layers)
