"""What slash commands and user interfaces need of the running program; the application fits by shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from vikingpi.command import Command
from vikingpi.commands.chooser import Asker, Chooser
from vikingpi.commands.controls import Controls
from vikingpi.config.model import Settings
from vikingpi.decode import Json
from vikingpi.errors import VpiError
from vikingpi.events import Event, StoreState
from vikingpi.llm.base import Model
from vikingpi.messages import AssistantMessage, ImagePart
from vikingpi.session.entries import Entry
from vikingpi.session.known import Known
from vikingpi.takeover.replaced import Replaced


class OpenSession(Protocol):
    """The open session; `path` is None where nothing is written."""

    @property
    def id(self) -> str: ...

    @property
    def cwd(self) -> str: ...

    @property
    def path(self) -> Path | None: ...

    @property
    def known(self) -> Known:
        """What is in memory of the file, and its name and totals."""
        ...

    def branch(self) -> tuple[Entry, ...]: ...

    def append(self, type: str, fields: Json) -> Entry:
        """Raise SessionError when the file cannot be written."""
        ...


class Queues(Protocol):
    """The texts that were typed while the agent works and that it has not stored yet."""

    @property
    def steering(self) -> tuple[str, ...]: ...

    @property
    def follow_ups(self) -> tuple[str, ...]: ...

    def drain(self) -> tuple[str, ...]:
        """Take all of them back, in the order of delivery."""
        ...


class Choice(Protocol):
    """Which model answers the next request, and how much it thinks."""

    @property
    def model(self) -> Model: ...

    @property
    def thinking_level(self) -> str: ...


class RunningAgent(Protocol):
    @property
    def inbox(self) -> Queues: ...

    @property
    def deps(self) -> Choice: ...

    @property
    def last_error(self) -> VpiError | None:
        """What the last prompt failed with."""
        ...

    def stop(self) -> None:
        """Let the turn that runs end and make no further request for its prompt."""
        ...

    def steer(self, text: str, images: Sequence[ImagePart] = ()) -> None:
        """Give a text to the model after the answer that runs and its tools."""
        ...

    def follow_up(self, text: str, images: Sequence[ImagePart] = ()) -> None:
        """Give a text to the model when it would otherwise stop."""
        ...

    def use_model(self, model: Model, thinking_level: str) -> None:
        """Use another model or thinking level from the next request on, and record it."""
        ...


class StoreControl(Protocol):
    """What a user may ask of takeover; every text is ready to be shown."""

    async def report(self) -> str: ...

    async def commit(self) -> str: ...

    async def reconnect(self) -> str: ...

    async def switch(self, on: bool) -> str: ...

    def replaced(self) -> Replaced:
        """What the model is shown in place of older history; SessionError when the session cannot be read."""
        ...


class MemoryControl(Protocol):
    """What a user may ask of memory; every text is ready to be shown."""

    async def search(self, query: str) -> str: ...

    async def expand(self, what: str) -> str: ...


class OpenParts(Protocol):
    @property
    def session(self) -> OpenSession: ...

    @property
    def cwd(self) -> Path:
        """The folder that tools and commands work in."""
        ...

    @property
    def agent(self) -> RunningAgent: ...

    @property
    def takeover(self) -> StoreControl | None: ...

    @property
    def memory(self) -> MemoryControl | None: ...

    @property
    def model(self) -> Model: ...

    @property
    def thinking_level(self) -> str: ...

    @property
    def notices(self) -> tuple[str, ...]: ...


class Figures(Protocol):
    """What the status bar shows; tokens and cost are totals of the session."""

    @property
    def cwd(self) -> str: ...

    @property
    def session_name(self) -> str: ...

    @property
    def model(self) -> str: ...

    @property
    def thinking_level(self) -> str: ...

    @property
    def tokens_in(self) -> int: ...

    @property
    def tokens_out(self) -> int: ...

    @property
    def cache_read(self) -> int: ...

    @property
    def cost(self) -> float: ...

    @property
    def context_tokens(self) -> int: ...

    @property
    def context_window(self) -> int: ...

    @property
    def store(self) -> StoreState: ...

    @property
    def approval(self) -> str: ...


class ShellResult(Protocol):
    """What a command of the user's left; `exit_code` is None where it was cancelled or could not start."""

    @property
    def command(self) -> str: ...

    @property
    def output(self) -> str: ...

    @property
    def exit_code(self) -> int | None: ...

    @property
    def cancelled(self) -> bool: ...

    @property
    def full_output_path(self) -> str: ...

    @property
    def excluded(self) -> bool: ...

    @property
    def problem(self) -> str: ...

    @property
    def left(self) -> str: ...


class Shell(Protocol):
    """Commands of the user's, one at a time."""

    @property
    def running(self) -> bool: ...

    async def run(self, command: str, update: Callable[[str], None], *, excluded: bool = False) -> ShellResult:
        """Run and record it; `update` takes the whole tail of its output."""
        ...

    def cancel(self) -> None: ...


class Called(Protocol):
    """Templates and skills."""

    def names(self) -> Sequence[tuple[str, str]]:
        """Return what `/name` calls beside commands, each with what it is for."""
        ...


class Host(Protocol):
    """One open session at a time; prompts run one after another. `asker` is None where nobody can be asked,
    `chooser` where there are no lists to choose from."""

    asker: Asker | None
    chooser: Chooser | None
    controls: Controls | None
    quit_requested: bool
    settings: Settings
    commands: tuple[Command, ...]

    @property
    def parts(self) -> OpenParts: ...

    @property
    def running(self) -> bool: ...

    @property
    def shell(self) -> Shell: ...

    @property
    def library(self) -> Called: ...

    def subscribe(self, listener: Callable[[Event], None]) -> None: ...

    async def start(self) -> None:
        """Open the session; ConfigError or SessionError when that is impossible."""
        ...

    async def submit(self, text: str, images: Sequence[ImagePart] = ()) -> AssistantMessage | None: ...

    def emit(self, event: Event) -> None: ...

    def abort(self) -> None: ...

    async def new_session(self) -> None: ...

    async def compact(self, instructions: str = "") -> str | None:
        """Compact now; return why it was not done, if it was not."""
        ...

    def status(self) -> Figures: ...
