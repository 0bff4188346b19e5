import asyncio
import io
import json
import os
from pathlib import Path
from typing import Any, cast

import pytest
from ui_fake import FakeApp, replay, session_in, text_answer, text_events

from vikingpi import events
from vikingpi.decode import Json
from vikingpi.events import Event, MessageEnd, Notice, StoreState
from vikingpi.messages import ToolCall, ToolResultMessage, Usage
from vikingpi.session.entries import message_from_json, usage_from_json
from vikingpi.session.file import create_session
from vikingpi.ui.json_mode import EventEncoder, header_of, run_json

DATA = Path(__file__).parent / "data"
ONLY_PI = {"totalFromProvider", "structuredContent"}


def run(app: FakeApp, *texts: str) -> tuple[int, list[Json], str]:
    out, err = io.StringIO(), io.StringIO()
    code = asyncio.run(run_json(app, [(text, ()) for text in texts], out, err))
    return code, [json.loads(line) for line in out.getvalue().splitlines()], err.getvalue()


def message_of(line: Json) -> Any:
    return message_from_json(line["message"], None)


def update_of(line: Json) -> Event:
    piece = line["assistantMessageEvent"]
    call = None
    if piece["type"] == "toolcall_start":
        call = ToolCall(piece["id"], piece["toolName"], {})
    elif piece["type"] == "toolcall_end":
        call = ToolCall(piece["toolCall"]["id"], piece["toolCall"]["name"], piece["toolCall"]["arguments"])
    usage = usage_from_json(line["usage"])
    return events.MessageUpdate(piece["type"], piece["contentIndex"], piece.get("delta", ""), call, usage)


def tool_of(line: Json, arguments: Json) -> Event:
    call = ToolCall(line["toolCallId"], line["toolName"], line.get("args", arguments))
    if line["type"] == "tool_execution_start":
        return events.ToolStart(call)
    if line["type"] == "tool_execution_update":
        return events.ToolUpdate(call, "".join(part["text"] for part in line["partialResult"]["content"]))
    result = message_from_json({**line, **line["result"], "role": "toolResult"}, None)
    assert isinstance(result, ToolResultMessage)
    return events.ToolEnd(call, result)


def event_of(line: Json, arguments: Json) -> Event:
    match line["type"]:
        case "agent_start":
            return events.AgentStart()
        case "turn_start":
            return events.TurnStart()
        case "message_start":
            return events.MessageStart(message_of(line))
        case "message_update":
            return update_of(line)
        case "message_end":
            return events.MessageEnd(message_of(line))
        case "turn_end":
            results = [message_from_json(result, None) for result in line["toolResults"]]
            return events.TurnEnd(message_of(line), tuple(r for r in results if isinstance(r, ToolResultMessage)))
        case "agent_end":
            messages = [message_from_json(message, None) for message in line["messages"]]
            return events.AgentEnd(tuple(m for m in messages if m is not None), line["willRetry"])
        case "agent_settled":
            return events.AgentSettled(line["aborted"])
        case _:
            return tool_of(line, arguments)


def comparable(value: Any) -> Any:
    """Without pi's own extras, zero reasoning tokens and key order."""
    if isinstance(value, dict):
        fields = cast(Json, value)
        return {
            key: comparable(part)
            for key, part in fields.items()
            if key not in ONLY_PI and not (key == "reasoning" and part == 0)
        }
    if isinstance(value, list):
        return [comparable(part) for part in cast("list[Any]", value)]
    return value


@pytest.mark.parametrize("sample", ["text", "tool"])
def test_the_lines_are_those_of_pi(sample: str) -> None:
    lines = [json.loads(line) for line in (DATA / f"pi-mode-json-{sample}.jsonl").read_text().splitlines()]
    encoder, arguments = EventEncoder(), {}
    for line in lines[1:]:
        arguments = line.get("args", arguments)
        written = encoder.encode(event_of(line, arguments))
        assert written is not None
        assert comparable(written) == comparable(line)
        assert list(written) == list(line)


def test_the_header_comes_first_even_before_events_of_the_opening() -> None:
    app = FakeApp(replay(text_answer("ok")))
    out = io.StringIO()

    async def start() -> None:
        app.emit(StoreState("embedded", True))

    asyncio.run(run_json(app, [("a", ())], out, io.StringIO(), start))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert list(lines[0]) == ["type", "version", "id", "timestamp", "cwd"]
    assert lines[0]["id"] == app.parts.session.id
    assert [line["type"] for line in lines[1:3]] == ["store_state", "agent_start"]
    assert lines[-1] == {"type": "agent_settled", "aborted": False}


def test_a_prompt_is_a_whole_run_of_events() -> None:
    code, lines, err = run(FakeApp(replay(text_answer("hi there"))), "a")
    assert (code, err) == (0, "")
    kinds = [line.get("assistantMessageEvent", line)["type"] for line in lines]
    assert kinds == [
        "session",
        "agent_start",
        "turn_start",
        "message_start",
        "message_end",
        "message_start",
        "text_start",
        "text_delta",
        "text_end",
        "message_end",
        "turn_end",
        "agent_end",
        "agent_settled",
    ]
    assert lines[5]["message"]["stopReason"] == "pending"
    assert lines[8]["assistantMessageEvent"]["content"] == "hi there"


