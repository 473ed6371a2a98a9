"""A plan as what starts it: a command line per engine, a compose file, a Kubernetes manifest. What `check` reads back is the same question.

Only what was chosen, or what the engine needs to do it, is written; numbers are plain integers. What no option says (the device, the load
that was asked for) stands in a `# kvplan:` comment, which `check` reads.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan import catalogue
from kvplan.errors import KvplanError, UnknownName, UnsupportedError
from kvplan.manifests.arguments import ENGINES, find
from kvplan.manifests.arguments.parse import parse
from kvplan.manifests.emit_engines import WRITERS, Command
from kvplan.manifests.words import words
from kvplan.planner.plan import Plan

TARGETS: tuple[str, ...] = (*ENGINES, "compose", "k8s")
#: Names that no option of any engine says: they go into the comment.
ASIDE = ("device", "context", "batch", "encoder_tokens", "reserve", "host_memory", "calibration", "kv_memory", "n_devices")
IMAGES = {
    "vllm": ("vllm/vllm-openai", "v{}", "latest"),
    "sglang": ("lmsysorg/sglang", "v{}", "latest"),
    "tensorrt-llm": ("nvcr.io/nvidia/tensorrt-llm/release", "{}", "latest"),
    "llama.cpp": ("ghcr.io/ggml-org/llama.cpp", "server-cuda-{}", "server-cuda"),
    "ollama": ("ollama/ollama", "{}", "latest"),
}
PLACEHOLDERS = {"llama.cpp": "./model.gguf", "ollama": "MODEL"}  # they load what no catalogue names
FROM_ENTRYPOINT = {"vllm": 2, "llama.cpp": 1}  # words that the image's entrypoint already is


class Job(NamedTuple):
    """What is to be written: the engine, its command, the comment, the devices."""

    engine: str
    version: str | None
    command: Command
    comment: str
    n_devices: int
    device: str | None


def emit(plan: Plan, target: str, *, model: str | None = None) -> str:
    """The text that starts `plan`.

    target  one of TARGETS; an engine's name must be the plan's own engine
    model   the name or path that the engine is to load; by default the checkpoint that the catalogue names as the source

    Raises UnknownName for another target, UnsupportedError for a plan that the engine can not be told to run.

    >>> import kvplan
    >>> plan = kvplan.estimate("meta-llama/llama-3.1-8b", engine="vllm", device="h100", max_model_len=32768, tp=2)
    >>> print(emit(plan, "vllm"))
    #!/bin/sh
    # kvplan: device=h100-80gb
    exec vllm serve meta-llama/Llama-3.1-8B \\
      --tensor-parallel-size 2 \\
      --max-model-len 32768
    """
    if target not in TARGETS:
        raise UnknownName("target", target, list(TARGETS))
    engine = str(plan.question["engine"][0])
    if engine not in ENGINES:
        raise UnsupportedError(f"a plan of engine {engine} starts nothing; ask it of one of {', '.join(ENGINES)}")
    if target in ENGINES and target != engine:
        raise UnsupportedError(f"this plan is for {engine}; ask it with engine {target} to get a command for {target}")
    job = _job(plan, engine, model)
    if target == "compose":
        return _compose(job)
    if target == "k8s":
        return _kubernetes(job)
    return _script(job)


def _job(plan: Plan, engine: str, model: str | None) -> Job:
    asked = {name: value for name, (value, by) in plan.question.items() if by == "you" and value is not None}
    asked["engine_option"] = dict(asked.get("engine_option") or {})
    if engine == "llama.cpp":
        for name in ("max_model_len", "max_num_seqs"):
            asked.setdefault(name, plan.question[name][0])
    if engine == "ollama" and "max_model_len" in asked:  # a plan says it over all slots, as Ollama hands it on; num_ctx is one slot's
        asked["max_model_len"] //= plan.question["max_num_seqs"][0] or 1
    version = asked.get("engine_version")
    served = model or _served(str(plan.question["model"][0]), engine)
    command = WRITERS[engine](served, asked, find(engine))
    aside: dict[str, Any] = {name: asked[name] for name in ASIDE if name in asked and name not in command.said}
    if asked.get("context") == asked.get("max_model_len") and "max_model_len" in command.said and engine not in PLACEHOLDERS:
        aside.pop("context", None)
    if engine not in ("llama.cpp", "ollama"):
        aside.pop("n_devices", None)  # it follows from the parallel sizes
    if version and engine != "ollama":
        aside["engine_version"] = version
    if not _means(served, str(plan.question["model"][0])):
        aside["model"] = plan.question["model"][0]
    aside |= {f"engine_option.{key}": value for key, value in command.aside.items()}
    aside |= {name: asked[name] for name in ("weight_dtype",) if name in asked and name not in command.said}
    left = set(asked) - set(ASIDE) - command.said - set(aside) - {"model", "engine", "engine_version", "engine_option"}
    if left:
        raise UnsupportedError(f"{engine} has no option for {', '.join(sorted(left))}; leave it out of the plan")
    _accepted(engine, command, str(version) if version else None)
    comment = " ".join(f"{name}={value}" for name, value in aside.items())
    n_devices = int(plan.question["n_devices"][0] or 1)
    return Job(engine, str(version) if version else None, command, comment, n_devices, asked.get("device"))


def _accepted(engine: str, command: Command, version: str | None) -> None:
    """Raises UnsupportedError where the release does not take the words: an option too new for it, or gone."""
    program = list(command.words)
    first = next((n for n, word in enumerate(program) if word.startswith("--")), len(program))
    faults = [f for f in parse(find(engine), words(*program[first:]), version).findings if f.severity == "error"]
    if faults:
        raise UnsupportedError(f"{faults[0].message}; leave it out of the plan, or ask another release")


def _served(id_: str, engine: str) -> str:
    """The name that the index or the catalogue's source has, where it means the same model; a placeholder for engines that load a file."""
    try:
        found = catalogue.find_model(id_)
    except KvplanError:
        return PLACEHOLDERS.get(engine, id_)
    if engine == "ollama" and ":" in id_:
        return found.hub_id or id_
    if engine in PLACEHOLDERS:
        return PLACEHOLDERS[engine]
    if found.hub_id and ":" not in found.hub_id:
        return found.hub_id
    source = found.source
    parts = source.removeprefix("https://huggingface.co/").split("/")
    name = "/".join(parts[:2]) if source.startswith("https://huggingface.co/") and len(parts) > 1 else id_
    return name if _means(name, id_) else id_


