"""Inkling: four short convolutions beside every layer, whose inputs are a state of each request beside a full and a window pool.

sglang 0.5.16 to 0.5.23 configs/inkling.py InklingModelConfig.mamba2_cache_params (each layer's state is as wide as the convolutions of a
full and of a window layer together, in bf16, whichever it is; stages of a draft share no windows: disable_conv_window_dedup),
arg_groups/model_overrides/inkling.py (before 0.5.19 arg_groups/overrides.py _inkling_overrides), models/inkling.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.engines.common.options import Options, read_speculative
from kvplan.engines.common.protocol import Drafter
from kvplan.engines.common.releases import release
from kvplan.engines.common.settling import own_draft_formats
from kvplan.engines.sglang.backends import is_blackwell, is_hopper, named_backends
from kvplan.engines.sglang.drafts import OWN_DRAFTS
from kvplan.errors import UnsupportedError
from kvplan.ledger import Entry, exact
from kvplan.tensors import Cache, CacheTensor, Layer, Lowered, WeightTensor, changed, distinct
from kvplan.units import cdiv

CLASS, SINCE = "InklingForConditionalGeneration", "0.5.16"
#: The class's own shares, and those of all classes, which up to 0.5.19 are taken for none asked.
SHARE, USUAL, TOLD_APART = "0.1", {"swa_full_tokens_ratio": 0.8, "mamba_full_memory_ratio": 0.9}, "0.5.20"
HOPPER = "0.5.22"  # the release from which fa4 is its backend there, too
#: Draft modules, and those with a window: `mtp_config` of the published configs. So made, the modules of both sizes have 5,260,445,704 and
#: 2,231,912,456 elements, by which the Hub's counts are above those of copies without them (llmfit 1.1.17), to the last one.
MODULES, LOCAL, LAYERED = 8, frozenset({0, 2, 4, 5, 6, 7}), "enable_multi_layer_eagle"
#: The release from which a token is charged for all modules, however many steps are drafted (spec_aux_hidden_state.py).
CHARGED = "0.5.20"


def as_served(d: Deployment, version: str) -> tuple[Deployment, tuple[str, ...]]:
    """The question with what the class sets where it was not asked for, and a note that says so. Raises UnsupportedError."""
    if d.drafter is not None and d.drafter.architecture == CLASS:
        raise UnsupportedError("sglang: Inkling's modules named as a draft model of its own are not modelled: leave the name out")
    if d.model.architecture != CLASS:
        return d, ()
    options, set_here = Options(d), dict[str, str]()
    for key, usual in USUAL.items():
        asked = options.number(key)
        if asked is None or (asked == usual and release(version) < release(TOLD_APART)):
            set_here[key] = SHARE
    if options.text("mamba_radix_cache_strategy") in (None, "auto"):
        set_here["mamba_radix_cache_strategy"] = "extra_buffer"
    if named_backends(d).phases == (None, None):
        fa4 = is_blackwell(d) or (is_hopper(d) and release(version) >= release(HOPPER))
        set_here["attention_backend"] = "fa4" if fa4 else "triton"
    kept = tuple(one for one in d.engine_option if one[0] not in set_here)
    said = ", ".join(f"{key} {value}" for key, value in set_here.items())
    return replace(d, engine_option=(*kept, *set_here.items())), (f"sglang sets for this model: {said}",) if said else ()


def apart(d: Deployment) -> None:
    """Raises UnsupportedError where its three pools are one."""
    if d.model.architecture == CLASS and Options(d).flag("enable_unified_memory"):
        raise UnsupportedError("sglang: one pool of Inkling's full rows, windows and states is not modelled")


def remade(d: Deployment, model: Lowered, drafts: Drafter | None, version: str) -> tuple[Lowered, Drafter | None, tuple[Layer, ...]]:
    """The model as this engine keeps it, who drafts, and the modules that a token is charged for beside. Raises UnsupportedError."""
    if d.model.architecture != CLASS:
        return model, drafts, ()
    model = with_states(model)
    if not drafts_itself(d):
        return model, drafts, ()
    made = modules(d, model)
    return model, drafter(d, made), made if release(version) >= release(CHARGED) else ()


def with_states(model: Lowered) -> Lowered:
    """The model with its convolutions as the engine keeps them: in every layer the heads of both kinds, and the streams after attention
    and MLP whole on every rank. Raises UnsupportedError for layers of other shapes."""
    keys = [(layer, cache.tensors[0]) for layer in distinct(model.layers) for cache in layer.caches if cache.form == "kv"]
    full = next((t for _, t in keys if t.keep.kind == "all"), None)
    local = next((t for _, t in keys if t.keep.kind == "window"), None)
    conv = next((c.tensors[0] for layer, t in keys if t is full for c in layer.caches if c.form == "depthwise-conv"), None)
    if full is None or local is None or conv is None:
        raise UnsupportedError(f"sglang: {CLASS} without full, window and convolution layers is not modelled")
    stream = conv.elems_per_state - conv.columns * 2 * full.heads * full.elems_per_state
    parts = ((full.heads, 2 * full.elems_per_state), (local.heads, 2 * local.elems_per_state), (1, stream // conv.columns))
    made = tuple(
        CacheTensor(name="conv", heads=heads, elems_per_state=conv.columns * width, dtype="bf16", tokens_per_state=None)
        for heads, width in parts
    )

    def cache_of(cache: Cache) -> Cache:
        return replace(cache, form="short-conv", tensors=made) if cache.form == "depthwise-conv" else cache

    def layer_of(layer: Layer) -> Layer:
        return replace(layer, caches=tuple(cache_of(cache) for cache in layer.caches))

    return changed(model, layer_of)


def drafts_own(d: Deployment) -> bool:
    """Whether Inkling is to draft with its own modules."""
    spec = read_speculative(d.speculative)
    return d.model.architecture == CLASS and spec is not None and spec.method in OWN_DRAFTS and spec.model is None


def drafts_itself(d: Deployment) -> bool:
    """... one for each step, as it can alone."""
    return drafts_own(d) and Options(d).flag(LAYERED)


def reads(d: Deployment, key: str) -> bool:
    """Whether a flag is one that its drafts ask for, and counted."""
    return key == LAYERED and drafts_itself(d)


def modules(d: Deployment, model: Lowered) -> tuple[Layer, ...]:
    """All draft modules: layers of attention and a dense MLP, two norms and a projection of embedding and hidden state before each.

    Raises UnsupportedError for a model without a dense layer, whose MLP they have.
    """
    dense = next((layer for layer in distinct(model.layers) if any(w.role == "mlp" for w in layer.weights)), None)
    if dense is None:
        raise UnsupportedError("sglang: draft modules of an Inkling without dense layers are not modelled")
    full = next(x for x in distinct(model.layers) if any(c.form == "kv" and c.tensors[0].keep.kind == "all" for c in x.caches))
    hidden = d.model.hidden_size
    before = (*(WeightTensor("norm", (hidden,), "norm"),) * 2, WeightTensor("input_proj", (hidden, 2 * hidden), "other"))
    mlp = ("mlp", "experts", "shared_experts", "router", "buffer")
    whole = (*(w for w in full.weights if w.role not in mlp and w.name != "shared_router"), *(w for w in dense.weights if w.role == "mlp"))
    local, full = replace(dense, weights=(*dense.weights, *before)), replace(full, weights=(*whole, *before))
    return tuple(local if i in LOCAL else full for i in range(MODULES))


def drafter(d: Deployment, made: Sequence[Layer]) -> Drafter:
    """Those of the modules that are loaded, each with its states and a pool of its own of as many tokens as the target's, or windows."""
    spec = read_speculative(d.speculative)
    loaded = tuple(made[: spec.tokens if spec else 0])
    weights = tuple(w for layer in loaded for w in layer.weights)
    return Drafter(f"{d.model.id}, its own draft modules", loaded, weights, own_draft_formats(d), d.model.source)


def vocabularies(d: Deployment, ranks: int, element_bytes: int) -> list[Entry]:
    """An embedding and an output of each module, which the target's replace once the pools are made (set_embed_and_head)."""
    spec = read_speculative(d.speculative)
    if spec is None or not drafts_itself(d):
        return []
    loaded = min(spec.tokens, MODULES)
    n_bytes = loaded * 2 * cdiv(d.model.vocab_size or 0, ranks) * d.model.hidden_size * element_bytes
    line = exact("weights: drafter vocabularies", n_bytes, "sglang models/inkling.py, InklingForConditionalGenerationMTP", "weights")
    return [line._replace(phases=("load", "allocate"))]
