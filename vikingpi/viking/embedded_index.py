"""The full text index of the embedded store: which pieces of text it holds and how they are found.

FTS5 ranks the candidates by bm25; the score that callers see is the share of the query that a passage speaks of,
weighted by how rare each term is, so that a threshold means the same for every query.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vikingpi.decode import as_dict, as_str
from vikingpi.viking.base import StoreMessage
from vikingpi.viking.words import is_cjk, matches, passages, query_terms, telling, terms

COMMON = 2000
CANDIDATES = 40
INDEXED_HEAD, INDEXED_TAIL = 40_000, 20_000

_RARE_TERMS = 8
_JUDGED_TERMS = 8


class Piece(NamedTuple):
    """One passage to be indexed: where it stands in its text, and its terms."""

    start: int
    stop: int
    terms: str


class Found(NamedTuple):
    """A passage with its score from 0 to 1; `item` is 0 for a message. `fresh` counts terms the query did not have."""

    id: int
    item: int
    session: int
    seq: int
    text: str
    score: float
    matched: int
    fresh: int


class Where(NamedTuple):
    """What to search: `kinds` of memory, resource, message (empty: all), a URI prefix of items, one peer ("": all)."""

    kinds: frozenset[str] = frozenset()
    under: str = ""
    session: int = 0
    peer: str = ""


def searchable(message: StoreMessage) -> str:
    """Give the text of a message that can be found: without what the tools of memory brought up, which stands in the
    store already."""
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


def search(db: sqlite3.Connection, text: str, where: Where, limit: int = CANDIDATES) -> list[Found]:
    """Find the passages that speak of `text`, best first; of equally good ones the newest first."""
    wanted = query_terms(text)
    counts = {term: _count(db, term) for term in wanted}
    rows = _candidates(db, counts, where)
    if not rows:
        return []
    weights = _weights(counts, _total(db))
    asked = frozenset(terms(text))
    found = [_judge(db, row, weights, asked) for row in rows]
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


def _weights(counts: dict[str, int], total: int) -> dict[str, float]:
    """Weigh terms by rarity and keep the most telling ones. What the store never heard of counts a little."""
    highest = math.log(1 + total)
    weights = {
        term: math.log(1 + (total + 1) / (count + 0.5)) if count else 0.4 * highest for term, count in counts.items()
    }
    telling = sorted(weights, key=lambda term: -weights[term])[:_JUDGED_TERMS]
    return {term: weights[term] for term in telling}


def _candidates(db: sqlite3.Connection, counts: dict[str, int], where: Where) -> list[tuple[int, ...]]:
    """Choose passages by the rare terms; where all are common, the newest that have as many of them as possible."""
    known = sorted((term for term in counts if counts[term]), key=lambda term: counts[term])
    rare = [term for term in known if counts[term] <= COMMON][:_RARE_TERMS]
    if rare:
        return _select(db, " OR ".join(map(_expression, rare)), where, by_rank=True)
    for size in (len(known[:3]), 1):
        if known and (rows := _select(db, " AND ".join(map(_expression, known[:size])), where, by_rank=False)):
            return rows
    return []


def _select(db: sqlite3.Connection, expression: str, where: Where, *, by_rank: bool) -> list[tuple[int, ...]]:
    conditions, values = _conditions(where)
    order = "bm25(words)" if by_rank else "words.rowid DESC"
    return db.execute(
        "SELECT p.id, coalesce(p.item, 0), coalesce(p.session, 0), coalesce(p.seq, 0), p.start, p.stop"
        " FROM words CROSS JOIN passage AS p ON p.id = words.rowid LEFT JOIN item AS i ON i.id = p.item"
        f" WHERE words MATCH ? {conditions} ORDER BY {order} LIMIT {CANDIDATES}",
        (expression, *values),
    ).fetchall()


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


def _judge(db: sqlite3.Connection, row: tuple[int, ...], weights: dict[str, float], asked: frozenset[str]) -> Found:
    passage, item, session, seq, start, stop = row
    text = _text(db, item, session, seq)[start:stop].strip()
    present = frozenset(terms(text))
    hit = [term for term in weights if matches(term, present)]
    score = sum(weights[term] for term in hit) / (sum(weights.values()) or 1.0)
    return Found(passage, item, session, seq, text, min(1.0, score), len(hit), len(telling(present - asked)))


def _text(db: sqlite3.Connection, item: int, session: int, seq: int) -> str:
    if item:
        return str(db.execute("SELECT body FROM item WHERE id = ?", (item,)).fetchone()[0])
    body = db.execute("SELECT body FROM message WHERE session = ? AND seq = ?", (session, seq)).fetchone()
    return searchable(StoreMessage.from_json(as_dict(json.loads(body[0])))) if body else ""
