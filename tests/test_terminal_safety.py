from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_server import answering, serving
from openviking_fake import openviking
from vpi_lab import Lab, Tty, lab

from vikingpi.safetext import Cleaner, literal, one_line, plain, seen

TEXT_EVENTS = {"draw", "linefeed", "carriage_return", "tab"}
EVIL = [
    "\x1b[2J",
    "\x1b[3J\x1b[H",
    "\x1b[1A\x1b[K",
    "\x1b[999;999H",
    "\x1b[?1049h",
    "\x1b[?25l",
    "\x1b[6n",
    "\x1b[c",
    "\x1b[>0q",
    "\x1b[8m",
    "\x1b[20h",
    "\x1b[5;10r",
    "\x1b]0;owned\x07",
    "\x1b]2;owned\x1b\\",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b]8;;file:///etc/passwd\x1b\\ok\x1b]8;;\x1b\\",
    "\x1b]1337;File=inline=1:AAAA\x07",
    "\x1b]4;1;rgb:ff/ff/ff\x07",
    "\x1bPq#0;2;0;0;0\x1b\\",
    "\x1bP+q544e\x1b\\",
    "\x1b_Ga=T;AAAA\x1b\\",
    "\x1b^private\x1b\\",
    "\x1bc",
    "\x1bM\x1bM",
    "\x1b7\x1b8",
    "\x1b#8",
    "\x1b(0",
    "\x1b%G",
    "\x1b=",
    "\x9b2J",
    "\x9d0;owned\x9c",
    "\x90q\x9c",
    "\r",
    "\x08\x08\x08",
    "\x0b\x0c",
    "\x07",
    "\x0e\x0f",
    "\x7f",
    "\x00",
    "\u202egnp.exe",
    "\u2066\u2069",
    "\u200b\ufeff",
    "\u2028\u2029\x85",
    "\U000e0041",
]
# What a terminal must never get from a text, as bytes of UTF-8.
FORBIDDEN = re.compile(
    rb"\x1b[\]PX^_c#%]|\x07|\xc2[\x80-\x9f]|\x1b\[[23]J\x1b\[H|\x1b\[\?1049|\x1b\[8m|\x1b\[999"
    rb"|\xe2\x80[\x8b\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xef\xbb\xbf|\xf3\xa0"
)
# What this emulator does not act upon, or acts upon as upon text.
NOT_NOTICED = (
    "\r",
    "\x00",
    "\x7f",
    "\x1b=",
    "\u2066\u2069",
    "\x1b[c",
    "\x1b[>0q",
    "\x1b(0",
    "\x1b%G",
    "\x0b\x0c",
    "\x0e\x0f",
)
SEQUENCES = [text.replace("\x1b", "\u241b").replace("\x07", "\u2407") for text in (*EVIL[:9], *EVIL[10:12], EVIL[14])]
pieces = st.lists(st.one_of(st.sampled_from(EVIL), st.text(max_size=6), st.text("\x1b[]0;?mJH\x9b\\", max_size=8)))


def events(data: bytes) -> list[str]:
    """The names of what a terminal does with these bytes."""
    log = io.StringIO()
    pyte.ByteStream(pyte.DebugScreen(to=log)).feed(data)
    return [json.loads(line)[0] for line in log.getvalue().splitlines()]


