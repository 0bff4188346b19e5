"""The wait that takeover adds, from the user's side, with a real server whose overviews take 0, 5 and 30 s.

Each user turn makes an advance due, so that a commit is always on its way. With `-p` the commit at the end of a run
is waited for, and at the next start what is left of the overview's time; in a chat nothing is. Recall is off here.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from figures import Figure, Single
from lab import Lab
from paired import Command, run
from store_server import control_model, openviking

from vikingpi.app.options import RunOptions
from vikingpi.app.wiring import build_app, prepare

DELAYS = (0, 5, 30)
SETTINGS = {"takeover": {"tokenThreshold": 1, "keepRecentTurns": 0}, "recallEnabled": False}
PROMPTS = 6
NOISE = 100.0


def measure(lab: Lab) -> Iterator[Figure]:
    with openviking(lab, "wait-openviking") as url:
        for delay in DELAYS:
            control_model(lab, summaryDelay=delay)
            try:
                yield from one_shot(lab, url, delay)
                yield from chat(lab, url, delay)
            finally:
                control_model(lab, summaryDelay=0)


def one_shot(lab: Lab, url: str, delay: int) -> Iterator[Figure]:
    home, sessions = f"wait-{delay}", str(lab.folder / f"wait-{delay}-sessions")
    first = statistics.median(run(off(lab, "-p", "SAY: one")).wall for _ in range(3))
    lab.vpi(home=home)
    (lab.folder / home / "config.json").write_text(json.dumps(SETTINGS))
    place = ("--session-dir", sessions)
    ended = run(lab.vpi(*place, "-p", "SAY: one", home=home, says="one", OPENVIKING_URL=url))
    left = time.monotonic()
    again = run(lab.vpi(*place, "-c", "-p", "SAY: two", home=home, says="two", OPENVIKING_URL=url), seconds=120)
    own = f"-p, overview of {delay} s"
    yield Single(
        f"{own}: added by the run that commits", ended.wall - first, "ms", None, "barrier and commit at its end"
    )
    limit = delay * 1000 + 3000 + NOISE
    note = f"what is left of the overview's time; {time.monotonic() - left:.1f} s in all"
    yield Single(f"{own}: added by the next run", again.wall - first, "ms", limit, note)


def off(lab: Lab, *arguments: str) -> Command:
    return lab.vpi(*arguments, "--no-session", home="wait-off")


def chat(lab: Lab, url: str, delay: int) -> Iterator[Figure]:
    plain = asyncio.run(timed(lab, "chat-off", {}, "off"))
    taken = asyncio.run(timed(lab, f"chat-{delay}", {"OPENVIKING_URL": url}, "openviking"))
    for name, with_takeover, without in zip(("start", "prompt", "exit"), taken, plain, strict=True):
        yield Single(f"chat, overview of {delay} s: added to {name}", with_takeover - without, "ms", NOISE)


async def timed(lab: Lab, home: str, env: dict[str, str], store: str) -> tuple[float, float, float]:
    """Give the ms that start, prompts (median) and exit take, seen from the interface."""
    lab.vpi(home=home)
    place = lab.folder / home
    (place / "config.json").write_text(json.dumps(SETTINGS))
    variables = {**lab.environment(), "VPI_HOME": str(place), **env}
    options = RunOptions(session_dir=str(place / "sessions"), store="openviking" if store == "openviking" else "off")
    prompts: list[float] = []
    async with asyncio.TaskGroup() as group:
        app = build_app(prepare(options, variables, Path(lab.work)), "repl", group.create_task)
        begin = time.perf_counter()
        await app.start()
        started = time.perf_counter() - begin
        for number in range(PROMPTS):
            begin = time.perf_counter()
            await app.submit(f"SAY: answer {number}")
            prompts.append(time.perf_counter() - begin)
            await asyncio.sleep(0.05)
        begin = time.perf_counter()
        await app.close("quit")
        ended = time.perf_counter() - begin
    return started * 1000, statistics.median(prompts[1:]) * 1000, ended * 1000
