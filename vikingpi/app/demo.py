"""The main job on scripted input: real tools, a real session file, the embedded store, no connection.

The scripted model keeps every request body it was sent; all figures are computed from those.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from vikingpi.agent.deps import now_ms
from vikingpi.app.app import App
from vikingpi.app.options import RunOptions
from vikingpi.app.sessions import Folder
from vikingpi.app.stores import StoreChoice
from vikingpi.app.wiring import Prepared, Seams, build_app
from vikingpi.config.model import Settings, Takeover
from vikingpi.config.paths import Paths
from vikingpi.decode import Json, as_dict, as_list, as_str
from vikingpi.events import BoundaryAdvanced, Event
from vikingpi.llm.base import Request
from vikingpi.llm.openai_body import prompt_tokens
from vikingpi.llm.registry import Catalog
from vikingpi.llm.scripted import ScriptedCall, ScriptedProvider, Step, scripted_model
from vikingpi.messages import OVERVIEW_MARKER, ToolSpec, text_of
from vikingpi.net import HttpTransport
from vikingpi.values import NamedTuple

THRESHOLD = 1950
KEEP = 1
SETTLE = 5.0
QUESTION = "Which day is the release window, and which port did we choose?"


class RequestFigures(NamedTuple):
    """One request as it was sent: number of messages, estimated tokens, one line a message."""

    number: int
    messages: int
    tokens: int
    lines: tuple[str, ...]


class DemoResult(NamedTuple):
    """`before` and `after` are the requests on both sides of the first move of the boundary."""

    before: RequestFigures
    after: RequestFigures
    last: RequestFigures
    covered: int
    overview: str
    answer: str
    session_file: Path
    requests: int


class DemoError(Exception):
    """The demo did not do what it is there to show."""


async def play(folder: Path, listen: Callable[[Event], None], tell: Callable[[str], None]) -> DemoResult:
    """Play all prompts in `folder`; `tell` gets each prompt before it is answered."""
    project = folder / "project"
    _make_project(project)
    provider = ScriptedProvider(_script())
    advanced: list[tuple[int, BoundaryAdvanced]] = []

    def watch(event: Event) -> None:
        if isinstance(event, BoundaryAdvanced):
            advanced.append((len(provider.bodies), event))
        listen(event)

    async with asyncio.TaskGroup() as group:
        seams = Seams(HttpTransport(), provider, scripted_model("scripted"), model_overviews=False)
        app = build_app(_prepared(folder, project), "repl", group.create_task, seams)
        app.subscribe(watch)
        await app.start()
        answer = ""
        try:
            for prompt in (*(turn[0] for turn in _TURNS), QUESTION):
                tell(prompt)
                message = await app.submit(prompt)
                answer = message.text if message is not None else ""
                await _settled(app)
            control = app.parts.takeover
            overview = control.overview() if control is not None else ""
            session_file = app.parts.session.path
        finally:
            await app.close("quit")
    if not advanced or session_file is None or advanced[0][0] >= len(provider.bodies):
        raise DemoError("no takeover happened")
    _save_bodies(folder / "bodies.jsonl", provider.bodies)
    at, event = advanced[0]
    return DemoResult(
        figures(provider.bodies, at - 1),
        figures(provider.bodies, at),
        figures(provider.bodies, len(provider.bodies) - 1),
        event.covered_user_turns,
        overview,
        answer,
        session_file,
        len(provider.bodies),
    )


def figures(bodies: list[Json], index: int) -> RequestFigures:
    """Measure a request body: messages and tokens (estimated, with tools)."""
    body = bodies[index]
    messages = [as_dict(message) for message in as_list(body.get("messages"))]
    specs = [as_dict(as_dict(tool).get("function")) for tool in as_list(body.get("tools"))]
    tools = [ToolSpec(as_str(s.get("name")), as_str(s.get("description")), as_dict(s.get("parameters"))) for s in specs]
    lines = tuple(_line(message) for message in messages)
    return RequestFigures(index + 1, len(messages), prompt_tokens(messages, tools), lines)


async def _settled(app: App) -> None:
    """Let the background task finish what the last turn made due; a user would be typing meanwhile."""
    control = app.parts.takeover
    deadline = now_ms() + int(SETTLE * 1000)
    while control is not None and now_ms() < deadline:
        state = control.state()
        due = state.pending_tokens >= THRESHOLD and state.covered_user_turns < len(_TURNS) - KEEP
        if not state.outbox and not state.open_commit and not due:
            return
        await asyncio.sleep(0.01)


def _prepared(folder: Path, project: Path) -> Prepared:
    paths = Paths(folder, folder, folder)
    takeover = Takeover(token_threshold=THRESHOLD, keep_recent_turns=KEEP, overview_poll_ms=50)
    settings = Settings(takeover=takeover, store="embedded")
    env: Mapping[str, str] = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(folder)}
    sessions = Folder(folder / "sessions", True, paths, project)
    options = RunOptions(no_context_files=True, name="demo")
    catalog = Catalog({}, (), paths.models_file, paths.auth_file)
    return Prepared(options, env, project, paths, settings, sessions, StoreChoice("embedded", None), catalog, ())


def _make_project(project: Path) -> None:
    project.mkdir(parents=True, exist_ok=True)
    report = [
        f"{hour:02d}:00 gateway: {200 + hour} requests, {hour % 3} retries, p95 {40 + hour} ms" for hour in range(24)
    ]
    notes = [
        "# Release notes",
        "",
        "The release window is Friday 03:00 UTC.",
        "Rollback is done with `make rollback`.",
        "",
    ]
    (project / "NOTES.md").write_text("\n".join(notes), encoding="utf-8")
    (project / "gateway.log").write_text("\n".join(report * 6) + "\n", encoding="utf-8")
    (project / "config.toml").write_text('port = 8080\nname = "gateway"\n', encoding="utf-8")


_TURNS: tuple[tuple[str, tuple[Step, ...]], ...] = (
    (
        "Read NOTES.md and tell me the release window.",
        (
            Step(calls=(ScriptedCall("read", {"path": "NOTES.md"}),)),
            Step("The release window is Friday 03:00 UTC; a rollback is `make rollback`."),
        ),
    ),
    (
        "How did the gateway do today? The log is gateway.log.",
        (
            Step(calls=(ScriptedCall("bash", {"command": "cat gateway.log"}),)),
            Step("Steady: p95 between 40 and 63 ms, at most 2 retries an hour."),
        ),
    ),
    (
        "We use port 7071 from now on. Change config.toml.",
        (
            Step(
                calls=(
                    ScriptedCall(
                        "edit",
                        {"path": "config.toml", "edits": [{"oldText": "port = 8080", "newText": "port = 7071"}]},
                    ),
                )
            ),
            Step("Done: config.toml now says port = 7071."),
        ),
    ),
    (
        "Check that the file is right.",
        (
            Step(calls=(ScriptedCall("bash", {"command": "grep -n port config.toml"}),)),
            Step("Yes: line 1 is port = 7071."),
        ),
    ),
)


def _script() -> Callable[[Request], Step]:
    """Play the turns; the last answer is made of nothing but what its request says."""
    steps: Iterator[Step] = iter([step for _, turn in _TURNS for step in turn])

    def step(request: Request) -> Step:
        planned = next(steps, None)
        if planned is not None:
            return planned
        said = "\n".join(text_of(message) for message in request.messages)
        day = "Friday 03:00 UTC" if "Friday 03:00 UTC" in said else "not in this request"
        port = "7071" if "7071" in said else "not in this request"
        return Step(f"The release window is {day}; the port is {port}.")

    return step


def _save_bodies(path: Path, bodies: list[Json]) -> None:
    path.write_text("".join(json.dumps(body, ensure_ascii=False) + "\n" for body in bodies), encoding="utf-8")
    path.chmod(0o600)


def _line(message: Json) -> str:
    """One line for a message of a chat completion body."""
    content = message.get("content")
    text = content if isinstance(content, str) else " ".join(as_str(as_dict(p).get("text")) for p in as_list(content))
    calls = [as_dict(as_dict(call).get("function")) for call in as_list(message.get("tool_calls"))]
    if calls and not text:
        text = ", ".join(f"{as_str(call.get('name'))} {as_str(call.get('arguments'))}" for call in calls)
    if text.startswith(OVERVIEW_MARKER):
        text = f"{OVERVIEW_MARKER} ... {len(text)} characters"
    return f"{as_str(message.get('role')):9} {' '.join(text.split())}"
