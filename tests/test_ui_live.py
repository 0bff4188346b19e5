"""What is drawn again and again: in whole frames, in the size that the terminal has, and no more than is new."""

import asyncio
import os
import pty
import re
import time
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import eventually
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import ANSI, to_formatted_text
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.styles import Style
from ui_terminal import PATIENCE, Open, Terminal

from vikingpi.ui.arriving import KEPT_ROWS, LIVE_ROWS, Arriving
from vikingpi.ui.caret import ABOVE_SECONDS, DOUBT_SECONDS, TYPED_SECONDS, Caret
from vikingpi.ui.painted import fitting, painted
from vikingpi.ui.printer import Printer
from vikingpi.ui.reflow import row_of_cursor, rows_of, written
from vikingpi.ui.render import Painter
from vikingpi.ui.repl import Pace
from vikingpi.ui.screen import HeldOutput, InlineApplication, Pages, make_output
from vikingpi.ui.theme import Theme

PAINTER = Painter(Theme("256", "ansi_dark"))
FRAME = re.compile(rb"\x1b\[\?2026h.*?\x1b\[\?2026l", re.DOTALL)


class Stream:
    """A standard output that keeps what each write has."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.buffer = self
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> int:
        self.writes.append(data)
        return len(data)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True


class Place:
    """A chat's screen whose region has the text `shown()`; `size` can change at any time."""

    def __init__(self, shown: Callable[[], str]) -> None:
        self.stream, self.size = Stream(), Size(24, 80)
        self.output = HeldOutput(self.stream, lambda: self.size, "xterm")  # pyright: ignore[reportArgumentType] - all that is used of one
        self.output.enable_cpr = False
        self.pages = Pages(lambda: None)
        self._shown = shown

    async def run(self, act: Callable[[InlineApplication[int]], None], done: Callable[[], object]) -> None:
        with create_pipe_input() as source:
            layout = Layout(Window(FormattedTextControl(self._shown), dont_extend_height=True))
            screen = InlineApplication[int](layout, Style([]), self.output, source)
            self.pages.attach(screen)
            screen.settled = lambda: (self.pages.flush(), None)[1]
            running = asyncio.create_task(screen.run_async(handle_sigint=False, set_exception_handler=False))
            await asyncio.to_thread(eventually, lambda: self.stream.writes)
            self.stream.writes.clear()
            act(screen)
            await asyncio.to_thread(eventually, done)
            await asyncio.sleep(0.05)  # in which nothing more is to come
            screen.exit(result=0)
            await running

    def wrote(self, text: bytes) -> list[bytes]:
        """The writes that have a text."""
        return [write for write in self.stream.writes if text in write]


def test_a_frame_is_one_write_however_much_it_prints() -> None:
    place = Place(lambda: "region")
    asyncio.run(
        place.run(
            lambda screen: place.pages.show([f"line {n}" for n in range(5000)], False), lambda: place.wrote(b"region")
        )
    )
    (frame,) = place.wrote(b"line 0")
    assert b"line 4999" in frame
    assert b"region" in frame
    assert all(FRAME.fullmatch(write) for write in place.stream.writes)


def test_nothing_is_written_in_a_size_that_is_no_longer_true_and_nothing_is_lost() -> None:
    drawn: list[Size] = []

    def shown() -> str:
        drawn.append(place.size)
        if len(drawn) == 2:
            place.size = Size(24, 40)  # while a frame is drawn, and nobody has told
        return "region " * 10

    place = Place(shown)
    asyncio.run(place.run(lambda screen: place.pages.show(["printed"], False), lambda: place.wrote(b"printed")))
    assert len(drawn) > 2
    (frame,) = place.wrote(b"printed")
    assert b"\x1b[2A" not in frame


def test_everything_that_the_chat_writes_is_within_frames(terminal: Open) -> None:
    t = terminal()
    for prompt in ("MD", "TOOL", "CODE 100"):
        t.send(f"{prompt}\r")
        t.settle()
    t.resize(60, 20)
    t.read(0.2)
    before = t.raw.index(b"\x1b[?2026h")
    rest = FRAME.sub(b"", t.raw[before:])
    assert rest == b""
    assert not any(b"\x1b[?2026h" in frame[8:] for frame in FRAME.findall(t.raw))


def test_no_row_is_shortened_at_its_end_alone(terminal: Open) -> None:
    t = terminal()
    t.send("PROSE 60\r")
    t.wait("w59")
    t.send("typed and gone\x15")
    t.read(0.2)
    assert re.findall(rb"\x1b\[K(?!\x1b\[C\x1b\[J)", t.raw) == []


