"""Messages as the agent loop and the wires see them; immutable, equal if alike.

`entry_id` names the session entry a message came from and is never sent. Timestamps are ms since the epoch.
"""

from __future__ import annotations

from typing import Literal

from vikingpi.decode import Json
from vikingpi.values import NamedTuple

StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]
UserKind = Literal["user", "overview", "compaction", "branch", "bash", "custom"]

OVERVIEW_MARKER = "[OpenViking Session Context]"


class TextPart(NamedTuple):
    text: str


class ThinkingPart(NamedTuple):
    """`signature` is the provider's proof or, for chat completions, the field the text came in."""

    thinking: str
    signature: str | None = None
    redacted: bool = False


class ImagePart(NamedTuple):
    """`data` is base64."""

    data: str
    mime_type: str


class ToolCall(NamedTuple):
    """`arguments` is the decoded object; `broken` is the text that was no JSON object, else empty."""

    id: str
    name: str
    arguments: Json
    broken: str = ""


class ToolSpec(NamedTuple):
    """What a model is told about a tool; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: Json


class Cost(NamedTuple):
    """US dollars."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    @property
    def total(self) -> float:
        return self.input + self.output + self.cache_read + self.cache_write


class Usage(NamedTuple):
    """Tokens of one response; `input` leaves out cache reads and writes."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: Cost = Cost()

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write


class UserMessage(NamedTuple):
    """`kind` tells what stands behind a text in the user role; only "user" begins a user turn."""

    content: tuple[TextPart | ImagePart, ...]
    timestamp: int
    entry_id: str | None = None
    kind: UserKind = "user"


class AssistantMessage(NamedTuple):
    content: tuple[TextPart | ThinkingPart | ToolCall, ...]
    api: str
    provider: str
    model: str
    usage: Usage
    stop_reason: StopReason
    timestamp: int
    error_message: str | None = None
    response_id: str | None = None
    raw_stop_reason: str | None = None
    duration_ms: int | None = None
    thinking_level: str | None = None
    entry_id: str | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.content if isinstance(part, ToolCall))

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


class ToolResultMessage(NamedTuple):
    """`details` is for the UI and the session file, never sent to the model."""

    tool_call_id: str
    tool_name: str
    content: tuple[TextPart | ImagePart, ...]
    is_error: bool
    timestamp: int
    details: Json | None = None
    duration_ms: int | None = None
    entry_id: str | None = None


Message = UserMessage | AssistantMessage | ToolResultMessage


def text_of(message: Message) -> str:
    """Join the text parts of a message."""
    return "".join(part.text for part in message.content if isinstance(part, TextPart))


def user_text(text: str, timestamp: int, entry_id: str | None = None) -> UserMessage:
    """Make a plain user message."""
    return UserMessage((TextPart(text),), timestamp, entry_id)
