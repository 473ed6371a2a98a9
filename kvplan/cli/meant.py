"""What somebody meant who typed an option by another tool's name: read only when an option is not known."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan import catalogue, engines
from kvplan.deployment import NAMES
from kvplan.errors import KvplanError, UnknownName
from kvplan.manifests import TARGETS

#: What people call names of the question, beside the spellings of engines.
_CALLED = {
    "device": "gpu gpu-type gpu-name gpu-model vram gpu-memory hardware accelerator card",
    "n_devices": "gpus num-gpus n-gpus gpu-count ngpus num-devices",
    "tp": "tensor-parallel tensor-parallelism",
    "pp": "pipeline-parallel",
    "context": "max-seq-len max-seq-length seq-len seqlen sequence-length ctx ctx-len ctx-size num-ctx context-len "
    "context-length context-size length",
    "batch": "concurrency users concurrent-users batch-size num-seqs num-requests requests parallel sequences",
    "weight_dtype": "quant quantization quantize quantisation bits weight-quant weights wbits",
    "kv_dtype": "kv kv-quant kv-cache-dtype kv-cache-type kv-cache-quant cache-type cache-dtype kv-bits kv-format",
    "dtype": "precision torch-dtype data-type",
    "engine": "backend framework runtime server",
    "engine_version": "version vllm-version",
    "memory_fraction": "gpu-util gpu-mem-util utilization mem-fraction",
    "kv_memory": "kv-cache-memory kv-cache-size kv-cache",
    "host_memory": "ram cpu-memory cpu-offload system-memory host-ram",
    "n_gpu_layers": "layers gpu-layers offload-layers",
    "speculative": "draft draft-model spec",
    "engine_option": "option set extra",
}
_COMMANDS = {"verbose": "--detail", "json": "--format json", "csv": "--format csv", "output": "--format", "o": "--format"}


#: What is no option at all.
_WORDS = {
    "model": "write the model itself, as the first word: kvplan estimate meta-llama/llama-3.1-8b",
    "d": "write --device: device id, product name, auto (this machine) or a size such as 24GiB",
    "target": "write the target before the model: kvplan emit vllm meta-llama/llama-3.1-8b",
    "c": "write --context: tokens per sequence, e.g. 32k",
}


def meant(option: str) -> str:
    """`write --tp (vLLM: --tensor-parallel-size)`, such as follows an error; empty where nothing is known by that name."""
    word = option.lstrip("-").replace("_", "-").lower()
    if word in _WORDS:
        return _WORDS[word]
    if word in _COMMANDS:
        return f"write {_COMMANDS[word]}"
    for name, words in _CALLED.items():
        if word in words.split():
            return _said(name)
    found: dict[str, list[str]] = {}
    for engine in engines.served():
        for row in engines.arguments(engine).rows:
            if row.to in NAMES and any(word == spelling.lstrip("-") for spelling in row.names):
                found.setdefault(row.to, []).append(engines.facts(engine).title)
    ways = [_said(name, f" ({', '.join(titles)}'s {option})") for name, titles in found.items()]
    return ", or ".join(ways)


def _said(name: str, whose: str = "") -> str:
    flag = f"--{name.replace('_', '-')}"
    longer = ", or --context for the tokens that each sequence holds" if name == "max_model_len" else ""
    return f"write {flag}{whose}{longer}: {NAMES[name].help}"


def misplaced(command: str, typed: Sequence[str]) -> str:
    """What to write instead of a command line with words left over, or without a model: one line."""
    if not typed and command == "emit":
        return f"kvplan emit needs a target and a model, such as: kvplan emit vllm meta-llama/llama-3.1-8b (targets: {', '.join(TARGETS)})"
    if not typed:
        return f"kvplan {command} needs a model, such as: kvplan {command} meta-llama/llama-3.1-8b"
    rest = " ".join(typed)[:60]
    if len(typed) == 1 and (card := _device(rest)):
        return f"{rest!r} is one word too many; if it is the device, write --device {card}"
    if command == "sweep" and all(word.partition("=")[0] in NAMES for word in typed):
        return f"an axis is an option: write {' '.join(f'--grid {word[:60]}' for word in typed)}"
    return f"{rest!r} is too much: a name with blanks goes in quotes, or is written with dashes; sizes and devices are options (--help)"


def _device(word: str) -> str:
    try:
        return word if catalogue.find_device(word) else ""
    except KvplanError:
        return ""


def nearest(option: str) -> str:
    """The names of the question that are spelled like it."""
    found = UnknownName("option", option.lstrip("-").replace("-", "_"), list(NAMES)).nearest
    return " or ".join(f"--{name.replace('_', '-')}" for name in found)
