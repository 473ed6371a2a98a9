"""The Hub importer against a server that lies: bodies without end, redirects, refusals of 10 GiB, a trickle, no Hub at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from kvplan.importers import hub
from tests.fake_hub import COMMIT, Answer, serving

pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (the extra `hub`)")


@pytest.fixture
def get(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # type: ignore[no-untyped-def]
    """Asks with a token that nobody else may see."""
    monkeypatch.setenv("HF_TOKEN", "hf_thisTokenMustNeverBeShown")
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)

    def fetch(model: str, **options: object) -> hub.LocalFiles:
        return hub.fetch(model, None, cache_dir=tmp_path / "cache", assets_dir=tmp_path / "assets", **options)  # type: ignore[arg-type]

    return fetch


Lie = Callable[[BaseHTTPRequestHandler], Iterator[bytes]]


def told(lie: Lie, sent: list[int]) -> Answer:
    """Sends what the lie yields, and counts the bytes that it could."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        for data in lie(request):
            request.wfile.write(data)
            sent.append(len(data))

    return answer


def head(request: BaseHTTPRequestHandler, status: int, **headers: str) -> None:
    request.send_response(status)
    for name, value in {"X-Repo-Commit": COMMIT, **headers}.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()


def ten_gib(status: int, **headers: str) -> Lie:
    def lie(request: BaseHTTPRequestHandler) -> Iterator[bytes]:
        head(request, status, **headers)
        for _ in range(10 << 10):
            yield b" " * (1 << 20)

    return lie


def redirects_to_itself(request: BaseHTTPRequestHandler) -> Iterator[bytes]:
    head(request, 302, Location=request.path, Content_Length="0")
    yield b""


def trickles(request: BaseHTTPRequestHandler) -> Iterator[bytes]:
    head(request, 200)
    while True:
        yield b" "
        time.sleep(0.05)


def is_no_hub(request: BaseHTTPRequestHandler) -> Iterator[bytes]:
    request.send_response(200)
    request.end_headers()
    yield b"<html>log in to the hotel's network</html>"


@pytest.mark.parametrize(
    ("lie", "says"),
    [
        (ten_gib(200, Content_Length=str(10 << 30)), r"config\.json is longer than 16 MiB"),
        (ten_gib(200), r"config\.json is longer than 16 MiB"),
        (ten_gib(404, X_Error_Code="RepoNotFound"), r"no such model on the Hub, or it is private"),
        (redirects_to_itself, r"redirects without end"),
        (trickles, r"config\.json arrives too slowly"),
        (is_no_hub, r"does not answer as a Hub does"),
    ],
)
def test_a_server_that_lies(get, monkeypatch: pytest.MonkeyPatch, lie: Lie, says: str) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(hub, "DEADLINE_S", 0.5)
    sent: list[int] = []
    with serving(told(lie, sent)) as endpoint, pytest.raises(hub.HubError, match=says) as caught:
        get("org/lies", endpoint=endpoint)
    assert "\n" not in str(caught.value)
    assert sum(sent) < 32 << 20  # 16 MiB, and what the sockets held


def test_a_token_does_not_follow_a_redirect_to_another_host(get) -> None:  # type: ignore[no-untyped-def]
    seen: list[str | None] = []

    def elsewhere(request: BaseHTTPRequestHandler) -> None:
        seen.append(request.headers.get("Authorization"))
        head(request, 200)
        request.wfile.write(b"{}")

    with serving(elsewhere) as other:
        there = other.replace("127.0.0.1", "localhost")
        with serving(lambda request: head(request, 302, Location=f"{there}/x", Content_Length="0")) as endpoint:
            assert get("org/away", endpoint=endpoint, weights=False).config.read_bytes() == b"{}"
    assert seen == [None]
