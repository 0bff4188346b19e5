"""Entries of a session file: pi's JSON Lines format, version 3, and its message shapes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, cast

from vikingpi.decode import Json, as_dict, as_float, as_int, as_list, as_str
from vikingpi.messages import (
    AssistantMessage,
    Cost,
    ImagePart,
    Message,
    StopReason,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from vikingpi.values import NamedTuple

_SURROGATE = re.compile(r"[\ud800-\udfff]")
NO_USAGE = Usage()
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "toolUse": "toolUse",
    "error": "error",
    "aborted": "aborted",
}


class Entry(NamedTuple):
    """One line of a session file after the header; `raw` is the whole decoded object and is never changed."""

    id: str
    parent_id: str | None
    type: str
    timestamp: str
    raw: Json


def whole(value: Any) -> Any:
    """Return JSON with surrogate pairs joined and lone surrogates replaced by U+FFFD, in keys too."""
    if isinstance(value, str):
        if _SURROGATE.search(value) is None:
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {whole(key): whole(part) for key, part in cast(Json, value).items()}
    if isinstance(value, list):
        return [whole(part) for part in cast("list[Any]", value)]
    return value


def encode_line(value: Json) -> bytes:
    """Write one line with its newline: UTF-8, no lone surrogate, no NaN. TypeError for what is no JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return cast(str, whole(text)).encode() + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in cast(Json, value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in cast("list[Any]", value)]
    return value


def message_to_json(message: Message) -> Json:
    """Write a message in pi's shape; what is None is left out."""
    match message:
        case UserMessage():
            return {"role": "user", "content": _content(message.content), "timestamp": message.timestamp}
        case AssistantMessage():
            return _assistant_to_json(message)
        case ToolResultMessage():
            return _given(
                {
                    "role": "toolResult",
                    "toolCallId": message.tool_call_id,
                    "toolName": message.tool_name,
                    "content": _content(message.content),
                    "details": message.details,
                    "isError": message.is_error,
                    "durationMs": message.duration_ms,
                    "timestamp": message.timestamp,
                }
            )


def usage_to_json(usage: Usage) -> Json:
    """Write usage with its full cost: pi's footer adds it up."""
    cost = usage.cost
    return {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "reasoning": usage.reasoning,
        "totalTokens": usage.total,
        "cost": {
            "input": cost.input,
            "output": cost.output,
            "cacheRead": cost.cache_read,
            "cacheWrite": cost.cache_write,
            "total": cost.total,
        },
    }


def message_from_json(value: Json, entry_id: str | None) -> Message | None:
    """Read a message of any writer; None for a role that is not the model's. Unknown parts are dropped."""
    timestamp = as_int(value.get("timestamp"))
    match value.get("role"):
        case "user":
            return UserMessage(content_from_json(value.get("content")), timestamp, entry_id)
        case "assistant":
            return _assistant_from_json(value, entry_id)
        case "toolResult":
            return ToolResultMessage(
                tool_call_id=as_str(value.get("toolCallId")),
                tool_name=as_str(value.get("toolName")),
                content=content_from_json(value.get("content")),
                is_error=value.get("isError") is True,
                timestamp=timestamp,
                details=as_dict(value["details"]) if isinstance(value.get("details"), dict) else None,
                duration_ms=_optional_int(value.get("durationMs")),
                entry_id=entry_id,
            )
        case _:
            return None


def content_from_json(value: object) -> tuple[TextPart | ImagePart, ...]:
    """Read the content of a user message or a tool result: a string or text and image parts.

    An image whose data are no base64 has none: providers refuse every request with such a one.
    """
    if isinstance(value, str):
        return (TextPart(value),) if value else ()
    parts: list[TextPart | ImagePart] = []
    for part in map(as_dict, as_list(value)):
        match part:
            case {"type": "text", "text": str(text)}:
                parts.append(TextPart(text))
            case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
                parts.append(ImagePart(data if _is_base64(data) else "", mime_type))
            case _:
                pass
    return tuple(parts)


def _is_base64(data: str) -> bool:
    return len(data) % 4 == 0 and not data.encode("utf-8", "replace").rstrip(b"=").translate(None, _BASE64)


def usage_from_json(value: object) -> Usage:
    """Read usage; what is missing is 0, and a bare total counts as input."""
    if not isinstance(value, dict):
        return NO_USAGE
    usage = cast(Json, value)
    cost = as_dict(usage.get("cost"))
    read = Usage(
        as_int(usage.get("input")),
        as_int(usage.get("output")),
        as_int(usage.get("cacheRead")),
        as_int(usage.get("cacheWrite")),
        as_int(usage.get("reasoning")),
        _cost(cost),
    )
    return read if read.total else read._replace(input=as_int(usage.get("totalTokens")))


