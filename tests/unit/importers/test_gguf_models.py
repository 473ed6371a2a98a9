"""GGUF metadata -> what llama.cpp caches. Expected rows: llama.cpp b11312, formulas written out; the oracle: what the engine printed.

K and V rows are `KV heads x head length` (llama-kv-cache.cpp); R = (conv - 1)(inner + 2 groups state), S = state x inner for state
spaces, and the other forms of llama-hparams.cpp n_embd_r, n_embd_s.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvplan.dtypes import row_bytes
from kvplan.errors import SpecError, UnsupportedError
from kvplan.importers.gguf import Gguf, read_gguf
from kvplan.importers.gguf.architectures import ARCHITECTURES, UNSUPPORTED
from kvplan.spec import ModelSpec, lower
from kvplan.tensors import CacheFormats, Layer
from tests.conftest import shared
from tools.header_files import F16, gguf, model

BASE = {"block_count": 4, "embedding_length": 1024, "feed_forward_length": 4096, "attention.head_count": 8, "context_length": 8192}
SSM = {"ssm.conv_kernel": 4, "ssm.inner_size": 2048, "ssm.state_size": 128, "ssm.time_step_rank": 32, "ssm.group_count": 2}
R2, S2 = 3 * (2048 + 2 * 2 * 128), 128 * 2048
MLA = {
    "attention.head_count_kv": 1, "attention.kv_lora_rank": 512, "attention.key_length": 576, "attention.value_length": 512,
    "attention.key_length_mla": 192, "attention.value_length_mla": 128,
}  # fmt: skip
INDEXER = {"attention.indexer.head_count": 64, "attention.indexer.key_length": 128, "attention.indexer.top_k": 2048}

Row = tuple[int, int, int, int, int, int]  # K, V, window, index, R, S


def read(path: Path, arch: str, geometry: dict[str, Any]) -> Gguf:
    path.write_bytes(gguf(model(arch, geometry)))
    return read_gguf(path)


def row(layer: Layer) -> Row:
    """Elements of one layer's rows."""
    found = Counter[str]()
    for cache in layer.caches:
        for t in cache.tensors:
            name = "R" if t.tokens_per_state is None and t.name != "state" else t.name
            found[name] += t.heads * t.elems_per_state
            if t.keep.kind in ("window", "chunk"):
                found["window"] = t.keep.tokens
    return found["k"] + found["latent"], found["v"], found["window"], found["index_k"], found["R"], found["state"]


def rows(spec: ModelSpec) -> list[Row]:
    lowered = lower(spec, CacheFormats(compute="f16", k="f16", v="f16", conv="f32"))
    return [row(layer) for layer in lowered.layers]


FULL: Row = (1024, 1024, 0, 0, 0, 0)
EMPTY: Row = (0, 0, 0, 0, 0, 0)


def swa(window: int) -> Row:
    return (1024, 1024, window, 0, 0, 0)


