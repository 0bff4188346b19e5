"""The blocking half of HTTP: the one module that imports httpx, and only when the first request is made.

Each connection belongs to one lane (a client with a single connection), so the socket of a request is known even
when an earlier one made the connection, and shutting it ends the request wherever its thread waits.
"""

from __future__ import annotations

import importlib
import re
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from vikingpi.errors import Interrupted, NetError, NotConnected
from vikingpi.values import NamedTuple

if TYPE_CHECKING:
    import ssl

    import httpx

CONNECT_TIMEOUT = 10.0
IDLE_LIMIT = 3.0

_BAD_HEADER = r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]"
_LOOPBACK = re.compile(r"localhost|.+\.localhost|127\.\d+\.\d+\.\d+|::1", re.IGNORECASE)


class Ask(NamedTuple):
    """A request; `timeout` (s) bounds each wait for more bytes."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    timeout: float


def is_loopback(url: str) -> bool:
    """Tell whether the URL's host is this machine."""
    try:
        return _LOOPBACK.fullmatch(urlsplit(url).hostname or "") is not None
    except ValueError:
        return False


def sent_openly(url: str) -> bool:
    """Tell whether what is sent there can be read on the way: plain HTTP to another machine."""
    return url[:8].lower() != "https://" and not is_loopback(url)


def origin_of(url: str) -> str:
    """Return scheme, host and port, without credentials: what messages may show."""
    scheme, found, rest = url.partition("://")
    if not found:
        return "an address without http:// or https://"
    return f"{scheme.lower()}://{re.split('[/?#]', rest, maxsplit=1)[0].rpartition('@')[2]}"


def load_httpx() -> None:
    """Import httpx without its command line (click, rich and pygments: 50 ms) and without HTTP/2 (13 ms).

    None in sys.modules makes an import fail as if the module did not exist, which httpx and httpcore are prepared
    for. httpcore tries again when a connection really speaks HTTP/2.
    """
    if "httpx" in sys.modules:
        return
    modules = cast("dict[str, Any]", sys.modules)
    left_out = [name for name in ("httpx._main", "h2") if name not in modules]
    modules.update(dict.fromkeys(left_out))
    try:
        importlib.import_module("httpx")
        importlib.import_module("httpcore")
    finally:
        for name in left_out:
            modules.pop(name, None)


class Lane:
    """A client with at most one connection, whose socket is known."""

    __slots__ = ("client", "idle_since", "key", "socket")

    def __init__(self, client: httpx.Client, key: str) -> None:
        self.client = client
        self.key = key
        self.socket: socket.socket | None = None
        self.idle_since = 0.0


