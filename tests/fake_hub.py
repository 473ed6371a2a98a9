"""Servers on this machine for what asks the network: one that speaks the Hub's endpoints, and any that a function answers."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Answer = Callable[[BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """The address at which every request is answered so, until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

        def do_HEAD(self) -> None:
            with contextlib.suppress(OSError):  # a client that has read enough
                answer(self)

        def do_GET(self) -> None:
            self.do_HEAD()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Hub:
    """Repositories as {id: {file: bytes}}; refusals as {id: (status, error code)}; every request is written down."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = {}
        self.refuse: dict[str, tuple[int, str]] = {}
        self.ranges = True
        self.requests: list[tuple[str, str, str | None]] = []
        self.sent_bytes = 0
        self.endpoint = ""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.requests.append((request.command, request.path, wanted))
        repo, _, rest = request.path.lstrip("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        status, code = self.refuse.get(repo, (0, ""))
        if repo not in self.files and not status:
            status, code = 401, "RepoNotFound"
        elif not status and revision not in ("main", COMMIT):
            status, code = 404, "RevisionNotFound"
        elif not status and name not in self.files[repo]:
            status, code = 404, "EntryNotFound"
        if status:
            commit = {"X-Repo-Commit": COMMIT} if code == "EntryNotFound" else {}
            return self._reply(request, status, b"{}", {"X-Error-Code": code, "X-Error-Message": "refused", **commit})
        data = self.files[repo][name]
        extra = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if wanted and request.command == "GET" and self.ranges:
            start, _, end = wanted.removeprefix("bytes=").partition("-")
            part = data[int(start) : int(end) + 1]
            extra["Content-Range"] = f"bytes {start}-{int(start) + len(part) - 1}/{len(data)}"
            return self._reply(request, 206, part, extra)
        return self._reply(request, 200, data, extra)

    def _reply(self, request: BaseHTTPRequestHandler, status: int, data: bytes, extra: dict[str, str]) -> None:
        request.send_response(status)
        for key, value in {**extra, "Content-Length": str(len(data))}.items():
            request.send_header(key, value)
        request.end_headers()
        if request.command == "GET":
            self.sent_bytes += len(data)
            request.wfile.write(data)
