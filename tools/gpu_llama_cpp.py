"""What llama.cpp takes on a GPU at each phase, beside its own printed sizes and beside the plan of the same GGUF file.

python tools/gpu_llama_cpp.py PROGRAM OUT.jsonl [FOLDER]

PROGRAM is gpu_llama_cpp.cpp built against a llama.cpp with GGML_CUDA=ON. The GGUF files are sparse, of real geometries (config.json of each
model) with weights of zero: as large on the device as the model's, and made in no time. One line of OUT for each case: question, what NVML
saw at each phase (the device's growth and this process's own bytes), what llama.cpp printed, and the plan's lines.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from math import prod
from pathlib import Path
from typing import Any

from header_files import gguf_header

from kvplan import probe
from kvplan.errors import KvplanError

#: ggml type -> its number in GGUF, elements of a block, bytes of a block (ggml.h, ggml-common.h)
TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18), "q8_0": (8, 32, 34), "mxfp4": (39, 32, 17)}

MODELS: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": {
        "arch": "llama", "vocab_size": 128256, "block_count": 32, "embedding_length": 4096, "feed_forward_length": 14336,
        "heads": 32, "kv_heads": 8, "head_dim": 128, "context_length": 131072,
    },
    "llama-3.2-1b": {
        "arch": "llama", "vocab_size": 128256, "block_count": 16, "embedding_length": 2048, "feed_forward_length": 8192,
        "heads": 32, "kv_heads": 8, "head_dim": 64, "context_length": 131072, "tied": True,
    },
    "qwen3-8b": {
        "arch": "qwen3", "vocab_size": 151936, "block_count": 36, "embedding_length": 4096, "feed_forward_length": 12288,
        "heads": 32, "kv_heads": 8, "head_dim": 128, "context_length": 40960,
    },
    "qwen3-30b-a3b": {
        "arch": "qwen3moe", "vocab_size": 151936, "block_count": 48, "embedding_length": 2048, "feed_forward_length": 6144,
        "heads": 32, "kv_heads": 4, "head_dim": 128, "context_length": 40960, "experts": 128, "experts_used": 8, "expert_width": 768,
    },
    "gemma-3-12b": {
        "arch": "gemma3", "vocab_size": 262208, "block_count": 48, "embedding_length": 3840, "feed_forward_length": 15360,
        "heads": 16, "kv_heads": 8, "head_dim": 256, "context_length": 131072, "window": 1024, "tied": True,
    },
    "gpt-oss-20b": {
        "arch": "gpt-oss", "vocab_size": 201088, "block_count": 24, "embedding_length": 2880, "feed_forward_length": 2880,
        "heads": 64, "kv_heads": 8, "head_dim": 64, "context_length": 131072, "window": 128, "experts": 32, "experts_used": 4,
        "expert_width": 2880,
    },
}  # fmt: skip

F16, Q8_0 = 1, 8
CASES: list[tuple[str, str, dict[str, int]]] = [
    ("llama-3.2-1b", "q8_0", {"ctx": 4096}),
    ("llama-3.1-8b", "q4_0", {"ctx": 8192}),
    ("llama-3.1-8b", "q4_0", {"ctx": 32768, "seq": 4, "ubatch": 2048}),
    ("llama-3.1-8b", "q4_0", {"ctx": 8192, "fa": 0}),
    ("llama-3.1-8b", "q4_0", {"ctx": 131072, "k": Q8_0, "v": Q8_0}),
    ("llama-3.1-8b", "q4_0", {"ctx": 8192, "ngl": 20}),
    ("llama-3.1-8b", "f16", {"ctx": 8192}),
    ("qwen3-8b", "q4_0", {"ctx": 32768, "seq": 16}),
    ("qwen3-8b", "q4_0", {"ctx": 32768, "seq": 16, "unified": 1}),
    ("gemma-3-12b", "q4_0", {"ctx": 32768}),
    ("gpt-oss-20b", "mxfp4", {"ctx": 32768}),
    ("qwen3-30b-a3b", "q4_0", {"ctx": 32768}),
]


def tensors(m: dict[str, Any], matrix: str) -> list[tuple[str, list[int], str]]:
    """Name, dimensions as GGUF writes them, type. Of an mxfp4 file all that is not of experts is q8_0, as published."""
    plain = "q8_0" if matrix == "mxfp4" else matrix
    width, n_vocab, q, kv = m["embedding_length"], m["vocab_size"], m["heads"] * m["head_dim"], m["kv_heads"] * m["head_dim"]
    found: list[tuple[str, list[int], str]] = [("token_embd.weight", [width, n_vocab], plain), ("output_norm.weight", [width], "f32")]
    if not m.get("tied"):
        found.append(("output.weight", [width, n_vocab], plain))
    biased = m["arch"] == "gpt-oss"
    for n in range(m["block_count"]):
        block: list[tuple[str, list[int], str]] = [("attn_norm", [width], "f32")]
        block += [("attn_q", [width, q], plain), ("attn_k", [width, kv], plain), ("attn_v", [width, kv], plain)]
        block += [("attn_output", [q, width], plain)]
        if m["arch"] in ("qwen3", "qwen3moe", "gemma3"):
            block += [("attn_q_norm", [m["head_dim"]], "f32"), ("attn_k_norm", [m["head_dim"]], "f32")]
        if m["arch"] in ("gemma3", "gpt-oss"):
            block += [("post_attention_norm", [width], "f32")]
        if m["arch"] != "gpt-oss":
            block += [("ffn_norm", [width], "f32")]
        if m["arch"] == "gemma3":
            block += [("post_ffw_norm", [width], "f32")]
        if experts := m.get("experts"):
            inner = m["expert_width"]
            block += [("ffn_gate_inp", [width, experts], "f32"), ("ffn_gate_exps", [width, inner, experts], matrix)]
            block += [("ffn_up_exps", [width, inner, experts], matrix), ("ffn_down_exps", [inner, width, experts], matrix)]
        else:
            inner = m["feed_forward_length"]
            block += [("ffn_gate", [width, inner], plain), ("ffn_up", [width, inner], plain), ("ffn_down", [inner, width], plain)]
        found += [(f"blk.{n}.{name}.weight", shape, kind) for name, shape, kind in block]
        if biased:
            found += [(f"blk.{n}.attn_sinks.weight", [m["heads"]], "f32")]
            found += [
                (f"blk.{n}.{name}.bias", shape[1:], "f32")
                for name, shape, _ in block
                if name.startswith(("attn_q", "attn_k", "attn_v", "attn_output", "ffn"))
            ]
    return found


def metadata(m: dict[str, Any], name: str) -> dict[str, Any]:
    arch = m["arch"]
    counts = ("vocab_size", "block_count", "embedding_length", "feed_forward_length", "context_length")
    own: dict[str, Any] = {key: m[key] for key in counts}
    own |= {"attention.head_count": m["heads"], "attention.head_count_kv": m["kv_heads"], "attention.layer_norm_rms_epsilon": 1e-6}
    own |= {"attention.key_length": m["head_dim"], "attention.value_length": m["head_dim"], "rope.dimension_count": m["head_dim"]}
    if "window" in m:
        own["attention.sliding_window"] = m["window"]
    if "experts" in m:
        own |= {"expert_count": m["experts"], "expert_used_count": m["experts_used"], "expert_feed_forward_length": m["expert_width"]}
    return {"general.architecture": arch, "general.name": name, "tokenizer.ggml.model": "no_vocab"} | {
        f"{arch}.{key}": value for key, value in own.items()
    }


def write(path: Path, name: str, matrix: str) -> None:
    """A GGUF file of version 3 whose data is a hole."""
    sized = []
    for tensor, shape, kind in tensors(MODELS[name], matrix):
        number, elements, n_bytes = TYPES[kind]
        sized.append((tensor, tuple(shape), number, prod(shape) // elements * n_bytes))
    header, data_bytes = gguf_header(metadata(MODELS[name], name), sized)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + data_bytes)


_SIZE = re.compile(r"^(?:.*?:\s+)?\s*(\S+)\s+(model|KV|RS|compute|output) buffer size\s*=\s*([\d.]+) MiB", re.M)


_TOLD = re.compile(r"buffer size|offloaded|build|CUDA[0-9 ]|graph (nodes|splits)|flash", re.I)


def measure(program: str, file: Path, options: dict[str, int], uuid: str | None) -> dict[str, Any]:
    """The phases of one run: bytes the device holds above what it held before, and what NVML books on the process; and what was printed."""
    before = probe.find(uuid).used_bytes if uuid else 0
    with tempfile.TemporaryFile("w+") as said:
        command = [program, str(file), *(f"{key}={value}" for key, value in options.items())]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True)
        assert process.stdin is not None
        assert process.stdout is not None
        phases: dict[str, Any] = {}
        for line in process.stdout:
            used, booked = probe.memory_of(uuid, process.pid) if uuid else (0, None)
            phases[line.strip()] = {"device_grew": used - before, "process": booked}
            process.stdin.write("\n")
            process.stdin.flush()
        code = process.wait()
        said.seek(0)
        text = said.read()
    printed: dict[str, float] = {}
    for place, what, size in _SIZE.findall(text):
        key = f"{place} {what}"
        printed[key] = round(printed.get(key, 0) + float(size), 2)
    kept = [line for line in text.splitlines() if _TOLD.search(line)][-60:]
    return {"exit": code, "before": before, "phases": phases, "printed": printed, "said": kept, "error": text[-1500:] if code else ""}


def planned(file: Path, options: dict[str, int], device: str) -> Any:
    """The plan of the same file, through the command line, as JSON."""
    types = {F16: "f16", Q8_0: "q8_0"}
    sequences = options.get("seq", 1)
    ask = ["estimate", str(file), "--engine", "llama.cpp", "--engine-version", "b11312", "--device", device, "--format", "json"]
    ask += ["--context", str(options["ctx"] // (1 if options.get("unified") else sequences)), "--batch", str(sequences)]
    ask += ["--engine-option", f"n_ubatch={options.get('ubatch', 512)}", "--max-num-batched-tokens", str(options.get("batch", 2048))]
    if options.get("unified"):
        ask += ["--engine-option", "kv_unified=on"]
    if options.get("fa") == 0:
        ask += ["--engine-option", "flash_attn=off"]
    if "ngl" in options:
        ask += ["--n-gpu-layers", str(options["ngl"])]
    ask += ["--kv-dtype", f"{types[options.get('k', F16)]}/{types[options.get('v', F16)]}"]
    done = subprocess.run([sys.executable, "-m", "kvplan", *ask], capture_output=True, text=True)
    try:
        return json.loads(done.stdout)["ledgers"]
    except (ValueError, KeyError):
        return {"said": (done.stdout + done.stderr)[-1000:]}


def main(program: str, out: str, folder: str | None = None) -> None:
    try:
        uuid, device = probe.detect().uuid, "auto"
    except KvplanError as error:
        print(f"no GPU: {error}", file=sys.stderr)
        uuid, device = None, "h100-80gb"
    with tempfile.TemporaryDirectory(dir=folder) as made, open(out, "w") as kept:
        for name, matrix, options in CASES:
            file = Path(made) / f"{name}-{matrix}.gguf"
            if not file.exists():
                write(file, name, matrix)
            began = time.monotonic()
            found = measure(program, file, options, uuid)
            row = {"model": name, "weights": matrix, "file_bytes": os.path.getsize(file), "options": options, **found}
            kept.write(json.dumps(row | {"seconds": round(time.monotonic() - began, 1), "plan": planned(file, options, device)}) + "\n")
            kept.flush()
            print(name, matrix, options, "exit", found["exit"], found["phases"].get("decode"), found["printed"], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
