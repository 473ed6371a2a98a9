"""Fits the constants of SGLang, TensorRT-LLM and llama.cpp to published logs and writes kvplan/calibration/<engine>.yaml.

python tools/fit_engines.py            fits, prints constants and residuals, writes the files
python tools/fit_engines.py --check    fits and compares with the files; exit code 1 where they differ
python tools/fit_engines.py --report   fits and prints

The method is that of `kvplan calibrate` (kvplan/startup_logs/fitting.py): each logged line is solved for the constant that moves it
most; a constant is the median over groups of the group's median. A group is a thread of a tracker, else a repository; for llama.cpp's
compute buffers, whose rows are the engine's own output for one geometry after the other, a model. Lines of logs that are no whole
question are in tools/engine_facts.yaml. A constant without a case takes another engine's and says so. Intervals of the cache come from
leave-one-group-out predictions; where there are fewer than five groups the widest residual is doubled, and has a floor.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import yaml
from budget_files import constants_file
from driver_contexts import contexts
from log_cases import Case as Row
from log_cases import read_case
from log_cases import rows as log_rows

from kvplan.constants import Constant, Constants, Spread
from kvplan.engines.common.protocol import Capacity
from kvplan.engines.sglang import rules as sglang
from kvplan.engines.tensorrt_llm import rules as tensorrt_llm
from kvplan.errors import KvplanError
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.startup_logs.fitting import FEW, Case, conformal, constant_of, solve
from kvplan.startup_logs.measured import targets
from kvplan.startup_logs.read import read_log
from kvplan.units import GIB, MIB

FOLDER = Path(__file__).parents[1] / "kvplan" / "calibration"
FACTS = Path(__file__).parent / "engine_facts.yaml"


class Term(NamedTuple):
    """A constant: what it is, its unit, the releases it changed at, a value to start from, and whose it is where no log has it."""

    what: str
    unit: str
    start: float
    since: tuple[str, ...]
    instead: tuple[str, str] | None = None


_S, _T, _L = sglang.VERSIONS[0], tensorrt_llm.VERSIONS[0], "b5130"
TERMS: dict[str, dict[str, Term]] = {
    "sglang": {
        "context": Term("CUDA context and libraries of one process", "bytes", GIB / 2, (_S,)),
        "context_unified": Term("the same where memory is shared with the host: what the system holds is in it", "bytes", 9 * GIB, (_S,)),
        "link": Term("communication buffers of a rank, cards", "bytes", GIB / 3, (_S,)),
        "link_switch": Term("communication buffers of a rank, modules joined by switches", "bytes", GIB, (_S,)),
        "loading": Term("what loading leaves beside the weights", "bytes", GIB / 10, (_S,)),
        "graph_bytes": Term("CUDA graphs, per captured batch size", "bytes", GIB / 20, (_S,)),
    },
    "tensorrt-llm": {
        "outside_torch": Term("context, libraries and graphs beside torch, PyTorch backend", "bytes", 2 * GIB, (_T,)),
        "outside_torch_unified": Term("the same where memory is shared with the host", "bytes", GIB, (_T,), ("sglang", "context_unified")),
        "activation_bytes": Term("activations of the dry run, PyTorch backend", "bytes per batch token and hidden state", 37, (_T,)),
        "context": Term("context and libraries, engines of trtllm-build", "bytes", GIB, (_T,)),
        "context_unified": Term("the same where memory is shared with the host", "bytes", GIB, (_T,), ("sglang", "context_unified")),
        "execution_bytes": Term("execution context beside its logits", "bytes per batch token and hidden state", 23, (_T,)),
        "slot_bytes": Term("runtime buffers and decoder", "bytes per sequence slot and vocabulary entry", 28, (_T, "0.12.0", "0.19.0")),
        "link": Term("communication buffers of a rank, cards", "bytes", GIB / 3, (_T,), ("sglang", "link")),
        "link_switch": Term("communication buffers of a rank, modules", "bytes", GIB, (_T,), ("sglang", "link_switch")),
        "loading": Term("what loading leaves beside the weights", "bytes", GIB / 10, (_T,)),
    },
    "llama.cpp": {
        "context": Term("a context of CUDA, beside what it takes for each multiprocessor", "bytes", GIB / 16, (_L,)),
        "context_multiprocessor": Term("what a context of CUDA takes for each multiprocessor", "bytes", GIB / 400, (_L,)),
        "context_running": Term("what running adds to a context of CUDA: code of kernels, cuBLAS, graphs", "bytes", GIB / 16, (_L,)),
        "context_amd": Term("a context on a card of AMD, ROCm or Vulkan", "bytes", GIB / 5, (_L,)),
        "context_other": Term("a context where only an amount of memory is known, or on cards of others", "bytes", GIB / 3, (_L,)),
        "compute": Term("compute buffer as printed, less masks and scores, over the shapes' estimate of the rest", "factor", 1, (_L,)),
    },
}  # fmt: skip
KINDS = {"sglang": ("discrete", "unified"), "tensorrt-llm": ("engine", "profiled", "unified"), "llama.cpp": ()}


class Value(NamedTuple):
    """What one log says a constant is."""

    constant: str
    since: str
    value: float
    group: str
    case: str


class Prediction(NamedTuple):
    """A log's cache predicted without its group; bytes of a rank. `refused`: the engine did not start."""

    case: str
    group: str
    kind: str
    predicted: int
    logged: int
    device: int
    refused: bool
    starts: bool | None

    @property
    def error(self) -> float:
        return (self.predicted - self.logged) / self.device


