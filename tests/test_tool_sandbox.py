from __future__ import annotations

import os
import shutil
import socket
import time
from pathlib import Path

import pytest
from tool_kit import context_in, run, text_of
from vpi_lab import lab

from vikingpi.errors import ConfigError, ToolError
from vikingpi.tools.bash import BashTool
from vikingpi.tools.edit import EditTool
from vikingpi.tools.sandbox import Sandbox, make_sandbox
from vikingpi.tools.write import WriteTool

ENV = dict(os.environ)


def works() -> bool:
    try:
        make_sandbox(Path.cwd(), (), ENV, network=False)
    except ConfigError:
        return False
    return True


caged = pytest.mark.skipif(not works(), reason="bubblewrap is not installed or not allowed here")


def cage(folder: Path, *, network: bool = False) -> Sandbox:
    """A workspace with a secret folder beside it and one inside."""
    work = folder / "work"
    for path in (work / ".git" / "hooks", work / ".vpi", work / "inner", folder / "home", folder / "kept"):
        path.mkdir(parents=True, exist_ok=True)
    (folder / "home" / "auth.json").write_text("topsecret")
    (work / "inner" / "auth.json").write_text("topsecret")
    return make_sandbox(work, (folder / "home", work / "inner"), ENV, network=network)


def bash(folder: Path, command: str, *, network: bool = False, timeout: float = 20.0) -> str:
    context = context_in(folder / "work")._replace(
        temp_dir=folder / "kept", sandbox=cage(folder, network=network), bash_timeout=timeout
    )
    return text_of(run(BashTool(), context, command=command))


@caged
def test_the_workspace_can_be_written_and_nothing_else(tmp_path: Path) -> None:
    said = bash(tmp_path, "echo in > a.txt; pwd; for f in ../out.txt /usr/x ~/x; do echo out > $f; done; ls -A /tmp")
    assert (tmp_path / "work" / "a.txt").read_text() == "in\n"
    assert said.startswith(f"{tmp_path}/work\n")
    assert not (tmp_path / "out.txt").exists()
    assert said.count("Read-only file system") >= 2


@caged
def test_folders_of_the_program_are_empty_inside(tmp_path: Path) -> None:
    said = bash(tmp_path, f"cat {tmp_path}/home/auth.json inner/auth.json; ls -A {tmp_path}/home inner; true")
    assert "topsecret" not in said
    assert said.count("No such file") == 2


@caged
def test_what_would_run_outside_later_cannot_be_planted(tmp_path: Path) -> None:
    (tmp_path / "work" / ".git").mkdir(parents=True)
    (tmp_path / "work" / ".git" / "config").write_text("[core]\n")
    tries = "touch .git/hooks/pre-commit .vpi/config.json; echo x > .git/config; mv .git/config c; mv .vpi v"
    said = bash(tmp_path, f"{tries}; touch .git/index && echo index")
    assert said.count("Read-only file system") == 3
    assert said.count("Device or resource busy") == 2
    assert "index" in said
    assert list((tmp_path / "work" / ".git" / "hooks").iterdir()) == []
    assert (tmp_path / "work" / ".git" / "config").read_text() == "[core]\n"


@caged
def test_folders_of_what_runs_later_cannot_be_made(tmp_path: Path) -> None:
    cage(tmp_path)
    for name in (".git/hooks", ".vpi"):
        (tmp_path / "work" / name).rmdir()
    context = context_in(tmp_path / "work")._replace(
        temp_dir=tmp_path / "kept", sandbox=make_sandbox(tmp_path / "work", (), ENV, network=False)
    )
    for name in (".git/hooks", ".vpi"):
        (tmp_path / "work" / name).rmdir()
    text_of(run(BashTool(), context, command="mkdir -p .git/hooks .vpi; touch .git/hooks/x .vpi/x; ls .git/hooks .vpi"))
    assert [path for name in (".git/hooks", ".vpi") for path in (tmp_path / "work" / name).iterdir()] == []


