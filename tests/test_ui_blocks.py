import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.formatted_text import ANSI, to_formatted_text
from prompt_toolkit.utils import get_cwidth

from vikingpi.ui.blocks import LONGEST_FENCE, Block, Splitter, blocks_of
from vikingpi.ui.render import Painter
from vikingpi.ui.theme import Theme, choose_theme

PLAIN = Painter(Theme("none", "ansi_dark"))


def texts(blocks: tuple[Block, ...]) -> list[str]:
    return [block.text for block in blocks]


def test_a_blank_line_ends_a_paragraph() -> None:
    splitter = Splitter()
    assert texts(splitter.feed("one\ntwo")) == []
    assert splitter.open == Block("text", "one\ntwo")
    assert texts(splitter.feed("\n\nthree")) == ["one\ntwo"]
    assert texts(splitter.close()) == ["three"]
    assert splitter.open is None


def test_a_list_goes_on_over_blank_lines_while_it_is_one() -> None:
    text = "- one\n\n- two\n\n  more\n\nafter"
    assert texts(blocks_of(text)) == ["- one\n\n- two\n\n  more", "after"]


def test_a_fence_is_a_block_with_its_blank_lines() -> None:
    blocks = blocks_of("see:\n```py\na\n\n  b\n```\nafter")
    assert blocks == (Block("text", "see:"), Block("code", "a\n\n  b", "py"), Block("text", "after"))


def test_a_fence_ends_only_with_its_own_mark() -> None:
    assert blocks_of("````\n```\nx\n````")[0].text == "```\nx"
    assert blocks_of("~~~\n```\n~~~")[0].text == "```"


def test_an_indented_fence_loses_its_indent_and_no_more() -> None:
    assert blocks_of("  ```\n  a\n    b\n c\n  ```")[0].text == "a\n  b\nc"


def test_a_fence_in_a_list_stays_in_the_list() -> None:
    text = "- one\n  ```\n  x\n\n  y\n  ```\n- two"
    assert texts(blocks_of(text)) == [text]


def test_a_fence_that_is_not_closed_comes_out_at_the_end() -> None:
    splitter = Splitter()
    splitter.feed("```\na\nb")
    assert splitter.open == Block("code", "a\nb", "", True, False)
    assert splitter.close() == (Block("code", "a\nb"),)


def test_a_long_fence_is_given_away_in_pieces() -> None:
    lines = [f"line {n}" if n % 3 else "" for n in range(500)]
    splitter = Splitter()
    pieces = list(splitter.feed("```py\n" + "\n".join(lines) + "\n"))
    assert splitter.open is not None
    assert len(splitter.open.text.split("\n")) <= LONGEST_FENCE
    assert [(piece.begins, piece.ends) for piece in pieces[:2]] == [(True, False), (False, False)]
    pieces += splitter.feed("```\n")
    assert (pieces[-1].begins, pieces[-1].ends) == (False, True)
    assert "\n".join(piece.text for piece in pieces) == "\n".join(lines)
    shown = [line for piece in pieces for line in PLAIN.block(piece, 80)]
    assert [line for line in shown if "```" not in line] == lines


CODE = """class Ship:
    '''A long text,

    which takes lines.'''

    def sail(self, to: str) -> None:
        print(f"to {to}")  # and back

"""


def seen(line: str) -> list[tuple[str, ...]]:
    """What is seen of a painted line: the characters that are not blank, and their colours."""
    return [(style, text) for style, text, *_ in to_formatted_text(ANSI(line)) if text.strip()]


@pytest.mark.parametrize("size", [1, 7, 60, 1000])
def test_code_given_line_by_line_looks_as_in_one_piece(size: int) -> None:
    painter = Painter(Theme("256", "ansi_dark"))
    text = f"```python\n{CODE * 9}```\n"
    splitter, pieces = Splitter(), list[Block]()
    for at in range(0, len(text), size):
        pieces += [*splitter.feed(text[at : at + size]), *splitter.give()]
    shown = [line for piece in pieces for line in painter.block(piece, 80)]
    assert [*map(seen, shown)] == [*map(seen, painter.block(Block("code", (CODE * 9)[:-1], "python"), 80))]


def test_a_comment_given_line_by_line_is_one() -> None:
    text = "```js\n/* if a\n * for b\n */\nlet x\n"
    painter, splitter, lines = Painter(Theme("256", "ansi_dark")), Splitter(), list[str]()
    for line in text.splitlines(keepends=True):
        for block in (*splitter.feed(line), *splitter.give()):
            lines += painter.block(block, 80)
    assert [*map(seen, lines[1:])] == [*map(seen, painter.code("/* if a\n * for b\n */\nlet x", "js", 80))]


