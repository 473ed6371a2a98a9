"""A cold `kvplan estimate` beside what its dependencies cost to import, interleaved in one run: ratios, not seconds.

    python benchmarks/cold_start.py [RUNS]      PEERS=/path/to/venv names an environment that has peers (tools/peers.py)

Seconds are of the processor, of the process and what it starts, so that what else runs on the machine counts little.

`import pydantic` alone loads a stub (its names are lazy); the second baseline also imports BaseModel, which every use of it loads.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PYTHON = sys.executable
KVPLAN = [PYTHON, "-m", "kvplan"]
MODEL = ["meta-llama/llama-3.1-8b", "--engine", "ideal", "--context", "32768", "--batch", "16"]
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
FOLDER = Path(tempfile.mkdtemp())
(FOLDER / "config.json").write_text(json.dumps(CONFIG))
#: What people run today, where it is installed beside this Python and answers from local files.
PEERS = {
    "hf-mem": ["hf-mem", "--model-id", str(FOLDER)],
    "vramscout": ["vramscout", str(FOLDER / "config.json"), "--vram-gib", "80", "--context", "32768"],
    "kvfit --help, no answer": ["kvfit", "--help"],
    "vllm-wizard --help, no answer": ["vllm-wizard", "--help"],
    "modelinfo --help, no answer": ["modelinfo", "--help"],
    "ridgepoint, a model it knows": ["ridgepoint", "fit", "llama-3-70b", "--gpu", "h100-80gb:4"],
    "accelerate estimate-memory": ["accelerate", "estimate-memory", str(FOLDER)],
}
COMMANDS = {
    "bare python": [PYTHON, "-c", "pass"],
    "import click, yaml, pydantic, tabulate": [PYTHON, "-c", "import click, yaml, pydantic, tabulate"],
    "the same with pydantic.BaseModel": [PYTHON, "-c", "import click, yaml, tabulate; from pydantic import BaseModel"],
    "kvplan estimate, table": [*KVPLAN, "estimate", *MODEL, "--device", "h100-80gb"],
    "kvplan estimate, json": [*KVPLAN, "estimate", *MODEL, "--format", "json"],
    "the same from a local config.json": [*KVPLAN, "estimate", str(FOLDER / "config.json"), *MODEL[1:], "--format", "json"],
}


def seconds(command: list[str]) -> float:
    """Processor time of one whole process, its output thrown away."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Every command in turn, RUNS times after one warm-up; medians, and the median of the ratios run by run."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    for name, command in PEERS.items():
        where = [str(Path(PYTHON).parent), *([os.path.join(os.environ["PEERS"], "bin")] if os.environ.get("PEERS") else [])]
        found = shutil.which(command[0], path=os.pathsep.join(where))
        if found and subprocess.run([found, *command[1:]], capture_output=True, check=False).returncode == 0:
            COMMANDS[name] = [found, *command[1:]]
        else:
            print(f"{name}: not installed, or does not answer from local files")
    for command in COMMANDS.values():
        seconds(command)
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        for name, command in COMMANDS.items():
            times[name].append(seconds(command))
    bases = list(COMMANDS)[:3]
    print(f"{'':40} {'median ms':>10} " + " ".join(f"{'x ' + base[:22]:>24}" for base in bases))
    for name, taken in times.items():
        ratios = [statistics.median(a / b for a, b in zip(taken, times[base], strict=True)) for base in bases]
        print(f"{name:40} {statistics.median(taken) * 1000:>10.0f} " + " ".join(f"{ratio:>24.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
