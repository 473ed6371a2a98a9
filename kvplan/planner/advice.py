"""The single changes that make a plan fit, each evaluated, and where there is none two together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kvplan import engines
from kvplan.deployment import Deployment
from kvplan.devices import Device
from kvplan.engines.common.phases import tightest
from kvplan.engines.common.releases import release
from kvplan.ledger import HOST
from kvplan.planner import remedies
from kvplan.planner.changes import (
    Change,
    Tried,
    advised,
    attempt,
    edge,
    evaluated,
    facts_of,
    first,
    hundredths,
    in_the_way,
    replica_batch,
    roomy,
    sequences,
    smaller_weights,
    with_option,
)
from kvplan.planner.hardware import experts, fewer_shares, larger_device, more_devices, other_layout, shared_ranks, stages, wider
from kvplan.planner.pairs import pairs
from kvplan.planner.plan import CLOSE, Advice, Plan
from kvplan.units import GIB, MIB, cdiv, show_bytes


def advise(d: Deployment, plan: Plan, devices: Sequence[Device] = ()) -> tuple[Advice, ...]:
    """Single changes after which the plan fits, cheapest first: settings, formats, then less work, then more hardware.

    Where none of them does on the devices at hand, two together.
    """
    if plan.fits is not False:
        return ()
    singles = (change for kind in _KINDS for change in kind(d, plan))
    found = [*singles, *_lifted(d, plan, devices)] or pairs(d, plan)
    return tuple(map(advised, (*found, *more_devices(d, plan), *larger_device(d, plan, devices))))


def _lifted(d: Deployment, plan: Plan, devices: Sequence[Device]) -> Iterator[Change]:
    """Where a setting and memory both stand in the way: the setting as the question needs it, and a change that finds the memory."""
    sets: dict[str, Any] = in_the_way(plan)
    asked = replace(d, **sets)
    if not sets or (plan.margin_bytes or 0) >= 0 or (after := evaluated(asked)) is None or after.fits is not False:
        return
    for kind in (_fraction, _pages, _settings, _cache_memory, _cache_format, _weight_format, _host_memory, wider, stages, more_devices):
        yield from (_with(change, sets) for change in kind(asked, after))
    yield from (_with(change, sets) for change in larger_device(asked, after, devices))
    if (now := plan.asked("batch")) == 1:
        return
    if found := edge(now, 1, lambda n: attempt(asked, batch=n, **_slots(sets, plan, n))):
        also = _slots(sets, plan, found[0])
        if found[0] > (d.max_num_seqs or 0) * (plan.asked("dp") or 1) or "max_num_seqs" not in sets:
            yield _with(Change(f"hold {sequences(found[0])} at once", "batch", found[0], found[1]), {**sets, **also})


def _slots(sets: Mapping[str, int], plan: Plan, n: int) -> dict[str, int]:
    """The sequences of a replica, of n of all, where their number is set too low."""
    return {"max_num_seqs": cdiv(n, plan.asked("dp") or 1)} if "max_num_seqs" in sets else {}


def _with(change: Change, sets: Mapping[str, int]) -> Change:
    """A change together with settings that must be lifted."""
    said = " and ".join(f"{name} {value:,}" for name, value in sets.items())
    return change._replace(text=f"{change.text}, and {said}", also={**sets, **change.also})


def _other_engine(d: Deployment, plan: Plan) -> Iterator[Change]:
    """Engines that run on the device, where the one that was asked does not; the first that fits of each kind of pool."""
    make, kinds = d.device.vendor if d.device else "", set[str]()
    if plan.margin_bytes is not None or not make or make in (facts_of(plan).vendors or {make}):
        return
    for name in engines.served():
        facts = engines.facts(name)
        if facts.pool in kinds or make not in (facts.vendors or {make}):
            continue
        if found := attempt(d, engine=name, engine_version=None):
            kinds.add(facts.pool)
            yield Change(f"{facts.title}, which runs on it", "engine", name, found)


def _fraction(d: Deployment, plan: Plan) -> Iterator[Change]:
    """In hundredths: as much more as needed, or, where what comes beside the fraction has no room left, as much less."""
    fraction = plan.asked("memory_fraction")
    if fraction is None or d.device is None or d.kv_memory is not None:
        return
    default = _own(d, "memory_fraction")
    now, ceiling = hundredths(fraction), hundredths(max(facts_of(plan).fraction_ceiling or 0.0, default or 0.0))

    def tried(n: int) -> Plan | None:
        return attempt(d, memory_fraction=n / 100)

    found = edge(now, ceiling, tried) if ceiling > now else None
    lower = _lower(d, now + (100 * fraction > now + 1e-6)) if found is None and _too_much(plan) else []
    for n, after in [found] if found else lower:
        sure = ", with room to spare" if lower[1:] == [(n, after)] else ""
        yield Change(f"set the engine's memory fraction to {n / 100:g}{sure}", "memory_fraction", n / 100, after)
    if found and found[1].certainty == CLOSE and default and default > found[0] / 100 and (own := attempt(d, memory_fraction=default)):
        yield Change(f"set the engine's memory fraction to its own {default:g}", "memory_fraction", default, own)


def _too_much(plan: Plan) -> bool:
    """Whether the engine wants more than is free, or what it takes beside its fraction while it starts finds the device full."""
    full = tightest(plan.ledgers, serving=False)
    return plan.margin_bytes is None or (plan.starts is False and full is not None and full.spare < 0)


def _lower(d: Deployment, above: int) -> list[tuple[int, Plan]]:
    """The next hundredth below `above` that fits, as long as a higher one is still too much; after it the next
    that is not too close to call and survives its largest step."""
    found: list[tuple[int, Plan]] = []
    for n in range(above - 1, max(above - remedies.MOST_HUNDREDTHS, 0), -1):
        if (plan := evaluated(replace(d, memory_fraction=n / 100))) is None:
            break
        safe = plan.fits and plan.certainty != CLOSE and plan.outcome.survives is not False
        if safe or (plan.fits and not found):
            found.append((n, plan))
        if safe or not (plan.fits or _too_much(plan)):
            break
    return found


def _own(d: Deployment, name: str) -> Any:
    """What the engine itself would choose; None where that is not known."""
    left_out: dict[str, Any] = {name: None}
    found = evaluated(replace(d, **left_out))
    return found and found.asked(name)


def _sequences_setting(d: Deployment, plan: Plan) -> Iterator[Change]:
    now, needed = plan.asked("max_num_seqs"), replica_batch(plan)
    if now is None or now == needed:
        return
    found = edge(now, needed, lambda n: attempt(d, max_num_seqs=n))
    text = "let the engine run" if needed > now else "limit the engine to"
    for n, after in [found, *_fewer(d, *found)] if found else []:
        yield Change(f"{text} {sequences(n)} at once", "max_num_seqs", n, after)


def _fewer(d: Deployment, most: int, plan: Plan) -> Iterator[tuple[int, Plan]]:
    """The next powers of two below, up to the first that is not too close to call, where `most` is."""
    close = plan.certainty == CLOSE
    while close and most > 1:
        most = 1 << ((most - 1).bit_length() - 1)
        if (found := attempt(d, max_num_seqs=most)) is None:
            return
        if not (close := found.certainty == CLOSE):
            yield most, found


def _batch_tokens(d: Deployment, plan: Plan) -> Iterator[Change]:
    """Smaller steps need smaller activations."""
    now = plan.asked("max_num_batched_tokens")
    least = max(remedies.LEAST_STEP_TOKENS, plan.asked("max_num_seqs") or 0)
    if now is None or now <= least or release(plan.asked("engine_version") or "999") < facts_of(plan).whole_prompts:
        return
    found = edge(now, least, lambda n: attempt(d, max_num_batched_tokens=n))
    if found:
        yield Change(f"steps of {found[0]:,} tokens", "max_num_batched_tokens", found[0], found[1])
        own = _own(d, "max_num_batched_tokens") if found[1].certainty == CLOSE else None
        if own and least <= own < found[0] and (after := attempt(d, max_num_batched_tokens=own)):
            yield Change(f"steps of the engine's own {own:,} tokens", "max_num_batched_tokens", own, after)


def _length_setting(d: Deployment, plan: Plan) -> Iterator[Change]:
    """max_model_len where it was chosen beside the context, or limits it."""
    now, context = plan.asked("max_model_len"), plan.asked("context")
    if d.max_model_len is None or now is None:
        return

    def tried(n: int) -> Plan | None:
        return attempt(d, max_model_len=n)

    found = None
    if d.context is None:
        found = edge(now, remedies.shortest(now), tried, plan.capacity.max_context_at_batch if plan.capacity else None)
    elif context < now:
        found = edge(now, context, tried)
    if found is None and d.context is not None:
        found = (context, longer) if context > now and (longer := tried(context)) else None
        pool = context * replica_batch(plan)
        found = found or (edge(now, 2 * pool, tried, pool) if pool > now else None)
    if found:
        yield Change(f"set the longest request to {found[0]:,} tokens", "max_model_len", found[0], found[1])


def _pages(d: Deployment, plan: Plan) -> Iterator[Change]:
    sizes = remedies.smaller_pages(plan.asked("block_size"))
    return first(d, ((f"pages of {size} tokens", "block_size", size) for size in sizes))


def without_graphs(d: Deployment, plan: Plan, tried: Tried = attempt) -> Iterator[Change]:
    if not d.enforce_eager and plan.asked("enforce_eager") is False:
        yield from first(d, [("no CUDA graphs", "enforce_eager", True)], tried)


def _settings(d: Deployment, plan: Plan) -> Iterator[Change]:
    """Switches of the engine, one value after the other."""
    yield from without_graphs(d, plan)
    yield from _switches(d, plan, lengths=False)
    for name, text in (("speculative", "no speculation"), ("lora", "no adapters"), ("multimodal", "no images")):
        if plan.asked(name) not in (None, "off"):
            yield from first(d, [(text, name, "off")])


def _switches(d: Deployment, plan: Plan, *, lengths: bool) -> Iterator[Change]:
    """The engine's own switches; `lengths`: those that allow lengths that the model was not trained for, or all others."""
    given = dict(d.engine_option)
    for key, values, text in facts_of(plan).settings:
        for value in values if key.startswith("allow_") == lengths else ():
            if given.get(key) != value and (found := attempt(d, engine_option=with_option(d, key, value))):
                yield Change(text, "engine_option", f"{key}={value}", found)
                break


