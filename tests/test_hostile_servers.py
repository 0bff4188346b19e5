from __future__ import annotations

import itertools
import json
import os
import random
import resource
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from llm_server import Peer, answering, serving
from openviking_fake import openviking
from vpi_lab import Lab, lab

MEGABYTE = 1 << 20
MOST_RSS = 420 * MEGABYTE
MOST_SECONDS = 30.0
JSON = "content-type: application/json\r\n"


class Outcome(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float
    rss: int


def measured(runs: Lab, *words: str, env: dict[str, str]) -> Outcome:
    """Run vpi and measure what it cost."""
    begun = time.monotonic()
    with (runs.folder / "out").open("wb") as out, (runs.folder / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-B", "-m", "vikingpi", *words],
            cwd=runs.work,
            env=runs.environment(env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        usage: resource.struct_rusage | None = None
        while usage is None and time.monotonic() < begun + 2 * MOST_SECONDS:
            pid, status, found = os.wait4(process.pid, os.WNOHANG)
            if pid:
                usage, process.returncode = found, os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        if usage is None:
            process.kill()
            process.wait()
            raise AssertionError("vpi did not come to an end")
    said, noted = ((runs.folder / name).read_text() for name in ("out", "err"))
    return Outcome(process.returncode, said, noted, time.monotonic() - begun, usage.ru_maxrss * 1024)


def check(done: Outcome) -> None:
    assert (done.code, done.out) == (0, "hello\n"), done.err
    assert "Traceback" not in done.err
    assert done.seconds < MOST_SECONDS
    assert done.rss < MOST_RSS
    assert all(len(line) < 1200 for line in done.err.splitlines())


def endless(peer: Peer) -> None:
    while peer.request() is not None:
        peer.begin_stream("application/json")
        for _ in range(3000):
            peer.chunk(b" " * 65536)


def huge(peer: Peer) -> None:
    while peer.request() is not None:
        peer.send(f"HTTP/1.1 200 OK\r\n{JSON}content-length: {100 * MEGABYTE}\r\n\r\n".encode())
        for _ in range(100):
            peer.send(b'{"x":1} ' * (MEGABYTE // 8))


def bomb(peer: Peer) -> None:
    packer = zlib.compressobj(9, wbits=31)
    packed = b"".join([*(packer.compress(b" " * MEGABYTE) for _ in range(200)), packer.flush()])
    while peer.request() is not None:
        peer.answer(200, packed, f"{JSON}content-encoding: gzip\r\n")


def many_headers(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\n")
    for number in range(200_000):
        peer.send(f"x-{number}: {'y' * 100}\r\n".encode())


def dripping(peer: Peer) -> None:
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    for _ in range(200):
        peer.send(b" ")
        if peer.wait_closed(0.2):
            return


def silent(peer: Peer) -> None:
    peer.request()
    peer.wait_closed(60)


def no_http(peer: Peer) -> None:
    peer.send(b"SSH-2.0-OpenSSH_9.7\r\n" * 100)


def continuing(peer: Peer) -> None:
    peer.request()
    for _ in range(20_000):
        peer.send(b"HTTP/1.1 102 Processing\r\n\r\n")
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")


SERVERS: dict[str, Callable[[Peer], None]] = {
    "an endless answer": endless,
    "100 MB": huge,
    "a compressed bomb": bomb,
    "endless headers": many_headers,
    "an answer that drips": dripping,
    "nothing": silent,
    "another protocol": no_http,
    "interim answers": continuing,
    "a web page": answering(200, b"<html><body>log in</body></html>", "content-type: text/html\r\n"),
    "deep JSON": answering(200, b"[" * 500_000, JSON),
    "deep JSON that ends": answering(200, b'{"a":' * 50_000 + b"1" + b"}" * 50_000, JSON),
    "a number of a million digits": answering(200, b'{"status":' + b"9" * 1_000_000 + b"}", JSON),
    "no UTF-8": answering(200, b'{"status":"ok","version":"\xff\xfe"}', JSON),
    "an error with everything in it": answering(
        500, b'{"error":{"message":"' + b"x\\u001b[2J\\n" * 100_000 + b'"}}', JSON
    ),
    "a strange status": answering(799, b"{}", JSON),
    "no content": answering(204, b""),
}


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Lab]:
    with lab(tmp_path) as made:
        made.write(
            "config.json",
            {
                "takeover": {
                    "tokenThreshold": 1,
                    "keepRecentTurns": 0,
                    "overviewPollMs": 20,
                    "overviewPollMax": 3,
                    "wait": "overview",
                }
            },
        )
        yield made


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_that_answers_otherwise_costs_little_and_is_named(runs: Lab, name: str) -> None:
    with serving(SERVERS[name]) as server:
        done = measured(
            runs, "-p", "SAY: hello", env={"OPENVIKING_URL": server.url, "OPENVIKING_API_KEY": "ov-key-1234"}
        )
    check(done)
    assert "OpenViking" in done.err or "no answer within 2 s" in done.err
    assert "ov-key-1234" not in done.err


def test_a_redirect_is_not_followed_and_takes_no_key_along(runs: Lab) -> None:
    with serving(answering(200, b"{}")) as thief:
        for status in (301, 302, 303, 307, 308):
            target = f"location: {thief.url}/take?it=1\r\n"
            with serving(answering(status, b"", target)) as server:
                env = {"OPENVIKING_URL": server.url, "OPENVIKING_API_KEY": "ov-key-1234"}
                done = measured(runs, "-p", "--no-tools", "SAY: hello", env=env)
                check(done)
                assert "redirect" in done.err
        assert thief.connections == 0


WRONG: list[object] = [
    10**30,
    "\ud800",
    None,
    5,
    "x",
    [],
    [[]],
    {},
    {"a": 1},
    True,
    -1,
    1.5,
    "\x1b[2J",
    {"messages": 5},
]
PLACES = {
    "/health": ("", "version", "healthy", "auth_mode"),
    "POST /api/v1/sessions": ("", "added", "task_id", "archive_uri", "status"),
    "GET /api/v1/sessions/": ("", "created_at", "total_message_count", "message_count", "commit_count"),
    "/context": ("", "messages"),
    "/tasks/": ("", "status"),
    "/archives/": ("", "archive_id", "overview", "messages"),
}


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("place", PLACES)
def test_wrong_types_change_nothing_and_break_nothing(runs: Lab, place: str, seed: int) -> None:
    pairs = [(field, value) for value in WRONG for field in PLACES[place]]
    if seed:
        random.Random(seed).shuffle(pairs)
    turn = itertools.cycle(pairs)
    with openviking() as server:
        right = server.answer

        def wrong(method: str, path: str, body: dict[str, Any]) -> tuple[int, object]:
            status, answer = right(method, path, body)
            if place not in f"{method} {path}" or not isinstance(answer, dict):
                return status, answer
            field, value = next(turn)
            whole: dict[str, object] = {**answer}
            if path == "/health":
                return status, {**whole, field: value} if field else value
            result = whole.get("result")
            whole["result"] = {**result, field: value} if field and isinstance(result, dict) else value
            return status, whole

        server.answer = wrong
        for words in (("-p",), ("-p", "-c")):
            done = measured(runs, *words, "SAY: hello", env={"OPENVIKING_URL": server.url})
            check(done)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_the_key_of_a_model_does_not_follow_a_redirect(tmp_path: Path, status: int) -> None:
    with lab(tmp_path) as runs, serving(answering(200, b"{}")) as thief:
        with serving(answering(status, b"", f"location: {thief.url}/take\r\n")) as server:
            runs.models(server.url)
            done = measured(runs, "-p", "--store", "off", "hello", env={})
        assert done.code == 1
        assert thief.connections == 0


def talking(peer: Peer, pause: float) -> None:
    """Say something without end, in the deltas of a chat completion."""
    piece = json.dumps({"choices": [{"index": 0, "delta": {"content": "x" * 20_000}}]})
    while peer.request() is not None:
        peer.begin_stream()
        while not peer.wait_closed(pause):
            peer.chunk(f"data: {piece}\n\n".encode())


def test_an_answer_without_end_is_given_up(tmp_path: Path) -> None:
    with lab(tmp_path) as runs, serving(lambda peer: talking(peer, 0.0001)) as server:
        runs.models(server.url)
        done = measured(runs, "-p", "--no-session", "--store", "off", "--time-limit", "25", "hello", env={})
    assert done.code == 1
    assert "the answer does not end: it is larger than 16 MiB" in done.err
    assert done.rss < MOST_RSS


def test_a_time_limit_ends_an_answer_without_end(tmp_path: Path) -> None:
    with lab(tmp_path) as runs, serving(lambda peer: talking(peer, 0.05)) as server:
        runs.models(server.url)
        done = measured(runs, "-p", "--store", "off", "--time-limit", "2", "hello", env={})
    assert done.code == 3, done.err
    assert done.seconds < MOST_SECONDS
    assert done.rss < MOST_RSS