def read_rows() -> list[Row]:
    """The rows of the log set and of our own file, those of vLLM aside."""
    rows = log_rows()
    empty: dict[str, Any] = dict.fromkeys({key for row in rows for key in row})
    nothing = dict.fromkeys(rows[0]["logged"])
    rows += [{**empty, **row, "logged": {**nothing, **row["logged"]}} for row in facts()["logs"]]
    found = []
    for row in (row for row in rows if row["engine"] != "vllm"):
        case = read_case(row)
        if case.deployment is not None and row.get("dtype"):
            case = case._replace(deployment=replace(case.deployment, dtype=row["dtype"]))
        found.append(case._replace(group=group_of(row)))
    return found


def facts() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FACTS.read_text(encoding="utf-8"))
    return found


def group_of(row: Mapping[str, Any]) -> str:
    """A thread of a tracker, else a repository."""
    source = str(row["source"]).split(",")[0]
    return source.split(" follow-up")[0].strip() if "#" in source else source.split(":")[0].strip()


def values_of(engine: str, rows: Sequence[Row]) -> list[Value]:
    """Everything the logs say of this engine's constants."""
    cards = [fact for fact in facts()["facts"] if fact["engine"] == engine and "multiprocessors" in fact]
    found = [Value(name, _L, value, group, how) for name, value, group, how in contexts(cards)]
    for fact in facts()["facts"]:
        if fact["engine"] == engine and "multiprocessors" not in fact:
            value = fact["value"] if "value" in fact else fact["mib"] * MIB if "mib" in fact else fact["gib"] * GIB
            since = fact.get("since", TERMS[engine][fact["constant"]].since[0])
            found.append(Value(fact["constant"], since, float(value), str(fact["source"]).split(",")[0], fact["how"]))
    start = starting(engine)
    for row in rows:
        d = row.deployment
        if row.row["engine"] != engine or d is None or row.row.get("budget_ok") is False:
            continue
        if d.max_num_seqs is None and engine == "tensorrt-llm":
            continue  # its buffers grow with the slots
        if "memory already used by other" in str(row.row["note"]) or "offloaded or dummy" in str(row.row["note"]):
            continue
        asked = replace(d, constants=start)
        log = read_log(row.row["verbatim"], engine)
        case = Case(row.id, row.group, asked, tuple(targets(log, evaluate(asked))))
        found += [Value(s.constant.name, s.constant.since, s.value, row.group, row.id) for s in solve(case)]
    if engine == "llama.cpp":
        found += compute_ratios()
    if engine == "tensorrt-llm":
        found += held_by_slots(rows)
    return found


def starting(engine: str) -> Constants:
    """The constants that solving starts from; only their names and releases matter to what comes out."""
    values = [Constant(name, since, t.start, t.start, t.start, 0) for name, t in TERMS[engine].items() for since in t.since]
    wide = tuple(Spread(kind, 0.1, 0.1, 0) for kind in (*KINDS[engine], "measured"))
    return Constants("packaged", engine, "starting values", tuple(values), wide)


def held_by_slots(rows: Sequence[Row]) -> list[Value]:
    """From 0.19 on one log says only what is free in the end: what no other line explains is the slots'."""
    found = []
    for row in rows:
        d = row.deployment
        if d is None or row.row["engine"] != "tensorrt-llm" or (d.engine_version or "0") < "0.19" or (d.engine_version or "1") >= "1":
            continue
        log = read_log(row.row["verbatim"], "tensorrt-llm")
        free, total = log.value("free_memory"), log.value("total_memory")
        plan = evaluate(replace(d, constants=starting("tensorrt-llm")))
        if free is None or total is None:
            continue
        others = sum(e.bytes for e in plan.ledgers[0].entries if not e.name.startswith(("cache", "runtime buffers")))
        slots = (d.max_num_seqs or 1) * (d.model.vocab_size or 1)
        found.append(Value("slot_bytes", "0.19.0", ((total - free) * GIB - others) / slots, row.group, row.id))
    return found


