"""A pseudo-terminal with a program in it and the screen that a person would see."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import ui_child
from patience import PATIENCE
from tty_kit import Shown

from vikingpi.ui.render import preload

CHILD = Path(ui_child.__file__)
LOOK_SECONDS = 0.02


class Patience:
    """Lasts so many seconds, and so many looks: on a machine that gives this process no time, the program gets none."""

    def __init__(self, seconds: float = PATIENCE, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self._looks = round(seconds / LOOK_SECONDS)

    def lasts(self) -> bool:
        """Tell whether to look once more."""
        self._looks -= 1
        return self._looks >= 0 or self._clock() < self._end


class Child:
    """A fork of this process, which has everything imported, in a session with a terminal of its own."""

    def __init__(self, ends: tuple[int, int], folder: Path, options: tuple[str, ...], env: dict[str, str]) -> None:
        preload()
        self.code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.close(ends[0])  # else the terminal would outlive this process
            _become(ends[1], folder, options, env)

    def poll(self) -> int | None:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _become(terminal: int, folder: Path, options: tuple[str, ...], env: dict[str, str]) -> NoReturn:
    code = 70
    try:
        os.login_tty(terminal)
        os.environ.clear()
        os.environ.update(env)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "r" if n == 0 else "w") for n in (0, 1, 2))
        code = asyncio.run(ui_child.main(folder, set(options)))
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - nothing of this process may go on in the child
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


class Terminal(Shown):
    """Starts ui_child.py in a terminal of its own."""

    def __init__(
        self, folder: Path, *options: str, columns: int = 80, rows: int = 24, term: str = "xterm-256color", **env: str
    ) -> None:
        descriptor, slave = pty.openpty()
        super().__init__(descriptor, columns, rows, 20_000)
        os.set_blocking(descriptor, False)  # else each side could wait for the other to read
        self.log = folder / "log"
        self._size(columns, rows)
        self.before = termios.tcgetattr(slave)
        self._slave = slave
        root = str(Path(__file__).parent.parent)
        given = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TERM": term,
            "LANG": "C.UTF-8",
            "PYTHONPATH": root,
            "UI_TEST_LOG": str(self.log),
        }
        self.process = Child((descriptor, os.dup(slave)), folder, options, given | env)
        self.pid = self.process.pid

    def send(self, text: str) -> None:
        """Type something; what comes meanwhile is read, so that neither side waits for the other."""
        data = text.encode()
        while data:
            piece = data[:1024]
            if len(data) > len(piece):
                piece = piece.rstrip(b"\r\t") or piece  # behind which a pause of this process would mean a key
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(self.descriptor, piece) :]
            if data:
                self.take(0.001)

    def wait_raw(self, text: bytes) -> bytes:
        """Take bytes past the screen, which is slow with many, until a text has come; return what came."""
        before, patience = len(self.raw), Patience()
        while text not in self.raw[before:]:
            assert patience.lasts(), self.raw[before:][-500:]
            if select.select([self.descriptor], [], [], LOOK_SECONDS)[0]:
                self.raw += os.read(self.descriptor, 65536)
        return self.raw[before:]

    def wait(self, text: str, *, gone: bool = False) -> str:
        """Wait until a text is on the screen, or `gone` from it, and return the screen."""
        patience = Patience()
        while patience.lasts():
            self.take(LOOK_SECONDS)
            if (text in self.text()) is not gone:
                return self.text()
        raise AssertionError(f"{text!r} {'is still' if gone else 'did not come'} on the screen:\n{self.text()}")

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def editor(self) -> str:
        """The text between the two rules."""
        lines = self.text().split("\n")
        rules = [number for number, line in enumerate(lines) if line.startswith("──")]
        return "\n".join(line[2:] for line in lines[rules[-2] + 1 : rules[-1]])

    def everything(self) -> list[str]:
        """The lines of the scrollback and the screen."""
        past = ["".join(row[x].data for x in range(self.screen.columns)).rstrip() for row in self.screen.history.top]
        return past + [line.rstrip() for line in self.screen.display]

    def resize(self, columns: int, rows: int) -> None:
        self.read(0.05)
        self._size(columns, rows)
        self.screen.resize(rows, columns)
        self.process.signal(signal.SIGWINCH)

    def sent(self) -> list[str]:
        """What reached the application as messages of the user."""
        if not self.log.exists():
            return []
        lines = [json.loads(line) for line in self.log.read_text().split("\n")[:-1]]
        return [text for kind, text in lines if kind == "user"]

    def settle(self) -> None:
        """Wait until nothing runs any more and what was typed has been taken."""
        self.read(0.1)
        self.wait("working", gone=True)
        self.read(0.1)

    def wait_sent(self, count: int) -> list[str]:
        patience = Patience()
        while len(self.sent()) < count and patience.lasts():
            self.take(LOOK_SECONDS)
        return self.sent()

    def end(self) -> int:
        """Wait for the program's end and return its exit code."""
        patience = Patience()
        while self.process.poll() is None and patience.lasts():
            self.take(LOOK_SECONDS)
        self.take(0.05)
        assert self.process.code is not None, self.text()
        return self.process.code

    def restored(self) -> bool:
        """Whether the terminal is as it was before."""
        return termios.tcgetattr(self._slave) == self.before

    def close(self) -> None:
        self.process.kill()
        os.close(self.descriptor)
        os.close(self._slave)

    def _size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


Open = Callable[..., Terminal]
