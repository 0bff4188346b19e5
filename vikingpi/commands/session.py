"""Commands about the open session."""

from __future__ import annotations

from vikingpi.command import Command
from vikingpi.commands.host import Figures, Host

BUSY = "The model is still at work: wait for it, or abort it with Esc, then try again."


def session_commands(app: Host) -> tuple[Command, ...]:
    """Return /compact, /name, /new and /session."""

    async def compact(argument: str) -> str:
        return BUSY if app.running else await app.compact(argument) or ""

    async def name(argument: str) -> str:
        if not argument:
            shown = app.status().session_name
            return f"This session is called {shown}." if shown else "No name yet: `/name TEXT` gives one."
        app.parts.session.append("session_info", {"name": argument})
        return f"This session is now called {argument}."

    async def new(argument: str) -> str:
        if app.running:
            return BUSY
        await app.new_session()
        if app.chooser is not None:
            app.chooser.show_past()
        return "A new session begins."

    async def show_session(argument: str) -> str:
        return session_text(app)

    return (
        Command("compact", "[instructions] - replace older history by a summary", compact),
        Command("name", "[text] - name the session", name),
        Command("new", "begin a new session", new),
        Command("session", "show the session's file and figures", show_session),
    )


def session_text(app: Host) -> str:
    """Write what is known of the open session, one line each."""
    session, figures = app.parts.session, app.status()
    entries = session.branch()
    messages = str(sum(entry.type == "message" for entry in entries))
    skipped = session.known.skipped
    count = f"{len(entries) + skipped}" if skipped is not None else f"more than {len(entries)}"
    lines = [
        f"- session: {session.id}",
        f"- name: {figures.session_name or '(none)'}",
        f"- file: {session.path if session.path is not None else '(not kept)'}",
        f"- folder: {session.cwd}",
        f"- entries on this branch: {count}, messages: {messages if skipped == 0 else '?'}",
        _spent(figures),
        f"- context: {figures.context_tokens if figures.context_tokens >= 0 else '?'} of {figures.context_window}",
    ]
    return "\n".join(lines)


def _spent(figures: Figures) -> str:
    if figures.tokens_in < 0:
        return "- tokens and cost: ? (the beginning of the file is still being read)"
    tokens = f"{figures.tokens_in} in, {figures.tokens_out} out, {figures.cache_read} read from the cache"
    return f"- tokens: {tokens}\n- cost: ${figures.cost:.4f}"