@pytest.mark.parametrize("text", ["- a\n- b\n  - c\n\n  d\n- e", "3. a\n4. b\n\n   - c\n5. d", "Two:\n* a\n* b\n* c"])
def test_a_list_given_item_by_item_looks_as_in_one_piece(text: str) -> None:
    splitter, pieces = Splitter(), list[Block]()
    for char in f"{text}\n":
        pieces += [*splitter.feed(char), *splitter.give()]
    assert len(pieces) == 2
    pieces += splitter.close()
    assert [line for piece in pieces for line in PLAIN.block(piece, 80)] == PLAIN.markdown(text, 80)
    assert [piece.begins for piece in pieces] == [True, False, False]


@pytest.mark.parametrize("text", ["1. a\n1. b\n1. c", "1. a\n- b\n2. c\n1. d"])
def test_a_list_that_does_not_count_is_one_piece(text: str) -> None:
    splitter = Splitter()
    assert [block for char in text for block in (*splitter.feed(char), *splitter.give())] == []
    assert texts(splitter.close()) == [text]


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab -*`~#\n|1.", max_size=200), st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_the_pieces_of_a_stream_do_not_change_its_blocks(text: str, sizes: list[int]) -> None:
    splitter, blocks, at = Splitter(), list[Block](), 0
    for size in sizes * (len(text) // len(sizes) + 1):
        blocks += splitter.feed(text[at : at + size])
        at += size
    assert tuple(blocks) + splitter.close() == blocks_of(text)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab -*`~\n1.", max_size=200))
def test_no_text_is_lost_between_blocks(text: str) -> None:
    fences = "`~ \n"
    whole = "".join(f"{block.info}{block.text}" for block in blocks_of(text))
    assert whole.translate(dict.fromkeys(map(ord, fences))) == text.translate(dict.fromkeys(map(ord, fences)))


# rendering


@pytest.mark.parametrize("columns", [20, 40, 300])
def test_lines_fit_and_have_no_trailing_blanks(columns: int) -> None:
    text = "# Title\n\n" + "word 漢字 " * 30 + "\n\n| a | b |\n|---|---|\n| 漢字 | x |\n\n- item one\n- item two\n"
    for block in blocks_of(text):
        for line in PLAIN.block(block, columns):
            assert get_cwidth(re.sub(r"\x1b\[[\d;]*m", "", line)) <= columns
            assert line == line.rstrip(" ")


def test_html_and_line_breaks_of_an_answer_are_kept() -> None:
    lines = PLAIN.markdown('<file name="x">\nabc\n</file>\n\nx <b>y</b>', 80)
    assert lines == ['<file name="x">', "abc", "</file>", "", "x <b>y</b>"]


def test_links_show_their_address_and_make_no_terminal_link() -> None:
    assert "http://x.y" in "".join(PLAIN.markdown("[here](http://x.y)", 80))
    assert "\x1b]8" not in "".join(Painter(Theme("256", "ansi_dark")).markdown("[here](http://x.y)", 80))


def test_blank_lines_of_code_are_kept() -> None:
    assert PLAIN.code("\n\na\n\n", "no such language", 80) == ["", "", "a", "", ""]


def test_a_theme_follows_setting_and_terminal() -> None:
    assert choose_theme("auto", {"NO_COLOR": "1", "TERM": "xterm-256color"}).depth == "none"
    assert choose_theme("auto", {"TERM": "xterm-256color"}).depth == "256"
    assert choose_theme("auto", {"COLORTERM": "truecolor"}).depth == "true"
    assert choose_theme("auto", {"COLORFGBG": "0;15"}).code == "ansi_light"
    assert choose_theme("dark", {"COLORFGBG": "0;15"}).code == "ansi_dark"


def plain_of(line: str) -> str:
    """The line without its codes."""
    return re.sub(r"\x1b\[[\d;]*m", "", line)


WORDS = (
    "とても長いセルの内容がここにあります",
    "a_very_long_identifier_name",
    "https://example.org/a/b/c?d=e",
    "1234567.891",
)


@pytest.mark.parametrize("columns", [20, 40, 80])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("word", WORDS)
def test_a_table_loses_nothing_of_its_cells(word: str, count: int, columns: int) -> None:
    head, cells = (" | ".join(f"{name}{n}" for n in range(count)) for name in ("head", f"{word}-"))
    lines = PLAIN.markdown(f"| {head} |\n|{'---|' * count}\n| {cells} |\n| {cells} |", columns)
    assert all(get_cwidth(plain_of(line)) <= columns for line in lines)
    shown = "".join(map(plain_of, lines))
    assert "…" not in shown
    for char in set(word):
        assert shown.count(char) >= 2 * count * word.count(char)


@pytest.mark.parametrize("kind", ["# {}", "- {}", "> {}", "1. **{}**", "{}", "`{}`", "- a\n  - {}"])
@pytest.mark.parametrize("word", WORDS)
def test_a_long_word_is_broken_and_not_cut(word: str, kind: str) -> None:
    lines = [plain_of(line) for line in PLAIN.markdown(kind.format(word * 5), 40)]
    assert all(get_cwidth(line) <= 40 for line in lines)
    assert word * 5 in re.sub(r"[\s▌]", "", "".join(lines))
