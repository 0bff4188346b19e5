"""Runs the tool calls of one answer side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from vikingpi.agent.deps import AgentDeps
from vikingpi.decode import Json
from vikingpi.errors import ToolError
from vikingpi.events import ToolEnd, ToolStart, ToolUpdate
from vikingpi.messages import AssistantMessage, ImagePart, Message, TextPart, ToolCall, ToolResultMessage, UserMessage
from vikingpi.session.entries import whole
from vikingpi.tools.base import ToolOutcome, lock_key, text_outcome
from vikingpi.tools.schema import validate
from vikingpi.values import NamedTuple

ABORTED = "Command aborted"
CUT_OFF = (
    "This call did not run: the answer that holds it was cut at the output limit, so its arguments may be"
    " incomplete. Make a smaller call."
)
INTERRUPTED = "The run was interrupted before this call had a result; it may have taken effect in part."
END_TIMEOUT = 10.0

Store = Callable[[ToolResultMessage], ToolResultMessage]


class _Started(NamedTuple):
    call: ToolCall
    task: asyncio.Task[ToolResultMessage]
    since: int


class ToolRun:
    """The calls of one answer. Results are stored in call order, each as soon as those before it are there."""

    def __init__(self, deps: AgentDeps, store: Store) -> None:
        self._deps = deps
        self._store = store
        self._tools = {tool.spec.name: tool for tool in deps.tools}
        self._locks: dict[str, asyncio.Lock] = {}
        self._tails: dict[str, str] = {}
        self._results: list[ToolResultMessage] = []

    async def run(self, calls: Sequence[ToolCall]) -> tuple[ToolResultMessage, ...]:
        """Run `calls` and return their results. On cancellation every call gets a result, then it passes."""
        started: list[_Started] = []
        try:
            for call in calls:
                self._deps.emit(ToolStart(call))
                started.append(await self._start(call))
            for one in started:
                await asyncio.wait([one.task])
                self._results.append(self._store(one.task.result()))
        except asyncio.CancelledError:
            try:
                await _end(started)
            finally:
                self._give_up(calls, started)
            raise
        finally:
            for one in started:
                one.task.cancel()
        return tuple(self._results)

    def refuse(self, calls: Sequence[ToolCall]) -> tuple[ToolResultMessage, ...]:
        """Answer the calls of an answer that was cut off; none of them runs."""
        for call in calls:
            self._deps.emit(ToolStart(call))
            outcome = text_outcome(CUT_OFF, is_error=True)
            self._results.append(self._store(self._ended(call, outcome, self._deps.clock())))
        return tuple(self._results)

    async def _start(self, call: ToolCall) -> _Started:
        """Ask the hooks about `call`, one call after the other, then let it run."""
        since = self._deps.clock()
        arguments, refusal = self._checked(call)
        if not refusal:
            block = await self._deps.hooks.tool_call(call._replace(arguments=arguments))
            refusal = block.reason if block is not None else ""
            since = self._deps.clock()  # what a user took to decide is no time of the call
        return _Started(call, asyncio.create_task(self._one(call, arguments, refusal, since)), since)

    def _checked(self, call: ToolCall) -> tuple[Json, str]:
        tool = self._tools.get(call.name)
        if tool is None:
            return {}, f"Tool {call.name} not found"
        if call.broken:
            fault = f'Validation failed for tool "{call.name}":\n  - arguments: not a JSON object'
            return {}, f"{fault}\n\nReceived arguments:\n{call.broken}"
        return validate(tool.spec, call.arguments)

    async def _one(self, call: ToolCall, arguments: Json, refusal: str, since: int) -> ToolResultMessage:
        if refusal:
            return self._ended(call, text_outcome(refusal, is_error=True), since)
        try:
            return self._ended(call, await self._work(call, arguments), since)
        except ToolError as error:
            fault = str(error)
        except Exception as error:  # noqa: BLE001 - a tool may come from anybody; the model is told what broke
            fault = f"{type(error).__name__}: {error}"
        return self._ended(call, text_outcome(fault, is_error=True, details={}), since)

    async def _work(self, call: ToolCall, arguments: Json) -> ToolOutcome:
        tool = self._tools[call.name]
        context = self._deps.tool_context(lambda tail: self._show(call, tail))
        key = lock_key(tool, arguments, context)
        if key is None:
            return await tool.run(arguments, context)
        async with self._locks.setdefault(key, asyncio.Lock()):
            return await tool.run(arguments, context)

    def _show(self, call: ToolCall, tail: str) -> None:
        self._tails[call.id] = tail
        self._deps.emit(ToolUpdate(call, tail))

    def _ended(self, call: ToolCall, outcome: ToolOutcome, since: int) -> ToolResultMessage:
        now = self._deps.clock()
        content = tuple(_clean(part) for part in outcome.content)
        result = ToolResultMessage(
            call.id, call.name, content, outcome.is_error, now, outcome.details, max(0, now - since)
        )
        self._deps.emit(ToolEnd(call, result))
        return result

    def _give_up(self, calls: Sequence[ToolCall], started: Sequence[_Started]) -> None:
        """Store what is there and a failed result for each call that has none."""
        for position in range(len(self._results), len(calls)):
            call, since = calls[position], self._deps.clock()
            if position < len(started):
                task, since = started[position].task, started[position].since
                if task.done() and not task.cancelled():
                    self._results.append(self._store(task.result()))
                    continue
            elif position > len(started):
                self._deps.emit(ToolStart(call))
            tail = self._tails.get(call.id, "").rstrip("\n")
            text = f"{tail}\n\n{ABORTED}" if tail else ABORTED
            outcome = text_outcome(text, is_error=True, details={})
            self._results.append(self._store(self._ended(call, outcome, since)))


def open_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return the calls at the end of a conversation that a killed process left without a result."""
    answered: set[str] = set()
    for message in reversed(messages):
        match message:
            case ToolResultMessage():
                answered.add(message.tool_call_id)
            case AssistantMessage(stop_reason="stop" | "toolUse" | "length"):
                return tuple(call for call in message.calls if call.id not in answered)
            case UserMessage(kind="user"):
                break
            case _:
                pass
    return ()


def interrupted(call: ToolCall, now: int) -> ToolResultMessage:
    """Make the result of a call whose outcome nobody knows."""
    return ToolResultMessage(call.id, call.name, (TextPart(INTERRUPTED),), True, now)


async def _end(started: Sequence[_Started]) -> None:
    running = [one.task for one in started if not one.task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=END_TIMEOUT)


def _clean(part: TextPart | ImagePart) -> TextPart | ImagePart:
    return TextPart(whole(part.text)) if isinstance(part, TextPart) else part
