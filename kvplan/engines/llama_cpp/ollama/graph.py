"""The scheduler's estimates of a compute graph and of the caches: formulas of a model's metadata, by architecture and release.

llm/ggml.go GraphSize (0.1.33 to 0.5), fs/ggml/ggml.go GraphSize and VisionGraphSize (0.6 to 0.24), kvCacheBytesPerElement. They steer
how many layers go on a card; what is allocated then is another number. `t` tokens of context over all slots, `n` of a batch, in f32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvplan.engines.llama_cpp.ollama.metadata import Metadata
from kvplan.engines.llama_cpp.ollama.rules import OllamaRules
from kvplan.units import F32, MIB

#: Bytes of an element of a quantised cache, as estimated: scales left out.
KV_BYTES = {"q8_0": (1, 1), "q4_0": (1, 2)}
#: Images of llama3.2-vision: tokens of a tile, tiles.
MLLAMA = (1601, 4)


class Graph(NamedTuple):
    """Bytes: with every layer on the cards, and with some beside them. 0: no formula, the caches decide."""

    full: int
    partial: int


class Load(NamedTuple):
    """What a graph is estimated for."""

    tokens: int
    batch: int
    slots: int
    flash: bool


Formula = Callable[[Metadata, Load], Graph]


def _vocab(m: Metadata, n: int, hidden: int = 1) -> int:
    """Logits of a batch beside `hidden` hidden states."""
    return F32 * n * (hidden * m.embedding + m.vocab)


def _matrix(m: Metadata) -> int:
    """The output matrix copied to the device for a step, at 6.56 bits."""
    return m.embedding * m.vocab * 105 // 128


def _scores(m: Metadata, t: int, heads: int | None = None) -> int:
    """Attention scores and mask of one query token."""
    return t * (1 + (m.heads if heads is None else heads))


def _head(m: Metadata) -> int:
    return m.embedding // (m.heads or 1)


def _llama(m: Metadata, load: Load) -> Graph:
    t, n, e = load.tokens, load.batch, m.embedding
    full = max(F32 * n * (1 + 4 * e + _scores(m, t)), _vocab(m, n))
    partial = F32 * n * e + max(
        F32 * n * (1 + e + max(t, e)) + e * e * 9 // 16 + F32 * t * (n * m.heads + _head(m) * m.kv_heads), _vocab(m, n) + _matrix(m)
    )
    if m.gate_experts:
        row = _head(m) * m.kv_heads
        partial = max(
            3 * m.gate_experts + F32 * n * (2 * m.feed_forward + m.kv_heads + e + t + row),
            F32 * (t * n * m.heads + t * row + n * 1024 + row * n),
        )
    if m.gate_apart:
        row, ff = _head(m) * m.kv_heads, m.gate_apart
        full = F32 * n * (2 + 3 * e + _scores(m, t) + 2 * m.kv_heads + ff)
        partial = max(
            F32 * n * (3 + row + e + _scores(m, t) + ff) + (e * e + 3 * e * m.kv_heads * ff) * 9 // 16,
            F32 * n * (1 + 2 * e + _scores(m, t)) + e * (6 * t * m.kv_heads // m.heads + e * 9 // 16),
        )
    return Graph(full, partial)


def _llama_before(m: Metadata, load: Load) -> Graph:
    found = _llama(m, load)
    return found if m.gate_apart else found._replace(full=F32 * load.batch * (1 + 4 * m.embedding + _scores(m, load.tokens)))


def _mllama(m: Metadata, load: Load) -> Graph:
    t, n, e = load.tokens, load.batch, m.embedding
    q = m.k_dim * m.heads
    full = max(F32 * n * (2 + 3 * e + q + _scores(m, t)), _vocab(m, n))
    partial = max(F32 * (n * (2 * e + 1 + _scores(m, t) + q) + m.k_dim * t * m.kv_heads), _vocab(m, n) + _matrix(m))
    return Graph(full, partial)


def _gemma(m: Metadata, load: Load) -> Graph:
    t, n, e = load.tokens, load.batch, m.embedding
    q = m.k_dim * m.heads
    full = max(_vocab(m, n), F32 * n * (2 + _scores(m, t) + 2 * e + 2 * q))
    partial = max(_vocab(m, n) + _matrix(m), F32 * n * (2 * e + 1 + 2 * q + _scores(m, t)) + F32 * m.k_dim * t * 8 + e * q * 9 // 16)
    return Graph(full, partial)


def _gemma_before(m: Metadata, load: Load) -> Graph:
    n = load.batch
    return Graph(_vocab(m, n), F32 * n * (2 * m.embedding + m.vocab + 1) + _matrix(m))


def _gemma3n(m: Metadata, load: Load) -> Graph:
    graph = _gemma(m, load)
    return Graph(4 * graph.full, 4 * graph.partial)


def _command_r(m: Metadata, load: Load) -> Graph:
    t, n, e = load.tokens, load.batch, m.embedding
    full = max(_vocab(m, n), F32 * n * (2 + 4 * e + _scores(m, t)))
    return Graph(full, max(_vocab(m, n) + _matrix(m), F32 * n * (1 + 2 * e + _scores(m, t)) + F32 * e * t + e * e * 9 // 16))


def _qwen2(m: Metadata, load: Load) -> Graph:
    t, n, e = load.tokens, load.batch, m.embedding
    attention = n * (1 + 2 * e + _scores(m, t))
    return Graph(max(_vocab(m, n), F32 * attention), max(_vocab(m, n) + _matrix(m), F32 * (attention + e * (1 + t))))


def _phi2(m: Metadata, load: Load) -> Graph:
    t, n, e = load.tokens, load.batch, m.embedding
    full = max(_vocab(m, n), F32 * n * (1 + 4 * e + _scores(m, t)))
    return Graph(full, max(_vocab(m, n, 2) + _matrix(m), F32 * n * (2 + 3 * e + _scores(m, t))))


def _phi2_before(m: Metadata, load: Load) -> Graph:
    return _phi2(m, load)._replace(partial=_vocab(m, load.batch, 2) + _matrix(m))


def _stablelm(m: Metadata, load: Load) -> Graph:
    full = F32 * load.batch * (_scores(m, load.tokens) + 3 * m.embedding + 2)
    return Graph(full, max(_vocab(m, load.batch, 2), full))


def _deepseek2(m: Metadata, load: Load) -> Graph:
    t, n, e = load.tokens, load.batch, m.embedding
    k = m.k_dim * m.kv_heads
    scores = _scores(m, t, m.kv_heads)
    full = max(_vocab(m, n, 3), F32 * n * (3 * e + 2 + scores + 2 * k))
    return Graph(full, max(_vocab(m, n, 3) + _matrix(m), F32 * n * (2 * e + 1 + 2 * k + scores) + F32 * k * t + e * k * 9 // 16))


def _chatglm(m: Metadata, load: Load) -> Graph:
    t, n, e = load.tokens, load.batch, m.embedding
    q, bias = m.k_dim * m.heads, m.k_dim * m.heads + (m.k_dim + m.v_dim) * m.kv_heads
    full = max(_vocab(m, n), F32 * n * (2 + 2 * e + _scores(m, t) + q + bias))
    partial = F32 * (n * (1 + 2 * e + q + _scores(m, t)) + 2 * m.k_dim * t + bias)
    return Graph(full, max(_vocab(m, n) + _matrix(m), partial))


def _all_caches(m: Metadata, load: Load) -> int:
    """Every layer's cache in f16, windows not considered."""
    return m.blocks * load.tokens * (m.k_dim + m.v_dim) * m.kv_heads * 2


