"""`--mode json`: the session header, then one JSON object per event and line, with pi's names and shapes.

The events that pi does not have are `boundary_advanced`, `boundary_reset`, `commit_failed`, `hook_failed`,
`limit_reached` and `store_state`. Notices are no events: they go to stderr.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import TextIO

from vikingpi import events, safetext
from vikingpi.app.limits import EXIT_CODE, Limiter, Limits
from vikingpi.commands.host import Host, OpenSession
from vikingpi.decode import Json, as_dict
from vikingpi.errors import VpiError
from vikingpi.messages import AssistantMessage, Message, ToolCall, ToolResultMessage, Usage
from vikingpi.session.entries import message_to_json, usage_to_json
from vikingpi.session.ids import iso_time
from vikingpi.session.reader import VERSION
from vikingpi.ui.lines import Line, failure_of
from vikingpi.ui.plain import NO_LIMITS, Prompt, Reporter, Start, hint_of, run_prompts, write

_WRITTEN_AT_THE_END = ("responseId", "rawStopReason", "durationMs", "thinkingLevel")


class EventEncoder:
    """Turns events into JSON; keeps the texts of the blocks that are being received."""

    def __init__(self) -> None:
        self._usage = Usage()
        self._blocks: dict[int, list[str]] = {}

    def encode(self, event: events.Event) -> Json | None:
        """Return the object for an event, None for what is no event on the wire."""
        return self._prompt(event) or _tool(event) or _run(event) or _store(event)

    def _prompt(self, event: events.Event) -> Json | None:
        match event:
            case events.AgentStart():
                return {"type": "agent_start"}
            case events.TurnStart():
                return {"type": "turn_start"}
            case events.MessageStart(message):
                self._usage = Usage()
                self._blocks.clear()
                return {"type": "message_start", "message": _started(message)}
            case events.MessageUpdate():
                return self._update(event)
            case events.MessageEnd(message):
                return {"type": "message_end", "message": message_to_json(message)}
            case events.TurnEnd(message, results):
                answers = [message_to_json(result) for result in results]
                return {"type": "turn_end", "message": message_to_json(message), "toolResults": answers}
            case events.AgentEnd(messages, will_retry):
                written = [message_to_json(message) for message in messages]
                return {"type": "agent_end", "messages": written, "willRetry": will_retry}
            case events.AgentSettled(aborted):
                return {"type": "agent_settled", "aborted": aborted}
            case _:
                return None

    def _update(self, event: events.MessageUpdate) -> Json:
        if event.usage is not None:
            self._usage = event.usage
        piece: Json = {"type": event.kind, "contentIndex": event.index}
        block = self._blocks.setdefault(event.index, [])
        match event.kind:
            case "text_start" | "thinking_start":
                block.clear()
            case "text_delta" | "thinking_delta":
                block.append(event.text)
                piece["delta"] = event.text
            case "text_end" | "thinking_end":
                piece["content"] = "".join(block)
            case "toolcall_start":
                piece |= {"id": event.call.id, "toolName": event.call.name} if event.call else {}
            case "toolcall_delta":
                piece["delta"] = event.text
            case "toolcall_end":
                piece |= {"toolCall": _call(event.call)} if event.call else {}
        return {
            "type": "message_update",
            "usage": usage_to_json(self._usage),
            "assistantMessageEvent": piece,
        }


def _started(message: Message) -> Json:
    written = message_to_json(message)
    if isinstance(message, AssistantMessage) and message.stop_reason not in ("error", "aborted"):
        written = {key: value for key, value in written.items() if key not in _WRITTEN_AT_THE_END}
        written["stopReason"] = "pending"
    return written


def _call(call: ToolCall) -> Json:
    return {"type": "toolCall", "id": call.id, "name": call.name, "arguments": call.arguments}


def _result(result: ToolResultMessage) -> Json:
    written: Json = {"content": message_to_json(result)["content"]}
    return written if result.details is None else {**written, "details": result.details}


def _tool(event: events.Event) -> Json | None:
    match event:
        case events.ToolStart(call):
            kind, extra = "tool_execution_start", {"args": call.arguments}
        case events.ToolUpdate(call, text):
            parts = [{"type": "text", "text": text}] if text else []
            partial: Json = {"content": parts, "details": {}} if text else {"content": parts}
            kind, extra = "tool_execution_update", {"args": call.arguments, "partialResult": partial}
        case events.ToolEnd(call, result):
            ended: Json = {"result": _result(result), "isError": result.is_error}
            if result.duration_ms is not None:
                ended["durationMs"] = result.duration_ms
            kind, extra = "tool_execution_end", ended
        case _:
            return None
    return {"type": kind, "toolCallId": call.id, "toolName": call.name, **extra}


def _run(event: events.Event) -> Json | None:
    match event:
        case events.RetryStart():
            return {
                "type": "auto_retry_start",
                "attempt": event.attempt,
                "maxAttempts": event.max_attempts,
                "delayMs": event.delay_ms,
                "errorMessage": event.error,
            }
        case events.RetryEnd(success, attempt, error):
            ended: Json = {"type": "auto_retry_end", "success": success, "attempt": attempt}
            return {**ended, "finalError": error} if error else ended
        case events.CompactionStart(reason):
            return {"type": "compaction_start", "reason": reason}
        case events.CompactionEnd():
            return _compaction_end(event)
        case events.LimitReached(limit, text):
            return {"type": "limit_reached", "limit": limit, "reason": text}
        case _:
            return None


def _compaction_end(event: events.CompactionEnd) -> Json:
    written: Json = {"type": "compaction_end", "reason": event.reason}
    if not event.error:
        written["result"] = {
            "tokensBefore": event.tokens_before,
            "tokensAfter": event.tokens_after,
            "fromHook": event.from_hook,
        }
    written |= {"aborted": False, "willRetry": event.reason == "overflow" and not event.error}
    return {**written, "errorMessage": event.error} if event.error else written


def _store(event: events.Event) -> Json | None:
    match event:
        case events.BoundaryAdvanced():
            return {
                "type": "boundary_advanced",
                "coveredUserTurns": event.covered_user_turns,
                "tokensBefore": event.tokens_before,
                "tokensAfter": event.tokens_after,
            }
        case events.BoundaryReset(reason):
            return {"type": "boundary_reset", "reason": reason}
        case events.CommitFailed(reason):
            return {"type": "commit_failed", "reason": reason}
        case events.HookFailed(hook, method, error):
            return {"type": "hook_failed", "hook": hook, "method": method, "error": error}
        case events.StoreState():
            return {
                "type": "store_state",
                "kind": event.kind,
                "connected": event.connected,
                "coveredUserTurns": event.covered_user_turns,
                "pendingTokens": event.pending_tokens,
                "tokenThreshold": event.token_threshold,
                "outbox": event.outbox,
                "dead": event.dead,
                "openCommit": event.open_commit,
                "detail": event.detail,
            }
        case _:
            return None


def header_of(session: OpenSession) -> Json:
    """Return a session's header: from its file, or as the file will have it once there is one."""
    if session.path is not None:
        try:
            with session.path.open("rb") as file:
                written = as_dict(json.loads(file.readline(1 << 20)))
        except (OSError, ValueError):
            written = {}
        if written.get("type") == "session":
            return written
    return {
        "type": "session",
        "version": VERSION,
        "id": session.id,
        "timestamp": _begun(session),
        "cwd": session.cwd,
    }


