"""The interactive program for a terminal that can only print: a line in, the answer out, no escape sequences."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from vikingpi import events, safetext
from vikingpi.commands.chooser import Option
from vikingpi.commands.host import Host
from vikingpi.errors import VpiError
from vikingpi.messages import AssistantMessage, ImagePart, UserMessage
from vikingpi.ui.history import PromptHistory
from vikingpi.ui.input import user_command
from vikingpi.ui.interrupts import Interrupts
from vikingpi.ui.keys import Twice
from vikingpi.ui.lines import Line, failure_of, line_of, written
from vikingpi.ui.menu import command_in, names_of, slip_in
from vikingpi.ui.plain import Prompt, hint_of, write
from vikingpi.ui.rows import command_rows, results

if TYPE_CHECKING:
    from collections.abc import Generator

PROMPT = "> "
REFUSING = "no"


class _Lines:
    """Reads lines without blocking the loop; the last one is None."""

    def __init__(self, source: TextIO) -> None:
        self._descriptor = source.fileno()
        self._coding = source.encoding or "utf-8"
        self._rest = b""
        self._ended = False
        self._waiting: asyncio.Queue[str | None] = asyncio.Queue()
        self._asked: asyncio.Future[list[str | None]] | None = None

    @contextmanager
    def reading(self) -> Generator[_Lines, None, None]:
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(self._descriptor, self._arrived)
        except PermissionError:
            # A regular file is always readable and cannot be watched.
            self._arrived()
            yield self
            return
        try:
            yield self
        finally:
            loop.remove_reader(self._descriptor)

    @property
    def waiting(self) -> bool:
        return not self._waiting.empty()

    def clear(self) -> None:
        """Forget a line that is not ended yet."""
        self._rest = b""

    def take(self) -> list[str]:
        """Return the lines that wait; only the end of the input still waits then."""
        if self._more():
            self.keep(self._read())
        lines: list[str | None] = []
        while not self._waiting.empty():
            lines.append(self._waiting.get_nowait())
        self.keep([None] if None in lines else [])
        return [line for line in lines if line is not None]

    async def next(self) -> str | None:
        """Return the next line without its end, None when there is no more."""
        return await self._waiting.get()

    async def answer(self) -> list[str | None]:
        """Return what comes at once, and not before now: what was there already waits for `next`."""
        if self._more():
            self._arrived()
        if self._ended:
            return [None]
        self._asked = asyncio.get_running_loop().create_future()
        try:
            return await self._asked
        finally:
            self._asked = None

    def keep(self, lines: Sequence[str | None]) -> None:
        """Let lines wait for `next`."""
        for line in lines:
            self._waiting.put_nowait(line)

    def _more(self) -> bool:
        return not self._ended and bool(select.select([self._descriptor], [], [], 0)[0])

    def _arrived(self) -> None:
        lines = self._read()
        while self._more():
            lines += self._read()
        if not lines or self._asked is None or self._asked.done():
            self.keep(lines)
        else:
            self._asked.set_result(lines)

    def _read(self) -> list[str | None]:
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not data:
            lines += [self._rest] if self._rest else []
            self._rest = b""
            self._ended = True
            asyncio.get_running_loop().remove_reader(self._descriptor)
        texts: list[str | None] = [line.decode(self._coding, "replace").rstrip("\r") for line in lines]
        return [*texts, None] if self._ended else texts


class Talk:
    """Prints what happens as it is complete."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    @property
    def asks(self) -> bool:
        """Whether somebody can read a question."""
        return self._out.isatty()

    def event(self, event: events.Event) -> None:
        """Print what an event says."""
        match event:
            case events.MessageEnd(message):
                if isinstance(message, AssistantMessage) and message.text.strip():
                    self.say(safetext.plain(message.text))
            case events.ToolEnd(call, result):
                for row in results(call, result):
                    self.say(row.text)
            case _:
                if (line := line_of(event)) is not None:
                    self.line(line)

    def line(self, line: Line) -> None:
        write(self._out, written(line))

    def say(self, text: str, end: str = "\n") -> None:
        write(self._out, text + end)


class _Questions:
    """Asks on a line of its own, one question after another. What was typed before it, and what is no answer to it,
    is a prompt."""

    def __init__(self, talk: Talk, lines: _Lines) -> None:
        self._talk = talk
        self._lines = lines
        self._open = asyncio.Lock()

    async def confirm(self, question: str, body: str, answers: Sequence[Option]) -> str | None:
        """Ask; an empty line refuses, the end of the input is None."""
        keys = {"": REFUSING} | {name: answer.key for answer in answers for name in (answer.key[:1], answer.key)}
        offered = "  ".join(f"[{_letter(answer)}] {answer.label}" for answer in answers)
        asked = safetext.literal(question).replace("\n", "\u240a")
        async with self._open:
            if body:
                self._talk.say("\n".join(map(safetext.literal, body.split("\n"))))
            while True:
                self._talk.say(f"{asked}\n{offered}: ", end="")
                lines = await self._lines.answer()
                if None in lines:
                    self._lines.keep(lines)
                    self._talk.say("")
                    return None
                if len(lines) == 1 and (key := keys.get(str(lines[0]).strip().lower())) is not None:
                    return key
                self._lines.keep(lines)
                self._talk.say("that is no answer; what you typed is sent when this is done")

    async def text(self, question: str) -> str | None:
        """Ask for a line."""
        async with self._open:
            self._talk.say(f"{question} ", end="")
            first, *others = await self._lines.answer()
            self._lines.keep([None, *others] if first is None else others)
            return first


