"""`vpi doctor`: what is configured, what answers, what is pending, and how to mend it. It changes nothing."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TextIO

from vikingpi import __version__
from vikingpi.app.doctor_checks import check_embedded, check_model, check_server, pending
from vikingpi.app.doctor_packages import check_packages
from vikingpi.app.models import choose_model
from vikingpi.app.options import RunOptions
from vikingpi.app.sessions import session_folder
from vikingpi.app.stores import StoreChoice, choose_store
from vikingpi.config.load import Loaded, bypassed, load
from vikingpi.config.paths import Paths, home_of, locate
from vikingpi.config.trust import is_trusted, needs_trust, remembered
from vikingpi.errors import ConfigError, StoreRejected, VpiError
from vikingpi.llm.local import with_local_servers
from vikingpi.llm.registry import Catalog, load_catalog
from vikingpi.net import HttpTransport, Transport
from vikingpi.safetext import plain
from vikingpi.session.catalog import list_sessions
from vikingpi.values import NamedTuple

USAGE = "vpi doctor: say what is configured, what answers, what is pending, and how to mend it\n"
Level = Literal["ok", "note", "bad"]
_MARKS: dict[Level, str] = {"ok": "ok  ", "note": "note", "bad": "BAD "}


class Finding(NamedTuple):
    """One line of the report; `hint` says what to do."""

    level: Level
    subject: str
    text: str
    hint: str = ""


def run_doctor(rest: Sequence[str], env: Mapping[str, str], cwd: Path, out: TextIO) -> int:
    """Write the report; 1 where something keeps vpi from working, else 0."""
    if "--help" in rest or "-h" in rest:
        out.write(USAGE)
        return 0
    if rest:
        raise ConfigError(f"vpi doctor does not know {rest[0]}", hint="vpi doctor")
    findings = asyncio.run(examine(env, cwd))
    for one in findings:
        out.write(f"{_MARKS[one.level]}  {one.subject:<9}  {plain(one.text)}\n")
        for line in one.hint.split("\n") if one.hint else ():
            out.write(f"      {'':<9}  {plain(line)}\n")
    bad = sum(one.level == "bad" for one in findings)
    waiting = "; ".join(one.text for one in findings if one.subject == "outbox" and one.level == "note")
    verdict = f"{bad} to mend" if bad else "nothing to mend" if waiting else "all is well"
    out.write(f"\n{verdict}{f'; pending: {plain(waiting)}' if waiting else ''}\n")
    return 1 if bad else 0


async def examine(env: Mapping[str, str], cwd: Path) -> list[Finding]:
    """Look at everything, whatever is broken before it."""
    paths = locate(env)
    packages = check_packages()
    findings = [
        Finding("ok", "vpi", f"{__version__}, Python {platform.python_version()}, {platform.system()}"),
        Finding("bad" if packages.bad else "ok", "packages", packages.text, packages.hint),
        *_folders(paths),
        *_private(paths),
    ]
    transport = HttpTransport()
    try:
        loaded, found = _settings(paths, cwd, env)
        findings += found
        findings += await _model(paths, env, loaded, transport)
        if loaded is not None:
            findings += await _store(paths, cwd, env, loaded, transport)
            findings.append(_sessions(paths, cwd, loaded))
    finally:
        await transport.close()
    return [*findings, *_programs(env)]


def _folders(paths: Paths) -> Iterator[Finding]:
    for name, folder in (("config", paths.config), ("data", paths.data), ("state", paths.state)):
        nearest = next(place for place in (folder, *folder.parents) if os.access(place, os.F_OK))
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            hint = f"chmod u+rwx {nearest}, or choose another place with VPI_HOME"
            yield Finding("bad", name, f"{folder} cannot be written", hint)
        else:
            yield Finding("ok", name, str(folder) if folder == nearest else f"{folder} (not made yet)")


def _private(paths: Paths) -> Iterator[Finding]:
    for path in (paths.auth_file, paths.models_file, paths.outbox, paths.store_db):
        try:
            mode = path.stat().st_mode & 0o777
        except OSError:
            continue
        if mode & 0o077:
            yield Finding("note", "privacy", f"others can read {path} (mode {mode:o})", f"chmod 600 {path}")


def _settings(paths: Paths, cwd: Path, env: Mapping[str, str]) -> tuple[Loaded | None, list[Finding]]:
    try:
        loaded = load(paths, cwd, env, trusted=is_trusted(paths, cwd, None))
        asked, answer = needs_trust(cwd, paths, home_of(env)), remembered(paths, cwd)
    except ConfigError as error:
        return None, [_failed("settings", error)]
    findings = [Finding("note", "settings", problem) for problem in loaded.problems]
    if not findings:
        there = paths.config_file.exists()
        findings.append(Finding("ok", "settings", str(paths.config_file) if there else "the defaults (no config.json)"))
    if asked and answer is not None:
        findings.append(Finding("ok", "trust", f"{', '.join(asked)}: {'trusted' if answer else 'not trusted'}"))
    return loaded, findings


async def _model(paths: Paths, env: Mapping[str, str], loaded: Loaded | None, transport: Transport) -> list[Finding]:
    try:
        catalog = load_catalog(paths.models_file, paths.auth_file, env)
    except ConfigError as error:
        return [_failed("models", error)]
    findings = [Finding("note", "models", line) for line in catalog.notices]
    findings += [Finding("ok", "key", line) for line in keys_found(catalog)]
    local = await with_local_servers(catalog._replace(models=(), setups={}), transport)
    for provider in dict.fromkeys(model.provider for model in local.models):
        names = [model.id for model in local.models if model.provider == provider]
        findings.append(Finding("ok", "local", f"{provider} runs here: {', '.join(names[:5])}"))
    if loaded is None:
        return findings
    try:
        choice = await choose_model(RunOptions(), catalog, loaded.settings, (), transport)
    except VpiError as error:
        return [*findings, _failed("model", error)]
    answer = await check_model(transport, choice.model)
    text = f"{choice.model.provider}/{choice.model.id}: {answer.text}"
    return [*findings, Finding("bad" if answer.bad else "ok", "model", text, answer.hint)]


def keys_found(catalog: Catalog) -> Iterator[str]:
    """Name the providers that can be asked, where the key of each stands, and how many models it has."""
    for name, setup in catalog.setups.items():
        count = sum(model.provider == name for model in catalog.models)
        if setup.ready and (count or setup.key.source):
            where = setup.key.source or "no key needed"
            yield f"{name}: {where}, {count} model{'' if count == 1 else 's'}"


async def _store(
    paths: Paths, cwd: Path, env: Mapping[str, str], loaded: Loaded, transport: Transport
) -> list[Finding]:
    settings = loaded.settings
    choice = choose_store(None, settings, loaded.endpoint, bypassed=bypassed(cwd, settings.bypass_patterns))
    findings = [await _answers(choice, paths, transport)]
    if choice.kind != "off" and not settings.takeover.enabled:
        findings.append(Finding("note", "takeover", "is off: takeover.enabled is false"))
    try:
        waiting = pending(paths)
    except StoreRejected as error:
        return [*findings, _failed("outbox", error)]
    if not waiting:
        findings.append(Finding("ok", "outbox", "nothing waits for a store"))
    for identity, count in waiting:
        hint = f"vpi -c delivers what is meant for the store it uses; /viking shows the rest ({paths.outbox})"
        findings.append(
            Finding("note", "outbox", f"{count} message{' waits' if count == 1 else 's wait'} for {identity}", hint)
        )
    return findings


async def _answers(choice: StoreChoice, paths: Paths, transport: Transport) -> Finding:
    if choice.kind == "off":
        return Finding("note", "store", f"off: {choice.why or 'store is off'}")
    if choice.kind == "embedded":
        answer = await asyncio.to_thread(check_embedded, paths.store_db)
        return Finding("bad" if answer.bad else "ok", "store", answer.text, answer.hint)
    if choice.endpoint is None:
        return Finding("bad", "store", "openviking is chosen and no server is named", "set OPENVIKING_URL")
    answer = await check_server(transport, choice.endpoint)
    text = f"OpenViking {choice.endpoint.url} (from {choice.endpoint.source}): {answer.text}"
    return Finding("bad" if answer.bad else "ok", "store", text, answer.hint)


def _sessions(paths: Paths, cwd: Path, loaded: Loaded) -> Finding:
    folder = session_folder(loaded.settings.session_dir, paths, cwd)
    try:
        found = list_sessions(folder.path, folder.made_in)
    except VpiError as error:
        return _failed("sessions", error)
    return Finding("ok", "sessions", f"{len(found)} of this folder in {folder.path}")


def _programs(env: Mapping[str, str]) -> Iterator[Finding]:
    path = env.get("PATH")
    if shutil.which("bash", path=path) is None:
        yield Finding("bad", "bash", "is not on PATH", "the bash tool and !cmd need it")
    term = env.get("TERM", "")
    if term in ("", "dumb", "unknown"):
        yield Finding("note", "terminal", f"TERM is {term or 'not set'}", "the chat is a plain line mode there")
    else:
        yield Finding("ok", "terminal", f"{term}{', tmux' if env.get('TMUX') else ''}")


def _failed(subject: str, error: VpiError) -> Finding:
    return Finding("bad", subject, str(error), error.hint)
