"""Keeping what a log measured in the user's calibration file, for later estimates of the same question."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from kvplan import catalogue
from kvplan.constants import MAX_RECORDS, Record, parse_records
from kvplan.engines.vllm.versions import find_rules
from kvplan.errors import SpecError
from kvplan.planner.plan import Plan
from kvplan.startup_logs.read import LoggedStart
from kvplan.units import GIB

#: Logged figure -> the ledger line it measures.
MEASURED: dict[str, str] = {"weights": "weights", "activation_peak": "activations", "non_torch": "outside torch"}


def record_of(start: LoggedStart, plan: Plan, source: str) -> Record:
    """The measured start as a record. Raises SpecError where the log lacks the figures, or the plan a device or the engine's sizes."""
    question = {name: value for name, (value, _) in plan.question.items()}
    lines = {line: int(value * GIB) for figure, line in MEASURED.items() if (value := start.value(figure)) is not None}
    names = ("tp", "pp", "max_num_seqs", "max_num_batched_tokens")
    if start.engine != "vllm":
        raise SpecError(source, [("engine", f"only vLLM's logs hold measured lines of the budget; this is {start.engine}'s")])
    if not lines or not question.get("device") or any(question.get(name) is None for name in names):
        raise SpecError(source, [("", "no measured line of a known device: needs weights, activation or non-torch figures")])
    tp, pp, seqs, tokens = (int(question[name]) for name in names)
    release, *_ = find_rules(str(question["engine_version"]))
    return Record(start.engine, release, plan.model.id, str(question["device"]), tp, pp, seqs, tokens, tuple(lines.items()), source)


def keep(record: Record, path: Path | None = None) -> Path:
    """Adds a record to the user's file, in place of an older one of the same question; the file's path.

    The file is written whole and moved into place; it never holds more than MAX_RECORDS. Raises SpecError (a broken file), OSError.
    """
    path = path or catalogue.user_calibration()
    known: tuple[Record, ...] = ()
    if path.is_file():
        known = parse_records(catalogue.parse_yaml(catalogue.read_text(path), str(path)), str(path))
    kept = [*(r for r in known if r.key != record.key), record][-MAX_RECORDS:]
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".calibration-", suffix=".yaml")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(dump(kept))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def dump(records: list[Record]) -> str:
    """The file's text."""
    import yaml

    rows = [{**record._asdict(), "lines": dict(record.lines)} for record in records]
    text: str = yaml.safe_dump({"records": rows}, sort_keys=False, allow_unicode=True, width=1000)
    return "# Measured by `kvplan reconcile --record`; used by `--calibration user`.\n" + text
