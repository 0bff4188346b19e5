"""The request body of the messages API. Source: the public reference of Anthropic's API.

Quirks come from `Model.compat`: `forceAdaptiveThinking` (the model decides how much it thinks, a word says how hard),
`reasoningEffortMap` (level -> that word, None for a level that the model does not have), `allowEmptySignature`
(thinking goes back without a proof), `supportsPromptCache` (false: no cache marks).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from vikingpi.decode import Json, as_dict, as_list, as_str
from vikingpi.llm.base import Model, Request
from vikingpi.llm.openai_body import output_limit
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

MESSAGES = "anthropic-messages"
LEAST_BUDGET = 1024

_EFFORT = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "max"}
_BUDGET = {"minimal": 1024, "low": 4096, "medium": 10_240, "high": 20_480, "xhigh": 32_768, "max": 32_768}
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_DEFAULT_OUTPUT = 8192
_MARK: Json = {"type": "ephemeral"}


def build_messages_body(model: Model, request: Request) -> Json:
    """Return the body of a streaming request, with at most four cache marks."""
    messages = _Turns(model).of(request.messages)
    tools = _tools(request.tools) or _placeholders(messages)
    system: list[Json] = [{"type": "text", "text": request.system}] if request.system.strip() else []
    used = _tokens([*system, *tools]) + sum(_tokens(message["content"]) for message in messages)
    limit = output_limit(model, request, used) or _DEFAULT_OUTPUT
    if model.compat.get("supportsPromptCache") is not False:
        _mark(system, tools, messages, _overview_blocks(request.messages))
    body: Json = {"model": model.id, "max_tokens": limit, "stream": True}
    if tools:
        body["tools"] = tools
    if tools and not request.tools:
        body["tool_choice"] = {"type": "none"}
    if system:
        body["system"] = system
    return {**body, "messages": messages, **_thinking(model, request.thinking_level, limit, messages)}


class _Turns:
    """Turns messages into the alternating user and assistant messages of the API.

    An id that another call had before is replaced: ids must differ in the whole conversation.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._used: set[str] = set()
        self._ids: dict[str, str] = {}

    def of(self, messages: Sequence[Message]) -> list[Json]:
        out: list[Json] = []
        for message in messages:
            match message:
                case UserMessage():
                    role, blocks = "user", _user_blocks(message.content)
                case ToolResultMessage():
                    role, blocks = "user", [self._result(message)]
                case AssistantMessage():
                    role, blocks = "assistant", self._answer(message)
            if not blocks:
                continue
            if out and out[-1]["role"] == role:
                out[-1]["content"] += blocks
            else:
                out.append({"role": role, "content": blocks})
        return out

    def _answer(self, message: AssistantMessage) -> list[Json]:
        """An answer of thoughts alone says nothing and is refused in the middle of a conversation."""
        own = (message.provider, message.api, message.model) == (self._model.provider, self._model.api, self._model.id)
        blocks = [self._block(part) for part in message.content if own or not isinstance(part, ThinkingPart)]
        found = [block for block in blocks if block is not None]
        return found if any(block["type"] in ("text", "tool_use") for block in found) else []

    def _block(self, part: TextPart | ThinkingPart | ToolCall) -> Json | None:
        match part:
            case TextPart(text):
                return _text(text) if text.strip() else None
            case ThinkingPart():
                return self._thought(part)
            case ToolCall():
                return {"type": "tool_use", "id": self._new_id(part.id), "name": part.name, "input": part.arguments}

    def _thought(self, part: ThinkingPart) -> Json | None:
        if part.redacted:
            return {"type": "redacted_thinking", "data": part.signature} if part.signature else None
        if not part.signature and self._model.compat.get("allowEmptySignature") is not True:
            return None
        return {"type": "thinking", "thinking": part.thinking, "signature": part.signature or ""}

    def _new_id(self, id: str) -> str:
        number, new = 1, id
        while new in self._used:
            number += 1
            new = f"{id[:56]}_{number}"
        self._used.add(new)
        self._ids[id] = new
        return new

    def _result(self, message: ToolResultMessage) -> Json:
        content = _user_blocks(message.content) or [_text("(no output)")]
        id = self._ids.get(message.tool_call_id, message.tool_call_id)
        result: Json = {"type": "tool_result", "tool_use_id": id, "content": content}
        return {**result, "is_error": True} if message.is_error else result


