"""Replace a file's content in one step: readers and a crash see the old content or the new, never a part."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from vikingpi.errors import ToolError
from vikingpi.tools.paths import scrub


def replace(path: Path, data: bytes) -> None:
    """Write `data` to `path`; a link is followed, mode, owner and extended attributes of an old file are kept.

    Where the folder allows no new file, or the file has other hard links or another owner that cannot be kept, it is
    written in place. Raise OSError when it cannot be written, ToolError when it is no regular file.
    """
    real = Path(os.path.realpath(path))
    try:
        old = real.stat()
    except FileNotFoundError:
        old = None
    if old is not None:
        _check(old, real)
        if old.st_nlink > 1:
            _in_place(real, data)
            return
    try:
        temporary = _beside(real, data, old)
    except PermissionError:
        if old is None:
            raise
        _in_place(real, data)
        return
    try:
        os.replace(temporary, real)  # noqa: PTH105 - keeps the call next to its unlink
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _check(status: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"EISDIR: is a directory: {scrub(str(path))}")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"Not a regular file: {scrub(str(path))}")
    if not os.access(path, os.W_OK):
        os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))  # says why: permission, or a read-only file system


def _beside(path: Path, data: bytes, old: os.stat_result | None) -> Path:
    temporary = path.with_name(f".vpi-{os.urandom(8).hex()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if old else 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if old is not None:
                _keep_attributes(handle, path, old)
            file.write(data)
            file.flush()
            os.fsync(handle)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _keep_attributes(handle: int, path: Path, old: os.stat_result) -> None:
    new = os.fstat(handle)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(handle, old.st_uid, old.st_gid)
    os.fchmod(handle, stat.S_IMODE(old.st_mode))
    if sys.platform == "linux":
        for name in os.listxattr(path):
            try:
                os.setxattr(handle, name, os.getxattr(path, name))
            except OSError:
                continue


def _in_place(path: Path, data: bytes) -> None:
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
