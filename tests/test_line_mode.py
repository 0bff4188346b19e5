"""Questions and signals on a terminal that only prints."""

import json
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from patience import eventually
from vpi_lab import Lab, Tty, lab


@contextmanager
def asked_on_a_line(folder: Path, *prompts: str) -> Generator[tuple[Lab, Tty]]:
    """Type prompts on a terminal that only prints, and wait for the question."""
    with lab(folder) as runs:
        tty = Tty(runs, "--approve", "ask", "--store", "off", env={"TERM": "dumb"})
        try:
            tty.wait("\n>")
            for prompt in prompts:
                tty.send(f"{prompt}\n")
            tty.wait("and say why:")
            yield runs, tty
        finally:
            tty.close()


@pytest.mark.parametrize(("line", "runs_it"), [("y", True), ("Yes ", True), ("a", True), ("", False), ("n", False)])
def test_on_a_terminal_that_only_prints_a_line_answers(tmp_path: Path, line: str, *, runs_it: bool) -> None:
    with asked_on_a_line(tmp_path, "RUN: touch made") as (runs, tty):
        screen = tty.text()
        assert "\ntouch made\nRun this command?\n[y] yes  [a] yes, and do not ask again  [N] no  [w] no, and" in screen
        tty.send(f"{line}\n")
        tty.wait("\nNoted.")
        assert (runs.work / "made").exists() is runs_it
        assert ("The user refused this call." in tty.text()) is not runs_it
        assert not tty.raw.count(b"\x1b")


def test_there_always_holds_and_a_change_is_shown_and_why_not_is_told(tmp_path: Path) -> None:
    with asked_on_a_line(tmp_path, "RUN: echo x >> made") as (runs, tty):
        tty.send("a\n")
        tty.wait("Noted.")
        tty.send("RUN: echo x >> made\n")
        tty.wait("Noted.\n> RUN: echo x >> made\n$ echo x >> made\n(no output)\nNoted.")
        assert (runs.work / "made").read_text() == "x\nx\n"
        tty.send('CALL: write {"path": "b", "content": "one"}\n')
        tty.wait("\n+1 one\nwrite b?\n[y] yes")
        tty.send("w\n")
        tty.wait("The model reads it.")
        tty.send("two is better\n")
        tty.wait("refused this call: two is better")
        assert not (runs.work / "b").exists()


def test_there_only_a_line_after_the_question_answers_and_every_other_is_a_prompt(tmp_path: Path) -> None:
    with asked_on_a_line(tmp_path, "SLOW: 1 RUN: touch made", "y", "yes") as (runs, tty):
        for lines in ("please wait", "y\nmore"):
            tty.send(f"{lines}\n")
            tty.wait("that is no answer")
            tty.read(0.3)
            assert not (runs.work / "made").exists()
        tty.send("n\n")
        tty.wait("refused this call")
        tty.read(1.0)
        tty.send("SAY: the end\n")
        tty.wait("\nthe end")
        assert "\n> please wait\nNoted.\n> y\nNoted.\n> more\nNoted." in tty.text()
        assert not (runs.work / "made").exists()
        said = [each["message"]["content"] for each in runs.entries() if each["type"] == "message"]
        texts = [part["text"] for parts in said for part in parts if "text" in part]
        typed = [text for text in texts if text in ("y", "yes", "please wait", "more", "n")]
        assert typed == ["y", "yes", "please wait", "y", "more"]


def test_there_the_end_of_the_input_is_a_no(tmp_path: Path) -> None:
    with asked_on_a_line(tmp_path, "RUN: touch made") as (runs, tty):
        tty.send("\x04")
        assert tty.end() == 0
        assert not (runs.work / "made").exists()
        assert "refused this call" in tty.text()


def test_an_interrupt_on_a_terminal_that_only_prints_says_how_to_go_on(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        tty = Tty(runs, "--store", "off", env={"TERM": "dumb"})
        try:
            tty.wait("\n>")
            tty.send("/modle\n")
            tty.wait("error: there is no /modle; did you mean /model?\nhint: a blank in front sends it to the model")
            tty.send("SAY: hello\n")
            tty.wait("\nhello\n>")
            tty.process.send_signal(signal.SIGINT)
            tty.wait("the line is cleared; Ctrl+C again leaves\n>")
            tty.read(0.6)
            tty.process.send_signal(signal.SIGINT)
            tty.read(0.1)
            tty.process.send_signal(signal.SIGINT)
            tty.wait("to go on: vpi --session")
            assert tty.end() == 0
        finally:
            tty.close()


@contextmanager
def printing_only(runs: Lab, *words: str, term: str = "dumb") -> Generator[Tty]:
    tty = Tty(runs, "--store", "off", *words, env={"TERM": term})
    try:
        yield tty
    finally:
        tty.close()


def history(runs: Lab) -> list[str]:
    return [json.loads(line) for path in (runs.home / "history").glob("*") for line in path.read_text().splitlines()]


def stalled(tty: Tty) -> None:
    """Send a prompt whose answer does not end, and a line behind it."""
    tty.wait("\n>")
    tty.send("STALL: 30\n")
    tty.wait("STALL")
    tty.read(0.5)
    tty.send("the line behind it\n")
    tty.read(0.2)


@pytest.mark.parametrize("term", ["dumb", ""])
def test_there_an_interrupt_aborts_the_answer_and_gives_back_what_waits(tmp_path: Path, term: str) -> None:
    with lab(tmp_path) as runs, printing_only(runs, term=term) as tty:
        stalled(tty)
        tty.process.send_signal(signal.SIGINT)
        tty.wait("not sent, and kept in the history:\nthe line behind it\n")
        tty.wait("error: Operation aborted\n>")
        assert history(runs) == ["the line behind it"]
        tty.send("SAY: on it goes\n")
        tty.wait("\non it goes")
        tty.send("\x04")
        assert tty.end() == 0
        assert history(runs) == ["the line behind it"]


def test_there_an_interrupt_gives_back_prompts_of_the_command_line_and_ends_what_a_user_runs(tmp_path: Path) -> None:
    with lab(tmp_path) as runs, printing_only(runs, "!touch began; sleep 60", "the second prompt") as tty:
        assert eventually(lambda: tty.take(0.02) and (runs.work / "began").exists())
        tty.process.send_signal(signal.SIGINT)
        tty.wait("not sent, and kept in the history:\nthe second prompt\n")
        tty.wait("(cancelled)\n>")
        assert history(runs) == ["the second prompt"]


@pytest.mark.parametrize(
    ("signals", "code"), [([signal.SIGINT] * 2, 0), ([signal.SIGTERM], 143), ([signal.SIGHUP], 129)]
)
def test_there_what_waits_is_in_the_history_whatever_ends_the_program(
    tmp_path: Path, signals: list[signal.Signals], code: int
) -> None:
    with lab(tmp_path) as runs, printing_only(runs) as tty:
        stalled(tty)
        for number in signals:
            tty.process.send_signal(number)
            tty.read(0.1)
        tty.wait("to go on: vpi --session")
        assert tty.end() == code
        assert history(runs) == ["the line behind it"]


def test_there_an_interrupt_ends_a_question_as_a_no(tmp_path: Path) -> None:
    with asked_on_a_line(tmp_path, "RUN: touch made") as (runs, tty):
        tty.process.send_signal(signal.SIGINT)
        tty.wait("error: Operation aborted\n>")
        tty.send("y\n")
        tty.wait("Noted.")
        assert not (runs.work / "made").exists()
