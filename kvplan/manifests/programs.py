"""Programs around an engine's command: wrappers, shells, container runtimes, and KServe's server, which hands options on."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvplan.engines.common.words import Given, Word

WRAPPERS = frozenset({
    "exec", "nohup", "env", "sudo", "nice", "ionice", "numactl", "taskset", "timeout", "stdbuf", "setsid", "mpirun", "mpiexec", "srun",
    "uv", "uvx", "pipx", "poetry", "pixi", "conda", "micromamba", "nsys", "tini", "dumb-init", "command", "unbuffer", "gosu", "runuser",
    "trtllm-llmapi-launch", "catchsegv", "apptainer", "singularity", "enroot", "prime-run", "time", "--", "nvidia_entrypoint.sh", "chrt",
    "flock", "systemd-run", "catatonit", "su-exec", "setpriv", "oc", "kubectl", "systemd-inhibit", "caffeinate", "builtin",
})  # fmt: skip
#: They take a command as one word, or as the words that follow their own.
LAUNCHERS = frozenset({"ssh", "tmux", "screen", "su", "watch", "docker", "podman", "nerdctl", *WRAPPERS})
SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ash"})
CONTAINERS = ("docker", "podman", "nerdctl")
#: Options of Python itself that take a word of their own.
PYTHON_TAKES = frozenset({"-X", "-W", "--check-hash-based-pycs"})
DOCKER_FLAGS = frozenset({
    "-d", "--detach", "-i", "--interactive", "-t", "--tty", "--rm", "--privileged", "--init", "--read-only", "-P", "--publish-all",
    "--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--disable-content-trust", "-q", "--quiet", "--replace", "--use-api-socket",
})  # fmt: skip


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
