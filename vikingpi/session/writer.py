"""Append lines to a session file: one write each, under the session's lock, and nothing half-written stays."""

from __future__ import annotations

import os
from pathlib import Path

from vikingpi.errors import SessionError
from vikingpi.private import private_dir, private_open
from vikingpi.session.lock import SessionLock, lock_session


class Writer:
    """One open session file. Its folder, the file and the lock come into being with the first line that counts.

    `header` is the first line of a file that has none yet, else empty. `end` is the size of an existing file, -1
    where there is none, and `open_end` says that it does not end with a newline.
    """

    def __init__(
        self, path: Path, locks: Path, session_id: str, *, header: bytes, end: int = -1, open_end: bool = False
    ) -> None:
        self._path = path
        self._locks = locks
        self._id = session_id
        self._waiting = [header] if header else []
        self._end = end
        self._open_end = open_end
        self._lock: SessionLock | None = None
        self._file = -1
        self._closed = False
        self._made = end < 0
        self._folder_synced = end >= 0

    def lock(self, held: SessionLock | None = None) -> None:
        """Take the session's lock now, or own one that is held; SessionLocked if another process has it."""
        if self._lock is None:
            self._lock = held or lock_session(self._locks, self._id)

    def write(self, line: bytes, *, starts: bool) -> None:
        """Append one line, or several at once.

        Before the file has a header, lines wait in memory until one `starts` a conversation.
        SessionError: closed, locked, disk full, not writable, changed or deleted by somebody else; then the file
        is as it was.
        """
        if self._closed:
            raise SessionError(f"session {self._id} is closed")
        if self._waiting and not starts:
            self._waiting.append(line)
            return
        self.lock()
        try:
            self._open()
            self._write(b"".join((*self._waiting, line)))
        except OSError as error:
            raise SessionError(
                f"cannot write session file {self._path}: {error.strerror or error}",
                hint="free some space or make the folder writable, then send the message again",
            ) from error
        self._waiting = []

    def sync(self) -> None:
        """Have the disk hold what was written; SessionError if it refuses."""
        if self._file < 0:
            return
        try:
            os.fsync(self._file)
        except OSError as error:
            raise SessionError(f"cannot save session file {self._path}: {error.strerror or error}") from error
        if not self._folder_synced:
            self._folder_synced = True
            _sync_folder(self._path.parent)

    def close(self) -> None:
        """Close the file and release the lock; a second call does nothing."""
        self._closed = True
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _open(self) -> None:
        if self._file >= 0:
            return
        if self._end < 0:
            private_dir(self._path.parent)
            self._file = private_open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            self._end = 0
        else:
            self._file = private_open(self._path, os.O_RDWR | os.O_APPEND)

    def _write(self, data: bytes) -> None:
        now = os.fstat(self._file)
        if now.st_nlink == 0:
            raise SessionError(f"session file {self._path} was deleted", hint="start a new session with /new")
        if now.st_size != self._end:
            self._look_again(now.st_size)
        if self._open_end:
            data = b"\n" + data
        try:
            written = os.write(self._file, data)
        except OSError:
            self._take_back(0)
            raise
        if written < len(data):
            self._take_back(written)
            raise OSError(f"only {written} of {len(data)} bytes were written")
        self._end += written
        self._open_end = False

    def _look_again(self, size: int) -> None:
        """Another program has written to the file; go on behind it unless it made a session of its own there."""
        if self._waiting:
            raise SessionError(f"another program has written to {self._path} meanwhile", hint="open the session again")
        self._end = size
        self._open_end = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"

    def _take_back(self, written: int) -> None:
        """Undo a write that failed; where that is impossible, the next line begins with a newline."""
        if self._made and self._end == 0:
            self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = self._end = -1
        elif os.fstat(self._file).st_size == self._end + written:
            os.ftruncate(self._file, self._end)
        elif written:
            self._open_end = True


def _sync_folder(folder: Path) -> None:
    """Have the disk hold a new file's name; some file systems refuse, which is no fault of the session."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError:
        return
    finally:
        os.close(descriptor)
