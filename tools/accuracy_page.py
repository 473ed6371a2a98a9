"""docs/accuracy.md: kvplan beside what engines' own code answered, beside logs, beside peers, and what is not covered.

    python tools/accuracy_page.py count     asks everything anew and keeps the counts in benchmarks/kept/accuracy.json
    python tools/accuracy_page.py write     writes docs/accuracy.md from those, benchmarks/kept/peers.json and docs/budget.md

`make accuracy` does both. Rows that are not published with the project are counted where they lie beside the checkout; elsewhere the
counts of the last time stay, with their date.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import accuracy_lines
import marks
import sglang_starts

KEPT, STARTS, PEERS = (ROOT / "benchmarks" / "kept" / f"{name}.json" for name in ("accuracy", "sglang_starts", "peers"))
PAGE = ROOT / "docs" / "accuracy.md"
SHARED = ROOT.parent / "shared" / "data"
Row = dict[str, Any]
WORDS = ("rows", "right", "refused", "unsupported", "wrong")


def vectors() -> Iterator[Row]:
    from kvplan.vectors import answer, judge, read

    found = list(read.vectors(ROOT / "vectors"))
    for row in judge.counted(judge.judged(found, {a["id"]: a for a in answer.answers(found)})):
        yield _row(f"vectors/{row['engine']}.jsonl", f"{row['engine']} {row['release']}", Counter({w: row[w] for w in WORDS[1:]}))


def _row(source: str, what: str, words: Counter[str]) -> Row:
    return {"source": source, "what": what, "rows": sum(words.values()), **{w: words[w] for w in WORDS[1:]}}


def own_rows() -> Iterator[Row]:
    from tests.oracle import test_own_rows, test_vllm_rows
    from tests.oracle.sglang_figures import differing

    words = Counter("wrong" if test_vllm_rows.differing(row) else "refused" if "refused" in row else "right" for row in test_vllm_rows.ROWS)
    yield _row("tests/oracle/rows/vllm.jsonl", "vllm, twelve releases 0.9.2 to 0.33.0", words)
    words = Counter(
        "wrong" if differing(test_own_rows.predicted(row), row) else "refused" if "error" in row else "right" for row in test_own_rows.ROWS
    )
    yield _row("tests/oracle/rows/sglang.jsonl", "sglang, 27 releases 0.4.6.post5 to 0.5.23", words)


def own_lmdeploy() -> Iterator[Row]:
    from tests.oracle import test_lmdeploy_rows as own

    words = Counter("wrong" if own.differing(row) else "refused" if "error" in row else "right" for row in own.ROWS)
    yield _row("tests/oracle/rows/lmdeploy.jsonl", "lmdeploy, 14 releases 0.5.3 to 0.18.0", words)


def own_tensorrt_llm() -> Iterator[Row]:
    from tests.oracle import test_tensorrt_llm_rows as own

    words = Counter("wrong" if own.differing(row) else "right" for row in own.ROWS)
    yield _row("tests/oracle/rows/tensorrt_llm.jsonl", "tensorrt-llm, functions of its source as of 1.3", words)


def own_llama_cpp() -> Iterator[Row]:
    from tests.oracle import test_llama_cpp_own_rows as own

    with tempfile.TemporaryDirectory() as folder:
        words = Counter(
            "right" if own.predicted(row, Path(folder) / f"{n}.gguf") == row["out"] else "wrong" for n, row in enumerate(own.ROWS)
        )
    yield _row("tests/oracle/rows/llama_cpp.jsonl", "llama.cpp b11549", words)


def shared_vllm() -> Iterator[Row]:
    from tests.oracle import test_vllm as oracle

    found = oracle.rows()
    words = Counter("wrong" if oracle.mismatches(row) else "refused" if row.get("refused") else "right" for row in found)
    yield from [_row("rows beside the checkout", "vllm 0.32.0, released models", words)] if found else []


def shared_sglang() -> Iterator[Row]:
    from tests.oracle import test_sglang_rows as oracle

    found = [row for release in oracle.RELEASES for row in oracle.rows(release)] if oracle.ORACLE.exists() else []
    words = Counter("wrong" if oracle.mismatches(row) else "refused" if "error" in row else "right" for row in found)
    yield from [_row("rows beside the checkout", "sglang, eight releases, released models", words)] if found else []


def shared_llama_cpp() -> Iterator[Row]:
    from tests.oracle import test_llama_cpp_rows as oracle

    if not (SHARED / "llamacpp_oracle.jsonl").exists():
        return
    words = Counter("wrong" if oracle.faults(oracle.ask(row), row) else "right" if row["ok"] else "refused" for row in oracle.rows())
    yield _row("rows beside the checkout", "llama.cpp b11312, printed sizes and warnings", words)


def shared_transformers() -> Iterator[Row]:
    from tests.oracle import test_transformers_cache as oracle

    if not all((SHARED / name).exists() for name in oracle.FILES):
        return
    words: Counter[str] = Counter()
    for path, model in oracle.models():
        wrong = {fault.split(":")[0].split(" by ")[0] for fault in oracle.faults(path, model)}
        words += Counter({"wrong": len(wrong), "right": len(oracle.measured(model)) - len(wrong)})
    yield _row("rows beside the checkout", "transformers 5.23.0, caches of forwards", words)


SOURCES: tuple[Callable[[], Iterator[Row]], ...] = (
    vectors,
    own_rows,
    own_lmdeploy,
    own_tensorrt_llm,
    own_llama_cpp,
    shared_vllm,
    shared_sglang,
    shared_llama_cpp,
    shared_transformers,
)


def count() -> None:
    """Asks everything; rows that are not there now keep what was counted before."""
    before = {(r["source"], r["what"]): r for r in json.loads(KEPT.read_text(encoding="utf-8"))} if KEPT.exists() else {}
    date = datetime.now(tz=UTC).date().isoformat()
    now = {(r["source"], r["what"]): {**r, "date": date} for source in SOURCES for r in source()}
    kept = {key: row for key, row in before.items() if key[0] == "rows beside the checkout"} | now
    starts = (json.dumps(row) for row in sglang_starts.counted(list(sglang_starts.starts())))
    STARTS.write_text("[\n" + ",\n".join(starts) + "\n]\n", encoding="utf-8")
    KEPT.write_text("[\n" + ",\n".join(json.dumps(kept[key]) for key in sorted(kept)) + "\n]\n", encoding="utf-8")


_HEAD = """# Accuracy, beside engines, logs and peers

