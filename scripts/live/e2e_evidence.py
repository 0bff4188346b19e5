"""What the live acceptance looks at: recorded requests, the session file, and what the store holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote

Json = dict[str, Any]
OVERVIEW = "[OpenViking Session Context]"


class Piece(NamedTuple):
    """One block of a request's conversation, the same for both wires; `raw` is its JSON text."""

    role: str
    text: str
    raw: str


class Recorded(NamedTuple):
    """A request that reached the model. `frame` is everything but the conversation."""

    frame: str
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        return "\n".join(piece.text for piece in self.pieces)

    def extends(self, earlier: Recorded) -> bool:
        """Whether this request is the earlier one with more at its end."""
        same = self.pieces[: len(earlier.pieces)] == earlier.pieces
        return same and self.frame == earlier.frame and len(self.pieces) > len(earlier.pieces)


class Archive(NamedTuple):
    overview: str
    marks: tuple[str, ...]


class Held(NamedTuple):
    """What a store holds of one session; `marks` in the order of the messages."""

    commits: int
    archives: tuple[Archive, ...]
    live: tuple[str, ...]


class SessionFile(NamedTuple):
    """`messages` are the ids of the message entries in file order; `state` is the newest ov-takeover data."""

    id: str
    messages: tuple[str, ...]
    state: Json


def objects(value: object) -> list[Json]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast(Json, item) for item in items if isinstance(item, dict)]


def mapping(value: object) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def without_cache_marks(value: Any) -> Any:
    """Drop `cache_control`, which moves along with the end of the conversation."""
    if isinstance(value, dict):
        pairs = cast(Json, value).items()
        return {key: without_cache_marks(inner) for key, inner in pairs if key != "cache_control"}
    return [without_cache_marks(inner) for inner in cast("list[Any]", value)] if isinstance(value, list) else value


def strings(value: Any) -> list[str]:
    """List every string in a JSON value, arguments of tool calls decoded no further."""
    if isinstance(value, str):
        return [value]
    inner = list(mapping(value).values()) or (cast("list[Any]", value) if isinstance(value, list) else [])
    return [text for each in inner for text in strings(each)]


def read_request(body: str) -> Recorded:
    """Read a chat request of either wire."""
    data = cast(Json, without_cache_marks(json.loads(body)))
    pieces: list[Piece] = []
    system: list[Json] = []
    for message in objects(data.pop("messages", [])):
        role = str(message.get("role"))
        if role in ("system", "developer"):
            system.append(message)
            continue
        content = message.get("content")
        blocks: list[Any] = [{**message, "content": block} for block in objects(content)] or [message]
        for block in blocks:
            raw = json.dumps(block, ensure_ascii=False)
            content = mapping(block.get("content"))
            said = {**block, "role": "", "content": {**content, "type": ""} if content else block.get("content")}
            pieces.append(Piece(role, "\n".join(filter(None, strings(said))), raw))
    return Recorded(json.dumps([system, data], ensure_ascii=False, sort_keys=True), tuple(pieces))


def read_requests(log: Path) -> list[Recorded]:
    """Read the chat requests that the proxy recorded, in the order in which they came."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    entries = sorted((cast(Json, json.loads(line)) for line in lines), key=lambda entry: entry["n"])
    return [read_request(entry["body"]) for entry in entries if entry["method"] == "POST"]


def starts_overview(piece: Piece) -> bool:
    return piece.role == "user" and piece.text.lstrip().startswith(OVERVIEW)


def read_session(path: Path) -> SessionFile:
    """Read a session file whose branch is the whole file."""
    lines = [cast(Json, json.loads(line)) for line in path.read_bytes().split(b"\n") if line.strip()]
    messages = tuple(str(line["id"]) for line in lines if line.get("type") == "message")
    states = [line["data"] for line in lines if line.get("customType") == "ov-takeover"]
    return SessionFile(str(lines[0]["id"]), messages, states[-1] if states else {})


def undelivered(outbox: Path) -> int:
    """Count the ledger's rows that the store has not confirmed; -1: there is no ledger."""
    if not outbox.exists():
        return -1
    with contextlib.closing(sqlite3.connect(outbox)) as db:
        return int(db.execute("SELECT count(*) FROM message WHERE state != 'done'").fetchone()[0])


