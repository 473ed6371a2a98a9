"""What a checkpoint tensor is, by its name: role, layer, stack, whether it is a scale or packed. Tables of patterns.

Names are those of transformers models (each `modeling_*.py`) and of the quantisation tools: compressed-tensors, ModelOpt,
AutoAWQ, GPTQModel, bitsandbytes, and the fp8 and fp4 releases of DeepSeek and OpenAI.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache

from kvplan.stored import Stack, StoredTensor
from kvplan.tensors import Role

Shape = tuple[str, tuple[int, ...], int]  # dtype, shape, bytes

_TOWER = re.compile(
    r"(?:^|\.)(?:visual|vision\w*|vit|vpm|resampler|audio\w*|apm|speech_encoder|sound_\w+|image_newline|img_processor|"
    r"multi_modal_projector|mm_projector|aligner|connector|embed_vision|embed_audio|embed_tokens_extend|patch_merger|gen_\w+)(?:\.|$)"
    r"|^mlp1\."
)
_DRAFT = re.compile(r"(?:^|\.)(?:mtp|nextn|mtp_layers|mtp_block|mtp_\w+)(?:\.|$)")
_DRAFT_MARK = re.compile(r"\.(?:eh_proj|enorm|hnorm)\.")
_ENCODER, _DECODER = re.compile(r"^(?:model\.)?encoder\."), re.compile(r"^(?:model\.)?decoder\.")
_LAYER = re.compile(r"(?:^|\.)(?:layers|layer|h|blocks|block|mtp_layers|mtp_block)\.(\d{1,6})(?:\.|$)")
_COMPANION = re.compile(
    r"(?:[._](?:weight_scale(?:_inv|_2)?|weight_global_scale|(?:input|output)(?:_global)?_scale|[qkv]_scale|kv_scale|scales|scale_inv|"
    r"qzeros|g_idx|weight_g_idx|weight_zero_point|weight_shape|weight_format|absmax|quant_map|nested_absmax|nested_quant_map|SCB)"
    r"|\.quant_state\.[\w.]+)$"
)

#: First match wins: a role and the patterns of its names.
_ROLES: tuple[tuple[Role, tuple[str, ...]], ...] = (
    ("buffer", (r"inv_freq$", r"rotary_emb\.", r"\.attn\.(?:masked_)?bias$", r"attention\.masked_bias$",
                r"e_score_correction_bias$", r"expert_bias$", r"position_ids$")),
    ("router", (r"(?:^|[._])router(?:\.|_|$)", r"\.(?:mlp|moe|ffn|block_sparse_moe|feed_forward|mixer)\.(?:gate|wg)\.",
                r"shared_expert_gate", r"\.gate\.wg\.")),
    ("norm", (r"(?i:norm)", r"(?:^|[._])ln(?:[._\d]|$)", r"\.bias$", r"_bias$", r"(?:^|[._])sinks$")),
    ("shared_experts", (r"shared_expert", r"shared_mlp")),
    ("experts", (r"\.experts?\.", r"experts\b", r"_experts\.", r"\.moe\.(?:gate|up|down)", r"output_linear|input_linear")),
    ("state", (r"conv1d", r"\.conv\.conv\.", r"A_log$", r"\.D$", r"dt_bias$", r"time_(?:decay|faaaa|first|mix_|maa)",
               r"\.x_[rwkvag]$", r"\.[wavgr]\d$", r"\.[kr]_[kar]$")),
    ("embedding", (r"embed_tokens", r"word_embeddings", r"\bwte\b", r"\bwpe\b", r"tok_embeddings", r"embed_in\.",
                   r"embeddings?\.", r"embed_positions", r"^(?:model\.)?(?:shared|embed)\.")),
    ("head", (r"^(?:language_model\.|model\.)?(?:lm_head|embed_out|output|score|head)\.", r"lm_head\.",
              r"^transformer\.output_layer\.")),
    ("attention", (r"(?i:attn|attention)", r"mixer", r"mamba", r"\.conv\.", r"[._][qkvo]_proj", r"qkv", r"\.att\.",
                   r"temporal_block", r"indexer", r"time_mixing")),
    ("mlp", (r"mlp|ffn|feed_forward", r"\.fc[12]\.", r"\.fc_(?:in|out)\.", r"dense_h_to_4h|dense_4h_to_h", r"DenseReluDense",
             r"\.(?:up|down|gate)_proj", r"\.w[123]\.", r"\.dense\.")),
)  # fmt: skip
_PATTERNS = tuple((role, re.compile("|".join(patterns))) for role, patterns in _ROLES)
_DIGITS = re.compile(r"(?<=\.)\d+(?=\.|$)")


def role_of(name: str) -> Role:
    """The role of a tensor name, `other` where no pattern knows it."""
    return next((role for role, pattern in _PATTERNS if pattern.search(name)), "other")


@lru_cache(maxsize=4096)
def _place(name: str) -> tuple[Role, Stack | None, bool]:
    """Role, stack (None: as the layers say) and whether it is a scale, of a name with 0 for every index."""
    companion = bool(_COMPANION.search(name))
    if _TOWER.search(name):
        return "tower", "tower", companion
    return role_of(name), "draft" if _DRAFT.search(name) else "encoder" if _ENCODER.match(name) else None, companion


def classify(shapes: Mapping[str, Shape], n_layers: int | None = None) -> tuple[StoredTensor, ...]:
    """Every tensor with its role, layer, stack and parameters. `n_layers`: layers from there on are draft modules."""
    two_stacks = any(_DECODER.match(name) for name in shapes)
    draft_layers = {at[1] for name in shapes if _DRAFT_MARK.search(name) and (at := _LAYER.search(name))}
    tensors = []
    for name, (dtype, shape, n_bytes) in shapes.items():
        found = _LAYER.search(name)
        layer = int(found[1]) if found else None
        role, place, companion = _place(_DIGITS.sub("0", name))
        stack: Stack = place or "model"
        if place == "encoder" and not two_stacks:
            stack = "model"  # BERT and the like: the encoder is the model
        if place is None and found and (found[1] in draft_layers or (n_layers and int(found[1]) >= n_layers)):
            stack = "draft"
        companion = companion or (name.endswith(".scale") and f"{name[:-6]}.weight" in shapes)
        stacked = role == "experts" and len(shape) >= 3 and not re.search(r"experts\.\d", name)
        tensors.append(
            StoredTensor(
                name=name, dtype=dtype, shape=shape, n_bytes=n_bytes, role=role, layer=layer, stack=stack, companion=companion,
                elems=0 if companion else _elems(name, dtype, shape, shapes), experts=shape[0] if stacked else 0,
            )
        )  # fmt: skip
    return tuple(tensors)


def _elems(name: str, dtype: str, shape: tuple[int, ...], shapes: Mapping[str, Shape]) -> int | None:
    """Parameters of a matrix: its elements, or those packed in them where the tensors beside it tell; None where they do not."""
    n = math.prod(shape)
    stem, _, leaf = name.rpartition(".")
    if leaf == "qweight":
        bits = _qweight_bits(shape, shapes.get(f"{stem}.scales"), shapes.get(f"{stem}.qzeros"))
        return n * 32 // bits if bits else None
    if leaf == "weight_packed":
        return 2 * n if dtype == "U8" else None
    if leaf.endswith("_blocks") and f"{name[:-7]}_scales" in shapes:
        return 2 * n
    if dtype == "U8" and (f"{name}_scale" in shapes or f"{name}.absmax" in shapes):
        return 2 * n
    if dtype == "I8" and shapes.get(f"{stem}.scale", ("",))[0] == "F8_E8M0":
        return 2 * n
    return n


def _qweight_bits(shape: tuple[int, ...], scales: Shape | None, qzeros: Shape | None) -> int | None:
    """Bits of packed int32 weights: AWQ packs the output side, GPTQ the input side (its zero points tell how)."""
    if scales is None or len(shape) != 2 or len(scales[1]) != 2 or not scales[1][1]:
        return None
    out = scales[1][1]
    packed = shape[1] if shape[1] != out else qzeros[1][1] if qzeros and len(qzeros[1]) == 2 else 0
    return 32 * packed // out if packed and 32 * packed % out == 0 else None
