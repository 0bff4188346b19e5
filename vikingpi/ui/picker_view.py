"""A list as the whole screen: title, search, what stands above the list, its lines, a preview and the keys."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.processors import AfterInput, ConditionalProcessor, PasswordProcessor, Processor

from vikingpi import safetext
from vikingpi.commands.chooser import Option
from vikingpi.errors import VpiError
from vikingpi.safetext import cells, cut_cells, wrapped
from vikingpi.ui.listing import Listing
from vikingpi.ui.one_line import one_line
from vikingpi.ui.status import unjoined
from vikingpi.ui.theme import Glyphs

PREVIEW_FROM_ROWS = 14
LEAST_ABOUT = 8
MOST_PREVIEW = 20_000
_KEY_NAMES = {"tab": "Tab", "escape": "Esc"}


class PickerView:
    """Draws a list as the whole screen."""

    def __init__(self, listing: Listing, size: Callable[[], tuple[int, int]], glyphs: Glyphs) -> None:
        self.listing = listing
        self._size = size
        self._glyphs = glyphs
        self.line = one_line(lambda line: listing.write(line.text))
        self.line.reset(Document(listing.text))
        self._previews: dict[str, tuple[Option, str]] = {}

    @property
    def page(self) -> int:
        """How many lines of the list there is room for."""
        rows, _ = self._size()
        return max(1, rows - 5 - self._preview_rows() - (len(self._above()) + 1 if self._above() else 0))

    def layout(self) -> Layout:
        """Return the screen, with the line that is typed in focus."""
        secret = Condition(lambda: self.listing.act is not None and self.listing.act.secret)
        processors: list[Processor] = [
            ConditionalProcessor(PasswordProcessor(), secret),
            AfterInput(lambda: _hint(self.listing)),
        ]
        typed = Window(
            BufferControl(self.line, input_processors=processors),
            height=1,
            get_line_prefix=lambda line, wrapped: _prompt(self.listing),
        )
        title = Window(FormattedTextControl(lambda: self._title(self._size()[1])), height=1)
        below = Window(FormattedTextControl(self.fragments))
        return Layout(HSplit([title, typed, below]), focused_element=typed)

    def fragments(self) -> StyleAndTextTuples:
        """Return what is below the line that is typed."""
        _, columns = self._size()
        rule: StyleAndTextTuples = [("class:rule", self._glyphs.rule * columns)]
        above = [*([("", line)] for line in self._above()), rule] if self._above() else []
        lines = [rule, *above, *self._lines(columns)]
        if self._preview_rows():
            lines += [rule, *self._preview(columns)]
        lines.append(rule)
        lines.append(self._footer(columns))
        joined: StyleAndTextTuples = []
        for line in lines:
            joined += ([("", "\n")] if joined else []) + line
        return joined

    def _above(self) -> list[str]:
        (rows, columns), text = self._size(), self.listing.choices.head()
        return _wrapped(text, columns)[: rows // 3] if text and rows >= PREVIEW_FROM_ROWS else []

    def _preview_rows(self) -> int:
        rows, _ = self._size()
        has = any(option.preview is not None for option in self.listing.shown)
        return rows // 3 if has and rows >= PREVIEW_FROM_ROWS else 0

    def _title(self, columns: int) -> StyleAndTextTuples:
        listing = self.listing
        count = f"{listing.at + 1 if listing.shown else 0}/{len(listing.shown)}"
        title = cut_cells(listing.choices.title(), max(1, columns - len(count) - 2))
        return [("bold", title), ("class:rule", f"  {count}")]

    def _lines(self, columns: int) -> list[StyleAndTextTuples]:
        listing, page = self.listing, self.page
        if not listing.shown:
            text = listing.choices.empty if not listing.query else "nothing matches"
            return _padded([[("class:rule", cut_cells(f"  {text}", columns))]], page)
        first = max(0, min(listing.at - page // 2, len(listing.shown) - page))
        lines = [
            self._line(option, columns, selected=first + n == listing.at)
            for n, option in enumerate(listing.shown[first : first + page])
        ]
        return _padded(lines, page)

    def _line(self, option: Option, columns: int, *, selected: bool) -> StyleAndTextTuples:
        mark, value = "> " if selected else "  ", ""
        about = safetext.one_line(option.about, columns)
        most, left = columns // 2, columns - len(mark) - cells(option.label) - 3
        if option.value:
            column = max(cells(other.label) for other in self.listing.shown) + 2
            value = " " * max(1, column - cells(option.label)) + safetext.one_line(option.value, columns)
            most = left - cells(value)
        elif cells(about) > most:
            most = min(most, max(left, columns // 4))
        about = cut_cells(about, most) if most >= LEAST_ABOUT else ""
        room = columns - len(mark) - (cells(about) + 2 if about else 0) - 1
        # Leading spaces show the depth of a tree: only the text behind them is made one line.
        text = option.label.lstrip(" ")
        indent = " " * min(len(option.label) - len(text), max(0, room // 2))
        label = cut_cells(indent + unjoined(safetext.one_line(text, max(1, room))) + value, room)
        style = "class:menu.selected" if selected else "class:menu"
        gap = " " * (2 if option.value else max(2, columns - 1 - len(mark) - cells(label) - cells(about)))
        return [(style, mark + label), *([("class:menu.about", gap + about)] if about else [])]

    def _preview(self, columns: int) -> list[StyleAndTextTuples]:
        room, option = self._preview_rows() - 1, self.listing.selected
        lines = _wrapped(self._text(option) if option is not None else "", columns)
        lines = lines[-room:] if self.listing.choices.shows_end else lines[:room]
        return [[("class:rule", line)] for line in [*lines, *[""] * (room - len(lines))]]

    def _text(self, option: Option) -> str:
        known, text = self._previews.get(option.key, (None, ""))
        if known is not option:
            try:
                text = option.preview() if option.preview is not None else ""
            except VpiError as error:
                text = str(error)
            text = text[-MOST_PREVIEW:] if self.listing.choices.shows_end else text[:MOST_PREVIEW]
            text = unjoined(safetext.plain(text)).expandtabs(4).strip()
            self._previews[option.key] = option, text
        return text

    def _footer(self, columns: int) -> StyleAndTextTuples:
        if self.listing.message:
            return [("class:status.warning", cut_cells(safetext.one_line(self.listing.message, columns), columns - 1))]
        if self.listing.stage == "ask":
            return [("class:rule", cut_cells("Enter takes it · Esc goes back", columns - 1))]
        if self.listing.stage == "confirm":
            return [("class:rule", cut_cells("y does it · any other key goes back", columns - 1))]
        acts = [f"{_key_name(act.key)} {act.name}" for act in self.listing.choices.acts]
        selected = self.listing.selected
        act = self.listing.choices.enter(selected.key) if selected is not None else None
        keys = " · ".join([f"Enter {act.name if act is not None else 'chooses'}", *acts, "Esc leaves"])
        return [("class:rule", cut_cells(keys, columns - 1))]


def _prompt(listing: Listing) -> StyleAndTextTuples:
    act = listing.act
    if listing.stage == "ask" and act is not None:
        return [("class:shell", f"{act.asks}: ")]
    if listing.stage == "confirm" and act is not None:
        name = safetext.one_line(listing.selected.label, 60) if listing.selected is not None else ""
        return [("class:status.warning", f"{act.confirms} y/n ({name}) ")]
    return [("bold", "> ")]


def _hint(listing: Listing) -> StyleAndTextTuples:
    searches = listing.stage == "list" and not listing.query
    return [("class:rule", "type to search")] if searches else []


def _wrapped(text: str, columns: int) -> list[str]:
    return [part for line in text.split("\n") for part in wrapped(line, columns - 1)]


def _padded(lines: list[StyleAndTextTuples], rows: int) -> list[StyleAndTextTuples]:
    blank: StyleAndTextTuples = [("", "")]
    return [*lines, *[blank for _ in range(rows - len(lines))]]


def _key_name(key: str) -> str:
    return _KEY_NAMES.get(key, f"Ctrl+{key[2:].upper()}" if key.startswith("c-") else key)
