"""What drafts beside a model: its layers and weights as an engine loads them, or what is missing to know them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from kvplan.deployment import Deployment
from kvplan.engines.common.lines import weight_entries
from kvplan.engines.common.options import FREE, read_speculative
from kvplan.engines.common.protocol import Drafter
from kvplan.engines.common.settling import own_draft_formats, remade, weight_formats
from kvplan.ledger import Entry
from kvplan.spec import lower
from kvplan.tensors import Cache, CacheFormats, Layer, Lowered, Role, WeightTensor

#: Methods that run the modules a model ships.
OWN = ("mtp", "nextn", "deepseek_mtp", "mtp_eagle")
#: Methods whose drafter is a model of its own, embedding and output included; every other one takes the target's where they are alike.
WHOLE = ("draft_model", "standalone", "draft_target")


def runs_own(method: str, own: Collection[str] = OWN) -> bool:
    """Whether a method runs the modules that a model ships: by one of their names, or by that of one class's (`qwen3_next_mtp`)."""
    return method in own or method.endswith("_mtp")


def runs_shipped(d: Deployment, method: str, own: Collection[str] = OWN) -> bool:
    """Whether a method runs the modules that the model itself ships: DSpark's stages are no modules of another way, nor those stages."""
    stages = d.model.mtp is not None and d.model.mtp.method == "dspark"
    return method == "dspark" if stages else runs_own(method, own)


def drafter(d: Deployment, model: Lowered, formats: CacheFormats, *, own: Collection[str] = OWN, most: int | None = None) -> Drafter | None:
    """What `speculative` drafts with; None where nothing is held for it, or its size is not known (`unknown`).

    formats  the target's cache formats, in which the drafter's caches are kept
    own      methods that mean the model's own modules where no other is named
    most     how many of those an engine loads, the first ones; all where it is not given
    """
    spec = read_speculative(d.speculative)
    if spec is None or spec.method in FREE:
        return None
    if d.drafter is not None:
        return _named(d, model, formats)
    if spec.model is None and runs_shipped(d, spec.method, own) and model.draft:
        name = f"{d.model.id}, its own draft modules"
        loaded = model.draft[:most]
        return Drafter(name, loaded, tuple(w for layer in loaded for w in layer.weights), own_draft_formats(d), d.model.source)
    return None


def unknown(d: Deployment, found: Drafter | None) -> str:
    """What is to be said where something drafts whose size is not known; empty where it is."""
    spec = read_speculative(d.speculative)
    if spec is None or spec.method in FREE or found is not None:
        return ""
    who = f"the drafter {spec.model[:100]}" if spec.model else f"the {spec.method} drafter"
    if runs_own(spec.method) and spec.model is None:
        ships = "ships DSpark's stages in their place" if d.model.mtp else "declares none"
        who = f"the {spec.method} modules of {d.model.id}, which {ships},"
    if spec.model:
        what = "no name, spec or config.json of a drafter that is read"
        give = f"declare its layers in a spec file and give that with --speculative {spec.method}:{spec.tokens}:MODEL"
        return f"the size of {who} is not known: it is {what}; {give}"
    return f"the size of {who} is not known: give it with --speculative {spec.method}:{spec.tokens}:MODEL"


def _named(d: Deployment, target: Lowered, formats: CacheFormats) -> Drafter:
    """A drafter that is a checkpoint of its own."""
    assert d.drafter is not None
    own = own_tensors(d, lower(d.drafter, formats), target)
    stored_as = weight_formats(replace(d, model=d.drafter, weight_dtype=None, stored=None))
    beside = (*own.first, *own.last, *([own.embedding] if own.embedding else []))
    weights = (*(w for layer in own.layers for w in layer.weights), *map(_by_rows, beside))
    return Drafter(d.drafter.id, own.layers, weights, stored_as, d.drafter.source)


