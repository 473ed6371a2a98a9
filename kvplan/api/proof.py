"""Predictions held against real memory, logs and this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvplan import catalogue
from kvplan.api.asking import deployment
from kvplan.api.plans import estimate, models
from kvplan.errors import KvplanError, SpecError
from kvplan.spec import ModelSpec
from kvplan.units import GIB

if TYPE_CHECKING:
    from kvplan.startup_logs import Reconciliation
    from kvplan.validate.receipts import Receipt


def validate(model: str | ModelSpec, *, on: str = "cpu", layout: str = "contiguous", limit: int | None = None, force: bool = False,
             **question: Any) -> Receipt:  # fmt: skip
    """Allocates what the plan of a question holds, writes to it, measures, and compares line by line. Needs torch (the `gpu` extra).

    on      cpu, cuda, cuda:1: where to allocate
    limit   bytes: fewer layers of each kind where the plan takes more; the receipt says so

    With `engine="transformers"` and a config.json, the real model is built and run. Out of memory is a status, not an error.
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
    """One case of about `size` bytes for every layer kind, layout and storage format, allocated and measured one after the other."""
    from kvplan.validate.run import all_kinds

    return all_kinds(device=on, target_bytes=size)


def validate_speed(*, on: str = "cpu") -> Receipt:
    """Times of one decode step with and without a cache as the length grows, and the exponents they grow by."""
    from kvplan.validate.run import speed

    return speed(device=on)


def keep_receipt(receipt: Receipt, path: str | Path) -> None:
    """Writes a receipt as JSON, whole or not at all."""
    from kvplan.validate.receipts import write

    write(receipt, path)


def reconcile(log: str | Path, *, model: str | None = None, record: bool = False, **question: Any) -> Reconciliation:
    """An engine's start-up log against the plan for the question it implies, line by line.

    model, question   come before what the log says
    record            keeps the log's measured lines in the user's calibration file (`calibration="user"` uses them)

    Raises SpecError where the log names no start, or no model or device that is known and none is given.
    """
    from kvplan import startup_logs

    start = startup_logs.read_log(Path(log))
    name, asked = startup_logs.question_of(start, {"model": model, **question})
    if name is None:
        raise SpecError(str(log), [("model", "the log does not say which model; name it with --model")])
    plan = estimate(name, **asked)
    if record:
        startup_logs.keep(startup_logs.record_of(start, plan, str(log)))
    return startup_logs.compare(start, plan)


def doctor() -> list[dict[str, Any]]:
    """What kvplan finds on this machine: a row each of what, and what was found."""
    from importlib.util import find_spec

    from kvplan import __version__, probe

    rows = [{"what": "kvplan", "found": __version__}, {"what": "model specs", "found": f"{len(models()):,} in {catalogue.model_folder()}"}]
    rows.append({"what": "devices", "found": f"{len(catalogue.device_ids()):,}"})
    calibration = catalogue.user_calibration()
    rows.append({"what": "user calibration", "found": f"{calibration} ({'there' if calibration.is_file() else 'none yet'})"})
    for extra, module in (("gpu", "torch"), ("hub", "huggingface_hub"), ("sweep", "numpy"), ("sweep", "pyarrow"), ("dask", "distributed")):
        rows.append({"what": f"{module} (extra {extra})", "found": "installed" if find_spec(module) else "not installed"})
    try:
        gpus = [f"{found.name}, {found.free_bytes / GIB:.2f} of {found.total_bytes / GIB:.2f} GiB free" for found in probe.visible()]
    except KvplanError as error:
        gpus = [str(error)]
    return rows + [{"what": "GPU", "found": gpu} for gpu in gpus]
