#!/usr/bin/env python3
"""Takeover under faults, on a real OpenViking server and a scripted model, both started here.

    scripts/faults-live.sh [--kills N] [--seed N] [--keep] [SCENARIO...]

Each scenario runs one-shot turns of one session, hurts vpi or the server, and then holds the session file against
what the server holds: every captured entry once and in order, every fact in the last request. One line per assertion.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import e2e_evidence as evidence
import model_server
import openviking_dev
import proxy
from e2e_checks import Report

PROJECT = Path(__file__).resolve().parent.parent.parent
FILLER = "grey water near the north buoy " * 30
SETTLED = 100.0


class Lab:
    """A server, a recorded model, and one folder of vpi's own for each scenario."""

    def __init__(self, stack: contextlib.ExitStack, folder: Path, report: Report) -> None:
        self.folder = folder
        self.report = report
        self.model = model_server.serve(0, None)
        self._serve(stack, self.model)
        self.model_url = f"http://127.0.0.1:{self.model.server_address[1]}"
        self.server = openviking_dev.start(folder / "openviking", model_url=self.model_url)
        stack.callback(openviking_dev.stop, folder / "openviking")
        self.view = evidence.ServerView(self.server.url, {})
        self.log = folder / "requests.jsonl"
        between = proxy.serve(f"{self.model_url}/v1", self.log)
        self._serve(stack, between)
        self.base = f"http://127.0.0.1:{between.server_address[1]}"
        self.home = folder
        self.facts: dict[str, str] = {}

    @staticmethod
    def _serve(stack: contextlib.ExitStack, server: Any) -> None:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        stack.callback(server.shutdown)

    def begin(self, name: str, **takeover: object) -> None:
        """Start a scenario with a session of its own."""
        print(f"--- {name}", flush=True)
        self.home = self.folder / name
        (self.home / "vpi").mkdir(parents=True)
        (self.home / "work").mkdir()
        settings = {"tokenThreshold": 500, "keepRecentTurns": 1, "overviewPollMs": 300, **takeover}
        models = {"baseUrl": self.base, "apiKey": "none", "models": [{"id": "lab", "contextWindow": 128000}]}
        config = {"store": "openviking", "defaultModel": "lab/lab", "recallEnabled": False, "takeover": settings}
        (self.home / "vpi" / "config.json").write_text(json.dumps(config))
        provider = {"providers": {"lab": {"api": "openai-completions", **models}}}
        (self.home / "vpi" / "models.json").write_text(json.dumps(provider))
        self.facts = {}

    def start(self, prompt: str, *flags: str) -> subprocess.Popen[bytes]:
        """Start one `vpi -p` in a process of its own."""
        env = {
            key: value for key, value in os.environ.items() if not key.startswith(("OPENVIKING_", "VPI_HOME", "OV_"))
        }
        env.update(HOME=str(self.home), VPI_HOME=str(self.home / "vpi"), OPENVIKING_URL=self.server.url)
        command = [PROJECT / "scripts" / "vpi", *flags, "-p", prompt]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(
            command, cwd=self.home / "work", env=env, stdin=quiet, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def tell(self, number: int, *, filler: bool = True) -> str:
        """Make a prompt that states a fact of its own."""
        name, value = f"word-{number}", f"VALUE-{number}-{random.randrange(1000, 9999)}"
        self.facts[name] = value
        return f"Remember: {name} is {value}.\n{FILLER if filler else ''}"

    def ask(self, prompt: str, *flags: str, seconds: float = 120) -> tuple[int, str, float]:
        """Run one turn to its end; give exit code, what it printed, and how long it took."""
        begun = time.monotonic()
        process = self.start(prompt, *(flags or ("-c",)))
        out, errors = process.communicate(timeout=seconds)
        return process.returncode, (out + errors).decode("utf-8", "replace"), time.monotonic() - begun

    def alone(self) -> float:
        """Give the time of a turn without any store, as slow as the machine is now."""
        return max(self.ask("hello", "--no-session", "--store", "off")[2] for _ in range(3))

    def turn(self, number: int) -> None:
        code, said, _ = self.ask(self.tell(number))
        if code != 0 or "Traceback" in said:
            self.report.check(f"turn {number} answers", False, said[-400:])

    def control(self, **values: object) -> None:
        """Say how the server's own model behaves from here on."""
        body = json.dumps(values).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.model_url}/control", data=body), timeout=10):
            return

    def settle(self) -> None:
        """Let small healthy turns run until everything is delivered and nothing is open."""
        limit = time.monotonic() + SETTLED
        while time.monotonic() < limit:
            self.ask("go on")
            with contextlib.closing(sqlite3.connect(self.home / "vpi" / "outbox.db")) as db:
                left = db.execute("SELECT count(*) FROM message WHERE state IN ('new', 'sending')").fetchone()[0]
                left += db.execute("SELECT count(*) FROM commit_").fetchone()[0]
            if not left:
                return
            time.sleep(3)

    def session(self) -> evidence.SessionFile:
        (path,) = sorted((self.home / "vpi").rglob("*.jsonl"))
        return evidence.read_session(path)

    def judge(self) -> None:
        """Hold the file against the server: everything once, in order, and every fact in the next request."""
        session = self.session()
        name = str(session.state.get("generation") or f"pi-{session.id}")
        held = self.view.held(name)
        if not self.report.check(f"the server holds {name}", held is not None) or held is None:
            return
        marks = [mark for archive in held.archives for mark in archive.marks] + list(held.live)
        marks = [mark for mark in marks if not mark.startswith("seed:")]
        twice = sorted({mark for mark in marks if marks.count(mark) > 1})
        self.report.check("no entry is stored twice", not twice, twice)
        order = [session.messages.index(mark) for mark in marks if mark in session.messages]
        self.report.check("they are stored in order", order == sorted(order), order)
        seeded = str(session.state.get("lastCoveredEntryId") or "")
        start = session.messages.index(seeded) + 1 if seeded in session.messages else 0
        missing = [mark for mark in session.messages[start:] if mark not in marks and not self.empty(mark)]
        self.report.check("every entry after the boundary is stored", not missing, missing)
        self.judge_request()

    def judge_request(self) -> None:
        """Whatever the server holds: every fact is in the next request."""
        before = len(evidence.read_requests(self.log))
        code, said, _ = self.ask("say anything")
        request = evidence.read_requests(self.log)[before]
        told = {name: value for name, value in self.facts.items() if self.was_said(value)}
        lost = [value for value in told.values() if value not in request.text]
        self.report.check(f"all {len(told)} facts are in the next request", code == 0 and not lost, (lost, said[-300:]))

    def text(self) -> str:
        (path,) = sorted((self.home / "vpi").rglob("*.jsonl"))
        return path.read_text(encoding="utf-8", errors="replace")

    def was_said(self, value: str) -> bool:
        return value in self.text()

    def empty(self, entry_id: str) -> bool:
        """Whether the entry says nothing (an aborted answer), so that it is never captured."""
        line = next(line for line in self.text().split("\n") if f'"id":"{entry_id}"' in line)
        return '"content":[]' in line


