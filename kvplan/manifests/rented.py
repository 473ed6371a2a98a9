"""Containers on rented GPUs: Akash's deployments, Salad's container groups, pods and templates of RunPod's REST API.

akash.network/docs, "Stack Definition Language" (services, profiles.compute.*.resources, deployment.*.*.profile; as in Kubernetes
`command` takes the place of the image's entrypoint); the recipes of SaladTechnologies/salad-recipes (container.image, command,
environmentVariables, resources); docs.runpod.io/api-reference, "Create a Pod" (imageName, dockerEntrypoint, dockerStartCmd, env,
gpuTypeIds, gpuCount).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engines.common.words import Given, Word
from kvplan.manifests import requested
from kvplan.manifests.accelerators import Hardware
from kvplan.manifests.command import Start, container
from kvplan.manifests.found import Site
from kvplan.manifests.host import DEFAULT_SHM, Limits, quantity
from kvplan.manifests.marked import NOTHING, Item

MIB = 1 << 20


def is_akash(document: Item) -> bool:
    """Services with profiles of what they rent."""
    return bool(document.get("services") and document.get("profiles", "compute") and document.get("deployment"))


def _is_salad(document: Item) -> bool:
    return bool(document.get("container", "image") and document.get("container", "resources"))


def _is_runpod(document: Item) -> bool:
    return bool(document.get("imageName")) and any(document.get(key) for key in ("gpuTypeIds", "dockerStartCmd", "dockerEntrypoint", "env"))


def _words(item: Item) -> list[Word] | None:
    return [one.word for one in item] or ([item.word] if item.text else None)


def _akash(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    for name, service in document.get("services").items():
        env = requested.variables(service.get("env"))
        profile = next((one.get("profile").text for _, one in document.get("deployment", name).items()), name)
        resources = document.get("profiles", "compute", profile, "resources")
        hardware = _rented(resources.get("gpu"))
        entry, args = _words(service.get("command")), _words(service.get("args"))
        limits = _akash_limits(service, resources)
        for start in container(service.get("image").word, entry, args, env, source, service.place, service.end_line):
            yield start, Site(f"services/{name}", n, hardware.device, hardware.n_devices, 1, hardware.why, hardware.place,
                              span=service.span, limits=limits)  # fmt: skip


def _rented(gpu: Item) -> Hardware:
    """`units` of any of the models that `attributes.vendor` lists; with none listed, any GPU of that maker."""
    models = [
        Item(_model(one), _model(one), one.place, one.end_line)
        for _, vendor in gpu.get("attributes", "vendor").items()
        for one in vendor
        if one.get("model").text not in ("", "*")
    ]
    count = gpu.get("units").count("gpu.units")
    if not models:
        return Hardware(None, count, "the deployment names no model of GPU: a provider may give any", gpu.place)
    return requested.hardware(Item(models, "", models[0].place, models[-1].end_line), "gpu model", count=gpu.get("units"))


def _model(one: Item) -> str:
    """`model`, with its `interface` and `ram` where those tell one card from another of that name."""
    model, ram, link = (one.get(key).text.lower() for key in ("model", "ram", "interface"))
    size = ram.removesuffix("gi") + "gb" if ram else ""
    names = ("-".join(part for part in parts if part) for parts in ((model, link, size), (model, size), (model, link)))
    return next((name for name in names if requested.device(name)), model)


def _akash_limits(service: Item, resources: Item) -> Limits:
    memory = resources.get("memory", "size")
    limit = quantity(memory.text)
    mounted = {key for key, one in service.get("params", "storage").items() if one.get("mount").text.rstrip("/") == "/dev/shm"}
    size = next((one.get("size") for one in resources.get("storage") if one.get("name").text in mounted), NOTHING)
    shm = quantity(size.text) if size else DEFAULT_SHM
    spelled = "size of /dev/shm" if size else "default /dev/shm"
    return Limits(
        Given(limit, "memory.size", memory.place) if limit else None, Given(shm, spelled, (size or service).place) if shm else None
    )


def _salad(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """A container group: each copy has one GPU of one of `gpuClasses`, which are ids of Salad's own."""
    one = document.get("container")
    resources = one.get("resources")
    env = requested.variables(one.get("environmentVariables") or one.get("environment_variables"))
    classes = resources.get("gpuClasses") or resources.get("gpu_classes")
    count = Given(1, "gpuClasses", classes.place) if classes else None
    memory, shm = resources.get("memory").number(0) * MIB, resources.get("shmSize").number(64) * MIB
    limits = Limits(
        Given(memory, "memory", resources.get("memory").place) if memory else None,
        Given(shm, "shmSize", (resources.get("shmSize") or resources).place),
    )
    why = "gpuClasses are ids of the service's own, which name no GPU here" if classes else "the container group asks for no GPU"
    for start in container(one.get("image").word, _words(one.get("command")), None, env, source, one.place, one.end_line):
        name = document.get("name").text or "container"
        yield start, Site(name, n, None, count, 1, why, classes.place if classes else one.place, span=document.span,
                          limits=limits)  # fmt: skip


def runpod(document: Item, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """A pod, or a template, which leaves the GPU to its pods."""
    if not _is_runpod(document):
        return
    types, count = document.get("gpuTypeIds"), document.get("gpuCount")
    hardware = requested.hardware(types, "gpuTypeIds", count=count)
    if types and not count:
        hardware = hardware._replace(n_devices=Given(1, "gpuCount", types.place))
    env = requested.variables(document.get("env"))
    entry, args = _words(document.get("dockerEntrypoint")), _words(document.get("dockerStartCmd"))
    gpus, at, end = hardware.n_devices, document.place, document.end_line
    for start in container(document.get("imageName").word, entry, args, env, source, at, end, gpus=gpus):
        yield start, Site(document.get("name").text or "pod", n, hardware.device, hardware.n_devices, 1, hardware.why, hardware.place,
                          span=document.span)  # fmt: skip


#: What tells each, and what reads it.
KINDS = ((is_akash, _akash), (_is_salad, _salad), (_is_runpod, runpod))
