"""What the live acceptance asserts, each assertion one PASS or FAIL line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from e2e_evidence import OVERVIEW, Held, Recorded, SessionFile, starts_overview
from e2e_story import FIRST_FILLER, OUTPUTS, SECOND_FILLER, TURNS, Filler


class Strictness(NamedTuple):
    """What can be asked of the models and the store of a run.

    `obeys`: the agent's model does what it is told to the letter. `quotes`: how many lines of the filler an overview
    may quote; none where the scripted model writes it. `exact`: no overview may hold the filler's marker word, which
    cannot be asked of somebody else's model.
    """

    obeys: bool
    quotes: int
    exact: bool


class Report:
    """Prints and counts assertions."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def check(self, what: str, holds: bool, detail: object = "") -> bool:
        """Print one line; `detail` says what was found instead."""
        if holds:
            self.passed += 1
        else:
            self.failed += 1
        found = f": {str(detail)[:600]}" if detail != "" and not holds else ""
        print(f"{'PASS' if holds else 'FAIL'}  {what}{found}", flush=True)
        return holds


def outline(request: Recorded) -> str:
    """Show a request in one line for a failed assertion."""
    return " | ".join(f"{piece.role}: {piece.text.strip()[:60]!r}" for piece in request.pieces)


def first_text(request: Recorded) -> str:
    return request.pieces[0].text if request.pieces else ""


def lines_left(text: str, filler: Filler) -> int:
    """Count the whole lines of a filler that stand in a text."""
    return sum(line in text for line in filler.lines)


def check_overview_first(report: Report, number: int, request: Recorded) -> None:
    first = bool(request.pieces) and starts_overview(request.pieces[0])
    report.check(f"turn {number}: the overview is the first message", first, outline(request))
    count = sum(starts_overview(piece) for piece in request.pieces)
    report.check(f"turn {number}: there is one overview", count == 1, count)


def check_second_turn(report: Report, requests: Sequence[Recorded], obeys: bool) -> None:
    """Turn 2: the tools ran and the model saw what they printed."""
    calls = len(requests) - 1
    expected = calls == 2 if obeys else calls >= 1
    report.check(f"turn 2: {'two tool calls were' if obeys else 'a tool call was'} made and answered", expected, calls)
    for output in OUTPUTS if obeys else OUTPUTS[:1]:
        report.check(f"turn 2: the model saw {output}", output in requests[-1].text, outline(requests[-1]))


def check_first_advance(report: Report, turns: Sequence[Sequence[Recorded]], strict: Strictness) -> None:
    """Turns 3 and 4: turn 1 is covered, turn 2 and later ones stand as they were said."""
    sent = turns[0][0]
    report.check("turn 1: its filler reached the model", lines_left(sent.text, FIRST_FILLER) > 40, outline(sent))
    report.check("turn 2: it extends turn 1", turns[1][0].extends(sent), outline(turns[1][0]))
    for number in (3, 4):
        request = turns[number - 1][0]
        check_overview_first(report, number, request)
        left = lines_left(request.text, FIRST_FILLER)
        quoted = f", but for {left} quoted lines" if left else ""
        report.check(f"turn {number}: turn 1's filler is gone{quoted}", left <= strict.quotes, f"{left} lines")
        if strict.exact:
            report.check(
                f"turn {number}: so is its marker word", FIRST_FILLER.marker not in request.text, first_text(request)
            )
        first = first_text(request)
        report.check(f"turn {number}: the overview holds the fact of turn 1", TURNS[0].fact in first, first)
        said = any(piece.role == "user" and TURNS[1].prompt in piece.text for piece in request.pieces)
        report.check(f"turn {number}: turn 2 is there as it was said", said, outline(request))
        report.check(f"turn {number}: so is the output of its tool", OUTPUTS[0] in request.text, outline(request))
    report.check("turn 4: it extends turn 3", turns[3][0].extends(turns[2][0]), outline(turns[3][0]))


def check_second_advance(report: Report, turns: Sequence[Sequence[Recorded]]) -> None:
    """Turns 5 and 6: turns 1 to 3 are covered by one cumulative overview, turn 4 stands as it was said."""
    for number in (5, 6):
        request = turns[number - 1][0]
        check_overview_first(report, number, request)
        first = first_text(request)
        for covered in (1, 2):
            holds = TURNS[covered - 1].fact in first
            report.check(f"turn {number}: the overview holds the fact of turn {covered}", holds, first)
        said = any(piece.role == "user" and TURNS[1].prompt in piece.text for piece in request.pieces)
        report.check(f"turn {number}: turn 2 is no longer there as it was said", not said, outline(request))
        gone = not any(TURNS[2].prompt in piece.text for piece in request.pieces[1:])
        report.check(f"turn {number}: nor is turn 3", gone, outline(request))
        left = lines_left(request.text, SECOND_FILLER)
        report.check(f"turn {number}: turn 4 is there with its filler", left > 40, f"{left} lines")
    report.check("turn 6: it extends turn 5", turns[5][0].extends(turns[4][0]), outline(turns[5][0]))


def check_facts(report: Report, turns: Sequence[Sequence[Recorded]]) -> None:
    """Every fact is in every later request."""
    for teller, turn in enumerate(TURNS, 1):
        later = [request for requests in turns[teller:] for request in requests]
        if turn.fact and later:
            missing = sum(turn.fact not in request.text for request in later)
            what = f"the fact of turn {teller} is in every later request ({len(later)})"
            report.check(what, missing == 0, f"missing in {missing}")


def check_store(report: Report, held: Held | None, session: SessionFile, name: str, strict: Strictness) -> None:
    """The store's side: one session, its archives, and every entry once."""
    if not report.check(f"store: session {name} exists", held is not None) or held is None:
        return
    report.check("store: two commits were made", held.commits == 2, held.commits)
    for number, archive in enumerate(held.archives, 1):
        good = bool(re.search(r"^## \S", archive.overview, re.MULTILINE))
        report.check(f"store: archive {number} has an overview", good, repr(archive.overview))
    last = held.archives[-1].overview if held.archives else ""
    for turn in (1, 2):
        report.check(f"store: the newest overview holds the fact of turn {turn}", TURNS[turn - 1].fact in last, last)
    covered = str(session.state.get("lastCoveredEntryId"))
    known = covered in session.messages
    report.check("file: the last covered entry is a message of the file", known, covered)
    after = session.messages[session.messages.index(covered) + 1 :] if known else ()
    report.check(
        "store: live messages are exactly the entries after the target", held.live == after, (held.live, after)
    )
    stored = Counter(held.live) + Counter(mark for archive in held.archives for mark in archive.marks)
    captured = Counter(session.messages)
    detail = f"missing {dict(captured - stored)}, too many {dict(stored - captured)}"
    report.check("store: archives and live messages hold every captured entry once", stored == captured, detail)
    left = max((lines_left(archive.overview, FIRST_FILLER) for archive in held.archives), default=0)
    report.check("store: no overview repeats the filler", left <= strict.quotes, f"{left} lines")


def check_file(report: Report, session: SessionFile, name: str) -> None:
    """The session file's side: what the newest state says."""
    turns = session.state.get("coveredUserTurns")
    report.check("file: three user turns are covered", turns == 3, turns)
    generation = session.state.get("generation")
    report.check(f"file: the generation is {name}", generation == name, generation)
    overview = str(session.state.get("overview"))
    report.check("file: the state holds the whole overview", TURNS[1].fact in overview, repr(overview))
    report.check("file: the state's overview is the store's text", OVERVIEW not in overview, repr(overview))
