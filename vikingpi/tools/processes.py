"""The processes of a command: its group, and those that have left it for a session of their own (`setsid`).

The latter are known by a variable in their environment, which /proc shows; where there is no /proc, as on macOS, only
the group is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator

from vikingpi.values import NamedTuple

MARK = "VPI_COMMAND"
_MOST_PIDS = 1 << 22
_MOST_TOLD = 90

# `left` is the newest line. A word is GROUP:NEWEST:MARK, with `:all` where strays end too; see Family. A group is ended
# only while a process of it tells that it is the same one. The pipe closes with the program.
_WATCH = f"""
left=
while read -r line; do left=$line; done
same() {{
  [ "$2" -gt 0 ] || return 0
  group=$1 newest=$2 mark=$3
  for file in /proc/[0-9]*/stat; do
    read -r line <"$file" || continue
    set -- ${{line##*) }}
    [ "$3" = "$group" ] || continue
    [ "${{20}}" -gt "$newest" ] || return 0
    ! grep -sq -e "{MARK}=$mark" "${{file%stat}}environ" || return 0
  done
  return 1
}}
end() {{
  for word in $left; do
    IFS=: read -r number start name strays <<.
$word
.
    ! same "$number" "$start" "$name" || kill -s "$1" -- "-$number"
    [ -n "$strays" ] || continue
    for file in $(grep -sl -e "{MARK}=$name" /proc/[0-9]*/environ); do
      file=${{file#/proc/}}
      kill -s "$1" "${{file%/environ}}"
    done
  done
}}
if [ -n "$left" ]; then end TERM; sleep 2; end KILL; fi
"""


class Stray(NamedTuple):
    """A process that has left the group of its command."""

    pid: int
    name: str


class Family(NamedTuple):
    """A command. `mark` is the value of MARK in its environment.

    `newest` is when the newest process of its group began that has been seen, in ticks since the machine began; 0 where
    there is no /proc. The number of a group that has ended is given to others, whose processes all began later.
    """

    group: int
    mark: str
    newest: int = 0

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

    def seen(self) -> Family:
        """Look at the group, which is the command's own now, so that it is known later."""
        return self._replace(newest=max((began for _, began in _members(self.group)), default=0))

    def owns_group(self) -> bool:
        """Say whether the group runs and is still the one that was seen; without /proc, whether one of its number runs.

        Of a group whose newest processes alone are left, those tell that have the mark.
        """
        if not self.newest:
            return is_running(self.group)
        mark = self._variable()
        return _exists(self.group) and any(
            began <= self.newest or mark in _read(name, "environ").split(b"\0") for name, began in _members(self.group)
        )

    def send_group(self, number: signal.Signals) -> None:
        """Send a signal to the group unless it is gone, or another has its number."""
        if self.owns_group():
            send(self.group, number)

    def strays(self, among: Iterable[str] | None = None) -> tuple[Stray, ...]:
        """List what has left the group, of all processes or `among` some."""
        wanted = self._variable()
        return tuple(
            Stray(int(name), _read(name, "comm").decode("utf-8", "replace").strip())
            for name in (_names() if among is None else among)
            if wanted in _read(name, "environ").split(b"\0") and _state(name).group != self.group
        )

    def new_strays(self) -> tuple[Stray, ...]:
        """List what has left the group, looking only at processes that began after it, as their numbers tell.

        That is cheap after every command. Where numbers have begun anew more than once meanwhile, some are missed.
        """
        span = (_last_pid() - self.group) % _MOST_PIDS
        return self.strays(name for name in _names() if 0 < (int(name) - self.group) % _MOST_PIDS <= span)

    def _variable(self) -> bytes:
        return f"{MARK}={self.mark}".encode()


class _State(NamedTuple):
    letter: str
    group: int
    began: int


_GONE = _State("X", 0, 0)


class Watch:
    """A shell that ends what commands have left when this program is killed and cannot do that itself.

    It sleeps on a pipe and ends with it. It is started with the first command, and without it all works as well.
    """

    def __init__(self) -> None:
        self._pipe = -1

    def tell(self, running: Iterable[Family], left: Iterable[Family]) -> None:
        """Say which commands run and which are over but have left their group."""
        words = [f"{one.group}:{one.newest}:{one.mark}" for one in left]
        words += [f"{one.group}:{one.newest}:{one.mark}:all" for one in running]
        if self._pipe < 0 and words:
            self._pipe = _start_watch()
        try:
            if self._pipe >= 0:
                # So many a pipe takes whole or not at all.
                os.write(self._pipe, f"{' '.join(words[-_MOST_TOLD:])}\n".encode())
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
    return _exists(group) and (any(_members(group)) or not any(_names()))


def began(pid: int) -> int:
    """Return when a process began, in ticks since the machine began; 0 where there is no /proc."""
    return _state(str(pid)).began


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _members(group: int) -> Iterator[tuple[str, int]]:
    """Yield the living processes of a group, each with when it began."""
    for name in _names():
        state = _state(name)
        if state.group == group and state.letter not in "ZX":
            yield name, state.began


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


def _state(name: str) -> _State:
    fields = _read(name, "stat").rpartition(b")")[2].split()
    return _State(fields[0].decode("ascii", "replace"), int(fields[2]), int(fields[19])) if len(fields) > 19 else _GONE


def _read(name: str, what: str) -> bytes:
    try:
        with open(f"/proc/{name}/{what}", "rb") as file:  # noqa: PTH123 - hundreds of them: no Path each
            return file.read()
    except OSError:
        return b""
