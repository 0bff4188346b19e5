"""Read a session file: bytes to header and entries, with a line about everything that could not be read.

The file is split on byte 0x0A only. Files of versions 1 and 2 are migrated in memory; the file itself is never
rewritten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

from vikingpi.decode import Json, as_dict, as_int, as_str
from vikingpi.errors import SessionError
from vikingpi.session.entries import Entry
from vikingpi.session.ids import is_session_id
from vikingpi.session.lines import entry_of, parse_line, uncollected
from vikingpi.session.tail import Tail, read_tail
from vikingpi.values import NamedTuple

VERSION = 3
WHOLE_BELOW = 256 * 1024
_HEAD_BYTES = 64 * 1024
_HEADER_START = b'{"type":"session"'


class SessionData(NamedTuple):
    """What a file holds. `id` is empty where there is no header yet; `end` is its size in bytes.

    `open_end` says that the last byte is no newline, so the next line needs one before it. With a `tail`, `entries`
    are only those of the tail.
    """

    id: str
    cwd: str
    parent: str
    entries: tuple[Entry, ...]
    end: int
    open_end: bool
    notices: tuple[str, ...]
    tail: Tail | None = None


class _Lines(NamedTuple):
    objects: list[Json]
    bad: list[int]
    end: int
    open_end: bool
    torn: bool
    torn_header: bool


def read_session(path: Path) -> SessionData:
    """Read a session file whole. SessionError: not found, not readable, not a session."""
    return uncollected(lambda: _read_session(path))


def _read_session(path: Path) -> SessionData:
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else "does not exist"
            raise SessionError(f"session file {path} {what}", hint="vpi sessions lists what there is")
        with path.open("rb") as lines:
            found = _parse(lines)
    except OSError as error:
        raise _unreadable(path, error) from error
    notices = _line_notices(found)
    if not found.objects:
        if found.end and not found.torn_header:
            raise _no_session(path)
        return SessionData("", "", "", (), found.end, found.open_end, notices)
    header, *objects = found.objects
    if header.get("type") != "session":
        raise _no_session(path)
    session_id, version = as_str(header.get("id")), as_int(header.get("version"), 1)
    if not is_session_id(session_id):
        session_id = hashlib.sha256(str(path.resolve()).encode(errors="replace")).hexdigest()[:32]
        notices += (f"the file names no valid session id; {session_id} stands for it",)
    if version > VERSION:
        notices += (f"the file has version {version}, newer than {VERSION}; what is unknown in it is ignored",)
    if version < VERSION:
        objects = _migrate(objects, version)
    entries, more = _entries(objects)
    cwd, parent = as_str(header.get("cwd")), as_str(header.get("parentSession"))
    return SessionData(session_id, cwd, parent, entries, found.end, found.open_end, notices + more)


def read_end(path: Path, *, whole_below: int = WHOLE_BELOW) -> SessionData:
    """Read what a resumed session shows: the end of a branch, or all of a file that is short or needs it.

    Raise what `read_session` raises.
    """
    try:
        size = path.stat().st_size if path.is_file() else 0
        header = _head(path) if size > whole_below else None
        session_id = as_str(header.get("id")) if header is not None else ""
        if header is None or header.get("version") != VERSION or not is_session_id(session_id):
            return read_session(path)
        tail = read_tail(path, session_id, size)
    except OSError as error:
        raise _unreadable(path, error) from error
    if tail is None:
        return read_session(path)
    cwd, parent = as_str(header.get("cwd")), as_str(header.get("parentSession"))
    return SessionData(session_id, cwd, parent, tail.entries, size, tail.open_end, tail.notices, tail)


def _head(path: Path) -> Json | None:
    """Return the header, None if the file does not begin with one."""
    with path.open("rb") as file:
        start = file.read(_HEAD_BYTES)
    value = next((value for line in BytesIO(start) if (value := parse_line(line)) is not None), None)
    return value if value is not None and value.get("type") == "session" else None


def _parse(lines: Iterable[bytes]) -> _Lines:
    objects: list[Json] = []
    bad: list[int] = []
    end = 0
    line = b"\n"
    value: Json | None = None
    for number, line in enumerate(lines, 1):
        end += len(line)
        value = parse_line(line)
        if value is not None:
            objects.append(value)
        elif line.strip():
            bad.append(number)
    open_end = not line.endswith(b"\n")
    torn = open_end and value is None and bool(line.strip())
    if torn:
        bad.pop()
    start = b"".join(line.split())
    torn_header = torn and not bad and (start.startswith(_HEADER_START) or _HEADER_START.startswith(start))
    return _Lines(objects, bad, end, open_end, torn, torn_header)


def _line_notices(found: _Lines) -> tuple[str, ...]:
    notices: list[str] = []
    if found.bad:
        count = "1 unreadable line" if len(found.bad) == 1 else f"{len(found.bad)} unreadable lines"
        notices.append(f"skipped {count} in the session file (the first is line {found.bad[0]})")
    if found.torn:
        notices.append("the last line of the session file is torn; it is ignored")
    return tuple(notices)


def _unreadable(path: Path, error: OSError) -> SessionError:
    return SessionError(f"cannot read session file {path}: {error.strerror or error}")


def _no_session(path: Path) -> SessionError:
    return SessionError(f"{path} is not a session file", hint="a session file begins with a line of type session")


def _migrate(objects: list[Json], version: int) -> list[Json]:
    """Give version 1 entries ids and parents (the same ones at every reading), and version 2 its new role."""
    ids = [""]
    for number, old in enumerate(objects, 1):
        ids.append(as_str(old.get("id")) or f"{number:016x}")
    new: list[Json] = []
    for number, old in enumerate(objects, 1):
        entry = dict(old)
        if version < 2:
            entry.setdefault("id", ids[number])
            entry.setdefault("parentId", ids[number - 1] or None)
            kept = as_int(entry.pop("firstKeptEntryIndex", None))
            if 0 < kept < len(ids):
                entry.setdefault("firstKeptEntryId", ids[kept])
        message = as_dict(entry.get("message"))
        if message.get("role") == "hookMessage":
            entry["message"] = {**message, "role": "custom"}
        new.append(entry)
    return new


def _entries(objects: Iterable[Json]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    entries: list[Entry] = []
    seen: set[str] = set()
    nameless = twice = 0
    for raw in objects:
        entry = entry_of(raw)
        if entry is None:
            nameless += 1
            continue
        twice += entry.id in seen
        seen.add(entry.id)
        entries.append(entry)
    notices: tuple[str, ...] = ()
    if nameless:
        notices += (f"ignored {nameless} line(s) of the session file that have no entry id",)
    if twice:
        notices += (f"{twice} entry id(s) occur twice in the session file; the later one counts",)
    return tuple(entries), notices
