"""An optional cage for commands: bubblewrap, with only the workspace writable and the network off.

The whole file system is there to be read, except vpi's own folders; `/tmp` is empty and each command's own; processes
outside are not seen, nor are their sockets, such as those of Docker and the session bus, through which they could be
made to run something; what a command leaves in the background ends with it.

git runs what a repository's settings, hooks, common folder and recorded submodules name, so the `.git` of the workspace
and of the repositories that were in it at the start can only be read, and what it stands in cannot be renamed.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from vikingpi.errors import ConfigError
from vikingpi.values import NamedTuple

_PROGRAM = "bwrap"
_PROBE_SECONDS = 10.0
_GIT = ".git"
_KEPT_AS_IS = (_GIT, ".vpi")
_RUN = ("/run", "/var/run")
_MOST_FILES = 5000
_MOST_FOLDERS = 20_000
_LONGEST_POINTER = 4096
_HINT = "install bubblewrap, or run without --sandbox"


class Sandbox(NamedTuple):
    """`hidden` folders are empty inside, `repositories` only read; paths are real and absolute."""

    program: str
    workspace: Path
    hidden: tuple[Path, ...]
    network: bool = False
    repositories: tuple[Path, ...] = ()

    def prefix(self, cwd: Path, readable: Path) -> tuple[str, ...]:
        """Give what stands before a command; `readable` is shown although it lies in a hidden folder."""
        words = [self.program, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
        words += self._hide(inside=False)
        words += ["--bind", str(self.workspace), str(self.workspace)]
        words += self._keep()
        words += self._hide(inside=True)
        for name in _sockets():
            if not self._is_own(Path(name)):
                words += ["--ro-bind", "/dev/null", name]
        words += ["--ro-bind-try", str(readable), str(readable)]
        words += ["--unshare-all", *(["--share-net"] if self.network else []), "--die-with-parent"]
        return (*words, "--chdir", str(cwd), "--")

    def at(self, workspace: Path) -> Sandbox:
        """Give the same cage around another workspace; ConfigError where its repositories cannot be kept."""
        real = Path(os.path.realpath(workspace))
        return self if real == self.workspace else self._replace(workspace=real, repositories=_repositories(real))

    def allows(self, path: Path) -> bool:
        """Tell whether a file may be written: what is inside of the workspace once all links are followed."""
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self.workspace) or _GIT in real.relative_to(self.workspace).parts:
            return False
        closed = [self.workspace / name for name in _KEPT_AS_IS]
        closed += [folder for folder in (*self.hidden, *self.repositories) if self._is_inside(folder)]
        return not any(real.is_relative_to(folder) for folder in closed)

    def _keep(self) -> Iterator[str]:
        """Mount what must stay; what is a mount cannot be renamed or removed, nor can the folders that lead to it."""
        kept = dict.fromkeys([*(self.workspace / name for name in _KEPT_AS_IS), *self.repositories])
        there = [path for path in kept if path.exists()]
        leading = {
            folder for path in there for folder in path.parents if self._is_inside(folder) and folder not in kept
        }
        for folder in sorted(leading):
            if not any(folder.is_relative_to(path) for path in there):
                yield from ("--bind", str(folder), str(folder))
        for path in sorted(there):
            yield from ("--ro-bind", str(path), str(path))
        for path in (self.workspace / name for name in _KEPT_AS_IS):
            if path not in there:  # or a command would make it
                yield from ("--tmpfs", str(path), "--remount-ro", str(path))

    def _is_inside(self, folder: Path) -> bool:
        return folder.is_relative_to(self.workspace) and folder != self.workspace

    def _is_own(self, path: Path) -> bool:
        """Whether a path is in the workspace or in what is empty inside."""
        return any(path.is_relative_to(folder) for folder in (self.workspace, Path("/tmp"), *self.hidden))

    def _hide(self, *, inside: bool) -> Iterator[str]:
        for folder in self.hidden:
            if folder.is_dir() and folder != self.workspace and self._is_inside(folder) is inside:
                yield from ("--tmpfs", str(folder))


def _sockets() -> list[str]:
    """List the sockets that have a path: those of this network, and those that a container may have been given."""
    found: set[str] = set()
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - read each time
            found.update(line.rstrip("\n").split(maxsplit=7)[7] for line in file if " /" in line)
    except OSError:
        pass
    left = _MOST_FILES
    for top in _RUN:
        for folder, _, names in os.walk(top):
            found.update(f"{folder}/{name}" for name in names[: max(0, left)])
            left -= len(names)
    return sorted({os.path.realpath(name) for name in found if name.startswith("/") and _is_socket(name)})


def _is_socket(name: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(name).st_mode)
    except (OSError, ValueError):
        return False


def _repositories(workspace: Path) -> tuple[Path, ...]:
    """List what git reads settings from in a workspace; ConfigError for what cannot be kept as it is."""
    found: list[Path] = []
    for at, (folder, names, files) in enumerate(os.walk(workspace)):
        if _GIT in names or _GIT in files:
            path = Path(folder, _GIT)
            if path.is_symlink():
                raise ConfigError(
                    f"--sandbox: {path} is a link, and what it leads to could be exchanged",
                    hint="run without --sandbox",
                )
            found += [path, *_pointed_at(path, workspace)]
            names[:] = [name for name in names if name != _GIT]
        if at == _MOST_FOLDERS:
            break
    return tuple(found)


def _pointed_at(path: Path, workspace: Path) -> Iterator[Path]:
    """Yield the folder that a `.git` file names, where it is in the workspace."""
    try:
        with path.open("rb") as file:
            text = os.fsdecode(file.read(_LONGEST_POINTER))
    except OSError:
        return
    word, _, name = text.partition("gitdir:")
    real = Path(os.path.realpath(path.parent / name.strip()))
    if not word and name and real.is_dir() and real != workspace and real.is_relative_to(workspace):
        yield real


def make_sandbox(workspace: Path, hidden: Sequence[Path], env: Mapping[str, str], *, network: bool) -> Sandbox:
    """Find bubblewrap and try it; ConfigError, which says why, when commands cannot be caged here."""
    if not sys.platform.startswith("linux"):
        raise ConfigError("--sandbox needs bubblewrap, which is for Linux only", hint="run without --sandbox")
    program = _find(env)
    if not program:
        raise ConfigError("--sandbox needs bubblewrap (bwrap), which is not installed", hint=_HINT)
    real = Path(os.path.realpath(workspace))
    folders = tuple(dict.fromkeys(Path(os.path.realpath(folder)) for folder in hidden))
    sandbox = Sandbox(program, real, folders, network, _repositories(real))
    try:
        done = subprocess.run(
            [*sandbox.prefix(real, real), "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
            env=dict(env),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"--sandbox: {program} cannot be run: {error}", hint=_HINT) from error
    if done.returncode != 0:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[:300] or f"exit code {done.returncode}"
        raise ConfigError(f"--sandbox: bubblewrap does not work here: {said}", hint="run without --sandbox")
    return sandbox


def _find(env: Mapping[str, str]) -> str:
    folders = [*(name for name in env.get("PATH", "").split(":") if name.startswith("/")), "/usr/bin", "/bin"]
    return next((f"{name}/{_PROGRAM}" for name in folders if os.access(f"{name}/{_PROGRAM}", os.X_OK)), "")
