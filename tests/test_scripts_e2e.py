import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import e2e_checks
import pytest
from e2e_evidence import (
    OVERVIEW,
    Archive,
    Held,
    Recorded,
    SessionFile,
    read_request,
    read_requests,
    read_session,
    undelivered,
)
from e2e_story import COMMANDS, DRAGON, FIRST_FILLER, HARBOUR, LANTERN, OUTPUTS, TURNS

Json = dict[str, Any]

STRICT = e2e_checks.Strictness(obeys=True, quotes=0, exact=True)


class Run(NamedTuple):
    """What a run without fault leaves behind."""

    turns: list[list[Recorded]]
    held: Held
    session: SessionFile


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def assistant(text: str) -> Json:
    return {"role": "assistant", "content": text}


def tool_round(number: int) -> list[Json]:
    function = {"name": "bash", "arguments": json.dumps({"command": COMMANDS[number]})}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": OUTPUTS[number]},
    ]


def request(*messages: Json) -> Recorded:
    body = {"model": "m", "stream": True, "messages": [{"role": "system", "content": "s"}, *messages]}
    return read_request(json.dumps(body))


def overview(*facts: str) -> Json:
    return user(f"{OVERVIEW}\nearlier\n\n## Key Facts & Decisions\n" + "\n".join(facts))


def good_run() -> Run:
    said = [user(turn.prompt) for turn in TURNS]
    first = [said[0], assistant("Noted.")]
    second = [said[1], *tool_round(0), *tool_round(1), assistant("Done.")]
    third = [overview(HARBOUR), *second, said[2]]
    fourth = [*third, assistant(HARBOUR), said[3]]
    fifth = [overview(HARBOUR, DRAGON), said[3], assistant("Noted."), said[4]]
    turns = [
        [request(*first[:1])],
        [request(*first, *second[:end]) for end in (1, 3, 5)],
        [request(*third)],
        [request(*fourth)],
        [request(*fifth)],
        [request(*fifth, assistant(DRAGON), said[5])],
    ]
    ids = tuple(f"e{number}" for number in range(1, 17))
    text = f"## Key Facts & Decisions\n- {HARBOUR}\n- {DRAGON}"
    held = Held(2, (Archive(f"## Key Facts\n- {HARBOUR}", ids[:2]), Archive(text, ids[2:10])), ids[10:])
    state = {"coveredUserTurns": 3, "lastCoveredEntryId": ids[9], "generation": "pi-s", "overview": text}
    return Run(turns, held, SessionFile("s", ids, state))


def judge(run: Run) -> e2e_checks.Report:
    report = e2e_checks.Report()
    e2e_checks.check_second_turn(report, run.turns[1], obeys=True)
    e2e_checks.check_first_advance(report, run.turns, STRICT)
    e2e_checks.check_second_advance(report, run.turns)
    e2e_checks.check_facts(report, run.turns)
    e2e_checks.check_file(report, run.session, "pi-s")
    e2e_checks.check_store(report, run.held, run.session, "pi-s", STRICT)
    return report


def failures(run: Run, capsys: pytest.CaptureFixture[str]) -> list[str]:
    judge(run)
    lines = capsys.readouterr().out.splitlines()
    return [line.removeprefix("FAIL  ") for line in lines if line.startswith("FAIL  ")]


def test_a_run_without_fault_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert failures(good_run(), capsys) == []
    report = judge(good_run())
    assert (report.failed, report.passed > 40) == (0, True)


def with_turn(run: Run, number: int, *messages: Json) -> Run:
    turns = list(run.turns)
    turns[number - 1] = [request(*messages)]
    return run._replace(turns=turns)


def messages_of(recorded: Recorded) -> list[Json]:
    return [json.loads(piece.raw) for piece in recorded.pieces]


def no_overview(run: Run) -> Run:
    return with_turn(run, 3, *messages_of(run.turns[2][0])[1:])


def filler_stays(run: Run) -> Run:
    first = messages_of(run.turns[2][0])
    return with_turn(run, 3, first[0], user(FIRST_FILLER.text), *first[1:])


def marker_stays(run: Run) -> Run:
    first = messages_of(run.turns[3][0])
    first[0]["content"] += f"\nThe log spoke of a {FIRST_FILLER.marker}."
    return with_turn(run, 4, *first)


def two_overviews(run: Run) -> Run:
    return with_turn(run, 3, overview(HARBOUR), *messages_of(run.turns[2][0]))


def recent_turn_missing(run: Run) -> Run:
    first = messages_of(run.turns[2][0])
    return with_turn(run, 3, first[0], first[-1])


def stale_overview(run: Run) -> Run:
    return with_turn(run, 5, overview(HARBOUR), *messages_of(run.turns[4][0])[1:])


