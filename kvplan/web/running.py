"""Serving: a socket that is bound before anything is said, uvicorn on it, a clean end."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context, parent_process

import uvicorn

from kvplan.errors import KvplanError
from kvplan.web.app import application
from kvplan.web.bounds import MAX_OPEN, MAX_WAITING, Settings

#: What a loopback server may be called.
OURS = ("localhost", "127.0.0.1", "[::1]")


def serve(host: str, port: int, *, files: bool, hub: bool, names: Sequence[str], workers: int, tell: Callable[[str], None]) -> None:
    """Serves until it is interrupted. `tell` is given the address, then what is to be known of it. Raises KvplanError.

    names  what requests may call it by besides, where only this machine reaches it; any other is refused (DNS rebinding)
    """
    bound = _bound(host, port)
    shown = f"[{host}]" if ":" in host else host
    hosts = tuple(dict.fromkeys((*OURS, *map(str.lower, (shown, *names))))) if is_loopback(host) else ()
    settings = Settings(files, hub, hosts)
    tell(f"http://{shown}:{bound.getsockname()[1]}/ (Ctrl-C stops it)")
    if not is_loopback(host):
        tell(f"anyone who reaches {shown} can ask it{', and read model files here' if files else ''}")
    others = [get_context("spawn").Process(target=_beside, args=(bound, settings), daemon=True) for _ in range(workers - 1)]
    try:
        for other in others:
            other.start()
        _run(bound, settings)
    finally:
        for other in others:
            other.terminate()
        bound.close()


def _beside(bound: socket.socket, settings: Settings) -> None:
    """A further process: it ends with the first, however that one ends."""

    def last() -> None:
        first = parent_process()
        if first is not None:
            first.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=last, daemon=True).start()
    _run(bound, settings)


def _run(bound: socket.socket, settings: Settings) -> None:
    """One process that answers, until it is interrupted."""
    config = uvicorn.Config(
        application(settings), log_level="warning", access_log=False, server_header=False, timeout_keep_alive=30,
        limit_concurrency=MAX_OPEN, lifespan="off",
    )  # fmt: skip
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[bound])


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens: whoever is told its address can connect. Raises KvplanError.

    Its protocol is named: asyncio (base_events.py `_set_nodelay`) only then sends answers at once, not when the last was acknowledged.
    """
    found = None
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        found = socket.socket(family, kind, socket.IPPROTO_TCP)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(MAX_WAITING)
        return found
    except (OSError, UnicodeError, OverflowError) as error:
        if found is not None:
            found.close()
        why = getattr(error, "strerror", None) or error
        raise KvplanError(
            f"{host[:100] or repr(host)} port {port} can not be served on: {why}; name another with --port or --host"
        ) from None
