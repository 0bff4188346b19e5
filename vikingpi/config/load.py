"""Settings from config.json, a trusted project, the environment and flags; the later one wins."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from vikingpi.config.apply import Outcome, apply, field_name, fields_of, from_text
from vikingpi.config.endpoint import (
    Endpoint,
    Layer,
    choose,
    environment_layer,
    file_layers,
    held_back,
    settings_layer,
)
from vikingpi.config.jsonfile import read_object
from vikingpi.config.model import OpenViking, Settings
from vikingpi.config.paths import PROJECT_FOLDER, Paths, home_of
from vikingpi.config.trust import foreign_names, needs_trust, unread_names
from vikingpi.decode import Json, as_dict
from vikingpi.errors import ConfigError
from vikingpi.values import NamedTuple

__all__ = ["Endpoint", "Loaded", "bypassed", "described", "load", "peer_of"]

_ENVIRONMENT = {
    "OPENVIKING_PEER_ID": "peerId",
    "OPENVIKING_WORKSPACE_PEER": "workspacePeer",
    "OPENVIKING_RECALL_PEER_SCOPE": "recallPeerScope",
    "VPI_SESSION_DIR": "sessionDir",
}
_CAPTURE = ("captureAssistantTurns", "captureToolResults")
_PEER = re.compile(r"[A-Za-z0-9_.-]*@?[A-Za-z0-9_.-]+")
_UNSAFE = re.compile(r"[^A-Za-z0-9]")
PEER_LENGTH = 255
_MOST_LISTED = 1 << 20


class Loaded(NamedTuple):
    """`endpoint` is None where no OpenViking server is named; `problems` has one line for everything wrong.

    `sources` says of each dotted key that was given where its value stands.
    """

    settings: Settings
    endpoint: Endpoint | None
    problems: tuple[str, ...]
    sources: Mapping[str, str] = {}


def load(
    paths: Paths,
    cwd: Path,
    env: Mapping[str, str],
    *,
    trusted: bool,
    overrides: Json | None = None,
) -> Loaded:
    """Read all settings. `overrides` come from flags and have the shape of config.json.

    ConfigError: config.json, or the project's own where it is trusted, is broken or unreadable; a flag has a bad
    value.
    """
    settings = Settings()
    problems: list[str] = []
    given: dict[str, str] = {}
    layers: list[Layer] = []
    for values, source, is_project in _files(paths, cwd, env, problems, trusted=trusted):
        own = apply(Settings(), values, source).settings.openviking
        layer, more = settings_layer(own, source, is_project=is_project)
        layers.insert(0, layer)
        settings = _take(apply(settings, values, source), problems, given, source)
        problems += more
    for name, key in _ENVIRONMENT.items():
        if text := env.get(name, "").strip():
            value = from_text(fields_of(Settings)[field_name(key)], text)
            settings = _take(apply(settings, {key: value}, name), problems, given, name)
    if overrides:
        settings = _flags(settings, overrides, given)
    environment, env_problems = environment_layer(env)
    foreign, file_problems = file_layers(env)
    problems += (*env_problems, *file_problems)
    endpoint, peer = choose((environment, *layers, *foreign))
    problems += held_back((environment, *layers), endpoint)
    settings = _with_endpoint(settings, endpoint, peer)
    settings = _with_capture(settings, given, problems)
    return Loaded(settings, endpoint, tuple(dict.fromkeys(problems)), given)


def peer_of(cwd: Path, settings: Settings, env: Mapping[str, str]) -> str:
    """Return the peer id to work under: the configured one, else the folder's path as a word, else none."""
    named = env.get("OPENVIKING_PEER_ID", "").strip() or settings.peer_id
    if named:
        return named[:PEER_LENGTH] if _PEER.fullmatch(named) and named not in (".", "..") else _slug(named)
    return _slug(str(cwd)) if settings.workspace_peer else ""


def bypassed(cwd: Path, patterns: Sequence[str]) -> bool:
    """Tell whether one of `bypassPatterns` covers the folder.

    A path covers everything below it. `*` and `?` stand for a part of a name, `**` for any number of folders; a
    pattern that begins with neither `/` nor `~` may begin at any folder.
    """
    folders = {str(cwd.absolute()), os.path.realpath(cwd)}
    return any(
        _covers(pattern.strip()).fullmatch(folder) for pattern in patterns if pattern.strip() for folder in folders
    )