def own_tensors(d: Deployment, model: Lowered, target: Lowered) -> Lowered:
    """A drafter's model without what it takes from the target: an embedding or output of the same shape, unless it is a whole model.

    An EAGLE-3 head's output was trained and is its own, whatever its shape (vLLM v1/spec_decode/llm_base_proposer.py
    _maybe_share_lm_head, which compares; sglang models/llama_eagle3.py, which takes the target's where no draft_vocab_size is said).
    Where the method runs modules and the checkpoint ships some beside its layers, those alone.
    """
    spec = read_speculative(d.speculative)
    if spec is None or spec.method in WHOLE:
        return model
    if runs_own(spec.method) and model.draft:
        return replace(model, layers=model.draft, draft=(), first=(), last=(), embedding=None)
    model = _with_joint(d, model) if spec.method == "eagle" else model
    theirs = _vocabularies(target)
    own = model.embedding if model.embedding and model.embedding.shape not in theirs else None
    last = tuple(w for w in model.last if w.role != "head" or w.shape not in theirs or spec.method == "eagle3")
    return replace(model, last=last, embedding=own, tied=model.tied and own is not None)


def _with_joint(d: Deployment, model: Lowered) -> Lowered:
    """An EAGLE head published under the class of its target, with what joins an embedding and a hidden state (vLLM llama_eagle.py fc)."""
    if model.embedding is None or d.drafter is None or d.drafter.architecture != "LlamaForCausalLM":
        return model
    hidden = model.embedding.shape[1]
    return replace(model, first=(*model.first, WeightTensor("fc", (hidden, 2 * hidden), "other")))


def whole_model(d: Deployment) -> bool:
    """Whether a model of several layers, none of which reads hidden states beside an embedding, is named as a head of EAGLE's.

    Heads of several layers are EAGLE-3's, whose first one reads both (vLLM llama_eagle3.py, qkv_input_size; SpecForge llama3_eagle.py).
    """
    spec = read_speculative(d.speculative)
    if spec is None or spec.method not in ("eagle", "eagle3") or d.drafter is None or (d.drafter.n_layers or 0) < 2 or d.drafter.mtp:
        return False
    mixers = [mixer for block in d.drafter.blocks.values() for mixer in block.mixers]
    return all(hasattr(mixer, "input_size") and mixer.input_size is None for mixer in mixers)


def no_head(d: Deployment) -> tuple[str, ...]:
    """A note of such a model."""
    if not whole_model(d) or d.drafter is None:
        return ()
    whole = f"{d.drafter.id} is a whole model of {d.drafter.n_layers} layers, no EAGLE head"
    return (f"{whole}: a head is trained on hidden states of {d.model.id}",)


def both_kept(model: Lowered, found: Drafter | None, change: Callable[[Layer, Cache], Cache]) -> tuple[Lowered, Drafter | None]:
    """The model and what drafts beside it, the caches of both as an engine keeps them."""
    theirs = () if found is None else remade(replace(model, layers=found.layers, draft=()), change).layers
    return remade(model, change), found and found._replace(layers=theirs)


def _vocabularies(model: Lowered) -> set[tuple[int, ...]]:
    """Shapes of a model's embedding and output."""
    found = {w.shape for w in model.last if w.role == "head"}
    return found | ({model.embedding.shape} if model.embedding else set())


def _by_rows(w: WeightTensor) -> WeightTensor:
    """Vocabularies are split over ranks by rows."""
    return w._replace(units=w.shape[0]) if w.role in ("embedding", "head") and len(w.shape) == 2 else w


def drafter_weights(found: Drafter, *, tp: int, ep: int, role_tp: Mapping[Role, int] | None = None) -> list[Entry]:
    """A ledger line per role of the drafter's weights: bytes of the fullest rank's share."""
    entries = weight_entries([(w, 1) for w in found.weights], found.formats, tp=tp, ep=ep, role_tp=role_tp)
    return [e._replace(name=e.name.replace("weights: ", "weights: drafter "), source=f"{found.name}: {e.source}") for e in entries]


def without_weights(layers: Collection[Layer]) -> tuple[Layer, ...]:
    """The layers for their caches alone."""
    return tuple(replace(layer, weights=()) for layer in layers)
