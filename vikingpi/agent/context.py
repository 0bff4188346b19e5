"""What the model sees: the request, and how many tokens it has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from operator import is_

from vikingpi.agent.deps import AgentDeps
from vikingpi.agent.validate import repair
from vikingpi.decode import as_str
from vikingpi.llm.base import Request
from vikingpi.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolSpec,
    Usage,
    UserMessage,
)
from vikingpi.session.entries import Entry
from vikingpi.session.tree import build_context
from vikingpi.tokens import IMAGE, Size, size, total
from vikingpi.values import NamedTuple

# Tokenizers differ by so much; what goes beyond it comes from what else a server counts.
_WIDEST = 3.0


class Anchor(NamedTuple):
    """The usage of an answer speaks for every request that begins with the same message."""

    entry_id: str
    head: Message


class Meter:
    """Measures requests: the newest real usage plus an estimate of what follows it.

    A usage that cannot be that of its request is passed over, here and for all that is decided by it. Where none
    speaks for a request, all of it is estimated, on the scale of the server that counted last.
    """

    def __init__(self) -> None:
        self._anchor: Anchor | None = None
        self._scale = 1.0
        self._measured: tuple[tuple[Message, ...], Size] = ((), Size())

    def note(self, request: Request, answer: AssistantMessage) -> int:
        """Remember which request `answer` has the usage of; return its tokens, 0 where they are not to be believed."""
        if not self._believes(answer, request):
            return 0
        if answer.entry_id and request.messages:
            self._anchor = Anchor(answer.entry_id, request.messages[0])
        return answer.usage.total

    def measure(self, request: Request, branch: Sequence[Entry]) -> int:
        """Return the tokens of `request`."""
        messages, tokens, doubted = request.messages, 0, False
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            counted = _asked(message.usage) if isinstance(message, AssistantMessage) else 0
            if isinstance(message, AssistantMessage) and counted:
                noted = self._noted(message)
                if noted or not doubted:
                    if not self._speaks_for(message, request, branch):
                        break
                    if noted or self._believes(message, request._replace(messages=messages[:place])):
                        return tokens + counted + answer_tokens(message)
                if self._anchor is None:
                    break
                doubted = True
            tokens += message_tokens(message)
        return round(self.size(request).tokens * self._scale)

    def size(self, request: Request) -> Size:
        """Measure all of a request; what the last one began with is not measured again."""
        known, said = self._measured
        messages, old = tuple(request.messages), len(known)
        if old > len(messages) or not all(map(is_, known, messages)):
            old, said = 0, Size()
        said = total(chain((said,), map(message_size, messages[old:])))
        self._measured = messages, said
        return total((overhead(request.system, request.tools), said))

    def _believes(self, answer: AssistantMessage, request: Request) -> bool:
        """Whether the usage can be that of the request; learn the scale of the server that counted."""
        counted, asked = _asked(answer.usage), self.size(request)
        believed = counted > 0 and asked.holds(counted)
        if counted:
            ratio = counted / max(asked.tokens, 1) if believed else 1.0
            self._scale = min(max(ratio, 1 / _WIDEST), _WIDEST)
        return believed

    def _noted(self, answer: AssistantMessage) -> bool:
        return self._anchor is not None and self._anchor.entry_id == answer.entry_id

    def _speaks_for(self, answer: AssistantMessage, request: Request, branch: Sequence[Entry]) -> bool:
        if answer.entry_id is None or _edited_since(answer.entry_id, branch):
            return False
        head = request.messages[0]
        if self._anchor is not None and self._noted(answer):
            return self._anchor.head == head
        return not (isinstance(head, UserMessage) and head.kind == "overview")


def _asked(usage: Usage) -> int:
    """What the provider counted of the request; some servers count the answer alone."""
    return usage.input + usage.cache_read + usage.cache_write


def project(deps: AgentDeps) -> tuple[Message, ...]:
    """Return the context of the branch as the hooks make it."""
    return deps.hooks.context(build_context(deps.session.branch()))


def build_request(deps: AgentDeps, system_append: str = "") -> Request:
    """Make the next request from the branch."""
    system = deps.system()
    return Request(
        system=f"{system}\n\n{system_append}" if system_append else system,
        messages=repair(project(deps), deps.model),
        tools=tuple(tool.spec for tool in deps.tools),
        thinking_level=deps.thinking_level,
        session_id=deps.session.id,
    )


def overhead(system: str, tools: Sequence[ToolSpec]) -> Size:
    """Measure what a request holds before its first message."""
    described = (tool.name + tool.description + json.dumps(tool.parameters) for tool in tools)
    return total(map(size, (system, *described)))


def message_tokens(message: Message) -> int:
    """Estimate the tokens of one message."""
    return message_size(message).tokens


def answer_tokens(answer: AssistantMessage) -> int:
    """What the next request has of an answer: thoughts that the provider keeps are counted but not sent."""
    said, counted = message_size(answer), answer.usage.output
    return counted if said.holds(counted) else said.tokens


def message_size(message: Message) -> Size:
    """Measure one message; not every server takes or counts its thoughts and images."""
    parts = message.content
    return _part_size(parts[0]) if len(parts) == 1 else total(map(_part_size, parts))


def _part_size(part: TextPart | ThinkingPart | ImagePart | ToolCall) -> Size:
    match part:
        case TextPart():
            return size(part.text)
        case ThinkingPart():
            thought = size(part.thinking)
            return Size(thought.tokens, 0, thought.most + len(part.signature or ""))
        case ImagePart():
            return IMAGE
        case _:
            return size(part.name + json.dumps(part.arguments, ensure_ascii=False))


def _edited_since(entry_id: str, branch: Sequence[Entry]) -> bool:
    """Whether a compaction, or an edit of something older, came after the entry."""
    newer: set[str] = set()
    edited: list[str] = []
    for entry in reversed(branch):
        if entry.id == entry_id:
            return not newer.issuperset(edited)
        if entry.type == "compaction":
            return True
        if entry.type == "context_edit":
            edited.append(as_str(entry.raw.get("targetId")))
        newer.add(entry.id)
    return True
