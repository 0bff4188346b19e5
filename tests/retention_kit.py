"""Sixty user turns with one fact each, played through the whole program, and what became of the facts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from vikingpi.app.app import App
from vikingpi.app.options import RunOptions
from vikingpi.app.sessions import Folder
from vikingpi.app.stores import StoreChoice
from vikingpi.app.wiring import Prepared, Seams, build_app
from vikingpi.config.endpoint import Endpoint
from vikingpi.config.model import Settings, Takeover
from vikingpi.config.paths import Paths
from vikingpi.decode import Json
from vikingpi.events import Event
from vikingpi.llm.base import Request
from vikingpi.llm.registry import Catalog
from vikingpi.llm.scripted import ScriptedCall, ScriptedProvider, Step, scripted_model
from vikingpi.memory.hooks import MemoryHooks
from vikingpi.messages import Message, TextPart, text_of, user_text
from vikingpi.net import HttpTransport
from vikingpi.session.entries import Entry
from vikingpi.session.tree import build_context
from vikingpi.tools.base import ToolContext
from vikingpi.viking.overview import SECTIONS, TITLE

TURNS = 60
KEEP = 2
THRESHOLD = 1500

Place = Literal["user", "output", "answer"]


class Fact(NamedTuple):
    """`value` is what has to come back, `told` how it is said, `question` what asks for it later."""

    value: str
    told: str
    question: str
    place: Place


class Figures(NamedTuple):
    """How many facts the last request holds without recall and with it, and how many are one tool call away."""

    shown: int
    recalled: int
    reachable: int
    missing: tuple[str, ...]
    covered: int


_SERVICES = (
    "gateway",
    "billing",
    "search",
    "mailer",
    "scheduler",
    "reports",
    "uploads",
    "sessions",
    "catalog",
    "audit",
)
_PLACES: tuple[Place, ...] = ("user", "user", "user", "output", "user", "answer")


def facts() -> tuple[Fact, ...]:
    """Make the sixty facts: values, paths and decisions, every fourth in Chinese."""
    made: list[Fact] = []
    for number in range(TURNS):
        service = _SERVICES[number % 10]
        made.append(_fact(number, service, number // 10)._replace(place=_PLACES[number % 6]))
    return tuple(made)


def _fact(number: int, service: str, kind: int) -> Fact:
    port, code = str(7100 + 37 * number), f"{service.upper()}-{4100 + 17 * number}"
    if number % 4 == 3:
        return _chinese(number, service, kind)
    match kind:
        case 0:
            return Fact(port, f"The {service} listens on port {port}.", f"Which port does the {service} use?", "user")
        case 1:
            value = f"src/{service}/settings_{number}.toml"
            return Fact(value, f"The {service} configuration is in {value}.", f"Where is the {service} config?", "user")
        case 2:
            return Fact(code, f"The release of {service} is called {code}.", f"What is the {service} release?", "user")
        case 3:
            value = f"maxRetries{number}"
            told = f"We decided to rename the {service} retry limit to {value}."
            return Fact(value, told, f"What did we rename the {service} retry limit to?", "user")
        case 4:
            value = f"owner{number}@example.org"
            return Fact(value, f"The contact for {service} is {value}.", f"Who is the contact for {service}?", "user")
        case _:
            value = f"{3 + number} days"
            told = f"Backups of {service} are kept for {value}."
            return Fact(value, told, f"How long are {service} backups kept?", "user")


def _chinese(number: int, service: str, kind: int) -> Fact:
    things = ("部署窗口", "数据库密码轮换周期", "值班负责人", "日志保留时间", "测试环境地址", "回滚负责人")
    values = (
        f"周{'一二三四五六日'[number % 7]}凌晨{number % 5 + 1}点",
        f"{number + 20}天",
        f"王{'芳伟敏静强磊洋'[number % 7]}{number}号",
        f"{number + 5}个月",
        f"test{number}.example.cn",
        f"李{'娜杰涛明霞'[number % 5]}{number}号",
    )
    thing, value = things[kind], values[kind]
    return Fact(value, f"{service} 的{thing}是{value}。", f"{service} 的{thing}是什么？", "user")


class Played:
    """The program after its sixty turns."""

    def __init__(self, app: App, folder: Path) -> None:
        self.app = app
        self.folder = folder

    def shown(self) -> tuple[Message, ...]:
        session = self.app.parts.session
        return self.app.parts.hooks.context(build_context(session.branch()))

    async def recalled(self, question: str) -> str:
        """What recall would add to a request that asks this, without changing the session."""
        ctx = _Reader(self.app.parts.session.branch(), self.app.settings, self.app.parts.session.id)
        hooks = self.app.parts.hooks
        memory = next(hook for hook in hooks._hooks if isinstance(hook, MemoryHooks))  # pyright: ignore[reportPrivateUsage] # the chain keeps its hooks to itself
        await memory.before_agent_start(ctx, user_text(question, 0, "the-question"))
        return "\n".join(str(data.get("block")) for kind, data in ctx.kept if kind == "ov-recall")

    async def tool(self, name: str, **given: object) -> str:
        tool = next(one for one in self.app.parts.agent.deps.tools if one.spec.name == name)
        outcome = await tool.run(dict(given), ToolContext(self.folder, {}, _ignore, 1.0, self.folder))
        return "".join(part.text for part in outcome.content if isinstance(part, TextPart))


class _Reader:
    """A hook context that notes what would be written."""

    def __init__(self, branch: tuple[Entry, ...], settings: Settings, session_id: str) -> None:
        self.kept: list[tuple[str, Json]] = []
        self.settings = settings
        self.session_id = session_id
        self._branch = branch

    def branch(self) -> tuple[Entry, ...]:
        return self._branch

    def append_custom(self, custom_type: str, data: Json) -> Entry:
        self.kept.append((custom_type, data))
        return Entry("x", None, "custom", "", {})

    def emit(self, event: Event) -> None:
        return None


async def play(folder: Path, endpoint: Endpoint | None, *, model_overviews: bool) -> tuple[Figures, str]:
    """Play the session; return the figures and the last overview.

    The scripted model behind a test server keeps lines that begin with "Remember:", so that is how they are told there.
    """
    told = tuple(fact._replace(told=f"\nRemember: {fact.told}\n") if endpoint else fact for fact in facts())
    project = folder / "project"
    project.mkdir(parents=True)
    for number, fact in enumerate(told):
        (project / f"run{number}.log").write_text(_noise(number, fact), encoding="utf-8")
    provider = ScriptedProvider(_script(told))
    async with asyncio.TaskGroup() as group:
        seams = Seams(HttpTransport(), provider, scripted_model("scripted"), model_overviews=model_overviews)
        app = build_app(_prepared(folder, project, endpoint), "repl", group.create_task, seams)
        await app.start()
        try:
            for number, fact in enumerate(told):
                said = fact.told if fact.place == "user" else f"Please check run {number} now."
                await app.submit(f"{said.lstrip()} The log is run{number}.log.")
                await settled(app)
            return await measure(Played(app, project), told)
        finally:
            await app.close("quit")


async def measure(played: Played, told: Sequence[Fact]) -> tuple[Figures, str]:
    """Look for every fact in the request that would ask for it, and behind one tool call."""
    text = "\n".join(map(text_of, played.shown()))
    shown = recalled = reachable = 0
    missing: list[str] = []
    for number, fact in enumerate(told, 1):
        in_request = fact.value in text
        with_recall = in_request or fact.value in await played.recalled(fact.question)
        found = with_recall or fact.value in await played.tool("viking_search", query=fact.question)
        found = found or fact.value in await played.tool("viking_archive_expand", user_turn=number)
        shown, recalled, reachable = shown + in_request, recalled + with_recall, reachable + found
        if not with_recall:
            missing.append(fact.told)
    control = played.app.parts.takeover
    assert control is not None
    covered = control.state().covered_user_turns
    return Figures(shown, recalled, reachable, tuple(missing), covered), control.overview()


async def settled(app: App) -> None:
    """Let the background finish what the last turn made due."""
    control = app.parts.takeover
    assert control is not None
    for _ in range(3000):
        state = control.state()
        if not state.outbox and not state.open_commit and state.pending_tokens < THRESHOLD:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"takeover did not settle: {control.state()}")


def overview_of(told: Sequence[Fact], asked: str) -> str:
    """Do what a good model would: keep every fact of the old document and the new messages."""
    known = [fact.told for fact in told if fact.value in asked]
    body = dict.fromkeys(SECTIONS, "(none)") | {
        "Key Facts & Decisions": "\n".join(f"- {line}" for line in known) or "(none)",
        "Session Title": "- Sixty facts",
    }
    return f"{TITLE}\n\n" + "\n\n".join(f"## {section}\n{body[section]}" for section in SECTIONS)


def _script(told: Sequence[Fact]) -> Callable[[Request], Step]:
    """Read the log of each turn and answer; an overview is asked for without tools."""

    def step(request: Request) -> Step:
        asked = text_of(request.messages[-1])
        if not request.tools:
            return Step(overview_of(told, asked))
        prompts = [text_of(one) for one in request.messages if one.entry_id and "The log is run" in text_of(one)]
        number = int(prompts[-1].rpartition("run")[2].partition(".")[0])
        if "The log is run" in asked:
            return Step(calls=(ScriptedCall("read", {"path": f"run{number}.log"}),))
        fact = told[number]
        return Step(f"I looked: {fact.told}" if fact.place == "answer" else f"Done with run {number}, all steady.")

    return step


def _noise(number: int, fact: Fact) -> str:
    lines = [f"{hour:02d}:{number:02d} worker {hour % 4}: handled {211 * hour + number} jobs" for hour in range(24)]
    if fact.place == "output":
        lines.insert(11, fact.told.strip())
    return "\n".join(lines)


def _prepared(folder: Path, project: Path, endpoint: Endpoint | None) -> Prepared:
    paths = Paths(folder, folder, folder)
    takeover = Takeover(token_threshold=THRESHOLD, keep_recent_turns=KEEP, overview_poll_ms=100, overview_poll_max=120)
    kind: Literal["openviking", "embedded"] = "embedded" if endpoint is None else "openviking"
    settings = Settings(takeover=takeover, store=kind)
    env: Mapping[str, str] = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(folder)}
    sessions = Folder(folder / "sessions", True, paths, project)
    catalog = Catalog({}, (), paths.models_file, paths.auth_file)
    options = RunOptions(no_context_files=True)
    return Prepared(options, env, project, paths, settings, sessions, StoreChoice(kind, endpoint), catalog, ())


def _ignore(text: str) -> None:
    return None
