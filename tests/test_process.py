"""What only a real process shows: signals, standard input, bytes that are no text, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from llm_server import Peer, answering, free_port, serving
from patience import PATIENCE, eventually
from vpi_lab import Lab, Tty, lab

OFF = ("-p", "--store", "off")


def waited(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return process.returncode, out.decode(), err.decode()


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits for its parent does not."""
    try:
        return re.search(r"^State:\s+[^ZX]", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE) is not None
    except OSError:
        return False


def leaves_children(pids: Path) -> str:
    """The prompt for a command that waits for two children, one in a session of its own, and writes who there is."""
    return (
        f"RUN: sleep 600 & echo $! > {pids}.new; setsid sleep 600 & echo $! >> {pids}.new;"
        f" echo $$ >> {pids}.new; mv {pids}.new {pids}; wait"
    )


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


@needs_proc
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=lambda x: str(x)
)
def test_a_signal_ends_the_children_of_a_command_and_leaves_a_whole_session(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with lab(tmp_path) as made:
        pids = made.work / "pids"
        process = made.start(*OFF, leaves_children(pids))
        assert eventually(pids.exists)
        children = [int(pid) for pid in pids.read_text().split()]
        assert all(map(alive, children))
        process.send_signal(number)
        assert waited(process) == (code, "", f"stopped by {number.name}\n")
        assert not any(map(alive, children))
        messages = [entry["message"] for entry in made.entries() if entry["type"] == "message"]
    assert [message["role"] for message in messages] == ["user", "assistant", "toolResult", "assistant"]
    assert messages[2]["isError"] and messages[2]["content"][0]["text"].endswith("Command aborted")
    assert messages[3]["stopReason"] == "aborted"


@needs_proc
def test_a_kill_ends_the_children_of_a_command_as_well(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        pids = made.work / "pids"
        process = made.start(*OFF, leaves_children(pids))
        assert eventually(pids.exists)
        children = [int(pid) for pid in pids.read_text().split()]
        assert all(map(alive, children))
        process.kill()
        assert waited(process) == (-9, "", "")
        assert eventually(lambda: not any(map(alive, children)))


def test_a_server_that_has_frozen_does_not_hold_an_interrupted_run(tmp_path: Path) -> None:
    asked = tmp_path / "asked"

    def handle(peer: Peer) -> None:
        if peer.request() is not None:
            asked.touch()
            peer.wait_closed(2 * PATIENCE)

    with lab(tmp_path) as made, serving(handle) as server:
        made.models(server.url)
        process = made.start("--mode", "json", "--store", "off", "hello")
        assert eventually(asked.exists)
        process.send_signal(signal.SIGINT)
        code, out, _ = waited(process)
        assert (code, json.loads(out.splitlines()[-1])) == (130, {"type": "agent_settled", "aborted": True})


def test_a_pipe_that_nobody_writes_to_is_not_waited_for_long(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        read, write = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-m", "vikingpi", *OFF, "SAY: without it"],
            cwd=made.work,
            env=made.environment({}),
            stdin=read,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.close(read)
        code, out, err = waited(process)
        os.close(write)
    assert (code, out) == (0, "without it\n")
    assert "standard input" in err


def test_a_prompt_may_come_from_standard_input_alone(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        done = made.run(*OFF, stdin=b"SAY: from the pipe\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"from the pipe\n", b"")


def test_standard_input_may_be_closed(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        done = subprocess.run(
            ["/bin/sh", "-c", 'exec "$0" -m vikingpi -p --store off "SAY: all the same" <&-', sys.executable],
            cwd=made.work,
            env=made.environment({}),
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, b"all the same\n")


def test_without_any_model_there_is_one_error_that_says_what_to_do(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        made.write("models.json", {})
        done = made.run("-p", "--model", "openai/gpt-5.5", "hello")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"error: no key for openai\nhint: set OPENAI_API_KEY")


def test_bytes_that_are_no_text_become_replacement_characters(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        made.work = Path(os.fsdecode(bytes(made.work) + b"/bad\xff"))
        made.work.mkdir()
        (made.work / os.fsdecode(b"file\xfe.txt")).write_text("inside")
        done = made.run(*OFF, os.fsdecode(b"RUN: ls\nSAY: got x\xff"))
        assert (done.returncode, done.stdout) == (0, "got x\ufffd\n".encode())
        results = [entry["message"] for entry in made.entries() if entry.get("message", {}).get("role") == "toolResult"]
        assert results[0]["content"][0]["text"] == "file\ufffd.txt\n"
        assert made.run(*OFF, "-c", "SAY: again").stdout == b"again\n"


def test_a_model_whose_api_nobody_speaks_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        made.models(made.model_url, api="telepathy")
        code, lines = error_of(made, "hello")
        assert (code, lines[0]) == (2, "error: local/scripted has the unknown api 'telepathy'")
        assert lines[1].startswith("hint: known: openai-completions, ")
        assert list(made.home.glob("**/*.jsonl")) == []


def error_of(made: Lab, *words: str) -> tuple[int, list[str]]:
    done = made.run(*OFF, *words)
    assert b"Traceback" not in done.stderr and done.stdout == b""
    return done.returncode, done.stderr.decode().splitlines()


@pytest.mark.parametrize("api", ["openai-completions", "anthropic-messages"])
def test_refusals_are_one_line_and_a_hint(tmp_path: Path, api: str) -> None:
    refused = b'{"error": {"message": "bad key model-key-4f9a1c77e2b0d3", "type": "authentication_error"}}'
    unknown = b'{"error": {"message": "no such model", "type": "not_found_error"}}'
    cases = [
        (answering(401, refused), "error: local answered 401: bad key ***", "hint: the key came from "),
        (answering(404, unknown), "error: local answered 404: no such model", "hint: check the base URL "),
        (answering(200, b"<html><title>Login</title>"), "error: local answered with a web page: Login", "hint: check "),
    ]
    with lab(tmp_path) as made:
        for handler, line, hint in cases:
            with serving(handler) as server:
                made.models(server.url, api=api)
                code, lines = error_of(made, "hello")
            assert code == 1 and len(lines) == 2
            assert lines[0].startswith(line) and lines[1].startswith(hint)
        made.models(f"http://127.0.0.1:{free_port()}", api=api)
        code, lines = error_of(made, "hello")
        assert code == 1 and lines[0].startswith("error: local cannot be reached") and "start the model" in lines[1]


def test_a_wait_that_the_provider_asks_for_is_kept_and_named(tmp_path: Path) -> None:
    def handle(peer: Peer) -> None:
        peer.request()
        if len(server.seen) == 1:
            peer.answer(429, b'{"error": {"message": "slow down"}}', "retry-after: 1\r\n")
        else:
            body = b'data: {"choices": [{"delta": {"content": "now"}, "finish_reason": "stop"}]}\n\n'
            peer.answer(200, body)

    with lab(tmp_path) as made, serving(handle) as server:
        made.models(server.url)
        done = made.run(*OFF, "hello")
    assert (done.returncode, done.stdout) == (0, b"now\n")
    assert done.stderr.startswith(b"warning: retry 1/3 in 2.0 s: local answered 429: slow down")


def test_a_quota_that_is_used_up_for_hours_ends_at_once_and_names_the_time(tmp_path: Path) -> None:
    body = b'{"error": {"type": "usage_limit_reached", "message": "limit", "resets_in_seconds": 13872}}'
    with lab(tmp_path) as made, serving(answering(429, body)) as server:
        made.models(server.url)
        code, lines = error_of(made, "hello")
        assert code == 1 and "3 h 52 min" in lines[0] and len(server.seen) == 1


def test_an_answer_that_says_nothing_is_no_success_in_any_mode(tmp_path: Path) -> None:
    told = b"error: the model's answer is empty\nhint: ask again, or choose another model\n"
    with lab(tmp_path) as made:
        for prompt in ("BIG: 0", "RUN: echo x\nBIG: 0"):
            done = made.run(*OFF, prompt)
            assert (done.returncode, done.stdout, done.stderr) == (1, b"", told)
        done = made.run("--mode", "json", "--store", "off", "BIG: 0")
        assert (done.returncode, done.stderr) == (1, told)
        assert json.loads(done.stdout.splitlines()[-1])["type"] == "agent_settled"
        tty = Tty(made, "--store", "off", "BIG: 0")
        try:
            tty.wait("error: the model's answer is empty")
        finally:
            tty.close()
