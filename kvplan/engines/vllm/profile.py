"""What vLLM's profile run allocates, counted from shapes: the quantities that the measured constants multiply.

vLLM runs one step of max_num_batched_tokens dummy tokens, then its sampler on max_num_seqs rows, after the encoders on as many items as
their budget holds; the peak of all that is charged (`vllm/v1/worker/gpu_model_runner.py` profile_run, _dummy_run, _dummy_sampler_run;
V0: `vllm/worker/model_runner.py` profile_run). Nothing here is measured; constants are in kvplan/calibration/vllm.yaml.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import WEIGHT_FORMATS
from kvplan.engines.common.conditions import capability, may_be_nvidia
from kvplan.engines.common.options import Options
from kvplan.engines.common.widths import layer_width, split
from kvplan.engines.vllm.before_v1 import awq_bytes, gptq_bytes
from kvplan.engines.vllm.encoders import encoded
from kvplan.engines.vllm.exchange import LOW_LATENCY
from kvplan.engines.vllm.media import text_alone
from kvplan.engines.vllm.modular import kept_values, shares_workspace
from kvplan.engines.vllm.replicas import Gathered, apart_values
from kvplan.engines.vllm.runners import profiled_logit, unsorted_logit
from kvplan.engines.vllm.settings import VllmSettings
from kvplan.engines.vllm.sparse import prefill_logits_bytes, reserved_bytes
from kvplan.tensors import Layer, Lowered, distinct, routed
from kvplan.weights import WeightFormats

#: Bytes of one value of the compute type.
VALUE_BYTES = {"f32": 4, "f64": 8}
LATENT_CONTEXT = 64 * 1024  # tokens
#: The release with torch 2.10, in which every group of kernels is of one device, and none passes untimed for having none.
BENCHMARKS = "0.17"
#: Data-parallel ranks bring their tokens together before the experts (distributed/device_communicators/all2all.py naive_multicast; later
#: all-gathered), which take at most so many at once, from a release on (envs.py VLLM_FUSED_MOE_CHUNK_SIZE; gone in 0.19).
MOE_TOKENS: tuple[tuple[str, int], ...] = (("0.8", 64 * 1024), ("0.12", 16 * 1024), ("0.19", 1024 * 1024))


class Profile(NamedTuple):
    """Sizes of one pipeline stage's profile run, per rank.

    tokens          batch tokens; value_bytes: of one activation value
    hidden_bytes    one hidden state of the whole batch
    width_bytes     the widest sublayer's intermediate results, of the whole batch
    logits          rows x vocabulary entries of the sampler's warm-up; 0 where the stage has no head or the model does not sample
    rows_bytes      hidden states of the sampled rows
    handed_bytes    hidden state and residual that pipeline stages hand on
    encoder_bytes   encoder outputs and pixels that stay while the language model is profiled
    tower_bytes     the encoders' own peak, before that
    product_bytes   what packed matrices' products take beside their results where no Marlin kernel runs them, and the least of it
    sampled_bytes   bytes beside each logit in the sampler's run, where the code says them (runners.py); None: the measured constant
    compiled_bytes  what compiling holds on a first start: the table of embeddings once more
    reserved_bytes  the workspace that experts (modular.py) and sparse attention (sparse.py) share and that stays
    index_bytes     an indexer's logits, which pass
    gathered        what is of all replicas' tokens in these; None: experts see the rank's own alone (replicas.py)
    reduced_bytes   a second copy of the hidden state that summing over ranks makes beside the widest sublayer (eager V0 alone)
    """

    tokens: int
    value_bytes: int
    hidden_bytes: int
    width_bytes: int
    logits: int
    rows_bytes: int
    handed_bytes: int
    encoder_bytes: int
    tower_bytes: int
    reduced_bytes: int
    product_bytes: tuple[int, int] = (0, 0)
    sampled_bytes: float | None = None
    compiled_bytes: int = 0
    reserved_bytes: int = 0
    index_bytes: int = 0
    gathered: Gathered | None = None


def profile(d: Deployment, model: Lowered, stage: range, s: VllmSettings, formats: WeightFormats) -> Profile:
    """The sizes for the ranks of one stage."""
    value_bytes = VALUE_BYTES.get(s.formats.compute, 2)
    tokens = s.max_num_batched_tokens
    last = stage.stop == len(model.layers)
    hidden = d.model.hidden_size
    seen = encoded(d, s, value_bytes) if stage.start == 0 else None
    rows = min(s.max_num_seqs, tokens)
    if seen and seen.items and not s.rules.v1:
        rows = min(rows, seen.items)  # V0 profiles as many sequences as bring an item
    samples = last and d.model.lm_head and bool(d.model.vocab_size)
    at_once = next((most for first, most in reversed(MOE_TOKENS) if s.since(first)), tokens)
    gathered = max(1, min(s.dp, at_once / tokens)) if s.rules.v1 and s.exchange != LOW_LATENCY else 1
    ep, width, kept = d.ep or 1, 0.0, 0
    own, all_apart = 0.0, 0.0
    for layer in _distinct(model, stage):
        apart = shares_workspace(d, s, layer, formats)
        width = max(width, layer_width(layer, hidden, s.tp, ep, formats, gathered, experts_apart=apart))
        own = max(own, layer_width(layer, hidden, s.tp, ep, formats, experts_apart=apart))
        kept = max(kept, kept_values(layer, hidden, s.tp, ep) if apart else 0)
        all_apart = max(all_apart, apart_values(layer, hidden, s.tp, ep, formats) if gathered > 1 else 0.0)
    shared = reserved_bytes(d, model.layers[stage.start : stage.stop], s)
    latent = _latent_context(model, stage, s) * value_bytes
    gathers = Gathered(
        tokens=int(tokens * gathered),
        width_bytes=max(int(tokens * own * value_bytes), latent),
        reserved_bytes=max(kept * min(tokens, at_once) * value_bytes, shared),
        apart_bytes=int(tokens * gathered * all_apart * value_bytes),
    )
    kept = int(kept * min(tokens * gathered, at_once)) * value_bytes
    return Profile(
        tokens=tokens,
        value_bytes=value_bytes,
        hidden_bytes=tokens * hidden * value_bytes * _streams(model, stage, hidden),
        width_bytes=max(int(tokens * width * value_bytes), latent),
        logits=rows * (d.model.vocab_size or 0) if samples else 0,
        rows_bytes=rows * hidden * value_bytes if samples else 0,
        handed_bytes=2 * tokens * hidden * value_bytes if s.pp > 1 else 0,
        encoder_bytes=seen.held if seen else 0,
        tower_bytes=seen.peak if seen else 0,
        reduced_bytes=tokens * hidden * value_bytes if s.tp > 1 and not s.rules.v1 else 0,
        product_bytes=_products(d, model, stage, s, formats),
        sampled_bytes=_sampled(d, s),
        compiled_bytes=_compiled(d, model, stage, s, formats),
        reserved_bytes=max(kept, shared),
        index_bytes=prefill_logits_bytes(d, model.layers[stage.start : stage.stop], s),
        gathered=gathers if all_apart else None,
    )


def _sampled(d: Deployment, s: VllmSettings) -> float | None:
    if s.rules.v1 and Options(d).flag("use_flashinfer_sampler") and may_be_nvidia(d):
        return unsorted_logit(s.release)
    return profiled_logit(s.release, second=s.second_runner)


def _compiled(d: Deployment, model: Lowered, stage: range, s: VllmSettings, formats: WeightFormats) -> int:
    """What compiling holds while it runs on a first start, as eleven starts of seven sources log it: a copy of the table of embeddings.

    Kernels that may be combined are timed with random arguments of the same sizes (config/compilation.py benchmark_combo_kernel, torch's
    _inductor/scheduler.py speedup_by_combo_kernel), and looking tokens up is one; products are none. Of dense models whose classes look
    tokens up inside the compiled code: not of those that take images, which do it before unless they are served without. 1.46, 1.46, 1.04,
    0.80 and 0.67 GiB of peak for tables of 1.45, 1.45, 1.01, 0.72 and 0.58 (0.27 and later), 0.8 to 1 GiB for 0.98 and 1.01 (0.17.1, 0.24);
    with a compiled start kept 0.33, 0.15 and 0.1. Seven first starts of 0.12 had none. Qwen3.8 27B without images: 2.1 and 2.5 GiB more by
    two sources, its table 2.37.
    """
    table = model.embedding
    if table is None or stage.start or not s.graphs or not s.since(BENCHMARKS):
        return 0
    if (
        Options(d).flag("compiled")
        or (d.model.towers and not text_alone(d))
        or (d.device is not None and d.device.vendor not in ("nvidia", "other"))  # a size is most likely NVIDIA's
        or routed(model.layers)
    ):
        return 0
    return table.elems * WEIGHT_FORMATS[formats.of(table)].bits // 8 // s.tp


def _streams(model: Lowered, stage: range, hidden: int) -> int:
    """How many hidden states a token has between layers: hyper-connections mix several (models/deepseek_v4/nvidia/model.py hc_mult)."""
    mixes = (w.shape[-1] // hidden for layer in _distinct(model, stage) for w in layer.weights if w.name.endswith("hc_fn"))
    return max(mixes, default=1)


def _products(d: Deployment, model: Lowered, stage: range, s: VllmSettings, formats: WeightFormats) -> tuple[int, int]:
    layers, has = _distinct(model, stage), capability(d)
    old = 0 < (has or 0) < s.rules.marlin or s.own_awq or (has is None and not s.rules.v1)
    found = [awq_bytes(layer, s.max_num_batched_tokens, s.tp, s.rules, formats, old=old) for layer in layers]
    marlin = not s.own_gptq and (has or s.rules.marlin) >= s.rules.marlin and s.since("0.5")  # gptq_marlin.py is there from 0.4.2 on
    found += [(once, once) for once in (gptq_bytes(layer, s.tp, formats, marlin=marlin) for layer in layers)]
    point, least = max(found, default=(0, 0))
    return (least, least) if s.expandable else (point, least)


def _latent_context(model: Lowered, stage: range, s: VllmSettings) -> int:
    """Values that latent attention takes to up-project a context of up to 64k tokens (mla/common.py chunked_prefill_workspace_size)."""
    if not s.rules.v1:
        return 0
    rows = [split(w, w.shape[0], s.tp) for layer in _distinct(model, stage) for w in layer.weights if w.name == "kv_b"]
    tokens = min(max(8 * s.max_model_len, 4 * s.max_num_seqs * (s.block_size or 64)), LATENT_CONTEXT)
    return max(rows, default=0) * tokens


def _distinct(model: Lowered, stage: range) -> list[Layer]:
    return distinct(model.layers[stage.start : stage.stop])
