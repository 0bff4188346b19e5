"""/resume: another session, from a list with search, preview, new names and deletion."""

from __future__ import annotations

import time
from pathlib import Path

from vikingpi.command import Command
from vikingpi.commands.chooser import Act, Choices, Option
from vikingpi.commands.controls import Controls
from vikingpi.commands.host import Host
from vikingpi.commands.session import BUSY
from vikingpi.safetext import one_line
from vikingpi.session.catalog import SessionInfo

LISTED = 20


def resume_commands(app: Host, controls: Controls) -> tuple[Command, ...]:
    """Return /resume."""

    async def resume(argument: str) -> str:
        if app.running:
            return BUSY
        if not argument and app.chooser is None:
            return _listed(app, controls)
        chosen: str | Path | None = argument
        if app.chooser is not None and not _names_session(controls, argument):
            picked = await app.chooser.choose(session_choices(app, controls)._replace(query=argument))
            if picked is None:
                return ""
            if app.running:
                return BUSY
            chosen = Path(picked)
        before = app.parts.cwd
        await controls.sessions.resume(chosen or "")
        if app.chooser is not None:
            app.chooser.show_past()
        return _opened(app, before)

    return (Command("resume", "[id or words] - go on with another session", resume),)


def _names_session(controls: Controls, argument: str) -> bool:
    """Tell whether words are a path, an id or the beginning of one, and no search."""
    if "/" in argument or argument.endswith(".jsonl"):
        return True
    return bool(argument) and any(info.id.startswith(argument) for info in controls.sessions.list(everywhere=True))


def session_choices(app: Host, controls: Controls) -> Choices:
    """Return the list of sessions: those of this folder, with Tab those of all folders."""
    everywhere = False

    def toggle(key: str, text: str) -> str:
        nonlocal everywhere
        everywhere = not everywhere
        return ""

    def options() -> list[Option]:
        now, here = time.time(), app.parts.session.path
        infos = controls.sessions.list(everywhere=everywhere)
        return [_option(controls, info, now, everywhere) for info in infos if info.path != here]

    def preset(key: str) -> str:
        infos = controls.sessions.list(everywhere=everywhere)
        return next((info.name for info in infos if str(info.path) == key), "")

    def rename(key: str, text: str) -> str:
        controls.sessions.rename(Path(key), text)
        return f"renamed to {text}" if text.strip() else "the name is gone"

    def delete(key: str, text: str) -> str:
        controls.sessions.delete(Path(key))
        return "deleted"

    acts = (
        Act("tab", "all folders", toggle),
        Act("c-r", "rename", rename, asks="new name", preset=preset),
        Act("c-d", "delete", delete, confirms="delete this session for good?"),
    )
    return Choices(
        lambda: f"Resume a session ({'all folders' if everywhere else 'this folder'})",
        options,
        acts,
        empty="no other session here; Tab shows those of all folders",
        shows_end=True,
    )


def ago(seconds: float) -> str:
    """Write how long ago something was: `now`, `5 min`, `3 h`, `12 d`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "now"


def _option(controls: Controls, info: SessionInfo, now: float, everywhere: bool) -> Option:
    count = "" if info.messages is None else f"{info.messages} messages"
    place = info.cwd if everywhere else ""
    about = " · ".join(part for part in (ago(now - info.mtime), count, place) if part)
    title = one_line(info.name or info.first_text or "(no message)", 200)
    more = f"{info.first_text[:2000]} {info.id} {info.cwd}"
    return Option(str(info.path), title, about, more, lambda: controls.sessions.preview(info.path))


def _opened(app: Host, before: Path) -> str:
    session, notices = app.parts.session, app.parts.notices
    lines = [f"Session {app.status().session_name or session.id}.", *notices]
    if app.parts.cwd != before:
        lines.append(f"Commands run in {app.parts.cwd} now.")
    return "\n\n".join(lines)


def _listed(app: Host, controls: Controls) -> str:
    now, here = time.time(), app.parts.session.path
    infos = [info for info in controls.sessions.list(everywhere=False) if info.path != here]
    lines = [
        f"- `/resume {info.id}` {ago(now - info.mtime)}: {one_line(info.name or info.first_text or '(no message)', 80)}"
        for info in infos[:LISTED]
    ]
    return "\n".join(lines) if lines else "There is no other session of this folder."
