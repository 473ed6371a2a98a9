"""What is fuzzed: for each parser, how bytes reach it, and where its seeds are. A KvplanError is an answer; anything else is a crash."""

from __future__ import annotations

import asyncio
import hashlib
import json
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from fuzz import structures
from kvplan import check, estimate, files
from kvplan.constants import parse_constants, parse_user_file
from kvplan.devices import parse_device
from kvplan.errors import KvplanError
from kvplan.importers.gguf import read_gguf
from kvplan.importers.hf_config import import_config, parse_json
from kvplan.importers.safetensors import read_checkpoint, read_header
from kvplan.manifests import Source
from kvplan.manifests.read import decoded
from kvplan.report import progress
from kvplan.simulate import traces
from kvplan.spec import parse_spec
from kvplan.startup_logs import read_log
from kvplan.startup_logs.why import why
from kvplan.units import parse_bytes, parse_tokens
from kvplan.validate import receipts
from kvplan.web.app import application

ROOT = Path(__file__).parents[1]
FOLDER = Path(tempfile.mkdtemp(prefix="kvplan-fuzz-"))


class Target(NamedTuple):
    """`call` takes the bytes of one input; `tree`: they are JSON or YAML, and are changed as trees too; `made`: well formed ones."""

    call: Callable[[bytes], object]
    seeds: list[bytes]
    tree: bool = False
    made: Callable[[Random], bytes] | None = None


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
        made = structures.gguf_file(tree)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, struct.error, MemoryError, OverflowError):
        return None
    return _gguf_file(made)


def _gguf_file(data: bytes) -> object:
    path = FOLDER / "x.gguf"
    path.write_bytes(data)
    found = read_gguf(path)
    return estimate(found.spec, engine="llama.cpp", device="24GiB", context=64)


def _index(data: bytes) -> object:
    """As the index of a folder with one file of weights."""
    folder = FOLDER / "checkpoint"
    folder.mkdir(exist_ok=True)
    (folder / "model-00001-of-00001.safetensors").write_bytes(SAFETENSORS)
    (folder / "model.safetensors.index.json").write_bytes(data)
    return read_checkpoint(folder)


def _checked(name: str) -> Callable[[bytes], object]:
    return lambda data: check(Source(name, decoded(data, name)))


LOOP, APPLICATION = asyncio.new_event_loop(), application()


def _web(data: bytes) -> object:
    """A request: an object of `path` and `body`; anything else is the body of /api/estimate. An answer of 500 raises what caused it."""
    tree = _json(data)
    path, body = (tree.get("path"), json.dumps(tree.get("body")).encode()) if isinstance(tree, dict) else ("/api/estimate", data)
    url, _, query = (path if isinstance(path, str) else "/").partition("?")
    said: list[Any] = []
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST" if query == "" else "GET", "scheme": "http",
        "path": url, "raw_path": url.encode("utf-8", "replace"), "query_string": query.encode("utf-8", "replace"), "root_path": "",
        "headers": [(b"content-type", b"application/json")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    LOOP.run_until_complete(APPLICATION(scope, receive, send))
    if said[0]["status"] != 200:
        raise KvplanError(f"{said[0]['status']}")
    return json.loads(b"".join(message.get("body", b"") for message in said))


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
GGUFS = [structures.gguf(Random(seed)) for seed in range(200)]
FILES = [file for seed in GGUFS[:20] for file in (structures.gguf_file(json.loads(seed)),) if len(file) < 1 << 20]
FILES += [structures.gguf_file({**json.loads(seed), "tensors": []}, order=order) for seed in GGUFS[:20] for order in "<>"]
INDEX = json.dumps({"metadata": {"total_size": 64}, "weight_map": {"model.layers.0.w": "model-00001-of-00001.safetensors"}}).encode()
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
    "index": Target(_index, [INDEX], True),
    "gguf": Target(_gguf_file, FILES),
    "gguf model": Target(_gguf, GGUFS, True, structures.gguf),
    "trace csv": Target(_trace("lengths"), [b"arrival,prompt,output\n0,10,5\n1,20,5\n"]),
    "trace mooncake": Target(_trace("mooncake"), [b'{"timestamp": 0, "input_length": 700, "output_length": 5, "hash_ids": [0, 7]}\n'], True),
    "trace sharegpt": Target(_trace("sharegpt"), [b'[{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}]'], True),
    "log": Target(_at("x.log", read_log), [*_files("tests/logs/*"), *LOGS]),
    "why": Target(lambda data: why(_text(data)), [*_files("tests/logs/*"), *LOGS]),
    "shell": Target(_checked("s.sh"), _files("tests/manifests/*.sh", "tests/manifests/*/*.sh"), made=structures.shell),
    "manifest": Target(_checked("m.yaml"), _files("tests/manifests/*.yaml", "tests/manifests/*/*.yaml"), True, structures.manifest),
    "receipt": Target(_at("x.json", _receipt), _files("validation/*.json", largest=20_000), True),
    "progress": Target(_progress, [SWEEP], True),
    "web": Target(_web, [structures.request(Random(seed)) for seed in range(40)], True, structures.request),
    "sizes": Target(_size, [b"128k", b"40GiB", b"1.5 GB", b"32_000"]),
}  # fmt: skip
