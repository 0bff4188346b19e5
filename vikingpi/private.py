"""Folders and files that only their owner can read, whatever the umask."""

from __future__ import annotations

import os
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
        raise NotADirectoryError(f"{path} is not a folder")
    return path


def private_open(path: Path, flags: int) -> int:
    """Open `path` close-on-exec; a file that this call creates has mode 0600. OSError if impossible."""
    made = bool(flags & os.O_CREAT) and not path.exists()
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    if made:
        os.fchmod(descriptor, 0o600)
    return descriptor
