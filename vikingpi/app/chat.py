"""What only the chat needs of the application: its commands and what they may do."""

from __future__ import annotations

from vikingpi.app.app import App
from vikingpi.app.controls import make_controls
from vikingpi.app.user_settings import UserSettings
from vikingpi.app.wiring import Prepared
from vikingpi.commands.misc import all_commands


def equip(app: App, prepared: Prepared) -> None:
    """Give the application the chat's commands beside those of extensions, which may not take their names."""
    app.controls = make_controls(app, prepared, UserSettings(app, prepared))
    commands = all_commands(app)
    app.commands = tuple(sorted((*commands, *prepared.extensions.commands(commands)), key=lambda one: one.name))
