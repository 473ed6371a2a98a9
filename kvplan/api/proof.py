"""Predictions held against real memory, logs and this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from kvplan import catalogue
from kvplan.api.allowed import hub_asked
from kvplan.api.asking import deployment
from kvplan.api.plans import models
from kvplan.errors import KvplanError, SpecError, UnknownName
from kvplan.extras import EXTRAS
from kvplan.planner.evaluate import evaluate
from kvplan.spec import ModelSpec
from kvplan.units import GIB

MOST_FAULTS = 20  # that an error lists

if TYPE_CHECKING:
    from kvplan.api.names import Question
    from kvplan.startup_logs import Calibration, Reconciliation, Start
    from kvplan.validate.receipts import Receipt


def validate(model: str | ModelSpec, *, on: str = "cpu", layout: str = "contiguous", limit: int | None = None, force: bool = False,
             **question: Unpack[Question]) -> Receipt:  # fmt: skip
    """Allocates what the plan of a question holds, writes to it, measures, and compares line by line. Needs torch (the `gpu` extra).

    on      cpu, cuda, cuda:1: where to allocate
    limit   bytes: fewer layers of each kind where the plan takes more; the receipt says so

    With `engine="transformers"` and a config.json, the real model is built and run. Out of memory is a status, not an error.

    >>> receipt = validate("meta-llama/llama-3.1-8b", context=256, limit=1 << 26)
    >>> receipt.status
    'equal'
    """
    if question.get("engine") == "transformers":
        if not isinstance(model, str) or not model.endswith(".json"):
            raise SpecError("model", [("", "the real model is built from its config.json; name that file")])
        from kvplan.validate.real import validate_model

        return validate_model(model, deployment(model, **question), device=on, limit_bytes=limit)
    from kvplan.validate.run import validate as run

    asked = deployment(model, **({"engine": "ideal"} | question))
    return run(asked, device=on, layout=layout, limit_bytes=limit, force=force)  # type: ignore[arg-type]


def validate_all_kinds(*, on: str = "cpu", size: int = 256 << 20) -> Receipt:
    """One case of about `size` bytes for every layer kind, layout and storage format, allocated and measured one after the other.

    >>> {case.status for case in validate_all_kinds(size=1 << 16).cases}
    {'equal'}
    """
    from kvplan.validate.run import all_kinds

    return all_kinds(device=on, target_bytes=size)


def validate_speed(*, on: str = "cpu", lengths: Sequence[int] | None = None) -> Receipt:
    """Times of one decode step with and without a cache as the length grows, and the exponents they grow by.

    >>> validate_speed(lengths=(32, 64)).status
    'measured'
    """
    from kvplan.validate.run import speed

    return speed(device=on, lengths=lengths)


def keep_receipt(receipt: Receipt, path: str | Path) -> None:
    """Writes a receipt as JSON, whole or not at all. Raises SpecError where it can not be written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "receipt.json")
    >>> keep_receipt(validate("meta-llama/llama-3.1-8b", context=256, limit=1 << 26), path)
    >>> path.read_text()[:30].split()[1]
    '"schema":'
    """
    from kvplan.validate.receipts import write

    write(receipt, path)


def check_receipt(path: str | Path) -> list[str]:
    """What does not hold in a receipt, checked again with today's formulas: empty for a sound one. Allocates nothing, needs no torch.

    Raises SpecError for a file that is no receipt.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "receipt.json")
    >>> keep_receipt(validate("meta-llama/llama-3.1-8b", context=16), path)
    >>> check_receipt(path)
    []
    """
    from kvplan.validate.receipts import faults, read

    return faults(read(path))


def keep_overheads(receipt: Receipt) -> Path | None:
    """Keeps what a GPU's context and libraries took in the user's calibration file (`calibration="user"` uses it); the file, or None.

    None for a receipt of a CPU, of a GPU whose NVML told nothing, and of a GPU that is not in the catalogue, which no question could name.
    """
    from kvplan import startup_logs
    from kvplan.validate.overheads import overheads

    try:
        device = catalogue.find_device(str(receipt.machine.get("name")))
    except UnknownName:
        return None
    found = overheads(receipt, device.id)
    return startup_logs.keep_all([], found) if found else None


def reconcile(
    log: str | Path, *, model: str | None = None, record: bool = False, hub: bool = False,
    **question: Unpack[Question],
) -> Reconciliation:  # fmt: skip
    """An engine's start-up log, or its page of metrics, against the plan for the question it implies, line by line.

    log               a file, or the http address of a running server's /metrics, which is read once
    model, question   come before what the log says
    record            keeps the log's measured lines in the user's calibration file (`calibration="user"` uses them)
    hub               whether a model that is not known here is asked of the Hub

    Raises SpecError where the log names no start, or no model or device that is known and none is given.

    >>> import tempfile
    >>> log = Path(tempfile.mkdtemp(), "serve.log")
    >>> lines = ["Model loading took 14.99 GiB memory and 3.2 seconds", "Available KV cache memory: 54.84 GiB"]
    >>> written = log.write_text(chr(10).join(f"INFO [gpu_worker.py:298] {line}" for line in lines))
    >>> found = reconcile(log, model="meta-llama/llama-3.1-8b", device="h100", engine="vllm", context="8k")
    >>> [line.name for line in found.lines]
    ['weights', 'cache']
    """
    from kvplan import startup_logs
    from kvplan.api.logged import plan_of
    from kvplan.startup_logs.fetch import is_url, page

    start = startup_logs.read_log(page(str(log)) if is_url(str(log)) else Path(log))
    name, asked = startup_logs.question_of(start, {"model": model, **question})
    with hub_asked(hub):
        plan, left_out = plan_of(_named(name, str(log)), asked, question)
    if record:
        startup_logs.keep(startup_logs.record_of(start, plan, str(log)))
    return startup_logs.compare(start, plan, left_out)


def calibrate(
    logs: str | Path | Sequence[str | Path],
    *,
    model: str | None = None,
    record: bool = False,
    hub: bool = False,
    **question: Unpack[Question],
) -> Calibration:
    """Measured constants from start-up logs of one's own machines: files, or folders of them.

    Each logged line is solved for the constant that moves it most; a constant is the median over the starts of one engine on one device.

    model, question   fill in what a log does not say
    record            writes starts and constants into the user's calibration file; else nothing is written
    hub               whether a model that is not known here is asked of the Hub

    Raises SpecError where no log can be used, with the reason for each.

    >>> import tempfile
    >>> log = Path(tempfile.mkdtemp(), "serve.log")
    >>> args = "non-default args: {'model': 'meta-llama/Llama-3.1-8B-Instruct', 'max_model_len': 8192}"
    >>> lines = ["vLLM API server version 0.19.0", args, "Model loading took 14.99 GiB memory and 3.2 seconds"]
    >>> written = log.write_text(chr(10).join(f"INFO [gpu_worker.py:298] {line}" for line in lines))
    >>> found = calibrate(log, device="h100")
    >>> [(record.engine, record.model, record.device) for record in found.records]
    [('vllm', 'meta-llama/llama-3.1-8b', 'h100-80gb')]
    """
    from kvplan import startup_logs

    places = [Path(logs)] if isinstance(logs, str | Path) else [Path(log) for log in logs]
    missing = [(str(place), "no such file or folder") for place in places if not os.path.exists(place)]
    if missing:
        raise SpecError("calibrate", missing)
    starts: list[startup_logs.Start] = []
    skipped: list[tuple[str, str]] = []
    for path in startup_logs.log_files(places):
        try:
            with hub_asked(hub):
                starts += _starts(path, model, question)
        except KvplanError as error:
            skipped.append((str(path), str(error).splitlines()[-1].strip().removeprefix(f"{path}: ")[:300]))
    if not starts:
        faults = skipped[:MOST_FAULTS] or [("", "no log there")]
        raise SpecError("calibrate", [*faults, *([("", f"and {more} more")] if (more := len(skipped) - len(faults)) > 0 else [])])
    rows, residuals, fitted = startup_logs.fit_own(starts)
    records = [start.record for start in starts if start.record is not None]
    file = catalogue.user_calibration()
    if record:
        startup_logs.keep_all(records, fitted, file)
    return startup_logs.Calibration(tuple(rows), tuple(residuals), tuple(records), tuple(skipped), str(file), record)


def _starts(path: Path, model: str | None, question: Mapping[str, Any]) -> list[Start]:
    """Every start in a log that can be asked again. Raises KvplanError where there is none."""
    from kvplan import startup_logs

    found, faults = [], []
    for start in startup_logs.read_starts(path):
        try:
            known = start.model if model is None or _is_known(start.model) else None
            filled = {"model": model, **question, "calibration": "packaged"}
            name, asked = startup_logs.question_of(replace(start, model=known), filled, fill=True)
            d = deployment(_named(name, str(path)), **asked)
            if d.device is None:
                raise SpecError(str(path), [("device", "the log names no device; name it with --device")])
            plan = evaluate(d)
            startup_logs.check_model(start, plan, str(path))
            found.append(startup_logs.Start(str(path), start, d, plan, startup_logs.record_of(start, plan, str(path))))
        except KvplanError as error:
            faults.append(error)
    if not found:
        raise faults[0]
    return found


def _is_known(model: str | None) -> bool:
    """Whether a log's own word for its model can be found here."""
    if model is None:
        return False
    try:
        catalogue.find_model(model)
    except UnknownName:
        return os.path.exists(model)
    return True


