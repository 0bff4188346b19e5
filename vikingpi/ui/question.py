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
from vikingpi.safetext import broken, cells, cut_cells, literal, wrapped
from vikingpi.ui.input import Editor, typed
from vikingpi.ui.keys import Burst
from vikingpi.ui.painted import at_half
from vikingpi.ui.picker import Stage, bind_leaving, run_on
from vikingpi.ui.status import unjoined
from vikingpi.ui.view import View, make_layout
from vikingpi.values import NamedTuple

QUIET_SECONDS = 0.7
ALONE_SECONDS = 0.25
ROOMY_ROWS = 14
_STYLES = {"+": "fg:ansigreen", "-": "fg:ansired"}
_KEYS = "a number, or Up and Down and Enter, answers; Esc refuses"
_SENDING_KEYS = "Enter sends what you typed, the question stays; Up and Down choose an answer; Esc refuses"
_DRAFT_KEYS = "Up and Down and Enter answer; what you type stays in the editor; Esc refuses"
_TOO_SOON = "that came too soon to be an answer: press it again after a moment"
_ANSWERS = frozenset(("y", "n", "yes", "no"))


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


class Outbox(NamedTuple):
    """Where a draft goes while a question is open.

    `send(text, last)` tells whether it took the text, and what is to be said about that. Texts that it took are in
    `queued`, and `take_back` returns them.
    """

    open: Callable[[], bool]
    send: Callable[[str, bool], tuple[bool, str]]
    queued: Callable[[], Sequence[str]]
    take_back: Callable[[], Sequence[str]]
    more_input: Callable[[], bool]


class Question:
    """A text, broken at the width and nothing of it left out, and the answers below it."""

    def __init__(
        self,
        question: str,
        body: str,
        answers: Sequence[Option],
        view: View,
        editor: Editor,
        outbox: Outbox,
    ) -> None:
        self.answers = answers
        self.first = 0
        self.said = ""
        self.preselects = True
        self.meant = False
        self.opened = time.monotonic()
        self._chosen: int | None = None
        self._question = question
        self._body = body
        self._view = view
        self._editor = editor
        self._outbox = outbox
        self._broken: tuple[int, list[tuple[str, str]]] = (0, [])

    @property
    def at(self) -> int | None:
        """The answer that Enter gives; None while there is a draft, or after one was sent, and none was chosen."""
        preselected = 0 if self.preselects and not self._editor.text else None
        return preselected if self._chosen is None else self._chosen

    def move(self, step: int, *, meant: bool) -> None:
        """Choose another answer; one that was `meant` is given by Enter without a pause."""
        self.meant = self.meant or meant
        at = -1 if self.at is None else self.at
        self._chosen = max(0, min(len(self.answers) - 1, at + step))

    def typed(self, text: str) -> None:
        """Put a text into the draft."""
        self._chosen, self.meant = None, False
        self._editor.buffer.insert_text(text)

    @property
    def tall(self) -> bool:
        """Whether what is shown would not stay on the screen if that lost half its columns and a third of its rows."""
        rows, columns = self._view.size()
        texts = [text for _, text in (*self._lines()[:rows], *self._below())]
        needed = sum(at_half(cells(text), columns, wide=cells(text) > len(text)) for text in texts)
        return needed + 3 * at_half(columns, columns) + self._view.editor_rows() > rows * 2 // 3

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
            place = f"({self.first + 1}-{self.first + len(shown)} of {len(lines)} lines, PageUp and PageDown)"
            shown.append(("class:rule", cut_cells(place, self._columns)))
        out: StyleAndTextTuples = []
        for style, text in (*shown, *below):
            out += [("", "\n")] if out else []
            out.append((style, text))
        return out

    @property
    def _columns(self) -> int:
        return max(2, self._view.size()[1] - 1)

    def _lines(self) -> list[tuple[str, str]]:
        columns = self._columns
        if self._broken[0] != columns:
            lines = self._body.split("\n") if self._body else []
            cut = [(_STYLES.get(line[:1], ""), part) for line in lines for part in broken(_clean(line), columns)]
            self._broken = columns, cut
        return self._broken[1]

    def _below(self) -> list[tuple[str, str]]:
        columns, roomy = self._columns, self._view.roomy(ROOMY_ROWS)
        lines = [("bold", part) for part in broken(_clean(self._question.replace("\n", "\u240a")), columns)]
        for n, answer in enumerate(self.answers):
            mark, style = ("> ", "class:menu.selected") if n == self.at else ("  ", "class:menu")
            about = f"  {answer.about}" if answer.about else ""
            lines += [(style, part) for part in broken(_clean(f"{mark}{n + 1}. {answer.label}{about}"), columns)]
        if roomy:
            lines += [("class:queued", line) for line in self._outbox.queued()]
        if self.said or roomy:
            lines += [("class:rule", part) for part in wrapped(_clean(self.said or self._keys()), columns)]
        return lines

    def _keys(self) -> str:
        if not self._editor.text:
            return _KEYS
        return _SENDING_KEYS if self._outbox.open() else _DRAFT_KEYS

    def _room(self, below: Sequence[object]) -> int:
        """How many lines of the text there is room for, above the editor, its rules and the status bar."""
        return max(1, self._view.size()[0] - len(below) - 5 - self._view.editor_rows())


