"""Requests by which `vpi doctor` finds out what answers; none of them costs anything or changes anything."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from vikingpi.config.load import Endpoint
from vikingpi.config.paths import Paths
from vikingpi.errors import NetError, StoreError, StoreRejected, VpiError
from vikingpi.llm.anthropic_body import MESSAGES
from vikingpi.llm.anthropic_wire import messages_url, request_headers
from vikingpi.llm.base import Model
from vikingpi.llm.openai_body import DIRECT
from vikingpi.net import Transport
from vikingpi.values import NamedTuple
from vikingpi.viking.embedded_schema import MIGRATIONS as STORE
from vikingpi.viking.http import HttpApi
from vikingpi.viking.http_sessions import HttpSessions
from vikingpi.viking.ledger_file import MIGRATIONS as LEDGER
from vikingpi.viking.sqlite import look_at

SECONDS = 5.0
_BODY_LIMIT = 8 * 1024 * 1024


class Answer(NamedTuple):
    """What came of a check; `bad` keeps vpi from working."""

    text: str
    bad: bool = False
    hint: str = ""


async def check_model(transport: Transport, model: Model) -> Answer:
    """Ask for the list of models, which every provider gives for nothing, with the key that would be used."""
    if model.api == DIRECT:
        url, headers = f"{model.base_url.rstrip('/')}/models", dict(model.headers)
        if model.api_key:
            headers["authorization"] = f"Bearer {model.api_key}"
    elif model.api == MESSAGES:
        url = messages_url(model.base_url).removesuffix("/messages") + "/models"
        headers = request_headers(model)
    else:
        return Answer(f"has a key ({model.key_source or 'none needed'}); not asked")
    try:
        reply = await transport.send("GET", url, headers=headers, timeout=SECONDS, limit=_BODY_LIMIT)
    except NetError as error:
        return Answer(f"does not answer: {error}", True, "check the network, a proxy, and baseUrl in models.json")
    if reply.status in (401, 403):
        return Answer(f"the key is refused ({reply.status})", True, f"check {model.key_source or 'the key'}")
    if reply.status >= 500:
        return Answer(f"answers with an error ({reply.status})", True, "try again later")
    return Answer("answers")


async def check_server(transport: Transport, endpoint: Endpoint) -> Answer:
    """Ask an OpenViking server for its health and whose the key is."""
    try:
        api = HttpApi(transport, endpoint.url, api_key=endpoint.api_key, account=endpoint.account, user=endpoint.user)
        async with asyncio.timeout(SECONDS):
            health = await HttpSessions(api).health()
    except TimeoutError:
        return Answer(f"no answer within {SECONDS:g} s", True, "is the server running?")
    except StoreError as error:
        hint = error.hint or "start the server, or use --store embedded; the chat works on without it"
        return Answer(f"does not answer: {error}", True, hint)
    except VpiError as error:
        return Answer(str(error), True, error.hint)
    return Answer(f"answers (version {health.version}, account {health.account}, user {health.user})")


def check_embedded(path: Path) -> Answer:
    """Look at the embedded store's file without changing it."""
    if not path.exists():
        return Answer(f"embedded, {path} (not made yet)")
    wrong = look_at(path, len(STORE))
    if not wrong:
        return Answer(f"embedded, {path}")
    hint = "upgrade vpi, or run it with --store off"
    if "newer" not in wrong:
        hint = f"move it aside with {path.name}-wal and {path.name}-shm: the next run begins a new one"
    return Answer(f"embedded, {path} {wrong}", True, hint)


def pending(paths: Paths) -> tuple[tuple[str, int], ...]:
    """Return the undelivered messages of each store identity, without changing the file; StoreRejected."""
    if not paths.outbox.exists():
        return ()
    query = """SELECT s.identity, count(*) FROM message m JOIN generation g ON g.id = m.generation
        JOIN store s ON s.id = g.store WHERE m.state IN ('new', 'sending') GROUP BY s.identity ORDER BY s.identity"""
    if wrong := look_at(paths.outbox, len(LEDGER)):
        newer = "newer" in wrong
        hint = "upgrade vpi" if newer else "move the file aside; vpi makes a new one and captures the session again"
        raise StoreRejected(f"the outbox {paths.outbox} {wrong}", hint=hint, status=0)
    try:
        database = sqlite3.connect(f"{paths.outbox.absolute().as_uri()}?mode=ro", uri=True, timeout=1)
        try:
            return tuple((str(name), int(count)) for name, count in database.execute(query))
        finally:
            database.close()
    except sqlite3.Error as error:
        raise StoreRejected(
            f"the outbox {paths.outbox} cannot be read: {error}", hint="move the file aside", status=0
        ) from error
