"""Hands the events of the agent to the handlers of one extension, and their answers back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from vikingpi.agent.hooks import (
    AgentHooks,
    Block,
    CompactionPrep,
    CompactionResult,
    HookContext,
    PromptPatch,
    StartReason,
    TurnEnd,
)
from vikingpi.config.model import Settings
from vikingpi.decode import Json, as_dict, as_int, as_str
from vikingpi.events import (
    AgentEnd,
    AgentSettled,
    AgentStart,
    Event,
    HookFailed,
    MessageEnd,
    MessageStart,
    Notice,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    TurnStart,
)
from vikingpi.extensions.calls import LIMITS, Calls, TooLate
from vikingpi.extensions.checks import answer_of, shown
from vikingpi.messages import Message, ToolCall, UserMessage, text_of
from vikingpi.session.entries import Entry

Handler = Callable[[Json, Any], Any]
ANSWERED = frozenset(
    {
        "session_start",
        "before_agent_start",
        "context",
        "tool_call",
        "turn_end",
        "session_before_compact",
        "session_compact",
        "session_shutdown",
    }
)
_EVENTS: dict[type[Event], str] = {
    AgentStart: "agent_start",
    AgentEnd: "agent_end",
    AgentSettled: "agent_settled",
    TurnStart: "turn_start",
    MessageStart: "message_start",
    MessageEnd: "message_end",
    ToolStart: "tool_execution_start",
    ToolUpdate: "tool_execution_update",
    ToolEnd: "tool_execution_end",
}
TOLD = frozenset(_EVENTS.values())


class _Context:
    """The hook context of an extension, for any thread; its branch is whole, also after a resume that read only the
    end of it."""

    def __init__(self, ctx: HookContext, history: Callable[[], tuple[Entry, ...]], calls: Calls) -> None:
        self.inner = ctx
        self._history = history
        self._calls = calls

    @property
    def session_id(self) -> str:
        return self.inner.session_id

    @property
    def settings(self) -> Settings:
        return self.inner.settings

    def branch(self) -> tuple[Entry, ...]:
        return self._calls.on_loop(self._history)

    def append_custom(self, custom_type: str, data: Json) -> Entry:
        return self._calls.on_loop(lambda: self.inner.append_custom(custom_type, data))

    def emit(self, event: Event) -> None:
        self._calls.on_loop(lambda: self.inner.emit(shown(event)))


class HookBridge(AgentHooks):
    """The hooks of one extension: `handlers` by event. `ctx` is that of the session which was opened last."""

    def __init__(self, name: str, limits: Mapping[str, float] = LIMITS) -> None:
        self.name = name
        self.ctx: _Context | None = None
        self.calls = Calls(lambda what: _left(self, what), limits)
        self.handlers: dict[str, list[Handler]] = {}

    def attach(self, ctx: HookContext, history: Callable[[], tuple[Entry, ...]]) -> None:
        """Work on another session from now on; `history` gives its branch from the root on."""
        self.calls.attach()
        self.ctx = _Context(ctx, history, self.calls)

    def tell(self, event: Event) -> None:
        """Tell the handlers of an event that nobody answers; a fault is reported and ends nothing."""
        name = _EVENTS.get(type(event), "")
        for handler in tuple(self.handlers.get(name, ())):
            _at_once(self, self.ctx, name, handler, _told(event))

    async def session_start(self, ctx: HookContext, reason: StartReason) -> None:
        await self._ask("session_start", {"reason": reason}, ctx)

    async def before_agent_start(self, ctx: HookContext, prompt: UserMessage) -> PromptPatch | None:
        said = await self._ask("before_agent_start", {"prompt": text_of(prompt)}, ctx)
        texts = [one if isinstance(one, str) else one["systemAppend"] for one in said]
        return PromptPatch("\n\n".join(filter(None, texts)))

    def context(self, ctx: HookContext, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        for handler in tuple(self.handlers.get("context", ())):
            said = _at_once(self, _seen(self, ctx), "context", handler, {"messages": messages})
            if said:
                messages = tuple(said["messages"])
        return messages

    async def tool_call(self, ctx: HookContext, call: ToolCall) -> Block | None:
        """Ask the handlers up to the first that blocks; what one raises passes, so that the call is blocked."""
        event: Json = {"toolName": call.name, "toolCallId": call.id, "input": call.arguments}
        for handler in tuple(self.handlers.get("tool_call", ())):
            answer = await self.calls.ask("tool_call", handler, event, _seen(self, ctx))
            said = as_dict(answer_of("tool_call", answer))
            if said.get("block"):
                return Block(as_str(said.get("reason")) or f"blocked by the extension {self.name}")
        return None

    async def turn_end(self, ctx: HookContext, turn: TurnEnd) -> None:
        event: Json = {"message": turn.message, "toolResults": turn.results, "last": turn.last}
        aborted = turn.message.stop_reason == "aborted"  # who has pressed Esc does not want to wait
        await self._ask("turn_end", event, ctx, "turn_end after an abort" if aborted else "turn_end")

    async def session_before_compact(self, ctx: HookContext, prep: CompactionPrep) -> CompactionResult | None:
        event: Json = {
            "firstKeptEntryId": prep.first_kept_entry_id,
            "tokensBefore": prep.tokens_before,
            "reason": prep.reason,
            "instructions": prep.instructions,
        }
        for said in await self._ask("session_before_compact", event, ctx):
            made = as_dict(said["compaction"])
            return CompactionResult(
                as_str(made.get("summary")),
                as_str(made.get("firstKeptEntryId")) or prep.first_kept_entry_id,
                as_int(made.get("tokensBefore"), prep.tokens_before),
                as_dict(made.get("details")),
            )
        return None

    async def session_compact(self, ctx: HookContext, entry_id: str) -> None:
        await self._ask("session_compact", {"entryId": entry_id}, ctx)

    async def session_shutdown(self, ctx: HookContext, reason: str) -> None:
        await self._ask("session_shutdown", {"reason": reason}, ctx)

    async def _ask(self, event: str, fields: Json, ctx: HookContext, limit: str = "") -> list[Any]:
        """Call every handler of an event and return the answers; one that fails is reported and holds up no other."""
        said: list[Any] = []
        for handler in tuple(self.handlers.get(event, ())):
            try:
                answer = answer_of(event, await self.calls.ask(limit or event, handler, fields, _seen(self, ctx)))
            except Exception as error:  # noqa: BLE001 - whatever an extension raises is reported, not raised
                _failed(ctx, self.name, event, error)
                continue
            if answer is not None:
                said.append(answer)
        return said


def _failed(ctx: HookContext, name: str, event: str, error: Exception) -> None:
    ctx.emit(HookFailed(name, event, f"{type(error).__name__}: {error}"))


def _left(bridge: HookBridge, what: str) -> None:
    if bridge.ctx is not None:
        bridge.ctx.emit(Notice(f"the extension {bridge.name}: its {what}", "warning"))


def _seen(bridge: HookBridge, ctx: HookContext) -> _Context:
    """Choose the context of the session that is meant: one that closes may no longer be the open one."""
    own = bridge.ctx
    return own if own is not None and own.inner is ctx else _Context(ctx, ctx.branch, bridge.calls)


def _at_once(bridge: HookBridge, ctx: _Context | None, event: str, handler: Handler, fields: Json) -> Any:
    """Call a handler that cannot be waited for; a fault is reported. One that does not return is not called again."""
    try:
        answer = bridge.calls.at_once(event, handler, fields, ctx)
        if inspect.iscoroutine(answer):
            answer.close()
        if inspect.isawaitable(answer):
            raise TypeError("it must be a plain function")
        return answer_of(event, answer)
    except Exception as error:  # noqa: BLE001 - whatever an extension raises is reported, not raised
        if isinstance(error, TooLate):
            bridge.handlers[event].remove(handler)
        if ctx is not None:
            _failed(ctx.inner, bridge.name, event, error)
        return None


def _told(event: Event) -> Json:
    match event:
        case AgentEnd():
            return {"messages": event.messages}
        case AgentSettled():
            return {"aborted": event.aborted}
        case MessageStart() | MessageEnd():
            return {"message": event.message}
        case ToolStart():
            return _called(event.call)
        case ToolUpdate():
            return {**_called(event.call), "partialResult": event.text}
        case ToolEnd():
            return {**_called(event.call), "result": event.result, "isError": event.result.is_error}
        case _:
            return {}


def _called(call: ToolCall) -> Json:
    return {"toolCallId": call.id, "toolName": call.name, "args": call.arguments}