def _files(
    paths: Paths, cwd: Path, env: Mapping[str, str], problems: list[str], *, trusted: bool
) -> Iterator[tuple[Json, str, bool]]:
    values = read_object(paths.config_file)
    if values is not None:
        yield values, str(paths.config_file), False
    asked = needs_trust(cwd, paths, home_of(env))
    if unread := unread_names(cwd, paths):
        problems.append(f"{cwd}: vpi does not read {', '.join(unread)}; they count in {paths.config}")
    project = cwd / PROJECT_FOLDER / "config.json"
    if not trusted and (foreign := foreign_names(cwd)):
        problems.append(f"{cwd}: vpi does not read {', '.join(foreign)}")
    if not asked:
        return
    if not trusted:
        problems.append(f"{cwd} is not trusted; ignored: {', '.join(described(cwd, asked))} (--trust uses them)")
        return
    values = read_object(project)
    if values is not None:
        yield values, str(project), True


def described(cwd: Path, names: Sequence[str]) -> Iterator[str]:
    """Name what an untrusted folder brings, with the keys of its settings."""
    project = cwd / PROJECT_FOLDER / "config.json"
    for name in names:
        keys: list[str] = []
        if name.endswith("/config.json"):
            try:
                keys = list(_keys(read_object(project) or {})) if project.stat().st_size <= _MOST_LISTED else []
            except (ConfigError, OSError):
                keys = []
        more = ", ..." if len(keys) > 8 else ""
        yield f"{name} ({', '.join(keys[:8])}{more})" if keys else name


def _keys(values: Json) -> Iterator[str]:
    for key, value in values.items():
        inside = as_dict(value)
        if inside:
            yield from (f"{key}.{inner}" for inner in inside)
        else:
            yield key


def _take(outcome: Outcome, problems: list[str], given: dict[str, str], source: str) -> Settings:
    problems += outcome.problems
    given.update(dict.fromkeys(outcome.given, source))
    return outcome.settings


def _flags(settings: Settings, overrides: Json, given: dict[str, str]) -> Settings:
    outcome = apply(settings, overrides, "command line")
    if outcome.problems:
        raise ConfigError(outcome.problems[0], hint="vpi --help lists the flags and their values")
    given.update(dict.fromkeys(outcome.given, "command line"))
    return outcome.settings


def _with_endpoint(settings: Settings, endpoint: Endpoint | None, peer: str) -> Settings:
    if endpoint is not None:
        settings = settings._replace(
            openviking=OpenViking(
                account=endpoint.account, api_key=endpoint.api_key, url=endpoint.url, user=endpoint.user
            )
        )
    return settings._replace(peer_id=settings.peer_id or peer)


def _with_capture(settings: Settings, given: Mapping[str, str], problems: list[str]) -> Settings:
    """Takeover needs answers and tool results; without it tool results are captured on request only."""
    if not (settings.enabled and settings.takeover.enabled):
        asked = "captureToolResults" in given and settings.capture_tool_results
        return settings._replace(capture_tool_results=asked)
    off = [key for key in _CAPTURE if not getattr(settings, field_name(key))]
    problems += [f"{key} is true while takeover is on; false is ignored" for key in off]
    return settings._replace(capture_assistant_turns=True, capture_tool_results=True)


def _slug(text: str) -> str:
    return _UNSAFE.sub("-", text)[:PEER_LENGTH]


def _covers(pattern: str) -> re.Pattern[str]:
    if pattern == "~" or pattern.startswith("~/"):
        pattern = f"{Path.home()}{pattern[1:]}"
    if len(pattern) > 1:
        pattern = pattern.removesuffix("/**").rstrip("/") or "/"
    if not pattern.startswith(("/", "**/")):
        pattern = f"**/{pattern}"
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    glob = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    body = "".join(glob.get(piece, re.escape(piece)) for piece in pieces)
    return re.compile(f"/?{body}(?:/.*)?" if pattern != "/" else "/.*", re.DOTALL)
