"""A page of metrics is a log like any other, from a file or from a server that is asked once."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from kvplan import api
from kvplan.errors import SpecError
from kvplan.startup_logs import metrics, read_log
from kvplan.startup_logs.fetch import page
from tests.fake_hub import Answer, serving
from tests.unit.startup_logs.test_reconcile import LOG

#: 418,688 tokens in blocks of 16 and 51.11 requests of 8,192: Qwen3-8B on one H100 with vLLM 0.19 (llm-d-incubation/llm-d-planner#205);
#: the labels are those of vllm/config/cache.py.
VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="Qwen/Qwen3-8B"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="Qwen/Qwen3-8B"} 0.42
vllm:prompt_tokens_total{engine="0",model_name="Qwen/Qwen3-8B"} 1.9275232e+07
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0",gpu_memory_utilization="0.95",\
kv_cache_max_concurrency="51.109375",kv_cache_memory_bytes="None",kv_cache_size_tokens="418688",num_gpu_blocks="26168",\
num_gpu_blocks_override="None",sliding_window="None",user_specified_block_size="False"} 1.0
"""
#: As vLLM before 0.21 has it, without tokens and concurrency.
OLD = """\
vllm:cache_config_info{block_size="16",cache_dtype="auto",calculate_kv_scales="False",cpu_offload_gb="0",enable_prefix_caching="False",\
gpu_memory_utilization="0.9",num_cpu_blocks="9362",num_gpu_blocks="81767",num_gpu_blocks_override="None",swap_space_bytes="4294967296"} 1.0
vllm:num_requests_running{model_name="Qwen/Qwen2.5-Coder-1.5B-Instruct"} 0.0
"""
SGLANG = """\
sglang:num_running_reqs{engine_type="unified",model_name="Qwen/Qwen3-8B",pp_rank="0",tp_rank="0"} 0.0
sglang:max_total_num_tokens{engine_type="unified",model_name="Qwen/Qwen3-8B",pp_rank="0",tp_rank="0"} 3.94752e+05
sglang:page_size{engine_type="unified",model_name="Qwen/Qwen3-8B",pp_rank="0",tp_rank="0"} 64.0
sglang:context_len{engine_type="unified",model_name="Qwen/Qwen3-8B",pp_rank="0",tp_rank="0"} 40960.0
sglang:kv_cache_memory_usage_gb{engine_type="unified",model_name="Qwen/Qwen3-8B",pp_rank="0",tp_rank="0"} 54.211
sglang:token_usage{engine_type="unified",model_name="Qwen/Qwen3-8B",pp_rank="0",tp_rank="0"} NaN
"""


def test_vllm_page() -> None:
    start = read_log(VLLM)
    assert (start.engine, start.model) == ("vllm", "Qwen/Qwen3-8B")
    assert start.question["max_model_len"] == 8192
    assert start.question["memory_fraction"] == 0.95
    assert "block_size" not in start.question  # nobody chose it
    assert [start.value(name) for name in ("blocks", "tokens", "concurrency")] == [26_168, 418_688, 51.109375]


def test_vllm_page_before_tokens_were_on_it() -> None:
    start = read_log(OLD)
    assert (start.value("blocks"), start.value("tokens")) == (81_767, None)
    assert start.question["block_size"] == 16
    assert start.unread == {}


def test_sglang_page() -> None:
    """GB are 2^30 bytes; a page has 64 tokens, and what is no number is nothing."""
    start = read_log(SGLANG)
    assert (start.engine, start.model) == ("sglang", "Qwen/Qwen3-8B")
    assert (start.question["max_model_len"], start.question["block_size"]) == (40_960, 64)
    assert (start.value("tokens"), start.value("kv_cache"), start.value("in_use")) == (394_752, 54.211, None)
    assert start.figures[0].rank == "PP0_TP0"


