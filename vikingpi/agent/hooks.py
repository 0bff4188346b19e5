"""The hook protocol: how takeover, memory and extensions take part in the agent loop.

Hooks sit beside the loop. A hook that raises is skipped for that call, but one that was to judge a tool call blocks
it: a gate that broke has not said yes. Cancellation passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeVar

from vikingpi.config.model import Settings
from vikingpi.decode import Json
from vikingpi.events import Event, HookFailed
from vikingpi.messages import AssistantMessage, Message, ToolCall, ToolResultMessage, UserMessage
from vikingpi.session.entries import Entry
from vikingpi.values import NamedTuple

T = TypeVar("T")

StartReason = Literal["startup", "resume", "new", "fork"]


class PromptPatch(NamedTuple):
    """Text to be put at the end of the system prompt for this prompt's requests."""

    system_append: str


class Block(NamedTuple):
    """A tool call must not run; the reason is what the model reads."""

    reason: str


class TurnEnd(NamedTuple):
    """One turn is over and stored. `last` is True when no further request follows for this prompt."""

    message: AssistantMessage
    results: tuple[ToolResultMessage, ...]
    last: bool


class CompactionPrep(NamedTuple):
    """What a compaction is about to do: everything before `first_kept_entry_id` becomes a summary."""

    first_kept_entry_id: str
    tokens_before: int
    reason: Literal["manual", "threshold", "overflow"]
    instructions: str = ""


class CompactionResult(NamedTuple):
    """A summary in place of the default one."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Json


class HookContext(Protocol):
    """All that a hook may touch."""

    @property
    def session_id(self) -> str: ...

    @property
    def settings(self) -> Settings: ...

    def branch(self) -> tuple[Entry, ...]:
        """The entries from the root to the leaf."""
        ...

    def append_custom(self, custom_type: str, data: Json) -> Entry:
        """Append a `custom` entry at the leaf; raise SessionError when it cannot be written."""
        ...

    def emit(self, event: Event) -> None: ...


class AgentHooks:
    """Each method has a no-op default; override what is needed."""

    async def session_start(self, ctx: HookContext, reason: StartReason) -> None:
        """A session was opened; before the first prompt."""

    async def before_agent_start(self, ctx: HookContext, prompt: UserMessage) -> PromptPatch | None:
        """A prompt was stored and no request was made for it yet."""
        return None

    def context(self, ctx: HookContext, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Change what is sent; pure, called once per request, folded in order."""
        return messages

    async def tool_call(self, ctx: HookContext, call: ToolCall) -> Block | None:
        """A tool is about to run; the first Block wins, and raising is a Block."""
        return None

    async def turn_end(self, ctx: HookContext, turn: TurnEnd) -> None:
        """A turn was stored; return at once."""

    async def session_before_compact(self, ctx: HookContext, prep: CompactionPrep) -> CompactionResult | None:
        """A compaction is about to run; the first result replaces the default summary."""
        return None

    async def session_compact(self, ctx: HookContext, entry_id: str) -> None:
        """A compaction entry was stored."""

    async def session_shutdown(self, ctx: HookContext, reason: str) -> None:
        """The session is about to be closed: quit, switch, or a signal's name."""


class HookChain:
    """Runs hooks in order and keeps their faults away from the loop."""

    def __init__(self, hooks: Sequence[AgentHooks], ctx: HookContext) -> None:
        self._hooks = tuple(hooks)
        self._ctx = ctx

    async def session_start(self, reason: StartReason) -> None:
        for hook in self._hooks:
            await self._guard(hook, "session_start", hook.session_start(self._ctx, reason))

    async def before_agent_start(self, prompt: UserMessage) -> str:
        """Return the texts to append to the system prompt, joined by a blank line."""
        pieces: list[str] = []
        for hook in self._hooks:
            patch = await self._guard(hook, "before_agent_start", hook.before_agent_start(self._ctx, prompt))
            if patch is not None and patch.system_append:
                pieces.append(patch.system_append)
        return "\n\n".join(pieces)

    def context(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        for hook in self._hooks:
            try:
                messages = hook.context(self._ctx, messages)
            except Exception as error:  # noqa: BLE001 - fail open: any fault of a hook is reported, not raised
                self._failed(hook, "context", error)
        return messages

    async def tool_call(self, call: ToolCall) -> Block | None:
        for hook in self._hooks:
            try:
                block = await hook.tool_call(self._ctx, call)
            except Exception as error:  # noqa: BLE001 - fail safe: any fault of a gate is reported, and blocks
                fault = self._failed(hook, "tool_call", error)
                block = Block(f"This call did not run: {_name(hook)}, which judges tool calls, failed ({fault}).")
            if block is not None:
                return block
        return None

    async def turn_end(self, turn: TurnEnd) -> None:
        for hook in self._hooks:
            await self._guard(hook, "turn_end", hook.turn_end(self._ctx, turn))

    async def session_before_compact(self, prep: CompactionPrep) -> CompactionResult | None:
        for hook in self._hooks:
            call = hook.session_before_compact(self._ctx, prep)
            result = await self._guard(hook, "session_before_compact", call)
            if result is not None:
                return result
        return None

    async def session_compact(self, entry_id: str) -> None:
        for hook in self._hooks:
            await self._guard(hook, "session_compact", hook.session_compact(self._ctx, entry_id))

    async def session_shutdown(self, reason: str) -> None:
        for hook in self._hooks:
            await self._guard(hook, "session_shutdown", hook.session_shutdown(self._ctx, reason))

    async def _guard(self, hook: AgentHooks, method: str, call: Awaitable[T]) -> T | None:
        try:
            return await call
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - fail open: any fault of a hook is reported, not raised
            self._failed(hook, method, error)
            return None

    def _failed(self, hook: AgentHooks, method: str, error: Exception) -> str:
        fault = f"{type(error).__name__}: {error}"
        self._ctx.emit(HookFailed(_name(hook), method, fault))
        return fault


def _name(hook: AgentHooks) -> str:
    return getattr(hook, "name", type(hook).__name__)


Emit = Callable[[Event], None]