@caged
@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_off_unless_allowed(tmp_path: Path, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = bash(tmp_path, f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>&1 && echo reached", network=network)
    assert ("reached" in said) is network


@caged
@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("place", ["/var/tmp", "/run"])
def test_programs_outside_are_not_reached_through_their_sockets(tmp_path: Path, place: str, network: bool) -> None:
    work = tmp_path / "work"
    work.mkdir()
    here = Path(place, f"vpi-test-{os.getpid()}.sock")
    if not os.access(here.parent, os.W_OK):
        pytest.skip("only root can make a socket there")
    reach = f"import socket; socket.socket(socket.AF_UNIX).connect({str(here)!r}); print('reached')"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(here))
        server.listen()
        try:
            said = bash(tmp_path, f'python3 -c "{reach}" 2>&1; true', network=network)
        finally:
            here.unlink()
    assert "\nreached" not in f"\n{said}"
    assert "Error" in said


@caged
def test_processes_outside_are_not_seen_and_none_stays_behind(tmp_path: Path) -> None:
    said = bash(tmp_path, f"kill -0 {os.getpid()} 2>&1; (sleep 77.25 &) ; echo $$; ls /proc | grep -c '^[0-9]'")
    assert "No such process" in said
    until = time.monotonic() + 3
    while time.monotonic() < until and "77.25" in _commands():
        time.sleep(0.05)
    assert "77.25" not in _commands()


@caged
def test_a_time_out_ends_everything_inside(tmp_path: Path) -> None:
    said = bash(tmp_path, "trap '' TERM; (trap '' TERM; sleep 78.25) & sleep 78.5", timeout=1.0)
    assert "timed out after 1 seconds" in said
    until = time.monotonic() + 4
    while time.monotonic() < until and "78." in _commands():
        time.sleep(0.05)
    assert "sleep\x0078." not in _commands()


def _commands() -> str:
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.append((entry / "cmdline").read_text())
            except OSError:
                continue
    return "\n".join(found)


def test_files_outside_of_the_workspace_are_not_written(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".vpi").mkdir(parents=True)
    (tmp_path / "out.txt").write_text("old\n")
    (work / "link").symlink_to(tmp_path)
    context = context_in(work)._replace(sandbox=Sandbox("/bin/true", work, (work / "inner",)))
    for path in ("../out.txt", str(tmp_path / "new.txt"), "link/new.txt", ".vpi/config.json", "inner/x"):
        with pytest.raises(ToolError, match="outside of the sandbox"):
            run(WriteTool(), context, path=path, content="x")
        with pytest.raises(ToolError):
            run(EditTool(), context, path=path, edits=[{"oldText": "old", "newText": "new"}])
    run(WriteTool(), context, path="a/b.txt", content="x")
    assert (work / "a" / "b.txt").read_text() == "x"
    assert (tmp_path / "out.txt").read_text() == "old\n"
    assert not (tmp_path / "new.txt").exists()


def fake(folder: Path, script: str) -> dict[str, str]:
    program = folder / "bin" / "bwrap"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {**ENV, "PATH": str(program.parent)}


def test_a_sandbox_that_does_not_work_is_said(tmp_path: Path) -> None:
    env = fake(tmp_path, "echo 'bwrap: no permissions to create a new namespace' >&2; exit 1")
    with pytest.raises(ConfigError, match="does not work here: bwrap: no permissions"):
        make_sandbox(tmp_path, (), env, network=False)


def test_a_relative_folder_of_the_path_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = fake(tmp_path, "exit 0")
    monkeypatch.chdir(tmp_path)
    found = ""
    try:
        found = make_sandbox(tmp_path, (), {**env, "PATH": "bin"}, network=False).program
    except ConfigError as error:
        assert "bwrap" in str(error)
    assert found in ("", "/usr/bin/bwrap", "/bin/bwrap")


@pytest.mark.skipif(shutil.which("bwrap", path="/usr/bin:/bin") is not None, reason="bubblewrap is installed")
def test_a_run_without_bubblewrap_says_so_and_starts_nothing(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        done = runs.run("-p", "--sandbox", "RUN: touch ran", PATH="/usr/bin:/bin")
        assert done.returncode == 2
        assert b"bubblewrap (bwrap), which is not installed" in done.stderr
        assert b"hint: install bubblewrap, or run without --sandbox" in done.stderr
        assert not (runs.work / "ran").exists()


@caged
def test_a_run_in_the_sandbox(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        done = runs.run("-p", "--sandbox", "RUN: cat $VPI_HOME/models.json; touch inside; touch /usr/outside")
        assert done.returncode == 0, done.stderr
        assert (runs.work / "inside").exists()
        assert "No such file" in runs.session_text()
        assert "Read-only file system" in runs.session_text()
        assert "model-key" not in runs.session_text()
