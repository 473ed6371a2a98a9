"""Which layers share a block table, and what one block id costs.

vLLM 0.33 `vllm/v1/core/kv_cache_planning.py` (get_kv_cache_groups and what it calls); earlier `kv_cache_utils.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import lcm
from typing import NamedTuple

from kvplan.engines.vllm.rules import VllmRules
from kvplan.engines.vllm.specs import FULL, LATENT, Load, Spec, pages
from kvplan.engines.vllm.wordings import Refused
from kvplan.tensors import Curve
from kvplan.units import cdiv, round_up

#: How the names of formats end that have scales beside them.
SCALED = ("_per_token_head", "nvfp4")
#: Kinds that keep part of the past, and what their size is called.
LOCAL: dict[str, str] = {"sliding_window": "window", "chunked_local_attention": "chunk"}


class Member(NamedTuple):
    """One layer's cache in the table: the pipeline stage that owns it. `draft`: a layer of the drafter."""

    stage: int
    spec: Spec
    draft: bool = False


class KVGroup(NamedTuple):
    """Layers with one block table. `mixed`: pages may differ and add up; else every layer has the same page."""

    members: tuple[Member, ...]
    mixed: bool = False

    def bytes(self, stage: int | None = None) -> int:
        """Bytes of one block of this group on one rank of a stage (None: on a rank that had all layers)."""
        counts = Counter(m.spec for m in self.members if stage is None or m.stage == stage)
        return sum(n * spec.page for spec, n in counts.items())

    def layers(self, stage: int | None = None) -> int:
        return sum(1 for m in self.members if stage is None or m.stage == stage)

    def curves(self, load: Load) -> tuple[Curve, ...]:
        """Blocks that one request takes from this group, over its tokens: the most of these."""
        specs = dict.fromkeys(m.spec for m in self.members) if self.mixed else (self.members[0].spec,)
        return tuple(dict.fromkeys(pages(spec, load) for spec in specs))

    def pages(self, tokens: int, load: Load) -> int:
        """Blocks that one request of `tokens` tokens takes from this group."""
        return max(curve.at(tokens) for curve in self.curves(load))


def form_groups(members: Sequence[Member], rules: VllmRules, hybrid: bool) -> list[KVGroup]:
    """The groups of a model. Refused where the release can not bring the layers' pages together."""
    if not members:
        return []
    if not rules.v1:
        members = [m._replace(spec=_whole(m.spec)) for m in members]
    if not hybrid:
        members = _promote(members, rules)
    specs = list(dict.fromkeys(m.spec for m in members))
    if _one_spec(specs):
        return [KVGroup(tuple(members))]
    if _one_type(specs, rules):
        return [KVGroup(tuple(members), mixed=True)]
    kinds = {spec.kind for spec in specs}
    if "circular_buffer" in kinds:
        beside = not rules.packs_rings and not kinds & {"full_attention", "sliding_window_mla"}
        return _beside_latents(members) if beside else _packed(members, rules)
    if rules.packed != "no" and any(spec.kind == "sliding_window_mla" for spec in specs) and len({s.page for s in specs}) > 1:
        return _packed(members, rules)
    try:
        return _equal_pages(_unify(members, rules), rules)
    except Refused:
        fallback = _full_allocation(members, rules) if rules.refits_local else None
        if fallback is None:
            raise
        return fallback


def _one_spec(specs: Sequence[Spec]) -> bool:
    """Whether the layers' specs merge into one: is_kv_cache_spec_uniform. Refused where two local windows were promoted."""
    if all(spec.kind == "full_attention" for spec in specs):
        local = {spec.local for spec in specs if spec.local}
        kinds = {name.split()[0] for name in local}
        if len(local) > len(kinds):
            raise Refused("All attention layers in the same KV cache group must have the same window size.")
        if len(kinds) > 1:
            return False
    return len({spec._replace(local="") for spec in specs}) == 1


def _one_type(specs: Sequence[Spec], rules: VllmRules) -> bool:
    """Whether all layers need the same number of blocks whatever the length: UniformTypeKVCacheSpecs.is_uniform_type.

    In V0 a drafter has as many blocks as its target, of its own size (spec_decode_worker.py split_num_cache_blocks_evenly).
    """
    if (rules.v1 and not rules.mixed_sizes) or len({spec.block for spec in specs}) > 1:
        return False
    if all(spec.kind in FULL for spec in specs):
        return True
    first = specs[0]
    same = all(
        (spec.kind, spec.span, spec.checkpoints, spec.replicated) == (first.kind, first.span, first.checkpoints, first.replicated)
        for spec in specs
    )
    if first.kind == "mamba" and rules.packed == "buckets":
        return same and len({spec.page for spec in specs}) == 1
    return same


