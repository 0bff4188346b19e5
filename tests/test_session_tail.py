import asyncio
import json
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies
from session_kit import HEADER, answer, entry, ids, lines, session_file, user

from vikingpi.app.context import History, session_ref
from vikingpi.decode import Json
from vikingpi.errors import SessionError
from vikingpi.messages import AssistantMessage, Cost, Message, TextPart, Usage, text_of, user_text
from vikingpi.session.entries import Entry
from vikingpi.session.file import SessionLog, create_session, fork_session, open_session
from vikingpi.session.scan import scan_start
from vikingpi.session.tail import SEARCH_STEP
from vikingpi.session.tree import build_context, model_of, name_of, thinking_of, totals_of
from vikingpi.takeover.boundary import boundary_of, project
from vikingpi.takeover.state import STATE, TakeoverState, counted_turns, fingerprint, is_message, is_user, view

WHOLE = 1 << 40


def opened(path: Path, *, whole_below: int = 0) -> SessionLog:
    log = open_session(path, path.parent / "locks", whole_below=whole_below)
    log.close()
    return log


def state(covered: str, **fields: object) -> Json:
    data: Json = {
        "coveredUserTurns": 1,
        "overview": "## Facts\nthe port is 7070",
        "fingerprint": None,
        "generation": f"pi-{HEADER['id']}",
        "lastCoveredEntryId": covered,
        "entriesBefore": 6,
        "name": "deploy",
        "thinkingLevel": "high",
        "model": {"provider": "lab", "id": "m1"},
        "totals": {"input": 100, "output": 20, "cacheRead": 3, "cacheWrite": 0, "cost": 1.5},
        "off": False,
    }
    return entry("custom", "s1", "a3", customType=STATE, data={**data, **fields})


def covered_file(folder: Path, *more: Json, **fields: object) -> Path:
    said = (
        user("u1", None, "first"),
        answer("a1", "u1"),
        user("u2", "a1", "second"),
        answer("a2", "u2"),
        user("u3", "a2", "third"),
        answer("a3", "u3"),
    )
    return session_file(folder, *said, state("a1", **fields), *more)


def shown(log: SessionLog) -> tuple[Message, ...]:
    branch = log.branch()
    return project(build_context(branch), boundary_of(branch, view(branch), 3000))


def test_a_resume_reads_from_the_last_covered_entry_on(tmp_path: Path) -> None:
    log = opened(covered_file(tmp_path, user("u4", "s1", "fourth")))
    assert ids(log) == ["a1", "u2", "a2", "u3", "a3", "s1", "u4"]
    assert (log.known.skipped, log.known.name, log.leaf_id) == (1, "deploy", "u4")
    assert log.known.totals == Usage(100, 20, 3, cost=Cost(input=1.5))


def test_totals_are_those_of_the_state_and_of_everything_after_it_on_any_branch(tmp_path: Path) -> None:
    path = covered_file(tmp_path, answer("x1", "u1"), user("u4", "s1"), answer("a4", "u4"))
    totals = opened(path).known.totals
    assert totals is not None
    assert (totals.input, totals.output) == (100 + 2 * 10, 20 + 2 * 2)
    assert totals.cost.total == 1.5 + 2 * 0.75


def test_the_rest_comes_back_when_it_is_asked_for(tmp_path: Path) -> None:
    path = covered_file(tmp_path)
    log = open_session(path, tmp_path / "locks", whole_below=0)
    added = log.append_message(user_text("fourth", 1))
    assert len(ids(log)) == 7
    assert [found.id for found in log.entries] == ["u1", "a1", "u2", "a2", "u3", "a3", "s1", added.id]
    assert ids(log) == [found.id for found in log.entries]
    assert log.known.skipped == 0
    log.close()
    log = opened(path)
    assert log.get("u1") is not None
    log = opened(path)
    assert [found.id for found in log.branch_to("a2")] == ["u1", "a1", "u2", "a2"]
    log = opened(path)
    log.move_leaf("u1")
    assert ids(log) == ["u1"]
    path.unlink()
    log = opened(covered_file(tmp_path))
    path.unlink()
    with pytest.raises(SessionError, match="does not exist"):
        _ = log.entries


