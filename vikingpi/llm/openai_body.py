"""The chat completions request body: one request, one byte string, the same for the same input.

Source: the public chat completions reference. Quirks come from `Model.compat`:
`maxTokensField`, `supportsUsage` (also `supportsUsageInStreaming`), `supportsReasoningEffort`,
`reasoningEffortMap` (level -> word), `thinkingFormat` ("openai", "openrouter", or "switch" for
`thinking: {type}`), `reasoningField`, `promptCacheKey`, `callIdLength` (ids of exactly so many letters and digits).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from vikingpi.decode import Json, as_dict, as_int, as_list, as_str
from vikingpi.llm.base import Model, Request
from vikingpi.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)
from vikingpi.tokens import IMAGE_TOKENS, estimate

DIRECT = "openai-completions"
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
_EFFORT = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}
_LEAST_OUTPUT = 1024


def encode(body: Json) -> bytes:
    """Serialise compactly in the order of the keys; a lone surrogate becomes U+FFFD."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        # UTF-16 joins the two halves of a pair that arrived as two code points before the rest is replaced.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def build_body(model: Model, request: Request) -> Json:
    """Return the body of a streaming request."""
    messages = chat_messages(model, request.system, request.messages)
    body: Json = {"model": model.id, "messages": messages, "stream": True}
    if supports_usage(model):
        body["stream_options"] = {"include_usage": True}
    limit = output_limit(model, request, prompt_tokens(messages, request.tools))
    if limit:
        body[as_str(model.compat.get("maxTokensField"), "max_tokens")] = limit
    body.update(thinking_fields(model, request.thinking_level))
    if request.tools:
        body["tools"] = chat_tools(request.tools)
    if request.session_id and model.compat.get("promptCacheKey") is True:
        body["prompt_cache_key"] = request.session_id
    return body


def supports_usage(model: Model) -> bool:
    """Tell whether the endpoint takes `stream_options`."""
    compat = model.compat
    return compat.get("supportsUsage") is not False and compat.get("supportsUsageInStreaming") is not False


def thinking_fields(model: Model, level: str) -> Json:
    """Return what asks for a thinking level."""
    style = model.compat.get("thinkingFormat")
    if style == "switch":
        state = "disabled" if level == "off" else "enabled"
        return {"thinking": {"type": state}} if model.reasoning else {}
    effort = reasoning_effort(model, level)
    if not effort:
        return {}
    return {"reasoning": {"effort": effort}} if style == "openrouter" else {"reasoning_effort": effort}


def reasoning_effort(model: Model, level: str) -> str:
    """Return the provider's word for a thinking level, empty where none is sent."""
    if not model.reasoning or model.compat.get("supportsReasoningEffort") is False:
        return ""
    return as_str(as_dict(model.compat.get("reasoningEffortMap")).get(level), _EFFORT.get(level, ""))


def output_limit(model: Model, request: Request, used: int) -> int:
    """Return the output limit, lowered to what a prompt of `used` tokens leaves; 0 where none is known.

    Servers refuse a request whose input and limit together exceed the window, so a full window asks for less.
    """
    limit = request.max_tokens or model.max_tokens
    if not limit or not model.context_window:
        return limit
    left = model.context_window - used - used // 10
    return min(limit, max(left, _LEAST_OUTPUT))


def prompt_tokens(messages: Iterable[Json], tools: Sequence[ToolSpec] = ()) -> int:
    """Estimate the tokens of chat messages and tools; an image counts flat."""
    total = sum(_message_tokens(message) for message in messages)
    return total + sum(estimate(json.dumps(tool, ensure_ascii=False)) for tool in chat_tools(tools))


