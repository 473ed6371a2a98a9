"""Which engine a command starts: behind wrappers, python -m, `sh -c` and `docker run`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kvplan.manifests import images
from kvplan.manifests.arguments.table import Given
from kvplan.manifests.script import Script, read_script
from kvplan.manifests.values import Place
from kvplan.manifests.words import Command, Word, words


class Start(NamedTuple):
    """An engine about to run: its own words, its environment, and what the command around it says.

    gpus    how many the container gets, where the command says so
    files   texts that the script writes, by name
    opaque  why the command can not be followed to the engine; its words are then empty
    """

    engine: str
    words: tuple[Word, ...]
    env: Mapping[str, Word]
    place: Place
    end_line: int
    version: str | None = None
    gpus: Given | None = None
    in_container: bool = False
    files: Mapping[str, tuple[str, Place]] = {}
    opaque: str = ""


WRAPPERS = frozenset({
    "exec", "nohup", "env", "sudo", "nice", "ionice", "numactl", "taskset", "timeout", "stdbuf", "setsid", "mpirun", "mpiexec", "srun",
    "uv", "poetry", "pixi", "conda", "micromamba", "nsys", "tini", "dumb-init", "command", "unbuffer", "trtllm-llmapi-launch",
    "catchsegv", "apptainer", "singularity", "enroot", "prime-run", "time", "--", "nvidia_entrypoint.sh", "chrt",
})  # fmt: skip
SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash"})
MODULES = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "vllm.entrypoints.cli.main": "vllm serve",
    "sglang.launch_server": "sglang",
    "tensorrt_llm.commands.serve": "tensorrt-llm",
}
DOCKER_FLAGS = frozenset({
    "-d", "--detach", "-i", "--interactive", "-t", "--tty", "--rm", "--privileged", "--init", "--read-only", "-P", "--publish-all",
    "--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--disable-content-trust", "-q", "--quiet", "--replace", "--use-api-socket",
})  # fmt: skip
MAX_NESTED = 4


def starts(command: Command, source: str, files: Mapping[str, tuple[str, Place]], depth: int = 0) -> Iterator[Start]:
    """The engines that a command starts; none for any other command."""
    n = _first(command.words)
    if n is None:
        return
    rest = command.words[n:]
    env = {**command.env, **_env_prefix(command.words[:n])}
    name, after = _base(rest[0].text), rest[1:]

    def start(engine: str, own: Sequence[Word]) -> Start:
        return Start(engine, tuple(own), env, rest[0].place, command.end_line, files=files)

    if name in SHELLS:
        yield from _shell(after, env, source, files, depth)
    elif name in ("docker", "podman", "nerdctl"):
        yield from _docker(after[1:], command._replace(words=rest), source, files, depth)
    elif name == "vllm":
        yield start("vllm", after[1:])
    elif name == "kserve-huggingfaceserver":
        yield start("vllm", _kserve(after))
    elif name == "sglang":
        yield start("sglang", after[1:])
    elif name == "trtllm-serve":
        yield start("tensorrt-llm", after)
    elif name.startswith("llama-server"):
        yield start("llama.cpp", after)
    elif name == "llama-tools":
        if after and after[0].text in ("-s", "--server"):
            yield start("llama.cpp", after[1:])
    elif name == "ollama":
        yield start("ollama", after[1:] if after[:1] and after[0].text == "run" else ())
    elif engine := MODULES.get(after[1].text if len(after) > 1 else ""):
        own = after[2:]
        if engine == "vllm serve":
            engine, own = "vllm", own[1:] if own and own[0].text == "serve" else own
        yield start(engine, own)


def container(
    image: Word | None,
    entry: Sequence[Word] | None,
    args: Sequence[Word] | None,
    env: Mapping[str, Word],
    source: str,
    place: Place,
    end_line: int,
    *,
    files: Mapping[str, tuple[str, Place]] | None = None,
    gpus: Given | None = None,
    depth: int = 0,
) -> list[Start]:
    """The engines of a container: `entry` takes the place of the image's entrypoint, `args` of its command, as the runtime does it."""
    known = images.find(image.text) if image and not image.missing else None
    here = image.place if image else place
    if entry is not None:
        run = [*entry, *(args or ())]
    else:
        own = words(*(known.entrypoint if known else ()), place=here)
        run = [*own, *(args if args is not None else words(*(known.default if known else ()), place=here))]
    command = Command(tuple(run), env, run[0].place if run else place, end_line)
    found = []
    for one in starts(command, source, files or {}, depth):
        version = known.version if known and known.engine == one.engine else None
        found.append(one._replace(version=one.version or version, in_container=True, gpus=one.gpus or gpus))
    if not found and known and not _is_other(run):
        shown = " ".join(w.text for w in run[:3]) or "the image's own entrypoint"
        why = f"the container runs {shown!r}, which names no engine command"
        found = [Start(known.engine, (), env, place, end_line, known.version, gpus, True, opaque=why)]
    return found


def scripts(script: Script, source: str, depth: int = 0) -> list[Start]:
    """The engines that a script starts."""
    found = [start for command in script.commands for start in starts(command, source, script.files, depth)]
    runs = [start for start in found if start.engine == "ollama" and start.words]
    serves = [start for start in found if start.engine == "ollama" and not start.words]
    if runs and serves:  # the server of the same script: it loads what `ollama run` names, with its own variables
        found = [one._replace(env=serves[0].env) if one in runs else one for one in found if one not in serves]
    return found