class Lanes:
    """Idle lanes by origin; those idle for longer than IDLE_LIMIT are closed when the next one is taken."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[Lane] = []
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._closed = False

    def take(self, url: str) -> Lane:
        key = origin_of(url)
        now = self._clock()
        with self._lock:
            if self._closed:
                raise NotConnected("the program is shutting down")
            stale = [lane for lane in self._idle if now - lane.idle_since >= IDLE_LIMIT]
            self._idle = [lane for lane in self._idle if now - lane.idle_since < IDLE_LIMIT]
            found = next((lane for lane in reversed(self._idle) if lane.key == key), None)
            if found is not None:
                self._idle.remove(found)
        for lane in stale:
            lane.client.close()
        return found or Lane(self._client(url), key)

    def give(self, lane: Lane) -> None:
        lane.idle_since = self._clock()
        with self._lock:
            if not self._closed:
                self._idle.append(lane)
                return
        lane.client.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for lane in idle:
            lane.client.close()

    def _client(self, url: str) -> httpx.Client:
        from http.cookiejar import CookieJar, DefaultCookiePolicy

        import httpx

        return httpx.Client(
            verify=self._context("https" if url[:6].lower() == "https:" else "http"),
            trust_env=not is_loopback(url),
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=IDLE_LIMIT),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )

    def _context(self, scheme: str) -> ssl.SSLContext:
        """Loading the certificate authorities takes 20 ms; without them a context trusts nobody."""
        import ssl

        import httpx

        with self._lock:
            context = self._contexts.get(scheme)
            if context is None:
                https = scheme == "https"
                context = httpx.create_ssl_context() if https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                self._contexts[scheme] = context
            return context


class Exchange:
    """One request, made by the thread that calls `run`; any other thread may abort it."""

    def __init__(self, lanes: Lanes, ask: Ask) -> None:
        self.aborted = False
        self._lanes = lanes
        self._ask = ask
        self._lock = threading.Lock()
        self._lane: Lane | None = None
        self._sent = False

    def run(self, head: Callable[[int, Mapping[str, str]], None], piece: Callable[[bytes], None]) -> None:
        """Hand over status and headers (names in lower case), then each piece of the decoded body."""
        load_httpx()
        import httpx

        try:
            headers = _header_bytes(self._ask.headers)
            self._with_lane(lambda lane: self._read(lane, headers, head, piece))
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise self.failure(_text(error, self._ask)) from error
        except (OSError, ValueError, ImportError) as error:
            # Raised by a proxy or certificate setting that cannot be used.
            raise self.failure(f"cannot reach {origin_of(self._ask.url)}: {_plain(error)}") from error

    def abort(self) -> None:
        """Shut the socket, which wakes the thread wherever it waits; harmless when the request is over."""
        with self._lock:
            self.aborted = True
            if self._lane is not None:
                _shut(self._lane.socket)

    def failure(self, text: str) -> NetError:
        """Make the error that says whether the request may have been received."""
        return Interrupted(text) if self._sent else NotConnected(text)

    def _with_lane(self, use: Callable[[Lane], None]) -> None:
        lane = self._lanes.take(self._ask.url)
        with self._lock:
            self._lane = lane
        whole = False
        try:
            use(lane)
            whole = True
        finally:
            with self._lock:
                self._lane = None
                whole = whole and not self.aborted
            if whole:
                self._lanes.give(lane)
            else:
                lane.client.close()

    def _read(
        self,
        lane: Lane,
        headers: list[tuple[bytes, bytes]],
        head: Callable[[int, Mapping[str, str]], None],
        piece: Callable[[bytes], None],
    ) -> None:
        import httpx

        ask = self._ask
        request = lane.client.build_request(
            ask.method,
            ask.url,
            headers=headers,
            content=ask.body,
            timeout=httpx.Timeout(ask.timeout, connect=min(ask.timeout, CONNECT_TIMEOUT)),
            extensions={"trace": self._trace},
        )
        response = lane.client.send(request, stream=True)
        try:
            head(response.status_code, {name.lower(): value for name, value in response.headers.items()})
            for part in response.iter_bytes():
                piece(part)
        finally:
            response.close()

    def _trace(self, name: str, info: Mapping[str, Any]) -> None:
        if name.endswith((".connect_tcp.complete", ".start_tls.complete")):
            with self._lock:
                if self._lane is not None:
                    self._lane.socket = info["return_value"].get_extra_info("socket")
                    if self.aborted:
                        _shut(self._lane.socket)
        elif name.endswith(".send_request_headers.started") and info["request"].method != b"CONNECT":
            self._sent = True


def _shut(connection: socket.socket | None) -> None:
    """Shut it below TLS: an SSLSocket's own method would drop the state that the reading thread still uses."""
    if connection is not None:
        with suppress(OSError):
            socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _header_bytes(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    for name, value in headers.items():
        text = name + value
        if not (text.isascii() and text.isprintable()) and re.search(_BAD_HEADER, text):
            raise NotConnected(f"the value of the header {name!r} has a character that HTTP does not allow")
    return [(name.encode(), value.strip().encode()) for name, value in headers.items()]


def _text(error: Exception, ask: Ask) -> str:
    """Say what happened. A LocalProtocolError quotes the header, which may be a key, so its text is not used."""
    import httpx

    where = origin_of(ask.url) if "://" in ask.url else "an endpoint without http:// or https://"
    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection to {where} within {min(ask.timeout, CONNECT_TIMEOUT):g} s"
    if isinstance(error, httpx.TimeoutException):
        return f"{where} was silent for {ask.timeout:g} s"
    if isinstance(error, httpx.LocalProtocolError):
        return f"the request to {where} is not valid HTTP"
    if isinstance(error, (httpx.ConnectError, httpx.ProxyError, httpx.InvalidURL, httpx.UnsupportedProtocol)):
        return f"cannot connect to {where}: {_plain(error)}"
    return f"the connection to {where} broke: {_plain(error)}"


def _plain(error: Exception) -> str:
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
