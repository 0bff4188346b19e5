"""The two chat wires as a server speaks them: OpenAI chat completions and Anthropic messages.

Shapes: https://platform.openai.com/docs/api-reference/chat and https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from model_rules import Json, Reply, Request, Said

_IDS = itertools.count(1)
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


class Wire(NamedTuple):
    """How to read a request body and how to write an answer, whole or as SSE events."""

    read: Callable[[Json], Request]
    whole: Callable[[Json, Reply], Json]
    events: Callable[[Json, Reply], Iterator[bytes]]
    error: Callable[[int], Json]


def new_id(prefix: str) -> str:
    return f"{prefix}_{time.time_ns():x}{next(_IDS):x}"


def objects(value: object) -> list[Json]:
    """Give the objects of a list; anything else is none."""
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast(Json, item) for item in items if isinstance(item, dict)]


def text_of(content: object) -> str:
    """Join the texts of a message's content on either wire."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or "") or text_of(part.get("content")) for part in objects(content))


def words(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


def slices(text: str, size: int = 16) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def dump(value: object) -> bytes:
    """Encode as real providers do: characters as they are; a lone surrogate, which has no bytes, as `?`."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def tokens(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False)) // 4 + 1


def read_openai(body: Json) -> Request:
    messages = tuple(
        Said(cast(Any, _ROLES.get(str(message.get("role")), "user")), text_of(message.get("content")))
        for message in objects(body.get("messages"))
    )
    functions = [tool.get("function") for tool in objects(body.get("tools"))]
    return Request(str(body.get("model")), messages, frozenset(str(each.get("name")) for each in objects(functions)))


def openai_calls(reply: Reply) -> list[Json]:
    return [
        {
            "id": new_id("call"),
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for call in reply.calls
    ]


def openai_usage(body: Json, reply: Reply) -> Json:
    prompt, completion = tokens(body.get("messages")), tokens([reply.text, reply.calls])
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def whole_openai(body: Json, reply: Reply) -> Json:
    message: Json = {"role": "assistant", "content": None if reply.calls and not reply.text else reply.text}
    if reply.thought:
        message["reasoning_content"] = reply.thought
    if reply.calls:
        message["tool_calls"] = openai_calls(reply)
    return {
        "id": new_id("chatcmpl"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if reply.calls else "stop"}],
        "usage": openai_usage(body, reply),
    }


def openai_events(body: Json, reply: Reply) -> Iterator[bytes]:
    head: Json = {
        "id": new_id("chatcmpl"),
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": body.get("model"),
    }

    def event(delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: " + dump({**head, "choices": [choice]}) + b"\n\n"

    yield event({"role": "assistant", "content": ""})
    for word in words(reply.thought):
        yield event({"reasoning_content": word})
    for word in words(reply.text):
        yield event({"content": word})
    for index, call in enumerate(openai_calls(reply)):
        function = call["function"]
        yield event({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        for piece in slices(function["arguments"]):
            yield event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield event({}, "tool_calls" if reply.calls else "stop")
    last: Json = {**head, "choices": [], "usage": openai_usage(body, reply)}
    yield b"data: " + dump(last) + b"\n\n"
    yield b"data: [DONE]\n\n"


def error_openai(status: int) -> Json:
    return {"error": {"message": f"scripted failure {status}", "type": "scripted", "code": None}}


def read_anthropic(body: Json) -> Request:
    messages: list[Said] = [Said("system", text_of(body.get("system")))]
    for message in objects(body.get("messages")):
        blocks = objects(message.get("content"))
        results = [block for block in blocks if block.get("type") == "tool_result"]
        messages.extend(Said("tool", text_of(block.get("content"))) for block in results)
        plain = message.get("content") if not blocks else [block for block in blocks if block not in results]
        if plain or not results:
            messages.append(Said("assistant" if message.get("role") == "assistant" else "user", text_of(plain)))
    names = frozenset(str(tool.get("name")) for tool in objects(body.get("tools")))
    return Request(str(body.get("model")), tuple(messages), names)


def anthropic_blocks(reply: Reply) -> list[Json]:
    blocks: list[Json] = []
    if reply.thought:
        blocks.append({"type": "thinking", "thinking": reply.thought, "signature": new_id("sig")})
    if reply.hidden:
        blocks.append({"type": "redacted_thinking", "data": reply.hidden})
    if reply.text or not reply.calls:
        blocks.append({"type": "text", "text": reply.text})
    return blocks + [
        {"type": "tool_use", "id": new_id("toolu"), "name": call.name, "input": call.arguments} for call in reply.calls
    ]


def whole_anthropic(body: Json, reply: Reply) -> Json:
    return {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": anthropic_blocks(reply),
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": tokens(body.get("messages")), "output_tokens": tokens([reply.text, reply.calls])},
    }


def anthropic_deltas(block: Json) -> tuple[Json, list[Json]]:
    """Give how a block begins and the pieces that follow."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": word} for word in words(block["text"])]
        case "thinking":
            pieces: list[Json] = [
                {"type": "thinking_delta", "thinking": word} for word in words(str(block["thinking"]))
            ]
            proof = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*pieces, proof]
        case "redacted_thinking":
            return block, []
        case _:
            arguments = json.dumps(block["input"], ensure_ascii=False)
            pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in slices(arguments)]
            return {**block, "input": {}}, pieces


def anthropic_events(body: Json, reply: Reply) -> Iterator[bytes]:
    def event(kind: str, **data: object) -> bytes:
        return f"event: {kind}\ndata: ".encode() + dump({"type": kind, **data}) + b"\n\n"

    message = whole_anthropic(body, reply)
    yield event("message_start", message={**message, "content": [], "stop_reason": None})
    for index, block in enumerate(cast("list[Json]", message["content"])):
        begun, deltas = anthropic_deltas(block)
        yield event("content_block_start", index=index, content_block=begun)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=end, usage={"output_tokens": message["usage"]["output_tokens"]})
    yield event("message_stop")


def error_anthropic(status: int) -> Json:
    kinds = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
    kind = kinds.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": f"scripted failure {status}"}}


OPENAI = Wire(read_openai, whole_openai, openai_events, error_openai)
ANTHROPIC = Wire(read_anthropic, whole_anthropic, anthropic_events, error_anthropic)
