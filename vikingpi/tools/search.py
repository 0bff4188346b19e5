"""Search files as a program of its own, with the options and the JSON lines of ripgrep that the grep tool uses.

python -m vikingpi.tools.search [--ignore-case] [--fixed-strings] [--context=N] [--glob=G] --regexp=R -- PATH
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from vikingpi.decode import Json
from vikingpi.tools.globs import to_regex, walk
from vikingpi.values import NamedTuple

_SNIFF = 8192
_LONGEST = 90


class _Options(NamedTuple):
    pattern: re.Pattern[str]
    context: int
    globs: tuple[str, ...]
    target: str


def main(arguments: Sequence[str], write: Callable[[str], object]) -> int:
    """Search and write one JSON object per line; 0 with matches, 1 without, 2 for a bad pattern."""
    try:
        options = _parse(arguments)
        wanted = [to_regex(glob, ignore_case=False) for glob in options.globs if not glob.startswith("!")]
    except re.error as error:
        write(json.dumps({"type": "error", "data": {"text": f"invalid pattern: {error}"}}) + "\n")
        return 2
    found = 1
    for path in _files(Path(options.target)):
        name = path.removeprefix("./")
        if wanted and not any(glob.fullmatch(name) for glob in wanted):
            continue
        for event in _search(path, options):
            write(json.dumps(event) + "\n")
            found = 0
    return found


def _parse(arguments: Sequence[str]) -> _Options:
    words = [word.removeprefix("--").partition("=") for word in arguments[:-2]]
    values = {name: value for name, _, value in words}
    pattern = re.escape(values["regexp"]) if "fixed-strings" in values else values["regexp"]
    return _Options(
        re.compile(pattern, re.IGNORECASE if "ignore-case" in values else 0),
        int(values.get("context", 0)),
        tuple(value for name, _, value in words if name == "glob"),
        arguments[-1],
    )


def _files(target: Path) -> Iterator[str]:
    if target.is_dir():
        root = Path(os.path.abspath(target))  # noqa: PTH100 - links stay as they are written
        yield from (f"{target}/{path}" for path, is_folder in walk(root, bool) if not is_folder)
    else:
        yield f"./{target}"


def _search(path: str, options: _Options) -> Iterator[Json]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if b"\0" in file.peek(_SNIFF)[:_SNIFF]:
                return
            yield from _lines(path, file, options)
    except OSError:
        return


def _lines(path: str, file: BinaryIO, options: _Options) -> Iterator[Json]:
    before: deque[tuple[int, bytes]] = deque(maxlen=options.context)
    after = 0
    for number, line in enumerate(file, 1):
        text = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
        if match := options.pattern.search(text):
            yield from (_event("context", path, *item) for item in before)
            before.clear()
            yield _event("match", path, number, line, match)
            after = options.context
        elif after:
            after -= 1
            yield _event("context", path, number, line)
        else:
            before.append((number, line))


def _event(kind: str, path: str, number: int, line: bytes, match: re.Match[str] | None = None) -> Json:
    data: Json = {"path": _text(os.fsencode(path)), "lines": _text(line), "line_number": number}
    if match is not None:
        start, end = (len(match.string[:at].encode("utf-8", "surrogateescape")) for at in match.span())
        data["submatches"] = [{"match": _text(line[start:end]), "start": start, "end": end}]
    return {"type": kind, "data": data}


def _text(data: bytes) -> Json:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(data).decode("ascii")}


if __name__ == "__main__":
    signal.alarm(_LONGEST)  # its caller may have been killed
    sys.exit(main(sys.argv[1:], sys.stdout.write))