def compute_ratios() -> list[Value]:
    """The compute buffers that llama.cpp printed, less masks and scores, over what their shapes say of the rest."""
    from kvplan.engines import find
    from kvplan.engines.llama_cpp import compute
    from kvplan.engines.llama_cpp.placing import place
    from kvplan.engines.llama_cpp.situation import situation
    from tests.oracle.test_llama_cpp_rows import asked, rows

    engine, found = find("llama.cpp"), []
    for row in (row for row in rows() if row["ok"]):
        s = engine.settle(asked(row)).settings
        made = situation(s.loaded, place(s.loaded, 0), n_ctx=row["n_ctx"], n_seq_max=row["n_seq_max"], unified=s.unified)
        printed = row["printed"]["compute_mib"] * MIB
        parts = compute.phases(s.loaded.widths, made.stores, made.ctx)
        found.append(Value("compute", _L, min((printed - counted) / rest for counted, rest in parts if rest), row["model"], row["id"]))
    return found


def fit(engine: str, values: Sequence[Value], others: Mapping[str, Constants] | None = None) -> Constants:
    """The constants of an engine from what logs say; terms without a case from another engine."""
    made = []
    for name, term in TERMS[engine].items():
        mine: list[Constant] = []
        for since in term.since:
            groups: dict[str, list[float]] = {}
            for v in values:
                if (v.constant, v.since) == (name, since):
                    groups.setdefault(v.group, []).append(v.value)
            if groups:
                mine.append(constant_of(name, since, groups))
        if not mine and term.instead and others:
            source, constant = term.instead
            like = next(c for c in others[source].values if c.name == constant)
            mine = [Constant(name, term.since[0], like.value, 0.0, 2 * like.high, 0, f"logs; {source}'s {constant} in its place", 0)]
        if not mine:
            mine = [Constant(name, term.since[0], term.start, 0.0, 2 * term.start, 0, groups=0)]
        if mine[0].since != term.since[0]:  # no log is that old: what is nearest
            mine.insert(0, mine[0]._replace(since=term.since[0], cases=0, groups=0))
        made += mine
    return Constants("packaged", engine, f"kvplan/calibration/{engine}.yaml", tuple(made), starting(engine).spreads)


def predict(row: Row, constants: Constants) -> Prediction | None:
    """A log's cache; None where it says none or can not be asked."""
    d, logged = row.deployment, row.logged_bytes
    if d is None or d.device is None or logged is None:
        return None
    try:
        plan = evaluate(replace(d, constants=constants))
    except KvplanError:
        return None
    if row.row["engine"] == "sglang":
        kind = "unified" if d.device.unified else "discrete"
    else:
        lines = {e.name for e in plan.ledgers[0].entries}
        kind = "unified" if d.device.unified else "engine" if "execution context" in lines else "profiled"
    refused = logged == 0
    return Prediction(row.id, row.group, kind, cache_of(plan), logged, d.device.memory_bytes, refused, plan.starts)


def cache_of(plan: Plan) -> int:
    found: Capacity | None = plan.capacity
    return found.kv_bytes if found is not None else 0


def without(group: str, engine: str, values: Sequence[Value], others: Mapping[str, Constants]) -> Constants:
    """The constants of an engine from all groups but one."""
    return fit(engine, [v for v in values if v.group != group], others)


def leave_one_group_out(engine: str, rows: Sequence[Row], values: Sequence[Value], others: Mapping[str, Constants]) -> list[Prediction]:
    """Every usable log of the engine, predicted from the other groups."""
    made = []
    for row in rows:
        if row.row["engine"] != engine or row.row["quality"] not in ("A", "B"):
            continue
        if row.row.get("budget_ok") is False or "already used by other" in str(row.row["note"]):
            continue
        prediction = predict(row, without(row.group, engine, values, others))
        if prediction is not None:
            made.append(prediction)
    return made


def spreads(engine: str, predictions: Sequence[Prediction]) -> tuple[Spread, ...]:
    """Per kind, shares of device memory that hold in 90 % of cases; doubled, with a floor, where few groups say so."""
    made = []
    for kind in KINDS[engine]:
        mine = [p for p in predictions if p.kind == kind and not p.refused]
        bound = conformal([abs(p.error) for p in mine]) if mine else 0.05
        groups = len({p.group for p in mine})
        if groups < FEW:
            bound = max(2 * bound, 0.03 if groups > 1 else 0.05)
        made.append(Spread(kind, bound, bound, len(mine)))
    return (*made, Spread("measured", 0.002, 0.002, 0))


