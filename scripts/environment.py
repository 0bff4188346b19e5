#!/usr/bin/env python3
"""Make the project's virtual environment: python environment.py PROJECT VENV run|dev PYTHON

PYTHON is what the environment is made with. The project is installed in place, so that changed code needs no new
installation. A stamp in the environment holds what it was made for (the folder, pyproject.toml and the package's
version file); it is written last, so that whatever was interrupted is done again. Several processes may call this at
once: one works, the rest wait. Reads no environment variable of its own; pip's are honoured. Exits with 1 and a hint
when something is missing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

MAKING = ".vpi-making"
LOCK = "requirements-dev.lock"


class SetupError(Exception):
    """Cannot be set up; read by the user. `hint` says what to do."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


def say(text: str) -> None:
    print(f"vpi: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def only_one(venv: Path) -> Generator[None]:
    """Hold the lock beside the environment; the system frees it with the process."""
    venv.parent.mkdir(parents=True, exist_ok=True)
    with venv.with_name(venv.name + ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that sets up {venv}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def stamp_text(project: Path) -> str:
    """Give what the environment depends on; scripts/common.sh compares the same text."""
    files = (project / "pyproject.toml", project / "vikingpi" / "__init__.py")
    return f"{project}\n" + "".join(file.read_text(encoding="utf-8") for file in files)


def is_ready(venv: Path, kind: str, text: str) -> bool:
    stamp = venv / f".vpi-{kind}"
    return os.access(venv / "bin" / "python", os.X_OK) and stamp.is_file() and stamp.read_text(encoding="utf-8") == text


def works(venv: Path) -> bool:
    """Whether its Python starts, is new enough and has pip."""
    code = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    try:
        done = subprocess.run([venv / "bin" / "python", "-I", "-c", code], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def clear(venv: Path) -> None:
    """Remove what is left of an environment; refuse to touch a folder that never was one."""
    if not venv.exists():
        return
    ours = (venv / MAKING).exists() or (venv / "pyvenv.cfg").exists()
    if not venv.is_dir() or (not ours and any(venv.iterdir())):
        raise SetupError(
            f"{venv} is no virtual environment and not empty",
            "name another folder in VPI_VENV, or move that one away",
        )
    shutil.rmtree(venv)


def create(venv: Path, python: str) -> None:
    """Make an empty environment with pip in it."""
    venv.mkdir(parents=True, exist_ok=True)
    (venv / MAKING).touch()
    done = subprocess.run([python, "-I", "-m", "venv", venv], capture_output=True, text=True, check=False)
    if done.returncode or not works(venv):
        sys.stderr.write(done.stdout + done.stderr)
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise SetupError(
            f"{python} could not make a virtual environment in {venv}",
            f"it needs venv and ensurepip (Debian, Ubuntu: the package python{version}-venv)",
        )
    (venv / MAKING).unlink()


def install_locked(project: Path, venv: Path) -> None:
    """Install what the lock file names, file by file as hashed there; a file with another hash is the end.

    Where an index does not have these releases, what pyproject.toml allows is installed instead, and it is said.
    """
    lock = project / LOCK
    if not lock.is_file():
        return
    command = [venv / "bin" / "python", "-I", "-m", "pip", "install", "-qq", "--no-input", "--require-hashes"]
    options = ["--disable-pip-version-check", "-r", lock]
    done = subprocess.run(
        [*command, *options],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode and "HASHES" in done.stderr.upper():
        sys.stderr.write(done.stderr)
        raise SetupError(
            f"a package is not the one that {LOCK} names", "do not use this index; look at what it gave out"
        )
    if done.returncode:
        say(f"the releases of {LOCK} are not to be had here; installing what pyproject.toml allows")


def install(project: Path, venv: Path, kind: str) -> None:
    """Install the project in place; compat mode puts a plain path there, which costs nothing at start."""
    if kind == "dev":
        install_locked(project, venv)
    what = f"{project}[dev]" if kind == "dev" else str(project)
    command = [venv / "bin" / "python", "-I", "-m", "pip", "install", "-qq", "--no-input"]
    options = ["--disable-pip-version-check", "--config-settings", "editable_mode=compat", "--editable", what]
    done = subprocess.run([*command, *options], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if done.returncode:
        raise SetupError(
            f"pip could not install the project into {venv} (exit code {done.returncode}, its words are above)",
            "check the network and pip's settings (PIP_INDEX_URL, PIP_CERT), then try again",
        )


def make_ready(project: Path, venv: Path, kind: str, python: str) -> None:
    """Bring the environment up to date; "dev" serves "run" too."""
    with only_one(venv):
        text = stamp_text(project)
        if is_ready(venv, kind, text):
            return
        stamps = [venv / ".vpi-run", venv / ".vpi-dev"]
        with_checks = kind == "dev" or stamps[1].exists()
        if not works(venv):
            clear(venv)
            say(f"setting up {venv} (once; this can take some minutes)")
            create(venv, python)
        else:
            say(f"installing the project into {venv}")
        for stamp in stamps:
            stamp.unlink(missing_ok=True)
        install(project, venv, "dev" if with_checks else "run")
        for stamp in stamps if with_checks else stamps[:1]:
            partial = stamp.with_name(stamp.name + ".new")
            partial.write_text(text, encoding="utf-8")
            partial.replace(stamp)


def main(arguments: list[str]) -> int:
    project, venv, kind, python = Path(arguments[0]), Path(arguments[1]).absolute(), arguments[2], arguments[3]
    try:
        make_ready(project, venv, kind, python)
    except SetupError as error:
        say(f"{error}\nhint: {error.hint}")
        return 1
    except OSError as error:
        say(f"could not set up {venv}: {error}\nhint: VPI_VENV names another folder for the environment")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
