"""The processes of a command: its group, and those that have left it for a session of their own (`setsid`).

The latter are known by a variable in their environment, which /proc shows; where there is no /proc, as on macOS, only
the group is.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import NamedTuple

MARK = "VPI_COMMAND"


class Family(NamedTuple):
    """`mark` is the value of MARK in the environment of the command."""

    group: int
    mark: str

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all; some or all may be gone."""
        send(self.group, number)
        for pid in self._strays():
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue

    def is_running(self) -> bool:
        return is_running(self.group) or bool(self._strays())

    def _strays(self) -> list[int]:
        wanted = f"{MARK}={self.mark}".encode()
        return [
            int(name)
            for name in _names()
            if wanted in _read(name, "environ").split(b"\0") and _state(name)[1:] != (self.group,)
        ]


def send(group: int, number: signal.Signals) -> None:
    """Send a signal to a group that may be gone."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def is_running(group: int) -> bool:
    """Say whether a process of the group lives; one that only waits to be collected does not count."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    names = list(_names())
    return not names or any(state[0] not in "ZX" for name in names if (state := _state(name))[1:] == (group,))


def _names() -> Iterator[str]:
    """Yield the names in /proc that are processes; none where there is no /proc to read."""
    try:
        yield from [entry.name for entry in os.scandir("/proc") if entry.name.isdigit()]
    except OSError:
        return


def _state(name: str) -> tuple[str, int]:
    """Return the letter of its state and its group; `X` and 0 for one that is gone."""
    fields = _read(name, "stat").rpartition(b")")[2].split()
    return (fields[0].decode("ascii", "replace"), int(fields[2])) if len(fields) > 2 else ("X", 0)


def _read(name: str, what: str) -> bytes:
    try:
        with open(f"/proc/{name}/{what}", "rb") as file:  # noqa: PTH123 - hundreds of them: no Path each
            return file.read()
    except OSError:
        return b""
