"""Memories, resources and past sessions in the embedded store, by search and by address."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Sequence, Set
from functools import partial
from pathlib import Path

from vikingpi.decode import as_dict
from vikingpi.errors import StoreRejected
from vikingpi.net import Transport
from vikingpi.tokens import estimate
from vikingpi.values import NamedTuple
from vikingpi.viking import embedded_browse as browse
from vikingpi.viking import embedded_index as index
from vikingpi.viking.base import CATEGORIES, Hit, Level, Node, RecallQuery, StoreMessage, Written
from vikingpi.viking.embedded import StoreFile
from vikingpi.viking.facts import is_change
from vikingpi.viking.gather import Gathered, gather_page, gather_path, slug, without_secrets
from vikingpi.viking.levels import abstract
from vikingpi.viking.outgoing import whole
from vikingpi.viking.profile_text import elided, section
from vikingpi.viking.uri import check_deletable

PROFILE = f"{browse.MEMORIES}/profile.md"

_KINDS = {"memories": "memory", "resources": "resource", "sessions": "message"}
_HIT_OVERHEAD = 25
_MOST = 0.5
_ASKS = 0.25


class EmbeddedMemory:
    """The MemoryStore over the file of the embedded store. Closing the file is its owner's business.

    `mask` hides secrets in what is taken in from a place.
    """

    def __init__(
        self, file: StoreFile, clock: Callable[[], int], transport: Transport, mask: Callable[[str], str] = str
    ) -> None:
        self._file = file
        self._clock = clock
        self._transport = transport
        self._mask = mask

    async def search_context(self, query: RecallQuery) -> tuple[Hit, ...]:
        found = await self._file.read(partial(_search, text=query.text, where=index.Where(peer=query.peer)))
        kept: list[Hit] = []
        used = 0
        for one in _near_enough(found, query.threshold):
            cost = estimate(one.hit.text) + _HIT_OVERHEAD
            if len(kept) == query.limit:
                break
            if not _reminds(one, query) or used + cost > query.budget:
                continue
            used += cost
            kept.append(one.hit)
        return tuple(kept)

    async def find(self, text: str, *, scope: str = "", limit: int = 10, peer: str = "") -> tuple[Hit, ...]:
        found = await self._file.read(partial(_scoped_search, text=text, scope=scope, peer=peer))
        return tuple(one.hit for one in found[: max(1, limit)])

    async def read(self, uri: str, level: Level = "full", *, peer: str = "") -> str:
        return await self._file.read(partial(browse.read, uri=browse.canonical(uri), level=level, peer=peer))

    async def list(self, uri: str, *, peer: str = "") -> tuple[Node, ...]:
        return await self._file.read(partial(browse.children, uri=browse.canonical(uri), peer=peer))

    async def stat(self, uri: str, *, peer: str = "") -> Node:
        return await self._file.read(partial(browse.stat, uri=browse.canonical(uri), peer=peer))

    async def write(self, content: str, category: str, *, peer: str = "") -> Written:
        text = whole(content).strip()
        if not text or category not in CATEGORIES:
            raise StoreRejected(
                "there is nothing to remember" if not text else f"there is no category {category[:60]!r}",
                hint=f"categories are {', '.join(CATEGORIES)}",
                status=400,
                code="INVALID_ARGUMENT",
            )
        stamp = _iso(self._clock())
        if category == "profile":
            known = await self._file.write(partial(_extend_profile, text=text, stamp=stamp))
            return Written(PROFILE, "known already" if known else "added to the profile")
        name = f"{slug(' '.join(text.split()[:6]))[:48]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.md"
        item = _Item(f"{browse.MEMORIES}/{category}/{name}", "memory", category, peer, text)
        known = await self._put([item], stamp)
        return Written(item.uri, "known already" if known else "stored")

    async def delete(self, uri: str) -> int:
        target = check_deletable(browse.canonical(uri))
        count = await self._file.write(partial(_delete, uri=target, now=_iso(self._clock())))
        if not count:
            raise browse.missing(target)
        return count

    async def add_resource(self, place: str, reason: str = "") -> Written:
        gathered = without_secrets(await self._gather(place.strip()), self._mask)
        items = [
            _Item(f"{browse.RESOURCES}/{one.name}", "resource", "resource", "", whole(one.text), place, whole(reason))
            for one in gathered.documents
        ]
        top = f"{browse.RESOURCES}/{gathered.top}"
        await self._put(items, _iso(self._clock()), top if gathered.folder else "")
        return Written(top, gathered.note)

    async def profile(self, budget: int, *, peer: str = "") -> str:
        return await self._file.read(partial(_profile, budget=budget, peer=peer))

    async def _gather(self, place: str) -> Gathered:
        if "://" in place:
            return await gather_page(self._transport, place)
        return await asyncio.to_thread(gather_path, Path(place))

    async def _put(self, items: Sequence[_Item], stamp: str, folder: str = "") -> int:
        """Store items in place of those at the same addresses; return how many were there as they are.

        What else was below `folder` is deleted.
        """
        ready = await asyncio.to_thread(lambda: [(item, index.pieces_of(item.body)) for item in items])

        def work(db: sqlite3.Connection) -> int:
            if folder:
                _delete_below(db, folder, {item.uri for item in items})
            return sum(_put(db, item, pieces, stamp) for item, pieces in ready)

        return await self._file.write(work)


class _Item(NamedTuple):
    uri: str
    kind: str
    category: str
    peer: str
    body: str
    source: str = ""
    reason: str = ""


class _Match(NamedTuple):
    """A hit with the passage it comes from and, for a message, its marks."""

    hit: Hit
    passage: index.Found
    marks: frozenset[str]


def _near_enough(found: Sequence[_Match], threshold: float) -> list[_Match]:
    """Choose what reaches the threshold, and half of it where a change is told of what an older one speaks of."""
    near = [one for one in found if one.passage.score >= threshold]

    def follows(one: _Match) -> bool:
        return any(one.passage.id > old.passage.id and len(one.passage.hit & old.passage.hit) > 1 for old in near)

    changes = [
        one
        for one in found
        if threshold / 2 <= one.passage.score < threshold and is_change(one.hit.text) and follows(one)
    ]
    return near + changes


def _reminds(one: _Match, query: RecallQuery) -> bool:
    """Whether a hit tells a prompt something that its request does not hold."""
    if one.hit.uri in query.uris or one.marks & query.marks:
        return False
    if _only_asks(one.hit):
        return False
    # What was once said in passing has to speak of more than one word of the prompt, unless it is most of a question.
    most = query.text.rstrip().endswith(("?", "？")) and one.passage.score >= _MOST
    enough = 1 if one.passage.item or most else 2
    return len(one.passage.hit) >= enough and one.passage.fresh >= 1


def _only_asks(hit: Hit) -> bool:
    """Whether a message is a short question: the answer is worth more than it."""
    text = hit.text
    short = hit.category == "message" and text.startswith("user: ") and len(text) < 300
    return short and text.rstrip().endswith(("?", "？"))


def _search(db: sqlite3.Connection, text: str, where: index.Where) -> list[_Match]:
    found: list[_Match] = []
    seen: set[str] = set()
    for passage in index.search(db, text, where):
        folded = " ".join(passage.text.split()).casefold()
        if passage.score <= 0 or not folded or folded in seen:
            continue
        match = _match(db, passage)
        if match.hit.uri not in seen:
            seen |= {folded, match.hit.uri}
            found.append(match)
    # Who asks for it again says the words of the question best, and does not answer it.
    return sorted(found, key=lambda match: -round(match.passage.score * (_ASKS if _only_asks(match.hit) else 1), 1))


def _scoped_search(db: sqlite3.Connection, text: str, scope: str, peer: str) -> list[_Match]:
    if not scope or scope in _KINDS:
        kinds = frozenset({_KINDS[scope]} if scope else ())
        return _search(db, text, index.Where(kinds, peer=peer))
    uri = browse.canonical(scope)
    if uri in ("viking://", "viking://user", browse.HOME):
        kinds = frozenset({"memory", "message"} if uri != "viking://" else ())
        return _search(db, text, index.Where(kinds, peer=peer))
    if uri == browse.SESSIONS:
        return _search(db, text, index.Where(frozenset({"message"}), peer=peer))
    place = browse.session_place(uri)
    if place is None:
        return _search(db, text, index.Where(under=uri, peer=peer))
    row = db.execute("SELECT id FROM session WHERE name = ?", (place.name,)).fetchone()
    if row is None:
        raise browse.missing(uri)
    return _search(db, text, index.Where(session=row[0], peer=peer))


def _match(db: sqlite3.Connection, passage: index.Found) -> _Match:
    score = round(passage.score, 3)
    if passage.item:
        query = "SELECT uri, category, updated_at FROM item WHERE id = ?"
        uri, category, changed = db.execute(query, (passage.item,)).fetchone()
        return _Match(Hit(uri, category, score, passage.text, changed), passage, frozenset())
    message = passage.message
    assert message is not None
    name = db.execute("SELECT name FROM session WHERE id = ?", (passage.session,)).fetchone()[0]
    text = f"{message.role}: {passage.text}"
    hit = Hit(browse.message_uri(name, passage.seq), "message", score, text, message.created_at)
    return _Match(hit, passage, frozenset(message.marks))


def _put(db: sqlite3.Connection, item: _Item, pieces: Sequence[index.Piece], stamp: str) -> bool:
    """Store one item; True when it is there as it is already."""
    old = db.execute("SELECT id, body FROM item WHERE uri = ?", (item.uri,)).fetchone()
    if old is not None and old[1] == item.body:
        db.execute("UPDATE item SET updated_at = ?, reason = ? WHERE id = ?", (stamp, item.reason, old[0]))
        return True
    if old is not None:
        _drop_item(db, old[0], old[1])
    values = (item.uri, item.kind, item.category, index.peer_id(db, item.peer), item.body, item.source, item.reason)
    made = db.execute(
        "INSERT INTO item (uri, kind, category, peer, body, source, reason, created_at, updated_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, stamp, stamp),
    )
    assert made.lastrowid is not None
    index.add_item(db, made.lastrowid, item.peer, pieces)
    return False


def _drop_item(db: sqlite3.Connection, item: int, body: str) -> None:
    rows = db.execute("SELECT id, start, stop FROM passage WHERE item = ?", (item,)).fetchall()
    index.remove(db, [(passage, body[start:stop]) for passage, start, stop in rows])
    db.execute("DELETE FROM item WHERE id = ?", (item,))


def _extend_profile(db: sqlite3.Connection, text: str, stamp: str) -> bool:
    row = db.execute("SELECT body FROM item WHERE uri = ?", (PROFILE,)).fetchone()
    known = row[0] if row else ""
    if text in known:
        return True
    body = f"{known}\n{text}".strip()
    return _put(db, _Item(PROFILE, "memory", "profile", "", body), index.pieces_of(body), stamp)


def _delete(db: sqlite3.Connection, uri: str, now: str) -> int:
    place = browse.session_place(uri)
    if place is not None:
        return _delete_session(db, uri, place, now)
    return _delete_below(db, uri, frozenset())


def _delete_below(db: sqlite3.Connection, uri: str, but: Set[str]) -> int:
    query = "SELECT id, body, uri FROM item WHERE uri = ? OR (uri >= ? AND uri < ?)"
    rows = [row for row in db.execute(query, (uri, f"{uri}/", f"{uri}0")) if row[2] not in but]
    for item, body, _ in rows:
        _drop_item(db, item, body)
    return len(rows)


def _delete_session(db: sqlite3.Connection, uri: str, place: browse.SessionPlace, now: str) -> int:
    if place.kind:
        raise StoreRejected(
            f"{uri} is a part of a session", hint="delete the whole session", status=403, code="PERMISSION_DENIED"
        )
    row = db.execute("SELECT id FROM session WHERE name = ?", (place.name,)).fetchone()
    if row is None:
        return 0
    passages = db.execute("SELECT id, seq, start, stop FROM passage WHERE session = ? ORDER BY seq", row).fetchall()
    messages = {
        seq: StoreMessage.from_json(as_dict(json.loads(body)))
        for seq, body in db.execute("SELECT seq, body FROM message WHERE session = ?", row)
    }
    texts = {seq: index.searchable(message) for seq, message in messages.items()}
    index.remove(db, [(passage, texts[seq][start:stop]) for passage, seq, start, stop in passages])
    index.forget(db, place.name, messages.values(), now)
    db.execute("DELETE FROM session WHERE id = ?", row)
    return max(1, len(texts))


def _profile(db: sqlite3.Connection, budget: int, peer: str) -> str:
    """Half of the budget for the profile, the rest for preferences, in full, and the names of entities."""
    row = db.execute("SELECT body FROM item WHERE uri = ?", (PROFILE,)).fetchone()
    parts = [f"## Profile\n{elided(row[0], budget // 2)}"] if row else []
    query = (
        "SELECT i.body FROM item AS i JOIN peer AS p ON p.id = i.peer WHERE i.kind = 'memory' AND i.category = ?1"
        " AND (?2 = '' OR p.name = ?2) ORDER BY i.updated_at DESC, i.id DESC"
    )
    for title, category in (("Preferences", "preferences"), ("Entities", "entities")):
        bodies = [body for (body,) in db.execute(query, (category, peer))]
        lines = (" ".join(body.split()) if category == "preferences" else abstract(body) for body in bodies)
        made = section(title, lines, budget - sum(map(estimate, parts)) - len(parts))
        parts += [made] if made else []
    return "\n\n".join(parts)


def _iso(ms: int) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(ms // 1000))}.{ms % 1000:03d}Z"
