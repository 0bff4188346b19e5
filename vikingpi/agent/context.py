"""What the model sees: the request, and how many tokens it has."""

from __future__ import annotations

import json
from collections.abc import Sequence

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
    ToolSpec,
    UserMessage,
)
from vikingpi.session.entries import Entry
from vikingpi.session.tree import build_context
from vikingpi.tokens import IMAGE_TOKENS, estimate
from vikingpi.values import NamedTuple


class Anchor(NamedTuple):
    """The usage of an answer speaks for every request that begins with the same message."""

    entry_id: str
    head: Message


class Meter:
    """Measures requests: the newest real usage plus an estimate of what follows it."""

    def __init__(self) -> None:
        self._anchor: Anchor | None = None

    def note(self, request: Request, answer: AssistantMessage) -> None:
        """Remember which request `answer` has the usage of."""
        if _counted(answer) and answer.entry_id and request.messages:
            self._anchor = Anchor(answer.entry_id, request.messages[0])

    def measure(self, request: Request, branch: Sequence[Entry]) -> int:
        """Return the tokens of `request`; all of it is estimated when the usage is that of another context."""
        tokens = 0
        for message in reversed(request.messages):
            if isinstance(message, AssistantMessage) and _counted(message):
                if self._speaks_for(message, request, branch):
                    return tokens + message.usage.total
                break
            tokens += message_tokens(message)
        return overhead(request.system, request.tools) + sum(map(message_tokens, request.messages))

    def _speaks_for(self, answer: AssistantMessage, request: Request, branch: Sequence[Entry]) -> bool:
        if answer.entry_id is None or _edited_since(answer.entry_id, branch):
            return False
        head = request.messages[0]
        if self._anchor is not None and self._anchor.entry_id == answer.entry_id:
            return self._anchor.head == head
        return not (isinstance(head, UserMessage) and head.kind == "overview")


def _counted(answer: AssistantMessage) -> bool:
    """Whether the provider counted the request; some servers count the answer alone."""
    usage = answer.usage
    return usage.input + usage.cache_read + usage.cache_write > 0


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


def overhead(system: str, tools: Sequence[ToolSpec]) -> int:
    """Estimate what a request holds before its first message."""
    return estimate(system) + sum(
        estimate(tool.name + tool.description + json.dumps(tool.parameters)) for tool in tools
    )


def message_tokens(message: Message) -> int:
    """Estimate the tokens of one message."""
    tokens = 0
    for part in message.content:
        match part:
            case TextPart():
                tokens += estimate(part.text)
            case ThinkingPart():
                tokens += estimate(part.thinking)
            case ImagePart():
                tokens += IMAGE_TOKENS
            case _:
                tokens += estimate(part.name + json.dumps(part.arguments, ensure_ascii=False))
    return tokens


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
