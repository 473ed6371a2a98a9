"""The default mem_fraction_static of a question: which prefill graphs it reserves for, and how a vision tower lowers it.

Sources: 0.5.10 to 0.5.14 server_args.py _handle_piecewise_cuda_graph, _disable_tc_piecewise_cudagraph_if_incompatible; 0.5.15 to 0.5.23
_disable_breakable_cudagraph_if_incompatible (arg_groups/cuda_graph_hook.py); adjust_mem_fraction_for_vlm (arg_groups/memory_hook.py).
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options, Speculation
from kvplan.engines.common.releases import in_force
from kvplan.engines.sglang import memory
from kvplan.engines.sglang.backends import named_backends, usual
from kvplan.engines.sglang.classes import PIECES
from kvplan.engines.sglang.inkling import CLASS as INKLING
from kvplan.engines.sglang.layout import SglangLayout
from kvplan.engines.sglang.rules import SglangRules
from kvplan.engines.sglang.traits import Traits
from kvplan.units import cdiv

AITER_SHARE, AITER_CONTEXT = 0.85, 8192
_LLAMA_2 = 4096  # tokens of its longest prefill graph (handle_gpu_memory_settings)
_VIT_PARAMETERS = 12  # of a transformer layer: about 12 hidden size squared
_NO_LAYERS = 24  # what is taken for a tower whose config counts its layers in another key than num_hidden_layers
#: A class whose prefill graphs are of another backend, which nothing rules out and --disable-cuda-graph leaves on.
WHOLE_GRAPHS = INKLING  # server_args.py _apply_inkling_prefill_cuda_graph_default; arg_groups/cuda_graph_hook.py
_UNNAMED_TOWER = "LlavaLlamaForCausalLM"  # a class whose config names no tower
#: Experts' all-to-all backends under which prefill graphs are captured nonetheless (0.5.17 and later).
_CAPTURED_A2A = ("none", "deepep", "megamoe", "flashinfer")
#: Class -> layers and width of its vision tower as `vision_config` names them to the release, the first for towers of fewer parameters
#: than its first number. A width of 0: the language model's.
_VIT: dict[str, tuple[tuple[int, int, int], ...]] = {
    "Gemma4ForConditionalGeneration": ((300_000_000, 16, 768), (1 << 45, 27, 1152)),
    "Qwen2VLForConditionalGeneration": ((1 << 45, _NO_LAYERS, 0),),
    "Qwen2_5_VLForConditionalGeneration": ((1 << 45, _NO_LAYERS, 1280),),
    "Glm4vForConditionalGeneration": ((1 << 45, _NO_LAYERS, 1536),),
    "Gemma3ForConditionalGeneration": ((1 << 45, 27, 1152),),
    "InklingForConditionalGeneration": ((1 << 45, _NO_LAYERS, 1024),),  # which names n_layers and no width
    "InternVLChatModel": ((1_000_000_000, 24, 1024), (1 << 45, 45, 3200)),
    "KimiK25ForConditionalGeneration": ((1 << 45, 27, 1152),),
    "KimiVLForConditionalGeneration": ((1 << 45, 27, 1152),),
    "Llama4ForConditionalGeneration": ((1 << 45, 34, 1408),),
    "LlavaForConditionalGeneration": ((1 << 45, 24, 1024),),
    "LlavaLlamaForCausalLM": ((1 << 45, 24, 1024),),
    "MiniCPMV4_6ForConditionalGeneration": ((1 << 45, 27, 1152),),
    "Mistral3ForConditionalGeneration": ((1 << 45, 24, 1024),),
    "MllamaForConditionalGeneration": ((1 << 45, 32, 1280),),
    "PixtralForConditionalGeneration": ((1 << 45, 24, 1024),),
    **dict.fromkeys(
        ("Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"),
        ((500_000_000, _NO_LAYERS, 1024), (1 << 45, _NO_LAYERS, 1152)),
    ),
    **dict.fromkeys(
        ("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"),
        ((400_000_000, _NO_LAYERS, 1024), (1 << 45, _NO_LAYERS, 1152)),
    ),
    "Qwen4ExpForConditionalGeneration": ((1 << 45, _NO_LAYERS, 1152),),
}  # fmt: skip
#: Classes without a `vision_config` of their own, of which nothing is taken: they hear, or keep it in another config (DeepSeek-V4.1).
_UNSEEN = frozenset({
    "DeepseekV4ForCausalLM", "Qwen2AudioForConditionalGeneration", "Qwen2_5OmniForConditionalGeneration", "Qwen2_5OmniModel",
    "Qwen3OmniMoeForConditionalGeneration",
    "VoxtralForConditionalGeneration", "WhisperForConditionalGeneration",
})  # fmt: skip


def on_amd(d: Deployment) -> bool:
    return d.device is not None and d.device.vendor == "amd"


def uses_aiter(d: Deployment, rules: SglangRules, traits: Traits) -> bool:
    """Whether the AITER backend of AMD GPUs takes its share of the fraction, even of one that the user gave (attention_hook.py).

    Since 0.4.7 (model_runner.py model_specific_adjustment), on any GPU.
    """
    if not in_force("0.4.7", "", d.engine_version) or (d.max_model_len or d.context or 0) <= AITER_CONTEXT:
        return False
    return (named_backends(d).both or (usual(d, rules, traits) if on_amd(d) else None)) == "aiter"


def sees(d: Deployment) -> bool:
    """Whether it is served with its towers, those among them that a config does not name."""
    return (bool(d.model.towers) or d.model.architecture == _UNNAMED_TOWER) and d.multimodal != "off"


def graphs_prefill(d: Deployment, rules: SglangRules, shape: SglangLayout, traits: Traits, spec: Speculation | None) -> bool:
    """Whether prefill graphs are captured by default."""
    options, named = Options(d), d.model.architecture or ""
    if named == WHOLE_GRAPHS:
        return not options.flag("disable_prefill_cuda_graph") and options.text("disaggregation_mode") != "decode"
    a2a, role = options.text("moe_a2a_backend") or "none", options.text("disaggregation_mode")
    forced = options.flag("enforce_piecewise_cuda_graph") or options.flag("enable_breakable_cuda_graph")
    forced = forced or options.text("cuda_graph_backend_prefill") not in (None, "disabled")
    if rules.prefill_graphs is not None and forced and not rules.eager_pieces:  # a backend of prompts by name, which nothing overrules
        return not (rules.role_graphs and role == "decode")
    if rules.prefill_graphs is None or (d.enforce_eager and not rules.eager_pieces) or options.flag("disable_prefill_cuda_graph"):
        return False
    pieced = named in rules.pieced and d.multimodal != "off"
    kept = (PIECES - {"towers"} | {"contexts"}) if pieced else rules.prefill_graphs
    pieces, dsa = "classes" in kept, options.flag("enable_dsa_prefill_context_parallel")  # pieces: 0.5.10 to 0.5.14
    if pieces and options.flag("enforce_piecewise_cuda_graph"):
        return True
    reasons = {
        "classes": named in rules.ungraphed,
        "drafts": spec is not None,
        "groups": shape.attention_dp > 1 or (pieces and options.flag("enable_dp_attention")),
        "stages": shape.pp > 1,
        "contexts": shape.dcp > 1,
        "amd": on_amd(d),
        "experts": a2a not in (_CAPTURED_A2A if in_force("0.5.17", "", d.engine_version) else ("none",)),
        "adapters": bool(d.lora),
        "towers": (sees(d) or bool(d.model.encoder)) and named not in rules.seen_graphs,
        "tier": options.flag("enable_hierarchical_cache") or bool(options.number("cpu_offload_gb")),
        "two batches": options.flag("enable_two_batch_overlap"),
        "compile": options.flag("enable_torch_compile") or options.flag("enable_deterministic_inference"),
        "roles": role in ("prefill", "decode"),
        "decodes alone": role == "decode",
        "dealt out": options.flag("enable_eplb") or options.text("expert_distribution_recorder_mode") is not None,
        "debugged": options.flag("debug_cuda_graph") or (dsa and in_force("0.5.13", "", d.engine_version)),
        "stored otherwise": options.text("quantization") == "gguf" or options.text("dllm_algorithm") is not None,
        "shared prompts": shape.attn_cp > 1,
        "latent": traits.latent,
        "dense latent": traits.latent and traits.pooled_index is None,
        "compressed": traits.compressed,
        "kda": traits.kda,
        "symmetric": options.flag("enable_symm_mem"),
    }
    return named not in rules.ungraphed and not any(reasons[name] for name in kept)


def _said(d: Deployment) -> str:
    """The model as it was named, of which a release looks for Llama 2 in its path."""
    return d.model.name.lower().replace(" ", "-")


def default_fraction(
    d: Deployment, rules: SglangRules, shape: SglangLayout, traits: Traits, spec: Speculation | None, gpu_mib: int | None, chunk: int,
    graph_bs: int,
) -> float:  # fmt: skip
    """The fraction that the release picks."""
    options, sizes = Options(d), None
    whole = options.flag("disable_chunked_prefill") and not options.flag("enable_mis")  # which says so later
    step = (options.count("max_prefill_tokens") or memory.MAX_PREFILL_TOKENS) if whole else chunk
    role = options.text("disaggregation_mode")
    if rules.role_step and role == "decode":
        step = (d.max_num_seqs or graph_bs) * (options.count("speculative_num_draft_tokens") or (spec.tokens + 1 if spec else 1))
    if graphs_prefill(d, rules, shape, traits, spec):
        usual = min(chunk, options.count("max_total_tokens") or chunk, _LLAMA_2 if "llama-2" in _said(d) else chunk)
        told = options.count("cuda_graph_max_bs_prefill")
        largest = told or usual
        if rules.graphed_context and (asked := d.max_model_len or d.context):
            largest = min(largest, asked)
        sizes = _listed(d) or (0 if whole and not told else memory.prefill_graph_sizes(largest))
    groups = int(rules.lone_groups and options.flag("enable_dp_attention")) if shape.attention_dp == 1 else shape.attention_dp
    decodes = rules.eager_graphs or not (d.enforce_eager or options.flag("disable_decode_cuda_graph"))
    shown = memory.FractionInputs(
        gpu_mib, shape.tp, shape.pp, groups, step, graph_bs, decodes, sizes, traits.latent,
        spec.method if spec else None, options.text("moe_a2a_backend") == "deepep",
        None if role == "decode" and not rules.role_vision else vit(d),
        not (rules.role_graphs and role == "prefill"),
        pieces_mib(d, rules, chunk, latent=traits.latent),
        d.model.architecture == WHOLE_GRAPHS,
    )  # fmt: skip
    return memory.fraction(rules, shown)


def _listed(d: Deployment) -> int:
    """How many token counts prefill graphs are told to be captured for; DeepEP's are rounded up to multiples of 8 since 0.5.17."""
    told = Options(d).counts("cuda_graph_bs_prefill")
    rounded = Options(d).text("moe_a2a_backend") == "deepep" and in_force("0.5.17", "", d.engine_version)
    return len({cdiv(n, 8) for n in told}) if rounded else len(told)


