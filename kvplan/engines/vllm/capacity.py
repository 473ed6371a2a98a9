"""Blocks, tokens, concurrency and admission: from groups and available bytes to what vLLM would print.

vLLM 0.33 `vllm/v1/core/kv_cache_planning.py` get_kv_cache_configs, `kv_cache_utils.py` get_kv_cache_capacity; the rules of
other releases as rules.py says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import lcm
from typing import NamedTuple

from kvplan.engines.vllm.backends import DEFAULT_BLOCK
from kvplan.engines.vllm.groups import KVGroup, Member, block_bytes, form_groups
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.engines.vllm.specs import FULL, Load, Spec, pages
from kvplan.engines.vllm.wordings import Refused, gib, no_memory, too_long
from kvplan.tensors import Curve, total
from kvplan.units import cdiv, longest

FOREVER = 1 << 40  # a length that no request has


class Pool(NamedTuple):
    """What one replica's ranks were given: the groups, and the cost of a block and the bytes available on each pipeline stage."""

    members: tuple[Member, ...]
    groups: tuple[KVGroup, ...]
    block_bytes: tuple[int, ...]
    available: tuple[int, ...]
    load: Load


class Tables(NamedTuple):
    """What of a pool does not depend on its bytes: the groups, of the whole model and of each stage alone, and the cost of a block."""

    members: tuple[Member, ...]
    groups: tuple[KVGroup, ...]
    alone: tuple[tuple[KVGroup, ...], ...]  # by stage, where the release groups the layers of each stage apart; else empty
    block_bytes: tuple[int, ...]
    load: Load


class Admission(NamedTuple):
    """Whether one longest request is admitted: the stage that decides, what it needs and has, and what vLLM says if not."""

    stage: int
    needed: int
    available: int
    refusal: str | None


def load_of(s: VllmSettings) -> Load:
    """What a request's blocks depend on beside its length."""
    drafts = s.draft_tokens
    states: int | None = 1
    if s.rules.states_per_request == "mode":
        states = {"none": 1 + drafts, "align": 2 + drafts, "all": None}[s.state_mode]
        drafts = drafts if s.since("0.22") else 0
    elif s.rules.states_per_request == "length":
        states, drafts = None, 0
    return Load(s.in_flight_tokens, s.encoder_tokens, s.dcp, states, drafts)


def _merged(group: KVGroup) -> Spec:
    """The spec of a group: layers that were made to keep everything hand on their window (kv_cache_interface.py merge)."""
    return group.members[0].spec._replace(local=max(m.spec.local for m in group.members))


def make_tables(members: Sequence[Member], s: VllmSettings) -> Tables:
    """The block tables of a replica. Refused where the layers can not be grouped."""
    groups = form_groups(members, s.rules, s.hybrid)
    if s.dcp > 1:
        _check_shared(groups, s)
    if s.retention:
        _check_retention(groups, s)
    if s.match_unit and s.caching and s.state_mode != "all":
        _check_unit(groups, s, s.match_unit)
    costs = tuple(block_bytes(groups, s.rules, stage) for stage in range(s.pp))
    alone: list[list[KVGroup]] = []
    if s.rules.groups_of == "stage" and s.pp > 1:
        alone = [form_groups([m for m in members if m.stage == stage], s.rules, s.hybrid) for stage in range(s.pp)]
        tables = [sorted(_merged(group) for group in own) for own in alone]
        if any(a != b for other in tables[1:] for a, b in zip(tables[0], other, strict=False)):
            raise Refused("the KV cache groups of the pipeline stages differ")
        costs = tuple(block_bytes(own, s.rules) for own in alone)
    return Tables(tuple(members), tuple(groups), tuple(map(tuple, alone)), costs, load_of(s))


