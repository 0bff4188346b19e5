"""The end of the input, typed or because the terminal is gone, ends every place that waits for input."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from vpi_lab import Lab, Tty, lab

CHAT = "Ctrl+C twice leaves"


def first_run(runs: Lab) -> None:
    runs.write("models.json", {"providers": {}})


def ended_by(runs: Lab, keys: Sequence[str], shown: Sequence[str], words: Sequence[str] = ()) -> tuple[int, str]:
    """Wait for each text, send the keys that follow it, and return the exit code and the screen."""
    tty = Tty(runs, "--store", "off", *words)
    try:
        for text, key in zip(shown, keys, strict=True):
            tty.wait(text)
            tty.read(0.8)
            tty.send(key)
        return tty.end(), tty.text()
    finally:
        tty.close()


@pytest.mark.skipif(shutil.which("script") is None, reason="without script of util-linux")
@pytest.mark.parametrize(("with_model", "code"), [(True, 0), (False, 2)])
def test_a_terminal_whose_input_is_empty_from_the_start_ends_the_program(
    tmp_path: Path, code: int, *, with_model: bool
) -> None:
    with lab(tmp_path) as runs:
        if not with_model:
            first_run(runs)
        done = subprocess.run(
            ["script", "-qec", f"{sys.executable} -B -m vikingpi --store off", "/dev/null"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=runs.work,
            env=runs.environment({"TERM": "xterm-256color"}),
            timeout=60,
            check=False,
        )
    assert done.returncode == code, done.stdout


@pytest.mark.parametrize("early", ["\x04", "a line\n\x04"])
def test_an_end_that_was_typed_before_the_editor_is_up_leaves_and_sends_nothing(tmp_path: Path, early: str) -> None:
    with lab(tmp_path) as runs:
        tty = Tty(runs, "--store", "off")
        try:
            tty.send(early)
            assert tty.end() == 0
        finally:
            tty.close()
        assert runs.requests() == []
        kept = "".join(path.read_text() for path in (runs.home / "history").glob("*"))
        assert ("a line" in kept) is (early != "\x04")


def test_ctrl_d_leaves_the_first_list_and_its_question_for_a_key(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        first_run(runs)
        assert ended_by(runs, ["\x04"], ["Choose a model"])[0] == 2
        code, _ = ended_by(runs, ["anthropic", "\r", "\x04"], ["Choose a model", "anthropic", "key of anthropic"])
        assert code == 2


def test_ctrl_d_is_a_no_to_a_question_and_then_leaves(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        keys = ["RUN: touch made\r", "\x04", "\x04"]
        shown = [CHAT, "Run this command?", "refused this call"]
        assert ended_by(runs, keys, shown, ["--approve", "ask"])[0] == 0
        assert not (runs.work / "made").exists()


@pytest.mark.parametrize("words", [["RUN: touch made"], []])
def test_a_terminal_that_is_gone_ends_the_program_without_a_signal(tmp_path: Path, words: list[str]) -> None:
    with lab(tmp_path) as runs:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            tty = Tty(runs, "--store", "off", "--approve", "ask", *words)
        finally:
            signal.signal(signal.SIGHUP, before)
        try:
            tty.wait("Run this command?" if words else CHAT)
            tty.read(0.5)
            tty.hang_up()
            tty.process.wait(20)
            assert not (runs.work / "made").exists()
        finally:
            tty.close()