def _undone(d: Deployment, plan: Plan) -> Iterator[Change]:
    """The engine's options that a check stands on, left out or turned round."""
    own = {key for key, _, _ in facts_of(plan).settings}
    for key, value in d.engine_option if plan.margin_bytes is None else ():
        other = {"true": "false", "false": "true"}.get(value, "")
        if key not in own and (found := attempt(d, engine_option=with_option(d, key, other))):
            yield Change(f"set {key} to {other}" if other else f"leave {key} out", "engine_option", f"{key}={other}", found)


def _host_layers(d: Deployment, plan: Plan) -> Iterator[Change]:
    """Layers left in host memory, where the engine knows such a thing."""
    now = plan.asked("n_gpu_layers")
    if d.device is None or not now or now < 0:
        return
    if found := edge(now, 0, lambda n: attempt(d, n_gpu_layers=n)):
        yield Change(f"{found[0]} layers on the device, the rest in host memory", "n_gpu_layers", found[0], found[1])


def _shared_tokens(d: Deployment, plan: Plan) -> Iterator[Change]:
    """Ranks that hold copies of one cache hold parts of it instead: the fewest that do."""
    tp = plan.asked("tp") or 1
    if d.dcp is None and plan.margin_bytes is not None:
        sizes = (n for n in remedies.TP_SIZES if 1 < n <= tp and tp % n == 0)
        yield from first(d, ((f"{n} ranks share the tokens that each has a copy of", "dcp", n) for n in sizes))


