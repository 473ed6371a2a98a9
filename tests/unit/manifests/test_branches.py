"""Branches of a script whose condition is known, files that it takes in, defaults in quotes: as bash itself reads them."""

from __future__ import annotations

import subprocess

import pytest

from kvplan.manifests.read import read
from kvplan.manifests.values import Found


def one(text: str, **files: str) -> Found:
    """What a script starts; `files` lie beside it, `_` in their names for `.`."""
    (found,) = read(text, "serve.sh", None, {key.replace("_", "."): value for key, value in files.items()}.get)
    return found


@pytest.mark.parametrize(
    "script",
    [
        'M=${M:-"m/x"}\nvllm serve $M --max-model-len ${L:-"4096"}',
        "M=${M:-'m/x'}\nvllm serve \"$M\" --max-model-len ${L:-'5'}",
        'vllm serve "${M:-"m/x"}" --max-model-len 1',
        'P=big\ncase "$P" in small|tiny) L=1024 ;; b*) L=8192 ;; *) L=2 ;; esac\nvllm serve m/x --max-model-len $L',
        'case "${P:-tiny}" in\n  (small|tiny)\n    L=1024\n    ;;\n  *) exit 1 ;;\nesac\nvllm serve m/x --max-model-len $L',
        "case x in y) L=1 ;; esac\nL=${L:-7}\nvllm serve m/x --max-model-len $L",
        'N=${N:-7}\nA=(--max-num-seqs $N)\n[ "$N" = 0 ] && A=()\nvllm serve m/x --max-model-len 9 "${A[@]}"',
        'if [ "${TP:-1}" -gt 1 ]; then L=1; else L=2; fi\nvllm serve m/x --max-model-len $L',
        'if [ "${TP:-4}" -gt 1 ] && [ -n "$HOME" ]; then L=1; elif true; then L=3; fi\nvllm serve m/x --max-model-len ${L:-5}',
        "T=4\nif [[ $T -eq 2 ]]; then L=2; elif [[ $T == 4* ]]; then L=4; else L=8; fi\nvllm serve m/x --max-model-len $L",
        '[ "${A:-b}" = b ] && L=1 || L=2\nvllm serve m/x --max-model-len $L',
        '[ "${A:-b}" = c ] && L=1 || L=2\nvllm serve m/x --max-model-len $L',
        'if ! [ "${A:-b}" = c ]; then L=1; fi\nvllm serve m/x --max-model-len $L',
        "G=2,3,4\nN=$(echo $G | tr ',' '\\n' | wc -l)\nvllm serve m/x -tp $N --max-model-len 1",
        "vllm serve m/x `# a remark` --max-model-len 6 `# another`",
        "S=m/x\nvllm serve $S --max-model-len ${S:+12}",
        "M=m/x\nwhile getopts m:c: o; do case $o in m) M=$OPTARG ;; c) L=$OPTARG ;; esac; done\nvllm serve $M --max-model-len ${L:-7}",
        'while [[ $# -gt 0 ]]; do case $1 in -l) L="$2"; shift 2 ;; -b) L=9; shift ;; esac; done\nvllm serve m/x --max-model-len ${L:-7}',
        'while [ -n "$1" ]; do L=$1; B=1; shift; done\nif [ "${B:-0}" = 1 ]; then L=3; fi\nvllm serve m/x --max-model-len ${L:-7}',
        "until [ $# -eq 0 ]; do L=$1; B=4; shift; done\nL=${L:-5}\nvllm serve m/x --max-model-len ${B:-$L}",
    ],
)
def test_a_script_is_read_as_bash_reads_it(script: str) -> None:
    shell = ["bash", "-c", 'vllm() { printf "%s\\n" "$@"; }\n' + script]
    said = subprocess.run(shell, capture_output=True, text=True, check=True, env={"HOME": "/h", "PATH": "/bin:/usr/bin"}).stdout.split()
    found = one(script)
    assert found.model == said[1]
    assert found.question.get("max_model_len") == int(said[said.index("--max-model-len") + 1])
    assert found.question.get("tp") == (int(said[said.index("-tp") + 1]) if "-tp" in said else None)
    assert found.question.get("max_num_seqs") == (int(said[said.index("--max-num-seqs") + 1]) if "--max-num-seqs" in said else None)
    assert {u.what for u in found.unresolved} <= {"device", "model"}