def _named(name: str | None, log: str) -> str:
    """The model to ask about. Raises SpecError where the log names none, or a file of another machine."""
    if name is None:
        raise SpecError(log, [("model", "the log does not say which model; name it with --model")])
    if name.startswith(("/", "~", "./", "../")) and not os.path.exists(os.path.expanduser(name)):
        raise SpecError(log, [("model", f"the log names {name}, which is not on this machine; name the model with --model")])
    return name


def doctor() -> list[dict[str, Any]]:
    """What kvplan finds on this machine: a row each of what, and what was found.

    >>> doctor()[0]["what"]
    'kvplan'
    """
    from importlib.util import find_spec

    from kvplan import __version__, probe

    rows = [{"what": "kvplan", "found": __version__}, {"what": "model specs", "found": f"{len(models()):,} in {catalogue.model_folder()}"}]
    rows.append({"what": "devices", "found": f"{len(catalogue.device_ids()):,}"})
    try:
        calibration = catalogue.user_calibration()
        kept = f"{calibration} ({'there' if os.path.isfile(calibration) else 'none yet'})"
    except KvplanError as error:
        kept = str(error)
    rows.append({"what": "user calibration", "found": kept})
    for module, extra in EXTRAS.items():
        rows.append({"what": f"{module} (extra {extra})", "found": "installed" if find_spec(module) else "not installed"})
    try:
        gpus = [f"{found.name}, {found.free_bytes / GIB:.2f} of {found.total_bytes / GIB:.2f} GiB free" for found in probe.visible()]
    except KvplanError as error:
        gpus = [str(error)]
    return rows + [{"what": "GPU", "found": gpu} for gpu in gpus]
