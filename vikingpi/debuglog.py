"""The debug log: JSON Lines, one record a decision or request, switched on by a file name in the environment."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from vikingpi.decode import Json

NAMES = ("OPENVIKING_DEBUG_LOG", "OV_DEBUG_LOG")
Log = Callable[[Json], None]


def silent(record: Json) -> None:
    """Take a record and do nothing with it."""


def open_log(env: Mapping[str, str], mask: Callable[[Json], Json]) -> Log:
    """Give the log that the environment asks for; every record goes through `mask`. It never raises later.

    The file is made 0600. A value of 0, false, no or off means none.
    """
    name = next((env[key] for key in NAMES if env.get(key, "").strip()), "")
    if name.strip().lower() in ("", "0", "false", "no", "off"):
        return silent
    path = Path(name).expanduser()

    def write(record: Json) -> None:
        line = {"t": round(time.time(), 3), "pid": os.getpid(), **record}
        try:
            text = json.dumps(mask(line), ensure_ascii=False, default=str) + "\n"
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        try:
            os.write(handle, text.encode("utf-8", "backslashreplace"))
        except OSError:
            return
        finally:
            os.close(handle)

    return write