@pytest.mark.parametrize(
    "script",
    [
        'if [ "$(nproc)" -gt 8 ]; then L=1; else L=2; fi\nvllm serve m/x --max-model-len $L',
        'case "$1" in a) L=1 ;; *) L=2 ;; esac\nvllm serve m/x --max-model-len $L',
        "if nvidia-smi && [ a = a ]; then L=1; else L=2; fi\nvllm serve m/x --max-model-len $L",
        "if [ -d /models ]; then L=1; else L=2; fi\nvllm serve m/x --max-model-len $L",
        "if nvidia-smi; then L=1; fi\nvllm serve m/x --max-model-len ${L:-2}",
        "L=3\nfor i in 1 2; do L=$i; done\nvllm serve m/x --max-model-len $L",
        "while ! nvidia-smi; do L=3; done\nvllm serve m/x --max-model-len ${L:-2}",
        "set -- $(nproc)\nwhile getopts c: o; do L=3; done\nvllm serve m/x --max-model-len ${L:-2}",
    ],
)
def test_what_is_not_known_stays_open(script: str) -> None:
    found = one(script)
    assert "max_model_len" not in found.question
    assert "max_model_len" in {u.what for u in found.unresolved}


def test_words_that_another_branch_would_set_are_spoken_of() -> None:
    found = one('A=()\n[ -n "${LEN:-}" ] && A=(--max-model-len "$LEN")\nvllm serve m/x "${A[@]}"')
    (said,) = [f.message for f in found.findings if f.rule == "open-words"]
    assert "--max-model-len" in said
    assert "options" not in {u.what for u in found.unresolved}


def test_a_file_that_is_taken_in_wins_over_defaults() -> None:
    script = 'source "$(dirname "$0")/common.sh"\nL="${L:-32768}"\nvllm serve "$M" --max-model-len "$L"'
    found = one(script, common_sh='export M="${M:-m/x}"\nL="${L:-1024}"\n')
    assert (found.model, found.question["max_model_len"]) == ("m/x", 1024)
    assert any(f.rule == "config-read" for f in found.findings)
    away = one(script)
    assert away.question["max_model_len"] == 32768
    assert any(f.rule == "not-read" and "common.sh" in f.message for f in away.findings)


def test_help_is_no_server() -> None:
    assert one('has() { trtllm-serve serve --help | grep -q -- "$1"; }\ntrtllm-serve m/x').engine == "tensorrt-llm"


def test_a_file_that_takes_itself_in_ends() -> None:
    assert one(". ./a.sh\nvllm serve m/x", a_sh=". ./b.sh", b_sh=". ./a.sh").model == "m/x"


def test_options_of_docker_that_a_variable_brings_are_not_the_image() -> None:
    found = one('docker run --gpus all ${T:+-e "T=$T"} -e A=b nvcr.io/nvidia/vllm:26.01-py3 vllm serve m/x --max-model-len 8')
    assert (found.model, found.question) == ("m/x", {"max_model_len": 8})


def test_what_stands_in_both_branches_is_started_once_each() -> None:
    found = read('if [ "${E:-a}" = a ]; then vllm serve m/x; else sglang serve --model-path m/y; fi', "serve.sh")
    assert [f.model for f in found] == ["m/x", "m/y"]  # commands of all branches are looked at


CHOSEN = """
if [ -n "$MODEL" ]; then
  CHOSEN="$MODEL"
else
  CHOSEN=Qwen/Qwen2.5-7B-Instruct
fi
if [[ "$CHOSEN" == *"70B"* ]] || [[ "$CHOSEN" == *"72B"* ]]; then
  LEN="${LEN:-4096}"
elif [[ "$CHOSEN" == *"7B"* ]]; then
  LEN="${LEN:-8192}"
fi
vllm serve $CHOSEN --max-model-len $LEN
"""


def test_what_stands_where_a_variable_of_the_caller_is_empty() -> None:
    (one,) = read(CHOSEN, "run.sh")
    assert (one.model, one.question["max_model_len"]) == ("Qwen/Qwen2.5-7B-Instruct", 8192)
    (two,) = read(CHOSEN, "run.sh", {"MODEL": "meta-llama/Llama-3.3-70B-Instruct"})
    assert (two.model, two.question["max_model_len"]) == ("meta-llama/Llama-3.3-70B-Instruct", 4096)


def test_a_third_branch_leaves_it_open() -> None:
    (one,) = read(CHOSEN.replace("else\n  CHOSEN=Q", "elif [ -d /m ]; then\n  CHOSEN=/m\nelse\n  CHOSEN=Q"), "run.sh")
    assert any(u.what == "model" for u in one.unresolved)
