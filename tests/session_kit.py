"""Session files for tests, written the way another program would."""

import json
from pathlib import Path

from vikingpi.decode import Json
from vikingpi.session.file import SessionLog, open_session

SAMPLES = sorted((Path(__file__).parent / "data" / "pi").glob("*.jsonl"))
HEADER: Json = {
    "type": "session",
    "version": 3,
    "id": "01a22bdd-3eee-7398-a4c2-b82e82afb313",
    "timestamp": "2026-11-30T09:50:49.583Z",
    "cwd": "/srv/app",
}


def user(entry_id: str, parent: str | None, text: str = "hi") -> Json:
    content = [{"type": "text", "text": text}]
    return entry("message", entry_id, parent, message={"role": "user", "content": content, "timestamp": 1000})


def answer(entry_id: str, parent: str | None, text: str = "ok", **fields: object) -> Json:
    message: Json = {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": "openai-completions",
        "provider": "lab",
        "model": "m1",
        "usage": {"input": 10, "output": 2, "totalTokens": 12, "cost": {"input": 0.5, "output": 0.25, "total": 0.75}},
        "stopReason": "stop",
        "timestamp": 2000,
    }
    return entry("message", entry_id, parent, message={**message, **fields})


def entry(kind: str, entry_id: str, parent: str | None, **fields: object) -> Json:
    head: Json = {"type": kind, "id": entry_id, "parentId": parent, "timestamp": "2026-11-30T09:50:49.600Z"}
    return {**head, **fields}


def lines(*values: Json) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def session_file(folder: Path, *entries: Json, tail: bytes = b"") -> Path:
    path = folder / f"2026-11-30T09-50-49-583Z_{HEADER['id']}.jsonl"
    path.write_bytes(lines(HEADER, *entries) + tail)
    return path


def opened(path: Path) -> SessionLog:
    return open_session(path, path.parent / "locks")


def ids(log: SessionLog) -> list[str]:
    return [found.id for found in log.branch()]


def parsed(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
