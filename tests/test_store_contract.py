from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from store_kit import STAMP, assistant, call, user

from vikingpi.errors import StoreRejected
from vikingpi.net import HttpTransport
from vikingpi.viking.base import Archive, CommitReceipt, SessionStore, StoreMessage
from vikingpi.viking.embedded_sessions import EmbeddedSessions
from vikingpi.viking.http import HttpApi
from vikingpi.viking.http_sessions import HttpSessions
from vikingpi.viking.overview import acceptable

LIVE_URL = os.environ.get("VPI_TEST_OPENVIKING_URL", "")
Opener = Callable[[Path], AbstractAsyncContextManager[SessionStore]]


@asynccontextmanager
async def embedded(folder: Path) -> AsyncGenerator[SessionStore]:
    store = EmbeddedSessions(folder / "store.db", lambda: time.time_ns() // 1_000_000)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def openviking(folder: Path) -> AsyncGenerator[SessionStore]:
    transport = HttpTransport()
    key = os.environ.get("VPI_TEST_OPENVIKING_API_KEY", "")
    store = HttpSessions(HttpApi(transport, LIVE_URL, api_key=key))
    try:
        yield store
    finally:
        await store.close()
        await transport.close()


LIVE = [pytest.param(openviking, id="openviking", marks=pytest.mark.live)] if LIVE_URL else []


class Bench:
    """A store and a new session's name in it."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self.name = f"contract-{secrets.token_hex(6)}"

    async def add(self, *messages: StoreMessage) -> None:
        await self.store.add_messages(self.name, messages)

    async def commit(self, keep: int) -> CommitReceipt:
        receipt = await self.store.commit(self.name, keep)
        assert receipt is not None
        return receipt

    async def archived(self, keep: int) -> Archive:
        """Commit and wait until the archive is there."""
        receipt = await self.commit(keep)
        assert receipt.accepted
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            state = await self.store.task(receipt.task_id)
            assert state in ("pending", "completed")
            archive = await self.store.archive(self.name, receipt.archive)
            if state == "completed" and archive is not None:
                return archive
            await asyncio.sleep(0.1)
        raise AssertionError("the archive was not made")


Run = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]


@pytest.fixture(params=[pytest.param(embedded, id="embedded"), *LIVE])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    opener: Opener = request.param

    def play(scene: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
        async def act() -> None:
            async with opener(tmp_path) as store:
                await scene(Bench(store))

        asyncio.run(act())

    return play


def test_health_names_version_and_owner(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        health = await bench.store.health()
        assert health.version
        assert health.account
        assert health.user
        assert health.endpoint
        assert await bench.store.health() == health

    run(scene)


def test_a_new_session_is_empty_and_making_it_again_changes_nothing(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        first = await bench.store.ensure_session(bench.name)
        assert (first.total_messages, first.live_messages, first.commit_count) == (0, 0, 0)
        await bench.add(user("hello", "e1"))
        second = await bench.store.ensure_session(bench.name, memories=False)
        assert second.created_at == first.created_at
        assert (second.total_messages, second.live_messages) == (1, 1)

    run(scene)


def test_created_at_stays_through_messages_and_commits(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        first = await bench.store.ensure_session(bench.name)
        await bench.add(user("codename is ALPHA", "e1"))
        await bench.archived(0)
        await bench.add(user("more", "e2"))
        later = await bench.store.session_status(bench.name)
        assert later is not None
        assert later.created_at == first.created_at

    run(scene)


def test_an_unknown_session_is_none(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        assert await bench.store.session_status(bench.name) is None
        assert await bench.store.commit(bench.name, 0) is None
        assert await bench.store.archive(bench.name, 1) is None
        assert await bench.store.marks(bench.name, 0) == frozenset()
        assert not await bench.store.unfinished_task(bench.name)

    run(scene)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 201, "naïve", "a\n"])
def test_a_name_that_could_mean_another_place_is_refused(run: Run, name: str) -> None:
    async def scene(bench: Bench) -> None:
        for attempt in (
            bench.store.ensure_session(name),
            bench.store.session_status(name),
            bench.store.add_messages(name, [user("x", "e1")]),
            bench.store.commit(name, 0),
            bench.store.archive(name, 1),
        ):
            with pytest.raises(StoreRejected) as caught:
                await attempt
            assert caught.value.status == 400

    run(scene)


def test_messages_come_back_as_they_were_stored_and_in_order(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        await bench.store.ensure_session(bench.name)
        first = user("网关 codename is ALPHA\n\x0b\u2028 \U0001f600 ", "e1", kind="user_query")._replace(
            peer_id="-work-app"
        )
        second = assistant("done", "e2", call("bash", {"command": "ls", "deep": {"a": [1, None]}}, "out\n"))
        await bench.add(first, second._replace(marks=("e2", "e3"), turn_id="e1"))
        await bench.add(*(user(f"message {number}", f"m{number}") for number in range(20)))
        archive = await bench.archived(0)
        stored = archive.messages
        assert [one.marks for one in stored] == [("e1",), ("e2", "e3"), *((f"m{number}",) for number in range(20))]
        assert stored[0] == first
        assert (stored[1].role, stored[1].turn_id, stored[1].created_at) == ("assistant", "e1", STAMP)
        assert stored[1].parts[0] == {"type": "text", "text": "done"}
        assert second.parts[1].items() <= stored[1].parts[1].items()

    run(scene)


def test_a_hundred_messages_go_at_once_and_one_more_is_refused(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        await bench.store.ensure_session(bench.name)
        batch = [user(f"message {number}", f"m{number}") for number in range(101)]
        with pytest.raises(StoreRejected):
            await bench.add(*batch)
        await bench.add(*batch[:100])
        await bench.add()
        status = await bench.store.session_status(bench.name)
        assert status is not None
        assert (status.total_messages, status.live_messages) == (100, 100)

    run(scene)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": None},
        {"type": "text"},
        {**call("bash", {}, ""), "tool_output": 7},
        {**call("bash", {}, ""), "tool_input": "ls"},
    ],
)
def test_a_part_of_the_wrong_type_is_refused_and_nothing_of_its_batch_is_stored(run: Run, part: dict[str, Any]) -> None:
    async def scene(bench: Bench) -> None:
        await bench.store.ensure_session(bench.name)
        with pytest.raises(StoreRejected, match="e2"):
            await bench.add(user("good", "e1"), user("bad", "e2")._replace(parts=(part,)))
        assert await bench.store.marks(bench.name, 0) == frozenset()

    run(scene)


def test_the_total_counts_what_commits_have_archived(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        await bench.store.ensure_session(bench.name)
        await bench.add(*(user(f"message {number}", f"m{number}") for number in range(5)))
        receipt = await bench.commit(2)
        assert (receipt.accepted, receipt.archive, receipt.makes_overview) == (True, 1, True)
        status = await bench.store.session_status(bench.name)
        assert status is not None
        assert (status.total_messages, status.live_messages, status.commit_count) == (5, 2, 1)

    run(scene)


@pytest.mark.parametrize(("keep", "archived"), [(0, 4), (1, 3), (3, 1)])
def test_a_commit_keeps_the_last_messages(run: Run, keep: int, archived: int) -> None:
    async def scene(bench: Bench) -> None:
        await bench.store.ensure_session(bench.name)
        await bench.add(*(user(f"message {number}", f"m{number}") for number in range(4)))
        archive = await bench.archived(keep)
        assert archive.marks == {f"m{number}" for number in range(archived)}
        assert archive.number == 1

    run(scene)


def test_nothing_to_archive_is_skipped(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        await bench.store.ensure_session(bench.name)
        assert not (await bench.commit(0)).accepted
        await bench.add(user("a", "e1"), user("b", "e2"))
        assert not (await bench.commit(2)).accepted
        assert not (await bench.commit(10_000_000)).accepted
        status = await bench.store.session_status(bench.name)
        assert status is not None
        assert status.commit_count == 0

    run(scene)


def test_marks_are_of_live_messages_and_of_archives_after_the_given_one(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        await bench.store.ensure_session(bench.name)
        await bench.add(user("a", "e1"), user("b", "e2"))
        assert await bench.store.marks(bench.name, 0) == {"e1", "e2"}
        await bench.commit(1)
        assert await bench.store.marks(bench.name, 0) == {"e1", "e2"}
        await bench.add(user("c", "e3"))
        await bench.archived(1)
        assert await bench.store.marks(bench.name, 0) == {"e1", "e2", "e3"}
        assert await bench.store.marks(bench.name, 1) == {"e2", "e3"}
        assert await bench.store.marks(bench.name, 2) == {"e3"}

    run(scene)


def test_an_overview_holds_its_own_facts_and_those_of_the_archive_before(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        await bench.store.ensure_session(bench.name)
        await bench.add(user("codename is ALPHA-7731", "e1"), assistant("Acknowledged.", "e2"))
        first = await bench.archived(0)
        assert acceptable(first.overview)
        assert "ALPHA-7731" in first.overview
        await bench.add(user("gateway is Port7071 and 项目是北斗", "e3"), assistant("Acknowledged.", "e4"))
        second = await bench.archived(0)
        assert second.number == 2
        assert acceptable(second.overview)
        for fact in ("ALPHA-7731", "Port7071", "北斗"):
            assert fact in second.overview
        again = await bench.store.archive(bench.name, 1)
        assert again is not None
        assert again.overview == first.overview

    run(scene)


def test_no_task_is_unfinished_once_the_archive_is_there(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        await bench.store.ensure_session(bench.name)
        await bench.add(user("codename is ALPHA", "e1"))
        await bench.archived(0)
        assert not await bench.store.unfinished_task(bench.name)

    run(scene)


def test_a_task_nobody_knows_is_gone(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        for task_id in ("no-such-task", "7-9", "a/b c"):
            assert await bench.store.task(task_id) == "gone"

    run(scene)


def test_an_archive_that_was_not_made_is_none(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        await bench.store.ensure_session(bench.name)
        await bench.add(user("codename is ALPHA", "e1"))
        await bench.archived(0)
        assert await bench.store.archive(bench.name, 2) is None

    run(scene)


def test_a_session_without_memories_makes_overviews_all_the_same(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        await bench.store.ensure_session(bench.name, memories=False)
        await bench.add(user("codename is ALPHA", "e1"))
        assert "ALPHA" in (await bench.archived(0)).overview

    run(scene)


def test_sessions_do_not_see_each_other(run: Run) -> None:
    async def scene(bench: Bench) -> None:
        other = f"{bench.name}-b"
        await bench.store.ensure_session(bench.name)
        await bench.store.ensure_session(other)
        await bench.add(user("a", "e1"))
        await bench.store.add_messages(other, [user("b", "e2")])
        await bench.archived(0)
        status = await bench.store.session_status(other)
        assert status is not None
        assert (status.live_messages, status.commit_count) == (1, 0)
        assert await bench.store.marks(other, 0) == {"e2"}

    run(scene)
