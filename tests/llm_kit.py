"""A Transport for the tests of the wires that needs no network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from vikingpi.errors import Interrupted
from vikingpi.net import Reply, StreamReply


class Canned:
    """A Transport that plays one answer; a `None` piece breaks the connection."""

    def __init__(
        self, pieces: Sequence[bytes | None], status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.asked: list[tuple[str, str, Mapping[str, str], bytes | None]] = []
        self.status = status
        self.headers: Mapping[str, str] = headers or {"content-type": "text/event-stream"}
        self._pieces = pieces

    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float = 40,
        limit: int = 0,
    ) -> Reply:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float = 40,
    ) -> AsyncGenerator[StreamReply]:
        self.asked.append((method, url, headers or {}, body))
        yield self

    async def chunks(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if piece is None:
                raise Interrupted("the connection to http://model.test broke: peer closed connection")
            yield piece

    async def close(self) -> None:
        pass
