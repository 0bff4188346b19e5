"""Real runs of `vpi` against a scripted model, in folders of their own, and all that they left behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import model_server
from patience import PATIENCE
from tty_kit import Shown

PROJECT = Path(__file__).resolve().parent.parent
MODEL_KEY = "model-key-4f9a1c77e2b0d3"


class Lab:
    """`home` is VPI_HOME, `work` the folder that vpi runs in."""

    def __init__(self, folder: Path, model_url: str) -> None:
        self.folder = folder
        self.home = folder / "vpi"
        self.work = folder / "work"
        self.model_url = model_url
        self.env: dict[str, str] = {}
        self.umask = -1
        self.work.mkdir()
        self.home.mkdir(mode=0o700)
        self.models(model_url)

    def models(self, url: str, **provider: Any) -> None:
        """Name the model's endpoint in models.json."""
        models = [{"id": "scripted", "contextWindow": 128000, "maxTokens": 4096}]
        entry = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": MODEL_KEY, "models": models, **provider}
        self.write("models.json", {"providers": {"local": entry}})

    def config(self, **values: Any) -> None:
        """Write config.json: a boundary that moves early, unless `values` say otherwise."""
        takeover = {"tokenThreshold": 1, "keepRecentTurns": 1, "overviewPollMs": 50, "wait": "overview"}
        self.write("config.json", {"takeover": takeover, **values})

    def write(self, name: str, data: object) -> None:
        path = self.home / name
        path.write_text(json.dumps(data))
        path.chmod(0o600)

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        private = ("OPENVIKING_", "OV_", "VPI_", "XDG_", "OPENAI_", "ANTHROPIC_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(private)}
        own = {"HOME": str(self.folder / "home"), "VPI_HOME": str(self.home), "PYTHONPATH": str(PROJECT)}
        return {**kept, **own, "PYTHONWARNINGS": "error", **self.env, **more}

    def run(
        self, *words: str, stdin: bytes | None = None, env: Mapping[str, str] | None = None, **more: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run vpi to its end."""
        return subprocess.run(
            [sys.executable, "-B", "-m", "vikingpi", *words],
            cwd=self.work,
            env=self.environment({**(env or {}), **more}),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=60,
            check=False,
            umask=self.umask,
        )

    def start(self, *words: str, **env: str) -> subprocess.Popen[bytes]:
        """Start vpi without waiting for it; whoever starts it waits for its end."""
        return subprocess.Popen(
            [sys.executable, "-B", "-m", "vikingpi", *words],
            cwd=self.work,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def entries(self) -> list[dict[str, Any]]:
        """The entries of the newest session file."""
        newest = max((self.home / "sessions").rglob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        return [json.loads(line) for line in newest.read_text().splitlines()][1:]

    def requests(self) -> list[dict[str, Any]]:
        """The bodies of the agent's requests to the model, oldest first."""
        with urllib.request.urlopen(f"{self.model_url}/requests?kind=agent", timeout=10) as answer:
            return [each["body"] for each in json.load(answer)]

    def kept(self) -> dict[str, bytes]:
        """Every file of vpi's but the session files, the command output they name and the user's own settings."""
        own = {"config.json", "models.json", "auth.json"}
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in self.home.rglob("*")
            if path.is_file()
            and path.name not in own
            and path.relative_to(self.home).parts[0] not in ("sessions", "tmp", "history")
        }

    def session_text(self) -> str:
        return "".join(path.read_text() for path in sorted((self.home / "sessions").rglob("*.jsonl")))


@contextmanager
def lab(folder: Path) -> Generator[Lab]:
    """Run the scripted model for the block."""
    server = model_server.serve(0, None)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield Lab(folder, f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Tty(Shown):
    """A run of vpi in a terminal of its own."""

    def __init__(
        self, runs: Lab, *words: str, columns: int = 100, rows: int = 30, env: Mapping[str, str] | None = None
    ) -> None:
        descriptor, slave = pty.openpty()
        super().__init__(descriptor, columns, rows, 2000)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-B", "-m", "vikingpi", *words],
            cwd=runs.work,
            env=runs.environment({"TERM": "xterm-256color", "LANG": "C.UTF-8", **(env or {})}),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            umask=runs.umask,
        )
        self.pid = self.process.pid
        os.close(slave)

    def send(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def text(self) -> str:
        past = ["".join(row[x].data for x in range(self.screen.columns)) for row in self.screen.history.top]
        return "\n".join(line.rstrip() for line in [*past, *self.screen.display])

    def wait(self, text: str, seconds: float = PATIENCE) -> str:
        end = time.monotonic() + seconds
        while text not in self.text():
            if (not self.take(0.05) and text not in self.text()) or time.monotonic() > end:
                raise AssertionError(f"{text!r} did not come on the screen:\n{self.text()}")
        return self.text()

    def end(self) -> int:
        """Wait for the end of the program and return its exit code."""
        end = time.monotonic() + PATIENCE
        while self.take(0.05) and self.process.poll() is None and time.monotonic() < end:
            pass
        self.take(0.05)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, end - time.monotonic()))
        self.close()
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Take the terminal away."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1
