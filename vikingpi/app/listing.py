"""Lists for the terminal: models and sessions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TextIO

from vikingpi.app.sessions import session_folder
from vikingpi.config.load import load
from vikingpi.config.paths import locate
from vikingpi.config.trust import is_trusted
from vikingpi.errors import ConfigError
from vikingpi.llm.base import Model
from vikingpi.llm.catalog import LOCAL_SERVERS
from vikingpi.llm.local import with_local_servers
from vikingpi.llm.registry import INSIDE, UNFIT, Catalog, fit
from vikingpi.net import HttpTransport
from vikingpi.safetext import one_line
from vikingpi.session.catalog import SessionInfo, list_sessions


async def models_text(catalog: Catalog, query: str) -> str:
    """List what --model can name and the query fits, one a line; servers on this machine are asked too."""
    transport = HttpTransport()
    try:
        catalog = await with_local_servers(catalog, transport, named=[server.name for server in LOCAL_SERVERS])
    finally:
        await transport.close()
    return list_models(catalog, query) + "\n"


def list_models(catalog: Catalog, query: str = "") -> str:
    """Return a table of the models that the query fits, the best fit first, and of these the ones with a key."""
    fits = [(fit(query, model), not catalog.ready(model), model) for model in catalog.models]
    best = min((found for found, _, _ in fits), default=UNFIT)
    if best == UNFIT:
        return f"no model fits {query!r}"
    worst = max(best, INSIDE)
    models = [model for found, _, model in sorted(fits, key=lambda one: one[:2]) if found <= worst]
    head = ("provider", "model", "context", "output", "thinking", "images", "key")
    rows = [head, *(_row(catalog, model) for model in models)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _row(catalog: Catalog, model: Model) -> tuple[str, ...]:
    def yes(value: bool) -> str:
        return "yes" if value else "-"

    return (
        model.provider,
        model.id,
        f"{model.context_window / 1000:.0f}k",
        f"{model.max_tokens / 1000:.0f}k",
        yes(model.reasoning),
        yes(model.images),
        yes(catalog.ready(model)),
    )


def run_sessions(rest: Sequence[str], out: TextIO) -> int:
    """List the sessions of this folder, with --all those of every folder."""
    if "--help" in rest:
        out.write("vpi sessions [--all]: list the sessions of this folder, or of every folder\n")
        return 0
    unknown = [word for word in rest if word != "--all"]
    if unknown:
        raise ConfigError(f"unknown option {unknown[0]}", hint="vpi sessions [--all]")
    paths, cwd = locate(os.environ), Path.cwd()
    settings = load(paths, cwd, os.environ, trusted=is_trusted(paths, cwd, None)).settings
    folder = session_folder(settings.session_dir, paths, cwd)
    if "--all" not in rest:
        found = list_sessions(folder.path, folder.made_in)
    elif folder.flat:
        found = list_sessions(folder.path, None)
    else:
        below = sorted(path for path in paths.sessions.iterdir() if path.is_dir()) if paths.sessions.is_dir() else []
        found = tuple(info for path in below for info in list_sessions(path, None))
    for info in sorted(found, key=lambda info: info.mtime, reverse=True):
        out.write(_line(info, show_folder="--all" in rest))
    if not found:
        out.write("no sessions here\n")
    return 0


def _line(info: SessionInfo, *, show_folder: bool) -> str:
    when = datetime.fromtimestamp(info.mtime).strftime("%Y-%m-%d %H:%M")
    folder = f"  {one_line(info.cwd, 60)}" if show_folder else ""
    return f"{info.id}  {when}{folder}  {one_line(info.name or info.first_text or '(no message)', 80)}\n"