def test_a_reader_that_can_wait_gets_the_whole_branch_and_the_session_keeps_its_end(tmp_path: Path) -> None:
    log = open_session(covered_file(tmp_path), tmp_path / "locks", whole_below=0)
    threads: list[int] = []
    read = log.known.before

    def before() -> tuple[Entry, ...]:
        threads.append(threading.get_ident())
        return read()

    async def scene() -> None:
        history = History(log, before)
        assert [one.id for one in await history()] == ["u1", "a1", "u2", "a2", "u3", "a3", "s1"]
        assert ids(log) == ["a1", "u2", "a2", "u3", "a3", "s1"]
        added = log.append_message(user_text("fourth", 1))
        assert [one.id for one in await history()][-2:] == ["s1", added.id]
        assert len(threads) == 1, "read once"
        assert threads[0] != threading.get_ident()

    asyncio.run(scene())
    log.close()


def test_a_session_that_moves_or_is_loaded_while_it_is_read_gives_the_branch_it_is_on(tmp_path: Path) -> None:
    log = open_session(covered_file(tmp_path), tmp_path / "locks", whole_below=0)
    read = log.known.before

    def before() -> tuple[Entry, ...]:
        found = read()
        log.move_leaf("a2")
        return found

    async def scene() -> None:
        assert [one.id for one in await History(log, before)()] == ["u1", "a1", "u2", "a2"]

    asyncio.run(scene())
    log.close()


def test_a_fork_has_the_whole_branch(tmp_path: Path) -> None:
    log = opened(covered_file(tmp_path))
    forked = fork_session(log, tmp_path / "forks", "/srv/app", tmp_path / "locks")
    assert ids(forked)[:7] == ["u1", "a1", "u2", "a2", "u3", "a3", "s1"]


def test_the_totals_of_a_copied_state_are_not_those_of_the_copy(tmp_path: Path) -> None:
    log = opened(covered_file(tmp_path, generation="pi-another"))
    assert log.known.totals is None
    log.known.learn(None, Usage(5, 5))
    totals = log.known.totals
    assert totals is not None
    assert (totals.input, totals.output) == (5 + 3 * 10, 5 + 3 * 2), "what was scanned and what the end adds"


def test_a_covered_tool_result_keeps_the_message_that_called_for_it(tmp_path: Path) -> None:
    call: Json = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}
    result: Json = {"role": "toolResult", "toolCallId": "c1", "toolName": "bash", "content": [], "timestamp": 1}
    path = session_file(
        tmp_path,
        user("u1", None),
        answer("a1", "u1", content=[call]),
        entry("message", "r1", "a1", message=result),
        user("u2", "r1"),
        answer("a3", "u2"),
        state("r1", entriesBefore=5),
    )
    log = opened(path)
    assert ids(log) == ["a1", "r1", "u2", "a3", "s1"]
    assert log.known.skipped == 1


@pytest.mark.parametrize(
    "why",
    [
        {"lastCoveredEntryId": None},
        {"lastCoveredEntryId": "nowhere"},
        {"entriesBefore": None},
        {"generation": ""},
    ],
)
def test_a_state_that_says_too_little_takes_the_whole_file(tmp_path: Path, why: Json) -> None:
    log = opened(covered_file(tmp_path, **why))
    assert ids(log)[0] == "u1"
    assert log.known.skipped == 0
    assert log.known.totals is not None


def test_a_compaction_ends_the_walk_at_the_first_kept_entry(tmp_path: Path) -> None:
    compaction = entry("compaction", "c1", "a3", summary="what was", firstKeptEntryId="u3", tokensBefore=9)
    said = (user("u2", "a1"), answer("a2", "u2", thinkingLevel="low"), user("u3", "a2"), answer("a3", "u3"))
    path = session_file(tmp_path, user("u1", None), answer("a1", "u1"), *said, compaction, user("u4", "c1"))
    log = opened(path)
    assert ids(log) == ["a2", "u3", "a3", "c1", "u4"], "a2 tells the thinking level"
    assert log.known.skipped is None
    assert log.known.totals is None
    assert shown(log) == shown(opened(path, whole_below=WHOLE))
    session_ref(log)
    assert ids(log)[0] == "u1", "a store may only be used when it is known what was kept away from it"


