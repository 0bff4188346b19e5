"""What a user and a trusted project bring as files: prompt templates, skills, SYSTEM.md and APPEND_SYSTEM.md."""

from __future__ import annotations

from pathlib import Path

from vikingpi.agent.templates import Library, find_skills, find_templates
from vikingpi.config.paths import PROJECT_FOLDER, Paths
from vikingpi.config.trust import agents_folders
from vikingpi.errors import ConfigError
from vikingpi.values import NamedTuple

# A folder full of foreign files shall not push everything else off the screen.
MOST_NOTICES = 5


class Places(NamedTuple):
    """Where to look; a project that is not trusted brings nothing."""

    paths: Paths
    cwd: Path
    home: Path
    trusted: bool


def find_library(places: Places) -> Library:
    """Find templates and skills; those of the project come before the user's."""
    notices: list[str] = []
    project = [places.cwd / PROJECT_FOLDER] if places.trusted else []
    templates = find_templates((folder / "prompts" for folder in (*project, places.paths.config)), notices.append)
    shared = list(agents_folders(places.cwd, places.home)) if places.trusted else []
    folders = [*project, *shared, places.paths.config, places.home / ".agents"]
    skills = find_skills((folder / "skills" for folder in folders), notices.append)
    left = len(notices) - MOST_NOTICES
    if left > 0:
        notices[MOST_NOTICES:] = [f"so it is with {left} more prompts and skills"]
    return Library(templates, skills, tuple(notices))


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
