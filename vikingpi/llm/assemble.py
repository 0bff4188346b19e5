"""Builds the assistant message of one response from its deltas and says what each delta changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import NoReturn

from vikingpi.decode import Json, as_dict
from vikingpi.errors import BadResponse
from vikingpi.events import DeltaKind, MessageUpdate
from vikingpi.llm.base import CallDelta, Delta, Finish, Model, TextDelta, ThinkingDelta, UsageDelta
from vikingpi.messages import AssistantMessage, StopReason, TextPart, ThinkingPart, ToolCall, Usage
from vikingpi.values import NamedTuple

MOST_CHARACTERS = 16 * 1024 * 1024
_PIECE = 8  # what a piece counts for beside its characters: many small ones need memory too


class _Kinds(NamedTuple):
    start: DeltaKind
    delta: DeltaKind
    end: DeltaKind


_TEXT = _Kinds("text_start", "text_delta", "text_end")
_THINKING = _Kinds("thinking_start", "thinking_delta", "thinking_end")


class _Text:
    """A text or thinking block; pieces are joined once, at its end."""

    __slots__ = ("pieces", "redacted", "signature", "thinking")

    def __init__(self, thinking: bool, redacted: bool) -> None:
        self.thinking = thinking
        self.redacted = redacted
        self.pieces: list[str] = []
        self.signature: str | None = None

    @property
    def kinds(self) -> _Kinds:
        return _THINKING if self.thinking else _TEXT

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def part(self) -> TextPart | ThinkingPart:
        return ThinkingPart(self.text, self.signature, self.redacted) if self.thinking else TextPart(self.text)


class _Call:
    __slots__ = ("id", "name", "pieces", "shown")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.shown = False

    def so_far(self) -> ToolCall:
        return ToolCall(self.id, self.name, {})

    def part(self) -> ToolCall:
        arguments, broken = parse_arguments("".join(self.pieces))
        return ToolCall(self.id, self.name, arguments, broken)


class MessageBuilder:
    """Feed every delta, then call `finish`, or `partial` when the stream broke or was aborted.

    Pieces of text and thinking carry the piece in `text`, their `_end` the whole block. A `toolcall_start`
    carries a call with id and name, a `toolcall_delta` a piece of the arguments, a `toolcall_end` the whole
    call. Calls end when Finish is fed, because their pieces may alternate.
    """

    def __init__(self, model: Model, thinking_level: str, now_ms: Callable[[], int]) -> None:
        self._model = model
        self._level = thinking_level
        self._now = now_ms
        self._started = now_ms()
        self._blocks: list[_Text | _Call] = []
        self._calls: dict[str, int] = {}
        self._open: int | None = None
        self._usage: Usage | None = None
        self._finish: Finish | None = None
        self._size = 0

    def feed(self, delta: Delta) -> tuple[MessageUpdate, ...]:
        """Take one delta and return what it changed, in order; raise BadResponse for an answer that does not end."""
        match delta:
            case TextDelta(text):
                self._grow(text)
                return self._feed_text(text) if text else ()
            case ThinkingDelta(text, signature):
                self._grow(text)
                return self._feed_text(text, delta) if text or signature else ()
            case CallDelta():
                self._grow(delta.arguments)
                return self._feed_call(delta)
            case UsageDelta(usage):
                self._usage = usage
                return ()
            case Finish():
                self._finish = delta
                return self._close_text() + self._close_calls()

    def finish(self) -> AssistantMessage:
        """Return the message; raise BadResponse where no finish marker came."""
        if self._finish is None:
            raise BadResponse("the answer ended before its finish marker", retryable=True)
        reason = self._finish.reason
        if reason in ("stop", "toolUse"):
            reason = "toolUse" if self._calls else "stop"
        return self._message(reason, None, with_calls=True)

    def partial(self, stop_reason: StopReason, error_message: str | None) -> AssistantMessage:
        """Return what came before an abort or an error, without any tool call."""
        return self._message(stop_reason, error_message, with_calls=False)

    def _message(self, reason: StopReason, error: str | None, *, with_calls: bool) -> AssistantMessage:
        parts = [block.part() for block in self._blocks if with_calls or isinstance(block, _Text)]
        now = self._now()
        return AssistantMessage(
            content=tuple(parts),
            api=self._model.api,
            provider=self._model.provider,
            model=self._model.id,
            usage=self._usage or Usage(),
            stop_reason=reason,
            timestamp=self._started,
            error_message=error,
            response_id=self._finish.response_id if self._finish else None,
            raw_stop_reason=self._finish.raw if self._finish else None,
            duration_ms=max(0, now - self._started),
            thinking_level=self._level,
        )

    def _grow(self, piece: str) -> None:
        self._size += len(piece) + _PIECE
        if self._size > MOST_CHARACTERS:
            raise BadResponse(
                f"the answer does not end: it is larger than {MOST_CHARACTERS // 1024**2} MiB",
                hint="limit the model's output with maxTokens in models.json, or choose another model",
            )

    def _feed_text(self, text: str, thought: ThinkingDelta | None = None) -> tuple[MessageUpdate, ...]:
        out: list[MessageUpdate] = []
        block = self._blocks[self._open] if self._open is not None else None
        redacted = thought is not None and thought.redacted
        if not isinstance(block, _Text) or block.thinking != (thought is not None) or redacted:
            out += self._close_text()
            block = _Text(thought is not None, redacted)
            self._open = len(self._blocks)
            self._blocks.append(block)
            out.append(MessageUpdate(block.kinds.start, self._open, usage=self._usage))
        if thought is not None and thought.signature is not None:
            block.signature = thought.signature
        if text:
            block.pieces.append(text)
            out.append(MessageUpdate(block.kinds.delta, len(self._blocks) - 1, text, usage=self._usage))
        else:
            out += self._close_text()
        return tuple(out)

    def _close_text(self) -> tuple[MessageUpdate, ...]:
        if self._open is None:
            return ()
        index, self._open = self._open, None
        block = self._blocks[index]
        assert isinstance(block, _Text)
        return (MessageUpdate(block.kinds.end, index, block.text, usage=self._usage),)

    def _feed_call(self, delta: CallDelta) -> tuple[MessageUpdate, ...]:
        if delta.key not in self._calls and not (delta.id or delta.name or delta.arguments):
            return ()  # some servers send an empty entry beside an answer that calls nothing
        out = list(self._close_text())
        index = self._calls.setdefault(delta.key, len(self._blocks))
        if index == len(self._blocks):
            self._blocks.append(_Call())
        call = self._blocks[index]
        assert isinstance(call, _Call)
        call.id = call.id or delta.id
        # Some servers send the name in pieces, others repeat the whole of it in every piece.
        if delta.name and delta.name != call.name:
            call.name += delta.name
        if delta.arguments:
            call.pieces.append(delta.arguments)
        if call.shown and delta.arguments:
            out.append(self._call_piece(index, call, delta.arguments))
        elif not call.shown and call.name:
            out += self._show_call(index, call)
        return tuple(out)

    def _show_call(self, index: int, call: _Call) -> list[MessageUpdate]:
        taken = {other.id for other in self._blocks if isinstance(other, _Call) and other is not call}
        if not call.id or call.id in taken:
            call.id = f"call_{os.urandom(12).hex()}"
        call.shown = True
        out = [MessageUpdate("toolcall_start", index, "", call.so_far(), self._usage)]
        if call.pieces:
            out.append(self._call_piece(index, call, "".join(call.pieces)))
        return out

    def _call_piece(self, index: int, call: _Call, text: str) -> MessageUpdate:
        return MessageUpdate("toolcall_delta", index, text, call.so_far(), self._usage)

    def _close_calls(self) -> tuple[MessageUpdate, ...]:
        out: list[MessageUpdate] = []
        for index in self._calls.values():
            call = self._blocks[index]
            assert isinstance(call, _Call)
            if not call.shown:
                out += self._show_call(index, call)
            out.append(MessageUpdate("toolcall_end", index, "", call.part(), self._usage))
        return tuple(out)


def parse_arguments(text: str) -> tuple[Json, str]:
    """Return the decoded object and an empty text, or `{}` and the text that is no JSON object.

    Nothing and `null` mean a call without arguments. NaN and Infinity are no JSON.
    """
    if not text.strip():
        return {}, ""
    try:
        value: object = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return {}, text
    arguments = as_dict(value)
    return (arguments, "") if value == arguments or value is None else ({}, text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
