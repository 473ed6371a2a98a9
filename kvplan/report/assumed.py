"""What was not chosen and moves a number all the same: each setting with its value and with who chose it, then every note."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kvplan import engines
from kvplan.engines.common.checks import idle
from kvplan.engines.common.protocol import ChosenBy
from kvplan.planner.plan import Plan
from kvplan.report.printable import one_line
from kvplan.report.words import engine, flag
from kvplan.units import GIB, counted, size

#: A name's value in words. What is not here is said as `name value`.
_SAID: dict[str, Callable[[Any], str]] = {
    "n_devices": lambda n: counted(n, "GPU"),
    "context": lambda n: f"requests of {n:,} tokens",
    "batch": lambda n: f"{counted(n, 'request')} at once",
    "encoder_tokens": lambda n: f"{n:,} tokens of the encoder's side",
    "max_model_len": lambda n: f"room for requests of {n:,} tokens",
    "max_num_seqs": lambda n: f"at most {counted(n, 'request')} at once",
    "max_num_batched_tokens": lambda n: f"steps of {n:,} tokens",
    "block_size": lambda n: f"pages of {counted(n, 'token')}",
    "dtype": lambda name: f"computes in {name}",
    "weight_dtype": lambda name: f"weights in {name}",
    "n_gpu_layers": lambda n: f"{counted(n, 'layer')} on the GPU" if n >= 0 else "all layers on the GPU",
    "multimodal": lambda on: "its towers are loaded" if on == "on" else "no towers",
    "enforce_eager": lambda eager: "no CUDA graphs" if eager else "CUDA graphs are captured",
    "calibration": lambda which: f"{which} constants for what no shape tells",
}
#: Options that a line has room for; where there are more the text has their names.
FEW = 3
#: Sizes of which one is nothing out of the ordinary, and switches that are off: said together.
_ABSENT = {"speculative": "no drafts", "lora": "no adapters", "multimodal": "no images", "reserve": "nothing else on the GPU"}
_SIZES, _OFF = ("n_devices", "tp", "pp", "dp", "ep", "dcp"), ("speculative", "lora", "multimodal")


class Assumed(NamedTuple):
    """One assumption: its names, what it is in words, who chose it."""

    names: tuple[str, ...]
    text: str
    by: str


def assumed(plan: Plan) -> list[Assumed]:
    """Every setting that nobody chose here and that the engine has a use for, in the order of the question."""
    facts, open_ = engines.facts(plan.asked("engine")), _Asked(plan)
    unused = {**idle(open_, facts), **facts.unused}
    names = [name for name, (value, by) in plan.question.items() if by != "you" and value is not None and name not in unused]
    return list(_lines(plan, names))


class _Asked:
    """A plan's question by attributes, as `idle` reads one."""

    def __init__(self, plan: Plan) -> None:
        self.device, self.kv_memory, self.calibration = (plan.asked(name) for name in ("device", "kv_memory", "calibration"))


def _lines(plan: Plan, names: list[str]) -> Iterator[Assumed]:
    plain = [name for name in names if name in _SIZES and plan.asked(name) == 1]
    off = [name for name in names if name in _OFF and plan.asked(name) == "off" and plan.question[name][1] != "model"]
    nothing = [name for name in names if name == "reserve" and plan.asked(name) == 0]
    of_engine = tuple(name for name in names if name in ("engine", "engine_version"))
    if of_engine:
        newest = ", the newest release known" if plan.question["engine_version"][1] != "you" else ""
        yield Assumed(of_engine, "exact tensors, no engine (ideal)" if engine(plan) == "ideal" else f"{engine(plan)}{newest}", "kvplan")
    rest = [name for name in names if name not in (*of_engine, *plain, *off, *nothing, "engine_option")]
    if plan.asked("block_size") is None and (_page(plan) or plan.asked("engine") == "ideal"):
        rest.append("block_size")
    for name in rest:
        if not (name == "multimodal" and plan.asked(name) == "off"):
            yield Assumed((name,), _text(plan, name), _who(plan, plan.question[name][1], name))
    if plain:
        yield Assumed(tuple(plain), f"{', '.join(plain)} 1", "kvplan")
    if off or nothing:
        others = max((e.bytes for ledger in plan.ledgers for e in ledger.entries if e.kind == "others"), default=0)
        held = {"reserve": f"{size(others)} for the system and the server"} if others else {}  # where a GPU shares the host's memory
        words = [(_ABSENT | held)[name] for name in (*off, *nothing)]
        yield Assumed((*off, *nothing), ", ".join(words), "kvplan")


def _text(plan: Plan, name: str) -> str:
    value = plan.asked(name)
    if name == "block_size" and value is None:
        value = _page(plan)
        if value is None:
            return "no pages: sequences lie in one piece"
    if name == "memory_fraction":
        has = next((ledger.device_bytes for ledger in plan.ledgers if ledger.device_bytes), None)
        share = "all" if value == 1 else f"{value:g}"
        return f"{share} of {f'{has / GIB:,.2f} GiB' if has else 'the memory'}{'' if value == 1 else f' for {engine(plan)}'}"
    if name == "kv_dtype":
        formats = "/".join(dict.fromkeys(t["dtype"] for group in plan.cache.layers for t in group.tensors))
        return f"cache in {formats or value}" + (" (auto)" if value == "auto" else "")
    said = _SAID.get(name)
    return said(value) if said else f"{name} {size(value) if name in ('reserve', 'host_memory') else value}"


def _page(plan: Plan) -> int | None:
    """Tokens of the pages that the engine takes by itself."""
    return plan.capacity.block_tokens if plan.capacity is not None else None


def _who(plan: Plan, by: ChosenBy, name: str) -> str:
    if name == "block_size" and by == "kvplan" and _page(plan):
        by = "engine default"
    return {"engine default": engine(plan), "model": "the model", "kvplan": "kvplan", "you": "you"}[by]


def notes(plan: Plan) -> list[str]:
    """What the plan rests on beside its settings, and what the engine would warn of."""
    return [one_line(note) for note in (*plan.model.notes, *(plan.capacity.warnings if plan.capacity else ()))]


#: Words of notes that something asked for is not what the answer rests on: told beside the answer.
_OF_THE_ASKED = (" has no use for ", " is not a release we know", ", no EAGLE head")


def of_the_asked(note: str) -> bool:
    """Whether a note says that what was typed moves nothing, or is taken for something else."""
    return any(words in note for words in _OF_THE_ASKED)


def rows(plan: Plan) -> list[tuple[str, str, str]]:
    """Each assumption as what, who, and the options that change it."""
    return [
        (one_line(one.text), one_line(one.by), " ".join(map(flag, one.names)) if len(one.names) <= FEW else "") for one in assumed(plan)
    ]
