"""Parameters and weight bytes from declared tensor shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kvplan.dtypes import GGUF_TYPES, WEIGHT_FORMATS, matrix_bytes
from kvplan.ledger import Entry, exact
from kvplan.tensors import PLAIN, Layer, Lowered, Role, WeightTensor, layer_counts
from kvplan.units import cdiv
from kvplan.uploads import habit, keeps_drafts

if TYPE_CHECKING:
    from kvplan.stored import StoredWeights


class WeightFormats(dict[Role, str]):
    """Role -> checkpoint format; every role is there.

    said    who says which roles are quantised, for the ledger: the checkpoint's config, or nobody and it is assumed
    unsure  role -> the format that such checkpoints store it in as well
    ruled   bytes that tensors have of their own are a tool's rule for this format, not a checkpoint's headers
    own     single tensors are in formats of their own, as the checkpoint's config says (WeightTensor.own)
    apart   some files hold the output beside the embedding that it is tied to
    ends    what a quantised line may be, as shares of it, where more is known of it than its format
    """

    __slots__ = ("apart", "ends", "own", "ruled", "said", "unsure")

    def __init__(
        self,
        formats: Mapping[Role, str],
        said: str,
        unsure: Mapping[Role, str],
        *,
        ruled: bool = False,
        own: bool = False,
        apart: bool = False,
        ends: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(formats)
        self.said, self.unsure, self.ruled, self.own, self.apart, self.ends = said, unsure, ruled, own, apart, ends

    def of(self, w: WeightTensor) -> str:
        """The format of one tensor. Norms are in the type of all that is not quantised."""
        if not w.own or not self.own:
            return self[w.role]
        return self["norm"] if w.own == PLAIN else w.own

    @property
    def quantized(self) -> bool:
        """Whether some role is in a format that is modelled."""
        return any(is_quantized(name) for name in self.values())


def is_quantized(name: str) -> bool:
    """Whether bytes in this format are modelled: all but the plain float types."""
    return name not in ("f64", "f32", "f16", "bf16")


ROLES: tuple[Role, ...] = (
    "attention", "mlp", "experts", "shared_experts", "router", "norm", "embedding", "head", "state", "tower", "buffer", "other",
)  # fmt: skip
#: The roles that a checkpoint quantises when only a format is named: the matrices of the layers.
MATRICES: tuple[Role, ...] = ("attention", "mlp", "experts", "shared_experts")


class Parameters(NamedTuple):
    """Counts of parameters: towers in, draft modules apart, tied tensors once, buffers out."""

    total: int
    active: int
    embedding: int
    draft: int


#: Tensors, each with how many equal ones there are.
Tensors = list[tuple[WeightTensor, int]]


def layer_tensors(layers: Sequence[Layer]) -> Tensors:
    """Every tensor of these layers."""
    return [(w, n) for layer, n in layer_counts(layers) for w in layer.weights]


def model_tensors(model: Lowered) -> Tensors:
    """Every tensor of the model but its draft modules, tied ones once."""
    outside = [*model.first, *model.last, *([model.embedding] if model.embedding else ())]
    return [*((w, 1) for w in outside), *layer_tensors(model.layers)]


def count(model: Lowered) -> Parameters:
    """Parameter counts. `active` leaves out the experts that do not serve a token and a layer's tables of n-grams, of which it reads some
    rows; nothing else."""
    total = active = 0
    tables = {id(w) for layer in model.layers for w in layer.weights if w.role == "embedding"}
    for w, n in model_tensors(model):
        if w.role == "buffer":
            continue
        elems = w.elems
        total += n * elems
        active += n * (elems // w.experts * w.active if w.experts else 0 if id(w) in tables else elems)
    draft = sum(w.elems for layer in model.draft for w in layer.weights if w.role != "buffer")
    return Parameters(total, active, model.embedding.elems if model.embedding else 0, draft)


def stored_bytes(w: WeightTensor, formats: WeightFormats) -> int:
    """Bytes of one whole tensor: as the checkpoint's headers say, else by shape in its format, with a matrix's scales."""
    return _bytes(w.shape, formats.of(w)) if w.stored is None else w.stored


def rank_bytes(w: WeightTensor, formats: WeightFormats, *, tp: int, ep: int) -> int:
    """Bytes of the fullest rank's share of one tensor.

    Units that do not divide are dealt out by ceiling; beyond one unit a rank the unit is replicated. With ep > 1 whole experts are
    dealt out; without it every expert is split like any other matrix.
    """
    if w.experts and ep > 1:
        held = cdiv(w.experts, ep)
        return _bytes((held, *w.shape[1:]), formats.of(w)) if w.stored is None else cdiv(w.stored * held, w.experts)
    if w.units == 1 or tp == 1:
        return stored_bytes(w, formats)
    return cdiv(stored_bytes(w, formats) * max(1, cdiv(w.units, tp)), w.units)


def total_bytes(tensors: Iterable[WeightTensor], formats: WeightFormats) -> int:
    """Bytes of whole tensors."""
    return sum(stored_bytes(w, formats) for w in tensors)


def all_bytes(tensors: Iterable[tuple[WeightTensor, int]], formats: WeightFormats) -> int:
    """Bytes of whole tensors, each as often as there are."""
    return sum(n * stored_bytes(w, formats) for w, n in tensors)


@lru_cache(maxsize=4096)
def _bytes(shape: tuple[int, ...], format_name: str) -> int:
    if len(shape) < 2:
        return matrix_bytes(format_name, 1, *(shape or (1,)))
    matrices = 1
    for n in shape[:-2]:
        matrices *= n
    return matrices * matrix_bytes(format_name, shape[-2], shape[-1])


def with_stored(model: Lowered, stored: StoredWeights) -> Lowered:
    """The model with the bytes that a checkpoint's headers give, dealt over its declared tensors; their sum is the checkpoint's.

    Within a layer a role's bytes go to its tensors by their parameters, so that each is split over ranks as declared. What is stored
    under a role that the layer declares no tensor of becomes one tensor that every rank holds.
    """
    layers, drafts = stored.by_layer("model"), stored.by_layer("draft")
    encoder = stored.by_role("encoder")
    first: dict[Role, int] = {role: n for role, n in stored.outside().items() if role not in ("head", "norm", "embedding")}
    first |= {role: first.get(role, 0) + n for role, n in encoder.items()}
    towers = stored.by_stack().get("tower", 0)
    if towers:
        first["tower"] = first.get("tower", 0) + towers
    last: dict[Role, int] = {role: n for role, n in stored.outside().items() if role in ("head", "norm")}
    embedding = stored.outside().get("embedding", 0)
    return replace(
        model,
        layers=_layers(model.layers, layers),
        draft=tuple(_layer(layer, roles) for layer, roles in zip(model.draft, drafts.values(), strict=False)) or model.draft,
        first=_dealt(model.first, first),
        last=_dealt(model.last, last),
        embedding=model.embedding._replace(stored=embedding) if model.embedding else None,
    )


def _layers(layers: Sequence[Layer], stored: Mapping[int, Mapping[Role, int]]) -> tuple[Layer, ...]:
    """Equal layers that store the same share one object afterwards too."""
    made: dict[tuple[int, tuple[tuple[Role, int], ...]], Layer] = {}
    found = []
    for i, layer in enumerate(layers):
        roles = stored.get(i, {})
        key = (id(layer), tuple(roles.items()))
        if key not in made:
            made[key] = _layer(layer, roles)
        found.append(made[key])
    return tuple(found)


def _layer(layer: Layer, roles: Mapping[Role, int]) -> Layer:
    return replace(layer, weights=_dealt(layer.weights, roles))


def _dealt(tensors: Sequence[WeightTensor], roles: Mapping[Role, int]) -> tuple[WeightTensor, ...]:
    result: list[WeightTensor] = []
    sums: dict[Role, tuple[int, int]] = {}  # elements and bytes given so far
    declared: dict[Role, int] = {}
    for w in tensors:
        declared[w.role] = declared.get(w.role, 0) + w.elems
    for w in tensors:
        elems, given = sums.get(w.role, (0, 0))
        elems += w.elems
        share = roles.get(w.role, 0) * elems // declared[w.role] - given
        sums[w.role] = (elems, given + share)
        result.append(w._replace(stored=share))
    result += [WeightTensor(f"other {role}", (n,), role, stored=n) for role, n in roles.items() if role not in declared and n]
    return tuple(result)


def role_formats(
    base: str,
    quantized: Mapping[Role, str],
    said: str = "",
    unsure: Mapping[Role, str] | None = None,
    *,
    single: bool = False,
    ends: tuple[float, float] | None = None,
) -> WeightFormats:
    """Role -> format: `base`, but for the roles that are quantised. Without `said`, as the checkpoint's config says.

    single  single tensors are in formats of their own, though no role is
    ends    see WeightFormats
    """
    formats = {role: quantized.get(role, base) for role in ROLES}
    return WeightFormats(
        formats,
        said or "quantised as the checkpoint's config says",
        unsure or {},
        own=(single or bool(quantized)) and not said,
        ends=ends,
    )


def asked_formats(
    base: str,
    asked: str,
    *,
    routed: bool,
    hybrid: bool = False,
    tied: bool = False,
    published: tuple[tuple[float, float], str] | None = None,
) -> WeightFormats:
    """The formats of a checkpoint of which only the format is known: as released checkpoints in it are.

    published   what GGUF files of the type that are known say of its lines, as shares, and that in words

    A GGUF file of a tied model has an output of its own where the checkpoint that it was made from had one (Ollama's qwen3:0.6b,
    qwen:0.5b and llama-guard3:1b: 523, 395 and 1,600 MB).

    All matrices of the layers are quantised but those that uploads in the format are known to keep (`kvplan.uploads`).
    """
    if asked in GGUF_TYPES:
        said = "every matrix, embedding and output included; norms and routers in f32"
        formats: dict[Role, str] = dict.fromkeys((*MATRICES, "embedding", "head"), asked)
        formats |= dict.fromkeys(("norm", "router", "state"), "f32")
        ends, words = published or (None, "")
        said += f"; {words}" if words else ""
        return WeightFormats({role: formats.get(role, base) for role in ROLES}, said, {}, ruled=True, apart=tied and not ends, ends=ends)
    if asked.startswith("exl"):
        head = f"{asked.partition('_')[0]}_6bpw"
        own: dict[Role, str] = {**dict.fromkeys(MATRICES, asked), "head": head}
        return role_formats(base, own, "the layers' matrices, the head in 6 bits as by default")
    if asked.startswith("mlx_"):
        return role_formats(base, dict.fromkeys((*MATRICES, "router", "embedding", "head"), asked), "every matrix, as MLX converts")
    if asked == "w4afp8":  # SGLang quantization/w4afp8.py get_quant_method: experts so, every other linear in FP8 blocks
        own = {**dict.fromkeys(MATRICES, "fp8_block128"), "experts": asked}
        return role_formats(base, own, "the experts in int4, the other matrices of the layers in fp8 blocks")
    found = habit(asked, routed=routed, hybrid=hybrid)
    unsure: dict[Role, str] = {role: asked if role in found.kept else base for role in found.either}
    said = "the layers' matrices assumed quantised"
    return role_formats(base, {role: asked for role in MATRICES if role not in found.kept}, said, unsure)


def draft_formats(formats: WeightFormats, base: str, asked: str) -> WeightFormats:
    """The formats of a model's own draft modules in a checkpoint of which only the format `asked` is known."""
    if not keeps_drafts(asked):
        return formats
    return role_formats(base, {}, "draft modules assumed not quantised", dict.fromkeys(MATRICES, asked))


