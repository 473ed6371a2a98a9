"""What a GPU takes beside tensors, how fast it is, and what a forward pass of transformers takes for a moment. JSON lines.

python tools/gpu_facts.py overheads             CUDA's context, then what the first use of each library adds, in the allocator and beside it
python tools/gpu_facts.py graphs                CUDA graphs of a decode step of Llama-3.1-8B's shapes at 1, 8, 64 and 256 sequences
python tools/gpu_facts.py rates                 copy, matrix products, attention over a large cache
python tools/gpu_facts.py passes CONFIG...      peaks of prefill and decode of real classes, few layers, by batch and tokens
python tools/gpu_facts.py bounds CONFIG...      most sequences that whole models hold on a card of so many GiB, beside the plan's number

ON=cpu tries all of it where there is no GPU, small. Once with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, for what that changes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as torch's own documentation calls it

from kvplan.units import GIB
from kvplan.validate.fewer import fewer, n_layers
from kvplan.validate.measure import is_out_of_memory
from kvplan.validate.meters import Meter, grown, meter

ON = os.environ.get("ON", "cuda")
SMALL = ON == "cpu"
DTYPE = torch.bfloat16
ALLOCATOR = os.environ.get("PYTORCH_CUDA_ALLOC_CONF")


def say(**what: Any) -> None:
    """One line, with the allocator's settings where it has any."""
    print(json.dumps(what | ({"allocator": ALLOCATOR} if ALLOCATOR else {})), flush=True)


def beside(m: Meter, before: dict[str, int | None]) -> dict[str, int | None]:
    """Growth: in torch's allocator, and of the device beside it."""
    found = grown(before, m.read())
    used, reserved = found.get("nvml_used"), found.get("torch_reserved")
    process = found.get("nvml_process")
    return {
        "reserved": reserved,
        "outside": None if used is None or reserved is None else used - reserved,
        "outside_process": None if process is None or reserved is None else process - reserved,
        "allocated": found.get("torch_allocated"),
    }


def overheads(m: Meter) -> None:
    say(what="machine", **m.facts(), context=getattr(m, "context_bytes", None), free=m.free())
    a = torch.randn(1024, 1024, device=m.device, dtype=DTYPE)
    q = torch.randn(1, 32, 512, 128, device=m.device, dtype=DTYPE)
    mask = torch.ones(512, 512, device=m.device, dtype=torch.bool)
    image = torch.randn(1, 64, 64, 64, device=m.device, dtype=DTYPE)
    kernel = torch.randn(64, 64, 3, 3, device=m.device, dtype=DTYPE)
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("elementwise", lambda: (a + 1).sum().item()),
        ("matmul bf16", lambda: a @ a),
        ("matmul f32", lambda: a.float() @ a.float()),
        ("addmm with bias", lambda: F.linear(a, a, a[0])),
        ("attention", lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True)),
        ("attention with a mask", lambda: F.scaled_dot_product_attention(q, q, q, attn_mask=mask)),
        ("softmax and sort of logits", lambda: a.float().softmax(-1).sort(descending=True)),
        ("multinomial", lambda: torch.multinomial(a.float().softmax(-1), 1)),
        ("convolution", lambda: F.conv2d(image, kernel)),
    ]
    for name, run in steps:
        m.settle()
        before = m.read()
        try:
            run()
        except Exception as error:
            say(what="first use", step=name, failed=str(error)[:200])
            continue
        kept = beside(m, before)
        m.settle()
        say(what="first use", step=name, **kept, after_empty_cache=beside(m, before))
    for sizes in ((1, 512, 513), (1 << 20, (1 << 20) + 1, 5 << 20), (10 << 20, 11 << 20, 600 << 10), (7 << 20, 6 << 20, 6 << 20)):
        m.settle()
        before = m.read()
        held = [torch.empty(n, dtype=torch.uint8, device=m.device) for n in sizes]
        say(what="allocator", sizes=sizes, **beside(m, before))
        del held


