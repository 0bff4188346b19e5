from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from openviking_fake import openviking
from vpi_lab import Lab, Tty, lab


def open_to_others(folder: Path, own: tuple[Path, ...] = ()) -> list[str]:
    """What in a folder, itself included, is not 0700 or 0600."""
    wrong: list[str] = []
    for path in (folder, *sorted(folder.rglob("*"))):
        mode = stat.S_IMODE(path.lstat().st_mode)
        right = 0o700 if path.is_dir() else 0o600
        if mode != right and not any(path == each or each in path.parents for each in own):
            wrong.append(f"{mode:o} {path.relative_to(folder.parent)}")
    return wrong


def live(runs: Lab, env: dict[str, str]) -> None:
    """All that writes: sessions, forks, command output, outbox, store, locks, history, trust, logs, memory."""
    (runs.work / "notes.md").write_text("# Notes\n\nThe gateway port is 8443.\n")
    (runs.work / ".vpi").mkdir()
    (runs.work / ".vpi" / "config.json").write_text("{}")
    for words in (
        ("-p", "RUN: seq 1 30000"),
        ("-p", "-c", "codename is ALPHA"),
        ("-p", "-c", "--name", "named", "port is P7071"),
        ("-p", "--approve", "edits", 'CALL: viking_remember {"content": "The port is 8443"}'),
        ("-p", "--session-id", "own", "hello"),
        ("-p", "--fork", "own", "hello"),
    ):
        done = runs.run(*words, env=env)
        assert done.returncode == 0, done.stderr
    for words in (("add", "The port is 8443."), ("add", "./notes.md"), ("search", "port"), ("list",)):
        runs.run("memory", *words, env=env)  # the server of these tests knows no memories
    terminal = Tty(runs, "-c", env=env)
    try:
        terminal.wait("Trust this folder?")
        terminal.send("y\r")
        terminal.wait("ctx")
        terminal.send("SAY: seen\r")
        terminal.wait("\nseen")
        terminal.send("/viking commit\r")
        terminal.wait("commit")
        terminal.send("!seq 1 30000\r")
        terminal.wait("30000")
        terminal.send("/fork\r")
        terminal.read(0.5)
        terminal.send("\r")
        terminal.wait("A fork")
        terminal.send("\x03")
        terminal.read(0.2)
        terminal.send("/export\r")
        terminal.wait(".html")
        terminal.send("\x04")
        assert terminal.end() == 0, terminal.text()
    finally:
        terminal.close()


@pytest.mark.parametrize("store", ["embedded", "openviking"])
def test_all_that_a_run_writes_is_private_under_the_widest_umask(tmp_path: Path, store: str) -> None:
    with lab(tmp_path) as runs, openviking() as server:
        runs.config(store=store)
        runs.umask = 0
        runs.home.rename(tmp_path / "settings")
        home = tmp_path / "new" / "home"
        old = os.umask(0o077)
        home.mkdir(parents=True)
        os.umask(old)
        for name in ("config.json", "models.json"):
            (tmp_path / "settings" / name).rename(home / name)
        runs.home = home
        env = {"OPENVIKING_URL": server.url, "OPENVIKING_API_KEY": "ov-key-123456"}
        live(runs, {**env, "OV_DEBUG_LOG": str(home / "debug.log")})
        names = {path.name for path in home.rglob("*")}
        assert {"outbox.db", "sessions", "locks", "mask.salt", "seal.key", "history", "tmp", "trust.json"} <= names
        assert ("store.db" in names) is (store == "embedded")
        assert open_to_others(home) == []
        assert [f"{path.stat().st_mode & 0o777:o}" for path in runs.work.glob("*.html")] == ["600"]
        for path in home.glob("*.db*"):
            path.write_bytes(b"no database " * 1000)
        for path in home.glob("*.json"):
            path.write_text("{" if path.name in ("identities.json", "routes.json") else path.read_text())
        runs.run("-p", "hello", env=env)
        runs.run("memory", "add", "x", env=env)
        assert (store != "embedded") or any(".corrupt-" in path.name for path in home.iterdir())
        assert open_to_others(home) == []


def test_the_folders_themselves_are_made_private(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        runs.umask = 0
        config = tmp_path / "config" / "vpi"
        config.mkdir(parents=True, mode=0o700)
        (runs.home / "models.json").rename(config / "models.json")
        places = {f"XDG_{name.upper()}_HOME": str(tmp_path / name) for name in ("config", "data", "state")}
        runs.env.update(places, VPI_HOME="")
        for words in (("-p", "RUN: seq 1 30000"), ("-p", "-c", "hello")):
            assert runs.run(*words).returncode == 0
        for name in ("data", "state"):
            assert open_to_others(tmp_path / name) == []
        assert list((tmp_path / "state" / "vpi" / "tmp").rglob("*.log"))


def test_files_of_a_project_get_the_mode_that_the_user_wants(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        runs.umask = 0o022
        done = runs.run("-p", 'CALL: write {"path": "a/b.txt", "content": "x"}\nRUN: touch c.txt')
        assert done.returncode == 0, done.stderr
        modes = [stat.S_IMODE((runs.work / name).stat().st_mode) for name in ("a", "a/b.txt", "c.txt")]
        assert modes == [0o755, 0o644, 0o644]
