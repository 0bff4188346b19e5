import random
import time
from pathlib import Path

import pytest
from export_kit import Page, log_of, page, picture, rendered, result, state, tool
from session_kit import answer, entry, session_file, user
from test_memory_app import Seen

from vikingpi.agent.context import message_tokens
from vikingpi.agent.validate import repair
from vikingpi.app.options import RunOptions
from vikingpi.config.model import Settings, Takeover
from vikingpi.decode import Json
from vikingpi.export.figures import replay
from vikingpi.export.page import Pending
from vikingpi.llm.base import Model, Price
from vikingpi.memory.recall import pinned_blocks, with_blocks
from vikingpi.messages import AssistantMessage, Message
from vikingpi.session.entries import Entry, message_from_json
from vikingpi.session.tree import build_context
from vikingpi.takeover.boundary import boundary_of, project
from vikingpi.takeover.state import view

BUDGET = 3000
NO_USAGE: Json = {"input": 0, "output": 0}


def tokens(messages: tuple[Message, ...]) -> int:
    return sum(map(message_tokens, messages))


def request_of(branch: tuple[Entry, ...], at: int, *, takeover: bool) -> tuple[Message, ...]:
    """Make the messages of the request that the answer at an index belongs to, as the agent makes them."""
    prefix = branch[:at]
    given = message_from_json(branch[at].raw["message"], None)
    assert isinstance(given, AssistantMessage)
    model = Model(given.provider, given.model, given.api, "", "", {}, 0, 0, False, True, Price(), {})
    messages = build_context(prefix)
    if takeover:
        messages = project(messages, boundary_of(prefix, view(prefix), BUDGET))
    return repair(with_blocks(messages, pinned_blocks(prefix, messages)), model)


def written(path: Path, entries: list[Json]) -> tuple[Entry, ...]:
    return log_of(session_file(path, *entries)).branch()


def invented(seed: int) -> list[Json]:
    """Invent a session: turns with calls, recall, failures, advances, compactions, other models, images, edits."""
    choose = random.Random(seed)
    entries: list[Json] = []
    turns: list[str] = []

    def add(made: Json) -> str:
        entries.append({**made, "id": f"{len(entries):04}", "parentId": entries[-1]["id"] if entries else None})
        return str(entries[-1]["id"])

    def text() -> str:
        return "word 漢字 " * choose.randint(1, 40)

    for _ in range(choose.randint(3, 14)):
        prompt = add(user("", None, text()))
        if choose.random() < 0.3:
            add(entry("custom", "", None, customType="ov-recall", data={"userEntryId": prompt, "block": text()}))
        model = choose.choice(("m1", "m1", "m2"))
        for _ in range(choose.randint(0, 3)):
            parts = [{"type": "thinking", "thinking": text()}, tool("bash", "c", {"command": text()})]
            add(answer("", None, content=parts, model=model, usage=NO_USAGE, stopReason="toolUse"))
            if choose.random() < 0.9:
                content = [{"type": "text", "text": text()}, *([picture()] if choose.random() < 0.2 else [])]
                add(result("", "", "c", "", content=content))
        if choose.random() < 0.2:
            add(answer("", None, "", model=model, usage={"input": 7}, stopReason="error", errorMessage="no"))
        turns.append(add(answer("", None, text(), model=model, usage=NO_USAGE)))
        if len(turns) > 2 and choose.random() < 0.4:
            covered = turns[choose.randint(0, len(turns) - 2)]
            add(state("", "", covered, overview=f"## Session Title\n{text()}"))
        if choose.random() < 0.1:
            add(entry("compaction", "", None, summary=text(), firstKeptEntryId=turns[-1], tokensBefore=5))
        if choose.random() < 0.1:
            add(entry("context_edit", "", None, targetId=turns[0], replacement=None))
    return entries


@pytest.mark.parametrize("seed", range(40))
def test_every_figure_is_that_of_the_projection(tmp_path: Path, seed: int) -> None:
    branch = written(tmp_path, invented(seed))
    figures = replay(branch, BUDGET)
    assert len(figures.points) == len(figures.answers)
    for point, at in zip(figures.points, figures.answers, strict=True):
        sent = tokens(request_of(branch, at, takeover=True))
        whole = tokens(request_of(branch, at, takeover=False))
        assert point.entry_id == branch[at].id
        assert point.whole - point.sent == whole - sent
        assert point.sent == (7 if point.recorded else sent)


def without_usage(branch: tuple[Entry, ...]) -> tuple[Entry, ...]:
    def stripped(entry: Entry) -> Entry:
        message = entry.raw.get("message")
        return entry._replace(raw={**entry.raw, "message": {**message, "usage": {}}}) if message else entry

    return tuple(map(stripped, branch))


def test_the_figures_are_those_of_the_requests_that_were_sent(tmp_path: Path) -> None:
    seen = Seen(tmp_path)
    takeover = Takeover(token_threshold=1, keep_recent_turns=1, overview_poll_ms=10, wait="overview")
    settings = Settings(store="embedded", takeover=takeover)
    for at, fact in enumerate(("port 8443", "host alpha", "day Friday", "user deploy", "region north")):
        prompt = f"The staging gateway has the {fact}. {'That matters. ' * 40}"
        seen.run(prompt, options=RunOptions(continue_session=at > 0), settings=settings)
    branch = log_of(next((tmp_path / "sessions").glob("*.jsonl"))).branch()
    figures = replay(without_usage(branch), takeover.overview_budget)
    assert [point.sent for point in figures.points] == [tokens(request.messages) for request in seen.requests]
    assert len(figures.advances) >= 3
    assert figures.points[-1].whole > figures.points[-1].sent
    recorded = replay(branch, takeover.overview_budget)
    for point, estimated, at in zip(recorded.points, figures.points, figures.answers, strict=True):
        usage = branch[at].raw["message"]["usage"]
        assert point.recorded
        assert point.sent == usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
        assert point.whole - point.sent == estimated.whole - estimated.sent


