"""The seam between takeover, memory and a context store.

Archives are numbered from 1 without gaps; `archive_name(3)` is "archive_003". A store session is named by a
generation. Every method may raise StoreUnreachable or StoreRejected and nothing else of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from vikingpi.decode import Json, as_dict, as_list, as_str
from vikingpi.values import NamedTuple

# How the marks of messages begin that stand in for others: for what an earlier generation held, for what was refused.
STAND_IN_MARKS = ("seed:", "refused:")
SEED_TITLE = "[earlier overview]"

MessageKind = Literal["", "user_query", "tool_transport"]


class StoreMessage(NamedTuple):
    """One message for the store. `parts` are the server's: {"type": "text", "text"} and {"type": "tool", "tool_id",
    "tool_name", "tool_input": object, "tool_output": str, "tool_status"}. `created_at` is ISO 8601 UTC."""

    role: Literal["user", "assistant"]
    parts: tuple[Json, ...]
    created_at: str
    turn_id: str
    marks: tuple[str, ...]
    peer_id: str = ""
    kind: MessageKind = ""

    def to_json(self) -> Json:
        """Give the body of POST messages (openviking 0.5 API)."""
        body: Json = {
            "role": self.role,
            "parts": list(self.parts),
            "created_at": self.created_at,
            "turn_id": self.turn_id,
            "source_message_ids": list(self.marks),
        }
        if self.peer_id:
            body["peer_id"] = self.peer_id
        if self.kind:
            body["message_kind"] = self.kind
        return body

    @staticmethod
    def from_json(body: Json) -> StoreMessage:
        kind = as_str(body.get("message_kind"))
        return StoreMessage(
            role="assistant" if body.get("role") == "assistant" else "user",
            parts=tuple(as_dict(part) for part in as_list(body.get("parts"))),
            created_at=as_str(body.get("created_at")),
            turn_id=as_str(body.get("turn_id")),
            marks=tuple(as_str(mark) for mark in as_list(body.get("source_message_ids"))),
            peer_id=as_str(body.get("peer_id")),
            kind=kind if kind in ("user_query", "tool_transport") else "",
        )


class Health(NamedTuple):
    """`account` and `user` are whose space it is, as the store reports them for the key."""

    version: str
    account: str
    user: str
    endpoint: str


class SessionStatus(NamedTuple):
    """`total_messages` counts all ever stored, commits leave it alone; `pending_tokens` is the store's own estimate of
    what a commit would archive. Either is None where the store does not say."""

    created_at: str
    total_messages: int | None
    live_messages: int
    commit_count: int
    pending_tokens: int | None = None


class CommitReceipt(NamedTuple):
    """`accepted` is False for "skipped": there was nothing to archive. `task_id` may be empty."""

    accepted: bool
    task_id: str = ""
    archive: int = 0
    makes_overview: bool = True


class Archive(NamedTuple):
    """`marks` of all its messages; `overview` may be empty or a placeholder: the caller judges."""

    number: int
    overview: str
    marks: frozenset[str]
    messages: tuple[StoreMessage, ...] = ()


TaskState = Literal["pending", "completed", "failed", "gone"]


class SessionStore(Protocol):
    @property
    def kind(self) -> Literal["openviking", "embedded"]: ...

    async def health(self) -> Health:
        """Ask whether the store works and whose space it is."""
        ...

    async def ensure_session(self, name: str, *, memories: bool = True) -> SessionStatus:
        """Create the session unless it exists; working memory on, automatic commits off.

        `memories` False asks for a session without long-term extraction. A server fixes this when it creates the
        session: it holds for all later commits, and an existing session keeps what it has.
        """
        ...

    async def add_messages(self, name: str, messages: Sequence[StoreMessage]) -> None:
        """Append at most 100 messages in order, all or none. 404 raises StoreRejected with status 404."""
        ...

    async def session_status(self, name: str) -> SessionStatus | None:
        """None: there is no such session."""
        ...

    async def marks(self, name: str, since_archive: int) -> frozenset[str]:
        """Marks of the live messages, of archives still in the making, and of archives after `since_archive`."""
        ...

    async def commit(self, name: str, keep: int) -> CommitReceipt | None:
        """Archive all but the last `keep` messages, asking for an overview. None: there is no such session."""
        ...

    async def unfinished_task(self, name: str) -> bool:
        """Whether an archive of this session is still in the making."""
        ...

    async def task(self, task_id: str) -> TaskState:
        """Tell how an archive's task stands; "gone": the store does not know it (any more)."""
        ...

    async def archive(self, name: str, number: int) -> Archive | None:
        """None: pending, failed, blank or unknown; the task tells which."""
        ...

    async def close(self) -> None: ...


