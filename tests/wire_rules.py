"""The public rules of the two wires for a request body, as strictly as their references put them.

Each checker returns the rules that a body breaks, in words; an empty list is a request that the provider takes.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

from vikingpi.decode import Json, as_dict, as_list, as_str

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_SURROGATE = re.compile("[\ud800-\udfff]")


def chat_faults(body: Json) -> list[str]:
    """Check a chat completions body."""
    return [*_common(body), *_chat_messages(body), *_chat_tools(body)]


def messages_faults(body: Json) -> list[str]:
    """Check a body of the messages API."""
    faults = [*_common(body), *_turns(body), *_blocks(body), *_marks(body), *_thinking(body)]
    names = [as_str(tool.get("name")) for tool in body.get("tools", [])]
    for tool in body.get("tools", []):
        if as_dict(tool.get("input_schema")).get("type") != "object":
            faults.append("an input_schema is no object")
    if len(names) != len(set(names)) or not all(_NAME.fullmatch(name) for name in names):
        faults.append("tool names must be unique and safe")
    if any(block["type"] in ("tool_use", "tool_result") for block in _all_blocks(body)) and not names:
        faults.append("tool blocks without tools")
    if body.get("tool_choice") and not names:
        faults.append("tool_choice without tools")
    return faults


def _common(body: Json) -> Iterator[str]:
    if _SURROGATE.search(json.dumps(body, ensure_ascii=False)):
        yield "a lone surrogate"
    if not as_str(body.get("model")) or body.get("stream") is not True:
        yield "no model, or not streamed"
    if not body.get("messages"):
        yield "no messages"
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or limit < 1:
        yield "max_tokens must be above 0"


def _chat_messages(body: Json) -> Iterator[str]:
    waiting: list[str] = []
    for place, message in enumerate(as_list(body.get("messages"))):
        role, content = message.get("role"), message.get("content")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                yield f"{place}: a result without its call right before it"
            else:
                waiting.remove(message["tool_call_id"])
            if not isinstance(content, str):
                yield f"{place}: the content of a result must be a text"
            continue
        if waiting:
            yield f"{place}: calls without results: {waiting}"
        waiting = []
        if role == "assistant":
            calls = as_list(message.get("tool_calls"))
            waiting = [as_str(call.get("id")) for call in calls]
            yield from _chat_calls(place, calls)
            if not calls and not content:
                yield f"{place}: an empty assistant message"
        elif role == "user":
            if not content or (isinstance(content, str) and not content.strip()):
                yield f"{place}: an empty user message"
            for part in as_list(content):
                if part.get("type") not in ("text", "image_url"):
                    yield f"{place}: unknown part {part.get('type')}"
                if part.get("type") == "text" and not part["text"]:
                    yield f"{place}: an empty text"
                if part.get("type") == "image_url":
                    kind, _, data = part["image_url"]["url"].partition(";base64,")
                    if kind.removeprefix("data:") not in _IMAGES or not _is_base64(data):
                        yield f"{place}: an image without data"
        elif role != "system" or place:
            yield f"{place}: role {role}"
    if waiting:
        yield "calls without results at the end"


def _chat_calls(place: int, calls: list[Any]) -> Iterator[str]:
    ids = [as_str(call.get("id")) for call in calls]
    if len(ids) != len(set(ids)) or not all(re.fullmatch("[A-Za-z0-9_-]{1,40}", id) for id in ids):
        yield f"{place}: call ids must be unique and safe: {ids}"
    if "tool_calls" in calls or any(call.get("type") != "function" for call in calls):
        yield f"{place}: a call that is no function"
    for call in calls:
        function = as_dict(call.get("function"))
        if not _NAME.fullmatch(as_str(function.get("name"))):
            yield f"{place}: function name {function.get('name')!r}"
        if not isinstance(json.loads(as_str(function.get("arguments"))), dict):
            yield f"{place}: arguments are no object"


def _chat_tools(body: Json) -> Iterator[str]:
    if "tools" in body and not body["tools"]:
        yield "an empty list of tools"
    for tool in body.get("tools", []):
        if tool.get("type") != "function" or not _NAME.fullmatch(as_str(as_dict(tool.get("function")).get("name"))):
            yield "a tool that is no function"


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except ValueError:
        return False


def _all_blocks(body: Json) -> list[Json]:
    return [block for message in as_list(body.get("messages")) for block in message["content"]]


def _turns(body: Json) -> Iterator[str]:
    messages = as_list(body.get("messages"))
    roles = [message.get("role") for message in messages]
    if set(roles) - {"user", "assistant"} or roles[:1] != ["user"] or roles[-1:] != ["user"]:
        yield f"roles: {roles}"
    if any(one == other for one, other in itertools.pairwise(roles)):
        yield f"roles do not alternate: {roles}"
    waiting: set[str] = set()
    seen: set[str] = set()
    for place, message in enumerate(messages):
        blocks = message["content"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if set(results) != waiting or len(results) != len(waiting):
            yield f"{place}: results {results} for calls {waiting}"
        kinds = [block["type"] == "tool_result" for block in blocks]
        if kinds != sorted(kinds, reverse=True):
            yield f"{place}: results must come first"
        ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if seen & set(ids) or len(ids) != len(set(ids)):
            yield f"{place}: ids must be unique: {ids}"
        seen |= set(ids)
        waiting = set(ids)
        if ids and message["role"] != "assistant":
            yield f"{place}: a user makes a call"
    if waiting:
        yield "calls without results at the end"


def _blocks(body: Json) -> Iterator[str]:
    for message in as_list(body.get("messages")):
        if not message["content"]:
            yield "an empty message"
        allowed = ("text", "thinking", "redacted_thinking", "tool_use")
        for block in message["content"]:
            if message["role"] == "assistant" and block["type"] not in allowed:
                yield f"an assistant with {block['type']}"
            if message["role"] == "user" and block["type"] not in ("text", "image", "tool_result"):
                yield f"a user with {block['type']}"
            yield from _block(block)
    for block in body.get("system", []):
        yield from _block(block)


def _block(block: Json) -> Iterator[str]:
    match block["type"]:
        case "text":
            if not block["text"].strip():
                yield "a blank text"
        case "image":
            source = block["source"]
            if source["media_type"] not in _IMAGES or not _is_base64(source["data"]):
                yield "an image of a kind that is not taken"
        case "thinking":
            if not block["signature"]:
                yield "a thought without its proof"
        case "redacted_thinking":
            if not block["data"]:
                yield "a hidden thought without data"
        case "tool_use":
            if not re.fullmatch("[A-Za-z0-9_-]+", block["id"]) or not _NAME.fullmatch(block["name"]):
                yield f"call {block['id']!r} {block['name']!r}"
            if not isinstance(block["input"], dict):
                yield "an input is no object"
        case "tool_result":
            if not block["content"]:
                yield "an empty result"
            for part in block["content"]:
                if part["type"] not in ("text", "image"):
                    yield f"a result with {part['type']}"
                yield from _block(part)
        case other:
            yield f"unknown block {other}"


def _marks(body: Json) -> Iterator[str]:
    blocks = [*body.get("tools", []), *body.get("system", []), *_all_blocks(body)]
    marked = [block for block in blocks if "cache_control" in block]
    if len(marked) > 4:
        yield f"{len(marked)} cache marks"
    if any(block.get("type") in ("thinking", "redacted_thinking") for block in marked):
        yield "a marked thought"


def _thinking(body: Json) -> Iterator[str]:
    thinking = as_dict(body.get("thinking"))
    if thinking.get("type") == "enabled":
        if not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
            yield "a budget outside of the output limit"
        last = body["messages"][-2:]
        in_loop = any(block["type"] == "tool_result" for block in last[-1]["content"])
        if in_loop and last[0]["content"][0]["type"] not in ("thinking", "redacted_thinking"):
            yield "thinking is turned on inside a tool loop"
    if thinking.get("type") not in (None, "enabled", "adaptive", "disabled"):
        yield f"thinking {thinking.get('type')}"