def _begun(session: OpenSession) -> str:
    """Tell when a session without a file began: its file's name or a time-ordered id says so."""
    name = session.path.name if session.path is not None else ""
    if stamp := re.match(r"(\d{4}-\d\d-\d\dT\d\d)-(\d\d)-(\d\d)-(\d{3}Z)_", name):
        return f"{stamp[1]}:{stamp[2]}:{stamp[3]}.{stamp[4]}"
    if re.match(r"[0-9a-f]{8}-[0-9a-f]{4}-7", session.id):
        return iso_time(int(session.id.replace("-", "")[:12], 16) / 1000)
    return iso_time(time.time())


class _Stream:
    """Holds events back until the header is out. When nobody reads any more, `gone` is set and the run ends."""

    def __init__(self, app: Host, out: TextIO, report: Reporter) -> None:
        self.gone = False
        self._app = app
        self._out = out
        self._report = report
        self._encoder = EventEncoder()
        self._early: list[events.Event] | None = []

    def header(self, header: Json) -> None:
        self._write(header)
        early, self._early = self._early or [], None
        for event in early:
            self.event(event)

    def event(self, event: events.Event) -> None:
        if isinstance(event, events.Notice):
            self._report.event(event)
        elif self._early is not None:
            self._early.append(event)
        elif (written := self._encoder.encode(event)) is not None:
            self._write(written)

    def _write(self, value: Json) -> None:
        if self.gone:
            return
        line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        if self._out.isatty():
            line = safetext.ascii_json(line)
        if not write(self._out, line + "\n"):
            self.gone = True
            self._app.abort()


async def run_json(
    app: Host,
    prompts: Sequence[Prompt],
    out: TextIO,
    err: TextIO,
    start: Start | None = None,
    limits: Limits = NO_LIMITS,
) -> int:
    """Answer the prompts with events on `out` and return the exit code; `start` opens the session."""
    limiter = Limiter(app, limits)
    report = Reporter(err)
    stream = _Stream(app, out, report)
    app.subscribe(stream.event)
    if start is not None:
        await start()
    stream.header(header_of(app.parts.session))
    for notice in app.parts.notices:
        report.line(Line(notice))
    try:
        with limiter.watching():
            answer = await run_prompts(app, prompts, limiter)
    except VpiError as error:
        report.line(Line(str(error), "error", error.hint))
        return 1
    if limiter.reached is not None:
        report.event(limiter.reached)
        return EXIT_CODE
    failure = failure_of(answer, hint_of(app))
    if failure is not None and not stream.gone:
        report.line(failure)
    return 0 if failure is None else 1
