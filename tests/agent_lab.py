"""What the tests of the agent share: an agent over a scripted provider, a memory session and recording fakes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from vikingpi.agent.deps import AgentDeps
from vikingpi.agent.hooks import AgentHooks, HookChain
from vikingpi.agent.loop import Agent
from vikingpi.config.model import Compaction, Settings
from vikingpi.decode import Json
from vikingpi.events import Event
from vikingpi.llm.base import Model
from vikingpi.llm.registry import find_provider
from vikingpi.llm.scripted import Script, ScriptedCall, ScriptedProvider, Step, scripted_model
from vikingpi.messages import AssistantMessage, Message, ToolSpec, UserMessage, text_of, user_text
from vikingpi.net import HttpTransport
from vikingpi.session.entries import Entry
from vikingpi.session.file import SessionLog, memory_session
from vikingpi.session.tree import build_context
from vikingpi.tools.base import Tool, ToolContext, ToolOutcome, text_outcome


class Work:
    """A tool that does what it was made for; `ran` holds the arguments of every run."""

    def __init__(
        self,
        work: Callable[[Json, ToolContext], Awaitable[ToolOutcome]],
        *,
        name: str = "work",
        key: Callable[[Json], str | None] = lambda arguments: None,
    ) -> None:
        self.ran: list[Json] = []
        self._spec = ToolSpec(name, f"The tool {name}.", {"type": "object", "properties": {"n": {"type": "number"}}})
        self._work = work
        self._key = key

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    def lock_key(self, arguments: Json, context: ToolContext) -> str | None:
        return self._key(arguments)

    async def run(self, arguments: Json, context: ToolContext) -> ToolOutcome:
        self.ran.append(arguments)
        return await self._work(arguments, context)


def says(text: str, *, name: str = "work") -> Work:
    """A tool that answers with `text`."""

    async def work(arguments: Json, context: ToolContext) -> ToolOutcome:
        return text_outcome(text)

    return Work(work, name=name)


def sleeps(*, name: str = "work", tail: str = "") -> Work:
    """A tool that shows `tail` and then never ends by itself."""

    async def work(arguments: Json, context: ToolContext) -> ToolOutcome:
        if tail:
            context.update(tail)
        await asyncio.sleep(60)
        return text_outcome("slept")

    return Work(work, name=name)


class Context:
    """What hooks get, with the session behind it."""

    def __init__(self, session: SessionLog, settings: Settings, emit: Callable[[Event], None]) -> None:
        self._session = session
        self._settings = settings
        self._emit = emit

    @property
    def session_id(self) -> str:
        return self._session.id

    @property
    def settings(self) -> Settings:
        return self._settings

    def branch(self) -> tuple[Entry, ...]:
        return self._session.branch()

    def append_custom(self, custom_type: str, data: Json) -> Entry:
        return self._session.append_custom(custom_type, data)

    def emit(self, event: Event) -> None:
        self._emit(event)


def tool_context(update: Callable[[str], None]) -> ToolContext:
    return ToolContext(Path("/work"), {}, update, 5.0, Path("/tmp"))


class Lab:
    """`agent` works against `provider`; `events` and `slept` say what happened."""

    def __init__(
        self,
        script: Script,
        *,
        tools: Sequence[Tool] = (),
        hooks: Sequence[AgentHooks] = (),
        model: Model | None = None,
        session: SessionLog | None = None,
        compaction: Compaction | None = None,
        enforce_window: bool = False,
    ) -> None:
        self.events: list[Event] = []
        self.slept: list[float] = []
        self.now = 1_000_000
        self.when: dict[type[Event], Callable[[], object]] = {}
        self.provider = ScriptedProvider(script, enforce_window=enforce_window)
        self.session = session if session is not None else memory_session("/work")
        settings = Settings(compaction=compaction or Compaction())
        chain = HookChain(hooks, Context(self.session, settings, self.emit))
        self.agent = Agent(
            AgentDeps(
                session=self.session,
                model=model or scripted_model(),
                thinking_level="off",
                provider_for=self.provider,
                tools=tuple(tools),
                hooks=chain,
                emit=self.emit,
                settings=settings,
                system=lambda: "You are a test.",
                tool_context=tool_context,
                clock=self.clock,
                sleep=self.sleep,
            )
        )

    def clock(self) -> int:
        self.now += 1
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    def emit(self, event: Event) -> None:
        self.events.append(event)
        if type(event) in self.when:
            self.when[type(event)]()

    async def ask(self, text: str) -> AssistantMessage | None:
        return await self.agent.prompt(user_text(text, self.clock()))

    def run(self, *texts: str) -> AssistantMessage | None:
        """Run prompts one after the other and return the last answer."""

        async def main() -> AssistantMessage | None:
            answer = None
            for text in texts:
                answer = await self.ask(text)
            return answer

        return asyncio.run(main())

    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.events if type(event).__name__ != "MessageUpdate"]

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    def stored(self) -> tuple[Message, ...]:
        return build_context(self.session.branch())

    def types(self) -> list[str]:
        return [entry.type for entry in self.session.branch()]

    def entries(self, kind: str) -> list[Entry]:
        return [entry for entry in self.session.branch() if entry.type == kind]

    def sent(self, request: int = -1) -> list[str]:
        """The texts of the messages of a request, each with the first letter of its role."""
        return [outline(message) for message in self.provider.requests[request].messages]


async def over_http(lab: Lab, *prompts: str) -> AssistantMessage | None:
    """Ask the server that the lab's model names, and return the last answer."""
    transport, answer = HttpTransport(), None
    lab.agent.deps = lab.agent.deps._replace(provider_for=find_provider(transport))
    try:
        for prompt in prompts:
            answer = await lab.ask(prompt)
    finally:
        await transport.close()
    return answer


def outline(message: Message) -> str:
    """`u:text`, `a:text(call ids)` or `r[call id]:text`."""
    match message:
        case UserMessage():
            return f"u:{text_of(message)}"
        case AssistantMessage():
            calls = f"({','.join(call.id for call in message.calls)})" if message.calls else ""
            return f"a:{message.text}{calls}"
        case _:
            return f"r[{message.tool_call_id}]:{text_of(message)}"


def call(name: str = "work", id: str = "", **arguments: object) -> ScriptedCall:
    return ScriptedCall(name, dict(arguments), id)


def calls(*made: ScriptedCall, text: str = "") -> Step:
    return Step(text=text, calls=made)
