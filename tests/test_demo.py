from __future__ import annotations

import io
import json
import re
import sqlite3
from pathlib import Path

import pytest

from vikingpi.app.demo import figures
from vikingpi.decode import Json
from vikingpi.errors import ConfigError
from vikingpi.messages import OVERVIEW_MARKER
from vikingpi.ui.demo_view import run_demo

FIGURES = re.compile(r"^(Before the takeover|After it): request (\d+), (\d+) messages, (\d+) tokens$", re.M)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    keep = tmp_path_factory.mktemp("demo") / "kept"
    out = io.StringIO()
    assert run_demo(["--keep", str(keep)], out) == 0
    return out.getvalue(), keep


def _bodies(keep: Path) -> list[Json]:
    return [json.loads(line) for line in (keep / "bodies.jsonl").read_text().splitlines()]


def test_the_printed_figures_are_those_of_the_bodies_that_were_sent(played: tuple[str, Path]) -> None:
    text, keep = played
    bodies = _bodies(keep)
    printed = FIGURES.findall(text)
    assert [title for title, *_ in printed] == ["Before the takeover", "After it"]
    for _, number, messages, tokens in printed:
        body = bodies[int(number) - 1]
        measured = figures(bodies, int(number) - 1)
        assert int(messages) == len(body["messages"]) == measured.messages
        assert int(tokens) == measured.tokens
    before, after = (int(row[3]) for row in printed)
    saved = 100 - round(100 * after / before)
    assert saved > 40
    assert f"has {saved} % fewer tokens" in text


def test_the_request_after_it_begins_with_the_overview_and_keeps_the_last_turn(played: tuple[str, Path]) -> None:
    text, keep = played
    number = int(FIGURES.findall(text)[1][1])
    messages = _bodies(keep)[number - 1]["messages"]
    assert messages[1]["content"].startswith(OVERVIEW_MARKER)
    assert [m["content"] for m in messages if m["role"] == "user"][1:] == [
        "We use port 7071 from now on. Change config.toml.",
        "Check that the file is right.",
    ]


def test_real_tools_ran_and_the_session_says_the_same(played: tuple[str, Path]) -> None:
    text, keep = played
    assert "port = 7071" in (keep / "project" / "config.toml").read_text()
    (session,) = (keep / "sessions").glob("*.jsonl")
    entries = [json.loads(line) for line in session.read_text().splitlines()]
    states = [entry["data"] for entry in entries if entry.get("customType") == "ov-takeover"]
    assert states[0]["coveredUserTurns"] == 2
    assert "the facts are still there: The release window is Friday 03:00 UTC; the port is 7071." in text


def test_the_store_holds_one_archive_and_nothing_is_undelivered(played: tuple[str, Path]) -> None:
    _, keep = played
    outbox = sqlite3.connect(keep / "outbox.db")
    states = outbox.execute("SELECT DISTINCT state FROM message").fetchall()
    archive = outbox.execute("SELECT accepted_archive FROM generation").fetchone()
    outbox.close()
    assert states == [("done",)]
    assert archive == (1,)


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(ConfigError, match="not an empty folder"):
        run_demo(["--keep", str(tmp_path)], io.StringIO())
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_unknown_words_are_refused() -> None:
    with pytest.raises(ConfigError, match="--keep DIR"):
        run_demo(["--kep", "x"], io.StringIO())
