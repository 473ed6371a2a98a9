"""Wrappers whose towers need a rule of their own (transformers 5.23.0, models/*/modeling_*.py)."""

from __future__ import annotations

from kvplan.importers.hf.decoder import Stack
from kvplan.importers.hf.fields import Fields
from kvplan.importers.hf.towers import linear
from kvplan.importers.hf.wrappers import Wrapper, wrapper


def fuyu(f: Fields, t: Wrapper) -> Stack:
    """Fuyu: patches of pixels through one linear."""
    made = wrapper(f, t)
    pixels = f.dim("patch_size") ** 2 * f.dim("num_channels")
    return {**made, "towers": [{"name": "vision_tower", "parameters": linear(made["hidden_size"], pixels)}]}
