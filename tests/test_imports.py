import json
import os
import re
import site
import subprocess
import sys
import sysconfig
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import model_server
import pytest
from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parent.parent

RUN = """
import os, sys
sys.argv = ["vpi", *os.environ["TEST_ARGUMENTS"].splitlines()]
from vikingpi.cli import main
try:
    main()
finally:
    with open(os.environ["TEST_REPORT"], "w") as report:
        report.write("\\n".join(sys.modules))
"""


def run_python(code: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENVIKING_", "VPI_"))}
    places = {"HOME": str(folder), "VPI_HOME": str(folder / "vpi"), "PYTHONPATH": str(PROJECT)}
    return subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", code],
        cwd=folder,
        env={**kept, **places, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def modules_of(folder: Path, *arguments: str) -> tuple[str, frozenset[str]]:
    report = folder / "modules"
    done = run_python(RUN, folder, TEST_ARGUMENTS="\n".join(arguments), TEST_REPORT=str(report))
    assert done.returncode == 0, done.stderr
    return done.stdout, frozenset(report.read_text().splitlines())


@pytest.fixture
def model_url() -> Iterator[str]:
    server = model_server.serve(0, None)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


# Each module costs about 0.3 ms of every one-shot run. Raise this only for what each of them needs, with a look at
# `scripts/bench one-shot`.
MOST_OWN_MODULES = 190


def own_modules(loaded: frozenset[str]) -> set[str]:
    return {name for name in loaded if name.partition(".")[0] == "vikingpi"}


def foreign(loaded: frozenset[str]) -> set[str]:
    """Give the packages that are neither Python's nor the project's."""
    own = {"vikingpi", "__main__", "_distutils_hack"}
    return {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names) - own


def classes_of(loaded: frozenset[str]) -> set[str]:
    """Give the project's modules among these that define dataclasses, each of which costs 0.6 ms at import."""
    found: set[str] = set()
    for name in loaded:
        path = PROJECT / Path(*name.split("."))
        files = [path.with_suffix(".py"), path / "__init__.py"]
        found |= {name for file in files if file.is_file() and "@dataclass" in file.read_text(encoding="utf-8")}
    return found


def configure(home: Path, url: str, api: str = "openai-completions") -> None:
    models: list[dict[str, Any]] = [{"id": "scripted", "contextWindow": 128000, "maxTokens": 4096}]
    provider = {"baseUrl": url, "api": api, "apiKey": "k", "models": models}
    home.mkdir()
    (home / "models.json").write_text(json.dumps({"providers": {"local": provider}}))


def test_the_version_needs_next_to_nothing(tmp_path: Path) -> None:
    output, loaded = modules_of(tmp_path, "--version")
    assert re.fullmatch(r"vpi \d+\.\d+\.\d+\n", output)
    assert foreign(loaded) == set()
    assert own_modules(loaded) == {"vikingpi", "vikingpi.cli"}
    assert not loaded & {"asyncio", "re", "typing", "json"}


@pytest.mark.parametrize("api", ["openai-completions", "anthropic-messages"])
def test_one_shot_stays_light(tmp_path: Path, model_url: str, api: str) -> None:
    configure(tmp_path / "vpi", model_url, api)
    output, loaded = modules_of(tmp_path, "-p", "SAY: hello to you")
    assert output == "hello to you\n"
    assert foreign(loaded) == {"anyio", "certifi", "h11", "httpcore", "httpx", "idna"}
    assert len(own_modules(loaded)) <= MOST_OWN_MODULES
    assert not loaded & {
        "httpx._main",
        "httpcore._sync.http2",
        "importlib.metadata",
        "uuid",
        "platform",
        "configparser",
    }
    assert classes_of(loaded) == set()


def test_help_needs_only_the_command_line_library(tmp_path: Path) -> None:
    _, loaded = modules_of(tmp_path, "--help")
    assert foreign(loaded) == {"annotated_doc", "shellingham", "typer"}
    assert "asyncio" not in loaded


COLLECTOR = """
import gc, sys
seen = []

def look(event, arguments):
    if event == "socket.connect":
        seen.append((gc.isenabled(), gc.get_freeze_count() > 0))

sys.addaudithook(look)
sys.argv = ["vpi", "-p", "hello"]
from vikingpi.cli import main
try:
    main()
finally:
    print(seen, gc.isenabled())
"""


def test_garbage_is_collected_while_the_agent_works_and_not_around_it(tmp_path: Path, model_url: str) -> None:
    configure(tmp_path / "vpi", model_url)
    done = run_python(COLLECTOR, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Noted.\n[(True, True)] False\n"


WATCH = """
import importlib, json, os, pkgutil, sys, threading
import vikingpi
happened, importing = [], [""]

def hook(event, arguments):
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    changes = ("os.mkdir", "os.remove", "os.rename", "os.putenv", "os.system", "os.posix_spawn", "os.fork")
    reaches = ("socket.__new__", "socket.connect", "subprocess.Popen", "sqlite3.connect", "_thread.start_new_thread")
    if importing[0] and (writes or event in changes or event in reaches):
        happened.append([importing[0], event, str(arguments)])

found = [each.name for each in pkgutil.walk_packages(vikingpi.__path__, "vikingpi.")]
names = [name for name in found if name != "vikingpi.__main__"]
before = dict(os.environ)
sys.addaudithook(hook)
for name in names:
    importing[0] = name
    importlib.import_module(name)
importing[0] = ""
import logging
print(json.dumps({
    "names": names,
    "happened": happened,
    "threads": [each.name for each in threading.enumerate()],
    "handlers": len(logging.root.handlers),
    "environment": before == dict(os.environ),
    "litellm": "litellm" in sys.modules,
}))
"""


def test_importing_does_nothing(tmp_path: Path) -> None:
    done = run_python(WATCH, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert len(found.pop("names")) > 50
    assert found == {
        "happened": [],
        "threads": ["MainThread"],
        "handlers": 0,
        "environment": True,
        "litellm": False,
    }
    assert list(tmp_path.iterdir()) == []


def requirements() -> dict[str, Requirement]:
    data = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    parsed = [Requirement(line) for line in data["project"]["dependencies"]]
    return {requirement.name: requirement for requirement in parsed}


@pytest.mark.parametrize("version", ["1.82.7", "1.82.8", "1.107.0", "1.107.1", "1.107.9", "2.0.0"])
def test_compromised_releases_are_out_of_bounds(version: str) -> None:
    assert not requirements()["litellm"].specifier.contains(version, prereleases=True)
    assert requirements()["litellm"].specifier.contains("1.108.0")


def test_the_command_line_library_imports_no_pydantic() -> None:
    specifier = requirements()["typer"].specifier
    assert specifier.contains("0.28.0")
    assert not specifier.contains("0.29.0")


def test_every_dependency_is_bounded_on_both_sides() -> None:
    for name, requirement in requirements().items():
        operators = {each.operator for each in requirement.specifier}
        assert operators == {">=", "<"}, name


def own_folders() -> set[str]:
    """Where this project may be installed from: its folder, the environment's, and its other work trees."""
    listed = subprocess.run(
        ["git", "worktree", "list", "--porcelain"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    trees = {line.removeprefix("worktree ") for line in listed.stdout.splitlines() if line.startswith("worktree ")}
    return {str(PROJECT), str(Path(sys.prefix).resolve().parent), *trees}


# Files that Python runs at every start. Only these may be there, and what they run is known.
KNOWN_PTH = {
    r"distutils-precedence\.pth": r"import os; var = 'SETUPTOOLS_USE_DISTUTILS'; .*_distutils_hack.*",
    r"__editable__\.vikingpi-[\d.]+\.pth": r"import __editable___vikingpi_\w+_finder; .*install\(\)|"
    + "|".join(map(re.escape, own_folders())),
}


def unexpected_pth(folders: set[str]) -> list[str]:
    unknown: list[str] = []
    for path in sorted(path for folder in folders for path in Path(folder).glob("*.pth")):
        allowed = [line for name, line in KNOWN_PTH.items() if re.fullmatch(name, path.name)]
        lines = [line.strip() for line in path.read_text().splitlines() if line.strip()]
        if not allowed or not all(re.fullmatch(allowed[0], line) for line in lines):
            unknown.append(path.name)
    return unknown


def test_nothing_unexpected_runs_at_every_start() -> None:
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    if site.ENABLE_USER_SITE:
        folders.add(site.getusersitepackages())
    assert unexpected_pth(folders) == []


def test_an_unexpected_start_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "litellm_init.pth").write_text("import os; os.system('true')\n")
    (tmp_path / "distutils-precedence.pth").write_text("import os; os.system('true')\n")
    (tmp_path / "__editable__.vikingpi-0.1.0.pth").write_text(f"{PROJECT}\n")
    assert unexpected_pth({str(tmp_path)}) == ["distutils-precedence.pth", "litellm_init.pth"]
