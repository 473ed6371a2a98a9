"""Programs around an engine's command: wrappers, shells, container runtimes, and KServe's server, which hands options on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kvplan.engines.common.words import Given, Place, Word

WRAPPERS = frozenset({
    "exec", "nohup", "env", "sudo", "nice", "ionice", "numactl", "taskset", "timeout", "stdbuf", "setsid", "mpirun", "mpiexec", "srun",
    "uv", "uvx", "pipx", "poetry", "pixi", "conda", "micromamba", "nsys", "tini", "dumb-init", "command", "unbuffer", "gosu", "runuser",
    "trtllm-llmapi-launch", "catchsegv", "apptainer", "singularity", "enroot", "prime-run", "time", "--", "nvidia_entrypoint.sh", "chrt",
    "flock", "systemd-run", "catatonit", "su-exec", "setpriv", "oc", "kubectl", "pty", "systemd-inhibit", "caffeinate", "builtin",
    "toolbox", "distrobox", "wsl", "mamba", "doas", "chroot", "nsenter", "pdm", "hatch", "rye",
})  # fmt: skip
#: They take a command as one word, or as the words that follow their own.
LAUNCHERS = frozenset(
    {"ssh", "tmux", "screen", "su", "watch", "ray", "docker", "podman", "nerdctl", "docker-compose", "podman-compose", *WRAPPERS}
)
SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash"})
#: They start a command on machines that are not known here; they leave one running.
ELSEWHERE = frozenset({"srun", "mpirun", "mpiexec", "kubectl", "oc", "ray"})
DETACHED = frozenset({"tmux", "screen", "systemd-run"})
CONTAINERS = ("docker", "podman", "nerdctl")
RUNS = ("run", "create")
#: Options of Python itself that take a word of their own.
PYTHON_TAKES = frozenset({"-X", "-W", "--check-hash-based-pycs"})
DOCKER_FLAGS = frozenset({
    "-d", "--detach", "-i", "--interactive", "-t", "--tty", "--rm", "--privileged", "--init", "--read-only", "-P", "--publish-all",
    "--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--disable-content-trust", "-q", "--quiet", "--replace", "--use-api-socket",
})  # fmt: skip


_SUBSTITUTES = re.compile(r"s([/|#,:@])(.+?)\1(.*?)\1([gi]*)")
_SSH_TAKES = re.compile(r"-[BbcDEeFIiJLlmOopQRSWw]")
_STOPS = re.compile(r"p?kill|killall|wait|fuser|.*(stop|kill|clean|teardown|shutdown).*", re.IGNORECASE)


def base(text: str) -> str:
    """A program's name without its folder."""
    return re.split(r"[/\\]", text)[-1].lower().removesuffix(".exe")


def stops(run: Sequence[Word]) -> bool:
    """Whether what was left running may have ended behind this command."""
    names = [base(word.text[:200]) for word in run[:2]]
    return bool(_STOPS.fullmatch(names[0])) or (names[0] in CONTAINERS and names[1:2] != ["run"] and "rm" not in names[0:1])


def ssh_target(words: Sequence[Word]) -> str:
    """The machine that `ssh -i KEY user@HOST ...` names."""
    skip = False
    for word in words[1:]:
        if skip or word.text.startswith("-"):
            skip = not skip and bool(_SSH_TAKES.fullmatch(word.text))
        else:
            return word.text
    return ""


def for_shell(args: Sequence[Word]) -> bool:
    """Whether `-c`, `-lc` in front is a shell's: a command line, which has blanks, is behind it. llama.cpp's `-c` takes a number."""
    line = re.sub(r"\{\{.*?\}\}|\$\([^()]*\)", "", args[1].text[:4000]) if len(args) > 1 else ""
    return bool(re.fullmatch(r"-[a-z]{0,3}c", args[0].text)) and len(line.split()) > 1


def to_shell(run: Sequence[Word], body: Word) -> list[Word] | None:
    """The command that runs a text which this one reads from its input: `bash -s`, `ssh HOST`, `docker run -i ... bash`, `sbatch`; None for
    one that runs no text."""
    name, dash = base(run[0].text), run[0]._replace(text="-c")
    if name == "ssh":
        return [run[0], run[0]._replace(text=ssh_target(run) or "?"), body]
    if name == "sbatch":
        return [run[0]._replace(text="bash"), dash, body]
    for n, word in enumerate(run):
        if base(word.text) in SHELLS and all(w.text.startswith("-") for w in run[n + 1 : n + 2]):
            return [*run[: n + 1], dash, body]
        if word.text == "--entrypoint" and n + 1 < len(run) and base(run[n + 1].text) in SHELLS and name in CONTAINERS:
            return [*run, dash, body]
    return None


def edited(run: Sequence[Word], files: Mapping[str, tuple[str, Place]]) -> Mapping[str, tuple[str, Place]]:
    """Files that the script wrote and `sed -i s/OLD/NEW/` changes, where OLD is a plain text."""
    names = [word.text.removeprefix("./") for word in run[1:]]
    if not run or base(run[0].text) != "sed" or not any(name.startswith(("-i", "--in-place")) for name in names):
        return {}
    asked = [match for name in names if (match := _SUBSTITUTES.fullmatch(name)) and re.escape(match[2]).replace("\\-", "-") == match[2]]
    changed = {name: files[name] for name in names if name in files}
    for name, (text, place) in changed.items():
        lines = text.split("\n")
        for _, _, old, new, flags in ((one[0], *one.groups()) for one in asked):
            lines = [line.replace(old, new, -1 if "g" in flags else 1) for line in lines]
        changed[name] = "\n".join(lines), place
    return changed


def echoed(run: Sequence[Word]) -> str:
    """The lines that `echo` or `printf` writes; empty for every other command."""
    words = [w.text for w in run[1:] if not re.fullmatch(r"-[neE]+", w.text)]
    if not words or run[0].text not in ("echo", "printf"):
        return ""
    lines = words[1:] if run[0].text == "printf" and words[0] == "%s\\n" else [" ".join(words)]
    return "\n".join(lines).replace("\\n", "\n") + "\n"


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


def gpus_on(word: Word) -> tuple[str, ...]:
    """The machine's devices that --gpus names: those named, the first N, or all (`*`)."""
    text = word.text.strip("\"'")
    devices = re.search(r"(?:^|,|\")device=([^\"]+)", text)
    if word.missing:
        return ()
    if devices:
        return tuple(part.strip() for part in devices[1].split(","))
    count = re.fullmatch(r"(?:count=)?(\d{1,3})", text)
    return tuple(map(str, range(min(int(count[1]), 64)))) if count else ("*",) if text == "all" else ()


_KSERVE_FLAGS = frozenset(
    {"disable_lower_case", "disable_special_tokens", "return_token_type_ids", "return_probabilities", "trust_remote_code"}
)
_KSERVE_OWN = _KSERVE_FLAGS | {
    "model_name", "backend", "http_port", "grpc_port", "workers", "max_threads", "enable_grpc", "enable_docs_url", "enable_latency_logging",
    "log_config_file", "access_log_format", "predictor_host", "predictor_protocol", "model_revision", "tokenizer_revision", "task",
    "tensor_input_names", "max_length", "disable_log_requests", "max_asyncio_workers", "configure_logging", "root_path",
}  # fmt: skip


def kserve_words(after: Sequence[Word]) -> list[Word]:
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
