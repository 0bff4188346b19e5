#!/usr/bin/env python3
"""The live acceptance: six one-shot turns of one session on a real store and a model.

    scripts/e2e-live.sh [--store openviking|embedded] [--keep]

The environment chooses what it runs on; with none of these it starts its own server and its own scripted model:
    OPENVIKING_URL, OPENVIKING_API_KEY (optional)   a server that is there already; the session is deleted at the end
    E2E_LLM_MODEL, E2E_LLM_BASE_URL, E2E_LLM_API_KEY, E2E_LLM_API (openai-completions)   the agent's model
A recording proxy stands before the model, and everything is asserted on the bytes that passed it, on the session
file and on the store. One line per assertion; the exit code is 1 if one failed, 2 for bad settings.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import e2e_checks as checks
import e2e_evidence as evidence
import model_server
import openviking_dev
import proxy
from e2e_story import TURNS

PROJECT = Path(__file__).resolve().parent.parent.parent
TURN_SECONDS = 300
SUMMARY_DELAY = 5
QUOTED_LINES = 5
BASES = {"openai-completions": "https://api.openai.com/v1", "anthropic-messages": "https://api.anthropic.com"}
KEPT_VARIABLES = ("VPI_VENV", "VPI_PYTHON")
STORE_VARIABLES = ("OPENVIKING_API_KEY", "OPENVIKING_ACCOUNT", "OPENVIKING_USER")


class Target(NamedTuple):
    """What the run goes against. `control` is the scripted model's address, "" where none of ours takes part."""

    store: str
    server_url: str
    api: str
    model: str
    model_url: str
    key: str
    scripted: bool
    control: str


class Failed(Exception):
    """The run cannot go on; what failed has been reported."""


def own_model(stack: contextlib.ExitStack) -> str:
    server = model_server.serve(0, None)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stack.callback(server.shutdown)
    return f"http://127.0.0.1:{server.server_address[1]}"


def own_server(stack: contextlib.ExitStack, folder: Path, model_url: str) -> str:
    print("starting an OpenViking server ...", flush=True)
    server = openviking_dev.start(folder, model_url=model_url)
    stack.callback(openviking_dev.stop, folder)
    print(f"OpenViking at {server.url}, its log in {folder / 'server.log'}", flush=True)
    return server.url


def choose(stack: contextlib.ExitStack, store: str, folder: Path) -> Target:
    """Read the settings and start what they leave to us."""
    env = os.environ
    api = env.get("E2E_LLM_API") or "openai-completions"
    model, base = env.get("E2E_LLM_MODEL", ""), env.get("E2E_LLM_BASE_URL", "")
    if api not in BASES:
        raise ValueError(f"E2E_LLM_API is {api}; it can be {' or '.join(BASES)}")
    if not model and (base or env.get("E2E_LLM_API_KEY")):
        raise ValueError("E2E_LLM_MODEL is not set; name the model that the endpoint is to be asked for")
    server_url = env.get("OPENVIKING_URL", "") if store == "openviking" else ""
    if server_url:
        evidence.ServerView(server_url, env).check_health()
    own = own_model(stack) if not model or (store == "openviking" and not server_url) else ""
    control = own if store == "openviking" and not server_url else ""
    if store == "openviking" and not server_url:
        server_url = own_server(stack, folder / "openviking", own)
    if model:
        return Target(store, server_url, api, model, base or BASES[api], env.get("E2E_LLM_API_KEY", ""), False, control)
    own_base = f"{own}/v1" if api == "openai-completions" else own
    return Target(store, server_url, api, "scripted", own_base, "scripted", True, control)