def _cache_format(d: Deployment, plan: Plan) -> Iterator[Change]:
    own = [("store the cache in the engine's own format", "kv_dtype", "auto")]
    found = list(first(d, own)) if d.kv_dtype not in (None, "auto") and plan.margin_bytes is None else []
    yield from found or shorter_rows(d, plan)


def shorter_rows(d: Deployment, plan: Plan, tried: Tried = attempt) -> Iterator[Change]:
    """The first of the engine's cache formats that is smaller and fits."""
    now = plan.cache.bytes_per_sequence
    for name, bits in facts_of(plan).kv_advice:
        found = tried(d, kv_dtype=name)
        if found and found.cache.bytes_per_sequence < now:
            yield Change(f"store the cache in {bits} bits", "kv_dtype", name, found)
            return


def _weight_format(d: Deployment, plan: Plan) -> Iterator[Change]:
    """The mildest format of fewer bits than the checkpoint's that fits, and while that is too close to call the next below it."""
    now, milder = plan.model.weight_bytes, smaller_weights(d, plan)
    for name, bits in (*milder, *(facts_of(plan).weight_further if milder else ())):
        found = attempt(d, weight_dtype=name)
        if found and (found.model.weight_bytes < now or plan.margin_bytes is None):
            yield Change(f"use a checkpoint with {bits}-bit weights", "weight_dtype", name, found)
            if found.certainty != CLOSE:
                return


