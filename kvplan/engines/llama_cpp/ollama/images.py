"""The graph that Ollama's own engine reserves with the largest image when it loads (runner/ollamarunner/runner.go reserveWorstCaseGraph,
from 0.7.1 on; before, the first image asks for it): that of the tower, and the batch that takes the image's tokens together.

The image is 2048 x 2048, as each model's own processor scales it (model/models/*/imageprocessor.go, process_image.go).
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engines.common.lines import Span
from kvplan.engines.llama_cpp.compute import NO_SPAN
from kvplan.engines.llama_cpp.ollama.graph import vision_graph
from kvplan.engines.llama_cpp.ollama.metadata import Metadata
from kvplan.engines.llama_cpp.ollama.rules import OllamaRules
from kvplan.units import F32

#: Hidden states beside the scores where they are computed: the residual, q, k, v and a copy of v. To 80 KB of Mistral Small 3.2 on 0.9.6,
#: whose graph of 9,646,586,240 B ollama#11355 prints: 12,100^2 scores of 16 heads, these five of 1,024, 3 x 1540^2 values.
STATES = 5
#: What towers that no row of this file describes took at most, as far as is known: the one of Qwen2.5-VL before 0.13.4 (ollama#13687).
_UNSEEN = int(1.8 * 2**30)


class Image(NamedTuple):
    """The largest image as a tower takes it.

    patches   tokens of the tower; values: floats of the picture, or of its patches
    together  tokens of the model that one batch has to take at once (SameBatch, and what begins and ends them); 0: no more than a batch
    scored    the tower writes its scores out, whatever is said of flash attention
    """

    patches: int
    values: int
    width: int
    heads: int
    together: int = 0
    scored: bool = False


def _grid(side: int, values: int, width: int, *, beside: int, scored: bool = False) -> Image:
    """A square of patches, four of which make a token; `values` of a patch in two frames, `beside` tokens in the batch."""
    return Image(side * side, side * side * values, width, 16, side * side // 4 + beside, scored)


def largest(rules: OllamaRules, arch: str) -> Image | None:
    """The largest image of a release; None where it is not described here. Widths are the largest tower's of a family."""
    if arch == "gemma3":
        return Image(64 * 64, 3 * 896 * 896, 1152, 16)
    if arch == "mistral3":
        return Image(110 * 110, 3 * 1540 * 1540, 1024, 16)
    if arch == "qwen25vl":
        # the square root of 1,280 x 28 x 28 pixels is 35 times 28 pixels; of 2^21, from 971d6259 (0.13.4) on, 51 times
        return _grid(2 * (51 if rules.release >= (0, 13, 4) else 35), 3 * 2 * 14 * 14, 1280, beside=1, scored=True)
    if arch in ("qwen3vl", "qwen3vlmoe"):
        return _grid(2 * 45, 3 * 2 * 16 * 16, 1152, beside=1)  # 2^21 pixels: 45 times 32
    if arch in ("qwen3next", "qwen35", "qwen35moe"):
        return _grid(2 * 45, 3 * 2 * 16 * 16, 1152, beside=2)  # the tower of qwen3vl; its end is in the batch, too
    return None


def batch(rules: OllamaRules, m: Metadata) -> int:
    """Tokens of the batch that the largest image needs; 0 where it takes no more than others."""
    if not _reserves(rules, m):
        return 0
    image = largest(rules, m.arch)
    return image.together if image else 0


def tower(rules: OllamaRules, m: Metadata, *, flash: bool) -> Span:
    """Bytes of the tower's graph with the largest image.

    With flash attention no scores are kept (ml/backend/ggml/ggml.go ScaledDotProductAttention): Ministral 3's would be 8.7 GiB, and
    ollama#16591 runs it on cards of 7.5. A tower has no cache, and before 0.13.2 only what has one took that way (ml/nn/attention.go).
    Qwen2.5-VL's writes them out in every release: ollama#13687 reports 1.8 GiB on 0.13.3 and 6.7 on 0.13.4.
    Without scores the most is a feed-forward's rows (Pixtral: two of 4,096 beside two states of 1,024) or four rows of positions for each
    patch (Qwen3-VL): no more than twice the states.
    Of towers that no row of this file describes it is not known: up to what that one took before.
    """
    if not _reserves(rules, m):
        return NO_SPAN
    image, flash = largest(rules, m.arch), flash and rules.release >= (0, 13, 2)
    if image is None:
        n_bytes = 0 if flash else vision_graph(rules, m)
        return Span(n_bytes, n_bytes * 4 // 5, n_bytes * 5 // 4) if n_bytes else Span(0, 0, _UNSEEN)
    without = F32 * (image.values + STATES * image.patches * image.width)
    if flash and not image.scored:
        return Span(without, F32 * image.values, 2 * without)
    n_bytes = without + F32 * image.patches**2 * image.heads
    return Span(n_bytes, n_bytes * 19 // 20, n_bytes * 5 // 4)


def _reserves(rules: OllamaRules, m: Metadata) -> bool:
    return bool(m.tower) and m.arch in rules.own and rules.release >= (0, 7, 1)
