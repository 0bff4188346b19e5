"""Run a shell command in a process group of its own that never outlives its welcome."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from vikingpi.errors import ToolError
from vikingpi.tools.output import Output
from vikingpi.tools.paths import explain, scrub
from vikingpi.tools.processes import MARK, Family, Stray, Watch, began, is_running, send
from vikingpi.values import NamedTuple

_TICK = 0.1
_AFTER_EXIT = 0.5
_GRACE = 2.0
_POLL = 0.04
_LOOK = 0.25
_PIECE = 1 << 16


class Ending(NamedTuple):
    """What a command came to, and what of it is still running.

    `code` is the exit code, 128 + n for signal n. `group` is the process group if some of it runs, `strays` what runs
    and has left it; `held` says that something, which may be none of these, still holds the output open.
    """

    how: Literal["exit", "timeout"]
    code: int
    group: int | None = None
    strays: tuple[Stray, ...] = ()
    held: bool = False


class Groups:
    """The process groups of commands that run, and those that commands have left running."""

    def __init__(self, watch: Watch | None = None) -> None:
        self._running: dict[int, Family] = {}
        self._left: dict[int, Family] = {}
        self._watch = watch or Watch()

    def add(self, family: Family) -> None:
        """Note a command that begins."""
        self._left = {group: left for group, left in self._left.items() if left.owns_group()}
        self._running[family.group] = family
        self._tell()

    def keep(self, family: Family) -> None:
        """Note that the command is over and its group is not; what has left the group goes its own way."""
        self._running.pop(family.group, None)
        self._left[family.group] = family
        self._tell()
        if not family.newest:
            _thread(lambda: self._forget(family))

    def discard(self, group: int) -> None:
        self._running.pop(group, None)
        self._left.pop(group, None)
        self._tell()

    def end_all(self) -> None:
        """End them: TERM, up to two seconds, KILL; a stranger that has the number of one by now is left alone."""
        noted = [*self._running.values(), *self._left.values()]
        for family in noted:
            family.send_group(signal.SIGTERM)
        until = time.monotonic() + _GRACE
        while any(family.owns_group() for family in noted) and time.monotonic() < until:
            time.sleep(_POLL)
        for family in noted:
            family.send_group(signal.SIGKILL)
        self._running, self._left = {}, {}
        self._tell()
        self._watch.close()

    def _forget(self, family: Family) -> None:
        """Wait for the end of a group that nothing but its number is known of, before others get that."""
        while self._left.get(family.group) is family and is_running(family.group):
            time.sleep(_LOOK)
        if self._left.get(family.group) is family:
            self.discard(family.group)

    def _tell(self) -> None:
        self._watch.tell(list(self._running.values()), list(self._left.values()))


class Command(NamedTuple):
    """`timeout` in seconds; `changed` is called at most ten times a second while output comes; `prefix` stands before
    the shell: a cage, with which everything in it ends."""

    text: str
    cwd: Path
    env: Mapping[str, str]
    timeout: float
    changed: Callable[[], None]
    prefix: tuple[str, ...] = ()


async def run(command: Command, output: Output, groups: Groups) -> Ending:
    """Run to the end of the shell, not of what it left in the background, and collect both outputs.

    On time-out and on cancellation everything that it started is ended. Raise ToolError when the shell cannot start.
    """
    mark = os.urandom(8).hex()
    process, pipe = _start(command, mark)
    group = process.pid
    family = Family(group, mark, began(group))
    groups.add(family)
    loop = asyncio.get_running_loop()
    exited = loop.create_future()
    drained = loop.create_future()
    _thread(lambda: (process.wait(), _tell(loop, exited)))
    _thread(lambda: (_drain(pipe, output), _tell(loop, drained)))
    try:
        how = await _wait(exited, command, output)
        if how == "timeout":
            await end(family)
            await asyncio.wait({exited}, timeout=_GRACE)
        await _settle(drained, command, output)
        if command.prefix:
            await _cage_closed(group)
        strays = () if command.prefix else await _strays(family)
    except asyncio.CancelledError:
        try:
            await end(family)
            await _settle(drained, command, output)
        finally:
            family.send(signal.SIGKILL)
            groups.discard(group)
        raise
    code = process.returncode
    code = 128 - code if code is not None and code < 0 else code or 0
    held = not command.prefix and not drained.done()
    if not command.prefix and is_running(group):
        groups.keep(family.seen())
        return Ending(how, code, group, strays, held)
    groups.discard(group)
    return Ending(how, code, None, strays, held)


async def _strays(family: Family) -> tuple[Stray, ...]:
    """Look for what has left the group; in a thread, because reading about a process that hangs may hang too."""
    loop = asyncio.get_running_loop()
    looked = loop.create_future()
    found: list[Stray] = []
    _thread(lambda: (found.extend(family.new_strays()), _tell(loop, looked)))
    await asyncio.wait({looked}, timeout=_LOOK)
    return tuple(found)


async def end(family: Family) -> None:
    """End all of a command: TERM, up to two seconds, KILL; cancelled meanwhile, KILL at once."""
    family.send(signal.SIGTERM)
    try:
        await _gone(family)
    finally:
        family.send(signal.SIGKILL)
    await _gone(family)


async def _cage_closed(group: int) -> None:
    """Wait for what ends with its cage: the cage's own first process does so a moment after the program."""
    until = time.monotonic() + _GRACE
    while is_running(group):
        if time.monotonic() > until:
            send(group, signal.SIGKILL)
            return
        await asyncio.sleep(_POLL)


