from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.takeover_kit import Process, SimServer, SimStore, process, settings
from vikingpi.agent.hooks import CompactionPrep
from vikingpi.messages import OVERVIEW_MARKER
from vikingpi.takeover.hooks import COMPACTED, LAST, PORTION, TakeoverHooks
from vikingpi.takeover.state import OFF
from vikingpi.viking.ledger import Database, Ledger, Messages, NewRow, Row, open_ledger

ENDLESS = settings(threshold=1_000_000)


class Watched(Messages):
    """Counts how often all rows are read, and refuses the writes with these numbers."""

    def __init__(self, database: Database, refused: Collection[int] = ()) -> None:
        super().__init__(database)
        self.read = self.written = 0
        self._refused = refused

    def all(self, generation: int) -> tuple[Row, ...]:
        self.read += 1
        return super().all(generation)

    def insert(self, generation: int, rows: Sequence[NewRow]) -> int:
        self.written += 1
        if self.written in self._refused:
            raise sqlite3.OperationalError("database or disk is full")
        return super().insert(generation, rows)


def watched(folder: Path, refused: Collection[int] = ()) -> tuple[Ledger, Watched]:
    ledger = open_ledger(folder / "outbox.db")
    messages = Watched(ledger.database, refused)
    return ledger._replace(messages=messages), messages


def unknown(vpi: Process, turns: int) -> list[str]:
    """Fill a session of which the ledger knows nothing, as another program would have left it."""
    for turn in range(turns):
        vpi.user(f"question {turn}")
        vpi.answer(f"answer {turn}")
    vpi.session.fresh = False
    return [entry.id for entry in vpi.session.branch()]


def captured(vpi: Process) -> list[str]:
    generation = vpi.engine.mirror.generation()
    assert generation is not None
    return [row.entry_id for row in vpi.ledger.messages.all(generation.id)]


def test_a_turn_end_captures_no_more_than_a_portion_of_a_backlog(tmp_path: Path) -> None:
    async def run() -> None:
        vpi = process(tmp_path, SimStore(SimServer()), config=ENDLESS)
        ids = unknown(vpi, 300)
        await vpi.end_turn()
        assert captured(vpi) == ids[:PORTION]
        await vpi.end_turn()
        assert captured(vpi) == ids[: 2 * PORTION]

    asyncio.run(run())


def test_the_next_runs_go_on_where_the_last_one_stopped_and_leave_nothing_out(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server), config=ENDLESS)
        ids, runs = unknown(vpi, 900), 0
        while not runs or vpi.engine.mirror.behind:
            vpi = process(tmp_path, SimStore(server), config=ENDLESS, session=vpi.session)
            await vpi.hooks.session_start(vpi.ctx, "resume")
            vpi.user(f"run {runs}")
            ids.append(vpi.answer("noted"))
            ids.insert(-1, vpi.session.branch()[-2].id)
            await vpi.end_turn()
            before = len(captured(vpi))
            await vpi.hooks.session_shutdown(vpi.ctx, "quit")
            assert len(captured(vpi)) - before <= LAST * PORTION
            runs += 1
        assert 1 < runs < 4
        assert captured(vpi) == ids
        (session,) = server.sessions.values()
        assert [message.marks[0] for message in session.live] == ids

    asyncio.run(run())


def test_a_boundary_moves_over_the_part_of_a_backlog_that_was_captured(tmp_path: Path) -> None:
    async def run() -> None:
        vpi = process(tmp_path, SimStore(SimServer()))
        unknown(vpi, 300)
        await vpi.end_turn()
        await vpi.engine.courier.deliver_own()
        assert await vpi.engine.advance() == f"the first {PORTION // 2} user turns are now an overview"
        messages = vpi.request()
        assert messages[1].entry_id == vpi.session.branch()[PORTION].id
        while vpi.engine.mirror.behind:
            await vpi.end_turn()
            await vpi.engine.courier.deliver_own()
            await vpi.engine.advance()
        assert "question 299" in vpi.shown()
        assert all(f"question {turn}" in vpi.shown() for turn in range(300))

    asyncio.run(run())


