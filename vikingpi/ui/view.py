"""What the region at the bottom shows: the open block, queued texts, the rules, the menu, the status bar."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import Dimension, Layout, Window
from prompt_toolkit.layout.controls import BufferControl

from vikingpi import safetext
from vikingpi.commands.host import Figures, Host
from vikingpi.events import AgentSettled, AgentStart, CompactionEnd, CompactionStart, Event, RetryStart, TurnStart
from vikingpi.safetext import cells, cut_cells
from vikingpi.ui.input import Editor
from vikingpi.ui.lines import seconds
from vikingpi.ui.menu import Item
from vikingpi.ui.painted import Painted, at_half, fitting, painted
from vikingpi.ui.region import Lines, Region
from vikingpi.ui.search import Search
from vikingpi.ui.status import SEPARATOR, fit, parts_of
from vikingpi.ui.theme import Glyphs, Theme
from vikingpi.ui.transcript import Transcript

EDITOR_ROWS = 6
MENU_ROWS = 6
QUEUED_ROWS = 5
QUESTION_ROWS = 12


class Activity:
    """What runs and since when; empty while nothing does. `asking` while a question is open, `commanding()` while the
    user's own command runs."""

    def __init__(self, spinner: str) -> None:
        self.what = ""
        self.asking = False
        self.commanding: Callable[[], bool] = lambda: False
        self._spinner = spinner
        self._since = 0.0
        self._until = 0.0
        self._hint = ""
        self._hint_until = 0.0

    def event(self, event: Event) -> None:
        match event:
            case AgentStart():
                self.begin("working")
            case TurnStart() | CompactionEnd():
                self._change("working")
            case CompactionStart():
                self._change("compacting")
            case RetryStart():
                self._change(f"retry {event.attempt}/{event.max_attempts} in", event.delay_ms / 1000)
            case AgentSettled():
                self.end()
            case _:
                pass

    def begin(self, what: str) -> None:
        self._since = time.monotonic()
        self._change(what)

    def end(self) -> None:
        self.what = ""

    def hint(self, text: str, duration: float) -> None:
        """Show a text for some seconds where nothing runs."""
        self._hint, self._hint_until = text, time.monotonic() + duration

    def text(self) -> str:
        """Return what to show in the rule above the editor."""
        now = time.monotonic()
        hint = self._hint if now < self._hint_until else ""
        return " · ".join(part for part in (self._work(now), self._escape(), hint) if part)

    def _work(self, now: float) -> str:
        if not self.what:
            return ""
        spinner = self._spinner[int(now * 10) % len(self._spinner)]
        if now < self._until:
            return f"{spinner} {self.what} {seconds(1000 * (self._until - now))}"
        elapsed = int(now - self._since)
        return f"{spinner} {self.what}{f' {seconds(1000 * elapsed)}' if elapsed else ''}"

    def _escape(self) -> str:
        """Say what Esc ends; while a question is open it refuses."""
        if self.asking:
            return ""
        if self.commanding():
            return "esc ends the command"
        return "esc aborts" if self.what else ""

    def _change(self, what: str, delay: float = 0.0) -> None:
        self.what = what
        self._until = time.monotonic() + delay if delay else 0.0


class Place(Protocol):
    """The terminal: how it looks, and how many rows and columns it has now."""

    @property
    def theme(self) -> Theme: ...

    def size(self) -> tuple[int, int]: ...


