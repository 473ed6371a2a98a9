"""The model spec: what a YAML file declares, checked, and its lowering to tensors. The only module that knows layer kinds."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic_core import ValidationError

from kvplan.dtypes import canonical, canonical_weight
from kvplan.errors import KvplanError, SpecError
from kvplan.fields import Between, Matching, Record
from kvplan.forms import misfit
from kvplan.layers import MIXERS, MLPS, find
from kvplan.layers.base import Dim, LayerKind, Tokens
from kvplan.tensors import KEPT_MODELS, PLAIN, Cache, CacheFormats, Layer, Lowered, Role, Same, WeightTensor

MAX_LAYERS = 4096
_ITEM = re.compile(r"(?:([1-9][0-9]{0,3})\*)?([A-Za-z0-9_.-]{1,64})")

Text = Annotated[str, Between(1, 2000)]
Id = Annotated[str, Matching(r"(?:[a-z0-9._-]{1,100}/){0,2}[a-z0-9._-]{1,100}(?::[a-z0-9._-]{1,100})?")]
Layers = Annotated[int, Between(1, MAX_LAYERS)]


class ExtraWeight(Record):
    """A checkpoint tensor that no kind has: position embeddings, adapters, per-layer inputs. Replicated under tensor parallelism.

    own  what a quantised checkpoint has it in, where that is not what its role is in
    """

    name: Text
    shape: tuple[Dim, ...]
    role: Literal["attention", "mlp", "norm", "embedding", "head", "state", "tower", "buffer", "other"] = "other"
    own: Literal["", "mxfp8"] = ""

    def tensor(self) -> WeightTensor:
        return WeightTensor(self.name, tuple(self.shape), self.role, own=self.own)


class Block(Record):
    """One kind of layer: its mixers (attention and the like), its feed-forward parts, how many norms of hidden size it has."""

    mixers: tuple[LayerKind, ...] = ()
    mlps: tuple[LayerKind, ...] = ()
    norms: Annotated[int, Between(0, 32)] = 2
    hidden_size: Dim | None = None
    weights: tuple[ExtraWeight, ...] = ()


class Run(Record):
    """`pattern`, `repeat` times over. An item is a block's name, or `5*name`."""

    pattern: tuple[Text, ...]
    repeat: Layers = 1


class Encoder(Record):
    """The encoder of an encoder-decoder model. `tokens`: the length it always has (Whisper 1500)."""

    n_layers: Layers
    layers: tuple[Run, ...]
    tokens: Tokens | None = None
    weights: tuple[ExtraWeight, ...] = ()


class Mtp(Record):
    """Draft modules shipped with the model: `modules` layers of `block`, each with `weights` of its own.

    method   the way of drafting that runs them: mtp by any of its names, or dspark, whose stages draft a block at once
    beside   what stands beside them once, whatever their number
    """

    modules: Annotated[int, Between(1, 64)]
    block: Text
    weights: tuple[ExtraWeight, ...] = ()
    method: Literal["mtp", "dspark"] = "mtp"
    beside: tuple[ExtraWeight, ...] = ()


class Tower(Record):
    """A vision or audio tower, projector included, as a parameter count."""

    name: Text
    parameters: Annotated[int, Between(1, 1 << 45)]


class Quantization(Record):
    """How the checkpoint stores the roles it quantises; all other tensors are in the spec's dtype."""

    format: Text
    roles: tuple[Role, ...]