def _check_shared(groups: Sequence[KVGroup], s: VllmSettings) -> None:
    """What ranks that share a sequence's tokens do not go with.

    kv_cache_interface.py SlidingWindowSpec.max_memory_usage_bytes; kv_cache_coordinator.py HybridKVCacheCoordinator, which keeps prefixes
    of several groups; 0.20 to 0.25 kv_cache_utils.py resolve_kv_cache_block_sizes.
    """
    kinds = {member.spec.kind for group in groups for member in group.members}
    if kinds & {"sliding_window", "sliding_window_mla"}:
        raise Refused("DCP not support sliding window.")
    if len(groups) == 1:
        return
    if s.since("0.20") and not s.since("0.26"):
        raise Refused(
            "Hybrid KV cache groups with multiple block sizes do not support context parallelism (dcp_world_size/pcp_world_size > 1)."
        )
    if s.caching and not s.since("0.20"):
        raise Refused("DCP not support hybrid attn now.")
    if s.caching and kinds - {*FULL, "mamba", "circular_buffer"}:
        raise Refused("DCP with hybrid KV cache layouts only supports full-attention and Mamba groups")


def _check_retention(groups: Sequence[KVGroup], s: VllmSettings) -> None:
    """kv_cache_coordinator.py _validate_prefix_cache_retention_interval, with prefixes or without (0.29 to 0.33)."""
    specs = [group.members[0].spec for group in groups if group.members[0].spec.kind != "circular_buffer"]
    if not {spec.kind for spec in specs} & {"sliding_window", "sliding_window_mla", "mamba"}:
        raise Refused("prefix_cache_retention_interval is set but this model has no sliding-window or Mamba KV cache group")
    step = lcm(*(spec.block * (s.dcp if spec.kind in FULL else 1) for spec in specs))
    if s.retention % step:
        raise Refused(
            f"prefix_cache_retention_interval ({s.retention}) must be non-negative and a multiple of scheduler_block_size ({step})."
        )


def _check_unit(groups: Sequence[KVGroup], s: VllmSettings, unit: int) -> None:
    """kv_cache_utils.py resolve_kv_cache_block_sizes (0.26 to 0.33): blocks of several tables are whole units, and those of one are one."""
    specs = [group.members[0].spec for group in groups if group.members[0].spec.kind != "circular_buffer"]
    sizes = [spec.block * (1 if spec.kind == "mamba" else s.dcp) for spec in specs]
    if len(groups) > 1 and any(size % unit for size in sizes):
        raise Refused(f"Invalid prefix_match_unit={unit}; all KV cache group block sizes must be divisible by prefix_match_unit: {sizes}")
    if len(groups) == 1 and sizes and unit != sizes[0] and s.since("0.32"):
        raise Refused(f"Invalid prefix_match_unit={unit}; with a single KV cache group, hits land on the block size ({sizes[0]}).")


