from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_memory_hooks import URI, FakeMemoryStore, hit

from vikingpi.decode import Json
from vikingpi.errors import StoreUnreachable, ToolError
from vikingpi.memory.history import render, search_branch, user_turns
from vikingpi.memory.masked import MaskedMemory
from vikingpi.memory.scope import Memory
from vikingpi.memory.texts import paged
from vikingpi.memory.tools import Sources, memory_tools
from vikingpi.messages import AssistantMessage, TextPart, ToolCall, ToolResultMessage, Usage, user_text
from vikingpi.session.entries import Entry
from vikingpi.session.file import SessionLog, memory_session
from vikingpi.tools.base import ToolContext
from vikingpi.viking.base import Hit
from vikingpi.viking.embedded_sessions import EmbeddedSessions

NAMES = [
    "viking_search",
    "viking_read",
    "viking_browse",
    "viking_remember",
    "viking_forget",
    "viking_add_resource",
    "viking_archive_expand",
]


def hide(text: str) -> str:
    return text.replace("hunter2", "***")


def ignore(text: str) -> None:
    return None


class Lab:
    def __init__(self, folder: Path, store: FakeMemoryStore | None = None) -> None:
        self.store = store or FakeMemoryStore()
        self.session: SessionLog = memory_session("/work")
        self.sessions = EmbeddedSessions(folder / "store.db", lambda: 0)
        memory = Memory(MaskedMemory(self.store, hide), "mine", "mine", hide, lambda: False)
        sources = Sources(memory, self.sessions, self.branch, lambda: "pi-gen")
        self.tools = {tool.spec.name: tool for tool in memory_tools(sources)}
        self.context = ToolContext(folder, {}, ignore, 1.0, folder)

    async def branch(self) -> tuple[Entry, ...]:
        return self.session.branch()

    def call(self, name: str, **given: object) -> str:
        outcome = asyncio.run(self.tools[name].run(dict(given), self.context))
        part = outcome.content[0]
        assert isinstance(part, TextPart)
        return part.text

    def refused(self, name: str, **given: object) -> str:
        with pytest.raises(ToolError) as caught:
            self.call(name, **given)
        return str(caught.value)

    def turn(self, text: str, answer: str, result: str = "") -> str:
        """Have one user turn; return the id of its last entry."""
        self.session.append_message(user_text(text, 1))
        if result:
            call = ToolCall("c", "bash", {"command": "make"})
            self._answer((call,))
            self.session.append_message(ToolResultMessage("c", "bash", (TextPart(result),), False, 1))
        return self._answer((TextPart(answer),))

    def _answer(self, content: tuple[TextPart | ToolCall, ...]) -> str:
        return self.session.append_message(AssistantMessage(content, "a", "p", "m", Usage(), "stop", 1)).id

    def archived(self, archive: str, last: str) -> None:
        data: Json = {"archiveId": archive, "lastCoveredEntryId": last, "generation": "pi-gen"}
        self.session.append_custom("ov-takeover", data)