def weight_name(role: Role) -> str:
    """What a ledger calls the weights of a role."""
    return f"weights: {role}"


def weight_line(role: Role, n_bytes: int, formats: WeightFormats, *, stored: bool) -> Entry:
    """The ledger line of one role's bytes: exact from headers and for plain types; modelled where anything of the model is quantised."""
    name = weight_name(role)
    if stored and not formats.ruled:
        return exact(name, n_bytes, "the checkpoint's headers", "weights")
    if not formats.quantized and role not in formats.unsure:
        return exact(name, n_bytes, "declared tensor shapes", "weights")
    own = formats[role]
    low, high = formats.ends if formats.ends and is_quantized(own) else WEIGHT_FORMATS[own].ends
    source = f"declared tensor shapes in {own} ({WEIGHT_FORMATS[own].source}); {formats.said}"
    if not is_quantized(own):
        source = f"declared tensor shapes in {own}, assumed not quantised"
    if other := formats.unsure.get(role):
        ratio = WEIGHT_FORMATS[other].bits_per_weight / WEIGHT_FORMATS[own].bits_per_weight
        low, high = min(low, ratio), max(high, ratio)
        source += f"; some checkpoints store it in {other}"
    if role == "embedding" and formats.apart:
        high *= 2
        source += "; some files hold the output apart, though it is tied"
    return Entry(name, n_bytes, int(n_bytes * low), -int(-n_bytes * high // 1), "modelled", source, "weights")
