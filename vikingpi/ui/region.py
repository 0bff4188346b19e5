"""Parts of the region at the bottom that cost little in a frame that does not change them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import cycle

from prompt_toolkit.application import get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.base import OneStyleAndTextTuple
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.layout import Container, Dimension, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.dimension import sum_layout_dimensions
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Char, Screen, WritePosition

_Row = defaultdict[int, Char]
_Line = tuple[OneStyleAndTextTuple, ...]


class Lines(Container):
    """The lines of a text, cut at the width, or nothing where `text()` is empty. A line that was in the frame before is
    not made into cells again."""

    def __init__(self, text: Callable[[], StyleAndTextTuples]) -> None:
        self._text = text
        self._frame = -1
        self._fragments: StyleAndTextTuples = []
        self._lines: list[_Line] = []
        self._width = 0
        self._rows: dict[_Line, _Row] = {}

    def reset(self) -> None: ...

    def get_children(self) -> list[Container]:
        return []

    def preferred_width(self, max_available_width: int) -> Dimension:
        return Dimension()

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        count = len(self._now())
        return Dimension(max=count, preferred=count)

    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,
        write_position: WritePosition,
        parent_style: str,
        erase_bg: bool,
        z_index: int | None,
    ) -> None:
        """Write at the first column, whatever `write_position` says of that."""
        known = self._rows if self._width == write_position.width else {}
        self._width, self._rows = write_position.width, {}
        for y, line in enumerate(self._now()[: write_position.height], write_position.ypos):
            row = known.get(line) or self._rows.get(line) or _cells(line, write_position.width)
            self._rows[line] = screen.data_buffer[y] = row
            screen.height = max(screen.height, y + 1)

    def _now(self) -> list[_Line]:
        """Return the lines of this frame."""
        frame = get_app().render_counter
        if frame != self._frame:
            self._frame, fragments = frame, self._text()
            if fragments != self._fragments:
                self._fragments = fragments
                self._lines = [(*line,) for line in split_lines(fragments)] if fragments else []
        return self._lines


class Region(Container):
    """Parts one below the other; where there is no room for all, each gets a row by turns. Their heights are asked for
    once a frame."""

    def __init__(self, parts: Sequence[Container]) -> None:
        self._parts = parts
        self._asked: tuple[object, list[Dimension]] = (None, [])

    def reset(self) -> None:
        for part in self._parts:
            part.reset()

    def get_children(self) -> list[Container]:
        return [*self._parts]

    def preferred_width(self, max_available_width: int) -> Dimension:
        return Dimension()

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        return sum_layout_dimensions(self._heights(width, max_available_height))

    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,
        write_position: WritePosition,
        parent_style: str,
        erase_bg: bool,
        z_index: int | None,
    ) -> None:
        x, y, width, room = write_position.xpos, write_position.ypos, write_position.width, write_position.height
        for part, rows in zip(self._parts, _shared(self._heights(width, room), room), strict=True):
            if rows:
                place = WritePosition(x, y, width, rows)
                part.write_to_screen(screen, mouse_handlers, place, parent_style, erase_bg, z_index)
            y += rows
        screen.height = max(screen.height, write_position.ypos + room)

    def _heights(self, width: int, room: int) -> list[Dimension]:
        about = get_app().render_counter, width
        if self._asked[0] != about:
            self._asked = about, [part.preferred_height(width, room) for part in self._parts]
        return self._asked[1]


def _shared(heights: Sequence[Dimension], room: int) -> list[int]:
    wanted = [height.preferred for height in heights]
    if sum(wanted) <= room:
        return wanted
    given, turns = [height.min for height in heights], cycle(range(len(wanted)))
    while sum(given) < room:
        at = next(turns)
        given[at] += given[at] < wanted[at]
    return given


def _cells(line: _Line, width: int) -> _Row:
    screen, place = Screen(), WritePosition(0, 0, width, 1)
    Window(FormattedTextControl([*line])).write_to_screen(screen, MouseHandlers(), place, "", False, None)
    return screen.data_buffer[0]
