"""Hands the events of the agent to the handlers of one extension, and their answers back."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

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
from vikingpi.decode import Json, as_dict, as_int, as_str
from vikingpi.events import (
    AgentEnd,
    AgentSettled,
    AgentStart,
    Event,
    HookFailed,
    MessageEnd,
    MessageStart,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    TurnStart,
)
from vikingpi.messages import Message, ToolCall, UserMessage, text_of

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


async def answer_of(value: Any) -> Any:
    """Wait for the answer of an async handler; return that of a plain one."""
    return await value if inspect.isawaitable(value) else value


class HookBridge(AgentHooks):
    """The hooks of one extension. `ctx` is that of the open session."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ctx: HookContext | None = None
        self._handlers: dict[str, list[Handler]] = {}

    def add(self, event: str, handler: Handler) -> None:
        self._handlers.setdefault(event, []).append(handler)

    def tell(self, event: Event) -> None:
        """Tell the handlers of an event that nobody answers; a fault is reported and ends nothing."""
        name = _EVENTS.get(type(event), "")
        for handler in self._handlers.get(name, ()):
            try:
                handler(_told(event), self.ctx)
            except Exception as error:  # noqa: BLE001 - whatever an extension raises is reported, not raised
                if self.ctx is not None:
                    self.ctx.emit(HookFailed(self.name, name, f"{type(error).__name__}: {error}"))

    async def session_start(self, ctx: HookContext, reason: StartReason) -> None:
        self.ctx = ctx
        await self._ask("session_start", {"reason": reason}, ctx)

    async def before_agent_start(self, ctx: HookContext, prompt: UserMessage) -> PromptPatch | None:
        said = await self._ask("before_agent_start", {"prompt": text_of(prompt)}, ctx)
        texts = [one if isinstance(one, str) else as_str(as_dict(one).get("systemAppend")) for one in said]
        return PromptPatch("\n\n".join(filter(None, texts)))

    def context(self, ctx: HookContext, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        for handler in self._handlers.get("context", ()):
            said = as_dict(handler({"messages": messages}, ctx))
            if isinstance(said.get("messages"), (list, tuple)):
                messages = tuple(cast("list[Message]", said["messages"]))
        return messages

    async def tool_call(self, ctx: HookContext, call: ToolCall) -> Block | None:
        event: Json = {"toolName": call.name, "toolCallId": call.id, "input": call.arguments}
        for said in await self._ask("tool_call", event, ctx):
            answer = as_dict(said)
            if answer.get("block") is True:
                return Block(as_str(answer.get("reason")) or f"blocked by the extension {self.name}")
        return None

    async def turn_end(self, ctx: HookContext, turn: TurnEnd) -> None:
        event: Json = {"message": turn.message, "toolResults": turn.results, "last": turn.last}
        await self._ask("turn_end", event, ctx)

    async def session_before_compact(self, ctx: HookContext, prep: CompactionPrep) -> CompactionResult | None:
        event: Json = {
            "firstKeptEntryId": prep.first_kept_entry_id,
            "tokensBefore": prep.tokens_before,
            "reason": prep.reason,
            "instructions": prep.instructions,
        }
        for said in await self._ask("session_before_compact", event, ctx):
            made = as_dict(as_dict(said).get("compaction"))
            if as_str(made.get("summary")).strip():
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

    async def _ask(self, event: str, fields: Json, ctx: HookContext) -> list[Any]:
        """Call every handler of an event and return the answers that are not None; raise what they raise."""
        said = [await answer_of(handler(fields, ctx)) for handler in self._handlers.get(event, ())]
        return [one for one in said if one is not None]


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
