"""safetensors headers: every rule of the format, hostile files, and what the tensor names say."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import FormatError, SpecError
from kvplan.importers.safetensors import (
    DTYPE_BITS,
    checkpoint_files,
    read_checkpoint,
    read_header,
)
from kvplan.importers.tensor_names import classify
from kvplan.stored import StoredTensor
from tests.hostile import refused_at_once
from tools.header_files import layout, safetensors

ONE = {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}


def parse(data: bytes) -> Any:
    return read_header(io.BytesIO(data))


def test_a_good_header(tmp_path: Path) -> None:
    file = safetensors({"b": {**ONE, "data_offsets": [4, 16]}, "a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}})
    (tmp_path / "x.safetensors").write_bytes(file)
    header = read_header(tmp_path / "x.safetensors")
    assert [(t.name, t.dtype, t.shape, t.begin, t.end) for t in header.tensors] == [("a", "F32", (), 0, 4), ("b", "BF16", (2, 3), 4, 16)]
    assert (header.data_offset, header.data_bytes) == (len(file) - 16, 16)
    assert parse(file).tensors == header.tensors


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"{} \n\t ",
        b'{ "__metadata__" : { "format" : "pt" , "x" : "braces } { and \\" quotes" } }',
        b'{"__metadata__":{}}',
        b'{"\\u0061\xc3\xa9": {"shape": [0, 5], "data_offsets": [0,0], "dtype": "I64"}}',
    ],
)
def test_spellings_of_json(text: bytes) -> None:
    assert parse(safetensors(text, 0)).data_bytes == 0


def test_metadata_is_kept() -> None:
    text = b'{"__metadata__":{"a":"}{","b\\n":"\\u00e9"},"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    assert parse(safetensors(text)).metadata == {"a": "}{", "b\n": "é"}


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("F64", 64), ("F32", 32), ("F16", 16), ("BF16", 16), ("F8_E4M3", 8), ("F8_E5M2", 8), ("F8_E8M0", 8), ("F4", 4), ("F6_E2M3", 6),
     ("F6_E3M2", 6), ("I64", 64), ("I32", 32), ("I8", 8), ("U8", 8), ("BOOL", 8), ("C64", 64)],
)  # fmt: skip
def test_sizes_of_dtypes(dtype: str, bits: int) -> None:
    assert DTYPE_BITS[dtype] == bits
    assert parse(safetensors({"w": {"dtype": dtype, "shape": [4, 8], "data_offsets": [0, 4 * bits]}})).data_bytes == 4 * bits


def entry(**change: Any) -> bytes:
    return safetensors({"w": {**ONE, **change}}, 12)


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "ends inside the 8-byte header length"),
    "cut length": (b"\2\0\0", "ends inside the 8-byte"),
    "length 2^63": (safetensors(b"{}", 0, length=1 << 63), "header length 9223372036854775808"),
    "length 2^64 - 1": (safetensors(b"{}", 0, length=(1 << 64) - 1), "the format allows 100000000"),
    "length past the end": (safetensors(b"{}", 0, length=3), "the file has 10 bytes"),
    "empty header": (safetensors(b"", 0), "must start with {"),
    "not an object": (safetensors(b"[]", 0), "must start with {"),
    "space first": (safetensors(b" {}", 0), "must start with {"),
    "not UTF-8": (safetensors(b'{"\xff":' + json.dumps(ONE).encode() + b"}", 12), "byte 10: not UTF-8"),
    "bad escape": (safetensors(b'{"\\u12":1}', 0), "not JSON"),
    "lone key": (safetensors(b'{"a"}', 0), "expected a tensor name"),
    "trailing comma": (safetensors(b'{"w":' + json.dumps(ONE).encode() + b",}", 12), "expected a tensor name"),
    "text after": (safetensors(b"{}x", 0), "text after"),
    "unclosed": (safetensors(b'{"w":' + json.dumps(ONE).encode(), 12), "expected , or }"),
    "twice": (safetensors(b'{"w":%s,"w":%s}' % ((json.dumps(ONE).encode(),) * 2), 12), "'w' is there twice"),
    "key twice": (safetensors(b'{"w":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1), "there twice"),
    "metadata twice": (safetensors(b'{"__metadata__":{"a":"1","a":"2"}}', 0), "there twice"),
    "metadata not text": (safetensors(b'{"__metadata__":{"a":1}}', 0), "an object of strings"),
    "metadata a list": (safetensors(b'{"__metadata__":["a"]}', 0), "an object of strings"),
    "nested": (safetensors(b'{"w":' + b"[" * 100_000, 0), "expected {dtype"),
    "nested shape": (safetensors(b'{"w":{"dtype":"U8","shape":' + b"[" * 4000 + b"}}", 0), "nested too deep|not JSON"),
    "too many tensors": (safetensors(b"{" + b'"data_offsets"' * 300_000, 0), "more than 262144 tensors"),
    "endless name": (safetensors(b'{"' + b"a" * 1_000_000, 0), "expected a tensor name"),
    "a number": (safetensors(b'{"w":1}', 0), "expected {dtype"),
    "keys missing": (safetensors(b'{"w":{"dtype":"U8"}}', 0), "keys are dtype"),
    "keys too many": (entry(extra=1), "extra"),
    "unknown dtype": (entry(dtype="F7"), 'dtype "F7"'),
    "dtype a number": (entry(dtype=16), "dtype 16"),
    "negative": (entry(shape=[-1, 3]), "whole numbers"),
    "float": (entry(shape=[2.0, 3]), "whole numbers"),
    "true": (entry(shape=[True, 6]), "whole numbers"),
    "shape text": (entry(shape="23"), "whole numbers"),
    "huge": (entry(shape=[1 << 63]), "whole numbers"),
    "NaN": (safetensors(b'{"w":{"dtype":"U8","shape":[NaN],"data_offsets":[0,1]}}', 1), "NaN is no number"),
    "many digits": (safetensors(b'{"w":{"dtype":"U8","shape":[%s],"data_offsets":[0,1]}}' % (b"9" * 4000), 1), "whole numbers|digits"),
    "product overflows": (entry(shape=[1 << 40, 1 << 40]), "elements"),
    "reversed": (entry(data_offsets=[12, 0]), "hold -12 bytes"),
    "three offsets": (entry(data_offsets=[0, 12, 12]), "two data_offsets"),
    "wrong size": (entry(data_offsets=[0, 11]), "hold 11 bytes, BF16"),
    "half a byte": (safetensors({"w": {"dtype": "F4", "shape": [3], "data_offsets": [0, 1]}}), "not whole bytes"),
    "gap at the start": (entry(data_offsets=[1, 13]), "leaves a gap"),
    "gap": (safetensors({"a": ONE, "b": {**ONE, "data_offsets": [13, 25]}}), "leaves a gap"),
    "overlap": (safetensors({"a": ONE, "b": {**ONE, "data_offsets": [11, 23]}}), "overlaps"),
    "data cut": (safetensors({"w": ONE}, 11), "truncated, or trailing bytes"),
    "data too long": (safetensors({"w": ONE}, 13), "truncated, or trailing bytes"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused_at_once(case: str) -> None:
    data, says = HOSTILE[case]
    error = refused_at_once(parse, data, says, 2 * len(data) + (1 << 20))
    assert 0 <= error.offset <= max(len(data), 8) + 13
    assert error.format_name == "safetensors"


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent", Path("/dev/null"), "a\0b"):
        with pytest.raises(SpecError):
            read_header(path)


LLAMA = [
    ("model.embed_tokens.weight", "BF16", [100, 8], 1600),
    *(
        t
        for i in (0, 1)
        for t in (
            (f"model.layers.{i}.self_attn.q_proj.weight", "BF16", [8, 8], 128),
            (f"model.layers.{i}.mlp.gate_proj.weight", "BF16", [16, 8], 256),
            (f"model.layers.{i}.input_layernorm.weight", "F32", [8], 32),
        )
    ),
    ("model.norm.weight", "BF16", [8], 16),
]  # fmt: skip


def write_sharded(folder: Path, parts: int = 2) -> None:
    weight_map = {}
    for i in range(parts):
        name = f"model-{i + 1:05d}-of-{parts:05d}.safetensors"
        tensors = LLAMA[i::parts]
        weight_map |= {t[0]: name for t in tensors}
        (folder / name).write_bytes(safetensors(layout(tensors)))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))


def test_file_index_and_folder_agree(tmp_path: Path) -> None:
    single, sharded = tmp_path / "single", tmp_path / "sharded"
    single.mkdir()
    sharded.mkdir()
    (single / "model.safetensors").write_bytes(safetensors(layout(LLAMA)))
    write_sharded(sharded)
    stored = read_checkpoint(single / "model.safetensors")
    for path in (single, sharded, sharded / "model.safetensors.index.json"):
        assert sorted(read_checkpoint(path).tensors) == sorted(stored.tensors)
    assert stored.total_bytes == sum(t[3] for t in LLAMA)
    assert stored.parameters == 800 + 2 * (64 + 128 + 8) + 8
    assert stored.by_role() == {"embedding": 1600, "attention": 256, "mlp": 512, "norm": 64 + 16}
    assert stored.by_layer() == {i: {"attention": 128, "mlp": 256, "norm": 32} for i in (0, 1)}
    assert stored.outside() == {"embedding": 1600, "norm": 16}
    assert stored.bytes_by(lambda t: t.dtype) == {"BF16": 1600 + 256 + 512 + 16, "F32": 64}
    assert "head" not in {t.role for t in stored.tensors}
    assert not stored.quantized


def test_folders_that_are_not_whole(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no \.safetensors file"):
        read_checkpoint(tmp_path)
    write_sharded(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    (tmp_path / "model-00002-of-00002.safetensors").rename(tmp_path / "x")
    with pytest.raises(SpecError, match="1 of 2 files are not there, first model-00002"):
        read_checkpoint(tmp_path)
    for text, says in (
        ('{"weight_map": {}}', "weight_map"),
        ('{"weight_map": {"a": "../b"}}', "not a plain file name"),
        ('{"weight_map": {"a": ".b"}}', "not a plain file name"),
        ('{"weight_map": {"a": 1}}', "not a plain file name"),
        ('{"weight_map": ' + "[" * 100_000, "nested too deep|not JSON"),
        ('{"weight_map": {"a": "b", "a": "c"}}', "there twice"),
        ("", "not JSON"),
    ):
        index.write_text(text)
        with pytest.raises((SpecError, FormatError), match=says):
            read_checkpoint(tmp_path)
    files = {f"t{i}": f"m{i}.safetensors" for i in range(5000)}
    index.write_text(json.dumps({"weight_map": files}))
    with pytest.raises(SpecError, match="5000 files; at most 4096"):
        read_checkpoint(tmp_path)
    index.unlink()
    with pytest.raises(SpecError, match="1 of 2 files model-"):
        checkpoint_files(tmp_path)


def test_no_tensor_at_all(tmp_path: Path) -> None:
    """Eight bytes of length and `{}`: a file by the format, and no checkpoint."""
    (tmp_path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    with pytest.raises(SpecError, match="no tensor in any"):
        read_checkpoint(tmp_path)


def test_one_tensor_in_two_files(tmp_path: Path) -> None:
    for i in (1, 2):
        (tmp_path / f"model-0000{i}-of-00002.safetensors").write_bytes(safetensors(layout(LLAMA[:1])))
    with pytest.raises(FormatError, match="in another file of this checkpoint too"):
        read_checkpoint(tmp_path)


def one(name: str, dtype: str = "BF16", shape: tuple[int, ...] = (8, 8), **beside: tuple[str, tuple[int, ...]]) -> StoredTensor:
    shapes = {name: (dtype, shape, 1), **{other: (*s, 1) for other, s in beside.items()}}
    return classify(shapes)[0]


@pytest.mark.parametrize(
    ("name", "role", "layer", "stack"),
    [
        ("transformer.h.3.attn.c_attn.weight", "attention", 3, "model"),
        ("transformer.h.3.attn.bias", "buffer", 3, "model"),
        ("transformer.h.3.mlp.c_fc.bias", "norm", 3, "model"),
        ("transformer.wte.weight", "embedding", None, "model"),
        ("gpt_neox.layers.7.attention.query_key_value.weight", "attention", 7, "model"),
        ("gpt_neox.embed_in.weight", "embedding", None, "model"),
        ("embed_out.weight", "head", None, "model"),
        ("model.layers.2.block_sparse_moe.gate.weight", "router", 2, "model"),
        ("model.layers.2.block_sparse_moe.experts.5.w1.weight", "experts", 2, "model"),
        ("model.layers.2.mlp.gate.weight", "router", 2, "model"),
        ("model.layers.2.mlp.gate.e_score_correction_bias", "buffer", 2, "model"),
        ("model.layers.2.mlp.gate_proj.weight", "mlp", 2, "model"),
        ("model.layers.2.mlp.shared_experts.up_proj.weight", "shared_experts", 2, "model"),
        ("model.layers.2.mlp.shared_expert_gate.weight", "router", 2, "model"),
        ("model.layers.2.mlp.router.weight", "router", 2, "model"),
        ("model.layers.2.mlp.experts.gate_up_proj_blocks", "experts", 2, "model"),
        ("model.layers.2.self_attn.q_norm.weight", "norm", 2, "model"),
        ("model.layers.2.self_attn.sinks", "norm", 2, "model"),
        ("model.layers.2.self_attn.kv_b_proj.weight", "attention", 2, "model"),
        ("model.layers.2.linear_attn.A_log", "state", 2, "model"),
        ("model.layers.2.linear_attn.conv1d.weight", "state", 2, "model"),
        ("backbone.layers.9.mixer.in_proj.weight", "attention", 9, "model"),
        ("backbone.layers.9.mixer.D", "state", 9, "model"),
        ("backbone.embeddings.weight", "embedding", None, "model"),
        ("rwkv.blocks.1.attention.time_decay", "state", 1, "model"),
        ("rwkv.blocks.1.feed_forward.key.weight", "mlp", 1, "model"),
        ("language_model.model.layers.4.mlp.down_proj.weight", "mlp", 4, "model"),
        ("language_model.lm_head.weight", "head", None, "model"),
        ("model.language_model.embed_tokens.weight", "embedding", None, "model"),
        ("lm_head.weight", "head", None, "model"),
        ("model.norm.weight", "norm", None, "model"),
        ("visual.blocks.4.attn.qkv.weight", "tower", 4, "tower"),
        ("vision_tower.vision_model.encoder.layers.4.mlp.fc1.weight", "tower", 4, "tower"),
        ("multi_modal_projector.linear_1.weight", "tower", None, "tower"),
        ("model.mtp.layers.0.mlp.up_proj.weight", "mlp", 0, "draft"),
        ("mtp.fc.weight", "other", None, "draft"),
        ("bert.encoder.layer.5.attention.self.query.weight", "attention", 5, "model"),
        ("encoder.layer.5.output.dense.weight", "mlp", 5, "model"),
    ],
)  # fmt: skip
def test_names(name: str, role: str, layer: int | None, stack: str) -> None:
    found = one(name)
    assert (found.role, found.layer, found.stack) == (role, layer, stack)


def test_stacks_that_need_more_than_a_name() -> None:
    def stacks(names: list[str], n_layers: int | None = None) -> list[str]:
        return [t.stack for t in classify(dict.fromkeys(names, ("BF16", (1,), 2)), n_layers)]

    whisper = ["model.encoder.layers.0.fc1.weight", "model.decoder.layers.0.encoder_attn.k_proj.weight"]
    assert stacks(whisper) == ["encoder", "model"]
    assert stacks(whisper[:1]) == ["model"]
    deepseek = ["model.layers.60.mlp.gate.weight", "model.layers.61.eh_proj.weight", "model.layers.61.mlp.gate.weight"]
    assert stacks(deepseek) == ["model", "draft", "draft"]
    assert stacks([deepseek[0], deepseek[2]]) == ["model", "model"]
    assert stacks([deepseek[0], deepseek[2]], n_layers=61) == ["model", "draft"]


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "beside", "elems"),
    [  # 128 inputs, 64 outputs everywhere
        ("l.w.qweight", "I32", (16, 64), {"l.w.scales": ("F16", (1, 64)), "l.w.qzeros": ("I32", (1, 8))}, 8192),  # GPTQ 4 bit
        ("l.w.qweight", "I32", (32, 64), {"l.w.scales": ("F16", (1, 64)), "l.w.qzeros": ("I32", (1, 16))}, 8192),  # GPTQ 8 bit
        ("l.w.qweight", "I32", (128, 8), {"l.w.scales": ("F16", (1, 64)), "l.w.qzeros": ("I32", (1, 8))}, 8192),  # AWQ
        ("l.w.qweight", "I32", (16, 64), {}, None),
        ("l.w.weight_packed", "I32", (64, 16), {"l.w.weight_scale": ("BF16", (64, 1))}, None),  # bits are in the config only
        ("l.w.weight_packed", "U8", (64, 64), {"l.w.weight_scale": ("F8_E4M3", (64, 8))}, 8192),  # NVFP4
        ("l.w.weight", "U8", (64, 64), {"l.w.weight_scale": ("F8_E4M3", (64, 8))}, 8192),  # ModelOpt NVFP4
        ("l.w.weight", "U8", (4096, 1), {"l.w.weight.absmax": ("F32", (128,))}, 8192),  # bitsandbytes NF4
        ("l.w.weight", "I8", (64, 128), {"l.w.SCB": ("F32", (64,))}, 8192),  # LLM.int8
        ("l.w.weight", "F8_E4M3", (64, 128), {"l.w.weight_scale_inv": ("F32", (1, 1))}, 8192),
        ("l.experts.up_blocks", "U8", (2, 64, 4, 16), {"l.experts.up_scales": ("U8", (2, 64, 4))}, 2 * 8192),  # gpt-oss MXFP4
        ("l.w.weight", "F4", (64, 128), {}, 8192),
    ],
)  # fmt: skip
def test_parameters_of_packed_matrices(name: str, dtype: str, shape: Any, beside: Any, elems: int | None) -> None:
    found = classify({name: (dtype, shape, 1), **{other: (*s, 1) for other, s in beside.items()}})
    assert found[0].elems == elems
    assert not found[0].companion
    assert all(t.companion and t.elems == 0 for t in found[1:])


def test_scales_have_the_role_of_their_matrix() -> None:
    for name, role in (
        ("model.layers.0.mlp.experts.3.up_proj.weight_scale_inv", "experts"),
        ("model.layers.0.self_attn.q_proj.qzeros", "attention"),
        ("model.layers.0.self_attn.k_proj.k_scale", "attention"),
        ("model.layers.0.mlp.down_proj.weight.absmax", "mlp"),
        ("model.layers.0.mlp.down_proj.weight.quant_state.bitsandbytes__nf4", "mlp"),
    ):
        found = one(name)
        assert (found.companion, found.role) == (True, role)
    assert one("model.layers.0.attn.wq.scale", **{"model.layers.0.attn.wq.weight": ("F8_E4M3", (8, 8))}).companion
    assert not one("vision.layer_scale").companion
