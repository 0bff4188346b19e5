"""The running program behind any user interface: one open session, its agent and its context store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from vikingpi.agent.hooks import HookChain, StartReason
from vikingpi.agent.loop import Agent
from vikingpi.agent.templates import Library
from vikingpi.app.sessions import Folder, Opened
from vikingpi.app.shell import UserShell
from vikingpi.command import Command
from vikingpi.config.model import Settings
from vikingpi.events import Event, StoreState
from vikingpi.llm.base import Model
from vikingpi.messages import AssistantMessage, ImagePart, TextPart, UserMessage
from vikingpi.session.file import SessionLog
from vikingpi.takeover.replaced import Replaced
from vikingpi.tools.base import close_tools
from vikingpi.values import NamedTuple

if TYPE_CHECKING:
    from vikingpi.app.approval import Approval
    from vikingpi.commands.chooser import Asker, Chooser
    from vikingpi.commands.controls import Controls


class TakeoverControl(Protocol):
    """What a user may ask of takeover; every text is ready to be shown."""

    def state(self) -> StoreState:
        """The figures of the status bar."""
        ...

    async def report(self) -> str:
        """Everything that `/viking` shows."""
        ...

    async def commit(self) -> str:
        """Archive now, whatever the pressure; say what was done or why not."""
        ...

    async def reconnect(self) -> str:
        """Forget the back-off and try the store again."""
        ...

    async def switch(self, on: bool) -> str:
        """Stop or resume capturing on this branch."""
        ...

    def overview(self) -> str:
        """The overview that stands for the covered history, or empty."""
        ...

    def replaced(self) -> Replaced:
        """What the model is shown in place of older history, and what it was shown before that."""
        ...


class MemoryControl(Protocol):
    """What a user may ask of memory; every text is ready to be shown."""

    async def search(self, query: str) -> str:
        """Search this session, past sessions, memories and resources."""
        ...

    async def expand(self, what: str) -> str:
        """Show a user turn by its number, or an archive by its name."""
        ...


class Parts(NamedTuple):
    """All that belongs to one open session."""

    session: SessionLog
    agent: Agent
    hooks: HookChain
    takeover: TakeoverControl | None
    model: Model
    thinking_level: str
    notices: tuple[str, ...]
    folder: Folder
    reason: StartReason = "startup"
    memory: MemoryControl | None = None

    @property
    def cwd(self) -> Path:
        """The folder that tools and commands work in."""
        return self.folder.cwd


class Status(NamedTuple):
    """What the status bar shows; tokens and cost are totals of the session file, -1 while they are not known."""

    cwd: str
    session_name: str
    model: str
    thinking_level: str
    tokens_in: int
    tokens_out: int
    cache_read: int
    cost: float
    context_tokens: int
    context_window: int
    store: StoreState
    approval: str = "off"


class OpenParts(Protocol):
    def __call__(
        self, reason: StartReason, emit: Callable[[Event], None], choose: Callable[[], Opened] | None = None
    ) -> Awaitable[Parts]:
        """Open the session that `choose` gives, else the one that the options ask for, or an empty one."""
        ...


class App:
    """Owns the open session; prompts run one at a time."""

    def __init__(self, settings: Settings, open_parts: OpenParts, close_shared: Callable[[], Awaitable[None]]) -> None:
        self.settings = settings
        self.quit_requested = False
        self.parts: Parts
        self.busy = asyncio.Lock()
        self.commands: tuple[Command, ...] = ()
        self.library = Library()
        self.asker: Asker | None = None
        self.chooser: Chooser | None = None
        self.controls: Controls | None = None
        self.approval: Approval
        self.shell = UserShell(lambda: self.parts.agent, lambda: self.running)
        self._open_parts = open_parts
        self._close_shared = close_shared
        self._listeners: list[Callable[[Event], None]] = []
        self._measured: tuple[object, ...] = ()
        self._context_tokens = -1

    def subscribe(self, listener: Callable[[Event], None]) -> None:
        """Give every event to `listener`, in order, on the loop's thread."""
        self._listeners.append(listener)

    def emit(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

    async def start(self) -> None:
        """Open the session; call once, after the first `subscribe`. Raise ConfigError or SessionError."""
        self.parts = await self._open_parts("startup", self.emit)
        await self.parts.hooks.session_start(self.parts.reason)

    async def submit(self, text: str, images: Sequence[ImagePart] = ()) -> AssistantMessage | None:
        """Run one prompt to its end and return the last answer, None where there is none.

        A call of a template or a skill is sent and stored expanded.
        """
        async with self.busy:
            message = UserMessage((TextPart(self.library.expand(text)), *images), self.parts.agent.now_ms())
            try:
                return await self.parts.agent.prompt(message)
            finally:
                self.shell.settle()

    def abort(self) -> None:
        """End what runs; submit() returns soon after."""
        self.parts.agent.abort()

    @property
    def running(self) -> bool:
        return self.busy.locked()

    async def new_session(self) -> None:
        """Close this session and open an empty one."""
        await self.switch("new")

    async def switch(self, reason: StartReason, choose: Callable[[], Opened] | None = None) -> None:
        """Open another session, then close this one; SessionError or ConfigError with this one still open."""
        async with self.busy:
            self.shell.settle()
            parts, before = await self._open_parts(reason, self.emit, choose), self.parts
            self.shell.close()
            try:
                await _close(before, reason)
            finally:
                self.parts = parts
            await parts.hooks.session_start(reason)

    async def compact(self, instructions: str = "") -> str:
        """Compact now; what happens comes as events. Return an empty text or why nothing was done."""
        async with self.busy:
            try:
                return await self.parts.agent.compact(instructions)
            finally:
                self.shell.settle()

    def status(self) -> Status:
        """The figures of the status bar."""
        parts = self.parts
        session, agent = parts.session, parts.agent
        usage = session.known.totals
        model = agent.deps.model
        store = parts.takeover.state() if parts.takeover is not None else StoreState("off", None)
        measured = (session.id, session.leaf_id, agent.deps.model, agent.deps.thinking_level, store.covered_user_turns)
        if measured != self._measured:
            self._measured, self._context_tokens = measured, agent.context_tokens()
        return Status(
            str(parts.cwd),
            session.known.name or "",
            f"{model.provider}/{model.id}",
            agent.deps.thinking_level,
            usage.input if usage is not None else -1,
            usage.output if usage is not None else -1,
            usage.cache_read if usage is not None else -1,
            usage.cost.total if usage is not None else -1.0,
            self._context_tokens,
            model.context_window,
            store,
            self.approval.mode,
        )

    async def close(self, reason: str) -> None:
        """Bring what is captured to safety and close everything."""
        try:
            if hasattr(self, "parts"):
                self.shell.close()
                self.shell.settle()
                await _close(self.parts, reason)
        finally:
            await self._close_shared()


async def _close(parts: Parts, reason: str) -> None:
    try:
        close_tools(parts.agent.deps.tools)
        await parts.hooks.session_shutdown(reason)
    finally:
        parts.session.close()
