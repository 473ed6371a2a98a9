"""What makes one config into another as real files differ. An edit is a label and operations that can be done again on another base.

Operations: ("set", path, value) and ("del", path); a path is a tuple of keys.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.oracle.mutants.bases import LAYERS, TOWER

Config = dict[str, Any]
Path = tuple[str, ...]
TEXT = ("text_config", "llm_config", "language_config", "thinker_config")
PERIODS = (
    "sliding_window_pattern", "_sliding_window_pattern", "full_attention_interval", "attn_layer_period", "layer_group_size",
    "global_attn_every_n_layers", "no_rope_layer_interval", "interleave_moe_layer_step", "expert_layer_period", "moe_layer_freq",
    "decoder_sparse_step", "index_topk_freq", "moe_layer_interval",
)  # fmt: skip
#: Keys of no consequence, or of none that a released file differs in.
NOISE = re.compile(
    r"^(.*_token(_id|_index|_ids)?|.*_ids?|initializer_.*|.*dropout.*|.*_p?drop|use_cache|is_decoder|is_encoder_decoder|architectures|"
    r"model_type|dtype|torch_dtype|.*_eps(ilon)?(_.*)?|.*_act|.*activation.*|.*_fn|.*_coef|.*_std|summary_.*|"
    r".*layerdrop|.*scaling_factor|.*_multiplier|"
    r"num_beams|max_length|scale_.*|normalize.*|norm_topk.*|problem_type|.*_labels?|pretraining_tp|embd_pdrop|.*_loss.*)$"
)
NOT_FLIPPED = re.compile(
    r"is_decoder|is_encoder_decoder|use_cache|return_dict|gradient|training|output_hidden|output_att|output_router|"
    r"^scale_|normali|norm_topk|add_cross"
)
FOREIGN = (
    ("num_experts", "num_local_experts"), ("num_local_experts", "num_experts"), ("n_routed_experts", "num_experts"),
    ("num_experts", "n_routed_experts"), ("num_hidden_layers", "n_layer"), ("num_attention_heads", "n_head"), ("hidden_size", "n_embd"),
    ("num_key_value_heads", "num_kv_heads"), ("intermediate_size", "ffn_hidden_size"), ("max_position_embeddings", "n_positions"),
    ("head_dim", "attention_head_dim"), ("n_shared_experts", "num_shared_experts"), ("attention_bias", "qkv_bias"),
    ("tie_word_embeddings", "tie_embeddings"),
)  # fmt: skip


class Edit(NamedTuple):
    """kind and what: its label; ops: what it does."""

    kind: str
    what: str
    ops: tuple[tuple[Any, ...], ...]


class Part(NamedTuple):
    path: Path
    data: Config
    what: str  # text, top (around a text part), tower, inner


def apply(config: Config, edits: list[Edit]) -> Config:
    """A copy with the edits done; an operation whose place is not there is left out."""
    made = copy.deepcopy(config)
    for edit in edits:
        for op, path, *value in edit.ops:
            where: Any = made
            for key in path[:-1]:
                where = where.get(key) if isinstance(where, dict) else None
            if not isinstance(where, dict):
                continue
            if op == "del":
                where.pop(path[-1], None)
            else:
                where[path[-1]] = copy.deepcopy(value[0])
    return made


def parts(config: Config) -> list[Part]:
    """The mappings of a config, the text model's among them."""
    text = next((key for key in TEXT if isinstance(config.get(key), dict)), None)
    found = [Part((), config, "top" if text else "text")]
    for key, value in config.items():
        if isinstance(value, dict) and key != "quantization_config" and not key.startswith("rope"):
            kind = "text" if key == text or key in ("encoder", "decoder") else "tower" if TOWER.search(key) else "inner"
            found.append(Part((key,), value, kind))
            if key == "thinker_config":
                found += [
                    Part((key, k), v, "text" if k in TEXT else "tower") for k, v in value.items() if isinstance(v, dict) and k in TEXT
                ]
    return found


def _part(config: Config, rng: random.Random) -> Part:
    found = parts(config)
    return rng.choices(found, [{"text": 10, "top": 2, "tower": 1, "inner": 2}[p.what] for p in found])[0]


