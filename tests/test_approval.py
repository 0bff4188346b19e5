import asyncio
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_commands_choices import FakeChooser, call, play
from vpi_lab import Lab, Tty, lab

from vikingpi.agent.hooks import Block
from vikingpi.app.app import App
from vikingpi.app.approval import TYPE, Approval, mode_on
from vikingpi.app.context import SessionContext
from vikingpi.commands.approve import next_mode
from vikingpi.commands.chooser import Option
from vikingpi.config.model import APPROVAL_MODES as MODES
from vikingpi.config.model import ApprovalMode as Mode
from vikingpi.config.model import Settings
from vikingpi.events import Event, Notice
from vikingpi.messages import ToolCall
from vikingpi.session.file import memory_session
from vikingpi.ui.question import QUIET_SECONDS, Pauses


class Desk:
    """One approval with the calls that are put to it."""

    def __init__(self, folder: Path, mode: Mode, *answers: str | None, nobody: bool = False) -> None:
        self.chooser = Recorder(*answers)
        self.session = memory_session(str(folder))
        self.events: list[Event] = []
        self.approval = Approval(mode, "off", lambda: None if nobody else self.chooser, str.upper)
        self.approval.attach(self.session, folder, keep=False)

    def put(self, name: str, **arguments: Any) -> Block | None:
        ctx = SessionContext(self.session, Settings, self.events.append)
        return asyncio.run(self.approval.tool_call(ctx, ToolCall("c1", name, arguments)))


class Recorder(FakeChooser):
    def __init__(self, *answers: str | None) -> None:
        super().__init__(*answers)
        self.asked: list[tuple[str, str]] = []

    async def confirm(self, question: str, body: str, answers: Sequence[Option]) -> str | None:
        self.asked.append((question, body))
        return self.answers.pop(0)


def test_nothing_is_asked_while_approval_is_off(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "off")
    assert desk.put("bash", command="rm -rf x") is None
    assert desk.chooser.asked == []


def test_commands_and_changes_are_shown_and_wait_for_a_yes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    desk = Desk(tmp_path, "ask", "yes", "no", "yes", None)
    assert desk.put("bash", command="make\x1b[2J") is None
    refused = desk.put("edit", path="a.txt", edits=[{"oldText": "two", "newText": "2"}])
    assert refused is not None and "refused" in refused.reason
    assert desk.put("write", path="new.txt", content="hello\n") is None
    assert desk.put("bash", command="true") is not None
    assert desk.put("read", path="a.txt") is None
    questions = desk.chooser.asked
    assert [question for question, _ in questions] == [
        "Run this command?",
        "edit a.txt?",
        "write new.txt?",
        "Run this command?",
    ]
    assert questions[0][1] == "make␛[2J"
    assert questions[1][1].split("\n") == [" 1 one", "-2 two", "+2 2", " 3 three"]
    assert questions[2][1] == "+1 hello"


def test_why_not_reaches_the_model(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "ask", "why", "use the other branch")
    refused = desk.put("bash", command="git push")
    assert refused is not None and refused.reason.endswith("use the other branch")


def test_always_holds_for_the_same_command_and_for_files_of_the_folder(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "ask", "always", "no", "always", "no", "no")
    assert desk.put("bash", command="make") is None
    assert desk.put("bash", command="make") is None
    assert desk.put("bash", command="make install") is not None
    assert desk.put("write", path="a.txt", content="x") is None
    assert desk.approval.mode == "edits"
    assert desk.put("write", path="b.txt", content="x") is None
    assert desk.put("write", path="../outside.txt", content="x") is not None
    assert desk.put("write", path=".git/hooks/pre-commit", content="x") is not None
    assert len(desk.chooser.asked) == 5


def test_a_link_that_leads_out_of_the_folder_is_asked_about(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path)
    (inside / "od\x1bd").symlink_to(tmp_path)
    desk = Desk(inside, "edits", "no", "no", "no")
    assert desk.put("write", path="link/x", content="x") is not None
    assert desk.put("write", path="od\u241bd/x", content="x") is not None
    assert desk.put("edit", path="@od\u241bd/x", edits=[]) is not None
    assert desk.put("write", path="x", content="x") is None


