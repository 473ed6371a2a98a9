"""One read of a page that a server has, bounded in bytes and seconds. Only what a person named is asked; nothing is followed."""

from __future__ import annotations

import time
from http.client import HTTPException, HTTPMessage
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from kvplan.errors import SpecError

MAX_PAGE_BYTES = 8 << 20
SECONDS = 10.0
_CHUNK = 1 << 16


class _Stay(HTTPRedirectHandler):
    """A redirect is an answer of its own: it may lead anywhere."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str) -> None:
        return None


def is_url(name: str) -> bool:
    """Whether a name is to be asked of a server."""
    return name.lower().startswith(("http://", "https://"))


def page(url: str, *, seconds: float = SECONDS, most: int = MAX_PAGE_BYTES) -> str:
    """The text at an address. Raises SpecError for anything but one whole text in time."""
    end = time.monotonic() + seconds
    request = Request(url, headers={"Accept": "text/plain", "User-Agent": "kvplan"})
    try:
        with build_opener(ProxyHandler({}), _Stay()).open(request, timeout=seconds) as answer:
            kind = answer.headers.get_content_type()
            if not kind.startswith("text/plain") and kind != "application/openmetrics-text":
                raise _fault(url, f"is {kind[:60]}, no page of metrics; name the server's /metrics")
            data = bytearray()
            while chunk := answer.read1(_CHUNK):
                data += chunk
                if len(data) > most:
                    raise _fault(url, f"is larger than {most >> 20} MiB; no page of metrics is")
                if time.monotonic() > end:
                    raise _fault(url, f"did not end within {seconds:g} s")
    except HTTPError as error:
        to = f" to {error.headers['Location'][:200]}; name that" if 300 <= error.code < 400 and error.headers.get("Location") else ""
        raise _fault(url, f"answers {error.code}{to}") from None
    except (URLError, HTTPException, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise _fault(url, "did not answer in time" if isinstance(why, TimeoutError) else f"can not be read: {why}") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _fault(url, "is not text") from None


def _fault(url: str, why: str) -> SpecError:
    return SpecError(url[:300], [("", why)])
