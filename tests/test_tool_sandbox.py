from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from patience import eventually
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


def repository(folder: Path) -> Path:
    git = "git -c user.name=a -c user.email=a@b"
    subprocess.run(f"git init -q . && {git} commit -q --allow-empty -m x", shell=True, cwd=folder, check=True)
    return folder


def caged_at(folder: Path, command: str) -> str:
    """Run one command in a cage around `folder/work` as it is."""
    work = folder / "work"
    sandbox = make_sandbox(work, (), ENV, network=False)
    context = context_in(work)._replace(temp_dir=folder / "kept", sandbox=sandbox)
    return text_of(run(BashTool(), context, command=command))


def git_outside(folder: Path) -> None:
    """What a user or a program does later, everywhere in the workspace."""
    for place in (folder, *(path.parent for path in folder.rglob(".git"))):
        for words in (
            ["status"],
            ["add", "-A"],
            ["commit", "-qm", "y", "--allow-empty"],
            ["checkout", "-q", "-b", "z"],
        ):
            who = ["-c", "user.name=a", "-c", "user.email=a@b"]
            subprocess.run(["git", *who, *words], cwd=place, capture_output=True, check=False)


SET = 'config core.fsmonitor "touch $W/ESCAPED;:"'
ESCAPES = [
    f"mv .git g; cp -r g .git; git {SET}",
    f"git {SET}; git config core.hooksPath $W/h",
    f"rm -rf .git; git init -q .; git {SET}",
    "for h in post-commit pre-commit post-checkout; do printf '#!/bin/sh\ntouch $W/ESCAPED' > .git/hooks/$h; "
    "chmod +x .git/hooks/$h; done",
    f"git init -q e; cd e; git {SET}; cd ..; mv e/.git .e; echo ../.e > .git/commondir",
    f"echo '[core]\nfsmonitor=x' > .git/config.worktree; cp -r .git .g; git --git-dir=.g {SET}; "
    "rm -rf .git; echo 'gitdir: .g' > .git",
    f"mv sub/nested s; mkdir -p sub/nested; cp -r s/.git sub/nested/.git; cd sub/nested; git {SET}",
    f"mv sub s; mkdir -p sub/nested; cp -r s/nested/.git sub/nested/.git; cd sub/nested; git {SET}",
    f"cd sub/nested; mv .git g; cp -r g .git; git {SET}",
    f"cd sub/nested; git {SET}; echo x > .git/hooks/post-commit",
    f"cd apart; git {SET}; cd ..; git --git-dir=store {SET}; mv store s2; cp -r s2 store; git --git-dir=store {SET}",
]


@caged
@pytest.mark.parametrize("command", ESCAPES)
def test_git_outside_runs_nothing_that_a_command_left(tmp_path: Path, command: str) -> None:
    work = tmp_path / "work"
    for folder in (work, work / "sub" / "nested", work / "apart"):
        folder.mkdir(parents=True)
        repository(folder)
    subprocess.run(["git", "init", "-q", "--separate-git-dir=../store", "."], cwd=work / "apart", check=True)
    caged_at(tmp_path, f"W={work}; {command}")
    git_outside(work)
    assert not (work / "ESCAPED").exists()


@caged
def test_a_repository_that_a_command_makes_is_not_run_from_the_one_around_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    repository(work)
    who = "git -c user.name=a -c user.email=a@b"
    made = f"git init -q new; cd new; {who} commit -q --allow-empty -m x; git {SET}; cd ..; git add new"
    caged_at(tmp_path, f"W={work}; {made}")
    subprocess.run(["git", "status"], cwd=work, capture_output=True, check=True)
    assert (work / "new" / ".git").is_dir()
    assert not (work / "ESCAPED").exists()