def kills(lab: Lab, rounds: int) -> None:
    """vpi is killed with SIGKILL at random moments."""
    lab.begin("kills", wait="commit")
    lab.turn(0)
    longest = 1.3 * lab.alone() + 0.4
    for number in range(1, rounds + 1):
        process = lab.start(lab.tell(number), "-c")
        pause = random.uniform(0.1, longest)
        time.sleep(pause)
        process.kill()
        process.communicate()
        print(f"note  killed after {pause:.2f} s", flush=True)
    lab.settle()
    lab.judge()


def server_killed(lab: Lab) -> None:
    """The server is killed while it writes an overview, and started again."""
    lab.begin("server-killed")
    lab.control(summaryDelay=5)
    for number in range(3):
        lab.turn(number)
    os.kill(lab.server.pid, signal.SIGKILL)
    alone = lab.alone()
    code, said, took = lab.ask(lab.tell(3))
    told = said.count("cannot be reached")
    lab.report.check("a turn without the server is answered and says so once", code == 0 and told == 1, said)
    lab.report.check(f"it waits for nothing ({took:.1f} s, {alone:.1f} s without a store)", took < alone + 1.5, took)
    restart(lab)
    lab.control(summaryDelay=0)
    lab.settle()
    lab.judge()


def restart(lab: Lab) -> None:
    """Start the server again on its data and its port."""
    port = int(lab.server.url.rsplit(":", 1)[1])
    folder = lab.folder / "openviking"
    limit = time.monotonic() + 20
    while openviking_dev.is_ours(lab.server.pid, str(folder)) and time.monotonic() < limit:
        time.sleep(0.2)
    (folder / "server.json").unlink(missing_ok=True)
    lab.server = openviking_dev.start(folder, port=port, model_url=lab.model_url)


