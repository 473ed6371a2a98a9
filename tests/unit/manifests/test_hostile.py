"""Files that were written to mislead: what a person who knows the engine, the shell and Kubernetes says of each, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvplan.manifests import check
from tests.conftest import planned

FILES = Path(__file__).parents[2] / "manifests" / "hostile"


class Expected(NamedTuple):
    """One engine: its status, some of its question, the rules of all its errors and warnings."""

    status: str
    question: dict[str, Any] = {}  # noqa: RUF012 - read only
    rules: set[str] = set()  # noqa: RUF012 - read only


E = Expected
SHARED = {"shared-gpu"}
#: Files of one shell command or container; where a file does not say its GPU, it is asked of an H100 (79.2 GiB) below.
TABLE: dict[str, tuple[Expected, ...]] = {
    # Two servers of vLLM's default 0.92 take 1.84 of one GPU: the second finds less free than it wants (worker/utils.py request_memory).
    "background-one-gpu.sh": (E("refuses", {}, SHARED), E("refuses", {}, SHARED)),
    "background-halves.sh": (E("fits", {"memory_fraction": 0.45}), E("fits", {"memory_fraction": 0.45})),
    "background-own-gpus.sh": (E("fits", {"n_devices": 1}), E("fits", {"n_devices": 1})),
    "background-base-gpu.sh": (E("fits", {"tp": 2}), E("fits", {"tp": 2})),
    "background-stopped.sh": (E("fits"), E("fits")),
    "background-branches.sh": (E("fits"), E("fits")),
    "background-loop.sh": (E("fits", {"max_model_len": 8192}),),  # each turn on a GPU of its own
    # 0.85 of 24 GiB and 7.95 GiB of Q8_0 weights with 4 GiB of cache are more than 24.
    "background-mixed.sh": (E("refuses", {}, SHARED), E("refuses", {}, SHARED)),
    "docker-twice.sh": (E("refuses", {"memory_fraction": 0.6}, SHARED), E("refuses", {"memory_fraction": 0.6}, SHARED)),
    "replicas-compose.yaml": (E("refuses", {}, SHARED),),  # both containers are given device 0
    "replicas-k8s.yaml": (E("fits", {"n_devices": 1}),),  # a pod's GPU is its own
    "anchors.yaml": (
        E("fits", {"max_model_len": 4096, "n_devices": 1}), E("fits", {"max_model_len": 8192, "n_devices": 1}), E("fits"),
    ),
    "dup-key.yaml": (E("broken", {}, {"unreadable"}),),
    # texts handed to a shell elsewhere
    "ssh-heredoc.sh": (E("fits", {"tp": 2, "max_model_len": 8192}),),  # unquoted: MODEL is this script's
    "ssh-quoted-heredoc.sh": (E("fits", {"max_model_len": 16384}),),
    "ssh-word.sh": (E("fits", {"max_model_len": 8192}),),
    "ssh-function.sh": (E("fits", {"max_model_len": 16384}),),
    "piped-heredoc.sh": (E("fits", {"max_model_len": 8192}),),
    "sbatch-heredoc.sh": (E("fits", {"tp": 2}),),
    "bash-heredoc-docker.sh": (E("fits", {"max_model_len": 8192}),),
    "tmux.sh": (E("fits", {"max_model_len": 8192}), E("fits", {"n_devices": 1})),
    # units
    "units.sh": (E("refuses", {"max_model_len": 32_768}, {"bad-value"}),),  # 32K is 32,768; 0,9 is no float
    "fraction-90.sh": (E("refuses", {}, {"bad-value"}),),
    "llama-32k.sh": (E("fits", {"max_model_len": 32}, {"number-cut"}),),  # std::stoi stops at the k
    "dtype.sh": (E("refuses", {}, {"bad-value"}),),  # fp16 is no choice of --dtype
    "memory-bytes.yaml": (E("refuses", {}, {"host-memory"}),),  # 16 bytes
    "memory-gb.yaml": (E("refuses", {}, {"bad-quantity"}),),  # GB is no suffix of a quantity
    "gpu-half.yaml": (E("refuses", {}, {"bad-quantity"}),),  # extended resources are whole
    "quoted.yaml": (E("refuses", {"n_devices": 1}, {"not-text"}),),  # args are strings
    "expert-ranks.sh": (E("refuses", {"tp": 4, "ep": 3}, {"does-not-start"}),),  # rank 3 is in no expert group
    "tp0.sh": (E("refuses", {"tp": 0}, {"contradiction"}),),  # Field(ge=1)
    # options said twice, otherwise, or in part
    "dup.sh": (E("fits", {"max_model_len": 4096, "memory_fraction": 0.95}, {"given-twice"}),),  # argparse keeps the last
    "env-flag.sh": (E("fits", {"max_model_len": 8192, "n_gpu_layers": 99}),),  # llama.cpp: the flag over the variable
    "abbrev.sh": (E("fits", {"tp": 2, "max_model_len": 8192}),),  # argparse takes a unique beginning
    "unknown-flag.sh": (E("unknown", {}, {"unknown-option", "open-max-model-len"}),),  # a slip of a length that may be there some day
    "em-dash.sh": (E("refuses", {}, {"bad-value"}),),
    "json5.sh": (E("refuses", {}, {"bad-value"}),),
    "json-unquoted.sh": (E("refuses", {}, {"bad-value"}),),  # the shell takes the quotes
    "trailing-space.sh": (E("refuses", {}, {"bad-value", "cut-command"}),),  # a blank as a word, and the next line a command
    "crlf.sh": (E("fits", {"max_model_len": 8192}, {"carriage-return"}),),
    "star-array.sh": (E("refuses", {}, {"not-split"}),),  # "${ARGS[*]}" is one word
    # devices
    "visible-too-few.sh": (E("refuses", {"tp": 2, "n_devices": 1}, {"too-few-devices"}),),
    "init-gpu.yaml": (  # GPUs of other containers are not its own; an init container that stays is a server beside it
        E("refuses", {"tp": 2, "n_devices": 1}, {"too-few-devices"}), E("fits", {"n_devices": 1}),
    ),
    # what is open
    "at-array.sh": (E("unknown", {"max_model_len": 8192}, {"open-options"}),),
    "zeros.sh": (E("fits", {"max_model_len": 8192}, {"removed-option"}),),  # none of either; --swap-space is of older releases
    "guarded-args.sh": (E("fits", {"tp": 1}, {"open-words"}),),  # empty, unless EVAL_ONLY comes from outside
    "branch-tp.sh": (E("unknown", {"max_model_len": 8192}, {"open-tp"}),),
    "open-args.sh": (E("unknown", {}, {"open-options"}),),
    "open-tp.sh": (E("unknown", {}, {"open-tp"}),),
    "open-k8s.yaml": (E("unknown", {"n_devices": 1}, {"open-max-model-len", "open-options"}),),
    "helm-left.yaml": (E("unknown", {}, {"open-max-model-len", "open-tp"}),),
}  # fmt: skip
OWN = ("kvplan:", "gpu.product", "PRODUCT")


def test_every_file_is_in_the_table() -> None:
    assert sorted(TABLE) == sorted(path.name for path in FILES.iterdir())


@pytest.mark.parametrize("name", TABLE)
def test_hostile(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    with Path(name).open(newline="") as file:
        says = any(word in file.read() for word in OWN)
    device: dict[str, Any] = {} if says else {"device": "rtx-4090" if "mixed" in name else "h100"}
    verdicts = check([name], planned, **device)
    found = [(v.status, {f.rule for f in v.findings if f.severity != "note"}) for v in verdicts]
    assert found == [(one.status, one.rules) for one in TABLE[name]], [v.message for v in verdicts]
    for verdict, one in zip(verdicts, TABLE[name], strict=True):
        assert one.question.items() <= (dict(verdict.found.question) if verdict.found else {}).items()
