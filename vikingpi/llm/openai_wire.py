"""Chat completions over HTTP, streamed. Source: the public chat completions reference."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator

from vikingpi import __version__
from vikingpi.decode import Json, as_dict, as_float, as_int, as_list, as_str
from vikingpi.errors import BadResponse
from vikingpi.llm.base import Delta, Finish, Model, Request, TextDelta, ThinkingDelta, UsageDelta
from vikingpi.llm.cost import priced
from vikingpi.llm.failures import provider_error, said_by
from vikingpi.llm.http_stream import Post, ended_early, no_json, refuse_page, stream_answer
from vikingpi.llm.openai_body import REASONING_FIELDS, build_body, encode
from vikingpi.llm.tool_pieces import CallPieces
from vikingpi.messages import Cost, StopReason, Usage
from vikingpi.net import Transport

_REASONS: dict[str, StopReason] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "toolUse",
    "tool_use": "toolUse",
    "function_call": "toolUse",
}
# Words of OpenAI, Azure, Gemini, GLM; then those of servers that gave up half-way.
_STOPPED = "content_filter|(image_)?safety|recitation|prohibited_content|blocklist|spii|language|sensitive|refusal"
_BROKEN = "(network_)?error|insufficient_system_resource|malformed_function_call|unexpected_tool_call|abort"


class OpenAIWire:
    """Provider for every endpoint that speaks chat completions."""

    def __init__(self, transport: Transport, clock: Callable[[], float] = time.time) -> None:
        self._transport = transport
        self._clock = clock

    def stream(self, model: Model, request: Request) -> AsyncGenerator[Delta]:
        """Make one request and yield its pieces."""
        url = model.base_url.rstrip("/") + "/chat/completions"
        post = Post(url, request_headers(model), encode(build_body(model, request)))
        return stream_answer(self._transport, model, post, Answer(model, self._clock), self._clock)


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
            raise no_json(self._model, data) from None
        yield from self.chunk(as_dict(value))

    def whole(self, body: bytes) -> Iterator[Delta]:
        """Take an answer that was not streamed; a web page is none."""
        refuse_page(self._model, body)
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
            raise ended_early(self._model)
        word = self._reason.lower()
        if re.fullmatch(_STOPPED, word):
            told = f"{where} stopped the answer ({self._reason})"
            raise BadResponse(told, hint="rephrase the request or use another model")
        if re.fullmatch(_BROKEN, word):
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
    """Read token counts; None where there are none, or only zeros. Some servers count what was cached apart."""
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
    cached = read + written
    apart = cached > prompt or (cached and total == prompt + cached + output)
    fresh = prompt if apart else prompt - cached
    counted = priced(Usage(fresh, output, read, written, reasoning), model.price)
    charged = as_float(usage.get("cost"))
    if charged > 0 and not counted.cost.total:
        return counted._replace(cost=Cost(input=charged))
    return counted
