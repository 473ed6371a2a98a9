"""What names a device in a manifest: node labels, resource names, accelerator types.

Nothing is guessed: a name that two devices share stays open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvplan import catalogue, machines
from kvplan.engines.common.words import Finding, Given, Place
from kvplan.errors import KvplanError
from kvplan.manifests.marked import NOTHING, Item

#: Node labels whose value is a GPU product: NVIDIA's and AMD's feature discovery, GKE, and what others put beside them.
LABELS = (
    "nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name", "beta.amd.com/gpu.product-name",
    "gpu.nvidia.com/model", "gpu.nvidia.com/class", "k8s.amazonaws.com/accelerator", "karpenter.k8s.aws/instance-gpu-name",
    "eks.amazonaws.com/instance-gpu-name", "karpenter.azure.com/sku-gpu-name", "skypilot.co/accelerator", "accelerator",
)  # fmt: skip
RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi", "nvidia.com/pgpu")
SLICES = re.compile(r"nvidia\.com/(mig-[0-9a-z.+-]+|gpu\.shared)")
#: ray.util.accelerators -> device; None: the name stands for several.
RAY: dict[str, str | None] = {
    "V100": None, "P100": "p100-16gb", "T4": "t4", "A10G": "a10g", "L4": "l4", "L40S": "l40s", "A100": None, "A100-40G": "a100-40gb",
    "A100-80G": "a100-80gb", "H100": "h100-80gb", "H200": "h200", "H20": None, "B200": "b200", "B300": "b300", "GB10": "gb10",
    "AMD-Instinct-MI210": "mi210", "AMD-Instinct-MI250X": "mi250x", "AMD-Instinct-MI300X-OAM": "mi300x", "AMD-Instinct-MI308X": "mi308x",
    "AMD-Instinct-MI325X-OAM": "mi325x", "AMD-Instinct-MI350X-OAM": "mi350x", "AMD-Instinct-MI355X-OAM": "mi355x",
    "Intel-GPU-Max-1550": "gpu-max-1550",
}  # fmt: skip
INSTANCE_LABELS = (
    "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-family",
    "eks.amazonaws.com/instance-family", "karpenter.azure.com/sku-name", "cloud.google.com/machine-type",
)  # fmt: skip
#: Resources that are not modelled -> what they are.
ASIDE = {
    "google.com/tpu": "a Google TPU", "aws.amazon.com/neuron": "AWS Inferentia or Trainium",
    "aws.amazon.com/neuroncore": "AWS Inferentia or Trainium", "aws.amazon.com/neurondevice": "AWS Inferentia or Trainium",
    "huawei.com/Ascend910": "a Huawei Ascend 910", "huawei.com/ascend-1980": "a Huawei Ascend 910",
    "qualcomm.com/qaic": "a Qualcomm AI 100", "nvidia.com/gpumem": "a share of a GPU", "aliyun.com/gpu-mem": "a share of a GPU",
    "volcano.sh/vgpu-memory": "a share of a GPU",
}  # fmt: skip
#: Labels that say how a GPU is shared: NVIDIA's feature discovery, GKE.
SHARING = ("nvidia.com/gpu.sharing-strategy", "cloud.google.com/gke-gpu-sharing-strategy")
CLIENTS = ("nvidia.com/gpu.replicas", "cloud.google.com/gke-max-shared-clients-per-gpu")
PARTS = ("cloud.google.com/gke-gpu-partition-size", "nvidia.com/mig.config")
NOT_MODELLED = {"cloud.google.com/gke-tpu-accelerator": "a Google TPU", "cloud.google.com/gke-tpu-topology": "a Google TPU"}
#: Values of labels that say the family and not the size.
VAGUE = frozenset({"a100", "a800", "v100", "h20", "nvidia-tesla-a100-family", "gpu", "true", "nvidia"})
_PRODUCT = re.compile(r"productName\s*==\s*['\"]([^'\"]{1,80})['\"]")
_MIG = re.compile(r"profile\s*==\s*['\"]([0-9a-z.+]{1,20})['\"]")
GPUS = ("gpu.nvidia.com", "gpu.amd.com")


class Hardware(NamedTuple):
    """The device, how many, and why it is open where it is. `findings`: what is to be said of how it is given."""

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
    plain = re.sub(r"-SHARED$", "", text, flags=re.IGNORECASE)
    if plain != text:
        return named(Item(plain, plain, item.place, item.end_line), label)
    whole, _, part = plain.partition("-MIG-")
    if part:
        return None, f"{label}: {text} is a MIG slice ({part}) of {whole}; give its memory, such as --device 20GiB"
    return None, f"{label}: {text} is no device that we know"


def of_pod(pod: Item, containers: list[Item], others: Sequence[Item] = ()) -> Hardware:
    """The hardware that a pod asks for: its node selector and affinity, the limits and claims of its containers.

    others  the file's objects, for resource claims
    """
    device, why, place = _product(pod)
    n_devices: Given | None = None
    asked = ""
    for container in containers:
        claimed = _claimed(pod, container, others)
        if claimed:
            n_devices, why = claimed.n_devices, why or ("" if device else claimed.why)
            if claimed.product and device is None:
                product = Item(str(claimed.product.value), str(claimed.product.value), claimed.product.place, claimed.product.place.line)
                device, why = named(product, claimed.product.spelled)
        for where in ("limits", "requests"):
            for name, item in container.get("resources", where).items():
                if name in RESOURCES and item.text.isdecimal():
                    n_devices = n_devices or Given(int(item.text[:6]), name, item.place)
                elif name in RESOURCES and item.text:
                    asked = f"{item.text[:40]} x {name}"
                elif match := SLICES.fullmatch(name):
                    device, why, place = slice_of(name, match[1], device, item)
                    n_devices = n_devices or (Given(int(item.text[:6]), name, item.place) if item.text.isdecimal() else None)
                elif name in ASIDE:
                    device, why, place = None, f"{name} is {ASIDE[name]}, which is not modelled", item.place
    if not why and device is None:
        count = f"{n_devices.value} x {n_devices.spelled}" if n_devices else asked or "no GPU"
        why = f"it asks for {count} and has no node selector or affinity on a GPU product{_tolerated(pod) or _meant(pod)}"
    for name, item in pod.get("nodeSelector").items():
        profile = re.search(r"[1-7]g\.\d{1,3}gb", item.text) if name in PARTS else None
        if profile:
            device, why, place = slice_of(name, f"mig-{profile[0]}", device, item)
    shared = tuple(_shared(pod, containers))
    return Hardware(device, n_devices, why if device is None else "", place if device is None else device.place, shared)


def _tolerated(pod: Item) -> str:
    """The GPU whose nodes a pod may run on besides others: a taint's value that names one (`NVIDIA-A10G-SHARED`)."""
    values = [one.get("value") for one in pod.get("tolerations")]
    known = {str(found.value): item.text for item in values if item.text and (found := named(item, "toleration")[0])}
    if len(known) != 1:
        return ""
    ((device, text),) = known.items()
    shares = ", which others share" if text.upper().endswith("-SHARED") else ""
    return f"; it tolerates {text[:60]}: if its nodes are those{shares}, --device {device}"


