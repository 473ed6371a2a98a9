"""Families with Mamba layers: pure ones, and hybrids that mix them with attention."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvplan.dtypes import FORMATS
from kvplan.importers.hf.attention import bias, flags, head_dim, kv_heads, softmax
from kvplan.importers.hf.decoder import Stack, model
from kvplan.importers.hf.experts import dense_of, moe, where
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder, Experts
from kvplan.importers.hf.stack import Block, block, weight

#: What configs write for one layer of a hybrid -> its kind here.
LAYERS = {
    "mamba": "mamba", "mamba2": "mamba", "linear_attention": "mamba", "recurrent": "mamba", "m": "mamba", "attention": "attention",
    "full_attention": "attention", "hybrid": "hybrid", "g": "hybrid", "moe": "moe", "mlp": "mlp",
}  # fmt: skip
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_STATE = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


class Hybrid(NamedTuple):
    """Names of the Mamba sizes (they differ more than they agree), and what the layers have."""

    heads: str = "mamba_n_heads"
    head_dim: str = "mamba_d_head"
    groups: str = "mamba_n_groups"
    d_state: str = "mamba_d_state"
    conv: str = "mamba_d_conv"
    expand: str = "mamba_expand"
    conv_bias: str = "mamba_conv_bias"
    proj_bias: str = "mamba_proj_bias"
    gate_norm: bool | str = True
    experts: Experts | None = None


def pinned(f: Fields) -> dict[str, str]:
    """The state format where the config itself pins one; a class default pins nothing."""
    for key in ("mamba_ssm_cache_dtype", "mamba_ssm_dtype", "ssm_cache_dtype"):
        value = f.text(key) if f.given(key) else None
        if value is not None and value != "auto":
            name = _STATE.get(value, value)
            if name not in FORMATS:
                raise f.fault(key, f"{value[:40]!r} is no state format")
            return {"state_dtype": name}
    return {}


def mamba2(f: Fields, t: Hybrid, heads: int = 0) -> dict[str, Any]:
    """One Mamba-2 mixer; a head dim of `auto` is inner size / heads; `heads` where the file does not say them."""
    heads, given = heads or f.dim(t.heads), f.opt(t.head_dim)
    inner = f.opt("mamba_d_ssm")
    inner = f.dim(t.expand) * f.dim("hidden_size") if inner is None else f.whole(inner, "mamba_d_ssm", 1)
    if given is None or given == "auto":
        if inner % heads:
            raise f.fault(t.heads, f"{heads} does not divide the inner size {inner}")
        given = inner // heads
    made: dict[str, Any] = {"kind": "mamba2", "heads": heads, "head_dim": f.whole(given, t.head_dim, 1), "groups": f.dim(t.groups),
                            "d_state": f.dim(t.d_state), "d_conv": f.dim(t.conv)}  # fmt: skip
    if t.conv_bias and not f.flag(t.conv_bias):
        made["conv_bias"] = False
    if f.flag(t.proj_bias):
        made["proj_bias"] = True
    if not bias(f, t.gate_norm):
        made["gate_norm"] = False
    chunk = next((key for key in ("mamba_chunk_size", "chunk_size") if f.given(key)), None)
    if chunk:
        made["chunk"] = f.dim(chunk)
    return made | pinned(f)


def mamba1(f: Fields, *, prefix: str = "", inner_norms: bool = False) -> dict[str, Any]:
    """One Mamba-1 mixer; a rank of `auto` is hidden size / 16, rounded up."""
    hidden = f.dim("hidden_size")
    names = {"d_state": "state_size", "d_conv": "conv_kernel", "expand": "expand", "rank": "time_step_rank", "cb": "use_conv_bias",
             "pb": "use_bias"}  # fmt: skip
    if prefix:
        names = {"d_state": "mamba_d_state", "d_conv": "mamba_d_conv", "expand": "mamba_expand", "rank": "mamba_dt_rank",
                 "cb": "mamba_conv_bias", "pb": "mamba_proj_bias"}  # fmt: skip
    rank = f.raw(names["rank"])
    inner = f.dim(names["expand"]) * hidden
    if not prefix and f.given("intermediate_size"):
        inner = f.dim("intermediate_size")
    made: dict[str, Any] = {"kind": "mamba1", "d_inner": inner, "d_state": f.dim(names["d_state"]),
                            "dt_rank": -(-hidden // 16) if rank == "auto" else f.whole(rank, names["rank"], 1),
                            "d_conv": f.dim(names["d_conv"])}  # fmt: skip
    if not f.flag(names["cb"]):
        made["conv_bias"] = False
    if f.flag(names["pb"]):
        made["proj_bias"] = True
    if inner_norms:
        made["inner_norms"] = True
    return made | pinned(f)


def kinds(f: Fields, n: int | None, *keys: str) -> list[str] | None:
    """The layer kinds where the config lists them, under any of `keys`."""
    for key in keys:
        listed = f.items(key, n)
        if listed is not None:
            unknown = [kind for kind in listed if kind not in LAYERS]
            if unknown:
                raise f.fault(key, f"{str(unknown[0])[:40]!r} is not a layer this architecture has")
            return [LAYERS[kind] for kind in listed]
    return None


def attention(f: Fields, t: Decoder | None = None) -> dict[str, Any]:
    t = t or Decoder(q_bias="attention_bias", kv_bias="attention_bias", o_bias="attention_bias")
    return softmax(f.dim("num_attention_heads"), kv_heads(f), head_dim(f), **flags(f, t))


def pure_mamba1(f: Fields, t: Hybrid) -> Stack:
    """Mamba and FalconMamba: a mixer and one norm per layer."""
    return model(f, [block([mamba1(f)], [], 1)] * f.dim("num_hidden_layers"))


def pure_mamba2(f: Fields, t: Hybrid) -> Stack:
    """Mamba-2: heads fill the inner size (transformers and fla configuration_mamba2.py), so that a file may leave their number out."""
    inner, width = f.dim(t.expand) * f.dim("hidden_size"), f.dim(t.head_dim)
    heads = f.dim(t.heads) if f.given(t.heads) else inner // width
    if heads * width != inner:
        fault = f"hidden_size * expand ({inner}) must equal num_heads * head_dim ({heads * width})"
        raise f.fault(t.heads, fault)
    if not f.given(t.heads):
        f.assumed[f.dotted(t.heads)] = heads
    return model(f, [block([mamba2(f, t, heads)], [], 1)] * f.dim("num_hidden_layers"))


def state_spaces(f: Fields, t: Hybrid) -> Stack:
    """The config of state-spaces/mamba itself (no architectures): `ssm_cfg` names the layer; defaults of mamba_simple.py and mamba2.py."""
    hidden, n = f.dim("hidden_size"), f.dim("num_hidden_layers")
    cfg = f.part("ssm_cfg")
    if f.count("d_intermediate") or f.items("attn_layer_idx"):
        raise f.fault("attn_layer_idx", "attention or MLP layers in this format are not modelled; declare a spec file")
    inner = cfg.dim_or("expand", 2) * hidden
    conv, second = cfg.dim_or("d_conv", 4), cfg.data.get("layer") == "Mamba2"
    made: dict[str, Any]
    if second:
        head = cfg.dim_or("headdim", 64)
        if inner % head:
            raise cfg.fault("headdim", f"{head} does not divide the inner size {inner}")
        made = {
            "kind": "mamba2",
            "heads": inner // head,
            "head_dim": head,
            "groups": cfg.dim_or("ngroups", 1),
            "d_state": cfg.dim_or("d_state", 128),
        }
    else:
        made = {"kind": "mamba1", "d_inner": inner, "d_state": cfg.dim_or("d_state", 16), "dt_rank": -(-hidden // 16)}
    multiple, vocab = f.dim_or("pad_vocab_size_multiple", 1), f.dim("vocab_size")
    tied = f.opt("tie_embeddings")
    layers = [block([made | {"d_conv": conv}], [], 1)] * n
    stack = {"vocab_size": -(-vocab // multiple) * multiple, "hidden_size": hidden, "tied_embeddings": tied is not False, "layers": layers}
    return stack if f.opt("rms_norm") is not False else {**stack, "norm": "layer"}


def jamba(f: Fields, t: Hybrid) -> Stack:
    """Jamba: attention every attn_layer_period-th layer, experts every expert_layer_period-th."""
    n = f.dim("num_hidden_layers")
    found = kinds(f, n, "layers_block_type", "layer_types")
    if found is None:
        period, offset = f.dim("attn_layer_period"), f.count("attn_layer_offset")
        found = ["attention" if i % period == offset else "mamba" for i in range(n)]
    experts = Experts(width="intermediate_size", where="period")
    dense = dense_of(f.dim("intermediate_size"))
    mixers = {"attention": attention(f, Decoder()), "mamba": mamba1(f, prefix="mamba", inner_norms=True)}
    return model(
        f, [block([mixers[kind]], [moe(f, experts) if has else dense]) for kind, has in zip(found, where(f, experts, n), strict=True)]
    )


def bamba(f: Fields, t: Hybrid) -> Stack:
    """Bamba: attention in the layers of attn_layer_indices."""
    n = f.dim("num_hidden_layers")
    found = kinds(f, n, "layers_block_type", "layer_types")
    if found is None:
        indices = f.items("attn_layer_indices") or []
        if any(not isinstance(i, int) or i >= n for i in indices):
            raise f.fault("attn_layer_indices", f"names a layer beyond the {n} there are")
        found = ["attention" if i in indices else "mamba" for i in range(n)]
    dense = dense_of(f.dim("intermediate_size"), bias=f.flag("mlp_bias"))
    mixers = {"attention": attention(f), "mamba": mamba2(f, t)} if "mamba" in found else {"attention": attention(f)}
    return model(f, [block([mixers[kind]], [dense]) for kind in found])


def granite(f: Fields, t: Hybrid) -> Stack:
    """Granite 4: a shared network in every layer, experts beside it where counted."""
    n = f.dim("num_hidden_layers")
    found = kinds(f, n, "layer_types", "layers_block_type")
    if found is None:
        found = ["mamba"] * n
        f.assumed[f.dotted("layer_types")] = "mamba in every layer"
    width = f.dim("shared_intermediate_size")
    if f.count("num_local_experts"):
        experts = Experts(n="num_local_experts", width="intermediate_size", shared="shared_intermediate_size")
        mlp = moe(f, experts)
    else:
        mlp = dense_of(width)
    mixers = {kind: attention(f) if kind == "attention" else mamba2(f, t) for kind in set(found)}
    return model(f, [block([mixers[kind]], [mlp]) for kind in found])


def falcon_h1(f: Fields, t: Hybrid) -> Stack:
    """Falcon-H1: attention and Mamba-2 side by side in every layer."""
    o = Decoder(q_bias="attention_bias", kv_bias="attention_bias", o_bias="attention_bias")
    mixer = mamba2(f, t)
    inner, groups = mixer["heads"] * mixer["head_dim"], 2 * mixer["groups"] * mixer["d_state"]
    biases = [weight("in_proj_bias", 2 * inner + groups + mixer["heads"], role="norm")] if mixer.pop("proj_bias", False) else []
    biases += [weight("out_proj_bias", f.dim("hidden_size"), role="norm")] if f.flag("projectors_bias") else []
    layer = block([attention(f, o), mixer], [dense_of(f.dim("intermediate_size"), bias=f.flag("mlp_bias"))], 2, biases)
    return model(f, [layer] * f.dim("num_hidden_layers"))


def nemotron_h(f: Fields, t: Hybrid) -> Stack:
    """Nemotron-H: one mixer or one network per layer, in the order of hybrid_override_pattern or layers_block_type.

    Nemotron Puzzle's `block_configs` say the sizes of each layer (vLLM 0.33 models/nemotron_h.py, get_nemotron_h_config_for_layer).
    """
    pattern = f.text("hybrid_override_pattern")
    stated = f.opt("num_hidden_layers") if "num_hidden_layers" in f.data else None
    n = f.whole(stated, "num_hidden_layers", 1) if stated is not None else None
    found: list[str] | None = kinds(f, n, "layers_block_type", "layer_types")
    if pattern is not None:
        spelled = _letters(f, "hybrid_override_pattern", pattern, n)
        if found is not None and found != spelled:
            raise f.fault("layers_block_type", "contradicts hybrid_override_pattern; take one of them out")
        found = spelled
    blocks = _blocks(f, "block_configs", found)
    if blocks is not None:
        found = found or [kind for _, kind in blocks]
    if found is None:
        raise f.fault("hybrid_override_pattern", "missing, and so is layers_block_type: the order of the layers is not stated")
    layers = [_nemotron_layer(own, t, kind) for own, kind in blocks or [(f, kind) for kind in found]]
    made = model(f, layers)
    if pattern is None:
        made["listed_layers"] = True
    modules = f.count("num_nextn_predict_layers")
    if modules:
        drafted = kinds(f, None, "mtp_layers_block_type")
        letters = f.text("mtp_hybrid_override_pattern")
        if drafted is None and letters is not None:
            drafted = _letters(f, "mtp_hybrid_override_pattern", letters, None)
        own_sizes = _blocks(f, "mtp_block_configs", drafted) or [(f, kind) for kind in drafted or ("attention", "moe")]
        parts = [_nemotron_layer(of, t, kind) for of, kind in own_sizes]
        hidden = f.dim("hidden_size")
        own = [weight(name, hidden, role="norm") for name in ("enorm", "hnorm", "final_layernorm")]
        merged = block([m for p in parts for m in p.get("mixers", ())], [m for p in parts for m in p.get("mlps", ())], len(parts))
        made["mtp"] = {"modules": modules, "block": merged, "weights": [*own, weight("eh_proj", hidden, 2 * hidden)]}
    return made


#: What a block of Nemotron Puzzle may say for itself.
_OF_A_BLOCK = frozenset({
    "block_type", "conv_kernel", "head_dim", "intermediate_size", "mamba_head_dim", "mamba_num_heads", "moe_intermediate_size",
    "moe_latent_size", "moe_shared_expert_intermediate_size", "n_groups", "n_routed_experts", "n_shared_experts",
    "num_attention_heads", "num_experts_per_tok", "num_key_value_heads", "ssm_state_size",
})  # fmt: skip


def _blocks(f: Fields, key: str, order: list[str] | None) -> list[tuple[Fields, str]] | None:
    """Each layer's own settings over the file's, and its kind; None where the file has no such list. `order` must agree."""
    listed = f.items(key, nested=True)
    if not listed:
        return None
    for i, own in enumerate(listed):
        if not isinstance(own, dict) or own.get("block_type") not in LAYERS:
            raise f.fault(f"{key}.{i}", "must be a mapping whose block_type is one of this architecture's layers")
        if beyond := own.keys() - _OF_A_BLOCK:
            raise f.fault(f"{key}.{i}", f"{min(beyond)[:40]} of a single layer is not modelled; declare the model as a spec file")
    made = [(f.over(own), LAYERS[own["block_type"]]) for own in listed]
    if order is not None and order != [kind for _, kind in made]:
        raise f.fault(key, "contradicts the order of layers that the file states elsewhere; correct one of them")
    return made


def _letters(f: Fields, key: str, pattern: str, n: int | None) -> list[str]:
    letters = pattern.replace("|", "")
    unknown = [letter for letter in letters if letter not in _LETTERS]
    if unknown:
        raise f.fault(key, f"{unknown[0]!r} is none of {' '.join(_LETTERS)}")
    if n is not None and len(letters) != n:
        raise f.fault(key, f"has {len(letters)} layers and num_hidden_layers is {n}; correct one of them")
    return [_LETTERS[letter] for letter in letters]


def _nemotron_layer(f: Fields, t: Hybrid, kind: str) -> Block:
    if kind == "mamba":
        return block([mamba2(f, t)], [], 1)
    if kind == "attention":
        return block([attention(f, Decoder())], [], 1)
    if kind == "mlp":
        return block([], [dense_of(f.dim("intermediate_size"), gated=False, bias=f.flag("mlp_bias"))], 1)
    made = moe(f, Experts(n="n_routed_experts", gated=False, bias="buffer", shared="moe_shared_expert_intermediate_size"))
    if f.opt("moe_latent_size") is not None:
        made["latent_size"] = f.dim("moe_latent_size")
    sizes = [made.get("shared_intermediate_size", 0), *([f.dim("hidden_size")] * 2 if "latent_size" in made else [f.dim("hidden_size")])]
    sizes += [made["latent_size"]] if "latent_size" in made else []
    biases = [weight(f"moe_bias_{i}", size, role="norm") for i, size in enumerate(sizes) if size] if f.flag("mlp_bias") else []
    return block([], [made], 1, biases)


def zamba2(f: Fields, t: Hybrid) -> Stack:
    """Zamba2: Mamba-2 everywhere; hybrid layers also pass one of `num_mem_blocks` shared transformers, each layer with its own cache.

    The shared transformer reads the hidden state beside the embedding (2 x hidden). Its weights are counted at its first layer.
    """
    n, hidden = f.dim("num_hidden_layers"), f.dim("hidden_size")
    found = kinds(f, n, "layers_block_type", "layer_types")
    if found is None:
        raise f.fault("layers_block_type", "missing; a Zamba2 config states the kind of each layer")
    listed = f.items("hybrid_layer_ids")
    if listed is not None and len(listed) != found.count("hybrid"):  # adapters are built for each of these
        raise f.fault("hybrid_layer_ids", f"names {len(listed)} of {found.count('hybrid')} hybrid layers; take it out")
    heads, kv = f.dim("num_attention_heads"), kv_heads(f)
    head = f.dim_or("attention_head_dim", 2 * hidden // heads)
    width, rank, blocks = f.dim_or("intermediate_size", 4 * hidden), f.dim("adapter_rank"), f.dim("num_mem_blocks")
    shared = softmax(heads, kv, head, input_size=2 * hidden)
    inner = dense_of(width, bias=f.flag("add_bias_linear"))
    adapters = [weight("mlp_adapter_a", rank, hidden), weight("mlp_adapter_b", 2 * width, rank)]
    if f.flag("use_shared_attention_adapter"):
        size = heads * head
        adapters += [weight(f"{x}_adapter_{y}", *shape) for x in "qkv" for y, shape in (("a", (rank, 2 * hidden)), ("b", (size, rank)))]
    mamba = mamba2(f, t)
    if mamba["heads"] * mamba["head_dim"] != f.dim(t.expand) * hidden:
        raise f.fault(t.head_dim, f"{mamba['heads']} heads of {mamba['head_dim']} are not {t.expand} times hidden_size")
    layers: list[Block] = []
    seen = 0
    for kind in found:
        if kind == "mamba":
            layers.append(block([mamba], [], 1))
            continue
        extra = [weight("linear", hidden, hidden), *adapters]
        if seen < blocks:
            norms = [weight("shared_input_norm", 2 * hidden, role="norm"), weight("shared_mlp_norm", hidden, role="norm")]
            layers.append(block([mamba, shared], [inner], 1, extra + norms))
        else:
            layers.append(block([mamba, {**shared, "tied": True}], [{**inner, "tied": True}], 1, extra))
        seen += 1
    return model(f, layers)