Level = Literal["abstract", "overview", "full"]

# What a session file keeps of memory, as `custom` entries.
RECALL_ENTRY = "ov-recall"
PROFILE_ENTRY = "ov-profile"


class RecallQuery(NamedTuple):
    """What a prompt may be reminded of: at most `limit` hits of together `budget` tokens, each with a score of at
    least `threshold` (0 to 1).

    `marks` and `uris` are what the request holds already. `peer` limits it to one project, "" takes all.
    """

    text: str
    budget: int
    limit: int
    threshold: float
    marks: frozenset[str] = frozenset()
    uris: frozenset[str] = frozenset()
    peer: str = ""


class Hit(NamedTuple):
    """Something the store found; `category` is "message" for what was said in a session, "resource", or a memory's.

    `text` is the passage, or "" where the store gives only the address. `score` is from 0 to 1, `date` ISO or "".
    """

    uri: str
    category: str
    score: float
    text: str
    date: str = ""


class Node(NamedTuple):
    """A file or folder of the store; `abstract` is one line or "", `size` in characters, 0 where unknown."""

    uri: str
    folder: bool
    abstract: str = ""
    size: int = 0
    changed: str = ""


class Written(NamedTuple):
    """What was stored, where, and what the store said about it."""

    uri: str
    note: str = ""


class MemoryStore(Protocol):
    """Memories, resources and past sessions, by search and by `viking://` address.

    A bad address raises StoreRejected with status 400, one where nothing is with status 404.
    """

    async def search_context(self, query: RecallQuery) -> tuple[Hit, ...]:
        """Find what a prompt should be reminded of, best first; nothing that the request holds already."""
        ...

    async def find(self, text: str, *, scope: str = "", limit: int = 10, peer: str = "") -> tuple[Hit, ...]:
        """Search, best first. `scope` is "memories", "resources", "sessions", an address to search below, or ""."""
        ...

    async def read(self, uri: str, level: Level = "full", *, peer: str = "") -> str:
        """Read a file; a folder has an abstract and an overview only. For a `peer` nothing of other projects is there,
        neither memories nor sessions, as far as the store can tell them apart."""
        ...

    async def list(self, uri: str, *, peer: str = "") -> tuple[Node, ...]:
        """Give what is directly in a folder, sorted by address; a `peer` leaves out what is other projects'."""
        ...

    async def stat(self, uri: str, *, peer: str = "") -> Node: ...

    async def write(self, content: str, category: str, *, peer: str = "") -> Written:
        """Remember a text under a category of `CATEGORIES`. "profile" is one text that grows."""
        ...

    async def delete(self, uri: str) -> int:
        """Delete one thing and what is below it, return how many; 403 for a root or a folder of everything."""
        ...

    async def add_resource(self, place: str, reason: str = "") -> Written:
        """Take in what an URL (or, where the store runs here, a local path) holds."""
        ...

    async def profile(self, budget: int, *, peer: str = "") -> str:
        """Give what is known about the user, at most `budget` tokens, "" for nothing; `peer` as in `RecallQuery`."""
        ...


CATEGORIES = ("profile", "preferences", "entities", "events", "experiences")


def archive_name(number: int) -> str:
    """Give the name of an archive, "archive_007"."""
    return f"archive_{number:03d}"


def archive_number(text: str) -> int:
    """Read the number from an archive name or URI; 0 where there is none."""
    tail = text.rstrip("/").rsplit("archive_", 1)
    return int(tail[1]) if len(tail) == 2 and tail[1].isdecimal() else 0
