"""What stands above and below the editor: drawn as any window draws it, and only when it has changed."""

from collections.abc import Generator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import Container, Dimension, HSplit, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Char, Screen, WritePosition
from prompt_toolkit.output import DummyOutput

from vikingpi.ui.region import Lines, Region


@pytest.fixture
def frames() -> Generator[Application[None]]:
    application = Application[None](output=DummyOutput())
    with set_app(application):
        yield application


def drawn(container: Container, columns: int = 20, rows: int = 5) -> Screen:
    screen, place = Screen(), WritePosition(0, 2, columns, rows)
    container.write_to_screen(screen, MouseHandlers(), place, "", False, None)
    return screen


def cells(screen: Screen) -> list[dict[int, Char]]:
    """Return what is seen of each row; the library marks the last row of a window."""
    rows = [screen.data_buffer[y] for y in range(screen.height)]
    return [
        {x: Char(cell.char, cell.style.replace(" class:last-line", "")) for x, cell in row.items() if cell.char != " "}
        for row in rows
    ]


FRAGMENTS = st.lists(
    st.tuples(st.sampled_from(["", "bold", "class:rule"]), st.text("ab 漢e\u0301\n", max_size=12)), max_size=6
)


@settings(max_examples=80, deadline=None)
@given(FRAGMENTS, FRAGMENTS, st.integers(1, 20), st.integers(1, 4))
def test_lines_look_as_in_a_window(
    first: StyleAndTextTuples, then: StyleAndTextTuples, columns: int, rows: int
) -> None:
    application = Application[None](output=DummyOutput())
    with set_app(application):
        text: StyleAndTextTuples = []
        lines = Lines(lambda: text)
        window = Window(FormattedTextControl(lambda: text), dont_extend_height=True)
        for text in (first, then, first):
            application.render_counter += 1
            if not text:
                assert drawn(lines, columns, rows).height == 0
                continue
            assert cells(drawn(lines, columns, rows)) == cells(drawn(window, columns, rows))
            assert lines.preferred_height(columns, 9).preferred == window.preferred_height(columns, 9).preferred
            assert lines.preferred_height(columns, 9).max == window.preferred_height(columns, 9).max


def test_a_line_is_made_into_cells_once(frames: Application[None]) -> None:
    text: StyleAndTextTuples = [("", "one\ntwo")]
    lines = Lines(lambda: text)
    before = drawn(lines)
    frames.render_counter += 1
    text = [("", "new\none\nthree")]
    after = drawn(lines)
    assert after.data_buffer[3] is before.data_buffer[2]
    assert [cells(after)[y][0].char for y in (2, 3, 4)] == ["n", "o", "t"]
    frames.render_counter += 1
    assert drawn(lines, 21).data_buffer[3] is not after.data_buffer[3]


def test_a_text_is_asked_for_once_a_frame(frames: Application[None]) -> None:
    asked: list[str] = []

    def text() -> StyleAndTextTuples:
        asked.append("x")
        return [("", "\n".join(asked))]

    lines = Lines(text)
    for frame in (1, 2):
        frames.render_counter += 1
        assert lines.preferred_height(20, 9).preferred == frame
        assert drawn(lines).height == 2 + frame
        assert len(asked) == frame


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.integers(0, 5), st.integers(1, 25))
def test_parts_share_the_room_as_in_a_split(above: list[int], asked: int, room: int) -> None:
    def lines(number: int, count: int) -> Lines:
        return Lines(lambda: [("", "\n".join([f"{number}"] * count))] if count else [])

    parts: list[Container] = [lines(number, count) for number, count in enumerate(above)]
    text = FormattedTextControl("\n".join(["editor"] * asked))
    parts.insert(len(parts) // 2, Window(text, height=Dimension(min=1, max=3), dont_extend_height=True))
    application = Application[None](output=DummyOutput())
    with set_app(application):
        region, split = Region(parts), HSplit(parts)
        assert region.preferred_height(20, 24).preferred == split.preferred_height(20, 24).preferred
        assert cells(drawn(region, rows=room)) == cells(drawn(split, rows=room))
