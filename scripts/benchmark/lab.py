"""The place where everything is measured: homes of their own, a scripted model on loopback, the real pi."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paired import BenchError, Command, Unavailable

PROJECT = Path(__file__).resolve().parent.parent.parent
PI_VERSION = "1.6.0"
PI_PACKAGES = (f"@earendil-works/pi-coding-agent@{PI_VERSION}", "node@22")
PI_CLI = "node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"
PI_NODE = "node_modules/node/bin/node"
MODEL = "bench-model"
CONTEXT_WINDOW = 1_000_000_000  # so that no row ends in a compaction
KEPT_VARIABLES = ("LANG", "LC_ALL", "PATH", "TMPDIR", "TZ")


class Lab(NamedTuple):
    """`folder` is scratch and goes away; `cache` stays. `pi` is None where it cannot be had. `pairs` is how often
    each comparison is repeated at least."""

    folder: Path
    cache: Path
    pi: Path | None
    model_url: str
    pairs: int

    @property
    def work(self) -> Path:
        """The folder that both programs work in; it holds nothing."""
        return self.folder / "work"

    def vpi(self, *arguments: str, home: str = "vpi", says: str = "", **env: str) -> Command:
        """Give a command line of vpi with a configuration of its own per `home`."""
        place = self._home(home, "models.json")
        variables = {**self.environment(), "VPI_HOME": str(place), **_project_path(), **env}
        return Command((str(Path(sys.executable).with_name("vpi")), *arguments), self.work, variables, says)

    def real_pi(self, *arguments: str, home: str = "pi", says: str = "") -> Command:
        """Give a command line of pi with a configuration of its own per `home`; Unavailable where there is none."""
        if self.pi is None:
            raise Unavailable(f"pi {PI_VERSION} cannot be had")
        place = self._home(home, "models.json")
        (place / "settings.json").write_text('{"quietStartup": true}')
        offline = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
        variables = {**self.environment(), **offline, "PI_CODING_AGENT_DIR": str(place)}
        return Command((str(self.pi / PI_NODE), str(self.pi / PI_CLI), *arguments), self.work, variables, says)

    def environment(self) -> dict[str, str]:
        """Give the variables that every measured process gets, and no key or server of the user's."""
        kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        return {**kept, "HOME": str(self.folder / "home"), "TERM": "xterm-256color"}

    def _home(self, name: str, models_file: str) -> Path:
        place = self.folder / name
        if not place.exists():
            place.mkdir(parents=True)
            (place / models_file).write_text(json.dumps(models_of(self.model_url)))
        return place


def models_of(url: str) -> dict[str, Any]:
    """Give a models.json that either program reads."""
    model: dict[str, Any] = {
        "id": MODEL,
        "name": MODEL,
        "reasoning": False,
        "input": ["text"],
        "contextWindow": CONTEXT_WINDOW,
        "maxTokens": 8000,
        "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0},
    }
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "none", "models": [model]}
    return {"providers": {"bench": provider}}


def find_pi(cache: Path) -> Path:
    """Give the folder with pi and its Node, installing both there the first time."""
    named = os.environ.get("VPI_BENCH_PI")
    place = Path(named) if named else cache / f"pi-{PI_VERSION}"
    if (place / PI_CLI).is_file() and (place / PI_NODE).is_file():
        return place
    if named:
        raise Unavailable(f"VPI_BENCH_PI={named} has no {PI_CLI} or no {PI_NODE}")
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm is needed to install pi for the comparison; or set VPI_BENCH_PI")
    place.mkdir(parents=True, exist_ok=True)
    (place / "package.json").write_text("{}")
    print(f"bench: installing {' and '.join(PI_PACKAGES)} into {place}", file=sys.stderr)
    command = [npm, "install", "--prefix", str(place), "--no-audit", "--no-fund", "--loglevel=error", *PI_PACKAGES]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode or not (place / PI_NODE).is_file():
        raise Unavailable(f"npm could not install pi into {place}")
    return place


def start_model(log: Path) -> tuple[subprocess.Popen[str], str]:
    """Start the scripted model and give its process and address."""
    command = [sys.executable, str(PROJECT / "scripts" / "live" / "model_server.py"), "--keep", "4"]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    if not url:
        raise BenchError(f"the scripted model did not start: {log.read_text()}")
    return process, url


def describe(pi: Path | None) -> dict[str, str]:
    """Say what machine and which versions this is."""
    cpu = "unknown"
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    return {
        "cpu": f"{cpu}, {os.cpu_count()} cores",
        "system": " ".join((os.uname().sysname, os.uname().release, os.uname().machine)),
        "load": " ".join(f"{figure:.2f}" for figure in os.getloadavg()),
        "python": sys.version.split()[0],
        "node": _output([str(pi / PI_NODE), "--version"]) if pi is not None else "none",
        "pi": PI_VERSION if pi is not None else "none",
        "commit": _output(["git", "-C", str(PROJECT), "rev-parse", "--short", "HEAD"]),
    }


def _output(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout.strip()
    except OSError:
        return "unknown"


@functools.cache
def _project_path() -> dict[str, str]:
    """Make the environment's Python load this folder's code, where it would load another one's."""
    code = "import vikingpi; print(vikingpi.__file__)"
    found = _output([sys.executable, "-I", "-c", code])
    return {} if found == str(PROJECT / "vikingpi" / "__init__.py") else {"PYTHONPATH": str(PROJECT)}
