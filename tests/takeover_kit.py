"""A simulated store with faults, and one vpi process over it, without any network or real clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tests.virtual_time import now_ms
from vikingpi.agent.hooks import TurnEnd
from vikingpi.app.context import SessionContext, session_ref
from vikingpi.config.model import Settings, Takeover
from vikingpi.decode import Json
from vikingpi.errors import StoreRejected, StoreUnreachable
from vikingpi.events import Event
from vikingpi.messages import (
    AssistantMessage,
    Message,
    TextPart,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
)
from vikingpi.session.file import SessionLog, memory_session
from vikingpi.session.tree import build_context
from vikingpi.takeover.capture import CaptureOptions
from vikingpi.takeover.courier import Courier
from vikingpi.takeover.delivery import Link
from vikingpi.takeover.engine import Engine
from vikingpi.takeover.hooks import PORTION, TakeoverHooks
from vikingpi.takeover.mirror import Mirror
from vikingpi.viking.base import Archive, CommitReceipt, Health, SessionStatus, SessionStore, StoreMessage, TaskState
from vikingpi.viking.ledger import Ledger, open_ledger

Outcome = Literal["good", "failed", "blank", "placeholder"]
Fault = Literal[
    "lost", "refused", "gateway-lost", "late-0", "late-15", "late-30", "poison", "foreign", "denied", "too-large"
]
POST_MS = 40_000
PLACEHOLDER = "# Session Summary\n\n**Overview**: 1 turns, 2 messages"


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms

    async def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)
        await asyncio.sleep(0)


class LoopClock(Clock):
    """The time of the running loop, for runs in virtual time."""

    def __call__(self) -> int:
        return now_ms()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SimArchive:
    def __init__(self, number: int, messages: list[StoreMessage], by: str) -> None:
        self.number = number
        self.messages = messages
        self.by = by
        self.state: Literal["pending", "good", "failed", "blank", "placeholder"] = "pending"
        self.overview = ""


class SimSession:
    def __init__(self, born: int) -> None:
        self.created_at = f"born-{born}"
        self.live: list[StoreMessage] = []
        self.archives: list[SimArchive] = []
        self.total = 0


class SimServer:
    """What the real server shows: phase two of a commit runs when `finish` is called; an overview knows the texts of
    its archive and of the newest earlier one that has an overview."""

    def __init__(self) -> None:
        self.sessions: dict[str, SimSession] = {}
        self.births = 0
        self.instant: Outcome | None = "good"

    def session(self, name: str) -> SimSession:
        if name not in self.sessions:
            self.births += 1
            self.sessions[name] = SimSession(self.births)
        return self.sessions[name]

    def commit(self, name: str, keep: int, by: str = "vpi") -> SimArchive | None:
        session = self.sessions[name]
        cut = max(0, len(session.live) - keep)
        if not cut:
            return None
        archive = SimArchive(len(session.archives) + 1, session.live[:cut], by)
        session.live = session.live[cut:]
        session.archives.append(archive)
        if self.instant is not None:
            self.finish(name, self.instant)
        return archive

    def finish(self, name: str, outcome: Outcome) -> bool:
        session = self.sessions.get(name)
        archive = next((a for a in session.archives if a.state == "pending"), None) if session else None
        if session is None or archive is None:
            return False
        archive.state = outcome
        if outcome == "good":
            earlier = [a.overview for a in session.archives[: archive.number - 1] if a.state == "good"]
            known = earlier[-1].splitlines()[3:] if earlier else []
            said = [f"- {line}" for m in archive.messages for line in _texts(m)]
            archive.overview = "\n".join(["# Working Memory", "", "## Key Facts & Decisions", *known, *said])
        if outcome == "placeholder":
            archive.overview = PLACEHOLDER
        return True

    def marks(self, name: str) -> list[str]:
        """Marks of every stored message, archives first, in order; placeholders by the entry they name."""
        session = self.sessions[name]
        stored = [m for a in session.archives for m in a.messages] + session.live
        return [mark for m in stored for mark in m.marks if not mark.startswith("refused:")]


class SimStore:
    """The SessionStore protocol over a SimServer; `faults` are used up one per write."""

    def __init__(self, server: SimServer, clock: Clock | None = None) -> None:
        self.server = server
        self.clock = clock or Clock()
        self.late: list[tuple[int, Callable[[], None]]] = []
        self.up = True
        self.faults: list[Fault] = []
        self.poison: frozenset[str] = frozenset()
        self.broken: frozenset[str] = frozenset()
        self.calls: list[str] = []

    @property
    def kind(self) -> Literal["openviking", "embedded"]:
        return "openviking"

    async def health(self) -> Health:
        self._reach("health")
        return Health("sim", "default", "default", "http://sim")

    async def ensure_session(self, name: str, *, memories: bool = True) -> SessionStatus:
        self._reach("ensure")
        return _status(self.server.session(name))

    async def add_messages(self, name: str, messages: Sequence[StoreMessage]) -> None:
        self._reach(f"add {len(messages)}")
        if name in self.broken:
            raise StoreUnreachable("internal error", may_have_stored=True)
        if self.faults[:1] == ["too-large"] and len(messages) > 1:
            self.faults.pop(0)
            raise StoreRejected("the body is too large", status=413)
        if self.faults[:1] == ["poison"]:
            self.faults.pop(0)
            self.poison |= {m.marks[0] for m in messages[:1] if not m.marks[0].startswith(("seed:", "refused:"))}
        if any(mark in self.poison for m in messages for mark in m.marks) and not _plain(messages):
            raise StoreRejected("bad message", status=400)

        def store() -> None:
            session = self.server.session(name)
            session.live.extend(messages)
            session.total += len(messages)

        self._write(store)

    async def session_status(self, name: str) -> SessionStatus | None:
        self._reach("status")
        session = self.server.sessions.get(name)
        return _status(session) if session else None

    async def marks(self, name: str, since_archive: int) -> frozenset[str]:
        self._reach("marks")
        session = self.server.sessions.get(name)
        if session is None:
            return frozenset()
        shown = list(session.live)
        for archive in session.archives:
            if archive.state == "pending" or (archive.number > since_archive and archive.state == "good"):
                shown += archive.messages
        return frozenset(mark for m in shown for mark in m.marks)

    async def commit(self, name: str, keep: int) -> CommitReceipt | None:
        self._reach("commit")
        if name not in self.server.sessions:
            return None
        if self.faults[:1] == ["foreign"]:
            self.faults.pop(0)
            self.server.commit(name, 1, "foreign")
            self.server.finish(name, "placeholder")
        made: list[SimArchive | None] = []
        self._write(lambda: made.append(self.server.commit(name, keep) if name in self.server.sessions else None))
        archive = made[0]
        if archive is None:
            return CommitReceipt(False)
        return CommitReceipt(True, f"{name}/{archive.number}", archive.number)

    async def unfinished_task(self, name: str) -> bool:
        self._reach("tasks")
        session = self.server.sessions.get(name)
        return session is not None and any(a.state == "pending" for a in session.archives)

    async def task(self, task_id: str) -> TaskState:
        self._reach("task")
        name, _, number = task_id.rpartition("/")
        session = self.server.sessions.get(name)
        if session is None or int(number) > len(session.archives):
            return "gone"
        state = session.archives[int(number) - 1].state
        return "pending" if state == "pending" else "failed" if state == "failed" else "completed"

    async def archive(self, name: str, number: int) -> Archive | None:
        self._reach("archive")
        session = self.server.sessions.get(name)
        if session is None or not 1 <= number <= len(session.archives):
            return None
        archive = session.archives[number - 1]
        if archive.state in ("pending", "failed", "blank"):
            return None
        marks = frozenset(mark for m in archive.messages for mark in m.marks)
        return Archive(number, archive.overview, marks, tuple(archive.messages))

    async def close(self) -> None:
        return None

    def _reach(self, call: str) -> None:
        self.calls.append(call)
        self.settle_late()
        if not self.up:
            raise StoreUnreachable("connection refused", may_have_stored=False, refused=True)

    def settle_late(self) -> None:
        """Let the server take what was on its way until now."""
        due = [effect for moment, effect in sorted(self.late, key=lambda item: item[0]) if moment <= self.clock.ms]
        self.late = [item for item in self.late if item[0] > self.clock.ms]
        for effect in due:
            effect()

    def _write(self, effect: Callable[[], None]) -> None:
        fault = self.faults.pop(0) if self.faults and self.faults[0] not in ("poison", "foreign", "too-large") else None
        if fault is None:
            return effect()
        if fault == "denied":
            raise StoreRejected("the key is not valid", status=401)
        if fault == "refused":
            raise StoreUnreachable("connection refused", may_have_stored=False, refused=True)
        if fault.startswith("late-"):
            self.clock.ms += POST_MS
            self.late.append((self.clock.ms + int(fault[5:]) * 1000, effect))
        elif fault == "lost":
            effect()
        raise StoreUnreachable("no answer", may_have_stored=True)


class Process(NamedTuple):
    """One vpi process with one open session."""

    session: SessionLog
    store: SessionStore
    ledger: Ledger
    engine: Engine
    hooks: TakeoverHooks
    ctx: SessionContext
    events: list[Event]
    clock: Clock

    def user(self, text: str) -> str:
        """Begin a user turn."""
        self.engine.running_turn = True
        return self.session.append_message(UserMessage((TextPart(text),), self.clock())).id

    def answer(self, text: str, calls: Sequence[ToolCall] = ()) -> str:
        content = ((TextPart(text),) if text else ()) + tuple(calls)
        reason = "toolUse" if calls else "stop"
        message = AssistantMessage(content, "scripted", "p", "m", Usage(), reason, self.clock())
        return self.session.append_message(message).id

    def result(self, call: ToolCall, text: str) -> str:
        message = ToolResultMessage(call.id, call.name, (TextPart(text),), False, self.clock())
        return self.session.append_message(message).id

    async def end_turn(self, *, last: bool = True) -> None:
        message = AssistantMessage((), "scripted", "p", "m", Usage(), "stop", self.clock())
        await self.hooks.turn_end(self.ctx, TurnEnd(message, (), last))

    async def say(self, text: str, reply: str = "noted") -> None:
        """One whole user turn, captured."""
        self.user(text)
        self.answer(reply)
        await self.end_turn()

    async def work(self) -> str:
        """One pass of what the background does."""
        line = "unreachable"
        while self.engine.mirror.behind and self.engine.mirror.capture(1):
            pass
        if await self.engine.courier.deliver_own() not in ("unreachable", "denied"):
            line = await self.engine.advance()
            await self.engine.courier.deliver_others()
        return line

    def request(self) -> tuple[Message, ...]:
        return self.hooks.context(self.ctx, build_context(self.session.branch()))

    def shown(self) -> str:
        return "\n".join(text_of(message) for message in self.request())


def settings(threshold: int = 30, keep: int = 1) -> Settings:
    """Settings with a small threshold."""
    takeover = Takeover(token_threshold=threshold, keep_recent_turns=keep, overview_poll_ms=100, overview_poll_max=3)
    return Settings(takeover=takeover)


def process(
    data: Path,
    store: SessionStore,
    *,
    session: SessionLog | None = None,
    clock: Clock | None = None,
    config: Settings | None = None,
    ledger: Ledger | None = None,
    portion: int = PORTION,
) -> Process:
    """Start a process over a data folder and a store."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = session or memory_session("/work")
    ticks = clock or Clock()
    book = ledger or open_ledger(data / "outbox.db")
    events: list[Event] = []
    options = config or settings()
    ctx = SessionContext(log, lambda: options, events.append)

    def note(record: Json) -> None:
        assert record["event"]

    link = Link(book, store, "sim", data=data, now=ticks, log=note)
    capture = CaptureOptions(options.capture_max_length, options.capture_tool_max_chars, "peer", str)
    mirror = Mirror(link, ctx, session_ref(log), capture)
    courier = Courier(link, ctx, mirror, options.takeover.token_threshold)
    engine = Engine(courier, ctx, options.takeover, ticks.sleep)
    hooks = TakeoverHooks(engine, options.takeover, "print", asyncio.ensure_future, portion)
    return Process(log, store, book, engine, hooks, ctx, events, ticks)


def _status(session: SimSession) -> SessionStatus:
    return SessionStatus(session.created_at, session.total, len(session.live), len(session.archives))


def _plain(messages: Sequence[StoreMessage]) -> bool:
    return all(mark.startswith("refused:") for m in messages for mark in m.marks[:1])


def _texts(message: StoreMessage) -> list[str]:
    found = [str(part.get("text") or part.get("tool_output") or "") for part in message.parts]
    return [text.replace("\n", " ") for text in found if text]