def test_a_compaction_with_a_state_after_it_needs_nothing_before(tmp_path: Path) -> None:
    compaction = entry("compaction", "c1", "a2", summary="what was", firstKeptEntryId="u2", tokensBefore=9)
    path = session_file(
        tmp_path,
        user("u1", None),
        answer("a1", "u1"),
        user("u2", "a1"),
        answer("a2", "u2"),
        compaction,
        {**state("", lastCoveredEntryId=None, entriesBefore=5), "parentId": "c1"},
    )
    log = opened(path)
    session_ref(log)
    assert ids(log) == ["u2", "a2", "c1", "s1"]
    assert log.known.skipped == 2
    assert log.known.name == "deploy"


def test_a_compaction_that_swallowed_an_off_stretch_takes_the_whole_file_for_a_store(tmp_path: Path) -> None:
    compaction = entry("compaction", "c1", "a2", summary="what was", firstKeptEntryId="u2", tokensBefore=9)
    path = session_file(
        tmp_path,
        user("u1", None),
        entry("custom", "o1", "u1", customType="ov-off", data={"on": False}),
        answer("a1", "o1"),
        user("u2", "a1"),
        answer("a2", "u2"),
        compaction,
        {**state("", lastCoveredEntryId=None, entriesBefore=6, off=True), "parentId": "c1"},
    )
    log = opened(path)
    assert ids(log) == ["u2", "a2", "c1", "s1"]
    session_ref(log)
    assert ids(log)[0] == "u1"


def test_a_late_label_on_another_branch_does_not_move_the_leaf(tmp_path: Path) -> None:
    label = entry("label", "l1", "u1", targetId="u1", label="start")
    log = opened(covered_file(tmp_path, user("u4", "s1"), label))
    assert log.leaf_id == "u4"
    assert log.notices == ("the last entry (label) is on an older branch; going on at the newest message",)


def test_a_torn_line_and_an_unreadable_one_are_skipped_and_named(tmp_path: Path) -> None:
    path = covered_file(tmp_path)
    path.write_bytes(path.read_bytes() + lines(user("u4", "s1")) + b'{"type":"mess\n{"type":"message","id"')
    log = open_session(path, tmp_path / "locks", whole_below=0)
    assert log.known.skipped == 1
    assert log.notices == (
        "skipped 1 unreadable line near the end of the session file",
        "the last line of the session file is torn; it is ignored",
    )
    added = log.append_message(user_text("next", 1))
    log.close()
    assert added.parent_id == "u4"
    assert opened(path).leaf_id == added.id


def test_an_unreadable_line_among_the_kept_ones_reads_the_whole_file(tmp_path: Path) -> None:
    path = covered_file(tmp_path)
    broken = path.read_bytes().replace(b'"id": "u3"', b'"id: "u3"')
    path.write_bytes(broken)
    log = opened(path)
    assert log.known.skipped == 0
    assert log.notices[-1] == "entry u3 is missing: the history before it cannot be reached"


@pytest.mark.parametrize("hole", [0, 1 << 32])
def test_what_lies_before_the_kept_tail_costs_nothing(tmp_path: Path, hole: int) -> None:
    path = session_file(tmp_path, user("u0", None))
    said = (answer("a1", "u0"), user("u2", "a1"), answer("a2", "u2"), {**state("a1"), "parentId": "a2"})
    with path.open("r+b") as file:
        file.seek(hole, os.SEEK_END)
        file.write(b"\n" + lines(*said))
    before = time.process_time()
    log = opened(path)
    assert time.process_time() - before < 0.25
    assert ids(log) == ["a1", "u2", "a2", "s1"]
    path.unlink()


