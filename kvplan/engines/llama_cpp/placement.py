"""Who holds what: the last n_gpu_layers on the devices, the output layer counted as one; input tensors always in host memory.

llama.cpp src/llama-model.cpp load_tensors (b11312); the output layer came after all others before #18148.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from math import ceil
from typing import NamedTuple

from kvplan.engines.common.lines import Span, modelled
from kvplan.engines.llama_cpp.caches import Store
from kvplan.engines.llama_cpp.named import HOST, Group, Named, Rules, as_named, sent
from kvplan.ledger import Entry
from kvplan.tensors import Lowered, Role, WeightTensor
from kvplan.weights import WeightFormats, stored_bytes


class Placement(NamedTuple):
    """The device of every layer and of the output layer; HOST where it stays beside the devices.

    offloaded, counted  layers on devices and all of them, as the engine counts: with the output, and with draft layers where it loads them
    """

    layers: tuple[int, ...]
    output: int
    n_devices: int
    offloaded: int
    counted: int

    @property
    def whole(self) -> bool:
        """Every layer is on a device."""
        return HOST not in (*self.layers, self.output)


class Placed(NamedTuple):
    """The weights for one choice of -ngl and of tensors that go elsewhere: who holds what, and the lines of each device.

    rules    patterns that send tensors elsewhere (-ot, --n-cpu-moe, --fit)
    beside   layers of the devices with tensors in host memory
    largest  bytes of the largest matrix of a layer in host memory
    lacking  bytes that found no place on the devices, where the engine's own estimate says so
    """

    where: Placement
    weights: dict[int, tuple[Entry, ...]]
    rules: Rules = ()
    beside: int = 0
    largest: int = 0
    lacking: int = 0

    @property
    def whole(self) -> bool:
        """Nothing but the input tensors is beside the devices."""
        return self.where.whole and not self.beside


def place(
    n_layers: int, n_draft: int, n_devices: int, n_gpu_layers: int, shares: Sequence[Fraction], *, output_first: bool = True
) -> Placement:
    """Layers dealt out by share, in order; `shares` empty or all 0: equal devices. Draft layers take part in the count."""
    total = n_layers + n_draft
    start = max(total + output_first - n_gpu_layers, 0)
    active = min(n_gpu_layers, total + 1)
    weights = list(shares[:n_devices]) + [Fraction(0)] * (n_devices - len(shares)) if any(shares) else [Fraction(1)] * n_devices
    whole = sum(weights)
    first = [ceil(part * active / whole) for part in accumulate(weights)] if n_devices else []  # of the layers that the next device has

    def device(layer: int) -> int:
        if not start <= layer < start + active or not n_devices:
            return HOST
        return bisect_right(first, layer - start)

    return Placement(tuple(device(i) for i in range(n_layers)), device(total), n_devices, active if n_devices else 0, total + 1)


class Split(NamedTuple):
    """-sm row, tensor: each device's part of a matrix. `every`: of experts and caches too, and vectors are on every device."""

    parts: tuple[Fraction, ...]
    every: bool

    def held(self, n_bytes: int) -> list[tuple[int, int]]:
        """(device, bytes) of what is split."""
        return [(device, int(n_bytes * part)) for device, part in enumerate(self.parts) if part]


def weight_bytes(
    model: Lowered,
    formats: WeightFormats,
    where: Placement,
    layers: Sequence[Sequence[Group]],
    rules: Rules,
    *,
    draft: bool,
    towers: int | None,
    split: Split | None = None,
    own: bool = False,
) -> dict[int, dict[Role, int]]:
    """Device (HOST: beside them) -> role -> bytes. A tied embedding is in host memory, and once more with the output layer.

    layers  the tensors of each layer, grouped under the rules
    rules   patterns that send tensors elsewhere
    towers  who holds those of a file of their own (--mmproj); None: nobody, for text alone
    own     of Ollama's own engine, which keeps the tables of every layer with the output
    """
    held: dict[int, dict[Role, int]] = {device: {} for device in (*range(where.n_devices), HOST)}

    def add(device: int, role: Role, n_bytes: int) -> None:
        held[device][role] = held[device].get(role, 0) + n_bytes

    def deal(device: int, one: Group) -> None:
        if split is None or one.to is not None or device == HOST:
            add(device if one.to is None else one.to, one.role, one.n_bytes)
        elif one.is_matrix and (split.every or one.role != "experts"):
            for other, n_bytes in split.held(one.n_bytes):
                add(other, one.role, n_bytes)
        else:
            for other in range(where.n_devices) if split.every else (device,):
                add(other, one.role, one.n_bytes)

    def deal_one(device: int, prefix: str, one: Named) -> None:
        deal(device, Group(sent(rules, prefix + one.leaf), one.role, one.is_matrix, one.n_bytes, one.n_bytes))

    for device, groups in zip(where.layers, layers, strict=True):
        for group in groups:
            deal(device, group)
    for w in model.first:
        if w.role != "tower":
            add(where.output if own and of_every_layer(w) else HOST, w.role, stored_bytes(w, formats))
        elif towers is not None:
            add(towers, w.role, stored_bytes(w, formats))
    if model.embedding:
        n_bytes, to = stored_bytes(model.embedding, formats), sent(rules, "token_embd.weight")
        add(HOST if to is None else to, "embedding", n_bytes)
        if model.tied and where.output != HOST and to is None:
            deal_one(where.output, "", Named("token_embd.weight", "head", n_bytes, is_matrix=True))
    for w in model.last:
        deal_one(where.output, "", as_named(w._replace(name=_OUTPUT.get(w.name, w.name)), formats))
    if draft:
        for i, layer in enumerate(model.draft, len(layers)):
            for w in layer.weights:
                deal_one(where.output, f"blk.{i}.", as_named(w, formats))
    return held


