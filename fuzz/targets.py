"""What is fuzzed: for each parser, how bytes reach it, and where its seeds are. A KvplanError is an answer; anything else is a crash."""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kvplan import estimate, files
from kvplan.constants import parse_constants, parse_user_file
from kvplan.devices import parse_device
from kvplan.importers.gguf import read_gguf
from kvplan.importers.gguf.architectures import ARCHITECTURES
from kvplan.importers.hf_config import import_config, parse_json
from kvplan.importers.safetensors import read_header
from kvplan.manifests.read import decoded, read
from kvplan.report import progress
from kvplan.simulate import traces
from kvplan.spec import parse_spec
from kvplan.startup_logs import read_log
from kvplan.units import parse_bytes, parse_tokens
from kvplan.validate import receipts
from tests import header_files

ROOT = Path(__file__).parents[1]
FOLDER = Path(tempfile.mkdtemp(prefix="kvplan-fuzz-"))


class Target(NamedTuple):
    """`call` takes the bytes of one input; `tree`: they are JSON or YAML, and are changed as trees too."""

    call: Callable[[bytes], object]
    seeds: list[bytes]
    tree: bool = False


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _yaml(parse: Callable[..., object]) -> Callable[[bytes], object]:
    return lambda data: parse(files.parse_yaml(files.decoded(data, "x"), "x"), "x")


def _at(name: str, call: Callable[[Path], object]) -> Callable[[bytes], object]:
    """The bytes as a file."""

    def written(data: bytes) -> object:
        path = FOLDER / name
        path.write_bytes(data)
        return call(path)

    return written


def _progress(data: bytes) -> object:
    """As it is; a changed tree with the digest that would make it whole, so that the checks behind it are reached."""
    out = FOLDER / "out.csv"
    out.write_bytes(b"a\n1\n")
    state = _json(data)
    if isinstance(state, dict):
        data = json.dumps(state | {"check": progress.digest({k: v for k, v in state.items() if k != "check"})}).encode()
    progress.path_of(out).write_bytes(data)
    return progress.read(out)


