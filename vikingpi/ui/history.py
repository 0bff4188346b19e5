"""Prompts of a project in a file of their own: one JSON string per line, readable by its owner only."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.history import History

from vikingpi.private import private_dir, private_open

READ_BYTES = 1 << 20
MOST_STORED = 100_000
MOST_LOADED = 1000


def history_name(cwd: str) -> str:
    """Return the name of a project's history file."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", cwd).strip("-")[-100:]
    return f"{readable}-{zlib.crc32(cwd.encode(errors='surrogateescape')):08x}.jsonl"


class PromptHistory(History):
    """A file that cannot be read or written is no reason to stop: then the history is this process's own."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the newest first."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - READ_BYTES))
                lines = file.read().split(b"\n")
        except OSError:
            return []
        texts = [text for line in reversed(lines) if (text := _text_of(line))]
        return texts[:MOST_LOADED]

    def store_string(self, string: str) -> None:
        """Add to the file; a text that would push all others out of it is remembered by this process only."""
        if len(string) > MOST_STORED:
            return
        line = json.dumps(string).encode() + b"\n"
        try:
            private_dir(self._path.parent)
            descriptor = private_open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
        except OSError:
            return


def _text_of(line: bytes) -> str:
    try:
        value: object = json.loads(line)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""
