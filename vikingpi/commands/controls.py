"""What commands may do with sessions, models and approval; the application fits by shape."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from vikingpi.commands.approve import ApprovalControl
from vikingpi.config.model import Settings
from vikingpi.llm.base import Model
from vikingpi.session.catalog import SessionInfo
from vikingpi.session.entries import Entry
from vikingpi.session.navigate import TreeRow
from vikingpi.values import NamedTuple


class SessionControl(Protocol):
    """Session files. Every method may raise SessionError, with everything as it was."""

    def list(self, *, everywhere: bool) -> tuple[SessionInfo, ...]: ...

    def preview(self, path: Path) -> str:
        """Return the end of what was said in a session."""
        ...

    def rename(self, path: Path, name: str) -> None: ...

    def delete(self, path: Path) -> None: ...

    async def resume(self, session: str | Path) -> None: ...


class TreeControl(Protocol):
    """The tree of the open session; errors as for SessionControl."""

    def name(self, name: str) -> None:
        """Name the session; an empty name takes it away."""
        ...

    def rows(self) -> tuple[TreeRow, ...]:
        """Return every entry in display order."""
        ...

    def label(self, entry_id: str, label: str) -> None: ...

    def prompts(self) -> tuple[Entry, ...]:
        """Return the user messages of the branch, oldest first."""
        ...

    def leaves(self, entry_id: str) -> int:
        """Tell how many messages of the branch a move leaves behind."""
        ...

    async def fork(self, entry_id: str) -> str:
        """Go on in a new session; return a text for the editor."""
        ...

    async def clone(self) -> None: ...

    async def go_to(self, entry_id: str, summary: str | None) -> str:
        """Move in the tree; return a text for the editor."""
        ...


class ModelControl(Protocol):
    @property
    def usable(self) -> Sequence[Model]:
        """The models that can be asked right now."""
        ...

    def find(self, pattern: str) -> tuple[Model, str | None]:
        """Return the model that fits, and the thinking level if the pattern names one; ConfigError for none."""
        ...


class SettingsControl(Protocol):
    """The settings in use; methods raise ConfigError when a file is broken or cannot be written."""

    @property
    def file(self) -> Path:
        """The user's own config.json."""
        ...

    @property
    def own(self) -> Settings:
        """What the user's own file says, without any other place."""
        ...

    def read(self) -> Settings:
        """Read all places anew, use what they say and return it."""
        ...

    def source(self, key: str) -> str:
        """Say where a value stands: a file or a variable, empty for a default."""
        ...

    def store(self, key: str, value: object | None) -> Settings:
        """Put a value into the user's file, or take it out with None; use and return what holds now."""
        ...


class ExportControl(Protocol):
    """Files made of the open session. Every method may raise SessionError."""

    def place(self, target: str) -> Path:
        """Return the file that a text means; one of a free name where it is empty."""
        ...

    async def write(self, path: Path, *, replace: bool) -> str:
        """Write it and say what there is to know about it."""
        ...


class Controls(NamedTuple):
    sessions: SessionControl
    tree: TreeControl
    models: ModelControl
    approval: ApprovalControl
    export: ExportControl
    settings: SettingsControl
