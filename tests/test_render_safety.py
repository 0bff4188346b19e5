from __future__ import annotations

import html.entities as entities
import re
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pyte
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_terminal_safety import EVIL, FORBIDDEN, TEXT_EVENTS, events, shown
from vpi_lab import Tty, lab

from vikingpi.messages import AssistantMessage, TextPart, Usage, UserMessage
from vikingpi.safetext import cells, plain
from vikingpi.ui.blocks import blocks_of
from vikingpi.ui.printer import Printer
from vikingpi.ui.render import Painter
from vikingpi.ui.rows import Row
from vikingpi.ui.theme import Depth, Theme
from vikingpi.ui.transcript import Transcript

DEPTHS: tuple[Depth, ...] = ("none", "16", "256", "true")
STYLES = re.compile(r"\x1b\[[0-9;]*m")
WIDTH = 60


def percent(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "replace"))


def decimal(text: str) -> str:
    return "".join(f"&#{ord(char)};" for char in text)


def hexadecimal(text: str) -> str:
    return "".join(f"&#x{ord(char):x};" for char in text)


NAMES = {char: f"&{name}" for name, char in entities.html5.items() if name.endswith(";")}
WRITINGS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "percent": percent,
    "percent twice": lambda text: percent(percent(text)),
    "percent entity": lambda text: decimal(percent(text)),
    "percent but letters": lambda text: urllib.parse.quote(text.encode("utf-8", "replace"), safe="[];"),
    "decimal": decimal,
    "hexadecimal": hexadecimal,
    "named": lambda text: "".join(NAMES.get(char, f"&#{ord(char)};") for char in text),
    "escaped": lambda text: "".join(f"\\{char}" for char in text),
    "half": lambda text: text[:1] + hexadecimal(text[1:]),
}
PLACES = [
    "{}",
    "see <http://x.y/{}> ok",
    "see <mailto:a@x.y?subject={}> ok",
    "<foo:{}>",
    "[text {}](http://x.y/{})",
    '[text](http://x.y/{} "title {}")',
    "[text](<http://x.y/{}>)",
    "![alt {}](http://x.y/{}.png)",
    "![](http://x.y/{})",
    "[ref {}][a]\n\n[a]: http://x.y/{} 'title {}'",
    "# head {}",
    "head {}\n======",
    "###### head {}",
    "| a {} | b |\n|---|:-:|\n| {} | <http://x.y/{}> |",
    "- one {}\n  - two <http://x.y/{}>\n\n1. three {}",
    "> quote {} <http://x.y/{}>",
    "<b>{}</b> <i title='{}'>x</i>",
    "<div>{}</div>",
    "*em {}* **strong {}** ~~gone {}~~ ***both{}***",
    "a*b*{}*c*{}",
    "`code {}` ``more {}``",
    "``` {}\ncode {}\n```",
    "~~~py{}\nprint('{}')\n~~~",
    "    indented {}",
    "line {}  \nbreak {}\\\nend",
    "<!-- {} -->",
    "{}\n***\n{}",
]


def painted(text: str, depth: Depth) -> list[str]:
    """Everything that a chat prints of a text: the answer, its open block, rows, the past, a document."""
    painter = Painter(Theme(depth, "ansi_dark"))
    lines: list[str] = []
    printer = Printer(lambda more, _: lines.extend(more), lambda: WIDTH, painter)
    printer.markdown(text)
    for block in blocks_of(text):  # as if nobody had cleaned it
        lines += painter.block(block, WIDTH)
    lines += painter.code(text, "python", WIDTH)
    rows = [Row(line, style) for line in text.split("\n") for style in ("plain", "shell")]
    printer.rows(rows)
    printer.text(rows)
    printer.prose(rows, hang=2)
    answer = AssistantMessage((TextPart(text),), "", "", "", Usage(), "stop", 0)
    Transcript(printer).past([UserMessage((TextPart(text),), 0), answer], 1, {})
    return lines


