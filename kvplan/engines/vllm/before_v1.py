"""What the V0 engine did in its own way: latents as whole heads, absorbed projections, AWQ's workspaces, states, windows.

Read from the wheels of vllm 0.2.0 to 0.7.3, as rules.py says by release; recurrent states to 0.10.2.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.dtypes import weight_scheme
from kvplan.engines.vllm.rules import VllmRules
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.forms import Form
from kvplan.parallel import heads_per_rank
from kvplan.tensors import CacheTensor, Layer, Role, WeightTensor
from kvplan.units import round_up
from kvplan.weights import WeightFormats

#: Kernels of 0.5.1 to 0.6.6 knew heads of 256 above 128 (models/deepseek_v2.py pads queries, keys and values; config.py get_head_size).
WIDE_HEAD = 256
#: awq_gemm sums over as many partial results of f16 (quantization/awq.py, csrc/quantization/awq/gemm_kernels.cu split_k_iters).
PARTIAL_SUMS = 8
#: Latent rows are aligned to so many bytes (worker/cache_engine.py _align_cache, VLLM_MLA_CUDA_MEM_ALIGN_KV_CACHE).
ROW_ALIGNMENT = 256
#: Matrices that vLLM loads as one (qkv_proj, gate_up_proj, w13).
FUSED = {"q": "qkv", "k": "qkv", "v": "qkv", "gate": "gate_up", "up": "gate_up"}
GEMMA_WINDOW = "Gemma2ForCausalLM"
#: Slots that an eager start had from 0.6.5 to 0.7.2, whatever max_num_seqs (models/jamba.py, mamba.py: 8192 + 2).
EAGER_SLOTS, EAGER_SINCE, EAGER_BEFORE = 8194, "0.6.5", "0.7.3"
#: Classes of lightning attention, whose states are in f32 from 0.9.2 on (models/minimax_text_01.py MinimaxCacheManager).
MINIMAX, MINIMAX_F32_SINCE = ("MiniMaxForCausalLM", "MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM"), "0.9.2"
#: Classes of which every stage has the states of all layers (config.num_hidden_layers in models/falcon_h1.py, zamba2.py, phi4flash.py).
ALL_STATES = (*MINIMAX, "FalconH1ForCausalLM", "Phi4FlashForCausalLM", "Zamba2ForCausalLM")


def latent_cache(
    form: Form, tensors: tuple[CacheTensor, ...], layer: Layer, rules: VllmRules, packed: bool
) -> tuple[Form, tuple[CacheTensor, ...]]:
    """The cache of a latent layer as the release stored it. `packed`: AWQ, GPTQ and their like, with which 0.7.1 left it whole."""
    up = next((w for w in layer.weights if w.name == "kv_b"), None)
    if form != "latent" or up is None:
        return form, tensors
    (latent,) = tensors
    if rules.latent == "rows" or (rules.latent == "unless packed" and not packed):
        row = round_up(2 * latent.elems_per_state, ROW_ALIGNMENT) // 2 if rules.aligned_rows else latent.elems_per_state
        return form, (replace(latent, elems_per_state=row),)
    query = next(w for w in layer.weights if w.name in ("q_b", "q"))
    width = WIDE_HEAD if rules.latent == "wide heads" else query.shape[0] // up.units
    whole = replace(latent, heads=up.units, elems_per_state=width)
    return "kv", (replace(whole, name="k"), replace(whole, name="v"))


def absorbed(layer: Layer, width: int, formats: WeightFormats) -> list[WeightTensor]:
    """Products of latent attention's projections that 0.7.1 to 0.7.3 kept beside them (attention/backends/mla/utils.py).

    FP8 checkpoints have them in FP8; others in 16 bits. `width`: of the model's hidden state.
    """
    named = {w.name: w for w in layer.weights}
    up, query = named.get("kv_b"), named.get("q_b") or named.get("q")
    latent = next((t for cache in layer.caches for t in cache.tensors if t.name == "latent"), None)
    if up is None or query is None or latent is None:
        return []
    heads, rank, into = up.units, up.shape[1], query.shape[1]
    fp8 = weight_scheme(formats["attention"]) == "fp8"
    role: Role = "attention" if fp8 else "buffer"
    made = [
        WeightTensor("q x kv_b", (heads * rank, into), role, heads),
        WeightTensor("kv_b x o", (width, heads * rank), role, heads),
        WeightTensor("q rope", (heads * (latent.elems_per_state - rank), into), "buffer", heads),
    ]
    return [*made, up._replace(name="kv_b in 16 bits", role="buffer", stored=None)] if fp8 else made


def awq_bytes(layer: Layer, tokens: int, tp: int, rules: VllmRules, formats: WeightFormats, *, old: bool) -> tuple[int, int]:
    """What AWQ's widest product takes beside its result, estimate and least: partial sums up to 0.2.7, f16 copies of weights since.

    Unpacked are matrices as the classes merge them, gate with up and queries with keys and values (quantization/awq.py
    AWQLinearMethod.apply: from 256 tokens on). Up to 0.2.7 the peak is what torch had reserved, and one more product's partial sums as a
    rule, since results that stay split the block of the first (vllm#2312, Mixtral on two A100: 6,487 blocks). From 0.5.3 on GPUs of 8.0
    and later have Marlin kernels.
    """
    found = [w for w in layer.weights if weight_scheme(formats[w.role]) == "awq" and len(w.shape) > 1]
    if not found or (rules.awq == "marlin" and not old):
        return 0, 0
    if rules.awq == "partial sums":
        widest = max(_outputs(w, tp) for w in found)
        once = PARTIAL_SUMS * tokens * widest * 2
        return once * (1 if rules.counted == "torch" else 2), once
    copy = _unpacked(found, tp)
    return copy, copy


def gptq_bytes(layer: Layer, tp: int, formats: WeightFormats, *, marlin: bool) -> int:
    """What GPTQ's widest product takes beside its result where no Marlin kernel runs it: the matrix in 16 bits, in every product.

    `marlin`: they run where they can, which is in 4 and 8 bits.

    csrc/quantization/gptq/q_gemm.cu gptq_gemm makes it (temp_dq) for a step of decoding too, which then does not read it; experts run by
    moe_wna16's kernels, which unpack as they multiply.
    """
    own = ("gptq2", "gptq3") if marlin else ("gptq",)
    found = [w for w in layer.weights if formats[w.role].startswith(own) and len(w.shape) > 1 and not w.experts]
    return _unpacked(found, tp) if found else 0


def _unpacked(found: list[WeightTensor], tp: int) -> int:
    """Bytes of the widest of a rank's matrices in 16 bits, merged as the classes merge them."""
    merged: dict[str, int] = {}
    for i, w in enumerate(found):
        prefix, _, name = w.name.rpartition("_")
        whole = f"{w.role} {i}" if w.experts else f"{w.role} {prefix} {FUSED.get(name, name)}"
        share = w.elems // (w.shape[0] if w.experts else 1) // (min(tp, w.units) if w.units > 1 else 1)
        merged[whole] = merged.get(whole, 0) + share
    return 2 * max(merged.values())


def _outputs(w: WeightTensor, tp: int) -> int:
    """Values a token that a matrix puts out on a rank: experts were dealt out whole; gate and up were one matrix."""
    if w.experts:
        return w.shape[-2]
    merged = 2 if w.name.endswith(("gate", "up")) else 1
    return merged * (heads_per_rank(w.shape[0], tp) if w.units > 1 and w.name not in ("o", "mlp_down") else w.shape[0])


def state_slots(d: Deployment, s: VllmSettings) -> int:
    """Sequences that V0's models have states for: max_num_seqs, as a batch of CUDA graphs where they are captured.

    models/mamba_cache.py MambaCacheManager with config.py pad_for_cudagraph: 1, 2, 4 and multiples of 8; up to 0.6.4 padded without graphs,
    too (jamba.py _get_graph_batch_size). MiniMax's are not padded (minimax_cache.py).
    """
    n = s.max_num_seqs
    if d.model.architecture in MINIMAX:
        return n
    if not s.graphs and s.since(EAGER_SINCE):
        return n if s.since(EAGER_BEFORE) else EAGER_SLOTS
    return n if n <= 2 else 4 if n <= 4 else round_up(n, 8)


def holds_all_states(d: Deployment) -> bool:
    """Whether every pipeline stage has the states of all layers."""
    return d.model.architecture in ALL_STATES


def capped(d: Deployment, rules: VllmRules) -> Deployment:
    """Gemma 2 up to 0.6.3: no more tokens than its window, which is turned off (config.py ModelConfig)."""
    if not rules.caps_gemma or d.model.architecture != GEMMA_WINDOW or not d.model.max_context:
        return d
    windows = [window for block in d.model.blocks.values() for mixer in block.mixers if (window := getattr(mixer, "window", 0))]
    length = min([*windows, d.model.max_context])
    note = f"Gemma 2 is capped at its window of {length} tokens in this release, which turns the window off"
    return replace(d, model=d.model.changed(max_context=length, notes=(*d.model.notes, note)))
