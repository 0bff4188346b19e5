"""Which session a run works on."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

from vikingpi.agent.hooks import StartReason
from vikingpi.app.options import RunOptions
from vikingpi.config.paths import Paths
from vikingpi.errors import ConfigError, SessionError, SessionLocked
from vikingpi.session.catalog import default_directory, find, newest, with_id
from vikingpi.session.file import SessionLog, create_session, fork_session, memory_session, open_session
from vikingpi.session.scan import scan_start
from vikingpi.values import NamedTuple


class Folder(NamedTuple):
    """Where session files are. A folder of the user's choice is flat: its sessions are told apart by their cwd."""

    path: Path
    flat: bool
    paths: Paths
    cwd: Path

    @property
    def made_in(self) -> str | None:
        """The cwd to filter by, None where the folder itself does."""
        return str(self.cwd) if self.flat else None

    def at(self, cwd: Path) -> Folder:
        """Where the sessions of another working folder are."""
        path = self.path if self.flat else default_directory(self.paths.sessions, str(cwd))
        return self._replace(path=path, cwd=cwd)


class Opened(NamedTuple):
    """`cwd` is where work goes on, None where it stays as it is."""

    session: SessionLog
    reason: StartReason
    notices: tuple[str, ...] = ()
    cwd: Path | None = None


def session_folder(chosen: str, paths: Paths, cwd: Path) -> Folder:
    """Give the folder of session files: the chosen one or the default one of `cwd`."""
    if chosen:
        return Folder(Path(chosen).expanduser().absolute(), True, paths, cwd)
    return Folder(default_directory(paths.sessions, str(cwd)), False, paths, cwd)


def open_chosen(options: RunOptions, folder: Folder) -> Opened:
    """Open what the flags ask for; SessionError when it cannot be found, used or locked, ConfigError for two wishes."""
    _one_wish(options)
    try:
        return _open(options, folder)
    except SessionError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            outputs = folder.paths.outputs
            more = f"; full outputs of commands, which vpi can do without, are in {outputs}" if outputs.is_dir() else ""
            raise SessionError(str(error), hint=f"{error.hint}{more}") from error
        raise


def _open(options: RunOptions, folder: Folder) -> Opened:
    if options.no_session:
        return Opened(memory_session(str(folder.cwd)), "startup")
    if options.session:
        return _by_name(options.session, folder)
    if options.fork:
        source = find(options.fork, folder.path, root=folder.paths.sessions)
        if options.session_id and with_id(options.session_id, folder.path) is not None:
            raise SessionError(f"there is a session {options.session_id} already", hint="choose another --session-id")
        locks, id = folder.paths.locks, options.session_id
        forked = fork_session(source, folder.path, str(folder.cwd), locks, session_id=id)
        return Opened(forked, "fork", forked.notices)
    if options.session_id:
        return _by_id(options.session_id, folder)
    if options.continue_session:
        return _newest(folder)
    return new_session(folder)


def new_session(folder: Folder) -> Opened:
    """Begin an empty session; its file appears with the first message."""
    return Opened(create_session(folder.path, str(folder.cwd), folder.paths.locks), "startup")


async def learn_start(session: SessionLog) -> None:
    """Find out in the background what the end of the session's file does not tell: its totals and its name."""
    known, path = session.known, session.path
    if path is None or known.totals is not None:
        return
    try:
        found = await asyncio.to_thread(scan_start, path, known.start, lambda: session.closed)
    except OSError:
        return  # The file is gone or unreadable; the next write says so.
    if found is not None:
        known.learn(*found)


def open_named(path: Path, folder: Folder) -> Opened:
    """Open a session that the user named: work goes on in its own folder, where that still exists."""
    session = open_session(path, folder.paths.locks, cwd=str(folder.cwd))
    if os.path.isdir(session.cwd):  # noqa: PTH112 - Path's raises for what the system refuses, such as too long a name
        return Opened(session, "resume", session.notices, Path(session.cwd))
    gone = f"the session's folder {session.cwd} is gone; working in {folder.cwd}"
    return Opened(session, "resume", (*session.notices, gone))


def _by_name(name: str, folder: Folder) -> Opened:
    return open_named(find(name, folder.path, root=folder.paths.sessions), folder)


def _one_wish(options: RunOptions) -> None:
    """Refuse flags that name two sessions."""
    given = {
        "--no-session": options.no_session,
        "--session": options.session,
        "--fork": options.fork,
        "--continue": options.continue_session,
        "--resume": options.resume,
    }
    names = [name for name, value in given.items() if value]
    if options.session_id and not options.fork:
        names.append("--session-id")
    if len(names) > 1:
        raise ConfigError(f"{names[0]} and {names[1]} cannot go together", hint="choose one of them")


def _by_id(session_id: str, folder: Folder) -> Opened:
    path = with_id(session_id, folder.path)
    if path is not None:
        session = open_session(path, folder.paths.locks)
        return Opened(session, "resume", session.notices)
    return Opened(create_session(folder.path, str(folder.cwd), folder.paths.locks, session_id=session_id), "startup")


def _newest(folder: Folder) -> Opened:
    path = newest(folder.path, folder.made_in)
    if path is None:
        return new_session(folder)
    try:
        session = open_session(path, folder.paths.locks)
    except SessionLocked as locked:
        forked = fork_session(path, folder.path, str(folder.cwd), folder.paths.locks)
        return Opened(forked, "fork", (f"{locked}; going on in a copy, session {forked.id}", *forked.notices))
    return Opened(session, "resume", session.notices)
