"""The embedded store as a tree of `viking://` addresses.

viking://user/default/memories/profile.md                       memories
viking://user/default/memories/<category>/<name>.md
viking://user/default/sessions/<session>/history/archive_001    archives, `full` is their messages
viking://user/default/sessions/<session>/messages/<number>      single messages
viking://resources/...                                          resources
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator

from vikingpi.decode import as_dict
from vikingpi.errors import StoreRejected
from vikingpi.values import NamedTuple
from vikingpi.viking.base import Level, Node, StoreMessage, archive_name, archive_number
from vikingpi.viking.embedded_index import rendered
from vikingpi.viking.levels import abstract, overview
from vikingpi.viking.uri import check_uri

HOME = "viking://user/default"
MEMORIES = f"{HOME}/memories"
SESSIONS = f"{HOME}/sessions"
RESOURCES = "viking://resources"
MOST_NODES = 1000

# What may be seen: with an empty peer all, else what belongs to that project or to none.
_OPEN_TO_PEER = "(:peer = '' OR p.name IN (:peer, ''))"
_SESSION_OF_PEER = (
    "(:peer = '' OR EXISTS (SELECT 1 FROM passage AS g JOIN peer AS p ON p.id = g.peer"
    " WHERE g.session = s.id AND p.name IN (:peer, '')))"
)

_FIXED = {
    "viking://": ("viking://resources", "viking://user"),
    "viking://user": (HOME,),
    HOME: (MEMORIES, SESSIONS),
    MEMORIES: (),
    SESSIONS: (),
    RESOURCES: (),
}


class SessionPlace(NamedTuple):
    """An address inside of a session: its history, an archive, its messages or one of them."""

    name: str
    kind: str = ""
    number: int = 0


def canonical(uri: str) -> str:
    """Check an address and write the user's own space out in full."""
    text = check_uri(uri)
    if text == "viking://~" or text.startswith("viking://~/"):
        return HOME + text.removeprefix("viking://~")
    return text


def session_uri(name: str) -> str:
    return f"{SESSIONS}/{name}"


def message_uri(name: str, seq: int) -> str:
    return f"{SESSIONS}/{name}/messages/{seq}"


def session_place(uri: str) -> SessionPlace | None:
    """Read an address below the sessions, None for any other."""
    if not uri.startswith(f"{SESSIONS}/"):
        return None
    name, *rest = uri.removeprefix(f"{SESSIONS}/").split("/")
    match rest:
        case []:
            return SessionPlace(name)
        case ["history" | "messages" as kind]:
            return SessionPlace(name, kind)
        case ["history", archive] if archive_number(archive):
            return SessionPlace(name, "history", archive_number(archive))
        case ["messages", number] if number.isdecimal() and int(number):
            return SessionPlace(name, "messages", int(number))
        case _:
            raise missing(uri)


def missing(uri: str) -> StoreRejected:
    return StoreRejected(f"nothing is stored at {uri[:200]}", status=404, code="NOT_FOUND")


def read(db: sqlite3.Connection, uri: str, level: Level, peer: str = "") -> str:
    """Read what stands at a canonical address; with a `peer`, of another project there is nothing."""
    place = session_place(uri)
    if place is not None and place.number:
        return _session_text(db, uri, place, level, peer)
    row = _item(db, uri, peer)
    if row is not None:
        return row[0] if level == "full" else abstract(row[0]) if level == "abstract" else overview(row[0])
    nodes = children(db, uri, peer)
    if level == "full":
        raise StoreRejected(
            f"{uri} is a folder", hint="read its overview, or list it", status=400, code="INVALID_ARGUMENT"
        )
    if level == "abstract":
        return f"{len(nodes)} entries"
    return (
        "\n".join(f"- {node.uri}{'/' if node.folder else ''} {node.abstract}".rstrip() for node in nodes) or "(empty)"
    )


def stat(db: sqlite3.Connection, uri: str, peer: str = "") -> Node:
    """Describe what stands at a canonical address; `peer` as in `read`."""
    place = session_place(uri)
    if place is not None and place.number:
        text = _session_text(db, uri, place, "full", peer)
        return Node(uri, place.kind == "history", abstract(text), len(text))
    row = _item(db, uri, peer)
    if row is not None:
        return Node(uri, False, abstract(row[0]), len(row[0]), row[1])
    return Node(uri, True, f"{len(children(db, uri, peer))} entries")


