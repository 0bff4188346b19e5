"""What happens, as plain data for UIs; each docstring says the event's place in the order.

One prompt gives: AgentStart (TurnStart MessageStart MessageUpdate* MessageEnd (ToolStart ToolUpdate* ToolEnd)*
TurnEnd)* AgentEnd AgentSettled. User and tool result messages come as MessageStart/MessageEnd pairs of their own.
The others may come at any time.
"""

from __future__ import annotations

from typing import Literal

from vikingpi.messages import AssistantMessage, Message, ToolCall, ToolResultMessage, Usage
from vikingpi.values import NamedTuple

DeltaKind = Literal[
    "text_start",
    "text_delta",
    "text_end",
    "thinking_start",
    "thinking_delta",
    "thinking_end",
    "toolcall_start",
    "toolcall_delta",
    "toolcall_end",
]


class AgentEnd(NamedTuple):
    """Once per prompt, after the last turn; `messages` are those of this prompt."""

    messages: tuple[Message, ...]
    will_retry: bool = False


class AgentSettled(NamedTuple):
    """Once per prompt, last of all: nothing more will run."""

    aborted: bool = False


class AgentStart(NamedTuple):
    """Once per prompt, first."""


class BoundaryAdvanced(NamedTuple):
    """The first `covered_user_turns` user turns are now an overview; tokens are estimates of the request."""

    covered_user_turns: int
    tokens_before: int
    tokens_after: int


class BoundaryReset(NamedTuple):
    """The overview was withdrawn; the full history is visible again."""

    reason: str


class CommitFailed(NamedTuple):
    """A commit was refused, failed or gave no acceptable overview; the boundary stays."""

    reason: str


class CompactionEnd(NamedTuple):
    """After CompactionStart; `error` is empty on success."""

    reason: Literal["manual", "threshold", "overflow"]
    tokens_before: int = 0
    tokens_after: int = 0
    from_hook: bool = False
    error: str = ""


class CompactionStart(NamedTuple):
    """Between turns or prompts."""

    reason: Literal["manual", "threshold", "overflow"]


class HookFailed(NamedTuple):
    """A hook raised and was skipped for that call."""

    hook: str
    method: str
    error: str


class LimitReached(NamedTuple):
    """An unattended run ends here because a limit of it is used up; `text` says which and how far, `kept` whether a
    file holds what was done."""

    limit: Literal["turns", "tokens", "cost", "time"]
    text: str
    kept: bool = True


class MessageEnd(NamedTuple):
    """The message as it was stored."""

    message: Message


class MessageStart(NamedTuple):
    """Before any MessageUpdate; an assistant message is still empty here."""

    message: Message


class MessageUpdate(NamedTuple):
    """One piece of the assistant message that is being received; `text` is the piece, `index` its block."""

    kind: DeltaKind
    index: int  # pyright: ignore[reportIncompatibleMethodOverride] - nobody searches an event as a tuple
    text: str = ""
    call: ToolCall | None = None
    usage: Usage | None = None


class Notice(NamedTuple):
    """One line for the user."""

    text: str
    level: Literal["info", "warning", "error"] = "info"
    hint: str = ""


class RetryEnd(NamedTuple):
    """The retries ended, well or not."""

    success: bool
    attempt: int
    error: str = ""


class RetryStart(NamedTuple):
    """A failed request will be made again after `delay_ms`."""

    attempt: int
    max_attempts: int
    delay_ms: int
    error: str


class StoreState(NamedTuple):
    """The state of the context store changed; `connected` is None before the first contact."""

    kind: Literal["openviking", "embedded", "off"]
    connected: bool | None
    covered_user_turns: int = 0
    pending_tokens: int = 0
    token_threshold: int = 0
    outbox: int = 0
    dead: int = 0
    open_commit: bool = False
    detail: str = ""


class ToolEnd(NamedTuple):
    """After the tool's result is known; the result message follows."""

    call: ToolCall
    result: ToolResultMessage


class ToolStart(NamedTuple):
    """Before the tool runs."""

    call: ToolCall


class ToolUpdate(NamedTuple):
    """`text` is the whole current tail of the running tool's output."""

    call: ToolCall
    text: str


class TurnEnd(NamedTuple):
    """After one model response and the tool results that answer it."""

    message: AssistantMessage
    results: tuple[ToolResultMessage, ...]


class TurnStart(NamedTuple):
    """Before each request to the model."""


Event = (
    AgentEnd
    | AgentSettled
    | AgentStart
    | BoundaryAdvanced
    | BoundaryReset
    | CommitFailed
    | CompactionEnd
    | CompactionStart
    | HookFailed
    | LimitReached
    | MessageEnd
    | MessageStart
    | MessageUpdate
    | Notice
    | RetryEnd
    | RetryStart
    | StoreState
    | ToolEnd
    | ToolStart
    | ToolUpdate
    | TurnEnd
    | TurnStart
)
