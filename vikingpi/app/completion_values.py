"""What completion scripts ask for when Tab is pressed: models, providers and sessions, with a word on each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from vikingpi.app.sessions import session_folder
from vikingpi.commands.model import about_model, name_of
from vikingpi.commands.resume import ago
from vikingpi.config.load import load
from vikingpi.config.paths import locate
from vikingpi.llm.registry import Catalog, load_catalog
from vikingpi.safetext import one_line
from vikingpi.session.catalog import list_sessions

MOST_SESSIONS = 50
Values = Iterable[tuple[str, str]]


def models(env: Mapping[str, str], cwd: Path) -> Values:
    """Those that can be asked; all where none can."""
    catalog = _catalog(env)
    return [(name_of(model), about_model(model)) for model in catalog.usable or catalog.models]


def providers(env: Mapping[str, str], cwd: Path) -> Values:
    """Every provider, those that can be asked first."""
    setups = sorted(_catalog(env).setups.values(), key=lambda setup: not setup.ready)
    return [(setup.name, "" if setup.ready else "no key") for setup in setups]


def sessions(env: Mapping[str, str], cwd: Path) -> Values:
    """The newest sessions of the folder."""
    paths = locate(env)
    folder = session_folder(load(paths, cwd, env, trusted=False).settings.session_dir, paths, cwd)
    now = time.time()
    return [
        (info.id, f"{ago(now - info.mtime)}: {one_line(info.name or info.first_text, 60)}")
        for info in list_sessions(folder.path, folder.made_in, MOST_SESSIONS)
    ]


VALUES: dict[str, Callable[[Mapping[str, str], Path], Values]] = {
    "models": models,
    "providers": providers,
    "sessions": sessions,
}


def _catalog(env: Mapping[str, str]) -> Catalog:
    paths = locate(env)
    return load_catalog(paths.models_file, paths.auth_file, env)
