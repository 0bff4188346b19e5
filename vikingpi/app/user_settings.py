"""The settings in use while the chat runs, and changes of the user's own."""

from __future__ import annotations

from pathlib import Path

from vikingpi.app.app import App
from vikingpi.app.wiring import Prepared
from vikingpi.config.apply import apply
from vikingpi.config.change import change
from vikingpi.config.jsonfile import read_object
from vikingpi.config.load import Loaded, load
from vikingpi.config.model import Settings


class UserSettings:
    """Fits SettingsControl."""

    def __init__(self, app: App, prepared: Prepared) -> None:
        self._app = app
        self._prepared = prepared
        self._loaded: Loaded | None = None

    @property
    def file(self) -> Path:
        return self._prepared.paths.config_file

    @property
    def own(self) -> Settings:
        return apply(Settings(), read_object(self.file) or {}, str(self.file)).settings

    def read(self) -> Settings:
        """What a session has read once it keeps until another one is opened."""
        prepared, app, before = self._prepared, self._app, self._app.settings
        self._loaded = load(prepared.paths, prepared.cwd, prepared.env, trusted=prepared.trusted)
        app.settings = settings = self._loaded.settings
        app.parts.agent.deps = app.parts.agent.deps._replace(settings=settings)
        app.approval.setting = settings.approval
        looks_same = (before.theme, before.show_thoughts) == (settings.theme, settings.show_thoughts)
        if app.chooser is not None and not looks_same:
            app.chooser.look(settings)
        return settings

    def source(self, key: str) -> str:
        return self._loaded.sources.get(key, "") if self._loaded is not None else ""

    def store(self, key: str, value: object | None) -> Settings:
        change(self.file, key, value)
        return self.read()