def _letter(answer: Option) -> str:
    letter = answer.key[:1]
    return letter.upper() if answer.key == REFUSING else letter


class _Chat:
    """One line after another, and what Ctrl+C does meanwhile."""

    def __init__(self, app: Host, talk: Talk, lines: _Lines, history: PromptHistory) -> None:
        self._app = app
        self._talk = talk
        self._lines = lines
        self._history = history
        self._prompts: list[Prompt] = []
        self._running: asyncio.Task[None] | None = None
        self._unstored = ""
        self._twice = Twice()
        app.subscribe(self._event)

    async def run(self, prompts: Sequence[Prompt]) -> None:
        """Answer the prompts, then each line; what is still unsent at the end is in the history."""
        self._prompts += prompts
        try:
            while self._prompts and not self._app.quit_requested:
                await self._do(*self._prompts.pop(0))
            while not self._app.quit_requested:
                await self._next()
        except asyncio.CancelledError:
            self._take_back(unstored=True)
            raise
        self._show(self._take_back(unstored=True))

    def interrupt(self) -> None:
        """End what runs, or clear the line; leave when that is asked for twice."""
        if self._twice.pressed("c-c"):
            self._talk.say("")
            self._leave()
        elif self._running is None:
            self._lines.clear()
            self._talk.say(f"\nthe line is cleared; Ctrl+C again leaves\n{PROMPT}", end="")
        else:
            self._talk.say("\naborting; Ctrl+C again leaves")
            self._show(self._take_back(unstored=False))
            self._abort(self._running)

    def _leave(self) -> None:
        self._app.quit_requested = True
        if self._running is None:
            self._lines.keep([None])
        else:
            self._running.cancel()

    def _abort(self, running: asyncio.Task[None]) -> None:
        if self._app.shell.running:
            self._app.shell.cancel()
        elif self._app.running:
            self._app.abort()
        else:
            running.cancel()

    async def _next(self) -> None:
        early = self._lines.waiting
        self._talk.say(PROMPT, end="")
        line = await self._lines.next()
        if line is None:
            self._talk.say("")
            self._app.quit_requested = True
            return
        if early:  # its echo stands further up
            self._talk.say(safetext.literal(line))
        if line.strip():
            await self._do(line, ())

    async def _do(self, text: str, images: Sequence[ImagePart]) -> None:
        self._running = asyncio.get_running_loop().create_task(self._answer(text, images))
        try:
            await self._running
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._talk.line(Line("aborted"))
        finally:
            self._running = None
        if self._unstored:
            self._show(self._take_back(unstored=True))

    async def _answer(self, text: str, images: Sequence[ImagePart]) -> None:
        called = None if images else command_in(self._app.commands, text)
        run = None if images else user_command(text)
        try:
            if run is not None:
                for row in command_rows(
                    await self._app.shell.run(run.command, lambda tail: None, excluded=run.excluded)
                ):
                    self._talk.say(row.text)
            elif called is not None:
                command, argument = called
                if shown := await command.run(argument):
                    self._talk.say(safetext.plain(shown))
            elif slip := "" if images else slip_in(names_of(self._app), text):
                self._talk.line(Line(slip, "error", "a blank in front sends it to the model"))
            else:
                self._unstored = text
                failure = failure_of(await self._app.submit(text, images), hint_of(self._app))
                if failure is not None:
                    self._talk.line(failure)
        except VpiError as error:
            self._talk.line(Line(str(error), "error", error.hint))

    def _event(self, event: events.Event) -> None:
        if isinstance(event, events.MessageEnd) and isinstance(event.message, UserMessage):
            self._unstored = ""

    def _take_back(self, *, unstored: bool) -> list[str]:
        """Put what was not sent into the history, and return it; with the last prompt while that is not stored."""
        texts = [self._unstored] if unstored else []
        texts += [text for text, _ in self._prompts] + self._lines.take()
        self._unstored = "" if unstored else self._unstored
        self._prompts.clear()
        unsent = [text for text in texts if text.strip()]
        for text in unsent:
            self._history.store_string(text)
        return unsent

    def _show(self, unsent: Sequence[str]) -> None:
        if unsent:
            self._talk.say("\n".join(["not sent, and kept in the history:", *map(safetext.literal, unsent)]))


async def run_lines(
    app: Host, prompts: Sequence[Prompt], source: TextIO, talk: Talk, history: PromptHistory, interrupts: Interrupts
) -> int:
    """Answer the prompts, then each line until the input ends or the user leaves."""
    for notice in app.parts.notices:
        talk.line(Line(notice))
    with _Lines(source).reading() as lines:
        if source.isatty() and talk.asks:
            app.asker = _Questions(talk, lines)
        chat = _Chat(app, talk, lines, history)
        with interrupts.given_away(chat.interrupt):
            await chat.run(prompts)
    return 0
