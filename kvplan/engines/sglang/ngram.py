"""Qwen4-Exp (Qwen3.8-Flash-Next): index keys of several tokens beside K and V, and an n-gram layer whose table is in host memory.

sglang 0.5.20 to 0.5.23 mem_cache/qsa_kv_pool.py QSATokenToKVPool (charged: a key for each group; allocated beside it: a ring of each
request's raw keys, with their positions), ple_state_pool.py (a convolution's inputs for each state slot, not charged),
arg_groups/model_overrides/qwen4_exp.py (pages of 64; the table is pinned host memory on CUDA in bf16), models/qwen4_exp.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kvplan.deployment import Deployment
from kvplan.dtypes import canonical, row_bytes
from kvplan.engines.common.grouped_keys import is_table, key_group
from kvplan.engines.common.lines import weight_entries
from kvplan.engines.common.options import Options
from kvplan.engines.common.releases import release
from kvplan.engines.common.settling import weight_formats
from kvplan.engines.sglang import inkling, minimax_m3
from kvplan.engines.sglang.deepseek_v4 import is_compressed
from kvplan.engines.sglang.deepseek_v41 import as_loaded, is_shared
from kvplan.engines.sglang.fraction import on_amd
from kvplan.engines.sglang.registry import REGISTRY
from kvplan.errors import UnsupportedError
from kvplan.ledger import Entry, exact
from kvplan.spec import ModelSpec
from kvplan.tensors import Layer, Lowered, changed

CLASS, SINCE, PAGE = "Qwen4ExpForConditionalGeneration", "0.5.20", 64
#: Bytes beside a raw key: its three positions in 64 bits, once for all layers.
POSITIONS = 24
#: Forms that no other class of SGLang's was read with.
OWN_FORMS = frozenset({"kv+index", "depthwise-conv"})


def read_group(d: Deployment, model: Lowered, version: str) -> int:
    """Tokens of an index key; 0: none are grouped. Raises UnsupportedError for such caches of other classes, and before the
    class where transformers' code runs it."""
    forms = {cache.form: cache for layer in model.layers for cache in layer.caches if cache.form in OWN_FORMS}
    if not forms:
        return 0
    # a spec of one's own says no class
    own: dict[str | None, str] = {
        CLASS: SINCE, None: SINCE, inkling.CLASS: inkling.SINCE, **dict.fromkeys(minimax_m3.CLASSES, minimax_m3.SINCE),
    }  # fmt: skip
    since = own.get(d.model.architecture)
    if since is None:
        form, cache = next(iter(forms.items()))
        raise UnsupportedError(f"sglang: the cache of {cache.kind} layers ({form}) is not modelled for {d.model.architecture}")
    if release(version) < release(since) and not REGISTRY.later(d.model.architecture, version):  # which its own check refuses
        raise UnsupportedError(f"sglang: no release before {since} has a class for {d.model.architecture or CLASS}")
    return key_group(d.model)


class Beside(NamedTuple):
    """Bytes on a rank that nothing of the budget is charged for: of a running request, of a state slot; `spare`: rings of no request."""

    request: int = 0
    slot: int = 0
    spare: int = 1


def read_beside(spec: ModelSpec, model: Lowered, stage: range, group: int, draft_tokens: int) -> Beside:
    """What a stage keeps of a request until a group of its keys is whole.

    Qwen4-Exp: a group's raw keys in 16 bits for each layer, their positions once, and the last ids of an n-gram, 8 bytes each. Its
    convolution reads inputs as far apart as its n-grams have ids: of those, one is the token itself (models/qwen4_exp.py).
    GLM-5.3-Flash, with keys of several tokens over latents: their raw keys and scores, of drafted tokens too (mem_cache/memory_pool.py
    DSATokenToKVPool._init_kpool_compress_tail_buffers).
    """
    keys = [t for i in stage for cache in model.layers[i].caches for t in cache.tensors if t.name == "index_k"]
    raw = sum(row_bytes("bf16", t.elems_per_state) for t in keys)
    if not group:
        pool = max((t.tokens_per_state or 1 for t in keys), default=1)
        return Beside(2 * (pool + draft_tokens) * raw, spare=2) if pool > 1 and not is_compressed(model.layers) else Beside()
    mixers = (m for i in stage for m in spec.blocks[spec.layer_names[i]].mixers)
    ids = max((getattr(m, "dilation", 1) - 1 for m in mixers), default=0)
    return Beside(group * (raw + POSITIONS), 8 * ids)


def in_host(d: Deployment) -> bool:
    """Whether tables are pinned in host memory: DeepSeek-V4.1's where asked for, Qwen4-Exp's on NVIDIA's GPUs, where it computes in bf16
    and that is not the device's own."""
    if d.model.architecture != CLASS:
        return Options(d).flag("engram_host_table")
    own = canonical(d.dtype or d.model.dtype, "dtype") == "bf16"
    return own and not on_amd(d) and not (d.device is not None and d.device.unified)


def without_table(d: Deployment, model: Lowered) -> Lowered:
    """The model as it is loaded to the device."""
    away, shared = in_host(d), is_shared(model.layers)
    if not (away or shared):
        return model

    def change(layer: Layer) -> Layer:
        weights = tuple(as_loaded(w) if shared else w for w in layer.weights if not (away and is_table(w)))
        return layer if weights == layer.weights else replace(layer, weights=weights)

    return changed(model, change)


def host_lines(d: Deployment, model: Lowered) -> tuple[Entry, ...]:
    """The tables, a part of their rows on each rank, or one copy for all."""
    if not in_host(d):
        return ()
    tables = [(w, 1) for layer in model.layers for w in layer.weights if is_table(w)]
    told = "--ple-offload-embedding" if d.model.architecture == CLASS else "SGLANG_ENABLE_DSV41_ENGRAM_HOST_TABLE"
    n_bytes = sum(entry.bytes for entry in weight_entries(tables, weight_formats(d), tp=1, ep=1))
    return (exact("n-gram table", n_bytes, f"pinned, read from there; {told}", "weights"),) if n_bytes else ()
