"""One settled question on its way to an outcome: weights, what a block takes, then budget and pool, then the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvplan.dtypes import canonical_weight, weight_scheme
from kvplan.engines.common import lora
from kvplan.engines.common.drafters import drafter_weights
from kvplan.engines.common.lines import Refusal, Span, growth, query_heads, stage_weights, sure_by, sure_of, weight_entries
from kvplan.engines.common.measured import UNCALIBRATED, widened
from kvplan.engines.common.protocol import RULE, Engine, Outcome, Settled
from kvplan.engines.common.settling import weight_formats, without_towers
from kvplan.engines.lmdeploy.answer import Load, capacity, left
from kvplan.engines.lmdeploy.blocks import check_heads, kept
from kvplan.engines.lmdeploy.facts import FACTS
from kvplan.engines.lmdeploy.pools import PAGE, Pool, blocks_pool, objects_pool, pytorch_pool, runtime, state_slot, state_slots
from kvplan.engines.lmdeploy.rules import SPLIT_EMBEDDING, SPLIT_HEAD
from kvplan.engines.lmdeploy.settle import BLOCK, BY_EITHER, LmdeploySettings, settle
from kvplan.ledger import Entry, Ledger, exact, held_by_others
from kvplan.tensors import Role
from kvplan.units import cdiv, show_bytes

#: Weights are converted and buffers made beside the pool, and no log says how much that takes: starts ran out with up to so much of the
#: device free (a twentieth to a tenth in lmdeploy#2731, #4249, #4558; a quarter of old 22 GB cards in #1298 and #2127).
GROWTH = ("lmdeploy#2731, #4249, #4558", 0.15)
_PYTORCH_FORMATS = frozenset({"plain", "awq", "fp8", "int"})
#: Of compressed-tensors: FP8 with a scale per channel is never read, 4 bits in groups of 32 from 0.17 on (pytorch/config.py).
_COMPRESSED, _PACKED = "fp8_channel", "int4_g32"
_SOURCE = {
    "blocks": "lmdeploy src/turbomind/models/llama/BlockManager.cc",
    "objects": "lmdeploy src/turbomind/memory",
    "pytorch": "lmdeploy/pytorch/engine/cache_engine.py",
}


class Budget(NamedTuple):
    """`cache`: bytes for the pool (PyTorch: for blocks, beside the states); `free`: once the weights are loaded; `entries` beside them."""

    cache: Span
    free: int
    entries: tuple[Entry, ...]
    warnings: tuple[str, ...] = ()


class Plan:
    """A settled question, its weights, and what one rank keeps of its cache. All ranks are alike."""

    def __init__(self, settled: Settled) -> None:
        s: LmdeploySettings = settled.settings
        self.s, self.d, self.model, self.settled = s, settled.question, settled.model, settled
        self.kind = "pytorch" if s.backend == "pytorch" else s.rules.pool
        align = s.rules.align if s.backend == "pytorch" else 1
        self.kept = kept(settled.layers, s.layout.attn_tp, s.block, align)
        self.drafted = kept(settled.drafts, s.layout.attn_tp, s.block, align).block
        self.weights = self._weights()
        self.load = Load(cdiv(self.d.batch or 1, s.layout.workers), self.d.context or 1)
        self.make: Callable[[int], Pool] = lambda n: {"blocks": blocks_pool, "objects": objects_pool, "pytorch": pytorch_pool}[self.kind](
            n, self.kept, s
        )

    def check(self) -> None:
        """What the engine asserts before it loads anything. Raises Refusal."""
        s, architecture = self.s, self.d.model.architecture
        first = BY_EITHER.later(architecture, self.d.engine_version)
        if first or (architecture is not None and s.backend == "pytorch" and architecture not in s.rules.pytorch):
            told = f" (its first release is {first})" if first else ""
            raise Refusal(f"Can not found rewrite for architectures: ['{architecture}']{told}", sure=RULE)
        if s.refused:
            raise Refusal(s.refused, sure=RULE)
        if s.flash and s.block != BLOCK:
            raise Refusal("Please set block_size to 64 for flash_mla.", sure=RULE)
        if s.prefixes and s.rules.states_or_prefixes and s.backend == "turbomind" and self.kept.state_bytes:
            raise Refusal("Prefix caching is unsupported when linear attention is present", sure=RULE)
        if s.fraction >= 1:
            raise Refusal("invalid cache_max_entry_count", sure=RULE)
        named = {canonical_weight(name) for name in weight_formats(self.d).values()}
        loaded = {weight_scheme(name) for name in named} - _PYTORCH_FORMATS
        packed = named & ({_COMPRESSED} if s.rules.packed else {_COMPRESSED, _PACKED})
        if s.backend == "pytorch" and (loaded or packed):
            raise Refusal(f"Unsupported quant method: {', '.join(sorted(loaded)) or 'compressed-tensors'}", sure=RULE)
        heads, tp = query_heads(self.model), s.layout.attn_tp
        if heads > 1 and heads % tp:
            raise Refusal(f"assert head_num % attn_tp_size == 0 ({heads} query heads over {tp} ranks)", sure=RULE)
        check_heads(self.model.layers, tp, repeats=s.rules.repeats or s.backend == "turbomind")

    def outcome(self) -> Outcome:
        """The pool from the bytes given, or from the device's budget; without either only the weights."""
        d, found = self.d, self._budget()
        if found is None and d.kv_memory is None:
            ledger = self._ledger(None, None)
            return Outcome(ledgers=(ledger,), capacity=None, starts=None, fits=None, margin_bytes=None, limiting_rank=None)
        span = found.cache if found else self._given(d.kv_memory or 0)
        made, low, high = self.make(span.point), self._try(span.low), self._try(span.high)
        spare, fits, reason = left(self.load, made, self.s)
        sizes = sorted((low.n_bytes if low else 0, high.n_bytes if high else made.n_bytes))
        beyond = self._beyond(made, found)
        if beyond:
            spare, fits = min(spare, -beyond), False
            reason = f"CUDA out of memory: the blocks asked for lack {show_bytes(beyond)}"
        told = capacity(made, (sizes[0], sizes[1]), self.load, self.s, found.free if found else None, beyond)
        return Outcome(
            ledgers=(self._ledger(found, (made, sizes[0], sizes[1])),),
            capacity=told._replace(warnings=(*(found.warnings if found else ()), *told.warnings)),
            starts=not beyond,
            fits=fits,
            certainty="certain" if beyond else sure_by(lambda reach: self._fits(span.at(reach))),
            margin_bytes=spare,
            limiting_rank=0,
            reason=reason,
        )

    def _fits(self, n_bytes: int) -> bool:
        tried = self._try(n_bytes)
        return tried is not None and left(self.load, tried, self.s).fits

    def refused(self, refusal: Refusal) -> Outcome:
        """The engine would not start."""
        return Outcome(
            ledgers=(self._ledger(None, None),),
            capacity=None,
            starts=False,
            fits=False,
            certainty=refusal.sure,
            margin_bytes=None,
            limiting_rank=0,
            reason=str(refusal),
        )

    def _weights(self) -> list[Entry]:
        """TurboMind splits embedding and head, and keeps a tied one twice; PyTorch keeps most whole on every rank, a tied one once."""
        model, layout = self.model, self.s.layout
        if self.d.multimodal == "off" and (self.s.backend == "pytorch" or self.s.rules.text_only):
            model = without_towers(model)
        tensors = stage_weights(model, range(len(model.layers)))
        role_tp: dict[Role, int] = {"attention": layout.attn_tp, "state": layout.attn_tp}
        if self.s.backend == "turbomind":
            tensors += [(model.embedding._replace(role="head"), 1)] if model.embedding and model.tied else []
        else:
            split = self.s.rules.split_embedding and self.d.model.architecture in SPLIT_EMBEDDING
            by_rank = self.s.rules.split_head and self.d.model.architecture in SPLIT_HEAD
            role_tp |= {"embedding": layout.attn_tp if split else 1, "head": layout.attn_tp if by_rank else 1}
        entries = weight_entries(tensors, weight_formats(self.d), tp=layout.mlp_tp, ep=layout.ep, role_tp=role_tp)
        found = self.settled.drafter
        if self.s.backend == "pytorch":
            entries += lora.slots(self.d, self.model.layers, layout.mlp_tp, 2, f"{lora.SOURCE}; pytorch/models/patch.py")
        return entries + (drafter_weights(found, tp=layout.mlp_tp, ep=layout.ep, role_tp=role_tp) if found else [])

    def _given(self, n_bytes: int) -> Span:
        """kv_memory as the pool's bytes; a region starts at a multiple of 32 MiB, so that up to a page may be lost."""
        if self.kind == "pytorch":
            n_bytes -= state_slots(self.kept, self.s) * state_slot(self.kept)
        return Span(n_bytes, n_bytes - PAGE + 1 if self.kind == "objects" else n_bytes, n_bytes)

    def _budget(self) -> Budget | None:
        """Free memory x cache_max_entry_count once the weights are loaded; what libraries and buffers hold is in the interval alone.

        Before 0.2.2 TurboMind took its share of the whole device, whatever was free.
        """
        d, device = self.d, self.d.device
        if device is None or d.kv_memory is not None:
            return None
        free = device.memory_bytes - (d.reserve or 0) - sum(e.bytes for e in self.weights)
        less, more = widened(int(UNCALIBRATED * device.memory_bytes), 0, self.weights)
        if free <= 0:
            sure = sure_of(free, free - less, free + more)
            raise Refusal(f"CUDA out of memory: the weights exceed the device by {show_bytes(-free)}", sure=sure)
        if self.kind != "pytorch":
            if self.s.rules.of_total:
                point = low = high = int(device.memory_bytes * self.s.fraction)
            else:
                point, low, high = (int(max(n, 0) * self.s.fraction) for n in (free, free - less, free + more))
            return Budget(Span(point, low - PAGE + 1 if self.kind == "objects" else low, high), free, tuple(self.weights))
        return self._pytorch_budget(free, less, more)

    def _pytorch_budget(self, free: int, less: int, more: int) -> Budget:
        states = state_slots(self.kept, self.s) * state_slot(self.kept)
        left = free - states
        if left <= 0:
            sure = sure_of(left, left - less, left + more)
            raise Refusal("No enough gpu memory for state cache. Please reduce max_batch_size.", sure=sure)
        try:
            reserve, prefill = runtime(left, self.kept.block, self.d.model.vocab_size or 0, self.s)
        except Refusal as refusal:
            raise Refusal(str(refusal), sure="certain" if more == 0 else "too close to call") from None
        point, low, high = (int((left - reserve + x) * self.s.fraction) for x in (0, -less, more))
        source = "lmdeploy/pytorch/engine/executor/base.py, _get_runtime_size"
        warned = () if prefill == self.s.max_prefill else (f"No enough memory. Update max_prefill_token_num={prefill}",)
        name = "kept for logits and scores" if self.s.score_mib else "kept for logits"
        entries = (*self.weights, exact(name, reserve, source, "activations"))
        return Budget(Span(point, low, high), free, entries, warned)

    def _beyond(self, made: Pool, found: Budget | None) -> int:
        """Bytes by which blocks that were counted by hand exceed what is free."""
        if found is None or self.s.asked_blocks is None:
            return 0
        return max(made.n_bytes - found.free, 0)

    def _try(self, n_bytes: int) -> Pool | None:
        try:
            return self.make(max(n_bytes, 0))
        except Refusal:
            return None

    def _ledger(self, found: Budget | None, tried: tuple[Pool, int, int] | None) -> Ledger:
        d, entries = self.d, list(found.entries if found else self.weights)
        cache = 0
        if tried is not None:
            made, low, high = tried
            cache = made.n_bytes
            low, high = min(low, cache), max(high, cache)
            entries += self._pool(Entry("cache: pool", cache, low, high, "exact", _SOURCE[self.kind], "cache"))
        if d.reserve:
            entries.append(held_by_others(d.reserve))
        whole, rest = divmod(self.kept.block, self.s.block)
        per_token: int | float = self.kept.block / self.s.block if rest else whole
        limit = d.device.memory_bytes if d.device else None
        ranks = tuple(range(self.s.layout.n_devices))
        beside, known = ((growth(GROWTH[0], int(GROWTH[1] * (limit or 0))),), limit) if found else ((), None)
        return Ledger(ranks, d.device.id if d.device else None, cache, per_token, tuple(entries), limit, beside, known)

    def _pool(self, whole: Entry) -> list[Entry]:
        """The pool as one line, or the drafter's part apart: its layers' blocks are as many (executor/base.py, update_configs)."""
        if whole.low != whole.high:
            whole = whole._replace(basis="modelled")
        if not self.drafted:
            return [whole]
        part = [n * self.drafted // self.kept.block for n in (whole.bytes, whole.low, whole.high)]
        rest = [n - p for n, p in zip((whole.bytes, whole.low, whole.high), part, strict=True)]
        apart = whole._replace(name="cache: drafter", bytes=part[0], low=part[1], high=part[2])
        return [whole._replace(bytes=rest[0], low=rest[1], high=rest[2]), apart]


def plan(settled: Settled) -> Outcome:
    """What LMDeploy does with a settled question; a refusal to start is an outcome with the engine's own condition."""
    made = Plan(settled)
    try:
        made.check()
        return made.outcome()
    except Refusal as refusal:
        return made.refused(refusal)


ENGINE = Engine(FACTS, settle, plan)
