"""Open sessions: a tree of entries in memory and the file that each new one is appended to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from vikingpi.decode import Json, as_dict
from vikingpi.errors import SessionError
from vikingpi.messages import Message
from vikingpi.session.entries import Entry, encode_line, message_to_json
from vikingpi.session.ids import file_name, is_session_id, iso_time, new_entry_id, new_session_id
from vikingpi.session.known import Known
from vikingpi.session.leaf import CONVERSATION
from vikingpi.session.lines import parse_line
from vikingpi.session.lock import lock_session
from vikingpi.session.reader import VERSION, WHOLE_BELOW, read_end, read_session
from vikingpi.session.tree import STATE_TYPE, labels_of, name_of
from vikingpi.session.writer import Writer

Clock = Callable[[], float]


class SessionLog:
    """One open session with one writer.

    `path` is None for a session that lives in memory only. `fresh` is True while the file was made by this
    process and no takeover state was copied into it. `moved` is True from a move of the leaf until a message is
    added there; until then `late` holds what the background wants to write. `known` says what is in memory: after a
    resume perhaps only the end of the branch. `notices` has a line for everything odd about the file.
    """

    def __init__(
        self,
        session_id: str,
        cwd: str,
        entries: Iterable[Entry] | Known = (),
        *,
        writer: Writer | None = None,
        path: Path | None = None,
        clock: Clock = time.time,
    ) -> None:
        self.id = session_id
        self.cwd = cwd
        self.path = path
        self.fresh = True
        self.closed = False
        self.moved = False
        self.known = entries if isinstance(entries, Known) else Known(entries)
        self.notices = self.known.notices
        self._writer = writer
        self.late: list[tuple[str, Json]] = []
        self.clock = clock

    @property
    def leaf_id(self) -> str | None:
        """The entry that the next one hangs from."""
        return self.known.leaf_id

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries in file order; reads the rest of the file when it is not in memory (SessionError)."""
        return self.known.all()

    def branch(self) -> tuple[Entry, ...]:
        """Return the entries from the root to the leaf, after a resume perhaps only the end of them."""
        return self.known.branch()

    def branch_to(self, entry_id: str) -> tuple[Entry, ...]:
        """Return the entries from the root to `entry_id`; empty if there is none. SessionError as for `entries`."""
        return self.known.path(entry_id)

    def get(self, entry_id: str) -> Entry | None:
        """Return an entry of any branch. SessionError as for `entries`."""
        return self.known.get(entry_id)

    def append(self, type: str, fields: Json) -> Entry:
        """Write an entry below the leaf and make it the leaf; SessionError if it cannot be written.

        `raw` of the returned entry is what a reader of the file gets. Until the first user or assistant message
        entries are kept in memory and the file does not exist.
        """
        head: Json = {
            "type": type,
            "id": new_entry_id(),
            "parentId": self.leaf_id,
            "timestamp": iso_time(self.clock()),
        }
        line = encode_line({**head, **fields, **head})
        raw = parse_line(line) or {}
        if self._writer is not None:
            self._writer.write(line, starts=_starts(type, raw))
        entry = Entry(head["id"], head["parentId"], type, head["timestamp"], raw)
        self.known.add(entry)
        self.moved = self.moved and type not in CONVERSATION
        if self.late and not self.moved:
            waiting, self.late = self.late, []
            for kind, waited in waiting:
                self.append(kind, waited)
        return entry

    def append_message(self, message: Message) -> Entry:
        """Write a message; the caller gives it the entry's id."""
        return self.append("message", {"message": message_to_json(message)})

    def append_custom(self, custom_type: str, data: Json) -> Entry:
        """Write an entry that no model sees."""
        return self.append("custom", {"customType": custom_type, "data": data})

    def move_leaf(self, entry_id: str | None) -> None:
        """Let the next entry hang from `entry_id` (None: a new root), in memory only; SessionError if unknown."""
        if entry_id is not None and self.get(entry_id) is None:
            raise SessionError(f"session {self.id} has no entry {entry_id}")
        self.known.go(entry_id)
        self.moved = True
        self.notices += tuple(notice for notice in self.known.notices if notice not in self.notices)

    def sync(self) -> None:
        """Have the disk hold everything; SessionError if it refuses."""
        if self._writer is not None:
            self._writer.sync()

    def close(self) -> None:
        """Close the file and release the lock."""
        self.closed = True
        if self._writer is not None:
            self._writer.close()


def append_later(log: SessionLog, type: str, fields: Json) -> None:
    """Write an entry from the background, which may be late: where the leaf was moved it waits for a message there.

    A session that is closed, or is closed before that, does without it. SessionError as for `append`.
    """
    if log.moved:
        log.late.append((type, fields))
    elif not log.closed:
        log.append(type, fields)


