from __future__ import annotations

import asyncio
import gc
import math
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE, eventually, once_within
from tool_kit import context_in, run, text_of

from vikingpi.errors import ToolError
from vikingpi.tools.base import ToolOutcome, close_tools
from vikingpi.tools.bash import BashTool
from vikingpi.tools.processes import is_running, send

needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


def bash(folder: Path, command: str, tool: BashTool | None = None, **arguments: Any) -> ToolOutcome:
    return run(tool or BashTool(), context_in(folder), command=command, **arguments)


def pid_in(path: Path) -> int:
    assert eventually(lambda: path.exists() and path.read_text().strip()), f"{path} was not written"
    return int(path.read_text())


def timed_out(folder: Path, command: str) -> str:
    """Let a command that writes its `pid` time out after that; what is said calls the time N."""
    for seconds in (0.2, 1, 5, 20):
        said = text_of(bash(folder, command, timeout=seconds))
        if (folder / "pid").exists():
            break
    return said.replace(f" {seconds} seconds", " N seconds")


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return Path("/proc/self").exists() is False and subprocess.run(["kill", "-0", str(pid)]).returncode == 0


def test_both_outputs_come_in_order_with_the_exit_code(tmp_path: Path) -> None:
    outcome = bash(tmp_path, "echo hi; echo err >&2; exit 3")
    assert text_of(outcome) == "hi\nerr\n\n\nCommand exited with code 3"
    assert outcome.is_error
    assert outcome.details is None
    assert text_of(bash(tmp_path, "pwd")) == f"{tmp_path}\n"
    assert text_of(bash(tmp_path, "true")) == "(no output)"
    assert text_of(bash(tmp_path, "kill -9 $$")).endswith("Command exited with code 137")


def test_standard_input_is_empty_and_the_environment_is_what_was_given(tmp_path: Path) -> None:
    assert text_of(bash(tmp_path, "cat; echo end")) == "end\n"
    context = context_in(tmp_path, VPI_SESSION_ID="s1")._replace(
        env={"VPI_SESSION_ID": "s1", "PATH": os.environ["PATH"]}
    )
    assert text_of(run(BashTool(), context, command="echo $VPI_SESSION_ID:$HOME")) == "s1:\n"


