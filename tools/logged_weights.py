"""docs/weights.md's table of weights that engines logged after loading, beside ours: `python tools/logged_weights.py docs/weights.md`.

Rows are those of tests/oracle/rows/start_ups.jsonl, of tests/threads and of the log set beside the checkout; what is compared is the
fullest rank's share.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import marks
from log_cases import Case, read_cases
from own_logs import read_own

from kvplan.planner.evaluate import evaluate
from kvplan.units import GIB

#: What a row says of its weights -> the line of the table; the first that is found.
FORMATS = (
    (r"mxfp4", "MXFP4"),
    (r"nvfp4", "NVFP4"),
    (r"nf4|bnb|bitsandbytes", "NF4 (bitsandbytes)"),
    (r"w4a16|awq|gptq|int4|autoround", "4-bit groups (AWQ, GPTQ, W4A16)"),
    (r"w8a8|int8", "int8"),
    (r"fp8", "FP8"),
    (r"", "16 and 32 bits"),
)
MINUS = "\N{MINUS SIGN}"
_HALF = 0.005  # GiB: of the log's last digit


class Loaded(NamedTuple):
    """One checkpoint on one kind of card: percent that ours is above the log; whether our interval holds the log; its source."""

    format: str
    maker: str
    off: float
    held: bool
    source: str


def loaded(found: Case) -> Loaded | None:
    """None where the row is not vLLM's, says no weights or can not be asked."""
    row, d = found.row, found.deployment
    logged = row["logged"].get("weights_gib")
    if not logged or d is None or d.device is None or row["engine"] != "vllm":
        return None
    ranks = [[e for e in ledger.entries if e.kind == "weights"] for ledger in evaluate(d).ledgers]
    lines = max(ranks, key=lambda entries: sum(e.bytes for e in entries))
    ours, low, high = (sum(getattr(e, end) for e in lines) / GIB for end in ("bytes", "low", "high"))
    said = f"{row.get('model')} {row.get('weights') or row.get('weight_dtype_or_quant')} {row.get('extra_flags')}".lower()
    format_ = next(name for pattern, name in FORMATS if re.search(pattern, said))
    maker = "AMD" if d.device.vendor == "amd" else "NVIDIA"
    return Loaded(format_, maker, 100 * (ours / logged - 1), low - _HALF <= logged <= high + _HALF, found.group)


def table(cases: list[Case]) -> str:
    """Markdown: a line per format and maker of cards. One figure of a source, to its last digit, is one observation."""
    groups: dict[tuple[str, str], set[Loaded]] = defaultdict(set)
    for found in filter(None, map(loaded, cases)):
        groups[found.format, found.maker].add(found._replace(off=round(found.off, 1) or 0.0))
    rows = []
    for format_, maker in sorted(groups, key=lambda key: ([name for _, name in FORMATS].index(key[0]), key[1]), reverse=True):
        mine = groups[format_, maker]
        off = sorted(one.off for one in mine)
        spread = f"{off[0]:+.1f} %, {median(off):+.1f} %, {off[-1]:+.1f} %".replace("-", MINUS)
        sources, held = len({one.source for one in mine}), sum(one.held for one in mine)
        rows.append((format_, maker, f"{len(mine)}, {sources}", spread, f"{held} of {len(mine)}"))
    return marks.table(("weights", "cards", "figures, sources", "least, median, most above the log", "in the interval"), rows)


def written(page: str) -> str:
    """The page with the table between the marks."""
    return marks.between(page, "logged_weights.py", table([*read_own(), *read_cases()]))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(written(target.read_text(encoding="utf-8")), encoding="utf-8")
