"""What the open session shows to hooks and to takeover."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from vikingpi.app.approval import mode_on
from vikingpi.config.model import Settings
from vikingpi.decode import Json
from vikingpi.events import Event
from vikingpi.session.entries import Entry
from vikingpi.session.file import SessionLog
from vikingpi.session.tree import model_of, records, thinking_of, totals_to_json
from vikingpi.takeover.mirror import SessionRef
from vikingpi.takeover.state import OFF


class SessionContext:
    """A HookContext over one open session."""

    def __init__(self, session: SessionLog, settings: Callable[[], Settings], emit: Callable[[Event], None]) -> None:
        self._session = session
        self._settings = settings
        self._emit = emit

    @property
    def session_id(self) -> str:
        return self._session.id

    @property
    def settings(self) -> Settings:
        return self._settings()

    def branch(self) -> tuple[Entry, ...]:
        return self._session.branch()

    def append_custom(self, custom_type: str, data: Json) -> Entry:
        return self._session.append_custom(custom_type, data)

    def emit(self, event: Event) -> None:
        self._emit(event)


def whole_branch(session: SessionLog) -> tuple[Entry, ...]:
    """Give the branch from its root on; SessionError if the file cannot be read."""
    session.known.load()
    return session.branch()


class History:
    """The branch of a session from its root on, for readers that can wait: the session itself goes on with its end.

    What lies before is read once, off the event loop, and kept from then on; `read` reads it.
    """

    def __init__(self, session: SessionLog, read: Callable[[], tuple[Entry, ...]] | None = None) -> None:
        self._session = session
        self._read = read or session.known.before
        self._before: tuple[Entry, ...] = ()
        self._lock = asyncio.Lock()

    async def __call__(self) -> tuple[Entry, ...]:
        """Give the branch; SessionError if the file cannot be read."""
        async with self._lock:
            while True:
                branch = self._session.branch()
                first = branch[0].parent_id if branch else None
                if first is None:
                    return branch
                if self._before and self._before[-1].id == first:
                    return self._before + branch
                self._before = await asyncio.to_thread(self._read)
                if not self._before:
                    return self._session.branch()


def session_ref(session: SessionLog) -> SessionRef:
    """Give what takeover needs to know of a session; reads all of it where its end does not tell enough."""
    if session.known.skipped is None:
        session.known.load()
    return SessionRef(
        session.id,
        str(session.path or "").encode("utf-8", "replace").decode(),
        session.fresh,
        partial(_extras, session),
        skipped=lambda: session.known.skipped or 0,
        load=session.known.load,
        moved=lambda: session.moved,
    )


def _extras(session: SessionLog, covers: bool) -> Json:
    """What a takeover state keeps of everything before it; `off`: a stretch may have been kept away from the store.

    The totals only where a resume need not read everything: because the state covers something, or a compaction does.
    """
    branch, known = session.branch(), session.known
    model = model_of(branch)
    extras: Json = {
        "thinkingLevel": thinking_of(branch) or "off",
        "entriesBefore": (known.skipped or 0) + len(branch),
        "off": any(entry.raw.get("customType") == OFF for _, entry in records(branch)),
    }
    if known.name is not None:
        extras["name"] = known.name
    if (remembered := mode_on(branch)) is not None:
        extras |= {"approval": remembered.mode, "approvalSeal": remembered.seal}
    skips = covers or any(entry.type == "compaction" for _, entry in records(branch))
    if skips and known.totals is not None:
        extras["totals"] = totals_to_json(known.totals)
    if model is not None:
        extras["model"] = {"provider": model[0], "id": model[1]}
    return extras
