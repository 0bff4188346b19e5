from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vikingpi.safetext import Cleaner, ascii_json, cells, cut_cells, is_seen, literal, one_line, plain, wrapped

HOSTILE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\u200b\ufeff]")

CASES = [
    ("a\x1b[2Jb", "a\u241b[2Jb"),
    ("a\x1b[1A\x1b[Kb", "a\u241b[1A\u241b[Kb"),
    ("\x1b[3J\x1b[H\x1b[?1049h\x1b[6n\x1b[5;10r", "\u241b[3J\u241b[H\u241b[?1049h\u241b[6n\u241b[5;10r"),
    ("\x1b[>4;2m\x1b[?4m", "\u241b[>4;2m\u241b[?4m"),
    ("\x1b[01;31m\x1b[Kerror:\x1b[m\x1b[K\x1b[K", "error:\u241b[K"),
    ("\x1b[4:3m\x9b31mx\x1b[m", "x"),
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b[38;2;1;2;3mx\x1b[?25l", "x\u241b[?25l"),
    ("a\x9b2Jb", "a<U+009B>2Jb"),
    ("\x1b(B\x1b[mx\x1b7\x1b8\x1b(0", "x\u241b7\u241b8\u241b(0"),
    ("\x1b]0;x\x07", "\u241b]0;x\u2407"),
    ("\x1b]52;c;ZXZpbA==\x07", "\u241b]52;c;ZXZpbA==\u2407"),
    ("\x1b]8;;file:///etc/passwd\x1b\\ok\x1b]8;;\x1b\\", "\u241b]8;;file:///etc/passwd\u241b\\ok\u241b]8;;\u241b\\"),
    ("\x9d0;title\x9c", "<U+009D>0;title<U+009C>"),
    ("\x1bPq#0\x1b\\", "\u241bPq#0\u241b\\"),
    ("\x1b_Ga=T\x1b\\", "\u241b_Ga=T\u241b\\"),
    ("\x1bc", "\u241bc"),
    ("\x1b", "\u241b"),
    ("x\x1b[", "x\u241b["),
    ("x\x1b[1;2", "x\u241b[1;2"),
    ("\x1b[1\nx", "\u241b[1\nx"),
    ("\x1b\x1b[m[2J", "\u241b[2J"),
    ("good\rbad", "good\nbad"),
    ("a\r\nb\rc\r", "a\nb\nc\n"),
    ("bell\x07 back\x08 nul\x00 del\x7f", "bell\u2407 back\u2408 nul\u2400 del\u2421"),
    ("\x0b\x0c\x0e", "\u240b\u240c\u240e"),
    ("\x85\x90", "<U+0085><U+0090>"),
    ("a\u202eb\u202c", "a<U+202E>b<U+202C>"),
    ("a\u2066b\u2069\u200e", "a<U+2066>b<U+2069><U+200E>"),
    ("zero\u200bwidth\ufeff\u2060\u00ad", "zero<U+200B>width<U+FEFF><U+2060><U+00AD>"),
    ("a\u200db", "a<U+200D>b"),
    ("tag\U000e0041", "tag<U+E0041>"),
    ("\U0001f600\ufe0f\ufe01", "\U0001f600\ufe0f<U+FE01>"),
    ("cut \ud83d", "cut \ufffd"),
    ("bad\udcff.txt", "bad\ufffd.txt"),
]

SAME = [
    "",
    "plain text\n\twith tab\n",
    "\u9879\u76ee-\U0001f389\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u2764\ufe0f 1\ufe0f\u20e3",
    "\u845b\U000e0100",
    "e\u0301 \u0e01\u0e33",
]


@pytest.mark.parametrize(("text", "clean"), CASES)
def test_what_a_terminal_would_obey_is_left_out_or_visible(text: str, clean: str) -> None:
    assert plain(text) == clean


@pytest.mark.parametrize("text", SAME)
def test_ordinary_text_of_any_script_stays(text: str) -> None:
    assert plain(text) == text
    assert literal(text) == text


@pytest.mark.parametrize("text", [text for text, _ in CASES] + SAME)
def test_pieces_give_what_the_whole_gives(text: str) -> None:
    cleaner = Cleaner()
    shown = "".join(cleaner.feed(char) for char in text) + cleaner.close()
    assert shown == plain(text)


@example(["\x07", "\u200d"])
@given(st.lists(st.text(alphabet="ab\x1b[]m\x9b\r\n0;(B\\\x07\u200d\ufe0f\u00e9\U0001f600", max_size=8), max_size=6))
def test_any_cut_gives_the_same_and_nothing_hostile(pieces: list[str]) -> None:
    cleaner = Cleaner()
    shown = "".join(map(cleaner.feed, pieces)) + cleaner.close()
    assert shown == plain("".join(pieces))
    assert HOSTILE.search(shown) is None


@given(st.text(max_size=60))
def test_cleaning_is_safe_and_final(text: str) -> None:
    clean = plain(text)
    assert HOSTILE.search(clean) is None
    assert plain(clean) == clean


def test_a_piece_without_sequences_is_shown_at_once() -> None:
    cleaner = Cleaner()
    assert cleaner.feed("abc\x1b") == "abc"
    assert cleaner.feed("[3") == ""
    assert cleaner.feed("1mdef") == "def"
    assert cleaner.feed("x\r") == "x\n"
    assert cleaner.feed("\ny") == "y"


def test_a_sequence_without_end_does_not_swallow_the_text() -> None:
    text = plain("\x1b[" + "1;" * 100 + "\x1b]0;" + "secret command " * 50)
    assert text.count("secret command") == 50


def test_literal_hides_nothing_of_a_command() -> None:
    assert literal("echo hi\x1b[8m; rm -rf x\x1b[0m\r") == "echo hi\u241b[8m; rm -rf x\u241b[0m\u240d"


def test_one_line_is_short_and_has_no_breaks() -> None:
    assert one_line("  a\n\n b\t\x1b[31mc  ", 20) == "a b c"
    assert one_line("abcdefghij", 6) == "abc..."
    assert one_line("x" * 10_000_000, 10) == "xxxxxxx..."


def test_width_is_counted_in_cells() -> None:
    assert cells("abc") == 3
    assert cells("\u9879\u76ee") == 4
    assert cells("e\u0301") == 1
    assert cells("\u2764\ufe0f") == 2
    assert cells("\U0001f389") == 2
    assert cut_cells("\u9879\u76ee\u9879\u76ee", 6) == "\u9879..."
    assert cut_cells("\u9879\u76ee\u9879", 6) == "\u9879\u76ee\u9879"
    for limit in range(12):
        assert cells(cut_cells("\u9879a\u76ee-\U0001f389\U0001f468\u200d\U0001f469", limit)) <= limit


@given(st.text(max_size=60))
def test_json_for_a_terminal_says_the_same(text: str) -> None:
    written = json.dumps({"x": text}, ensure_ascii=False)
    safe = ascii_json(written)
    assert json.loads(safe) == {"x": text}
    assert HOSTILE.search(safe) is None


@pytest.mark.parametrize(
    ("text", "limit", "lines"),
    [
        ("", 5, [""]),
        ("one two", 7, ["one two"]),
        ("one two three", 7, ["one two", "three"]),
        ("one two  three", 8, ["one two", "three"]),
        ("  one two", 6, ["  one", "two"]),
        ("a verylongword b", 6, ["a", "verylo", "ngword", "b"]),
        ("漢字 漢字漢字", 4, ["漢字", "漢字", "漢字"]),
        ("x", 0, ["x"]),
    ],
)
def test_a_line_is_broken_at_its_blanks(text: str, limit: int, lines: list[str]) -> None:
    assert wrapped(text, limit) == lines


def test_a_long_word_can_stay_whole() -> None:
    assert wrapped("see https://example.org/a now", 10, break_words=False) == [
        "see",
        "https://example.org/a",
        "now",
    ]
    assert wrapped("verylongword", 4, break_words=False) == ["verylongword"]


@given(st.text(alphabet="ab 漢e\u0301", max_size=40), st.integers(2, 12))
def test_broken_lines_fit_and_lose_only_blanks(text: str, limit: int) -> None:
    lines = wrapped(text, limit)
    assert all(cells(line) <= limit for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize("text", ["a b.txt", "\u0645\u06cc\u200c\u062e", "\u2764\ufe0f", "\u9879\u76ee", ""])
def test_a_name_without_anything_invisible_is_seen(text: str) -> None:
    assert is_seen(text)


@pytest.mark.parametrize("text", ["a\u202eb", "a\tb", "a\nb", "a\xa0b", "\x1b[m", "a\u3164", "\udcff", "a\u200d"])
def test_a_name_with_something_invisible_is_not(text: str) -> None:
    assert not is_seen(text)
