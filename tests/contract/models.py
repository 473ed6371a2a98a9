"""Models of a few layers that hold every form of cache between them, and deployments that each engine can run."""

from __future__ import annotations

from typing import Any

from kvplan import engines
from kvplan.forms import Form
from kvplan.spec import ModelSpec, lower, parse_spec
from kvplan.tensors import CacheFormats

HIDDEN = 1024
_KV = {"heads": 8, "kv_heads": 2, "head_dim": 128}
GQA = {"kind": "gqa", **_KV}
_MLA = {"heads": 8, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "q_lora_rank": 256}
_MAMBA2 = {"kind": "mamba2", "heads": 16, "head_dim": 64, "groups": 8, "d_state": 128, "d_conv": 4}
_INDEX = {"index_heads": 8, "index_head_dim": 128, "index_topk": 64}

#: Form -> the mixers of a model's repeated layers; None: a layer without a mixer.
_V41 = {"heads": 8, "head_dim": 512, "rope_head_dim": 64, "q_lora_rank": 256, "o_groups": 4, "o_lora_rank": 256, "window": 128, "ratio": 2,
        "shared": True}  # fmt: skip
MIXERS: dict[Form, list[dict[str, Any] | None]] = {
    "none": [None, GQA],
    "shared": [GQA, {"kind": "shared", **_KV}],
    "kv": [GQA, {"kind": "sliding", **_KV, "window": 512}],
    "kv+sinks": [{"kind": "sliding", **_KV, "window": 512, "sink_tokens": 4}],
    "kv+index": [{"kind": "gqa_indexed", **_KV, **_INDEX}],
    "kv+blocks": [{"kind": "block_sparse", **_KV, "stride": 16}],
    "encoder-kv": [{"kind": "cross", **_KV}, GQA],
    "latent": [{"kind": "mla", **_MLA}],
    "latent+window": [{"kind": "mla", **_MLA}, {"kind": "mla", **_MLA, "window": 512}],
    "latent+index": [{"kind": "mla_sparse", **_MLA, **_INDEX}],
    "latent+pooled-index": [{"kind": "mla_sparse", **_MLA, **_INDEX, "index_pool": 4}],
    "compressed": [
        {"kind": "compressed", "heads": 8, "head_dim": 512, "rope_head_dim": 64, "q_lora_rank": 256, "o_groups": 4, "o_lora_rank": 256,
         "window": 128, "ratio": 4, "overlap": True, **_INDEX},
    ],
    "compressed+shared": [{"kind": "compressed", **_V41, **_INDEX}, {"kind": "compressed", **_V41, "own_rows": False}],
    "mamba1": [{"kind": "mamba1", "d_inner": 2048, "d_state": 16, "dt_rank": 64, "d_conv": 4}],
    "mamba2": [_MAMBA2],
    "gated-delta-net": [
        {"kind": "gated_delta_net", "key_heads": 4, "value_heads": 8, "key_head_dim": 128, "value_head_dim": 128, "d_conv": 4}, GQA,
    ],
    "kda": [{"kind": "kda", "heads": 8, "head_dim": 128, "d_conv": 4}, {"kind": "mla", **_MLA}],
    "linear-attention": [{"kind": "lightning", "heads": 8, "head_dim": 128}, GQA],
    "short-conv": [{"kind": "short_conv", "d_conv": 3}, GQA],
    "rg-lru": [{"kind": "rg_lru", "width": 1024, "heads": 8, "d_conv": 4}, GQA],
    "rwkv": [{"kind": "rwkv", "heads": 16, "head_dim": 64}],
    "mlstm": [{"kind": "mlstm", "heads": 8, "qk_head_dim": 64, "v_head_dim": 128}],
    "convolved-qkv": [{"kind": "convolved_qkv", "heads": 8, "kv_heads": 2, "head_dim": 128, "kernels": [2, 2]}, GQA],
    "depthwise-conv": [{"kind": "depthwise_conv", "channels": 4096, "d_conv": 4}, GQA],
}  # fmt: skip


def model(form: Form, encoder_tokens: int | None = 1500, **fields: Any) -> ModelSpec:
    """Two rounds of the form's layers, with a feed-forward part each. `encoder_tokens` of cross layers; None: the question says."""
    mixers = [mixer | {"encoder_tokens": encoder_tokens} if mixer and mixer["kind"] == "cross" else mixer for mixer in MIXERS[form]]
    mlp = {"kind": "dense", "intermediate_size": 2048}
    blocks = {f"b{i}": {"mixers": [mixer] if mixer else [], "mlps": [mlp]} for i, mixer in enumerate(mixers)}
    return parse_spec(
        {
            "id": f"test/{form.replace('+', '-')}",
            "name": form,
            "source": "written for a test",
            "max_context": 1 << 17,
            "vocab_size": 32_000,
            "hidden_size": HIDDEN,
            "n_layers": 2 * len(mixers),
            "layers": [{"pattern": [*blocks], "repeat": 2}],
            "blocks": blocks,
            "dtype": "bf16",
            **fields,
        },
        "test",
    )


def forms_of(spec: ModelSpec) -> set[Form]:
    """Forms of the caches that a model's layers keep; `none` where a layer keeps none."""
    layers = lower(spec, CacheFormats("bf16", "bf16", "bf16", "bf16")).layers
    return {cache.form for layer in layers for cache in layer.caches} | ({"none"} if any(not layer.caches for layer in layers) else set())


#: A device of each make; an amount of memory where an engine does not ask.
_MAKES = {"nvidia": "h100-80gb", "amd": "mi300x", "apple": "apple-m4-24gb"}
#: Engine -> devices it runs on, by its facts.
DEVICES: dict[str, tuple[str, ...]] = {
    name: tuple(device for make, device in _MAKES.items() if not engines.facts(name).vendors or make in engines.facts(name).vendors)
    for name in engines.ENGINES
}
