"""The chat's terminal as commands use it."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import Mapping, Sequence

from vikingpi.app.shell import recorded_runs, seen_messages
from vikingpi.commands.chooser import Choices, Option
from vikingpi.config.model import Settings
from vikingpi.tools.helper import program
from vikingpi.ui.desk import Desk, Terminal
from vikingpi.ui.input import user_command
from vikingpi.ui.keys import Actions
from vikingpi.ui.menu import command_in
from vikingpi.ui.picker import Asker
from vikingpi.ui.question import Outbox, Questioner
from vikingpi.ui.theme import choose_theme

PAST_TURNS = 3
COPY_SECONDS = 3.0
HINT_SECONDS = 5.0
MOST_BY_TERMINAL = 74_000


class TerminalChooser:
    """Fits Chooser."""

    def __init__(self, desk: Desk, terminal: Terminal, actions: Actions) -> None:
        self._desk = desk
        self._asker = Asker(desk.screen, terminal.size, terminal.theme.glyphs, desk.editor.buffer.keep)
        outbox = Outbox(lambda: desk.app.running, self._send, desk.view.queued, actions.take_back, actions.more_input)
        self._questioner = Questioner(desk.screen, desk.view, desk.editor, outbox)
        desk.screen.key_processor.before_key_press += self._questioner.pauses.key

    async def choose(self, choices: Choices) -> str | None:
        self._desk.search.end()
        return await self._asker.choose(choices)

    async def text(self, question: str) -> str | None:
        self._desk.search.end()
        return await self._asker.text(question)

    async def confirm(self, question: str, body: str, answers: Sequence[Option]) -> str | None:
        desk = self._desk
        desk.search.end()
        try:
            return await self._questioner.confirm(question, body, answers)
        finally:
            if self._is_command(desk.editor.text):
                desk.view.activity.hint("Enter runs the command that has waited in the editor", HINT_SECONDS)

    async def copy(self, text: str) -> str:
        """Use the desktop's program where there is one, else ask the terminal (OSC 52)."""
        for command in clipboard_commands(os.environ):
            if await _feed(command, text):
                return f"Copied ({len(text)} characters)."
        encoded = base64.b64encode(text.encode("utf-8", "replace")).decode()
        if len(encoded) > MOST_BY_TERMINAL:
            return "The answer is too long for the terminal's clipboard, and no clipboard program was found."
        output = self._desk.screen.held_output
        output.write_raw(f"\x1b]52;c;{encoded}\x07")
        output.flush()
        return f"Copied ({len(text)} characters), if the terminal allows it."

    def _send(self, text: str, last: bool) -> tuple[bool, str]:
        """Queue a text that was typed while a question of the run is open."""
        desk = self._desk
        if not desk.app.running:
            return False, "the text stays here until you have answered"
        if self._is_command(text):
            return False, "a command waits for your answer: it stays here, and Enter runs it after that"
        desk.work.prompt(text, last=last)
        return True, "it is sent after the run" if last else "it is sent after this call; now answer the question"

    def _is_command(self, text: str) -> bool:
        return user_command(text) is not None or command_in(self._desk.app.commands, text) is not None

    def edit(self, text: str) -> None:
        self._desk.editor.put_back([text])

    def look(self, settings: Settings) -> None:
        painter, coding = self._desk.printer.painter, self._desk.screen.output.encoding()
        painter.theme = choose_theme(settings.theme, os.environ, coding)
        self._desk.transcript.shows_thoughts = settings.show_thoughts

    def show_past(self) -> None:
        branch = self._desk.app.parts.session.branch()
        runs = recorded_runs(branch)
        self._desk.transcript.past(seen_messages(branch, runs), PAST_TURNS, runs)


def clipboard_commands(env: Mapping[str, str]) -> list[list[str]]:
    """Return the programs that may have a clipboard here, the likeliest first."""
    wanted: list[list[str]] = []
    if sys.platform == "darwin":
        wanted.append(["pbcopy"])
    if env.get("WAYLAND_DISPLAY"):
        wanted.append(["wl-copy"])
    if env.get("DISPLAY"):
        wanted += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    if env.get("TMUX"):
        wanted.append(["tmux", "load-buffer", "-w", "-"])
    return [[found, *command[1:]] for command in wanted if (found := program(env, command[0]))]


async def _feed(command: Sequence[str], text: str) -> bool:
    quiet = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=quiet, stderr=quiet
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(COPY_SECONDS):
            await process.communicate(text.encode("utf-8", "replace"))
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
    return process.returncode == 0
