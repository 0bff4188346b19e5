#!/usr/bin/env python3
"""Install and start a real OpenViking server on loopback, in a virtual environment of its own.

    scripts/openviking-dev [start] [--port N] [--dir FOLDER] [--model-url URL] [--key ROOT_KEY] [--summary-delay S]
    scripts/openviking-dev stop|status [--dir FOLDER]

`start` prints `url=...`, `pid=...`, `model=...` and `dir=...`, one per line, once the server is healthy. Without
--model-url its model is the scripted one beside this file, started with it. The first start installs the server
(about 1 GB, some minutes) into ~/.cache/vikingpi/openviking-0.5.2; VPI_OPENVIKING_VENV names another environment.
--key makes a server that asks for keys; session routes want a user's key: POST /api/v1/admin/accounts.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

VERSION = "0.5.2"
MODEL = "scripted-server"  # model_rules.SERVER_MODEL; this file runs without that one, too
HEALTH_SECONDS, STOP_SECONDS = 120.0, 20.0
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class LabError(Exception):
    """The server cannot be had; read by the user. `hint` says what to do."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


class Server(NamedTuple):
    """A running server; `model_pid` is 0 where its model is not ours."""

    url: str
    pid: int
    model_url: str
    model_pid: int
    folder: Path


def environment() -> Path:
    """Give the folder of the server's virtual environment."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("VPI_OPENVIKING_VENV") or f"{cache}/vikingpi/openviking-{VERSION}")


def say(text: str) -> None:
    print(f"openviking-dev: {text}", file=sys.stderr, flush=True)


def install(venv: Path) -> Path:
    """Give the server's program, installing it first where it is not there; one process at a time does so."""
    program, begun, stamp = venv / "bin" / "openviking-server", venv / ".begun", venv / ".installed"
    if program.exists() and (stamp.exists() or os.environ.get("VPI_OPENVIKING_VENV")):
        return program
    venv.parent.mkdir(parents=True, exist_ok=True)
    with venv.with_name(venv.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists() and stamp.exists():
            return program
        if venv.exists() and any(venv.iterdir()) and not (begun.exists() or stamp.exists()):
            hint = "install openviking there, name another folder in VPI_OPENVIKING_VENV, or remove it"
            raise LabError(f"{venv} holds no openviking-server and was not made by this script", hint)
        say(f"installing openviking {VERSION} into {venv} (once; some minutes)")
        shutil.rmtree(venv, ignore_errors=True)
        venv.mkdir()
        begun.touch()
        pip = [venv / "bin" / "python", "-I", "-m", "pip", "install", "-qq", "--no-input"]
        for command in (
            [sys.executable, "-I", "-m", "venv", venv],
            [*pip, "--disable-pip-version-check", f"openviking=={VERSION}"],
        ):
            if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode:
                raise LabError(f"openviking {VERSION} could not be installed", "the words of pip are above")
        stamp.touch()
    return program


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def configuration(port: int, folder: Path, model_url: str, key: str, *, summaries: bool = True) -> dict[str, Any]:
    """Give the server's settings: everything local, both its models at `model_url`; without `summaries` only one."""
    model = {"provider": "openai", "api_key": "scripted", "api_base": f"{model_url}/v1"}
    return {
        "server": {"host": "127.0.0.1", "port": port, "root_api_key": key or None},
        "storage": {
            "workspace": str(folder / "data"),
            "vectordb": {"name": "context", "backend": "local"},
            "agfs": {"backend": "local"},
        },
        "embedding": {"dense": {**model, "model": "scripted-embedding", "dimension": 256, "input": "text"}},
        **({"vlm": {**model, "model": MODEL, "temperature": 0.0, "max_retries": 1}} if summaries else {}),
    }


def spawn(command: Sequence[str | Path], log: Path, folder: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


def start_model(folder: Path) -> tuple[str, int]:
    """Start the scripted model on a free port and give its address and pid."""
    command = [sys.executable, Path(__file__).with_name("model_server.py")]
    with (folder / "model.log").open("ab") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    assert process.stdout
    with process.stdout:
        ready, _, _ = select.select([process.stdout], [], [], 20)
        url = process.stdout.readline().decode().strip() if ready else ""
    if not url:
        process.kill()
        raise LabError("the scripted model did not start", f"see {folder / 'model.log'}")
    return url, process.pid


def tail(log: Path, count: int = 20) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return "\n".join(f"  {line[:300]}" for line in lines[-count:])


def get(url: str, timeout: float = 3) -> dict[str, Any] | None:
    """Give the JSON object at `url`, or None while there is none."""
    try:
        with DIRECT.open(url, timeout=timeout) as response:
            return json.load(response)
    except (OSError, ValueError):
        return None


def wait_healthy(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Return once the server says that it is healthy; raises LabError with the end of its log."""
    limit = time.monotonic() + HEALTH_SECONDS
    while time.monotonic() < limit:
        if process.poll() is not None:
            raise LabError(f"the server ended with {process.returncode}; its log ends:\n{tail(log)}", f"see {log}")
        if (get(f"{url}/health") or {}).get("healthy"):
            return
        time.sleep(0.25)
    raise LabError(f"the server was not healthy after {HEALTH_SECONDS:.0f} s; its log ends:\n{tail(log)}", f"see {log}")


def read_server(folder: Path) -> Server | None:
    """Give what runs in `folder` as it was started, or None."""
    try:
        data = json.loads((folder / "server.json").read_text(encoding="utf-8"))
        return Server(data["url"], data["pid"], data["model_url"], data["model_pid"], folder)
    except (OSError, ValueError, KeyError):
        return None


def is_ours(pid: int, words: str) -> bool:
    """Whether the process lives and its command line holds `words`: a pid may have been given away again."""
    if not pid:
        return False
    command_line = Path(f"/proc/{pid}/cmdline")
    if Path("/proc/self").exists():
        try:
            return words in command_line.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return False
    done = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return words in done.stdout


def end(pid: int, words: str) -> None:
    """End one process of ours, politely first."""
    limit = time.monotonic() + STOP_SECONDS
    if is_ours(pid, words):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    while is_ours(pid, words):
        if time.monotonic() > limit:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.1)


def start(
    folder: Path,
    port: int = 0,
    model_url: str = "",
    key: str = "",
    summary_delay: float = 0.0,
    *,
    summaries: bool = True,
) -> Server:
    """Start a server (port 0: a free one) with its data in `folder`; raises LabError.

    Without `summaries` it has no model to write overviews with.
    """
    program = install(environment())
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if (running := read_server(folder)) and is_ours(running.pid, str(folder)):
        raise LabError(
            f"a server runs in {folder} already: {running.url} (pid {running.pid})", "stop it, or give --dir"
        )
    port = port or free_port()
    url = f"http://127.0.0.1:{port}"
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise LabError(f"port {port} is taken", "give another --port, or none for a free one")
    own_model, model_pid = start_model(folder) if not model_url else ("", 0)
    model_url = (own_model or model_url).rstrip("/").removesuffix("/v1")
    process = None
    try:
        if summary_delay:
            body = json.dumps({"summaryDelay": summary_delay}).encode()
            DIRECT.open(urllib.request.Request(f"{model_url}/control", data=body), timeout=5).close()
        settings = folder / "ov.conf"
        values = configuration(port, folder, model_url, key, summaries=summaries)
        settings.write_text(json.dumps(values, indent=1), encoding="utf-8")
        log = folder / "server.log"
        process = spawn([program, "--config", settings], log, folder)
        wait_healthy(process, url, log)
        server = Server(url, process.pid, model_url, model_pid, folder)
        (folder / "server.json").write_text(json.dumps({**server._asdict(), "folder": str(folder)}), encoding="utf-8")
    except BaseException:
        if process:
            process.kill()
        end(model_pid, "model_server.py")
        raise
    return server


def stop(folder: Path) -> Server | None:
    """End the server in `folder` and its model; None: there was none."""
    server = read_server(folder.absolute())
    if server:
        end(server.pid, str(server.folder))
        end(server.model_pid, "model_server.py")
        (server.folder / "server.json").unlink(missing_ok=True)
    return server


def show(server: Server) -> None:
    print(f"url={server.url}\npid={server.pid}\nmodel={server.model_url}\ndir={server.folder}", flush=True)


def run(options: argparse.Namespace) -> int:
    folder: Path = options.dir
    if options.verb == "start":
        show(start(folder, options.port, options.model_url, options.key, options.summary_delay))
        return 0
    server = stop(folder) if options.verb == "stop" else read_server(folder.absolute())
    if server is None or (options.verb == "status" and not is_ours(server.pid, str(server.folder))):
        say(f"no server runs in {folder}")
        return 1
    if options.verb == "status":
        show(server)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="openviking-dev", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vikingpi" / "openviking-data"
    parser.add_argument("verb", nargs="?", choices=("start", "stop", "status"), default="start")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--dir", type=Path, default=home, help=f"data, settings and logs ({home})")
    parser.add_argument("--model-url", default="", help="an OpenAI-compatible endpoint with embeddings")
    parser.add_argument("--key", default="", help="the root key of a server that asks for keys")
    parser.add_argument("--summary-delay", type=float, default=0.0, help="seconds each overview takes (scripted model)")
    try:
        return run(parser.parse_args())
    except LabError as error:
        say(f"{error}\nhint: {error.hint}")
    except (OSError, urllib.error.URLError) as error:
        say(f"{error}")
    except KeyboardInterrupt:
        return 130
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