def children(db: sqlite3.Connection, uri: str, peer: str = "") -> tuple[Node, ...]:
    """List a folder, at most `MOST_NODES` entries; 404 where there is none, 400 for a file."""
    if uri == SESSIONS:
        return tuple(_sessions(db, peer))
    if (place := session_place(uri)) is not None:
        return tuple(_inside(db, uri, place, peer))
    fixed = _FIXED.get(uri)
    found = {child: Node(child, True) for child in fixed or ()}
    low, high = f"{uri.rstrip('/')}/", f"{uri.rstrip('/')}0"
    rows: list[tuple[str, str, str]] = []
    if uri not in ("viking://", "viking://user", HOME):
        query = (
            "SELECT i.uri, i.body, i.updated_at FROM item AS i JOIN peer AS p ON p.id = i.peer"
            f" WHERE i.uri >= :low AND i.uri < :high AND {_OPEN_TO_PEER} ORDER BY i.uri"
        )
        rows = db.execute(query, {"low": low, "high": high, "peer": peer}).fetchall()
    for full, body, changed in rows:
        child, folder, _ = full[len(low) :].partition("/")
        node = Node(low + child, True) if folder else Node(full, False, abstract(body), len(body), changed)
        found.setdefault(node.uri, node)
    if not found and fixed is None:
        if _item(db, uri, peer):
            raise StoreRejected(f"{uri} is a file", hint="read it", status=400, code="INVALID_ARGUMENT")
        raise missing(uri)
    return tuple(found.values())[:MOST_NODES]


def _item(db: sqlite3.Connection, uri: str, peer: str) -> tuple[str, str] | None:
    query = (
        "SELECT i.body, i.updated_at FROM item AS i JOIN peer AS p ON p.id = i.peer"
        f" WHERE i.uri = :uri AND {_OPEN_TO_PEER}"
    )
    return db.execute(query, {"uri": uri, "peer": peer}).fetchone()


def _session(db: sqlite3.Connection, name: str, uri: str, peer: str) -> int:
    """Give the number of a session; 404 where there is none, or none of this project."""
    query = f"SELECT s.id FROM session AS s WHERE s.name = :name AND {_SESSION_OF_PEER}"
    row = db.execute(query, {"name": name, "peer": peer}).fetchone()
    if row is None:
        raise missing(uri)
    return row[0]


def _sessions(db: sqlite3.Connection, peer: str) -> Iterator[Node]:
    query = (
        "SELECT s.name, s.created_at, s.total, s.commits FROM session AS s"
        f" WHERE {_SESSION_OF_PEER} ORDER BY s.name LIMIT :most"
    )
    rows = db.execute(query, {"peer": peer, "most": MOST_NODES})
    for name, created, total, commits in rows:
        yield Node(session_uri(name), True, f"{total} messages, {commits} archives", 0, created)


def _inside(db: sqlite3.Connection, uri: str, place: SessionPlace, peer: str) -> Iterator[Node]:
    session = _session(db, place.name, uri, peer)
    base = session_uri(place.name)
    if place.number:
        raise StoreRejected(f"{uri} holds no further entries", hint="read it", status=400, code="INVALID_ARGUMENT")
    if not place.kind:
        yield Node(f"{base}/history", True)
        yield Node(f"{base}/messages", True)
    elif place.kind == "history":
        query = "SELECT number, created_at, length(overview) FROM archive WHERE session = ? ORDER BY number LIMIT ?"
        for number, created, size in db.execute(query, (session, MOST_NODES)):
            yield Node(f"{base}/history/{archive_name(number)}", True, "", size, created)
    else:
        query = "SELECT seq, body FROM message WHERE session = ? ORDER BY seq DESC LIMIT ?"
        for seq, body in reversed(db.execute(query, (session, MOST_NODES)).fetchall()):
            message = _message(body)
            if not _of_peer(message, peer):
                continue
            text = rendered(message)
            yield Node(message_uri(place.name, seq), False, abstract(text), len(text), message.created_at)


def _session_text(db: sqlite3.Connection, uri: str, place: SessionPlace, level: Level, peer: str) -> str:
    session = _session(db, place.name, uri, peer)
    if place.kind == "messages":
        query = "SELECT body FROM message WHERE session = ? AND seq = ?"
        row = db.execute(query, (session, place.number)).fetchone()
        if row is None or not _of_peer(_message(row[0]), peer):
            raise missing(uri)
        text = rendered(_message(row[0]))
        return text if level == "full" else abstract(text) if level == "abstract" else overview(text)
    query = "SELECT overview FROM archive WHERE session = ? AND number = ?"
    row = db.execute(query, (session, place.number)).fetchone()
    if row is None:
        raise missing(uri)
    if level != "full":
        return row[0] if level == "overview" else abstract(row[0].removeprefix("# Working Memory").lstrip())
    query = "SELECT body FROM message WHERE session = ? AND archive = ? ORDER BY seq"
    messages = (_message(body) for (body,) in db.execute(query, (session, place.number)))
    return "\n\n".join(rendered(message) for message in messages if _of_peer(message, peer))


def _of_peer(message: StoreMessage, peer: str) -> bool:
    return not peer or message.peer_id in (peer, "")


def _message(body: str) -> StoreMessage:
    return StoreMessage.from_json(as_dict(json.loads(body)))
