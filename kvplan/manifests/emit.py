"""A plan as what starts it: a command line per engine, a compose file, a Kubernetes manifest. What `check` reads back is the same question.

Only what was chosen, or what the engine needs to do it, is written; numbers are plain integers. What no option says (the device, the load
that was asked for) stands in a `# kvplan:` comment, which `check` reads.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kvplan import catalogue, engines
from kvplan.dtypes import canonical_weight, weight_scheme
from kvplan.engines.common.arguments import Arguments
from kvplan.engines.common.command_line import parse
from kvplan.engines.common.words import words
from kvplan.engines.common.written import Written, write
from kvplan.errors import KvplanError, SpecError, UnknownName, UnsupportedError
from kvplan.manifests.served import means
from kvplan.manifests.served import served as name_of
from kvplan.manifests.weights import needs_code
from kvplan.planner.plan import Plan

TARGETS: tuple[str, ...] = (*engines.served(), "compose", "k8s")
#: Names that no option of any engine says: they go into the comment.
ASIDE = ("device", "context", "batch", "encoder_tokens", "reserve", "host_memory", "calibration", "kv_memory", "n_devices", "weight_dtype")


class Job(NamedTuple):
    """What is to be written: the engine's words and variables, its file as (name, text), the comment, the devices."""

    table: Arguments
    version: str | None
    words: tuple[str, ...]
    env: Mapping[str, str]
    file: tuple[str, str] | None
    aside: Mapping[str, Any]
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
    if engine not in engines.served():
        raise UnsupportedError(f"a plan of engine {engine} starts nothing; ask it of one of {', '.join(engines.served())}")
    if target in engines.served() and target != engine:
        raise UnsupportedError(f"this plan is for {engine}; ask it with engine {target} to get a command for {target}")
    job = _job(plan, engine, model)
    if target == "compose":
        return _compose(job)
    if target == "k8s":
        return _kubernetes(job)
    return _script(job)


def _otherwise(model: str, asked: str) -> str:
    """The quantised format that the known model of this id is stored in, where it is of another scheme than what is asked for."""
    try:
        stored = [one.format for one in catalogue.find_model(model).quantization]
    except KvplanError:
        return ""
    scheme = weight_scheme(canonical_weight(asked))
    return "" if any(weight_scheme(canonical_weight(name)) == scheme for name in stored) else "+".join(stored)


def _job(plan: Plan, engine: str, model: str | None) -> Job:
    table, question = engines.arguments(engine), {name: value for name, (value, _) in plan.question.items()}
    asked = {name: value for name, (value, by) in plan.question.items() if by == "you" and value is not None}
    asked |= {name: question[name] for name in ("tp", "pp") if "n_devices" in asked and question[name] not in (None, 1)}
    for name in (*table.explicit, *(("max_model_len",) if "context" in asked and question["max_model_len"] else ())):
        asked.setdefault(name, question[name])
    if table.per_slot and "max_model_len" in asked:
        asked["max_model_len"] //= question["max_num_seqs"] or 1
    options = {f"option:{key}": str(text) for key, text in dict(asked.pop("engine_option", None) or {}).items()}
    version = str(asked["engine_version"]) if "engine_version" in asked else None
    id_ = str(question["model"])
    served = model or name_of(id_, table)
    own = {name: value for name, value in asked.items() if name not in ("model", "engine", "engine_version")}
    found = write(table, {**own, **options}, version)
    if needs_code(served, table, version):
        found = found._replace(words=(*found.words, "--trust-remote-code"))
    if "weight_dtype" in found.said and (stored := _otherwise(id_, str(asked["weight_dtype"]))):
        asked_for = asked["weight_dtype"]
        raise UnsupportedError(
            f"{engine} converts no {stored} checkpoint to {asked_for} while it loads; name a release that is {asked_for}"
        )
    aside = {name: asked[name] for name in ASIDE if name in asked and name not in found.said}
    if asked.get("context") == asked.get("max_model_len") and "max_model_len" in found.said and not (table.placeholder or table.per_slot):
        aside.pop("context", None)
    if not table.takes_devices:
        aside.pop("n_devices", None)  # it follows from the parallel sizes
    if version and table.image[1]:
        aside["engine_version"] = version
    if not means(served, id_):
        aside["model"] = id_
    left = set(own) - found.said - set(aside) - {"n_devices", "context"}
    if left:
        raise UnsupportedError(f"{engine} has no option for {', '.join(sorted(left))}; leave it out of the plan")
    aside |= {f"engine_option.{key}": text for key, text in found.aside.items()}
    if served.startswith("-"):
        raise SpecError("model", [("", f"{served[:60]!r} would be an option; write the path with ./ before it")])
    run, file = _words(table, served, found)
    _accepted(table, found, version)
    for name, text in (("model", served), *aside.items(), *(("", word) for word in (*run, *found.env.values())), *_texts(found.config)):
        if not str(text).isprintable():
            raise SpecError("question", [(name, f"{str(text)[:60]!r} holds a character that no command or manifest can carry")])
    return Job(table, version, run, found.env, file, aside, int(question["n_devices"] or 1), asked.get("device"))


