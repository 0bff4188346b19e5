"""Replays one long session through the real agent loop and adds up what was sent."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from cache_model import Caches, Served, blocks_of
from long_session import UserTurn, overview_text, summary_text, write_log

from vikingpi.app.app import App
from vikingpi.app.options import RunOptions
from vikingpi.app.sessions import Folder
from vikingpi.app.stores import StoreChoice
from vikingpi.app.wiring import Prepared, Seams, build_app
from vikingpi.config.model import Compaction, Settings
from vikingpi.config.paths import Paths
from vikingpi.events import BoundaryAdvanced, CompactionEnd, Event
from vikingpi.llm.anthropic_body import build_messages_body
from vikingpi.llm.base import CallDelta, Delta, Finish, Model, Price, Request, TextDelta, UsageDelta
from vikingpi.llm.openai_body import chat_messages, chat_tools
from vikingpi.llm.registry import Catalog
from vikingpi.llm.scripted import Step, scripted_model
from vikingpi.messages import Usage, text_of
from vikingpi.net import HttpTransport
from vikingpi.tokens import estimate
from vikingpi.viking.overview import SECTIONS, TITLE

WINDOW = 128_000
ENDLESS = 1_000_000_000
SETTLE = 20.0

Way = Literal["full history", "default compaction", "takeover"]


class Sent(NamedTuple):
    """One request; `summary` is one that asks for a summary; `output` in tokens."""

    served: Served
    output: int
    summary: bool


class Bill(NamedTuple):
    """All requests of one way, those for summaries and overviews included; `moves` are compactions and advances."""

    way: Way
    sent: tuple[Sent, ...]
    moves: int

    @property
    def turns(self) -> tuple[Sent, ...]:
        return tuple(each for each in self.sent if not each.summary)

    @property
    def input(self) -> int:
        return sum(each.served.tokens for each in self.sent)

    @property
    def agent_input(self) -> int:
        """What the agent itself sent, without the requests for summaries."""
        return sum(each.served.tokens for each in self.turns)

    @property
    def breaks(self) -> int:
        """How often a request was no extension of the one before."""
        return sum(not each.served.extends for each in self.turns)

    @property
    def cached_between(self) -> float:
        """Share that a strict prefix cache serves of the requests that extend the one before."""
        quiet = [each.served for each in self.turns[1:] if each.served.extends]
        return sum(served.prefix for served in quiet) / max(1, sum(served.tokens for served in quiet))

    @property
    def cached(self) -> float:
        return sum(each.served.prefix for each in self.sent) / max(1, self.input)

    def cost(self, price: Price, *, marks: bool) -> float:
        """Give US dollars; with `marks` the cache is Anthropic's."""
        total = 0.0
        for served, output, _ in self.sent:
            read, written = (served.read, served.written) if marks else (served.prefix, 0)
            plain = served.tokens - read - written
            total += plain * price.input + read * price.cache_read + written * price.cache_write + output * price.output
        return total / 1e6


class Meter:
    """Plays the steps of the current user turn and takes down each request."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self._steps: Iterator[Step] = iter(())
        self._caches = Caches()

    def __call__(self, model: Model) -> Meter:
        return self

    def begin(self, turn: UserTurn) -> None:
        self._steps = iter(turn.steps)

    async def stream(self, model: Model, request: Request) -> AsyncGenerator[Delta]:
        """Answer; a request without tools is one for a summary."""
        summary = not request.tools
        step = Step(_summary(request, len(self.sent))) if summary else next(self._steps)
        chat = [*chat_tools(request.tools), *chat_messages(model, request.system, request.messages)]
        served = self._caches.serve(chat, blocks_of(build_messages_body(model, request)), apart=summary)
        arguments = [json.dumps(call.arguments) for call in step.calls]
        output = estimate(step.text) + sum(
            estimate(call.name + text) for call, text in zip(step.calls, arguments, strict=True)
        )
        self.sent.append(Sent(served, output, summary))
        yield TextDelta(step.text)
        for number, (call, text) in enumerate(zip(step.calls, arguments, strict=True)):
            yield CallDelta(str(number), f"call_{len(self.sent)}_{number}", call.name, text)
        yield UsageDelta(Usage(input=served.tokens - served.prefix, cache_read=served.prefix, output=output))
        yield Finish("toolUse" if step.calls else "stop", "stop")


def _summary(request: Request, number: int) -> str:
    """Answer in the form that is asked for: a compaction's summary, or the document of the store."""
    asked = "\n".join(text_of(message) for message in request.messages)
    return overview_text(number) if f"## {SECTIONS[-1]}" in asked and TITLE in asked else summary_text(number)


async def replay(folder: Path, way: Way, turns: Sequence[UserTurn]) -> Bill:
    """Play all turns one way; `folder` must not exist yet."""
    (folder / "project").mkdir(parents=True)
    write_log(folder / "project")
    meter, moves = Meter(), Moves()
    model = scripted_model(context_window=ENDLESS if way == "full history" else WINDOW, reasoning=False)
    async with asyncio.TaskGroup() as group:
        app = build_app(_prepared(folder, way), "repl", group.create_task, Seams(HttpTransport(), meter, model))
        app.subscribe(moves.event)
        await app.start()
        try:
            for number, turn in enumerate(turns, 1):
                meter.begin(turn)
                answer = await app.submit(turn.prompt)
                if answer is None or answer.stop_reason != "stop":
                    raise RuntimeError(f"{turn.prompt!r} ended with {answer}")
                await _settled(app, number)
        finally:
            await app.close("quit")
    return Bill(way, tuple(meter.sent), moves.count)


class Moves:
    """Counts advances and compactions."""

    def __init__(self) -> None:
        self.count = 0

    def event(self, event: Event) -> None:
        if isinstance(event, BoundaryAdvanced) or (isinstance(event, CompactionEnd) and not event.error):
            self.count += 1


async def _settled(app: App, played: int) -> None:
    """Let the background task finish what the last turn made due; a user would be typing meanwhile."""
    control = app.parts.takeover
    deadline = time.monotonic() + SETTLE
    settings = app.settings.takeover
    while control is not None and time.monotonic() < deadline:
        state = control.state()
        target = played - settings.keep_recent_turns
        due = state.pending_tokens >= settings.token_threshold and target > state.covered_user_turns
        if not state.outbox and not state.open_commit and not due:
            return
        await asyncio.sleep(0.005)


def _prepared(folder: Path, way: Way) -> Prepared:
    paths = Paths(folder, folder, folder)
    project = folder / "project"
    settings = Settings(store="embedded", compaction=Compaction(enabled=way != "full history"))
    choice = StoreChoice("embedded" if way == "takeover" else "off", None)
    catalog = Catalog({}, (), paths.models_file, paths.auth_file)
    sessions = Folder(folder / "sessions", True, paths, project)
    options = RunOptions(no_context_files=True)
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}
    return Prepared(options, env, project, paths, settings, sessions, choice, catalog, ())
