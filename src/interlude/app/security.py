"""Who may ask the server for anything: the page that was opened with the token, and nobody else."""

import ipaddress
import json
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Server = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")
READS = ("GET", "HEAD")
LARGEST_BODY = 1 << 20
OPEN_IT = "Open the address that `interlude app` has printed: it ends with a token, which is asked for here."

HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
        "form-action 'none'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def new_token() -> str:
    """What nobody can guess."""
    return secrets.token_urlsafe(24)


class Guard:
    """Lets a request through to `server` if it comes from our own page, addresses us, and has the token."""

    def __init__(self, server: Server, *, token: str, host: str, port: int) -> None:
        self.server, self.token, self.host, self.port = server, token, host, port
        self.cookie = f"interlude-{port}"  # the cookies of a machine are shared by all its ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.server(scope, receive, send)
            return
        if scope["type"] != "http":  # we offer nothing else
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        code, reason = self.refusal(scope, headers)
        if code:
            await _answer(code, reason, scope["path"].startswith("/api/"), _with_headers(send, {}))
            return
        shown = scope["path"] == "/" and self._right(_query(scope).get("token"))
        cookie = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
        await self.server(scope, receive, _with_headers(send, {"set-cookie": cookie} if shown else {}))

    def refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str]:
        """The code and the reason why a request is refused; code 0 if it is not."""
        host = headers.get("host", "")
        if not self.is_ours(host):
            return 403, "This server answers only to the address that it has printed."
        reads = scope["method"] in READS
        if not reads and headers.get("origin") != f"http://{host}":
            return 403, "This request does not come from our own page."
        site = headers.get("sec-fetch-site", "none")
        if site not in ("same-origin", "none") and not (reads and scope["path"] == "/"):
            return 403, "This request comes from another page."
        if not self._has_token(scope, headers):
            return 403, OPEN_IT
        if not reads and _too_large(headers):
            return 413, "This is more than can be taken at once."
        return 0, ""

    def is_ours(self, host: str) -> bool:
        """Whether the header Host names this server, and not a name that somebody made lead here."""
        name, _, port = host.rpartition(":")
        name = name.strip("[]").lower()
        if port != str(self.port):
            return False
        if name in LOOPBACK or name == self.host.lower():
            return True
        return self.host in EVERYWHERE and (_is_address(name) or name == socket.gethostname().lower())

    def _has_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        given = headers.get("x-token") or _cookies(headers).get(self.cookie)
        asked = _query(scope).get("token") if scope["path"] == "/" else None
        return self._right(given) or self._right(asked)

    def _right(self, given: str | None) -> bool:
        return given is not None and secrets.compare_digest(given.encode(), self.token.encode())


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach such an address."""
    if host == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _query(scope: Scope) -> dict[str, str]:
    values = parse_qs(scope["query_string"].decode("latin-1"))
    return {name: found[0] for name, found in values.items()}


def _cookies(headers: dict[str, str]) -> dict[str, str]:
    """The cookies of a request, also where others on this machine have left strange ones."""
    pairs = [part.strip().partition("=") for part in headers.get("cookie", "").split(";")]
    return {name: value for name, _, value in pairs}


def _too_large(headers: dict[str, str]) -> bool:
    """Whether a body is larger than any of ours, or does not say how large it is."""
    length = headers.get("content-length", "" if "transfer-encoding" in headers else "0")
    return not length.isdecimal() or int(length) > LARGEST_BODY


def _with_headers(send: Send, more: dict[str, str]) -> Send:
    """Send with the headers that every answer has; one that an answer sets itself stays."""

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            own: Iterable[tuple[bytes, bytes]] = message.get("headers", [])
            names = {name.lower() for name, _ in own}
            added = {name: value for name, value in HEADERS.items() if name.encode() not in names} | more
            pairs = [(name.encode(), value.encode()) for name, value in added.items()]
            message["headers"] = [*own, *pairs]
        await send(message)

    return wrapped


async def _answer(code: int, text: str, as_json: bool, send: Send) -> None:
    body = json.dumps({"error": text}).encode() if as_json else f"{text}\n".encode()
    kind = b"application/json" if as_json else b"text/plain; charset=utf-8"
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