HEADER = "# Written by tools/fit_engines.py from published logs: run it again, do not edit."


def dump(constants: Constants) -> str:
    """The file that estimates read."""
    few = "Few logs of this engine are public: constants of less than five groups have their whole range, widened, as interval."
    comment = f"{HEADER}\n# Cases, sources and residuals: {constants.engine}.residuals.yaml. {few}"
    return constants_file(constants, comment, {name: (term.what, term.unit) for name, term in TERMS[constants.engine].items()})


def dump_residuals(engine: str, values: Sequence[Value], predictions: Sequence[Prediction]) -> str:
    """The provenance: what each log says of each constant, and how far each log's cache is off."""
    lines = [HEADER, f"engine: {engine}", "values:  # what one log says that a constant is"]
    summed: dict[tuple[str, str, str], list[float]] = {}
    for v in values:
        summed.setdefault((v.constant, v.since, v.group), []).append(v.value)
    for (name, since, group), found in sorted(summed.items()):
        ends = f"{min(found):.5g}" if len(found) == 1 else f"{min(found):.5g} to {max(found):.5g}"
        lines.append(f"  - {{constant: {name}, since: '{since}', group: \"{group[:100]}\", cases: {len(found)}, value: {ends}}}")
    lines.append("residuals:" + ("" if predictions else " []") + "  # predicted - logged cache, as a share of device memory")
    for p in sorted(predictions, key=lambda p: p.case):
        error = "refused" if p.refused else f"{p.error:.5f}"
        lines.append(f'  - {{case: {p.case}, group: "{p.group}", kind: {p.kind}, error: {error}}}')
    return "\n".join(lines) + "\n"


def build() -> dict[str, tuple[Constants, list[Value], list[Prediction]]]:
    """Every engine's constants, the values behind them and the predictions without their groups."""
    rows, made, fitted = read_rows(), {}, {}
    for engine in TERMS:
        values = values_of(engine, rows)
        constants = fit(engine, values, fitted)
        predictions = leave_one_group_out(engine, rows, values, fitted)
        fitted[engine] = constants
        made[engine] = (constants._replace(spreads=spreads(engine, predictions)), values, predictions)
    return made


def left_out(made: Mapping[str, tuple[Constants, list[Value], list[Prediction]]]) -> dict[str, Constants]:
    """For every log that is no vLLM's, by its id, the constants that know nothing of its group."""
    fitted = {engine: constants for engine, (constants, _, _) in made.items()}
    found = {}
    for row in read_rows():
        engine = row.row["engine"]
        if engine in made:
            found[row.id] = without(row.group, engine, made[engine][1], fitted)._replace(spreads=fitted[engine].spreads)
    return found


def texts(made: Mapping[str, tuple[Constants, list[Value], list[Prediction]]]) -> dict[Path, str]:
    found = {}
    for engine, (constants, values, predictions) in made.items():
        found[FOLDER / f"{engine}.yaml"] = dump(constants)
        found[FOLDER / f"{engine}.residuals.yaml"] = dump_residuals(engine, values, predictions)
    return found


def show(made: Mapping[str, tuple[Constants, list[Value], list[Prediction]]]) -> None:
    """Constants, then every log's cache against its prediction from the other groups."""
    for engine, (constants, _, predictions) in made.items():
        print(engine)
        for c in constants.values:
            print(f"  {c.name:22s} {c.since:7s} {c.value:12.5g}  [{c.low:.5g}, {c.high:.5g}]  {c.cases} {c.source}")
        for p in sorted(predictions, key=lambda p: -abs(p.error)):
            said = "refused, " + ("called a start" if p.starts else "called so") if p.refused else f"{100 * p.error:+.2f} % of the device"
            print(f"  {p.case:38s} {p.kind:9s} predicted {p.predicted / GIB:7.2f} GiB, logged {p.logged / GIB:7.2f}: {said}")
        for s in constants.spreads:
            print(f"  interval, {s.kind:9s} +-{100 * s.low:.2f} % of the device, {s.cases} cases")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    parser.add_argument("--report", action="store_true", help="print only")
    arguments = parser.parse_args()
    made = build()
    show(made)
    if arguments.report:
        return 0
    if arguments.check:
        return 0 if all(path.read_text(encoding="utf-8") == text for path, text in texts(made).items()) else 1
    for path, text in texts(made).items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
