"""Run a search program whose output is read as it comes and that ends when nobody reads on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from vikingpi.errors import ToolError

_PIECE = 1 << 16
_ENDING = 5.0


class Helper:
    """An async context manager around one process; leaving it kills the process.

    `timed_out` says that the time was over, `code` is the exit code once the output has ended.
    """

    def __init__(self, command: Sequence[str], cwd: Path, env: Mapping[str, str], seconds: float) -> None:
        self._command, self._cwd, self._env = command, cwd, env
        self._until = time.monotonic() + seconds
        self._process: subprocess.Popen[bytes] | None = None
        self.timed_out = False
        self.code: int | None = None

    async def __aenter__(self) -> Helper:
        self._process = self._start()
        return self

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [os.fsencode(word) for word in self._command],
                cwd=self._cwd,
                env=dict(self._env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ToolError(f"{self._command[0]} cannot be started: {error}") from error

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_ENDING)
        if process.stdout is not None:
            process.stdout.close()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the output as it comes, until its end or until the time is over."""
        process = self._process
        if process is None or process.stdout is None:
            return
        handle = process.stdout.fileno()
        os.set_blocking(handle, False)
        while True:
            if not await self._readable(handle):
                self.timed_out = True
                return
            piece = os.read(handle, _PIECE)
            if not piece:
                self.code = await asyncio.to_thread(process.wait, _ENDING)
                return
            yield piece

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield whole lines of the output without their newline."""
        open_line: list[bytes] = []
        async for piece in self.pieces():
            first, *others = piece.split(b"\n")
            open_line.append(first)
            for other in others:
                yield b"".join(open_line)
                open_line = [other]
        if any(open_line):
            yield b"".join(open_line)

    async def _readable(self, handle: int) -> bool:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(handle, ready.set)
        try:
            async with asyncio.timeout(max(0.0, self._until - time.monotonic())):
                await ready.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(handle)
        return True


def program(env: Mapping[str, str], *names: str) -> str | None:
    """Find a program in the PATH of the commands."""
    for name in names:
        for folder in env.get("PATH", "").split(":"):
            if folder.startswith("/") and os.access(f"{folder}/{name}", os.X_OK):
                return f"{folder}/{name}"
    return None