def of_every_layer(w: WeightTensor) -> bool:
    """Tables for every layer, outside them (Gemma 3n, 4): of the output to Ollama's own engine (its ml/backend/ggml/ggml.go)."""
    return "per_layer" in w.name or "altup" in w.name


def draft_file(model: Lowered, formats: WeightFormats) -> Entry:
    """The vocabulary's tables of draft modules in a file of their own (`-md mtp-*.gguf`); none where the model's file has the modules.

    1,602 MiB of a Qwen3.8 27B in 4 bits, of which its one layer is some 260; others of the same upload's makers are in the file.
    """
    tables = [w for w in (model.embedding, *model.last) if w is not None and len(w.shape) > 1]
    size = sum(stored_bytes(w, formats) for w in tables)
    said = "embedding and head of the draft modules, where these come in a file of their own"
    return modelled("weights: drafter file's tables", Span(0, 0, size), said, "weights", sources=1)


_OUTPUT = {"lm_head": "output", "norm": "output_norm"}


def parted(where: Placement, layers: Sequence[Sequence[Group]]) -> int:
    """How many layers of the devices have tensors in host memory."""
    return sum(device != HOST and any(one.to == HOST for one in groups) for device, groups in zip(where.layers, layers, strict=True))


def largest_beside(where: Placement, layers: Sequence[Sequence[Group]]) -> int:
    """Bytes of the largest matrix of a layer that is beside the devices."""
    held = zip(where.layers, layers, strict=True)
    sizes = (one.largest for device, groups in held for one in groups if one.is_matrix and (device if one.to is None else one.to) == HOST)
    return max(sizes, default=0)


def output_beside(model: Lowered, formats: WeightFormats, where: Placement) -> int:
    """Bytes of the largest matrix of the output layer where it is beside the devices."""
    if where.output != HOST:
        return 0
    sizes = [stored_bytes(w, formats) for w in model.last]
    sizes += [stored_bytes(model.embedding, formats)] if model.tied and model.embedding else []
    return max(sizes, default=0)


def attends_elsewhere(where: Placement, layers: Sequence[Sequence[Named]], rules: Rules, *, offload: bool) -> bool:
    """Whether a layer whose cache is in host memory has its attention on another device than its own."""
    return any(
        one.leaf.startswith("attn_") and one.is_matrix and sent(rules, f"blk.{i}.{one.leaf}") not in (None, where.layers[i])
        for i, tensors in enumerate(layers if rules else ())
        if where.layers[i] == HOST or not offload
        for one in tensors
    )


def cache_bytes(stores: Sequence[Store], where: Placement, *, offload: bool, split: Split | None = None) -> dict[int, dict[str, int]]:
    """Device -> role of the cache -> bytes: each layer's cache follows its weights, or all stays in host memory."""
    held: dict[int, dict[str, int]] = {device: {} for device in (*range(where.n_devices), HOST)}
    for store in stores:
        sums: dict[int, int] = {}
        for layer, k, v in store.parts:
            device = HOST if not offload else where.layers[layer] if layer < len(where.layers) else where.output
            sums[device] = sums.get(device, 0) + k + v
        if split is not None and split.every:
            on_devices = sum(n for device, n in sums.items() if device != HOST)
            sums = dict(split.held(on_devices)) | ({HOST: sums[HOST]} if HOST in sums else {})
        for device, n_bytes in sums.items():
            held[device][store.role] = held[device].get(store.role, 0) + n_bytes
    return held