def test_an_advance_names_what_its_commit_archived(tmp_path: Path) -> None:
    entries: list[Json] = [user("u0", None), answer("a0", "u0")]
    for turn in range(1, 6):
        entries += [user(f"u{turn}", f"a{turn - 1}" if turn != 4 else "s1"), answer(f"a{turn}", f"u{turn}")]
        if turn == 3:
            entries.append(state("s1", "a3", "a1", overview="## Session Title\nfirst"))
    entries.append(state("s2", "a5", "a3", overview="## Session Title\nsecond", archiveId="archive_002"))
    figures = replay(written(tmp_path, entries), BUDGET)
    assert [(advance.at, advance.turns, advance.requests, advance.archive_id) for advance in figures.advances] == [
        (4, (1, 2), (1, 2), "archive_001"),
        (6, (3, 4), (3, 4), "archive_002"),
    ]
    assert "second" in figures.advances[1].overview


def test_a_state_written_while_an_answer_came_counts_from_the_next_request_on(tmp_path: Path) -> None:
    def at(made: Json, second: int, began: int = 0) -> Json:
        message = {"message": {**made["message"], "timestamp": 1_796_032_260_000 + began * 1000}} if began else {}
        return {**made, "timestamp": f"2026-11-30T09:51:{second:02}.000Z", **message}

    entries = [
        at(user("u0", None, "long " * 200), 0),
        at(answer("a0", "u0", "long " * 200), 2, began=1),
        at(user("u1", "a0"), 3),
        at(state("s1", "u1", "a0"), 5),
        at(answer("a1", "s1"), 9, began=4),
        at(user("u2", "a1"), 10),
        at(answer("a2", "u2"), 12, began=11),
    ]
    figures = replay(written(tmp_path, entries), BUDGET)
    assert [point.whole > point.sent for point in figures.points] == [False, False, True]


def test_an_open_commit_is_marked(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("u0", None), answer("a0", "u0"), user("u1", "a0"), answer("a1", "u1"))
    shown = Page(rendered(path, pending=[Pending("a0", 1, 1000), Pending("elsewhere", 9, 1000)]).html)
    assert "A commit of the first user turn is open" in shown.text
    assert "9 user turns" not in shown.text
    assert shown.html.count('class="archive open"') == 2


def test_requests_that_failed_before_they_were_counted_are_left_out_and_named(tmp_path: Path) -> None:
    path = session_file(
        tmp_path,
        user("u0", None),
        answer("a0", "u0", "", usage=NO_USAGE, stopReason="error"),
        answer("a1", "a0"),
    )
    figures = replay(log_of(path).branch(), BUDGET)
    assert [point.number for point in figures.points] == [2]
    assert "1 that failed or were aborted" in page(path).text


def test_what_would_take_too_long_is_measured_here_and_there(tmp_path: Path) -> None:
    entries: list[Json] = []
    for turn in range(200):
        entries.append(user(f"u{turn}", f"a{turn - 1}" if turn else None))
        entries.append(answer(f"a{turn}", f"u{turn}", usage=NO_USAGE))
    branch = written(tmp_path, entries)
    assert len(replay(branch, BUDGET).points) == 200
    assert 15 <= len(replay(branch, BUDGET, most_work=20).points) <= 20


def test_models_that_change_all_the_time_cost_no_more(tmp_path: Path) -> None:
    entries: list[Json] = []
    for turn in range(600):
        entries.append(user(f"u{turn}", f"a{turn - 1}" if turn else None))
        model = f"m{turn if turn >= 400 else turn % 3}"
        entries.append(answer(f"a{turn}", f"u{turn}", usage=NO_USAGE, model=model))
    branch = written(tmp_path, entries)
    started = time.process_time()
    figures = replay(branch, BUDGET, most_work=10_000)
    assert time.process_time() - started < 5
    assert 20 <= len(figures.points) < 300


def test_a_large_session_becomes_a_page_in_bounded_time(tmp_path: Path) -> None:
    entries: list[Json] = []
    for turn in range(1000):
        entries.append(user(f"u{turn}", entries[-1]["id"] if entries else None, "a prompt " * 5))
        entries.append(answer(f"a{turn}", f"u{turn}", content=[tool("bash", "c", {"command": "ls"})]))
        entries.append(result(f"r{turn}", f"a{turn}", "c", "line of output\n" * 20))
        if turn % 20 == 19:
            entries.append(state(f"s{turn}", f"r{turn}", f"r{turn - 3}", turn - 3))
    started = time.process_time()
    done = rendered(session_file(tmp_path, *entries))
    assert time.process_time() - started < 20
    assert len(done.html) < 10_000_000
    shown = Page(done.html)
    assert shown.text.count("User turn ") == 1000
    assert shown.tags.count("path") < 200
