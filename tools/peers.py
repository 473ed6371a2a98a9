"""Peer tools beside kvplan on the vectors of vLLM, one run: how many requests of its length fit into the memory that a rank has.

    python tools/peers.py VENV [--keep benchmarks/kept/peers.json]

VENV is an environment with those peers that install (`pip install ridgepoint kvfit llm-d-planner hf-mem vramscout vllm-wizard
modelinfo-cli`); nothing of them is in the project. Each says on its own terms what one request takes (tools/peers_ask.py); the memory
divided by that stands beside the concurrency that vLLM 0.32.0's own planner reported. A refusal counts as a refusal.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from peers_ask import PEERS

from kvplan.vectors import answer, read

Row = dict[str, Any]
#: Off by this much at most counts as right: blocks round a request up, and a peer need not know them.
RIGHT, NEAR = 0.01, 0.05


def rows() -> list[read.Vector]:
    """One vector a model, with the largest memory, of a single rank: what every peer can be asked."""
    found: dict[str, read.Vector] = {}
    for vector in read.vectors(ROOT / "vectors", "vllm"):
        if vector.settings.get("tp", 1) == 1 and vector.expect.get("concurrency"):
            before = found.get(vector.model["id"])
            if before is None or (vector.memory_bytes or 0) > (before.memory_bytes or 0):
                found[vector.model["id"]] = vector
    return list(found.values())


def widened(config: Row) -> Row:
    """A drawn model of attention alone as released ones are, its hidden size heads times their width: no cache depends on it, but some
    peers divide the one by the other."""
    if "head_dim" not in config or any(key.startswith(("mamba", "linear", "ssm", "state")) for key in config):
        return config
    return {**config, "hidden_size": config["num_attention_heads"] * config["head_dim"]}


def asked(venv: Path, peer: str, vectors: list[read.Vector]) -> tuple[str, dict[str, float]] | None:
    """Version, and requests that fit by vector; None where the peer is not installed there."""
    lines = [{"id": v.id, "config": widened(v.model["config"]), "length": v.expect["length"]} for v in vectors]
    done = subprocess.run(
        [str(venv / "bin" / "python"), str(ROOT / "tools" / "peers_ask.py"), peer],
        input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not said:
        return None
    memory = {v.id: v.memory_bytes or 0 for v in vectors}
    return said[0]["version"], {row["id"]: memory[row["id"]] / row["bytes"] for row in said[1:] if "bytes" in row}


def ours(vectors: list[read.Vector]) -> dict[str, float]:
    return {row["id"]: row["concurrency"] for row in answer.answers(vectors) if row.get("concurrency")}


def scored(name: str, version: str, found: dict[str, float], vectors: list[read.Vector]) -> Row:
    """How many are right, near, and too many (more than the engine holds); how many of models of full attention alone are right;
    refusals; the median error in percent of those answered."""
    errors = [found[v.id] / v.expect["concurrency"] - 1 for v in vectors if v.id in found]
    sizes = sorted(abs(e) for e in errors)
    plain = [v for v in vectors if all(group["kind"] == "full_attention" for group in v.expect["groups"])]
    plain_right = sum(v.id in found and abs(found[v.id] / v.expect["concurrency"] - 1) <= RIGHT for v in plain)
    return {
        "name": name, "version": version, "rows": len(vectors), "refused": len(vectors) - len(errors),
        "right": sum(e <= RIGHT for e in sizes), "near": sum(RIGHT < e <= NEAR for e in sizes),
        "plain": len(plain), "plain_right": plain_right,
        "too_many": sum(e > NEAR for e in errors), "too_few": sum(e < -NEAR for e in errors),
        "median": round(100 * median(sizes), 2) if sizes else None,
    }  # fmt: skip


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("venv", type=Path)
    p.add_argument("--keep", type=Path, help="write the result there, for tools/accuracy_page.py")
    a = p.parse_args()
    vectors = rows()
    table = [scored("kvplan", "this one", ours(vectors), vectors)]
    missing = []
    for peer in PEERS:
        found = asked(a.venv, peer, vectors)
        if found is None:
            missing.append(peer)
        else:
            table.append(scored(peer, *found, vectors))
    for row in table:
        print(row)
    print("not installed there:", ", ".join(missing) or "none")
    if a.keep:
        date = datetime.now(tz=UTC).date().isoformat()
        text = json.dumps({"date": date, "engine": "vllm 0.32.0", "table": table, "missing": missing}, indent=1)
        a.keep.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
