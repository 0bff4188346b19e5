"""What a user and a trusted project bring as files: prompt templates, skills, SYSTEM.md and APPEND_SYSTEM.md."""

from __future__ import annotations

from pathlib import Path

from vikingpi.agent.templates import Library, find_skills, find_templates
from vikingpi.config.paths import PROJECT_FOLDER, Paths
from vikingpi.config.trust import agents_folders
from vikingpi.errors import ConfigError
from vikingpi.values import NamedTuple


class Places(NamedTuple):
    """Where to look; a project that is not trusted brings nothing."""

    paths: Paths
    cwd: Path
    home: Path
    trusted: bool


def find_library(places: Places) -> Library:
    """Find templates and skills; those of the project come before the user's."""
    project = [places.cwd / PROJECT_FOLDER] if places.trusted else []
    templates = find_templates(folder / "prompts" for folder in (*project, places.paths.config))
    shared = list(agents_folders(places.cwd, places.home)) if places.trusted else []
    folders = [*project, *shared, places.paths.config, places.home / ".agents"]
    return Library(templates, find_skills(folder / "skills" for folder in folders))


def system_file(places: Places, name: str) -> str:
    """Return the text of SYSTEM.md or APPEND_SYSTEM.md: that of the trusted project, else the user's, else nothing.

    ConfigError for a file that cannot be read.
    """
    project = [places.cwd / PROJECT_FOLDER] if places.trusted else []
    for folder in (*project, places.paths.config):
        path = folder / name
        if path.is_file():
            try:
                return path.read_text(encoding="utf-8", errors="replace").removeprefix("\ufeff").strip()
            except OSError as error:
                raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    return ""
