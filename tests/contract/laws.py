"""What holds of every engine, as functions of its answers: each raises AssertionError where an engine breaks it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any, get_args

import kvplan
from kvplan import engines
from kvplan.api.asking import deployment
from kvplan.errors import KvplanError, UnsupportedError
from kvplan.forms import Form
from kvplan.ledger import Kind
from kvplan.planner.evaluate import evaluate
from kvplan.planner.plan import Plan
from kvplan.spec import ModelSpec
from kvplan.units import round_up

PAGE = 256  # tokens: no engine's page, pad or buffer step is longer by itself
SHORT, LONG = 65_536, 131_072
#: Tokens of a window that an engine may hold beside it: a physical batch (Ollama's 2048 at long contexts), padded to a page.
SLACK = 2048 + PAGE
#: States that a pooled engine holds of one sequence: SGLang's prefix tree keeps two beside the running one.
STATES = 3
#: Of a token's bytes: pages of several kinds of layers are as large as the largest.
PADDING = 1.25
#: SGLang keeps rows of every layer for every token, a cross-attention layer's too (its note says so): half of this model's.
ONE_POOL = {("sglang", "encoder-kv"): 2.0}
ROOM = "100GiB"


@contextmanager
def of(*what: object) -> Iterator[None]:
    """Names the case in what a law that is broken says."""
    try:
        yield
    except AssertionError as error:
        error.add_note(f"of {what}")
        raise


def ask(spec: ModelSpec | str, *, limits: bool = False, **question: Any) -> Plan:
    """The plan; `limits`: with the longest context and most sequences, which take most of the time."""
    return evaluate(deployment(spec, **question), limits=limits)


def answer(spec: ModelSpec | str, *, limits: bool, **question: Any) -> Any:
    """The plan without the echo of its question, or the text of its refusal."""
    try:
        plan = ask(spec, limits=limits, **question).as_dict()
    except KvplanError as error:
        return f"{type(error).__name__}: {error}"
    return {name: value for name, value in plan.items() if name != "question"}


def cache_lines(plan: Plan) -> int:
    return sum(ledger.bytes_of("cache") for ledger in plan.ledgers)


def one_of_each_window(plan: Plan) -> int:
    """transformers keeps one token less of a window: the next step's own takes its place."""
    return sum(layers.layers * t["bytes_per_state"] for layers in plan.cache.layers if "window" in layers.keep for t in layers.tensors)


def beside(plan: Plan) -> int:
    """What may lie beside the shown tensors: slack of windows; of compressed rows a page, and what a compressor looks back on in f32."""
    held = 0
    for layers in plan.cache.layers:
        for t in layers.tensors:
            if (t["tokens_per_state"] or 1) > 1:
                held += layers.layers * t["bytes_per_state"] * (PAGE + 16 * t["tokens_per_state"])
            elif "window" in layers.keep:
                held += layers.layers * t["bytes_per_state"] * SLACK
    return held


def adds_up(plan: Plan) -> None:
    """Lines sum to the total and lie in their intervals; the lines of kind cache are the cache."""
    for ledger in plan.ledgers:
        assert ledger.total_bytes == sum(entry.bytes for entry in ledger.entries)
        assert ledger.bytes_of("cache") == ledger.cache_bytes
        for entry in ledger.entries:
            assert 0 <= entry.low <= entry.bytes <= entry.high, entry
            assert entry.basis != "exact" or entry.low == entry.high, entry
            assert entry.kind in get_args(Kind), entry
            assert entry.name, entry
            assert entry.source, entry


def verdict_agrees(plan: Plan) -> None:
    """It fits with room alone; where it does not, memory lacks or the reason is another one."""
    if plan.fits:
        assert plan.starts
        assert plan.margin_bytes is not None
        assert plan.margin_bytes >= 0
        if plan.question["kv_memory"][0] is None:
            assert all(ledger.total_bytes <= ledger.limit_bytes for ledger in plan.ledgers if ledger.limit_bytes is not None)
    elif plan.fits is False:
        assert plan.outcome.reason
        assert plan.outcome.reason in plan.verdict
        if plan.starts and plan.margin_bytes is not None and plan.margin_bytes >= 0:
            assert not any(word in plan.outcome.reason for word in ("lacks", "exceed", "do not fit"))


