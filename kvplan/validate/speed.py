"""The speed that a cache buys: a decode step with it and without it, as the sequence grows; and how near its reads come to the memory.

With a cache one step projects one token and reads the keys and values of all; without it the step projects and attends all of them again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from kvplan.validate.meters import Event, Meter

#: one layer of a Llama-like model: hidden size, query heads, KV heads, head dim
SHAPE = {"hidden": 1024, "heads": 16, "kv_heads": 4, "head_dim": 64}
COPY_BYTES = 256 << 20
ROUNDS = 3


class Layer:
    """Attention and a feed-forward part of four times the width, enough to have the costs of a real layer."""

    def __init__(self, device: str, dtype: torch.dtype, hidden: int, heads: int, kv_heads: int, head_dim: int) -> None:
        def weight(rows: int, columns: int) -> torch.Tensor:
            return torch.randn(rows, columns, device=device, dtype=dtype).div(columns**0.5)

        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.q, self.o = weight(heads * head_dim, hidden), weight(hidden, heads * head_dim)
        self.kv = weight(2 * kv_heads * head_dim, hidden)
        self.up, self.down = weight(4 * hidden, hidden), weight(hidden, 4 * hidden)

    def rows(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of tokens x [n, hidden]: [KV heads, n, head dim] each."""
        k, v = (x @ self.kv.T).view(len(x), 2, self.kv_heads, self.head_dim).permute(1, 2, 0, 3)
        return k, v

    def __call__(self, x: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
        q = (x @ self.q.T).view(len(x), self.heads, self.head_dim).transpose(0, 1)
        out = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal, enable_gqa=True)[0]
        x = x + out.transpose(0, 1).flatten(1) @ self.o.T
        return x + torch.nn.functional.silu(x @ self.up.T) @ self.down.T


def speed_job(m: Meter, lengths: list[int], seconds: float = 0.5) -> Iterator[Event]:
    """One event per length: seconds of a decode step with and without a cache, and of reading the cache. At last a plain copy.

    seconds  for how long each is repeated, in ROUNDS rounds over all lengths, so that what disturbs the machine for a while hits all
    """
    dtype = torch.float32 if m.device == "cpu" else torch.bfloat16
    layer = Layer(m.device, dtype, **SHAPE)
    events: list[Event] = []
    steps: list[dict[str, Callable[[], Any]]] = []
    for length in lengths:
        x = torch.randn(length, SHAPE["hidden"], device=m.device, dtype=dtype)
        k, v = (torch.empty(SHAPE["kv_heads"], length, SHAPE["head_dim"], device=m.device, dtype=dtype) for _ in "kv")
        k[:], v[:] = layer.rows(x)
        events.append({"event": "length", "length": length, "cache_bytes": sum(t.untyped_storage().nbytes() for t in (k, v))})
        steps.append(
            {
                "with_cache_s": partial(_cached_step, layer, x[-1:], k, v),
                "without_cache_s": partial(_whole_step, layer, x),
                "read_s": partial(_attention_only, layer, x[-1:], k, v),
            }
        )
    for _ in range(ROUNDS):
        for event, step in zip(events, steps, strict=True):
            for name, run in step.items():
                event[name] = min(event.get(name, math.inf), best(run, m, seconds / ROUNDS))
    yield from events
    data = torch.ones(COPY_BYTES // 4, device=m.device)
    copy = torch.empty_like(data)
    yield {"event": "copy", "bytes": 2 * COPY_BYTES, "seconds": best(lambda: copy.copy_(data), m, seconds)}


def _whole_step(layer: Layer, x: torch.Tensor) -> torch.Tensor:
    """The last token where nothing was kept: every token's row, and every token's attention, again."""
    return layer(x, *layer.rows(x), causal=True)


def _cached_step(layer: Layer, x: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The last token: its row goes into its place of the preallocated cache, then it attends to all."""
    k[:, -1:], v[:, -1:] = layer.rows(x)
    return layer(x, k, v, causal=False)


def _attention_only(layer: Layer, x: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q = x.view(1, -1, layer.head_dim).transpose(0, 1)
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], enable_gqa=True)


def best(run: Callable[[], Any], m: Meter, seconds: float) -> float:
    """The shortest of the runs that fit in `seconds` (one at least, after one that warms up): what the machine does undisturbed."""
    times: list[float] = []
    with torch.no_grad():
        run()
        while sum(times) < seconds:
            _wait(m)
            start = time.perf_counter()
            run()
            _wait(m)
            times.append(time.perf_counter() - start)
    return min(times)


def _wait(m: Meter) -> None:
    if m.device != "cpu":
        torch.cuda.synchronize(m.device)