def _base(text: str) -> str:
    name = text.rsplit("/", 1)[-1].lower()
    return name.removesuffix(".exe")


def _first(found: Sequence[Word]) -> int | None:
    """Where the engine's words begin: at the start, or behind wrappers."""
    for n, word in enumerate(found):
        name = _base(word.text)
        follows = found[n + 1].text if n + 1 < len(found) else ""
        if name == "vllm" and follows == "serve":
            return n
        if name == "sglang" and follows == "serve":
            return n
        if name in ("trtllm-serve", "kserve-huggingfaceserver", "llama-tools") or re.fullmatch(r"llama-server(-[a-z0-9]+)?", name):
            return n
        if name == "ollama" and follows in ("serve", "run", "start"):
            return n
        if name in ("docker", "podman", "nerdctl") and follows == "run":
            return n
        if name in SHELLS and re.fullmatch(r"-[a-z]*c", follows):
            return n
        if re.fullmatch(r"python[0-9.]*", name) and follows == "-m" and n + 2 < len(found) and found[n + 2].text in MODULES:
            return n
        if n == 0 and name not in WRAPPERS and "=" not in name and not word.missing:
            return None
    return None


def _env_prefix(prefix: Sequence[Word]) -> dict[str, Word]:
    """`env NAME=value command`."""
    env = {}
    for word in prefix:
        name, equals, value = word.text.partition("=")
        if equals and name.isidentifier():
            env[name] = word._replace(text=value)
    return env


def _shell(
    after: Sequence[Word], env: Mapping[str, Word], source: str, files: Mapping[str, tuple[str, Place]], depth: int
) -> Iterator[Start]:
    if len(after) < 2 or depth >= MAX_NESTED or after[1].missing:
        return
    script = read_script(after[1].text, source, base=after[1].place, env=env)
    yield from scripts(script._replace(files={**files, **script.files}), source, depth + 1)


def _docker(after: Sequence[Word], command: Command, source: str, files: Mapping[str, tuple[str, Place]], depth: int) -> Iterator[Start]:
    env: dict[str, Word] = {}
    gpus: Given | None = None
    entry: list[Word] | None = None
    n = 0
    while n < len(after) and after[n].text.startswith("-"):
        name, equals, value = after[n].text.partition("=")
        word = after[n]._replace(text=value)
        n += 1
        if name in DOCKER_FLAGS or re.fullmatch(r"-[ditPq]+", name):
            continue
        if not equals and n < len(after):
            word = after[n]
            n += 1
        if name in ("-e", "--env"):
            key, given, text = word.text.partition("=")
            env[key] = word._replace(text=text) if given else Word(f"${key}", word.place, (key,))
        elif name == "--gpus":
            gpus = gpu_count(word)
        elif name == "--entrypoint":
            entry = [word]
    if n >= len(after) or depth >= MAX_NESTED:
        return
    end = command.end_line
    yield from container(
        after[n], entry, after[n + 1 :] or None, env, source, command.place, end, files=files, gpus=gpus, depth=depth + 1
    )  # fmt: skip


def gpu_count(word: Word) -> Given | None:
    """--gpus: a number, `device=0,1`, or `all` (as many as there are, which is not known here)."""
    text = word.text.strip("\"'")
    if word.missing or text == "all":
        return None
    if text.isdecimal():
        return Given(int(text[:6]), "--gpus", word.place)
    devices = re.search(r"(?:^|,|\")device=([^\"]+)", text)
    if devices:
        return Given(len(devices[1].split(",")), "--gpus", word.place)
    count = re.search(r"count=(\d{1,6})", text)
    return Given(int(count[1]), "--gpus", word.place) if count else None


def _kserve(after: Sequence[Word]) -> list[Word]:
    """KServe's Hugging Face server hands vLLM's options on; its own name the model (--model_id, --model_dir)."""
    out: list[Word] = []
    skip = False
    for word in after:
        name, equals, value = word.text.partition("=")
        key = name.lstrip("-").replace("-", "_")
        if skip:
            skip = False
        elif key in ("model_id", "model_dir"):
            out += [word._replace(text=f"--model={value}")] if equals else [word._replace(text="--model")]
        elif key in _KSERVE_OWN:
            skip = not equals and key not in _KSERVE_FLAGS
        else:
            out.append(word)
    return out


_KSERVE_FLAGS = frozenset(
    {"disable_lower_case", "disable_special_tokens", "return_token_type_ids", "return_probabilities", "trust_remote_code"}
)
_KSERVE_OWN = _KSERVE_FLAGS | {
    "model_name", "backend", "http_port", "grpc_port", "workers", "max_threads", "enable_grpc", "enable_docs_url", "enable_latency_logging",
    "log_config_file", "access_log_format", "predictor_host", "predictor_protocol", "model_revision", "tokenizer_revision", "task",
    "tensor_input_names", "max_length", "disable_log_requests", "max_asyncio_workers", "configure_logging", "root_path",
}  # fmt: skip


def _is_other(run: Sequence[Word]) -> bool:
    """A worker of a cluster, or a waiting container: no engine command, and none hidden."""
    text = " ".join(w.text for w in run)
    return bool(
        re.search(r"\bray (start|symmetric-run)\b|\bsleep\b|lmcache_server|multi-node-serving\.sh worker|\bnvidia-smi\b|pytest", text)
    )
