"""Keeping what logs measured in the user's calibration file, for later estimates: starts as they were, and constants fitted on them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from kvplan import catalogue, engines, files
from kvplan.constants import MAX_RECORDS, Fitted, Record, UserFile
from kvplan.engines.common.measured import record_key
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
        raise SpecError(source, [("", f"no measured line of a known device: {engines.log(start.engine).needs}")])
    engine, release, model, device, tp, pp, seqs, tokens, settings = record_key(
        question, engines.facts(start.engine), engines.log(start.engine).release(str(question["engine_version"]))
    )
    sizes = (int(tp), int(pp), int(seqs), int(tokens))
    return Record(str(engine), str(release), str(model), str(device), *sizes, tuple(lines.items()), source, str(settings))


def keep(record: Record, path: Path | None = None) -> Path:
    """Adds a record to the user's file, in place of an older one of the same question; the file's path. Raises as keep_all."""
    return keep_all([record], [], path)


def keep_all(records: Iterable[Record], fitted: Iterable[Fitted], path: Path | None = None) -> Path:
    """Adds records and fitted constants to the user's file, in place of older ones of the same question or name; the file's path.

    Several processes may record at once. The file never holds more than MAX_RECORDS. Raises SpecError: it is broken, or can not be written.
    """
    file = path or catalogue.user_calibration()
    files.update(file, lambda: dump(_added(file, records, fitted)))
    return file


def _added(path: Path, records: Iterable[Record], fitted: Iterable[Fitted]) -> UserFile:
    """What the file holds, with these in place of older ones."""
    known = catalogue.read_user_file(path) if os.path.exists(path) else UserFile()
    kept = {r.key: r for r in known.records}
    for record in records:
        kept.pop(record.key, None)
        kept[record.key] = record
    constants = {(f.engine, f.device, f.constant.name, f.constant.since): f for f in (*known.fitted, *fitted)}
    return UserFile(tuple(kept.values())[-MAX_RECORDS:], tuple(constants.values())[-MAX_RECORDS:])


def dump(file: UserFile) -> str:
    """The file's text."""
    import yaml

    rows = [{**record._asdict(), "lines": dict(record.lines)} for record in file.records]
    constants = [{"engine": f.engine, "device": f.device, **f.constant._asdict()} for f in file.fitted]
    data = {"records": rows, **({"constants": constants} if constants else {})}
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000)
    return HEADER + text
