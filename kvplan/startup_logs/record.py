"""Keeping what logs measured in the user's calibration file, for later estimates: starts as they were, and constants fitted on them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kvplan import catalogue
from kvplan.constants import MAX_RECORDS, Fitted, Record, UserFile
from kvplan.engines.common.measured import record_key
from kvplan.engines.llama_cpp import rules as llama_cpp
from kvplan.engines.vllm import rules as vllm
from kvplan.errors import SpecError
from kvplan.planner.plan import Plan
from kvplan.startup_logs.measured import record_lines
from kvplan.startup_logs.read import LoggedStart

HEADER = "# Measured by `kvplan reconcile`, `calibrate` and `validate` with `--record`; used by `--calibration user`.\n"


def record_of(start: LoggedStart, plan: Plan, source: str) -> Record:
    """The measured start as a record. Raises SpecError where the log lacks the figures, or the plan a device or the engine's sizes."""
    question = {name: value for name, (value, _) in plan.question.items()}
    lines = record_lines(start, plan)
    if not lines or not question.get("device"):
        raise SpecError(source, [("", f"no measured line of a known device: {NEEDS[start.engine]}")])
    engine, release, model, device, tp, pp, seqs, tokens, settings = record_key(question, release_of(start.engine, question))
    sizes = (int(tp), int(pp), int(seqs), int(tokens))
    return Record(str(engine), str(release), str(model), str(device), *sizes, tuple(lines.items()), source, str(settings))


def release_of(engine: str, question: Mapping[str, Any]) -> str:
    """The known release whose rules a resolved question is under."""
    asked = str(question["engine_version"])
    if engine == "vllm":
        return vllm.find_rules(asked)[0]
    return f"b{llama_cpp.find(asked)[0].build}" if engine == "llama.cpp" else asked


#: What a log of each engine must print for a line to be measured.
NEEDS: dict[str, str] = {
    "vllm": "needs weights, activation or non-torch figures",
    "sglang": "needs `Load weight begin` or `Load weight end`",
    "tensorrt-llm": "needs the memory profiling lines, or the [MemUsageChange] lines and `total:`",
    "llama.cpp": "needs one device's `model buffer size`, `compute buffer size` or `MiB free`",
}


def keep(record: Record, path: Path | None = None) -> Path:
    """Adds a record to the user's file, in place of an older one of the same question; the file's path. Raises as keep_all."""
    return keep_all([record], [], path)


def keep_all(records: Iterable[Record], fitted: Iterable[Fitted], path: Path | None = None) -> Path:
    """Adds records and fitted constants to the user's file, in place of older ones of the same question or name; the file's path.

    The file is written whole and moved into place; it never holds more than MAX_RECORDS. Raises SpecError (a broken file), OSError.
    """
    path = path or catalogue.user_calibration()
    known = catalogue.read_user_file(path) if path.is_file() else UserFile()
    kept = {r.key: r for r in known.records}
    for record in records:
        kept.pop(record.key, None)
        kept[record.key] = record
    constants = {(f.engine, f.device, f.constant.name, f.constant.since): f for f in (*known.fitted, *fitted)}
    text = dump(UserFile(tuple(kept.values())[-MAX_RECORDS:], tuple(constants.values())[-MAX_RECORDS:]))
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".calibration-", suffix=".yaml")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def dump(file: UserFile) -> str:
    """The file's text."""
    import yaml

    rows = [{**record._asdict(), "lines": dict(record.lines)} for record in file.records]
    constants = [{"engine": f.engine, "device": f.device, **f.constant._asdict()} for f in file.fitted]
    data = {"records": rows, **({"constants": constants} if constants else {})}
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000)
    return HEADER + text
