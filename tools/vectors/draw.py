"""Draws questions for an engine's own code: one JSON object a line, the same for the same seed.

    python tools/vectors/draw.py vllm|sglang|llama.cpp|transformers [--models N] [--seed S]

`run_*.py` beside this file hands them to the engine, `keep.py` makes vectors of questions and answers.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import geometries
import llama_cpp_files

MIB = 1 << 20
Question = dict[str, Any]
#: Families that one engine or the other has no class for, or reads otherwise than its checkpoints are written.
NOT_VLLM = ("mamba", "jamba")
NOT_SGLANG = (
    "mamba",
    "mamba2",
    "jamba",
    "smollm3",
    "lfm2",
    "gpt2",
    "falcon",
    "opt",
    "nemotron-h",
    "granite-hybrid",
    "falcon-h1",
    "granite",
)
#: Models that step through their tokens one by one.
STEPS = ("mamba", "jamba")


def models(n: int, seed: int, without: tuple[str, ...] = ()) -> Iterator[tuple[str, str, geometries.Config]]:
    """(id, family, config), `n` of each family."""
    for family in geometries.FAMILIES:
        if family not in without:
            yield from ((f"{family}-{seed}.{i}", family, geometries.draw(family, i, seed)) for i in range(n))


def vllm(n: int, seed: int) -> Iterator[Question]:
    for name, _, config in models(n, seed, NOT_VLLM):
        r = random.Random(f"vllm {name}")
        heads = config.get("num_key_value_heads") or 1
        queries = config.get("num_attention_heads") or config.get("n_head") or config.get("num_heads") or 1
        tp = r.choice([t for t in (1, 1, 2, 4, 8) if queries % t == 0 and (heads % t == 0 or t % heads == 0)])
        settings = {
            "tp": tp, "max_model_len": r.choice([None, 1024, 2048, 4000, config.get("max_position_embeddings")]),
            "block_size": r.choice([None, None, 32, 64, 128, 256]), "max_num_seqs": r.choice([None, 8, 64]),
            "max_num_batched_tokens": r.choice([None, 2048, 4096, 8192]), "enable_prefix_caching": r.choice([None, None, True, False]),
        }  # fmt: skip
        settings = {key: value for key, value in settings.items() if value is not None}
        sizes = [r.randint(1, 64) * MIB, r.randint(200, 900) * MIB, r.randint(1 << 30, 12 << 30), r.randint(20 << 30, 120 << 30)]
        yield {"id": f"vllm {name}", "model": name, "config": config, "settings": settings, "memory": sizes}


def sglang(n: int, seed: int) -> Iterator[Question]:
    for name, family, config in models(n, seed, NOT_SGLANG):
        r = random.Random(f"sglang {name}")
        for i in range(4):
            before, fraction = r.choice([78.5, 139.75, 94.5]), r.choice([0.75, 0.8125, 0.875])
            settings: dict[str, Any] = {
                "tp": r.choice([t for t in (1, 2, 4, 8) if config.get("num_attention_heads", 1) % t == 0]),
                "page_size": r.choice([None, 1, 16, 64]), "context_length": r.choice([None, 2048, 4096]),
                "max_running_requests": r.choice([None, None, 32, 256]), "mem_fraction_static": fraction, "args": {},
            }  # fmt: skip
            if r.random() < 0.15:
                settings["args"]["max_total_tokens"] = r.choice([20000, 131072])
            if family in ("gemma2", "gemma3", "gpt-oss", "olmo3", "cohere2", "exaone4") and r.random() < 0.4:
                settings["args"]["swa_full_tokens_ratio"] = r.choice([0.5, 0.25, 1.0])
            if family == "qwen3-next" and r.random() < 0.4:
                settings["args"]["mamba_full_memory_ratio"] = r.choice([0.5, 0.2, 1.5])
            if r.random() < 0.15:
                settings["args"]["disable_radix_cache"] = True
            after = before - r.choice([5, 20.25, 33.125])
            yield {"id": f"sglang {name} {i}", "model": name, "config": config, "settings": settings, "before_gib": before,
                   "after_gib": max(after, before * (1 - fraction) + r.choice([0.5, 4.5, 9.75]))}  # fmt: skip


def transformers(n: int, seed: int) -> Iterator[Question]:
    for name, family, config in models(n, seed):
        r = random.Random(f"transformers {name}")
        window = config.get("sliding_window") or 600
        most = 40 if family in STEPS else 1000 if family in ("opt", "gpt2") else 1 << 20
        runs = [[1, r.randint(1, 40)], [r.randint(1, 4), min(most, r.randint(100, 900))], [1, min(most, window + r.randint(1, 99))]]
        yield {"id": f"transformers {name}", "model": name, "config": config, "runs": runs}


def llama_cpp(n: int, seed: int) -> Iterator[Question]:
    for arch in llama_cpp_files.ARCHITECTURES:
        for i in range(n):
            geometry = llama_cpp_files.draw(arch, i, seed)
            r = random.Random(f"llama.cpp {arch} {i} {seed}")
            for j in range(5):
                settings = {
                    "n_ctx": r.choice([256, 512, 1000, 2048, 4096]), "n_batch": r.choice([512, 2048]), "n_ubatch": r.choice([128, 512]),
                    "n_seq_max": r.choice([1, 1, 2, 4, 7]), "kv_unified": r.random() < 0.3, "swa_full": r.random() < 0.3,
                    "type_k": r.choice(["f16", "f16", "q8_0", "q4_0", "bf16", "f32"]),
                    "type_v": r.choice(["f16", "f16", "q8_0", "q4_0", "q5_1", "bf16"]), "flash_attn": r.choice(["on", "on", "off"]),
                }  # fmt: skip
                name = f"gguf-{arch}-{seed}.{i}"
                yield {"id": f"llama.cpp {name} {j}", "model": name, "arch": arch, "geometry": geometry, "settings": settings}


ENGINES = {"vllm": vllm, "sglang": sglang, "llama.cpp": llama_cpp, "transformers": transformers}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("engine", choices=sorted(ENGINES))
    p.add_argument("--models", type=int, default=10, help="of each family")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    for question in ENGINES[a.engine](a.models, a.seed):
        print(json.dumps(question))


if __name__ == "__main__":
    main()