def test_a_line_longer_than_a_block_is_read_whole(tmp_path: Path) -> None:
    path = covered_file(tmp_path, user("u4", "s1", "x" * 300_000), answer("a4", "u4"))
    log = opened(path)
    assert [len(text_of(message)) for message in shown(log)[-2:]] == [300_000, 2]


STEPS = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(
            ("turn", "turn", "turn", "tool", "label", "name", "side", "state", "empty", "compact", "off", "pi", "late")
        ),
        strategies.integers(0, 9),
    ),
    max_size=30,
)


def _write_state(log: SessionLog, covered: int, *, pi: bool = False) -> None:
    branch = log.branch()
    turns, seen = counted_turns(branch, covered)
    extra: Json = {
        "name": log.known.name,
        "entriesBefore": len(branch),
        "off": any(e.raw.get("customType") == "ov-off" for e in branch),
        "model": {"provider": "p", "id": "m"},
        "thinkingLevel": thinking_of(branch) or "off",
    }
    totals = log.known.totals
    assert totals is not None
    extra["totals"] = {"input": totals.input, "output": totals.output, "cost": totals.cost.total}
    data = TakeoverState(
        covered_user_turns=turns if covered >= 0 else 0,
        overview=f"overview {len(branch)}" if covered >= 0 else "",
        fingerprint=fingerprint(branch[covered]) if covered >= 0 else None,
        last_seen_user_turns=seen,
        synced_entry_count=len(branch),
        last_covered_entry_id=branch[covered].id if covered >= 0 else "",
        generation="" if pi else f"pi-{log.id}__{len(branch)}",
        extra=None if pi else extra,
    ).to_data()
    log.append_custom(STATE, data)


def _step(log: SessionLog, name: str, k: int) -> None:
    branch = log.branch()
    spent = Usage(k, 1, cost=Cost(input=k / 8))
    answered = AssistantMessage(
        (TextPart(f"answer {k}"),), "a", "p", f"m{k % 2}", spent, "stop", 5, thinking_level="low"
    )
    messages = [i for i, found in enumerate(branch) if is_message(found)]
    match name:
        case "turn" | "tool":
            log.append_message(user_text(f"question {k}", 5))
            log.append_message(answered)
        case "label" if branch:
            log.append("label", {"targetId": branch[k % len(branch)].id, "label": f"l{k}"})
        case "name":
            log.append("session_info", {"name": f"n{k}"})
        case "side" if branch:
            log.move_leaf(branch[k % len(branch)].id)
            log.append_message(user_text(f"aside {k}", 5))
        case "late" if branch:
            leaf = log.leaf_id
            log.move_leaf(branch[k % len(branch)].id)
            log.append("label", {"targetId": branch[0].id, "label": "late"})
            log.move_leaf(leaf)
        case "state" if messages:
            users = [i for i in messages if is_user(branch[i])]
            ends = [i - 1 for i in users if i > 0 and i - 1 in messages]
            first = view(branch).first
            good = [i for i in ends if i >= first]
            if good:
                _write_state(log, good[k % len(good)])
        case "empty" if messages:
            _write_state(log, view(branch).covered)
        case "pi" if messages and k == 0:
            _write_state(log, -1, pi=True)
        case "compact" if len(messages) > 2:
            kept = messages[-1 - k % 2]
            if kept >= view(branch).first:
                log.append("compaction", {"summary": f"s{k}", "firstKeptEntryId": branch[kept].id, "tokensBefore": 1})
        case "off" if k < 2:
            log.append_custom("ov-off", {"on": bool(k)})
        case _:
            return


