"""Which folders may bring their own settings and code."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from vikingpi.config.jsonfile import read_object, write_object
from vikingpi.config.paths import PROJECT_FOLDER, Paths
from vikingpi.decode import Json
from vikingpi.errors import ConfigError

_FILES = ("config.json", "SYSTEM.md", "APPEND_SYSTEM.md")
_FOLDERS = ("extensions", "prompts", "skills")
_UNREAD = ("models.json", "auth.json", "trust.json")
_FOREIGN = ("settings.json", "models.json", "mcp.json", "SYSTEM.md", "extensions", "hooks", "skills")
_TELLING = (
    r"(?im)^[ \t]*(?:export[ \t]+)?"
    r"((?:OPENVIKING|OV|VPI|PI|LITELLM|OPENAI|ANTHROPIC)_\w+|\w*_?BASE_URL|\w*_PROXY)[ \t]*="
)
_MOST_READ = 1 << 16


def is_trusted(paths: Paths, cwd: Path, override: bool | None) -> bool:
    """Tell whether `cwd` is trusted: `override` for this run, else what `trust.json` says of it or of the nearest
    folder above it, else no. ConfigError for a broken trust.json.
    """
    if override is not None:
        return override
    return remembered(paths, cwd) is True


def remembered(paths: Paths, cwd: Path) -> bool | None:
    """Return the nearest answer in `trust.json`, None if the user was never asked."""
    answers: dict[Path, bool] = {}
    for name, answer in (read_object(paths.trust_file) or {}).items():
        if isinstance(answer, bool):
            answers[_real(Path(name).expanduser())] = answer
        elif answer is not None:
            raise ConfigError(
                f"{paths.trust_file}: the answer for {name} must be true or false, not {json.dumps(answer)[:40]}",
                hint="correct the file",
            )
    here = _real(cwd)
    return next((answers[folder] for folder in (here, *here.parents) if folder in answers), None)


def remember(paths: Paths, folder: Path, trusted: bool) -> None:
    """Write an answer into `trust.json`, whole or not at all; ConfigError if it cannot be written."""
    answers: Json = {**(read_object(paths.trust_file) or {}), os.fspath(_real(folder)): trusted}
    write_object(paths.trust_file, dict(sorted(answers.items())))


def needs_trust(cwd: Path, paths: Paths, home: Path) -> tuple[str, ...]:
    """Name the settings and code, in the folder's `.vpi/` and in `.agents/`, that vpi would use if it were trusted.

    Where `.vpi/` is the user's own configuration folder there is nothing to ask of it.
    """
    names = [] if _is_own(cwd, paths) else [f"{PROJECT_FOLDER}/{name}" for name in _used(cwd / PROJECT_FOLDER)]
    shared = (folder / "skills" for folder in agents_folders(cwd, home))
    return (*names, *(f"{os.path.relpath(folder, cwd)}/" for folder in shared if _has_content(folder)))


def unread_names(cwd: Path, paths: Paths) -> tuple[str, ...]:
    """Name what lies in the folder's `.vpi/` but counts in the user's own configuration only, trusted or not."""
    folder = cwd / PROJECT_FOLDER
    return (
        () if _is_own(cwd, paths) else tuple(f"{PROJECT_FOLDER}/{name}" for name in _UNREAD if (folder / name).exists())
    )


def agents_folders(cwd: Path, home: Path) -> Iterator[Path]:
    """Yield `.agents` from the working folder up to the root of its repository; only its own without one."""
    above = (cwd, *cwd.parents)
    root = next((place for place, folder in enumerate(above) if (folder / ".git").exists()), 0)
    for folder in above[: root + 1]:
        if folder != home:
            yield folder / ".agents"


def foreign_names(cwd: Path) -> tuple[str, ...]:
    """Name what lies in a folder and would change endpoints, keys or code in programs that read it; vpi never does."""
    names = [f".pi/{name}" for name in _FOREIGN if (cwd / ".pi" / name).exists()]
    try:
        if (cwd / ".env").is_file():
            with (cwd / ".env").open("rb") as file:
                text = file.read(_MOST_READ).decode("utf-8", "replace")
            found = tuple(dict.fromkeys(re.findall(_TELLING, text)))
            names += [f".env ({', '.join(found[:4])}{', ...' if len(found) > 4 else ''})"] if found else []
    except OSError:
        pass
    return tuple(names)


def _used(folder: Path) -> Iterator[str]:
    for name in _FILES:
        if (folder / name).is_file():
            yield name
    for name in _FOLDERS:
        if _has_content(folder / name):
            yield f"{name}/"


def _has_content(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False


def _is_own(cwd: Path, paths: Paths) -> bool:
    return _real(cwd / PROJECT_FOLDER) == _real(paths.config)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