@pytest.mark.parametrize("name", ["bash", "edit", "write", "viking_remember", "viking_forget", "unknown"])
def test_read_only_runs_nothing_that_changes_anything(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path, "read-only")
    refused = desk.put(name, path="x", command="ls")
    assert refused is not None and "read-only" in refused.reason
    assert desk.put("grep", pattern="x") is None


def test_without_a_terminal_ask_means_no_and_says_so_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "ask", nobody=True)
    refused = desk.put("bash", command="ls")
    assert refused is not None and "no terminal" in refused.reason
    desk.put("bash", command="ls")
    notices = [event for event in desk.events if isinstance(event, Notice)]
    assert len(notices) == 1
    assert "--approve off" in notices[0].hint


def test_a_fault_in_asking_is_a_no(tmp_path: Path) -> None:
    desk = Desk(tmp_path, "ask")
    refused = desk.put("bash", command="ls")
    assert refused is not None and "IndexError" in refused.reason


def test_the_key_goes_round_all_modes() -> None:
    mode: Mode = "off"
    seen: list[str] = []
    for _ in MODES:
        seen.append(mode)
        mode = next_mode(mode)
    assert (tuple(seen), mode) == (MODES, "off")


@pytest.mark.parametrize("kind", [TYPE, "ov-takeover"])
@pytest.mark.parametrize("seal", ["", "APPROVAL"])
@pytest.mark.parametrize("setting", MODES)
@pytest.mark.parametrize("mode", MODES)
def test_a_file_of_a_stranger_can_only_make_it_stricter(
    tmp_path: Path, mode: Mode, setting: Mode, seal: str, kind: str
) -> None:
    def opened(seal: str) -> Mode:
        session = memory_session(str(tmp_path))
        names = ("mode", "seal") if kind == TYPE else ("approval", "approvalSeal")
        session.append_custom(kind, dict(zip(names, (mode, seal), strict=True)))
        approval = Approval(None, setting, lambda: None, str.upper)
        approval.attach(session, tmp_path, keep=False)
        return approval.mode

    strictness: tuple[Mode, ...] = ("off", "edits", "ask", "read-only")
    assert opened(f"APPROVAL {mode.upper()}") == mode
    assert opened(seal) == max(mode, setting, key=strictness.index)


def test_the_mode_is_remembered_per_session_and_not_written_after_a_move(tmp_path: Path) -> None:
    async def work(app: App) -> None:
        assert "**off**" in await call(app, "approve")
        assert "no mode sometimes" in await call(app, "approve", "sometimes")
        await app.submit("one")
        assert "files in this folder" in await call(app, "approve", "edits")
        first = app.parts.session
        assert (found := mode_on(first.branch())) is not None and found.mode == "edits"
        assert app.status().approval == "edits"
        await app.new_session()
        assert app.status().approval == "edits"
        await call(app, "approve", "off")
        await app.submit("two")
        await call(app, "resume", first.id)
        assert app.status().approval == "edits"
        session = app.parts.session
        assert session.path is not None
        app.chooser = FakeChooser("> one", "none")
        before = session.path.read_bytes()
        await call(app, "tree")
        await call(app, "approve", "read-only")
        assert session.path.read_bytes() == before
        await app.submit("again")
        assert (found := mode_on(session.branch())) is not None and found.mode == "read-only"

    play(tmp_path, work)


