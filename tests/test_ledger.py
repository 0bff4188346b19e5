from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.takeover_kit import SimServer, SimStore, process
from vikingpi.errors import StoreRejected
from vikingpi.events import Notice
from vikingpi.viking.ledger import CommitRow, Ledger, NewRow, open_ledger

COMMIT = CommitRow("e2", 1, 0, 5, 10, None, 0, "", "")


def rows(*names: str) -> list[NewRow]:
    return [NewRow(name, 5, f'{{"n": "{name}"}}') for name in names]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return open_ledger(tmp_path / "outbox.db")


def opened(ledger: Ledger, name: str = "pi-a") -> int:
    store = ledger.stores.get("here")
    return ledger.generations.open(store.id, name, "a", "a.jsonl", 0).id


def test_the_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        book = open_ledger(tmp_path / "outbox.db")
        opened(book)
    finally:
        os.umask(old)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    book.database.close()
    assert modes == {0o600}


def test_a_second_capture_of_an_entry_changes_nothing(ledger: Ledger) -> None:
    generation = opened(ledger)
    assert ledger.messages.insert(generation, rows("e1", "e2")) == 2
    assert ledger.messages.insert(generation, rows("e2", "e3")) == 1
    assert [row.entry_id for row in ledger.messages.all(generation)] == ["e1", "e2", "e3"]


def test_a_delivered_row_stays_without_its_body(ledger: Ledger) -> None:
    generation = opened(ledger)
    ledger.messages.insert(generation, rows("e1"))
    ledger.messages.done(generation, ledger.messages.next(generation, "new", 9))
    (row,) = ledger.messages.next(generation, "done", 9)
    assert row.body == "" and ledger.messages.insert(generation, rows("e1")) == 0


def test_pressure_belongs_to_the_commit_from_its_row_on_and_leaves_with_its_answer(ledger: Ledger) -> None:
    generation = opened(ledger)
    ledger.messages.insert(generation, rows("e1", "e2"))
    ledger.commits.begin(generation, COMMIT)
    ledger.messages.insert(generation, rows("e3"))
    assert ledger.generations.figures(generation).pressure == 15
    ledger.commits.answered(generation, "t", "archive_001")
    assert ledger.generations.figures(generation).pressure == 5
    ledger.generations.close(generation, 99, failed=True)
    assert ledger.generations.figures(generation).pressure == 15
    assert ledger.commits.get(generation) is None


def test_a_finished_commit_forgets_what_lies_before_the_last_covered_row(ledger: Ledger) -> None:
    generation = opened(ledger)
    ledger.messages.insert(generation, rows("e1", "e2", "e3"))
    ledger.commits.begin(generation, COMMIT)
    ledger.commits.answered(generation, "t", "archive_001")
    ledger.commits.finish(generation, 2)
    assert [(row.entry_id, row.counts) for row in ledger.messages.all(generation)] == [("e2", 0), ("e3", 0)]


def test_the_first_moment_of_giving_up_stays(ledger: Ledger) -> None:
    generation = opened(ledger)
    ledger.messages.insert(generation, rows("e1"))
    ledger.messages.sending(generation, ledger.messages.next(generation, "new", 1), 100)
    for now in (200, 300):
        ledger.messages.give_up(generation, ledger.messages.next(generation, "sending", 1), now)
    assert ledger.messages.next(generation, "sending", 1)[0].gave_up_at == 200


def test_rows_of_a_provisional_identity_move_to_the_one_that_the_server_names(ledger: Ledger) -> None:
    provisional = ledger.stores.get("http://x#abc")
    ledger.generations.open(provisional.id, "pi-a", "a", "", 0)
    named = ledger.stores.rename("http://x#abc", "openviking:http://x|acme|mila")
    assert ledger.generations.get(named.id, "pi-a") is not None
    assert ledger.stores.get("http://x#abc").id != named.id


def test_rows_of_another_identity_wait_and_are_counted(ledger: Ledger) -> None:
    other = ledger.stores.get("elsewhere")
    generation = ledger.generations.open(other.id, "pi-b", "b", "", 0)
    ledger.messages.insert(generation.id, rows("e1"))
    here = ledger.stores.get("here")
    assert ledger.generations.unfinished(here.id, 1) == ()
    assert ledger.stores.elsewhere(here.id) == (("elsewhere", 1),)


