"""The last look at what is sent: any list of messages becomes one that every provider takes.

The result is stable: what is valid stays the same object, and complete turns that are added at the end change
nothing before them.
"""

from __future__ import annotations

import operator
import re
import zlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

from vikingpi.llm.base import Model
from vikingpi.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from vikingpi.session.entries import whole
from vikingpi.values import NamedTuple

NO_RESULT = "No result provided"
NO_BEGINNING = "(The beginning of this conversation is not available.)"

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_ID_LENGTH = 64
# Anthropic takes large images only where there are at most 20, and 32 MB in all.
_MOST_IMAGES = 20
_MOST_IMAGE_BYTES = 20_000_000
_NEWEST_IMAGES = 4
_IMAGE_STEP = 10
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")

_Part = TextPart | ThinkingPart | ImagePart | ToolCall
_M = TypeVar("_M", UserMessage, AssistantMessage, ToolResultMessage)


class _Answer(NamedTuple):
    """An assistant message with calls and the results that were found so far."""

    message: AssistantMessage
    results: list[ToolResultMessage]

    def complete(self) -> list[ToolResultMessage]:
        answered = {result.tool_call_id for result in self.results}
        missing = (call for call in self.message.calls if call.id not in answered)
        made = (
            ToolResultMessage(call.id, call.name, (TextPart(NO_RESULT),), True, self.message.timestamp)
            for call in missing
        )
        return [*self.results, *made]


def repair(messages: Sequence[Message], model: Model) -> tuple[Message, ...]:
    """Return `messages` with every call answered, every answer called for, and nothing that cannot be sent."""
    out: list[UserMessage | AssistantMessage | _Answer] = []
    latest: dict[str, _Answer] = {}
    for message in _clip_images(messages, model):
        match message:
            case UserMessage():
                user = message if _plain(message) else _without_blanks(cleaned(message))
                if user.content:
                    out.append(user)
            case AssistantMessage():
                assistant = _sendable(message, model)
                if assistant is None:
                    continue
                if not assistant.calls:
                    out.append(assistant)
                    continue
                answer = _Answer(assistant, [])
                out.append(answer)
                latest.update((call.id, answer) for call in assistant.calls)
            case ToolResultMessage():
                result = _safe_result(cleaned(message))
                answer = latest.get(result.tool_call_id)
                if answer and all(one.tool_call_id != result.tool_call_id for one in answer.results):
                    answer.results.append(result)
    whole_out: list[Message] = []
    for item in out:
        whole_out += (item.message, *item.complete()) if isinstance(item, _Answer) else (item,)
    if whole_out and not isinstance(whole_out[0], UserMessage):
        whole_out.insert(0, UserMessage((TextPart(NO_BEGINNING),), whole_out[0].timestamp, kind="custom"))
    return tuple(whole_out)


def _plain(message: UserMessage | AssistantMessage) -> bool:
    """Whether all of it is text that stays as it is; most messages of a long history are."""
    for part in message.content:
        if not isinstance(part, TextPart) or not part.text.strip() or whole(part.text) is not part.text:
            return False
    return bool(message.content)


def cleaned(message: _M) -> _M:
    """Return the message with lone surrogates in its texts replaced by U+FFFD."""
    return _with(message, [_clean_part(part) for part in message.content])


def _with(message: _M, content: Sequence[_Part]) -> _M:
    same = len(content) == len(message.content) and all(map(operator.is_, content, message.content))
    return message if same else message._replace(content=tuple(content))


def _clean_part(part: _Part) -> _Part:
    match part:
        case TextPart():
            text = whole(part.text)
            return part if text is part.text else TextPart(text)
        case ThinkingPart():
            text = whole(part.thinking)
            return part if text is part.thinking else part._replace(thinking=text)
        case ToolCall():
            arguments = whole(part.arguments)
            return part if arguments == part.arguments else part._replace(arguments=arguments)
        case ImagePart():
            return part


def _is_blank(part: _Part) -> bool:
    return isinstance(part, TextPart) and not part.text.strip()


def _without_blanks(message: UserMessage) -> UserMessage:
    return _with(message, [part for part in message.content if not _is_blank(part)])


def _sendable(message: AssistantMessage, model: Model) -> AssistantMessage | None:
    """Return what may be sent of an answer; None for a failed one and for one that says nothing."""
    if message.stop_reason in ("error", "aborted"):
        return None
    if _plain(message):
        return message
    message = cleaned(message)
    own = (message.provider, message.api, message.model) == (model.provider, model.api, model.id)
    parts: list[_Part] = []
    seen: set[str] = set()
    for part in message.content:
        if _is_blank(part) or (isinstance(part, ThinkingPart) and not own):
            continue
        if isinstance(part, ToolCall):
            part = _safe_call(part)
            if part.id in seen:
                continue
            seen.add(part.id)
        parts.append(part)
    if all(isinstance(part, ThinkingPart) for part in parts):
        return None
    return _with(message, parts)


def _safe_call(call: ToolCall) -> ToolCall:
    call_id, name = _safe_id(call.id), _safe_name(call.name)
    return call if (call_id, name) == (call.id, call.name) else call._replace(id=call_id, name=name)


def _safe_result(message: ToolResultMessage) -> ToolResultMessage:
    call_id, name = _safe_id(message.tool_call_id), _safe_name(message.tool_name)
    if (call_id, name) == (message.tool_call_id, message.tool_name):
        return message
    return message._replace(tool_call_id=call_id, tool_name=name)


def _safe_id(call_id: str) -> str:
    safe = _UNSAFE.sub("_", call_id) or "call"
    if len(safe) > _ID_LENGTH:
        safe = f"{safe[: _ID_LENGTH - 9]}_{zlib.crc32(safe.encode()):08x}"
    return safe


def _safe_name(name: str) -> str:
    return _UNSAFE.sub("_", name)[:_ID_LENGTH] or "unknown"


def _clip_images(messages: Sequence[Message], model: Model) -> Iterable[Message]:
    """Turn images into notes: all for a model without sight, the oldest where there are too many.

    They go in steps, so that the request's prefix changes once per step and not with every new image.
    """
    sizes = [len(part.data) for message in messages for part in message.content if isinstance(part, ImagePart)]
    if not sizes:
        yield from messages
        return
    drop = _surplus(sizes) if model.images else len(sizes)
    for message in messages:
        match message:
            case AssistantMessage():
                yield message
            case UserMessage():
                yield _noted(message, drop)
            case ToolResultMessage():
                yield _noted(message, drop)
        drop = max(0, drop - sum(isinstance(part, ImagePart) for part in message.content))


def _surplus(sizes: Sequence[int]) -> int:
    """Return how many of the oldest images are too many."""
    drop = 0
    while len(sizes) - drop > _MOST_IMAGES or sum(sizes[drop:]) > _MOST_IMAGE_BYTES:
        drop += _IMAGE_STEP
    return max(0, min(drop, len(sizes) - _NEWEST_IMAGES))


def _noted(message: _M, drop: int) -> _M:
    """Turn the first `drop` images of a message into notes, and any that no provider takes."""
    content: list[_Part] = []
    for part in message.content:
        if isinstance(part, ImagePart) and (drop or part.mime_type not in _IMAGES or not part.data):
            drop = max(0, drop - 1)
            part = TextPart(f"[image {part.mime_type} left out]")
        content.append(part)
    return _with(message, content)