def holds_what_it_shows(engine: str, spec: ModelSpec, **question: Any) -> None:
    """The ledger of an engine that allocates for its sequences holds the cache table, paged and padded, and grows as it does."""
    for context in (1000, SHORT):
        plan = ask(spec, engine=engine, context=context, batch=1, max_num_seqs=1, **question)
        whole = ask(spec, engine=engine, context=round_up(context, PAGE), batch=1, max_num_seqs=1, **question)
        least, most = plan.cache.total_bytes - one_of_each_window(plan), whole.cache.total_bytes + beside(plan)
        assert least <= cache_lines(plan) <= most, (engine, spec.name, context, least, cache_lines(plan), most)
    less, more = (ask(spec, engine=engine, context=n, batch=2, max_num_seqs=2, **question) for n in (SHORT, LONG))
    assert cache_lines(more) - cache_lines(less) == more.cache.total_bytes - less.cache.total_bytes, (engine, spec.name)


#: States whose slots lie beside what the budget charges (sglang mem_cache/ple_state_pool.py).
UNCHARGED = {("sglang", "depthwise-conv")}


def requests_what_it_shows(engine: str, spec: ModelSpec, **question: Any) -> None:
    """The bytes of one request are those of the cache table, paged and padded, and grow as it does."""
    fixed = {"engine": engine, "kv_memory": ROOM, "max_num_batched_tokens": 2048, **question}
    plans = [ask(spec, context=n, **fixed) for n in (1000, SHORT, LONG)]
    needs = [plan.capacity.request_bytes for plan in plans if plan.capacity is not None]
    shown = [plan.cache.bytes_per_sequence for plan in plans]
    assert len(needs) == 3, (engine, spec.name, plans[0].verdict)
    for need, table, plan in zip(needs, shown, plans, strict=True):
        if (engine, spec.name) not in UNCHARGED:
            assert table - one_of_each_window(plan) <= need, (engine, spec.name, need, table)
    grown, growth = needs[2] - needs[1], shown[2] - shown[1]
    padding = ONE_POOL.get((engine, spec.name), PADDING)
    assert growth * 0.999 <= grown <= growth * padding, (engine, spec.name, grown, growth)
    if not growth:
        assert needs[0] <= STATES * shown[0], (engine, spec.name, needs, shown)


def sequences_cost_what_they_hold(engine: str, spec: ModelSpec, **question: Any) -> None:
    """What is left falls with each sequence and token: by what the table shows of them, where memory is allocated for them.

    Where pools are set aside it is what is left of the tightest, and states have slots, whoever holds them.
    """
    sizes = [(1, 2048), (4, 2048), (4, 6144)]
    aside = engines.facts(engine).pool == "set aside"
    fixed = {"engine": engine, "max_num_batched_tokens": 2048, **question}
    longest = 8192 if aside else None
    plans = [ask(spec, context=n, batch=b, max_num_seqs=64 if aside else b, max_model_len=longest, **fixed) for b, n in sizes]
    margins = [plan.margin_bytes for plan in plans if plan.margin_bytes is not None]
    assert len(margins) == len(plans), (engine, spec.name, [plan.verdict for plan in plans])
    for i in (0, 1):
        more = plans[i + 1].cache.total_bytes - plans[i].cache.total_bytes
        least = more - 4 * one_of_each_window(plans[i])
        if aside:
            least = int(i == 0 and plans[0].cache.bytes_per_token > 0)
        assert margins[i] - margins[i + 1] >= least, (engine, spec.name, sizes[i + 1], margins, more)