def test_a_newer_or_damaged_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    book = open_ledger(path)
    book.database.db.execute("PRAGMA user_version = 99")
    book.database.close()
    with pytest.raises(StoreRejected, match="newer vpi"):
        open_ledger(path)
    path.write_bytes(b"this is no database, and long enough to be looked at" * 50)
    before = path.read_bytes()
    with pytest.raises(StoreRejected, match="cannot be opened"):
        open_ledger(path)
    assert path.read_bytes() == before


WRITER = """
import sqlite3, sys
from pathlib import Path
from vikingpi.viking.ledger import NewRow, open_ledger
def insisted(write):
    while True:
        try:
            return write()
        except sqlite3.OperationalError as error:
            assert "locked" in str(error)
book, name = open_ledger(Path(sys.argv[1])), sys.argv[2]
store = insisted(lambda: book.stores.get("here"))
generation = insisted(lambda: book.generations.open(store.id, name, "s", "", 0))
for n in range(60):
    insisted(lambda: book.messages.insert(generation.id, [NewRow(f"{name}-{n}", 1, "{}")]))
book.database.close()
"""


def test_processes_that_open_it_at_the_same_moment_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    project = str(Path(__file__).resolve().parent.parent)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), f"pi-{n}"], env={**os.environ, "PYTHONPATH": project}
        )
        for n in range(4)
    ]
    assert [child.wait(60) for child in started] == [0, 0, 0, 0]
    book = open_ledger(path)
    count = book.database.db.execute("SELECT count(*) FROM message").fetchone()[0]
    book.database.close()
    assert count == 240


def test_a_full_disk_is_told_once_and_everything_is_captured_later(tmp_path: Path) -> None:
    async def run() -> None:
        server = SimServer()
        vpi = process(tmp_path, SimStore(server))
        await vpi.say("first")
        db = vpi.ledger.database.db
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")
        for turn in range(3):
            await vpi.say(f"turn {turn} " + "long " * 3000)
        told = [event for event in vpi.events if isinstance(event, Notice)]
        assert len(told) == 1 and "disk is full" in told[0].text and told[0].hint
        db.execute("PRAGMA max_page_count = 1000000")
        await vpi.say("last")
        await vpi.engine.courier.deliver_own()
        marks = server.marks(f"pi-{vpi.session.id}")
        assert marks == [entry.id for entry in vpi.session.branch() if entry.type == "message"]

    asyncio.run(run())


def test_a_failed_transaction_leaves_nothing_behind(ledger: Ledger) -> None:
    generation = opened(ledger)
    with pytest.raises(sqlite3.IntegrityError), ledger.database.transaction():
        ledger.messages.insert(generation, rows("e1"))
        ledger.generations.open(ledger.stores.get("here").id, "pi-a", "a", "", 0)
    assert ledger.messages.all(generation) == ()


def test_an_outbox_that_another_process_writes_to_is_opened_at_once(tmp_path: Path) -> None:
    open_ledger(tmp_path / "outbox.db").database.close()
    other = sqlite3.connect(tmp_path / "outbox.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    book = open_ledger(tmp_path / "outbox.db")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        book.stores.get("somewhere new")
    other.execute("ROLLBACK")
    assert book.stores.get("somewhere new").identity == "somewhere new"


@pytest.mark.parametrize(("ahead", "rests"), [(-1, False), (1, True), (300_000, True), (400_000, False)])
def test_a_rest_further_ahead_than_anybody_rests_is_over(ledger: Ledger, ahead: int, rests: bool) -> None:
    store = ledger.stores.get("here")
    ledger.stores.failed(store.id, "down", 1_000_000 + ahead)
    assert ledger.stores.get("here").rests(1_000_000) is rests


def test_a_moment_of_giving_up_that_lies_ahead_is_now(ledger: Ledger) -> None:
    generation = opened(ledger)
    ledger.messages.insert(generation, rows("a"))
    ledger.messages.sending(generation, ledger.messages.next(generation, "new", 1), 5_000)
    sending = ledger.messages.next(generation, "sending", 1)
    ledger.messages.give_up(generation, sending, 9_000)
    ledger.messages.give_up(generation, sending, 2_000)
    assert ledger.messages.next(generation, "sending", 1)[0].gave_up_at == 2_000