def _keys(part: Part, kind: type | tuple[type, ...] = object) -> list[str]:
    return [k for k, v in part.data.items() if not NOISE.match(k) and isinstance(v, kind) and not (isinstance(v, dict) and k in TEXT)]


def drop(config: Config, rng: random.Random) -> Edit | None:
    part = _part(config, rng)
    keys = _keys(part)
    key = rng.choice(keys) if keys else ""
    return Edit("drop", f"{part.what}.{key}", (("del", (*part.path, key)),)) if key else None


def null(config: Config, rng: random.Random) -> Edit | None:
    part = _part(config, rng)
    keys = [k for k in _keys(part) if part.data[k] is not None]
    likely = [k for k in keys if re.search(r"key_value|head_dim|window|layer_types|rope|tie|bias|inter|experts|_dim$|pattern|inner", k)]
    key = rng.choice(likely if likely and rng.random() < 0.7 else keys) if keys else ""
    return Edit("null", f"{part.what}.{key}", (("set", (*part.path, key), None),)) if key else None


def alias(config: Config, rng: random.Random) -> Edit | None:
    """Another name for a key: of the class's attribute_map, of another class, rotary settings old and new, torch_dtype."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

    part = _part(config, rng)
    model_type = part.data.get("model_type")
    known = CONFIG_MAPPING[model_type].attribute_map if isinstance(model_type, str) and model_type in CONFIG_MAPPING_NAMES else {}
    pairs = [("attribute_map", new, old) for old, new in known.items()] + [("attribute_map", old, new) for old, new in known.items()]
    pairs += [("foreign", old, new) for old, new in FOREIGN] + [
        ("torch_dtype", "dtype", "torch_dtype"),
        ("torch_dtype", "torch_dtype", "dtype"),
    ]
    found = [Edit(f"alias:{kind}", f"{part.what}.{old}->{new}", (("del", (*part.path, old)), ("set", (*part.path, new), part.data[old])))
             for kind, old, new in pairs
             if old in part.data and new not in part.data and (kind == "torch_dtype" or not NOISE.match(old))]  # fmt: skip
    rope = part.data.get("rope_parameters")
    if isinstance(rope, dict) and "rope_theta" in rope:
        rest = {k: v for k, v in rope.items() if k != "rope_theta"}
        ops = [("del", (*part.path, "rope_parameters")), ("set", (*part.path, "rope_theta"), rope["rope_theta"])]
        found.append(Edit("alias:rope", f"{part.what}.rope_parameters->rope_theta", (*ops, ("set", (*part.path, "rope_scaling"), rest))))
    kinds = sorted({e.kind for e in found})
    kind = rng.choice(kinds) if kinds else ""
    return rng.choice([e for e in found if e.kind == kind]) if found else None


def pattern(config: Config, rng: random.Random) -> Edit | None:
    """layer_types against what stands for it in other files: a period, a window, nothing."""
    fits = [
        p
        for p in parts(config)
        if p.what in ("text", "top") and {"layer_types", "sliding_window", "max_window_layers", *PERIODS} & p.data.keys()
    ]
    if not fits:
        return None
    part = rng.choice(fits)
    path, data = part.path, part.data
    types, named = data.get("layer_types"), [k for k in PERIODS if k in data]
    gone = (("del", (*path, "layer_types")),)
    roll = rng.randrange(6)
    if isinstance(types, list) and types and roll == 0:
        return Edit("pattern", "layer_types dropped", gone + tuple(("del", (*path, k)) for k in named if rng.random() < 0.5))
    if isinstance(types, list) and types and roll == 1:
        key = rng.choice(["sliding_window_pattern", "_sliding_window_pattern"])
        return Edit("pattern", f"layer_types->{key}", (*gone, ("set", (*path, key), rng.choice([2, 3, 4, 6]))))
    if isinstance(types, list) and types and roll == 2:
        kinds = sorted({*map(str, types), *(["full_attention", "sliding_attention"] if rng.random() < 0.3 else [])})
        return Edit("pattern", "layer_types redrawn", (("set", (*path, "layer_types"), [rng.choice(kinds) for _ in types]),))
    if named and roll in (3, 4):
        key = rng.choice(named)
        return Edit(
            "pattern", f"{key} changed", (("set", (*path, key), rng.randint(1, 6)), *(gone if types and rng.random() < 0.7 else ()))
        )
    ops: list[tuple[Any, ...]] = [("set", (*path, "sliding_window"), rng.choice([None, 16, 64, 100]))]
    if "use_sliding_window" in data or rng.random() < 0.2:
        ops.append(("set", (*path, "use_sliding_window"), rng.random() < 0.6))
    return Edit(
        "pattern",
        "sliding_window" + "+".join(["", *(str(o[1][-1]) for o in ops[1:])]),
        (*ops, *(gone if types and rng.random() < 0.6 else ())),
    )


def _number(key: str, old: int, data: Config, rng: random.Random) -> int:
    """Another whole number for a key, of the size that such a key has."""
    heads = next((data[k] for k in ("num_attention_heads", "n_head", "num_heads", "n_heads") if isinstance(data.get(k), int)), 8) or 8
    layers = next((data[k] for k in data if LAYERS.match(k) and isinstance(data[k], int)), 4)
    choices: list[tuple[str, list[int]]] = [
        (LAYERS.pattern, list(range(1, 9))),
        (r"key_value_heads|kv_heads|n_kv|kv_n_heads|num_kv(?!_shared)|query_group", [i for i in range(1, heads + 1) if heads % i == 0]),
        (r"heads?$|n_head", [max(1, old // 2), old * 2]),
        (r"head_dim|_headdim|d_head|kv_channels|d_kv|head_size", [32, 64, 96, 128, 192, 256]),
        (r"max_window_layers", list(range(layers + 2))),
        (r"window|chunk_size", [16, 32, 64, 128, 1024, 4096]),
        (r"pattern|interval|period|freq|every|step$|group_size$", list(range(1, 8))),
        (r"offset", list(range(5))),
        (r"first_k_dense|dense_layers|kv_shared|start_index|end_index", list(range(layers + 1))),
        (r"shared_experts?$|n_shared|num_shared", [0, 1, 2, 3]),
        (r"per_tok|top_?k", [1, 2, 4]),
        (r"experts?$", [1, 4, 8, 16]),
        (r"vocab", [1000, 32000, old + 64]),
        (r"position|max_seq|max_target|max_source|n_ctx|seq_len", [256, 1024, 4096]),
        (r"^(hidden_size|d_model|n_embd|width|embed_dim)$", [old * 2, max(heads * 8, old // 2)]),
        (r"nextn|mtp", [0, 1, 2]),
    ]
    return rng.choice(next((c for p, c in choices if re.search(p, key)), [max(1, old // 2), old * 2, old + (1 if old < 8 else 64)]))


def number(config: Config, rng: random.Random) -> Edit | None:
    part = _part(config, rng)
    keys = [k for k in _keys(part, int) if not isinstance(part.data[k], bool) and part.data[k] >= 0]
    likely = [
        k
        for k in keys
        if LAYERS.match(k) or re.search(r"key_value|head_dim|window|pattern|period|interval|first_k|freq|step|experts|shared|dense|lora", k)
    ]
    if not keys:
        return None
    key = rng.choice(likely if likely and rng.random() < 0.65 else keys)
    old = part.data[key]
    new = _number(key, old, part.data, rng)
    ops: list[tuple[Any, ...]] = [("set", (*part.path, key), new)]
    if LAYERS.match(key) and old and rng.random() < 0.8:  # lists of one entry per layer follow
        lists = [k for k, v in part.data.items() if isinstance(v, list) and len(v) == old]
        ops += [("set", (*part.path, k), [part.data[k][i % old] for i in range(new)]) for k in lists]
    return Edit("number", f"{part.what}.{key}={new}", tuple(ops))


def flip(config: Config, rng: random.Random) -> Edit | None:
    part = _part(config, rng)
    if rng.random() < 0.12:
        key = rng.choice(["tie_word_embeddings", "attention_bias", "mlp_bias", "use_sliding_window", "use_qk_norm", "qkv_bias"])
        return Edit("flip", f"{part.what}.{key} added", (("set", (*part.path, key), rng.random() < 0.5),)) if key not in part.data else None
    keys = [k for k, v in part.data.items() if isinstance(v, bool) and not NOT_FLIPPED.search(k)]
    key = rng.choice(keys) if keys else ""
    return Edit("flip", f"{part.what}.{key}", (("set", (*part.path, key), not part.data[key]),)) if key else None


def tie(config: Config, rng: random.Random) -> Edit | None:
    part = rng.choice([p for p in parts(config) if p.what in ("text", "top")])
    at = (*part.path, "tie_word_embeddings")
    if "tie_word_embeddings" in part.data and rng.random() < 0.4:
        return Edit("tie", f"{part.what} dropped", (("del", at),))
    value = rng.random() < 0.5
    return Edit("tie", f"{part.what}={value}", (("set", at, value),))


def identity(config: Config, rng: random.Random) -> Edit | None:
    """architectures or model_type missing."""
    text = next((key for key in TEXT if isinstance(config.get(key), dict)), None)
    roll = rng.random()
    if text and roll < 0.35:
        return Edit("identity", "text.model_type dropped", (("del", (text, "model_type")),))
    if roll < 0.75:
        return Edit("identity", "architectures dropped", (("del", ("architectures",)),))
    if roll < 0.85:
        return Edit("identity", "architectures null", (("set", ("architectures",), None),))
    return Edit("identity", "model_type dropped", (("del", ("model_type",)),))


def dtype(config: Config, rng: random.Random) -> Edit | None:
    part = rng.choice([p for p in parts(config) if p.what in ("text", "top")])
    key = next((k for k in ("dtype", "torch_dtype") if k in part.data), rng.choice(["dtype", "torch_dtype"]))
    value = rng.choice(["float32", "float16", "bfloat16", None, "drop"])
    if value == "drop":
        return Edit("dtype", f"{part.what}.{key} dropped", (("del", (*part.path, key)),))
    return Edit("dtype", f"{part.what}.{key}={value}", (("set", (*part.path, key), value),))


_KEPT = frozenset({"model_type", "hidden_size", "num_hidden_layers", "intermediate_size", "vocab_size", "rope_scaling", "rope_parameters",
                   "sliding_window", "num_attention_heads"})  # fmt: skip


def nest(config: Config, rng: random.Random) -> Edit | None:
    """The text model's settings flat, under another name or sparse; a part empty or gone."""
    text = next((key for key in TEXT if isinstance(config.get(key), dict)), None)
    roll = rng.random()
    if text and roll < 0.3:
        flat = tuple(("set", (k,), v) for k, v in config[text].items() if k not in ("model_type", "architectures"))
        return Edit("nest", f"{text} flat", (("del", (text,)), *flat))
    if text and roll < 0.4:
        to = rng.choice([key for key in TEXT[:3] if key != text])
        return Edit("nest", f"{text}->{to}", (("del", (text,)), ("set", (to,), config[text])))
    inner = [k for k, v in config.items() if isinstance(v, dict) and k.endswith("_config")]
    if inner and roll < 0.7:
        key = rng.choice(inner)
        value = {"model_type": config[key]["model_type"]} if "model_type" in config[key] else {}
        ops = {"gone": ("del", (key,)), "null": ("set", (key,), None), "empty": ("set", (key,), {}), "bare": ("set", (key,), value)}
        how = rng.choice(sorted(ops))
        return Edit("nest", f"{key} {how}", (ops[how],))
    if text:
        gone = [k for k in config[text] if k not in _KEPT and not NOISE.match(k) and rng.random() < 0.7]
        return Edit("nest", f"{text} sparse", tuple(("del", (text, k)) for k in gone))
    return None


DRAWS: list[tuple[Callable[[Config, random.Random], Edit | None], int]] = [
    (drop, 22), (null, 10), (alias, 14), (pattern, 12), (number, 24), (flip, 9), (tie, 6), (identity, 5), (dtype, 5), (nest, 7),
]  # fmt: skip


def mutate(config: Config, rng: random.Random) -> list[Edit]:
    """One to four edits, each drawn on what those before it left."""
    edits: list[Edit] = []
    n = rng.choices([1, 2, 3, 4], [4, 4, 2, 1])[0]
    for _ in range(40):
        if len(edits) == n:
            break
        now = apply(config, edits)
        made = rng.choices([draw for draw, _ in DRAWS], [w for _, w in DRAWS])[0](now, rng)
        if made and apply(config, [*edits, made]) != now:
            edits.append(made)
    return edits
