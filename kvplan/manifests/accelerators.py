"""What names a device in a manifest: node labels, resource names, accelerator types.

Nothing is guessed: a name that two devices share stays open.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kvplan import catalogue
from kvplan.engines.common.words import Given, Place
from kvplan.errors import KvplanError
from kvplan.manifests.marked import Item

#: Node labels whose value is a GPU product: NVIDIA's and AMD's feature discovery, GKE, and what others put beside them.
LABELS = (
    "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name",
    "gpu.nvidia.com/model", "k8s.amazonaws.com/accelerator", "karpenter.k8s.aws/instance-gpu-name", "accelerator",
)  # fmt: skip
RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi", "nvidia.com/pgpu")
SLICES = re.compile(r"nvidia\.com/(mig-[0-9a-z.+-]+|gpu\.shared)")
OTHERS = ("google.com/tpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "huawei.com/Ascend910", "nvidia.com/gpumem")
#: ray.util.accelerators -> device; None: the name stands for several.
RAY: dict[str, str | None] = {
    "V100": None, "P100": "p100-16gb", "T4": "t4", "A10G": "a10g", "L4": "l4", "L40S": "l40s", "A100": None, "A100-40G": "a100-40gb",
    "A100-80G": "a100-80gb", "H100": "h100-80gb", "H200": "h200", "H20": None, "B200": "b200", "B300": "b300", "GB10": "gb10",
    "AMD-Instinct-MI210": "mi210", "AMD-Instinct-MI250X": "mi250x", "AMD-Instinct-MI300X-OAM": "mi300x", "AMD-Instinct-MI308X": "mi308x",
    "AMD-Instinct-MI325X-OAM": "mi325x", "AMD-Instinct-MI350X-OAM": "mi350x", "AMD-Instinct-MI355X-OAM": "mi355x",
    "Intel-GPU-Max-1550": "gpu-max-1550",
}  # fmt: skip
INSTANCE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-family")
#: Machine types that carry whole GPUs of one kind: "Accelerated computing" of Amazon EC2's instance types, "GPU machine types" of
#: Compute Engine, "GPU accelerated sizes" of Azure's virtual machines.
INSTANCES: tuple[tuple[str, str], ...] = (
    (r"p3dn($|\.)", "v100-32gb"), (r"p3($|\.)", "v100-16gb"), (r"p4d($|\.)", "a100-40gb"), (r"p4de($|\.)", "a100-80gb"),
    (r"p5($|\.)", "h100-80gb"), (r"p5en?($|\.)", "h200"), (r"p6-b200($|\.)", "b200"), (r"p6-b300($|\.)", "b300"),
    (r"g4dn($|\.)", "t4"), (r"g5($|\.)", "a10g"), (r"gr?6($|\.)", "l4"), (r"g6e($|\.)", "l40s"),
    (r"a2-highgpu-|a2-megagpu-", "a100-40gb"), (r"a2-ultragpu-", "a100-80gb"), (r"a3-(high|mega|edge)gpu-", "h100-80gb"),
    (r"a3-ultragpu-", "h200"), (r"a4-highgpu-", "b200"), (r"g2-standard-", "l4"),
    (r"standard_nc\d+as_t4_v3$", "t4"), (r"standard_nc\d+ads_a100_v4$", "a100-pcie-80gb"), (r"standard_nd96asr_v4$", "a100-40gb"),
    (r"standard_nd96amsr_a100_v4$", "a100-80gb"), (r"standard_nc\d+adi?s_h100_v5$", "h100-nvl-94gb"),
    (r"standard_nd96isr_h100_v5$", "h100-80gb"), (r"standard_nd96isr_h200_v5$", "h200"), (r"standard_nd96isr_mi300x_v5$", "mi300x"),
)  # fmt: skip
#: Values of labels that say the family and not the size.
VAGUE = frozenset({"a100", "a800", "v100", "h20", "nvidia-tesla-a100-family", "gpu", "true", "nvidia"})


class Hardware(NamedTuple):
    """The device, how many, and why it is open where it is."""

    device: Given | None = None
    n_devices: Given | None = None
    why: str = ""
    place: Place = Place()


def named(item: Item, label: str) -> tuple[Given | None, str]:
    """The device that a label's value names; else why it stays open."""
    text = item.text or str(item.value)
    if text.strip().lower() in VAGUE:
        return None, f"{label}: {text} comes with more than one size of memory"
    try:
        return Given(catalogue.find_device(text).id, label, item.place), ""
    except KvplanError:
        pass
    plain = re.sub(r"(-SHARED|-MIG-[0-9a-z.]+)$", "", text, flags=re.IGNORECASE)
    if plain != text:
        return None, f"{label}: {text} is a share of a GPU"
    return None, f"{label}: {text} is no device that we know"


