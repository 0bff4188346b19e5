"""Find and list session files without reading them whole: the head and the tail of a file are enough."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path

from vikingpi.decode import Json, as_dict, as_str
from vikingpi.errors import SessionError
from vikingpi.messages import TextPart
from vikingpi.session.entries import content_from_json, whole
from vikingpi.session.ids import is_session_id
from vikingpi.session.lines import parse_line
from vikingpi.values import NamedTuple

HEAD_BYTES = 16 * 1024
MORE_HEAD_BYTES = 512 * 1024
TAIL_BYTES = 16 * 1024
_SEPARATOR = re.compile(r"[/\\:]")
_USER = re.compile(rb'"role"\s*:\s*"user"')
_CONVERSATION = re.compile(rb'"role"\s*:\s*"(?:user|assistant)"')


class SessionInfo(NamedTuple):
    """A session file at a glance. `messages` counts user and assistant messages, None where the file is too long
    to tell; `mtime` is in seconds since the epoch; `parent` is the file it was forked from.
    """

    path: Path
    id: str
    cwd: str
    created: str
    mtime: float
    size: int
    name: str
    first_text: str
    messages: int | None
    parent: str


class _File(NamedTuple):
    """Ordered by age. The path is text: of thousands, a run reads one."""

    mtime: float
    name: str
    path: str
    size: int


def default_directory(sessions_root: Path, cwd: str) -> Path:
    """Return the folder for sessions of `cwd`, named as pi names it."""
    name = f"--{_SEPARATOR.sub('-', cwd.removeprefix('/'))}--"
    encoded = os.fsencode(name)
    if len(encoded) > 255:
        digest = hashlib.sha256(encoded).hexdigest()[:16]
        name = f"{encoded[:200].decode('utf-8', 'ignore')}-{digest}--"
    return sessions_root / name


def list_sessions(directory: Path, cwd: str | None, most: int | None = None) -> tuple[SessionInfo, ...]:
    """Describe the `most` newest sessions of a folder, or all; with `cwd` only those that were made there."""
    found = (_describe(file) for file in _files(directory))
    return tuple(islice((info for info in found if info is not None and _made_in(info.cwd, cwd)), most))


def newest(directory: Path, cwd: str | None) -> Path | None:
    """Return the session file that was written last; with `cwd` the last one that was made there."""
    for file in _files(directory):
        header = _header(_read(file.path, 0, HEAD_BYTES))
        if header is not None and _made_in(as_str(header.get("cwd")), cwd):
            return Path(file.path)
    return None


def find(pattern: str, directory: Path, *, root: Path | None = None) -> Path:
    """Return the session file that `pattern` names: a path, an id, or the beginning of one.

    Ids are looked for in `directory`, then in every folder below `root`. SessionError: none, or more than one.
    """
    if not pattern:
        raise SessionError("a session is named by its path or its id", hint="vpi sessions lists what there is")
    if "/" in pattern or pattern.endswith(".jsonl"):
        return _existing(Path(pattern).expanduser())
    here = list(_ids([directory]))
    below = sorted(path for path in root.iterdir() if path.is_dir()) if root and root.is_dir() else []
    elsewhere = list(_ids(folder for folder in below if folder != directory))
    for exact in (True, False):
        for known in (here, elsewhere):
            found = [path for path, name in known if name == pattern or (not exact and name.startswith(pattern))]
            if len(found) > 1:
                raise _ambiguous(pattern, found)
            if found:
                return found[0]
    raise SessionError(f"no session {pattern}", hint="vpi sessions lists what there is")


def with_id(session_id: str, directory: Path) -> Path | None:
    """Return the session file in `directory` that has exactly this id."""
    return next((path for path, name in _ids([directory]) if name == session_id), None)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise SessionError(f"session file {path} does not exist", hint="vpi sessions lists what there is")
    return path


def _ambiguous(pattern: str, found: list[Path]) -> SessionError:
    names = ", ".join(path.name for path in found[:5]) + (", ..." if len(found) > 5 else "")
    return SessionError(f"{len(found)} sessions begin with {pattern}: {names}", hint="give more of the id")


def _files(directory: Path) -> list[_File]:
    files: list[_File] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if not entry.name.endswith(".jsonl"):
                    continue
                try:
                    if entry.is_file():
                        state = entry.stat()
                        files.append(_File(state.st_mtime, entry.name, entry.path, state.st_size))
                except OSError:  # a link that leads nowhere, or a file that is gone by now, hides no other
                    continue
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SessionError(f"cannot list sessions in {directory}: {error.strerror or error}") from error
    return sorted(files, reverse=True)


def _ids(folders: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Yield files with their ids: from the file's name where it is one of ours, else from the header."""
    for folder in folders:
        for file in _files(folder):
            _, _, session_id = file.name.removesuffix(".jsonl").partition("_")
            if not is_session_id(session_id):
                header = _header(_read(file.path, 0, HEAD_BYTES))
                session_id = as_str(header.get("id")) if header else ""
            if session_id:
                yield Path(file.path), session_id


def _describe(file: _File) -> SessionInfo | None:
    head = _read(file.path, 0, HEAD_BYTES)
    header = _header(head)
    if header is None:
        return None
    complete = file.size <= len(head)
    text = _first_user_text(head)
    if not text and not complete:
        text = _first_user_text(_read(file.path, 0, MORE_HEAD_BYTES))
    tail = b"" if complete else _read(file.path, max(len(head), file.size - TAIL_BYTES), TAIL_BYTES)
    name = _last_name(tail)
    if name is None:
        name = _last_name(head)
    return SessionInfo(
        path=Path(file.path),
        id=as_str(header.get("id")),
        cwd=as_str(header.get("cwd")),
        created=as_str(header.get("timestamp")),
        mtime=file.mtime,
        size=file.size,
        name=name or "",
        first_text=text,
        messages=_count_messages(head) if complete else None,
        parent=as_str(header.get("parentSession")),
    )


def _read(path: str, start: int, length: int) -> bytes:
    """Read a part of a file; empty if it cannot be read, so that one bad file does not hide the others."""
    try:
        with Path(path).open("rb", buffering=0) as file:
            file.seek(start)
            return file.read(length)
    except OSError:
        return b""


def _header(head: bytes) -> Json | None:
    for line in BytesIO(head):
        value = parse_line(line)
        if value is not None:
            return value if value.get("type") == "session" else None
    return None


def _first_user_text(head: bytes) -> str:
    for line in BytesIO(head):
        if _USER.search(line) is None:
            continue
        message = as_dict((parse_line(line) or {}).get("message"))
        if message.get("role") == "user":
            parts = content_from_json(message.get("content"))
            text = " ".join(part.text for part in parts if isinstance(part, TextPart)).strip()
            if text:
                return text
    return ""


def _last_name(part: bytes) -> str | None:
    """Return the newest name in a part of a file, which takeover states repeat; None if it tells nothing."""
    if not _tells_name(part):
        return None
    for line in reversed(part.split(b"\n")):
        if not _tells_name(line):
            continue
        value = parse_line(line) or {}
        if value.get("type") == "session_info":
            return as_str(value.get("name")).strip()
        data = as_dict(value.get("data"))
        if value.get("customType") == "ov-takeover" and "name" in data:
            return as_str(data["name"]).strip()
    return None


def _tells_name(part: bytes) -> bool:
    return b'"session_info"' in part or b'"ov-takeover"' in part


def _count_messages(head: bytes) -> int:
    return sum(1 for line in head.split(b"\n") if _CONVERSATION.search(line))


def _made_in(cwd: str, wanted: str | None) -> bool:
    return wanted is None or cwd == whole(wanted)