def chat_tools(tools: Sequence[ToolSpec]) -> list[Json]:
    """Return tools in the order given."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in tools
    ]


def chat_messages(model: Model, system: str, messages: Sequence[Message]) -> list[Json]:
    """Return the messages, the system prompt first.

    Images of tool results cannot stand in a tool message; they follow the whole batch in one user message.
    """
    out: list[Json] = [{"role": "system", "content": system}] if system else []
    images: list[ImagePart] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            out.append(_tool_result(model, message))
            images += [part for part in message.content if isinstance(part, ImagePart)]
            continue
        if images:
            out.append(_attached(model, images))
            images = []
        if isinstance(message, UserMessage):
            out.append({"role": "user", "content": _content(model, message.content)})
        elif (reply := _assistant(model, message)) is not None:
            out.append(reply)
    if images:
        out.append(_attached(model, images))
    return out


def _message_tokens(message: Json) -> int:
    said = message.get("content")
    if isinstance(said, str) and len(message) == 2:
        return 10 + estimate(said)
    content = as_list(said)
    if not content:
        return estimate(json.dumps(message, ensure_ascii=False))
    total = 4
    for part in content:
        piece = as_dict(part)
        total += IMAGE_TOKENS if piece.get("type") == "image_url" else estimate(as_str(piece.get("text")))
    return total


def _content(model: Model, parts: Sequence[TextPart | ImagePart]) -> str | list[Json]:
    """Plain text as one string: several servers take no list of text parts."""
    if not any(isinstance(part, ImagePart) for part in parts) or not model.images:
        return "\n".join(part.text if isinstance(part, TextPart) else _no_image(part.mime_type) for part in parts)
    return [_text(part.text) if isinstance(part, TextPart) else _image(part) for part in parts]


def _attached(model: Model, images: Sequence[ImagePart]) -> Json:
    content = _content(model, (TextPart("Images from the tool results above:"), *images))
    return {"role": "user", "content": content}


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _image(part: ImagePart) -> Json:
    return {"type": "image_url", "image_url": {"url": f"data:{part.mime_type};base64,{part.data}"}}


def _no_image(mime_type: str) -> str:
    return f"[image {mime_type} left out: this model takes no images]"


def _tool_result(model: Model, message: ToolResultMessage) -> Json:
    text = "\n".join(part.text for part in message.content if isinstance(part, TextPart))
    has_image = any(isinstance(part, ImagePart) for part in message.content)
    fallback = "(image attached below)" if has_image else "(no output)"
    return {"role": "tool", "tool_call_id": _call_id(model, message.tool_call_id), "content": text or fallback}


def _assistant(model: Model, message: AssistantMessage) -> Json | None:
    """Return None for a message without text and calls, which no provider accepts."""
    text, calls = message.text, message.calls
    if not text and not calls:
        return None
    out: Json = {"role": "assistant", "content": text or None}
    if (message.provider, message.model) == (model.provider, model.id):
        out.update(_thinking(model, message))
    if calls:
        out["tool_calls"] = [_call(model, call) for call in calls]
    return out


def _thinking(model: Model, message: AssistantMessage) -> Json:
    """Return thinking in the field it came in; through litellm a proof goes back with its block."""
    known = (*REASONING_FIELDS, as_str(model.compat.get("reasoningField")))
    fields: dict[str, list[str]] = {}
    proven: list[Json] = []
    for part in message.content:
        if not isinstance(part, ThinkingPart) or not part.signature:
            continue
        if part.signature not in known:
            proven.append({"type": "thinking", "thinking": part.thinking, "signature": part.signature})
        elif part.thinking:
            fields.setdefault(part.signature, []).append(part.thinking)
    out: Json = {name: "\n".join(texts) for name, texts in fields.items()}
    blocks = proven and model.api == message.api == "litellm"
    return {**out, "thinking_blocks": proven} if blocks else out


def _call(model: Model, call: ToolCall) -> Json:
    """Servers parse the arguments of earlier calls, so a broken text is never sent back."""
    arguments = json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":"))
    function = {"name": call.name, "arguments": arguments}
    return {"id": _call_id(model, call.id), "type": "function", "function": function}


def _call_id(model: Model, id: str) -> str:
    """Keep an id that the endpoint takes; another provider's is replaced by a hash of it, the same each time.

    Most take 40 characters of letters, digits, `_` and `-`. Through litellm an id may carry a proof and stays.
    """
    length = as_int(model.compat.get("callIdLength"))
    fits = f"[A-Za-z0-9]{{{length}}}" if length else "[A-Za-z0-9_-]{1,40}"
    if model.api == "litellm" or re.fullmatch(fits, id):
        return id
    import hashlib

    return hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[: length or 40]
