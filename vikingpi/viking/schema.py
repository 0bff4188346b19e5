"""The ledger's tables and their ordered migrations; `PRAGMA user_version` counts the ones that were applied.

Times are ms since the epoch. `generation.created_at` is the store's own text, compared and never parsed.
`message.counts`: 1 adds to the pressure, 2 belongs to the open commit (and adds to the pressure until the store has
accepted it), 0 counts no more.
"""

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE store (
            id INTEGER PRIMARY KEY,
            identity TEXT NOT NULL UNIQUE,
            retry_at INTEGER NOT NULL DEFAULT 0,
            last_error TEXT NOT NULL DEFAULT '',
            last_success INTEGER NOT NULL DEFAULT 0
        )
        """,
        """
        CREATE TABLE generation (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            store INTEGER NOT NULL REFERENCES store(id),
            name TEXT NOT NULL,
            session_id TEXT NOT NULL,
            session_file TEXT NOT NULL,
            created_at TEXT NOT NULL DEFAULT '',
            state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
            accepted_archive INTEGER NOT NULL DEFAULT 0,
            failures INTEGER NOT NULL DEFAULT 0,
            retry_at INTEGER NOT NULL DEFAULT 0,
            UNIQUE (store, name)
        )
        """,
        """
        CREATE TABLE message (
            generation INTEGER NOT NULL REFERENCES generation(id) ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            entry_id TEXT NOT NULL,
            tokens INTEGER NOT NULL,
            counts INTEGER NOT NULL DEFAULT 1,
            state TEXT NOT NULL DEFAULT 'new' CHECK (state IN ('new', 'sending', 'done', 'dead')),
            sent_at INTEGER NOT NULL DEFAULT 0,
            gave_up_at INTEGER,
            body TEXT,
            PRIMARY KEY (generation, seq),
            UNIQUE (generation, entry_id)
        ) WITHOUT ROWID
        """,
        """
        CREATE INDEX message_unfinished ON message(generation, seq) WHERE state IN ('new', 'sending')
        """,
        """
        CREATE TABLE commit_ (
            generation INTEGER PRIMARY KEY REFERENCES generation(id) ON DELETE CASCADE,
            target_entry_id TEXT NOT NULL,
            target_user_turns INTEGER NOT NULL,
            keep INTEGER NOT NULL,
            pressure INTEGER NOT NULL,
            started_at INTEGER NOT NULL,
            gave_up_at INTEGER,
            count_before INTEGER NOT NULL,
            task_id TEXT NOT NULL DEFAULT '',
            archive_id TEXT NOT NULL DEFAULT ''
        )
        """,
    ),
)
