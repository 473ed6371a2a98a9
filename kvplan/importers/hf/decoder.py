"""The usual decoder: attention and a feed-forward part per layer, all that differs between families a row of traits."""

from __future__ import annotations

from typing import Any

from kvplan.importers.hf import mtp
from kvplan.importers.hf.attention import bias, mixer, windows
from kvplan.importers.hf.classes import class_defaults
from kvplan.importers.hf.experts import dense, moe, shared_biases, where
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.rows import Decoder
from kvplan.importers.hf.stack import Block, block, weight

Stack = dict[str, Any]


def shapes(f: Fields, made: tuple[tuple[str, tuple[str | int, ...]], ...]) -> list[dict[str, Any]]:
    """Extra tensors of a row, sizes given by key read from the config."""
    return [weight(name, *(f.dim(size) if isinstance(size, str) else size for size in shape)) for name, shape in made]


def model(f: Fields, layers: list[Block], *, norm: str = "rms", weights: list[dict[str, Any]] | None = None, **more: Any) -> Stack:
    """What every decoder's spec has beside its layers."""
    return {
        "vocab_size": f.dim("vocab_size"),
        "hidden_size": f.dim("hidden_size"),
        **lengths(f),
        "tied_embeddings": f.flag("tie_word_embeddings"),
        "norm": norm,
        "layers": layers,
        "weights": weights or [],
        **_cache_window(f, layers),
        **_unused_window(f),
        **_bidirectional(f),
        **more,
    }


def with_towers(made: Stack, *sizes: tuple[str, int]) -> Stack:
    """With towers beside it: their names and parameters."""
    return {**made, "towers": [{"name": name, "parameters": n} for name, n in sizes]}


def with_head(made: Stack, rows: int) -> Stack:
    """With a head of its own that writes `rows` words, whatever the embedding has."""
    head = weight("lm_head", rows, made["hidden_size"], role="head")
    return {**made, "lm_head": False, "tied_embeddings": False, "weights": [*made.get("weights", []), head]}


def _bidirectional(f: Fields) -> dict[str, Any]:
    """Which tokens see later ones: vLLM reads is_causal, and use_bidirectional_attention of Gemma (models/config.py, gemma3.py)."""
    stated = f.data.get("use_bidirectional_attention")
    if f.data.get("is_causal") is False or stated in (True, "all"):
        return {"bidirectional": "all"}
    return {"bidirectional": "images"} if stated == "vision" else {}


#: Mixers that keep every token where no window is stated.
_WHOLE = frozenset({"mha", "gqa", "mqa", "mla", "cross"})


def _cache_window(f: Fields, layers: list[Block]) -> dict[str, Any]:
    """The window of a config whose class has no layer_types and masks by none (cache_utils.py get_layer_types_and_kwargs), or by one under
    another name (GPT-Neo's window_size)."""
    if f.model_type not in class_defaults() or f.data.get("layer_types") is not None:
        return {}
    own = "sliding_window" in f.names.get("sliding_window", ("sliding_window",))
    if own and any(mixer["kind"] not in _WHOLE for layer in layers for mixer in layer.get("mixers", ())):
        return {}
    stated = next((v for key in ("sliding_window", "attention_chunk_size") if (v := f.data.get(key)) is not None), None)
    if isinstance(stated, bool) or not isinstance(stated, int) or stated < 1:
        return {}
    if any(mixer["kind"] == "cross" for layer in layers for mixer in layer.get("mixers", ())):
        raise f.fault("sliding_window", "this encoder-decoder masks by no window, yet transformers' caches would be cut to it; take it out")
    note = f"sliding_window {stated}: this class masks by no such window, yet transformers' cache keeps no more than that in every layer"
    return {"cache_window": stated, "notes": [note]}


def _unused_window(f: Fields) -> dict[str, Any]:
    """The window of a config whose class, as it reads it, has layer_types of which none slides."""
    types, stated = f.data.get("layer_types"), f.data.get("sliding_window")
    if not isinstance(types, list) or not types or any("sliding" in str(kind) or "chunked" in str(kind) for kind in types):
        return {}
    return {"unused_window": stated} if type(stated) is int and stated > 0 else {}


