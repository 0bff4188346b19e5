"""Standard input of a one-shot run."""

from __future__ import annotations

import os
import select
import stat

from vikingpi.errors import ConfigError
from vikingpi.values import NamedTuple

LIMIT = 10 * 1024 * 1024
FIRST_BYTE = 3.0


class Piped(NamedTuple):
    """The text without blanks at its ends; `notice` says why there is none although a pipe is open."""

    text: str
    notice: str = ""


def read_piped(descriptor: int, *, has_prompt: bool) -> Piped:
    """Read what is piped in; raise ConfigError above 10 MB.

    A file or closed input is read at once. On a pipe with a prompt argument the first byte is awaited for 3 s; an
    inherited pipe that nobody writes to must not hold the run. Once a byte came, everything is read.
    """
    try:
        kind = os.fstat(descriptor).st_mode
        if os.isatty(descriptor):
            return Piped("")
    except OSError:
        return Piped("")
    waits = stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
    if waits and has_prompt and not select.select([descriptor], [], [], FIRST_BYTE)[0]:
        return Piped("", "standard input is an open pipe without data; going on without it")
    pieces: list[bytes] = []
    size = 0
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:
            break
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
        if size > LIMIT:
            raise ConfigError("standard input is larger than 10 MB", hint="put it into a file and name it with @FILE")
    return Piped(b"".join(pieces).decode("utf-8", "replace").strip())
