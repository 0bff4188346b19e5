"""From the last token of an answer to the next prompt, with the store on, off, slow and frozen.

Four chats, each a process of its own, take turns, so that whatever else the machine does meets all of them alike.
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from typing import NamedTuple

from figures import Figure, Single
from lab import PROJECT, Lab
from paired import BenchError
from slow_proxy import slowed
from store_server import openviking_server

WORKER = PROJECT / "scripts" / "benchmark" / "chat_worker.py"
PROMPTS_PER_PAIR = 8
PAUSE = 0.06
DELAY = 0.4
NOISE = 5.0


class Chat(NamedTuple):
    name: str
    process: subprocess.Popen[str]

    def prompt(self, number: int) -> float:
        """Give the ms from the last token of the answer to the next prompt."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"SAY: answer {number} of this chat\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise BenchError(f"the chat with the store {self.name} has ended")
        return float(line)


def measure(lab: Lab) -> Iterator[Figure]:
    prompts = PROMPTS_PER_PAIR * lab.pairs
    with contextlib.ExitStack() as stack:
        good = stack.enter_context(openviking_server(lab, "next-openviking"))
        frozen = stack.enter_context(openviking_server(lab, "next-frozen"))
        slow = stack.enter_context(slowed(good.url, DELAY))
        urls = {"off": "", "on": good.url, "slow": slow, "frozen": frozen.url}
        chats = [stack.enter_context(chat(lab, name, url)) for name, url in urls.items()]
        for each in chats:
            each.prompt(0)
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            times = taken(chats, prompts)
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
    base = p95(times["off"])
    for name in ("on", "slow", "frozen"):
        note = f"{p95(times[name]):.2f} and {base:.2f} ms, {prompts} prompts each"
        yield Single(
            f"last token to next prompt, p95, store {name} less off", p95(times[name]) - base, "ms", NOISE, note
        )


def taken(chats: list[Chat], prompts: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {each.name: [] for each in chats}
    for number in range(1, prompts + 1):
        for each in chats:
            times[each.name].append(each.prompt(number))
            time.sleep(PAUSE)
    return times


@contextlib.contextmanager
def chat(lab: Lab, name: str, url: str) -> Generator[Chat]:
    home = f"next-chat-{name}"
    command = lab.vpi(home=home)
    place = lab.folder / home
    takeover = {"tokenThreshold": 300, "keepRecentTurns": 2}
    (place / "config.json").write_text(json.dumps({"takeover": takeover, **({"endpoint": url} if url else {})}))
    path = os.pathsep.join((str(PROJECT), command.env.get("PYTHONPATH", ""))).rstrip(os.pathsep)
    variables = {**command.env, "PYTHONPATH": path, "CHAT_STORE": "openviking" if url else "off", "OPENVIKING_URL": url}
    process = subprocess.Popen(
        [sys.executable, str(WORKER)],
        cwd=command.cwd,
        env={key: value for key, value in variables.items() if value},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    killer = threading.Timer(600, process.kill)
    killer.start()
    try:
        yield Chat(name, process)
    finally:
        killer.cancel()
        with contextlib.suppress(OSError):
            process.communicate(timeout=15)


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]