def environment(target: Target, folder: Path) -> dict[str, str]:
    """Give vpi's environment: nothing of the user's settings, only those of this run."""
    private = ("OPENVIKING_", "OV_", "VPI_", "E2E_", "XDG_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(private)}
    env.update({name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ})
    env.update(HOME=str(folder / "home"), VPI_HOME=str(folder / "vpi"), E2E_LLM_API_KEY=target.key or "none")
    if target.server_url:
        env["OPENVIKING_URL"] = target.server_url
        env.update({name: os.environ[name] for name in STORE_VARIABLES if name in os.environ})
    return env


def configure(target: Target, folder: Path, base_url: str) -> None:
    """Write vpi's settings: low threshold, one kept turn, the proxy as the only model."""
    for name in ("home", "vpi", "work"):
        (folder / name).mkdir()
    takeover = {"tokenThreshold": 600, "keepRecentTurns": 1, "wait": "overview", "overviewPollMs": 500}
    config = {
        "store": target.store,
        "defaultModel": f"e2e/{target.model}",
        "recallEnabled": False,
        "takeover": {**takeover, "overviewPollMax": 120},
    }
    provider = {
        "baseUrl": base_url,
        "api": target.api,
        "apiKey": "$E2E_LLM_API_KEY",
        "models": [{"id": target.model, "name": "e2e", "contextWindow": 128000, "maxTokens": 4096}],
    }
    for name, value in (("config.json", config), ("models.json", {"providers": {"e2e": provider}})):
        (folder / "vpi" / name).write_text(json.dumps(value, indent=1), encoding="utf-8")


def ask(number: int, env: dict[str, str], folder: Path, report: checks.Report) -> None:
    """Run one turn in a process of its own; raises Failed when it did not work."""
    turn = TURNS[number - 1]
    command = [PROJECT / "scripts" / "vpi", *(["-c"] if number > 1 else []), "-p", turn.prompt]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=folder / "work",
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TURN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        report.check(f"turn {number}: vpi ended within {TURN_SECONDS} s", False, (error.stderr or b"").decode()[-600:])
        raise Failed from None
    output, errors = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    (folder / f"turn-{number}.log").write_text(f"{output}\n--- stderr ---\n{errors}", encoding="utf-8")
    took = time.monotonic() - begun
    good = done.returncode == 0 and bool(output.strip()) and "Traceback" not in errors
    if not report.check(
        f"turn {number}: vpi answered ({took:.1f} s)", good, f"exit {done.returncode}, {errors[-500:]}"
    ):
        raise Failed
    if turn.answer:
        report.check(f"turn {number}: the answer is {turn.answer}", turn.answer in output, output)


def delay_summaries(target: Target) -> None:
    if not target.control:
        print("note  summaries are not delayed: the server's model is not ours", flush=True)
        return
    body = json.dumps({"summaryDelay": SUMMARY_DELAY}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{target.control}/control", data=body), timeout=10):
        print(f"note  from here on the server's summaries take {SUMMARY_DELAY} s", flush=True)


def run_turns(
    target: Target, folder: Path, log: Path, env: dict[str, str], report: checks.Report
) -> list[list[evidence.Recorded]]:
    """Run all turns and give the requests that each of them sent."""
    turns: list[list[evidence.Recorded]] = []
    seen = 0
    for number in range(1, len(TURNS) + 1):
        if number == 4 and target.store == "openviking":
            delay_summaries(target)
        ask(number, env, folder, report)
        requests = evidence.read_requests(log)
        turns.append(requests[seen:])
        seen = len(requests)
        if not report.check(f"turn {number}: it reached the model", bool(turns[-1])):
            raise Failed
    return turns


def judge(
    target: Target, folder: Path, turns: list[list[evidence.Recorded]], report: checks.Report
) -> tuple[evidence.ServerView | None, str]:
    """Assert on everything that was recorded; gives the server and the session's name there."""
    embedded = target.store == "embedded"
    quotes = 0 if target.control else QUOTED_LINES
    strict = checks.Strictness(obeys=target.scripted, quotes=quotes, exact=embedded or bool(target.control))
    checks.check_second_turn(report, turns[1], strict.obeys)
    checks.check_first_advance(report, turns, strict)
    checks.check_second_advance(report, turns)
    checks.check_facts(report, turns)
    files = sorted((folder / "vpi").rglob("*.jsonl"))
    if not report.check("file: there is one session file", len(files) == 1, files):
        raise Failed
    session = evidence.read_session(files[0])
    name = f"pi-{session.id}"
    view = evidence.ServerView(target.server_url, os.environ) if target.store == "openviking" else None
    held = view.held(name) if view else evidence.read_embedded(folder / "vpi" / "store.db", name)
    checks.check_file(report, session, name)
    checks.check_store(report, held, session, name, strict)
    left = evidence.undelivered(folder / "vpi" / "outbox.db")
    report.check("outbox: everything is delivered", left == 0, left)
    return view, name


def run(store: str, folder: Path, keep: bool, report: checks.Report) -> None:
    """Do the whole acceptance in `folder`."""
    with contextlib.ExitStack() as stack:
        target = choose(stack, store, folder)
        log = folder / "requests.jsonl"
        between = proxy.serve(target.model_url, log)
        threading.Thread(target=between.serve_forever, daemon=True).start()
        stack.callback(between.shutdown)
        configure(target, folder, f"http://127.0.0.1:{between.server_address[1]}")
        print(f"model {target.model} ({target.api}) at {target.model_url}", flush=True)
        view, name = None, ""
        try:
            turns = run_turns(target, folder, log, environment(target, folder), report)
            view, name = judge(target, folder, turns, report)
        except Failed:
            print("note  what could not be asserted after this failure was left out", flush=True)
        if view and not target.control and not keep:
            view.forget(name)


@contextlib.contextmanager
def workplace(report: checks.Report, keep: bool) -> Generator[Path]:
    """Give a folder that is removed unless it is to be kept or something failed."""
    folder = Path(tempfile.mkdtemp(prefix="vpi-e2e-"))
    finished = False
    try:
        yield folder
        finished = True
    finally:
        if keep or report.failed or (report.passed and not finished):
            print(f"kept  {folder}", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("openviking", "embedded"), default="openviking")
    parser.add_argument("--keep", action="store_true", help="leave the folder and the server's session")
    options = parser.parse_args()
    report = checks.Report()
    begun = time.monotonic()
    try:
        with workplace(report, options.keep) as folder:
            run(options.store, folder, options.keep, report)
    except (ValueError, openviking_dev.LabError) as error:
        hint = error.hint if isinstance(error, openviking_dev.LabError) else "scripts/e2e-live.sh --help"
        print(f"e2e-live: {error}\nhint: {hint}", file=sys.stderr)
        return 2
    except OSError as error:
        report.check("the store and the model can be reached", False, error)
    except KeyboardInterrupt:
        return 130
    took = time.monotonic() - begun
    print(f"e2e-live ({options.store}): {report.passed} passed, {report.failed} failed in {took:.0f} s", flush=True)
    return 1 if report.failed or not report.passed else 0


if __name__ == "__main__":
    raise SystemExit(main())
