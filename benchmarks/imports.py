"""A model from its own files beside a catalogue entry, and beside what else answers without the internet: whole processes, ratios.

    python benchmarks/imports.py [RUNS] [--peers FOLDER]

FOLDER holds the commands `accelerate` and `hf-mem` of an environment of their own. Hub ids are asked of a server on this machine;
`hf-mem` (0.5.6) asks huggingface.co whatever HF_ENDPOINT says, so that only its start is timed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

KVPLAN = str(Path(sys.executable).with_name("kvplan"))
QUESTION = ["--engine", "ideal", "--context", "32768", "--batch", "16", "--format", "json"]
NAME, COMMIT = "org/llama", "0" * 40
LAYERS, HIDDEN, VOCAB = 32, 4096, 128256
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": 14336,
    "num_hidden_layers": LAYERS, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": VOCAB,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


def write_checkpoint(folder: Path) -> None:
    """config.json and one model.safetensors of Llama 3.1 8B's 291 tensors, its data a hole."""
    shapes: dict[str, list[int]] = {
        "model.embed_tokens.weight": [VOCAB, HIDDEN],
        "lm_head.weight": [VOCAB, HIDDEN],
        "model.norm.weight": [HIDDEN],
    }
    for i in range(LAYERS):
        at = f"model.layers.{i}"
        shapes |= {
            f"{at}.self_attn.{part}_proj.weight": [rows, HIDDEN] for part, rows in zip("qkvo", (4096, 1024, 1024, 4096), strict=True)
        }
        shapes |= {f"{at}.mlp.{part}_proj.weight": [14336, HIDDEN] for part in ("gate", "up")}
        shapes |= {f"{at}.mlp.down_proj.weight": [HIDDEN, 14336]}
        shapes |= {f"{at}.{part}_layernorm.weight": [HIDDEN] for part in ("input", "post_attention")}
    header, end = {}, 0
    for name, shape in shapes.items():
        n_bytes = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + n_bytes]}
        end += n_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


class Hub(BaseHTTPRequestHandler):
    """The Hub's endpoints for one model."""

    folder: Path

    def log_message(self, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        if self.path.startswith(f"/api/models/{NAME}"):
            siblings = [{"rfilename": file.name} for file in self.folder.iterdir()]
            info = {
                "id": NAME,
                "modelId": NAME,
                "sha": COMMIT,
                "library_name": "transformers",
                "tags": [],
                "siblings": siblings,
                "private": False,
                "config": {"architectures": CONFIG["architectures"], "model_type": CONFIG["model_type"]},
            }
            return self.reply(200, json.dumps(info).encode(), {}, body)
        file = self.folder / self.path.rpartition("/")[2]
        if not file.is_file():
            return self.reply(404, b"{}", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, body)
        size = file.stat().st_size
        extra = {"ETag": f'"{hashlib.sha1(file.name.encode()).hexdigest()}"', "X-Repo-Commit": COMMIT}
        start, end = 0, size - 1
        if asked := self.headers.get("Range"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last), end)
            extra["Content-Range"] = f"bytes {start}-{end}/{size}"
        if not body:
            return self.reply(200, b"", {**extra, "Content-Length": str(size)}, body)
        with file.open("rb") as opened:
            opened.seek(start)
            return self.reply(206 if asked else 200, opened.read(end + 1 - start), extra, body)

    def reply(self, status: int, data: bytes, extra: dict[str, str], body: bool) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(data)), **extra}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(data)


def main() -> None:
    """Every command in turn, RUNS times after one warm-up: medians, and the median of the ratios to the catalogue entry run by run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=int, default=15)
    parser.add_argument("--peers", default=str(Path(sys.executable).parent))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "model"
        folder.mkdir()
        write_checkpoint(folder)
        Hub.folder = folder
        server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cache = {"HF_HOME": str(Path(made) / "cache"), "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        commands = {
            "kvplan, catalogue entry": [KVPLAN, "estimate", "meta-llama/llama-3.1-8b", *QUESTION],
            "kvplan, local config.json": [KVPLAN, "estimate", str(folder / "config.json"), *QUESTION],
            "kvplan, local checkpoint (headers)": [KVPLAN, "estimate", str(folder), *QUESTION],
            "kvplan, hub id, empty cache": [KVPLAN, "estimate", NAME, *QUESTION],
            "kvplan, hub id, warm cache": [KVPLAN, "estimate", NAME, *QUESTION],
        }
        for name, command in (("accelerate", ["estimate-memory", NAME, "--library_name", "transformers"]), ("hf-mem", ["--help"])):
            found = shutil.which(name, path=given.peers)
            if found:
                commands[" ".join([name, *command[:1]])] = [found, *command]
            else:
                print(f"{name}: not in {given.peers}")

        def seconds(name: str) -> float:
            if name.endswith("empty cache"):
                shutil.rmtree(cache["HF_HOME"], ignore_errors=True)
            started = time.perf_counter()
            subprocess.run(commands[name], stdout=subprocess.DEVNULL, check=True, env={**os.environ, **cache})
            return time.perf_counter() - started

        for name in commands:
            seconds(name)
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(given.runs):
            for name in commands:
                times[name].append(seconds(name))
    first = times["kvplan, catalogue entry"]
    print(f"{'':40} {'median ms':>10} {'x catalogue entry':>18}")
    for name, taken in times.items():
        ratio = statistics.median(a / b for a, b in zip(taken, first, strict=True))
        print(f"{name:40} {statistics.median(taken) * 1000:>10.0f} {ratio:>18.2f}")


if __name__ == "__main__":
    main()
