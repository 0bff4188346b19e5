"""Sessions, trees and models as the chat's commands use them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from vikingpi.app import switching
from vikingpi.app.app import App
from vikingpi.app.user_settings import UserSettings
from vikingpi.app.wiring import Prepared
from vikingpi.commands.controls import Controls
from vikingpi.decode import as_dict
from vikingpi.errors import SessionError
from vikingpi.events import Notice
from vikingpi.llm.base import Model
from vikingpi.llm.registry import Catalog, resolve
from vikingpi.messages import AssistantMessage, UserMessage, text_of
from vikingpi.session import navigate
from vikingpi.session.catalog import SessionInfo
from vikingpi.session.entries import Entry, message_from_json
from vikingpi.session.file import open_session
from vikingpi.session.lines import parse_line
from vikingpi.session.lock import lock_session
from vikingpi.session.navigate import TreeRow

LONG = 2000
PREVIEW_BYTES = 64 * 1024


class Sessions:
    """Fits SessionControl."""

    def __init__(self, app: App) -> None:
        self._app = app

    def list(self, *, everywhere: bool) -> tuple[SessionInfo, ...]:
        return switching.other_sessions(self._app, everywhere=everywhere)

    def preview(self, path: Path) -> str:
        try:
            with path.open("rb") as file:
                start = max(0, file.seek(0, os.SEEK_END) - PREVIEW_BYTES)
                file.seek(start)
                lines = file.read(PREVIEW_BYTES).split(b"\n")
        except OSError as error:
            raise SessionError(f"cannot read {path}: {error.strerror or error}") from error
        said: list[str] = []
        for line in lines[1 if start else 0 :]:
            message = message_from_json(as_dict((parse_line(line) or {}).get("message")), None)
            if isinstance(message, (UserMessage, AssistantMessage)) and (text := text_of(message).strip()):
                said.append(f"{'> ' if isinstance(message, UserMessage) else ''}{text}")
        return "\n\n".join(said)

    def rename(self, path: Path, name: str) -> None:
        """The time of the file stays: it is the order of the list."""
        if self._is_open(path):
            navigate.set_name(self._app.parts.session, name)
            return
        session = open_session(path, self._app.parts.folder.paths.locks)
        try:
            before = path.stat()
            navigate.set_name(session, name)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        except OSError as error:
            raise SessionError(f"cannot rename {path}: {error.strerror or error}") from error
        finally:
            session.close()

    def delete(self, path: Path) -> None:
        if self._is_open(path):
            raise SessionError("this session is open; /new or /resume first")
        info = next((info for info in self.list(everywhere=True) if info.path == path), None)
        lock = lock_session(self._app.parts.folder.paths.locks, info.id) if info is not None else None
        try:
            path.unlink()
        except OSError as error:
            raise SessionError(f"cannot delete {path}: {error.strerror or error}") from error
        finally:
            if lock is not None:
                lock.release()

    async def resume(self, session: str | Path) -> None:
        await switching.resume(self._app, session)

    def _is_open(self, path: Path) -> bool:
        here = self._app.parts.session.path
        return here is not None and here.exists() and path.exists() and path.samefile(here)


class Tree:
    """Fits TreeControl."""

    def __init__(self, app: App) -> None:
        self._app = app

    def name(self, name: str) -> None:
        navigate.set_name(self._app.parts.session, name)

    def rows(self) -> tuple[TreeRow, ...]:
        return navigate.tree_rows(self._app.parts.session)

    def label(self, entry_id: str, label: str) -> None:
        navigate.set_label(self._app.parts.session, entry_id, label)

    def prompts(self) -> tuple[Entry, ...]:
        return navigate.user_entries(self._app.parts.session)

    def leaves(self, entry_id: str) -> int:
        session = self._app.parts.session
        left = navigate.left_behind(session, navigate.pick(session, entry_id).leaf)
        return sum(entry.type == "message" for entry in left)

    async def fork(self, entry_id: str) -> str:
        return await switching.fork(self._app, entry_id)

    async def clone(self) -> None:
        await switching.clone(self._app)

    async def go_to(self, entry_id: str, summary: str | None) -> str:
        return await switching.go_to(self._app, entry_id, summary)


class Models:
    """Fits ModelControl."""

    def __init__(self, app: App, catalog: Catalog) -> None:
        self._app = app
        self._catalog = catalog

    @property
    def usable(self) -> Sequence[Model]:
        """Those of the catalogue, and the one in use, which a flag or a local server may have brought."""
        here = self._app.parts.agent.deps.model
        known = self._catalog.usable
        same = any((model.provider, model.id) == (here.provider, here.id) for model in known)
        return known if same else (here, *known)

    def find(self, pattern: str) -> tuple[Model, str | None]:
        for model in self.usable:
            if pattern == f"{model.provider}/{model.id}":
                return model, None
        choice = resolve(self._catalog, pattern)
        return choice.model, choice.thinking_level


class Exports:
    """Fits ExportControl. What makes pages is loaded when the first one is asked for."""

    def __init__(self, app: App, prepared: Prepared) -> None:
        self._app = app
        self._prepared = prepared

    def place(self, target: str) -> Path:
        from vikingpi.app.export import choose_place

        session = self._app.parts.session
        return choose_place(target, session.path.stem if session.path is not None else session.id, Path.cwd())

    async def write(self, path: Path, *, replace: bool) -> str:
        from vikingpi.app.export import job_of, write

        prepared = self._prepared._replace(settings=self._app.settings)
        job = job_of(self._app.parts.session, prepared)
        if len(job.session.entries) > LONG:
            self._app.emit(Notice(f"writing {path.name} ..."))
        written = await asyncio.to_thread(write, job, path, replace=replace)
        return "\n\n".join((f"Written to `{written.path}`.", *written.lines))


def make_controls(app: App, prepared: Prepared, settings: UserSettings) -> Controls:
    """Put together what commands may do."""
    models = Models(app, prepared.catalog)
    return Controls(Sessions(app), Tree(app), models, app.approval, Exports(app, prepared), settings)
