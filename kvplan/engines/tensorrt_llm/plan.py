"""One settled question on its way to an outcome: stages, weights per stage, then budget and pools, then the answer."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engines.common.lines import Refusal, Span, certainty, stage_weights, weight_entries
from kvplan.engines.common.measured import stage_entries
from kvplan.engines.common.protocol import Engine, Outcome, Settled
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.tensorrt_llm.answer import Load, allocated, capacity, margin
from kvplan.engines.tensorrt_llm.budget import Budget, budget, measured
from kvplan.engines.tensorrt_llm.cells import LayerCache, layer_cache, windows_of
from kvplan.engines.tensorrt_llm.facts import FACTS
from kvplan.engines.tensorrt_llm.pools import RESUME, Pools, TrtPoolSettings, nothing_kept, v1, v2
from kvplan.engines.tensorrt_llm.settle import TrtSettings, settle
from kvplan.ledger import Entry, Ledger, exact
from kvplan.parallel import split_layers
from kvplan.tensors import Layer
from kvplan.units import cdiv

KV_DTYPES = ("f16", "bf16", "f32", "fp8_e4m3", "int8", "nvfp4")
_POOLS = "tensorrt_llm/_torch/pyexecutor/resource_manager.py and kv_cache/kv_cache_manager_v2.py"
_Tried = tuple[list[Pools], list[Pools] | None, list[Pools] | None]


class Plan:
    """A settled question, its lowered model and its stages."""

    def __init__(self, settled: Settled) -> None:
        self.s: TrtSettings = settled.settings
        d, s = settled.question, self.s
        self.d, self.rules, self.shape, self.k, self.model, self.drafts = d, s.rules, s.layout, s.pools, settled.model, settled.drafts
        self.stages = split_layers(len(self.model.layers), self.shape.pp, "first")
        self.weights = [self._weights(stage) for stage in self.stages]
        self.load = Load(cdiv(d.batch or 1, self.shape.workers), d.context or 1)

    def check_formats(self) -> None:
        """Raises Refusal for a cache format that KvCacheConfig.dtype does not take."""
        asked = self.s.formats
        if asked.k != asked.v or asked.k not in KV_DTYPES:
            raise Refusal(f"kv_cache_config.dtype: {(self.d.kv_dtype or '')[:40]!r} is not one of {', '.join(KV_DTYPES)}")

    def outcome(self) -> Outcome:
        """Pools from the bytes given, or from the device's budget; without either only the weights."""
        d, found = self.d, self._budget()
        if found is None and d.kv_memory is None:
            ledgers = tuple(self._ledger(n, None, None) for n in range(len(self.stages)))
            return Outcome(ledgers=ledgers, capacity=None, starts=None, fits=None, margin_bytes=None, limiting_rank=None)
        given = d.kv_memory if d.kv_memory is not None else 0
        span = found.available if found else Span(given, given, given)
        made, low, high = self._pools(span.point), self._try(span.low), self._try(span.high)
        spare, stage, reason = margin(self.load, made, self.k)
        ends = [tried is not None and margin(self.load, tried, self.k)[0] >= 0 for tried in (low, high)]
        sizes = [max(allocated(p, self.k) for p in tried) if tried else 0 for tried in (low, high)]
        return Outcome(
            ledgers=tuple(self._ledger(n, found, (made, low, high)) for n in range(len(self.stages))),
            capacity=capacity(d, made, (sizes[0], sizes[1]), self.load, self.k, self._host_bytes(span.point)),
            starts=True,
            fits=spare >= 0,
            certainty=certainty(ends[0], spare >= 0, ends[1], spare, span.high - span.low),
            margin_bytes=spare,
            limiting_rank=self._ranks(stage)[0],
            reason=reason,
        )

    def refused(self, refusal: Refusal) -> Outcome:
        """The engine would not start."""
        return Outcome(
            ledgers=tuple(self._ledger(n, None, None) for n in range(len(self.stages))),
            capacity=None,
            starts=False,
            fits=False,
            certainty="certain" if refusal.sure else "too close to call",
            margin_bytes=None,
            limiting_rank=0,
            reason=str(refusal),
        )

    def _weights(self, stage: range) -> list[Entry]:
        tensors = stage_weights(self.model, stage)
        if stage.stop == len(self.model.layers):
            tensors += [w for layer in self.drafts for w in layer.weights]
        attn = self.shape.attn_tp
        role_tp = {"attention": attn, "state": attn}
        return weight_entries(tensors, weight_formats(self.d), tp=self.shape.tp, ep=self.shape.ep, role_tp=role_tp)

    def _budget(self) -> Budget | None:
        d, s = self.d, self.s
        if d.kv_memory is not None or d.device is None:
            return None
        heaviest = max(self.weights, key=lambda entries: sum(entry.bytes for entry in entries))
        if s.peak is not None:
            return measured(d, d.device, s.peak, s.temporary, heaviest)
        return budget(d, d.device, s.release, self.shape.tp * self.shape.pp, heaviest, profiled=s.profiled)

    def _layers(self, stage: range) -> list[LayerCache]:
        layers: list[Layer] = [self.model.layers[i] for i in stage]
        if stage.stop == len(self.model.layers):
            layers += self.drafts
        return [layer_cache(layer, self.shape.attn_tp) for layer in layers]

    def _pools(self, n_bytes: int) -> list[Pools]:
        """The pools of every stage; all stages agree on the fewest tokens."""
        found = [self._stage_pools(stage, n_bytes, self.k) for stage in self.stages]
        fewest = min(p.tokens for p in found)
        if all(p.tokens == fewest for p in found) or any(len(p.pools) > 1 for p in found):
            return found
        limits = [int(fewest * RESUME) + 1 if p.v2 else fewest for p in found]
        limited = [self.k._replace(max_tokens=limit) for limit in limits]
        return [self._stage_pools(stage, n_bytes, k) for stage, k in zip(self.stages, limited, strict=True)]

    def _stage_pools(self, stage: range, n_bytes: int, k: TrtPoolSettings) -> Pools:
        layers = self._layers(stage)
        if not any(layer.token or layer.state for layer in layers):
            return nothing_kept(k)
        cross = sum(layer.cross for layer in layers)
        if cross:
            n_bytes -= int(n_bytes * (self.s.cross_fraction or 0.5))
        if self.s.v2:
            own = [layer.window for layer in layers]
            return v2(n_bytes, layers, windows_of(layers, k.windows, k.max_seq_len, stage.start) if k.windows else own, k)
        return v1(n_bytes, layers, windows_of(layers, k.windows, k.max_seq_len, stage.start), k, self.rules)

    def _try(self, n_bytes: int) -> list[Pools] | None:
        try:
            return self._pools(n_bytes)
        except Refusal:
            return None

    def _host_bytes(self, quota: int) -> int:
        """The host tier: as asked; V2 makes one of its own where host memory is known (kv_cache_manager_v2.py: half of it at most)."""
        if self.s.host_bytes is not None:
            return self.s.host_bytes
        if self.d.host_memory and self.s.v2:
            return min(quota, self.d.host_memory // 2)
        return 0

    def _ranks(self, stage: int) -> tuple[int, ...]:
        tp, server = self.shape.tp, self.shape.tp * self.shape.pp
        return tuple(r * server + stage * tp + n for r in range(self.shape.dp) for n in range(tp))

    def _ledger(self, n: int, found: Budget | None, tried: _Tried | None) -> Ledger:
        d, entries = self.d, stage_entries(self.weights[n], found.entries if found else ())
        cache = per_token = 0
        if tried is not None:
            cache, per_token = allocated(tried[0][n], self.k), tried[0][n].pools[0].token_bytes
            ends = self._ends(tried, n)
            sure = ends == (cache, cache)
            line = Entry("cache: pools", cache, *ends, "modelled", _POOLS)
            entries.append(exact("cache: pools", cache, _POOLS) if sure else line)
        if d.reserve:
            entries.append(exact("held by others", d.reserve, "the question"))
        limit = d.device.memory_bytes if d.device else None
        return Ledger(self._ranks(n), d.device.id if d.device else None, cache, per_token, tuple(entries), limit)

    def _ends(self, tried: _Tried, n: int) -> tuple[int, int]:
        sizes: Sequence[int] = [allocated(made[n], self.k) if made else 0 for made in tried]
        return min(sizes), max(sizes)


def plan(settled: Settled) -> Outcome:
    """What TensorRT-LLM does with a settled question; a refusal to start is an outcome with the engine's own condition."""
    made = Plan(settled)
    try:
        made.check_formats()
        return made.outcome()
    except Refusal as refusal:
        return made.refused(refusal)


ENGINE = Engine(FACTS, settle, plan)