def _user_blocks(parts: Sequence[TextPart | ImagePart]) -> list[Json]:
    blocks = [_text(part.text) if isinstance(part, TextPart) else _image(part) for part in parts]
    return [block for block in blocks if block["type"] != "text" or block["text"].strip()]


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _image(part: ImagePart) -> Json:
    if part.mime_type not in _IMAGES:
        return _text(f"[image {part.mime_type} left out: this provider takes no such images]")
    return {"type": "image", "source": {"type": "base64", "media_type": part.mime_type, "data": part.data}}


def _tools(specs: Sequence[ToolSpec]) -> list[Json]:
    return [
        {"name": spec.name, "description": spec.description, "input_schema": {"type": "object", **spec.parameters}}
        for spec in specs
    ]


def _placeholders(messages: Iterable[Json]) -> list[Json]:
    """Declare the tools of earlier calls: a conversation that holds calls is refused without any tools."""
    blocks = [as_dict(block) for message in messages for block in as_list(message["content"])]
    names = dict.fromkeys(as_str(block.get("name")) for block in blocks if block.get("type") == "tool_use")
    return [{"name": name, "description": "Not available now.", "input_schema": {"type": "object"}} for name in names]


def begins_with_overview(messages: Sequence[Message]) -> bool:
    """Whether the first message is the overview or the summary that stands for covered history."""
    first = messages[0] if messages else None
    return isinstance(first, UserMessage) and first.kind in ("overview", "compaction")


def _overview_blocks(messages: Sequence[Message]) -> int:
    first = messages[0] if begins_with_overview(messages) else None
    return len(_user_blocks(first.content)) if isinstance(first, UserMessage) else 0


def _mark(system: list[Json], tools: list[Json], messages: list[Json], overview: int) -> None:
    """Mark the ends of what stays the same for longer and longer, so that each change costs only what follows it.

    System prompt with tools; the overview; where the request before this one ended, since the API looks back from a
    mark over 20 blocks only and one answer may have more; the end.
    """
    answers = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    before = messages[answers[-1] - 1] if answers and answers[-1] else None
    ends = [message["content"][-1] for message in (before, messages[-1] if messages else None) if message]
    if overview and messages:
        ends.insert(0, messages[0]["content"][overview - 1])
    stable = system or tools
    for block in [*stable[-1:], *ends]:
        # Thoughts cannot be marked.
        if block.get("type") not in ("thinking", "redacted_thinking"):
            block["cache_control"] = _MARK


def _thinking(model: Model, level: str, limit: int, messages: Sequence[Json]) -> Json:
    """Return what asks for a thinking level, nothing where the model's own default is what is wanted."""
    if not model.reasoning:
        return {}
    efforts = as_dict(model.compat.get("reasoningEffortMap"))
    adaptive = model.compat.get("forceAdaptiveThinking") is True
    if level == "off":
        return {"thinking": {"type": "disabled"}} if adaptive and "off" not in efforts else {}
    if adaptive:
        effort = as_str(efforts.get(level), _EFFORT.get(level, "high"))
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": effort}}
    budget = min(_BUDGET.get(level, LEAST_BUDGET), limit - LEAST_BUDGET)
    if budget < LEAST_BUDGET or _unthought(messages):
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _unthought(messages: Sequence[Json]) -> bool:
    """Whether a tool loop is going on that began without thinking: it cannot be turned on inside one."""
    kinds = [[as_str(block.get("type")) for block in message["content"]] for message in messages[-2:]]
    in_loop = bool(kinds) and "tool_result" in kinds[-1]
    return in_loop and kinds[0][0] not in ("thinking", "redacted_thinking")


def _tokens(blocks: Iterable[Json]) -> int:
    total = 0
    for block in blocks:
        kind = block.get("type")
        if kind == "image":
            total += IMAGE_TOKENS
        elif kind == "tool_result":
            total += _tokens(block["content"]) + 4
        else:
            total += estimate(as_str(block.get("text")) or json.dumps(block, ensure_ascii=False))
    return total