def pieces_mib(d: Deployment, rules: SglangRules, chunk: int, *, latent: bool) -> int:
    """MiB that are kept back for prefill graphs that are asked for (server_args.py, 0.5.4 to 0.5.9)."""
    if not Options(d).flag("enable_piecewise_cuda_graph") or not rules.pieces:
        return 0
    largest, listed = Options(d).count("cuda_graph_max_bs_prefill"), _listed(d)
    if listed and rules.pieces in ("sizes", "all sizes"):
        return 8 * listed
    if rules.pieces == "quarter":
        return (largest or 4096) // 4
    largest = largest or (2048 if latent and rules.pieces != "eighth" else chunk)
    if rules.pieces == "eighth":
        return largest // 8
    return 8 * (memory.prefill_graph_sizes(largest) - (largest >= 576 and rules.pieces == "sizes"))  # 576 is one since 0.5.9


def vit(d: Deployment) -> float | None:
    """Layers x width squared of the vision tower as the release reads them; an estimate from its parameters for other classes."""
    named = d.model.architecture or ""
    if not sees(d) or named in _UNSEEN:
        return None
    if named == _UNNAMED_TOWER:  # transformers' own is taken
        return _VIT[named][0][1] * _VIT[named][0][2] ** 2
    if named not in _VIT:
        return sum(tower.parameters for tower in d.model.towers) / _VIT_PARAMETERS
    layers, width = next((layers, width) for below, layers, width in _VIT[named] if d.model.towers[0].parameters < below)
    return layers * (width or d.model.hidden_size) ** 2