def test_a_command_is_asked_about_in_the_chat_and_refused_on_a_pipe(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        done = runs.run("-p", "RUN: touch made", "--approve", "ask", "--store", "off")
        assert b"nobody can be asked" in done.stderr
        assert not (runs.work / "made").exists()
        tty = Tty(runs, "--approve", "ask", "--store", "off")
        try:
            assert " ask " in tty.wait("OV -")
            tty.read(0.3)
            tty.send("RUN: touch made")
            tty.read(0.2)
            tty.send("\r")
            tty.wait("Run this command?")
            tty.read(0.9)
            tty.send("3")
            tty.wait("refused this call")
            assert not (runs.work / "made").exists()
            tty.wait("OV -")
            tty.read(0.3)
            tty.send("RUN: touch made twice")
            tty.read(0.2)
            tty.send("\r")
            tty.wait("> 1. yes")
            tty.read(0.9)
            tty.send("\r")
            tty.wait("OV -")
            tty.read(1.0)
            assert (runs.work / "made").exists()
            tty.send("\x1bm")
            tty.wait("approval edits")
            tty.send("\x04")
            assert tty.end() == 0
        finally:
            tty.close()


PAGE_DOWN = "\x1b[6~"  # a key in one read with the next: no machine is slow enough to put a pause between them


@contextmanager
def asked(
    folder: Path, prompt: str, *, draft: str = "", rows: int = 30, columns: int = 100
) -> Generator[tuple[Lab, Tty]]:
    """Open a question about a call in a chat, `draft` typed before it opened."""
    with lab(folder) as runs:
        tty = Tty(runs, "--approve", "ask", "--store", "off", rows=rows, columns=columns)
        try:
            tty.wait("OV -")
            tty.read(0.3)
            tty.send(prompt)
            tty.read(0.3)
            tty.send("\r")
            tty.read(0.5)
            tty.send(draft)
            tty.wait("4. no, and say why")
            yield runs, tty
        finally:
            tty.close()


def test_text_that_is_typed_when_a_question_opens_answers_nothing_and_enter_queues_it(tmp_path: Path) -> None:
    with asked(tmp_path, "SLOW: 2\nRUN: touch made", draft="please do step") as (runs, tty):
        tty.read(1.0)
        for key in (*" 2 first, not this", "\r"):
            tty.send(key)
            tty.read(0.05)
        screen = tty.wait("steering: please do step 2 first, not this")
        assert "it is sent after this call; now answer the question" in screen
        assert "4. no, and say why" in screen
        assert "OV -" in screen
        assert "working" in screen and "esc aborts" not in "\n".join(tty.screen.display)
        for _ in range(2):
            tty.read(0.9)
            tty.send("\r")
        tty.read(0.5)
        assert "4. no, and say why" in tty.text()
        tty.send("\x1b[1;3A")
        tty.wait("> please do step 2 first, not this")
        tty.send(" later\x1b\r")
        tty.wait("follow-up: please do step 2 first, not this later")
        assert not (runs.work / "made").exists()
        tty.send("\x1b[B")
        tty.wait("> 1. yes")
        tty.send("\r")
        tty.read(0.9)
        assert not (runs.work / "made").exists()
        tty.send("\r")
        tty.wait("\n> please do step 2 first, not this later\n\nNoted.")
        assert (runs.work / "made").exists()


def test_what_may_be_meant_as_an_answer_and_a_command_are_not_sent_and_that_is_said(tmp_path: Path) -> None:
    with asked(tmp_path, "RUN: touch made") as (runs, tty):
        for draft, said in (
            ("11", "erase it, then press a number"),
            ("Yes", "erase it, then press a number"),
            ("/approve off", "a command waits for your answer"),
            ("!touch made", "a command waits for your answer"),
        ):
            tty.send(draft)
            tty.wait(f"> {draft}")
            tty.send("\r")
            tty.wait(said)
            assert f"\n> {draft}\n" in tty.text()
            tty.send("\x15")
            tty.read(0.2)
        tty.send("one\rtwo\rthree")
        assert "steering" not in tty.wait("> one\n  two\n  three")
        tty.send("\r")
        tty.wait("steering: one two three")
        assert not (runs.work / "made").exists()
        tty.read(0.9)
        tty.send("3")
        tty.wait("refused this call")
        tty.wait("> one\n  two\n  three\n\nNoted.")


@pytest.mark.parametrize(
    ("command", "done"), [("/name it is called so", "now called it is called so"), ("!echo $((40+2))", "\n42\n")]
)
def test_a_command_that_waited_for_an_answer_is_run_by_enter_after_it(tmp_path: Path, command: str, done: str) -> None:
    with asked(tmp_path, "RUN: touch made") as (_, tty):
        tty.send(command)
        tty.wait(f"> {command}")
        tty.send("\r")
        tty.wait("a command waits for your answer: it stays here, and Enter runs it after that")
        tty.read(0.9)
        tty.send("\x1b[B")
        tty.wait("> 1. yes")
        tty.send("\r")
        screen = tty.wait("Enter runs the command that has waited in the editor")
        assert f"\n> {command}\n" in screen
        assert done not in screen
        tty.read(0.2)
        tty.send("\r")
        tty.wait(done)


def test_an_answer_that_was_chosen_after_a_pause_needs_no_other_and_one_too_soon_is_told(tmp_path: Path) -> None:
    with asked(tmp_path, "RUN: touch made") as (runs, tty):
        tty.send(f"{PAGE_DOWN}\r")
        tty.wait("that came too soon to be an answer")
        tty.read(0.9)
        for key in ("\x1b[B", "\x1b[B", "\r"):
            tty.send(key)
            tty.read(0.1)
        tty.wait("refused this call")
        assert not (runs.work / "made").exists()


def test_a_pause_from_before_a_question_opened_is_none() -> None:
    begun, pauses = time.monotonic(), Pauses()
    time.sleep(QUIET_SECONDS + 0.05)
    pauses.key(None)
    assert pauses.since(begun)
    assert not pauses.since(time.monotonic())


def test_keys_without_a_pause_or_with_others_around_them_are_no_answer(tmp_path: Path) -> None:
    with asked(tmp_path, "RUN: touch made") as (runs, tty):
        for burst in (f"{PAGE_DOWN}1", "1\r", "\r"):
            tty.send(burst)
            tty.read(0.1)
        for burst in ("2 first", "\x1b[200~1\x1b[201~", "1\r1"):
            tty.send("\x15")
            tty.read(0.9)
            tty.send(burst)
            tty.read(0.5)
        assert not (runs.work / "made").exists()
        tty.send("\x15")
        tty.read(0.9)
        tty.send("3")
        tty.wait("refused this call")


@pytest.mark.parametrize("columns", [40, 100])
def test_a_question_shows_all_that_it_asks_about(tmp_path: Path, columns: int) -> None:
    command = f"echo {'界x' * 300}; rm the-end"
    with asked(tmp_path, f"RUN: {command}", columns=columns, rows=20) as (_, tty):
        seen = ""
        for _ in range(9):
            tty.read(0.15)
            seen += "\n".join(tty.screen.display).replace(" ", "").replace("\n", "")
            tty.send(PAGE_DOWN)
        assert "rmthe-end" in seen
        tty.wait("of ")


def test_what_comes_in_one_burst_with_an_answer_answers_nothing_else(tmp_path: Path) -> None:
    with asked(tmp_path, "RUN: touch made\nRUN: touch made-too") as (runs, tty):
        tty.read(0.9)
        tty.send("\x031\r1 more")
        tty.wait("1 more")
        tty.wait("refused this call")
        tty.read(0.9)
        assert not (runs.work / "made").exists()
        assert not (runs.work / "made-too").exists()


@pytest.mark.parametrize("rows", [8, 10, 12])
def test_a_question_has_its_answers_on_a_low_terminal(tmp_path: Path, rows: int) -> None:
    command = f"echo {'x' * 300}"
    with asked(tmp_path, f"RUN: {command}", rows=rows, columns=60) as (_, tty):
        tty.read(0.3)
        screen = "\n".join(tty.screen.display)
        for text in ("echo xxx", "Run this command?", "1. yes", "3. no", "4. no, and say why", "\n>"):
            assert text in screen
