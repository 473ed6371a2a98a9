"""One settled question on its way to an outcome: stages, weights per stage, then budget and pools, then the answer."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engines.common.lines import Refusal, Span, certainty, query_heads, stage_weights, weight_entries
from kvplan.engines.common.measured import stage_entries
from kvplan.engines.common.protocol import Engine, Outcome, Settled
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.sglang.answer import Load, capacity, margin
from kvplan.engines.sglang.budget import Budget, budget
from kvplan.engines.sglang.facts import FACTS
from kvplan.engines.sglang.rank import Pools, Stage, build, read_stage
from kvplan.engines.sglang.settle import SglangSettings, per_worker, settle
from kvplan.ledger import Entry, Ledger, exact
from kvplan.parallel import split_layers

KV_DTYPES = ("bf16", "fp8_e4m3", "fp8_e5m2", "nvfp4", "mxfp8")
_POOLS = "sglang model_executor/pool_configurator.py"

_Tried = tuple[list[Pools], list[Pools] | None, list[Pools] | None]


class Plan:
    """One settled question on its way to an outcome: stages, weights per stage, then budget and pools."""

    def __init__(self, settled: Settled) -> None:
        self.s: SglangSettings = settled.settings
        d, s = settled.question, self.s
        self.d, self.rules, self.shape, self.k, self.model = d, s.rules, s.layout, s.pools, settled.model
        self.layers = split_layers(len(self.model.layers), self.shape.pp, "last")
        self.weights = [self._weights(stage) for stage in self.layers]
        self.load = Load(per_worker(d.batch or 1, self.shape), d.context or 1, d.encoder_tokens or 0)

    def check_length(self) -> None:
        """configs/model_config.py, _derive_context_length; the environment variable is the option allow_overwrite_longer_context_len.

        Raises Refusal.
        """
        most, asked = self.d.model.max_context, self.k.context_len
        if most and asked > most and not self.s.allow_long:
            raise Refusal(
                f"User-specified context_length ({asked}) is greater than the derived context_length ({most}). This may lead to incorrect "
                "model outputs or CUDA errors. To allow overriding this maximum, set SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"
            )

    def check_heads(self) -> None:
        """The models' own assertions. Raises Refusal for query heads that the attention ranks do not divide."""
        heads = query_heads(self.model)
        if heads > 1 and heads % self.shape.attn_tp:
            raise Refusal(f"assert self.total_num_heads % tp_size == 0 ({heads} query heads over {self.shape.attn_tp} attention ranks)")

    def check_formats(self) -> None:
        """Raises Refusal for a cache format that --kv-cache-dtype does not take."""
        asked = self.s.formats
        if asked.k != asked.v or asked.k not in (*KV_DTYPES, asked.compute):
            raise Refusal(f"argument --kv-cache-dtype: invalid choice: {(self.d.kv_dtype or '')[:40]!r} (takes {', '.join(KV_DTYPES)})")

    def outcome(self) -> Outcome:
        """Pools from the bytes given, or from the device's budget; without either only what the question would hold."""
        d, found = self.d, self._budget()
        if found is None and d.kv_memory is None:
            return Outcome(
                ledgers=tuple(self._ledger(n, None, None) for n in range(len(self.layers))),
                capacity=None, starts=None, fits=None, margin_bytes=None, limiting_rank=None,
            )  # fmt: skip
        rest = Span(d.kv_memory, d.kv_memory, d.kv_memory) if d.kv_memory is not None else found.rest if found else Span(0, 0, 0)
        made = self._pools(rest.point)
        spare, stage, reason = self._margin(made)
        low, high = self._try(rest.low), self._try(rest.high)
        sizes = [max(p.total_bytes for p in tried) if tried else 0 for tried in (low, high)]
        ends = [tried is not None and self._margin(tried)[0] >= 0 for tried in (low, high)]
        return Outcome(
            ledgers=tuple(self._ledger(n, found, (made, low, high)) for n in range(len(self.layers))),
            capacity=capacity(d, made, (sizes[0], sizes[1]), self.load, self.k, self.shape),
            starts=True,
            fits=spare >= 0,
            certainty=certainty(ends[0], spare >= 0, ends[1], spare, rest.high - rest.low),
            margin_bytes=spare,
            limiting_rank=self._ranks(stage)[0],
            reason=reason,
        )

    def refused(self, refusal: Refusal) -> Outcome:
        """The engine would not start."""
        return Outcome(
            ledgers=tuple(self._ledger(n, None, None) for n in range(len(self.layers))),
            capacity=None,
            starts=False,
            fits=False,
            certainty="certain" if refusal.sure else "too close to call",
            margin_bytes=None,
            limiting_rank=0,
            reason=str(refusal),
        )

    def _weights(self, stage: range) -> list[Entry]:
        d, attn = self.d, self.shape.attn_tp
        tensors = stage_weights(self.model, stage)
        if self.s.speculation and self.rules.draft_in_cell and stage.stop == len(self.model.layers):
            tensors += [w for layer in self.model.draft for w in layer.weights]
        role_tp = {"attention": attn, "state": attn, "embedding": attn}
        return weight_entries(tensors, weight_formats(d), tp=self.shape.tp, ep=self.shape.ep, role_tp=role_tp)

    def _budget(self) -> Budget | None:
        if self.d.device is None or self.d.kv_memory is not None:
            return None
        heaviest = max(self.weights, key=lambda entries: sum(entry.bytes for entry in entries))
        ranks = self.shape.tp * self.shape.pp
        return budget(self.d, self.d.device, self.rules, self.s.release, ranks, heaviest, self.k.fraction)

    def _stages(self) -> list[Stage]:
        draft = self.s.draft_layers if self.rules.draft_in_cell else 0
        return [read_stage(self.model, layers, self.s.split, windows=self.s.windows, draft=draft) for layers in self.layers]

    def _pools(self, rest: int) -> list[Pools]:
        return build(self._stages(), rest, self.k, self.rules, self.s.swa_ratio)

    def _try(self, rest: int) -> list[Pools] | None:
        try:
            return self._pools(rest)
        except Refusal:
            return None

    def _margin(self, made: Sequence[Pools]) -> tuple[int, int, str | None]:
        return margin(self.load, made, self.k, self.shape)

    def _ranks(self, stage: int) -> tuple[int, ...]:
        tp, per_server = self.shape.tp, self.shape.tp * self.shape.pp
        servers = self.shape.n_devices // per_server
        return tuple(server * per_server + stage * tp + n for server in range(servers) for n in range(tp))

    def _ledger(self, n: int, found: Budget | None, tried: _Tried | None) -> Ledger:
        d, entries = self.d, stage_entries(self.weights[n], found.entries if found else ())
        cache, per_token = 0, 0.0
        if tried is not None:
            pools = tried[0][n]
            cache, per_token = pools.total_bytes, pools.full_token_bytes or pools.swa_token_bytes
            entries += _pool_entries(tried, n)
        if found is not None:
            table = _request_table(tried[0][n].running if tried else 0, self.k.context_len, self.k.draft_tokens)
            entries.append(exact("request table", table, "sglang mem_cache/memory_pool.py, ReqToTokenPool"))
            spare = max(found.slack - table, 0)
            low, high = min(spare, found.slack), found.slack
            entries.append(
                Entry("kept free for activations and graphs", spare, low, high, "modelled", "(1 - mem_fraction_static) of free memory")
            )
        if d.reserve:
            entries.append(exact("held by others", d.reserve, "the question"))
        whole = int(per_token) if per_token == int(per_token) else per_token
        limit = d.device.memory_bytes if d.device else None
        return Ledger(self._ranks(n), d.device.id if d.device else None, cache, whole, tuple(entries), limit)