Made by `make accuracy`; a test compares the page with what it is made of. What "exact" and "modelled" mean is in
[accuracy and its limits](limits.md).

## Beside the engines' own code

Each row is a question that an engine's own code answered: blocks, tokens, groups, pools, bytes. *Right* is every figure equal; *refused*
is a refusal to start that kvplan makes, too; *not answered* is where kvplan says that it does not know. Rows "beside the checkout" are
of released models' configs that are not published with the project; the others are in the repository, and
[anyone can be held against them](vectors.md).
"""

_LOGS = """## Beside start-up logs

Every case is predicted without its own group. Every kind of case, and every wrong verdict by name, is in
[the budget's table](budget.md#how-far-off-it-is), which the same command writes. TensorRT-LLM and SGLang have few logs (six that count
are of other engines than vLLM), so little follows from theirs; SGLang's pools are held against public starts that tell their tokens, to
which nothing is fitted (`tools/sglang_starts.py` names each).
"""

_PEERS = """## Beside peers

Other tools that size caches, asked the same in one run: how many requests of the model's length fit into the memory that a rank has, on
one GPU. The truth is the concurrency that vLLM's own planner reported (`vectors/vllm.jsonl`, the largest memory of each model). Each peer
says on its own terms what one request takes, through its own functions; the models are drawn, in 29 families, and many of those have
windows, latents or states, which some peers do not claim to know. Right is within 1 %, for blocks round up; *too many* and *too few* are
off by more than 5 %. Too many is the error that ends in an engine that can not hold what was promised. `make accuracy PEERS=VENV` runs it.
"""

_NOT = """## What is not covered

