"""The interactive program for a terminal that can only print: a line in, the answer out, no escape sequences."""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from vikingpi import events, safetext
from vikingpi.commands.chooser import Option
from vikingpi.commands.host import Host
from vikingpi.errors import VpiError
from vikingpi.messages import AssistantMessage, ImagePart
from vikingpi.ui.input import user_command
from vikingpi.ui.lines import Line, failure_of, line_of, written
from vikingpi.ui.menu import command_in, names_of, slip_in
from vikingpi.ui.plain import Prompt, hint_of, write
from vikingpi.ui.rows import command_rows, results

if TYPE_CHECKING:
    from collections.abc import Generator

PROMPT = "> "
REFUSING = "no"
Listener = Callable[[events.Event], None]


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


class _Talk:
    """Prints what happens as it is complete."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def event(self, event: events.Event) -> None:
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

    def __init__(self, talk: _Talk, lines: _Lines) -> None:
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


async def run_lines(
    app: Host, prompts: Sequence[Prompt], source: TextIO, out: TextIO, listen: Callable[[Listener], None]
) -> int:
    """Answer the prompts, then each line until the input ends or the user leaves; `listen` takes the listener."""
    talk = _Talk(out)
    listen(talk.event)
    for notice in app.parts.notices:
        talk.line(Line(notice))
    with _Lines(source).reading() as lines:
        if source.isatty() and out.isatty():
            app.asker = _Questions(talk, lines)
        for text, images in prompts:
            await _answer(app, talk, text, images)
        while not app.quit_requested:
            early = lines.waiting
            talk.say(PROMPT, end="")
            line = await lines.next()
            if line is None:
                talk.say("")
                break
            if early:  # its echo stands further up
                talk.say(safetext.literal(line))
            if line.strip():
                await _answer(app, talk, line, ())
    return 0


async def _answer(app: Host, talk: _Talk, text: str, images: Sequence[ImagePart]) -> None:
    called = None if images else command_in(app.commands, text)
    run = None if images else user_command(text)
    try:
        if run is not None:
            for row in command_rows(await app.shell.run(run.command, lambda tail: None, excluded=run.excluded)):
                talk.say(row.text)
            return
        if called is not None:
            command, argument = called
            if shown := await command.run(argument):
                talk.say(safetext.plain(shown))
            return
        if slip := "" if images else slip_in(names_of(app), text):
            talk.line(Line(slip, "error", "a blank in front sends it to the model"))
            return
        failure = failure_of(await app.submit(text, images), hint_of(app))
    except VpiError as error:
        failure = Line(str(error), "error", error.hint)
    if failure is not None:
        talk.line(failure)
