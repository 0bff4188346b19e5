"""An application without model, session file or store: each prompt plays what the test wrote down."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from vikingpi.agent.inbox import Inbox
from vikingpi.agent.templates import Library, Template
from vikingpi.app.shell import ShellRun
from vikingpi.command import Command
from vikingpi.commands.chooser import Asker, Chooser
from vikingpi.commands.controls import Controls
from vikingpi.config.model import Settings
from vikingpi.decode import Json
from vikingpi.errors import VpiError
from vikingpi.events import (
    AgentEnd,
    AgentSettled,
    AgentStart,
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    StoreState,
    ToolEnd,
    ToolStart,
    TurnEnd,
    TurnStart,
)
from vikingpi.llm.base import Model, Price
from vikingpi.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    StopReason,
    TextPart,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    user_text,
)
from vikingpi.session.entries import Entry
from vikingpi.session.file import SessionLog, memory_session
from vikingpi.takeover.replaced import Replaced, Replacement
from vikingpi.tools.base import ToolContext
from vikingpi.tools.bash import BashTool, Execution

MODEL = Model("lab", "fake", "scripted", "", "", {}, 128_000, 4096, False, False, Price(), {})
OFF = StoreState("off", None)


def answer(*parts: TextPart | ToolCall, reason: StopReason = "stop", error: str | None = None) -> AssistantMessage:
    return AssistantMessage(parts, "scripted", "lab", "fake", Usage(564, 20), reason, 1_796_032_268_376, error)


def text_answer(text: str, reason: StopReason = "stop", error: str | None = None) -> AssistantMessage:
    return answer(*((TextPart(text),) if text else ()), reason=reason, error=error)


def text_events(message: AssistantMessage, pieces: Sequence[str]) -> list[Event]:
    """What one answer of text looks like while it arrives."""
    events: list[Event] = [MessageStart(message._replace(content=())), MessageUpdate("text_start", 0)]
    events += [MessageUpdate("text_delta", 0, piece) for piece in pieces]
    return [*events, MessageUpdate("text_end", 0), MessageEnd(message)]


def tool_events(call: ToolCall, output: str, *, is_error: bool = False, details: Json | None = None) -> list[Event]:
    result = ToolResultMessage(call.id, call.name, (TextPart(output),), is_error, 0, details, 631)
    return [ToolStart(call), ToolEnd(call, result), MessageStart(result), MessageEnd(result)]


class Figures(NamedTuple):
    cwd: str = "/srv/app/proj"
    session_name: str = ""
    model: str = "lab/fake"
    thinking_level: str = "off"
    tokens_in: int = 1300
    tokens_out: int = 40
    cache_read: int = 0
    cost: float = 0.0012
    context_tokens: int = 12_300
    context_window: int = 128_000
    store: StoreState = OFF
    approval: str = "off"


class FakeStore:
    """Answers like takeover and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def report(self) -> str:
        return "endpoint http://127.0.0.1:1933"

    async def commit(self) -> str:
        self.asked.append("commit")
        return "archived 2 turns"

    async def reconnect(self) -> str:
        self.asked.append("reconnect")
        return "connected"

    async def switch(self, on: bool) -> str:
        self.asked.append(f"switch {on}")
        return "on" if on else "off"

    def replaced(self) -> Replaced:
        return Replaced(Replacement("## Session Title\nA test", "2026-11-30T14:00:00.000Z", 2, "archive_001"))


class FakeMemory:
    """Answers what it was asked."""

    async def search(self, query: str) -> str:
        return f"found {query}"

    async def expand(self, what: str) -> str:
        return f"```\n{what or 'list'}\n```"


class Choice(NamedTuple):
    model: Model = MODEL
    thinking_level: str = "off"


class FakeAgent:
    def __init__(self) -> None:
        self.inbox = Inbox()
        self.last_error: VpiError | None = None
        self.deps = Choice()
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True

    def use_model(self, model: Model, thinking_level: str) -> None:
        self.deps = Choice(model, thinking_level)

    def steer(self, text: str, images: Sequence[ImagePart] = ()) -> None:
        self.inbox.steer(UserMessage((TextPart(text), *images), 0))

    def follow_up(self, text: str, images: Sequence[ImagePart] = ()) -> None:
        self.inbox.follow_up(UserMessage((TextPart(text), *images), 0))


