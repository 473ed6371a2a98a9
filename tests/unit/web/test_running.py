"""`kvplan serve` as a command: it says where it is, answers, ends well; what stops it is one line."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from kvplan.cli import run

ROOT = Path(__file__).parents[3]
SERVE = [sys.executable, "-m", "kvplan", "serve", "--port", "0"]


def test_without_the_extra_it_says_the_line_that_installs_it(capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "kvplan.web.running", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["serve"]) == 2
    assert "[web]'" in capsys.readouterr().err


def test_it_says_where_it_is_answers_and_ends_when_it_is_interrupted():
    pytest.importorskip("starlette", reason="the `web` extra is not installed")
    with subprocess.Popen([*SERVE, "--workers", "2"], cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
        address = re.match(r"(http://127\.0\.0\.1:\d+/) \(Ctrl-C stops it\)$", server.stderr.readline())[1]
        body = json.dumps({"model": "meta-llama/llama-3.1-8b", "context": "8k"}).encode()
        request = urllib.request.Request(f"{address}api/estimate", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["cache"]["bytes_per_token"] == 131_072  # 2 x 32 layers x 8 heads x 128 x 2 B
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
        assert server.stderr.read() == ""


def test_no_process_is_left_when_the_first_is_killed():
    pytest.importorskip("starlette", reason="the `web` extra is not installed")
    with subprocess.Popen([*SERVE, "--workers", "2"], cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
        port = int(re.search(r":(\d+)/", server.stderr.readline())[1])
        urllib.request.urlopen(f"http://127.0.0.1:{port}/static/icon.svg", timeout=30).close()
        server.kill()
        assert server.communicate(timeout=30)[1] == ""  # ends when the last process that writes there has ended
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()


def test_a_port_that_is_taken_is_one_line(capsys):
    pytest.importorskip("starlette", reason="the `web` extra is not installed")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run(["serve", "--port", str(taken.getsockname()[1])]) == 2
    assert "name another with --port" in capsys.readouterr().err
