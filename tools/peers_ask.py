"""One peer tool's bytes of cache, asked through its own functions; run by the interpreter that has it (tools/peers.py starts it).

    VENV/bin/python tools/peers_ask.py PEER < rows.jsonl > answers.jsonl

A row has `id`, `config` and `length`; the answer `bytes`, what one sequence of that length takes in bf16, or `refused`. Nothing is fetched.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import io
import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Config = dict[str, Any]


def ridgepoint(config: Config, length: int) -> float:
    """Its plan of an H100, of which the bytes of one sequence are read."""
    hf: Any = importlib.import_module("ridgepoint.hf")
    peer: Any = importlib.import_module("ridgepoint")

    def download(repo: str, name: str, revision: str) -> Config:
        if name != "config.json":
            raise FileNotFoundError(name)
        return config

    hf._download_json, hf._safetensors_shards = download, lambda *rest: []
    said = json.loads(peer.fit("drawn/model", "h100-80gb", ctx=length, as_json=True))
    return float(said["capacity"]["bytes_per_seq"])


def kvfit(config: Config, length: int) -> float:
    peer: Any = importlib.import_module("kvfit.architectures")
    return float(peer.estimate_cache(config, context_tokens=length).total_bytes)


def llm_d_planner(config: Config, length: int) -> float:
    peer: Any = importlib.import_module("planner.capacity_planner")
    return float(peer.KVCacheDetail("drawn/model", SimpleNamespace(**config), length, 1).per_request_kv_cache_bytes)


def hf_mem(config: Config, length: int) -> float:
    peer: Any = importlib.import_module("hf_mem.safetensors.kv_cache")
    return float(peer.compute_safetensors_kv_cache_size(config, "BF16", length, 1))


def vramscout(config: Config, length: int) -> float:
    model: Any = importlib.import_module("vramscout.model")
    memory: Any = importlib.import_module("vramscout.memory")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        return float(memory.cache_memory_gib(model.inspect_model(str(path)), length, 1, "bf16")) * (1 << 30)


def vllm_wizard(config: Config, length: int) -> float:
    metadata: Any = importlib.import_module("vllm_wizard.models.metadata")
    memory: Any = importlib.import_module("vllm_wizard.planning.memory")
    return float(memory.compute_kv_cache_memory(metadata._parse_config(config, "drawn/model"), length, 1))


def modelinfo(config: Config, length: int) -> float:
    peer: Any = importlib.import_module("modelinfo.calculator")
    return float(peer.calculate_footprint({}, length, 1, config)["kv_cache_bytes"])


#: Distribution -> what asks it.
PEERS = {
    "ridgepoint": ridgepoint, "kvfit": kvfit, "llm-d-planner": llm_d_planner, "hf-mem": hf_mem, "vramscout": vramscout,
    "vllm-wizard": vllm_wizard, "modelinfo-cli": modelinfo,
}  # fmt: skip


def main() -> None:
    name = sys.argv[1]
    print(json.dumps({"version": importlib.metadata.version(name)}))
    for line in sys.stdin:
        row = json.loads(line)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                size = PEERS[name](row["config"], row["length"])
            answer: Config = {"bytes": size} if size > 0 else {"refused": "no cache"}
        except (Exception, SystemExit) as error:
            answer = {"refused": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps({"id": row["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
