"""Hits on public traces, counted by vLLM's own KVCacheManager and SGLang's own RadixCache, beside ours.

`rows/mooncake.jsonl` has the first requests of two of Mooncake's traces and what the engines counted for them (rows/README.md); it is
compared everywhere. With TRACES=folder of `conversation_trace.jsonl` and `synthetic_trace.jsonl` the whole traces are counted, and with
HIT_COUNTS=write the rows are written; both where the engines can be driven (CONTRIBUTING.md).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_hit_counts import Driven, DrivenTree, counted
from test_sglang_radix import Theirs as Radix
from test_sglang_radix import sglang  # noqa: F401
from test_vllm_manager import (
    BLOCK,
    MODELS,
    their_manager,  # noqa: F401
)

from kvplan.simulate import Request, read
from kvplan.simulate.geometry import Geometry, PageGroup
from kvplan.simulate.run import alone
from kvplan.simulate.stack import chain, stack

ROWS = Path(__file__).parent / "rows" / "mooncake.jsonl"
EXCERPTS = {"synthetic": 500}  # requests of each; conversations come back too late for an excerpt of theirs to find much
TRACES = ("conversation", "synthetic")
UNIT = 512  # tokens that one hash of the traces stands for


def blocks_of(request: Request) -> list[Any]:
    """[full blocks of the prompt and whether a part is left, the same of all that is stored, hashes]; ids count from 1."""
    stored = request.prompt + request.output - 1
    ids = [stream - (1 << 42) + 1 for stream, end in request.content if end % UNIT == 0]
    return [request.prompt // UNIT, int(request.prompt % UNIT > 0), stored // UNIT, int(stored % UNIT > 0), ids]


def request_of(row: list[Any], block: int) -> Request:
    """The request in blocks of `block` tokens; a part is one token."""
    full, part, all_full, all_part, ids = row
    prompt, stored = full * block + part, all_full * block + all_part
    return Request(0.0, prompt, max(stored - prompt, 0) + 1, tuple((one, (n + 1) * block) for n, one in enumerate(ids)))


def excerpt(name: str, most: int | None) -> list[list[Any]]:
    lines = Path(os.environ["TRACES"], f"{name}_trace.jsonl").read_text().splitlines()
    return [blocks_of(request) for request in read(lines[:most], "mooncake", name)]


def sizes(requests: list[Request], block: int, n: int) -> list[int]:
    """From what the largest request needs to what leaves nothing to find, each the same factor above the last."""
    found = stack(chain(request, block) for request in requests)
    low, high = found.largest + 1, found.working_set + 2
    return [round(low * (high / low) ** (i / (n - 1))) for i in range(n)]


def engines_count(engine: str, made: Callable[[int], Driven], name: str, rows: list[list[Any]], n: int) -> list[list[int]]:
    """[pages, tokens found] at n sizes."""
    block = BLOCK if engine == "vllm" else 1
    requests = [request_of(row, block) for row in rows]
    found = []
    for pages in sizes(requests, block, n):
        found.append([pages, counted(made(pages), requests, longest=1 << 20)])
        one_pass = stack(chain(request, block) for request in requests)
        said = ours(requests, block, pages), one_pass.found(pages) * block, one_pass.again
        print(engine, name, len(requests), *found[-1], "ours, one pass, last blocks computed again:", *said, flush=True)  # noqa: T201
    return found


def ours(requests: list[Request], block: int, pages: int) -> int:
    """By our manager of the same kind."""
    pool = Geometry((PageGroup("full", block),), pages, 1 << 20, sort="radix" if block == 1 else "blocks")
    return round(alone(pool, requests, pages) * sum(request.prompt for request in requests))


def kept() -> dict[str, dict[str, Any]]:
    return {row["trace"]: row for row in map(json.loads, ROWS.read_text().splitlines())} if ROWS.exists() else {}


def check(engine: str, made: Callable[[int], Driven]) -> None:
    rows = kept()
    if os.environ.get("HIT_COUNTS") == "write":
        for name, most in EXCERPTS.items():
            row = rows.setdefault(name, {"trace": name, "requests": excerpt(name, most)})
            row[engine] = engines_count(engine, made, name, row["requests"], 20)
        ROWS.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows.values()))
    for name, row in rows.items():
        assert engines_count(engine, made, name, row["requests"], 20) == row[engine]
    for name in TRACES if os.environ.get("TRACES") and os.environ.get("HIT_COUNTS") != "write" else ():
        whole = excerpt(name, None)
        requests = [request_of(row, BLOCK if engine == "vllm" else 1) for row in whole]
        for pages, found in engines_count(engine, made, name, whole, int(os.environ.get("TRACE_SIZES", "5"))):
            assert ours(requests, BLOCK if engine == "vllm" else 1, pages) == found


@pytest.mark.vllm_oracle
@pytest.mark.filterwarnings("ignore")
def test_vllm_counts_so(their_manager: Any) -> None:  # noqa: F811
    check("vllm", lambda pages: Driven(their_manager(MODELS["full"], pages, True, 1 << 20), pages))


@pytest.mark.sglang_oracle
@pytest.mark.filterwarnings("ignore")
def test_sglang_counts_so(sglang: Any) -> None:  # noqa: F811
    check("sglang", lambda pages: DrivenTree(Radix(sglang, pages, 1), pages))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("name", EXCERPTS)
def test_we_count_what_the_engines_managers_count(name: str, engine: str) -> None:
    """At twenty sizes by our managers, and vLLM's by the one pass too, but for last blocks that are computed again."""
    row, block = kept()[name], BLOCK if engine == "vllm" else 1
    requests = [request_of(one, block) for one in row["requests"]]
    assert [[pages, ours(requests, block, pages)] for pages, _ in row[engine]] == row[engine]
    if engine == "vllm":
        one_pass = stack(chain(request, block) for request in requests)
        for pages, found in row[engine]:
            assert one_pass.found(pages - one_pass.again) * block <= found <= one_pass.found(pages + one_pass.again) * block
    assert len(requests) == EXCERPTS[name]
    assert len({found for _, found in row[engine]}) > 8
