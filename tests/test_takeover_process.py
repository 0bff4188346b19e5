"""Whole runs of vpi: what they send, and what their ends leave behind."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openviking_fake import Fake, openviking
from vpi_lab import Lab, Tty, lab

Json = dict[str, Any]


def sent(server: Fake) -> list[str]:
    """First mark of every message that was posted, seeds left out, in order."""
    bodies = [request.partition("\n\n")[2] for request in server.received if "/messages/batch" in request]
    marks = [m["source_message_ids"][0] for body in bodies for m in json.loads(body.strip())["messages"]]
    return [mark for mark in marks if not mark.startswith("seed:")]


def undelivered(runs: Lab) -> list[str]:
    book = sqlite3.connect(runs.home / "outbox.db")
    try:
        return [row[0] for row in book.execute("SELECT entry_id FROM message WHERE state IN ('new', 'sending')")]
    finally:
        book.close()


def said(runs: Lab) -> list[str]:
    return [e["id"] for e in runs.entries() if e["type"] == "message" and e["message"]["role"] != "toolResult"]


def session_with_a_count_that_is_too_high(runs: Lab) -> Path:
    """Six messages, and a state whose count says that twenty were sent."""
    folder = runs.home / "sessions" / "imported"
    folder.mkdir(parents=True)
    stamp = "2026-01-01T00:00:00.000Z"
    lines: list[Json] = [{"type": "session", "version": 3, "id": "s" * 8, "timestamp": stamp, "cwd": str(runs.work)}]
    for number in range(6):
        message: Json = {"role": "user", "content": f"u{number}", "timestamp": 1}
        if number % 2:
            usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}
            named = {"api": "openai-completions", "provider": "local", "model": "scripted", "stopReason": "stop"}
            message = {"role": "assistant", "content": [{"type": "text", "text": f"a{number}"}], "timestamp": 1}
            message |= {**named, "usage": usage}
        entry = {"type": "message", "id": f"0000000{number}", "timestamp": stamp, "message": message}
        lines.append({**entry, "parentId": f"0000000{number - 1}" if number else None})
    data = {"syncedEntryCount": 20, "coveredUserTurns": 2, "overview": "x", "pendingTokens": 0}
    state = {"type": "custom", "customType": "ov-takeover", "id": "0000000a", "parentId": "00000005"}
    lines.append({**state, "timestamp": stamp, "data": data})
    path = folder / "2026-01-01T00-00-00-000Z_ssssssss.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_what_was_sent_is_never_sent_again_when_a_count_is_wrong(tmp_path: Path) -> None:
    with lab(tmp_path) as runs, openviking() as server:
        runs.config(takeover={"tokenThreshold": 100_000}, recallEnabled=False)
        path = session_with_a_count_that_is_too_high(runs)
        for text in ("next", "and then"):
            done = runs.run("--session", str(path), "-p", text, OPENVIKING_URL=server.url)
            assert done.returncode == 0, done.stderr
        assert sent(server) == said(runs) and len(said(runs)) == 10


@pytest.mark.parametrize("between", ["compaction", "lost state"])
def test_what_was_sent_is_never_sent_again_when_the_history_gets_shorter(tmp_path: Path, between: str) -> None:
    with lab(tmp_path) as runs, openviking() as server:
        runs.config(takeover={"tokenThreshold": 100_000}, recallEnabled=False)
        for text in ("SAY: one", "SAY: two", "SAY: three"):
            assert runs.run("-c", "-p", text, OPENVIKING_URL=server.url).returncode == 0
        (path,) = (runs.home / "sessions").rglob("*.jsonl")
        entries = runs.entries()
        lines = path.read_text().splitlines(keepends=True)
        if between == "lost state":
            assert '"ov-takeover"' in lines[-1]
            path.write_text("".join(lines[:-1]))
        else:
            kept = [e["id"] for e in entries if e["type"] == "message"][-2]
            entry = {"type": "compaction", "id": "cccccccc", "parentId": entries[-1]["id"], "firstKeptEntryId": kept}
            more = {"timestamp": "2026-01-01T00:00:00.000Z", "summary": "one and two were said", "tokensBefore": 9}
            path.write_text("".join(lines) + json.dumps({**entry, **more}) + "\n")
        assert runs.run("-c", "-p", "SAY: four", OPENVIKING_URL=server.url).returncode == 0
        assert sent(server) == said(runs) and len(said(runs)) == 8


def ctrl_d(terminal: Tty) -> None:
    terminal.send("\x04")


def ctrl_c_twice(terminal: Tty) -> None:
    terminal.send("\x03\x03")


def by(number: signal.Signals) -> Callable[[Tty], None]:
    return lambda terminal: os.kill(terminal.process.pid, number)


ENDS: dict[str, Callable[[Tty], None]] = {
    "Ctrl-D": ctrl_d,
    "Ctrl-C twice": ctrl_c_twice,
    "TERM": by(signal.SIGTERM),
    "HUP": by(signal.SIGHUP),
    "KILL": by(signal.SIGKILL),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_last_turn_survives_every_end(tmp_path: Path, end: str) -> None:
    with lab(tmp_path) as runs, openviking() as server:
        runs.config(takeover={"tokenThreshold": 100_000}, recallEnabled=False)
        terminal = Tty(runs, env={"OPENVIKING_URL": server.url})
        try:
            terminal.wait("ctx")
            terminal.send("SAY: the last answer\r")
            terminal.wait("\nthe last answer")
            ENDS[end](terminal)
            terminal.end()
        finally:
            terminal.close()
        entries = said(runs)
        assert len(entries) == 2
        if end != "KILL":
            assert sorted({*sent(server), *undelivered(runs)}) == sorted(entries)
        assert runs.run("-c", "-p", "SAY: next", OPENVIKING_URL=server.url).returncode == 0
        arrived = sent(server)
        assert len(arrived) == len(set(arrived)) and len(said(runs)) == 4
        assert sorted({*arrived, *undelivered(runs)}) == sorted(said(runs)), "what a kill cut off waits to be settled"


def test_covered_instructions_are_history_and_are_not_run_again(tmp_path: Path) -> None:
    with lab(tmp_path) as runs, openviking() as server:
        runs.config(recallEnabled=False)
        marker = tmp_path / "x"
        for text in (f"RUN: echo once >> {marker}", "what is 2+2", "and 3+3"):
            done = runs.run("-c", "-p", text, OPENVIKING_URL=server.url)
            assert done.returncode == 0, done.stderr
        assert marker.read_text() == "once\n"
        requests = runs.requests()
        messages = requests[-1]["messages"]
        overview = [m for m in messages if "[OpenViking Session Context]" in str(m["content"])]
        assert len(overview) == 1 and "not a request" in str(overview[0]["content"])
        outside = [m for m in messages if m is not overview[0] and m["role"] != "system"]
        assert str(marker) in str(overview[0]["content"]) and str(marker) not in str(outside)
        assert messages[-1]["role"] == "user" and "and 3+3" in str(messages[-1]["content"])
