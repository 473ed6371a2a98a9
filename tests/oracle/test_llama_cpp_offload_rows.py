"""What llama.cpp itself puts where (rows/README.md): weights, caches and compute buffers of every device, and what --fit chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.engines import find
from kvplan.engines.common.command_line import read
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.words import words
from kvplan.engines.llama_cpp.arguments import ARGUMENTS
from kvplan.importers.gguf import read_gguf
from kvplan.ledger import Ledger
from tests.conftest import rows_of
from tests.oracle.llama_cpp_files import Sizes, write

MIB = 1 << 20
ROWS = rows_of(Path(__file__).parent / "rows" / "llama_cpp_offload.jsonl")


def settled(row: dict[str, Any], path: Path) -> Settled:
    """The row's command line asked of our engine, on cards with so many MiB and RAM without end."""
    file = read_gguf(write(path, Sizes(**row["model"])))
    said = read(ARGUMENTS, words("-m", path.name, *row["args"].split()), {}, None).question
    options = {key[14:]: str(one.value) for key, one in said.items() if key.startswith("engine_option.") and key != "engine_option.server"}
    asked = {key: one.value for key, one in said.items() if not key.startswith("engine_option.") and key != "model"}
    sizes = [n * MIB for n in row["cards"]]
    if len(set(sizes)) > 1:
        options["device_memory"] = ",".join(map(str, sizes))
    asked = {"n_devices": len(sizes), "max_num_seqs": 1} | asked
    card = Device(id="card", name="a card", vendor="nvidia", memory_gb=1, size_bytes=sizes[0])
    question = Deployment(
        model=file.spec, stored=file.stored, engine="llama.cpp", device=card, host_memory=1 << 45, engine_option=tuple(options.items()),
        **asked,
    )  # fmt: skip
    return find("llama.cpp").settle(question)


def held(ledger: Ledger) -> dict[str, int]:
    return {
        "weights": sum(e.bytes for e in ledger.entries if e.kind == "weights"),
        "cache": ledger.cache_bytes,
        "low": sum(e.low for e in ledger.entries if e.kind == "activations"),
        "high": sum(e.high for e in ledger.entries if e.kind == "activations"),
    }


NOTHING = {"weights": 0, "cache": 0, "low": 0, "high": 0}


def test_every_device_holds_what_the_engine_gives_it(tmp_path: Path) -> None:
    """Weights to the byte but for CUDA's padding of rows that are not whole 512 elements (one per matrix), caches likewise."""
    wrong, wide = {}, 0
    rows = [row for row in ROWS if "out" in row]
    for n, row in enumerate(rows):
        asked = settled(row, tmp_path / "x.gguf")
        ledgers = {"Host" if one.device == "host" else f"CUDA{one.ranks[0]}": held(one) for one in find("llama.cpp").plan(asked).ledgers}
        padding = 20 * (row["model"]["n"] + 1) * 512 * 4
        for device, (weights, cache, compute) in row["out"].items():
            ours = ledgers.get(device, NOTHING)
            if not 0 <= weights - ours["weights"] <= padding or not 0 <= cache - ours["cache"] <= padding:
                wrong[n, device] = (row["args"], (weights, cache), (ours["weights"], ours["cache"]))
            wide += not ours["low"] - 32 * MIB <= compute <= ours["high"] + 32 * MIB
    assert not wrong
    assert len(rows) == 110
    assert wide <= 15  # of some 300 devices: those with the last layer alone, which is computed for few tokens


def chosen(asked: Settled) -> dict[str, Any]:
    fitted, question = asked.settings.fitted, asked.question
    where = fitted.where if fitted else None
    split = [[*where.layers, where.output].count(device) for device in range(where.n_devices)] if where and where.n_devices > 1 else None
    layers = min(question.n_gpu_layers or 0, len(asked.settings.loaded.rows) + 1)
    return {"c": question.max_model_len, "layers": layers, "split": split, "parts": fitted.beside if fitted else 0}


def test_fit_chooses_what_the_engine_chooses(tmp_path: Path) -> None:
    """Within 3 % of the context and one or 3 % of the layers: compute buffers are modelled, so that the last layer may go either way."""
    wrong = {}
    rows = [row for row in ROWS if "fit" in row]
    for n, row in enumerate(rows):
        theirs, ours = row["fit"], chosen(settled(row, tmp_path / "x.gguf"))
        near = 1 + row["model"]["n"] * 0.03
        same = abs(ours["c"] - theirs["c"]) <= max(512, theirs["c"] * 0.03) and abs(ours["layers"] - theirs["layers"]) <= near
        if theirs["split"] and ours["split"]:
            dealt = theirs["split"] + [0] * (len(ours["split"]) - len(theirs["split"]))
            same = same and all(abs(a - b) <= near + 1 for a, b in zip(dealt, ours["split"], strict=True))
        if not same:
            wrong[n] = (row["args"], theirs, ours)
    assert len(rows) == 70
    assert len(wrong) <= 2, wrong


@pytest.mark.parametrize("mode", ["row", "tensor"])
def test_split_modes(tmp_path: Path, mode: str) -> None:
    """b11312 has no rows on CUDA; by tensors it allocated 2,421,690,368 bytes of weights and 512 MiB of cache on each of two cards."""
    model = {
        "arch": "llama", "n": 32, "d": 4096, "heads": 32, "kv": 8, "hd": 128, "ff": 14336, "vocab": 128256, "q": "q4_K", "down": "q6_K",
        "ctx": 131072,
    }  # fmt: skip
    asked = settled({"model": model, "cards": [48000, 48000], "args": f"-c 8192 -ngl 99 -sm {mode}"}, tmp_path / "x.gguf")
    outcome = find("llama.cpp").plan(asked)
    if mode == "row":
        assert outcome.reason == "error loading model: device CUDA0 does not support split buffers (--split-mode row)"
        return
    cards = [held(ledger) for ledger in outcome.ledgers[:2]]
    assert [(card["weights"], card["cache"]) for card in cards] == [(2_421_690_368, 512 * MIB)] * 2
