from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest
from store_kit import assistant, user

from vikingpi.errors import ProviderError, StoreRejected, StoreUnreachable
from vikingpi.tokens import estimate
from vikingpi.viking.base import CommitReceipt, StoreMessage
from vikingpi.viking.embedded import MIGRATIONS, StoreFile, open_file
from vikingpi.viking.embedded_sessions import EmbeddedSessions, OverviewWriter
from vikingpi.viking.overview import acceptable

T = TypeVar("T")

ROOT = Path(__file__).parent.parent
GOOD = "# Working Memory\n\n## Current State\nwritten by a model\n"


def ticking() -> int:
    return time.time_ns() // 1_000_000


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def filled(path: Path, count: int = 3) -> EmbeddedSessions:
    store = EmbeddedSessions(path, ticking)

    async def fill() -> None:
        await store.ensure_session("pi-1")
        await store.add_messages("pi-1", [user(f"message {number}", f"m{number}") for number in range(count)])

    run(fill())
    return store


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_what_was_stored_is_there_for_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    first = filled(path)
    run(first.commit("pi-1", 1))
    before = run(first.session_status("pi-1"))
    run(first.close())
    second = EmbeddedSessions(path, ticking)
    assert run(second.session_status("pi-1")) == before
    assert run(second.marks("pi-1", 1)) == {"m2"}
    assert run(second.task("1-1")) == "completed"
    run(second.close())


def test_a_closed_store_opens_again_when_it_is_used(tmp_path: Path) -> None:
    store = filled(tmp_path / "store.db")
    run(store.close())
    assert run(store.session_status("pi-1")) is not None
    run(store.close())
    run(store.close())


def test_files_and_folder_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = filled(tmp_path / "data" / "store.db")
        assert modes(tmp_path / "data") == {0o600}
        assert modes(tmp_path) == {0o700}
    finally:
        os.umask(before)
    run(store.close())


def test_a_file_that_others_could_read_is_narrowed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run(filled(path).close())
    path.chmod(0o644)
    store = EmbeddedSessions(path, ticking)
    run(store.health())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    run(store.close())


def test_messages_for_a_session_that_is_not_there_are_refused(tmp_path: Path) -> None:
    store = EmbeddedSessions(tmp_path / "store.db", ticking)
    with pytest.raises(StoreRejected) as caught:
        run(store.add_messages("pi-1", [user("a", "e1")]))
    assert caught.value.status == 404
    run(store.close())


def test_a_surrogate_is_replaced_and_a_zero_byte_kept(tmp_path: Path) -> None:
    store = EmbeddedSessions(tmp_path / "store.db", ticking)

    async def scene() -> None:
        await store.ensure_session("pi-1")
        await store.add_messages("pi-1", [user("a\ud83db\x00c", "e\udc80")])
        await store.commit("pi-1", 0)
        archive = await store.archive("pi-1", 1)
        assert archive is not None
        assert archive.messages[0].parts[0]["text"] == "a\ufffdb\x00c"
        assert archive.marks == {"e\ufffd"}
        await store.close()

    run(scene())


