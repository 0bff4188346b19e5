"""The processes of a command: its group, and those that have left it for a session of their own (`setsid`).

The latter are known by a variable in their environment, which /proc shows; where there is no /proc, as on macOS, only
the group is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping

from vikingpi.values import NamedTuple

MARK = "VPI_COMMAND"
_MOST_PIDS = 1 << 22
_MOST_TOLD = 128

# `left` is the newest line: groups, and `=mark` for a command whose strays end too. The pipe closes with the program.
_WATCH = f"""
left=
while read -r line; do left=$line; done
end() {{
  for word in $left; do
    case $word in
      =*) for file in $(grep -sl -e "{MARK}$word" /proc/[0-9]*/environ); do
            file=${{file#/proc/}}
            kill -s "$1" "${{file%/environ}}"
          done ;;
      *) kill -s "$1" -- "-$word" ;;
    esac
  done
}}
if [ -n "$left" ]; then end TERM; sleep 2; end KILL; fi
"""


class Stray(NamedTuple):
    """A process that has left the group of its command."""

    pid: int
    name: str


class Family(NamedTuple):
    """`mark` is the value of MARK in the environment of the command."""

    group: int
    mark: str

    def send(self, number: signal.Signals) -> None:
        """Send a signal to all; some or all may be gone."""
        send(self.group, number)
        for stray in self.strays():
            try:
                os.kill(stray.pid, number)
            except (ProcessLookupError, PermissionError):
                continue

    def is_running(self) -> bool:
        return is_running(self.group) or bool(self.strays())

    def strays(self, among: Iterable[str] | None = None) -> tuple[Stray, ...]:
        """List what has left the group, of all processes or `among` some."""
        wanted = f"{MARK}={self.mark}".encode()
        return tuple(
            Stray(int(name), _read(name, "comm").decode("utf-8", "replace").strip())
            for name in (_names() if among is None else among)
            if wanted in _read(name, "environ").split(b"\0") and _state(name)[1:] != (self.group,)
        )

    def new_strays(self) -> tuple[Stray, ...]:
        """List what has left the group, looking only at processes that began after it, as their numbers tell.

        That is cheap after every command. Where numbers have begun anew more than once meanwhile, some are missed.
        """
        span = (_last_pid() - self.group) % _MOST_PIDS
        return self.strays(name for name in _names() if 0 < (int(name) - self.group) % _MOST_PIDS <= span)


class Watch:
    """A shell that ends what commands have left when this program is killed and cannot do that itself.

    It sleeps on a pipe and ends with it. It is started with the first command, and without it all works as well.
    """

    def __init__(self) -> None:
        self._pipe = -1

    def tell(self, groups: Mapping[int, str]) -> None:
        """Say which groups there are, each with the mark of what has left it and shall end too, or ""."""
        if self._pipe < 0 and groups:
            self._pipe = _start_watch()
        newest = list(groups.items())[-_MOST_TOLD:]  # what a pipe takes whole or not at all
        words = (f"{group} ={mark}" if mark else str(group) for group, mark in newest)
        try:
            if self._pipe >= 0:
                os.write(self._pipe, f"{' '.join(words)}\n".encode())
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def close(self) -> None:
        """Let it go; what it was told of last is ended."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    def __del__(self) -> None:
        self.close()


def _start_watch() -> int:
    """Start the shell and return the pipe to it, -1 where that is not possible."""
    try:
        reader, writer = os.pipe()
    except OSError:
        return -1
    os.set_blocking(writer, False)
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH],
            stdin=reader,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
        )
    except OSError:
        os.close(writer)
        return -1
    finally:
        os.close(reader)
    threading.Thread(target=process.wait, daemon=True).start()
    return writer


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


def _last_pid() -> int:
    """Return the number that was given to a process last, 0 where that is not known."""
    last = _read(".", "loadavg").split()[-1:]
    return int(last[0]) if last and last[0].isdigit() else 0


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