def test_a_failed_answer_fails_the_run_and_is_in_the_events() -> None:
    code, lines, err = run(FakeApp(replay(text_answer("", "error", "401: bad key"))), "a")
    assert (code, err) == (1, "error: 401: bad key\n")
    ends = [line["message"] for line in lines if line["type"] == "message_end"]
    assert ends[-1]["stopReason"] == "error"
    assert ends[-1]["errorMessage"] == "401: bad key"


def test_notices_are_lines_on_stderr_and_no_events() -> None:
    code, lines, err = run(FakeApp(replay([Notice("store is down", "warning"), MessageEnd(text_answer("x"))])), "a")
    assert (code, err) == (0, "warning: store is down\n")
    assert "notice" not in {line["type"] for line in lines}


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            events.BoundaryAdvanced(3, 900, 80),
            {"type": "boundary_advanced", "coveredUserTurns": 3, "tokensBefore": 900, "tokensAfter": 80},
        ),
        (events.BoundaryReset("fingerprint"), {"type": "boundary_reset", "reason": "fingerprint"}),
        (events.CommitFailed("refused"), {"type": "commit_failed", "reason": "refused"}),
        (
            events.HookFailed("X", "context", "KeyError"),
            {"type": "hook_failed", "hook": "X", "method": "context", "error": "KeyError"},
        ),
        (
            StoreState("openviking", None, 1, 2, 3, 4, 5, True, "d"),
            {
                "type": "store_state",
                "kind": "openviking",
                "connected": None,
                "coveredUserTurns": 1,
                "pendingTokens": 2,
                "tokenThreshold": 3,
                "outbox": 4,
                "dead": 5,
                "openCommit": True,
                "detail": "d",
            },
        ),
        (
            events.RetryStart(1, 3, 2000, "503"),
            {"type": "auto_retry_start", "attempt": 1, "maxAttempts": 3, "delayMs": 2000, "errorMessage": "503"},
        ),
        (events.RetryEnd(True, 1), {"type": "auto_retry_end", "success": True, "attempt": 1}),
        (events.CompactionStart("threshold"), {"type": "compaction_start", "reason": "threshold"}),
        (
            events.CompactionEnd("manual", error="no"),
            {
                "type": "compaction_end",
                "reason": "manual",
                "aborted": False,
                "willRetry": False,
                "errorMessage": "no",
            },
        ),
    ],
)
def test_each_other_event_has_its_line(event: Event, line: Json) -> None:
    assert EventEncoder().encode(event) == line


def test_usage_of_an_answer_that_arrives_is_the_newest_known() -> None:
    encoder = EventEncoder()
    encoder.encode(events.MessageUpdate("text_delta", 0, "a", usage=Usage(7, 1)))
    later = encoder.encode(events.MessageUpdate("text_delta", 0, "b"))
    assert later is not None
    assert later["usage"]["input"] == 7
    encoder.encode(events.MessageStart(text_answer("")))
    fresh = encoder.encode(events.MessageUpdate("text_start", 0))
    assert fresh is not None
    assert fresh["usage"]["input"] == 0


def test_a_lone_surrogate_does_not_break_the_stream() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, "utf-8", newline="")
    app = FakeApp(replay(text_events(text_answer("\ud83d"), ["\ud83d"])))
    assert asyncio.run(run_json(app, [("a", ())], out, io.StringIO())) == 0
    lines = [json.loads(line) for line in raw.getvalue().splitlines()]
    assert lines[-1]["type"] == "agent_settled"
    assert any(line.get("assistantMessageEvent", {}).get("delta") == "\ufffd" for line in lines)


def test_a_reader_that_went_away_ends_the_run_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    app = FakeApp(replay(text_answer("", "aborted")))
    with os.fdopen(writing, "w") as out:
        err = io.StringIO()
        code = asyncio.run(run_json(app, [("a", ())], out, err))
    assert (code, err.getvalue()) == (1, "")


def test_the_header_is_that_of_the_session_file(tmp_path: Path) -> None:
    log = create_session(tmp_path, "/srv/app", tmp_path / "locks", session_id="s1", clock=lambda: 1_796_032_268.122)
    before = header_of(log)
    assert before["timestamp"] == "2026-11-30T09:51:08.122Z"
    log.close()
    written = header_of(session_in(tmp_path / "b", "hello"))
    assert written["id"] == "s1"
    assert written["cwd"] == "/srv/app/proj"


def test_answers_with_thinking_end_with_their_whole_thought() -> None:
    encoder = EventEncoder()
    for piece in ("let me ", "see"):
        encoder.encode(events.MessageUpdate("thinking_delta", 0, piece))
    ended = encoder.encode(events.MessageUpdate("thinking_end", 0))
    assert ended is not None
    assert ended["assistantMessageEvent"] == {"type": "thinking_end", "contentIndex": 0, "content": "let me see"}
