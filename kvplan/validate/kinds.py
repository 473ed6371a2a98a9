"""One question for every layer kind, layout and storage format: the cache shapes of a released model, enough sequences to be measurable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kvplan.deployment import Deployment
from kvplan.planner.evaluate import evaluate
from kvplan.spec import ModelSpec, parse_spec
from kvplan.validate.description import Layout
from kvplan.validate.predict import Proposal, propose


class Sample(NamedTuple):
    """A mixer as a released model has it; hidden size and layers only where they matter to its cache."""

    model: str
    mixer: dict[str, Any]
    context: int
    hidden: int = 64
    layers: int = 4


_MLA = {"heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
_V4 = {"heads": 64, "head_dim": 512, "rope_head_dim": 64, "q_lora_rank": 1024, "o_groups": 8, "o_lora_rank": 1024, "window": 128}

#: kind -> its sample; `tests` hold this table to the list of kinds
SAMPLES: dict[str, Sample] = {
    "mha": Sample("Llama 2 7B", {"heads": 32, "head_dim": 128}, 4096),
    "gqa": Sample("Llama 3.1 8B", {"heads": 32, "kv_heads": 8, "head_dim": 128}, 8192),
    "mqa": Sample("Falcon 7B", {"heads": 71, "head_dim": 64}, 2048),
    "gqa_indexed": Sample(
        "MiniMax-M3", {"heads": 64, "kv_heads": 4, "head_dim": 128, "index_heads": 4, "index_head_dim": 128, "index_topk": 2048}, 8192
    ),
    "block_sparse": Sample("MiniCPM4 8B", {"heads": 32, "kv_heads": 2, "head_dim": 128, "stride": 16}, 32768),
    "encoder": Sample("BERT base", {"heads": 12, "kv_heads": 12, "head_dim": 64}, 512),
    "shared": Sample("Gemma 3n", {"heads": 8, "kv_heads": 2, "head_dim": 256}, 8192),
    "sliding": Sample("Gemma 3 27B", {"heads": 32, "kv_heads": 16, "head_dim": 128, "window": 1024}, 8192),
    "chunked": Sample("Llama 4 Scout", {"heads": 40, "kv_heads": 8, "head_dim": 128, "chunk": 8192}, 20000),
    "mla": Sample("DeepSeek-V3", _MLA, 8192),
    "mla_sparse": Sample("DeepSeek-V3.2", {**_MLA, "index_heads": 64, "index_head_dim": 128, "index_topk": 2048}, 8192),
    "compressed": Sample("DeepSeek-V4", {**_V4, "ratio": 4, "overlap": True, "index_heads": 64, "index_head_dim": 128}, 32768),
    "cross": Sample("Whisper large-v3", {"heads": 20, "kv_heads": 20, "head_dim": 64, "encoder_tokens": 1500}, 448),
    "mamba1": Sample("Falcon Mamba 7B", {"d_inner": 8192, "d_state": 16, "dt_rank": 256, "d_conv": 4}, 8192),
    "mamba2": Sample("Mamba-2 2.7B", {"heads": 80, "head_dim": 64, "groups": 1, "d_state": 128, "d_conv": 4}, 8192),
    "short_conv": Sample("LFM2 1.2B", {"d_conv": 3}, 8192, hidden=2048),
    "rg_lru": Sample("RecurrentGemma 2B", {"width": 2560, "heads": 10, "d_conv": 4}, 8192),
    "gated_delta_net": Sample(
        "Qwen3-Next 80B", {"key_heads": 16, "value_heads": 32, "key_head_dim": 128, "value_head_dim": 128, "d_conv": 4}, 8192
    ),
    "kda": Sample("Kimi Linear 48B", {"heads": 32, "head_dim": 128, "d_conv": 4}, 8192),
    "lightning": Sample("MiniMax-01", {"heads": 64, "head_dim": 128}, 8192),
    "rwkv": Sample("RWKV-6 7B", {"heads": 64, "head_dim": 64}, 8192, hidden=4096),
    "mlstm": Sample("xLSTM 7B", {"heads": 8, "qk_head_dim": 256, "v_head_dim": 512}, 8192, hidden=4096),
    "depthwise_conv": Sample("Inkling", {"channels": 16384, "d_conv": 4, "state_dtype": "f32"}, 8192, hidden=6144),
    "convolved_qkv": Sample("ZAYA1 8B", {"heads": 8, "kv_heads": 2, "head_dim": 128, "kernels": [2, 2]}, 8192, hidden=2048),
}

#: more ways to keep the same: kind, what is different, as the case's name says it
LAYOUTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("gqa", "growing by concatenation", {"layout": "growing"}),
    ("mla", "growing by concatenation", {"layout": "growing"}),
    ("gqa", "pages of 16", {"block_size": 16}),
    ("mla", "pages of 64", {"block_size": 64}),
    ("mla_sparse", "pages of 64", {"block_size": 64}),
    ("sliding", "pages of 16", {"block_size": 16}),
    ("chunked", "pages of 16", {"block_size": 16}),
    ("compressed", "pages of 256", {"block_size": 256}),
    ("cross", "pages of 16", {"block_size": 16}),
    ("block_sparse", "pages of 64", {"block_size": 64}),
    ("gqa_indexed", "pages of 64", {"block_size": 64}),
)
_HEADWISE = (
    "f32", "f16", "fp8_e4m3", "fp8_e5m2", "int8", "int8_per_token_head", "fp8_per_token_head", "int4_per_token_head", "nvfp4", "mxfp8",
    "mxfp4", "fp8_scale128", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl", "q8_0/q4_0", "turboquant_k8v4", "turboquant_4bit_nc",
    "turboquant_k3v4_nc", "turboquant_3bit_nc",
)  # fmt: skip
FORMATS: tuple[tuple[str, str], ...] = (
    *(("gqa", name) for name in _HEADWISE),
    ("mla", "fp8_ds_mla"),
    ("mla", "nvfp4_ds_mla"),
    ("compressed", "fp8_ds_v4"),
)


def sample_spec(kind: str, **changes: Any) -> ModelSpec:
    """A model of nothing but equal layers of one kind, as its sample has it."""
    sample = SAMPLES[kind]
    return parse_spec(
        {
            "id": f"sample/{kind}",
            "name": sample.model,
            "source": "a sample for validation",
            "vocab_size": None,
            "hidden_size": sample.hidden,
            "n_layers": sample.layers,
            "layers": [{"pattern": [f"{sample.layers}*block"]}],
            "blocks": {"block": {"mixers": [{"kind": kind, **sample.mixer, **changes}]}},
        },
        kind,
    )


def cases(target_bytes: int) -> Iterator[Proposal]:
    """Every kind; then layouts; then formats: each with the fewest sequences that take `target_bytes`."""
    for kind in SAMPLES:
        yield _case(kind, kind, target_bytes)
    sinks = sample_spec("sliding", sink_tokens=4)
    yield _case("sliding", "sliding, 4 sinks", target_bytes, sinks)
    for kind, name, question in LAYOUTS:
        yield _case(kind, f"{kind}, {name}", target_bytes, **question)
    for kind, name in FORMATS:
        yield _case(kind, f"{kind}, {name}", target_bytes, kv_dtype=name)


def _case(
    kind: str, name: str, target_bytes: int, spec: ModelSpec | None = None, layout: Layout = "contiguous", **question: Any
) -> Proposal:
    d = Deployment(model=spec or sample_spec(kind), engine="ideal", context=SAMPLES[kind].context, batch=1, **question)
    one = evaluate(d).cache.bytes_per_sequence
    batch = max(1, -(-target_bytes // one)) if one else 1
    proposal = propose(Deployment(model=d.model, engine="ideal", context=d.context, batch=batch, **question), layout)
    return proposal._replace(name=name, question=proposal.question | {"shapes_of": SAMPLES[kind].model})
