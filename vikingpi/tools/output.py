"""Collect a command's output in bounded memory: its end and counts, and once it is long the whole in a file."""

from __future__ import annotations

import codecs
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from vikingpi.private import private_dir, private_open
from vikingpi.tools.truncate import MAX_BYTES, MAX_LINES

_TAIL = 4 * MAX_BYTES
_MOST_STORED = 1 << 30
# What an output leaves free on a disk: a twentieth of it, at least and at most so much.
_LEAST_FREE, _MOST_FREE = 1 << 20, 64 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Output:
    """Filled by one thread, read by another.

    Up to the limits of a tool result nothing is written to disk; beyond them `path` holds every byte, up to 1 GiB and
    as long as the disk has `room` for it: what the session needs to go on stays free. `problem` says why a file is
    missing or incomplete.
    """

    def __init__(self, folder: Path, room: Callable[[int], int] | None = None) -> None:
        self._folder = folder
        self._room = room or room_beside
        self._lock = threading.Lock()
        self._tail = bytearray()
        self._file = -1
        self._stored = 0
        self._closed = False
        self._line_bytes = 0
        self._ended_line_bytes = 0
        self._newlines = 0
        self.path: Path | None = None
        self.total_bytes = 0
        self.problem = ""

    @property
    def total_lines(self) -> int:
        """Count the lines; one that has not ended yet counts too."""
        return self._newlines + (1 if self._line_bytes else 0)

    @property
    def last_line_bytes(self) -> int:
        """Return the length of the line after the last newline, or of the last line when that has ended."""
        return self._line_bytes or self._ended_line_bytes

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        with self._lock:
            if self._closed:
                return
            self.total_bytes += len(piece)
            self._count(piece)
            over = self.total_bytes > MAX_BYTES or self._newlines > MAX_LINES
            if over and self._file < 0 and not self.problem:
                self._open()
            if self._file >= 0:
                self._store(piece)
            self._tail += piece
            if len(self._tail) > 2 * _TAIL:
                del self._tail[:-_TAIL]

    def text(self, *, final: bool) -> str:
        """Decode the end of the output; unless `final`, a character that is not complete yet is left out."""
        with self._lock:
            data = bytes(self._tail[-_TAIL:])
            cut = self.total_bytes > len(data)
        if cut:
            start = 0
            while start < 3 and data[start] & 0xC0 == 0x80:
                start += 1
            data = data[start:]
        return codecs.getincrementaldecoder("utf-8")("replace").decode(data, final)

    def keep(self) -> None:
        """Write the file even if the output is still short enough for memory."""
        with self._lock:
            if self.path is None and not self.problem and self.total_bytes == len(self._tail):
                self._open()

    def close(self) -> None:
        """Finish the file; later bytes are ignored."""
        with self._lock:
            self._closed = True
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def _count(self, piece: bytes) -> None:
        last = piece.rfind(b"\n")
        if last < 0:
            self._line_bytes += len(piece)
            return
        before = piece.rfind(b"\n", 0, last)
        self._ended_line_bytes = last - before - 1 if before >= 0 else self._line_bytes + last
        self._line_bytes = len(piece) - last - 1
        self._newlines += piece.count(b"\n")

    def _open(self) -> None:
        path = self._folder / f"bash-{os.urandom(8).hex()}.log"
        try:
            private_dir(self._folder)
            self._file = private_open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except OSError as error:
            self.problem = error.strerror or "not writable"
            return
        self.path = path
        self._store(bytes(self._tail))

    def _store(self, piece: bytes) -> None:
        left = _MOST_STORED - self._stored
        try:
            room = self._room(self._file)
            view = memoryview(piece)[: max(0, min(left, room))]
            if len(view) < len(piece):
                self.problem = "output over 1 GiB" if left <= room else "the disk is nearly full"
            while view:
                written = os.write(self._file, view)
                self._stored += written
                view = view[written:]
        except OSError as error:
            self.problem = error.strerror or "not writable"
            if error.errno in _FULL:
                self._stored = max(0, self._stored - _LEAST_FREE)
        if self.problem:
            self._end_early()

    def _end_early(self) -> None:
        """Give back what the disk cannot spare, and the file if nothing of it is left."""
        try:
            os.ftruncate(self._file, self._stored)
            if not self._stored and self.path is not None:
                self.path.unlink(missing_ok=True)
                self.path = None
        except OSError as error:
            self.problem = f"{self.problem}; {error.strerror}"
        os.close(self._file)
        self._file = -1


def room_beside(file: int) -> int:
    """Return how many bytes an open file may grow by so that its disk keeps a reserve; OSError if that is not known."""
    disk = os.fstatvfs(file)
    if not disk.f_blocks:
        return _MOST_STORED
    reserve = min(max(disk.f_blocks * disk.f_frsize // 20, _LEAST_FREE), _MOST_FREE)
    return disk.f_bavail * disk.f_frsize - reserve
