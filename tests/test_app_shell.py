import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_lab import Lab
from patience import PATIENCE
from vpi_lab import Tty, lab

from vikingpi.app.shell import ShellRun, UserShell, recorded_runs, seen_messages
from vikingpi.decode import Json
from vikingpi.events import Notice
from vikingpi.llm.scripted import Step
from vikingpi.messages import text_of
from vikingpi.session.file import memory_session
from vikingpi.tools.base import ToolContext
from vikingpi.ui.rows import command_rows


class Bench:
    """A shell over an agent that may be busy."""

    def __init__(self, folder: Path) -> None:
        self.lab = Lab([Step("ok")], session=memory_session(str(folder)))
        self.busy = False
        env = {"PATH": "/usr/bin:/bin", "VPI_SESSION_ID": "x", "KEPT": "yes"}
        agent = self.lab.agent

        def tool_context(update: Callable[[str], None]) -> ToolContext:
            return ToolContext(folder, env, update, 5, folder)

        agent.deps = agent.deps._replace(tool_context=tool_context)
        self.shell = UserShell(lambda: agent, lambda: self.busy)

    def run(self, command: str, *, excluded: bool = False) -> ShellRun:
        return asyncio.run(self.shell.run(command, lambda text: None, excluded=excluded))

    def records(self) -> list[Json]:
        return [entry.raw["message"] for entry in self.lab.entries("message")]