class Stack:
    """Layers of Llama-3.1-8B's shapes that all use one layer's weights: what a graph keeps is by kernels and buffers, not by weights."""

    def __init__(self, m: Meter, layers: int = 32, hidden: int = 4096, heads: int = 32, kv_heads: int = 8, inner: int = 14336) -> None:
        def weight(rows: int, columns: int) -> torch.Tensor:
            return torch.randn(rows, columns, device=m.device, dtype=DTYPE) * 0.01

        self.layers, self.heads, self.kv_heads, self.dim = layers, heads, kv_heads, hidden // heads
        self.qkv, self.o = weight((heads + 2 * kv_heads) * self.dim, hidden), weight(hidden, hidden)
        self.up, self.down, self.head = weight(2 * inner, hidden), weight(hidden, inner), weight(128256, hidden)

    def __call__(self, x: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        n = len(x)
        for _ in range(self.layers):
            q, _k, _v = (x @ self.qkv.T).split([self.heads * self.dim, self.kv_heads * self.dim, self.kv_heads * self.dim], -1)
            k[:n, :, -1], v[:n, :, -1] = _k.view(n, self.kv_heads, self.dim), _v.view(n, self.kv_heads, self.dim)
            out = F.scaled_dot_product_attention(q.view(n, self.heads, 1, self.dim), k[:n], v[:n], enable_gqa=True)
            x = x + out.reshape(n, -1) @ self.o.T
            gate, up = (F.rms_norm(x, (x.shape[-1],)) @ self.up.T).chunk(2, -1)
            x = x + (F.silu(gate) * up) @ self.down.T
        return x @ self.head.T


def graphs(m: Meter) -> None:
    most = 8 if SMALL else 256
    stack = Stack(m, layers=2 if SMALL else 32)
    k, v = (torch.zeros(most, 8, 64, 128, device=m.device, dtype=DTYPE) for _ in "kv")
    x = torch.randn(most, 4096, device=m.device, dtype=DTYPE)
    with torch.no_grad():
        for n in (most, 8, 1):
            stack(x[:n], k, v)
        if SMALL:
            return
        pool, kept = None, []
        for n in (256, 128, 64, 32, 16, 8, 4, 2, 1):
            m.settle()
            before = m.read()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                stack(x[:n], k, v)
            pool = pool or graph.pool()
            kept.append(graph)
            captured = beside(m, before)
            graph.replay()
            say(what="graph", sequences=n, layers=stack.layers, captured=captured, replayed=beside(m, before))


def rates(m: Meter) -> None:
    n_bytes = (1 << 26) if SMALL else 8 * GIB
    data = torch.empty(n_bytes, dtype=torch.uint8, device=m.device)
    say(what="copy", bytes_moved=2 * n_bytes, **timed(m, partial(torch.empty_like(data).copy_, data), 2 * n_bytes))
    del data
    n = 512 if SMALL else 8192
    a, b = (torch.randn(n, n, device=m.device, dtype=DTYPE) for _ in "ab")
    say(what="matmul bf16", n=n, **timed(m, partial(torch.matmul, a, b), 2 * n**3))
    try:
        one = torch.ones((), device=m.device)
        x, y = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).T
        say(what="matmul fp8", n=n, **timed(m, lambda: torch._scaled_mm(x, y, scale_a=one, scale_b=one, out_dtype=DTYPE), 2 * n**3))
    except Exception as error:
        say(what="matmul fp8", failed=str(error)[:200])
    del a, b
    m.settle()
    for batch, tokens in ((4, 1024),) if SMALL else ((64, 131072), (1, 131072), (256, 8192)):
        k, v = (torch.empty(batch, 8, tokens, 128, device=m.device, dtype=DTYPE).normal_() for _ in "kv")
        q = torch.randn(batch, 32, 1, 128, device=m.device, dtype=DTYPE)
        size = 2 * k.numel() * 2
        found = timed(m, lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), size)
        say(what="decode attention", batch=batch, tokens=tokens, cache_bytes=size, **found)
        del k, v
        m.settle()