def server_frozen(lab: Lab) -> None:
    """The server accepts connections and never answers."""
    lab.begin("server-frozen")
    lab.turn(0)
    os.kill(lab.server.pid, signal.SIGSTOP)
    try:
        alone = lab.alone()
        _, said, first = lab.ask(lab.tell(1))
        lab.report.check(f"the first turn waits 2 s ({first:.1f} s, {alone:.1f} s alone)", first < alone + 3.5, said)
        _, _, second = lab.ask(lab.tell(2))
        lab.report.check(f"the second one does not wait again ({second:.1f} s)", second < alone + 1.5, second)
    finally:
        os.kill(lab.server.pid, signal.SIGCONT)
    lab.settle()
    lab.judge()


def session_deleted(lab: Lab) -> None:
    """Somebody deletes the session on the server."""
    lab.begin("session-deleted")
    lab.turn(0)
    lab.turn(1)
    lab.view.forget(f"pi-{lab.session().id}")
    for number in range(2, 6):
        lab.turn(number)
    lab.settle()
    generation = str(lab.session().state.get("generation"))
    lab.report.check("a new generation was opened", "__" in generation, generation)
    lab.judge()


def foreign_commits(lab: Lab) -> None:
    """Somebody else commits, with and without working memory."""
    for memory in (True, False):
        lab.begin(f"foreign-commit-{'with' if memory else 'without'}-memory")
        lab.turn(0)
        name = f"pi-{lab.session().id}"
        body = json.dumps({"keep_recent_count": 0, "enable_working_memory": memory}).encode()
        url = f"{lab.server.url}/api/v1/sessions/{name}/commit"
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=40):
            pass
        for number in range(1, 5):
            lab.turn(number)
        lab.settle()
        generation = str(lab.session().state.get("generation"))
        lab.report.check("the chain decides about the generation", ("__" in generation) != memory, generation)
        lab.judge()


def bad_overviews(lab: Lab) -> None:
    """The server's model gives nothing, or fails."""
    for mode in ("blank", "fail"):
        lab.begin(f"overview-{mode}", wait="overview", overviewPollMax=100)
        lab.control(summaryMode=mode)
        for number in range(3):
            lab.turn(number)
        moved = lab.session().state.get("coveredUserTurns")
        lab.report.check("the boundary did not move", moved == 0, moved)
        lab.control(summaryMode="ok")
        with contextlib.closing(sqlite3.connect(lab.home / "vpi" / "outbox.db")) as db, db:
            waits = db.execute("SELECT max(retry_at) FROM generation WHERE state = 'closed'").fetchone()[0]
            lab.report.check("the next attempt waits", waits and waits > time.time() * 1000, waits)
            db.execute("UPDATE generation SET retry_at = 0")
        for number in range(3, 5):
            lab.turn(number)
        lab.settle()
        covered = lab.session().state.get("coveredUserTurns")
        lab.report.check("a seeded generation covers it then", bool(covered), covered)
        lab.judge()