def test_a_command_runs_in_the_folder_and_is_recorded_as_pi_does(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    run = bench.run('echo "$PWD $KEPT ${VPI_SESSION_ID:-none}"; exit 2')
    assert (run.output, run.exit_code) == (f"{tmp_path} yes none\n", 2)
    (record,) = bench.records()
    assert record.pop("timestamp") > 0
    assert record == {
        "role": "bashExecution",
        "command": 'echo "$PWD $KEPT ${VPI_SESSION_ID:-none}"; exit 2',
        "output": f"{tmp_path} yes none\n",
        "exitCode": 2,
        "cancelled": False,
        "truncated": False,
        "excludeFromContext": False,
    }
    assert "exited with code 2" in text_of(bench.lab.stored()[0])


def test_an_excluded_command_is_kept_from_the_model(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run("echo secret", excluded=True)
    assert bench.records()[0]["excludeFromContext"] is True
    assert bench.lab.stored() == ()


def test_the_record_waits_until_the_agent_is_at_rest(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.busy = True
    bench.run("echo during")
    assert bench.records() == []
    bench.busy = False
    bench.shell.settle()
    bench.shell.settle()
    assert [record["command"] for record in bench.records()] == ["echo during"]


def test_a_cancelled_command_keeps_what_it_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    async def main() -> ShellRun:
        task = asyncio.create_task(
            bench.shell.run("echo before; sleep 60", lambda text: bench.shell.cancel() if "before" in text else None)
        )
        return await asyncio.wait_for(task, PATIENCE)

    run = asyncio.run(main())
    assert (run.output, run.exit_code, run.cancelled) == ("before\n", None, True)
    (record,) = bench.records()
    assert record["cancelled"] is True
    assert "exitCode" not in record
    assert not bench.shell.running


def test_what_a_command_has_left_running_is_shown_and_not_recorded(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    run = bench.run("sleep 60 & echo started")
    bench.shell.close()
    assert "still running in the background, process group" in run.left
    assert [row.text for row in command_rows(run)][1:] == ["started", f"({run.left})"]
    (record,) = bench.records()
    assert record["output"] == "started\n"


def test_the_end_of_the_program_records_a_command_and_passes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    async def main() -> None:
        began = asyncio.Event()
        task = asyncio.create_task(bench.shell.run("echo began; sleep 60", lambda text: began.set()))
        await asyncio.wait_for(began.wait(), PATIENCE)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert bench.records()[0]["cancelled"] is True


def test_what_a_carriage_return_would_overwrite_is_kept(tmp_path: Path) -> None:
    run = Bench(tmp_path).run(r"printf 'first\rsecond\nend\r\n'")
    assert run.output == "first\rsecond\nend\n"
    assert [row.text for row in command_rows(run)][1:] == ["first", "second", "end"]


def test_a_command_of_a_session_that_was_left_is_named_and_not_recorded(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.busy = True
    bench.run("echo late")
    agent = bench.lab.agent
    agent.deps = agent.deps._replace(session=memory_session("/elsewhere"))
    bench.shell.settle()
    assert [type(event) for event in bench.lab.events] == [Notice]
    assert agent.deps.session.branch() == ()


@pytest.mark.parametrize("excluded", [False, True])
@pytest.mark.parametrize("command", ["echo `echo 1`; exit 3", "seq 100000", "kill -9 $$"])
def test_a_record_is_read_back_as_it_was(tmp_path: Path, command: str, excluded: bool) -> None:
    bench = Bench(tmp_path)
    run = bench.run(command, excluded=excluded)
    session = bench.lab.agent.deps.session
    assert list(recorded_runs(session.branch()).values()) == [run]


def test_a_chat_sees_the_commands_that_the_model_does_not_where_they_were_run() -> None:
    session = memory_session("/srv")

    def run(command: str, *, excluded: bool) -> str:
        message = {"role": "bashExecution", "command": command, "output": "", "excludeFromContext": excluded}
        return session.append("message", {"message": message}).id

    def say(text: str) -> str:
        return session.append("message", {"message": {"role": "user", "content": text}}).id

    def seen() -> list[str | None]:
        branch = session.branch()
        return [message.entry_id for message in seen_messages(branch, recorded_runs(branch))]

    ids = [run("a", excluded=True), say("one"), run("b", excluded=True), run("c", excluded=False), say("two")]
    ids.append(run("d", excluded=True))
    assert seen() == ids
    compaction = {"summary": "s", "firstKeptEntryId": ids[4], "tokensBefore": 9}
    summary = session.append("compaction", compaction).id
    ids.append(run("e", excluded=True))
    assert seen() == [summary, *ids[4:]]


def test_a_resumed_chat_shows_those_that_the_model_does_not_read_as_they_were(tmp_path: Path) -> None:
    shown: list[str] = []
    with lab(tmp_path) as runs:
        for words, lines in (((), ("!!echo first", "hello", "!!echo $((40+2)); false", "!echo last")), (("-c",), ())):
            tty = Tty(runs, "--store", "off", *words)
            try:
                tty.wait("OV -")
                tty.read(0.3)
                for line in lines:
                    tty.send(line)
                    tty.wait(f"> {line}")
                    tty.send("\r")
                    tty.wait("Noted." if line == "hello" else f"! {line.lstrip('!')}\n")
                    tty.read(0.3)
                tty.wait("! echo last\nlast")
                shown.append(tty.text().partition("!! echo first")[2].split("\u2500")[0].strip())
                tty.send("\x04")
                assert tty.end() == 0
            finally:
                tty.close()
        assert shown[0].startswith("first\n\n> hello") and "!! echo $((40+2)); false\n42\n(exit 1)" in shown[0]
        assert shown[1] == shown[0]
        assert "40+2" not in str(runs.requests())


def test_a_resumed_chat_shows_it_as_the_users_own(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        for words, lines in (((), ("hello", "!echo $((40+2)); false")), (("-c",), ())):
            tty = Tty(runs, "--store", "off", *words)
            try:
                tty.wait("OV -")
                tty.read(0.3)
                for line in lines:
                    tty.send(line)
                    tty.read(0.2)
                    tty.send("\r")
                    tty.read(0.3)
                assert "Ran" not in tty.wait("! echo $((40+2)); false\n42\n(exit 1)")
                tty.send("\x04")
                assert tty.end() == 0
            finally:
                tty.close()
