"""An OpenViking server on loopback that stores in memory, makes overviews at once and keeps every byte it received."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
BORN = "2026-01-01T00:00:00.000Z"


class Fake:
    """`received` is every request as text; `overview` writes the overview of an archive's messages, `results` gives
    what else is known by path."""

    def __init__(self) -> None:
        self.received: list[str] = []
        self.sessions: dict[str, Json] = {}
        self.overview: Callable[[str], str] = lambda text: f"# Working Memory\n\n## Key Facts & Decisions\n{text}"
        self.results: Json = {}
        self.url = ""

    def text(self) -> str:
        return "\n".join(self.received)

    def session(self, name: str) -> Json:
        return self.sessions.setdefault(name, {"live": [], "archives": [], "total": 0})

    def answer(self, method: str, path: str, body: Json) -> tuple[int, object]:
        path = path.partition("?")[0]
        if path in self.results:
            return _ok(self.results[path])
        if path == "/health":
            return 200, {"status": "ok", "healthy": True, "version": "0.5.2", "auth_mode": "dev"}
        if path.startswith("/api/v1/tasks"):
            return _ok([] if path.endswith("/tasks") else {"status": "completed"})
        if path == "/api/v1/sessions" and method == "POST":
            self.session(str(body.get("session_id")))
            return _ok({})
        found = re.fullmatch(r"/api/v1/sessions/([^/]+)(?:/(.*))?", path)
        if found is None or found[1] not in self.sessions:
            return 404, {"status": "error", "error": {"code": "NOT_FOUND", "message": "no such thing"}}
        return self._of_session(self.session(found[1]), found[2] or "", body)

    def _of_session(self, session: Json, rest: str, body: Json) -> tuple[int, object]:
        if rest == "messages/batch":
            session["live"] += body["messages"]
            session["total"] += len(body["messages"])
            return _ok({"added": len(body["messages"])})
        if rest == "commit":
            cut = len(session["live"]) - int(body["keep_recent_count"])
            if cut <= 0:
                return _ok({"status": "skipped"})
            session["archives"].append(session["live"][:cut])
            session["live"] = session["live"][cut:]
            number = len(session["archives"])
            return _ok({"status": "accepted", "archive_uri": f"x/archive_{number:03d}", "task_id": f"t{number}"})
        if rest == "context":
            return _ok({"messages": session["live"]})
        if rest.startswith("archives/archive_"):
            number = int(rest[-3:])
            messages = [m for archive in session["archives"][:number] for m in archive]
            overview = self.overview("\n".join(f"- {json.dumps(m['parts'])}" for m in messages))
            return _ok({"archive_id": f"archive_{number:03d}", "overview": overview, "messages": messages})
        figures = {"message_count": len(session["live"]), "commit_count": len(session["archives"])}
        return _ok({"created_at": BORN, "total_message_count": session["total"], **figures})


def _ok(result: object) -> tuple[int, object]:
    return 200, {"status": "ok", "result": result}


@contextmanager
def openviking() -> Generator[Fake]:
    """Run the server for the block."""
    fake = Fake()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"fake": fake}))
    server.daemon_threads = True
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    fake: Fake
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def _handle(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        self.fake.received.append(f"{self.requestline}\n{self.headers}\n{raw.decode()}")
        status, answer = self.fake.answer(self.command, self.path, json.loads(raw) if raw else {})
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = _handle
