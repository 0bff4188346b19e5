"""Folders and files that only their owner can read, whatever the umask."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path


def private_dir(path: Path) -> Path:
    """Make `path` and its missing parents with mode 0700; what exists keeps its mode. OSError if impossible."""
    missing: list[Path] = []
    here = path
    while not here.exists():
        missing.append(here)
        here = here.parent
    for folder in reversed(missing):
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        folder.chmod(0o700)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return path


def private_open(path: Path, flags: int) -> int:
    """Open `path` close-on-exec; a file that this call creates has mode 0600. OSError if impossible."""
    made = bool(flags & os.O_CREAT) and not path.exists()
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    if made:
        os.fchmod(descriptor, 0o600)
    return descriptor


def private_write(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file of mode 0600, whole or not at all.

    FileExistsError where there is one and it is not to be replaced; other OSErrors if impossible.
    """
    made = path.with_name(f".{path.name[:200]}.{os.getpid()}.new") if replace else path
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(data)
        if replace:
            made.replace(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def kept_random(path: Path, size: int = 16) -> bytes:
    """Return the random bytes kept in `path`, made when first asked for; others where no file can be kept."""
    fresh = os.urandom(size)
    scratch = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with suppress(FileNotFoundError):
            if len(kept := path.read_bytes()) == size:
                return kept
        private_dir(path.parent)
        with os.fdopen(private_open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(fresh)
        with suppress(FileExistsError):
            os.link(scratch, path)
        return path.read_bytes() or fresh
    except OSError:
        return fresh
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