@pytest.mark.parametrize(
    ("tokens", "concurrency", "length"),
    [  # pages that people published: 1,000,000; 196,608 and 262,144 tokens as max_model_len
        (1_663_201, 1.6632016632016633, 1_000_000),
        (209_523, 1.0656934306569343, 196_608),
        (418_688, 51.109375, 8192),
        (100, 0.0, None),
    ],
)
def test_the_length_follows_from_tokens_and_concurrency(tokens: int, concurrency: float, length: int | None) -> None:
    assert metrics.length(tokens, concurrency) == length


def test_a_block_size_that_the_engine_chose_is_no_setting() -> None:
    """A hybrid's block of 832 tokens is aligned to its states (vllm/config/vllm.py); 32 may be somebody's own."""
    assert "block_size" not in metrics.settings({"block_size": "832"})
    assert metrics.settings({"block_size": "32"})["block_size"] == "32"
    assert "block_size" not in metrics.settings({"block_size": "32", "user_specified_block_size": "False"})


def says(body: bytes, status: int = 200, kind: str = "text/plain; version=0.0.4", **headers: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Type", kind)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    return answer


def test_a_running_server_is_asked_once() -> None:
    with serving(says(VLLM.encode())) as url:
        found = api.reconcile(f"{url}/metrics", device="h100", engine_version="0.19.0")
    assert [(line.name, line.verdict) for line in found.lines] == [("blocks", "within"), ("tokens", "within"), ("concurrency", "within")]
    assert found.agrees
    assert any("42.0%" in text for text in found.not_compared)


def test_a_saved_page_is_read_alike(tmp_path: Path) -> None:
    file = tmp_path / "metrics.txt"
    file.write_text(VLLM)
    assert api.reconcile(file, device="h100", engine_version="0.19.0").agrees


def drip(request: BaseHTTPRequestHandler) -> None:
    says(b"")(request)
    for _ in range(100):
        request.wfile.write(b"a 1\n")
        request.wfile.flush()
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (says(b"no", 404), "answers 404"),
        (says(b"", 302, Location="http://127.0.0.1:1/elsewhere"), "answers 302 to http://127.0.0.1:1/elsewhere"),
        (says(b"<html>", kind="text/html"), "is text/html, no page of metrics"),
        (says(b"\xff\xfe\x00"), "is not text"),
        (says(b"x" * 3000), "is larger than"),
        (drip, "did not end within"),
        (lambda request: time.sleep(0.6), "did not answer|can not be read"),
    ],
    ids=["404", "redirect", "html", "binary", "huge", "drip", "silent"],
)
def test_a_server_that_does_not_give_a_page(answer: Answer, why: str) -> None:
    with serving(answer) as url, pytest.raises(SpecError, match=why):
        page(f"{url}/metrics", seconds=0.3, most=2048)


def test_nothing_listens() -> None:
    with pytest.raises(SpecError, match="can not be read"):
        page("http://127.0.0.1:9/metrics", seconds=1)


def test_what_is_no_address_is_a_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such file"):
        api.reconcile("ftp://127.0.0.1/metrics")


def test_a_flag_that_nobody_knows_does_not_stop_it(tmp_path: Path) -> None:
    """A backend, a format and an option of a later release, in a log whose figures hold."""
    file = tmp_path / "serve.log"
    unheard = "'attention_backend': 'QUANTUM_ATTN', 'kv_cache_dtype': 'int3_magic', 'warp_speed': 9"
    file.write_text(LOG.replace("'max_model_len': 8192", f"'max_model_len': 8192, {unheard}"))
    found = api.reconcile(file)
    assert found.agrees
    assert [text for text in found.not_compared if text.startswith("kv_dtype=int3_magic: ")]
    assert [text for text in found.not_compared if text.endswith("table does not have: warp_speed")]


def test_what_a_person_asks_is_not_left_out(tmp_path: Path) -> None:
    file = tmp_path / "serve.log"
    file.write_text(LOG)
    with pytest.raises(SpecError, match="attention_backends"):
        api.reconcile(file, engine_option={"attention_backends": "QUANTUM_ATTN"})
