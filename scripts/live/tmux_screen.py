"""A program in a tmux of its own, and what a person would see of it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

PATIENCE = 30.0
CONFIGURATION = "set -g status off\nset -g history-limit 50000\nset -g default-terminal tmux-256color\n"


class Tmux:
    """A server with one window, whose programs have the variables of `env`; it ends with `close`."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._env = env
        self._socket = folder / "tmux.socket"
        self._configuration = folder / "tmux.conf"
        self._configuration.write_text(CONFIGURATION)

    def __call__(self, *arguments: str) -> str:
        command = ["tmux", "-u", "-f", str(self._configuration), "-S", str(self._socket), *arguments]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=PATIENCE, env=self._env
        ).stdout

    def open(self, command: Sequence[str], folder: Path, columns: int, rows: int) -> None:
        self("new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(folder), *command)

    def close(self) -> None:
        self("kill-server")

    def keys(self, *names: str) -> None:
        self("send-keys", *names)

    def type(self, text: str) -> None:
        """Type a text as a person does, and see it in the editor before anything else is typed."""
        self("send-keys", "-l", text)
        end = "".join(text.split())[-12:]
        self.wait(f"{text!r} in the editor", lambda: end in "".join(self.screen().split()))

    def paste(self, text: str) -> None:
        self("set-buffer", text)
        self("paste-buffer", "-p")

    def resize(self, columns: int, rows: int) -> None:
        self("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self) -> str:
        return self("capture-pane", "-p")

    def everything(self) -> str:
        """The scrollback and the screen; lines that tmux has wrapped are whole."""
        return self("capture-pane", "-p", "-J", "-S", "-")

    def wait(self, what: str, there: Callable[[], bool]) -> None:
        """Wait until something is there; AssertionError with the screen when it does not come."""
        end = time.monotonic() + PATIENCE
        while not there():
            if time.monotonic() > end:
                raise AssertionError(f"{what} did not come:\n{self.screen()}")
            time.sleep(0.1)
