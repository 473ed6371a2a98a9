"""The Hub importer against a server that lies: bodies without end, redirects, refusals of 10 GiB, a trickle, no Hub at all."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kvplan.importers import hub

pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (the extra `hub`)")

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def get(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):  # type: ignore[no-untyped-def]
    """Asks with a token that nobody else may see."""
    monkeypatch.setenv("HF_TOKEN", "hf_thisTokenMustNeverBeShown")
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)

    def fetch(model: str, **options: object) -> hub.LocalFiles:
        return hub.fetch(model, None, cache_dir=tmp_path / "cache", assets_dir=tmp_path / "assets", **options)  # type: ignore[arg-type]

    return fetch


GIB = 1 << 30


class Liar:
    """A server that answers what it likes: `body(handler)` writes everything after the request. Counts what it could send."""

    def __init__(self, body: Callable[[Liar, BaseHTTPRequestHandler], None]) -> None:
        self.sent_bytes = 0
        liar = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                with contextlib.suppress(OSError):  # a client that has read enough
                    body(liar, self)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def send(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        handler.wfile.write(data)
        self.sent_bytes += len(data)


def head(handler: BaseHTTPRequestHandler, status: int, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"X-Repo-Commit": COMMIT, **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def claims_ten_gib(liar: Liar, handler: BaseHTTPRequestHandler) -> None:
    head(handler, 200, Content_Length=str(10 * GIB))
    for _ in range(10 * GIB >> 20):
        liar.send(handler, b" " * (1 << 20))


def sends_ten_gib(liar: Liar, handler: BaseHTTPRequestHandler) -> None:
    head(handler, 200)
    for _ in range(10 * GIB >> 20):
        liar.send(handler, b" " * (1 << 20))


def refuses_with_ten_gib(liar: Liar, handler: BaseHTTPRequestHandler) -> None:
    head(handler, 404, X_Error_Code="RepoNotFound")
    for _ in range(10 * GIB >> 20):
        liar.send(handler, b" " * (1 << 20))


def redirects_to_itself(liar: Liar, handler: BaseHTTPRequestHandler) -> None:
    head(handler, 302, Location=handler.path, Content_Length="0")


def trickles(liar: Liar, handler: BaseHTTPRequestHandler) -> None:
    head(handler, 200)
    while True:
        liar.send(handler, b" ")
        time.sleep(0.05)


def is_no_hub(liar: Liar, handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    liar.send(handler, b"<html>log in to the hotel's network</html>")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (claims_ten_gib, r"config\.json is longer than 16 MiB"),
        (sends_ten_gib, r"config\.json is longer than 16 MiB"),
        (refuses_with_ten_gib, r"no such model on the Hub, or it is private"),
        (redirects_to_itself, r"redirects without end"),
        (trickles, r"config\.json arrives too slowly"),
        (is_no_hub, r"does not answer as a Hub does"),
    ],
)
def test_a_server_that_lies(get, monkeypatch: pytest.MonkeyPatch, body, says: str) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(hub, "DEADLINE_S", 0.5)
    liar = Liar(body)
    started = time.monotonic()
    try:
        with pytest.raises(hub.HubError, match=says) as caught:
            get("org/lies", endpoint=liar.endpoint)
    finally:
        liar.server.shutdown()
        liar.server.server_close()
    assert "\n" not in str(caught.value)
    assert liar.sent_bytes < 32 << 20  # 16 MiB, and what the sockets held
    assert time.monotonic() - started < 20


def test_a_token_does_not_follow_a_redirect_to_another_host(get) -> None:  # type: ignore[no-untyped-def]
    seen: list[str | None] = []

    def elsewhere(liar: Liar, handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers.get("Authorization"))
        head(handler, 200)
        liar.send(handler, b"{}")

    other = Liar(elsewhere)

    def away(liar: Liar, handler: BaseHTTPRequestHandler) -> None:
        head(handler, 302, Location=f"http://localhost:{other.server.server_port}/x", Content_Length="0")

    liar = Liar(away)
    assert get("org/away", endpoint=liar.endpoint, weights=False).config.read_bytes() == b"{}"
    assert seen == [None]
    for each in (liar, other):
        each.server.shutdown()
        each.server.server_close()