def changed_prefix(run: Run) -> Run:
    messages = messages_of(run.turns[5][0])
    messages[2] = assistant("Noted!")
    return with_turn(run, 6, *messages)


def lost_fact(run: Run) -> Run:
    messages = messages_of(run.turns[5][0])
    kept = [{**each, "content": each["content"].replace(LANTERN, "x")} for each in messages]
    return with_turn(run, 6, *kept)


def one_commit(run: Run) -> Run:
    return run._replace(held=run.held._replace(commits=1))


def blank_overview(run: Run) -> Run:
    archives = (run.held.archives[0]._replace(overview=""), run.held.archives[1])
    return run._replace(held=run.held._replace(archives=archives))


def stored_twice(run: Run) -> Run:
    archives = (run.held.archives[0]._replace(marks=("e1", "e2", "e2")), run.held.archives[1])
    return run._replace(held=run.held._replace(archives=archives))


def not_stored(run: Run) -> Run:
    return run._replace(held=run.held._replace(live=run.held.live[:-1]))


def out_of_order(run: Run) -> Run:
    return run._replace(held=run.held._replace(live=run.held.live[::-1]))


def other_generation(run: Run) -> Run:
    return run._replace(session=run.session._replace(state={**run.session.state, "generation": "pi-s__12345678"}))


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (no_overview, "turn 3: the overview is the first message"),
        (filler_stays, "turn 3: turn 1's filler is gone"),
        (marker_stays, "turn 4: so is its marker word"),
        (two_overviews, "turn 3: there is one overview"),
        (recent_turn_missing, "turn 3: turn 2 is there as it was said"),
        (stale_overview, "turn 5: the overview holds the fact of turn 2"),
        (changed_prefix, "turn 6: it extends turn 5"),
        (lost_fact, "the fact of turn 4 is in every later request (2)"),
        (one_commit, "store: two commits were made"),
        (blank_overview, "store: archive 1 has an overview"),
        (stored_twice, "store: archives and live messages hold every captured entry once"),
        (not_stored, "store: archives and live messages hold every captured entry once"),
        (out_of_order, "store: live messages are exactly the entries after the target"),
        (other_generation, "file: the generation is pi-s"),
    ],
)
def test_a_fault_is_noticed(spoil: Callable[[Run], Run], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = failures(spoil(good_run()), capsys)
    assert any(line.startswith(expected) for line in found), found


def test_a_session_that_the_store_does_not_know_fails() -> None:
    report = e2e_checks.Report()
    e2e_checks.check_store(report, None, good_run().session, "pi-s", STRICT)
    assert (report.passed, report.failed) == (0, 1)


def test_reads_the_anthropic_wire_without_its_cache_marks() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    one: Json = {"type": "text", "text": "one"}
    first: Json = {"model": "m", "system": [{"type": "text", "text": "s", **mark}], "messages": [user("")]}
    first["messages"][0]["content"] = [{**one, **mark}]
    result: Json = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "out"}]}
    second: Json = {"model": "m", "system": [{"type": "text", "text": "s"}], "messages": [user(""), user("")]}
    second["messages"][0]["content"] = [one]
    second["messages"][1]["content"] = [result, {"type": "text", "text": "two", **mark}]
    earlier, later = read_request(json.dumps(first)), read_request(json.dumps(second))
    assert later.extends(earlier)
    assert not earlier.extends(earlier)
    assert "out" in later.text and earlier.pieces[0].text == "one"
    assert not read_request(json.dumps({**second, "system": "other"})).extends(earlier)


def test_reads_what_the_proxy_recorded_in_the_order_of_arrival(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert read_requests(log) == []
    entries = [
        {"n": 2, "method": "POST", "body": json.dumps({"messages": [user("two")]})},
        {"n": 1, "method": "POST", "body": json.dumps({"messages": [user("one")]})},
        {"n": 3, "method": "GET", "body": ""},
    ]
    log.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert [recorded.text for recorded in read_requests(log)] == ["one", "two"]


def test_reads_a_session_file(tmp_path: Path) -> None:
    lines: list[Json] = [
        {"type": "session", "id": "s"},
        {"type": "message", "id": "a"},
        {"type": "custom", "id": "b", "customType": "ov-takeover", "data": {"coveredUserTurns": 1}},
        {"type": "custom", "id": "c", "customType": "ov-takeover", "data": {"coveredUserTurns": 2}},
        {"type": "message", "id": "d"},
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_session(path) == SessionFile("s", ("a", "d"), {"coveredUserTurns": 2})


def test_counts_what_was_not_delivered(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    assert undelivered(path) == -1
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE message (state TEXT)")
    db.executemany("INSERT INTO message VALUES (?)", [("done",), ("new",), ("sending",)])
    db.commit()
    db.close()
    assert undelivered(path) == 2
