"""The application: addresses, what every answer carries, how much is taken and worked on at once."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kvplan.errors import KvplanError
from kvplan.importers.hf_config import parse_json
from kvplan.report.printable import printable
from kvplan.web.answers import LISTED, POSTED, Body, allowed, emit
from kvplan.web.bounds import BODY_SECONDS, CLOSED, MAX_AT_ONCE, MAX_BODY, MAX_KEPT, MAX_TEXT, MAX_WAITING, Refused, Settings
from kvplan.web.openapi import openapi
from kvplan.web.page import STATIC, page
from kvplan.web.shown import shown

#: Nothing is fetched from another host, nothing inline is run, nobody frames the page.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
Handler = Callable[[Request], Awaitable[Response]]


class Kept:
    """Answers by address and body, the ones asked last, up to a number of bytes."""

    def __init__(self, most: int = MAX_KEPT) -> None:
        self._most, self._bytes = most, 0
        self._answers: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()

    def get(self, key: tuple[str, bytes]) -> bytes | None:
        found = self._answers.get(key)
        if found is not None:
            self._answers.move_to_end(key)
        return found

    def put(self, key: tuple[str, bytes], answer: bytes) -> None:
        if key in self._answers:
            return
        self._answers[key] = answer
        self._bytes += len(answer) + len(key[1])
        while self._bytes > self._most:
            (_, body), old = self._answers.popitem(last=False)
            self._bytes -= len(old) + len(body)


class Work:
    """Runs what takes time in a few threads; refuses what would wait behind too many others."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept = Kept()
        self._keeps = not (settings.files or settings.hub)  # files and the Hub may answer otherwise the next time
        self._limit = anyio.CapacityLimiter(MAX_AT_ONCE)

    async def answer(self, key: tuple[str, bytes], work: Callable[[], Any]) -> Response:
        """The plain data that `work` returns, as JSON."""
        found = self._kept.get(key)
        if found is None:
            if self._limit.statistics().tasks_waiting >= MAX_WAITING:
                raise Refused(429, "more requests than are worked on; ask again in a second")
            found = await anyio.to_thread.run_sync(self._done, work, limiter=self._limit)
            if self._keeps:
                self._kept.put(key, found)
        return Response(found, media_type="application/json")

    def _done(self, work: Callable[[], Any]) -> bytes:
        with allowed(self._settings):
            return json.dumps(work(), allow_nan=False, separators=(",", ":")).encode()


def application(settings: Settings = CLOSED) -> ASGIApp:
    """The ASGI application of the page and the API."""
    work = Work(settings)
    posted = POSTED | {"/page/answer": _said(shown), "/page/emit": _said(emit)}
    routes = [Route(path, _posted(work, path, done), methods=["POST"]) for path, done in posted.items()]
    routes += [Route(path, _listed(work, path, done), methods=["GET"]) for path, done in LISTED.items()]
    routes += [Route("/openapi.json", _fixed(json.dumps(openapi()).encode(), "application/json"), methods=["GET"])]
    routes += [Route("/", _fixed(page().encode(), "text/html; charset=utf-8"), methods=["GET"])]
    routes += [Route(f"/static/{name}", _fixed(*file), methods=["GET"]) for name, file in STATIC.items()]
    told: dict[Any, Any] = {KvplanError: _wrong, Refused: _refused, HTTPException: _http, ClientDisconnect: _gone, Exception: _broken}
    inner = Starlette(routes=routes, exception_handlers=told)
    return _guarded(inner, frozenset(settings.hosts))


def _said(done: Callable[[Body], Any]) -> Callable[[Body], Any]:
    """For the page a word that is half typed is no fault: what is wrong with it is an answer."""

    def answer(body: Body) -> Any:
        try:
            return done(body)
        except KvplanError as error:
            return {"error": printable(str(error))}

    return answer


def _posted(work: Work, path: str, done: Callable[[Body], Any]) -> Handler:
    async def handler(request: Request) -> Response:
        body = await _body(request)
        return await work.answer((path, body), lambda: done(parse_json(body, "request")))

    return handler


def _listed(work: Work, path: str, done: Callable[[str], Any]) -> Handler:
    async def handler(request: Request) -> Response:
        if unknown := [name for name in request.query_params if name != "text"]:
            raise Refused(400, f"{unknown[0][:60]!r} is no parameter of {path}; it takes text")
        text = request.query_params.get("text", "")
        if len(text) > MAX_TEXT:
            raise Refused(400, f"text: longer than {MAX_TEXT} characters")
        return await work.answer((path, text.encode("utf-8", "replace")), partial(done, text))

    return handler


def _fixed(data: bytes, kind: str) -> Handler:
    async def handler(request: Request) -> Response:
        return Response(data, media_type=kind)

    return handler


async def _body(request: Request) -> bytes:
    """The bytes of a JSON request, no more than MAX_BODY. A page of another site can not send this type without asking first."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "send application/json")
    data = bytearray()
    with anyio.move_on_after(BODY_SECONDS):
        async for piece in request.stream():
            data += piece
            if len(data) > MAX_BODY:
                raise Refused(413, f"larger than {MAX_BODY >> 20} MiB")
        return bytes(data)
    raise Refused(408, f"the request did not arrive within {BODY_SECONDS:g} s")


def _json(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps({"error": printable(text)}).encode(), status, headers, "application/json")


async def _wrong(request: Request, error: Exception) -> Response:
    return _json(400, str(error))


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, Refused) else 400
    return _json(status, str(error), {"retry-after": "1"} if status == 429 else None)


async def _http(request: Request, error: Exception) -> Response:
    status, headers = getattr(error, "status_code", 400), getattr(error, "headers", None)
    says = {404: f"there is nothing at {request.url.path[:100]}; /openapi.json lists what is", 405: f"not with {request.method[:20]}"}
    return _json(status, says.get(status, str(error)), headers)


async def _gone(request: Request, error: Exception) -> Response:
    """Who asked hung up in the middle of a request: nobody reads this."""
    return _json(400, "the request did not arrive")


async def _broken(request: Request, error: Exception) -> Response:
    """A fault of ours: its traceback goes to the server's log, not to who asked."""
    return _json(500, f"internal error: {type(error).__name__}; please report it with the request")


def _guarded(inner: ASGIApp, hosts: frozenset[str]) -> ASGIApp:
    """Every answer with HEADERS; requests that call the server by another name than its own are refused (DNS rebinding)."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        if hosts and _called(scope) not in hosts:
            await _json(421, "this server is not called that; kvplan serve --name NAME lets it be")(scope, receive, headed)
            return
        await inner(scope, receive, headed)

    return app


def _called(scope: Scope) -> str:
    """The Host of a request without its port."""
    host: str = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1").lower()
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