def check(text: str, depth: Depth) -> list[str]:
    painted_lines = painted(text, depth)
    lines = [STYLES.sub("", line) for line in painted_lines]
    for bare in lines:
        assert plain(bare) == bare, text
    whole = shown("\n".join(lines))
    assert FORBIDDEN.search(whole) is None
    assert set(events(whole)) <= TEXT_EVENTS
    return painted_lines


@pytest.mark.parametrize("name", WRITINGS)
def test_no_markdown_lets_a_decoded_sequence_through(name: str) -> None:
    evil = WRITINGS[name]("".join(EVIL))
    text = "\n\n".join(place.replace("{}", evil) for place in PLACES)
    screen = pyte.Screen(WIDTH, 5)
    pyte.ByteStream(screen).feed(shown("\n".join(check(text, "256"))))
    assert (screen.title, screen.icon_name) == ("", "")


def written(name: str, parts: list[str]) -> str:
    return WRITINGS[name]("".join(parts))


hostile = st.builds(
    written,
    st.sampled_from(sorted(WRITINGS)),
    st.lists(st.one_of(st.sampled_from(EVIL), st.text("ab \x1b]\u200d\u202e\ufe0f\xe9", max_size=3)), max_size=3),
)


@settings(deadline=None, max_examples=20)
@example(["see <http://x.y/{}> ok"], ["%1b%5d2;PWN%1b%5c"], "256")
@example(["{}"], ["&#x202e; &#x200b; &#xad; &#xe0041; &#x2066;"], "none")
@given(
    st.lists(st.sampled_from(PLACES), min_size=1, max_size=3), st.lists(hostile, min_size=1), st.sampled_from(DEPTHS)
)
def test_no_mixture_of_markdown_does_either(places: list[str], evil: list[str], depth: Depth) -> None:
    text = "\n\n".join(places)
    for part in evil * text.count("{}"):
        text = text.replace("{}", part, 1)
    check(text, depth)


def test_what_was_decoded_is_seen_and_the_lines_still_fit() -> None:
    painter = Painter(Theme("none", "ansi_dark"))
    lines = painter.markdown("word &#x202e;&shy; " * 20 + "\n\n| a |\n|---|\n| &#x202e;&#x2066; |", 40)
    bare = [STYLES.sub("", line) for line in lines]
    assert "<U+202E><U+00AD>" in bare[0]
    assert any("<U+202E><U+2066>" in line for line in bare[-3:])
    assert all(cells(line) <= 40 for line in bare)


def test_a_bare_address_is_shown_as_it_was_written() -> None:
    (line,) = Painter(Theme("none", "ansi_dark")).markdown("<http://x.y/%1b%5d2;PWN%E2%80%AE>", 120)
    assert "http://x.y/%1b%5d2;PWN%E2%80%AE" in STYLES.sub("", line)


@pytest.mark.parametrize(
    "text",
    ["\u0645\u06cc\u200c\u062e", "\u2764\ufe0f 1\ufe0f\u20e3", "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 30],
)
def test_joiners_of_ordinary_text_stay(text: str) -> None:
    lines = Painter(Theme("256", "ansi_dark")).markdown(text, 21)
    assert STYLES.sub("", "".join(lines)) == text


def test_a_chat_with_encoded_sequences_only_draws(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        marks = " ".join(f"<http://x.y/{percent(evil)}> {hexadecimal(evil)}" for evil in EVIL)
        said = f"SAY: begin1 {marks} **{hexadecimal(EVIL[0])}** end1"
        terminal = Tty(runs, columns=120)
        try:
            terminal.wait("ctx 0")
            terminal.send(f"{said}\r")
            terminal.wait("end1")
            terminal.wait("scripted")
            terminal.read(0.5)
            terminal.send("\x04")
            assert terminal.end() == 0
            again = Tty(runs, "-c", columns=120)
            again.wait("end1")
            again.send("\x04")
            assert again.end() == 0
        finally:
            terminal.close()
        for run in (terminal, again):
            found = FORBIDDEN.search(run.raw)
            assert found is None, run.raw[found.start() - 80 : found.end() + 40]
            assert (run.screen.title, run.screen.icon_name) == ("", "")
