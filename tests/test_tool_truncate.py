from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vikingpi.redact import Redactor
from vikingpi.tools.truncate import cut_end, cut_start, head, size_text, tail, whole_from, whole_until


def test_short_text_stays_as_it_is() -> None:
    for text in ("", "a", "a\n", "a\nb", "\n\n"):
        assert head(text).text == tail(text).text == text
        assert head(text).by is tail(text).by is None


def test_head_keeps_whole_lines_from_the_start() -> None:
    cut = head("a\nb\nc\nd", max_lines=2)
    assert (cut.text, cut.by, cut.total_lines, cut.output_lines) == ("a\nb", "lines", 4, 2)
    cut = head("aaaa\nbbbb\ncc", max_bytes=9)
    assert (cut.text, cut.by, cut.output_bytes) == ("aaaa\nbbbb", "bytes", 9)
    cut = head("aaaa\nb", max_bytes=3)
    assert (cut.text, cut.first_line_too_long) == ("", True)


def test_tail_keeps_whole_lines_from_the_end_and_counts_no_empty_one() -> None:
    cut = tail("a\nb\nc\nd\n", max_lines=2)
    assert (cut.text, cut.by, cut.total_lines, cut.output_lines) == ("c\nd\n", "lines", 4, 2)
    cut = tail("aa\nbbbb\ncc", max_bytes=7)
    assert (cut.text, cut.by, cut.output_bytes) == ("bbbb\ncc", "bytes", 7)


def test_tail_keeps_a_piece_of_a_line_that_is_too_long() -> None:
    cut = tail("x\n" + "\u00e9" * 10 + "\n", max_bytes=6)
    assert (cut.text, cut.last_line_partial) == ("\u00e9\u00e9\n", True)
    assert cut.output_bytes == 5


def test_details_have_the_names_of_the_session_file() -> None:
    details = head("a\nb\nc", max_lines=2).details()
    assert details == {
        "content": "a\nb",
        "truncated": True,
        "truncatedBy": "lines",
        "totalLines": 3,
        "totalBytes": 5,
        "outputLines": 2,
        "outputBytes": 3,
        "lastLinePartial": False,
        "firstLineExceedsLimit": False,
        "maxLines": 2,
        "maxBytes": 51200,
    }


@given(st.text(alphabet="ab\n\u00e9\u9879\U0001f389", max_size=40), st.integers(1, 6), st.integers(1, 20))
def test_limits_hold_and_what_is_kept_is_an_end_of_the_text(text: str, lines: int, size: int) -> None:
    first, last = head(text, lines, size), tail(text, lines, size)
    assert text.startswith(first.text)
    assert text.endswith(last.text)
    for cut in (first, last):
        assert cut.output_bytes == len(cut.text.encode()) <= size
        assert cut.text.rstrip("\n").count("\n") < lines
        assert (cut.by is None) == (cut.text == text)


def test_cuts_are_at_whole_characters() -> None:
    assert cut_start("\u9879\u76ee", 4) == "\u76ee"
    assert cut_end("\u9879\u76ee", 5) == "\u9879"
    assert cut_start("abc", 0) == ""


def test_sizes_are_readable() -> None:
    assert [size_text(n) for n in (5, 51200, 5 << 20)] == ["5B", "50.0KB", "5.0MB"]


SECRET = "ghp_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
LINES = [
    f"{'w ' * 40}{SECRET} and more",
    f"Authorization: Bearer abcdefghijklmnop1234 {'w ' * 40}",
    f'{{"a": 1, "password": "correct horse-9!", "b": {"1, " * 40}}}',
    f"{'w ' * 30}postgres://admin:FAKEPW@10.0.0.5/prod {'w ' * 10}",
    f"Cookie: a=1; sid=c00kie0123456789; {'w ' * 40}",
]
PARTS = ["aB3dE5", "E5fG7hJ9", "W1xY3zA5", "abcdefgh", "klmnop12", "horse", "FAKEPW", "0123456789"]


def mask(text: str) -> str:
    return Redactor(salt=b"salt").mask(text)[0]


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_not_cut_inside_of_a_secret(line: str) -> None:
    for at in range(len(line) + 1):
        end = line[whole_from(line, at, mask) :]
        start = line[: whole_until(line, at, mask)]
        assert line[at:].endswith(end)
        assert line[:at].startswith(start)
        assert not any(part in mask(end) or part in mask(start) for part in PARTS), at
        assert whole_from(line, at, str) == whole_until(line, at, str) == at


def test_the_end_of_a_long_line_begins_behind_a_secret() -> None:
    line = "x" * 100 + f" {SECRET} tail"
    cut = tail(line, max_bytes=20, mask=mask)
    assert (cut.text, cut.last_line_partial, cut.output_bytes) == ("tail", True, 4)
