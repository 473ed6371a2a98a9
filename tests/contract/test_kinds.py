"""Every layer kind: what one layer keeps of 1,000 tokens in bf16 and how many parameters it has, by hand arithmetic; hidden size 64."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.layers import MIXERS, MLPS, find
from kvplan.spec import json_schema, lower
from kvplan.tensors import CacheFormats
from kvplan.weights import count
from tests.conftest import one_block, planned

H = 64  # hidden size
ATTENTION = {"heads": 8, "kv_heads": 2, "head_dim": 16}
QO, KV = 2 * H * 128, 2 * H * 32  # q and o: 8 x 16 wide; k and v: 2 x 16 wide
MLA = {"heads": 8, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "q_lora_rank": 48}
MLA_PARAMETERS = H * 48 + 48 + 48 * 8 * 24 + H * 40 + 32 + 32 * 8 * 32 + 8 * 16 * H

# kind -> fields, bytes kept, parameters
MIXER_FACTS: dict[str, tuple[dict[str, Any], int, int]] = {
    "mha": ({"heads": 8, "head_dim": 16}, 2 * 8 * 16 * 1000 * 2, 4 * H * 128),
    "gqa": ({**ATTENTION, "v_head_dim": 8}, 2 * (16 + 8) * 1000 * 2, H * (128 + 64) + H * (32 + 16)),
    "mqa": ({"heads": 8, "head_dim": 16}, 2 * 16 * 1000 * 2, QO + 2 * H * 16),
    "block_sparse": ({**ATTENTION, "stride": 16}, 2 * 2 * 16 * 1000 * 2 + 63 * 2 * 16 * 2, QO + KV),
    "gqa_indexed": (
        {**ATTENTION, "index_heads": 4, "index_head_dim": 32, "index_topk": 64},
        2 * 2 * 16 * 1000 * 2 + 32 * 1000 * 2,  # the indexer's key in the compute type
        QO + KV + 4 * 32 * H + 32 * H + 2 * 32,
    ),
    "encoder": (ATTENTION, 0, QO + KV),
    "shared": (ATTENTION, 0, QO),
    "sliding": ({**ATTENTION, "window": 128, "sink_tokens": 4}, 2 * 2 * 16 * 132 * 2, QO + KV),
    "chunked": ({**ATTENTION, "chunk": 256}, 2 * 2 * 16 * 256 * 2, QO + KV),
    "cross": ({**ATTENTION, "encoder_tokens": 150}, 2 * 2 * 16 * 150 * 2, QO + KV),
    "mla": (MLA, (32 + 8) * 1000 * 2, MLA_PARAMETERS),
    "mla_sparse": (
        {**MLA, "index_heads": 4, "index_head_dim": 128, "index_topk": 64},
        (32 + 8) * 1000 * 2 + 132 * 1000,  # a key of 128 e4m3 and one f32 scale
        MLA_PARAMETERS + 48 * 4 * 128 + H * 128 + 2 * 128 + H * 4,
    ),
    "mamba1": (
        {"d_inner": 128, "d_state": 16, "dt_rank": 4, "d_conv": 4},
        128 * 16 * 4 + 128 * 3 * 2,
        H * 256 + 128 * 4 + 128 + 128 * (4 + 32) + 4 * 128 + 128 + 128 * 16 + 128 + 128 * H,
    ),
    "mamba2": (
        {"heads": 8, "head_dim": 16, "groups": 2, "d_state": 32, "d_conv": 4},
        8 * 16 * 32 * 4 + (128 + 2 * 2 * 32) * 3 * 2,
        H * (2 * 128 + 128 + 8) + 256 * 4 + 256 + 3 * 8 + 128 + 128 * H,
    ),
    "gated_delta_net": (
        {"key_heads": 4, "value_heads": 8, "key_head_dim": 16, "value_head_dim": 8, "d_conv": 4},
        8 * 16 * 8 * 4 + (2 * 64 + 64) * 3 * 2,
        H * (2 * 64 + 2 * 64) + H * 16 + (2 * 64 + 64) * 4 + 2 * 8 + 8 + 64 * H,
    ),
    "kda": (
        {"heads": 8, "head_dim": 16, "d_conv": 4},
        8 * 16 * 16 * 4 + 3 * 128 * 3 * 2,
        3 * H * 128 + 3 * 128 * 4 + 2 * (H * 16 + 16 * 128) + H * 8 + 8 + 128 + 16 + 128 * H,
    ),
    "lightning": ({"heads": 8, "head_dim": 16}, 8 * 16 * 16 * 4, 3 * H * 128 + H * 128 + 128 + 128 * H),
    "short_conv": ({"d_conv": 3}, H * 2 * 2, 3 * H * H + H * 3 + H * H),
    "depthwise_conv": (  # nine columns of inputs, three taps each of which reaches three tokens further
        {"channels": 256, "d_conv": 4, "dilation": 3},
        256 * 9 * 2,
        256 * 4,
    ),
    "rg_lru": (
        {"width": 128, "heads": 4, "d_conv": 4},
        128 * 4 + 128 * 3 * 2,
        2 * (H * 128 + 128) + 128 * H + H + 128 * 4 + 128 + 128 + 2 * (4 * 32 * 32 + 4 * 32),
    ),
    "rwkv": ({"heads": 4, "head_dim": 16}, 4 * 16 * 16 * 4 + 2 * H * 2, 4 * H * H),
    "mlstm": (  # a matrix, a vector and a number per head in f32; two gates of one row a head, with biases
        {"heads": 4, "qk_head_dim": 8, "v_head_dim": 16},
        4 * (8 * 16 + 8 + 1) * 4,
        H * (2 * 32 + 2 * 64) + 2 * 4 * H + 2 * 4 + 64 + 64 * H,
    ),
    "convolved_qkv": (  # three columns of 10 heads, and half of two values
        {"heads": 8, "kv_heads": 2, "head_dim": 16, "kernels": [2, 3]},
        3 * 10 * 16 * 2 + 16 * 2,
        160 * 2 + 160 * 16 * 3 + 2 * 160,
    ),
}
#: kinds whose parameters another test compares with a published count
ELSEWHERE = {"compressed"}

MLP_FACTS: dict[str, tuple[dict[str, Any], int]] = {
    "dense": ({"intermediate_size": 256}, 3 * H * 256),
    "moe": (
        {"experts": 8, "experts_per_token": 2, "intermediate_size": 32, "shared_intermediate_size": 64, "shared_gate": True},
        8 * 3 * H * 32 + 8 * H + 3 * H * 64 + H,
    ),
}


def test_every_kind_is_here():
    assert set(MIXER_FACTS) | ELSEWHERE == set(MIXERS)
    assert set(MLP_FACTS) == set(MLPS)


def body_parameters(spec) -> int:
    bf16 = CacheFormats("bf16", "bf16", "bf16", "bf16")
    embeddings, norms = 2 * 1000 * H, 3 * H
    return count(lower(spec, bf16)).total - embeddings - norms


@pytest.mark.parametrize("kind", MIXER_FACTS)
def test_mixer(kind):
    fields, kept, parameters = MIXER_FACTS[kind]
    spec = one_block({"kind": kind, **fields})
    assert planned(spec, context=1000, dtype="bf16").cache.bytes_per_sequence == kept
    assert body_parameters(spec) == parameters


@pytest.mark.parametrize("kind", MLP_FACTS)
def test_mlp(kind):
    fields, parameters = MLP_FACTS[kind]
    spec = one_block(None, blocks={"block": {"mlps": [{"kind": kind, **fields}]}})
    assert body_parameters(spec) == parameters
    assert planned(spec, context=1000).cache.total_bytes == 0


def test_compressed_rows():
    fields = {"heads": 8, "head_dim": 64, "rope_head_dim": 16, "q_lora_rank": 32, "o_groups": 2, "o_lora_rank": 16, "window": 128}
    spec = one_block({"kind": "compressed", **fields, "ratio": 4, "index_heads": 4, "index_head_dim": 32})
    kept = 128 * 64 * 2 + 250 * 64 * 2 + 250 * 32 * 2
    assert planned(spec, context=1000).cache.bytes_per_sequence == kept


def test_rows_that_other_layers_read() -> None:
    """A window of 128 rows, 500 rows of 64 and their keys of 32; a layer that reads them has the window alone."""
    fields = {
        "heads": 8,
        "head_dim": 64,
        "rope_head_dim": 16,
        "q_lora_rank": 32,
        "o_groups": 2,
        "o_lora_rank": 16,
        "window": 128,
        "ratio": 2,
    }
    index = {"index_heads": 4, "index_head_dim": 32}
    reader = one_block({"kind": "compressed", **fields, "shared": True, "own_rows": False})
    maker = one_block({"kind": "compressed", **fields, "shared": True, **index})
    window = 128 * 64 * 2
    assert planned(reader, context=1000).cache.bytes_per_sequence == window
    assert planned(maker, context=1000).cache.bytes_per_sequence == window + 500 * (64 + 32) * 2
    projections = 32 * H + 32 + 512 * 32 + 64 * H + 64 + 32 * 256 + H * 32 + 8  # q_a, norm, q_b; kv, norm; o_a, o_b; sinks
    assert body_parameters(reader) == projections
    made = 2 * 64 * H + 64 + 32 * 64 + 32  # a row and its gate, a norm; keys of rows and their norm
    assert body_parameters(maker) == projections + made + 128 * 32 + 4 * H


def test_a_latent_in_a_window() -> None:
    spec = one_block({"kind": "mla", **MLA, "window": 128})
    assert planned(spec, context=1000, dtype="bf16").cache.bytes_per_sequence == (32 + 8) * 128 * 2


def test_active_parameters_leave_out_idle_experts():
    fields, _ = MLP_FACTS["moe"]
    spec = one_block(None, blocks={"block": {"mlps": [{"kind": "moe", **fields}]}})
    counted = count(lower(spec, CacheFormats("bf16", "bf16", "bf16", "bf16")))
    assert counted.total - counted.active == 6 * 3 * H * 32


@pytest.mark.parametrize("kind", [*MIXER_FACTS, "compressed"])
def test_every_kind_says_where_its_shapes_come_from(kind):
    assert find(MIXERS, kind).source


def test_the_schema_for_editors_has_every_kind():
    schema = json_schema()
    block = schema["properties"]["blocks"]["additionalProperties"]["properties"]
    assert {ref["$ref"].rsplit("/", 1)[1] for ref in block["mixers"]["items"]["oneOf"]} == set(MIXERS)
    assert {ref["$ref"].rsplit("/", 1)[1] for ref in block["mlps"]["items"]["oneOf"]} == set(MLPS)


def test_the_schema_accepts_what_we_accept_and_refuses_what_we_refuse():
    from jsonschema import Draft202012Validator

    from kvplan.catalogue import model_folder
    from kvplan.files import parse_yaml

    validator = Draft202012Validator(json_schema())
    data = parse_yaml((model_folder() / "meta-llama" / "llama-3.1-8b.yaml").read_text(), "x")
    assert not list(validator.iter_errors(data))
    assert list(validator.iter_errors({**data, "hiden_size": 1}))
    data["blocks"]["block"]["mixers"][0]["window"] = 4
    assert list(validator.iter_errors(data))
