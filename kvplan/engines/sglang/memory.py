"""Defaults that follow the GPU's memory: chunked prefill size, decode graphs, and mem_fraction_static.

Sources: 0.5.23 arg_groups/memory_hook.py, handle_gpu_memory_settings, reserve_for_graph_mb, adjust_mem_fraction_for_vlm;
arg_groups/cuda_graph_hook.py for the capture lists; 0.4.3 to 0.5.15 server_args.py.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.sglang.rules import SglangRules, Tier

UNKNOWN_CHUNK, UNKNOWN_GRAPH_BS = 4096, 160
MAX_PREFILL_TOKENS = 16384  # --max-prefill-tokens: of prompts that are not cut into chunks
VISION_SHARE = 0.9  # of the fraction, for any model that sees (ModelRunner.__init__ up to 0.4.8, server_args.py in 0.4.9)
_VIT_L = 24 * 1024**2  # layers x hidden size squared of ViT-L/14, the vision tower that costs nothing extra


class FractionInputs(NamedTuple):
    """What the fraction depends on. `gpu_mib`: nvidia-smi's memory.total; `vit`: layers x hidden size squared of a vision tower;
    `attention_dp`: attention groups, 0 where nobody asks for any; `whole_graphs`: those of prompts are not broken up."""

    gpu_mib: int | None
    tp: int
    pp: int
    attention_dp: int
    chunk: int
    graph_bs: int
    decode_graphs: bool
    prefill_sizes: int | None
    mla: bool
    draft: str | None
    deepep: bool
    vit: float | None
    decodes: bool = True
    pieces_mib: int = 0
    whole_graphs: bool = False


def chunk_size(rules: SglangRules, gpu_mib: int | None, role: str | None = None) -> int:
    """The default --chunked-prefill-size in tokens. `role`: prefill or decode, of a server that does one alone."""
    chunk = UNKNOWN_CHUNK if gpu_mib is None else _tier(rules, gpu_mib).chunk
    return rules.role_chunk if role in ("prefill", "decode") and rules.role_chunk and chunk > UNKNOWN_CHUNK else chunk


def decode_graph_bs(rules: SglangRules, gpu_mib: int | None, tp: int, max_running: int | None) -> int:
    """The largest batch that decode graphs are captured for."""
    if gpu_mib is None:
        bs = UNKNOWN_GRAPH_BS
    else:
        tier = _tier(rules, gpu_mib)
        bs = tier.graph_bs if tp < 4 else tier.graph_bs_tp4
    return min(bs, max_running) if rules.graph_capped and max_running else bs


def _tier(rules: SglangRules, gpu_mib: int) -> Tier:
    return next(tier for tier in rules.tiers if tier.below_mib is None or gpu_mib < tier.below_mib)


def decode_graph_sizes(largest: int) -> int:
    """How many batch sizes decode graphs are captured for: 1, 2, 4, 8, 12, 16, then steps of 8 to 256 and of 16 above."""
    return sum(n <= largest for n in (1, 2, 4, 8, 12)) + min(largest, 256) // 8 - (largest >= 8) + max(largest - 256, 0) // 16


def prefill_graph_sizes(largest: int) -> int:
    """How many token counts prefill graphs are captured for."""
    steps = ((4, 32, 4), (48, 256, 16), (288, 512, 32), (576, 1024, 64), (1280, 4096, 256), (4608, largest, 512))
    return sum(len(range(first, min(last, largest) + 1, step)) for first, last, step in steps)


def fraction(rules: SglangRules, s: FractionInputs) -> float:
    """The default --mem-fraction-static: of the memory free before the weights, what weights and pools may take."""
    gpu = s.gpu_mib
    if not gpu:
        value = _by_tp(s.tp) if rules.fraction.startswith("by_tp") else rules.unknown_fraction
    elif rules.fraction == "by_tp":
        value = _by_tp(s.tp)
    elif rules.fraction in ("by_tp_18gib", "by_tp_180"):
        value = _by_tp_180(rules, s, gpu)
    elif rules.fraction == "classes":
        value = round((gpu - _class_reserve(rules, s, gpu)) / gpu, 3)
    else:
        value = round((gpu - _reserve(rules, s, gpu)) / gpu, 3)
    return value if s.vit is None else value * _vision_factor(rules, s.vit)


def _by_tp(tp: int) -> float:
    for least, value in ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87)):
        if tp >= least:
            return value
    return 0.88


def _by_tp_180(rules: SglangRules, s: FractionInputs, gpu: int) -> float:
    """0.4.6.post5 and 0.4.7 server_args.py."""
    early = rules.fraction == "by_tp_18gib"
    by_tp = 0.88 if early and gpu > 81920 else _by_tp(s.tp * s.pp)
    if gpu > 180_000 and not early:
        return 0.79
    if gpu > 96 * 1024:
        reserve = 1024 * (20 if s.draft and not early else 18)
        return min(by_tp + 48 * 1024 * (1 - by_tp) / gpu, (gpu - reserve) / gpu)
    return by_tp * 0.95 if s.draft and not early else by_tp


def _class_reserve(rules: SglangRules, s: FractionInputs, gpu: int) -> float:
    """MiB kept free, by memory class (0.4.8 to 0.5.2 server_args.py)."""
    ranks = s.tp * s.pp
    if gpu < 35 * 1024:
        reserve = (2.8 + ranks / 10) * 1024
    elif gpu < 90 * 1024:
        reserve = (9.5 + ranks / 2) * 1024
    elif gpu < 160 * 1024:
        reserve = (12 + ranks / 2) * 1024
    else:
        reserve = 32 * 1024.0
    return reserve + _draft_reserve(rules, s) + (4 * 1024 if s.attention_dp else 0)


def _reserve(rules: SglangRules, s: FractionInputs, gpu: int) -> float:
    """MiB kept free for activations and graphs (0.5.3 and later)."""
    reserve = 512 + max(s.chunk, 2048) * 1.5 + s.tp * s.pp / 8 * 1024
    if s.decode_graphs and s.decodes:
        reserve += s.graph_bs * 2
    if s.attention_dp and s.decodes:
        reserve += s.graph_bs * s.attention_dp * (4.5 if s.graph_bs > 300 else 3)
    reserve += s.pieces_mib
    if s.prefill_sizes is not None:
        reserve += 1.5 * 1024 if s.mla else s.prefill_sizes * 8
        reserve += 1024 if s.deepep and not s.whole_graphs else 0
    if gpu > 60 * 1024:
        reserve = max(reserve, 10 * 1024)
    return reserve + _draft_reserve(rules, s) + (2 * 1024 if rules.a2a_reserve and s.deepep and s.decode_graphs and s.decodes else 0)


def _draft_reserve(rules: SglangRules, s: FractionInputs) -> int:
    if s.draft in (None, "ngram"):
        return 0
    return rules.spec_reserve[1 if s.draft == "standalone" else 0]


def _vision_factor(rules: SglangRules, vit: float) -> float:
    if rules.vision != "by_vit":
        return VISION_SHARE
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (vit / _VIT_L - 1.0)))
