import os
from pathlib import Path

import pytest
from ui_terminal import Open

# the user's own commands


def test_a_command_of_the_users_shows_its_output_and_sends_nothing(terminal: Open) -> None:
    t = terminal()
    t.send("!echo $((40+2)); exit 3")
    t.wait("> !echo")
    t.send("\r")
    assert "! echo $((40+2)); exit 3\n42\n(exit 3)" in t.wait("(exit 3)")
    t.send("!!echo again $((1+1))\r")
    assert "!! echo again $((1+1))\nagain 2" in t.wait("again 2")
    assert t.sent() == []


def test_a_command_of_the_users_runs_beside_the_agent_one_at_a_time_and_escape_ends_it(terminal: Open) -> None:
    t = terminal()
    t.send("!!sleep 60\r")
    t.wait("── esc ends the command ─")
    t.send("\x1b")
    t.wait("(cancelled)")
    assert "esc" not in t.wait("── esc", gone=True).split("(cancelled)")[1]
    t.send("HANG\r")
    t.wait("working")
    t.wait("esc aborts")
    t.send("!echo started; sleep 60\r")
    t.wait("\nstarted")
    t.wait("esc ends the command")
    assert "working" in t.text() and "esc aborts" not in t.text()
    t.send("!echo second\r")
    t.wait("one command at a time")
    assert t.editor() == "!echo second"
    t.send("\x1b")
    t.wait("esc aborts")
    t.wait("! echo started; sleep 60\n(cancelled)")
    assert "working" in t.text()
    t.send("\r")
    t.wait("\nsecond")
    t.send("\x1b")
    t.wait("aborted")


def test_exclamation_marks_alone_go_to_the_model(terminal: Open) -> None:
    t = terminal()
    t.send("!!!\r")
    assert t.wait_sent(1) == ["!!!"]


# completion


def project(folder: Path) -> None:
    (folder / "src").mkdir()
    for name in ("src/main.py", "src/other file.py", "README.md", "ignored.log"):
        (folder / name).write_text("x")
    (folder / ".git").mkdir()
    (folder / ".gitignore").write_text("*.log\n/history\n/log\n")


def test_at_completes_files_that_are_not_ignored(terminal: Open, tmp_path: Path) -> None:
    project(tmp_path)
    t = terminal("project")
    t.send("see @")
    screen = t.wait("README.md")
    assert "ignored.log" not in screen
    t.send("oth")
    t.wait("README.md", gone=True)
    t.send("\r")
    t.wait('see @"src/other file.py"')
    t.send("and @main\t")
    t.wait("@src/main.py")
    t.send("\r")
    assert t.wait_sent(1) == ['see @"src/other file.py" and @src/main.py ']


def test_tab_completes_paths_in_any_text(terminal: Open, tmp_path: Path) -> None:
    project(tmp_path)
    t = terminal("project")
    t.send("cat s\t")
    t.wait("> cat src/")
    t.send("ma\t")
    t.wait("> cat src/main.py")
    t.send("and igno\t")
    t.wait("and ignored.log")
    t.send("\r")
    assert t.wait_sent(1) == ["cat src/main.py and ignored.log "]


# history and the editor


def test_history_is_searched_and_an_unused_draft_comes_back(terminal: Open) -> None:
    t = terminal()
    for text in ("SAY apple pie", "SAY banana bread"):
        t.send(text)
        t.wait(f"> {text}")
        t.send("\r")
        t.wait(f"\n{text[4:]}")
    t.send("draft")
    t.wait("> draft")
    t.send("\x12")
    t.wait("\n?")
    t.send("pie apple")
    t.wait("  SAY banana", gone=True)
    t.send("\x1b")
    t.wait("> draft")
    t.send("\x12appl")
    t.wait("? appl")
    t.send("\r")
    t.wait("> SAY apple pie\n──")
    assert len(t.sent()) == 2


def test_up_and_down_go_through_all_of_the_history_past_what_a_menu_would_complete(
    terminal: Open, tmp_path: Path
) -> None:
    project(tmp_path)
    t = terminal("project")
    texts = ("SAY first", "/help", "SAY see @", "SAY last")
    for text in texts:
        t.send(text)
        t.wait(f"> {text}")
        t.send("\x1b")
        t.read(0.2)
        t.send("\r")
        t.settle()
    for text in texts[::-1]:
        t.send("\x1b[A")
        t.wait(f"> {text}\n──")
    for text in texts[1:]:
        t.send("\x1b[B")
        t.wait(f"> {text}\n──")


def test_the_text_is_edited_by_another_program(terminal: Open, tmp_path: Path) -> None:
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\necho "editing"; cat "$1"; printf "SAY from outside" > "$1"\n')
    script.chmod(0o700)
    t = terminal(VISUAL=str(script))
    t.send("before")
    t.wait("> before")
    t.send("\x07")
    t.wait("> SAY from outside")
    assert b"editing" in t.raw
    t.send("\r")
    t.wait("\nfrom outside")
    t.send("\x04")
    assert t.end() == 0
    assert t.restored()


def test_what_arrives_while_another_program_has_the_terminal_is_shown_afterwards(
    terminal: Open, tmp_path: Path
) -> None:
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\nsleep 0.3; kill -INT 0; sleep 0.3; echo "over" >> "$1"\n')
    script.chmod(0o700)
    t = terminal(VISUAL=f"sh -c 'trap : INT; . {script}' --")
    t.send("SLOW 20\r")
    t.wait("w3")
    t.send("\x07")
    t.wait("> over")
    t.wait("w19")
    words = " ".join(t.everything()).split()
    assert [word for word in words if word[0] == "w" and word[1:].isdigit()] == [f"w{n}" for n in range(20)]


