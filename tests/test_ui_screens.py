"""Whole screens against golden files in tests/data/screens; VPI_WRITE_SCREENS=1 writes them anew."""

import os
import random
import re
import signal
import unicodedata
from pathlib import Path

import pytest
from ui_lists import NAMES
from ui_terminal import Open

SCREENS = Path(__file__).parent / "data" / "screens"
ROUNDS = int(os.environ.get("VPI_ABORT_ROUNDS", "8"))


def compare(name: str, text: str) -> None:
    shown, file = text.rstrip("\n") + "\n", SCREENS / name
    if os.environ.get("VPI_WRITE_SCREENS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown)
    assert shown == file.read_text()


def drawn(text: str) -> str:
    """What the emulated terminal holds of a text."""
    return unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_screen_looks_as_it_did(terminal: Open, columns: int) -> None:
    t = terminal(columns=columns, rows=70)
    t.send("MD\r")
    t.wait(" • two")
    t.send("THINK\r")
    t.wait("\nso it is")
    t.send("TOOL\r")
    t.wait("\ntool done")
    t.send("EDIT\r")
    t.wait("edited")
    t.send("FAIL\r")
    t.wait("hint: check")
    t.send("!echo one; exit 2\r")
    t.wait("(exit 2)")
    t.send("/v")
    t.wait("> /viking")
    compare(f"{columns}.txt", t.text().replace("thought for 0.1 s", "thought for 0.0 s"))


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("name", NAMES)
def test_a_list_looks_as_it_did(terminal: Open, name: str, columns: int) -> None:
    t = terminal(columns=columns, rows=28)
    t.send(f"/list {name}")
    t.read(0.1)
    t.send("\r")
    t.wait("\nEnter ")
    t.read(0.2)
    t.send("\x1b[A" if name == "tree" else "\x1b[B")
    t.wait("  5/6\n" if name == "tree" else "  2/")
    t.read(0.1)
    compare(f"{name}-{columns}.txt", t.text())
    t.send("\x1b")
    t.wait("OV ✓")


@pytest.mark.parametrize("wide", ["漢", "🎉", "e\u0301"])
def test_wide_characters_are_whole_at_every_column(terminal: Open, wide: str) -> None:
    t = terminal(columns=20, rows=40)
    for before in range(21):
        t.send(f"SAY {'x' * before}{wide}y\r")
        t.wait_sent(before + 1)
    t.settle()
    said = "".join(line.rstrip() for line in t.everything())
    for before in range(1, 21):
        assert f"{'x' * before}{drawn(wide)}y" in said, before
    t.send(f"{'x' * 17}{wide * 3}z")
    t.wait("z\n──")
    shown = t.editor().replace("\n", "")
    assert shown == f"{'x' * 17}{drawn(wide) * 3}z" or wide == "e\u0301"  # prompt_toolkit loses an accent at the edge


def test_a_result_of_ten_thousand_lines_is_folded_and_unfolds_whole(terminal: Open) -> None:
    t = terminal()
    t.send("LONG 10000\r")
    t.wait("(9995 earlier lines, ctrl+o shows them)\nline 9995")
    t.send("\x0f")
    shown = t.wait_raw(b"line 9999")
    assert re.findall(rb"line (\d+)", shown) == [b"%d" % n for n in range(10_000)]


def test_code_of_many_lines_arrives_once_and_in_order(terminal: Open) -> None:
    t = terminal()
    t.send("CODE 1000")
    t.wait("> CODE 1000")
    t.send("\r")
    t.wait_sent(1)
    for _ in range(20):
        t.send("k")
        t.read(0.02)
    t.wait("value_999 = 999")
    t.wait("working", gone=True)
    names = [line.split(" ")[0] for line in t.everything() if line.startswith("value_")]
    assert names == [f"value_{n}" for n in range(1000)]
    assert t.editor() == "k" * 20


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_nothing_typed_is_lost_whenever_it_is_aborted(terminal: Open, seed: int) -> None:
    chance = random.Random(seed)
    t = terminal()
    t.send(chance.choice(["SLOW 30", "TOOL", "HANG", "THINK"]))
    t.read(0.05)
    t.send("\r")
    t.wait_sent(1)
    t.read(chance.uniform(0, 0.1))
    stalled = chance.random() < 0.4
    for number in range(4):
        if stalled and number == 3:
            t.process.signal(signal.SIGSTOP)
        t.send(f"text{number}" + chance.choice(["\r", "\x1b\r", "\x1b[13;3u"]))
        t.read(chance.uniform(0, 0.12))
        if chance.random() < 0.2:
            t.resize(chance.choice([40, 80, 100]), 24)
    abort = chance.choice(["\x1b", "\x03"])
    if abort == "\x03":
        # What a busy machine took for a paste is in the editor, which Ctrl+C is there to clear.
        t.process.signal(signal.SIGCONT)
        t.wait("text3")
        t.read(0.2)
        abort = "\x1b" if t.editor().strip() else abort
    t.send(abort)
    t.read(0.1)
    t.send("Z" if stalled else "")
    t.process.signal(signal.SIGCONT)
    while "Z" not in t.editor():
        t.send("Z")
        t.read(0.1)
    while "esc aborts" in t.text():  # a busy machine has read Escape together with what came next: that is Alt+Z
        t.send("\x1b")
        t.read(0.7)
    t.settle()
    before = t.sent()
    t.send("\r")
    t.wait_sent(len(before) + 1)
    t.settle()
    kept = t.sent()
    for number in range(4):
        assert sum(text.count(f"text{number}") for text in kept) == 1, kept
