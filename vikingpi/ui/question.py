"""A question with a text, above the editor: what is typed meanwhile stays a draft and answers nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from vikingpi.commands.chooser import Option
from vikingpi.safetext import broken, literal
from vikingpi.ui.input import Editor, typed
from vikingpi.ui.picker import Stage, bind_leaving, run_on
from vikingpi.ui.status import unjoined
from vikingpi.ui.view import View, make_layout

QUIET_SECONDS = 0.7
ALONE_SECONDS = 0.25
_STYLES = {"+": "fg:ansigreen", "-": "fg:ansired"}
_KEYS = "a number, or Up and Down and Enter, answers; Esc refuses"
_DRAFT_KEYS = "Up and Down and Enter answer; what you type stays in the editor; Esc refuses"


class Pauses:
    """How long nothing was typed: what comes without a pause belongs to what came before."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._pause = 0.0

    def key(self, _: object) -> None:
        """Take note of a key, before it is handled."""
        now = time.monotonic()
        self._last, self._pause = now, now - self._last

    def since(self, opened: float) -> bool:
        """Tell whether the present key came after a pause within what has been open since `opened`."""
        return min(self._pause, self._last - opened) > QUIET_SECONDS


class Question:
    """A text, broken at the width and nothing of it left out, and the answers below it."""

    def __init__(
        self,
        question: str,
        body: str,
        answers: Sequence[Option],
        size: Callable[[], tuple[int, int]],
        editor: Editor,
    ) -> None:
        self.answers = answers
        self.first = 0
        self.opened = time.monotonic()
        self._chosen: int | None = None
        self._question = question
        self._body = body
        self._size = size
        self._editor = editor
        self._broken: tuple[int, list[tuple[str, str]]] = (0, [])

    @property
    def at(self) -> int | None:
        """The answer that Enter gives; None while there is a draft and none was chosen."""
        return 0 if self._chosen is None and not self._editor.text else self._chosen

    def move(self, step: int) -> None:
        at = -1 if self.at is None else self.at
        self._chosen = max(0, min(len(self.answers) - 1, at + step))

    def typed(self, text: str) -> None:
        """Put a text into the draft."""
        self._chosen = None
        self._editor.buffer.insert_text(text)

    def turn(self, sign: int) -> None:
        """Scroll the text by a page."""
        room = self._room(self._below())
        self.first = max(0, min(len(self._lines()) - room, self.first + sign * room))

    def fragments(self) -> StyleAndTextTuples:
        lines, below = self._lines(), self._below()
        room = self._room(below)
        self.first = max(0, min(self.first, len(lines) - room))
        shown = lines[self.first : self.first + room]
        if len(shown) < len(lines):
            place = f"(lines {self.first + 1}-{self.first + len(shown)} of {len(lines)}, PageUp and PageDown)"
            shown.append(("class:rule", broken(place, self._columns)[0]))
        out: StyleAndTextTuples = []
        for style, text in (*shown, *below):
            out += [("", "\n")] if out else []
            out.append((style, text))
        return out

    @property
    def _columns(self) -> int:
        return max(2, self._size()[1] - 1)

    def _lines(self) -> list[tuple[str, str]]:
        columns = self._columns
        if self._broken[0] != columns:
            lines = self._body.split("\n") if self._body else []
            cut = [(_STYLES.get(line[:1], ""), part) for line in lines for part in self._parts(line)]
            self._broken = columns, cut
        return self._broken[1]

    def _below(self) -> list[tuple[str, str]]:
        lines = [("bold", part) for part in self._parts(self._question.replace("\n", "\u240a"))]
        for n, answer in enumerate(self.answers):
            mark, style = ("> ", "class:menu.selected") if n == self.at else ("  ", "class:menu")
            about = f"  {answer.about}" if answer.about else ""
            lines += [(style, part) for part in self._parts(f"{mark}{n + 1}. {answer.label}{about}")]
        if self._size()[0] >= 14:
            keys = _DRAFT_KEYS if self._editor.text else _KEYS
            lines += [("class:rule", part) for part in self._parts(keys)]
        return lines

    def _parts(self, line: str) -> list[str]:
        return broken(unjoined(literal(line)).expandtabs(4), self._columns)

    def _room(self, below: Sequence[object]) -> int:
        """How many lines of the text there is room for, above the editor, its rules and the status bar."""
        return max(1, self._size()[0] - len(below) - 6 - min(5, self._editor.text.count("\n")))


def question_keys(question: Question, pauses: Pauses, editor: Editor) -> KeyBindings:
    """Bind the keys of a question; the application's result is the key of the answer or None.

    A number answers after a pause, where nothing follows it and there is no draft; Enter after a pause.
    """
    keys, held = KeyBindings(), list[str]()
    waits: list[asyncio.TimerHandle] = []

    def release() -> None:
        for wait in waits:
            wait.cancel()
        waits.clear()
        if held:
            question.typed(held.pop())

    def answer(application: Application[Any]) -> None:
        waits.clear()
        if held and not application.is_done:
            application.exit(result=question.answers[int(held.pop()) - 1].key)

    acts = {
        "up": partial(question.move, -1),
        "down": partial(question.move, 1),
        "pageup": partial(question.turn, -1),
        "pagedown": partial(question.turn, 1),
        "c-j": partial(question.typed, "\n"),
    }
    for key, act in acts.items():
        _bind(keys, key, release, act)

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        if held and not event.key_processor.input_queue:
            for wait in waits:
                wait.cancel()
            answer(event.app)
            return
        release()
        if pauses.since(question.opened) and question.at is not None and not event.key_processor.input_queue:
            event.app.exit(result=question.answers[question.at].key)

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        release()
        question.typed("")
        editor.paste(typed(event.data))

    @keys.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        release()
        text = typed(event.data)
        option = text.isascii() and text.isdecimal() and 0 < int(text) <= len(question.answers)
        if option and not editor.text and pauses.since(question.opened) and not event.key_processor.input_queue:
            held.append(text)
            waits.append(asyncio.get_running_loop().call_later(ALONE_SECONDS, answer, event.app))
        else:
            question.typed(text)

    bind_leaving(keys)
    return keys


def _bind(keys: KeyBindings, key: str, release: Callable[[], None], act: Callable[[], None]) -> None:
    @keys.add(key)
    def _(event: KeyPressEvent) -> None:
        release()
        act()


class Questioner:
    """Asks above the editor, one question after another. `pauses` is told of every key of the chat."""

    def __init__(
        self, stage: Stage, size: Callable[[], tuple[int, int]], view: View, editor: Editor, pauses: Pauses
    ) -> None:
        self._stage = stage
        self._size = size
        self._view = view
        self._editor = editor
        self._pauses = pauses

    async def confirm(self, question: str, body: str, answers: Sequence[Option]) -> str | None:
        """Ask; None when the user left."""
        async with self._stage.away():
            asked = Question(question, body, answers, self._size, self._editor)
            layout = make_layout(self._view, self._editor, asked.fragments)
            keys = question_keys(asked, self._pauses, self._editor)
            return await run_on(self._stage, layout, keys, self._pauses.key, self._editor.buffer.insert_text)