def _meant(pod: Item) -> str:
    """The GPU that a label of the cluster's own seems to name (`gpuspecs: A100_40GB`)."""
    known = [(name, one.text, found) for name, one in pod.get("nodeSelector").items() if one.text and (found := named(one, name)[0])]
    return f"; {known[0][0]} says {known[0][1][:60]}: if that is its GPU, --device {known[0][2].value}" if len(known) == 1 else ""


def slice_of(name: str, kind: str, device: Given | None, item: Item) -> tuple[Given | None, str, Place]:
    """The MIG slice of the GPU that labels name, else the smallest of that profile; nvidia.com/gpu.shared is the whole GPU, time-sliced."""
    if kind == "gpu.shared":
        why = "" if device else f"{name} is a share of a GPU; give its memory, such as --device 20GiB"
        return device, why, device.place if device else item.place
    profile = kind.removeprefix("mig-")
    if device and str(device.value).lower().endswith(profile):
        return device, "", device.place
    text = f"{device.value}-MIG-{profile}" if device else profile
    found, _ = named(Item(text, text, item.place, item.end_line), name)
    of = f" of {device.value}" if device else " of a GPU"
    return found, "" if found else f"{name} is a share{of}; give its memory, such as --device 20GiB", item.place


def _shared(pod: Item, containers: list[Item]) -> Iterator[Finding]:
    """What else may hold memory of the GPU: time-slicing keeps nothing apart, MPS gives each client an equal part of the memory
    (NVIDIA k8s-device-plugin, "Shared access to GPUs"; GKE, "About GPU sharing strategies")."""
    labels = dict(pod.get("nodeSelector").items())
    way = next((labels[name] for name in SHARING if name in labels and labels[name].text not in ("none", "")), None)
    clients = next((labels[name].text for name in CLIENTS if name in labels), "")
    product = next((one for name, one in labels.items() if name in LABELS and one.text.upper().endswith("-SHARED")), None)
    resource = next((one for c in containers if (one := c.get("resources", "limits", "nvidia.com/gpu.shared"))), None)
    where = way or product or resource
    if where is None:
        return
    several = clients.isdecimal() and int(clients[:6]) > 1
    others = f" with up to {int(clients[:6]) - 1} other containers" if several else " with other containers"
    if way is not None and way.text == "mps":
        say = f"MPS shares the GPU{others}, each with an equal part of its memory; give that part, such as --device 20GiB"
    else:
        say = f"time-slicing shares the GPU's memory{others}, and nothing keeps it apart; say what they hold with --reserve"
    yield Finding("not-modelled-more", "warning", say, where.place)


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
        device, why = _labelled(item, label)
        if device:
            options[str(device.value)] = device
        elif why:
            whys.append((why, item.place))
        else:
            return {}, whys
    return ({}, whys) if whys else (options, [])