def _words(table: Arguments, model: str, found: Written) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """The words of the command, and the configuration file that they name."""
    run = (*table.program, *table.model_option(model), model, *found.words)
    if not found.config:
        return run, None
    import yaml

    option = next(row.names[0] for row in table.rows if row.to == "@config")
    name = f"{table.program[0].partition('-')[0]}.yaml"
    return (*run, option, name), (name, yaml.safe_dump(dict(found.config), sort_keys=False).rstrip("\n"))


def _texts(tree: Any) -> Iterator[tuple[str, str]]:
    """Every text in a tree."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from ((str(key), text) for _, text in _texts(value))
    elif isinstance(tree, str):
        yield "", tree


def _accepted(table: Arguments, found: Written, version: str | None) -> None:
    """Raises UnsupportedError where the release does not take the words: an option too new for it, or gone."""
    faults = [f for f in parse(table, words(*found.words), version).findings if f.severity == "error"]
    if faults:
        raise UnsupportedError(f"{faults[0].message}; leave it out of the plan, or ask another release")


def _script(job: Job) -> str:
    exports = [f"export {name}={shlex.quote(value)}" for name, value in job.env.items()]
    return "\n".join(["#!/bin/sh", *_comment(job.aside), *exports, *_body(job)])


def _body(job: Job) -> list[str]:
    """The lines that write the engine's file, start what runs beside it, and become it."""
    lines = []
    if job.file:
        name, text = job.file
        end = "EOF"
        while end in text.splitlines():
            end += "F"
        lines += [f"cat > {shlex.quote(name)} <<'{end}'", text, end]
    return [*lines, *(f"{beside} &" for beside in job.table.beside), "exec " + _joined(job.words)]


def _comment(aside: Mapping[str, Any]) -> list[str]:
    """The line that `check` reads: values quoted as a shell would, none with a line's end in it (`_job` refuses those)."""
    pairs = " ".join(shlex.quote(f"{name}={value}") for name, value in aside.items())
    return [f"# kvplan: {pairs}"] if pairs else []


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
    repository, pattern, newest = job.table.image
    number = job.version if re.fullmatch(r"(b|v?\d)[\w.+-]*", job.version or "", re.ASCII) else None
    if number is None:
        return f"{repository}:{newest}"
    number = number.removeprefix("v")
    return f"{repository}:{pattern.format(f'{number}.0' if number.count('.') == 1 else number)}"


def _container(job: Job) -> dict[str, list[str]]:
    """command and args of a container. A script in it writes the files that the engine reads, or starts what runs beside it."""
    if job.file or job.table.beside:
        return {"command": ["/bin/sh", "-c", "\n".join(_body(job)) + "\n"]}
    n = job.table.entrypoint
    return {"args": list(job.words[n:])} if n else {"command": list(job.words)}


def _dump(aside: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    body: str = yaml.dump(data, Dumper=Dumper, sort_keys=False, width=4096, allow_unicode=True)
    return "\n".join([*_comment(aside), body.rstrip("\n")])


def _compose(job: Job) -> str:
    """Compose expands $NAME in every text; $$ is a plain one."""
    parts = {name: [word.replace("$", "$$") for word in entry] for name, entry in _container(job).items()}
    service: dict[str, Any] = {"image": _image(job)}
    if "command" in parts:
        service |= {"entrypoint": parts["command"][:1], "command": parts["command"][1:]}
    else:
        service["command"] = parts["args"]
    if job.env:
        service["environment"] = {name: value.replace("$", "$$") for name, value in job.env.items()}
    devices = [{"driver": "nvidia", "count": job.n_devices, "capabilities": ["gpu"]}]
    service |= {"ipc": "host", "deploy": {"resources": {"reservations": {"devices": devices}}}}
    return _dump(job.aside, {"services": {"llm": service}})


def _kubernetes(job: Job) -> str:
    """The kubelet expands $(NAME) in commands and variables; $$(NAME) is a plain one."""
    device = _device(job.device)
    label = next((one for one in device.kubernetes_labels if one[:1].isupper()), None) if device else None
    selector, resource, aside = {}, "nvidia.com/gpu", job.aside
    if device and label and device.vendor in ("nvidia", "amd"):
        resource = f"{device.vendor}.com/gpu"
        selector = {"nvidia.com/gpu.product" if device.vendor == "nvidia" else "amd.com/gpu.product-name": label}
        aside = {name: value for name, value in aside.items() if name not in ("device", "n_devices")}
    container: dict[str, Any] = {"name": "llm", "image": _image(job)}
    container |= {name: [word.replace("$(", "$$(") for word in entry] for name, entry in _container(job).items()}
    if job.env:
        container["env"] = [{"name": name, "value": value.replace("$(", "$$(")} for name, value in job.env.items()]
    container["resources"] = {"limits": {resource: str(job.n_devices)}}
    pod: dict[str, Any] = {"nodeSelector": selector} if selector else {}
    pod["containers"] = [container]
    labels = {"app": "llm"}
    return _dump(aside, {
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
