"""Whatever collectors put before, around and between an engine's lines, the reading stays what it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvplan.errors import FormatError
from kvplan.startup_logs import read_log
from kvplan.startup_logs.lines import MAX_LINE, read_batches
from tests.conftest import examples
from tests.log_samples import COLLECTORS, LOGS, SGLANG, STAMP, VLLM_V1, reading

NOISE = (
    "",
    "}{",
    "\ufffd\ufffd\x01\x02",
    '{"log": 3}',
    '{"log": "half',
    "[]",
    "null",
    "vllm-1  | ",
    f"{STAMP} stderr F ",
    "█" * 500,
    "(" * 3000,
    "INFO: 127.0.0.1:5 - GET /metrics HTTP/1.1 200 OK",
    "Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:00<00:02]",
)


@given(st.sampled_from(list(LOGS)), st.lists(st.sampled_from(list(COLLECTORS)), min_size=1, max_size=3))
@example("sglang", ["progress", "docker json"])
@examples(150)
def test_any_wrapping_leaves_the_reading(name: str, chain: list[str]) -> None:
    lines = LOGS[name].splitlines()
    for wrap in chain:
        lines = [COLLECTORS[wrap](line) for line in lines]
    assert reading(read_log("\n".join(lines))) == reading(read_log(LOGS[name]))


@given(st.sampled_from(list(LOGS)), st.lists(st.tuples(st.integers(0, 30), st.sampled_from(NOISE)), max_size=12))
@examples(80)
def test_noise_between_lines_leaves_the_reading(name: str, noise: list[tuple[int, str]]) -> None:
    lines = LOGS[name].splitlines()
    for at, text in noise:
        lines.insert(at, text)
    assert reading(read_log("\n".join(lines))) == reading(read_log(LOGS[name]))


@given(st.sampled_from(list(LOGS)), st.integers(0, 4000), st.sampled_from(list(COLLECTORS)))
@examples(80)
def test_a_log_cut_anywhere_says_less_and_nothing_else(name: str, cut: int, wrap: str) -> None:
    """A whole line less or a line in part: no figure appears that the whole log does not have, but for one cut in its last digits."""
    text = "\n".join(COLLECTORS[wrap](line) for line in LOGS[name].splitlines())[:cut]
    try:
        part = read_log(text)
    except FormatError:
        return
    whole = read_log(LOGS[name])
    known = {f[:2] for f in whole.figures} | {(f"trial_{f.name}", f.value) for f in whole.figures}
    known |= {(f.name.removeprefix("trial_"), f.value) for f in whole.figures}
    assert len({f[:2] for f in part.figures} - known) <= 2


ENCODINGS = {
    "utf-16": lambda text: text.encode("utf-16"),
    "utf-16 little, no mark": lambda text: text.encode("utf-16-le"),
    "utf-16 big, no mark": lambda text: text.encode("utf-16-be"),
    "utf-8 with mark": lambda text: text.encode("utf-8-sig"),
    "gzip": lambda text: gzip.compress(text.encode()),
    "cut gzip": lambda text: gzip.compress((text + "x\n" * 100_000).encode())[:-30],
    "broken bytes": lambda text: b"\xff\xfe\xfd".join(line.encode() + b"\n" for line in ("", *text.splitlines())),
    "crlf": lambda text: text.replace("\n", "\r\n").encode(),
}


@pytest.mark.parametrize("encoding", list(ENCODINGS))
@pytest.mark.parametrize("name", ["vllm", "sglang", "llama"])
def test_files_in_any_encoding(tmp_path: Path, name: str, encoding: str) -> None:
    path = tmp_path / "serve.log"
    path.write_bytes(ENCODINGS[encoding](LOGS[name]))
    if encoding == "broken bytes":  # the junk begins every line: what is before it is kept
        assert read_log(path).values("kv_cache") == read_log(LOGS[name]).values("kv_cache")
    else:
        assert reading(read_log(path)) == reading(read_log(LOGS[name]))


def test_lines_that_collectors_cut_are_joined() -> None:
    """Docker and CRI cut at 16 KiB: SGLang's arguments are longer than that with a long list of batch sizes."""
    arguments = (
        f"server_args=ServerArgs(cuda_graph_bs={list(range(6000))}, mem_fraction_static=0.4, model_path='Qwen/Qwen2.5-1.5B-Instruct')"
    )
    lines = [f"[2026-06-07 11:52:13] {arguments}", *SGLANG.splitlines()[1:]]
    assert len(lines[0]) > 2 * 16_384
    pieces = [(line[i : i + 16_384], i + 16_384 < len(line)) for line in lines for i in range(0, len(line), 16_384)]
    docker = "\n".join(json.dumps({"log": text + ("" if goes_on else "\n"), "stream": "stderr"}) for text, goes_on in pieces)
    cri = "\n".join(f"{STAMP} stderr {'P' if goes_on else 'F'} {text}" for text, goes_on in pieces)
    want = reading(read_log("\n".join(lines)))
    assert want[3]["memory_fraction"] == 0.4  # type: ignore[index]
    assert reading(read_log(docker)) == want
    assert reading(read_log(cri)) == want


def test_pieces_that_never_end_stay_bounded() -> None:
    endless = "\n".join(f"{STAMP} stderr P {'x' * 16_384}" for _ in range(200))
    assert max(len(line.text) for batch in read_batches(endless) for line in batch) <= MAX_LINE


def test_ranks_under_collectors() -> None:
    """Every rank's own figure, whatever is around the line."""
    for wrap in ("compose", "ray", "docker json", "journal", "kubectl"):
        text = "\n".join(COLLECTORS[wrap](line) for line in VLLM_V1.splitlines())
        assert [(f.value, f.rank) for f in read_log(text).figures if f.name == "kv_cache"] == [(63.80, "TP0"), (63.76, "TP1")]
