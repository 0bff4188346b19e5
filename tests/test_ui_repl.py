import signal
import time
from pathlib import Path

import pytest
from ui_terminal import PATIENCE, Open


def test_a_prompt_and_its_answer(terminal: Open) -> None:
    t = terminal()
    assert "a notice" in t.text()
    t.send("SAY hello **bold** world\r")
    screen = t.wait("\nhello bold world")
    assert "> SAY hello" in screen
    assert t.editor() == ""
    t.send("\x04")
    assert t.end() == 0
    assert t.sent() == ["SAY hello **bold** world"]
    assert t.restored()
    assert "OV ✓" not in t.text()


def test_markdown_is_rendered_and_printed_once(terminal: Open) -> None:
    t = terminal(rows=40)
    t.send("MD\r")
    t.wait(" • two")
    lines = t.everything()
    for line in ("Überblick 界面", " 項目  12", "def f(x):", "    return x", " • one", " • two"):
        assert lines.count(line) == 1, line


def test_a_long_answer_arrives_whole_and_in_order(terminal: Open) -> None:
    t = terminal()
    t.send("SLOW 90\r")
    t.wait("w89")
    words = " ".join(t.everything()).split()
    assert [word for word in words if word[0] == "w" and word[1:].isdigit()] == [f"w{n}" for n in range(90)]


def test_forty_columns_and_wide_characters(terminal: Open) -> None:
    t = terminal(columns=40, rows=14)
    t.send("MD\r")
    t.wait(" • two")
    status = t.text().split("\n")
    bar = [line for line in status if "OV ✓" in line]
    assert bar == ["app · 10% · OV ✓ · ctx 2 · ~420/600"]
    t.send("漢字" * 12)
    t.wait("漢字漢字")
    assert t.editor().replace("\n", "") == "漢字" * 12


def test_keys_typed_while_an_answer_streams_are_kept(terminal: Open) -> None:
    t = terminal()
    t.send("SLOW 40\r")
    t.wait("w3")
    for character in "typed meanwhile":
        t.send(character)
        t.read(0.01)
    t.wait("w39")
    assert t.editor() == "typed meanwhile"


def test_enter_steers_and_alt_enter_follows(terminal: Open) -> None:
    t = terminal()
    t.send("SLOW 60\r")
    t.wait("w2")
    t.send("SAY followed\x1b\r")
    t.wait("follow-up: SAY followed")
    t.send("SAY steered\r")
    t.wait("steering: SAY steered")
    assert t.wait_sent(3) == ["SLOW 60", "SAY steered", "SAY followed"]
    t.wait("steering:", gone=True)


def test_alt_up_brings_queued_texts_back(terminal: Open) -> None:
    t = terminal()
    t.send("HANG\r")
    t.wait("working")
    t.send("later\r")
    t.wait("steering: later")
    t.send("\x1b[1;3A")
    t.wait("steering:", gone=True)
    assert t.editor() == "later"


def test_escape_aborts_and_gives_queued_texts_back_before_the_draft(terminal: Open) -> None:
    t = terminal()
    t.send("SLOW 500\r")
    t.wait("w2")
    t.send("first\r")
    t.wait("steering: first")
    t.send("second\x1b\r")
    t.wait("follow-up: second")
    t.send("draft")
    t.wait("> draft")
    t.send("\x1b")
    t.wait("aborted")
    t.wait("working", gone=True)
    assert t.editor() == "first\n\nsecond\n\ndraft"
    t.send("\r")
    assert t.wait_sent(2) == ["SLOW 500", "first\n\nsecond\n\ndraft"]


def test_a_tool_shows_its_last_lines_and_is_folded(terminal: Open) -> None:
    t = terminal("wait", rows=30)
    t.send("TOOL\r")
    t.wait("row 8")
    t.wait("elapsed 1.0 s")
    t.send("\x1b")
    t.wait("tool done")
    screen = t.text()
    assert "$ for i in 1 2 3; do echo row $i; done" in screen
    assert "... (4 earlier lines, ctrl+o shows them)\nrow 4" in screen
    assert "elapsed" not in screen