def _host_memory(d: Deployment, plan: Plan) -> Iterator[Change]:
    """The next size of RAM that is sold and carries it, where RAM is what is missing."""
    full = (has.device == HOST and has.limit_bytes is not None and has.total_bytes > has.limit_bytes for has in plan.ledgers)
    if (now := d.host_memory) is not None and any(full):
        sizes = (n for n in remedies.RAM_GIB if n * GIB > now)
        yield from first(d, ((f"{n:,} GiB of RAM", "host_memory", n * GIB) for n in sizes))


def _cache_memory(d: Deployment, plan: Plan) -> Iterator[Change]:
    now, margin = d.kv_memory, plan.margin_bytes
    if now is None or margin is None or margin >= 0:
        return
    found = edge(now, now - 2 * margin + GIB, lambda n: attempt(d, kv_memory=n), now - margin)
    if found is None and not plan.starts and (less := (now + margin - GIB) // MIB * MIB) > 0 and (after := attempt(d, kv_memory=less)):
        found = less, after  # more than the device has; a process takes some for itself
    if found:
        yield Change(f"give the cache {show_bytes(found[0])} a rank", "kv_memory", found[0], found[1])


def _context(d: Deployment, plan: Plan) -> Iterator[Change]:
    now = plan.asked("context")
    guess = plan.capacity.max_context_at_batch if plan.capacity else None
    found = edge(now, remedies.shortest(now), lambda n: attempt(d, context=n), guess)
    also: dict[str, Any] = {}
    if found is None and d.max_model_len is not None and d.context is not None:
        found = edge(now, remedies.shortest(now), lambda n: attempt(d, context=n, max_model_len=n), guess)
        also = {"max_model_len": found[0]} if found else {}
    if found:
        yield Change(f"shorten the context to {found[0]:,} tokens", "context", found[0], found[1], also)
        if not also and (safe := roomy(found, remedies.ROUND_TOKENS, lambda n: attempt(d, context=n))):
            yield Change(f"shorten the context to {safe[0]:,} tokens, with room to spare", "context", safe[0], safe[1])


def _batch(d: Deployment, plan: Plan) -> Iterator[Change]:
    now, guess = plan.asked("batch"), plan.capacity.max_batch if plan.capacity else None
    if now > 1 and (found := edge(now, 1, lambda n: attempt(d, batch=n), guess)):
        yield Change(f"hold {sequences(found[0])} at once", "batch", found[0], found[1])
        if safe := roomy(found, 1, lambda n: attempt(d, batch=n)):
            yield Change(f"hold {sequences(safe[0])} at once, with room to spare", "batch", safe[0], safe[1])


#: Lengths beyond the model's own come after all that keeps to them.
_KINDS: tuple[Callable[[Deployment, Plan], Iterator[Change]], ...] = (
    _other_engine, experts, other_layout, fewer_shares, _fraction, _sequences_setting, _batch_tokens, _length_setting, _pages, _settings,
    _undone, _shared_tokens, _host_layers, _cache_memory, _cache_format, _weight_format, _context, _batch,
    partial(_switches, lengths=True), _host_memory, shared_ranks, wider, stages,
)  # fmt: skip
