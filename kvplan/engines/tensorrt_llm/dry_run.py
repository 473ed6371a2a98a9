"""What TensorRT-LLM's dry run holds before the cache has its size: a cache of its own, and the results of a full batch.

tensorrt_llm/_torch/pyexecutor/_util.py (copies of 2026), _get_token_num_for_estimation, try_prepare_estimation: blocks for one sequence of
max_seq_len and one for each other slot that has a graph, for the dry run's own prompts, for every slot; of manager V2 as many again for
each group of pools, at most the fraction of what is free. model_engine.py warms up with max_batch_size sequences beside it
(NVIDIA/TensorRT-LLM#14609). Where nobody says max_seq_len it is the model's own: Gemma 3 27B in FP8 and gpt-oss-120b ran out of memory
there on an H100 once V2 was their default, and start with 4,096 and 12,416 tokens (#18056, #17470).
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.devices import Device
from kvplan.engines.common.conditions import capability
from kvplan.engines.common.lines import Span, modelled
from kvplan.engines.common.pooled import Budget
from kvplan.engines.common.protocol import Settled
from kvplan.engines.tensorrt_llm.cells import layer_cache
from kvplan.engines.tensorrt_llm.settle import TrtSettings, settings_of
from kvplan.tensors import Layer
from kvplan.units import cdiv

#: Bytes of a logit in the compute type, and in f32 beside it as it is sampled from.
LOGIT, SAMPLED = 2, 4
#: The most sequences that a graph is captured for by default (llm_args.py CudaGraphConfig.max_batch_size).
GRAPHS = 128
#: A prompt of sparse latents at the model's own length, on GPUs before 10.x: DeepSeek-V3.2 on eight H200 ran out of memory at warm-up of
#: the dry run with some 50 GiB free, and starts with 8,192 and 40,960 tokens (NVIDIA/TensorRT-LLM#17659).
SPARSE_LENGTH, SPARSE_BEFORE = 65_536, 100


def tokens_of(s: TrtSettings, groups: int, *, graphs: bool) -> int:
    """Tokens of the dry run's own cache; `groups`: of pools."""
    k = s.pools
    captured = min(k.max_batch, GRAPHS) if graphs else 0
    warmed = cdiv(k.max_seq_len + 1, k.block) + max(captured - 1, 0)
    prompts = cdiv(k.max_num_tokens + 1 + 2 * k.draft_tokens, k.block)
    return max(warmed, prompts, k.max_batch) * groups * k.block


def with_dry_run(settled: Settled, stages: Sequence[range], found: Budget, device: Device) -> Budget:
    """The budget with what the dry run of manager V2 holds beside the weights."""
    d, s = settled.question, settings_of(settled)
    if not s.v2 or not s.profiled or s.peak is not None:
        return found
    layers = [[layer_cache(settled.model.layers[i], s.layout.attn_tp) for i in stage] for stage in stages]
    groups = max(len({layer.window for layer in stage if layer.token}) + any(layer.state for layer in stage) for stage in layers)
    slope = max(sum(layer.token for layer in stage) for stage in layers)
    held = sum(entry.bytes for entry in found.entries if entry.kind != "activations")
    most = int(max(device.memory_bytes - (d.reserve or 0) - held, 0) * (d.memory_fraction or 0))
    n_tokens = tokens_of(s, max(groups, 1), graphs=not d.enforce_eager)
    cache = min(n_tokens * slope, most)
    rows = s.pools.max_batch * (d.model.vocab_size or 0) // s.layout.attn_tp
    # A start is not refused by what the dry run's activations are taken for: of what they leave, at most.
    left = int(device.memory_bytes - (d.reserve or 0) - sum(entry.bytes for entry in found.entries)) - rows * LOGIT
    point = max(min(cache, left), 0)
    said = f"{n_tokens:,} tokens, for one sequence of {s.pools.max_seq_len:,} and {s.pools.max_batch:,} slots, at most the fraction"
    lines = (
        modelled("dry run: its own cache", Span(point, point // 2, cache), said, "transient"),
        modelled("dry run: logits", Span(rows * LOGIT, 0, rows * (LOGIT + SAMPLED)), "a row of every slot", "transient"),
    )
    return found._replace(outside=(*found.outside, *(line._replace(phases=("profile",)) for line in lines)))


def sparse_prompt(settled: Settled) -> tuple[str, ...]:
    """Why a start is too close to call: the warm-up of sparse latents at a length that nobody set."""
    s, has = settings_of(settled), capability(settled.question)
    own = "max_model_len" in settled.chosen_by and s.pools.max_seq_len >= SPARSE_LENGTH
    if (
        not own
        or not s.profiled
        or not s.rules.workspace
        or has is None
        or has >= SPARSE_BEFORE
        or not any(map(_sparse, settled.model.layers))
    ):
        return ()
    return (
        "what the warm-up takes for a prompt of sparse attention as long as the model allows is not modelled (max_model_len bounds it)",
    )


def _sparse(layer: Layer) -> bool:
    return any(t.name == "index_k" for cache in layer.caches for t in cache.tensors)
