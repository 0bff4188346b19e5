"""Session files of any length, in the format that both programs read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

Ending = Literal["", "takeover", "compaction"]
KEPT_TURNS = 3
TEXT = "The gateway answers in 41 ms at the 95th percentile; retries are below two an hour. "
OVERVIEW = "# Working Memory\n\n## Session Title\nGateway\n\n## Key Facts & Decisions\n- the port is 7071\n"
STAMP = "2026-11-30T09:50:49.600Z"


class SessionFile(NamedTuple):
    """A file and its length as it was made: what a run appended is cut off before the next one."""

    path: Path
    size: int

    def reset(self) -> None:
        os.truncate(self.path, self.size)


def write_session(
    folder: Path, entries: int, cwd: Path, ending: Ending = "", *, words: int = 4, number: int = 0
) -> SessionFile:
    """Write user messages and answers by turns, `words` times TEXT each, and at the end what stands for the older.

    Takeover and compaction leave the last KEPT_TURNS user turns as they are. `number` tells sessions of one folder
    apart.
    """
    folder.mkdir(parents=True, exist_ok=True)
    session_id = f"01a22bdd-3eee-7398-a4c2-{number or entries:012d}"
    path = folder / f"2026-11-30T09-50-49-583Z_{session_id}.jsonl"
    header = {"type": "session", "version": 3, "id": session_id, "timestamp": STAMP, "cwd": str(cwd)}
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(header) + "\n")
        for line in _turns(entries, TEXT * words):
            file.write(line)
        for entry in _ending(ending, entries, session_id):
            file.write(json.dumps(entry) + "\n")
    return SessionFile(path, path.stat().st_size)


def entry_id(number: int) -> str:
    return f"{number:016x}"


def _turns(entries: int, text: str) -> Iterator[str]:
    """Give the lines; made from two templates, since a million of them are wanted."""
    user = _template({"role": "user", "content": [{"type": "text", "text": "Q@ " + text}], "timestamp": 1796033144383})
    usage = {"input": 900, "output": 60, "cacheRead": 800, "cacheWrite": 0, "totalTokens": 960}
    cost = {"input": 0.0009, "output": 0.00012, "cacheRead": 0.00008, "cacheWrite": 0, "total": 0.0011}
    answer = _template(
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "A@ " + text}],
            "api": "openai-completions",
            "provider": "bench",
            "model": "bench-model",
            "usage": {**usage, "cost": cost},
            "stopReason": "stop",
            "thinkingLevel": "off",
            "timestamp": 1796033145383,
        }
    )
    for number in range(1, entries + 1):
        template = user if number % 2 else answer
        parent = f'"{entry_id(number - 1)}"' if number > 1 else "null"
        yield template.replace("@ID", entry_id(number), 1).replace('"@PARENT"', parent, 1).replace("@", str(number), 1)


def _template(message: dict[str, Any]) -> str:
    entry = {"type": "message", "id": "@ID", "parentId": "@PARENT", "timestamp": STAMP, "message": message}
    return json.dumps(entry) + "\n"


def _ending(ending: Ending, entries: int, session_id: str) -> Iterator[dict[str, Any]]:
    """Give the last entries: a takeover state, after a compaction one that covers nothing."""
    first_kept = entries - 2 * KEPT_TURNS + 1
    covered = first_kept - 1 if ending == "takeover" else 0
    before = entries
    if ending == "compaction":
        before += 1
        kept = {"firstKeptEntryId": entry_id(first_kept), "tokensBefore": 30000}
        yield {"type": "compaction", **_head(before), "summary": OVERVIEW, **kept}
    data = {
        "coveredUserTurns": covered // 2,
        "overview": OVERVIEW if covered else "",
        "fingerprint": None,
        "pendingTokens": 0,
        "lastSeenUserTurns": entries // 2,
        "syncedEntryCount": entries,
        "lastCoveredEntryId": entry_id(covered) if covered else None,
        "generation": f"pi-{session_id}__00000001",
        "entriesBefore": before,
        "off": False,
        "archiveId": "archive_001" if covered else None,
        "name": "",
        "model": {"provider": "bench", "id": "bench-model"},
        "thinkingLevel": "off",
        "totals": {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "cost": 0.1},
    }
    if ending:
        yield {"type": "custom", **_head(before + 1), "customType": "ov-takeover", "data": data}


def _head(number: int) -> dict[str, str]:
    return {"id": entry_id(number), "parentId": entry_id(number - 1), "timestamp": STAMP}
