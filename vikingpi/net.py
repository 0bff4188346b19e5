"""HTTP for everybody, as an async interface.

Each request runs in a daemon thread of its own: a sync client starts sooner than an async one, and a thread that
hangs does not hold the process at its exit.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import MappingProxyType
from typing import Protocol

from vikingpi.errors import Interrupted, NetError
from vikingpi.http_thread import Ask, Exchange, Lanes, origin_of
from vikingpi.values import NamedTuple

BODY_LIMIT = 64 * 1024 * 1024

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_LINGER = 0.1
_ROOM = 64


class Reply(NamedTuple):
    """A whole answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class StreamReply(Protocol):
    """An answer whose body is read piece by piece."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the decoded body as it arrives; raise Interrupted when it breaks off."""
        ...


class Transport(Protocol):
    """Requests to any host. Raises NotConnected when nothing was sent, Interrupted when something may have been.

    Redirects are not followed. Cancelling the task that waits closes the connection.
    """

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes | None = None,
        timeout: float = 40,
        limit: int = BODY_LIMIT,
    ) -> Reply:
        """Make a request and read the answer; `timeout` (s) covers all of it, `limit` (bytes) its body."""
        ...

    def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes | None = None,
        timeout: float = 40,
    ) -> AbstractAsyncContextManager[StreamReply]:
        """Make a request; `timeout` (s) bounds each wait for more bytes. Leaving the block ends the request."""
        ...

    async def close(self) -> None:
        """End what is running and close every connection."""
        ...


class HttpTransport:
    """The real Transport: HTTP/1.1, proxies from the environment (never for loopback), certificates checked."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lanes = Lanes(clock)
        self._calls: set[_Call] = set()

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes | None = None,
        timeout: float = 40,
        limit: int = BODY_LIMIT,
    ) -> Reply:
        """Make a request and read the whole answer."""
        call = _Call(self._lanes, Ask(method, url, headers, body, timeout))
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(timeout), self._running(call):
                async for piece in call.chunks():
                    size += len(piece)
                    if size > limit:
                        raise Interrupted(
                            f"the answer of {origin_of(url)} is larger than {limit // 1024} KiB and was not read"
                        )
                    pieces.append(piece)
        except TimeoutError:
            raise call.exchange.failure(f"no answer from {origin_of(url)} within {timeout:g} s") from None
        return Reply(call.status, call.headers, b"".join(pieces))

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes | None = None,
        timeout: float = 40,
    ) -> AsyncGenerator[StreamReply]:
        """Make a request whose answer is read piece by piece."""
        plain = {"accept-encoding": "identity", **headers}
        call = _Call(self._lanes, Ask(method, url, plain, body, timeout))
        async with self._running(call):
            yield call

    async def close(self) -> None:
        """End the calls in flight and close the connections; wait for the threads, but not for long."""
        calls = tuple(self._calls)
        for call in calls:
            call.abort()
        self._lanes.close()
        for _ in range(50):
            if not any(call.alive for call in calls):
                break
            await asyncio.sleep(0.01)

    @asynccontextmanager
    async def _running(self, call: _Call) -> AsyncGenerator[None]:
        self._calls.add(call)
        try:
            await call.start()
            yield
            await call.linger()
        finally:
            call.abort()
            self._calls.discard(call)


class _Head(NamedTuple):
    status: int
    headers: Mapping[str, str]


class _Stopped(Exception):
    """The call was given up; its thread has nobody to report to."""


class _Call:
    """One request in its own thread, and the answer as it arrives."""

    def __init__(self, lanes: Lanes, ask: Ask) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = _NO_HEADERS
        self.exchange = Exchange(lanes, ask)
        self._origin = origin_of(ask.url)
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[_Head | bytes | NetError | None] = asyncio.Queue()
        self._room = threading.Semaphore(_ROOM)
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="vpi-http", daemon=True)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    async def start(self) -> None:
        """Begin, and wait for status and headers."""
        self._thread.start()
        head = await self._items.get()
        if isinstance(head, NetError):
            raise head
        if not isinstance(head, _Head):
            raise self.exchange.failure(f"{self._origin} gave no answer")
        self.status, self.headers = head

    async def chunks(self) -> AsyncIterator[bytes]:
        while not self._ended:
            item = await self._items.get()
            if isinstance(item, bytes):
                self._room.release()
                yield item
                continue
            self._ended = True
            if isinstance(item, NetError):
                raise item

    async def linger(self) -> None:
        """Give the rest of a body a moment to arrive: only a connection that was read to its end is kept."""
        with suppress(TimeoutError, NetError):
            async with asyncio.timeout(_LINGER):
                async for _ in self.chunks():
                    pass

    def abort(self) -> None:
        self.exchange.abort()
        self._room.release()

    def _work(self) -> None:
        with suppress(_Stopped):
            try:
                self.exchange.run(lambda status, headers: self._post(_Head(status, headers)), self._piece)
            except NetError as error:
                self._post(error)
            finally:
                self._post(None)

    def _piece(self, piece: bytes) -> None:
        self._room.acquire()
        self._post(piece)

    def _post(self, item: _Head | bytes | NetError | None) -> None:
        if self.exchange.aborted:
            raise _Stopped
        try:
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)
        except RuntimeError:  # the loop is closed
            raise _Stopped from None
