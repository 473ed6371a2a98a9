"""Who holds what of a loaded model: its layers dealt out by -ngl, shares and patterns, with the lines of each device's weights."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kvplan.engines.common import lora
from kvplan.engines.llama_cpp import named, placement
from kvplan.engines.llama_cpp.loaded import Loaded
from kvplan.engines.llama_cpp.named import HOST, Rules
from kvplan.engines.llama_cpp.placement import Placed, Placement, Split
from kvplan.weights import weight_line


def shares_of(f: Loaded) -> Sequence[Fraction]:
    """Each device's part of the layers: --tensor-split, or what is free on each device, where they differ (llama_model::load_tensors)."""
    reserve = f.question.reserve or 0
    split = f.options.tensor_split[: f.question.n_devices or 1]
    return split if any(split) else [Fraction(max(0, n - reserve)) for n in f.options.device_memory]


def asked_rules(f: Loaded) -> Rules:
    """The patterns of the question (-ot, --n-cpu-moe, --n-cpu-ffn). Raises SpecError for a buffer that no device has."""
    return named.asked(f.options, len(f.rows), (f.question.n_devices or 1) if f.question.device else 0)


def place(
    f: Loaded, n_gpu_layers: int, rules: Rules | None = None, *, shares: Sequence[Fraction] | None = None, drafts: bool = True
) -> Placed:
    """Deal out the layers; without a device all stay in host memory.

    rules, shares  other than the question's
    drafts         the model's own draft layers count as layers
    """
    n_devices = (f.question.n_devices or 1) if f.question.device else 0
    rules = (asked_rules(f) if rules is None else rules) if n_devices else ()
    dealt = shares_of(f) if shares is None else shares
    key = (n_devices, n_gpu_layers, rules, tuple(dealt), drafts)
    if key not in f.deals:
        f.deals[key] = _dealt(f, n_devices, n_gpu_layers, rules, dealt, drafts=drafts)
    return f.deals[key]


def _dealt(f: Loaded, n_devices: int, n_gpu_layers: int, rules: Rules, dealt: Sequence[Fraction], *, drafts: bool) -> Placed:
    where = placement.place(
        len(f.rows), len(f.model.draft) if drafts else 0, n_devices, n_gpu_layers, dealt, output_first=f.rules.output_first
    )
    groups = named.grouped(f.tensors, rules)
    weights = placement.weight_bytes(
        f.model, f.formats, where, groups, rules, draft=bool(f.draft_rows), towers=_towers(f, where), split=split_of(f, dealt),
        own=f.rules.own_graphs,
    )  # fmt: skip
    stored = any(w.stored is not None for layer in f.model.layers for w in layer.weights)
    lines = {d: tuple(weight_line(role, n, f.formats, stored=stored) for role, n in by.items() if n) for d, by in weights.items()}
    for device in lines:  # beside the tensors they adapt, in f16 as convert_lora_to_gguf.py writes them (llama-adapter.cpp)
        mine = [layer for layer, at in zip(f.model.layers, where.layers, strict=True) if at == device]
        lines[device] += tuple(entry for entry in lora.slots(f.question, mine, 1, 2) if entry.bytes)
    beside = placement.parted(where, groups)
    largest = 0 if where.whole and not beside else placement.largest_beside(where, groups)
    return Placed(where, lines, rules, beside, largest)


def _towers(f: Loaded, where: Placement) -> int | None:
    """The first device, whatever -ngl says (tools/mtmd/clip.cpp); None: not loaded. Ollama's own engine keeps them with the output."""
    if f.question.multimodal == "off":
        return None
    on_device = f.options.mmproj_offload is not False and where.n_devices and not (f.rules.own_graphs and where.output == HOST)
    return 0 if on_device else HOST


def split_of(f: Loaded, shares: Sequence[Fraction]) -> Split | None:
    """-sm row and tensor; None: layers stay whole."""
    n_devices = f.question.n_devices or 1
    if f.options.split_mode not in ("row", "tensor") or n_devices < 2 or f.question.device is None:
        return None
    weights = [*shares, *[Fraction(0)] * n_devices][:n_devices] if any(shares) else [Fraction(1)] * n_devices
    return Split(tuple(part / sum(weights) for part in weights), f.options.split_mode == "tensor")
