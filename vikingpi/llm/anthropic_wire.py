"""The messages API over HTTP, streamed. Source: the public reference of Anthropic's API."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator

from vikingpi import __version__
from vikingpi.decode import Json, as_dict, as_int, as_list, as_str
from vikingpi.errors import BadResponse
from vikingpi.llm.anthropic_body import build_messages_body
from vikingpi.llm.base import CallDelta, Delta, Finish, Model, Request, TextDelta, ThinkingDelta, UsageDelta
from vikingpi.llm.cost import priced
from vikingpi.llm.failures import provider_error, said_by
from vikingpi.llm.http_stream import Post, ended_early, no_json, refuse_page, stream_answer
from vikingpi.llm.openai_body import encode
from vikingpi.messages import StopReason, Usage
from vikingpi.net import Transport

VERSION = "2023-06-01"

_INTERLEAVED = "interleaved-thinking-2025-05-14"
_REASONS: dict[str, StopReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
}
# An error inside a stream has a type and no status; these are the statuses that the reference gives for them.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class AnthropicWire:
    """Provider for every endpoint that speaks the messages API."""

    def __init__(self, transport: Transport, clock: Callable[[], float] = time.time) -> None:
        self._transport = transport
        self._clock = clock

    def stream(self, model: Model, request: Request) -> AsyncGenerator[Delta]:
        """Make one request and yield its pieces."""
        body = build_messages_body(model, request)
        headers = request_headers(model, interleaved=as_dict(body.get("thinking")).get("type") == "enabled")
        post = Post(messages_url(model.base_url), headers, encode(body))
        return stream_answer(self._transport, model, post, MessagesAnswer(model, self._clock), self._clock)


def messages_url(base_url: str) -> str:
    """Return the endpoint; a base URL is written with or without its `/v1`."""
    base = base_url.rstrip("/")
    return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"


def request_headers(model: Model, *, interleaved: bool = False) -> dict[str, str]:
    """Return the headers; those of the model's configuration win.

    The key goes into `x-api-key`; into `authorization` for `authHeader: true` and for a token of a gateway.
    """
    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "user-agent": f"vpi/{__version__}",
        "anthropic-version": VERSION,
    }
    if interleaved:
        headers["anthropic-beta"] = _INTERLEAVED
    if model.api_key and (model.compat.get("authHeader") is True or model.key_source == "$ANTHROPIC_AUTH_TOKEN"):
        headers["authorization"] = f"Bearer {model.api_key}"
    elif model.api_key:
        headers["x-api-key"] = model.api_key
    return {**headers, **{name.lower(): value for name, value in model.headers.items()}}


class _Block:
    """A content block that is being received; `given` when a call came with its arguments at its start."""

    __slots__ = ("given", "key", "kind", "signature", "spoken")

    def __init__(self, key: str, block: Json) -> None:
        self.key = key
        self.kind = as_str(block.get("type"))
        self.given = as_dict(block.get("input"))
        self.signature = as_str(block.get("signature"))
        self.spoken = False


class MessagesAnswer:
    """Turns the events of one answer into deltas."""

    def __init__(self, model: Model, clock: Callable[[], float]) -> None:
        self.done = False
        self._model = model
        self._clock = clock
        self._blocks: dict[int, _Block] = {}
        self._reason = ""
        self._id: str | None = None
        self._usage: Json = {}

    @property
    def finished(self) -> bool:
        return bool(self._reason)

    def event(self, data: str) -> Iterator[Delta]:
        """Take the data of one event; kinds that are not known are passed over, as the reference asks."""
        if self.done or not data.strip() or data.strip() == "[DONE]":
            return
        try:
            value: object = json.loads(data)
        except (ValueError, RecursionError):
            raise no_json(self._model, data) from None
        event = as_dict(value)
        match event.get("type"):
            case "message_start":
                yield from self._begin(as_dict(event.get("message")))
            case "content_block_start":
                yield from self._open(as_int(event.get("index")), as_dict(event.get("content_block")))
            case "content_block_delta":
                yield from self._piece(as_int(event.get("index")), as_dict(event.get("delta")))
            case "content_block_stop":
                yield from self._close(as_int(event.get("index")))
            case "message_delta":
                self._reason = as_str(as_dict(event.get("delta")).get("stop_reason")) or self._reason
                yield from self._count(as_dict(event.get("usage")))
            case "message_stop":
                self.done = True
            case _ if event.get("error"):
                status = _STATUS.get(as_str(as_dict(event.get("error")).get("type")), 0)
                raise provider_error(self._model, said_by(event, status), self._clock())
            case _:
                pass

    def whole(self, body: bytes) -> Iterator[Delta]:
        """Take an answer that was not streamed; a web page is none."""
        refuse_page(self._model, body)
        text = body.decode("utf-8", "replace")
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError):
            raise no_json(self._model, text) from None
        message = as_dict(value)
        if message.get("type") != "message":
            yield from self.event(text)
            return
        yield from self._begin(message)
        for index, item in enumerate(as_list(message.get("content"))):
            yield from self._open(index, as_dict(item))
            yield from self._close(index)
        self._reason = as_str(message.get("stop_reason"))

    def end(self) -> Iterator[Delta]:
        """Finish, or raise where the stream ended too early or was stopped by the provider."""
        if not self._reason:
            raise ended_early(self._model)
        if self._reason == "refusal":
            raise BadResponse(
                f"{self._model.provider} stopped the answer (refusal)", hint="rephrase the request or use another model"
            )
        for index in tuple(self._blocks):
            yield from self._close(index)
        yield Finish(_REASONS.get(self._reason, "stop"), self._reason, self._id)

    def _begin(self, message: Json) -> Iterator[Delta]:
        self._id = as_str(message.get("id")) or None
        yield from self._count(as_dict(message.get("usage")))

    def _open(self, index: int, block: Json) -> Iterator[Delta]:
        opened = self._blocks[index] = _Block(str(index), block)
        match opened.kind:
            case "text":
                yield TextDelta(as_str(block.get("text")))
            case "thinking":
                yield ThinkingDelta(as_str(block.get("thinking")))
            case "redacted_thinking":
                yield ThinkingDelta("", as_str(block.get("data")), redacted=True)
            case "tool_use":
                yield CallDelta(opened.key, as_str(block.get("id")), as_str(block.get("name")))
            case _:
                pass

    def _piece(self, index: int, delta: Json) -> Iterator[Delta]:
        """A piece of a block whose start was left out tells by itself what it belongs to."""
        block = self._blocks.setdefault(index, _Block(str(index), {}))
        match delta.get("type"):
            case "text_delta":
                yield TextDelta(as_str(delta.get("text")))
            case "thinking_delta":
                block.kind = "thinking"
                yield ThinkingDelta(as_str(delta.get("thinking")))
            case "signature_delta":
                block.kind = "thinking"
                block.signature += as_str(delta.get("signature"))
            case "input_json_delta" if block.kind == "tool_use":
                piece = as_str(delta.get("partial_json"))
                block.spoken = block.spoken or bool(piece)
                yield CallDelta(block.key, arguments=piece)
            case _:
                pass

    def _close(self, index: int) -> Iterator[Delta]:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        if block.kind == "thinking" and block.signature:
            yield ThinkingDelta("", block.signature)
        if block.kind == "tool_use" and block.given and not block.spoken:
            yield CallDelta(block.key, arguments=json.dumps(block.given, ensure_ascii=False))

    def _count(self, usage: Json) -> Iterator[Delta]:
        """Figures are totals so far; those that a later event leaves out, or gives as null or 0, stay."""
        self._usage.update({name: value for name, value in usage.items() if value})
        counted = read_usage(self._usage, self._model)
        if counted is not None:
            yield UsageDelta(counted)


def read_usage(usage: Json, model: Model) -> Usage | None:
    """Read token counts; None where there are none, or only zeros."""
    fresh, output = as_int(usage.get("input_tokens")), as_int(usage.get("output_tokens"))
    read = as_int(usage.get("cache_read_input_tokens"))
    written = as_int(usage.get("cache_creation_input_tokens"))
    thought = as_int(as_dict(usage.get("output_tokens_details")).get("thinking_tokens"))
    if min(fresh, output, read, written) < 0 or not fresh + output + read + written:
        return None
    return priced(Usage(fresh, output, read, written, max(0, thought)), model.price)
