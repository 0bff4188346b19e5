"""Chat completions over HTTP, streamed. Source: the public chat completions reference."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator

from vikingpi import __version__
from vikingpi.decode import Json, as_dict, as_float, as_int, as_list, as_str
from vikingpi.errors import BadResponse, Interrupted, NetError
from vikingpi.llm.base import Delta, Finish, Model, Request, TextDelta, ThinkingDelta, UsageDelta
from vikingpi.llm.cost import priced
from vikingpi.llm.failures import net_error, provider_error, read_error, said_by
from vikingpi.llm.openai_body import REASONING_FIELDS, build_body, encode
from vikingpi.llm.sse import Decoder
from vikingpi.llm.tool_pieces import CallPieces
from vikingpi.messages import Cost, StopReason, Usage
from vikingpi.net import StreamReply, Transport

SILENCE = 600.0
AFTER_FINISH = 5.0

_BODY_LIMIT = 16 * 1024 * 1024
_ERROR_LIMIT = 1024 * 1024
_REASONS: dict[str, StopReason] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "toolUse",
    "tool_use": "toolUse",
    "function_call": "toolUse",
}


class OpenAIWire:
    """Provider for every endpoint that speaks chat completions."""

    def __init__(self, transport: Transport, clock: Callable[[], float] = time.time) -> None:
        self._transport = transport
        self._clock = clock

    async def stream(self, model: Model, request: Request) -> AsyncGenerator[Delta]:
        """Make one request and yield its pieces; a finished answer is not held up by a missing end marker."""
        url = model.base_url.rstrip("/") + "/chat/completions"
        body = encode(build_body(model, request))
        answered = False
        try:
            async with self._transport.stream(
                "POST", url, headers=request_headers(model), body=body, timeout=SILENCE
            ) as reply:
                if reply.status != 200:
                    text = await _read(reply, _ERROR_LIMIT)
                    raise provider_error(model, read_error(reply.status, reply.headers, text), self._clock())
                answered = True
                answer = Answer(model, self._clock)
                async for delta in _deltas(answer, reply):
                    yield delta
        except NetError as error:
            raise net_error(model, error, answered=answered) from error


def request_headers(model: Model) -> dict[str, str]:
    """Return the headers; those of the model's configuration win."""
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "user-agent": f"vpi/{__version__}",
    }
    if model.api_key:
        headers["authorization"] = f"Bearer {model.api_key}"
    return {**headers, **{name.lower(): value for name, value in model.headers.items()}}


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


class Answer:
    """Turns the chunks of one answer into deltas. `done` after the end marker, `finished` after a finish reason."""

    def __init__(self, model: Model, clock: Callable[[], float]) -> None:
        self.done = False
        self._model = model
        self._clock = clock
        self._calls = CallPieces()
        self._reason = ""
        self._id: str | None = None

    @property
    def finished(self) -> bool:
        return bool(self._reason)

    def event(self, data: str) -> Iterator[Delta]:
        """Take the data of one event."""
        if self.done or not data.strip():
            return
        if data.strip() == "[DONE]":
            self.done = True
            return
        try:
            value: object = json.loads(data)
        except (ValueError, RecursionError):
            raise BadResponse(
                f"{self._model.provider} sent a piece that is no JSON: {data[:80]!r}", retryable=True
            ) from None
        yield from self.chunk(as_dict(value))

    def whole(self, body: bytes) -> Iterator[Delta]:
        """Take an answer that was not streamed; a web page is none."""
        if body.lstrip().startswith(b"<"):
            page = read_error(200, {}, body).text
            raise BadResponse(
                f"{self._model.provider} answered with a web page: {page}",
                hint=f"check the base URL {self._model.base_url} (it often ends with /v1)",
            )
        yield from self.event(body.decode("utf-8", "replace"))

    def chunk(self, chunk: Json) -> Iterator[Delta]:
        """Take one decoded chunk."""
        if chunk.get("error"):
            raise provider_error(self._model, said_by(chunk), self._clock())
        self._id = self._id or as_str(chunk.get("id")) or None
        choices = as_list(chunk.get("choices"))
        choice = as_dict(choices[0]) if choices else {}
        if choice.get("error"):
            raise provider_error(self._model, said_by(choice), self._clock())
        delta = as_dict(choice.get("delta")) or as_dict(choice.get("message"))
        yield from self._thinking(delta)
        yield from _content(delta)
        for piece in as_list(delta.get("tool_calls")):
            yield self._calls.take(as_dict(piece))
        if isinstance(delta.get("function_call"), dict):
            yield self._calls.take({"index": 0, "function": delta["function_call"]})
        self._reason = as_str(choice.get("finish_reason")) or self._reason
        usage = read_usage(as_dict(chunk.get("usage")) or as_dict(choice.get("usage")), self._model)
        if usage is not None:
            yield UsageDelta(usage)

    def end(self) -> Iterator[Delta]:
        """Finish, or raise where the stream ended too early or was stopped by the provider."""
        where = self._model.provider
        if not self._reason:
            raise BadResponse(f"the answer of {where} ended before its finish marker", retryable=True)
        word = self._reason.lower()
        if word in ("content_filter", "safety", "recitation"):
            raise BadResponse(f"{where} stopped the answer ({self._reason})", hint="rephrase the request")
        if word in ("error", "network_error"):
            raise BadResponse(f"{where} broke the answer off ({self._reason})", retryable=True)
        yield Finish(_REASONS.get(word, "stop"), self._reason, self._id)

    def _thinking(self, delta: Json) -> Iterator[Delta]:
        own = as_str(self._model.compat.get("reasoningField"))
        for field in (own, *REASONING_FIELDS):
            text = as_str(delta.get(field)) if field else ""
            if text:
                yield ThinkingDelta(text, field)
                return


def _content(delta: Json) -> Iterator[Delta]:
    content = delta.get("content")
    text = as_str(content) or as_str(delta.get("refusal"))
    if text:
        yield TextDelta(text)
    for item in as_list(content):
        part = as_dict(item)
        if part.get("type") == "text" and as_str(part.get("text")):
            yield TextDelta(as_str(part.get("text")))
        for thought in as_list(part.get("thinking")):
            if as_str(as_dict(thought).get("text")):
                yield ThinkingDelta(as_str(as_dict(thought).get("text")))


def read_usage(usage: Json, model: Model) -> Usage | None:
    """Read token counts; None where there are none, or only zeros."""
    prompt, output = as_int(usage.get("prompt_tokens")), as_int(usage.get("completion_tokens"))
    details = as_dict(usage.get("prompt_tokens_details"))
    read = as_int(details.get("cached_tokens")) or as_int(usage.get("prompt_cache_hit_tokens"))
    written = as_int(details.get("cache_write_tokens")) or as_int(usage.get("cache_creation_input_tokens"))
    reasoning = as_int(as_dict(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    total = as_int(usage.get("total_tokens"))
    if reasoning and total == prompt + output + reasoning:
        output += reasoning  # some providers count reasoning beside the completion, not in it
    if total and not prompt:
        prompt = max(0, total - output)
    if min(prompt, output, read, written) < 0 or not prompt + output:
        return None
    fresh = max(0, prompt - read - written)
    counted = priced(Usage(fresh, output, read, written, reasoning), model.price)
    charged = as_float(usage.get("cost"))
    if charged > 0 and not counted.cost.total:
        return counted._replace(cost=Cost(input=charged))
    return counted
