from __future__ import annotations

import asyncio
from pathlib import Path

from session_kit import answer, entry, user
from vpi_lab import Tty, lab

from tests.takeover_kit import Process, SimServer, SimStore, process, settings
from vikingpi.commands.viking_overview import overview_text
from vikingpi.decode import Json
from vikingpi.session.entries import Entry
from vikingpi.session.file import create_session, open_session
from vikingpi.takeover.replaced import Replaced, Replacement, replaced
from vikingpi.takeover.state import view

FIRST = "# Working Memory\n\n## Key Facts & Decisions\n- the port is 7071\n\n## Open Issues\n- choose a name"
SECOND = "# Working Memory\n\n## Key Facts & Decisions\n- the port is 7072\n- the host is A\n\n## Open Issues\n(none)"


def branch(*raw: Json) -> tuple[Entry, ...]:
    return tuple(
        Entry(str(one["id"]), one.get("parentId"), str(one["type"]), str(one["timestamp"]), one) for one in raw
    )


def state(entry_id: str, parent: str, overview: str, turns: int, covered: str) -> Json:
    data = {"overview": overview, "coveredUserTurns": turns, "lastCoveredEntryId": covered, "generation": "pi-s1"}
    return entry(
        "custom", entry_id, parent, customType="ov-takeover", data={**data, "archiveId": f"archive_{turns:03}"}
    )


def found(*raw: Json, budget: int = 3000) -> Replaced:
    entries = branch(*raw)
    return replaced(entries, view(entries), budget)


TALK = (user("u1", None), answer("a1", "u1"), user("u2", "a1"), answer("a2", "u2"))


def test_nothing_replaces_history_before_the_first_overview() -> None:
    assert found(*TALK) == Replaced()
    assert overview_text(found(*TALK)).startswith("Nothing is covered by an overview yet")


def test_the_first_overview_has_none_before_it() -> None:
    one = found(*TALK, state("s1", "a2", FIRST, 1, "a1"))
    assert one.now is not None and (one.now.text, one.now.turns, one.before) == (FIRST, 1, None)
    text = overview_text(one)
    assert "in place of user turn 1 (about" in text and "archive_001" in text
    assert "- the port is 7071" in text and text.endswith("there is none to compare it with.")


def test_a_state_that_says_the_same_again_is_not_the_one_before() -> None:
    states = (state("s1", "a2", FIRST, 1, "a1"), state("s2", "s1", SECOND, 2, "a2"), state("s3", "s2", SECOND, 2, "a2"))
    one = found(*TALK, *states)
    assert one.now is not None and one.before is not None
    assert (one.now.text, one.before.text, one.before.turns) == (SECOND, FIRST, 1)


def test_an_overview_that_says_the_same_for_more_turns_names_those_turns_and_their_archive() -> None:
    four = (*TALK, user("u3", "a2"), answer("a3", "u3"))
    again = state("s3", "s2", SECOND, 3, "a3") | {"timestamp": "2026-11-30T15:00:00.000Z"}
    told = state("s4", "s3", SECOND, 3, "a3") | {"timestamp": "2026-11-30T16:00:00.000Z"}
    one = found(*four, state("s1", "a3", FIRST, 1, "a1"), state("s2", "s1", SECOND, 2, "a2"), again, told)
    assert one.now == Replacement(SECOND, "2026-11-30T15:00:00.000Z", 3, "archive_003")
    assert one.before is not None and (one.before.text, one.before.turns) == (FIRST, 1)
    same = found(*four, state("s1", "a3", FIRST, 1, "a1"), state("s2", "s1", FIRST, 3, "a3"))
    assert same.now is not None and (same.now.turns, same.now.archive, same.before) == (3, "archive_003", None)


def test_the_difference_shows_lines_below_their_heading() -> None:
    one = Replaced(Replacement(SECOND, "2026-11-30T14:00:00Z", 2, "archive_002"), Replacement(FIRST, "", 1))
    text = overview_text(one)
    assert "user turns 1-2 (about" in text and "2026-1" in text
    assert text.endswith(
        "```diff\n ## Key Facts & Decisions\n-- the port is 7071\n+- the port is 7072\n+- the host is A\n"
        " ## Open Issues\n-- choose a name\n+(none)\n```"
    )


def test_a_compaction_replaces_history_and_is_compared_with_the_overview_before_it() -> None:
    summary = entry("compaction", "c1", "s1", summary="what was said", firstKeptEntryId="a2", tokensBefore=1)
    one = found(*TALK, state("s1", "a2", FIRST, 1, "a1"), summary)
    assert one.now is not None and one.before is not None
    assert (one.now.text, one.before.text) == ("what was said", FIRST)
    assert "in place of what was said before a compaction (" in overview_text(one)


def test_a_withdrawn_overview_is_told() -> None:
    one = found(*TALK, state("s1", "a2", FIRST, 1, "gone"))
    assert one.now is None
    assert "withdrawn: the last covered entry is not on this branch" in overview_text(one)


def test_an_overview_is_shown_as_it_stands_in_a_request() -> None:
    one = found(*TALK, state("s1", "a2", FIRST + "\n- more" * 500, 1, "a1"), budget=100)
    assert one.now is not None and one.now.text.endswith("...(truncated)")


def test_text_in_an_overview_cannot_end_the_difference() -> None:
    text = overview_text(Replaced(Replacement("a\n```\nb", ""), Replacement("a", "")))
    assert text.endswith("````diff\n+```\n+b\n````")


def test_a_resumed_session_knows_the_overview_before_from_its_file(tmp_path: Path) -> None:
    async def talk(vpi: Process, *texts: str) -> None:
        for text in texts:
            await vpi.say(text, "x" * 90_000)
            await vpi.work()

    async def run() -> None:
        sim = SimStore(SimServer())
        session = create_session(tmp_path / "sessions", "/work", tmp_path / "locks")
        vpi = process(tmp_path, sim, session=session, config=settings(threshold=1))
        await talk(vpi, "the codename is ALPHA", "the port is 7071", "the owner is MILA")
        path = session.path
        assert path is not None
        await vpi.hooks.session_shutdown(vpi.ctx, "quit")
        session.close()
        again = process(tmp_path, sim, session=open_session(path, tmp_path / "locks"), clock=vpi.clock)
        assert again.session.known.skipped
        one = replaced_of(again)
        assert one.now is not None and one.before is not None
        assert "7071" in one.now.text and "7071" not in one.before.text and "ALPHA" in one.before.text
        again.session.close()

    asyncio.run(run())


def replaced_of(vpi: Process) -> Replaced:
    mirror = vpi.engine.mirror
    mirror.session.load()
    return replaced(vpi.session.branch(), mirror.view(), 50_000)


def test_the_chat_shows_overview_and_difference(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        runs.config(recallEnabled=False)
        tty = Tty(runs, columns=100, rows=60)
        try:
            tty.wait("mem ")
            tty.read(0.3)
            for number, word in enumerate(("alpha", "beta", "gamma"), 1):
                tty.send(f"Remember: port {word}. SAY: port {word}")
                tty.read(0.2)
                tty.send("\r")
                tty.wait(f"\nport {word}")
                tty.read(0.3)
                if number > 1:
                    tty.wait(f"ctx {number - 1}")
            tty.send("/viking overview")
            tty.read(0.2)
            tty.send("\r")
            shown = tty.wait("What changed since")
            tty.wait("```\n")
            shown = tty.text()
        finally:
            tty.close()
    assert "in place of user turns 1-2 (about" in shown
    assert "for user turn 1 (about" in shown
    assert any(line.startswith("+") and "beta" in line for line in shown.splitlines())
