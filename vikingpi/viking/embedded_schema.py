"""The tables of the embedded store, as ordered migrations. A finished step is never changed, only followed by another.

A step is SQL statements and functions that bring old rows into the new tables.
"""

from __future__ import annotations

from vikingpi.viking.embedded_index import index_old_messages, remove_stand_ins
from vikingpi.viking.sqlite import Step

MIGRATIONS: tuple[tuple[Step, ...], ...] = (
    (
        # AUTOINCREMENT: the id of a deleted session is never used again, so that an old task id cannot mean a new one.
        """
        CREATE TABLE session (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL UNIQUE,
            created_at TEXT NOT NULL,
            total INTEGER NOT NULL DEFAULT 0,
            live INTEGER NOT NULL DEFAULT 0,
            commits INTEGER NOT NULL DEFAULT 0
        )
        """,
        # archive 0 holds the live messages; marks is a JSON list; body the JSON text of the message.
        """
        CREATE TABLE message (
            session INTEGER NOT NULL REFERENCES session(id) ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            archive INTEGER NOT NULL DEFAULT 0,
            marks TEXT NOT NULL,
            body TEXT NOT NULL,
            UNIQUE (session, seq)
        )
        """,
        "CREATE INDEX message_archive ON message(session, archive, seq)",
        """
        CREATE TABLE archive (
            session INTEGER NOT NULL REFERENCES session(id) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            created_at TEXT NOT NULL,
            overview TEXT NOT NULL,
            PRIMARY KEY (session, number)
        )
        """,
    ),
    (
        "CREATE TABLE peer (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
        # A memory or a resource; source is where a resource came from.
        """
        CREATE TABLE item (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            uri TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL CHECK (kind IN ('memory', 'resource')),
            category TEXT NOT NULL,
            peer INTEGER NOT NULL REFERENCES peer(id),
            body TEXT NOT NULL,
            source TEXT NOT NULL,
            reason TEXT NOT NULL,
            created_at TEXT NOT NULL,
            updated_at TEXT NOT NULL
        )
        """,
        # The searchable pieces: of an item, or of the message (session, seq); start and stop count characters of the
        # text that `embedded_index.searchable` gives.
        """
        CREATE TABLE passage (
            id INTEGER PRIMARY KEY,
            item INTEGER REFERENCES item(id),
            session INTEGER,
            seq INTEGER,
            start INTEGER NOT NULL,
            stop INTEGER NOT NULL,
            peer INTEGER NOT NULL REFERENCES peer(id)
        )
        """,
        "CREATE INDEX passage_item ON passage(item) WHERE item IS NOT NULL",
        # rowid is passage.id; body holds the terms of `words.terms`, which are not stored.
        "CREATE VIRTUAL TABLE words USING fts5(body, content='', tokenize='unicode61 remove_diacritics 0')",
        index_old_messages,
    ),
    (
        # Where a session or a project begins and ends in the index: a search of one of them looks at nothing else.
        "CREATE INDEX passage_peer ON passage(peer)",
        "CREATE INDEX passage_session ON passage(session) WHERE session IS NOT NULL",
    ),
    (remove_stand_ins,),
    (
        # What a deleted session held, so that going on with it does not make it searchable again: the session's name
        # without a generation, or a message's mark and time; `until` is the newest time of a message that is meant.
        "CREATE TABLE forgotten (name TEXT PRIMARY KEY, until TEXT NOT NULL) WITHOUT ROWID",
    ),
)
