"""The interactive program for a terminal that can only print: a line in, the answer out, no escape sequences."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from vikingpi import events, safetext
from vikingpi.commands.host import Host
from vikingpi.errors import VpiError
from vikingpi.messages import AssistantMessage, ImagePart
from vikingpi.ui.input import user_command
from vikingpi.ui.lines import Line, failure_of, line_of, written
from vikingpi.ui.menu import command_in
from vikingpi.ui.plain import Prompt, hint_of, write
from vikingpi.ui.rows import command_rows, results

if TYPE_CHECKING:
    from collections.abc import Generator

PROMPT = "> "
Listener = Callable[[events.Event], None]


class _Lines:
    """Reads lines without blocking the loop."""

    def __init__(self, source: TextIO) -> None:
        self._descriptor = source.fileno()
        self._coding = source.encoding or "utf-8"
        self._rest = b""
        self._ready: asyncio.Queue[str | None] = asyncio.Queue()

    @contextmanager
    def reading(self) -> Generator[_Lines, None, None]:
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(self._descriptor, self._read)
        except PermissionError:
            # A regular file is always readable and cannot be watched.
            while self._read():
                pass
            yield self
            return
        try:
            yield self
        finally:
            loop.remove_reader(self._descriptor)

    async def next(self) -> str | None:
        """Return the next line without its end, None when there is no more."""
        return await self._ready.get()

    def _read(self) -> bool:
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if not data:
            lines += [self._rest] if self._rest else []
            self._rest = b""
        for line in lines:
            self._ready.put_nowait(line.decode(self._coding, "replace").rstrip("\r"))
        if not data:
            self._ready.put_nowait(None)
            asyncio.get_running_loop().remove_reader(self._descriptor)
        return bool(data)


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


async def run_lines(
    app: Host, prompts: Sequence[Prompt], source: TextIO, out: TextIO, listen: Callable[[Listener], None]
) -> int:
    """Answer the prompts, then each line until the input ends or the user leaves; `listen` takes the listener."""
    talk = _Talk(out)
    listen(talk.event)
    for notice in app.parts.notices:
        talk.line(Line(notice))
    with _Lines(source).reading() as lines:
        for text, images in prompts:
            await _answer(app, talk, text, images)
        while not app.quit_requested:
            talk.say(PROMPT, end="")
            line = await lines.next()
            if line is None:
                break
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
        failure = failure_of(await app.submit(text, images), hint_of(app))
    except VpiError as error:
        failure = Line(str(error), "error", error.hint)
    if failure is not None:
        talk.line(failure)
