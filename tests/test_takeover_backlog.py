from __future__ import annotations

import asyncio
from pathlib import Path

from tests.takeover_kit import Process, SimServer, SimStore, process, settings
from vikingpi.agent.hooks import CompactionPrep
from vikingpi.messages import OVERVIEW_MARKER
from vikingpi.takeover.hooks import LAST, PORTION, TakeoverHooks

ENDLESS = settings(threshold=1_000_000)


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