def memory_never_hurts(engine: str, spec: ModelSpec, **question: Any) -> None:
    """More of it never leaves less, holds fewer or turns a yes into a no."""
    fixed = {"engine": engine, "context": 4096, "max_num_batched_tokens": 2048, "max_num_seqs": 8, **question}
    for name, sizes in {"kv_memory": ("64MiB", "1GiB", "30GiB"), "device": ("8GiB", "24GiB", "60GiB")}.items():
        plans = [ask(spec, limits=True, **fixed, **{name: size}) for size in sizes]
        assert sorted(bool(plan.fits) for plan in plans) == [bool(plan.fits) for plan in plans], (engine, spec.name)
        counted = [(plan.margin_bytes, plan.capacity) for plan in plans if plan.capacity is not None]
        found = [(margin, held.kv_bytes, held.max_batch) for margin, held in counted if held.max_batch is not None]
        for less, more in pairwise(found):
            assert all((a or 0) <= (b or 0) for a, b in zip(less, more, strict=True)), (engine, spec.name, name, less, more)


def limits_hold(spec: ModelSpec | str, **question: Any) -> None:
    """The largest context and batch that are printed fit when they are asked, every other setting unchanged; one more does not.

    Where its engine splits the model with RAM, what is printed still runs so; RAM that nobody spoke of ends nothing, and the model's own
    length is printed.
    """
    plan = kvplan.estimate(spec, advise=False, **question)
    capacity = plan.capacity
    if capacity is None or plan.outcome.unknown:  # of unknown size nothing is said to fit
        return
    holds = fits_or_split if plan.outcome.split else fits
    own = (kvplan.model(spec) if isinstance(spec, str) else spec).max_context if plan.outcome.split else None
    for name, n in (("context", capacity.max_context_at_batch), ("batch", capacity.max_batch)):
        if n is None:
            assert holds(spec, **question | {name: 1 << 30}), (name, question)
            continue
        assert n == 0 or holds(spec, **question | {name: n}), (name, n, question)
        assert (name == "context" and n == own) or not holds(spec, **question | {name: n + 1}), (name, n + 1, question)


def fits_or_split(spec: ModelSpec | str, **question: Any) -> bool:
    plan = kvplan.estimate(spec, advise=False, **question)
    return plan.fits is True or plan.outcome.split


def fits(spec: ModelSpec | str, **question: Any) -> bool:
    try:
        return ask(spec, **question).fits is True
    except KvplanError:
        return False


def names_are_not_ignored(engine: str, spec: ModelSpec, values: Iterable[tuple[str, Any]], **question: Any) -> None:
    """Each name that is chosen changes the answer (or, which takes longer to see, its limits alone), adds a note to it, or is refused."""
    asked = {"engine": engine, "context": 2048, "batch": 4, **question}
    plain = cache(lambda limits: answer(spec, limits=limits, **asked))
    for name, value in values:
        changed = asked | {name: value}
        assert any(answer(spec, limits=n, **changed) != plain(n) for n in (False, True)), (engine, name, value, question)


def options_are_read(engine: str, spec: ModelSpec, options: Iterable[str], **question: Any) -> None:
    """A value that no option takes is refused, or changes the answer."""
    names_are_not_ignored(engine, spec, [("engine_option", {option: "none of them;"}) for option in options], **question)


def form_is_held_or_refused(engine: str, form: Form, spec: ModelSpec, **question: Any) -> None:
    """A form of cache is counted as the table shows it, or refused by name, by kvplan or in the engine's own words."""
    try:
        plan = ask(spec, engine=engine, context=1000, kv_memory=ROOM, **question)
    except UnsupportedError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal and question.get("engine_version") and "no release before" in refusal:
        return
    if refusal:
        assert form not in engines.facts(engine).forms, (engine, form)
        assert f"({form})" in refusal, (engine, form, refusal)
        return
    if plan.starts is False:
        assert plan.outcome.reason
        return
    if engines.facts(engine).pool != "set aside":
        holds_what_it_shows(engine, spec, **question)
    requests_what_it_shows(engine, spec, **question)
