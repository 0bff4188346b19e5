"""One writer per session: an OS lock that ends with its process, and the pid of who holds it."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from vikingpi.errors import SessionError, SessionLocked
from vikingpi.private import private_dir, private_open


class SessionLock:
    """A held lock on a session id; `release` gives it back."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._descriptor < 0:
            return
        # Unlinked while held: who opened the old file meanwhile sees that the name is gone and tries again.
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = -1


def lock_session(locks: Path, session_id: str) -> SessionLock:
    """Take `<locks>/<session id>.lock` or raise SessionLocked, which names the pid; never wait.

    SessionError where the folder cannot be written or the file system has no locks.
    """
    path = locks / f"{session_id}.lock"
    try:
        private_dir(locks)
        while True:
            descriptor = private_open(path, os.O_RDWR | os.O_CREAT)
            if _take(descriptor, path, session_id):
                return SessionLock(path, descriptor)
            os.close(descriptor)
    except OSError as error:
        hint = (
            f"make room on the disk of {locks}"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else f"make {locks} writable"
        )
        raise SessionError(f"cannot lock session {session_id}: {error}", hint=hint) from error


def _take(descriptor: int, path: Path, session_id: str) -> bool:
    """Lock the open file and write the pid; False if the file has lost its name meanwhile."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        text = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        pid = int(text) if text.isdecimal() else 0
        holder = f"process {pid}" if pid else "another process"
        raise SessionLocked(
            f"session {session_id} is in use by {holder}",
            hint=f"end that process, or go on in a copy: vpi --fork {session_id}",
            pid=pid,
        ) from error
    try:
        if os.fstat(descriptor).st_ino != path.stat().st_ino:
            return False
    except FileNotFoundError:
        return False
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return True