def create_session(
    directory: Path,
    cwd: str,
    locks: Path,
    *,
    session_id: str = "",
    parent: str = "",
    clock: Clock = time.time,
) -> SessionLog:
    """Begin a session; its file appears in `directory` with the first user or assistant message.

    A given `session_id` is locked at once. SessionError: not a session id, or in use.
    """
    now = clock()
    name = _name(session_id, now)
    path = directory / file_name(iso_time(now), name)
    writer = Writer(path, locks, name, header=_header(name, iso_time(now), cwd, parent))
    if session_id:
        writer.lock()
    return SessionLog(name, cwd, writer=writer, path=path, clock=clock)


def open_session(
    path: Path, locks: Path, *, cwd: str = "", clock: Clock = time.time, whole_below: int = WHOLE_BELOW
) -> SessionLog:
    """Open a session file for reading and appending, at the leaf where it ends.

    Of a file of more than `whole_below` bytes only the end is read where that is enough to go on. `cwd` is for a
    file that names none, in particular an empty one, which becomes a new session. SessionError: not found,
    unreadable, no session; SessionLocked: another process has it.
    """
    data = read_end(path, whole_below=whole_below)
    now = clock()
    name = data.id or new_session_id(now)
    lock = lock_session(locks, name)
    try:
        if _size(path) != data.end:
            data = read_end(path, whole_below=whole_below)
    except SessionError:
        lock.release()
        raise
    cwd = data.cwd or cwd or _working_directory()
    header = b"" if data.id else _header(name, iso_time(now), cwd, "")
    writer = Writer(path, locks, name, header=header, end=data.end, open_end=data.open_end)
    writer.lock(lock)
    known = Known(data.entries, data.tail, lambda: read_session(path).entries)
    log = SessionLog(name, cwd, known, writer=writer, path=path, clock=clock)
    log.notices = data.notices + log.notices
    log.fresh = not data.id
    return log


def fork_session(
    source: SessionLog | Path,
    directory: Path,
    cwd: str,
    locks: Path,
    *,
    at: str | None = "",
    session_id: str = "",
    clock: Clock = time.time,
) -> SessionLog:
    """Begin a session with the entries of another one up to its leaf, or up to the entry `at` (None: without any).

    Ids stay; a name and labels that the source keeps on other branches are written again at the end. The source
    may be locked by another process. SessionError: unreadable, no such entry, not a session id, not writable.
    """
    origin = _look_into(source) if isinstance(source, Path) else source
    origin.known.load()
    if at and origin.get(at) is None:
        raise SessionError(f"session {origin.id} has no entry {at}")
    branch = origin.branch_to(at) if at else origin.branch() if at is not None else ()
    parent = str(origin.path.absolute()) if origin.path and origin.path.exists() else ""
    now = clock()
    name, created = _name(session_id, now), iso_time(now)
    path = directory / file_name(created, name)
    writer = Writer(path, locks, name, header=_header(name, created, cwd, parent))
    if session_id:
        writer.lock()
    if branch:
        lines = b"".join(encode_line(entry.raw) for entry in branch)
        writer.write(lines, starts=any(_starts(entry.type, entry.raw) for entry in branch))
    log = SessionLog(name, cwd, branch, writer=writer, path=path, clock=clock)
    log.fresh = not any(entry.raw.get("customType") == STATE_TYPE for entry in branch)
    log.notices = origin.notices if isinstance(source, Path) else ()
    _keep_names(origin.entries, log)
    return log


def _name(session_id: str, now: float) -> str:
    """Return the given id, or a new one where there is none."""
    if session_id and not is_session_id(session_id):
        raise SessionError(
            f"{session_id!r} is not a session id",
            hint="use letters, digits and, between them, '.', '_' and '-'",
        )
    return session_id or new_session_id(now)


def memory_session(cwd: str, *, clock: Clock = time.time) -> SessionLog:
    """Begin a session that is never written anywhere."""
    return SessionLog(new_session_id(clock()), cwd, clock=clock)


def _look_into(path: Path) -> SessionLog:
    data = read_session(path)
    log = SessionLog(data.id, data.cwd, data.entries, path=path)
    log.notices = data.notices + log.notices
    return log


def _keep_names(entries: Sequence[Entry], log: SessionLog) -> None:
    name = name_of(entries)
    if name != name_of(log.entries):
        log.append("session_info", {"name": name})
    have = labels_of(log.entries)
    for target, label in labels_of(entries).items():
        if log.get(target) is not None and have.get(target) != label:
            log.append("label", {"targetId": target, "label": label})


def _header(session_id: str, timestamp: str, cwd: str, parent: str) -> bytes:
    header: Json = {
        "type": "session",
        "version": VERSION,
        "id": session_id,
        "timestamp": timestamp,
        "cwd": cwd,
    }
    if parent:
        header["parentSession"] = parent
    return encode_line(header)


def _starts(type: str, raw: Json) -> bool:
    return type == "message" and as_dict(raw.get("message")).get("role") in ("user", "assistant")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise SessionError(f"cannot read session file {path}: {error.strerror or error}") from error


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "/"
