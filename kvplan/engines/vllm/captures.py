"""For which batches vLLM captures CUDA graphs: the release's own list, or what is asked for.

vLLM 0.33 config/vllm.py _set_cudagraph_sizes, config/compilation.py CUDAGraphMode, v1/cudagraph_dispatcher.py
initialize_cudagraph_keys; 0.9 to 0.11.0 --cuda-graph-sizes (config/scheduler.py); V0 worker/model_runner.py.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options
from kvplan.engines.common.protocol import Settled
from kvplan.engines.common.releases import release
from kvplan.engines.common.stops import Move, Stop, Values
from kvplan.engines.vllm.settings import Captures, VllmSettings, settings_of
from kvplan.errors import SpecError
from kvplan.tensors import distinct
from kvplan.units import cdiv

#: Which graphs there are: of whole steps, of steps that decode alone, in pieces between attention layers.
MODES = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
#: The largest batch of the list that a release makes, in tokens.
CEILING = 512
#: The largest that is asked about: every size up to it is looked at.
MOST_ASKED = 1 << 20


def asked(options: Options, d: Deployment) -> Captures:
    """What a question says. Raises SpecError for what is no list of sizes."""
    early = options.counts("cuda_graph_sizes", zero=True)
    sizes = options.counts("cudagraph_capture_sizes", zero=True) or early
    if len(early) == 1 and sizes == early and () < release(d.engine_version or "") < (0, 11, 1):  # config/scheduler.py cuda_graph_sizes
        sizes = (1, 2, 4, *range(8, early[0] + 1, 8))
    mode = (options.text("cudagraph_mode") or "").upper()
    if mode not in ("", *MODES):
        raise SpecError("engine_option", [("cudagraph_mode", f"{mode[:60]!r} is not one of {', '.join(MODES)}")])
    most = options.count("max_cudagraph_capture_size")
    if (most or 0) > MOST_ASKED:
        raise SpecError("engine_option", [("max_cudagraph_capture_size", f"{most} is out of range: at most {MOST_ASKED}")])
    return Captures(tuple(sorted(set(sizes))), most, mode)


def captured(s: VllmSettings) -> int:
    """How many batch sizes are captured; V0's own: 1, 2, 4 and multiples of 8 up to max_num_seqs, 256 at most."""
    told = _told(s)
    if told is not None:
        return len(told)
    if s.rules.v1:
        return capture_sizes(s.max_num_seqs, s.max_num_batched_tokens, s.draft_tokens, CEILING)
    return sum(n < s.max_num_seqs for n in (1, 2, 4)) + cdiv(min(s.max_num_seqs, 256), 8)


def beyond_logs(s: VllmSettings) -> float:
    """How many times as large as any of published logs the largest batch is that is captured: at least 1."""
    return max(1.0, max(_told(s) or {0}) / CEILING)


def graph_counts(s: VllmSettings, mode: str) -> tuple[int, int]:
    """How many graphs hold a whole step, and how many sizes are captured in pieces between attention layers.

    V0 captured whole steps, once for each pipeline stage's virtual engine (worker/model_runner.py capture_model), V1 pieces, from 0.11 on
    also whole steps of decoding alone, and of models with states before that.
    """
    sizes = captured(s)
    if not s.rules.v1:
        return sizes * s.pp, 0
    kept = (t.tokens_per_state for layer in distinct(s.served.layers) for cache in layer.caches for t in cache.tensors)
    both = s.since("0.11") or None in kept
    mode = mode or ("FULL_AND_PIECEWISE" if both else "PIECEWISE")
    if mode == "FULL":
        return sizes, 0
    decoding = _decoding(s) if mode in ("FULL_DECODE_ONLY", "FULL_AND_PIECEWISE") else 0
    return decoding, sizes if mode in ("PIECEWISE", "FULL_AND_PIECEWISE") else 0


def _told(s: VllmSettings) -> set[int] | None:
    """The batches that the question lists, or those up to its largest; None where it says neither."""
    if not (s.captures.sizes or s.captures.most):
        return None
    told = s.captures.sizes or _strides(s.captures.most or 0)
    return {n for n in told if n <= s.max_num_batched_tokens}


def _decoding(s: VllmSettings) -> int:
    """Sizes of steps that decode alone: one token of each sequence, and its drafts."""
    most, least = min(s.max_num_seqs * (1 + s.draft_tokens), s.max_num_batched_tokens), 1 + s.draft_tokens
    told = _told(s)
    if told is not None:
        return sum(least <= n <= most for n in told)
    return len(_strides(min(most, CEILING)))


def capture_sizes(max_num_seqs: int, max_num_batched_tokens: int, draft_tokens: int, most: int) -> int:
    """How many batch sizes CUDA graphs are captured for: 1, 2, 4, then steps of 8 to 256 and of 16 above.

    Up to 0.11 the largest was 512 whatever max_num_seqs.
    """
    largest = min(2 * max_num_seqs * (1 + draft_tokens), most, max_num_batched_tokens)
    sizes = _strides(largest)
    if max_num_seqs <= largest:
        sizes.add(max_num_seqs)
    return len(sizes)


def _strides(largest: int) -> set[int]:
    return {n for n in (1, 2, 4) if n <= largest} | set(range(8, min(largest, 255) + 1, 8)) | set(range(256, largest + 1, 16))


def no_tokens(settled: Settled) -> Values:
    """A size that holds no token."""
    s = settings_of(settled)
    return {} if s.graphs and 0 in s.captures.sizes else None


CHECKS = (
    Stop(
        "sizes of graphs", "ZeroDivisionError: integer division or modulo by zero", "a graph of 0 tokens has no sequence to share them",
        (Move("option:cudagraph_capture_sizes", "sizes from 1 on"),), "v1/worker/gpu_model_runner.py _dummy_run", since="0.9",
        when=no_tokens, loading=True,
    ),
)  # fmt: skip
