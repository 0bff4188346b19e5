"""One streamed answer over HTTP, whichever wire it is: from the request to deltas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from typing import Protocol

from vikingpi.errors import BadResponse, Interrupted, NetError
from vikingpi.llm.base import Delta, Model
from vikingpi.llm.failures import net_error, provider_error, read_error
from vikingpi.llm.sse import Decoder
from vikingpi.net import StreamReply, Transport
from vikingpi.values import NamedTuple

SILENCE = 600.0
AFTER_FINISH = 5.0

_BODY_LIMIT = 16 * 1024 * 1024
_ERROR_LIMIT = 1024 * 1024


class Post(NamedTuple):
    """A request that is ready to be sent."""

    url: str
    headers: Mapping[str, str]
    body: bytes


class Answer(Protocol):
    """Turns one answer into deltas. `done` after the end marker, `finished` once the reason for the end is known."""

    @property
    def done(self) -> bool: ...

    @property
    def finished(self) -> bool: ...

    def event(self, data: str) -> Iterator[Delta]:
        """Take the data of one event."""
        ...

    def whole(self, body: bytes) -> Iterator[Delta]:
        """Take an answer that was not streamed."""
        ...

    def end(self) -> Iterator[Delta]:
        """Finish, or raise where the stream ended too early or was stopped by the provider."""
        ...


async def stream_answer(
    transport: Transport, model: Model, post: Post, answer: Answer, clock: Callable[[], float]
) -> AsyncGenerator[Delta]:
    """Make one request and yield its pieces; a finished answer is not held up by a missing end marker."""
    answered = False
    try:
        async with transport.stream("POST", post.url, headers=post.headers, body=post.body, timeout=SILENCE) as reply:
            if reply.status != 200:
                text = await _read(reply, _ERROR_LIMIT)
                raise provider_error(model, read_error(reply.status, reply.headers, text), clock())
            answered = True
            async for delta in _deltas(answer, reply):
                yield delta
    except NetError as error:
        raise net_error(model, error, answered=answered) from error


def refuse_page(model: Model, body: bytes) -> None:
    """Raise BadResponse for a web page in the place of an answer."""
    if body.lstrip().startswith(b"<"):
        page = read_error(200, {}, body).text
        raise BadResponse(
            f"{model.provider} answered with a web page: {page}",
            hint=f"check the base URL {model.base_url} (it often ends with /v1)",
        )


def no_json(model: Model, data: str) -> BadResponse:
    """Make the error for an event that is none."""
    return BadResponse(f"{model.provider} sent a piece that is no JSON: {data[:80]!r}", retryable=True)


def ended_early(model: Model) -> BadResponse:
    """Make the error for a stream without a finish marker."""
    return BadResponse(f"the answer of {model.provider} ended before its finish marker", retryable=True)


async def _deltas(answer: Answer, reply: StreamReply) -> AsyncIterator[Delta]:
    """The first byte tells events from a whole JSON answer or a web page: content types are not to be trusted."""
    pieces = _pieces(answer, reply)
    begin = b""
    while not begin.strip() and (piece := await anext(pieces, b"")):
        begin += piece
    if begin.lstrip()[:1] in (b"{", b"[", b"<"):
        async for piece in pieces:
            begin += piece[:_BODY_LIMIT]
            if len(begin) > _BODY_LIMIT:
                raise BadResponse(f"the answer is larger than {_BODY_LIMIT // 1024} KiB")
        for delta in answer.whole(begin):
            yield delta
    else:
        async for delta in _events(answer, begin, pieces):
            yield delta
    for delta in answer.end():
        yield delta


async def _events(answer: Answer, begin: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[Delta]:
    decoder = Decoder()
    for event in decoder.feed(begin):
        for delta in answer.event(event.data):
            yield delta
    while not answer.done and (piece := await anext(pieces, b"")):
        for event in decoder.feed(piece):
            for delta in answer.event(event.data):
                yield delta
    for event in decoder.close():
        for delta in answer.event(event.data):
            yield delta


async def _pieces(answer: Answer, reply: StreamReply) -> AsyncIterator[bytes]:
    """Yield the body; once the answer is finished, silence or a broken connection only ends it."""
    chunks = reply.chunks()
    while True:
        try:
            async with asyncio.timeout(AFTER_FINISH if answer.finished else None):
                piece = await anext(chunks, b"")
        except (TimeoutError, Interrupted):
            if not answer.finished:
                raise
            return
        if not piece:
            return
        yield piece


async def _read(reply: StreamReply, limit: int) -> bytes:
    out = b""
    async for piece in reply.chunks():
        out += piece
        if len(out) > limit:
            break
    return out[:limit]
