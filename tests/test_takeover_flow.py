from __future__ import annotations

import asyncio
from pathlib import Path

from tests.takeover_kit import SimServer, SimStore, process, settings
from vikingpi.events import BoundaryAdvanced, CommitFailed
from vikingpi.messages import OVERVIEW_MARKER, ToolCall, text_of
from vikingpi.takeover.state import STATE, TakeoverState
from vikingpi.viking.base import StoreMessage
from vikingpi.viking.embedded_sessions import EmbeddedSessions


def test_covered_turns_become_one_overview_and_the_recent_turn_stays(tmp_path: Path) -> None:
    async def run() -> None:
        sim = SimStore(SimServer())
        vpi = process(tmp_path, sim)
        await vpi.say("the codename is ALPHA " + "filler " * 40)
        await vpi.say("the port is 7071")
        line = await vpi.work()
        assert line == "the first user turn is now an overview"
        messages = vpi.request()
        assert text_of(messages[0]).startswith(OVERVIEW_MARKER)
        assert "the codename is ALPHA" in text_of(messages[0])
        assert [text_of(m) for m in messages[1:]] == ["the port is 7071", "noted"]
        assert next(e for e in vpi.events if isinstance(e, BoundaryAdvanced)).covered_user_turns == 1

    asyncio.run(run())


def test_the_embedded_store_advances_in_the_same_way(tmp_path: Path) -> None:
    async def run() -> None:
        vpi = process(tmp_path, EmbeddedSessions(tmp_path / "store.db", lambda: 5))
        await vpi.say("the codename is ALPHA. " + "filler " * 40)
        await vpi.say("the port is 7071")
        assert await vpi.work() == "the first user turn is now an overview"
        assert "ALPHA" in vpi.shown()
        await vpi.say("the owner is MILA " + "filler " * 40)
        await vpi.work()
        for fact in ("ALPHA", "7071", "MILA"):
            assert fact in vpi.shown()

    asyncio.run(run())


def test_an_overview_that_is_late_leaves_the_full_history_and_one_commit(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        server.instant = None
        vpi = process(tmp_path, SimStore(server))
        await vpi.say("the codename is ALPHA " + "filler " * 40)
        await vpi.say("the port is 7071")
        await vpi.work()
        await vpi.say("third " * 60)
        await vpi.work()
        assert "filler filler" in vpi.shown() and OVERVIEW_MARKER not in vpi.shown()
        (session,) = server.sessions.values()
        assert len(session.archives) == 1
        server.finish(next(iter(server.sessions)), "good")
        await vpi.work()
        assert OVERVIEW_MARKER in vpi.shown()

    asyncio.run(run())


def test_every_earlier_fact_is_in_every_request_over_three_commits(tmp_path: Path) -> None:
    async def run() -> None:
        vpi = process(tmp_path, SimStore(SimServer()))
        advanced = 0
        for turn in range(9):
            await vpi.say(f"fact-{turn} is V{turn} " + "filler " * 20)
            await vpi.work()
            for fact in range(turn + 1):
                assert f"fact-{fact} is V{fact}" in vpi.shown()
            advanced = sum(isinstance(event, BoundaryAdvanced) for event in vpi.events)
        assert advanced >= 3

    asyncio.run(run())


def test_a_failed_archive_opens_a_seeded_generation_after_a_back_off(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server))
        await vpi.say("the codename is ALPHA " + "filler " * 40)
        await vpi.say("the port is 7071 " + "filler " * 40)
        await vpi.work()
        server.instant = "failed"
        await vpi.say("the owner is MILA " + "filler " * 40)
        await vpi.work()
        assert [e for e in vpi.events if isinstance(e, CommitFailed)]
        server.instant = "good"
        await vpi.say("the river is ODRA " + "filler " * 40)
        assert await vpi.work() == "waiting after a failed commit"
        vpi.clock.ms += 61_000
        await vpi.work()
        assert len(server.sessions) == 2
        for fact in ("ALPHA", "7071", "MILA", "ODRA"):
            assert fact in vpi.shown()
        assert vpi.shown().startswith(OVERVIEW_MARKER)

    asyncio.run(run())