def no_model(lab: Lab) -> None:
    """The server has no model, so that its overviews are placeholders: nothing is covered, and it is said once."""
    lab.begin("no-model", wait="overview", overviewPollMax=30)
    folder, before = lab.folder / "openviking-without-model", (lab.server, lab.view)
    server = openviking_dev.start(folder, model_url=lab.model_url, summaries=False)
    lab.server, lab.view = server, evidence.ServerView(server.url, {})
    try:
        said = [lab.ask(lab.tell(number))[1] for number in range(5)]
        told = [text for text in said if "not archived" in text]
        lab.report.check("that nothing was archived is said", bool(told) and "hint:" in told[0], said)
        name = f"pi-{lab.session().id}"
        held = lab.view.held(name)
        lab.report.check("the server made an archive", held is not None and bool(held.archives), held)
        moved = lab.session().state.get("coveredUserTurns")
        lab.report.check("the boundary did not move", moved == 0, moved)
        lab.judge_request()
    finally:
        lab.server, lab.view = before
        openviking_dev.stop(folder)


def vpi_frozen(lab: Lab) -> None:
    """A vpi is frozen while it sends; another one works beside it."""
    lab.begin("vpi-frozen")
    lab.turn(0)
    process = lab.start(lab.tell(1), "-c")
    time.sleep(0.6)
    process.send_signal(signal.SIGSTOP)
    code, said, took = lab.ask("another session", "--name", "other")
    lab.report.check(f"another session works meanwhile ({took:.1f} s)", code == 0 and took < 15, said)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=60)
    for path in (lab.home / "vpi").rglob("*.jsonl"):
        if '"name":"other"' in path.read_text(encoding="utf-8"):
            path.unlink()
    lab.settle()
    lab.judge()


def slow_summaries(lab: Lab) -> None:
    """Twelve turns across processes, each summary takes 5 s: every earlier fact is in every request."""
    lab.begin("slow-summaries")
    lab.control(summaryDelay=5)
    seen = len(evidence.read_requests(lab.log))
    for number in range(12):
        lab.turn(number)
    lab.control(summaryDelay=0)
    requests = evidence.read_requests(lab.log)[seen:]
    values = list(lab.facts.values())
    lost = [(n, value) for n, request in enumerate(requests) for value in values[: n + 1] if value not in request.text]
    lab.report.check("every earlier fact is in every request", len(requests) == 12 and not lost, lost)
    covered = lab.session().state.get("coveredUserTurns")
    lab.report.check("the boundary moved on", isinstance(covered, int) and covered >= 4, covered)
    lab.settle()
    lab.judge()


SCENARIOS: dict[str, Callable[[Lab], None]] = {
    "server-frozen": server_frozen,
    "session-deleted": session_deleted,
    "foreign-commits": foreign_commits,
    "bad-overviews": bad_overviews,
    "no-model": no_model,
    "vpi-frozen": vpi_frozen,
    "slow-summaries": slow_summaries,
    "server-killed": server_killed,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=8, help="how many times vpi is killed (0: leave that out)")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", action="store_true", help="leave the folder")
    parser.add_argument("scenario", nargs="*", choices=[*SCENARIOS, []], help=", ".join(SCENARIOS))
    options = parser.parse_args()
    random.seed(options.seed)
    report, begun = Report(), time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="vpi-faults-"))
    print(f"seed {options.seed}, in {folder}", flush=True)
    try:
        with contextlib.ExitStack() as stack:
            lab = Lab(stack, folder, report)
            if options.kills and not options.scenario:
                kills(lab, options.kills)
            for name in options.scenario or SCENARIOS:
                SCENARIOS[name](lab)
    except openviking_dev.LabError as error:
        print(f"faults-live: {error}\nhint: {error.hint}", file=sys.stderr)
        return 2
    if not options.keep and not report.failed:
        subprocess.run(["rm", "-rf", folder], check=False)
    took = time.monotonic() - begun
    print(f"faults-live: {report.passed} passed, {report.failed} failed in {took:.0f} s", flush=True)
    return 1 if report.failed or not report.passed else 0


if __name__ == "__main__":
    raise SystemExit(main())
