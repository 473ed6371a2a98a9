"""SGLang's rules by release, as data. Read from the wheels of the releases named in VERSIONS; each row says what changed in it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kvplan.engines.common.releases import release


class Tier(NamedTuple):
    """A class of GPUs: below `below_mib` of memory (None: the rest), its chunked prefill size, largest decode graph (tp < 4, >= 4)."""

    below_mib: int | None
    chunk: int
    graph_bs: int
    graph_bs_tp4: int


_GIB = 1024  # MiB
_EARLY = (Tier(25_000, 2048, 8, 80), Tier(None, 8192, 160, 160))
_CLASSES = (Tier(35 * _GIB, 2048, 8, 80), Tier(160 * _GIB, 8192, 160, 160), Tier(None, 16384, 512, 512))


def _tiers(chunk_35: int, bs_35: int, bs_35_tp4: int) -> tuple[Tier, ...]:
    return (
        Tier(20 * _GIB, 2048, 8, 8),
        Tier(35 * _GIB, chunk_35, bs_35, bs_35_tp4),
        Tier(60 * _GIB, 4096, 32, 160),
        Tier(160 * _GIB, 8192, 256, 512),
        Tier(None, 16384, 512, 512),
    )


#: Window models whose KV is split into a full and a window pool (configs/model_config.py is_hybrid_swa_model).
_SPLIT_059 = frozenset({"Llama4ForConditionalGeneration", "GptOssForCausalLM", "MiMoV2FlashForCausalLM", "Step3p5ForCausalLM"})
_SPLIT_0513 = _SPLIT_059 | {
    "DeepseekV4ForCausalLM", "MiMoV2ForCausalLM", "Step3p7ForConditionalGeneration", "Gemma4ForCausalLM",
    "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration", "LagunaForCausalLM",
}  # fmt: skip
_SPLIT_0515 = _SPLIT_0513 | {"UnlimitedOCRForCausalLM"}
_SPLIT_0518 = _SPLIT_0515 | {
    "MellumForCausalLM", "MuseGlimmerForCausalLM", "MuseGlimmerForConditionalGeneration", "InklingForConditionalGeneration",
}  # fmt: skip
_SPLIT_0523 = _SPLIT_0518 | {
    "BeamForCausalLM", "GraniteSWAForCausalLM", "GraniteMoeSWAForCausalLM", "IQuestQ1ForCausalLM", "EmbeddingGemma2Model",
    "DiffusionGemmaForBlockDiffusion",
}  # fmt: skip
#: Window models that 0.5.0 to 0.5.5 keep in one pool (server_args.py, disable_hybrid_swa_memory); all others were split then.
WHOLE_050 = frozenset({
    "Gemma2ForCausalLM", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Gemma3nForCausalLM",
    "Gemma3nForConditionalGeneration", "GptOssForCausalLM", "Llama4ForConditionalGeneration", "Olmo2ForCausalLM",
})  # fmt: skip
#: Hybrid models whose states get two more slots per request under overlap scheduling (arg_groups/overrides.py, _MAMBA_EXTRA_BUFFER_ARCHS).
EXTRA_BUFFER = frozenset({
    "KimiLinearForCausalLM", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM",
    "Qwen3_5ForCausalLM", "Qwen3NextForCausalLM", "Qwen4ExpForConditionalGeneration", "BailingMoeV2_5ForCausalLM",
    "BailingMoeV3ForCausalLM", "FalconH1ForCausalLM", "GraniteMoeHybridForCausalLM", "NemotronHForCausalLM",
    "NemotronHPuzzleForCausalLM",
})  # fmt: skip


class SglangRules(NamedTuple):
    """What one release does.

    fraction         how mem_fraction_static is chosen when unset
    unknown_fraction the fraction where the GPU's memory is not known
    tiers            chunked prefill size and decode graphs by memory
    graph_capped     decode graphs never larger than max_running_requests
    prefill_graphs   prefill graphs are captured by default and reserve memory
    spec_reserve     MiB reserved for a draft model (a STANDALONE one), its graphs included
    vision           how a multimodal model lowers the fraction
    mm_reserve_mib   kept back from the budget for a multimodal model's caches
    split            architectures with a full and a window pool; None: all window models but WHOLE_050; empty: none
    window_checked   a window pool that can not hold one request is refused
    request_caps     the window pool may be sized from max_running_requests
    draft_in_cell    the draft's KV is part of the bytes per token
    padded_states    one more state slot is allocated and charged
    half_cap         running requests are at most half the tokens
    extra_buffer     architectures that get extra state slots by default
    """

    fraction: Literal["by_tp", "by_tp_13gib", "by_tp_180", "classes", "formula"]
    unknown_fraction: float
    tiers: tuple[Tier, ...]
    graph_capped: bool = False
    prefill_graphs: bool = False
    spec_reserve: tuple[int, int] = (0, 0)
    vision: Literal["x0.9", "by_vit"] = "by_vit"
    mm_reserve_mib: int = 0
    split: frozenset[str] | None = frozenset()
    window_checked: bool = False
    request_caps: bool = False
    draft_in_cell: bool = False
    padded_states: bool = False
    half_cap: bool = False
    extra_buffer: frozenset[str] = frozenset()


_R043 = SglangRules("by_tp", 0.88, _EARLY, vision="x0.9")
_R050 = SglangRules("classes", 0.88, _CLASSES, spec_reserve=(2048, 2048), split=None)
_R053 = _R050._replace(fraction="formula", tiers=_tiers(2048, 16, 80), spec_reserve=(2048, 6144))
_R055 = _R053._replace(tiers=_tiers(2048, 24, 80))
_R059 = _R055._replace(split=_SPLIT_059)
_R0510 = _R059._replace(prefill_graphs=True, spec_reserve=(4096, 6144), half_cap=True)
_R0513 = _R0510._replace(split=_SPLIT_0513)
_R0515 = _R0513._replace(split=_SPLIT_0515, spec_reserve=(0, 0), draft_in_cell=True, extra_buffer=EXTRA_BUFFER)
_R0518 = _R0515._replace(split=_SPLIT_0518, padded_states=True, mm_reserve_mib=100, request_caps=True)
_R0520 = _R0518._replace(tiers=_tiers(4096, 48, 160), unknown_fraction=0.95, graph_capped=True, window_checked=True)

RULES: dict[str, SglangRules] = {
    "0.4.3": _R043,
    "0.4.6": _R043._replace(fraction="by_tp_13gib"),
    "0.4.7": _R043._replace(fraction="by_tp_180"),
    "0.4.8": _R043._replace(fraction="classes", tiers=_CLASSES, spec_reserve=(2048, 2048)),
    "0.5.0": _R050,
    "0.5.2": _R050._replace(spec_reserve=(2048, 6144)),
    "0.5.3": _R053,
    "0.5.5": _R055,
    "0.5.9": _R059,
    "0.5.10": _R0510,
    "0.5.13": _R0513,
    "0.5.15": _R0515,
    "0.5.18": _R0518,
    "0.5.20": _R0520,
    "0.5.23": _R0520._replace(split=_SPLIT_0523),
}
VERSIONS = tuple(sorted(RULES, key=release))
