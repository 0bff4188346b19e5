from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from ui_terminal import Open, Patience, Terminal

UP, DOWN = "\x1b[A", "\x1b[B"


def keys(t: Terminal, *each: str) -> None:
    """Press keys, each on its own."""
    for key in each:
        t.send(key)
        t.read(0.06)


def type_text(t: Terminal, text: str) -> None:
    t.send(text)
    t.wait(text)
    t.read(0.05)


def remembered(folder: Path) -> list[str]:
    """The texts of the history file, oldest first."""
    lines = [line for path in sorted((folder / "history").iterdir()) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def start(terminal: Open, tmp_path: Path, first: str = "SAY hello one") -> Terminal:
    script = tmp_path / "other-editor"
    script.write_text('#!/bin/sh\nprintf "SAY quite another text" > "$1"\n')
    script.chmod(0o755)
    t = terminal(EDITOR=str(script))
    type_text(t, first)
    keys(t, "\r")
    t.wait_sent(1)
    return t


def outside(t: Terminal) -> None:
    t.send("\x07")
    t.wait("SAY quite another text")


def search(t: Terminal, words: str, end: str) -> None:
    keys(t, "\x12")
    t.wait("\n?")
    t.send(words)
    t.wait(f"? {words}")
    keys(t, end)


def put_back_in_search(t: Terminal) -> None:
    keys(t, "\x12", "\x1b[1;3A", "x", "\x1b")
    t.read(0.2)


WAYS: dict[str, Callable[[Terminal], None]] = {
    "a prompt that was found": lambda t: search(t, "hello", "\r"),
    "a prompt that was found, by Tab": lambda t: search(t, "hello", "\t"),
    "a prompt that was found, by Alt+Enter": lambda t: search(t, "hello", "\x1b\r"),
    "words that were not found": lambda t: search(t, "zzz", "\r"),
    "a search that was left": lambda t: search(t, "hello", "\x1b"),
    "a search that goes on": lambda t: search(t, "hello", " "),
    "a search with Ctrl+D and Up": lambda t: keys(t, "\x12", "\x04", "zzz", UP, UP, "y"),
    "texts that came back within a search": put_back_in_search,
    "the prompt before": lambda t: keys(t, UP),
    "the prompt before, by Ctrl+P": lambda t: keys(t, "\x10"),
    "the first prompt": lambda t: keys(t, "\x1b<"),
    "the prompt before, erased": lambda t: keys(t, UP, "\x15"),
    "the prompt before, changed": lambda t: keys(t, UP, " more"),
    "the prompt before, and back": lambda t: keys(t, UP, DOWN),
    "another program's text": outside,
    "a menu that was closed": lambda t: keys(t, UP, "\x15", "/help", "\x1b"),
    "a command of the menu": lambda t: keys(t, UP, "\x15", "/hot", "\t"),
    "two ways": lambda t: (keys(t, UP), search(t, "hello", "\r"), outside(t))[0],
}


ENDS: tuple[str | signal.Signals, ...] = ("\r", signal.SIGTERM, "\x1b\r", "\x03", "\r")
WALKED: dict[str, Callable[[Terminal], None]] = {
    "search": lambda t: keys(t, "\x12", "draft", "\r"),
    "search left": lambda t: keys(t, "\x12", "draft", "\x1b"),
    "nothing found": lambda t: keys(t, "\x12", "nothing", "\r"),
    "up": lambda t: keys(t, UP),
    "up twice": lambda t: keys(t, UP, UP),
    "up and change": lambda t: keys(t, UP, "x"),
    "down": lambda t: keys(t, DOWN),
    "taken back": lambda t: keys(t, "\x1b[1;3A"),
    "outside": lambda t: (keys(t, "\x07"), t.read(0.3))[0],
}


@pytest.mark.parametrize(("way", "end"), [(way, ENDS[n % len(ENDS)]) for n, way in enumerate(WAYS)])
def test_a_draft_is_sent_or_reached_by_up_or_down_whatever_took_its_place(
    terminal: Open, tmp_path: Path, way: str, end: str | signal.Signals
) -> None:
    t = start(terminal, tmp_path)
    type_text(t, "SAY a PRECIOUS draft")
    WAYS[way](t)
    if isinstance(end, signal.Signals):
        t.process.signal(end)
        t.end()
    else:
        keys(t, end)
        t.settle()
        seen = t.editor()
        for key in (DOWN, DOWN, UP, UP, UP, UP):
            keys(t, key)
            t.read(0.12)
            seen += f"\n{t.editor()}"
        assert "PRECIOUS" in seen
        t.process.signal(signal.SIGTERM)
        t.end()
    assert any("PRECIOUS" in text for text in remembered(tmp_path))


def test_whoever_waits_for_the_program_looks_as_often_on_a_machine_that_stands_still_between_two_looks() -> None:
    for step, looks in ((0.0, 500), (0.001, 10_000), (60.0, 500)):
        now = iter(range(1_000_000))
        patience = Patience(10.0, lambda now=now, step=step: next(now) * step)
        assert sum(patience.lasts() for _ in range(20_000)) >= looks
    assert not patience.lasts()


def test_changed_prompts_of_the_history_are_kept_and_the_old_ones_too(terminal: Open, tmp_path: Path) -> None:
    t = start(terminal, tmp_path)
    keys(t, "S", "AY two", "\r")
    t.wait_sent(2)
    t.settle()
    keys(t, UP, " EDITED", UP, " TOO", UP, "\r")
    assert t.wait_sent(3)[2] == "SAY hello one TOO"
    assert remembered(tmp_path) == ["SAY hello one", "SAY two", "SAY two EDITED", "SAY hello one TOO"]


def test_a_long_paste_is_kept_as_its_text(terminal: Open, tmp_path: Path) -> None:
    t = start(terminal, tmp_path)
    pasted = "\n".join(f"row {n}" for n in range(30))
    keys(t, f"\x1b[200~{pasted}\x1b[201~", UP, "\x10", "\r")
    t.wait_sent(2)
    assert pasted in remembered(tmp_path)


def test_a_search_gives_the_draft_back_with_its_cursor_and_undo(terminal: Open, tmp_path: Path) -> None:
    t = start(terminal, tmp_path)
    type_text(t, "ac")
    keys(t, "\x1b[D", "\x12", "hello", "\x1b")
    t.wait("> ac")
    keys(t, "b")
    t.wait("> abc")
    keys(t, "\x1f", "\x1f")
    assert "hello" not in t.editor()


@pytest.mark.parametrize("seed", range(3))
def test_no_draft_is_lost_on_any_walk(terminal: Open, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    t = start(terminal, tmp_path, "SLOW 30")
    drafts = [f"SAY draft{number}x" for number in range(6)]
    for draft in drafts:
        keys(t, draft)
        for way in chance.sample(sorted(WALKED), 2):
            WALKED[way](t)
        keys(t, chance.choice(["\r", "\x1b\r", "\x03", "\x1b", UP, "\x1b[1;3A"]))
    t.process.signal(signal.SIGTERM)
    t.end()
    kept = "\n".join(remembered(tmp_path))
    assert [draft for draft in drafts if draft not in kept] == []


@pytest.mark.parametrize("end", ["\x1b", "\x03", signal.SIGTERM, "\r"], ids=["escape", "ctrl-c", "term", "enter"])
def test_a_line_that_is_asked_for_is_edited_as_a_line_and_kept_unless_it_is_given(
    terminal: Open, tmp_path: Path, end: str | signal.Signals
) -> None:
    t = terminal()
    type_text(t, "/list text")
    keys(t, "\r")
    t.wait("What else?")
    long = "x" * 100 + " end"
    keys(
        t, "because", "\x1b[D", "\x1b[H", "\x1b[1~", "\x1b[B", "\x1b[A", "\x1b[3~", "\x1b[15~", "B", "\x05", f" {long}"
    )
    assert "> Because x" in t.wait(" end")
    keys(t, "\x1b[200~more\nlines\x1b[201~", "\n", "\x17", "\x0f")
    given = f"Because {long}more "
    if isinstance(end, signal.Signals):
        t.process.signal(end)
        t.end()
        assert remembered(tmp_path)[-1] == given
        return
    keys(t, end)
    if end == "\r":
        t.wait("given: Because")
        assert given not in remembered(tmp_path)
        return
    t.wait("OV ✓")
    keys(t, "draft", UP)
    t.wait("> Because x")
    assert remembered(tmp_path)[-1] == given


def test_the_line_above_a_list_takes_no_keys_as_text(terminal: Open) -> None:
    t = terminal(columns=60)
    type_text(t, "/list resume")
    keys(t, "\r")
    t.wait("type to search")
    keys(t, "gatway", "\x1b[3~", "\x1b[15~", "\x1b[2~", "\x1b[1;5D", *["\x06"] * 3, "e")
    t.wait("> gateway\n")
    keys(t, "\x12")
    t.wait("new name: ")
    keys(t, "\x15", "nme", "\x1b[D", "\x1b[D", UP, DOWN, "a", "\x1b[3~", "\x1b[1~", "N")
    t.wait("name: Nnae")
    keys(t, "\x1b", "\x1f", "\x19")
    assert "> gateway\n" in t.text()