| what | how it stands |
|---|---|
| GPUs | receipts are of CPUs and one H200 ([measured](validation.md)): caches and transformers' classes, no other engine |
| vLLM's rows | its CPU platform and its planner; a CUDA platform's own choices rest on reading its code and on logs |
| MLX-LM, ExLlamaV3 | no rows of their own code here; formulas read from the source, few logs or none |
| TensorRT-LLM | its rows are of functions that size pools; its dry run, storage and engines of `trtllm-build` were never run |
| LMDeploy's TurboMind | its rows hold which models it takes and its settings; its pools are C++, read and worked by hand |
| peers' other answers | weights, overheads and speeds are not compared: they have no question in common |

What else kvplan does not model is in [its limits](limits.md#what-is-not-covered).
"""


def page() -> str:
    """The page, Markdown, from what is kept."""
    rows, peers = json.loads(KEPT.read_text(encoding="utf-8")), json.loads(PEERS.read_text(encoding="utf-8"))
    budget = (ROOT / "docs" / "budget.md").read_text(encoding="utf-8")
    return (
        "\n".join([_HEAD, _exact(rows), _LOGS, _logged(budget), _RECEIPTS, _receipts(), _PEERS, _beside(peers), _NOT]).rstrip("\n") + "\n"
    )


def _exact(rows: list[Row]) -> str:
    columns = ("engine and release", "rows of", "rows", "right", "refused", "not answered", "wrong", "counted")
    total = {w: sum(r[w] for r in rows) for w in WORDS}
    lines = marks.table(columns, ((r["what"], r["source"], *(f"{r[w]:,}" for w in WORDS), r["date"]) for r in rows))
    return lines + "| all | | " + " | ".join(f"{total[w]:,}" for w in WORDS) + " | |\n"


def _logged(budget: str) -> str:
    """All of the logs, and the verdicts, as docs/budget.md has them."""
    found = accuracy_lines.summary(budget)
    off = f"{found.median} % of it (median), {found.ninth} % (90th percentile); {found.under} take more than 1 % more"
    rows = (
        (f"memory of a device, {found.logs} starts of {found.sources} sources", off),
        ("coverage of the interval that is shown", f"{found.held} %"),
        (f"the cache, {found.cache_logs} of those logs", f"{found.cache_median} % (median), {found.cache_ninth} % (90th percentile)"),
        ("starts or not, said to be certain", f"{found.sure[0]} of {found.sure[1]} right"),
        ("starts or not, said to be likely", f"{found.likely[0]} of {found.likely[1]} right"),
        ("false starts (it said that it starts; it did not)", found.false_starts),
        ("false refusals", found.false_refusals),
        *map(_pools, json.loads(STARTS.read_text(encoding="utf-8"))),
    )
    return marks.table(("what", "how far off"), rows)


def _pools(r: Row) -> tuple[str, str]:
    off = f"{r['median']} % of it (median), {r['ninth']} % (90th percentile); the interval has {r['held']} of {r['starts']}"
    return f"SGLang's pools, {r['what']}: {r['starts']} public starts of {r['sources']} sources", off


_RECEIPTS = """## Beside real memory

Receipts of tensors that were allocated, written to and measured; [all of them](validation.md).
"""


def _receipts() -> str:
    rows = []
    for path in sorted((ROOT / "validation").glob("*-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        for receipt in found if isinstance(found, list) else [found]:
            cases = receipt.get("cases", [])
            equal = sum(case["status"] in ("equal", "measured") for case in cases)
            rows.append((path.name, receipt["machine"]["name"], len(cases), equal))
    return marks.table(("receipt", "where", "cases", "equal"), rows)


def _beside(peers: Row) -> str:
    columns = ("tool", "version", "rows", "right", "right of full attention alone", "within 5 %", "too many", "too few", "refused",
               "median error")  # fmt: skip
    rows = []
    for r in peers["table"]:
        counts = (r[key] for key in ("near", "too_many", "too_few", "refused"))
        rows.append((r["name"], r["version"], r["rows"], r["right"], f"{r['plain_right']} of {r['plain']}", *counts, f"{r['median']} %"))
    missing = ", ".join(peers["missing"]) or "none"
    return f"{marks.table(columns, rows)}\nRun on {peers['date']} beside {peers['engine']}. Did not install: {missing}.\n"


if __name__ == "__main__":
    if "count" in sys.argv[1:]:
        count()
    if "write" in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