class Deviation(Record):
    """Tensors that a quantised checkpoint stores otherwise than the rest of their role: by layer (`0-2,5`) and the name a kind gives them.

    Draft modules are numbered on after the layers.

    format: none where they are left in the spec's dtype.
    """

    layers: Annotated[str, Matching(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?){0,4095}")]
    tensors: tuple[Text, ...]
    format: Text | None = None

    @property
    def numbers(self) -> list[int]:
        """The layers, one by one."""
        ends = [part.split("-") for part in self.layers.split(",")]
        return [n for pair in ends for n in range(int(pair[0]), int(pair[-1]) + 1)]


class ModelSpec(Record):
    """Everything about a model that memory depends on.

    hub_id        the name it is served under, in its own case, where that is not the id's
    checkpoint    the checkpoint's format, where only that is known and not how its roles are stored (`quantization`)
    method        what the config calls its way of quantisation (`none`: its tool names only the algorithm; `mlx`: that names none)
    text_class    the class of the text model inside, where the config names one in its part for that
    deviations    tensors that the checkpoint stores otherwise than their role
    cache_window  a window that the config states and the class never masks by; a cache made from the config slides every layer
    unused_window an attention window that the config states and none of its layer types has: an engine may slide layers by it
    length_unsaid     it may have a maximum length, and no source that was read states it; a config without one says that it has none
    original_context  positions before longrope stretches them to `max_context`
    stated_context    positions as the config states them, where a YaRN factor makes more of them (`max_context`)
    stated_head_dim   head_dim as the config states it beside latent attention, where the rotary part has another width
    listed_layers     the config lists layers by name, where its class was first read by a pattern of letters, by numbers or by other names
    bidirectional     tokens that see later ones too: none, those of one image, or all
    uncounted         what the released model has beside all this, a sentence each: its weights are more than are counted
    """

    id: Id
    name: Text
    source: Text
    hub_id: Text | None = None
    aliases: tuple[Text, ...] = ()
    notes: tuple[Text, ...] = ()
    uncounted: tuple[Text, ...] = ()
    architecture: Text | None = None
    dtype: Text = "bf16"
    quantization: tuple[Quantization, ...] = ()
    checkpoint: Text | None = None
    method: Text | None = None
    text_class: Text | None = None
    deviations: tuple[Deviation, ...] = ()
    kv_dtype: Text | None = None
    max_context: Tokens | None = None
    length_unsaid: bool = False
    original_context: Tokens | None = None
    stated_context: Tokens | None = None
    stated_head_dim: Dim | None = None
    listed_layers: bool = False
    cache_window: Tokens | None = None
    unused_window: Tokens | None = None
    bidirectional: Literal["none", "images", "all"] = "none"
    vocab_size: Dim | None
    hidden_size: Dim
    embedding_size: Dim | None = None
    tied_embeddings: bool = False
    lm_head: bool = True
    norm: Literal["rms", "layer", "layer_no_bias", "none"] = "rms"
    final_norm: bool = True
    n_layers: Layers
    layers: tuple[Run, ...]
    blocks: Annotated[dict[str, Block], Between(1, MAX_LAYERS)]
    encoder: Encoder | None = None
    mtp: Mtp | None = None
    towers: tuple[Tower, ...] = ()
    weights: tuple[ExtraWeight, ...] = ()

    @property
    def known_as(self) -> str:
        """The id of the release that was asked for, where `id` is its twin's, which has its shapes."""
        return self.hub_id if self.hub_id and self.name == self.hub_id.rpartition("/")[2] else self.id

    def agree(self, _: Any) -> None:
        canonical(self.dtype, "dtype")
        for quantization in self.quantization:
            canonical_weight(quantization.format)
        if self.checkpoint:
            canonical_weight(self.checkpoint)
        for i, deviation in enumerate(self.deviations):
            if deviation.format:
                canonical_weight(deviation.format)
            beyond = [n for n in deviation.numbers if n >= self.n_layers + (self.mtp.modules if self.mtp else 0)]
            if beyond:
                raise ValueError(
                    f"deviations.{i}.layers: {beyond[0]} is beyond the {self.n_layers} layers and draft modules, which count from 0"
                )
        used = {self.mtp.block} if self.mtp else set()
        used |= set(self._expand(self.layers, self.n_layers, "layers"))
        if self.encoder:
            used |= set(self._expand(self.encoder.layers, self.encoder.n_layers, "encoder.layers"))
        if self.mtp and self.mtp.block not in self.blocks:
            raise ValueError(f"mtp.block: {self.mtp.block!r} is not one of blocks: {', '.join(self.blocks)}")
        unused = [name for name in self.blocks if name not in used]
        if unused:
            raise ValueError(f"blocks.{unused[0]}: no layer uses it; name it in layers or take it out")

    def _expand(self, runs: tuple[Run, ...], n_layers: int, path: str) -> list[str]:
        names: list[str] = []
        for i, run in enumerate(runs):
            one: list[str] = []
            for item in run.pattern:
                match = _ITEM.fullmatch(item)
                if match is None or match[2] not in self.blocks:
                    raise ValueError(f"{path}.{i}.pattern: {item[:60]!r} is not one of blocks: {', '.join(list(self.blocks)[:8])}")
                one += [match[2]] * int(match[1] or 1)
                if len(one) * run.repeat + len(names) > MAX_LAYERS:
                    raise ValueError(f"{path}.{i}: more than {MAX_LAYERS} layers")
            names += one * run.repeat
        if len(names) != n_layers:
            counted = "n_layers" if path == "layers" else "encoder.n_layers"
            raise ValueError(f"{path}: the patterns make {len(names)} layers and {counted} is {n_layers}; correct one of them")
        return names

    @property
    def layer_names(self) -> list[str]:
        """The block of every layer, first to last."""
        return self._expand(self.layers, self.n_layers, "layers")

    @property
    def routed(self) -> bool:
        """Whether some layers have experts."""
        return any(getattr(mlp, "experts", 0) for block in self.blocks.values() for mlp in block.mlps)

    @property
    def encoder_tokens(self) -> int | None:
        return self.encoder.tokens if self.encoder else None


def parse_spec(data: Any, source: str) -> ModelSpec:
    """A checked spec from parsed YAML or JSON. Raises SpecError with every fault found, each with its dotted path."""
    if not isinstance(data, dict):
        raise SpecError(source, [("", "a model spec is a mapping of keys; see `kvplan models schema`")])
    faults: list[tuple[str, str]] = []
    data = {**data, "blocks": _read_blocks(data.get("blocks"), faults)}
    try:
        spec = ModelSpec.check(data)
    except ValidationError as error:
        faults += [(_dotted(e["loc"]), _message(e)) for e in error.errors(include_url=False)]
    except KvplanError as error:
        faults.append(("", str(error)))
    if faults:
        raise SpecError(source, faults)
    return spec


def mixer_like(mixer: LayerKind, kind: str, **values: Any) -> LayerKind:
    """A mixer of another kind with the same values and these. Raises ValidationError."""
    return find(MIXERS, kind).check({**mixer.plain(), "kind": kind, **values})


def _read_blocks(blocks: Any, faults: list[tuple[str, str]]) -> Any:
    """Blocks with their mixers and mlps turned into kinds, so that only the kinds a spec names are ever built."""
    if not isinstance(blocks, dict):
        return blocks
    read = {}
    for name, block in blocks.items():
        if isinstance(block, dict):
            block = dict(block)
            for part, table in (("mixers", MIXERS), ("mlps", MLPS)):
                if isinstance(block.get(part), list):
                    items = [_read_kind(item, table, f"blocks.{name}.{part}.{i}", faults) for i, item in enumerate(block[part])]
                    block[part] = [item for item in items if item is not None]
        read[name] = block
    return read


def _read_kind(item: Any, table: dict[str, tuple[str, str]], path: str, faults: list[tuple[str, str]]) -> LayerKind | None:
    kind = item.get("kind") if isinstance(item, dict) else None
    if not isinstance(kind, str):
        faults.append((path, f"write a mapping with `kind`, one of: {', '.join(table)}"))
        return None
    try:
        return find(table, kind).check(item)
    except ValidationError as error:
        faults += [(_dotted((*path.split("."), *e["loc"])), _message(e)) for e in error.errors(include_url=False)]
    except KvplanError as error:
        faults.append((f"{path}.kind", f"{error}; one of: {', '.join(table)}"))
    return None


def _dotted(loc: tuple[int | str, ...]) -> str:
    return ".".join(str(part)[:80] for part in loc)


_MESSAGES = {
    "extra_forbidden": "unknown key; take it out or correct its spelling",
    "missing": "missing; this key is required",
    "tuple_type": "write a list",
    "dict_type": "write a mapping",
}


def _message(error: Any) -> str:
    kind = "missing" if error["input"] is None and error["type"] in _MESSAGES else error["type"]
    message = _MESSAGES.get(kind) or error["msg"].removeprefix("Value error, ")
    shown = repr(error["input"]) if kind not in ("missing", "value_error", "extra_forbidden") else ""
    return f"{message} (is {shown[:60]})" if shown else str(message)


def lower(spec: ModelSpec, formats: CacheFormats) -> Lowered:
    """The spec as tensors, in the question's formats. Nothing after this knows layer kinds.

    Raises SpecError where a format can not hold a row of this model (a packed row of another width, a broken block).
    """
    return _lower(Same(spec), formats)


@lru_cache(maxsize=KEPT_MODELS)
def _lower(same: Same[ModelSpec], formats: CacheFormats) -> Lowered:
    spec = same.it
    lowered = {name: _lower_block(spec, block, formats) for name, block in spec.blocks.items()}
    first, last = [w.tensor() for w in spec.weights if w.role != "head"], [w.tensor() for w in spec.weights if w.role == "head"]
    width, embedding = spec.embedding_size or spec.hidden_size, None
    if spec.vocab_size:
        embedding = WeightTensor("embedding", (spec.vocab_size, width), "embedding", spec.vocab_size)
        if spec.lm_head and not spec.tied_embeddings:
            last.append(WeightTensor("lm_head", (spec.vocab_size, width), "head", spec.vocab_size))
    if spec.final_norm:
        last += _norms(spec, 1, spec.hidden_size)
    if spec.encoder:
        first += [w.tensor() for w in spec.encoder.weights]
        for name in spec._expand(spec.encoder.layers, spec.encoder.n_layers, "encoder.layers"):
            first += lowered[name].weights
    first += [WeightTensor(tower.name, (tower.parameters,), "tower") for tower in spec.towers]
    draft: tuple[Layer, ...] = ()
    if spec.mtp:
        block = lowered[spec.mtp.block]
        module = Layer(caches=block.caches, weights=(*block.weights, *(w.tensor() for w in spec.mtp.weights)))
        first_one = replace(module, weights=(*module.weights, *(w.tensor() for w in spec.mtp.beside))) if spec.mtp.beside else module
        draft = (first_one, *(module,) * (spec.mtp.modules - 1))
    n, layers = spec.n_layers, _deviating(spec, [*(lowered[name] for name in spec.layer_names), *draft])
    return Lowered(
        layers=layers[:n],
        first=tuple(first),
        embedding=embedding,
        last=tuple(last),
        draft=layers[n:],
        tied=spec.tied_embeddings,
    )


def _deviating(spec: ModelSpec, layers: list[Layer]) -> tuple[Layer, ...]:
    """The layers with the formats of single tensors; equal ones stay one object. Raises SpecError for a tensor that a layer has not."""
    own: dict[int, dict[str, str]] = {}
    for deviation in spec.deviations:
        for n in deviation.numbers:
            own.setdefault(n, {}).update(dict.fromkeys(deviation.tensors, deviation.format or PLAIN))
    made: dict[tuple[int, tuple[tuple[str, str], ...]], Layer] = {}
    for n, formats in own.items():
        key = (id(layers[n]), tuple(sorted(formats.items())))
        if key not in made:
            missing = formats.keys() - {w.name for w in layers[n].weights}
            if missing:
                raise SpecError(spec.source, [("deviations", f"layer {n} has no tensor {min(missing)[:60]!r}")])
            weights = tuple(w._replace(own=formats.get(w.name, "")) for w in layers[n].weights)
            made[key] = replace(layers[n], weights=weights)
        layers[n] = made[key]
    return tuple(layers)


def _lower_block(spec: ModelSpec, block: Block, formats: CacheFormats) -> Layer:
    hidden = block.hidden_size or spec.hidden_size
    caches: list[Cache] = []
    weights: list[WeightTensor] = []
    for mixer in block.mixers:
        tensors, form = mixer.cache(hidden, formats), mixer.cache_form()
        if reason := misfit(form, tensors):
            raise TypeError(f"layer kind {mixer.kind}: {reason}; give it a form of its own in kvplan/forms.py")
        caches.append(
            Cache(kind=mixer.kind, form=form, tensors=tensors, source=mixer.source, work=mixer.work(hidden), reads=mixer.reads(formats))
        )
        weights += () if mixer.tied else mixer.weights(hidden)
    for mlp in block.mlps:
        weights += () if mlp.tied else mlp.weights(hidden)
    weights += _norms(spec, block.norms, hidden)
    weights += [w.tensor() for w in block.weights]
    return Layer(caches=tuple(caches), weights=tuple(weights))


def _norms(spec: ModelSpec, n: int, hidden: int) -> list[WeightTensor]:
    vectors = {"rms": 1, "layer": 2, "layer_no_bias": 1, "none": 0}[spec.norm]
    return [WeightTensor("norm", (hidden,), "norm")] * (n * vectors)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a model spec, for editors: every kind as an alternative under `kind`."""
    schema = ModelSpec.json_schema()
    kinds: dict[str, Any] = {}
    block = schema["properties"]["blocks"]["additionalProperties"]["properties"]
    for part, table in (("mixers", MIXERS), ("mlps", MLPS)):
        kinds |= {kind: find(table, kind).json_schema() for kind in table}
        block[part]["items"] = {"oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in table]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "$defs": kinds}
