"""Makes vectors of questions and the answers of an engine's own code: vectors/models.jsonl and vectors/ENGINE.jsonl, what is there is kept.

    python tools/vectors/keep.py ENGINE QUESTIONS ANSWERS [QUESTIONS ANSWERS ...] [--into vectors]

Left out are questions that the engine could not take on a CPU (`unbuilt`): those say nothing about its memory. A refusal to start stays.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
DTYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}
GIB = 1 << 30
#: Storages of tables and pointers, which are no pools.
BOOKS = re.compile(r"ptrs|strides|free_slots|mapping|^req\.req_")


def vllm(question: Row, answer: Row) -> Iterator[Row]:
    if "plans" not in answer:
        return
    asked = dict(question["settings"])
    options = {"platform": "cpu"}
    if "enable_prefix_caching" in asked:
        options["enable_prefix_caching"] = asked.pop("enable_prefix_caching")
    settings = asked | {"dtype": DTYPES[answer["dtype"]], "max_num_batched_tokens": answer["batch"]}
    for size, plan in zip(question["memory"], answer["plans"], strict=True):
        expect: Row = {"length": answer["length"]}
        if "refused" in plan:
            expect = {"refused": plan["refused"]}
        elif plan["groups"]:
            names = ("kind", "layers", "block_tokens", "page_bytes", "n_groups")
            groups = [dict(zip(names, group, strict=True)) for group in plan["groups"]]
            expect |= {"blocks": plan["blocks"], "tokens": plan["tokens"], "concurrency": plan["concurrency"], "groups": groups}
        yield {"memory_bytes": size, "settings": settings, "options": options, "expect": expect}


def sglang(question: Row, answer: Row) -> Iterator[Row]:
    """Its runs are rows of their own form: `out` with the figures and the bytes of every tensor."""
    s = question["settings"]
    names = {"tp": s["tp"], "block_size": s["page_size"], "max_model_len": s["context_length"], "max_num_seqs": s["max_running_requests"],
             "memory_fraction": s["mem_fraction_static"], "device": "h100-80gb"}  # fmt: skip
    settings = {key: value for key, value in names.items() if value is not None}
    words = answer.get("error", "")
    out = answer.get("out")
    if out is None:
        if not re.search("Not enough memory|leave no GPU memory|cannot hold even one|greater than the derived", words):
            return
        rest = int((question["after_gib"] - question["before_gib"] * (1 - s["mem_fraction_static"])) * GIB)
        yield {"memory_bytes": rest, "settings": settings, "options": s["args"], "expect": {"refused": words[:200]}}
        return
    backend = (out.get("asked") or {}).get("attention_backend")
    options = s["args"] | ({"attention_backend": backend} if backend else {})
    bytes_ = sum(n for name, n in out["bytes"].items() if not BOOKS.search(name))
    cells = {"full": out["full_max_total_num_tokens"], "window": out["swa_max_total_num_tokens"], "state": out["max_mamba_cache_size"]}
    if not cells["window"]:
        cells["full"] = cells["window"] = None
    expect = {"tokens": out["max_total_num_tokens"], "block_tokens": out["page_size"], "pool_bytes": bytes_,
              "cells": {key: value for key, value in cells.items() if value is not None}}  # fmt: skip
    yield {"memory_bytes": out["rest_bytes"], "settings": settings, "options": options, "expect": expect}


def llama_cpp(question: Row, answer: Row) -> Iterator[Row]:
    if "unbuilt" in answer:
        return
    s = question["settings"]
    settings = {"max_model_len": s["n_ctx"], "max_num_seqs": s["n_seq_max"], "max_num_batched_tokens": s["n_batch"],
                "kv_dtype": f"{s['type_k']}/{s['type_v']}"}  # fmt: skip
    options = {key: s[key] for key in ("n_ubatch", "kv_unified", "flash_attn", "swa_full")}
    if "refused" in answer:
        words = " ".join(answer["refused"]).strip()
        if words:
            yield {"settings": settings, "options": options, "expect": {"refused": words}}
        return
    names, states = ("mib", "cells", "layers", "streams", "k_mib", "v_mib"), ("mib", "cells", "layers", "k_mib", "v_mib")
    groups = [dict(zip(names, cache, strict=True)) for cache in answer["caches"]]
    groups += [dict(zip(states, state, strict=True)) for state in answer.get("states", ())]
    yield {"settings": settings, "options": options, "expect": {"groups": groups, "output_mib": answer["output"]}}


def transformers(question: Row, answer: Row) -> Iterator[Row]:
    for (batch, tokens), size in zip(question["runs"], answer.get("cache_bytes", ()), strict=False):
        yield {"settings": {"batch": batch, "context": tokens}, "expect": {"cache_bytes": size}}


MAKERS = {"vllm": vllm, "sglang": sglang, "llama.cpp": llama_cpp, "transformers": transformers}


def made(engine: str, questions: Path, answers: Path) -> Iterator[tuple[Row, Row]]:
    """(model, vector) of every question that the engine answered."""
    asked = {row["id"]: row for row in _rows(questions)}
    for answer in _rows(answers):
        question = asked[answer["id"]]
        model = {"id": question["model"], **{key: question[key] for key in ("config", "arch", "geometry") if key in question}}
        release = answer.get("release") or answer.get(engine)
        for i, vector in enumerate(MAKERS[engine](question, answer)):
            yield model, {"id": f"{engine} {release} {question['id'].split(' ', 1)[1]} {i}", "engine": engine, "release": release,
                          "model": question["model"], **vector}  # fmt: skip


def _rows(path: Path) -> Iterator[Row]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("engine", choices=sorted(MAKERS))
    p.add_argument("files", nargs="+", type=Path)
    p.add_argument("--into", type=Path, default=Path("vectors"))
    a = p.parse_args()
    a.into.mkdir(exist_ok=True)
    homes = a.into / "models.jsonl", a.into / f"{a.engine}.jsonl"
    models, vectors = ({row["id"]: row for row in _rows(path)} if path.exists() else {} for path in homes)
    for questions, answers in zip(a.files[::2], a.files[1::2], strict=True):
        for model, vector in made(a.engine, questions, answers):
            models[model["id"]], vectors[vector["id"]] = model, vector
    for path, rows in zip(homes, (models, vectors), strict=True):
        path.write_text("".join(json.dumps(rows[key], separators=(",", ":")) + "\n" for key in sorted(rows)), encoding="utf-8")
    print(f"{len(vectors)} vectors of {a.engine}, {len(models)} models")


if __name__ == "__main__":
    main()
