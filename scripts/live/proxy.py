#!/usr/bin/env python3
"""A recording proxy before a model: what came in is kept, the answer is passed through as it arrives.

    python scripts/live/proxy.py --upstream URL --log FILE [--port N]

A request to the proxy's /x goes to URL/x. Its first line on stdout is its address. Each finished request becomes one
JSON line: {"n", "time", "method", "path", "headers", "body", "encoding": "utf-8" or "base64", "status"}; `body` is
the request's bytes as text, `status` the upstream's (0: it did not answer). Keys are never written.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import itertools
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-authorization", "host"}
SECRET = {"authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "proxy-authorization"}
UPSTREAM_TIMEOUT = 300.0


class NoErrors(urllib.request.HTTPErrorProcessor):
    """Hand every answer on as it is, redirects and errors too."""

    def http_response(
        self, request: urllib.request.Request, response: http.client.HTTPResponse
    ) -> http.client.HTTPResponse:
        del request
        return response

    https_response = http_response


class Recorder:
    """Append requests to the log, numbered in the order in which they came."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)

    def number(self) -> int:
        with self.lock:
            return next(self.numbers)

    def write(self, number: int, handler: BaseHTTPRequestHandler, body: bytes, status: int) -> None:
        try:
            text, encoding = body.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            text, encoding = base64.b64encode(body).decode("ascii"), "base64"
        shown = {name: "***" if name.lower() in SECRET else value for name, value in handler.headers.items()}
        entry = {
            "n": number,
            "time": time.time(),
            "method": handler.command,
            "path": handler.path,
            "headers": shown,
            "body": text,
            "encoding": encoding,
            "status": status,
        }
        with self.lock, self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


class Upstream:
    """The endpoint behind the proxy; the environment's proxies are used, except for loopback."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        host = urlsplit(url).hostname or ""
        proxies = urllib.request.ProxyHandler({}) if host in ("127.0.0.1", "::1", "localhost") else None
        self.opener = urllib.request.build_opener(NoErrors(), *([proxies] if proxies else []))

    def open(self, method: str, path: str, headers: dict[str, str], body: bytes) -> http.client.HTTPResponse:
        """Send one request; raises OSError or HTTPException when there is no answer."""
        data = body if body or method == "POST" else None
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        return self.opener.open(request, timeout=UPSTREAM_TIMEOUT)


class Handler(BaseHTTPRequestHandler):
    """One connection; `upstream` and `recorder` are set on a subclass per server."""

    protocol_version = "HTTP/1.1"
    upstream: Upstream
    recorder: Recorder

    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def do_GET(self) -> None:
        self.forward()

    def do_POST(self) -> None:
        self.forward()

    def forward(self) -> None:
        number = self.recorder.number()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        try:
            response = self.upstream.open(self.command, self.path, headers, body)
        except (OSError, http.client.HTTPException) as error:
            self.recorder.write(number, self, body, 0)
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            self.send_whole(502, json.dumps({"error": {"message": f"upstream: {reason}"}}).encode())
            return
        self.recorder.write(number, self, body, response.status)
        with response:
            try:
                self.pass_on(response)
            except (OSError, http.client.HTTPException):
                self.close_connection = True

    def send_whole(self, status: int, raw: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def pass_on(self, response: http.client.HTTPResponse) -> None:
        """Send the answer on piece by piece; a broken upstream breaks the client's connection too."""
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in HOP | {"content-length"}:
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := response.read1(65536):
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        self.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address


def serve(upstream: str, log: Path, port: int = 0) -> Server:
    """Bind to loopback (port 0: any free one); the caller runs `serve_forever`."""
    parts = {"upstream": Upstream(upstream), "recorder": Recorder(log)}
    return Server(("127.0.0.1", port), type("BoundHandler", (Handler,), parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    options = parser.parse_args()
    server = serve(options.upstream, options.log, options.port)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