class View:
    """Computes the region's lines; the expensive ones only when `refresh` is called. `rows_above()` says how many
    rows of the screen are above the region at least."""

    def __init__(
        self,
        app: Host,
        transcript: Transcript,
        editor: Editor,
        search: Search,
        place: Place,
    ) -> None:
        self.activity = Activity(place.theme.glyphs.spinner)
        self.figures: Figures | None = None
        self.branch = ""
        self.rows_above: Callable[[], int] = lambda: 0
        self._app = app
        self._transcript = transcript
        self._editor = editor
        self._search = search
        self.size = place.size
        self._glyphs = place.theme.glyphs
        self._live: tuple[int, list[Painted]] = (0, [])
        self._status: tuple[object, StyleAndTextTuples] = (None, [])

    def refresh(self) -> None:
        """Render the live part anew."""
        columns = self.size()[1]
        self._live = columns, [painted(line) for line in self._transcript.live(columns)]

    def live(self) -> StyleAndTextTuples:
        """Return the last lines of the live part, as many as there is room for when the screen shrinks to half its
        size: what leaves it by that could not be erased. A blank line is before them unless they go on with what is
        printed."""
        rows, columns = self.size()
        if self._live[0] != columns:
            self.refresh()
        lines, queued, menu, editor = self._live[1], len(self.queued()), len(self._items()), self.editor_rows()
        rule = at_half(columns, columns)
        over = 2 + queued + rule + editor
        height = min((rows if self._transcript.ticking else rows // 2) - over, rows - over - 2 * rule - menu)
        most = min(len(lines), rows - 7 - editor - queued - menu)
        count = fitting(lines, columns, most, height, self.rows_above() - 3 * (rule - 1))
        if not count:
            return []
        out: StyleAndTextTuples = [] if self._transcript.arriving.goes_on else [("", "\n")]
        for line in lines[-count:-1]:
            out += line.fragments
            out.append(("", "\n"))
        return [*out, *lines[-1].fragments]

    def queued(self) -> list[str]:
        """Return a line for each text that waits."""
        _, columns = self.size()
        inbox = self._app.parts.agent.inbox
        lines = [""] if inbox.steering or inbox.follow_ups else []
        lines += [f" steering: {safetext.one_line(text, columns)}" for text in inbox.steering]
        lines += [f" follow-up: {safetext.one_line(text, columns)}" for text in inbox.follow_ups]
        if len(lines) > QUEUED_ROWS:
            lines[QUEUED_ROWS - 1 :] = [f" ... ({len(lines) - QUEUED_ROWS + 1} more)"]
        if lines:
            lines.append(" Alt+Up brings them back")
        return [cut_cells(line, columns) for line in lines]

    def rule(self, *, bottom: bool = False) -> StyleAndTextTuples:
        """Return the line above the editor, which says what runs, or the one below it."""
        _, columns = self.size()
        line = self._glyphs.rule
        text = "" if bottom else cut_cells(self.activity.text(), max(0, columns - 6))
        head = f"{line}{line} {text} " if text else ""
        style = "class:shell" if self._editor.text.startswith("!") and not self._search.active else "class:rule"
        return [(style, head + line * max(0, columns - cells(head)))]

    def prompt(self) -> StyleAndTextTuples:
        """Return what stands before the first line of the editor."""
        if self._search.active:
            return [("class:shell", "? ")]
        return [("class:shell" if self._editor.text.startswith("!") else "bold", "> ")]

    def status(self) -> StyleAndTextTuples:
        if self.figures is None:
            return []
        about = self.figures, self.branch, self.size()[1]
        if self._status[0] != about:
            self._status = about, _bar(*about, self._glyphs)
        return self._status[1]

    def menu(self) -> StyleAndTextTuples:
        _, columns = self.size()
        items = self._items()
        column = max((cells(item.label) for item, _ in items), default=0) + 2
        fragments: StyleAndTextTuples = []
        for item, selected in items:
            if fragments:
                fragments.append(("", "\n"))
            style = "class:menu.selected" if selected else "class:menu"
            label = f"{'> ' if selected else '  '}{safetext.literal(item.label)}"
            about = cut_cells(safetext.one_line(item.about, columns), max(0, columns - column - 3))
            fragments.append((style, cut_cells(label, columns)))
            if about:
                fragments.append(("class:menu.about", " " * (column + 2 - cells(label)) + about))
        if place := self._editor.menu.place(self._editor.before_cursor, len(items)):
            fragments.append(("class:menu.about", f"\n  {place}"))
        return fragments

    def editor_limit(self) -> int:
        """Return how many rows the editor may have."""
        return max(1, min(EDITOR_ROWS, self.size()[0] // 3))

    def roomy(self, least: int = 8) -> bool:
        """Tell whether there is room for more than the editor and the status bar."""
        return self.size()[0] >= least

    def _items(self) -> tuple[tuple[Item, bool], ...]:
        rows, _ = self.size()
        return self._editor.menu.window(self._editor.before_cursor, min(MENU_ROWS, max(1, rows - 6)))

    def editor_rows(self) -> int:
        """Return how many rows the editor has."""
        limit, columns = self.editor_limit(), max(1, self.size()[1] - 2)
        used = 0
        for line in self._editor.text[: limit * columns].split("\n", limit):
            used += cells(line) // columns + 1
        return min(limit, used)


def _bar(figures: Figures, branch: str, columns: int, glyphs: Glyphs) -> StyleAndTextTuples:
    fragments: StyleAndTextTuples = []
    for part in fit(parts_of(figures, branch, glyphs=glyphs), columns):
        if fragments:
            fragments.append(("class:status", SEPARATOR))
        fragments.append((part.style, part.text))
    return fragments


def make_layout(view: View, editor: Editor, question: Callable[[], StyleAndTextTuples] | None = None) -> Layout:
    """Build the region: live part, queued texts, rule, editor, rule, menu, status bar.

    A `question` stands in place of what is above the editor.
    """

    def lines(text: Callable[[], StyleAndTextTuples], shown: Callable[[], bool]) -> Lines:
        return Lines(lambda: text() if shown() else [])

    def prefix(line: int, wrapped: int) -> StyleAndTextTuples:
        return view.prompt() if line == 0 and wrapped == 0 else [("", "  ")]

    def queued() -> StyleAndTextTuples:
        waiting = view.queued()
        return [("class:queued", "\n".join(waiting))] if waiting else []

    edit = Window(
        BufferControl(editor.buffer),
        height=lambda: Dimension(min=1, max=view.editor_limit()),
        wrap_lines=True,
        get_line_prefix=prefix,
        dont_extend_height=True,
    )
    roomy = view.roomy
    above = [Lines(view.live), lines(queued, roomy), lines(lambda: [("", "")], roomy)]
    if question is not None:
        above, roomy = [Lines(question)], partial(view.roomy, QUESTION_ROWS)
    region = Region(
        [
            *above,
            lines(view.rule, roomy),
            edit,
            lines(lambda: view.rule(bottom=True), roomy),
            lines(view.menu, lambda: question is None and view.roomy()),
            lines(view.status, lambda: question is None or roomy()),
        ]
    )
    return Layout(region, focused_element=edit)
