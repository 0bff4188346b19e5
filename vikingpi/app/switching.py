"""Other sessions and other branches, while the program runs: what `/resume`, `/fork`, `/clone` and `/tree` do.

Each function raises SessionError, with the open session as it was.
"""

from __future__ import annotations

from pathlib import Path

from vikingpi.app.app import App
from vikingpi.app.sessions import Opened, open_named
from vikingpi.errors import SessionError
from vikingpi.session.catalog import SessionInfo, find, list_sessions
from vikingpi.session.file import fork_session
from vikingpi.session.navigate import add_branch_summary, left_behind, pick


def other_sessions(app: App, *, everywhere: bool = False) -> tuple[SessionInfo, ...]:
    """List the sessions of this folder, or of all folders, the newest first."""
    folder, root = app.parts.folder, app.parts.folder.paths.sessions
    if not everywhere or folder.flat:
        return list_sessions(folder.path, None if everywhere else folder.made_in)
    below = [path for path in root.iterdir() if path.is_dir()] if root.is_dir() else []
    found = [info for path in below for info in list_sessions(path, None)]
    return tuple(sorted(found, key=lambda info: info.mtime, reverse=True))


async def resume(app: App, session: str | Path) -> None:
    """Close the open session and go on with another one, named by its path, its id or the beginning of that."""
    folder = app.parts.folder
    path = session if isinstance(session, Path) else find(session, folder.path, root=folder.paths.sessions)
    here = app.parts.session.path
    if here is not None and path.exists() and here.exists() and path.samefile(here):
        raise SessionError("this session is already open")

    await app.switch("resume", lambda: open_named(path, folder))


async def fork(app: App, entry_id: str) -> str:
    """Go on in a new session with everything before a user message; return its text, for the editor.

    For any other entry the copy ends with it, and the text is empty.
    """
    chosen = pick(app.parts.session, entry_id)
    await app.switch("fork", lambda: _copy(app, chosen.leaf))
    return chosen.text


async def clone(app: App) -> None:
    """Go on in a copy of the open session."""
    leaf = app.parts.session.leaf_id
    if leaf is None:
        raise SessionError("there is nothing to copy yet")
    await app.switch("fork", lambda: _copy(app, leaf))


async def go_to(app: App, entry_id: str, summary: str | None = None) -> str:
    """Let the next prompt go on from another place of the tree; return a text for the editor.

    With a `summary` (instructions for it, which may be empty) the model first sums up what is left. Nothing is
    written and nothing moves when that fails: the error says why.
    """
    session = app.parts.session
    chosen = pick(session, entry_id)
    async with app.busy:
        left = left_behind(session, chosen.leaf)
        made = await app.parts.agent.summarise(left, summary) if summary is not None and left else None
        session.move_leaf(chosen.leaf)
        if made is not None:
            add_branch_summary(session, left, *made)
    return chosen.text


def _copy(app: App, at: str | None) -> Opened:
    folder, source = app.parts.folder, app.parts.session
    copy = fork_session(source, folder.path, source.cwd, folder.paths.locks, at=at, clock=source.clock)
    return Opened(copy, "fork", copy.notices)