def _promote(members: Sequence[Member], rules: VllmRules) -> list[Member]:
    """Without the hybrid manager, window and chunked layers beside full attention are allocated for every token."""
    specs = list(dict.fromkeys(m.spec for m in members))
    if _one_spec(specs) or _one_type(specs, rules):
        return list(members)
    blocks = {spec.block for spec in specs if spec.kind in FULL}
    if blocks and any(spec.kind in LOCAL for spec in specs):
        block = next(iter(blocks)) if rules.refits_local and len(blocks) == 1 else None
        members = [m._replace(spec=_promoted(m.spec, block, rules)) for m in members]
    specs = list(dict.fromkeys(m.spec for m in members))
    if not (_one_spec(specs) or _one_type(specs, rules)):
        raise Refused("Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one unified type.")
    return list(members)


def _whole(spec: Spec) -> Spec:
    """V0 has one block table for every token of every attention layer, an encoder's included."""
    return spec._replace(kind="full_attention", span=0) if spec.kind == "cross_attention" else spec


def _promoted(spec: Spec, block: int | None, rules: VllmRules) -> Spec:
    if spec.kind not in LOCAL:
        return spec
    n_bytes = spec.state_bytes
    if spec.kind in rules.bare_promoted and any(str(one).endswith(SCALED) for one in spec.shape):
        heads, k, v = (int(one) for one in spec.shape[:3])
        n_bytes = heads * (k + v)  # the elements are taken for bytes
    local = f"{LOCAL[spec.kind]} {spec.span}"
    return spec._replace(kind="full_attention", span=0, block=block or spec.block, local=local, state_bytes=n_bytes)


def _full_allocation(members: Sequence[Member], rules: VllmRules) -> list[KVGroup] | None:
    """A window drafter beside latent attention whose page fits no multiple: allocated for every token, one group."""
    kinds = {m.spec.kind for m in members}
    if kinds & {"sliding_window_mla", "chunked_local_attention"} or "sliding_window" not in kinds or not kinds & set(FULL[1:]):
        return None
    try:
        return [KVGroup(tuple(_promote(members, rules)), mixed=True)]
    except Refused:
        return None


def _unify(members: Sequence[Member], rules: VllmRules) -> list[Member]:
    """Pages made equal: a page that divides the largest gets a larger block; others are padded where the release can."""
    largest = max(m.spec.page for m in members)
    return [m._replace(spec=_grown(m.spec, largest, rules)) for m in members]


