"""`vpi --export` and `/export`: a session as an HTML page, or its current branch as a session file."""

from __future__ import annotations

import errno
import sqlite3
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from vikingpi.app.options import RunOptions
from vikingpi.app.secrets import make_redactor
from vikingpi.app.wiring import Prepared, prepare
from vikingpi.config.paths import Paths
from vikingpi.decode import Json
from vikingpi.errors import ConfigError, SessionError
from vikingpi.export.branch import Names, copy_branch
from vikingpi.export.page import Options, Pending, Snapshot, render, snapshot
from vikingpi.private import private_write
from vikingpi.redact import Redactor
from vikingpi.safetext import plain
from vikingpi.session.catalog import find
from vikingpi.session.file import SessionLog
from vikingpi.session.ids import iso_time
from vikingpi.session.reader import read_session
from vikingpi.session.tree import labels_of, name_of
from vikingpi.tools.paths import existing
from vikingpi.values import NamedTuple

UNMASKED = "captureRedact is false: secrets stand in it as they were said"
_OPEN_COMMITS = """SELECT c.target_entry_id, c.target_user_turns, c.started_at FROM commit_ c
    JOIN generation g ON g.id = c.generation WHERE g.session_id = ? AND g.state = 'open'"""


class Job(NamedTuple):
    """All that an export needs; nothing in it changes any more. `parent` is the file that the session was forked
    from."""

    session: Snapshot
    parent: str
    redactor: Redactor | None
    budget: int
    pending: tuple[Pending, ...]


class Written(NamedTuple):
    """`lines` say what a reader has to know of the file."""

    path: Path
    lines: tuple[str, ...]


def run_export(options: RunOptions, env: Mapping[str, str], cwd: Path, out: TextIO, err: TextIO) -> int:
    """Export the session that is named, to the file that the first word names."""
    if len(options.words) > 1:
        raise ConfigError(f"one file is written, not {len(options.words)}", hint="vpi --export SESSION [FILE]")
    prepared = prepare(options._replace(extensions=(), no_extensions=True), env, cwd)
    path = find(options.export, prepared.folder.path, root=prepared.paths.sessions)
    data = read_session(path)
    log = SessionLog(data.id, data.cwd, data.entries, path=path)
    log.notices = data.notices + log.notices
    place = choose_place(options.words[0] if options.words else "", path.stem, cwd)
    written = write(job_of(log, prepared, data.parent), place)
    for line in written.lines:
        err.write(f"{plain(line)}\n")
    out.write(f"{plain(str(written.path))}\n")
    return 0


def choose_place(target: str, name: str, cwd: Path) -> Path:
    """Return the file that a target means: a file, a folder for one, or with "" one of a free name here.

    SessionError for what no file can be called.
    """
    if len(target) > 1 and target[0] in "\"'" and target[-1] == target[0]:
        target = target[1:-1]
    path = _named(target, cwd)
    if not path.is_dir():
        return path
    free = path / f"vpi-session-{name}.html"
    number = 1
    while free.exists():
        number += 1
        free = path / f"vpi-session-{name}-{number}.html"
    return free


def _named(target: str, cwd: Path) -> Path:
    try:
        path = existing(cwd / Path(target).expanduser())
        with suppress(FileNotFoundError):
            path.stat()
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise SessionError(f"{target} cannot be a file: {why}", hint="give another name") from error
    return path


def job_of(log: SessionLog, prepared: Prepared, parent: str = "") -> Job:
    """Take the session as it is now; SessionError if its file cannot be read."""
    settings, options = prepared.settings, prepared.options
    given = (options.api_key, settings.openviking.api_key)
    keep = prepared.store.kind != "off" and not options.no_session
    redactor = make_redactor(settings, prepared.paths, prepared.catalog, prepared.env, given, keep=keep)
    return Job(
        snapshot(log),
        parent,
        redactor if settings.capture_redact else None,
        settings.takeover.overview_budget,
        _open_commits(prepared.paths, log.id),
    )


def write(job: Job, path: Path, *, replace: bool = False) -> Written:
    """Write a page, or with a name in .jsonl the current branch; SessionError if that is impossible."""
    lines: list[str] = []
    if path.suffix == ".jsonl":
        data, masked = _branch(job)
    else:
        options = Options(job.budget, time.strftime("%Y-%m-%d %H:%M %Z"), job.pending)
        page = render(job.session, job.redactor, options)
        data, masked = page.html.encode("utf-8", "replace"), page.masked
        if page.cut:
            lines.append(f"long texts shortened in it: {page.cut}")
    if job.redactor is None:
        lines.append(UNMASKED)
    elif masked:
        lines.append(f"secrets masked in it: {masked}")
    try:
        private_write(path, data, replace=replace)
    except FileExistsError as error:
        raise exists(path) from error
    except OSError as error:
        raise SessionError(f"cannot write {path}: {error.strerror or error}", hint=_hint(error)) from error
    return Written(path, tuple(lines))


def exists(path: Path) -> SessionError:
    """The error for a file that would be overwritten."""
    return SessionError(f"{path} exists already", hint="give another name, or remove it first")


def _branch(job: Job) -> tuple[bytes, int]:
    session = job.session
    header: Json = {"id": session.id, "cwd": session.cwd}
    if job.parent:
        header["parentSession"] = job.parent
    names = Names(name_of(session.entries), labels_of(session.entries))
    return copy_branch(header, session.branch, names, job.redactor, iso_time(time.time()))


def _open_commits(paths: Paths, session_id: str) -> tuple[Pending, ...]:
    """Look into the ledger, without changing it; what cannot be read is only missing in the chart."""
    if not paths.outbox.exists():
        return ()
    try:
        database = sqlite3.connect(f"{paths.outbox.absolute().as_uri()}?mode=ro", uri=True, timeout=1)
        try:
            found = database.execute(_OPEN_COMMITS, (session_id,)).fetchall()
        finally:
            database.close()
    except sqlite3.Error:
        return ()
    return tuple(Pending(str(entry), int(turns), int(started)) for entry, turns, started in found)


def _hint(error: OSError) -> str:
    return "make the folder first" if error.errno == errno.ENOENT else "choose another place"
