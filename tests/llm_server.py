"""A scriptable HTTP server on loopback, for tests: one handler per connection, in threads."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Generator
from typing import NamedTuple

from patience import PATIENCE


class Seen(NamedTuple):
    """A request as it was received."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Peer:
    """The server's side of one connection."""

    def __init__(self, connection: socket.socket, server: Server) -> None:
        self._connection = connection
        self._file = connection.makefile("rb")
        self._server = server

    def request(self) -> Seen | None:
        """Read one request; None at the end of the connection and for what is no HTTP."""
        try:
            words = self._file.readline().decode(errors="replace").split(" ")
            if len(words) != 3:
                return None
            headers: dict[str, str] = {}
            while (row := self._file.readline().decode(errors="replace").strip()) != "":
                name, _, value = row.partition(":")
                headers[name.lower()] = value.strip()
            body = self._file.read(int(headers.get("content-length", "0")))
        except (OSError, ValueError):
            return None
        seen = Seen(words[0], words[1], headers, body)
        self._server.seen.append(seen)
        return seen

    def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._connection.sendall(data)

    def answer(self, status: int, body: bytes, headers: str = "") -> None:
        head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
        self.send(head.encode() + body)

    def begin_stream(self, content_type: str = "text/event-stream") -> None:
        self.send(f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n".encode())

    def chunk(self, data: bytes) -> None:
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def end_stream(self) -> None:
        self.send(b"0\r\n\r\n")

    def wait_closed(self, timeout: float = PATIENCE) -> bool:
        """Tell whether the client closed the connection within the time."""
        self._connection.settimeout(timeout)
        try:
            return self._connection.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        self._file.close()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class Server:
    """`seen` holds every request, `connections` counts the accepted ones."""

    def __init__(self, handler: Callable[[Peer], None], context: ssl.SSLContext | None = None) -> None:
        self.seen: list[Seen] = []
        self.connections = 0
        self._handler = handler
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._accepting.join(2)
        for thread in self._threads:
            thread.join(2)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        if self._context is not None:
            try:
                connection = self._context.wrap_socket(connection, server_side=True)
            except OSError:
                connection.close()
                return
        peer = Peer(connection, self)
        try:
            self._handler(peer)
        finally:
            peer.close()


@contextlib.contextmanager
def serving(handler: Callable[[Peer], None], context: ssl.SSLContext | None = None) -> Generator[Server]:
    """Run a server for the block."""
    server = Server(handler, context)
    try:
        yield server
    finally:
        server.close()


def answering(status: int, body: bytes, headers: str = "") -> Callable[[Peer], None]:
    """Answer every request on a kept connection the same way."""

    def handle(peer: Peer) -> None:
        while peer.request() is not None:
            peer.answer(status, body, headers)

    return handle


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
