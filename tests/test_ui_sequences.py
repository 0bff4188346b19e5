import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from ui_terminal import Open

from vikingpi.ui.sequences import KeyParser

SEQUENCES = (
    "\x1b[K",
    "\x1b[31;1m",
    "\x1b[?2004h",
    "\x1b[5;7R",
    "\x1b[<0;1;1M",
    "\x1b[M",
    "\x1b[62~",
    "\x1b[I",
    "\x1b[?64;1;2c",
    f"\x1b[{'9' * 5000};1R",
    "\x1b]0;a title\x07",
    "\x1b]8;;https://example.org\x1b\\",
    "\x1bP1$r0m\x1b\\",
    "\x1b_Gi=1;OK\x1b\\",
    "\x1b(B",
    "\x1b7",
)
KEYS = {"\x1b[A": "up", "\x1bOA": "up", "\x1b[[A": "f1", "\x1b[1;5C": "c-right", "\x1b[3~": "delete", "\x1b": "escape"}


def keys(*reads: str) -> list[KeyPress]:
    """What comes of some reads and the pause after them."""
    pressed: list[KeyPress] = []
    parser = KeyParser(pressed.append)
    for read in reads:
        parser.feed(read)
    parser.flush()
    return pressed


def text(pressed: list[KeyPress]) -> str:
    return "".join(each.data for each in pressed if not isinstance(each.key, Keys))


def escapes(pressed: list[KeyPress]) -> int:
    """How often the key Escape was pressed."""
    return sum(each.key == Keys.Escape and each.data == "\x1b" for each in pressed)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_sequence_that_is_no_key_is_left_out_wherever_a_read_ends(sequence: str) -> None:
    whole = f"{sequence}a 漢{sequence}b{sequence}"
    for at in range(len(whole)) if len(whole) < 100 else (1, 2, 700):
        pressed = keys(whole[:at], whole[at:])
        assert (text(pressed), len(pressed)) == ("a 漢b", 4), at


@pytest.mark.parametrize("sequence", KEYS)
def test_a_key_is_that_key_wherever_a_read_ends(sequence: str) -> None:
    for at in range(len(sequence) + 1):
        assert [each.key for each in keys(sequence[:at], sequence[at:])] == [Keys(KEYS[sequence])]


@pytest.mark.parametrize(
    "begun", ["\x1b]0;title of", "\x1b[", "\x1b[12;", "\x1bO", "\x1bP", "\x1bx", "\x1b[é", "\x1b]0;a\x1b]"]
)
def test_what_only_begins_like_a_sequence_stays_and_is_no_escape(begun: str) -> None:
    pressed = keys(f"{begun}")
    assert text(pressed) == begun.replace("\x1b", "")
    assert escapes(pressed) == 0


def test_escape_is_what_nothing_follows_in_the_same_read() -> None:
    assert escapes(keys("\x1b")) == 1
    assert escapes(keys("text\x1b")) == 1
    assert escapes(keys("\x1b\x1b")) == 2
    later = keys("\x1b", "text")
    assert (escapes(later), text(later)) == (1, "text")
    assert escapes(keys("\x1btext")) == 0
    assert [each.key for each in keys("\x1b\r")] == [Keys.Escape, Keys.ControlM]


@given(
    st.lists(
        st.sampled_from(("\x1b", "\x1bx", "\x1b[", "a", "é\r", "\x1b[200~", "m", "\x1b[201~", ";", "\x1b[A")),
        max_size=12,
    )
)
def test_a_paste_that_is_marked_is_never_cut(pieces: list[str]) -> None:
    data = "".join(pieces).replace("\x1b[201~", "")
    (pasted, *rest) = keys(f"\x1b[200~{data}", "\x1b[201~end")
    assert (pasted.key, pasted.data) == (Keys.BracketedPaste, data)
    assert text(rest) == "end"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("", "\x1b", *SEQUENCES[:4])),
            st.text(st.characters(codec="utf-8", categories=["Ll", "Lo", "Zs"]), min_size=1, max_size=3),
        )
    )
)
def test_no_letter_is_lost(pieces: list[tuple[str, str]]) -> None:
    pressed = keys("".join(before + letters for before, letters in pieces))
    assert text(pressed) == "".join(letters for _, letters in pieces)
    assert escapes(pressed) == 0


@pytest.mark.parametrize("pasted", [*(f"{sequence}kept" for sequence in SEQUENCES[1:]), "\x1bkept", "\x1b]0;kept"])
def test_text_that_begins_with_an_escape_stops_nothing_that_runs(terminal: Open, pasted: str) -> None:
    t = terminal()
    t.send("HANG\r")
    t.wait("working")
    t.send(pasted)
    t.wait("kept\n──")
    t.read(0.2)
    assert "working" in t.text()
    t.send("\x1b")
    t.wait("aborted")


def test_alt_with_any_letter_leaves_no_list_and_refuses_no_question(terminal: Open) -> None:
    t = terminal()
    for name, shown, still in (("model", "type to search", "Esc leaves"), ("ask", "Go on?", "Go on?")):
        t.send(f"/list {name}\r")
        t.wait(shown)
        t.send("\x1bx")
        t.wait("> x")
        t.send("\x1b]0;title\x07\x1b[Ky")
        t.wait("> xy")
        t.read(0.2)
        assert still in t.text()
        t.send("\x15")
        t.wait("> xy", gone=True)
        t.send("\x1b")
        t.wait(still, gone=True)


def test_a_line_that_ends_with_a_read_is_sent_only_if_nothing_follows() -> None:
    line = "a line of text that nobody types within one read\r"
    sent, pasted = keys(line), keys(line, line)
    assert [each.key for each in sent].count(Keys.ControlM) == 1
    assert [each.key for each in pasted].count(Keys.ControlM) == 1
    assert text(pasted) == line.replace("\r", "\n") + line[:-1]


@given(
    st.lists(st.sampled_from(("a", "漢", " ", "\r", "\t", "word " * 12, "\x1b[31m", "\x03")), max_size=40),
    st.integers(0, 300),
)
def test_a_paste_that_is_not_marked_is_whole_wherever_a_read_ends(pieces: list[str], at: int) -> None:
    data = "".join(pieces)
    pressed = keys(data[:at], data[at:])
    lines = "".join("\r" if each.key == Keys.ControlM else each.data for each in pressed)
    assert lines.replace("\n", "\r") == data.replace("\x1b[31m", "")


def test_many_lines_that_are_pasted_without_marks_arrive_soon_and_are_not_sent(terminal: Open) -> None:
    t = terminal()
    pasted = "漢 a line\tof text\r" * 40_000
    t.send(f"{pasted}THE END")
    t.wait("THE END")
    t.read(0.2)
    assert t.sent() == []
    t.send("\r")
    assert t.wait_sent(1) == [pasted.replace("\r", "\n") + "THE END"]
