"""GGUF metadata -> the data of a model spec, by llama.cpp's architecture name. What the file does not say is never guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvplan.errors import SpecError, UnknownName, UnsupportedError
from kvplan.importers.gguf.architectures import ARCHITECTURES, UNSUPPORTED
from kvplan.importers.gguf.header import Long
from kvplan.importers.gguf.hparams import Hparams, Keys, read_hparams
from kvplan.importers.gguf.mixers import attention, mixers
from kvplan.importers.gguf.tensors import Table
from kvplan.importers.gguf.types import FILE_TYPES, PLAIN_FILE_TYPES
from kvplan.importers.hf.stack import block, name_blocks, patterns, weight

#: general.type of files that are no model, and what to do.
_OTHER_FILES = {
    "adapter": "a LoRA adapter; name the model's own file, and the adapter with --lora",
    "mmproj": "a multimodal projector; name the language model's own file",
    "imatrix": "an importance matrix, not a model",
}


def spec_data(metadata: Mapping[str, Any], table: Table, source: str) -> tuple[dict[str, Any], Hparams]:
    """The data of a spec, which `parse_spec` checks, and the hparams behind it.

    Raises SpecError (a key missing, or contradictory) or UnsupportedError (an architecture that has no kinds here).
    """
    metadata = _as_llama_cpp(metadata)
    arch_name = _architecture(metadata, source)
    keys = Keys(metadata, arch_name, source)
    h = read_hparams(keys, ARCHITECTURES[arch_name])
    notes: list[str] = []
    layers = [_layer(h, il, table) for il in range(h.n_all)]
    blocks: dict[str, Any] = {}
    trunk, encoder = layers[: h.n_layers], None
    if arch_name == "t5":
        trunk, encoder = _encoder_decoder(h, layers, table)
    names = name_blocks(trunk, blocks)
    data: dict[str, Any] = {
        "id": _id(source), "name": _text(metadata, "general.name") or source.replace("\\", "/").rsplit("/", 1)[-1],
        "source": source[-2000:], "architecture": arch_name, "dtype": _dtype(metadata), "max_context": h.context,
        "hidden_size": h.hidden, "n_layers": len(names), "layers": patterns(names), "blocks": blocks, "norm": h.arch.norm,
    }  # fmt: skip
    data |= _embedding(h, table, notes)
    quantization = _quantization(metadata, table)
    if quantization:
        data["quantization"] = [{"format": quantization, "roles": ["attention", "mlp", "experts", "shared_experts", "embedding", "head"]}]
    if encoder:
        inner = name_blocks(encoder, blocks)
        data["encoder"] = {"n_layers": len(inner), "layers": patterns(inner)}
    if h.n_draft:
        data["mtp"] = {"modules": h.n_draft, "block": name_blocks([layers[h.n_layers]], blocks)[0]}
    if h.arch.swa is None and keys.number("attention.sliding_window", 0):
        notes.append(f"attention.sliding_window is in the file; llama.cpp does not use it for {arch_name}: all tokens are kept")
    if table.empty:
        notes.append("no tensors in this file: weights are counted from its metadata, the architecture's biases and norms assumed")
        if quantization == "unknown":
            notes.append("general.file_type does not say how the weights are stored: they are counted as 16 bits, at most")
    return {**data, "notes": notes}, h


#: Architectures as Ollama's own converter names them (ollama convert/*.go) -> as llama.cpp does.
_OLLAMAS = {"gptoss": "gpt-oss", "qwen25vl": "qwen2vl", "olmo3": "olmo2", "glm4moelite": "deepseek2", "deepseekocr": "deepseek2-ocr"}


def _as_llama_cpp(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Metadata with llama.cpp's name for the architecture, and the prefix of keys that follows from it."""
    own = str(metadata.get("general.architecture"))
    name = _OLLAMAS.get(own)
    if name is None:
        return metadata
    renamed = {f"{name}{key[len(own) :]}" if key.startswith(f"{own}.") else key: value for key, value in metadata.items()}
    return {**renamed, "general.architecture": name}


def _architecture(metadata: Mapping[str, Any], source: str) -> str:
    kind = metadata.get("general.type")
    if isinstance(kind, str) and kind in _OTHER_FILES:
        raise UnsupportedError(f"{source}: this GGUF file is {_OTHER_FILES[kind]}")
    name = metadata.get("general.architecture")
    if not isinstance(name, str):
        raise SpecError(source, [("general.architecture", "missing; the file does not say which model it is")])
    if name in UNSUPPORTED:
        raise UnsupportedError(f"{source}: general.architecture {name!r}: {UNSUPPORTED[name]}")
    if name not in ARCHITECTURES:
        known = UnknownName("GGUF architecture", name, list(ARCHITECTURES))
        raise UnsupportedError(f"{source}: {known}. Declare the model as a spec file: its layers and what each keeps.")
    return name


def _layer(h: Hparams, il: int, table: Table) -> dict[str, Any]:
    norms = h.arch.norms if table.empty else table.norms(il, h.hidden)
    return block(mixers(h, il, table), _mlps(h, il, table), norms)