def test_a_terminal_that_cuts_its_rows_keeps_what_is_printed(terminal: Open) -> None:
    t = terminal(XTERM_VERSION="XTerm(390)")
    t.send("CODE 20\r")
    t.wait("value_19 = 19")
    t.send("LINES 200\r")
    t.wait("w40 ")
    for columns in (60, 44, 80, 50, 100, 44):
        t.resize(columns, 24)
        t.read(0.2)
    t.wait("w199")
    t.read(0.2)
    words = " ".join(t.everything()).split()
    assert [word for word in words if re.fullmatch(r"w\d+", word)] == [f"w{n}" for n in range(200)]
    assert t.text().count("OV ✓") == 1


@pytest.mark.parametrize(
    ("term", "env", "rewraps", "in_screen"),
    [
        ("xterm-256color", {}, True, False),
        ("xterm", {"XTERM_VERSION": "XTerm(390)"}, False, False),
        ("linux", {}, False, False),
        ("screen", {"STY": "1.x", "XTERM_VERSION": "XTerm(390)"}, True, True),
        ("screen-256color", {"TMUX": "s,1,0", "XTERM_VERSION": "XTerm(390)"}, True, False),
        ("screen.xterm-256color", {"STY": "1.x", "TMUX": "s,1,0"}, True, True),
        ("screen-256color", {"STY": "1.x"}, True, True),
        ("screen-256color", {"STY": "1.x", "TMUX": "s,1,0"}, True, False),
        ("tmux-256color", {"STY": "1.x", "TMUX": "s,1,0"}, True, False),
    ],
)
def test_the_inner_terminal_tells_what_it_does_with_rows(
    term: str, env: dict[str, str], rewraps: bool, in_screen: bool
) -> None:
    descriptor, other = pty.openpty()
    with os.fdopen(other, "w") as stdout:
        output = make_output(stdout, term, colour=True, env=env)
    os.close(descriptor)
    assert (output.rewraps, output.in_screen) == (rewraps, in_screen)


@pytest.mark.parametrize(
    ("widths", "columns", "rows"), [([], 9, 1), ([1] * 80, 40, 2), ([1] * 81, 40, 3), ([2, 0] * 40, 27, 4)]
)
def test_a_row_is_broken_between_characters(widths: list[int], columns: int, rows: int) -> None:
    assert rows_of(widths, columns) == rows


def test_the_cursor_behind_a_row_stays_in_its_last_one() -> None:
    row = {x: Char(char) for x, char in enumerate("> typed ")}
    assert (widths := written(row, {"": False})) == [1] * 7
    assert row_of_cursor(widths, 8, 7) == 0
    assert row_of_cursor([1] * 80, 40, 40) == 1


def test_live_lines_leave_room_for_a_screen_of_half_the_size() -> None:
    short, long, wide = painted("x" * 30), painted("x" * 80), painted("漢" * 20)
    assert fitting([short] * 9, 80, 9, 7, 99) == 7
    assert fitting([long] * 9, 80, 9, 7, 99) == 3
    assert fitting([long] * 9, 80, 9, 7, 2) == 2
    assert fitting([wide] * 9, 80, 9, 7, 99) == 3
    assert fitting([long] * 9, 80, 9, 0, 0) == 1
    assert fitting([long] * 9, 80, 0, 9, 9) == 0


