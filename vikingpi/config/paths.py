"""Where vpi keeps its files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from vikingpi.private import private_dir
from vikingpi.values import NamedTuple

__all__ = ["PROJECT_FOLDER", "Paths", "locate", "private_dir"]

APP = "vpi"
PROJECT_FOLDER = ".vpi"


class Paths(NamedTuple):
    """The three folders of a user; none of them need exist."""

    config: Path
    data: Path
    state: Path

    @property
    def config_file(self) -> Path:
        return self.config / "config.json"

    @property
    def models_file(self) -> Path:
        return self.config / "models.json"

    @property
    def auth_file(self) -> Path:
        return self.config / "auth.json"

    @property
    def trust_file(self) -> Path:
        return self.config / "trust.json"

    @property
    def extensions(self) -> Path:
        return self.config / "extensions"

    @property
    def sessions(self) -> Path:
        return self.data / "sessions"

    @property
    def outbox(self) -> Path:
        return self.data / "outbox.db"

    @property
    def store_db(self) -> Path:
        return self.data / "store.db"

    @property
    def locks(self) -> Path:
        return self.data / "locks"

    @property
    def history(self) -> Path:
        return self.data / "history"

    @property
    def outputs(self) -> Path:
        """Full outputs of commands, a folder for each session."""
        return self.state / "tmp"

    @property
    def logs(self) -> Path:
        return self.state / "logs"


def locate(env: Mapping[str, str]) -> Paths:
    """Return the folders: `VPI_HOME` for all of them, else the platform's own places for an application."""
    home = env.get("VPI_HOME", "").strip()
    if home:
        folder = Path(home).expanduser().absolute()
        return Paths(folder, folder, folder)
    if sys.platform == "darwin":
        import platformdirs

        return Paths(
            platformdirs.user_config_path(APP, appauthor=False),
            platformdirs.user_data_path(APP, appauthor=False),
            platformdirs.user_state_path(APP, appauthor=False),
        )
    return Paths(
        _xdg(env, "XDG_CONFIG_HOME", ".config"),
        _xdg(env, "XDG_DATA_HOME", ".local/share"),
        _xdg(env, "XDG_STATE_HOME", ".local/state"),
    )


def _xdg(env: Mapping[str, str], name: str, default: str) -> Path:
    """Do what platformdirs does on Linux, whose import costs 12 ms of a start; a relative value is ignored."""
    value = env.get(name, "").strip()
    base = Path(value) if Path(value).is_absolute() else home_of(env) / default
    return base / APP


def home_of(env: Mapping[str, str]) -> Path:
    """Return the home folder: `HOME`, else what the system knows."""
    home = env.get("HOME", "")
    return Path(home) if home else Path.home()