def test_a_session_made_anew_has_another_time_and_other_tasks(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    now = [1_000]
    store = EmbeddedSessions(path, lambda: now[0])

    async def life() -> tuple[str, CommitReceipt | None]:
        status = await store.ensure_session("pi-1")
        await store.add_messages("pi-1", [user("a", "e1")])
        return status.created_at, await store.commit("pi-1", 0)

    first_time, first = run(life())
    assert first_time == "1970-01-01T00:00:01.000Z"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM session")
    now[0] = 2_500
    second_time, second = run(life())
    assert second_time == "1970-01-01T00:00:02.500Z"
    assert first is not None
    assert second is not None
    assert (first.archive, second.archive) == (1, 1)
    assert run(store.task(first.task_id)) == "gone"
    assert run(store.task(second.task_id)) == "completed"
    run(store.close())


def written_by(path: Path, writer: OverviewWriter, seconds: float = 60) -> str:
    async def scene() -> str:
        store = EmbeddedSessions(path, ticking, writer=writer, writer_seconds=seconds)
        await store.ensure_session("pi-1")
        await store.add_messages("pi-1", [user("codename is ALPHA-1", "e1")])
        await store.commit("pi-1", 0)
        archive = await store.archive("pi-1", 1)
        await store.close()
        assert archive is not None
        return archive.overview

    return run(scene())


def test_an_extracted_overview_is_not_longer_than_what_it_stands_for(tmp_path: Path) -> None:
    async def scene(store: EmbeddedSessions) -> tuple[int, int]:
        await store.ensure_session("s")
        said = [user(f"The port of the service number {n} is {8000 + n}, asked for?", f"e{n}") for n in range(20)]
        await store.add_messages("s", said)
        await store.commit("s", 0)
        archive = await store.archive("s", 1)
        await store.close()
        assert archive is not None and acceptable(archive.overview)
        return estimate(archive.overview), sum(estimate(str(one.parts[0]["text"])) + 3 for one in said)

    made, replaced = run(scene(EmbeddedSessions(tmp_path / "store.db", ticking)))
    assert made <= replaced


def test_a_model_writes_the_overview_where_there_is_one(tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []

    async def writer(previous: str, messages: Sequence[StoreMessage]) -> str:
        asked.append((previous, len(messages)))
        return GOOD

    assert written_by(tmp_path / "store.db", writer) == GOOD
    assert asked == [("", 1)]


@pytest.mark.parametrize("text", ["", "I cannot do that.", "# Session Summary\n\n**Overview**: 1 turns, 2 messages"])
def test_a_model_that_gives_no_overview_is_replaced(tmp_path: Path, text: str) -> None:
    async def writer(previous: str, messages: Sequence[StoreMessage]) -> str:
        return text

    overview = written_by(tmp_path / "store.db", writer)
    assert acceptable(overview)
    assert "ALPHA-1" in overview


def test_a_model_that_fails_or_hangs_is_replaced(tmp_path: Path) -> None:
    async def failing(previous: str, messages: Sequence[StoreMessage]) -> str:
        raise ProviderError("no credit")

    async def hanging(previous: str, messages: Sequence[StoreMessage]) -> str:
        await asyncio.sleep(60)
        return GOOD

    assert "ALPHA-1" in written_by(tmp_path / "a.db", failing)
    assert "ALPHA-1" in written_by(tmp_path / "b.db", hanging, seconds=0.05)


def test_an_archive_holds_what_its_overview_was_made_of_when_others_write_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    other = filled(path, 2)
    seen: list[int] = []

    async def writer(previous: str, messages: Sequence[StoreMessage]) -> str:
        seen.append(len(messages))
        if len(seen) == 1:
            await other.add_messages("pi-1", [user("late", "late")])
        return GOOD

    async def scene() -> None:
        store = EmbeddedSessions(path, ticking, writer=writer)
        receipt = await store.commit("pi-1", 0)
        assert receipt is not None
        archive = await store.archive("pi-1", receipt.archive)
        assert archive is not None
        assert archive.marks == {"m0", "m1", "late"}
        await store.close()
        await other.close()

    run(scene())
    assert seen == [2, 3]


def test_a_session_that_never_rests_is_an_outage_and_nothing_is_archived(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    other = filled(path, 1)

    async def writer(previous: str, messages: Sequence[StoreMessage]) -> str:
        await other.add_messages("pi-1", [user("late", "late")])
        return GOOD

    async def scene() -> None:
        store = EmbeddedSessions(path, ticking, writer=writer)
        with pytest.raises(StoreUnreachable) as caught:
            await store.commit("pi-1", 0)
        assert not caught.value.may_have_stored
        status = await store.session_status("pi-1")
        assert status is not None
        assert status.commit_count == 0
        await store.close()
        await other.close()

    run(scene())


def test_two_commits_at_once_make_two_archives_or_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    first, second = filled(path, 6), EmbeddedSessions(path, ticking)

    async def scene() -> None:
        receipts = await asyncio.gather(first.commit("pi-1", 0), second.commit("pi-1", 0))
        accepted = [one for one in receipts if one is not None and one.accepted]
        status = await first.session_status("pi-1")
        assert status is not None
        assert status.commit_count == len(accepted) == 1
        assert status.live_messages == 0
        await first.close()
        await second.close()

    run(scene())


WRITER = """
import asyncio, sys, time
from pathlib import Path
from store_kit import user
from vikingpi.viking.embedded_sessions import EmbeddedSessions

async def main(path, who, rounds):
    store = EmbeddedSessions(Path(path), lambda: time.time_ns() // 1_000_000)
    await store.ensure_session("pi-1")
    for number in range(int(rounds)):
        await store.add_messages("pi-1", [user("x", f"{who}-{number}-{part}") for part in range(5)])
        print(5 * (number + 1), flush=True)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


def start(path: Path, who: str, rounds: int) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    command = [sys.executable, "-c", WRITER, str(path), who, str(rounds)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def test_processes_begin_the_file_and_write_together(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    writers = [start(path, who, 20) for who in "abcd"]
    assert [(writer.communicate(timeout=60), writer.returncode)[1] for writer in writers] == [0, 0, 0, 0]
    store = EmbeddedSessions(path, ticking)
    status = run(store.session_status("pi-1"))
    assert status is not None
    assert (status.total_messages, status.live_messages) == (400, 400)
    run(store.commit("pi-1", 0))
    archive = run(store.archive("pi-1", 1))
    assert archive is not None
    order = [message.marks[0] for message in archive.messages]
    for who in "abcd":
        mine = [mark for mark in order if mark.startswith(who)]
        assert mine == [f"{who}-{number}-{part}" for number in range(20) for part in range(5)]
    run(store.close())


def test_a_killed_process_loses_nothing_that_it_was_told_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    writer = start(path, "a", 100_000)
    assert writer.stdout is not None
    said = [int(writer.stdout.readline()) for _ in range(20)][-1]
    writer.kill()
    writer.communicate(timeout=30)
    store = EmbeddedSessions(path, ticking)
    status = run(store.session_status("pi-1"))
    assert status is not None
    assert status.total_messages is not None
    assert status.total_messages >= said
    assert status.total_messages % 5 == 0
    assert len(run(store.marks("pi-1", 0))) == status.total_messages
    run(store.close())


def test_opening_is_quick(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run(filled(path).close())
    times: list[float] = []
    for _ in range(10):
        started = time.perf_counter()
        open_file(path).close()
        times.append(time.perf_counter() - started)
    assert min(times) < 0.005


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run(filled(path).close())
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    store = EmbeddedSessions(path, ticking)
    for _ in range(2):
        with pytest.raises(StoreRejected, match="newer vpi") as caught:
            run(store.health())
        assert caught.value.hint
    assert [one.name for one in tmp_path.iterdir() if "corrupt" in one.name] == []
    run(store.close())


@pytest.mark.parametrize("rubbish", [b"this is no database at all", b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_damaged_file_is_moved_aside_and_said(tmp_path: Path, rubbish: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(rubbish)
    store = filled(path)
    aside = [one for one in tmp_path.iterdir() if one.name.startswith("store.db.corrupt-")]
    assert [one.read_bytes() for one in aside] == [rubbish]
    assert len(store.file.notices) == 1
    assert aside[0].name in store.file.notices[0]
    status = run(store.session_status("pi-1"))
    assert status is not None
    assert status.total_messages == 3
    run(store.close())


def test_an_empty_file_is_a_new_store_and_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    store = filled(path)
    assert store.file.notices == ()
    run(store.close())


def test_damage_found_at_work_is_an_outage_once_and_then_a_new_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run(filled(path, 100).close())
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))
    store = EmbeddedSessions(path, ticking)
    with pytest.raises(StoreUnreachable, match="damaged"):
        run(store.session_status("pi-1"))
    assert len(store.file.notices) == 1
    assert run(store.session_status("pi-1")) is None
    assert [one.stat().st_size for one in tmp_path.glob("store.db.corrupt-*")] == [size]
    run(store.close())


def test_two_stores_that_find_the_same_damage_keep_one_new_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"rubbish" * 1000)

    async def scene() -> None:
        stores = [EmbeddedSessions(path, ticking) for _ in range(4)]
        await asyncio.gather(*(store.ensure_session(f"pi-{number}") for number, store in enumerate(stores)))
        for number in range(4):
            assert await stores[0].session_status(f"pi-{number}") is not None
        assert sum(len(store.file.notices) for store in stores) == 1
        for store in stores:
            await store.close()

    run(scene())
    assert len(list(tmp_path.glob("store.db.corrupt-*"))) == 1


def test_a_file_that_was_moved_away_is_not_written_to_any_more(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = filled(path)
    path.rename(tmp_path / "old.db")
    assert run(store.session_status("pi-1")) is None
    assert path.exists()
    run(store.close())


@pytest.mark.parametrize("place", ["folder", "file/store.db"])
def test_a_place_that_cannot_hold_a_store_is_an_outage(tmp_path: Path, place: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    store = EmbeddedSessions(tmp_path / place, ticking)
    with pytest.raises(StoreUnreachable) as caught:
        run(store.health())
    assert caught.value.hint
    assert not caught.value.may_have_stored
    run(store.close())


def test_a_store_that_another_process_holds_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = filled(path)

    async def scene() -> None:
        file = StoreFile(path)
        with pytest.raises(StoreUnreachable, match="busy") as caught:
            await file.write(lambda db: db.execute("PRAGMA busy_timeout = 20") and _second_writer(path))
        assert not caught.value.may_have_stored
        await file.close()
        await store.close()

    run(scene())


def _second_writer(path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=0.02, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")


def test_a_full_disk_stores_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = filled(path)

    async def scene() -> None:
        await store.file.read(lambda db: db.execute("PRAGMA max_page_count = 20").fetchone())
        with pytest.raises(StoreUnreachable) as caught:
            await store.add_messages("pi-1", [user("x" * 1_000_000, "big")])
        assert not caught.value.may_have_stored
        assert "disk" in caught.value.hint
        assert "big" not in await store.marks("pi-1", 0)
        await store.add_messages("pi-1", [assistant("small", "small")])
        await store.close()

    run(scene())