class Paper:
    """What was printed, as what is seen of each line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.printer = Printer(self.show, lambda: 40, PAINTER)

    def show(self, lines: Sequence[str], gap: bool) -> None:
        self.lines += [""] * (gap and bool(self.lines))
        self.lines += lines


def seen(line: str) -> list[tuple[str, ...]]:
    return [(style, text) for style, text, *_ in to_formatted_text(ANSI(line)) if text.strip()]


WORDS = st.sampled_from(
    [
        "word",
        "**bold**",
        "`code`",
        "[a link](http://x.y/z)",
        "snake_case",
        "2 * 3",
        "漢字漢字",
        "**two words**",
        "_x",
        "a\\*b",
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, min_size=30, max_size=60), st.integers(1, 30))
def test_a_paragraph_that_is_printed_row_by_row_looks_as_in_one_piece(words: list[str], size: int) -> None:
    text, paper = " ".join(["Here", *words]), Paper()
    arriving = Arriving(paper.printer)
    for at in range(0, len(text), size):
        arriving.feed(text[at : at + size])
        arriving.give()
        arriving.live(40)
    arriving.ends()
    assert [*map(seen, paper.lines)] == [*map(seen, PAINTER.markdown(text, 40))]


def test_of_a_long_paragraph_only_the_last_rows_are_live() -> None:
    paper = Paper()
    arriving = Arriving(paper.printer)
    for number in range(400):
        arriving.feed(f"word{number} ")
        arriving.give()
        assert len(arriving.live(40)) <= LIVE_ROWS + 1
    assert arriving.goes_on
    assert len(paper.lines) + len(arriving.live(40)) == len(
        PAINTER.markdown(" ".join(f"word{n}" for n in range(400)), 40)
    )
    assert len(arriving.live(40)) >= KEPT_ROWS


def test_what_comes_between_the_pieces_of_a_block_stands_apart() -> None:
    paper = Paper()
    arriving = Arriving(paper.printer)
    arriving.feed("```\n1\n2\n3\n")
    arriving.give()
    assert arriving.goes_on
    paper.printer.markdown("note")
    assert not arriving.goes_on
    arriving.feed("4\n```\n")
    assert re.sub(r"\x1b\[[\d;]*m", "", " ".join(paper.lines)) == "``` 1 2 3  note  4 ```"


def test_nothing_has_a_background_of_its_own(terminal: Open) -> None:
    t = terminal()
    t.send("/vi")
    t.wait("> /viking")
    t.send("\x15/list ask3\r")
    t.wait("Go on?")
    assert re.findall(rb"\x1b\[(?:\d+;)*4[0-8](?:;|m)", t.raw) == []


def test_frames_are_rarer_while_somebody_types_and_where_they_are_dear() -> None:
    now = 100.0
    pace = Pace(lambda: now)
    assert pace.wait() == pytest.approx(0.05)
    pace.key(None)
    now += 0.4
    assert pace.wait() == pytest.approx(0.1)
    now += 0.2
    assert pace.wait() == pytest.approx(0.05)
    pace.drew(0.04)
    assert pace.wait() == pytest.approx(0.16)
    pace.drew(3.0)
    assert pace.wait() == pytest.approx(0.5)


def caret_of(t: Terminal) -> tuple[bool, int, str, bool]:
    """Whether the cursor is seen, how far from the upper rule up it is, what is before it in its row, and whether the
    editor shows one of its own."""
    rows, cursor = t.text().split("\n"), t.screen.cursor
    rule = min(number for number, row in enumerate(rows) if row.startswith("──"))
    own = any(cell.reverse for cell in t.screen.buffer[rule + 1].values())
    return not cursor.hidden, rule - cursor.y, rows[cursor.y][: cursor.x], own


def wait_caret(t: Terminal, wanted: Callable[[tuple[bool, int, str, bool]], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not wanted(caret_of(t)):
        assert time.monotonic() < end, (caret_of(t), t.text())
        t.read(0.01)


def test_the_cursor_is_above_what_changes_while_text_comes_and_in_the_editor_otherwise(terminal: Open) -> None:
    t = terminal()
    wait_caret(t, lambda caret: caret == (True, -1, ">", False))
    t.send("PROSE 200\r")
    t.wait("w40 ")
    wait_caret(t, lambda caret: not caret[0] and caret[1] >= 3 and caret[2:] == ("", True))
    t.send("a draft")
    wait_caret(t, lambda caret: caret == (True, -1, "> a draft", False))
    t.wait("w199")
    t.send("\x15")
    t.settle()
    wait_caret(t, lambda caret: caret == (True, -1, ">", False))


def test_the_cursor_is_above_for_a_moment_after_a_change_unless_somebody_types() -> None:
    now = 100.0
    caret = Caret(lambda: now)

    def frame(rows: list[list[int]], *, draft: bool = False) -> bool:
        caret.frame(rows, draft=draft)
        return caret.above

    assert frame([[1, 1]])
    now += ABOVE_SECONDS
    assert not frame([[1, 1]])
    caret.printed()
    assert frame([[1, 1]])
    caret.key(None)
    assert frame([[1]])
    assert not frame([[1, 1]], draft=True)
    now += TYPED_SECONDS
    assert frame([[1]], draft=True)
    caret.key(None)
    assert not frame([[1, 1]], draft=True)
    caret.resized()
    assert frame([[1, 1]], draft=True)
    assert not frame([])


def test_it_is_doubtful_for_a_moment_how_wide_the_terminal_was_for_a_frame_that_left_the_cursor_in_the_editor() -> None:
    now = 100.0
    caret = Caret(lambda: now)
    caret.frame([[1]], draft=False)
    assert not caret.resized()
    now += ABOVE_SECONDS
    caret.frame([[1]], draft=False)
    assert caret.resized()
    now += 2 * DOUBT_SECONDS
    assert not caret.resized()
    caret.frame([[1]], draft=False)
    assert not caret.resized()