def _means(name: str, id_: str) -> bool:
    try:
        return catalogue.find_model(name).id == id_
    except KvplanError:
        return False


def _script(job: Job) -> str:
    lines = ["#!/bin/sh", *([f"# kvplan: {job.comment}"] if job.comment else [])]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in job.command.env.items()]
    for name, text in job.command.files.items():
        lines += [f"cat > {name} <<'EOF'", text.rstrip("\n"), "EOF"]
    lines += [f"{before} &" for before in job.command.before]
    return "\n".join([*lines, "exec " + _joined(job.command.words)])


def _joined(words: tuple[str, ...]) -> str:
    """Words quoted, an option a line."""
    lines: list[str] = []
    for n, word in enumerate(words):
        starts = word.startswith("-") and not word[1:2].isdigit() and n > 1
        if starts and lines:
            lines.append(shlex.quote(word))
        else:
            lines[-1:] = [f"{lines[-1]} {shlex.quote(word)}" if lines else shlex.quote(word)]
    return " \\\n  ".join(lines)


def _image(job: Job) -> str:
    repository, pattern, newest = IMAGES[job.engine]
    number = job.version if job.version and job.version[:1] in "0123456789b" else None
    if number and job.engine in ("vllm", "sglang", "tensorrt-llm") and number.count(".") == 1:
        number += ".0"
    return f"{repository}:{pattern.format(number) if number else newest}"


def _container(job: Job) -> dict[str, Any]:
    """command and args of a container. A script in it writes the files that the engine reads, or starts what runs beside it."""
    command = job.command
    if command.files or command.before:
        script = [*(f"cat > {name} <<'EOF'\n{text.rstrip()}\nEOF" for name, text in command.files.items())]
        script += [f"{before} &" for before in command.before]
        return {"command": ["/bin/sh", "-c", "\n".join([*script, "exec " + _joined(command.words)]) + "\n"]}
    n = FROM_ENTRYPOINT.get(job.engine, 0)
    if n:
        return {"args": list(command.words[n:])}
    return {"command": list(command.words)}


def _dump(comment: str, data: Mapping[str, Any]) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    body: str = yaml.dump(data, Dumper=Dumper, sort_keys=False, width=4096, allow_unicode=True)
    return (f"# kvplan: {comment}\n" if comment else "") + body.rstrip("\n")


def _compose(job: Job) -> str:
    parts = _container(job)
    service: dict[str, Any] = {"image": _image(job)}
    if "command" in parts:
        entry = parts["command"]
        service |= {"entrypoint": entry[:1], "command": [word.replace("$", "$$") for word in entry[1:]]}
    else:
        service["command"] = [word.replace("$", "$$") for word in parts["args"]]
    if job.command.env:
        service["environment"] = dict(job.command.env)
    devices = [{"driver": "nvidia", "count": job.n_devices, "capabilities": ["gpu"]}]
    service |= {"ipc": "host", "deploy": {"resources": {"reservations": {"devices": devices}}}}
    return _dump(job.comment, {"services": {"llm": service}})


def _kubernetes(job: Job) -> str:
    device = _device(job.device)
    label = next((one for one in device.kubernetes_labels if one[:1].isupper()), None) if device else None
    selector, resource, comment = {}, "nvidia.com/gpu", job.comment
    if device and label and device.vendor in ("nvidia", "amd"):
        resource = f"{device.vendor}.com/gpu"
        selector = {"nvidia.com/gpu.product" if device.vendor == "nvidia" else "amd.com/gpu.product-name": label}
        comment = " ".join(pair for pair in comment.split() if not pair.startswith(("device=", "n_devices=")))
    container: dict[str, Any] = {"name": "llm", "image": _image(job), **_container(job)}
    if job.command.env:
        container["env"] = [{"name": name, "value": value} for name, value in job.command.env.items()]
    container["resources"] = {"limits": {resource: str(job.n_devices)}}
    pod: dict[str, Any] = {"nodeSelector": selector} if selector else {}
    pod["containers"] = [container]
    labels = {"app": "llm"}
    return _dump(comment, {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llm"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })  # fmt: skip


def _device(id_: str | None) -> Any:
    try:
        return catalogue.find_device(id_) if id_ else None
    except KvplanError:
        return None