def test_a_chat_captures_all_of_a_backlog_beside_the_user(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server), config=ENDLESS)
        ids = unknown(vpi, 400)
        hooks = TakeoverHooks(vpi.engine, ENDLESS.takeover, "repl", asyncio.ensure_future)
        await hooks.session_start(vpi.ctx, "resume")
        await vpi._replace(hooks=hooks).end_turn()
        assert len(captured(vpi)) == PORTION
        for _ in range(3000):
            if sum(len(session.live) for session in server.sessions.values()) == len(ids):
                break
            await asyncio.sleep(0.01)
        await hooks.session_shutdown(vpi.ctx, "quit")
        (session,) = server.sessions.values()
        assert [message.marks[0] for message in session.live] == ids

    asyncio.run(run())


def test_a_compaction_by_takeover_waits_for_the_whole_backlog(tmp_path: Path) -> None:
    async def run() -> None:
        vpi = process(tmp_path, SimStore(SimServer()), config=ENDLESS)
        ids = unknown(vpi, 300)
        await vpi.end_turn()
        result = await vpi.hooks.session_before_compact(vpi.ctx, CompactionPrep(ids[-2], 1000, "manual"))
        assert result is not None
        assert result.summary.startswith(OVERVIEW_MARKER)
        assert "question 298" in result.summary

    asyncio.run(run())


def test_a_compaction_waits_for_no_more_than_its_part_of_a_backlog_and_leaves_the_rest_to_the_next_captures(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server), config=ENDLESS, portion=4)
        ids = unknown(vpi, 3 * COMPACTED)
        assert await vpi.hooks.session_before_compact(vpi.ctx, CompactionPrep(ids[-2], 1000, "manual")) is None
        assert captured(vpi) == ids[: 4 * (COMPACTED + 1)]
        compaction = {"summary": "by the model", "firstKeptEntryId": ids[-2], "tokensBefore": 1000}
        await vpi.hooks.session_compact(vpi.ctx, vpi.session.append("compaction", compaction).id)
        while vpi.engine.mirror.behind:
            await vpi.end_turn()
        assert captured(vpi) == ids
        await vpi.engine.courier.deliver_own()
        (session,) = server.sessions.values()
        assert [message.marks[0] for message in session.live] == ids

    asyncio.run(run())


def test_a_backlog_is_captured_without_looking_again_at_what_was_captured(tmp_path: Path) -> None:
    async def run() -> None:
        ledger, messages = watched(tmp_path)
        vpi = process(tmp_path, SimStore(SimServer()), config=ENDLESS, portion=5, ledger=ledger)
        ids = unknown(vpi, 200)
        mirror = vpi.engine.mirror
        mirror.capture(5)
        mirror.capture(5)
        before = messages.read
        while mirror.behind:
            mirror.capture(5)
        assert messages.written >= 80
        assert messages.read == before
        assert captured(vpi) == ids

    asyncio.run(run())


@given(
    st.sets(st.integers(1, 12), max_size=4),
    st.lists(st.sampled_from(["say", "edit", "off", "on", "compact", "restart", "nothing"]), max_size=12),
    st.integers(1, 7),
)
def test_a_backlog_is_captured_whole_and_in_order_whatever_happens_between_its_portions(
    tmp_path_factory: pytest.TempPathFactory, refused: set[int], steps: list[str], portion: int
) -> None:
    folder = tmp_path_factory.mktemp("backlog")

    async def run() -> None:
        ledger, _ = watched(folder, refused)
        store = SimStore(SimServer())
        vpi = process(folder, store, config=ENDLESS, portion=portion, ledger=ledger)
        ids, off = unknown(vpi, 12), False
        for step in [*steps, *["nothing"] * 60]:
            if step == "say":
                said = [vpi.user("more"), vpi.answer("noted")]
                ids += [] if off else said
            elif step == "edit":
                vpi.session.append("context_edit", {"targetId": ids[0], "replacement": {"content": "changed"}})
            elif step in ("off", "on"):
                off = step == "off"
                vpi.session.append_custom(OFF, {"on": not off})
            elif step == "compact":
                vpi.session.append("compaction", {"summary": "s", "firstKeptEntryId": ids[-1], "tokensBefore": 9})
            elif step == "restart":
                vpi = process(folder, store, config=ENDLESS, portion=portion, ledger=ledger, session=vpi.session)
            await vpi.end_turn()
        if off:
            vpi.session.append_custom(OFF, {"on": True})
        for _ in range(60):
            await vpi.end_turn()
        assert not vpi.engine.mirror.behind
        rows = [row for row in captured(vpi) if not row.startswith("seed:")]
        assert rows == ids[len(ids) - len(rows) :]
        assert rows == ids or "compact" in steps  # it stands for what it swallowed before anything was captured

    asyncio.run(run())