@dataclass
class FakeParts:
    session: SessionLog
    agent: FakeAgent = field(default_factory=FakeAgent)
    takeover: FakeStore | None = None
    model: Model = MODEL
    thinking_level: str = "off"
    notices: tuple[str, ...] = ()
    memory: FakeMemory | None = None

    @property
    def cwd(self) -> Path:
        return Path(self.session.cwd)


class FakeShell:
    """Runs commands for real and keeps what came of them."""

    def __init__(self, folder: Path) -> None:
        self.runs: list[ShellRun] = []
        self._folder = folder
        self._task: asyncio.Task[Execution] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None

    async def run(self, command: str, update: Callable[[str], None], *, excluded: bool = False) -> ShellRun:
        context = ToolContext(self._folder, os.environ, update, 60, self._folder / "tmp")
        self._task = asyncio.create_task(BashTool().execute(command, context, 60))
        try:
            done = await self._task
            run = ShellRun(command, done.output, done.exit_code, excluded=excluded)
        except asyncio.CancelledError:
            run = ShellRun(command, "", None, cancelled=True, excluded=excluded)
        finally:
            self._task = None
        self.runs.append(run)
        return run

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


Play = Callable[["FakeApp", str], AsyncIterator[Event]]


class FakeApp:
    """Plays `play(app, text)` for each prompt; the last assistant MessageEnd is the answer."""

    def __init__(self, play: Play, *, session: SessionLog | None = None) -> None:
        self.settings = Settings()
        self.started = 0
        self.parts = FakeParts(session or memory_session("/srv/app/proj"))
        self.commands: tuple[Command, ...] = ()
        self.quit_requested = False
        self.asker: Asker | None = None
        self.chooser: Chooser | None = None
        self.controls: Controls | None = None
        self.figures = Figures()
        self.submitted: list[str] = []
        self.images: list[tuple[ImagePart, ...]] = []
        self.compacted: list[str] = []
        self.refusal: str | None = None
        self.sessions = 1
        self.aborted = asyncio.Event()
        self.shell = FakeShell(Path.cwd())
        self.library = Library({"review": Template("review", "look at the changes", "")})
        self._play = play
        self._listeners: list[Callable[[Event], None]] = []
        self._busy = asyncio.Lock()

    @property
    def running(self) -> bool:
        return self._busy.locked()

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        self._listeners.append(listener)

    def emit(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    async def start(self) -> None:
        self.started += 1

    async def submit(self, text: str, images: Sequence[ImagePart] = ()) -> AssistantMessage | None:
        async with self._busy:
            self.aborted.clear()
            self.submitted.append(text)
            self.images.append(tuple(images))
            self.emit(AgentStart())
            last, messages = None, list[Message]()
            async for event in self._play(self, text):
                self.emit(event)
                if isinstance(event, MessageEnd):
                    messages.append(event.message)
                    if isinstance(event.message, AssistantMessage):
                        last = event.message
            self.emit(AgentEnd(tuple(messages)))
            self.emit(AgentSettled(self.aborted.is_set()))
            return last

    def abort(self) -> None:
        self.aborted.set()

    async def new_session(self) -> None:
        self.sessions += 1
        self.parts = FakeParts(memory_session("/srv/app/proj"))

    async def compact(self, instructions: str = "") -> str | None:
        async with self._busy:
            self.compacted.append(instructions)
        return self.refusal

    def status(self) -> Figures:
        return self.figures


def user_events(text: str) -> list[Event]:
    message = UserMessage((TextPart(text),), 1_796_032_268_331)
    return [MessageStart(message), MessageEnd(message)]


def replay(*answers: AssistantMessage | list[Event] | VpiError) -> Play:
    """Play one item per prompt: an answer in one piece, ready-made events, or an error."""
    waiting = list(answers)

    async def play(app: FakeApp, text: str) -> AsyncIterator[Event]:
        item = waiting.pop(0)
        if isinstance(item, VpiError):
            raise item
        yield TurnStart()
        for event in user_events(text):
            yield event
        if isinstance(item, list):
            for event in item:
                yield event
            return
        for event in text_events(item, [item.text]):
            yield event
        yield TurnEnd(item, ())

    return play


def entry(entry_id: str, fields: Json) -> Entry:
    return Entry(entry_id, None, fields["type"], "", fields)


def session_in(folder: Path, *texts: str) -> SessionLog:
    """A session with a file that holds these user texts."""
    from vikingpi.session.file import create_session

    log = create_session(folder, "/srv/app/proj", folder / "locks", session_id="s1")
    for text in texts:
        log.append_message(user_text(text, 1))
    return log
