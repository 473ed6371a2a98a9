"""Files of services whose every engine is one mapping: where each kind writes its image, words, model and hardware, as data.

oracle-quickstart/oci-ai-blueprints docs/api_documentation (recipe_*); volcano-sh/kthena model-booster-controller/convert (ModelBooster);
theroyallab/tabbyAPI config_sample.yml; localai.io, "Model configuration".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kvplan.engines.common.words import Word
from kvplan.manifests import accelerators, images, requested
from kvplan.manifests.command import Start, container
from kvplan.manifests.found import NO_DEVICE, Site
from kvplan.manifests.marked import NOTHING, Item
from kvplan.manifests.pods import expand

Path = tuple[str, ...]


class Shape(NamedTuple):
    """Paths of keys. `told`: what is there in the document; `each`: the lists on the way to an engine's mapping, empty for the document
    itself; from there on the engine's own. With `engine` (a path of the whole, and what its names mean) the service writes the command of
    `model` and `options`, else the container has `args`; `foreign`: settings of an engine that is not modelled."""

    told: tuple[Path, ...]
    each: tuple[Path, ...] = ()
    engine: Path = ()
    engines: tuple[tuple[str, str], ...] = ()
    model: Path = ()
    image: Path = ("image",)
    args: Path = ("args",)
    options: Path = ()
    env: Path = ("env",)
    gpus: tuple[Path, ...] = (("resources", "limits", "nvidia.com/gpu"),)
    machine: Path = ()
    slice: Path = ()
    nodes: Path = ()
    name: Path = ("name",)
    foreign: str = ""


_BLUEPRINT = Shape(
    told=(("recipe_image_uri",), ("recipe_node_shape",)), image=("recipe_image_uri",), args=("recipe_container_command_args",),
    env=("recipe_container_env",), gpus=(("recipe_nvidia_gpu_count",), ("recipe_amd_gpu_count",)), machine=("recipe_node_shape",),
    slice=("mig_resource_request",),
    nodes=("multinode_num_nodes_to_use_from_shared_pool",), name=("deployment_name",),
)  # fmt: skip
SHAPES = (
    _BLUEPRINT,
    _BLUEPRINT._replace(told=(("deployment_groups",),), each=(("deployment_groups",), ("deployments",), ("recipe",))),
    Shape(
        told=(("spec", "backend", "type"), ("spec", "backend", "workers")), each=(("spec", "backend", "workers"),),
        engine=("spec", "backend", "type"), model=("spec", "backend", "modelURI"), options=("config",), nodes=("pods",), name=("type",),
        engines=(("vLLM", "vllm"), ("vLLMDisaggregated", "vllm"), ("SGLang", "sglang"), ("SGLangDisaggregated", "sglang")),
    ),
    Shape(told=(("network",), ("model", "model_name")), foreign="TabbyAPI"),
    Shape(told=(("backend",), ("parameters", "model")), foreign="LocalAI"),
)  # fmt: skip


def shape_of(document: Item) -> Shape | None:
    """The first that a document is of."""
    return next((one for one in SHAPES if all(document.get(*path) for path in one.told)), None)


def is_shaped(document: Item) -> bool:
    return shape_of(document) is not None


def read(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines of every mapping of the document's shape."""
    if (shape := shape_of(document)) is None:
        return
    for holder in _holders(document, shape.each):
        env = requested.variables(holder.get(*shape.env))
        machine = holder.get(*shape.machine) if shape.machine else NOTHING
        device, why = accelerators.instance(machine, ".".join(shape.machine)) if machine else (None, "")
        place = machine.place if machine else holder.place
        if part := holder.get(*shape.slice) if shape.slice else NOTHING:
            device, why, place = accelerators.slice_of(shape.slice[-1], f"mig-{part.text}", device, part)
        gpus = next((one.count(path[-1]) for path in shape.gpus if (one := holder.get(*path))), None)
        nodes = max(holder.get(*shape.nodes).number(), 1) if shape.nodes else 1
        site = Site(holder.get(*shape.name).text, n, device, gpus, nodes, why or NO_DEVICE, place, span=holder.span)
        if shape.foreign:
            yield Start("", (), env, holder.place, holder.end_line, foreign=shape.foreign), site
        elif shape.engine:
            yield _served(document, holder, shape, env), site
        else:
            words = expand(holder.get(*shape.args), env) or None
            for start in container(holder.get(*shape.image).word, None, words, env, source, holder.place, holder.end_line):
                yield start, site


def _holders(item: Item, each: tuple[Path, ...]) -> Iterator[Item]:
    if not each:
        yield item
        return
    found = item.get(*each[0])
    for one in found if isinstance(found.value, list) else [found] if found else []:
        yield from _holders(one, each[1:])


def _served(document: Item, holder: Item, shape: Shape, env: dict[str, Word]) -> Start:
    """The engine whose command the service writes."""
    named, model = document.get(*shape.engine), document.get(*shape.model)
    engine = dict(shape.engines).get(named.text, "")
    name = model.word._replace(text=model.text.removeprefix("hf://"))
    first = [name] if engine != "sglang" else [Word("--model-path", model.place), name]
    words = [*first, *requested.option_words(requested.dashed(holder.get(*shape.options)))]
    image = images.find(holder.get(*shape.image).text)
    version = image.version if image and image.engine == engine else None
    start = Start(engine, tuple(words), env, holder.place, holder.end_line, version, in_container=True)
    return start if engine else start._replace(words=(), foreign=f"of the type {named.text[:60]}")