def _clean(line: str) -> str:
    return unjoined(literal(line)).expandtabs(4)


class _Number:
    """A number that was pressed: it answers unless something follows it, and is text of the draft otherwise."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._held = ""
        self._wait: asyncio.TimerHandle | None = None

    def hold(self, number: str, application: Application[Any]) -> None:
        self._held = number
        self._wait = asyncio.get_running_loop().call_later(ALONE_SECONDS, self.answers, application)

    def release(self) -> None:
        """Something else was pressed."""
        self._question.said = ""
        if number := self._take():
            self._question.typed(number)

    def answers(self, application: Application[Any]) -> bool:
        """Answer with the number that is held; False when there is none."""
        number = self._take()
        if number and not application.is_done:
            application.exit(result=self._question.answers[int(number) - 1].key)
        return bool(number)

    def _take(self) -> str:
        if self._wait is not None:
            self._wait.cancel()
        self._wait, self._held, number = None, "", self._held
        return number


def send_draft(question: Question, editor: Editor, outbox: Outbox, *, last: bool = False) -> None:
    """Send what was typed, unless it may be meant as an answer, and say what became of it."""
    text = editor.whole()
    word = text.strip().lower()
    if word in _ANSWERS or (word and set(word) <= {str(n + 1) for n in range(len(question.answers))}):
        question.said = "this is text, no answer: erase it, then press a number"
    elif not word:
        question.said = _KEYS
    else:
        taken, question.said = outbox.send(text, last)
        if taken:
            editor.take()
            question.preselects = False


def question_keys(
    question: Question, pauses: Pauses, editor: Editor, outbox: Outbox, pasted: Callable[[KeyPressEvent], bool]
) -> KeyBindings:
    """Bind the keys of a question; the application's result is the key of the answer or None.

    A number answers after a pause, where nothing follows it and there is no draft. So does Enter after a pause, where
    there is no draft, or at once when an answer was chosen after one; else it sends the draft. `pasted` tells an Enter
    within a paste.
    """
    keys, number, send = KeyBindings(), _Number(question), partial(send_draft, question, editor, outbox)
    acts: dict[tuple[str, ...], Callable[[], None]] = {
        ("up",): lambda: question.move(-1, meant=pauses.since(question.opened)),
        ("down",): lambda: question.move(1, meant=pauses.since(question.opened)),
        ("pageup",): partial(question.turn, -1),
        ("pagedown",): partial(question.turn, 1),
        ("c-j",): partial(question.typed, "\n"),
        ("escape", "enter"): partial(send, last=True),
        ("escape", "up"): lambda: editor.put_back(outbox.take_back()),
    }
    for names, act in acts.items():
        _bind(keys, names, number, act)

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        alone = not event.key_processor.input_queue
        if alone and number.answers(event.app):
            return
        number.release()
        if pasted(event):
            question.typed("\n")
        elif question.at is None:
            send()
        elif alone and (question.meant or pauses.since(question.opened)):
            event.app.exit(result=question.answers[question.at].key)
        else:
            question.said = _TOO_SOON

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        number.release()
        question.typed("")
        editor.paste(typed(event.data))

    @keys.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        number.release()
        text = typed(event.data)
        option = text.isascii() and text.isdecimal() and 0 < int(text) <= len(question.answers)
        if option and not editor.text and pauses.since(question.opened) and not event.key_processor.input_queue:
            number.hold(text, event.app)
        else:
            question.typed(text)

    bind_leaving(keys, empty=lambda: not editor.text)
    return keys


def _bind(keys: KeyBindings, names: Sequence[str], number: _Number, act: Callable[[], None]) -> None:
    @keys.add(*names)
    def _(event: KeyPressEvent) -> None:
        number.release()
        act()


class Questioner:
    """Asks above the editor, one question after another. `pauses` is to be told of every key of the chat."""

    def __init__(self, stage: Stage, view: View, editor: Editor, outbox: Outbox) -> None:
        self.pauses = Pauses()
        self._stage = stage
        self._outbox = outbox
        self._view = view
        self._editor = editor

    async def confirm(self, question: str, body: str, answers: Sequence[Option]) -> str | None:
        """Ask, on a screen of its own where much is shown: the terminal keeps none of that. None when the user left."""
        async with self._stage.away():
            asked, burst = Question(question, body, answers, self._view, self._editor, self._outbox), Burst()
            layout = make_layout(self._view, self._editor, asked.fragments)

            def pasted(event: KeyPressEvent) -> bool:
                return burst.goes_on(event, self._outbox.more_input)

            def pressed(event: object) -> None:
                self.pauses.key(event)
                burst.key(event)

            keys = question_keys(asked, self.pauses, self._editor, self._outbox, pasted)
            left_over = self._editor.buffer.insert_text
            self._view.activity.asking = True
            try:
                return await run_on(self._stage, layout, keys, pressed, left_over, full=asked.tall)
            finally:
                self._view.activity.asking = False
