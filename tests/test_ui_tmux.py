import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ui_terminal import CHILD, PATIENCE

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Tmux:
    """A server of its own with one window of 80 columns and 24 rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = [
            f"UI_TEST_LOG={folder / 'log'}",
            f"PYTHONPATH={Path(__file__).parent.parent}",
            "LANG=C.UTF-8",
            "PS1=sh> ",
        ]
        self.child = [sys.executable, str(CHILD), str(folder)]

    def __call__(self, *arguments: str) -> str:
        command = ["tmux", "-f", os.devnull, "-S", str(self.folder / "socket"), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE).stdout

    def open(self, *command: str) -> None:
        self("-u", "new-session", "-d", "-x", "80", "-y", "24", "env", *self.env, *command)

    def screen(self) -> str:
        return self("capture-pane", "-p", "-J", "-S", "-")

    def wait(self, text: str) -> str:
        end = time.monotonic() + PATIENCE
        while text not in (screen := self.screen()):
            assert time.monotonic() < end, screen
            time.sleep(0.05)
        return screen


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    server = Tmux(tmp_path)
    yield server
    server("kill-server")


def test_resizing_in_tmux_leaves_every_word_once_and_one_editor(tmux: Tmux) -> None:
    tmux.open(*tmux.child)
    tmux.wait("OV ✓")
    tmux("send-keys", "SLOW 120", "Enter")
    tmux.wait("w9")
    for size in ("60x24", "40x24", "40x12", "100x30", "45x15", "80x24"):
        columns, rows = size.split("x")
        tmux("resize-window", "-x", columns, "-y", rows)
        time.sleep(0.15)
    tmux.wait("w119")
    time.sleep(0.2)
    screen = tmux.screen()
    assert re.findall(r"\bw(\d+)", screen) == [str(n) for n in range(120)]
    assert screen.count("OV ✓") == 1
    assert len(re.findall(r"^──", screen, re.MULTILINE)) == 2


@pytest.mark.parametrize("kind", ["LINES", "PROSE", "ITEMS", "SLOW"])
@pytest.mark.parametrize(
    "sizes",
    [
        "60x24 40x24 100x24 50x24 120x24 44x24 80x24 41x24 79x24 40x24",
        "80x12 80x30 40x15 100x40 50x20 80x24 40x12 120x30 60x15 30x24",
        "40x24 80x24 40x24 80x24 40x24 80x24 40x24 80x24 40x24 80x24",
    ],
)
def test_what_streams_while_the_window_changes_is_there_once(tmux: Tmux, kind: str, sizes: str) -> None:
    tmux.open(*tmux.child)
    tmux.wait("OV ✓")
    tmux("send-keys", "CODE 20", "Enter")
    tmux.wait("value_19 = 19")
    tmux("send-keys", f"{kind} 400", "Enter")
    tmux.wait("w40 ")
    for at, size in enumerate(sizes.split()):
        columns, rows = size.split("x")
        tmux("resize-window", "-x", columns, "-y", rows)
        time.sleep((0.03, 0.4, 0.1)[at % 3])
    tmux.wait("w399")
    time.sleep(0.5)
    screen = tmux.screen()
    assert re.findall(r"\bw(\d+)", screen) == [str(n) for n in range(400)]
    assert screen.count("OV ✓") == 1
    assert len(re.findall(r"^──", screen, re.MULTILINE)) == 2


@pytest.mark.parametrize("lines", [0, 3, 9, 300, 10_000])
def test_a_question_whose_window_changes_keeps_its_parts_and_leaves_nothing_behind(tmux: Tmux, lines: int) -> None:
    tmux.open(*tmux.child)
    tmux.wait("OV ✓")
    tmux("send-keys", "CODE 20", "Enter")
    tmux.wait("value_19 = 19")
    tmux("send-keys", f"/list ask{lines}", "Enter")
    tmux.wait("Go on?")
    draft = "a draft that is typed while the question is open and is longer than a row"
    tmux("send-keys", draft)
    for columns, rows in ((60, 24), (40, 24), (40, 16), (200, 40), (80, 24)):
        tmux("resize-window", "-x", str(columns), "-y", str(rows))
        time.sleep(0.5)
        shown = tmux("capture-pane", "-p")
        said = " ".join(shown.split())
        for part in ("Go on?", "1. yes", "2. no", "Esc refuses", "OV ✓"):
            assert said.count(part) == 1, shown
        assert draft.replace(" ", "") in "".join(shown.split()), shown
    tmux("send-keys", "Escape")
    tmux.wait("left")
    screen = tmux.screen()
    assert not re.search(r"Go on|\bd\d|refuses|漢", screen), screen
    assert screen.count("OV ✓") == 1
    assert re.findall(r"value_(\d+) =", screen) == [str(n) for n in range(20)]


def test_it_stops_and_comes_back_with_its_text_and_no_debris(tmux: Tmux) -> None:
    tmux.open("bash", "--norc", "--noprofile", "-i")
    tmux.wait("sh>")
    tmux("send-keys", " ".join(tmux.child), "Enter")
    tmux.wait("OV ✓")
    tmux("send-keys", "draft")
    tmux.wait("> draft")
    tmux("send-keys", "C-z")
    screen = tmux.wait("Stopped")
    assert "OV ✓" not in screen
    tmux("send-keys", "stty -a | tr ' ' '\\n' | grep -x -e icanon -e -icanon", "Enter")
    tmux.wait("\nicanon")
    tmux("send-keys", "fg", "Enter")
    tmux.wait("> draft")
    tmux("send-keys", " kept", "Enter")
    screen = tmux.wait("ok\n\n──")
    assert "> draft kept" in screen
    assert screen.count("OV ✓") == 1


@pytest.mark.parametrize(("name", "shown"), [("ask", "Go on?"), ("model", "type to search")])
def test_it_stops_within_a_question_and_nothing_is_answered_by_that(tmux: Tmux, name: str, shown: str) -> None:
    tmux.open("bash", "--norc", "--noprofile", "-i")
    tmux.wait("sh>")
    tmux("send-keys", " ".join(tmux.child), "Enter")
    tmux.wait("OV ✓")
    tmux("send-keys", f"/list {name}", "Enter")
    tmux.wait(shown)
    tmux("send-keys", "C-z")
    assert shown not in tmux.wait("Stopped").split("Stopped")[1]
    tmux("send-keys", "fg", "Enter")
    screen = tmux.wait(shown)
    time.sleep(0.3)
    assert shown in tmux.screen(), screen
    tmux("send-keys", "Escape")
    tmux.wait("OV ✓")


@pytest.mark.skipif(sys.platform != "linux", reason="children are read from /proc")
def test_it_takes_the_terminal_back_when_others_have_stopped_it(tmux: Tmux) -> None:
    tmux.open("bash", "--norc", "--noprofile", "-i")
    tmux.wait("sh>")
    tmux("send-keys", f"{' '.join(tmux.child)}; echo left with $?", "Enter")
    tmux.wait("OV ✓")
    child = int(tmux("display-message", "-p", "#{pane_pid}"))
    (vpi,) = map(int, Path(f"/proc/{child}/task/{child}/children").read_text().split())
    os.kill(vpi, signal.SIGSTOP)
    tmux.wait("Stopped")
    tmux("send-keys", "fg", "Enter")
    time.sleep(0.3)
    tmux("send-keys", "SAY typed again", "Enter")
    tmux.wait("\ntyped again\n")
    tmux("send-keys", "C-d")
    tmux.wait("sh>")