def make_pool(tables: Tables, available: Sequence[int], s: VllmSettings) -> Pool:
    """The pool of a replica with so many bytes on each pipeline stage."""
    groups, costs = tables.groups, tables.block_bytes
    if tables.alone:
        groups = min(zip(available, costs, tables.alone, strict=True), key=lambda one: one[0] // one[1] if one[1] else one[0])[2]
    if s.blocks_override is not None:
        available = [cost * s.blocks_override for cost in costs]
    return Pool(tables.members, groups, costs, tuple(available), tables.load)


def num_blocks(pool: Pool) -> int:
    """Block ids of the replica: the smallest stage's."""
    return min((max(have, 0) // cost for have, cost in zip(pool.available, pool.block_bytes, strict=True) if cost), default=1)


def request_blocks(pool: Pool, tokens: int) -> int:
    """Block ids that one request of `tokens` tokens takes at most."""
    return request_at(request_curves(pool), tokens)


def request_curves(pool: Pool) -> tuple[tuple[Curve, ...], ...]:
    """The same over its tokens: of each group the most, all groups together."""
    return tuple(group.curves(pool.load) for group in pool.groups)


def request_at(curves: tuple[tuple[Curve, ...], ...], tokens: int) -> int:
    """Block ids at one length."""
    return sum(max(curve.at(tokens) for curve in group) for group in curves)


def admission_bytes(pool: Pool, s: VllmSettings, stage: int) -> Callable[[int], int]:
    """What the release compares with the memory available on a stage before it starts, over the tokens of a request."""
    rules, groups = s.rules, pool.groups
    scope = stage if rules.admission_scope == "stage" else None
    first = groups[0].curves(pool.load)
    if rules.admission == "tokens":
        block, each = groups[0].members[0].spec.block, pool.block_bytes[stage]
        return lambda tokens: cdiv(tokens, block) * each
    if rules.admission == "layers":
        counts = Counter(m.spec for m in pool.members if m.stage == stage)
        held = total(pages(spec, pool.load).times(n * spec.page) for spec, n in counts.items())
        return held.at
    if len(groups) == 1 and groups[0].mixed and rules.admission != "pool":
        one = groups[0].bytes(scope)
        return lambda tokens: request_at((first,), tokens) * one
    cost = block_bytes(groups, rules, scope)
    if rules.admission == "first_group":
        return lambda tokens: request_at((first,), tokens) * cost
    if rules.admission == "groups" and all(group.mixed for group in groups):
        cost = sum({m.spec.page for m in groups[0].members}) * max(_most_of_one_page(group) for group in groups)
    curves = request_curves(pool)
    return lambda tokens: request_at(curves, tokens) * cost


def _most_of_one_page(group: KVGroup) -> int:
    counts: dict[int, int] = {}
    for m in group.members:
        counts[m.spec.page] = counts.get(m.spec.page, 0) + 1
    return max(counts.values())


def check_bytes(pool: Pool, s: VllmSettings, stage: int) -> int:
    """The memory that admission compares with: from 0.29 on without the null block; up to 0.16 the smallest rank's for all."""
    if s.rules.admission_scope == "model":
        return min(pool.available)
    return pool.available[stage] - (pool.block_bytes[stage] if s.rules.admission == "pool" else 0)


def longest_admitted(pool: Pool, s: VllmSettings, most: int) -> int:
    """The longest request admitted on every stage, up to `most` tokens; 0 where not even one token is."""
    if not pool.groups:
        return most
    return min(_longest_on(pool, s, stage, most) for stage in _owners(pool))


def _longest_on(pool: Pool, s: VllmSettings, stage: int, most: int) -> int:
    have, needed = check_bytes(pool, s, stage), admission_bytes(pool, s, stage)
    return longest(lambda tokens: needed(tokens) <= have, most)


def _owners(pool: Pool) -> list[int]:
    return [stage for stage, cost in enumerate(pool.block_bytes) if cost] or [0]


def admit(pool: Pool, s: VllmSettings, max_model_len: int) -> Admission:
    """The verdict on one request of max_model_len tokens: the first stage that refuses, else the tightest."""
    if not pool.groups:
        return Admission(0, 0, min(pool.available), None)
    results = []
    for stage in _owners(pool):
        needed, have = admission_bytes(pool, s, stage)(max_model_len), check_bytes(pool, s, stage)
        refusal = None
        if have <= 0:
            refusal = no_memory(s.rules)
        elif needed > have and (s.rules.v1 or s.rules.checks_length):
            estimate = _longest_on(pool, s, stage, max_model_len)
            if s.rules.admission == "tokens":
                estimate = num_blocks(pool) * pool.groups[0].members[0].spec.block
            refusal = too_long(s.rules, max_model_len, needed, have, estimate)
        results.append(Admission(stage, needed, have, refusal))
    refused = [result for result in results if result.refusal]
    return refused[0] if refused else min(results, key=lambda result: result.available - result.needed)


def spare_states(pool: Pool, s: VllmSettings, blocks: int) -> int | None:
    """Blocks beyond one for every sequence's states (negative: missing), where the capture of decoding looks at that; else None.

    Not for a default that depends on a device which is not known. Linear attention has no such graphs beside drafts
    (v1/attention/backends/linear_attn.py: one token a sequence).
    """
    kinds = {m.spec.shape[0] for m in pool.members if m.spec.kind == "mamba"}
    if not (s.rules.state_each and s.graphs and s.captures.mode != "PIECEWISE" and s.seqs_by != "nobody" and kinds):
        return None
    if s.draft_tokens and "linear attention" in kinds:
        return None
    return blocks - s.max_num_seqs


def concurrency(pool: Pool, s: VllmSettings, blocks: int, max_model_len: int) -> float:
    """Requests of max_model_len that the blocks hold, as printed."""
    if s.rules.tokens == "blocks":
        return blocks * pool.groups[0].members[0].spec.block / max_model_len
    packed = len(pool.groups) > 1 and all(group.mixed for group in pool.groups)
    if packed and not s.rules.group_concurrency:
        held = sum(group.pages(max_model_len, pool.load) * group.bytes() for group in pool.groups)
        return blocks / cdiv(held, pool.groups[0].bytes())
    return blocks / request_blocks(pool, max_model_len)


def reported_tokens(pool: Pool, s: VllmSettings, blocks: int, max_model_len: int) -> int:
    """N of "KV cache size: N tokens"."""
    rules = s.rules
    if rules.tokens == "requests":
        return int(concurrency(pool, s, blocks, max_model_len) * max_model_len)
    smallest = min(m.spec.block for group in pool.groups for m in group.members)
    if not rules.mixed_sizes and all(m.spec.kind == "mamba" for group in pool.groups for m in group.members):
        smallest = s.block_size or DEFAULT_BLOCK  # up to 0.10 the configured block size, though states have another
    tokens = blocks * smallest if rules.tokens == "blocks" else blocks // len(pool.groups) * smallest
    return tokens * s.dcp if rules.dcp_tokens == "factor" else tokens


def capacity_lines(pool: Pool, s: VllmSettings, blocks: int, max_model_len: int) -> list[str]:
    """The capacity lines of the release."""
    times = concurrency(pool, s, blocks, max_model_len)
    per_request = f"Maximum concurrency for {max_model_len:,} tokens per request: {times:.2f}x"
    if s.rules.log == "v0":
        cpu_blocks = min((s.swap_bytes // cost for cost in pool.block_bytes if cost), default=0)  # as its executors: the least of all ranks
        return [
            f"# GPU blocks: {blocks}, # CPU blocks: {cpu_blocks}",
            f"Maximum concurrency for {max_model_len} tokens per request: {times:.2f}x",
        ]
    size = f"{s.device_name} KV cache size: {reported_tokens(pool, s, blocks, max_model_len):,} tokens"
    if s.rules.log == "one":
        return [f"{size}, {per_request}"]
    lines = [size, per_request]
    if s.rules.dcp_tokens == "factor" and s.dcp > 1:
        lines.insert(0, f"Multiplying the GPU KV cache size by the dcp_world_size {s.dcp}.")
    return lines


def auto_fit(pool: Pool, s: VllmSettings, longest_possible: int) -> tuple[int, str]:
    """--max-model-len -1: the length taken, and the line logged. Refused where not even one token fits."""
    if not s.rules.auto_fit:
        raise Refused(f"vLLM {s.release} has no --max-model-len -1")
    fitted = longest_admitted(pool, s, longest_possible)
    if fitted <= 0:
        raise Refused(
            "Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token. "
            "Try increasing `gpu_memory_utilization`."
        )
    have = gib(min(check_bytes(pool, s, stage) for stage in _owners(pool)), s.rules)
    if s.since("0.32"):
        memory = f"in available KV cache memory ({have} GiB {s.device_name})"
    else:
        memory = f"in available GPU memory ({have} GiB available for KV cache)"
    if fitted >= longest_possible:
        where = memory if "KV cache memory (" in memory else "in available GPU memory"
        return fitted, f"Auto-fit max_model_len: full model context length {longest_possible} fits {where}"
    return fitted, f"Auto-fit max_model_len: reduced from {longest_possible} to {fitted} to fit {memory}"