def marks_of(messages: object) -> tuple[str, ...]:
    """List the marks of a store's messages in their order."""
    lists = (cast("list[Any]", message.get("source_message_ids") or []) for message in objects(messages))
    return tuple(str(mark) for marks in lists for mark in marks)


class ServerView:
    """An OpenViking server as anybody with the user's key sees it."""

    def __init__(self, url: str, environment: Mapping[str, str]) -> None:
        self.url = url.rstrip("/")
        names = {"OPENVIKING_ACCOUNT": "X-OpenViking-Account", "OPENVIKING_USER": "X-OpenViking-User"}
        self.headers = {header: environment[name] for name, header in names.items() if environment.get(name)}
        if key := environment.get("OPENVIKING_API_KEY"):
            self.headers["Authorization"] = f"Bearer {key}"

    def check_health(self) -> None:
        """Raise ValueError when there is no server at the address, or not one for this key."""
        request = urllib.request.Request(f"{self.url}/health", headers=self.headers)
        try:
            with urllib.request.urlopen(request, timeout=20):
                return
        except OSError as error:
            raise ValueError(f"no OpenViking answers at {self.url}: {error}") from error

    def call(self, method: str, path: str) -> Any:
        """Give the answer's `result`, or None for a 404; raises OSError for anything else that is wrong."""
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", headers=self.headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=40) as response:
                return json.load(response)["result"]
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def held(self, name: str) -> Held | None:
        """Give what the server holds of a session; None: it does not know it."""
        route = f"sessions/{quote(name, safe='')}"
        status = self.call("GET", route)
        if status is None:
            return None
        archives: list[Archive] = []
        for number in range(1, int(status["commit_count"]) + 1):
            found = mapping(self.call("GET", f"{route}/archives/archive_{number:03d}"))
            archives.append(Archive(str(found.get("overview") or ""), marks_of(found.get("messages"))))
        context = mapping(self.call("GET", f"{route}/context?token_budget=10000000"))
        return Held(int(status["commit_count"]), tuple(archives), marks_of(context.get("messages")))

    def forget(self, name: str) -> None:
        """Delete a session once nothing is in the making: a running task would bring it back."""
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            tasks = objects(self.call("GET", f"tasks?resource_id={quote(name, safe='')}"))
            if all(task.get("status") in ("completed", "failed", "cancelled") for task in tasks):
                break
            time.sleep(1)
        self.call("DELETE", f"sessions/{quote(name, safe='')}")


async def embedded_held(path: Path, name: str) -> Held | None:
    """Give what the embedded store holds of a session; None: it does not know it."""
    from vikingpi.viking.embedded_sessions import EmbeddedSessions

    def live_bodies(db: sqlite3.Connection) -> Sequence[tuple[str]]:
        query = (
            "SELECT m.body FROM message AS m JOIN session AS s ON s.id = m.session"
            " WHERE s.name = ? AND m.archive = 0 ORDER BY m.seq"
        )
        return db.execute(query, (name,)).fetchall()

    store = EmbeddedSessions(path, lambda: int(time.time() * 1000))
    try:
        status = await store.session_status(name)
        if status is None:
            return None
        archives: list[Archive] = []
        for number in range(1, status.commit_count + 1):
            found = await store.archive(name, number)
            marks = tuple(mark for message in found.messages for mark in message.marks) if found else ()
            archives.append(Archive(found.overview if found else "", marks))
        bodies = await store.file.read(live_bodies)
        return Held(status.commit_count, tuple(archives), marks_of([json.loads(body) for (body,) in bodies]))
    finally:
        await store.close()


def read_embedded(path: Path, name: str) -> Held | None:
    """Read the embedded store at `path`; None also where there is no file."""
    return asyncio.run(embedded_held(path, name)) if path.exists() else None
