"""The hook context: all of the program that a hook may touch."""

from __future__ import annotations

from collections.abc import Callable

from vikingpi.config.model import Settings
from vikingpi.decode import Json
from vikingpi.events import Event
from vikingpi.session.entries import Entry
from vikingpi.session.file import SessionLog


class SessionContext:
    """A HookContext over one open session."""

    def __init__(self, session: SessionLog, settings: Settings, emit: Callable[[Event], None]) -> None:
        self._session = session
        self._settings = settings
        self._emit = emit

    @property
    def session_id(self) -> str:
        return self._session.id

    @property
    def settings(self) -> Settings:
        return self._settings

    def branch(self) -> tuple[Entry, ...]:
        return self._session.branch()

    def append_custom(self, custom_type: str, data: Json) -> Entry:
        return self._session.append_custom(custom_type, data)

    def emit(self, event: Event) -> None:
        self._emit(event)
