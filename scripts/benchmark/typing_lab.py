"""A chat on a terminal that is typed into while a model streams: how long a key takes to show, what idling costs."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import termios
import threading
import time
from collections.abc import Generator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from paired import BenchError, Command

TOKENS_PER_SECOND = 200
TOKEN = 4  # characters
FIRST_KEY = 0x0430  # letters that nothing else on the screen has, each typed once
KEYS = 60
PAUSE = 0.06
PATIENCE = 5.0


class Stream(NamedTuple):
    """What the model says: `burst` at once, then `steady` at TOKENS_PER_SECOND, over and over."""

    burst: str
    steady: str


@contextlib.contextmanager
def streaming_model(stream: Stream) -> Generator[str]:
    """Give the address of a model that goes on saying `stream` until whoever listens hangs up."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            with contextlib.suppress(OSError):
                for piece in _paced(stream):
                    choice: dict[str, Any] = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
                    chunk = {"id": "x", "object": "chat.completion.chunk", "choices": [choice]}
                    self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _paced(stream: Stream) -> Iterator[str]:
    yield from (stream.burst[at : at + 4096] for at in range(0, len(stream.burst), 4096))
    begun, said = time.perf_counter(), 0
    while True:
        place = (said * TOKEN) % len(stream.steady)
        yield stream.steady[place : place + TOKEN]
        said += 1
        time.sleep(max(0.0, begun + said / TOKENS_PER_SECOND - time.perf_counter()))


class Chat:
    """A program on a terminal of its own."""

    def __init__(self, command: Command) -> None:
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.chdir(command.cwd)
            os.execve(command.argv[0], list(command.argv), command.env)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))

    def send(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait(self, text: str, seconds: float = PATIENCE) -> float:
        """Read until `text` is written and give the ms it took."""
        begun, seen, wanted = time.perf_counter(), b"", text.encode()
        while wanted not in seen:
            left = begun + seconds - time.perf_counter()
            if left <= 0 or not select.select([self._terminal], [], [], left)[0]:
                raise BenchError(f"{text!r} did not show within {seconds:.0f} s")
            seen = seen[-len(wanted) :] + os.read(self._terminal, 65536)
        return (time.perf_counter() - begun) * 1000

    def drain(self, seconds: float) -> None:
        """Read what is written for a while."""
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            if select.select([self._terminal], [], [], left)[0]:
                os.read(self._terminal, 65536)

    def cpu(self) -> float:
        """Give the seconds of CPU used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)


def echoes(chat: Chat) -> list[float]:
    """Type letters and give the ms until each shows."""
    found: list[float] = []
    for number in range(KEYS):
        chat.drain(PAUSE)
        key = chr(FIRST_KEY + number)
        chat.send(key)
        found.append(chat.wait(key))
    return found