def of_pod(pod: Item, containers: list[Item]) -> Hardware:
    """The hardware that a pod asks for: its node selector and affinity, the limits of its containers."""
    device, why, place = _product(pod)
    n_devices: Given | None = None
    for container in containers:
        for where in ("limits", "requests"):
            for name, item in container.get("resources", where).items():
                if name in RESOURCES and item.text.isdecimal():
                    n_devices = n_devices or Given(int(item.text[:6]), name, item.place)
                elif SLICES.fullmatch(name):
                    device, why, place = None, f"{name} is a share of a GPU; give its memory, such as --device 20GiB", item.place
                    n_devices = n_devices or (Given(int(item.text[:6]), name, item.place) if item.text.isdecimal() else None)
                elif name in OTHERS:
                    device, why, place = None, f"{name} is hardware that is not modelled", item.place
    if not why and device is None:
        count = f"{n_devices.value} x {n_devices.spelled}" if n_devices else "no GPU"
        why = f"it asks for {count} and has no node selector or affinity on a GPU product"
    return Hardware(device, n_devices, why if device is None else "", place if device is None else device.place)


def _product(pod: Item) -> tuple[Given | None, str, Place]:
    """The one device that all of the pod's labels leave; else why it is open, and where that stands."""
    labels = [[(name, item)] for name, item in pod.get("nodeSelector").items()]
    terms = [
        _term(term) for term in pod.get("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    ]
    found: list[dict[str, Given]] = []
    whys: list[tuple[str, Place]] = []
    for label in labels:
        options, more = _options(label)
        found += [options] if options else []
        whys += more
    if terms:  # a node may match any of the terms
        each = [_all_of(term) for term in terms]
        whys += [why for _, more in each for why in more]
        if all(options for options, _ in each):
            found.append({id_: one for options, _ in each for id_, one in options.items()})
    left = _common(found)
    if len(left) == 1:
        return next(iter(left.values())), "", pod.place
    if found:
        named_ = [id_ for options in found for id_ in options]
        text = f"its nodes may carry {' or '.join(dict.fromkeys(left or named_))}" if left else f"its labels name {' and '.join(named_)}"
        return None, text, list(found[-1].values())[-1].place
    return None, *(whys[-1] if whys else ("", pod.place))


def _common(found: list[dict[str, Given]]) -> dict[str, Given]:
    left = dict(found[0]) if found else {}
    for options in found[1:]:
        left = {id_: one for id_, one in left.items() if id_ in options}
    return left


def _term(term: Item) -> list[list[tuple[str, Item]]]:
    """The expressions of one term that name values a node must have."""
    return [
        [(expression.get("key").text, value) for value in expression.get("values")]
        for expression in term.get("matchExpressions")
        if expression.get("operator").text == "In"
    ]


def _all_of(expressions: list[list[tuple[str, Item]]]) -> tuple[dict[str, Given], list[tuple[str, Place]]]:
    """The devices that every expression of a term leaves."""
    read = [_options(expression) for expression in expressions]
    return _common([options for options, _ in read if options]), [why for _, more in read for why in more]


def _options(values: list[tuple[str, Item]]) -> tuple[dict[str, Given], list[tuple[str, Place]]]:
    """The devices that one of the values names; none where a value names none that is known."""
    options: dict[str, Given] = {}
    whys: list[tuple[str, Place]] = []
    for label, item in values:
        device, why = named(item, label) if label in LABELS else instance(item, label) if label in INSTANCE_LABELS else (None, "")
        if device:
            options[str(device.value)] = device
        elif why:
            whys.append((why, item.place))
        else:
            return {}, whys
    return ({}, whys) if whys else (options, [])


def instance(item: Item, label: str) -> tuple[Given | None, str]:
    """The device of a machine type that carries one kind; machine types without are no fault."""
    text = item.text.strip().lower()
    for pattern, device in INSTANCES:
        if re.match(pattern, text):
            return Given(device, label, item.place), ""
    return None, ""