def test_a_failed_request_is_one_line_with_its_hint_and_harmless(terminal: Open) -> None:
    t = terminal()
    t.send("FAIL\r")
    screen = t.wait("hint: check the key")
    assert "error: 401: bad key" in screen
    assert b"\x1b[2J" not in t.raw
    assert b"\x1b]0;" not in t.raw
    assert "> FAIL" in screen


def test_control_sequences_of_the_model_do_not_reach_the_terminal(terminal: Open) -> None:
    t = terminal()
    t.send("SAY \x1b[200~x\x1b[201~ done\r")
    t.wait("done")
    t.send("\x1b[200~SAY a\x1b[2Jb\x1b]52;c;ZXZpbA==\x07c\u202ed\x1b[201~\r")
    t.wait("c<U+202E>d")
    assert b"\x1b[2J" not in t.raw
    assert b"\x1b]52" not in t.raw


def test_a_paste_of_many_lines_is_one_message(terminal: Open) -> None:
    t = terminal()
    pasted = "".join(f"line {n}\n" for n in range(2000))
    t.send(f"\x1b[200~{pasted}\x1b[201~")
    t.wait("> [paste #1 2000 lines]")
    t.send("\r")
    assert t.wait_sent(1) == [pasted]


def test_a_paste_that_the_terminal_does_not_mark_is_one_message(terminal: Open) -> None:
    t = terminal()
    t.send("l1\rl2\rl3\r")
    assert t.wait_sent(1) == ["l1\nl2\nl3"]


def test_newlines_are_typed_with_ctrl_j_and_shift_enter(terminal: Open) -> None:
    t = terminal()
    for keys in ("a\n", "b\x1b[13;2u", "c\x1b[27;2;13~", "d"):
        t.send(keys)
        t.read(0.03)
    t.send("\r")
    assert t.wait_sent(1) == ["a\nb\nc\nd"]


def test_the_command_menu_completes_and_runs(terminal: Open) -> None:
    t = terminal()
    t.send("/vi")
    assert "> /viking" in t.wait("the context store")
    t.send("\t")
    t.wait("> overview", gone=True)
    assert "reconnect" in t.wait("> commit")
    t.send("com")
    t.wait("reconnect", gone=True)
    t.send("\r")
    t.wait("archived 2 turns")
    assert t.sent() == []
    assert t.editor() == ""


def test_escape_closes_the_menu_and_keeps_the_text(terminal: Open) -> None:
    t = terminal()
    t.send("/he")
    t.wait("show commands and keys")
    t.send("\x1b")
    t.wait("show commands and keys", gone=True)
    assert t.editor() == "/he"


def test_an_unknown_command_goes_to_the_model(terminal: Open) -> None:
    t = terminal()
    t.send("/etc/hosts is what\r")
    assert t.wait_sent(1) == ["/etc/hosts is what"]


def test_help_lists_commands_and_keys(terminal: Open) -> None:
    t = terminal(rows=50)
    t.send("/help\r")
    screen = t.wait("Ctrl+D")
    assert "/viking" in screen
    assert "Alt+Enter" in screen


def test_ctrl_c_clears_then_aborts_and_twice_leaves(terminal: Open) -> None:
    t = terminal()
    t.send("some text")
    t.wait("> some text")
    t.send("\x03")
    t.wait("some text", gone=True)
    t.read(0.6)
    t.send("HANG\r")
    t.wait("working")
    t.send("\x03")
    t.wait("aborted")
    t.read(0.6)
    t.send("\x03")
    t.wait("Ctrl+C again leaves")
    t.send("\x03\x03")  # where half a second has passed, the first of these is not the second one
    assert t.end() == 0
    assert t.restored()


def test_leaving_while_it_works_aborts(terminal: Open) -> None:
    t = terminal()
    t.send("HANG\r")
    t.wait("working")
    t.send("\x04")
    assert t.end() == 0
    assert "aborted" in t.text()


