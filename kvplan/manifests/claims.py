"""Devices that a pod claims by dynamic resource allocation: `resources.claims`, the pod's resourceClaims, and their templates in the file.

resource.k8s.io v1 and its betas: ResourceClaim spec.devices.requests (exactly, firstAvailable; before v1beta2 without `exactly`);
device classes of NVIDIA's driver: gpu.nvidia.com, mig.nvidia.com (github.com/NVIDIA/k8s-dra-driver-gpu).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvplan.engines.common.words import Given
from kvplan.manifests.marked import NOTHING, Item

_PRODUCT = re.compile(r"productName\s*==\s*['\"]([^'\"]{1,80})['\"]")
_MIG = re.compile(r"profile\s*==\s*['\"]([0-9a-z.+]{1,20})['\"]")
GPUS = ("gpu.nvidia.com", "gpu.amd.com")


class Claimed(NamedTuple):
    """What a container claims: the product that a selector names, how many, and why it is open where it is."""

    product: Given | None
    n_devices: Given | None
    why: str


def of_container(pod: Item, container: Item, others: Sequence[Item]) -> Claimed | None:
    """The claims of one container; None where it has none."""
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
