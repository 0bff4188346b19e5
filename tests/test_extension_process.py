from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import PATIENCE, eventually
from tty_kit import at_rest
from vpi_lab import Lab, Tty, lab

PRINTS = """
import sys
print("at import")
def setup(vpi):
    print("at setup")
    vpi.on("turn_start", lambda event, ctx: print("told"))
    vpi.on("before_agent_start", lambda event, ctx: print("asked"))
    vpi.on("turn_end", lambda event, ctx: print("to error", file=sys.stderr))
    vpi.register_tool("shout", "Prints.", {"type": "object"}, lambda arguments, context: print("ran") or "done")
"""
SLOW = """
import time
from pathlib import Path
def setup(vpi):
    def wait(event, ctx):
        Path("waiting").touch()
        time.sleep(100)
    vpi.on({event!r}, wait)
"""
OFF = ("--store", "off")


def extend(made: Lab, text: str, name: str = "loud") -> None:
    folder = made.home / "extensions"
    folder.mkdir()
    (folder / f"{name}.py").write_text(text)


def test_what_an_extension_prints_stays_out_of_the_answer(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        extend(made, PRINTS)
        done = made.run("-p", *OFF, "SAY: hello")
        lines = made.run("--mode", "json", *OFF, "SAY: hello").stdout.splitlines()
        models = made.run("--list-models")
    assert (done.returncode, done.stdout) == (0, b"hello\n")
    for text in (b"at import", b"at setup", b"told", b"asked", b"to error"):
        assert text in done.stderr
    assert all(isinstance(json.loads(line), dict) for line in lines) and len(lines) > 5
    assert b"at import" not in models.stdout and b"scripted" in models.stdout


def test_what_an_extension_prints_in_the_chat_becomes_lines_of_it(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        extend(made, PRINTS)
        terminal = Tty(made, *OFF)
        try:
            terminal.wait("Ctrl+C twice leaves")
            terminal.send("SAY: hello\r")
            terminal.wait("to error")
            text = terminal.wait("told")
            terminal.send("SAY: the end\r")
            text = terminal.wait("the end")
            terminal.read(0.3)
            printed = [line.strip() for line in text.splitlines() if "to error" in line or "told" in line]
            assert printed and set(printed) <= {"told", "to error"}
            assert len([line for line in terminal.text().splitlines() if "scripted" in line]) <= 2
        finally:
            terminal.close()


@pytest.mark.parametrize("event", ["tool_call", "before_agent_start", "turn_start", "context"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_a_handler_that_does_not_return_and_name_it(
    tmp_path: Path, event: str, number: signal.Signals, code: int
) -> None:
    with lab(tmp_path) as made:
        extend(made, SLOW.format(event=event), "sleepy")
        process = made.start("-p", *OFF, "RUN: true")
        try:
            assert eventually((made.work / "waiting").exists)
            process.send_signal(number)
            if event in ("turn_start", "context"):
                time.sleep(0.1)
                assert eventually(lambda: at_rest(process.pid))
                time.sleep(0.6)
                process.send_signal(number)
            _, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        assert process.returncode == code
        assert b"the extension sleepy" in err and b"Traceback" not in err
        end = b"does not return and was broken off" if event in ("turn_start", "context") else b"and is left behind"
        assert end in err
        if event == "tool_call":
            assert [entry["message"]["role"] for entry in made.entries() if entry["type"] == "message"][:1] == ["user"]


def test_in_the_chat_too_and_the_terminal_is_given_back(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        extend(made, SLOW.format(event="turn_start"), "sleepy")
        terminal = Tty(made, *OFF)
        try:
            terminal.wait("Ctrl+C twice leaves")
            terminal.send("RUN: true\r")
            assert eventually(lambda: terminal.take(0.02) and (made.work / "waiting").exists())
            terminal.process.send_signal(signal.SIGTERM)
            terminal.read(0.7)
            terminal.process.send_signal(signal.SIGTERM)
            assert terminal.end() == 143
            assert "the extension sleepy does not return and was broken off" in terminal.text()
            assert terminal.raw.rstrip().endswith(b"was broken off") and b"\x1b[?2004l" in terminal.raw
        finally:
            terminal.close()


BLOCKS = """
import time
from pathlib import Path
def wait(*_):
    Path("waiting").touch()
    time.sleep(100)
def setup(vpi):
    vpi.register_tool("waiter", "Waits.", {{}}, wait)
    vpi.register_command("waiter", "waits", wait)
    if {event!r}:
        vpi.on({event!r}, wait)
"""


@pytest.mark.parametrize(
    ("event", "typed"),
    [("", "CALL: waiter {}"), ("", "/waiter"), ("before_agent_start", "hi"), ("tool_call", "RUN: true")],
)
def test_escape_ends_the_wait_for_a_plain_function_and_the_chat_goes_on(tmp_path: Path, event: str, typed: str) -> None:
    with lab(tmp_path) as made:
        extend(made, BLOCKS.format(event=event), "sleepy")
        terminal = Tty(made, *OFF)
        try:
            terminal.wait("Ctrl+C twice leaves")
            terminal.send(f"{typed}\r")
            assert eventually(lambda: terminal.take(0.02) and (made.work / "waiting").exists())
            terminal.send("\x1b")
            terminal.wait("does not return and is left behind")
            terminal.send("/help\r")
            terminal.wait("commands")
            terminal.send("\x04")
            assert terminal.end() == 0
        finally:
            terminal.close()


STAYS = """
import asyncio, atexit, threading, time
def block(*_):
    time.sleep(100)
async def wait(*_):
    await asyncio.sleep(100)
async def refuse(*_):
    while True:
        try:
            await asyncio.sleep(100)
        except BaseException:
            pass
async def begin(work):
    globals()["kept"] = asyncio.create_task(work)
    await asyncio.sleep(0)
def setup(vpi):
    {line}
"""


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ('vpi.on("session_shutdown", refuse)', b"sleepy.session_shutdown failed and was skipped"),
        ("threading.Thread(target=block).start()", b"the extension sleepy goes on after the end and is left behind"),
        ("threading.Thread(target=time.sleep, args=(100,)).start()", b"the extension sleepy goes on"),
        ("atexit.register(block)", b"the extension sleepy goes on"),
        ('vpi.on("session_start", lambda e, c: begin(asyncio.to_thread(block)))', b"the extension sleepy goes on"),
        ('vpi.on("session_start", lambda e, c: begin(refuse()))', b"the extension sleepy goes on"),
        ('vpi.on("session_start", lambda e, c: begin(wait()))', b""),
        ('vpi.on("session_start", lambda e, c: asyncio.to_thread(time.sleep, 0))', b""),
    ],
)
def test_an_answer_that_was_given_is_the_end_whatever_an_extension_leaves_running(
    tmp_path: Path, line: str, end: bytes
) -> None:
    with lab(tmp_path) as made:
        extend(made, STAYS.format(line=line), "sleepy")
        begun = time.monotonic()
        done = made.run("-p", *OFF, "SAY: hello")
        assert (done.returncode, done.stdout) == (0, b"hello\n")
        assert time.monotonic() - begun < PATIENCE
        assert end in done.stderr if end else not done.stderr


def test_leaving_the_chat_waits_no_longer_and_says_for_whom(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        extend(made, STAYS.format(line='vpi.on("session_shutdown", block)'), "sleepy")
        terminal = Tty(made, *OFF)
        try:
            terminal.wait("Ctrl+C twice leaves")
            terminal.send("\x04")
            assert terminal.end() == 0
            assert "warning: sleepy.session_shutdown failed and was skipped" in terminal.text()
        finally:
            terminal.close()


@pytest.mark.parametrize(
    "words",
    ["-p --no-session hi", "--mode json hi", "--version", "-v", "--help", "sessions", "--list-models", "doctor", ""],
)
def test_a_closed_standard_output_is_one_line_and_nothing_is_asked(tmp_path: Path, words: str) -> None:
    with lab(tmp_path) as made:
        done = subprocess.run(
            ["/bin/sh", "-c", f'exec "$0" -B -m vikingpi {words} >&-', sys.executable],
            cwd=made.work,
            env=made.environment({}),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (1, b"error: standard output is closed\n")
        assert made.requests() == []


def test_a_closed_standard_error_is_no_fault(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        extend(made, PRINTS)
        done = subprocess.run(
            ["/bin/sh", "-c", 'exec "$0" -B -m vikingpi -p --store off "SAY: hello" 2>&-', sys.executable],
            cwd=made.work,
            env=made.environment({}),
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, b"hello\n")