def _labelled(item: Item, label: str) -> tuple[Given | None, str]:
    """The device that a label means, one before whose name a variable stands too; else why it is open, where it says something of a GPU."""
    if match := re.fullmatch(r"\$\{\w+\}(/[\w.-]+)", label):
        label = next((one for one in (*LABELS, *INSTANCE_LABELS) if one.endswith(match[1])), label)
    if label in LABELS:
        return named(item, label)
    if label in NOT_MODELLED:
        return None, f"{label}: {item.text} is {NOT_MODELLED[label]}, which is not modelled"
    return instance(item, label) if label in INSTANCE_LABELS else (None, "")


def instance(item: Item, label: str) -> tuple[Given | None, str]:
    """The device of a machine type that carries one kind; machine types without are no fault."""
    device, why = of_type(item.text)
    return (Given(device, label, item.place) if device else None), f"{label}: {item.text} {why}" if why else ""


def of_type(text: str) -> tuple[str | None, str]:
    """The device of a machine type; else why there is none: empty where the type says nothing of a GPU."""
    try:
        machine = machines.find(text)
    except KvplanError:
        return None, machines.refused(text.strip().lower().removeprefix("ml."))
    return (machine.device if machine else None), ""


class Claimed(NamedTuple):
    """What a container claims: the product that a selector names, how many, and why it is open where it is."""

    product: Given | None
    n_devices: Given | None
    why: str


def _claimed(pod: Item, container: Item, others: Sequence[Item]) -> Claimed | None:
    """What one container claims by dynamic resource allocation (resource.k8s.io v1 and its betas: ResourceClaim spec.devices.requests,
    exactly or firstAvailable; before v1beta2 without `exactly`; classes of k8s-dra-driver-gpu); None where it claims nothing."""
    names = [one.get("name").text for one in container.get("resources", "claims")]
    if not names:
        return None
    count, product, why = 0, None, ""
    place = container.get("resources", "claims").place
    for name in names:
        claim = _claim(pod, name, others)
        if not claim:
            return Claimed(None, None, f"resources.claims {name}: the claim is not in this file")
        for request in claim.get("devices", "requests"):
            one = request.get("exactly") or next(iter(request.get("firstAvailable")), NOTHING) or request
            kind = one.get("deviceClassName").text
            if kind not in GPUS:
                mig = next((m[1] for text in _selectors(one) if (m := _MIG.search(text))), "")
                return Claimed(None, None, f"device class {kind or '?'}{f', profile {mig}' if mig else ''}: no whole GPU")
            number = one.get("count").text
            count += int(number[:6]) if number.isdecimal() else 1
            if one.get("allocationMode").text == "All" or request.get("firstAvailable"):
                why = f"claim {name}: how many devices is left to the cluster"
            for text in _selectors(one):
                if match := _PRODUCT.search(text):
                    product = Given(match[1], "productName", one.place)
    n_devices = None if why else Given(count, "resources.claims", place)
    return Claimed(product, n_devices, why or ("" if product else "the claim's selectors name no product"))


def _selectors(request: Item) -> Iterator[str]:
    for selector in request.get("selectors"):
        yield selector.get("cel", "expression").text


def _claim(pod: Item, name: str, others: Sequence[Item]) -> Item:
    """The spec of the claim that the pod calls `name`."""
    entry = next((one for one in pod.get("resourceClaims") if one.get("name").text == name), NOTHING)
    source = entry.get("source") or entry
    for kind, key, path in (("ResourceClaimTemplate", "resourceClaimTemplateName", ("spec", "spec")),
                            ("ResourceClaim", "resourceClaimName", ("spec",))):  # fmt: skip
        wanted = source.get(key).text
        for document in others:
            if wanted and document.get("kind").text == kind and document.get("metadata", "name").text == wanted:
                return document.get(*path)
    return NOTHING