@caged
@pytest.mark.parametrize(
    "command", ["mkdir -p .git/hooks; echo x > .git/hooks/post-commit", f"git init -q .; git {SET}"]
)
def test_no_repository_is_made_of_a_folder_that_is_none(tmp_path: Path, command: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    caged_at(tmp_path, f"W={work}; {command}; mv .git x; rm -rf .git; mkdir -p .vpi; echo x > .vpi/config.json")
    assert list((work / ".git").iterdir()) == []
    assert list((work / ".vpi").iterdir()) == []
    assert not (work / "x").exists()


@caged
def test_what_git_reads_can_be_read_but_not_written(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    repository(tmp_path / "work")
    (tmp_path / "work" / ".vpi").mkdir()
    said = caged_at(tmp_path, "git log --format=%s; git status --short; touch .git/index .vpi/x; mv .git c; mv .vpi v")
    assert said.startswith("x\n")
    assert said.count("Read-only file system") == 2
    assert said.count("Device or resource busy") == 2


@caged
def test_a_secret_folder_beside_a_nested_repository_stays_hidden(tmp_path: Path) -> None:
    nested = tmp_path / "work" / "inner" / "nested"
    beside = tmp_path / "work" / "sub" / "nested"
    for folder in (nested, beside):
        folder.mkdir(parents=True)
        repository(folder)
    (beside.parent / "secret").mkdir()
    (beside.parent / "secret" / "key").write_text("topsecret")
    hidden = (tmp_path / "work" / "inner", beside.parent / "secret")
    sandbox = make_sandbox(tmp_path / "work", hidden, ENV, network=False)
    context = context_in(tmp_path / "work")._replace(temp_dir=tmp_path / "kept", sandbox=sandbox)
    said = text_of(run(BashTool(), context, command="cat sub/secret/key; ls -A inner sub/secret; true"))
    assert "topsecret" not in said
    assert "nested" not in said


def test_a_repository_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".git").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match=r"\.git is a link|bwrap|bubblewrap"):
        make_sandbox(tmp_path / "work", (), ENV, network=False)


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


SLEEP = f"77.{os.getpid()}"  # seconds, by which this run of the tests knows its own


@caged
def test_processes_outside_are_not_seen_and_none_stays_behind(tmp_path: Path) -> None:
    said = bash(tmp_path, f"kill -0 {os.getpid()} 2>&1; (sleep {SLEEP} &) ; echo $$; ls /proc | grep -c '^[0-9]'")
    assert "No such process" in said
    assert eventually(lambda: SLEEP not in _commands())


@caged
def test_nothing_is_said_to_run_on_when_the_cage_is_gone(tmp_path: Path) -> None:
    said = [
        bash(tmp_path, command) for command in ["true"] * 12 + [f"sleep {SLEEP} & true", f"setsid sleep {SLEEP} & true"]
    ]
    assert set(said) == {"(no output)"}
    assert eventually(lambda: SLEEP not in _commands())


@caged
def test_a_time_out_ends_everything_inside(tmp_path: Path) -> None:
    said = bash(tmp_path, f"trap '' TERM; (trap '' TERM; sleep {SLEEP}) & sleep {SLEEP}", timeout=1.0)
    assert "timed out after 1 seconds" in said
    assert eventually(lambda: SLEEP not in _commands())


def _commands() -> str:
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.append((entry / "cmdline").read_text(errors="replace"))
            except OSError:
                continue
    return "\n".join(found)


def test_files_outside_of_the_workspace_are_not_written(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".vpi").mkdir(parents=True)
    (tmp_path / "out.txt").write_text("old\n")
    (work / "link").symlink_to(tmp_path)
    context = context_in(work)._replace(sandbox=Sandbox("/bin/true", work, (work / "inner",), False, (work / "store",)))
    closed = ("../out.txt", str(tmp_path / "new.txt"), "link/new.txt", ".vpi/config.json", "inner/x")
    (work / "hooks").symlink_to(work / ".git" / "hooks")
    of_git = (
        ".git/config",
        ".git/hooks/post-commit",
        ".git",
        "a/.git/config",
        "a/../.git/index",
        "hooks/x",
        "store/config",
    )
    for path in (*closed, *of_git):
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
