"""GGUF headers: versions, byte orders, value types, tensor tables, split files, and hostile files."""

from __future__ import annotations

import io
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import FormatError, SpecError
from kvplan.importers.gguf import parts, read_gguf
from kvplan.importers.gguf.header import Long, TensorInfo, read_header
from kvplan.importers.gguf.types import TYPES
from tests.hostile import refused_at_once
from tools.header_files import F16, F32, Q4_K, Q8_0, gguf, model

META = {
    "general.architecture": "llama", "llama.block_count": 2, "text": "é", "flag": True, "real": 0.5, "negative": -3,
    "ints": [1, -2, 3], "flags": [True, False], "tokenizer.ggml.tokens": ["a", "", "bc"] * 1000, "long": [7] * 10_000,
    "tokenizer.chat_template": "x" * 70_000,
}  # fmt: skip
TENSORS = [("a", (64, 3), F32, 768), ("b", (32, 5), Q8_0, 170), ("c", (256, 2), Q4_K, 288), ("d", (7,), F16, 14)]


def parse(data: bytes) -> Any:
    return read_header(io.BytesIO(data))


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("order", ["<", ">"])
def test_versions_and_byte_orders(version: int, order: str) -> None:
    header = parse(gguf(META, TENSORS, version=version, order=order))
    assert (header.version, header.big_endian) == (version, order == ">")
    assert header.metadata == {
        **META, "ints": (1, -2, 3), "flags": (True, False), "tokenizer.ggml.tokens": Long(3000), "long": Long(10_000),
        "tokenizer.chat_template": Long(70_000),
    }  # fmt: skip
    assert header.tensors == (
        TensorInfo("a", (64, 3), "f32", 0, 768),
        TensorInfo("b", (32, 5), "q8_0", 768, 170),
        TensorInfo("c", (256, 2), "q4_K", 960, 288),  # 768 + 170 = 938, padded to 32
        TensorInfo("d", (7,), "f16", 1248, 14),
    )


def test_all_value_types() -> None:
    codes = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    body, n = b"", 0
    for kind, code in codes.items():
        for pair in (struct.pack("<I" + code, kind, 1), struct.pack("<IIQ" + code * 2, 9, kind, 2, 1, 0)):
            body, n = body + struct.pack("<Q2s", 2, f"{n:02d}".encode()) + pair, n + 1
    header = parse(b"GGUF" + struct.pack("<IQQ", 3, 0, n) + body)
    assert list(header.metadata.values()) == [1, (1, 0)] * len(codes)


