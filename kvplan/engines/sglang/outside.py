"""What a rank of SGLang holds after its pools are made, in the memory that mem_fraction_static leaves free.

There is no profiling forward: graphs are captured and prompts are read in whatever is left (model_executor/cuda_graph_runner.py capture;
managers/schedule_batch.py prefill of chunked_prefill_size tokens). How much graphs take is a measured constant; a prompt's chunk is
counted from shapes, its hidden states as many as vLLM's logs say.
"""

from __future__ import annotations

from kvplan.deployment import Deployment
from kvplan.engines.common import drivers
from kvplan.engines.common.lines import Span, modelled, span
from kvplan.engines.common.options import Options
from kvplan.engines.common.releases import release
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.common.widths import layer_width
from kvplan.engines.sglang import exchange
from kvplan.engines.sglang.rules import VERSIONS
from kvplan.engines.sglang.settle import SglangSettings, embeds
from kvplan.ledger import Entry, exact
from kvplan.tensors import Lowered, routed
from kvplan.units import GIB

#: Hidden states alive beside the widest sublayer: calibration/vllm.yaml hidden_copies, the ends widened for another engine.
COPIES, COPIES_LOW, COPIES_HIGH = 3.8, 0.0, 10.0
#: What capturing a mixture of experts may take beside that: nothing, or as sgl-project/sglang#16143 (DeepSeek, 5 to 6 GB with the first
#: graph) and #8538 (Llama-4-Maverick, 6.19 GB in all) say; the estimate is half way.
EXPERTS = span(2.5, 0.0, 6.0)
#: GiB of symmetric memory that are set aside, and the release from which (server_args.py; 0.5.8 has neither).
SET_ASIDE, SET_ASIDE_SINCE = 4, "0.5.9"
#: The release whose decode graphs write logits into one f32 buffer of a row per captured token (cuda_graph_runner.py
#: next_token_logits_buffer: not in 0.4.10, in its second post-release and in all that were read from 0.5.1 on).
LOGITS_SINCE = "0.5"


def outside(d: Deployment, model: Lowered, s: SglangSettings) -> tuple[Entry, ...]:
    """CUDA graphs of decoding, where something is decoded, and the largest chunk of a prompt."""
    found = []
    if d.constants is not None and d.constants.engine == "sglang" and not d.enforce_eager and not embeds(d) and s.graph_sizes:
        each, n = d.constants.at("graph_bytes", VERSIONS, s.release), s.graph_sizes
        first = EXPERTS if routed(model.layers) else Span(0, 0, 0)
        sizes = Span(*(int(n * end) + more for end, more in zip(each.ends, first, strict=True)))
        sizes = drivers.held(sizes, d)
        found.append(modelled(drivers.LINE, sizes, f"{n} batch sizes captured; {each.said}", "graphs", sources=each.groups))
    tokens, formats = s.pools.chunk, weight_formats(d)
    if tokens <= 0:  # chunking is off: a prompt may be as long as the context
        tokens = s.pools.context_len
    width = max((layer_width(layer, d.model.hidden_size, s.layout.attn_tp, s.layout.ep, formats) for layer in set(model.layers)), default=0)
    ends = (int(2 * tokens * (width + copies * d.model.hidden_size)) for copies in (COPIES, COPIES_LOW, COPIES_HIGH))
    found.append(modelled("activations", Span(*ends), f"a chunk of {tokens:,} tokens", "activations", ("serve",)))
    tp, ep = s.layout.tp, s.layout.ep
    return (*found, *verified(d, s), *symmetric(d, s), *exchange.buffers(d, model, ep), *exchange.rebalanced(d, model, tp, ep))


def verified(d: Deployment, s: SglangSettings) -> tuple[Entry, ...]:
    """Logits of the tokens that the largest graph verifies, beside the one a sequence that measured graphs have: f32, all words."""
    sequences, drafted, vocabulary = s.graph_bs, s.pools.draft_tokens - 1, d.model.vocab_size
    if d.enforce_eager or not s.graph_sizes or drafted <= 0 or not vocabulary or release(s.release) < release(LOGITS_SINCE):
        return ()
    said = f"{sequences:,} sequences x {drafted} drafted tokens x {vocabulary:,} in f32"
    return (exact("logits to verify", sequences * drafted * vocabulary * 4, said, "graphs"),)


def symmetric(d: Deployment, s: SglangSettings) -> tuple[Entry, ...]:
    """What --enable-symm-mem sets aside once graphs are captured (model_runner.py prealloc_symmetric_memory_pool)."""
    options = Options(d)
    given = options.count("symm_mem_prealloc_gb", 0)
    size = SET_ASIDE if given is None else given
    if not options.flag("enable_symm_mem") or release(s.release) < release(SET_ASIDE_SINCE):
        return ()
    said = f"{size} GiB set aside, SGLANG_SYMM_MEM_PREALLOC_GB_SIZE"
    return (exact("symmetric memory", size * GIB, said, "process")._replace(phases=("warm up", "serve")),) if size else ()