def _mlps(h: Hparams, il: int, table: Table) -> list[dict[str, Any]]:
    keys, width = h.keys, h.ffn[il]
    bias = h.arch.bias if table.empty else table.has(il, "ffn_down.bias") or table.has(il, "ffn_down_exps.bias")
    found: list[dict[str, Any]] = []
    experts = keys.number("expert_count", 0)
    if experts and _has_experts(h, il, table):
        per_layer = keys.layers("expert_feed_forward_length", h.n_all, [width] * h.n_all)[il]
        if not table.empty:
            shape = table.shape(f"blk.{il}.ffn_down_exps.weight")
            per_layer = shape[0] if len(shape) == 3 else per_layer
        used = keys.layers("expert_used_count", h.n_all, [0] * h.n_all)[il]
        if not per_layer or not used:
            raise keys.fault("expert_used_count", f"layer {il} has {experts} experts of {per_layer} of which {used} are used")
        shared = keys.number("expert_shared_feed_forward_length", 0) or keys.number("expert_shared_count", 0) * per_layer
        if h.keys.arch == "llama4":
            shared = per_layer
        moe = {
            "kind": "moe", "experts": experts, "experts_per_token": used, "intermediate_size": per_layer,
            "gated": h.arch.gated if table.empty else table.has(il, "ffn_gate_exps.weight") or table.has(il, "ffn_gate_up_exps.weight"),
            "bias": bias, "shared_intermediate_size": shared, "shared_gate": table.has(il, "ffn_gate_inp_shexp.weight"),
            "router_bias": table.has(il, "exp_probs_b.bias"), "router_linear_bias": table.has(il, "ffn_gate_inp.bias"),
        }  # fmt: skip
        found.append({key: value for key, value in moe.items() if value not in (False, 0) or key == "gated"})
        if keys.arch != "arctic":
            return found
    if width and (table.empty or table.has(il, "ffn_up.weight") or table.has(il, "ffn_gate.weight")):
        gated = (
            h.arch.gated if table.empty else table.has(il, "ffn_gate.weight") or table.shape(f"blk.{il}.ffn_up.weight")[1:] == (2 * width,)
        )
        found.append({"kind": "dense", "intermediate_size": width, "gated": gated, "bias": bias})
    return found


def _has_experts(h: Hparams, il: int, table: Table) -> bool:
    """Whether layer `il` has experts: its tensors say, or the metadata's leading dense layers and interleaving."""
    if not table.empty:
        return table.has(il, "ffn_gate_inp.weight")
    keys = h.keys
    if h.arch.moe_every:
        period, offset = h.arch.moe_every
        return il % period == offset
    if h.arch.recurrent and h.arch.recurrent.where == "no_kv_heads_no_ffn":
        return bool(h.ffn[il])
    step = keys.number("interleave_moe_layer_step", 0)
    return il >= keys.number("leading_dense_block_count", 0) and (step < 2 or (il + 1) % step == 0)


def _encoder_decoder(h: Hparams, layers: list[dict[str, Any]], table: Table) -> tuple[list[Any], list[Any]]:
    """T5: block_count encoder layers, decoder_block_count decoder layers with cross-attention (src/models/t5.cpp)."""
    own, mlps = attention(h, 0, table), layers[0].get("mlps")
    kv = h.kv_heads[0]
    cross = {"kind": "cross", "heads": own["heads"], "kv_heads": kv, "head_dim": own["head_dim"]}
    encoder = {"kind": "encoder", "heads": own["heads"], "kv_heads": kv, "head_dim": own["head_dim"]}
    gated = table.empty or "dec.blk.0.ffn_gate.weight" in table.tensors
    mlps = [{**(mlps[0] if mlps else {"kind": "dense", "intermediate_size": h.ffn[0]}), "gated": gated}]
    n = h.keys.number("decoder_block_count", h.n_layers)
    return [block([own, cross], mlps, 3)] * n, [block([encoder], mlps)] * h.n_layers


def _embedding(h: Hparams, table: Table, notes: list[str]) -> dict[str, Any]:
    shape = table.shape("token_embd.weight")
    tokens = h.keys.metadata.get("tokenizer.ggml.tokens")
    listed = tokens.length if isinstance(tokens, Long) else len(tokens) if isinstance(tokens, tuple) else 0
    vocab = shape[1] if len(shape) == 2 else h.keys.number("vocab_size", listed) or None
    if vocab is None:
        notes.append("no vocabulary in this file: the embedding is not counted")
    tied = h.arch.tied if table.empty else "output.weight" not in table.tensors
    made: dict[str, Any] = {"vocab_size": vocab, "tied_embeddings": tied and vocab is not None}
    if len(shape) == 2 and shape[0] != h.hidden:
        made["embedding_size"] = shape[0]
    if not h.arch.cached and not table.empty and tied:
        made |= {"tied_embeddings": False, "lm_head": False}
    extra = [
        weight(name.removesuffix(".weight"), *t.shape[::-1], role="embedding")
        for name in ("position_embd.weight", "token_types.weight", "per_layer_token_embd.weight")
        if (t := table.tensors.get(name))
    ]
    return {**made, "weights": extra} if extra else made


def _dtype(metadata: Mapping[str, Any]) -> str:
    """What is not quantised in a file of this type: f16, but for f32 and bf16 files."""
    kind = metadata.get("general.file_type")
    return PLAIN_FILE_TYPES.get(kind, "f16") if isinstance(kind, int) else "f16"


def _quantization(metadata: Mapping[str, Any], table: Table) -> str | None:
    """How a file of this type stores its matrices; None where it does not quantise them, or where its tensors say it better."""
    kind = metadata.get("general.file_type")
    if isinstance(kind, int) and (kind in FILE_TYPES or kind == 1 or kind in PLAIN_FILE_TYPES):
        return FILE_TYPES.get(kind)
    return "unknown" if table.empty else None


def _text(metadata: Mapping[str, Any], key: str) -> str:
    value = metadata.get(key)
    return value.strip()[:200] if isinstance(value, str) else ""


def _id(source: str) -> str:
    stem = re.sub(r"(-\d{5}-of-\d{5})?\.gguf$", "", source.replace("\\", "/").rsplit("/", 1)[-1].lower())
    return "local/" + (re.sub(r"[^a-z0-9._-]+", "-", stem).strip("-")[:100] or "model")