def shown(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode("utf-8", "strict")


@given(pieces)
def test_cleaned_text_only_draws(parts: list[str]) -> None:
    text = "".join(parts)
    for clean in (plain(text), literal(text), one_line(text, 40)):
        assert set(events(shown(clean))) <= TEXT_EVENTS
        assert FORBIDDEN.search(shown(clean)) is None


@given(pieces, st.lists(st.integers(0, 200), max_size=6))
def test_text_that_comes_in_pieces_only_draws(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    cleaner, at, out = Cleaner(), 0, ""
    for cut in sorted(cuts):
        out += cleaner.feed(text[at:cut])
        at = max(at, cut)
    out += cleaner.feed(text[at:]) + cleaner.close()
    assert out == plain(text)
    assert set(events(shown(out))) <= TEXT_EVENTS


@settings(deadline=None, max_examples=60)
@given(pieces)
def test_the_screen_before_a_text_is_not_changed_by_it(parts: list[str]) -> None:
    screen = pyte.Screen(80, 400)
    stream = pyte.ByteStream(screen)
    stream.feed(b"$ before\r\n")
    stream.feed(shown(plain("".join(parts))) + b"\r\nafter")
    assert screen.display[0].rstrip() == "$ before"
    assert screen.display[screen.cursor.y].rstrip() == "after"
    assert (screen.title, screen.icon_name) == ("", "")
    assert screen.cursor.hidden is False


def all_seen(terminal: Tty, mark: str) -> bool:
    """Whether each of the sequences of a `hostile` text is on the screen as text; one of its ends may be cut off."""
    texts = terminal.text().replace("\n", "").split(f"{mark}-begin")[1:]
    return any(all(sequence in text.split(f"{mark}-end")[0] for sequence in SEQUENCES) for text in texts)


def hostile(mark: str) -> str:
    """All of them on one line that is easy to find; NUL cannot stand in an argument."""
    return f"{mark}-begin " + " ".join(EVIL).replace("\x00", "") + f" {mark}-end"


def test_an_answer_on_a_terminal_only_draws(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        terminal = Tty(runs, "-p", "--no-session", f"SAY: {hostile('answer')}", columns=200)
        terminal.wait("answer-end")
        assert terminal.end() == 0
        assert all_seen(terminal, "answer")
        assert set(events(terminal.raw)) <= TEXT_EVENTS
        assert FORBIDDEN.search(terminal.raw) is None


def test_an_answer_to_a_pipe_is_what_the_model_said_byte_for_byte(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        said = " ".join(text for text in EVIL if not re.search("[\x00\r\n\x0b\x0c\x85\u2028\u2029]", text))
        done = runs.run("-p", "--no-session", f"SAY: {said}")
        assert done.stdout == f"{said}\n".encode()


def test_an_error_of_a_server_only_draws(tmp_path: Path) -> None:
    body = json.dumps({"error": {"message": hostile("error"), "type": hostile("type")}}).encode()
    with lab(tmp_path) as runs, serving(answering(400, body, "content-type: application/json\r\n")) as server:
        runs.models(server.url)
        terminal = Tty(runs, "-p", "hello", columns=200)
        terminal.wait("error-begin")
        assert terminal.end() == 1
        assert all_seen(terminal, "error")
        assert set(events(terminal.raw)) <= TEXT_EVENTS
        assert FORBIDDEN.search(terminal.raw) is None


@pytest.mark.parametrize(
    "words", [("--model", "x\x1b]0;t\x07/y"), ("--bad\x1b[2J",), ("--session", "\x1b]0;t\x07.jsonl")]
)
def test_an_error_about_what_was_typed_only_draws(tmp_path: Path, words: tuple[str, ...]) -> None:
    with lab(tmp_path) as runs:
        terminal = Tty(runs, "-p", *words, "hello", columns=200)
        assert terminal.end() == 2
        assert set(events(terminal.raw)) <= TEXT_EVENTS
        assert FORBIDDEN.search(terminal.raw) is None


def test_json_on_a_terminal_only_draws_and_is_exact_on_a_pipe(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        terminal = Tty(runs, "-p", "--mode", "json", f"SAY: {hostile('json')}", columns=200)
        terminal.wait("agent_settled")
        assert terminal.end() == 0
        assert set(events(terminal.raw)) <= TEXT_EVENTS
        assert FORBIDDEN.search(terminal.raw) is None
        done = runs.run("-p", "--mode", "json", "SAY: a\x9bb\u202ec")
        texts = [json.loads(line) for line in done.stdout.decode().splitlines()]
        assert any("a\x9bb\u202ec" in json.dumps(each, ensure_ascii=False) for each in texts)


def test_lists_of_sessions_only_draw(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        assert runs.run("-p", "--name", hostile("name"), f"SAY: {hostile('list')}").returncode == 0
        terminal = Tty(runs, "sessions", columns=200)
        terminal.wait("name-begin")
        assert terminal.end() == 0
        assert "name-begin \u241b[2J" in terminal.text()
        assert set(events(terminal.raw)) <= TEXT_EVENTS
        assert FORBIDDEN.search(terminal.raw) is None


def test_nothing_hostile_passes_through_the_interactive_program(tmp_path: Path) -> None:
    with lab(tmp_path) as runs, openviking() as server:
        server.overview = lambda text: f"# Working Memory\n\n## Current State\n{hostile('overview')}"
        runs.work = tmp_path / "wo\x1b]0;cwd\x07rk"
        runs.work.mkdir()
        (runs.work / ".git").mkdir()
        (runs.work / ".git" / "HEAD").write_text("ref: refs/heads/br\x1b]0;branch\x07anch\n")
        (runs.work / "na\x1b]2;file\x07me").touch()
        runs.config()
        env = {"OPENVIKING_URL": server.url}
        for words in (("--name", hostile("name"), f"SAY: {hostile('past')}"), ("-c", "codename is ALPHA")):
            assert runs.run("-p", *words, env=env).returncode == 0
        evil = "".join(EVIL).replace("\x00", "").replace("\r", "")
        (runs.work / "evil.txt").write_text(evil)
        terminal = Tty(runs, "-c", env=env, columns=120)
        try:
            terminal.wait("past-begin")
            assert all_seen(terminal, "past")
            for line, seen in (
                ("RUN: cat evil.txt; ls; false", "evil.txt"),
                ('CALL: read {"path": "evil.txt"}', "Noted"),
                ('CALL: write {"path": "out\\u001b]0;p\\u0007.txt", "content": "x\\u001b]0;c\\u0007y"}', "write out"),
                ('CALL: no\\u001b]0;tool\\u0007 {"a\\u001b[2J": "\\u009b2J"}', "Noted"),
                ("RUN: echo '\\033' \x1b[2J; echo", "echo"),
                ("SAY: \\u001b]0;x", "SAY"),
                ('CALL: write {"path": "r", "content": "row-begin \\u001b[2J\\u001b[1A\\u001b[K row-end"}', "row-end"),
                ("/viking overview", "overview-begin"),
                ("/viking", "generation"),
                ("FAIL: 400", "error"),
            ):
                terminal.send(f"{line}\r")
                terminal.wait(seen)
                terminal.read(0.4)
            terminal.send("\x04")
            assert terminal.end() == 0
        finally:
            terminal.close()
        assert all_seen(terminal, "overview")
        assert "row-begin \u241b[2J\u241b[1A\u241b[K row-end" in terminal.text()
        found = FORBIDDEN.search(terminal.raw)
        assert found is None, terminal.raw[found.start() - 80 : found.end() + 40]
        assert (terminal.screen.title, terminal.screen.icon_name) == ("", "")


def test_files_with_names_that_are_not_seen_are_offered_as_text_and_opened(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        runs.config()
        evils = [*(evil for evil in EVIL if "/" not in evil and "\x00" not in evil), os.fsdecode(b"\xff")]
        names = [f"zb{at}{evil}txt.exe" for at, evil in enumerate(evils)]
        chosen, answered = (0, 12, 38, len(names) - 1), 0
        for at, name in enumerate(names):
            (runs.work / name).write_text(f"inside-{at}-")
        terminal = Tty(runs, "--store", "off", columns=120)
        try:
            terminal.wait("scripted")
            for at in chosen:
                begun = f"zb{at}"
                terminal.send(f"!cat {begun}\t")
                terminal.wait(f"!cat {begun}$")
                terminal.send("\r")
                terminal.wait(f"inside-{at}-")
                terminal.send(f'CALL: read {{"path": "@{begun}')
                terminal.wait(f"> {seen(names[at])}")
                terminal.send('\t\x7f"}')
                terminal.wait('"}')
                terminal.send("\r")
                answered += 2
                while len(runs.requests()) < answered:
                    assert terminal.read(0.05)
            terminal.send("\x04")
            assert terminal.end() == 0
        finally:
            terminal.close()
        assert FORBIDDEN.search(terminal.raw) is None
        messages = [entry["message"] for entry in runs.entries() if entry["type"] == "message"]
        results = [str(message) for message in messages if message["role"] == "toolResult"]
        assert [f"inside-{at}-" in text for at, text in zip(chosen, results, strict=True)] == [True] * len(chosen)


def test_a_session_file_of_a_stranger_is_shown_as_text(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        assert runs.run("-p", "SAY: first").returncode == 0
        (path,) = (runs.home / "sessions").rglob("*.jsonl")
        lines = path.read_text().split("\n")
        evil = json.dumps(hostile("stranger"))[1:-1]
        path.write_text("\n".join(line.replace("SAY: first", evil).replace("first", evil) for line in lines))
        terminal = Tty(runs, "-c", columns=120)
        try:
            terminal.wait("stranger-end")
            assert all_seen(terminal, "stranger")
            terminal.send("\x04")
            assert terminal.end() == 0
        finally:
            terminal.close()
        assert FORBIDDEN.search(terminal.raw) is None


def test_the_lab_would_notice(tmp_path: Path) -> None:
    runs = Lab(tmp_path, "http://127.0.0.1:9")
    assert runs.work.is_dir()
    for text in EVIL:
        noticed = FORBIDDEN.search(shown(text)) or not set(events(shown(text))) <= TEXT_EVENTS
        assert noticed or text in NOT_NOTICED, repr(text)