def timed(m: Meter, run: Callable[[], Any], amount: float) -> dict[str, float]:
    """The median of ten runs after three, and what is done in a second."""
    times = []
    with torch.no_grad():
        for n in range(13):
            if not SMALL:
                torch.cuda.synchronize()
            start = time.perf_counter()
            run()
            if not SMALL:
                torch.cuda.synchronize()
            if n > 2:
                times.append(time.perf_counter() - start)
    median = sorted(times)[len(times) // 2]
    return {"seconds": median, "per_second": amount / median, "slowest": max(times)}


def passes(m: Meter, files: list[str]) -> None:
    from kvplan.validate.models import build, forward

    shapes = ((1, 64), (2, 32)) if SMALL else ((1, 512), (1, 2048), (1, 8192), (1, 32768), (8, 1024), (8, 4096), (64, 512))
    for file in files:
        whole = json.loads(Path(file).read_text())
        try:
            config = fewer(whole, 2)
            m.settle()
            empty = m.read()
            model = build(config, DTYPE, m.device)
        except Exception as error:
            say(what="model", config=Path(file).stem, failed=str(error)[:300])
            continue
        attention = getattr(model.config.get_text_config(decoder=True), "_attn_implementation", None)
        say(what="model", config=Path(file).stem, layers=n_layers(config), of=n_layers(whole), attention=attention, **beside(m, empty))
        longest = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None) or 1 << 40
        for batch, tokens in (shape for shape in shapes if shape[1] + 2 <= longest):
            try:
                m.settle()
                m.forget_peak()
                before = m.read()
                out = forward(model, batch, tokens, tokens, None)
                prefill, kept = m.peak(before), beside(m, before)
                m.forget_peak()
                out = forward(model, batch, 1, tokens, out)
                out = forward(model, batch, 1, tokens, out)
                decode = m.peak(before)
                say(what="pass", config=Path(file).stem, batch=batch, tokens=tokens, prefill=prefill, decode=decode, **kept)
            except Exception as error:
                kind = "out of memory" if is_out_of_memory(error) else str(error)[:200]
                say(what="pass", config=Path(file).stem, batch=batch, tokens=tokens, failed=kind)
            out = None
        del model


def _holds(m: Meter, model: Any, tokens: int, sequences: int) -> bool:
    from kvplan.validate.models import forward

    m.settle()
    try:
        out = forward(model, sequences, tokens, tokens, None)
        for _ in range(2):
            out = forward(model, sequences, 1, tokens, out)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True


def most(holds: Callable[[int], bool], guess: int) -> int:
    """The most that holds, looked for around a guess; more than 4,096 are not tried."""
    low, high = 0, max(2, guess + max(1, guess // 8))
    while high <= 4096 and holds(high):
        low, high = high, high + max(1, high // 4)
    tried = max(low + 1, guess - max(1, guess // 16))
    while high - low > 1:
        low, high = (tried, high) if holds(tried) else (low, tried)
        tried = (low + high) // 2
    return low


def bounds(m: Meter, files: list[str]) -> None:
    """A card of a size is the part of this one that torch's allocator may take; sequences of a prompt and two tokens more."""
    from kvplan import api
    from kvplan.validate.models import build

    total = 8 * GIB if SMALL else torch.cuda.get_device_properties(0).total_memory
    for file in files:
        config = json.loads(Path(file).read_text())
        model = build(config, DTYPE, m.device)
        loaded = sum(p.numel() * p.element_size() for p in model.parameters())
        for size in (4,) if SMALL else (24, 48, 96):
            if not 0.1 < loaded / (size * GIB) < 0.9:
                continue
            if not SMALL:
                torch.cuda.set_per_process_memory_fraction(size * GIB / total)
            for tokens in (64,) if SMALL else (512, 4096, 16384):
                asked: dict[str, Any] = {"device": f"{size}GiB", "context": tokens + 2, "max_num_batched_tokens": tokens, "batch": 1}
                planned = api.estimate(file, engine="transformers", weight_dtype="bf16", **asked).capacity
                guess = (planned and planned.max_batch) or 0
                began = time.perf_counter()
                held = most(partial(_holds, m, model, tokens), guess)
                seconds = round(time.perf_counter() - began, 1)
                say(what="bound", config=Path(file).stem, gib=size, tokens=tokens, planned=guess, held=held, seconds=seconds)
        del model
        m.settle()


if __name__ == "__main__":
    what, *more = sys.argv[1:]
    one = meter(ON)
    if what in ("passes", "bounds"):
        {"passes": passes, "bounds": bounds}[what](one, more)
    else:
        {"overheads": overheads, "graphs": graphs, "rates": rates}[what](one)
