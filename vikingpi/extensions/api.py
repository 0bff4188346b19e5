"""What an extension file gets: its `setup(vpi)` is called once, with an Extension to register things on.

Event names are pi's. A handler is a plain or an async function of (event, ctx): `event` is a dict whose keys are
named below, `ctx` is the hook context (session_id, branch(), append_custom(), emit(), settings).

    session_start           reason
    before_agent_start      prompt                      -> {"systemAppend": text} or text
    context                 messages (of vikingpi.messages) -> {"messages": [...]}; plain function, must not wait
    tool_call               toolName, toolCallId, input -> {"block": True, "reason": text}
    turn_end                message, toolResults, last
    session_before_compact  firstKeptEntryId, tokensBefore, reason, instructions
                                                        -> {"compaction": {"summary", "firstKeptEntryId", ...}}
    session_compact         entryId
    session_shutdown        reason

A handler that raises, or answers anything else, is named in a warning and skipped; in tool_call it blocks the call.
So is one that does not return within the limits of `calls.py`; Esc ends it earlier.

Async functions run on the event loop. Plain ones run in a thread of their own, where there is no event loop (plain
tools of one extension one after the other), so that they may block; all of `vpi` and `ctx` can be used there.
Handlers of `context` and those that follow run on the loop's thread and must return at once.

Only told, nothing can be answered; plain functions: agent_start, agent_end, agent_settled, turn_start,
message_start, message_end, tool_execution_start, tool_execution_update, tool_execution_end.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

from vikingpi.command import Command
from vikingpi.decode import Json
from vikingpi.errors import ExtensionError
from vikingpi.events import Notice
from vikingpi.extensions.bridge import ANSWERED, TOLD, Handler, HookBridge
from vikingpi.extensions.calls import Calls
from vikingpi.extensions.checks import command_name, function, outcome_of, tool_spec
from vikingpi.messages import ToolSpec
from vikingpi.tools.base import Tool, ToolContext, ToolOutcome

Run = Callable[[Json, ToolContext], "Awaitable[str | ToolOutcome] | str | ToolOutcome"]
RunCommand = Callable[[str], "Awaitable[str | None] | str | None"]


class Extension:
    """One extension file; `tools`, `commands` and `hooks` are what it has registered until it was `ready`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tools: list[Tool] = []
        self.commands: list[Command] = []
        self.hooks = HookBridge(name)
        self.ready = False
        self._one_tool = asyncio.Lock()

    def on(self, event: str, handler: Handler) -> None:
        """Call `handler` at every event of this name; ExtensionError for a name that does not exist."""
        if event not in ANSWERED and event not in TOLD:
            known = ", ".join(sorted((*ANSWERED, *TOLD)))
            raise ExtensionError(f"there is no event {event}", hint=f"events: {known}")
        function(f"a handler of {event}", handler)
        if (event not in ANSWERED or event == "context") and inspect.iscoroutinefunction(handler):
            raise ExtensionError(f"a handler of {event} must be a plain function")
        self.hooks.handlers.setdefault(event, []).append(handler)

    def register_tool(self, name: str, description: str, parameters: Json, run: Run) -> None:
        """Give the model a tool. `parameters` is a JSON Schema object; `run(arguments, context)` returns a text or
        a ToolOutcome, and raises ToolError for what the model should read as a failure.

        ExtensionError for what no provider takes, and after setup.
        """
        self._still("a tool")
        spec, run = tool_spec(name, description, parameters), function(f"the tool {name}", run)
        self.tools.append(_FunctionTool(spec, run, self.hooks.calls, self._one_tool))

    def register_command(self, name: str, description: str, run: RunCommand) -> None:
        """Add a slash command; `run` takes the text after its name and returns what to show.

        ExtensionError for a name that nobody can type, and after setup.
        """
        self._still("a command")
        name, run = command_name(name, description), function(f"the command {name}", run)

        async def guarded(argument: str) -> str:
            try:
                said: object = await self.hooks.calls.ask(f"command /{name}", run, argument)
                return "" if said is None else str(said)
            except Exception as error:  # noqa: BLE001 - whatever an extension raises is shown, not raised
                return f"The extension {self.name} failed: {type(error).__name__}: {error}"

        self.commands.append(Command(name, description, guarded))

    def notify(self, text: str) -> None:
        """Show one line to the user; without an open session nothing."""
        if self.hooks.ctx is not None:
            self.hooks.ctx.emit(Notice(text))

    def append_entry(self, custom_type: str, data: Json) -> None:
        """Write an entry that no model sees; ExtensionError while no session is open."""
        if self.hooks.ctx is None:
            raise ExtensionError("no session is open yet")
        self.hooks.ctx.append_custom(custom_type, data)

    def _still(self, what: str) -> None:
        if self.ready:
            raise ExtensionError(f"{what} is registered in setup: later the session has what it was opened with")


class _FunctionTool:
    def __init__(self, spec: ToolSpec, run: Run, calls: Calls, turn: asyncio.Lock) -> None:
        self._spec = spec
        self._run = run
        self._calls = calls
        self._turn = nullcontext() if inspect.iscoroutinefunction(run) else turn

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    async def run(self, arguments: Json, context: ToolContext) -> ToolOutcome:
        ended = False

        def update(tail: str) -> None:
            self._calls.on_loop(lambda: None if ended else context.update(str(tail)))

        try:
            async with self._turn:
                given = context._replace(update=update)
                return outcome_of(await self._calls.ask(f"tool {self._spec.name}", self._run, arguments, given))
        finally:
            ended = True