def test_a_write_whose_answer_was_lost_is_recognised_by_its_mark(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        sim = SimStore(server)
        sim.faults = ["lost"]
        vpi = process(tmp_path, sim)
        await vpi.say("once")
        await vpi.work()
        vpi.clock.ms += 13_000
        await vpi.say("twice")
        await vpi.work()
        (name,) = server.sessions
        marks = server.marks(name)
        assert len(marks) == len(set(marks)) == 4

    asyncio.run(run())


def test_a_write_that_was_lost_is_sent_again_only_after_the_settling_time(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        sim = SimStore(server)
        sim.faults = ["gateway-lost"]
        vpi = process(tmp_path, sim)
        await vpi.say("once")
        await vpi.work()
        for wait, stored in ((30_000, 0), (6_000, 2)):
            vpi.clock.ms += wait
            await vpi.work()
            (name,) = server.sessions
            assert len(server.marks(name)) == stored

    asyncio.run(run())


def test_a_refused_message_is_replaced_and_its_neighbours_arrive(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        sim = SimStore(server)
        vpi = process(tmp_path, sim)
        await vpi.say("first " + "filler " * 40)
        bad = vpi.user("poison " + "filler " * 40)
        sim.poison = frozenset({bad})
        vpi.answer("noted")
        await vpi.end_turn()
        await vpi.say("third " + "filler " * 40)
        await vpi.work()
        (name,) = server.sessions
        assert server.marks(name) == [e.id for e in vpi.session.branch() if e.type == "message"]
        assert "poison" in vpi.shown()
        assert text_of(vpi.request()[0]).startswith(OVERVIEW_MARKER)
        assert vpi.engine.courier.state().dead == 1

    asyncio.run(run())


def test_a_call_without_its_result_waits_and_an_overtaken_one_is_captured(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server), config=settings(threshold=100_000))
        call = ToolCall("c1", "bash", {"command": "ls"})
        vpi.user("list")
        vpi.answer("", [call])
        await vpi.end_turn(last=False)
        await vpi.work()
        (session,) = server.sessions.values()
        assert [m.role for m in session.live] == ["user"]
        await vpi.say("never mind")
        await vpi.work()
        assert session.live[1].parts[0]["tool_status"] == "error"
        assert [m.role for m in session.live] == ["user", "assistant", "user", "assistant"]

    asyncio.run(run())


def test_the_state_names_what_is_covered_and_survives_a_new_process(tmp_path: Path) -> None:
    async def run() -> None:
        vpi = process(tmp_path, SimStore(SimServer()))
        await vpi.say("the codename is ALPHA " + "filler " * 40)
        await vpi.say("the port is 7071")
        await vpi.work()
        before = vpi.shown()
        again = process(tmp_path, vpi.store, session=vpi.session, clock=vpi.clock)
        assert again.shown() == before
        state = [e for e in vpi.session.branch() if e.raw.get("customType") == STATE][-1].raw["data"]
        assert state["coveredUserTurns"] == 1 and state["lastSeenUserTurns"] == 2
        assert state["fingerprint"] == "assistant:5:noted" and state["syncedEntryCount"] == 4

    asyncio.run(run())


def test_a_store_that_is_down_loses_nothing_and_delivers_later(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        sim = SimStore(server)
        sim.up = False
        vpi = process(tmp_path, sim)
        await vpi.say("one " + "filler " * 40)
        await vpi.say("two " + "filler " * 40)
        await vpi.work()
        assert OVERVIEW_MARKER not in vpi.shown() and not server.sessions
        sim.up = True
        await vpi.work()
        (name,) = server.sessions
        assert len(server.marks(name)) == 4
        assert vpi.shown().startswith(OVERVIEW_MARKER)

    asyncio.run(run())


def test_compaction_by_the_store_replaces_the_boundary(tmp_path: Path) -> None:
    async def run() -> None:
        vpi = process(tmp_path, SimStore(SimServer()), config=settings(threshold=100_000))
        await vpi.say("the codename is ALPHA " + "filler " * 40)
        await vpi.say("the port is 7071")
        kept = vpi.session.branch()[2].id
        summary = await vpi.engine.compact(kept)
        assert summary is not None and "ALPHA" in summary and summary.startswith(OVERVIEW_MARKER)
        vpi.session.append(
            "compaction", {"summary": summary, "firstKeptEntryId": kept, "tokensBefore": 1, "fromHook": True}
        )
        await vpi.hooks.session_compact(vpi.ctx, vpi.session.branch()[-1].id)
        state = [e for e in vpi.session.branch() if e.raw.get("customType") == STATE][-1].raw["data"]
        assert state["coveredUserTurns"] == 0
        generation = vpi.engine.mirror.generation()
        assert generation is not None and vpi.ledger.commits.get(generation.id) is None
        assert "7071" in vpi.shown() and "ALPHA" in vpi.shown()

    asyncio.run(run())


def test_a_target_that_ends_with_an_empty_answer_is_archived_like_any_other(tmp_path: Path) -> None:
    async def run() -> None:
        vpi = process(tmp_path, SimStore(SimServer()))
        vpi.user("the codename is ALPHA " + "filler " * 40)
        vpi.answer("")
        await vpi.end_turn()
        await vpi.say("the port is 7071")
        assert await vpi.work() == "the first user turn is now an overview"
        assert not [event for event in vpi.events if isinstance(event, CommitFailed)]

    asyncio.run(run())


def test_a_session_made_anew_is_noticed_by_its_birth_whatever_its_counts_say(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server))
        name = f"pi-{vpi.session.id}"
        await vpi.say("the codename is ALPHA")
        await vpi.engine.courier.deliver_own()
        del server.sessions[name]
        foreign = StoreMessage("user", ({"type": "text", "text": "foreign"},), "", "", ())
        server.session(name).live += [foreign] * 9
        server.session(name).total += 9
        await vpi.say("the port is 7071 " + "filler " * 40)
        await vpi.say("the owner is MILA")
        for _ in range(3):
            await vpi.work()
        assert vpi.shown().startswith(OVERVIEW_MARKER)
        for fact in ("ALPHA", "7071", "MILA"):
            assert fact in vpi.shown()

    asyncio.run(run())


def test_an_archive_without_the_target_never_stands_for_it(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        sim = SimStore(server)
        vpi = process(tmp_path, sim)
        await vpi.say("the codename is ALPHA " + "filler " * 40)
        await vpi.say("the port is 7071")
        await vpi.engine.courier.deliver_own()
        sim.faults = ["gateway-lost"]
        await vpi.work()
        server.commit(f"pi-{vpi.session.id}", 3, "foreign")
        vpi.clock.ms += 13_000
        await vpi.work()
        assert any("does not hold" in event.reason for event in vpi.events if isinstance(event, CommitFailed))
        assert OVERVIEW_MARKER not in vpi.shown() and "ALPHA" in vpi.shown()

    asyncio.run(run())


def test_a_state_of_pi_on_top_of_ours_opens_a_generation_of_our_own(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server))
        await vpi.say("the codename is ALPHA " + "filler " * 40)
        await vpi.say("the port is 7071")
        await vpi.work()
        pis = TakeoverState(1, "# Working Memory\n\n## Current State\nstale", None, 3, 2, 9).to_data()
        for key in ("lastCoveredEntryId", "generation", "archiveId", "coveredTurns"):
            del pis[key]
        vpi.session.append_custom(STATE, pis)
        await vpi.say("the owner is MILA")
        generation = vpi.engine.mirror.generation()
        assert generation is not None and generation.name.startswith(f"pi-{vpi.session.id}__")
        assert "ALPHA" in vpi.shown() and "stale" not in vpi.shown()
        await vpi.work()
        assert server.marks(generation.name)[0] == f"seed:{generation.name}"
        for fact in ("ALPHA", "7071", "MILA"):
            assert fact in vpi.shown()

    asyncio.run(run())


def test_a_pinned_profile_that_a_compaction_swallows_is_written_again_behind_it(tmp_path: Path) -> None:
    async def run() -> None:
        vpi = process(tmp_path, SimStore(SimServer()), config=settings(threshold=10_000))
        vpi.session.append_custom("ov-profile", {"block": "likes tabs"})
        for text in ("one", "two"):
            await vpi.say(text)
        kept = vpi.session.branch()[-2].id
        vpi.session.append("compaction", {"summary": "one", "firstKeptEntryId": kept, "tokensBefore": 1})
        await vpi.hooks.session_compact(vpi.ctx, vpi.session.branch()[-1].id)
        again, state = vpi.session.branch()[-2:]
        assert (again.raw["customType"], again.raw["data"]) == ("ov-profile", {"block": "likes tabs"})
        assert state.raw["customType"] == "ov-takeover"
        await vpi.hooks.session_compact(vpi.ctx, vpi.session.branch()[-1].id)
        profiles = [entry for entry in vpi.session.branch() if entry.raw.get("customType") == "ov-profile"]
        assert len(profiles) == 2

    asyncio.run(run())


def test_a_session_that_the_store_does_not_take_holds_no_other_session_up(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        sim = SimStore(server)
        other = process(tmp_path, sim)
        sim.up = False
        await other.say("left behind")
        await other.work()
        sim.up, sim.broken = True, frozenset({f"pi-{other.session.id}"})
        vpi = process(tmp_path, sim, clock=other.clock)
        for turn in range(4):
            await vpi.say(f"fact-{turn} is V{turn} " + "filler " * 40)
            await vpi.work()
            vpi.clock.ms += 1_000
        assert vpi.shown().startswith(OVERVIEW_MARKER)
        assert vpi.engine.courier.state().connected
        sim.broken = frozenset()
        vpi.clock.ms += 120_000
        await vpi.work()
        assert len(server.marks(f"pi-{other.session.id}")) == 2

    asyncio.run(run())


def test_a_generation_that_was_given_up_is_never_opened_again_by_its_name(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server))
        await vpi.say("one " + "filler " * 40)
        await vpi.say("two " + "filler " * 40)
        server.instant = "failed"
        await vpi.work()
        server.instant = "good"
        vpi.clock.ms += 120_000
        await vpi.say("three " + "filler " * 40)
        await vpi.work()
        vpi.session.move_leaf(vpi.session.entries[1].id)
        await vpi.say("another way")
        await vpi.work()
        first = server.marks(f"pi-{vpi.session.id}")
        assert len(first) == len(set(first))
        generation = vpi.engine.mirror.generation()
        assert generation is not None and "__" in generation.name

    asyncio.run(run())


def test_an_empty_off_stretch_costs_no_fact_after_a_compaction(tmp_path: Path) -> None:
    async def run() -> None:
        vpi = process(tmp_path, SimStore(SimServer()))
        await vpi.say("the codename is ALPHA " + "filler " * 40)
        for on in (False, True):
            vpi.ctx.append_custom("ov-off", {"on": on})
        await vpi.say("the port is 7071")
        kept = [entry for entry in vpi.session.branch() if entry.type == "message"][2].id
        summary = {"summary": "the codename is ALPHA", "firstKeptEntryId": kept, "tokensBefore": 1}
        vpi.session.append("compaction", summary)
        again = process(tmp_path / "other", vpi.store, session=vpi.session, clock=vpi.clock)
        vpi.session.fresh = False
        for turn in range(4):
            await again.say(f"turn {turn} " + "filler " * 40)
            await again.work()
        assert again.shown().startswith(OVERVIEW_MARKER) and "ALPHA" in again.shown()

    asyncio.run(run())


def test_two_calls_with_one_id_keep_both_outputs(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server), config=settings(threshold=100_000))
        call = ToolCall("same", "bash", {"command": "ls"})
        vpi.user("twice")
        vpi.answer("", [call, call])
        vpi.result(call, "first output")
        vpi.result(call, "second output")
        vpi.answer("done")
        await vpi.end_turn()
        await vpi.work()
        (session,) = server.sessions.values()
        assert [part["tool_output"] for part in session.live[1].parts] == ["first output", "second output"]

    asyncio.run(run())