def test_history_is_kept_for_the_project_and_private(terminal: Open, tmp_path: Path) -> None:
    t = terminal()
    for text in ("SAY one", "SAY two\nlines"):
        t.send(f"\x1b[200~{text}\x1b[201~")
        t.read(0.02)
        t.send("\r")
        t.read(0.05)
    t.wait_sent(2)
    t.send("\x04")
    t.end()
    files = list((tmp_path / "history").iterdir())
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600]
    again = terminal()
    again.send("\x1b[A")
    again.wait("  lines")
    again.send("\x1b[A\x1b[A")
    again.wait("> SAY one")
    again.send("\r")
    assert again.wait_sent(3)[2] == "SAY one"


@pytest.mark.parametrize("end", ["\x03", signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_draft_that_is_cleared_or_ended_is_in_the_history(terminal: Open, end: str | signal.Signals) -> None:
    t = terminal("resume")
    t.send("a long draft")
    t.wait("> a long draft")
    if isinstance(end, str):
        t.send(end)
        t.wait("> a long draft", gone=True)
        t.read(0.6)
        t.send("\x1b[A")
        t.wait("> a long draft")
    else:
        t.process.signal(end)
        t.end()
        assert "to go on: vpi --session s1" in t.text()
    again = terminal()
    again.send("\x1b[A")
    again.wait("> a long draft")


def test_resume_shows_the_last_turns_and_names_the_session_at_the_end(terminal: Open) -> None:
    t = terminal("resume")
    screen = t.wait("> what was")
    assert "  before" in screen
    assert "~420/600" in screen
    t.send("\x04")
    t.end()
    assert "to go on: vpi --session s1" in t.text()


def test_a_prompt_of_the_command_line_is_sent_first(terminal: Open) -> None:
    t = terminal("initial")
    assert t.wait_sent(1) == ["SAY from the command line"]
    t.wait("\nfrom the command line")


def test_resizing_while_it_streams_leaves_no_debris(terminal: Open) -> None:
    t = terminal()
    t.send("SLOW 100\r")
    t.wait("w9")
    for columns, rows in ((100, 30), (60, 20), (80, 24)):
        t.resize(columns, rows)
        t.read(0.15)
    t.wait("w99")
    t.read(0.2)
    screen = t.text()
    assert screen.count("OV ✓") == 1
    assert screen.count("──────────") >= 2
    assert t.sent() == ["SLOW 100"]


def test_no_colour_when_it_is_not_wanted(terminal: Open) -> None:
    t = terminal(NO_COLOR="1")
    t.send("MD\r")
    t.wait(" • two")
    codes = [part.split(b"m")[0] for part in t.raw.split(b"\x1b[")[1:] if b"m" in part]
    coloured = [code for code in codes if any(n.isdigit() and 30 <= int(n) <= 107 for n in code.split(b";"))]
    assert coloured == []


def test_a_dumb_terminal_gets_lines_without_escapes(terminal: Open) -> None:
    t = terminal(ready=">", term="dumb")
    t.send("SAY hello\n")
    t.wait("\nhello")
    t.send("!echo $((6*7)); exit 2\n")
    assert "\n42\n(exit 2)\n" in t.wait("(exit 2)")
    t.send("/session\n")
    t.wait("- folder")
    t.send("/quit\n")
    assert t.end() == 0
    assert b"\x1b" not in t.raw


def test_nothing_is_drawn_while_nothing_happens(terminal: Open) -> None:
    t = terminal()
    t.send("SAY done\r")
    t.wait("\ndone")
    t.settle()
    end = time.monotonic() + PATIENCE
    while t.screen.cursor.hidden and time.monotonic() < end:  # it comes back to the editor a moment later
        t.read(0.1)
    t.read(0.3)
    before = len(t.raw)
    t.read(0.6)
    assert len(t.raw) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_terminal_is_restored_when_the_program_is_ended(terminal: Open, number: signal.Signals, code: int) -> None:
    t = terminal()
    t.send("HANG\r")
    t.wait("working")
    t.process.signal(number)
    assert t.end() == code
    assert t.restored()
    assert t.raw.rfind(b"\x1b[?2004l") > t.raw.rfind(b"\x1b[?2004h")
    assert "OV ✓" not in t.text()
    assert not t.screen.cursor.hidden
