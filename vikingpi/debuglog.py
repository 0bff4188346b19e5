"""The debug log: JSON Lines, one record a decision or request, switched on by a file name in the environment."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from vikingpi.decode import Json

NAMES = ("OPENVIKING_DEBUG_LOG", "OV_DEBUG_LOG")
Log = Callable[[Json], None]


def silent(record: Json) -> None:
    """Take a record and do nothing with it."""


def open_log(env: Mapping[str, str], mask: Callable[[Json], Json]) -> tuple[Log, str]:
    """Give the log that the environment asks for and what is wrong with it, or nothing.

    Every record goes through `mask`; the file is made 0600, and only a regular file is written to. The log never
    raises. A value of 0, false, no or off means none.
    """
    name = next((env[key] for key in NAMES if env.get(key, "").strip()), "")
    if name.strip().lower() in ("", "0", "false", "no", "off"):
        return silent, ""
    try:
        path = Path(name).expanduser()
        os.close(_open(path))
    except (OSError, RuntimeError, ValueError) as error:
        return silent, f"no debug log is written: {name}: {getattr(error, 'strerror', None) or error}"

    def write(record: Json) -> None:
        line = {"t": round(time.time(), 3), "pid": os.getpid(), **record}
        try:
            text = json.dumps(mask(line), ensure_ascii=False, default=str) + "\n"
            handle = _open(path)
        except OSError:
            return
        try:
            os.write(handle, text.encode("utf-8", "backslashreplace"))
        except OSError:
            return
        finally:
            os.close(handle)

    return write, ""


def _open(path: Path) -> int:
    """Open for appending without ever waiting, as a pipe without a reader would make one do."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError("it is no regular file")
    return handle
