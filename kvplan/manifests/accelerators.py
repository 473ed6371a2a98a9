"""What names a device in a manifest: node labels, resource names, accelerator types.

Nothing is guessed: a name that two devices share stays open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kvplan import catalogue
from kvplan.errors import KvplanError
from kvplan.manifests.arguments.table import Given
from kvplan.manifests.marked import Item
from kvplan.manifests.values import Finding, Place

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
#: Values of labels that say the family and not the size.
VAGUE = frozenset({"a100", "v100", "h20", "nvidia-tesla-a100-family", "gpu", "true", "nvidia"})


class Hardware(NamedTuple):
    """The device, how many, and why it is open where it is."""

    device: Given | None = None
    n_devices: Given | None = None
    why: str = ""
    place: Place = Place()
    findings: tuple[Finding, ...] = ()


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
    device: Given | None = None
    why, place = "", pod.place
    options: dict[str, Given] = {}
    for label, item in _node_labels(pod):
        found, reason = named(item, label)
        why, place = reason or why, item.place
        if found:
            options[str(found.value)] = found
    if len(options) == 1 and not why:
        device = next(iter(options.values()))
    elif options and not why:
        why = f"its nodes may carry {' or '.join(options)}"
    n_devices, findings = None, list[Finding]()
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
    return Hardware(device, n_devices, why if device is None else "", place if device is None else device.place, tuple(findings))


def _node_labels(pod: Item) -> Iterator[tuple[str, Item]]:
    """Labels that nodes must have. A list of several values names a device only where all of them do."""
    for name, item in pod.get("nodeSelector").items():
        if name in LABELS:
            yield name, item
    required = pod.get("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for term in required:
        for expression in term.get("matchExpressions"):
            key = expression.get("key").text
            if key in LABELS and expression.get("operator").text == "In":
                for value in expression.get("values"):
                    yield key, value