def _json(data: bytes) -> object:
    """The value; None for what is no JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _gguf(data: bytes) -> object:
    """A file with this metadata and these tensors, written and sized; None where no file can say so."""
    tree = _json(data)
    try:
        made = header_files.gguf(tree["metadata"], [(t[0], tuple(t[1]), t[2], 64) for t in tree["tensors"]])  # type: ignore[index]
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, struct.error, MemoryError, OverflowError):
        return None
    path = FOLDER / "x.gguf"
    path.write_bytes(made[: 1 << 20])
    return estimate(read_gguf(path).spec, engine="llama.cpp", device="24GiB", context=64)


def _receipt(path: Path) -> object:
    return receipts.faults(receipts.read(path))


def _trace(name: str) -> Callable[[bytes], object]:
    def all_of(data: bytes) -> object:
        pieces = [_text(data)]
        found = traces.read(pieces if name in traces.IN_PIECES else files.lines(pieces, "x"), name, "x")
        return sum(1 for _ in found)

    return all_of


def _size(data: bytes) -> object:
    text = _text(data)
    return parse_tokens(text, "x") if len(data) % 2 else parse_bytes(text, "x")


def _files(*patterns: str, most: int = 40, largest: int = 60_000) -> list[bytes]:
    found = [path for pattern in patterns for path in sorted(ROOT.glob(pattern)) if path.is_file() and path.stat().st_size <= largest]
    return [path.read_bytes() for path in found[:: max(1, len(found) // most)]]


def _config(data: bytes) -> object:
    return estimate(parse_spec(import_config(parse_json(data, "x"), "x"), "x"), context=64)


CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 128, "torch_dtype": "bfloat16",
    "rope_scaling": {"type": "linear", "factor": 2.0}, "sliding_window": 16, "layer_types": ["full_attention", "sliding_attention"],
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
MODELS = ("llama", "mixtral", "gemma3_text", "qwen3_next", "deepseek_v3", "gpt_oss", "jamba", "mamba2", "falcon_h1", "cohere2", "glm4_moe")
CONFIGS = [json.dumps({**CONFIG, "architectures": None, "model_type": name}).encode() for name in MODELS] + [json.dumps(CONFIG).encode()]
HEADER = json.dumps(
    {"__metadata__": {"format": "pt"}, "model.layers.0.w": {"dtype": "BF16", "shape": [4, 8], "data_offsets": [0, 64]}}
).encode()
SAFETENSORS = len(HEADER).to_bytes(8, "little") + HEADER + bytes(64)
GGUF = b"GGUF" + (3).to_bytes(4, "little") + (0).to_bytes(8, "little") + (1).to_bytes(8, "little")
GGUF += (20).to_bytes(8, "little") + b"general.architecture" + (8).to_bytes(4, "little") + (5).to_bytes(8, "little") + b"llama"
GEOMETRY = {
    "block_count": 4, "embedding_length": 1024, "feed_forward_length": 4096, "attention.head_count": 8, "attention.head_count_kv": 2,
    "context_length": 8192, "vocab_size": 1000, "attention.sliding_window": 512, "expert_count": 4, "expert_used_count": 2,
    "ssm.conv_kernel": 4, "ssm.inner_size": 2048, "ssm.state_size": 128, "ssm.time_step_rank": 32, "ssm.group_count": 2,
    "attention.key_length": 64, "attention.value_length": 64, "attention.kv_lora_rank": 512, "wkv.head_size": 64, "shortconv.l_cache": 3,
}  # fmt: skip
GGUFS = [
    json.dumps({"metadata": header_files.model(name, GEOMETRY), "tensors": tensors}).encode()
    for name in ARCHITECTURES
    for tensors in ([], [["token_embd.weight", [1024, 1000], 1], ["blk.0.attn_k.weight", [1024, 128], 12]])
]
LOGS = [path.encode() for path in ("non-default args: {'model': 'a/b', 'max_model_len': 8192}\nModel loading took 14.99 GiB memory\n",)]
TAIL = hashlib.sha256(b"a\n1\n").hexdigest()
SWEEP = json.dumps({"question": "q", "format": "csv", "points": 1, "bytes": 4, "tail": TAIL}).encode()

TARGETS: dict[str, Target] = {
    "spec": Target(_yaml(lambda data, name: estimate(parse_spec(data, name), context=64)), _files("model_specs/*/*.yaml"), True),
    "device": Target(_yaml(parse_device), _files("kvplan/device_specs/*.yaml"), True),
    "calibration": Target(_yaml(parse_constants), _files("kvplan/calibration/*.yaml", largest=20_000), True),
    "user file": Target(_yaml(parse_user_file), [b"records: []\nconstants: []\n"], True),
    "config": Target(_config, CONFIGS, True),
    "safetensors": Target(_at("x.safetensors", read_header), [SAFETENSORS]),
    "gguf": Target(_at("x.gguf", read_gguf), [GGUF]),
    "gguf model": Target(_gguf, GGUFS, True),
    "trace csv": Target(_trace("lengths"), [b"arrival,prompt,output\n0,10,5\n1,20,5\n"]),
    "trace mooncake": Target(_trace("mooncake"), [b'{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 7]}\n'], True),
    "trace sharegpt": Target(_trace("sharegpt"), [b'[{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}]'], True),
    "log": Target(_at("x.log", read_log), [*_files("tests/logs/*"), *LOGS]),
    "shell": Target(lambda data: read(decoded(data, "s.sh"), "s.sh"), _files("tests/manifests/*.sh")),
    "manifest": Target(lambda data: read(decoded(data, "m.yaml"), "m.yaml"), _files("tests/manifests/*.yaml", "tests/manifests/deployments/*.yaml"), True),
    "receipt": Target(_at("x.json", _receipt), _files("validation/*.json", largest=20_000), True),
    "progress": Target(_progress, [SWEEP], True),
    "sizes": Target(_size, [b"128k", b"40GiB", b"1.5 GB", b"32_000"]),
}  # fmt: skip