def _pool_entries(tried: _Tried, n: int) -> list[Entry]:
    """A line per pool; modelled where the budget is."""
    made, low, high = tried
    lines = []
    for name, field in (
        ("full pool", "full_bytes"),
        ("window pool", "swa_bytes"),
        ("state pool", "state_bytes"),
        ("fixed states", "fixed_bytes"),
    ):
        point = getattr(made[n], field)
        ends = sorted((getattr(low[n], field) if low else 0, getattr(high[n], field) if high else point))
        if point and ends == [point, point]:
            lines.append(exact(f"cache: {name}", point, _POOLS))
        elif point:
            lines.append(Entry(f"cache: {name}", point, ends[0], ends[1], "modelled", _POOLS))
    return lines


def _request_table(running: int, context_len: int, draft_tokens: int) -> int:
    """Bytes of req_to_token: an int32 row per request and one more, with headroom beyond the context."""
    return (running + 1) * (context_len + 4 + draft_tokens) * 4


def plan(settled: Settled) -> Outcome:
    """What SGLang does with a settled question; a refusal to start is an outcome with the engine's own condition."""
    made = Plan(settled)
    try:
        made.check_heads()
        made.check_length()
        made.check_formats()
        return made.outcome()
    except Refusal as refusal:
        return made.refused(refusal)


ENGINE = Engine(FACTS, settle, plan)
