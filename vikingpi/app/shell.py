"""Commands that the user runs from the editor with `!`; `!!` keeps them from the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from vikingpi.agent.loop import Agent
from vikingpi.decode import Json, as_dict, as_str
from vikingpi.errors import SessionError, ToolError
from vikingpi.events import Notice
from vikingpi.messages import Message, UserMessage
from vikingpi.session.entries import Entry
from vikingpi.session.file import SessionLog
from vikingpi.session.tree import build_context
from vikingpi.tools.bash import BashTool, Execution
from vikingpi.values import NamedTuple

_LONGEST_SECONDS = 86_400.0


class ShellRun(NamedTuple):
    """What a command came to; `exit_code` is None where it was cancelled, `problem` says why it could not start, `left`
    what of it is still running."""

    command: str
    output: str
    exit_code: int | None
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str = ""
    excluded: bool = False
    problem: str = ""
    left: str = ""


def recorded_runs(branch: Sequence[Entry]) -> dict[str, ShellRun]:
    """Read the commands that a branch records, each by the id of its entry."""
    messages = ((entry.id, as_dict(entry.raw.get("message"))) for entry in branch if entry.type == "message")
    return {name: _run_of(message) for name, message in messages if message.get("role") == "bashExecution"}


def seen_messages(branch: Sequence[Entry], runs: Mapping[str, ShellRun]) -> tuple[Message, ...]:
    """Return the messages of a branch, and empty ones for those of its `runs` that the model does not read."""
    messages = build_context(branch)
    places = {entry.id: at for at, entry in enumerate(branch)}
    told = {entry.id for entry in branch if entry.type == "message"}
    at = [places[one.entry_id] if one.entry_id in told else -1 for one in messages]  # a summary has no place
    first = min((place for place in at if place >= 0), default=0) if any(place < 0 for place in at) else 0
    hidden = [name for name, run in runs.items() if run.excluded and places[name] >= first]
    shown: list[Message] = []
    for place, message in zip(at, messages, strict=True):
        while hidden and places[hidden[0]] < place:
            shown.append(UserMessage((), 0, hidden.pop(0), "bash"))
        shown.append(message)
    return (*shown, *(UserMessage((), 0, name, "bash") for name in hidden))


def _run_of(message: Json) -> ShellRun:
    code = message.get("exitCode")
    return ShellRun(
        as_str(message.get("command")),
        as_str(message.get("output")),
        code if isinstance(code, int) else None,
        cancelled=message.get("cancelled") is True,
        truncated=message.get("truncated") is True,
        full_output_path=as_str(message.get("fullOutputPath")),
        excluded=message.get("excludeFromContext") is True,
    )


class UserShell:
    """Runs one command at a time and keeps the record of it back until the agent is at rest."""

    def __init__(self, agent: Callable[[], Agent], busy: Callable[[], bool]) -> None:
        self._agent = agent
        self._busy = busy
        self._tool = BashTool()
        self._task: asyncio.Task[Execution] | None = None
        self._cancelled = False
        self._held: list[tuple[SessionLog, Json]] = []

    @property
    def running(self) -> bool:
        return self._task is not None

    async def run(self, command: str, update: Callable[[str], None], *, excluded: bool = False) -> ShellRun:
        """Run it in the session's folder; `update` takes the whole tail of the output while it grows.

        The record is one message of the session, which the model reads unless it is `excluded`.
        """
        deps, tail = self._agent().deps, ""

        def note(text: str) -> None:
            nonlocal tail
            tail = text
            update(text)

        context = deps.tool_context(note)
        own = {name: value for name, value in context.env.items() if not name.startswith("VPI_SESSION_")}
        execution = self._tool.execute(command, context._replace(env=own), _LONGEST_SECONDS)
        self._cancelled = False
        self._task = asyncio.get_running_loop().create_task(execution)
        try:
            done = await self._task
            result = ShellRun(
                command,
                done.output,
                done.exit_code,
                truncated=done.truncation.by is not None,
                full_output_path=done.full_output_path,
                excluded=excluded,
                left=done.left,
            )
        except asyncio.CancelledError:
            result = ShellRun(command, tail, None, cancelled=True, excluded=excluded)
            if not self._cancelled:
                self._record(deps.session, result)
                raise
        except ToolError as error:
            return ShellRun(command, "", None, excluded=excluded, problem=str(error))
        finally:
            self._task = None
        self._record(deps.session, result)
        return result

    def cancel(self) -> None:
        """End the command that runs; its record says so."""
        if self._task is not None:
            self._cancelled = True
            self._task.cancel()

    def settle(self) -> None:
        """Write what was held back."""
        held, self._held = self._held, []
        for session, fields in held:
            self._append(session, fields)

    def close(self) -> None:
        """End what commands have left in the background."""
        self._tool.close()

    def _record(self, session: SessionLog, result: ShellRun) -> None:
        message: Json = {
            "role": "bashExecution",
            "command": result.command,
            "output": result.output,
            "exitCode": result.exit_code,
            "cancelled": result.cancelled,
            "truncated": result.truncated,
            "fullOutputPath": result.full_output_path or None,
            "timestamp": self._agent().now_ms(),
            "excludeFromContext": result.excluded,
        }
        fields = {"message": {key: value for key, value in message.items() if value is not None}}
        if self._busy():
            self._held.append((session, fields))
        else:
            self._append(session, fields)

    def _append(self, session: SessionLog, fields: Json) -> None:
        if session is not self._agent().deps.session:
            self._agent().deps.emit(
                Notice("the command ended after its session was left: it is not recorded", "warning")
            )
            return
        try:
            session.append("message", fields)
        except SessionError as error:
            self._agent().deps.emit(Notice(f"the command is not recorded: {error}", "error", error.hint))
