import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"

# Stands for the Python of an environment, and for the one that makes it.
STUB_PYTHON = """#!/bin/sh
case "$*" in
  *"-m venv "*) for folder; do :; done; mkdir "$folder/bin"; cp "$0" "$folder/bin/python"; : >"$folder/pyvenv.cfg";;
  *environment.py*) exec "$REAL_PYTHON" "$@";;
  *"pip install"*) [ -z "$PIP_FAILS" ] || { echo "ERROR: no setuptools" >&2; exit 3; }
    echo "$*" >>"$STUB_LOG"; sleep 0.1; printf '#!/bin/sh\\necho "vpi $* in $PWD"\\n' >"${0%/*}/vpi"
    chmod +x "${0%/*}/vpi";;
esac
"""


class Place(NamedTuple):
    project: Path
    venv: Path
    log: Path
    env: dict[str, str]

    def pip_calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def vpi(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.project / "scripts" / "vpi", *arguments],
            cwd=cwd or self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def stub_python(path: Path) -> Path:
    path.write_text(STUB_PYTHON)
    path.chmod(0o755)
    return path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    project = tmp_path / "the project"
    (project / "vikingpi").mkdir(parents=True)
    (project / "vikingpi" / "__init__.py").write_text('__version__ = "1"\n')
    (project / "pyproject.toml").write_text("[project]\nname = 'p'\nversion = '1'\n\n")
    shutil.copytree(SCRIPTS, project / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    log = tmp_path / "pip.log"
    env = {**os.environ, "STUB_LOG": str(log), "REAL_PYTHON": sys.executable, "PIP_FAILS": ""}
    env.pop("VPI_VENV", None)
    env["VPI_PYTHON"] = str(stub_python(tmp_path / "python"))
    return Place(project, project / ".venv", log, env)


def working_venv(venv: Path) -> None:
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("")
    stub_python(venv / "bin" / "python")


def test_installs_once_and_then_only_runs(place: Place, tmp_path: Path) -> None:
    working_venv(place.venv)
    first, second = place.vpi("a b", cwd=tmp_path), place.vpi("c", cwd=tmp_path)
    assert (first.stdout, second.stdout) == (f"vpi a b in {tmp_path}\n", f"vpi c in {tmp_path}\n")
    assert second.stderr == ""
    assert len(place.pip_calls()) == 1
    assert place.pip_calls()[0].endswith(f"--editable {place.project}")


@pytest.mark.parametrize("name", ["pyproject.toml", "vikingpi/__init__.py"])
def test_installs_again_when_the_project_changed(place: Place, name: str) -> None:
    working_venv(place.venv)
    place.vpi()
    with (place.project / name).open("a") as file:
        file.write("# more\n")
    assert [place.vpi().returncode, place.vpi().returncode] == [0, 0]
    assert len(place.pip_calls()) == 2


def test_installs_again_when_the_folder_moved(place: Place, tmp_path: Path) -> None:
    working_venv(place.venv)
    place.vpi()
    moved = place._replace(project=place.project.rename(tmp_path / "moved"))
    assert moved.vpi().returncode == 0
    assert moved.pip_calls()[1].endswith(f"--editable {tmp_path / 'moved'}")


def test_checks_stay_installed_when_the_program_is_installed_again(place: Place) -> None:
    working_venv(place.venv)
    make = [sys.executable, "-I", place.project / "scripts" / "environment.py", place.project, place.venv]
    subprocess.run([*make, "dev", place.env["VPI_PYTHON"]], env=place.env, check=True, capture_output=True)
    (place.project / "pyproject.toml").write_text("# other\n")
    place.vpi()
    assert [call.rpartition(" ")[2] for call in place.pip_calls()] == ["project[dev]", "project[dev]"]


def test_two_at_once_install_once(place: Place) -> None:
    working_venv(place.venv)
    runs = [
        subprocess.Popen(
            [place.project / "scripts" / "vpi"], env=place.env, stderr=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(3)
    ]
    for run in runs:
        run.communicate(timeout=60)
    assert [run.returncode for run in runs] == [0, 0, 0]
    assert len(place.pip_calls()) == 1


def test_runs_through_a_symbolic_link(place: Place, tmp_path: Path) -> None:
    working_venv(place.venv)
    link = tmp_path / "link"
    link.symlink_to("the project/scripts/vpi")
    done = subprocess.run([link, "x"], cwd="/", env=place.env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "vpi x in /\n"


def test_makes_the_environment_where_there_is_none(place: Place) -> None:
    done = place.vpi("a")
    assert done.stdout == f"vpi a in {place.project}\n"
    assert f"vpi: setting up {place.venv} (once; this can take some minutes)\n" in done.stderr
    assert not (place.venv / ".vpi-making").exists()


def test_a_half_made_environment_is_made_anew(place: Place) -> None:
    (place.venv / "bin").mkdir(parents=True)
    (place.venv / ".vpi-making").write_text("")
    (place.venv / "leftover").write_text("")
    assert place.vpi().returncode == 0
    assert not (place.venv / "leftover").exists()


def test_an_environment_whose_python_is_gone_is_made_anew(place: Place, tmp_path: Path) -> None:
    working_venv(place.venv)
    place.vpi()
    (place.venv / "bin" / "python").unlink()
    (place.venv / "bin" / "python").symlink_to(tmp_path / "gone")
    assert place.vpi().returncode == 0
    assert len(place.pip_calls()) == 2


def test_a_failed_installation_says_why_and_is_tried_again(place: Place) -> None:
    place.env["PIP_FAILS"] = "1"
    done = place.vpi()
    assert done.returncode == 1
    assert "ERROR: no setuptools\nvpi: pip could not install the project" in done.stderr
    assert "\nhint: check the network" in done.stderr
    assert "Traceback" not in done.stderr
    place.env["PIP_FAILS"] = ""
    assert place.vpi().returncode == 0


def test_a_folder_that_is_no_environment_is_left_alone(place: Place, tmp_path: Path) -> None:
    precious = tmp_path / "home"
    precious.mkdir()
    (precious / "letter.txt").write_text("dear")
    place.env["VPI_VENV"] = str(precious)
    done = place.vpi()
    assert done.returncode == 1
    assert f"vpi: {precious} is no virtual environment and not empty\nhint: " in done.stderr
    assert [path.name for path in precious.iterdir()] == ["letter.txt"]


def test_says_when_there_is_no_python_that_is_new_enough(place: Place, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "env", "readlink"):
        (tools / name).symlink_to(shutil.which(name) or "")
    old = tools / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 || exit 1\n')
    old.chmod(0o755)
    place.env.pop("VPI_PYTHON")
    place.env["PATH"] = str(tools)
    done = place.vpi()
    assert done.returncode == 1
    assert done.stderr.startswith("vpi: no Python 3.11 or newer was found (python3 is Python 3.9.2)\nhint: ")