CASES: dict[str, tuple[str, dict[str, Any], list[Row]]] = {
    "mha": ("llama", {}, [FULL] * 4),
    "gqa": ("qwen2", {"attention.head_count_kv": 2}, [(2 * 128, 2 * 128, 0, 0, 0, 0)] * 4),
    "lengths": ("qwen3", {"attention.key_length": 64, "attention.value_length": 96}, [(8 * 64, 8 * 96, 0, 0, 0, 0)] * 4),
    "no attention in some layers": ("deci", {"attention.head_count_kv": [8, 0, 4, 8]}, [FULL, EMPTY, (512, 512, 0, 0, 0, 0), FULL]),
    # set_swa_pattern(n): layer il slides where il % n < n - 1; dense_first: where il % n != 0
    "gemma2 every second": ("gemma2", {}, [swa(4096), FULL] * 2),
    "gemma3 every sixth": ("gemma3", {"block_count": 7, "attention.sliding_window": 1024}, [*[swa(1024)] * 5, FULL, swa(1024)]),
    "gemma3 without a window": ("gemma3", {}, [FULL] * 4),
    "gemma3 pattern in the file": (
        "gemma3", {"attention.sliding_window": 512, "attention.sliding_window_pattern": 2}, [swa(512), FULL] * 2,
    ),
    "flags in the file": (
        "cohere2", {"attention.sliding_window": 64, "attention.sliding_window_pattern": [True, False, False, True]},
        [swa(64), FULL, FULL, swa(64)],
    ),
    "cohere2": ("cohere2", {"attention.sliding_window": 4096}, [*[swa(4096)] * 3, FULL]),
    "cohere2moe full first": (
        "cohere2moe", {"attention.sliding_window": 64, "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 256},
        [FULL, *[swa(64)] * 3],
    ),
    "olmo 3": ("olmo2", {"attention.sliding_window": 4096}, [*[swa(4096)] * 3, FULL]),
    "olmo 2": ("olmo2", {}, [FULL] * 4),
    "exaone4 32B": ("exaone4", {"block_count": 64, "attention.sliding_window": 2048}, [*[swa(2048)] * 3, FULL] * 16),
    "exaone4 1.2B": ("exaone4", {"block_count": 30, "attention.sliding_window": 2048}, [FULL] * 30),
    "gpt-oss": ("gpt-oss", {"attention.sliding_window": 128}, [swa(128), FULL] * 2),
    "llama 4": ("llama4", {}, [*[swa(8192)] * 3, FULL]),
    "llama 4, window key ignored": ("llama4", {"attention.sliding_window": 100}, [*[swa(8192)] * 3, FULL]),
    "llama 4, window off": ("llama4", {"attention.sliding_window": 0}, [FULL] * 4),
    "smallthinker, window fixed": ("smallthinker", {"attention.sliding_window": 1}, [FULL, *[swa(4096)] * 3]),
    "phi3 window unused": ("phi3", {"attention.sliding_window": 2047}, [FULL] * 4),
    "gemma 3n shares from layer 20": (
        "gemma3n", {"block_count": 22, "attention.sliding_window": 512}, [*[*[swa(512)] * 4, FULL] * 4, EMPTY, EMPTY],
    ),
    "gemma 4": (
        "gemma4",
        {
            "attention.sliding_window": 512, "attention.sliding_window_pattern": [True, False, True, False],
            "attention.key_length": 512, "attention.value_length": 512, "attention.key_length_swa": 256,
            "attention.value_length_swa": 256, "attention.head_count_kv": [4, 2, 4, 2], "attention.shared_kv_layers": 2,
        },
        [(4 * 256, 4 * 256, 512, 0, 0, 0), (2 * 512, 2 * 512, 0, 0, 0, 0), EMPTY, EMPTY],
    ),
    "mla": ("deepseek2", {**MLA}, [(576, 0, 0, 0, 0, 0)] * 4),
    "mla expanded": (
        "deepseek2", {"attention.kv_lora_rank": 512, "attention.key_length": 192, "attention.value_length": 128},
        [(8 * 192, 8 * 128, 0, 0, 0, 0)] * 4,
    ),
    "indexer": ("deepseek32", {**MLA, **INDEXER}, [(576, 0, 0, 128, 0, 0)] * 4),
    "glm-dsa of a short context": ("glm-dsa", {**MLA, **INDEXER}, [(576, 0, 0, 128, 0, 0)] * 4),
    "glm-dsa of 1 M: 1 1 then 1 0 0 0": (
        "glm-dsa", {**MLA, **INDEXER, "block_count": 8, "context_length": 1 << 20},
        [(576, 0, 0, 128 if il in (0, 1, 2, 6) else 0, 0, 0) for il in range(8)],
    ),
    "glm-dsa with types": (
        "glm-dsa", {**MLA, **INDEXER, "attention.indexer.types": [1, 0, 0, 1]},
        [(576, 0, 0, 128 if il in (0, 3) else 0, 0, 0) for il in range(4)],
    ),
    "draft layers are no trunk": ("glm4moe", {"block_count": 5, "nextn_predict_layers": 1}, [FULL] * 4),
    "mamba 1": (
        "mamba", {"attention.head_count": 0, "feed_forward_length": 0, "ssm.conv_kernel": 4, "ssm.inner_size": 2048,
                  "ssm.state_size": 16, "ssm.time_step_rank": 64},
        [(0, 0, 0, 0, 3 * 2048, 16 * 2048)] * 4,
    ),
    "mamba 2": ("mamba2", {"attention.head_count": 0, **SSM}, [(0, 0, 0, 0, R2, S2)] * 4),
    "granite hybrid": ("granitehybrid", {**SSM, "attention.head_count_kv": [0, 0, 8, 0]},
                       [(0, 0, 0, 0, R2, S2)] * 2 + [FULL, (0, 0, 0, 0, R2, S2)]),
    "falcon-h1 beside": ("falcon-h1", {**SSM}, [(1024, 1024, 0, 0, R2, S2)] * 4),
    "nemotron-h": (
        "nemotron_h", {**SSM, "attention.head_count_kv": [0, 0, 8, 0], "feed_forward_length": [0, 4096, 0, 4096]},
        [(0, 0, 0, 0, R2, S2), EMPTY, FULL, EMPTY],
    ),
    "plamo 2": (
        "plamo2", {**SSM, "ssm.group_count": 0, "ssm.state_size": 64, "attention.head_count_kv": [0, 8, 0, 8]},
        [(0, 0, 0, 0, 3 * 2048, 64 * 2048), FULL] * 2,
    ),
    "delta net": ("qwen3next", {**SSM}, [*[(0, 0, 0, 0, R2, S2)] * 3, FULL]),
    "delta net, interval": ("qwen35", {**SSM, "full_attention_interval": 2}, [(0, 0, 0, 0, R2, S2), FULL] * 2),
    "delta net, flags": (
        "qwen35moe", {**SSM, "attention.recurrent_layers": [1, 0, 0, 1]}, [(0, 0, 0, 0, R2, S2), FULL, FULL, (0, 0, 0, 0, R2, S2)],
    ),
    "kimi linear": (  # 3 x 3 columns of 8 heads of 128; 128 x 128 a head
        "kimi-linear", {**MLA, "attention.head_count_kv": [0, 0, 0, 1], "kda.head_dim": 128, "ssm.conv_kernel": 4},
        [*[(0, 0, 0, 0, 3 * 3 * 8 * 128, 128 * 128 * 8)] * 3, (576, 0, 0, 0, 0, 0)],
    ),
    "minimax 01": ("minimax-01", {"block_count": 8}, [*[(0, 0, 0, 0, 0, 128 * 128 * 8)] * 7, FULL]),
    "lfm2": ("lfm2", {"attention.head_count_kv": [0, 0, 8, 0], "shortconv.l_cache": 3},
             [(0, 0, 0, 0, 1024 * 2, 0)] * 2 + [FULL, (0, 0, 0, 0, 1024 * 2, 0)]),
    "lfm2 with a window": (
        "lfm2", {"attention.head_count_kv": [0, 8, 0, 8], "shortconv.l_cache": 3, "attention.sliding_window": 256},
        [(0, 0, 0, 0, 1024 * 2, 0), swa(256)] * 2,
    ),
    "rwkv 6": ("rwkv6", {"attention.head_count": 0, "wkv.head_size": 64}, [(0, 0, 0, 0, 2 * 1024, 1024 * 64)] * 4),
    "arwkv 7, one shift": (
        "arwkv7", {"attention.head_count": 0, "wkv.head_size": 64, "token_shift_count": 1}, [(0, 0, 0, 0, 1024, 1024 * 64)] * 4,
    ),
    "bert": ("bert", {}, [EMPTY] * 4),
    "t5 decoder": ("t5", {"decoder_block_count": 2}, [(2048, 2048, 0, 0, 0, 0)] * 2),  # its own and the encoder's K and V
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_rows(case: str, tmp_path: Path) -> None:
    arch, geometry, expected = CASES[case]
    assert rows(read(tmp_path / "a.gguf", arch, {**BASE, **geometry}).spec) == expected


def test_t5_with_its_tensors(tmp_path: Path) -> None:
    """No tensor of it is called blk.N (src/llama-arch.cpp LLM_TENSOR_NAMES: enc.blk.N, dec.blk.N): the rows are those of its metadata."""
    names = ("enc.blk.0.attn_q", "enc.blk.0.ffn_up", "dec.blk.0.attn_q", "dec.blk.0.cross_attn_q", "dec.blk.0.ffn_up")
    tensors = [(f"{name}.weight", (32, 32), F16, 32 * 32 * 2) for name in names]
    path = tmp_path / "t5.gguf"
    path.write_bytes(gguf(model("t5", {**BASE, "decoder_block_count": 2}), tensors))
    assert rows(read_gguf(path).spec) == [(2048, 2048, 0, 0, 0, 0)] * 2


def test_mamba2_of_the_worked_example(tmp_path: Path) -> None:
    """48 layers, d_inner 5120, N 128, one group: the engine printed 122.95 MiB for one sequence."""
    ssm = {"ssm.conv_kernel": 4, "ssm.inner_size": 5120, "ssm.state_size": 128, "ssm.time_step_rank": 80, "ssm.group_count": 1}
    got = rows(read(tmp_path / "a.gguf", "mamba2", {**BASE, "block_count": 48, "attention.head_count": 0, **ssm}).spec)
    assert round(sum(4 * (r + s) for *_, r, s in got) / 2**20, 2) == 122.95


def test_deepseek_v4(tmp_path: Path) -> None:
    """deepseek4.cpp: a shared row of key_length in a window, one per `ratio` tokens, indexer keys at ratio 4."""
    geometry = {
        **BASE, **INDEXER, "attention.head_count_kv": 1, "attention.key_length": 512, "attention.value_length": 512,
        "rope.dimension_count": 64, "attention.q_lora_rank": 1024, "attention.output_group_count": 8,
        "attention.output_lora_rank": 1024, "attention.sliding_window": 128, "attention.compress_ratios": [0, 0, 4, 128],
        "expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 256,
    }  # fmt: skip
    lowered = lower(read(tmp_path / "a.gguf", "deepseek4", geometry).spec, CacheFormats(compute="f16", k="f16", v="f16", conv="f16"))
    got = [[(t.name, t.elems_per_state, t.tokens_per_state) for c in layer.caches for t in c.tensors] for layer in lowered.layers]
    window = ("window", 512, 1)
    assert got[0] == got[1] == [window]
    assert got[2] == [window, ("compressed", 512, 4), ("index_k", 128, 4)]
    assert got[3] == [window, ("compressed", 512, 128)]


def test_every_architecture_of_llama_cpp_is_answered(tmp_path: Path) -> None:
    every = {
        **SSM, **INDEXER, "attention.sliding_window": 64, "attention.sliding_window_pattern": [True, False, True, False],
        "kda.head_dim": 64, "wkv.head_size": 64, "shortconv.l_cache": 3, "attention.compress_ratios": [0] * 4,
        "attention.q_lora_rank": 64, "attention.output_group_count": 2, "attention.output_lora_rank": 32, "rope.dimension_count": 32,
    }  # fmt: skip
    for arch in ARCHITECTURES:
        assert len(rows(read(tmp_path / "a.gguf", arch, {**BASE, **every}).spec)) == 4
    for arch in UNSUPPORTED:
        with pytest.raises(UnsupportedError, match=arch):
            read(tmp_path / "a.gguf", arch, {**BASE, **every})


def test_experts(tmp_path: Path) -> None:
    """Leading dense layers, shared experts; the fourth of Llama 4's interleaving."""
    moe = {"expert_count": 64, "expert_used_count": 6, "expert_feed_forward_length": 1408}
    spec = read(tmp_path / "a.gguf", "deepseek2", {**BASE, **MLA, **moe, "expert_shared_count": 2, "leading_dense_block_count": 1}).spec
    kinds = [[mlp.kind for mlp in spec.blocks[name].mlps] for name in spec.layer_names]  # type: ignore[attr-defined]
    assert kinds == [["dense"], ["moe"], ["moe"], ["moe"]]
    assert spec.blocks[spec.layer_names[1]].mlps[0].shared_intermediate_size == 2 * 1408
    spec = read(tmp_path / "a.gguf", "llama4", {**BASE, **moe, "interleave_moe_layer_step": 2}).spec
    assert [spec.blocks[name].mlps[0].kind for name in spec.layer_names] == ["dense", "moe"] * 2
    spec = read(tmp_path / "a.gguf", "llama", {**BASE, "expert_count": 8, "expert_used_count": 2}).spec  # Mixtral
    assert spec.blocks[spec.layer_names[0]].mlps[0].intermediate_size == 4096


def test_what_the_spec_says_of_itself(tmp_path: Path) -> None:
    geometry = {**BASE, "general.name": "A Model", "general.file_type": 32, "tokenizer.ggml.tokens": ["a", "b", "c"] * 4000}
    found = read(tmp_path / "My Model-Q4.gguf", "llama", {**geometry, "attention.sliding_window": 4096})
    assert found.stored is None
    spec = found.spec
    assert (spec.id, spec.name, spec.architecture, spec.dtype) == ("local/my-model-q4", "A Model", "llama", "bf16")
    assert (spec.vocab_size, spec.max_context) == (12_000, 8192)
    assert any("does not use it for llama" in note for note in spec.notes)
    assert any("no tensors" in note for note in spec.notes)
    assert read(tmp_path / "a.gguf", "llama", {**BASE, "vocab_size": 32}).spec.vocab_size == 32
    assert read(tmp_path / "a.gguf", "llama", BASE).spec.vocab_size is None


@pytest.mark.parametrize(
    ("arch", "change", "says"),
    [
        ("llama", {"block_count": None}, "llama.block_count: missing"),
        ("llama", {"embedding_length": None}, "llama.embedding_length"),
        ("llama", {"context_length": 0}, "llama.context_length"),
        ("llama", {"block_count": 1 << 20}, "llama.block_count"),
        ("llama", {"block_count": "four"}, "llama.block_count: four is not a count"),
        ("llama", {"attention.head_count_kv": [8, 8]}, "an array of 2 values; the model has 4 layers"),
        ("llama", {"attention.head_count_kv": [8] * 9000}, "an array of 9000 values"),
        ("llama", {"attention.head_count_kv": -1}, "not a count"),
        ("llama", {"attention.head_count_kv": 3}, "kv_heads"),
        ("llama", {"nextn_predict_layers": 4}, "draft layers"),
        ("gemma4", {"attention.sliding_window": 512}, "sliding_window_pattern: missing"),
        ("cohere2", {}, "sliding_window: missing"),
        ("mamba2", {**SSM, "ssm.group_count": None}, "ssm.group_count: missing"),
        ("mamba2", {**SSM, "ssm.time_step_rank": 3}, "do not divide"),
        ("deepseek2", {**MLA, "attention.kv_lora_rank": 600}, "no latent of 600"),
    ],
)  # fmt: skip
def test_metadata_that_can_not_be(tmp_path: Path, arch: str, change: dict[str, Any], says: str) -> None:
    geometry = {key: value for key, value in {**BASE, **change}.items() if value is not None}
    with pytest.raises(SpecError, match=says):
        read(tmp_path / "a.gguf", arch, geometry)


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"general.architecture": "lama"}, "did you mean llama"),
        ({"general.type": "adapter", "general.architecture": "llama"}, "LoRA adapter"),
        ({"general.type": "mmproj", "general.architecture": "clip"}, "projector"),
        ({"general.architecture": "clip"}, "projector"),
    ],
)
def test_files_that_are_no_model(tmp_path: Path, metadata: dict[str, Any], says: str) -> None:
    (tmp_path / "a.gguf").write_bytes(gguf(metadata))
    with pytest.raises(UnsupportedError, match=says):
        read_gguf(tmp_path / "a.gguf")


