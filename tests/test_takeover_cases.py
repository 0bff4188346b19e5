"""Faults that people met in programs of this kind, each as a test of its kind."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from tests.takeover_kit import LoopClock, Process, SimServer, SimStore, process, settings
from tests.virtual_time import run_virtual
from vikingpi.errors import StoreRejected, StoreUnreachable
from vikingpi.events import BoundaryReset, CommitFailed, Notice, StoreState
from vikingpi.messages import OVERVIEW_MARKER, AssistantMessage, TextPart, Usage, UserMessage, text_of, user_text
from vikingpi.session.file import create_session, open_session
from vikingpi.session.tree import build_context
from vikingpi.takeover.hooks import TakeoverHooks
from vikingpi.takeover.state import STATE, covered_turns
from vikingpi.tokens import estimate
from vikingpi.viking.base import CommitReceipt, SessionStatus, StoreMessage, TaskState


class HangingStore(SimStore):
    """Answers when asked for its health or for a session, and never to a message while it `hangs`."""

    hangs = True

    async def add_messages(self, name: str, messages: Sequence[StoreMessage]) -> None:
        self.calls.append("post")
        if self.hangs:
            await asyncio.Event().wait()
        await super().add_messages(name, messages)


def hooks_of(vpi: Process, mode: Literal["repl", "print"]) -> TakeoverHooks:
    return TakeoverHooks(vpi.engine, vpi.ctx.settings.takeover, mode, asyncio.ensure_future)


def stored(server: SimServer, vpi: Process) -> list[str]:
    return [mark for mark in server.marks(f"pi-{vpi.session.id}") if not mark.startswith("seed:")]


def captured(vpi: Process) -> list[str]:
    return [entry.id for entry in vpi.session.branch() if entry.type == "message"]


def test_a_store_that_was_down_for_one_turn_of_a_chat_has_all_of_it_after_the_next(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        store = SimStore(server)
        store.up = False
        vpi = process(tmp_path, store, clock=LoopClock(), config=settings(threshold=40))
        chat = hooks_of(vpi, "repl")
        await chat.session_start(vpi.ctx, "new")
        await vpi._replace(hooks=chat).say("one " + "filler " * 40)
        await asyncio.sleep(1)
        assert not server.sessions and vpi.engine.courier.state().outbox == 2
        store.up = True
        for text in ("two", "three", "four"):
            await vpi._replace(hooks=chat).say(text)
            await asyncio.sleep(1)
            assert stored(server, vpi) == captured(vpi)
        assert len(server.sessions[f"pi-{vpi.session.id}"].archives) == 1
        await chat.session_shutdown(vpi.ctx, "quit")

    run_virtual(run())


def test_a_store_that_comes_back_is_noticed_without_a_further_turn_and_an_empty_outbox_asks_nothing(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        server = SimServer()
        store = SimStore(server)
        store.up = False
        vpi = process(tmp_path, store, clock=LoopClock(), config=settings(threshold=10_000))
        chat = hooks_of(vpi, "repl")
        await chat.session_start(vpi.ctx, "new")
        await vpi._replace(hooks=chat).say("one")
        await asyncio.sleep(1)
        store.up = True
        await asyncio.sleep(60)
        assert stored(server, vpi) == captured(vpi)
        store.calls.clear()
        await asyncio.sleep(3600)
        assert not store.calls
        await chat.session_shutdown(vpi.ctx, "quit")

    run_virtual(run())


def test_no_turn_and_no_exit_of_a_chat_waits_for_a_store_that_takes_no_message(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        store = HangingStore(server)
        vpi = process(tmp_path, store, clock=LoopClock(), config=settings(threshold=40))
        chat = hooks_of(vpi, "repl")
        loop = asyncio.get_running_loop()
        await chat.session_start(vpi.ctx, "new")
        for text in ("one", "two", "three"):
            begun = loop.time()
            await vpi._replace(hooks=chat).say(text)
            assert loop.time() == begun
            await asyncio.sleep(1)
        begun = loop.time()
        await chat.session_shutdown(vpi.ctx, "quit")
        assert loop.time() == begun
        assert vpi.engine.courier.state().outbox == 6 and store.calls.count("post") == 1
        store.hangs = False
        again = process(tmp_path, store, session=vpi.session, clock=LoopClock(), config=settings(threshold=40))
        await asyncio.sleep(100)
        await again.work()
        await asyncio.sleep(40)
        await again.work()
        assert stored(server, vpi) == captured(vpi)

    run_virtual(run())


def test_one_shot_runs_wait_once_for_a_store_that_takes_no_message(tmp_path: Path) -> None:
    async def run() -> None:
        store = HangingStore(SimServer())
        loop, waited = asyncio.get_running_loop(), list[float]()
        for text in ("one", "two", "three"):
            vpi = process(tmp_path, store, clock=LoopClock(), config=settings(threshold=40))
            one_shot = hooks_of(vpi, "print")
            await one_shot.session_start(vpi.ctx, "new")
            await vpi._replace(hooks=one_shot).say(text)
            begun = loop.time()
            await one_shot.session_shutdown(vpi.ctx, "quit")
            waited.append(loop.time() - begun)
            vpi.ledger.database.close()
        assert waited == [2.0, 0.0, 0.0] and store.calls.count("post") == 1

    run_virtual(run())


def test_a_commit_that_hangs_after_a_message_was_taken_is_waited_for_once(tmp_path: Path) -> None:
    class Stuck(SimStore):
        async def commit(self, name: str, keep: int) -> CommitReceipt | None:
            self.calls.append("commit")
            await asyncio.Event().wait()
            return await super().commit(name, keep)

    async def run() -> None:
        store = Stuck(SimServer())
        loop, waited = asyncio.get_running_loop(), list[float]()
        vpi = process(tmp_path, store, clock=LoopClock(), config=settings(threshold=1))
        for text in ("one", "two", "three", "four"):
            vpi = process(tmp_path, store, session=vpi.session, clock=LoopClock(), config=settings(threshold=1))
            one_shot = hooks_of(vpi, "print")
            await vpi._replace(hooks=one_shot).say(text)
            begun = loop.time()
            await one_shot.session_shutdown(vpi.ctx, "quit")
            waited.append(loop.time() - begun)
            vpi.ledger.database.close()
        assert waited == [0.0, 10.0, 0.0, 0.0] and store.calls.count("commit") == 1

    run_virtual(run())


def test_an_open_commit_holds_a_run_up_only_where_the_store_answers(tmp_path: Path) -> None:
    class Silent(SimStore):
        silent = False

        async def session_status(self, name: str) -> SessionStatus | None:
            if self.silent:
                await asyncio.Event().wait()
            return await super().session_status(name)

        async def task(self, task_id: str) -> TaskState:
            if self.silent:
                await asyncio.Event().wait()
            return await super().task(task_id)

    async def run() -> None:
        server = SimServer()
        server.instant = None
        store, loop = Silent(server), asyncio.get_running_loop()
        config = settings(threshold=1)
        config = config._replace(takeover=config.takeover._replace(overview_poll_ms=1000, overview_poll_max=30))
        vpi = process(tmp_path, store, clock=LoopClock(), config=config)
        for text in ("one", "two"):
            await vpi.say(text)
        await vpi.work()
        waited, said = list[float](), list[bool]()
        for silent in (False, True, True):
            store.silent = silent
            again = process(tmp_path, store, session=vpi.session, clock=LoopClock(), config=config)
            one_shot, begun = hooks_of(again, "print"), loop.time()
            await one_shot.session_start(again.ctx, "resume")
            waited.append(round(loop.time() - begun))
            said.append(any(isinstance(e, Notice) and "waiting" in e.text for e in again.events))
        assert (waited, said) == ([29, 2, 0], [True, False, False])

    run_virtual(run())


def test_the_bar_says_so_while_a_store_owes_an_answer(tmp_path: Path) -> None:
    async def run() -> None:
        store = HangingStore(SimServer())
        store.hangs = False
        vpi = process(tmp_path, store, clock=LoopClock(), config=settings(threshold=40))
        chat = hooks_of(vpi, "repl")
        await chat.session_start(vpi.ctx, "new")
        await vpi._replace(hooks=chat).say("one")
        await asyncio.sleep(1)
        assert vpi.engine.courier.state().connected is True
        store.hangs = True
        await vpi._replace(hooks=chat).say("two")
        await asyncio.sleep(5)
        assert vpi.engine.courier.state().connected is None
        await chat.session_shutdown(vpi.ctx, "quit")

    run_virtual(run())


def test_a_clock_that_was_wrong_keeps_nothing_from_the_store(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        store = SimStore(server)
        vpi = process(tmp_path, store, config=settings(threshold=30))
        vpi.clock.ms += 365 * 86_400_000
        await vpi.say("one " + "filler " * 40)
        store.faults = ["gateway-lost"]
        await vpi.work()
        vpi.clock.ms -= 365 * 86_400_000
        for text in ("two", "three"):
            await vpi.say(text)
            await vpi.work()
            vpi.clock.ms += 20_000
        await vpi.work()
        assert stored(server, vpi) == captured(vpi) and vpi.engine.courier.state().covered_user_turns

    asyncio.run(run())


def test_a_store_that_asks_for_a_day_of_rest_is_asked_again_within_minutes(tmp_path: Path) -> None:
    class Resting(SimStore):
        async def add_messages(self, name: str, messages: Sequence[StoreMessage]) -> None:
            if self.calls.count("post") == 0:
                self.calls.append("post")
                raise StoreUnreachable("overloaded", may_have_stored=False, retry_after=86_400)
            await super().add_messages(name, messages)

    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, Resting(server), config=settings(threshold=1000))
        await vpi.say("one")
        await vpi.work()
        vpi.clock.ms += 200_000
        await vpi.work()
        assert not stored(server, vpi)
        vpi.clock.ms += 120_000
        await vpi.work()
        assert stored(server, vpi) == captured(vpi)

    asyncio.run(run())


def test_an_outbox_that_was_locked_is_filled_without_a_further_turn(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server), clock=LoopClock(), config=settings(threshold=1000))
        chat = hooks_of(vpi, "repl")
        await chat.session_start(vpi.ctx, "new")
        await vpi._replace(hooks=chat).say("one")
        await asyncio.sleep(1)
        other = sqlite3.connect(tmp_path / "outbox.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await vpi._replace(hooks=chat).say("two")
        await asyncio.sleep(1)
        state = vpi.engine.courier.state()
        assert state.connected is False and "locked" in state.detail
        other.execute("ROLLBACK")
        await asyncio.sleep(60)
        assert stored(server, vpi) == captured(vpi) and vpi.engine.courier.state().connected is True
        other.close()
        await chat.session_shutdown(vpi.ctx, "quit")

    run_virtual(run())


def test_a_session_that_the_store_commits_no_more_is_left_for_a_new_one_and_told_once(tmp_path: Path) -> None:
    class Refusing(SimStore):
        refuses = True

        async def commit(self, name: str, keep: int) -> CommitReceipt | None:
            self.calls.append("commit")
            if self.refuses:
                raise StoreRejected("unresolved failed archive archive_009", status=412, code="FAILED_PRECONDITION")
            return await super().commit(name, keep)

    async def run() -> None:
        server = SimServer()
        store = Refusing(server)
        vpi = process(tmp_path, store, config=settings(threshold=20))
        for number in range(30):
            await vpi.say(f"fact-{number} " + "filler " * 10)
            await vpi.work()
            vpi.clock.ms += 10_000
            assert all(f"fact-{n} " in vpi.shown() for n in range(number + 1)), "full history"
        told = [event.reason for event in vpi.events if isinstance(event, CommitFailed)]
        assert len(told) == 1 and "archive_009" in told[0]
        assert store.calls.count("commit") <= 4, "each attempt waits longer than the one before"
        store.refuses = False
        vpi.clock.ms += 3_600_000
        await vpi.work()
        assert vpi.engine.courier.state().covered_user_turns == 29
        assert all(f"fact-{n} " in vpi.shown() for n in range(30))

    asyncio.run(run())


@pytest.mark.parametrize("pasted", [" why is this here?", "\n\n## Key Facts & Decisions\n- the port is 1"])
def test_words_of_the_user_that_look_like_an_overview_are_turns_like_any_other(tmp_path: Path, pasted: str) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server), config=settings(threshold=20))
        texts = [
            "first " + "filler " * 20,
            f"{OVERVIEW_MARKER}{pasted}",
            f"{OVERVIEW_MARKER}{pasted}",
            "last " + "filler " * 20,
        ]
        for text in texts:
            await vpi.say(text)
            await vpi.work()
        state = vpi.engine.courier.state()
        assert state.covered_user_turns == 3
        session = server.sessions[f"pi-{vpi.session.id}"]
        everything = [m for archive in session.archives for m in archive.messages] + session.live
        assert [m.parts[0]["text"] for m in everything if m.role == "user"] == texts
        marked = [m for m in vpi.request() if text_of(m).startswith(OVERVIEW_MARKER)]
        assert [m.kind for m in marked if isinstance(m, UserMessage)] == ["overview"] and len(marked) == 1
        data = [e.raw["data"] for e in vpi.session.branch() if e.raw.get("customType") == STATE][-1]
        assert (data["coveredUserTurns"], data["coveredTurns"]) == (1, 3), "pi's rule, and ours"
        again = process(tmp_path, vpi.store, session=vpi.session, config=settings(threshold=20))
        await again.say("next " + "filler " * 20)
        await again.work()
        assert again.engine.courier.state().covered_user_turns == 4
        assert again.request()[1:] and text_of(again.request()[1]).startswith("next")

    asyncio.run(run())


def test_nothing_that_takeover_put_into_a_request_is_captured(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server), config=settings(threshold=20))
        for number in range(5):
            await vpi.say(f"fact-{number} " + "filler " * 10)
            await vpi.work()
        assert vpi.shown().startswith(OVERVIEW_MARKER)
        session = server.sessions[f"pi-{vpi.session.id}"]
        bodies = [m.to_json() for archive in session.archives for m in archive.messages] + [
            m.to_json() for m in session.live
        ]
        assert len(bodies) == 10 and OVERVIEW_MARKER not in json.dumps(bodies)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "tokens"), [("请检查这个文件" * 600, 6300), ("😀" * 1000, 1500), ("plain text " * 400, 1100)]
)
def test_the_pressure_of_any_script_is_the_estimate_of_what_was_said(tmp_path: Path, text: str, tokens: int) -> None:
    async def run() -> None:
        vpi = process(tmp_path, SimStore(SimServer()), config=settings(threshold=1_000_000))
        vpi.user(text)
        vpi.answer("noted")
        await vpi.end_turn()
        state = [event for event in vpi.events if isinstance(event, StoreState)][-1]
        assert state.pending_tokens == tokens + estimate("noted") and estimate(text) == tokens

    asyncio.run(run())


def test_a_state_of_another_branch_says_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        log = create_session(tmp_path / "s", "/work", tmp_path / "s")
        log.append_message(user_text("u1", 1))
        first = log.append_message(AssistantMessage((TextPart("a1"),), "x", "p", "m", Usage(), "stop", 1)).id
        log.append_message(user_text("u2", 2))
        log.append_message(AssistantMessage((TextPart("a2"),), "x", "p", "m", Usage(), "stop", 2))
        pending = {"pendingTokens": 0, "fingerprint": None}
        counts = {"coveredUserTurns": 1, "lastSeenUserTurns": 2, "syncedEntryCount": 4}
        log.append_custom(STATE, {"overview": "ALPHA", **counts, **pending})
        log.move_leaf(first)
        log.append_message(user_text("u2' " + "longer " * 40, 3))
        log.append_message(AssistantMessage((TextPart("a2'"),), "x", "p", "m", Usage(), "stop", 3))
        path = log.path
        assert path is not None
        log.close()
        server = SimServer()
        vpi = process(tmp_path, SimStore(server), session=open_session(path, tmp_path / "s"))
        shown = "\n".join(text_of(m) for m in vpi.hooks.context(vpi.ctx, build_context(vpi.session.branch())))
        assert "ALPHA" not in shown and shown.startswith("u1\na1\nu2' ")
        await vpi.say("u3")
        await vpi.work()
        (name,) = server.sessions
        assert server.marks(name) == captured(vpi), "what lies between the fork and the old watermark is captured"

    asyncio.run(run())


def test_an_overview_that_arrives_after_the_leaf_was_moved_stays_with_its_branch(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        server.instant = None
        vpi = process(tmp_path, SimStore(server), config=settings(threshold=20))
        await vpi.say("one " + "filler " * 20)
        fork = vpi.session.branch()[0].id
        await vpi.say("two " + "filler " * 20)
        await vpi.say("three")
        await vpi.work()
        name = f"pi-{vpi.session.id}"
        there = vpi.session.leaf_id
        assert server.sessions[name].archives and there is not None
        vpi.session.move_leaf(fork)
        await vpi.say("another way")
        server.finish(name, "good")
        await vpi.work()
        assert covered_turns(vpi.engine.mirror.view()) == 0
        assert OVERVIEW_MARKER not in vpi.shown() and "two" not in vpi.shown() and "another way" in vpi.shown()
        assert not [event for event in vpi.events if isinstance(event, BoundaryReset)]
        vpi.session.move_leaf(there)
        await vpi.work()
        assert "two filler" in vpi.shown() and "another way" not in vpi.shown()

    asyncio.run(run())
