"""Files that stand as text in YAML and start engines of their own: llama-swap's models, presets of llama-server's router."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kvplan.errors import SpecError
from kvplan.manifests import jobs, presets
from kvplan.manifests.accelerators import of_pod
from kvplan.manifests.command import Start
from kvplan.manifests.found import Site
from kvplan.manifests.marked import Item, documents

_SWAP = re.compile(r"^\s*[\"']?cmd[\"']?\s*:", re.MULTILINE)


def held(item: Item, key: str, n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines of a text that is such a file. `key`: the name that it has."""
    if not isinstance(item.value, str) or "\n" not in item.text:
        return
    if presets.is_presets(item.text, key):
        yield from presets.read(item.text, item.body.line)
    elif _SWAP.search(item.text):
        try:
            found = documents(item.text, source, item.body)
        except SpecError:
            return
        for one in found:
            if one.get("models") and jobs.is_swap(one):
                yield from jobs.swap(one, n, source)


def config_map(config: Item, pods: Sequence[Item], others: Sequence[Item], n: int, source: str) -> Iterator[tuple[Start, Site]]:
    """The engines of a ConfigMap's files, with the devices of the pod of the same file that mounts it."""
    name = config.get("metadata", "name").text
    mounts = [pod for pod in pods if any(one.get("configMap", "name").text == name for one in pod.get("volumes"))]
    found = of_pod(mounts[0], list(mounts[0].get("containers")), others) if mounts else None
    own = {} if found is None else {name: getattr(found, name) for name in ("device", "n_devices", "why", "place", "findings")}
    for key, item in config.get("data").items():
        yield from ((start, site._replace(**own)) for start, site in held(item, key, n, source))