async def _gone(family: Family) -> None:
    for _ in range(round(_GRACE / _POLL)):
        if not family.is_running():
            return
        await asyncio.sleep(_POLL)


def _start(command: Command, mark: str) -> tuple[subprocess.Popen[bytes], int]:
    if not command.cwd.is_dir():
        raise ToolError(f"Working directory does not exist: {scrub(str(command.cwd))}")
    shell = _shell(command.env)
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(
            [*map(os.fsencode, command.prefix), os.fsencode(shell), b"-c", scrub(command.text).encode()],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.STDOUT,
            cwd=command.cwd,
            env={**command.env, MARK: mark},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        os.close(reader)
        reason = explain(error, Path(shell)) if isinstance(error, OSError) else str(error)
        raise ToolError(f"The command cannot be started: {reason}") from error
    finally:
        os.close(writer)
    return process, reader


def _shell(env: Mapping[str, str]) -> str:
    folders = ["/bin", "/usr/bin", *env.get("PATH", "").split(":")]
    found = (f"{folder}/bash" for folder in folders if folder.startswith("/") and os.access(f"{folder}/bash", os.X_OK))
    return next(found, "/bin/sh")


def _thread(work: Callable[[], object]) -> None:
    """A thread of its own and a daemon: a background child may hold the pipe for as long as the program runs."""
    threading.Thread(target=work, daemon=True).start()


def _tell(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    try:
        loop.call_soon_threadsafe(_resolve, future)
    except RuntimeError:
        return


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _drain(pipe: int, output: Output) -> None:
    try:
        while piece := os.read(pipe, _PIECE):
            output.feed(piece)
    finally:
        os.close(pipe)


async def _wait(exited: asyncio.Future[None], command: Command, output: Output) -> Literal["exit", "timeout"]:
    until = time.monotonic() + command.timeout
    seen = 0
    while not exited.done():
        left = until - time.monotonic()
        if left <= 0:
            return "timeout"
        await asyncio.wait({exited}, timeout=min(left, _TICK))
        if output.total_bytes != seen and not exited.done():
            seen = output.total_bytes
            command.changed()
    return "exit"


async def _settle(drained: asyncio.Future[None], command: Command, output: Output) -> None:
    """Take what is still in the pipe; a background child may keep it open, so do not wait for its end."""
    until = time.monotonic() + _AFTER_EXIT
    while not drained.done() and time.monotonic() < until:
        seen = output.total_bytes
        await asyncio.wait({drained}, timeout=_TICK)
        if output.total_bytes == seen and time.monotonic() > until - _AFTER_EXIT / 2:
            return