def test_the_seven_tools_are_in_a_fixed_order_and_describe_themselves(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert list(lab.tools) == NAMES
    for tool in lab.tools.values():
        assert tool.spec.description.endswith(".")
        assert tool.spec.parameters["type"] == "object"
        assert set(tool.spec.parameters.get("required", [])) <= set(tool.spec.parameters["properties"])


def test_search_gives_earlier_turns_and_what_the_store_found(tmp_path: Path) -> None:
    lab = Lab(tmp_path, FakeMemoryStore([hit("The staging port is 9090.")]))
    lab.turn("The gateway port is 8443.", "noted")
    lab.turn("What was the gateway port?", "I look")
    text = lab.call("viking_search", query="gateway port")
    assert "user turn 2" not in text
    assert "- user turn 1 of this session (1.00)\n  user: The gateway port is 8443.\n  assistant: noted" in text
    assert f"- {URI} (entities, 0.90, 2026-03-01 10:00:00)\n  The staging port is 9090." in text
    assert lab.store.asked == ["find gateway port  10 mine"]


def test_search_names_a_stored_message_of_this_session_only_once(tmp_path: Path) -> None:
    here = Hit("viking://user/default/sessions/pi-gen/messages/1", "message", 0.9, "user: The gateway port is 8443.")
    lab = Lab(tmp_path, FakeMemoryStore([here]))
    assert "messages/1" in lab.call("viking_search", query="gateway port")
    lab.turn("The gateway port is 8443.", "noted")
    lab.turn("What was it?", "I look")
    assert lab.call("viking_search", query="gateway port").count("8443") == 1


def test_search_works_without_the_store_and_says_so(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.store.fault = StoreUnreachable("down", may_have_stored=False)
    assert "down" in lab.refused("viking_search", query="gateway")
    lab.turn("The gateway port is 8443.", "noted")
    lab.turn("What was it?", "I look")
    text = lab.call("viking_search", query="gateway")
    assert "8443" in text
    assert "not searched: down" in text


def test_search_says_when_nothing_was_found_and_refuses_nothing_to_look_for(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert "Nothing was found" in lab.call("viking_search", query="gateway")
    assert "empty" in lab.refused("viking_search", query="  ")


def test_a_scope_leaves_the_session_out(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.turn("The gateway port is 8443.", "noted")
    lab.turn("What was it?", "I look")
    assert "Nothing was found" in lab.call("viking_search", query="gateway", scope="memories", limit=3)
    assert lab.store.asked == ["find gateway memories 3 mine"]


def test_reading_pages_through_a_long_text(tmp_path: Path) -> None:
    lab = Lab(tmp_path, FakeMemoryStore(profile="\n".join(f"line {n}" for n in range(1, 2501))))
    first = lab.call("viking_read", uri=URI)
    assert first.endswith("line 2000\n\n[Showing lines 1-2000 of 2500. Use offset=2001 to continue.]")
    assert lab.call("viking_read", uri=URI, offset=2001).startswith("line 2001\n")
    assert lab.call("viking_read", uri=URI, offset=2499, limit=1).startswith("line 2499\n\n[Showing")
    assert "beyond the end" in lab.refused("viking_read", uri=URI, offset=9999)
    assert "Offset 1e+300 is beyond the end" in lab.refused("viking_read", uri=URI, offset=1e300)
    assert lab.call("viking_read", uri=URI, offset=-3, limit=1.9).startswith("line 1\n\n[Showing")
    for limit in (0, -1, True):
        assert "Invalid limit" in lab.refused("viking_read", uri=URI, limit=limit)
        assert "Invalid limit" in lab.refused("viking_search", query="x", limit=limit)
    assert lab.store.asked[0] == f"read {URI} full mine"
    lab.call("viking_read", uri=URI, level="overview")
    assert lab.store.asked[-1] == f"read {URI} overview mine"


def test_a_line_that_is_too_long_is_cut_and_said_so(tmp_path: Path) -> None:
    lab = Lab(tmp_path, FakeMemoryStore(profile="é" * 60_000))
    text = lab.call("viking_read", uri=URI)
    assert text.startswith("é" * 25_600 + "\n\n[Line 1 is over the limit")


def test_browsing_lists_and_describes(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert lab.call("viking_browse", action="list") == (
        f"viking://user/default/memories/\n{URI} (20 characters) A gateway."
    )
    assert lab.call("viking_browse", action="stat", uri=URI) == f"{URI} (20 characters) A gateway."
    assert lab.store.asked == ["list viking://~ mine", f"stat {URI} mine"]


def test_remembering_masks_secrets_and_says_where(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert lab.call("viking_remember", content="the password is hunter2") == f"stored: {URI}"
    assert lab.store.asked == ["write the password is *** entities mine"]


def test_forgetting_by_words_only_lists(tmp_path: Path) -> None:
    lab = Lab(tmp_path, FakeMemoryStore([hit("The port is 8443.")]))
    assert URI in lab.call("viking_forget", query="port")
    assert not any(asked.startswith("delete") for asked in lab.store.asked)
    assert lab.call("viking_forget", uri=URI) == f"Deleted {URI}"
    assert "uri" in lab.refused("viking_forget")


@pytest.mark.parametrize("home", ["viking://~", "viking://user/default", "viking://user/ada"])
def test_the_open_session_is_not_forgotten_and_another_says_what_going_on_does(tmp_path: Path, home: str) -> None:
    lab = Lab(tmp_path)
    assert "open session" in lab.refused("viking_forget", uri=f"{home}/sessions/pi-gen")
    assert "open session" in lab.refused("viking_forget", uri=f" {home}/sessions/pi-gen/")
    assert lab.store.asked == []
    assert "going on with the session stores what is new" in lab.call("viking_forget", uri=f"{home}/sessions/pi-other")


def test_reading_and_browsing_are_limited_like_searching(tmp_path: Path) -> None:
    lab = Lab(tmp_path, FakeMemoryStore([hit("x")], "text"))
    lab.call("viking_read", uri=URI)
    lab.call("viking_browse", action="stat", uri=URI)
    lab.call("viking_browse", action="list", uri="viking://~/sessions")
    assert [asked.rpartition(" ")[2] for asked in lab.store.asked] == ["mine"] * 3


def test_adding_says_what_the_store_said(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert lab.call("viking_add_resource", url="https://example.org", reason="why") == "queued: viking://resources/x"
    assert lab.store.asked == ["add https://example.org why"]


def test_a_user_turn_is_shown_in_full_from_the_session_file(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.turn("Build it.", "It is built.", result="ok 42 tests")
    lab.turn("Thanks.", "Welcome.")
    assert lab.call("viking_archive_expand", user_turn=1) == (
        '=== user turn 1 ===\nuser: Build it.\n[bash {"command": "make"}]\nresult: ok 42 tests\nassistant: It is built.'
    )
    assert "has 2" in lab.refused("viking_archive_expand", user_turn=3)
    assert "has 2" in lab.refused("viking_archive_expand", user_turn=-1)


def test_an_archive_is_shown_from_the_session_file(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    ends = [lab.turn(f"Question {n}.", f"Answer {n}.") for n in (1, 2, 3, 4)]
    lab.archived("archive_001", ends[1])
    lab.archived("archive_002", ends[2])
    listed = lab.call("viking_archive_expand")
    assert "archive_001: user turns 1 to 2" in listed
    assert "archive_002: user turns 3 to 3" in listed
    second = lab.call("viking_archive_expand", archive_id="archive_002")
    assert "Question 3." in second
    assert "Question 2." not in second
    assert "Question 4." not in second
    assert lab.call("viking_archive_expand", archive_id="viking://x/history/archive_001").count("=== user turn") == 2


def test_an_archive_that_the_file_does_not_know_comes_from_the_store(tmp_path: Path) -> None:
    from store_kit import user

    lab = Lab(tmp_path)

    async def fill() -> None:
        await lab.sessions.ensure_session("pi-gen")
        await lab.sessions.add_messages("pi-gen", [user("What was said elsewhere.", "e1")])
        await lab.sessions.commit("pi-gen", 0)

    asyncio.run(fill())
    assert lab.call("viking_archive_expand", archive_id="1") == "user: What was said elsewhere."
    assert "archives: none" in lab.refused("viking_archive_expand", archive_id="archive_007")
    assert "archives: none" in lab.refused("viking_archive_expand", archive_id="nonsense")


def test_cancelling_a_call_is_not_swallowed(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.store.delay = 5

    async def act() -> NoReturn:
        running = asyncio.ensure_future(lab.tools["viking_read"].run({"uri": URI}, lab.context))
        await asyncio.sleep(0.01)
        running.cancel()
        await running
        raise AssertionError("it went on")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(act())


@given(texts=st.lists(st.text(min_size=1, max_size=400), min_size=1, max_size=5), query=st.text(max_size=60))
def test_any_text_of_the_session_can_be_searched_and_expanded(texts: list[str], query: str) -> None:
    session = memory_session("/work")
    for text in texts:
        session.append_message(user_text(text, 1))
    branch = session.branch()
    search_branch(branch, query, 10)
    turns = user_turns(branch)
    for number, entry in enumerate(branch, 1):
        content = entry.raw["message"]["content"]
        said = content if isinstance(content, str) else "".join(part["text"] for part in content)
        assert paged(render(branch, turns[number - 1 : number]), 1, None).endswith(f"user: {said}")


def test_a_long_session_is_searched_in_a_moment() -> None:
    session = memory_session("/work")
    for number in range(3000):
        session.append_message(user_text(f"Step {number}: the build of part {number % 7} took {number} seconds.", 1))
    session.append_message(user_text("The codename of the release is ORCHID-7731.", 1))
    started = time.process_time()
    found = search_branch(session.branch(), "what is the codename of the build release?", 5)
    assert found[0].number == 3001
    assert time.process_time() - started < 2
