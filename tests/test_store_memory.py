from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_kit import ScriptedTransport, assistant, call, user

from vikingpi.errors import NotConnected, StoreRejected, StoreUnreachable
from vikingpi.net import Reply
from vikingpi.viking.base import RecallQuery
from vikingpi.viking.embedded import open_file
from vikingpi.viking.embedded_index import COMMON
from vikingpi.viking.embedded_memory import EmbeddedMemory
from vikingpi.viking.embedded_schema import MIGRATIONS
from vikingpi.viking.embedded_sessions import EmbeddedSessions
from vikingpi.viking.sqlite import Step


def clock() -> int:
    return time.time_ns() // 1_000_000


class Bench:
    """Both sides of one store."""

    def __init__(self, path: Path, transport: ScriptedTransport) -> None:
        self.sessions = EmbeddedSessions(path, clock)
        self.memory = EmbeddedMemory(self.sessions.file, clock, transport)

    async def recall(self, text: str, **fields: Any) -> list[str]:
        query = RecallQuery(text, 2000, 10, 0.35)._replace(**fields)
        return [hit.text for hit in await self.memory.search_context(query)]

    async def texts(self, text: str, scope: str = "", peer: str = "") -> list[str]:
        return [hit.text for hit in await self.memory.find(text, scope=scope, peer=peer)]


def play(path: Path, scene: Callable[[Bench], Coroutine[Any, Any, None]], *answers: Reply | Exception) -> None:
    async def act() -> None:
        bench = Bench(path, ScriptedTransport(answers))
        try:
            await scene(bench)
        finally:
            await bench.sessions.close()

    asyncio.run(act())