def lengths(f: Fields) -> dict[str, int | None]:
    """max_context and, where rotary scaling stretches it, what the config states of the length before."""
    longest = max_context(f)
    made: dict[str, int | None] = {"max_context": longest}
    scaling = f.data.get("rope_scaling") or f.data.get("rope_parameters")
    if longest is None or not isinstance(scaling, dict):
        return made
    kind = scaling.get("rope_type", scaling.get("type"))
    key = next((name for name in POSITIONS if f.opt(name) is not None), "")
    if kind == "yarn" and key and f.dim(key) < longest:
        made["stated_context"] = f.dim(key)
    if kind in ("su", "longrope") and f.opt("original_max_position_embeddings") and f.dim("original_max_position_embeddings") < longest:
        made["original_context"] = f.dim("original_max_position_embeddings")
    return made


#: What configs call the number of positions. `model_max_length` is served where it differs: vLLM model_arch_config_convertor.py, SGLang
#: hf_transformers/common.py CONTEXT_LENGTH_KEYS, llama.cpp's converter (Command R: 8,192 positions, 131,072 tokens).
POSITIONS = ("model_max_length", "max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "max_sequence_length")


def max_context(f: Fields) -> int | None:
    """max_position_embeddings under any of its names, stretched where rotary scaling does; None for models without a limit."""
    for key in POSITIONS:
        if f.opt(key) is not None:
            return _stretched(f, f.dim(key))
    return None


def _stretched(f: Fields, positions: int) -> int:
    """vLLM config/model.py _get_and_verify_max_len: yarn counts from its original length, linear and dynamic scaling multiply.

    longrope and llama3 state the stretched length themselves, and Gemma 3 does under linear.
    """
    scaling = f.data.get("rope_scaling") or f.data.get("rope_parameters")
    if not isinstance(scaling, dict) or "gemma3" in str(f.model_type):
        return positions
    kind, factor = scaling.get("rope_type", scaling.get("type")), scaling.get("factor")
    if kind not in ("yarn", "linear", "dynamic") or isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 < factor < 1e4:
        return positions
    original = scaling.get("original_max_position_embeddings") if kind == "yarn" else positions
    if isinstance(original, bool) or not isinstance(original, int) or not 0 < original < 1 << 32:
        return positions
    return max(positions, int(original * factor))


def overrides(f: Fields, n: int, *modelled: str) -> list[dict[str, int]] | None:
    """What `per_layer_config` says of each of `n` layers, by which transformers 5.24 saves layers that differ (configuration_utils.py);
    None where the file has none. Raises SpecError where it says anything but the `modelled` keys."""
    stated = f.data.get("per_layer_config")
    if stated is None:
        return None
    found: list[dict[str, int]] = [{} for _ in range(n)]
    for at, own in stated.items() if isinstance(stated, dict) else ():
        at = int(at) if str(at).isascii() and str(at).isdigit() and len(str(at)) < 6 else n
        if at >= n or not isinstance(own, dict):
            raise f.fault("per_layer_config", f"must say of some of the {n} layers, by their number, what differs")
        if other := sorted(own.keys() - set(modelled)):
            raise f.fault("per_layer_config", f"layers that differ in {str(other[0])[:40]} are not modelled for this architecture")
        found[at] = {key: f.whole(value, f"per_layer_config.{at}.{key}", 1) for key, value in own.items() if value is not None}
    if not isinstance(stated, dict):
        raise f.fault("per_layer_config", "must be an object: layer -> what differs")
    return found


def decoder(f: Fields, t: Decoder) -> Stack:
    """A decoder-only model of softmax attention."""
    n = f.dim("num_hidden_layers")
    overrides(f, n)
    norms = 1 if t.parallel_if and f.flag(t.parallel_if) else t.norms
    extra = shapes(f, t.layer_weights)
    kinds, sparse_layers = windows(f, t, n), where(f, t.experts, n)
    routed = extra + shared_biases(f, t.experts) if any(sparse_layers) else extra
    layers = [
        block([mixer(f, t, kind)], [moe(f, t.experts) if sparse and t.experts else dense(f, t)], norms, routed if sparse else extra)
        for kind, sparse in zip(kinds, sparse_layers, strict=True)
    ]
    weights = shapes(f, t.model_weights)
    if t.positions:
        key, offset = t.positions
        weights.append(weight("position_embeddings", f.dim(key) + offset, f.dim("hidden_size")))
    if bias(f, t.head_bias):
        weights.append(weight("lm_head_bias", f.dim("vocab_size"), role="head"))
    made = model(f, layers, norm=t.norm, weights=weights)
    if not t.final_norm:
        made["final_norm"] = False
    return made | mtp.declared(f, t.mtp, layers[-1])