def _gptoss_0(m: Metadata, load: Load) -> Graph:
    full = 4 * m.heads // (m.kv_heads or 1) * _all_caches(m, load) // 6
    return Graph(full, 2 * full)


def _gptoss_3(m: Metadata, load: Load) -> Graph:
    return Graph(*[_gptoss_0(m, load).full] * 2)


def _gptoss_5(m: Metadata, load: Load) -> Graph:
    return Graph(0, 2 * m.heads // (m.kv_heads or 1) * _all_caches(m, load) // 6)


def _gptoss_8(m: Metadata, load: Load) -> Graph:
    return Graph(0, (4 * load.slots + (load.tokens >> 10) + 110) * MIB) if load.flash else _gptoss_5(m, load)


#: Architectures, the release from which the formula holds, the formula.
GRAPHS: tuple[tuple[tuple[str, ...], tuple[int, ...], Formula], ...] = (
    (("llama",), (0, 1, 33), _llama_before), (("llama",), (0, 3, 10), _llama), (("llama4",), (0, 6, 7), _llama),
    (("mllama",), (0, 4, 0), _mllama),
    (("gemma",), (0, 1, 33), _gemma_before), (("gemma", "gemma2"), (0, 1, 48), _gemma), (("gemma3",), (0, 6, 0), _gemma),
    (("gemma3n",), (0, 9, 3), _gemma3n),
    (("command-r",), (0, 1, 33), _command_r), (("qwen2",), (0, 1, 33), _qwen2), (("stablelm",), (0, 1, 33), _stablelm),
    (("phi2",), (0, 1, 33), _phi2_before), (("phi2",), (0, 1, 35), _phi2),
    (("deepseek2",), (0, 1, 45), _deepseek2), (("chatglm",), (0, 2, 2), _chatglm),
    (("gptoss",), (0, 11, 0), _gptoss_0), (("gptoss",), (0, 11, 3), _gptoss_3), (("gptoss",), (0, 11, 5), _gptoss_5),
    (("gptoss",), (0, 11, 8), _gptoss_8),
)  # fmt: skip


def graph(rules: OllamaRules, m: Metadata, load: Load, kv_total: int) -> Graph:
    """The estimate of a release; without a formula for the architecture, a share of the caches."""
    known = [(since, formula) for names, since, formula in GRAPHS if m.arch in names and since <= rules.release]
    found = max(known, key=lambda row: row[0])[1](m, load) if known else Graph(0, 0)
    partial = found.partial or m.grouped * kv_total // 6
    return Graph(found.full or partial, partial)


def caches(rules: OllamaRules, m: Metadata, load: Load, kv_type: str) -> tuple[int, ...]:
    """The cache of every layer, in bytes."""
    over, under = KV_BYTES.get(kv_type, (2, 1)) if rules.kv_types else (2, 1)
    k, v = (m.k_dim, m.v_dim) if rules.release >= (0, 1, 45) else (_head(m), _head(m))
    hybrids = rules.release >= (0, 11, 11)

    def size(i: int) -> int:
        heads, tokens = m.kv_heads, load.tokens
        if i in m.cross:
            return heads * (k + v) * F32 * MLLAMA[0] * MLLAMA[1]
        if hybrids and not m.kv_heads_of[i]:
            return m.states[i]
        if m.arch == "gemma3" and rules.windows and (i + 1) % 6:
            tokens = load.slots * m.window + load.batch
        if m.arch == "gptoss" and i % 2 == 0:
            tokens = load.slots * 4096 + load.batch
        return tokens * (k + v) * heads * over // under

    return tuple(size(i) for i in range(m.blocks))


class Vision(NamedTuple):
    """The side of an image and of a patch in pixels, the tower's width and heads."""

    image: int
    patch: int
    width: int
    heads: int


#: Towers as the released configurations have them (vision_config of gemma-3, Mistral-Small-3.1; Ollama's conversion: 1,280 merged patches).
_SQUARE = {"gemma3": Vision(896, 14, 1152, 16), "mistral3": Vision(1540, 14, 1024, 16)}
_MLLAMA_TOWER = Vision(560, 14, 1280, 16)
_QWEN25VL_TOWER = (28 * 28 * 1280, Vision(0, 14, 1280, 16))


def vision_graph(rules: OllamaRules, m: Metadata) -> int:
    """The scheduler's estimate of the graph of a tower, in bytes; 0 where the release counts none."""
    if not m.tower:
        return 0
    if m.arch in _SQUARE and rules.release >= (0, 6, 1):
        image, patch, width, heads = _SQUARE[m.arch]
        patches = (image // patch) ** 2
        return F32 * (image * image * 3 + width * patch + patches * patches * heads)
    if m.arch == "mllama" and rules.release >= (0, 4, 0):
        image, patch, width, heads = _MLLAMA_TOWER
        patches, tiles = (image // patch) ** 2 + 1, MLLAMA[1]
        padded = (patches + 8 - patches % 8) * tiles
        return F32 * (8 + image * image * 3 * tiles + width * patches * tiles + 9 * width * padded + padded * padded * heads)
    if m.arch == "qwen25vl" and rules.release >= (0, 7, 0):
        pixels, (_, patch, width, heads) = _QWEN25VL_TOWER
        patches = pixels // (patch * patch)
        return F32 * (2 * pixels * 3 + patches * 3 * patch * patch + patches * patches * heads + width * patches)
    return 0
