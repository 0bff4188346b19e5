"""The full text index of the embedded store: which pieces of text it holds and how they are found.

Candidates are ranked by the term weights of bm25; passages are of about one length and seldom repeat a term, so that
its other factors say little, and FTS5 would read a row for each match to know them. The score that callers see is the
share of the query that a passage speaks of, in the same weights, so that a threshold means the same for every query.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Sequence, Set

from vikingpi.decode import as_dict, as_str
from vikingpi.values import NamedTuple
from vikingpi.viking.base import STAND_IN_MARKS, StoreMessage
from vikingpi.viking.outgoing import whole
from vikingpi.viking.words import is_cjk, matches, passages, query_terms, telling, terms

COMMON = 2000
CANDIDATES = 40
INDEXED_HEAD, INDEXED_TAIL = 40_000, 20_000

_RARE_TERMS = 8
_JUDGED_TERMS = 8
_PAGE = 100
# In a smaller store half of the passages are too few to tell.
_TELLABLE = 100
_RECENT = 500
_FAINT = 0.2


class Piece(NamedTuple):
    """One passage to be indexed: where it stands in its text, and its terms."""

    start: int
    stop: int
    terms: str


class Found(NamedTuple):
    """A passage with its score from 0 to 1; `item` is 0 for a message. `hit` has the query's terms in it, only the
    telling ones where the query has several, `fresh` counts the terms that the query did not have."""

    id: int
    item: int
    session: int
    seq: int
    message: StoreMessage | None
    text: str
    score: float
    hit: frozenset[str]
    fresh: int


class Where(NamedTuple):
    """What to search: `kinds` of memory, resource, message (empty: all), a URI prefix of items, one peer ("": all)."""

    kinds: frozenset[str] = frozenset()
    under: str = ""
    session: int = 0
    peer: str = ""


def searchable(message: StoreMessage) -> str:
    """Give the text of a message that can be found: without what the tools of memory brought up, which stands in the
    store already; nothing of a message that stands in for others, which nobody said."""
    if _stands_in(message):
        return ""
    return _spoken(message)


def _stands_in(message: StoreMessage) -> bool:
    return any(mark.startswith(STAND_IN_MARKS) for mark in message.marks)


def _spoken(message: StoreMessage) -> str:
    parts = tuple(part for part in message.parts if not as_str(part.get("tool_name")).startswith("viking_"))
    return _flat(message._replace(parts=parts))


def rendered(message: StoreMessage) -> str:
    """Give a message to read: who spoke, what was said, each call with what it was given and what came out."""
    return f"{message.role}: {_flat(message)}"


def _flat(message: StoreMessage) -> str:
    lines: list[str] = []
    for part in message.parts:
        if part.get("type") == "tool":
            given = json.dumps(as_dict(part.get("tool_input")), ensure_ascii=False)
            lines.append(f"[{as_str(part.get('tool_name'))} {given}]\n{as_str(part.get('tool_output'))}")
        else:
            lines.append(as_str(part.get("text")))
    return "\n".join(lines)


def pieces_of(text: str) -> list[Piece]:
    """Cut a text into passages; of a very long one its beginning and its end."""
    spans = passages(text[:INDEXED_HEAD])
    if len(text) > INDEXED_HEAD:
        offset = max(INDEXED_HEAD, len(text) - INDEXED_TAIL)
        spans += [(offset + start, offset + stop) for start, stop in passages(text[offset:])]
    return [Piece(start, stop, " ".join(terms(text[start:stop]))) for start, stop in spans]


def peer_id(db: sqlite3.Connection, name: str) -> int:
    """Give the number of a peer, a new one where it has none."""
    db.execute("INSERT OR IGNORE INTO peer (name) VALUES (?)", (name,))
    return int(db.execute("SELECT id FROM peer WHERE name = ?", (name,)).fetchone()[0])


def add_message(db: sqlite3.Connection, session: int, seq: int, peer: str, pieces: Iterable[Piece]) -> None:
    """Make a message searchable."""
    _add(db, (None, session, seq), peer, pieces)


def add_item(db: sqlite3.Connection, item: int, peer: str, pieces: Iterable[Piece]) -> None:
    """Make a memory or a resource searchable."""
    _add(db, (item, None, None), peer, pieces)


def forget(db: sqlite3.Connection, session: str, messages: Iterable[StoreMessage], until: str) -> None:
    """Note what a deleted session held: it is stored once more when the session goes on, and is not to be found."""
    names = [(_first_name(session), until)]
    names += [(name, whole(one.created_at)) for one in messages for name in _names(one)]
    db.executemany("INSERT OR REPLACE INTO forgotten VALUES (?, ?)", names)


def is_forgotten(db: sqlite3.Connection, session: str, message: StoreMessage) -> bool:
    """Whether a message is of a session that was deleted after it was said, or stood in one."""
    names = [_first_name(session), *_names(message)]
    query = f"SELECT 1 FROM forgotten WHERE name IN ({', '.join('?' * len(names))}) AND until >= ? LIMIT 1"
    return db.execute(query, (*names, whole(message.created_at))).fetchone() is not None


def _first_name(session: str) -> str:
    """Give the name of a session in its first generation; a later one is `<name>__<hex>`."""
    return session.partition("__")[0]


def _names(message: StoreMessage) -> list[str]:
    """Name a message by its first mark; the time tells apart what has the same short id by chance."""
    return [whole(f"{mark} {message.created_at}") for mark in message.marks[:1]]


def remove(db: sqlite3.Connection, rows: Iterable[tuple[int, str]]) -> None:
    """Forget passages, given by id and the text that was indexed."""
    for passage, text in rows:
        db.execute("INSERT INTO words (words, rowid, body) VALUES ('delete', ?, ?)", (passage, " ".join(terms(text))))
        db.execute("DELETE FROM passage WHERE id = ?", (passage,))


def index_old_messages(db: sqlite3.Connection) -> None:
    """Index what a store from before the index holds."""
    for session, seq, body in db.execute("SELECT session, seq, body FROM message ORDER BY rowid"):
        message = StoreMessage.from_json(as_dict(json.loads(body)))
        add_message(db, session, seq, message.peer_id, pieces_of(searchable(message)))


def remove_stand_ins(db: sqlite3.Connection) -> None:
    """Take what stands in for other messages out of an index from before it was left out."""
    likely = " OR ".join(f"marks LIKE '%\"{mark}%'" for mark in STAND_IN_MARKS)
    for session, seq, body in db.execute(f"SELECT session, seq, body FROM message WHERE {likely}").fetchall():
        message = StoreMessage.from_json(as_dict(json.loads(body)))
        if _stands_in(message):
            query = "SELECT id, start, stop FROM passage WHERE session = ? AND seq = ?"
            text = _spoken(message)
            remove(db, [(row, text[start:stop]) for row, start, stop in db.execute(query, (session, seq)).fetchall()])


def search(db: sqlite3.Connection, text: str, where: Where, limit: int = CANDIDATES) -> list[Found]:
    """Find the passages that speak of `text`, best first; of equally good ones the newest first."""
    counts = {term: _count(db, term) for term in query_terms(text)}
    everywhere = _everywhere(db, counts)
    weights = _weights(counts, _total(db), everywhere)
    rows = _candidates(db, counts, weights, where)
    judged = dict(list(weights.items())[:_JUDGED_TERMS])
    asked = frozenset(terms(text))
    tell = judged.keys() - everywhere
    found = [_judge(db, row, judged, asked, tell if len(tell) > 1 else judged.keys()) for row in rows]
    found.sort(key=lambda one: (-round(one.score, 1), -one.id))
    return found[:limit]


def _add(
    db: sqlite3.Connection, owner: tuple[int | None, int | None, int | None], peer: str, pieces: Iterable[Piece]
) -> None:
    number = peer_id(db, peer)
    for piece in pieces:
        made = db.execute(
            "INSERT INTO passage (item, session, seq, start, stop, peer) VALUES (?, ?, ?, ?, ?, ?)",
            (*owner, piece.start, piece.stop, number),
        )
        db.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (made.lastrowid, piece.terms))


def _expression(term: str) -> str:
    """Quote a term for FTS5: no text of a user is ever read as its query language."""
    quoted = '"' + term.replace('"', '""') + '"'
    return f"{quoted} *" if len(term) == 1 and is_cjk(term) else quoted


def _count(db: sqlite3.Connection, term: str) -> int:
    """Count the passages with a term, up to one more than `COMMON`."""
    query = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    return int(db.execute(query, (_expression(term), COMMON + 1)).fetchone()[0])


def _total(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(id), 0) FROM passage").fetchone()[0])


def _everywhere(db: sqlite3.Connection, counts: dict[str, int]) -> frozenset[str]:
    """Find the terms that more than half of the newest passages have: they do not tell one passage from another."""
    total = _total(db)
    if total < _TELLABLE:
        return frozenset()
    newest = min(total, _RECENT)
    query = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET ?"

    def oldest_of_half(term: str) -> int:
        found = db.execute(query, (_expression(term), newest // 2)).fetchone()
        return int(found[0]) if found else 0

    usual = (term for term, count in counts.items() if count > newest // 2)
    return frozenset(term for term in usual if oldest_of_half(term) > total - newest)


def _weights(counts: dict[str, int], total: int, everywhere: frozenset[str]) -> dict[str, float]:
    """Weigh terms by rarity, the most telling first. What the store never heard of counts a little."""
    highest = math.log(1 + total)
    weights = {
        term: math.log(1 + (total + 1) / (count + 0.5)) if count else 0.4 * highest for term, count in counts.items()
    }
    weights |= dict.fromkeys(everywhere | _across_words(counts), _FAINT)
    return dict(sorted(weights.items(), key=lambda pair: -pair[1]))


def _across_words(counts: dict[str, int]) -> frozenset[str]:
    """Find the pairs of a query that nothing has and that share a character with one that something has: most are the
    end of one word and the beginning of the next."""
    known = [term for term, count in counts.items() if count and is_cjk(term[0])]
    ends, starts = {term[-1] for term in known}, {term[0] for term in known}
    unknown = (term for term, count in counts.items() if not count and is_cjk(term[0]))
    return frozenset(term for term in unknown if term[0] in ends or term[-1] in starts)


def _candidates(
    db: sqlite3.Connection, counts: dict[str, int], weights: dict[str, float], where: Where
) -> list[tuple[int, ...]]:
    """Choose passages by the rare terms, then the newest that have as many of the common ones as possible."""
    known = [term for term in weights if counts[term]]
    common = [term for term in known if counts[term] > COMMON]
    span = _span(db, where)
    rows: dict[int, tuple[int, ...]] = {}
    ranked = _ranked(db, [term for term in known if counts[term] <= COMMON], common, weights)
    _take(db, [rowid for rowid in ranked if span[0] <= rowid <= span[1]], where, rows)
    for size in (3, 2, 1):
        if len(rows) < CANDIDATES and len(common) >= size:
            _take(db, _newest(db, common[:size], where, span), where, rows)
    return list(rows.values())[:CANDIDATES]


def _newest(db: sqlite3.Connection, wanted: Sequence[str], where: Where, span: tuple[int, int]) -> list[int]:
    """Give the newest passages that have all the terms."""
    # The few memories and resources may be older than any number of messages.
    items_only = where.under or (where.kinds and "message" not in where.kinds)
    among = "AND +rowid IN (SELECT id FROM passage WHERE item IS NOT NULL)" if items_only else ""
    found = db.execute(
        f"SELECT rowid FROM words WHERE words MATCH ? AND rowid BETWEEN ? AND ? {among} ORDER BY rowid DESC LIMIT ?",
        (" AND ".join(map(_expression, wanted)), *span, CANDIDATES if where == Where() else COMMON),
    )
    return [rowid for (rowid,) in found]


def _span(db: sqlite3.Connection, where: Where) -> tuple[int, int]:
    """Give the first and the last passage that there is to search in a session or of a peer."""
    first, last = 0, _total(db)
    bounds = "SELECT (SELECT min(id) FROM passage WHERE {0}), (SELECT max(id) FROM passage WHERE {0})"
    if where.session:
        first, last = db.execute(bounds.format("session = ?1"), (where.session,)).fetchone()
    elif where.peer:
        of_peer = "peer = (SELECT id FROM peer WHERE name = ?1)"
        first, last = db.execute(bounds.format(of_peer), (where.peer,)).fetchone()
    return first or 0, last or -1


def _ranked(db: sqlite3.Connection, rare: Sequence[str], common: Sequence[str], weights: dict[str, float]) -> list[int]:
    """Give the passages that have rare terms: those of the greatest weight together first, of equal ones the newest.

    Common terms choose among them where they are more than can be judged, as far as a bounded number of look-ups goes.
    """
    totals: dict[int, float] = {}

    def add(term: str, expression: str) -> None:
        for (rowid,) in db.execute("SELECT rowid FROM words WHERE words MATCH ?", (expression,)):
            totals[rowid] = totals.get(rowid, 0.0) + weights[term]

    used = [(term, _expression(term)) for term in rare[:_RARE_TERMS]]
    for term, expression in used:
        add(term, expression)
    if len(totals) > CANDIDATES:
        anyone = " OR ".join(expression for _, expression in used)
        for term in common[: COMMON // 2 // len(totals)]:
            add(term, f"({anyone}) AND {_expression(term)}")
    return sorted(totals, key=lambda rowid: (-totals[rowid], -rowid))


def _take(db: sqlite3.Connection, ranked: Sequence[int], where: Where, rows: dict[int, tuple[int, ...]]) -> None:
    """Add those of the passages that are to be searched, in their order, until there are enough."""
    conditions, values = _conditions(where)
    for start in range(0, len(ranked), _PAGE):
        page = ranked[start : start + _PAGE]
        found = db.execute(
            "SELECT p.id, coalesce(p.item, 0), coalesce(p.session, 0), coalesce(p.seq, 0), p.start, p.stop"
            " FROM passage AS p LEFT JOIN item AS i ON i.id = p.item"
            f" WHERE p.id IN ({', '.join('?' * len(page))}) {conditions}",
            (*page, *values),
        )
        by_id = {row[0]: row for row in found}
        rows |= {rowid: by_id[rowid] for rowid in page if rowid in by_id}
        if len(rows) >= CANDIDATES:
            return


def _conditions(where: Where) -> tuple[str, Sequence[str | int]]:
    """Write the conditions of a search; every value goes beside the statement."""
    parts: list[str] = []
    values: list[str | int] = []
    if where.kinds:
        parts.append(f"AND coalesce(i.kind, 'message') IN ({', '.join('?' * len(where.kinds))})")
        values += sorted(where.kinds)
    if where.under:
        parts.append("AND (i.uri = ? OR substr(i.uri, 1, ?) = ?)")
        values += [where.under, len(where.under) + 1, where.under + "/"]
    if where.session:
        parts.append("AND p.session = ?")
        values.append(where.session)
    if where.peer:
        parts.append("AND p.peer = (SELECT id FROM peer WHERE name = ?)")
        values.append(where.peer)
    return " ".join(parts), values


def _judge(
    db: sqlite3.Connection, row: tuple[int, ...], weights: dict[str, float], asked: frozenset[str], tell: Set[str]
) -> Found:
    passage, item, session, seq, start, stop = row
    message = None if item else _message(db, session, seq)
    whole = searchable(message) if message is not None else _body(db, item)
    text = whole[start:stop].strip()
    present = frozenset(terms(text))
    hit = [term for term in weights if matches(term, present)]
    score = sum(weights[term] for term in hit) / (sum(weights.values()) or 1.0)
    fresh = len(telling(present - asked))
    return Found(passage, item, session, seq, message, text, min(1.0, score), frozenset(tell & set(hit)), fresh)


def _body(db: sqlite3.Connection, item: int) -> str:
    return str(db.execute("SELECT body FROM item WHERE id = ?", (item,)).fetchone()[0]) if item else ""


def _message(db: sqlite3.Connection, session: int, seq: int) -> StoreMessage | None:
    body = db.execute("SELECT body FROM message WHERE session = ? AND seq = ?", (session, seq)).fetchone()
    return StoreMessage.from_json(as_dict(json.loads(body[0]))) if body else None
