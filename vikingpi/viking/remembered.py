"""What was found out about a server and holds for some hours, across processes. Losing it costs one request."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from vikingpi.decode import Json, as_dict, as_int, as_str

KEPT_MS = 6 * 3600 * 1000


class Remembered:
    """One word per endpoint in a JSON file; `clock` gives ms since the epoch."""

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        self._path = path
        self._clock = clock
        self._words: Json | None = None

    def get(self, endpoint: str) -> str:
        """Return the word, "" where there is none or it is too old."""
        if self._words is None:
            self._words = self._read()
        known = as_dict(self._words.get(endpoint))
        return as_str(known.get("word")) if 0 <= self._clock() - as_int(known.get("at")) < KEPT_MS else ""

    def put(self, endpoint: str, word: str) -> None:
        """Keep a word; a file that cannot be written is no fault."""
        self._words = {**self._read(), endpoint: {"word": word, "at": self._clock()}}
        scratch = self._path.with_suffix(f".{os.getpid()}")
        try:
            handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self._words, file, sort_keys=True)
            scratch.replace(self._path)
        except OSError:
            scratch.unlink(missing_ok=True)

    def _read(self) -> Json:
        try:
            return as_dict(json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}
