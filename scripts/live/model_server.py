#!/usr/bin/env python3
"""A scriptable model on loopback: standard library only, no model behind it.

    python scripts/live/model_server.py [--port N] [--log FILE] [--keep N]

It speaks OpenAI chat completions and Anthropic messages (JSON and SSE), embeddings and the model list, and answers
the prompts that an OpenViking 0.5 server sends to its own model, so that one process can be both the agent's model
and that server's. It also writes the overviews that the chat asks its model for. Its first line on stdout is its
address. What the last user message says decides the answer:

    RUN: <command>          a call of the tool `bash`; several lines are several calls, one after the other
    CALL: <tool> <json>     a call of that tool; TOGETHER anywhere makes all calls in one answer
    SAY: <text>             that text            BIG: <n>         a text of n characters
    FAIL: <status> [x<n>]   that HTTP status, for the first n tries of this message (1)
    SLOW: <seconds>         that pause first     STALL: <seconds> that pause in the middle
    THINK: <text>           that thought before everything else, with a signature where the wire has one
    HIDDEN: <text>          a thought that nobody is shown (Anthropic messages only)
    CUT                     the connection breaks in the middle of the answer
    anything else           a question that names a fact: its value, UNKNOWN if no message states it; otherwise the
                            facts of the message (see model_rules.py) are acknowledged

    GET /requests[?kind=agent]    every remembered request: {"n", "time", "path", "kind", "status", "body"}
    GET /control, POST /control   {"summaryDelay": s, "summaryMode": "ok|blank|fail|garbage|long|cut",
                                   "extractionMode": "ok|fail|garbage", "failStatus": 400, "agentDelay": s}
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import re
import threading
import time
from collections import deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import model_wires as wires
from model_rules import SERVER_MODEL, Control, Json, Kind, Reply, answer

DIMENSION = 256
CONTROL_KEYS = {
    "summaryDelay": "summary_delay",
    "summaryMode": "summary_mode",
    "extractionMode": "extraction_mode",
    "failStatus": "fail_status",
    "agentDelay": "agent_delay",
}
MODES = {"summaryMode": ("ok", "blank", "fail", "garbage", "long", "cut"), "extractionMode": ("ok", "fail", "garbage")}


class State:
    """What all connections share: settings, every request, and which messages have failed already."""

    def __init__(self, log: Path | None, keep: int | None = None) -> None:
        self.lock = threading.Lock()
        self.control = Control()
        self.failures: dict[str, int] = {}
        self.requests: deque[Json] = deque(maxlen=keep)
        self.log = log
        self.numbers = itertools.count(1)

    def record(self, path: str, kind: Kind, status: int, raw: bytes) -> None:
        with self.lock:
            entry: Json = {
                "n": next(self.numbers),
                "time": time.time(),
                "path": path,
                "kind": kind,
                "status": status,
                "body": json.loads(raw),
            }
            self.requests.append(entry)
            if self.log:
                with self.log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")

    def decide(self, request: wires.Request) -> Reply:
        with self.lock:
            return answer(request, self.control, self.failures)

    def set(self, wanted: Json) -> Json:
        """Change settings; raises ValueError for a key or value that is none."""
        with self.lock:
            changes: Json = {}
            for key, value in wanted.items():
                if key not in CONTROL_KEYS:
                    raise ValueError(f"unknown setting {key}")
                modes = MODES.get(key)
                if value not in modes if modes else isinstance(value, bool) or not isinstance(value, (int, float)):
                    raise ValueError(f"{key} cannot be {value!r}")
                changes[CONTROL_KEYS[key]] = value
            self.control = self.control._replace(**changes)
            return {key: getattr(self.control, field) for key, field in CONTROL_KEYS.items()}


def vector(text: str) -> list[float]:
    """Embed a text so that shared words, or shared pairs of characters in any script, mean nearness."""
    words = re.findall(r"\w+", text.lower())
    pieces = words + [word[at : at + 2] for word in words for at in range(len(word) - 1)]
    values = [0.0] * DIMENSION
    for piece in pieces or ["empty"]:
        digest = hashlib.blake2b(piece.encode(), digest_size=8).digest()
        values[int.from_bytes(digest) % DIMENSION] += 1.0
    length = math.sqrt(sum(value * value for value in values))
    return [value / length for value in values]


class Handler(BaseHTTPRequestHandler):
    """One connection; `state` is set on a subclass per server."""

    protocol_version = "HTTP/1.1"
    state: State

    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/requests":
            kinds = parse_qs(url.query).get("kind")
            with self.state.lock:
                chosen = [each for each in self.state.requests if not kinds or each["kind"] in kinds]
            self.send(chosen)
        elif url.path == "/control":
            self.send(self.state.set({}))
        elif url.path.endswith("/models"):
            self.send(
                {"object": "list", "data": [{"id": name, "object": "model"} for name in ("scripted", SERVER_MODEL)]}
            )
        else:
            self.send({"error": {"message": f"nothing at {url.path}"}}, 404)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        try:
            self.post(path, raw)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def post(self, path: str, raw: bytes) -> None:
        try:
            body: object = json.loads(raw)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self.send({"error": {"message": "the body is no JSON object"}}, 400)
            return
        data = cast(Json, body)
        if path == "/control":
            try:
                self.send(self.state.set(data))
            except ValueError as error:
                self.send({"error": {"message": str(error)}}, 400)
        elif path.endswith("/embeddings"):
            self.state.record(path, "embeddings", 200, raw)
            inputs = data.get("input")
            texts = cast("list[Any]", inputs) if isinstance(inputs, list) else [inputs]
            vectors = [
                {"object": "embedding", "index": at, "embedding": vector(str(text))} for at, text in enumerate(texts)
            ]
            usage = {"prompt_tokens": len(raw) // 4, "total_tokens": len(raw) // 4}
            self.send({"object": "list", "model": data.get("model"), "data": vectors, "usage": usage})
        elif path.endswith("/chat/completions"):
            self.chat(wires.OPENAI, path, raw, data)
        elif path.endswith("/messages"):
            self.chat(wires.ANTHROPIC, path, raw, data)
        else:
            self.send({"error": {"message": f"nothing at {path}"}}, 404)

    def chat(self, wire: wires.Wire, path: str, raw: bytes, body: Json) -> None:
        """Answer one chat request on either wire, streamed when it asks for that."""
        reply = self.state.decide(wire.read(body))
        self.state.record(path, reply.kind, reply.status, raw)
        time.sleep(reply.delay)
        if reply.status != 200:
            self.send(wire.error(reply.status), reply.status)
        elif body.get("stream"):
            self.stream(wire.events(body, reply), reply)
        else:
            time.sleep(reply.stall)
            self.send(wire.whole(body, reply))

    def stream(self, events: Iterator[bytes], reply: Reply) -> None:
        pieces = list(events)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, piece in enumerate(pieces):
            if number == len(pieces) // 2:
                time.sleep(reply.stall)
                if reply.cut:
                    self.close_connection = True
                    return
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def send(self, body: object, status: int = 200) -> None:
        raw = wires.dump(body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


class Server(ThreadingHTTPServer):
    daemon_threads = True


def serve(port: int, log: Path | None, keep: int | None = None) -> Server:
    """Bind to loopback (port 0: any free one); the caller runs `serve_forever`."""
    handler = type("BoundHandler", (Handler,), {"state": State(log, keep)})
    return Server(("127.0.0.1", port), handler)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--log", type=Path, default=None, help="also append every request to this file")
    parser.add_argument("--keep", type=int, default=None, help="how many requests are remembered (all)")
    options = parser.parse_args()
    server = serve(options.port, options.log, options.keep)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