def test_a_marker_of_a_paste_is_erased_as_a_whole(terminal: Open) -> None:
    t = terminal()
    t.send("a \x1b[200~" + "x" * 2000 + "\x1b[201~")
    t.wait("> a [paste #1 2000 characters]")
    t.send("\x7f")
    t.wait("[paste", gone=True)
    t.send("b\r")
    assert t.wait_sent(1) == ["a b"]


def test_a_paste_of_a_megabyte_arrives_whole(terminal: Open) -> None:
    t = terminal()
    pasted = "漢 word\n" * 100_000
    t.send(f"\x1b[200~{pasted}\x1b[201~")
    t.wait("[paste #1 100000 lines]")
    t.send("\r")
    assert t.wait_sent(1) == [pasted]


def test_a_pasted_path_of_an_image_becomes_a_file(terminal: Open, tmp_path: Path) -> None:
    image = tmp_path / "a picture.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 30)
    t = terminal(columns=200)
    t.send(f"\x1b[200~'{image}'\x1b[201~")
    t.wait(f'> @"{image}"')


def test_an_image_of_the_clipboard_becomes_a_private_file(terminal: Open, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "xclip"
    script.write_text("#!/bin/sh\nprintf '\\211PNG\\r\\n\\032\\n0000'\n")
    script.chmod(0o700)
    t = terminal(columns=200, DISPLAY=":1", PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    t.send("\x16")
    t.wait(f"> @{tmp_path}/images/clipboard-")
    (file,) = (tmp_path / "images").iterdir()
    assert file.read_bytes() == b"\x89PNG\r\n\x1a\n0000"
    assert file.stat().st_mode & 0o777 == 0o600


# what is shown


def test_results_unfold_and_fold_again(terminal: Open) -> None:
    t = terminal(rows=40)
    t.send("TOOL\r")
    t.wait("tool done")
    assert "row 0" not in t.text()
    t.send("\x0f")
    assert "row 0\nrow 1\nrow 2" in t.wait("results are shown in full")
    t.send("\x0f")
    t.wait("results are folded")
    t.send("TOOL\r")
    t.wait("earlier lines, ctrl+o shows them)\nrow 4\nrow 5\nrow 6\nrow 7\nrow 8\n\ntool done\n\n──")


def test_thoughts_unfold(terminal: Open) -> None:
    t = terminal(rows=40)
    t.send("THINK\r")
    t.wait("thought for")
    t.wait("\nso it is")
    assert "thinking line 1" not in t.text()
    t.send("\x14")
    assert "thinking line 1\nthinking line 2" in t.wait("thoughts are shown")
    t.send("THINK\r")
    t.wait("thinking line 9\nthought for")


def test_the_thinking_level_goes_round(terminal: Open) -> None:
    t = terminal("reasoning")
    for level in ("minimal", "low", "medium", "high", "off", "minimal"):
        t.send("\x1b[Z")
        t.wait(f"thinking: {level}")
    plain = terminal()
    plain.send("\x1b[Z")
    plain.wait("fake does not think")


# text that is pasted without marks


ESCAPES = (
    ("pl\x1b[31mred\x1b[0mx", "plredx"),
    ("a\x1b[5;7Rb\x1b[" + "9" * 5000 + ";1Rc", "abc"),
    ("a\x1b[<0;1Mb\x1b[<;;mc\x1b[1;2;3;4md", "abcd"),
    ("ab\x1b[Mxyz!", "abxyz!"),
    ("\x1b[200~one\x1b[201~ two \x1b[31mred\x1b[0m", "one two red"),
)


def test_escapes_within_unmarked_text_break_nothing_and_the_text_stays(terminal: Open) -> None:
    t = terminal()
    for text, kept in ESCAPES:
        t.send(text)
        t.wait(f"> {kept}")
        assert t.editor() == kept
        t.send("\x15")
        t.wait(f"> {kept}", gone=True)
    t.send("/list model\r")
    t.wait("type to search")
    t.send("a\x1b[31mb\x1b[5;7Rc\x1b[1;2;3;4m")
    t.wait("> abc")


def test_escapes_within_a_burst_do_not_stop_what_runs(terminal: Open) -> None:
    t = terminal()
    t.send("HANG\r")
    t.wait("working")
    t.send("some \x1b[Kgreen\x1b[m words")
    t.wait("green")
    t.read(0.3)
    assert "working" in t.text()


# commands


def test_a_slip_in_a_command_stays_in_the_editor_and_other_slashes_are_sent(terminal: Open) -> None:
    t = terminal(columns=100)
    t.send("/modle fake\r")
    t.wait("there is no /modle; did you mean /model? (a blank in front sends it)")
    assert t.editor() == "/modle fake"
    assert t.sent() == []
    t.send("\x01 \x05\r")
    assert t.wait_sent(1) == [" /modle fake"]
    t.settle()
    for count, text in enumerate(("/etc/hosts is odd", "/review all"), 2):
        t.send(f"{text}\r")
        assert t.wait_sent(count)[-1] == text
        t.settle()
    t.send("/rev")
    t.wait("/review  look at the changes")


@pytest.mark.parametrize("typed", ["/name new", "\x1b[200~/name new\x1b[201~"])
def test_what_is_typed_after_a_slip_takes_its_place_and_up_goes_back(terminal: Open, typed: str) -> None:
    t = terminal(columns=100)
    t.send("/nope\r")
    t.wait("there is no /nope")
    t.send(typed)
    t.wait("> /name new\n")
    t.send("\x15\x10")
    t.wait("> /nope\n")
    t.send("\r")
    t.read(0.2)
    for key in ("\x01", " ", "\x05", "!"):
        t.send(key)
        t.read(0.05)
    t.wait(">  /nope!\n")
    assert t.sent() == []