def _grown(spec: Spec, page: int, rules: VllmRules) -> Spec:
    if spec.page == page:
        return spec
    if spec.kind == "mamba":
        if rules.pad_states:
            return spec._replace(padded=page)
        raise Refused(f"a state page of {spec.page} bytes can not grow to the attention page of {page} bytes")
    if spec.kind == "sliding_window" and spec.padded and rules.window_block == "smallest" and page % spec.page == 0:
        raise Refused("AssertionError: a window's page is padded, and does not grow with its block")  # unify_kv_cache_spec_page_size
    if rules.unify != "none" and page % spec.page == 0:
        return spec._replace(block=spec.block * (page // spec.page))
    if rules.unify == "pad" and spec.kind not in LATENT:
        return spec._replace(padded=page)
    raise Refused(
        f"The page size of the layer ({spec.page} bytes) is not divisible by the maximum page size ({page} bytes). "
        "Cannot unify by adjusting block_size."
    )


def _equal_pages(members: Sequence[Member], rules: VllmRules) -> list[KVGroup]:
    """Buckets of equal layers, each split (from 0.11 on with a stride) into groups of one size: a block id costs the same in all."""
    buckets: dict[Spec, list[Member]] = {}
    for m in members:
        buckets.setdefault(m.spec, []).append(m)
    sizes = [len(bucket) for bucket in buckets.values()]
    size = max(sizes) if max(sizes) < min(sizes) * rules.even_ratio else min(sizes)
    groups = []
    for bucket in buckets.values():
        n = cdiv(len(bucket), size)
        parts = [bucket[i * size : (i + 1) * size] if rules.groups_of == "stage" else bucket[i::n] for i in range(n)]
        groups += [KVGroup(tuple(part)) for part in parts]
    return groups


def _beside_latents(members: Sequence[Member]) -> list[KVGroup]:
    """GLM-5-Next up to 0.31: latents and keys, rings in pages of keys, and states in pages of latents, no more of them than latents.

    kv_cache_utils.py _get_kv_cache_groups_glm5_next.
    """
    rows = [m for m in members if m.spec.kind in FULL]
    page = {kind: next(m.spec.page for m in rows if m.spec.kind == kind) for kind in ("mla_indexer", "mla_attention")}
    rings = [m._replace(spec=m.spec._replace(padded=page["mla_indexer"])) for m in members if m.spec.kind == "circular_buffer"]
    states = [m._replace(spec=m.spec._replace(padded=page["mla_attention"])) for m in members if m.spec.kind == "mamba"]
    latents = [m for m in rows if m.spec.kind == "mla_attention"]
    own, held = Counter(m.stage for m in latents if not m.draft), Counter(m.stage for m in states)
    n = cdiv(len(states), len(latents))
    if len({m.stage for m in members}) > 1:
        if any(not own[stage] for stage in held):
            raise Refused("a pipeline stage has mamba layers but no MLA layer to share slots with; realign the stage boundaries")
        n = max(n, *(cdiv(count, own[stage]) for stage, count in held.items()))
    return [KVGroup(tuple(rows), mixed=True), KVGroup(tuple(rings), mixed=True), *(KVGroup(tuple(states[i::n])) for i in range(n))]


def _packed(members: Sequence[Member], rules: VllmRules) -> list[KVGroup]:
    """Pages of several sizes side by side in a block: buckets of one type, those that repeat a pattern split to equal repeats."""
    buckets: list[list[Member]] = []
    for m in members:
        for bucket in buckets:
            if _one_type([*dict.fromkeys(b.spec for b in bucket), m.spec], rules):
                bucket.append(m)
                break
        else:
            buckets.append([m])
    if rules.packed != "buckets":
        buckets.sort(key=lambda bucket: bucket[0].spec.kind not in FULL)
    if rules.packed in ("tuples", "slots"):
        pages_of_full = {m.spec.page for m in buckets[0]}
        buckets[1:] = [[_widened(m, pages_of_full) for m in bucket] for bucket in buckets[1:]]
    by_page = [_by_page(bucket) for bucket in buckets]
    balanced = [len({len(layers) for layers in sizes.values()}) == 1 for sizes in by_page]
    repeats = [max(len(layers) for layers in sizes.values()) for sizes in by_page]
    if rules.packed == "buckets":
        floor = max((n for n, even, sizes in zip(repeats, balanced, by_page, strict=True) if even and len(sizes) > 1), default=0)
        target = _least_padding([n for n, even in zip(repeats, balanced, strict=True) if even], floor) if floor else None
    else:
        balanced = [False, *([True] * (len(buckets) - 1))]
        target = _least_padding(repeats, repeats[0])
    numbers = [cdiv(n_repeats, target) if even and target else 1 for n_repeats, even in zip(repeats, balanced, strict=True)]
    if rules.packed == "buckets":
        numbers = _states_within(buckets, by_page, numbers, packs=target is not None)
    groups = []
    for bucket, sizes, n in zip(buckets, by_page, numbers, strict=True):
        if n == 1:
            groups.append(KVGroup(tuple(bucket), mixed=True))
            continue
        patterns = list(zip(*sizes.values(), strict=True))
        groups += [KVGroup(tuple(m for pattern in patterns[i::n] for m in pattern), mixed=True) for i in range(n)]
    return groups


def _widened(member: Member, pages_of_full: set[int]) -> Member:
    """A layer in the least page of the full layers that holds it (_get_kv_cache_groups_uniform_groups)."""
    page = min((page for page in pages_of_full if page >= member.spec.page), default=member.spec.page)
    return member if page == member.spec.page else member._replace(spec=member.spec._replace(padded=page))


def _states_within(
    buckets: Sequence[list[Member]], by_page: Sequence[dict[int, list[Member]]], numbers: Sequence[int], *, packs: bool
) -> list[int]:
    """How many groups each bucket becomes, where states do not widen the block that all others need.

    kv_cache_planning.py is_state_bucket: states, rings, and windows where nothing else is packed.
    """
    small = [b[0].spec.kind in ("mamba", "circular_buffer") or (not packs and b[0].spec.kind.startswith("sliding_window")) for b in buckets]
    fewest = [len(b) if state else n for b, state, n in zip(buckets, small, numbers, strict=True)]
    width = max(sum(cdiv(len(layers), n) * page for page, layers in sizes.items()) for sizes, n in zip(by_page, fewest, strict=True))
    return [
        max(n, cdiv(len(b), max(width // b[0].spec.page, 1))) if state else n for b, state, n in zip(buckets, small, numbers, strict=True)
    ]


def _by_page(bucket: Sequence[Member]) -> dict[int, list[Member]]:
    sizes: dict[int, list[Member]] = {}
    for m in bucket:
        sizes.setdefault(m.spec.page, []).append(m)
    return sizes


def _least_padding(counts: Sequence[int], floor: int) -> int:
    """The group size from `floor` to the largest count that pads least when counts are rounded up to it; the larger of equals."""
    if floor >= max(counts):
        return floor
    return max(range(max(1, floor), max(counts) + 1), key=lambda d: (-sum(-n % d for n in counts), d))


def block_bytes(groups: Sequence[KVGroup], rules: VllmRules, stage: int | None = None) -> int:
    """Bytes that one block id costs on one rank of a stage: what the widest group needs for it."""
    if rules.packed == "tuples" and len(groups) > 1 and all(group.mixed for group in groups):
        pages_of_full = {m.spec.page for m in groups[0].members}
        longest = max(len(layers) for group in groups for layers in _by_page(group.members).values())
        return sum(pages_of_full) * longest
    if rules.packed == "slots" and len(groups) > 1 and all(group.mixed for group in groups):
        slots: Counter[int] = Counter()
        for group in groups:
            slots |= Counter({page: len(layers) for page, layers in _by_page(group.members).items()})
        return sum(page * n for page, n in slots.items())
    if rules.groups_of == "model" and len(groups) == 1 and groups[0].mixed:
        stage = None
    strides = [m.spec.stride for group in groups for m in group.members if stage is None or m.stage == stage]
    return round_up(max((group.bytes(stage) for group in groups), default=0), lcm(*strides))
