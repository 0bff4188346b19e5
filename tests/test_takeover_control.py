from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.takeover_kit import Process, SimServer, SimStore, process, settings
from vikingpi.errors import StoreRejected
from vikingpi.events import Notice
from vikingpi.messages import OVERVIEW_MARKER
from vikingpi.takeover.control import Control
from vikingpi.takeover.engine import archive_now
from vikingpi.viking.base import Health, StoreMessage


def control_of(vpi: Process) -> Control:
    archive = partial(archive_now, vpi.engine)
    return Control(vpi.engine.courier, vpi.ctx, "http://sim", lambda: 2, vpi.engine.mirror.capture, archive)


def test_what_is_undelivered_when_capturing_is_switched_off_never_reaches_the_store(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        sim = SimStore(server)
        sim.up = False
        vpi = process(tmp_path, sim)
        await vpi.say("before")
        await vpi.work()
        control = control_of(vpi)
        await control.switch(False)
        await vpi.say("secret talk")
        sim.up = True
        other = process(tmp_path, sim, clock=vpi.clock)
        await other.say("another session")
        await other.work()
        assert "before" not in str(server.sessions) and list(server.sessions) == [f"pi-{other.session.id}"]
        await control.switch(True)
        await vpi.say("after")
        await vpi.work()
        stored = str([m.parts for m in server.sessions[f"pi-{vpi.session.id}"].live])
        assert "before" in stored and "after" in stored and "secret talk" not in stored

    asyncio.run(run())


def test_what_was_on_its_way_when_capturing_was_switched_off_is_never_sent_again(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        sim = SimStore(server)
        vpi = process(tmp_path, sim)
        await vpi.say("on its way")
        sim.faults = ["gateway-lost"]
        await vpi.work()
        await control_of(vpi).switch(False)
        other = process(tmp_path, sim, clock=vpi.clock)
        for _ in range(3):
            vpi.clock.ms += 40_000
            await other.say("another session")
            await other.work()
        assert "on its way" not in str([m.parts for s in server.sessions.values() for m in s.live])
        await control_of(vpi).switch(True)
        await vpi.say("after")
        await vpi.work()
        assert "on its way" in str([m.parts for m in server.sessions[f"pi-{vpi.session.id}"].live])

    asyncio.run(run())


def test_what_was_withdrawn_on_its_way_is_stored_after_all_when_capturing_is_resumed_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        sim = SimStore(server)
        vpi = process(tmp_path, sim)
        await vpi.say("on its way")
        sim.faults = ["gateway-lost"]
        await vpi.work()
        for on in (False, True):
            await control_of(vpi).switch(on)
        await vpi.say("after " + "filler " * 40)
        for _ in range(4):
            vpi.clock.ms += 40_000
            await vpi.work()
        generation = vpi.engine.mirror.generation()
        assert generation is not None
        marks = [mark for mark in server.marks(generation.name) if not mark.startswith("seed:")]
        assert marks == [entry.id for entry in vpi.session.branch() if entry.type == "message"]

    asyncio.run(run())


def test_a_commit_on_request_needs_no_pressure_and_says_what_it_did(tmp_path: Path) -> None:
    async def run() -> None:
        vpi = process(tmp_path, SimStore(SimServer()), config=settings(threshold=1_000_000))
        control = control_of(vpi)
        assert await control.commit() == "nothing was captured yet"
        await vpi.say("one")
        assert await control.commit() == "there is no further user turn to archive"
        await vpi.say("two")
        assert await control.commit() == "the first user turn is now an overview"
        assert vpi.shown().startswith(OVERVIEW_MARKER)
        assert "one" in control.overview()

    asyncio.run(run())


def test_the_report_tells_store_place_and_faults(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        server.instant = None
        sim = SimStore(server)
        vpi = process(tmp_path, sim)
        await vpi.say("one " + "filler " * 40)
        await vpi.say("two")
        await vpi.work()
        text = await control_of(vpi).report()
        for line in (
            "store        openviking http://sim: answers (version sim)",
            f"generation   pi-{vpi.session.id}",
            "user turns   0 covered of 2",
            "outbox       0 undelivered, 0 refused by the store",
            "masked       2 secrets",
            "commit       open for 0 s (archive_001), up to user turn 1",
        ):
            assert line in text
        sim.up = False
        assert "does not answer: connection refused" in await control_of(vpi).report()

    asyncio.run(run())


class KeyStore(SimStore):
    """Refuses its key until it was mended."""

    refuses = True

    async def health(self) -> Health:
        self._check()
        return await super().health()

    async def add_messages(self, name: str, messages: Sequence[StoreMessage]) -> None:
        self._check()
        await super().add_messages(name, messages)

    def _check(self) -> None:
        if self.refuses:
            raise StoreRejected("Invalid API key", status=401)


def test_a_refused_key_keeps_everything_and_is_told_once_until_reconnect(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        sim = KeyStore(server)
        vpi = process(tmp_path, sim)
        for turn in range(3):
            await vpi.say(f"turn {turn}")
            await vpi.work()
        told = [event for event in vpi.events if isinstance(event, Notice)]
        assert len(told) == 1 and "Invalid API key" in told[0].text and "/viking reconnect" in told[0].hint
        assert vpi.engine.courier.state().outbox == 6
        sim.refuses = False
        await vpi.work()
        assert vpi.engine.courier.state().outbox == 6
        assert "0 messages undelivered" in await control_of(vpi).reconnect()
        assert len(server.marks(f"pi-{vpi.session.id}")) == 6

    asyncio.run(run())


@pytest.mark.parametrize("backlog", [670])
def test_a_large_backlog_drains_in_batches_and_makes_one_commit(tmp_path: Path, backlog: int) -> None:
    async def run() -> None:
        server = SimServer()
        sim = SimStore(server)
        sim.up = False
        vpi = process(tmp_path, sim, config=settings(threshold=600))
        for turn in range(backlog // 2):
            await vpi.say(f"turn {turn}")
        await vpi.work()
        sim.up, sim.calls[:] = True, []
        await vpi.say("and now")
        await vpi.work()
        sizes = [int(call.split()[1]) for call in sim.calls if call.startswith("add ")]
        assert sum(sizes) == backlog + 2 and max(sizes) == 100
        assert sim.calls.count("commit") == 1
        marks = server.marks(f"pi-{vpi.session.id}")
        assert marks == [entry.id for entry in vpi.session.branch() if entry.type == "message"]
        assert vpi.engine.courier.state().pending_tokens < 600

    asyncio.run(run())


def test_thirty_small_turns_in_ten_processes_make_no_commit(tmp_path: Path) -> None:
    async def run() -> None:
        sim = SimStore(SimServer())
        vpi = process(tmp_path, sim, config=settings(threshold=600))
        for number in range(10):
            for turn in range(3):
                await vpi.say(f"t {number} {turn}")
                await vpi.work()
            await vpi.hooks.session_shutdown(vpi.ctx, "quit")
            vpi = process(tmp_path, sim, session=vpi.session, clock=vpi.clock, config=settings(threshold=600))
        assert "commit" not in sim.calls

    asyncio.run(run())


def test_while_capturing_is_off_nothing_is_committed_and_the_boundary_stays(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server))
        await vpi.say("one " + "filler " * 40)
        await vpi.work()
        control = control_of(vpi)
        await control.switch(False)
        await vpi.say("two")
        await vpi.work()
        (session,) = server.sessions.values()
        assert not session.archives and vpi.engine.courier.state().covered_user_turns == 0
        await control.switch(True)
        await vpi.say("three")
        await vpi.work()
        assert vpi.engine.courier.state().covered_user_turns == 1
        await vpi.say("four " + "filler " * 40)
        await vpi.work()
        assert "stopped      the boundary stops before what was said while capturing was off" in await control.report()

    asyncio.run(run())


def test_the_report_names_what_is_not_captured_and_why(tmp_path: Path) -> None:
    async def run() -> None:
        vpi = process(tmp_path, SimStore(SimServer()))
        await vpi.say("first")
        db = vpi.ledger.database.db
        db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
        await vpi.say("long " * 3000)
        report = await control_of(vpi).report()
        assert "capture      2 messages are not in the outbox yet" in report
        assert "fault        the outbox cannot be written: database or disk is full" in report

    asyncio.run(run())
