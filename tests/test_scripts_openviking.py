import json
import os
import subprocess
import sys
from pathlib import Path

import openviking_dev
import pytest

PROJECT = Path(__file__).resolve().parent.parent

# Stands for the server's program: healthy at once, or ending with words in its log.
STUB_SERVER = """#!{python}
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
if os.environ["STUB_FAILS"]:
    sys.exit("ValueError: the stub does not like this configuration")
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{{"healthy": true}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
port = json.load(open(sys.argv[2]))["server"]["port"]
HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def run(folder: Path, *arguments: str, fails: str = "") -> subprocess.CompletedProcess[str]:
    program = folder / "venv" / "bin" / "openviking-server"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(STUB_SERVER.format(python=sys.executable))
    program.chmod(0o755)
    return subprocess.run(
        [PROJECT / "scripts" / "openviking-dev", *arguments, "--dir", folder / "server"],
        env={**os.environ, "VPI_OPENVIKING_VENV": str(folder / "venv"), "STUB_FAILS": fails},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def is_alive(pid: int, words: str) -> bool:
    return openviking_dev.is_ours(pid, words)


def test_starts_says_where_and_stops_with_its_model(tmp_path: Path) -> None:
    started = run(tmp_path, "--summary-delay", "2.5")
    assert started.returncode == 0, started.stderr
    said = dict(line.split("=", 1) for line in started.stdout.splitlines())
    status = run(tmp_path, "status").stdout
    again = run(tmp_path)
    models = openviking_dev.get(f"{said['model']}/v1/models") or {}
    control = openviking_dev.get(f"{said['model']}/control") or {}
    model_pid = json.loads((tmp_path / "server" / "server.json").read_text())["model_pid"]
    alive = (is_alive(int(said["pid"]), str(tmp_path)), is_alive(model_pid, "model_server.py"))
    stopped = run(tmp_path, "stop")
    assert list(said) == ["url", "pid", "model", "dir"]
    assert status == started.stdout
    assert [each["id"] for each in models["data"]] == ["scripted", openviking_dev.MODEL]
    assert control["summaryDelay"] == 2.5
    assert (again.returncode, "runs in" in again.stderr, "hint: " in again.stderr) == (1, True, True)
    assert alive == (True, True)
    assert stopped.returncode == 0
    assert not is_alive(int(said["pid"]), str(tmp_path))
    assert not is_alive(model_pid, "model_server.py")
    assert run(tmp_path, "status").returncode == 1
    assert run(tmp_path, "stop").stderr.startswith("openviking-dev: no server runs in ")


def test_a_server_that_ends_shows_the_end_of_its_log(tmp_path: Path) -> None:
    done = run(tmp_path, fails="1")
    assert done.returncode == 1
    assert "its log ends:\n  ValueError: the stub does not like this configuration\nhint: see " in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "server" / "server.json").exists()


def test_a_taken_port_is_refused(tmp_path: Path) -> None:
    with openviking_dev.socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run(tmp_path, "--port", port)
    assert (done.returncode, f"port {port} is taken\nhint: " in done.stderr) == (1, True)


def test_stopping_spares_a_process_that_got_the_pid_later(tmp_path: Path) -> None:
    stranger = subprocess.Popen(["sleep", "20"])
    folder = tmp_path / "server"
    folder.mkdir()
    record = {"url": "", "pid": stranger.pid, "model_url": "", "model_pid": stranger.pid}
    (folder / "server.json").write_text(json.dumps(record))
    assert run(tmp_path, "stop").returncode == 0
    alive = stranger.poll() is None
    stranger.kill()
    stranger.wait()
    assert alive


@pytest.mark.parametrize("key", ["", "root"])
def test_the_configuration_stays_on_loopback(tmp_path: Path, key: str) -> None:
    written = openviking_dev.configuration(1933, tmp_path, "http://127.0.0.1:1", key)
    assert written["server"] == {"host": "127.0.0.1", "port": 1933, "root_api_key": key or None}
    assert written["vlm"]["api_base"] == "http://127.0.0.1:1/v1"


@pytest.mark.parametrize("inside", ["pyvenv.cfg", "notes.txt"])
def test_a_folder_that_somebody_else_made_is_never_cleared(tmp_path: Path, inside: str) -> None:
    (tmp_path / inside).write_text("mine")
    with pytest.raises(openviking_dev.LabError, match="was not made by this script"):
        openviking_dev.install(tmp_path)
    assert (tmp_path / inside).read_text() == "mine"