def test_many_lines_are_cut_and_kept_in_a_private_file(tmp_path: Path) -> None:
    outcome = bash(tmp_path, "seq 3000")
    text = text_of(outcome)
    assert outcome.details is not None
    path = Path(outcome.details["fullOutputPath"])
    assert text.startswith("1001\n1002\n")
    assert text.endswith(f"3000\n\n\n[Showing lines 1001-3000 of 3000. Full output: {path}]")
    assert path.read_text().split() == [str(n) for n in range(1, 3001)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert outcome.details["truncation"]["totalLines"] == 3000


def test_wide_lines_are_cut_by_their_bytes(tmp_path: Path) -> None:
    outcome = bash(tmp_path, "for i in {1..3000}; do printf '%0199d\\n' $i; done")
    text = text_of(outcome)
    assert text.startswith("0" * 195 + "2745\n")
    assert "\n\n[Showing lines 2745-3000 of 3000 (50.0KB limit). Full output: " in text
    assert outcome.details is not None
    assert outcome.details["truncation"]["truncatedBy"] == "bytes"
    assert Path(outcome.details["fullOutputPath"]).stat().st_size == 600_000


def test_a_long_line_is_cut_at_a_whole_character(tmp_path: Path) -> None:
    text = text_of(bash(tmp_path, "for i in {1..30000}; do printf '\\xe9\\xa1\\xb9'; done"))
    assert "\ufffd" not in text
    assert "[Showing last 50.0KB of line 1 (line is 87.9KB). Full output: " in text
    assert text.count("\u9879") == 51200 // 3


def test_short_output_that_grows_by_replacement_is_kept_too(tmp_path: Path) -> None:
    outcome = bash(tmp_path, "head -c 40000 /dev/zero | tr '\\0' '\\377'")
    assert outcome.details is not None
    assert Path(outcome.details["fullOutputPath"]).stat().st_size == 40000


def test_huge_output_needs_little_memory(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = text_of(bash(tmp_path, "yes | head -c 60000000"))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert "[Showing lines 29998001-30000000 of 30000000." in text
    assert grown < 30 * 1024 * (1024 if sys.platform == "darwin" else 1)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_bytes_that_are_no_utf8_are_replaced_and_nothing_else_is_lost(tmp_path: Path, locale: str) -> None:
    context = context_in(tmp_path, LC_ALL=locale)
    command = "printf 'ok-before\\n\\xf0\\x81 raw\\nok-after\\n'; printf '\\xe9\\xa1'; sleep 0.15; printf '\\xb9'"
    text = text_of(run(BashTool(), context, command=command))
    assert text == "ok-before\n\ufffd\ufffd raw\nok-after\n\u9879"


def test_bytes_of_any_kind_are_output(tmp_path: Path) -> None:
    outcome = bash(tmp_path, "head -c 1000 /dev/urandom; echo; echo end")
    assert not outcome.is_error and text_of(outcome).endswith("\nend\n")
    text_of(outcome).encode()


def test_terminal_sequences_and_nul_do_not_reach_the_model(tmp_path: Path) -> None:
    text = text_of(bash(tmp_path, "printf '\\033[31mred\\033[0m \\033]0;t\\007x\\0y\\r\\nz'"))
    assert text == "red x\ufffdy\nz"


def test_a_child_in_the_background_does_not_hold_the_result(tmp_path: Path) -> None:
    tool = BashTool()
    for command, text in [
        ("sleep 60 & echo $! > pid; echo done", "done\n"),
        ("(sleep 60 & echo $! > pid)", "(no output)"),
        (f"{sys.executable} -m http.server -b 127.0.0.1 0 >/dev/null & echo $! > pid; echo up", "up\n"),
        ("nohup sleep 60 >/dev/null 2>&1 & echo $! > pid; echo ok", "ok\n"),
    ]:
        begin = time.monotonic()
        outcome = bash(tmp_path, command, tool)
        assert time.monotonic() - begin < PATIENCE
        assert text_of(outcome).startswith(f"{text}\n\n[A process of this command is still running in the background")
        assert not outcome.is_error
        assert lives(pid_in(tmp_path / "pid"))
    last = pid_in(tmp_path / "pid")
    close_tools([tool])
    assert not lives(last)
    close_tools([tool])


def test_a_chatty_child_in_the_background_does_not_hold_the_result(tmp_path: Path) -> None:
    tool = BashTool()
    begin = time.monotonic()
    text = text_of(bash(tmp_path, "yes & echo started", tool))
    assert time.monotonic() - begin < PATIENCE
    assert "still running" in text
    tool.close()


def test_a_timeout_ends_everything_and_keeps_the_output(tmp_path: Path) -> None:
    said = timed_out(tmp_path, "echo part; sleep 60 & echo $! > pid; wait")
    assert said == "part\n\n\nCommand timed out after N seconds"
    assert bash(tmp_path, "sleep 60", timeout=0.2).is_error
    assert not lives(pid_in(tmp_path / "pid"))


def test_a_group_that_ignores_term_is_killed(tmp_path: Path) -> None:
    command = "trap '' TERM; (trap '' TERM; sleep 97) & echo $! > pid; sleep 98"
    begin = time.monotonic()
    assert "timed out after N seconds" in timed_out(tmp_path, command)
    assert 2 < time.monotonic() - begin < 2 * PATIENCE
    assert not lives(pid_in(tmp_path / "pid"))


def test_the_default_timeout_is_that_of_the_context(tmp_path: Path) -> None:
    context = context_in(tmp_path)._replace(bash_timeout=0.2)
    assert "timed out after 0.2 seconds" in text_of(run(BashTool(), context, command="sleep 60"))


@pytest.mark.parametrize(
    "timeout", [0, -1, -1e300, math.inf, math.nan, True, "2", 10**400, -(10**400)], ids=lambda value: str(value)[:9]
)
def test_a_timeout_must_be_a_number_of_seconds(tmp_path: Path, timeout: object) -> None:
    with pytest.raises(ToolError, match="Invalid timeout: must be a finite number of seconds"):
        bash(tmp_path, "true", timeout=timeout)


@pytest.mark.parametrize("timeout", [1e300, 100_000, 2.5])
def test_a_timeout_may_be_broken_and_of_any_size(tmp_path: Path, timeout: float) -> None:
    assert text_of(bash(tmp_path, "echo hi", timeout=timeout)) == "hi\n"


def test_cancellation_ends_the_group_and_hands_over_the_output(tmp_path: Path) -> None:
    updates: list[str] = []

    async def cancelled() -> float:
        seen = asyncio.Event()

        def update(text: str) -> None:
            updates.append(text)
            seen.set()

        context = context_in(tmp_path)._replace(update=update)
        call = {"command": "echo part; sleep 60 & echo $! > pid; sleep 60"}
        task = asyncio.create_task(BashTool().run(call, context))
        await seen.wait()
        begin = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - begin

    assert once_within(1.5, lambda: asyncio.run(cancelled()))
    assert updates[-1] == "part\n"
    assert not lives(pid_in(tmp_path / "pid"))


@needs_proc
@pytest.mark.parametrize(
    "command",
    [
        "setsid sh -c 'echo $$ > pid; exec sleep 60' & sleep 60",
        "(setsid setsid sh daemon.sh &); sleep 60",
    ],
    ids=["a session of its own", "twice removed and deaf to TERM"],
)
def test_what_left_the_group_of_a_command_ends_with_it(tmp_path: Path, command: str) -> None:
    (tmp_path / "daemon.sh").write_text("trap '' TERM; echo $$ > pid; while :; do sleep 1; done")
    assert "timed out" in timed_out(tmp_path, command)
    assert not lives(pid_in(tmp_path / "pid"))


DETACHED = "setsid sh -c 'echo $$ > pid; exec sleep 60'"
STARTED = "until [ -s pid ] && grep -q sleep /proc/$(cat pid)/comm; do sleep 0.01; done"


@needs_proc
@pytest.mark.parametrize("output", ["", " >/dev/null 2>&1"], ids=["holds the output", "has let go of the output"])
def test_what_a_command_that_is_done_has_detached_goes_on_and_is_named(tmp_path: Path, output: str) -> None:
    tool = BashTool()
    begin = time.monotonic()
    text = text_of(run(tool, context_in(tmp_path), command=f"echo out; {DETACHED}{output} & {STARTED}"))
    assert time.monotonic() - begin < PATIENCE
    pid = pid_in(tmp_path / "pid")
    assert text == (
        f"out\n\n\n[This command has started processes that run on their own, also after this session: {pid} (sleep); "
        f"their later output is not kept. End them with: kill {pid}]"
    )
    tool.close()
    assert lives(pid)
    os.kill(pid, signal.SIGKILL)


@needs_proc
def test_what_is_in_the_background_and_what_has_left_it_are_both_named(tmp_path: Path) -> None:
    tool = BashTool()
    text = text_of(run(tool, context_in(tmp_path), command=f"sleep 60 & {DETACHED} & {STARTED}"))
    pid = pid_in(tmp_path / "pid")
    os.kill(pid, signal.SIGKILL)
    tool.close()
    assert "still running in the background, process group" in text
    assert f"{pid} (sleep)" in text and text.endswith(f"kill {pid}]")


@needs_proc
def test_many_that_have_left_are_counted(tmp_path: Path) -> None:
    command = "for i in 1 2 3 4 5 6 7; do setsid sh -c 'echo $$ >> pids; exec sleep 60' & done"
    text = text_of(bash(tmp_path, f"{command}; until [ $(wc -l < pids) = 7 ]; do sleep 0.01; done"))
    for pid in (tmp_path / "pids").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    assert len(re.findall(r"\d+ \(s\w+\)", text)) == 5
    assert " and 2 more; " in text


def test_what_nobody_knows_but_holds_the_output_is_told_too(tmp_path: Path) -> None:
    text = text_of(bash(tmp_path, f"env -i PATH=$PATH {DETACHED} & {STARTED}"))
    os.kill(pid_in(tmp_path / "pid"), signal.SIGKILL)
    assert text == (
        "(no output)\n\n[A process that this command started still holds its output open; "
        "what it writes later is not kept]"
    )


def watches() -> int:
    """Count the shells of this process that wait for its end."""
    gc.collect()
    listed = subprocess.run(["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True)
    return listed.stdout.count("while read -r line")


@needs_proc
def test_the_watch_begins_with_the_first_command_and_ends_with_the_tool(tmp_path: Path) -> None:
    before = watches()
    tool = BashTool()
    assert watches() == before
    for _ in range(3):
        bash(tmp_path, "true", tool)
    assert watches() == before + 1
    tool.close()
    assert eventually(lambda: watches() == before)
    assert text_of(bash(tmp_path, "echo again", tool)) == "again\n"


@needs_proc
def test_a_killed_program_leaves_nothing_of_its_commands(tmp_path: Path) -> None:
    (tmp_path / "command").write_text(
        "echo $$ >> pids; trap '' TERM; sleep 62 & echo $! >> pids; setsid sleep 63 & echo $! >> pids;"
        " touch ready; wait; sleep 64"
    )
    script = tmp_path / "program.py"
    script.write_text(
        "import asyncio, os, signal, sys\n"
        "from pathlib import Path\n"
        "from tool_kit import context_in\n"
        "from vikingpi.tools.bash import BashTool\n"
        "async def main():\n"
        "    tool, context = BashTool(), context_in(Path.cwd())\n"
        "    await tool.run({'command': 'sleep 61 & echo $! >> pids'}, context)\n"
        f'    await tool.run({{\'command\': """{DETACHED} & {STARTED}"""}}, context)\n'
        "    command = Path('command').read_text()\n"
        "    call = asyncio.create_task(tool.run({'command': command}, context))\n"
        "    while not Path('ready').exists():\n"
        "        await asyncio.sleep(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    path = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, timeout=60)
    assert done.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 4
    assert eventually(lambda: not any(map(lives, pids)))
    detached = pid_in(tmp_path / "pid")
    assert lives(detached)
    os.kill(detached, signal.SIGKILL)


def test_a_second_cancellation_kills_at_once(tmp_path: Path) -> None:
    async def cancelled() -> float:
        (tmp_path / "pid").unlink(missing_ok=True)
        call = {"command": "trap '' TERM; echo $$ > pid; while :; do sleep 1; done"}
        task = asyncio.create_task(BashTool().run(call, context_in(tmp_path)))
        await asyncio.to_thread(pid_in, tmp_path / "pid")
        begin = time.monotonic()
        task.cancel()
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - begin

    assert once_within(1, lambda: asyncio.run(cancelled()))
    assert eventually(lambda: not lives(pid_in(tmp_path / "pid")))


def test_the_tail_is_shown_live_at_most_ten_times_a_second(tmp_path: Path) -> None:
    updates: list[str] = []
    context = context_in(tmp_path, updates)
    begin = time.monotonic()
    run(BashTool(), context, command="for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.05; done")
    assert 1 <= len(updates) <= 2 + 10 * (time.monotonic() - begin)
    assert "1\n2\n3\n4\n5\n6\n7\n8\n".startswith(updates[-1])


def test_what_cannot_start_is_an_error(tmp_path: Path) -> None:
    context = context_in(tmp_path)._replace(cwd=tmp_path / "gone")
    with pytest.raises(ToolError, match=r"Working directory does not exist: .*gone"):
        run(BashTool(), context, command="true")
    with pytest.raises(ToolError, match="cannot be started: embedded null byte"):
        bash(tmp_path, "a\0b")
    with pytest.raises(ToolError, match="cannot be started: E2BIG"):
        bash(tmp_path, "x" * 3_000_000)


def test_a_lone_surrogate_in_a_command_is_replaced(tmp_path: Path) -> None:
    assert text_of(bash(tmp_path, "echo 'x\ud83dy'")) == "x\ufffdy\n"


def test_a_folder_that_cannot_hold_the_output_is_named(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("in the way")
    text = text_of(bash(tmp_path, "seq 3000"))
    assert text.endswith("[Showing lines 1001-3000 of 3000. The rest could not be kept: Not a directory]")


def test_ten_commands_run_side_by_side(tmp_path: Path) -> None:
    async def together() -> None:
        tool = BashTool()
        command = "touch $$.here; until [ $(ls *.here | wc -l) = 10 ]; do sleep 0.02; done"
        calls = (tool.run({"command": command}, context_in(tmp_path)) for _ in range(10))
        assert [text_of(outcome) for outcome in await asyncio.gather(*calls)] == ["(no output)"] * 10

    asyncio.run(asyncio.wait_for(together(), PATIENCE))


def test_a_group_of_zombies_does_not_run() -> None:
    process = subprocess.Popen(["true"], start_new_session=True)
    assert eventually(lambda: not is_running(process.pid))
    process.wait()
    send(process.pid, signal.SIGTERM)
