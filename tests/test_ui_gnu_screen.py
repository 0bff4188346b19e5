"""The chat in GNU screen, which breaks long rows when it becomes narrower and joins them when it becomes wider."""

import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ui_terminal import CHILD, PATIENCE

pytestmark = pytest.mark.skipif(shutil.which("screen") is None, reason="GNU screen is not installed")


class Screen:
    """A screen of its own in a pseudo-terminal, with the chat in its only window."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "sockets").mkdir(mode=0o700)
        (folder / "rc").write_text("startup_message off\ndefscrollback 5000\ndefutf8 on\n")
        kept = {name: value for name, value in os.environ.items() if name not in ("STY", "TMUX", "XTERM_VERSION")}
        self._env = kept | {
            "SCREENDIR": str(folder / "sockets"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(Path(__file__).parent.parent),
            "UI_TEST_LOG": str(folder / "log"),
        }
        self._terminal, slave = pty.openpty()
        self._size(80, 24)
        command = ["screen", "-U", "-c", str(folder / "rc"), "-S", "chat"]
        self._client = subprocess.Popen(
            [*command, sys.executable, str(CHILD), str(folder)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=self._env,
            start_new_session=True,
        )
        os.close(slave)
        threading.Thread(target=self._drain, daemon=True).start()

    def _size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _drain(self) -> None:
        try:
            while os.read(self._terminal, 65536):
                pass
        except OSError:
            pass

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        self._size(columns, rows)
        self._client.send_signal(signal.SIGWINCH)

    @contextmanager
    def behind(self, why: str) -> Generator[None]:
        """Keep screen from reading what the chat writes: it is `stopped`, or shows a `message`, for a second."""
        (socket,) = (self.folder / "sockets").iterdir()
        server = int(socket.name.split(".")[0])
        if why == "message":
            self.command("echo", "a message")
            yield
            return
        os.kill(server, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(server, signal.SIGCONT)

    def command(self, *arguments: str) -> None:
        full = ["screen", "-S", "chat", "-p", "0", "-X", *arguments]
        subprocess.run(full, env=self._env, check=False, capture_output=True, timeout=PATIENCE)

    def everything(self) -> str:
        """The scrollback and the screen. Screen loses a command now and then, so it is asked until it has answered; it
        makes one copy after the other, so with the second one the first is whole."""
        copy, after = self.folder / "copy", self.folder / "after"
        end = time.monotonic() + PATIENCE
        while not (copy.exists() and after.exists()):
            assert time.monotonic() < end, "screen does not answer"
            self.command("hardcopy", "-h", str(copy))
            self.command("hardcopy", str(after))
            time.sleep(0.05)
        after.unlink()
        shown = copy.read_text(errors="replace")
        copy.unlink()
        return shown

    def wait(self, text: str, *, gone: bool = False) -> str:
        end = time.monotonic() + PATIENCE
        while (text in (shown := self.everything())) is gone:
            assert time.monotonic() < end, shown
            time.sleep(0.05)
        return shown

    def close(self) -> None:
        self.command("quit")
        self._client.wait(PATIENCE)
        os.close(self._terminal)


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    opened = Screen(tmp_path)
    yield opened
    opened.close()


def stream(screen: Screen, kind: str) -> None:
    """Have an answer stream on a full screen."""
    screen.wait("ctx 2")
    screen.type("CODE 60\r")
    screen.wait("value_59 = 59")
    screen.type(f"{kind} 400\r")
    screen.wait("w40 ")


def expect_all_once(screen: Screen) -> None:
    screen.wait("w399")
    screen.wait("working", gone=True)
    time.sleep(0.5)
    shown = screen.everything()
    whole = re.sub(r" *\n *", "", shown)  # screen breaks a row that was printed in a wider window, also within a word
    assert re.findall(r"w(\d+)", whole) == [str(n) for n in range(400)], shown
    values = re.findall(r"value_(\d+) =", shown)  # screen does not copy as many of the first rows as it has broken
    assert values == [str(n) for n in range(60)][-len(values) :], shown
    assert not re.search(r"^ {20,}\S", shown, re.MULTILINE), shown
    assert shown.count("ctx 2") == 1, shown


@pytest.mark.parametrize("kind", ["LINES", "PROSE"])
@pytest.mark.parametrize(
    "sizes",
    [
        "60x24 60x24 80x24",
        "60x24 40x24 100x24 50x24 120x24 44x24 80x24 41x24 79x24 40x24 120x24",
        "80x12 80x30 40x15 100x40 50x20 80x24 40x12 120x30 60x15 30x24 120x24",
        "40x24 80x24 40x24 80x24 40x24 80x24 40x24 80x24 40x24 80x24",
        "30x10 120x30 30x10 120x30 30x10 80x24",
    ],
)
def test_what_streams_while_screen_is_resized_is_there_once(screen: Screen, kind: str, sizes: str) -> None:
    stream(screen, kind)
    for at, size in enumerate(sizes.split()):
        columns, rows = map(int, size.split("x"))
        screen.resize(columns, rows)
        time.sleep((0.03, 0.4, 0.1)[at % 3])
    expect_all_once(screen)


@pytest.mark.parametrize("kind", ["LINES", "PROSE"])
@pytest.mark.parametrize("why", ["stopped", "message"])
@pytest.mark.parametrize("steps", ["40 80 40 80", "40,80 50,40 60,44,80", "60 40 30 100"])
def test_what_was_written_for_another_width_than_screen_reads_it_in_is_there_once(
    screen: Screen, kind: str, why: str, steps: str
) -> None:
    stream(screen, kind)
    for step in steps.split():
        with screen.behind(why):
            time.sleep(0.2)  # frames come meanwhile
            for columns in step.split(","):
                screen.resize(int(columns), 24)
                time.sleep(0.05)
        time.sleep(0.6)
    expect_all_once(screen)


@pytest.mark.parametrize("draft", ["x" * 58, "y " * 29, "\u6f22" * 28 + "z" * 5])
def test_a_draft_whose_cursor_is_behind_the_new_last_column_leaves_nothing_behind(screen: Screen, draft: str) -> None:
    screen.wait("ctx 2")
    screen.type("CODE 30\r")
    screen.wait("value_29 = 29")
    screen.type(draft)
    screen.wait(draft[:2] if draft.isascii() else "zz")
    time.sleep(0.3)  # as a hand takes from the keys to the window: at once after them rows of the region may stay
    for columns in (60, 80):
        screen.resize(columns, 24)
        time.sleep(0.6)
    screen.type("\x15SAY the last words\r")
    shown = screen.wait("\nthe last words")
    rows = [row.rstrip() for row in shown.split("\n")]
    assert rows[rows.index("value_29 = 29") + 1 :][:5] == ["```", "", "> SAY the last words", "", "the last words"], (
        shown
    )