#: ggml-common.h: the static_asserts on the structs, where half = 2 bytes, QK_K = 256, K_SCALE_SIZE = 12.
BLOCKS = {
    "q4_0": (32, 2 + 32 // 2), "q4_1": (32, 2 * 2 + 32 // 2), "q5_0": (32, 2 + 4 + 32 // 2), "q5_1": (32, 2 * 2 + 4 + 32 // 2),
    "q8_0": (32, 2 + 32), "q8_1": (32, 2 * 2 + 32), "q2_K": (256, 2 * 2 + 256 // 16 + 256 // 4),
    "q3_K": (256, 2 + 256 // 4 + 256 // 8 + 12), "q4_K": (256, 2 * 2 + 12 + 256 // 2),
    "q5_K": (256, 2 * 2 + 12 + 256 // 2 + 256 // 8), "q6_K": (256, 2 + 256 // 16 + 3 * 256 // 4),
    "q8_K": (256, 4 + 256 + 256 // 16 * 2), "iq2_xxs": (256, 2 + 256 // 8 * 2), "iq2_xs": (256, 2 + 256 // 8 * 2 + 256 // 32),
    "iq2_s": (256, 2 + 256 // 4 + 256 // 16), "iq3_xxs": (256, 2 + 3 * (256 // 8)), "iq3_s": (256, 2 + 13 * (256 // 32) + 256 // 64),
    "iq1_s": (256, 2 + 256 // 8 + 256 // 16), "iq1_m": (256, 256 // 8 + 256 // 16 + 256 // 32), "iq4_nl": (32, 2 + 32 // 2),
    "iq4_xs": (256, 2 + 2 + 256 // 64 + 256 // 2), "tq1_0": (256, 2 + 256 // 64 + (256 - 4 * 256 // 64) // 5),
    "tq2_0": (256, 2 + 256 // 4), "mxfp4": (32, 1 + 32 // 2), "nvfp4": (64, 64 // 16 + 64 // 2), "q1_0": (128, 2 + 128 // 8),
    "q2_0": (64, 2 + 64 // 4), "f32": (1, 4), "f16": (1, 2), "bf16": (1, 2), "f64": (1, 8), "i8": (1, 1), "i16": (1, 2), "i32": (1, 4),
    "i64": (1, 8),
}  # fmt: skip


def test_block_sizes() -> None:
    assert {kind.name: (kind.block, kind.block_bytes) for kind in TYPES.values()} == BLOCKS


def raw(n_tensors: int = 0, n_kv: int = 0, body: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_kv) + body


def kv(key: bytes, body: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key + body


def info(shape: tuple[int, ...] = (32,), kind: int = F32, offset: int = 0, name: bytes = b"w", dims: int | None = None) -> bytes:
    n = len(shape) if dims is None else dims
    return kv(name, struct.pack(f"<I{len(shape)}QIQ", n, *shape, kind, offset)) + bytes(64)


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "magic needs 4 bytes"),
    "other magic": (b"GGML" + bytes(20), "does not start with GGUF"),
    "zip": (b"PK\3\4" + bytes(60), "does not start with GGUF"),
    "no version": (b"GGUF\3", "version needs 4 bytes"),
    "version 0": (raw(version=0), "version 0"),
    "version 4": (raw(version=4), "version 4"),
    "tensors 2^63": (raw(n_tensors=1 << 63), "9223372036854775808 tensors"),
    "keys 2^64 - 1": (raw(n_kv=(1 << 64) - 1), "metadata keys"),
    "more keys than bytes": (raw(n_kv=4000), "4000 metadata keys and 0 tensors needs"),
    "more keys than any model has": (raw(n_kv=60_000) + bytes(1 << 20), "60000 metadata keys; at most 4096"),
    "more tensors than any model has": (raw(n_tensors=1 << 17) + bytes(1 << 22), "131072 tensors; at most 65536"),
    "more tensors than bytes": (raw(n_tensors=60_000), "60000 tensors needs"),
    "key of 2^62": (raw(n_kv=1, body=struct.pack("<QQQ", 1 << 62, 0, 0)), "a metadata key of 4611686018427387904 bytes"),
    "key past the end": (raw(n_kv=1, body=struct.pack("<QQQ", 999, 0, 0)), "a metadata key needs 999 bytes"),
    "empty key": (raw(n_kv=1, body=kv(b"", struct.pack("<II", 4, 1)) + bytes(8)), "is empty"),
    "key not UTF-8": (raw(n_kv=1, body=kv(b"\xff", struct.pack("<II", 4, 1))), "not UTF-8"),
    "key twice": (raw(n_kv=2, body=kv(b"a", struct.pack("<II", 4, 1)) * 2), "'a' is there twice"),
    "value type 13": (raw(n_kv=1, body=kv(b"a", struct.pack("<II", 13, 1))), "value type 13 is not known"),
    "string of 2^63": (raw(n_kv=1, body=kv(b"a", struct.pack("<IQ", 8, 1 << 63))), "a needs 9223372036854775808 bytes"),
    "array of 2^60 ints": (raw(n_kv=1, body=kv(b"a", struct.pack("<IIQ", 9, 4, 1 << 60))), "a needs 4611686018427387904 bytes"),
    "array of 2^60 strings": (raw(n_kv=1, body=kv(b"a", struct.pack("<IIQ", 9, 8, 1 << 60))), "1152921504606846976 strings, needs"),
    "array of arrays": (raw(n_kv=1, body=kv(b"a", struct.pack("<IIQQ", 9, 9, 1, 1))), "an array of value type 9"),
    "array of nothing known": (raw(n_kv=1, body=kv(b"a", struct.pack("<IIQQ", 9, 99, 1, 1))), "an array of value type 99"),
    "string in an array too long": (
        raw(n_kv=1, body=kv(b"a", struct.pack("<IIQQ", 9, 8, 1, 1 << 63)) + bytes(64)), "a string that ends at byte"),
    "alignment 0": (gguf({"general.alignment": 0}), "not a power of two"),
    "alignment 3": (gguf({"general.alignment": 3}), "not a power of two"),
    "alignment text": (gguf({"general.alignment": "32"}), "not a power of two"),
    "five dimensions": (raw(n_tensors=1, body=info((1,) * 5)), "has 5 dimensions"),
    "2^32 - 1 dimensions": (raw(n_tensors=1, body=info(dims=(1 << 32) - 1)), "dimensions"),
    "shape overflows": (raw(n_tensors=1, body=info((1 << 40, 1 << 40))), "overflows"),
    "shape of 2^64 - 1": (raw(n_tensors=1, body=info(((1 << 64) - 1,))), "overflows"),
    "shape with a zero and a giant": (raw(n_tensors=1, body=info((0, (1 << 64) - 1))), "overflows"),
    "type 200": (raw(n_tensors=1, body=info(kind=200)), "GGML type 200 is not known"),
    "type taken out": (raw(n_tensors=1, body=info(kind=31)), "q4_0_4_4, taken out of the format"),
    "broken block": (raw(n_tensors=1, body=info((33,), Q8_0)), "not whole blocks of 32"),
    "scalar of a block type": (raw(n_tensors=1, body=info((), Q8_0)), "not whole blocks"),
    "offset": (raw(n_tensors=1, body=info(offset=32)), "starts at 32, the tensor before it ends at 0"),
    "name twice": (raw(n_tensors=2, body=(info()[:-64] + info(offset=128))), "'w' is there twice"),
    "long name": (raw(n_tensors=1, body=info(name=b"w" * 2000)), "a tensor name of 2000 bytes"),
    "data cut": (gguf({}, TENSORS)[:-40], "truncated"),
    "no data": (raw(n_tensors=1, body=info((1 << 50,))), "truncated"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused_at_once(case: str) -> None:
    data, says = HOSTILE[case]
    error = refused_at_once(parse, data, says, len(data) + (1 << 20))
    assert 0 <= error.offset <= len(data)
    assert error.format_name == "GGUF"


def test_a_sparse_giant_costs_nothing(tmp_path: Path) -> None:
    """A file of 2^40 bytes that claims so many strings, most of them holes."""
    path = tmp_path / "giant.gguf"
    path.write_bytes(raw(n_kv=1, body=kv(b"a", struct.pack("<IIQ", 9, 8, 1 << 36))))
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(FormatError, match="68719476736 strings; at most"):
        read_header(path)


def sparse(path: Path, n: int, each: bytes, hole: int) -> Path:
    """`n` metadata keys, each followed by a hole of zeros."""
    with path.open("wb") as file:
        file.write(raw(n_kv=n))
        for i in range(n):
            file.write(kv(b"%d" % i, each))
            file.seek(hole, 1)
        file.write(b"x")
    return path


@pytest.mark.parametrize(
    ("each", "hole"),
    [(struct.pack("<IIQ", 9, 0, 8192), 8192), (struct.pack("<IQ", 8, 1 << 16), 1 << 16)],
    ids=["arrays that are kept", "texts that are kept"],
)
def test_many_small_values_are_counted_once_they_are_many(tmp_path: Path, each: bytes, hole: int) -> None:
    path = sparse(tmp_path / "many.gguf", 4000, each, hole)  # 32 MB as tuples of 8,192 numbers, or 250 MB of text
    tracemalloc.start()
    header = read_header(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 << 20
    assert isinstance(header.metadata["3999"], Long)
    assert header.metadata["3999"].length == hole
    assert not isinstance(header.metadata["0"], Long)


def test_strings_of_all_arrays_count_together(tmp_path: Path) -> None:
    n = 1 << 20
    path = sparse(tmp_path / "strings.gguf", 3, struct.pack("<IIQ", 9, 8, n), 8 * n)
    with pytest.raises(FormatError, match="2: an array of 1048576 strings; at most 2097152 are read in a file"):
        read_header(path)


def test_only_the_header_is_read() -> None:
    class Counted(io.BytesIO):
        read_bytes = 0

        def read(self, n: int | None = -1) -> bytes:
            found = super().read(n)
            self.read_bytes += len(found)
            return found

    file = Counted(gguf({"general.architecture": "llama"}, [("w", (1 << 20,), F32, 4 << 20)]))
    read_header(file)
    assert file.read_bytes < 1 << 19


HPARAMS = model(
    "llama",
    {
        "block_count": 2, "embedding_length": 256, "feed_forward_length": 512, "attention.head_count": 4,
        "attention.head_count_kv": 2, "context_length": 2048,
    },
)  # fmt: skip
LAYERS = [
    t
    for i in (0, 1)
    for t in (
        (f"blk.{i}.attn_norm.weight", (256,), F32, 1024),
        (f"blk.{i}.attn_q.weight", (256, 256), Q4_K, 256 * 144),
        (f"blk.{i}.attn_k.weight", (256, 128), Q4_K, 128 * 144),
        (f"blk.{i}.attn_v.weight", (256, 128), Q8_0, 128 * 272),
        (f"blk.{i}.attn_q.bias", (256,), F32, 1024),
        (f"blk.{i}.attn_output.weight", (256, 256), Q4_K, 256 * 144),
        (f"blk.{i}.ffn_norm.weight", (256,), F32, 1024),
        (f"blk.{i}.ffn_up.weight", (256, 512), Q4_K, 512 * 144),
        (f"blk.{i}.ffn_down.weight", (512, 256), Q4_K, 256 * 288),
    )
]  # fmt: skip
ENDS = [("token_embd.weight", (256, 1000), Q8_0, 272_000), ("output_norm.weight", (256,), F32, 1024)]


def test_stored_weights_and_traits(tmp_path: Path) -> None:
    """Bytes of whole blocks: q4_K 144 per 256, q8_0 34 per 32; traits as the table shows them."""
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(HPARAMS, [*ENDS, *LAYERS]))
    found = read_gguf(path)
    assert found.stored is not None
    assert found.stored.total_bytes == sum(t[3] for t in [*ENDS, *LAYERS])
    assert found.stored.by_layer()[1] == {
        "norm": 3 * 1024, "attention": (256 + 128 + 256) * 144 + 128 * 272, "mlp": 512 * 144 + 256 * 288,
    }  # fmt: skip
    assert found.stored.outside() == {"embedding": 272_000, "norm": 1024}
    assert found.stored.parameters == 256_000 + 256 + 2 * (3 * 256 + 2 * 65536 + 2 * 32768 + 2 * 131072)
    assert found.stored.bytes_by(lambda t: t.dtype)["q4_K"] == 2 * (640 * 144 + 512 * 144 + 256 * 288)
    spec = found.spec
    block = spec.blocks[spec.layer_names[0]]
    assert block.mixers[0].q_bias
    assert not block.mixers[0].o_bias
    assert not block.mlps[0].gated
    assert (block.norms, spec.tied_embeddings, spec.vocab_size) == (2, True, 1000)
    path.write_bytes(gguf(HPARAMS, [*ENDS, ("output.weight", (256, 1000), Q8_0, 272_000), *LAYERS]))
    assert not read_gguf(path).spec.tied_embeddings


def test_roles(tmp_path: Path) -> None:
    names = {
        "blk.0.ffn_gate_exps.weight": "experts", "blk.0.ffn_gate_inp.weight": "router", "blk.0.ffn_up_shexp.weight": "shared_experts",
        "blk.0.exp_probs_b.bias": "buffer", "blk.0.attn_kv_a_mqa.weight": "attention", "blk.0.attn_q_norm.weight": "norm",
        "blk.0.ssm_in.weight": "attention", "blk.0.ssm_conv1d.weight": "state", "blk.0.ssm_a": "state", "blk.0.ssm_d": "state",
        "blk.0.ssm_dt.bias": "norm", "blk.0.ssm_out.weight": "attention", "blk.0.attn_sinks.weight": "norm",
        "blk.0.time_mix_decay_w1.weight": "state", "blk.0.channel_mix_key.weight": "mlp", "blk.0.indexer.attn_k.weight": "attention",
        "rope_freqs.weight": "buffer", "v.blk.0.attn_q.weight": "tower", "position_embd.weight": "embedding", "output.weight": "head",
        "blk.0.shortconv.conv.weight": "state", "blk.0.shortconv.in_proj.weight": "attention",
    }  # fmt: skip
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(HPARAMS, [(name, (32,), F32, 128) for name in names]))
    stored = read_gguf(path).stored
    assert stored is not None
    assert {t.name: t.role for t in stored.tensors} == names


def test_draft_layers_are_apart(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    tensors = [(f"blk.{i}.attn_q.weight", (256, 256), F16, 131072) for i in (0, 1)]
    path.write_bytes(gguf({**HPARAMS, "llama.nextn_predict_layers": 1}, tensors))
    found = read_gguf(path)
    assert found.stored is not None
    assert found.stored.by_stack() == {"model": 131072, "draft": 131072}
    assert (found.spec.n_layers, found.spec.mtp and found.spec.mtp.modules) == (1, 1)


def write_split(folder: Path, **change: Any) -> list[Path]:
    chunks = [[], LAYERS[:9], [*ENDS, *LAYERS[9:]]]
    files = []
    for i, tensors in enumerate(chunks):
        keys = {"split.no": i, "split.count": 3, "split.tensors.count": 20, **(HPARAMS if i == 0 else {}), **change}
        files.append(folder / f"m-{i + 1:05d}-of-00003.gguf")
        files[-1].write_bytes(gguf(keys, tensors))
    return files


def test_split_files(tmp_path: Path) -> None:
    files = write_split(tmp_path)
    whole = tmp_path / "m.gguf"
    whole.write_bytes(gguf(HPARAMS, [*ENDS, *LAYERS]))
    expected = read_gguf(whole).stored
    assert expected is not None
    for file in files:
        found = read_gguf(file)
        assert found.stored is not None
        assert sorted(found.stored.tensors) == sorted(expected.tensors)
        assert found.spec.id == "local/m"
        assert parts(file) == files


@pytest.mark.parametrize(
    ("change", "says"),
    [({"split.tensors.count": 19}, "the parts hold 20"), ({"split.count": 4}, "split.count is 4"), ({"split.no": 0}, "split.no is 0")],
)
def test_split_files_that_disagree(tmp_path: Path, change: dict[str, int], says: str) -> None:
    with pytest.raises(FormatError, match=says):
        read_gguf(write_split(tmp_path, **change)[0])


def test_split_files_with_a_part_missing(tmp_path: Path) -> None:
    files = write_split(tmp_path)
    files[1].unlink()
    with pytest.raises(SpecError, match="1 of 3 parts are not there, first m-00002"):
        read_gguf(files[0])
    with pytest.raises(SpecError, match="not a name of a split model"):
        read_gguf(tmp_path / "m-00004-of-00003.gguf")
    with pytest.raises(SpecError, match="no such file"):
        read_gguf(tmp_path / "absent.gguf")