def _cost(cost: Json) -> Cost:
    """Read the four kinds, or where they are nothing the total."""
    get = cost.get
    read = Cost(
        _dollars(get("input", 0.0)),
        _dollars(get("output", 0.0)),
        _dollars(get("cacheRead", 0.0)),
        _dollars(get("cacheWrite", 0.0)),
    )
    return read if read.total else Cost(input=_dollars(cost.get("total")))


def _given(fields: Json) -> Json:
    return {key: value for key, value in fields.items() if value is not None}


def _content(parts: Sequence[TextPart | ImagePart]) -> list[Json]:
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image", "data": part.data, "mimeType": part.mime_type}
        for part in parts
    ]


def _assistant_to_json(message: AssistantMessage) -> Json:
    return _given(
        {
            "role": "assistant",
            "content": [_answer_part(part) for part in message.content],
            "api": message.api,
            "provider": message.provider,
            "model": message.model,
            "usage": usage_to_json(message.usage),
            "stopReason": message.stop_reason,
            "timestamp": message.timestamp,
            "responseId": message.response_id,
            "rawStopReason": message.raw_stop_reason,
            "errorMessage": message.error_message,
            "durationMs": message.duration_ms,
            "thinkingLevel": message.thinking_level,
        }
    )


def _answer_part(part: TextPart | ThinkingPart | ToolCall) -> Json:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ThinkingPart():
            thinking: Json = {"type": "thinking", "thinking": part.thinking}
            if part.signature is not None:
                thinking["thinkingSignature"] = part.signature
            if part.redacted:
                thinking["redacted"] = True
            return thinking
        case ToolCall():
            return {"type": "toolCall", "id": part.id, "name": part.name, "arguments": part.arguments}


def _assistant_from_json(value: Json, entry_id: str | None) -> AssistantMessage:
    content = _answer_from_json(value.get("content"))
    calls = any(isinstance(part, ToolCall) for part in content)
    reason = _STOP_REASONS.get(as_str(value.get("stopReason")), "toolUse" if calls else "stop")
    return AssistantMessage(
        content=content,
        api=as_str(value.get("api")),
        provider=as_str(value.get("provider")),
        model=as_str(value.get("model")),
        usage=usage_from_json(value.get("usage")),
        stop_reason=reason,
        timestamp=as_int(value.get("timestamp")),
        error_message=_optional_str(value.get("errorMessage")),
        response_id=_optional_str(value.get("responseId")),
        raw_stop_reason=_optional_str(value.get("rawStopReason")),
        duration_ms=_optional_int(value.get("durationMs")),
        thinking_level=_optional_str(value.get("thinkingLevel")),
        entry_id=entry_id,
    )


def _answer_from_json(value: object) -> tuple[TextPart | ThinkingPart | ToolCall, ...]:
    if isinstance(value, str):
        return (TextPart(value),) if value else ()
    parts: list[TextPart | ThinkingPart | ToolCall] = []
    for part in map(as_dict, as_list(value)):
        match part:
            case {"type": "text", "text": str(text)}:
                parts.append(TextPart(text))
            case {"type": "thinking", "thinking": str(thinking)}:
                signature = _optional_str(part.get("thinkingSignature"))
                parts.append(ThinkingPart(thinking, signature, part.get("redacted") is True))
            case {"type": "toolCall", "id": str(call_id), "name": str(name)}:
                parts.append(ToolCall(call_id, name, *_arguments(part.get("arguments"))))
            case _:
                pass
    return tuple(parts)


def _arguments(value: object) -> tuple[Json, str]:
    """Return arguments and, where they are no object, the text they were."""
    if isinstance(value, str):
        try:
            decoded: object = json.loads(value)
        except (ValueError, RecursionError):
            return {}, value
        return (cast(Json, decoded), "") if isinstance(decoded, dict) else ({}, value)
    return as_dict(value), ""


def _dollars(value: object) -> float:
    amount = value if type(value) is float else as_float(value)
    return amount if amount - amount == 0 else 0.0


def _optional_int(value: object) -> int | None:
    return None if value is None else as_int(value)


def _optional_str(value: object) -> str | None:
    return value if isinstance(value, str) else None