def test_messages_are_found_before_and_after_they_are_archived(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        await bench.sessions.add_messages("s", [user("The codename is ORCHID-7731.", "e1"), assistant("noted", "e2")])
        assert await bench.texts("orchid 7731") == ["user: The codename is ORCHID-7731."]
        await bench.sessions.commit("s", 0)
        assert await bench.texts("orchid 7731") == ["user: The codename is ORCHID-7731."]
        hit = (await bench.memory.find("orchid"))[0]
        assert hit.uri == "viking://user/default/sessions/s/messages/1"
        assert await bench.memory.read(hit.uri) == "user: The codename is ORCHID-7731."

    play(tmp_path / "store.db", scene)


def test_an_archive_is_read_at_three_levels(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        run = call("bash", {"command": "cat port"}, "8443")
        await bench.sessions.add_messages("s", [user("Which port?", "e1"), assistant("I look", "e2", run)])
        await bench.sessions.commit("s", 0)
        uri = "viking://~/sessions/s/history/archive_001"
        assert [node.uri for node in await bench.memory.list("viking://~/sessions/s/history")] == [
            "viking://user/default/sessions/s/history/archive_001"
        ]
        full = await bench.memory.read(uri, "full")
        assert full == 'user: Which port?\n\nassistant: I look\n[bash {"command": "cat port"}]\n8443'
        assert "## Session Title" in await bench.memory.read(uri, "overview")
        assert "\n" not in await bench.memory.read(uri, "abstract")

    play(tmp_path / "store.db", scene)


def test_recall_leaves_out_messages_that_the_request_shows(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        await bench.sessions.add_messages("s", [user("The gateway port is 8443 on staging.", "e1")])
        assert await bench.recall("gateway port?") == ["user: The gateway port is 8443 on staging."]
        assert await bench.recall("gateway port?", marks=frozenset({"e1"})) == []

    play(tmp_path / "store.db", scene)


def test_recall_brings_no_echo_and_no_small_talk(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        said = [
            "hello",
            "hello there, good morning to everybody",
            "What is the gateway port?",
            "Which gateway port is it now?",
        ]
        await bench.sessions.add_messages("s", [user(text, f"e{n}") for n, text in enumerate(said)])
        assert await bench.recall("hello") == []
        assert await bench.recall("What is the gateway port?") == []
        assert "user: What is the gateway port?" in await bench.texts("gateway port")

    play(tmp_path / "store.db", scene)


def test_recall_respects_threshold_limit_and_budget(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        for number in range(8):
            await bench.memory.write(f"gateway number {number} is in rack {number}{'x' * 300}", "entities")
        assert len(await bench.recall("gateway rack")) == 8
        assert len(await bench.recall("gateway rack", limit=3)) == 3
        assert len(await bench.recall("gateway rack", budget=250)) == 2
        assert await bench.recall("gateway unheard words that nobody stored", threshold=0.6) == []

    play(tmp_path / "store.db", scene)


def test_the_newest_of_equally_good_answers_comes_first(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        said = ["The gateway port is 8443.", "Now the gateway port is 9090."]
        await bench.sessions.add_messages("s", [user(text, f"e{n}") for n, text in enumerate(said)])
        assert (await bench.recall("gateway port"))[0] == "user: Now the gateway port is 9090."

    play(tmp_path / "store.db", scene)


def test_a_search_gives_the_answer_before_those_who_asked_for_it(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        said = ["The lantern code is FALKE-88.", "What is the lantern code?", "And the lantern code now?"]
        await bench.sessions.add_messages("s", [user(text, f"e{n}") for n, text in enumerate(said)])
        found = await bench.texts("lantern code")
        assert found[0] == "user: The lantern code is FALKE-88."
        assert len(found) == 3

    play(tmp_path / "store.db", scene)


def test_a_search_gives_a_partial_answer_before_the_question_word_for_word(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        said = ["We keep FALKE-88 as the lantern code.", "Which lantern code opens the harbour gate?"]
        await bench.sessions.add_messages("s", [user(text, f"e{n}") for n, text in enumerate(said)])
        found = await bench.texts("Which lantern code opens the harbour gate?")
        assert found == [f"user: {text}" for text in said]

    play(tmp_path / "store.db", scene)


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        ("数据库备份每天一次。", "备份改成每六小时一次。", "数据库备份多久一次？"),
        (
            "The nightly backup of the ledger database runs at 02:00.",
            "The backup of the database moved to 04:30.",
            "When does the nightly ledger backup of our production database cluster run?",
        ),
    ],
)
def test_a_change_is_recalled_with_what_it_changes(tmp_path: Path, old: str, new: str, question: str) -> None:
    others = ["The office plants are watered on Mondays.", "网关端口是7071。", "The invoices moved to the new mailer."]

    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        said = [old, *others, new, *(f"Unrelated remark number {n}." for n in range(20))]
        await bench.sessions.add_messages("s", [user(text, f"e{n}") for n, text in enumerate(said)])
        assert set(await bench.recall(question)) == {f"user: {old}", f"user: {new}"}

    play(tmp_path / "store.db", scene)


def test_a_question_finds_the_parts_of_a_name_and_other_prompts_need_more_than_one_word(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        said = ["Set MAX_RETRIES = 7 in settings.py", *(f"Unrelated remark number {n}." for n in range(20))]
        await bench.sessions.add_messages("s", [user(text, f"e{n}") for n, text in enumerate(said)])
        for question in ("How many retries are configured?", "How many retries?", "how often do we retry?"):
            assert await bench.recall(question) == [f"user: {said[0]}"]
        assert await bench.recall("Retry the whole deployment please") == []

    play(tmp_path / "store.db", scene)


def test_a_peer_sees_only_its_own(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        mine = user("The gateway port here is 8443.", "e1")._replace(peer_id="-work-mine")
        other = user("The gateway port there is 9090.", "e2")._replace(peer_id="-work-other")
        await bench.sessions.add_messages("s", [mine, other])
        await bench.memory.write("gateway port 7070 is a preference", "preferences", peer="-work-other")
        assert len(await bench.recall("gateway port")) == 3
        assert await bench.recall("gateway port", peer="-work-mine") == ["user: The gateway port here is 8443."]
        assert await bench.recall("gateway port", peer="-work-new") == []
        assert "7070" not in await bench.memory.profile(1000, peer="-work-mine")
        assert "7070" in await bench.memory.profile(1000)

    play(tmp_path / "store.db", scene)


def test_a_peer_reads_and_lists_nothing_of_other_projects(tmp_path: Path) -> None:
    base = "viking://user/default"

    async def scene(bench: Bench) -> None:
        memory = bench.memory
        for name, peer in (("pi-mine", "-work-mine"), ("pi-other", "-work-other")):
            await bench.sessions.ensure_session(name)
            said = [user(f"said in {peer}", "e1")._replace(peer_id=peer), user("shared", "e2")._replace(peer_id=peer)]
            await bench.sessions.add_messages(name, said)
            await bench.sessions.commit(name, 1)
        await bench.sessions.add_messages("pi-mine", [user("elsewhere", "e3")._replace(peer_id="-work-other")])
        written = await memory.write("port 7070", "entities", peer="-work-other")
        other = f"{base}/sessions/pi-other"
        places = (
            f"{other}/messages/1",
            f"{other}/history/archive_001",
            written.uri,
            f"{base}/sessions/pi-mine/messages/3",
        )
        for place in places:
            assert await memory.read(place)
            for ask in (memory.read, memory.stat):
                with pytest.raises(StoreRejected) as caught:
                    await ask(place, peer="-work-mine")
                assert caught.value.status == 404
        for folder in (other, f"{other}/messages", f"{other}/history"):
            assert await memory.list(folder)
            with pytest.raises(StoreRejected):
                await memory.list(folder, peer="-work-mine")
            with pytest.raises(StoreRejected):
                await memory.read(folder, "overview", peer="-work-mine")
        assert [node.uri for node in await memory.list(f"{base}/sessions", peer="-work-mine")] == [
            f"{base}/sessions/pi-mine"
        ]
        assert len(await memory.list(f"{base}/sessions/pi-mine/messages", peer="-work-mine")) == 2
        assert "said in -work-mine" in await memory.read(f"{base}/sessions/pi-mine/messages/1", peer="-work-mine")

    play(tmp_path / "store.db", scene)


async def flood(bench: Bench, text: str, peer: str = "") -> None:
    """Say something so often that all of its words are common."""
    for batch in range(COMMON // 100 + 1):
        said = [user(f"{text} {batch} {n}", f"{peer}-{batch}-{n}")._replace(peer_id=peer) for n in range(100)]
        await bench.sessions.add_messages("s", said)


def test_an_old_answer_of_one_project_is_found_behind_all_that_others_said(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        mine = user("The gateway port here is 8443.", "e1")._replace(peer_id="-work-mine")
        await bench.sessions.add_messages("s", [mine])
        await flood(bench, "Nothing new about the gateway port today, run", "-work-other")
        assert await bench.recall("gateway port", peer="-work-mine") == ["user: The gateway port here is 8443."]
        assert len(await bench.recall("gateway port")) == 10

    play(tmp_path / "store.db", scene)


def test_a_memory_is_found_behind_all_the_messages_that_use_its_words(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.memory.write("The gateway port is a preference.", "preferences")
        await bench.sessions.ensure_session("s")
        await flood(bench, "Nothing new about the gateway port today, run")
        assert await bench.texts("gateway port", scope="memories") == ["The gateway port is a preference."]

    play(tmp_path / "store.db", scene)


def test_a_rare_word_does_not_hide_what_all_the_common_ones_say(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        await flood(bench, "The gateway listens on its port, seen in check")
        await bench.sessions.add_messages("s", [user("Kubernetes was mentioned.", "e1")])
        found = await bench.texts("gateway listens port check kubernetes")
        assert found[0] == "user: Kubernetes was mentioned."
        assert found[1].startswith("user: The gateway listens on its port")

    play(tmp_path / "store.db", scene)


def test_of_many_with_a_rare_word_the_one_that_says_most_is_found(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        wanted = user("The gateway falcon listens on port 8443.", "e1")
        await bench.sessions.add_messages("s", [wanted])
        await bench.sessions.add_messages("s", [user(f"The falcon flew in {n}.", f"f{n}") for n in range(90)])
        await flood(bench, "The gateway port, seen in check")
        assert (await bench.recall("gateway port falcon"))[0] == "user: The gateway falcon listens on port 8443."

    play(tmp_path / "store.db", scene)


def test_what_memory_tools_brought_up_is_not_found_again(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        brought = call("viking_search", {"query": "gateway"}, "The gateway port is 8443.")
        await bench.sessions.add_messages("s", [assistant("I looked it up", "e1", brought)])
        assert await bench.texts("gateway port 8443") == []

    play(tmp_path / "store.db", scene)


def test_scopes_narrow_a_search(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        await bench.sessions.ensure_session("t")
        await bench.sessions.add_messages("s", [user("gateway in session s", "e1")])
        await bench.sessions.add_messages("t", [user("gateway in session t", "e2")])
        await bench.memory.write("gateway in memory", "entities")
        (tmp_path / "note.md").write_text("gateway in a resource")
        await bench.memory.add_resource(str(tmp_path / "note.md"))
        assert len(await bench.texts("gateway")) == 4
        assert await bench.texts("gateway", "memories") == ["gateway in memory"]
        assert await bench.texts("gateway", "resources") == ["gateway in a resource"]
        assert len(await bench.texts("gateway", "sessions")) == 2
        assert await bench.texts("gateway", "viking://~/sessions/t") == ["user: gateway in session t"]
        assert await bench.texts("gateway", "viking://~/memories/entities") == ["gateway in memory"]
        assert len(await bench.texts("gateway", "viking://~")) == 3

    play(tmp_path / "store.db", scene)


def test_a_deleted_session_leaves_nothing_to_find(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        await bench.sessions.add_messages("s", [user("gateway 8443", "e1"), user("gateway 9090", "e2")])
        await bench.sessions.commit("s", 1)
        assert await bench.memory.delete("viking://~/sessions/s") == 2
        assert await bench.texts("gateway") == []
        assert await bench.sessions.session_status("s") is None

    play(tmp_path / "store.db", scene)


STAND_INS = [
    ("seed:pi-g", "[earlier overview]\n## Key Facts & Decisions\n- User: the gateway port is 8443"),
    ("refused:e9", "[a message could not be stored; its text is entry gateway-port of the session file]"),
]


@pytest.mark.parametrize(("mark", "text"), STAND_INS)
def test_what_stands_in_for_other_messages_is_not_recalled_and_counts_for_overviews(
    tmp_path: Path, mark: str, text: str
) -> None:
    stand_in = user(text, mark)._replace(marks=(mark, "e9"))

    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        await bench.sessions.add_messages("s", [stand_in, user("the gateway port is now 9443", "e1")])
        for _ in range(2):
            assert await bench.recall("which is the gateway port") == ["user: the gateway port is now 9443"]
            assert await bench.texts("gateway port") == ["user: the gateway port is now 9443"]
            assert await bench.texts("gateway port", "viking://~/sessions/s") == ["user: the gateway port is now 9443"]
            await bench.sessions.commit("s", 0)
        archive = await bench.sessions.archive("s", 1)
        assert archive is not None and archive.messages[0] == stand_in
        assert "gateway" in archive.overview and mark in archive.marks
        assert await bench.memory.delete("viking://~/sessions/s") == 2

    play(tmp_path / "store.db", scene)


@pytest.mark.parametrize(("mark", "text"), STAND_INS)
def test_stand_ins_leave_the_index_of_an_existing_store(tmp_path: Path, mark: str, text: str) -> None:
    path = tmp_path / "store.db"

    async def before(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        # As it was written when a stand-in was indexed like what was said.
        await bench.sessions.add_messages("s", [user(text, "MARK"), user(f'"{mark} said of the gateway', "e1")])

    play(path, before)
    db = sqlite3.connect(path)
    db.execute("UPDATE message SET body = replace(body, 'MARK', ?1), marks = replace(marks, 'MARK', ?1)", (mark,))
    db.execute("DROP TABLE forgotten")
    db.execute("PRAGMA user_version = 3")
    db.commit()
    db.close()

    async def after(bench: Bench) -> None:
        assert await bench.texts("gateway port overview stored") == [f'user: "{mark} said of the gateway']

    play(path, after)


@pytest.mark.parametrize("again", ["pi-s", "pi-s__0a1b2c3d", "pi-fork"])
def test_a_forgotten_session_stays_forgotten_when_it_goes_on(tmp_path: Path, again: str) -> None:
    old = [user("the codename is MARLIN", "e1"), assistant("noted: codename MARLIN", "e2")]
    undelivered = user("the codename was MARLIN at first", "e3")
    later = user("the codename is PIKE", "e4")._replace(created_at="2999-01-01T00:00:00.000Z")

    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("pi-s")
        await bench.sessions.add_messages("pi-s", old)
        await bench.memory.delete("viking://~/sessions/pi-s")
        await bench.sessions.ensure_session(again)
        await bench.sessions.add_messages(again, [*old, *([] if again == "pi-fork" else [undelivered]), later])
        assert await bench.texts("codename") == ["user: the codename is PIKE"]
        await bench.sessions.commit(again, 0)
        archive = await bench.sessions.archive(again, 1)
        assert archive is not None and "MARLIN" in archive.overview
        assert await bench.texts("codename") == ["user: the codename is PIKE"]
        await bench.sessions.ensure_session("pi-t")
        await bench.sessions.add_messages("pi-t", [user("another codename", "e1")._replace(created_at="2026")])
        assert len(await bench.texts("codename")) == 2
        await bench.memory.delete(f"viking://~/sessions/{again}")
        assert await bench.texts("codename") == ["user: another codename"]

    play(tmp_path / "store.db", scene)


def test_a_folder_is_taken_in_file_by_file(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    (source / "api").mkdir(parents=True)
    (source / ".git").mkdir()
    (source / "index.md").write_text("# Start\n\nThe gateway is explained here.")
    (source / "api" / "ports.md").write_text("The gateway port is 8443.")
    (source / "logo.png").write_bytes(b"\x89PNG\0\0")
    (source / ".git" / "config").write_text("gateway secret")

    async def scene(bench: Bench) -> None:
        written = await bench.memory.add_resource(str(source), "to read up")
        assert written.uri.startswith("viking://resources/docs-")
        assert written.note == "read 2 files, left out 2: .git (hidden), logo.png (binary)"
        assert await bench.memory.read(f"{written.uri}/api/ports.md") == "The gateway port is 8443."
        assert await bench.memory.read(f"{written.uri}/index.md", "abstract") == "Start"
        (source / "api" / "ports.md").write_text("The gateway port is 9090.")
        await bench.memory.add_resource(str(source))
        assert await bench.texts("gateway port") == ["The gateway port is 9090.", *(await bench.texts("explained"))]
        assert await bench.memory.delete(written.uri) == 2
        assert await bench.texts("gateway") == []

    play(tmp_path / "store.db", scene)


def test_files_and_folders_of_like_names_stay_apart(tmp_path: Path) -> None:
    names = (
        "a b.md",
        "a-b.md",
        "a?b.md",
        "-a-b.md",
        "A b.md",
        "untitled",
        "~~",
        "--",
        f"{'n' * 120}1",
        f"{'n' * 120}2",
    )
    places = [tmp_path / "one" / "x", tmp_path / "two" / "x"]
    for number, place in enumerate(places):
        place.mkdir(parents=True)
        for name in names:
            (place / name).write_text(f"{name} in {number}")

    async def scene(bench: Bench) -> None:
        added: list[str] = []
        for _ in range(2):
            added = [(await bench.memory.add_resource(str(place))).uri for place in places]
            bodies = [await bench.memory.read(node.uri) for uri in added for node in await bench.memory.list(uri)]
            assert sorted(bodies) == sorted(f"{name} in {number}" for name in names for number in (0, 1))
        assert len(set(added)) == len(await bench.memory.list("viking://resources")) == 2
        single = [(await bench.memory.add_resource(str(place / "a-b.md"))).uri for place in places]
        assert [await bench.memory.read(uri) for uri in single] == ["a-b.md in 0", "a-b.md in 1"]

    play(tmp_path / "store.db", scene)


def test_a_folder_that_is_added_again_forgets_what_was_deleted_in_it(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    (source / "api").mkdir(parents=True)
    (source / "a.md").write_text("gateway alpha")
    (source / "api" / "b.md").write_text("gateway beta")

    async def scene(bench: Bench) -> None:
        await bench.memory.write("gateway of the memories", "entities")
        beside = tmp_path / "docs.md"
        beside.write_text("gateway beside")
        await bench.memory.add_resource(str(beside))
        added = await bench.memory.add_resource(str(source))
        (source / "api" / "b.md").unlink()
        assert await bench.memory.add_resource(str(source)) == (added.uri, "read 1 file")
        kept = ["gateway alpha", "gateway beside", "gateway of the memories"]
        assert sorted(await bench.texts("gateway")) == kept

    play(tmp_path / "store.db", scene)


def test_what_cannot_be_read_is_named_with_its_reason(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    (source / "build").mkdir(parents=True)
    (source / "a.md").write_text("text")
    (source / "link").symlink_to(source / "a.md")
    (source / "empty").write_text(" ")
    (source / ".env").write_text("x")
    (source / "big.txt").write_text("word " * 300_000)

    async def scene(bench: Bench) -> None:
        note = (await bench.memory.add_resource(str(source))).note
        why = ".env (hidden), build (generated), link (a link), big.txt (over 1 MB), empty (empty)"
        assert note == f"read 1 file, left out 5: {why}"
        with pytest.raises(StoreRejected, match="over 1 MB") as caught:
            await bench.memory.add_resource(str(source / "big.txt"))
        assert "parts" in caught.value.hint

    play(tmp_path / "store.db", scene)


def page(body: str, kind: str = "text/html; charset=utf-8") -> Reply:
    return Reply(200, {"content-type": kind}, body.encode())


def test_a_web_page_is_stored_as_readable_text(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        written = await bench.memory.add_resource("https://example.org/docs/ports?lang=en")
        assert written.uri.startswith("viking://resources/example.org/docs/ports/lang-en-")
        text = await bench.memory.read(written.uri)
        assert (
            text == "# Ports & more\n\n## Gateway\n\nIt listens on 8443.\n\n- fast\n- small\n\n```\nif x:\n    y()\n```"
        )

    html = (
        "<html><head><title>Ports &amp; more</title><script>evil()</script></head><body><nav>menu</nav>"
        "<h2>Gateway</h2><p>It   listens\non 8443.</p><ul><li>fast</li><li>small</li></ul>"
        "<pre>if x:\n    y()</pre></body></html>"
    )
    moved = Reply(302, {"location": "/elsewhere"}, b"")
    play(tmp_path / "store.db", scene, moved, page(html))


def test_pages_of_different_addresses_stay_apart(tmp_path: Path) -> None:
    deep = "/".join("abcdefghijklm")
    urls = [
        *(
            "https://a.test/x",
            "http://a.test/x",
            "https://a.test:8443/x",
            "http://a.test:8080/x",
            "https://a.test/x?a=b",
        ),
        *("https://a.test/x?a-b", "https://a.test/x/a-b", "https://a.test/x%20y", "https://a.test/x-20y"),
        *(
            f"https://a.test/{deep}/n",
            f"https://a.test/{deep}/o",
            "https://a.test/",
            "https://b.test/",
            "https://a.test?q",
        ),
    ]

    async def scene(bench: Bench) -> None:
        added = [(await bench.memory.add_resource(url)).uri for url in urls]
        assert len(set(added)) == len(urls)
        assert [await bench.memory.read(uri) for uri in added] == urls

    play(tmp_path / "store.db", scene, *(page(url, "text/plain") for url in urls))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Reply(404, {}, b"no"), StoreRejected),
        (Reply(200, {"content-type": "image/png"}, b"\x89PNG"), StoreRejected),
        (Reply(200, {"content-type": "text/html"}, b"<script>x</script>"), StoreRejected),
        (Reply(302, {"location": "file:///etc/passwd"}, b""), StoreRejected),
        (NotConnected("no route"), StoreUnreachable),
    ],
)
def test_a_page_that_cannot_be_had_stores_nothing(tmp_path: Path, answer: Reply | Exception, error: Any) -> None:
    async def scene(bench: Bench) -> None:
        with pytest.raises(error):
            await bench.memory.add_resource("https://example.org/x")
        assert await bench.memory.list("viking://resources") == ()

    play(tmp_path / "store.db", scene, answer)


def test_a_long_profile_keeps_its_ends_within_the_budget(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        for number in range(30):
            await bench.memory.write(f"Fact {number}: {'worth many words ' * 20}", "profile")
        block = await bench.memory.profile(500)
        assert "Fact 0:" in block
        assert block.endswith("worth many words")
        assert "Fact 15:" not in block
        assert len(block) <= 2000

    play(tmp_path / "store.db", scene)


def test_a_store_from_before_the_index_is_searchable(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    first: tuple[Step, ...] = MIGRATIONS[0]
    db = sqlite3.connect(path)
    for step in first:
        assert isinstance(step, str)
        db.execute(step)
    db.execute("INSERT INTO session (name, created_at, total, live) VALUES ('old', 'then', 1, 1)")
    body = '{"role": "user", "parts": [{"type": "text", "text": "the old codename is MARLIN"}], "peer_id": "p"}'
    db.execute("INSERT INTO message (session, seq, marks, body) VALUES (1, 1, '[]', ?)", (body,))
    db.execute("PRAGMA user_version = 1")
    db.commit()
    db.close()

    async def scene(bench: Bench) -> None:
        assert await bench.texts("marlin") == ["user: the old codename is MARLIN"]
        assert await bench.texts("marlin", peer="p") == ["user: the old codename is MARLIN"]

    play(path, scene)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=4), query=st.text(max_size=80))
def test_any_text_is_stored_searched_read_and_deleted(tmp_path: Path, texts: list[str], query: str) -> None:
    path = tmp_path / "fuzz.db"

    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        await bench.sessions.add_messages("s", [user(text, f"e{n}") for n, text in enumerate(texts)])
        await bench.memory.find(query)
        await bench.recall(query)
        for number, text in enumerate(texts, 1):
            assert await bench.memory.read(f"viking://~/sessions/s/messages/{number}") == f"user: {text}"
        await bench.memory.delete("viking://~/sessions/s")
        assert not any([await bench.texts(text) for text in texts])

    play(path, scene)
    db = open_file(path)
    db.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    assert db.execute("SELECT count(*) FROM passage").fetchone() == (0,)
    db.close()


WRITER = """
import asyncio, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from store_kit import user
from vikingpi.viking.embedded_sessions import EmbeddedSessions

async def main():
    who = sys.argv[2]
    store = EmbeddedSessions(Path(sys.argv[1]), lambda: time.time_ns() // 1_000_000)
    await store.ensure_session("shared")
    for number in range(250):
        await store.add_messages("shared", [user(f"note w{who}n{number}x of writer {who}", f"{who}-{number}")])
    await store.close()

asyncio.run(main())
"""


def test_a_thousand_writes_of_four_processes_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    here = str(Path(__file__).parent)
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(who), here], stderr=subprocess.PIPE)
        for who in range(4)
    ]
    for process in running:
        _, complaint = process.communicate(timeout=100)
        assert (process.returncode, complaint) == (0, b"")

    async def scene(bench: Bench) -> None:
        status = await bench.sessions.session_status("shared")
        assert status is not None
        assert status.total_messages == 1000
        marks = await bench.sessions.marks("shared", 0)
        assert marks == {f"{who}-{number}" for who in range(4) for number in range(250)}
        for who in range(4):
            assert (await bench.texts(f"w{who}n249x"))[0] == f"user: note w{who}n249x of writer {who}"

    play(path, scene)


def test_a_word_that_is_everywhere_reminds_of_nothing(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.sessions.ensure_session("s")
        said = [user(f"The gateway answered the worker, run {n}", f"e{n}") for n in range(150)]
        fact = user("The falcon behind the gateway listens on 8443 for the heron.", "fact")
        await bench.sessions.add_messages("s", said[:75])
        await bench.sessions.add_messages("s", [*said[75:], fact])
        found = await bench.recall("does the gateway know worker, falcon and heron?")
        assert found == ["user: The falcon behind the gateway listens on 8443 for the heron."]
        assert await bench.recall("does the gateway know worker, osprey and condor?") == []
        assert len(await bench.recall("gateway worker")) == 10

    play(tmp_path / "store.db", scene)