def test_no_architecture(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(gguf({"llama.block_count": 2}))
    with pytest.raises(SpecError, match=r"general\.architecture: missing"):
        read_gguf(tmp_path / "a.gguf")


def test_oracle(tmp_path: Path) -> None:
    """Bytes that llama.cpp printed for every cache and state = the spec's rows x the printed cells."""
    specs: dict[str, ModelSpec] = {}
    checked = 0
    for line in shared("data/llamacpp_oracle.jsonl").read_text().splitlines():
        case = json.loads(line)
        if not case["ok"]:
            continue
        key = case["arch"] + json.dumps(case["geometry"])
        if key not in specs:
            specs[key] = read(tmp_path / "a.gguf", case["arch"], case["geometry"]).spec
        got = rows(specs[key])
        printed = case["printed"]
        widest = max(v for _, v, *_ in got)  # without flash attention every V row is as wide as the widest
        for cache in printed["caches"]:
            index, windowed = cache["role"] == "indexer", cache["role"] == "swa"
            kept = [r for r in got if (r[3] if index else r[0]) and bool(r[2]) == windowed]
            n = cache["cells"] * cache["streams"] / 2**20
            k = sum(row_bytes(case["type_k"], r[3] if index else r[0]) for r in kept) * n
            flash = case["flash_attn"] != "off"
            v = 0 if index else sum(row_bytes(case["type_v"], r[1] if flash else widest) for r in kept) * n
            assert len(kept) == cache["layers"], case["id"]
            assert (k, v) == (pytest.approx(cache["k_mib"], abs=0.0051), pytest.approx(cache["v_mib"], abs=0.0051)), case["id"]
            checked += 1
        assert {"swa" if r[2] else "kv" for r in got if r[0]} == {
            "swa" if c["role"] == "swa" else "kv" for c in printed["caches"] if c["role"] != "indexer"
        }
        if states := printed["rs"]:
            n = states["cells"] * (1 + (printed["n_rs_seq"] or 0)) * 4 / 2**20
            assert sum(r[4] for r in got) * n == pytest.approx(states["r_mib"], abs=0.0051), case["id"]
            assert sum(r[5] for r in got) * n == pytest.approx(states["s_mib"], abs=0.0051), case["id"]
            checked += 1
        else:
            assert not any(r[4] or r[5] for r in got)
    assert checked > 1000


@pytest.mark.parametrize(
    ("file_type", "formats"), [(15, ["q4_k_m"]), (7, ["q8_0"]), (1, []), (32, []), (None, ["unknown"]), (1024, ["unknown"])]
)
def test_a_file_without_tensors_is_as_sure_of_its_weights_as_its_file_type(
    tmp_path: Path, file_type: int | None, formats: list[str]
) -> None:
    kind = {} if file_type is None else {"general.file_type": file_type}
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(model("llama", {**BASE, **kind})))
    spec = read_gguf(path).spec
    assert [q.format for q in spec.quantization] == formats
    assert any("16 bits, at most" in note for note in spec.notes) == (formats == ["unknown"])