@settings(max_examples=120, deadline=None)
@given(STEPS)
def test_the_end_of_any_file_tells_the_same_as_the_whole_file(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = create_session(folder, "/srv/app", folder / "locks")
        for step, k in [("turn", 3), *steps]:
            _step(log, step, k)
        log.close()
        assert log.path is not None
        end, whole = opened(log.path), opened(log.path, whole_below=WHOLE)
        _same(end, whole)
        known = end.known.skipped
        assert known is None or known + len(end.branch()) == len(whole.branch())
        session_ref(end)
        assert _said(end) == _said(whole)
        end.known.load()
        assert end.entries == whole.entries
        assert end.branch() == whole.branch()


def _same(end: SessionLog, whole: SessionLog) -> None:
    assert end.leaf_id == whole.leaf_id
    assert shown(end) == shown(whole)
    assert model_of(end.branch()) == model_of(whole.branch())
    assert thinking_of(end.branch()) == thinking_of(whole.branch())
    assert end.known.name in (None, name_of(whole.entries))
    totals, all_of_it = end.known.totals, totals_of(whole.entries)
    if totals is not None:
        assert (totals.input, totals.output) == (all_of_it.input, all_of_it.output)
        assert totals.cost.total == pytest.approx(all_of_it.cost.total)


def _said(log: SessionLog) -> Any:
    branch = log.branch()
    said = view(branch)
    covered = branch[said.covered].id if said.covered >= 0 else ""
    return said.generation, covered, said.summary, said.adopt, said.reset, counted_turns(branch, len(branch) - 1)


def test_a_scan_finds_the_totals_and_the_name_that_the_end_does_not_tell(tmp_path: Path) -> None:
    compaction = entry("compaction", "c1", "a3", summary="what was", firstKeptEntryId="u3", tokensBefore=9)
    tricky = answer("a1", "u1", '{"usage":{"input":7}}', usage={"input": 10, "output": 2, "cost": {"total": 0.75}})
    tool: Json = {"role": "toolResult", "toolCallId": "c", "toolName": "t", "content": [], "usage": {"input": 4}}
    said: tuple[Json, ...] = (
        entry("session_info", "n1", None, name="old"),
        entry("session_info", "n2", "n1", name="new"),
        user("u1", "n2"),
        tricky,
        entry("message", "r1", "a1", message=tool),
        user("u2", "r1"),
        answer("a2", "u2"),
        user("u3", "a2"),
        answer("a3", "u3", thinkingLevel="low"),
    )
    path = session_file(tmp_path, *said, compaction)
    for spaced in (False, True):
        if not spaced:
            objects = [json.loads(line) for line in path.read_bytes().splitlines()]
            path.write_bytes(b"".join(json.dumps(o, separators=(",", ":")).encode() + b"\n" for o in objects))
        else:
            path = session_file(tmp_path, *said, compaction)
        log, whole = opened(path), opened(path, whole_below=WHOLE)
        assert (log.known.name, log.known.totals) == (None, None)
        found = scan_start(path, log.known.start, lambda: False)
        assert found is not None
        log.known.learn(*found)
        assert (log.known.name, log.known.totals) == ("new", whole.known.totals)


def test_a_scan_ends_when_the_session_is_closed(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("u1", None, "x" * 3_000_000), user("u2", "u1"))
    assert scan_start(path, path.stat().st_size, lambda: True) is None


def test_the_tail_is_really_used(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    turns = [
        line
        for n in range(2000)
        for line in (user(f"u{n}", f"a{n - 1}" if n else None, "x" * 300), answer(f"a{n}", f"u{n}"))
    ]
    last = {**state("a1996", entriesBefore=4000), "parentId": "a1999"}
    path.write_bytes(lines(HEADER, *turns, last))
    log = open_session(path, tmp_path / "locks")
    assert len(log.branch()) == 8
    assert log.known.skipped == 3993
    assert json.loads(path.read_bytes().splitlines()[-1])["id"] == log.leaf_id
    log.close()


@pytest.mark.parametrize("bounded", [True, False])
def test_a_boundary_megabytes_back_is_found_and_one_that_is_not_there_takes_the_whole_file(
    tmp_path: Path, bounded: bool
) -> None:
    more = [(user, answer)[n % 2](f"m{n}", f"m{n - 1}" if n else "s1", "x" * 1000) for n in range(2600)]
    path = covered_file(tmp_path, *more, thinkingLevel="high")
    if not bounded:
        path.write_bytes(path.read_bytes().replace(b"ov-takeover", b"ov-nothings"))
    assert path.stat().st_size > 2 * SEARCH_STEP
    log = opened(path)
    assert log.known.skipped == (1 if bounded else 0)
    assert log.leaf_id == "m2599"
