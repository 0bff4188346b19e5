"""Which context store a run uses, and takeover over it."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from vikingpi.agent.hooks import AgentHooks, HookContext
from vikingpi.app.secrets import mask_of
from vikingpi.config.load import Endpoint, peer_of
from vikingpi.config.model import Settings
from vikingpi.config.paths import Paths, private_dir
from vikingpi.debuglog import Log
from vikingpi.decode import Json, as_dict
from vikingpi.errors import StoreRejected
from vikingpi.net import Transport
from vikingpi.redact import Redactor
from vikingpi.takeover.capture import CaptureOptions
from vikingpi.takeover.control import Control
from vikingpi.takeover.courier import Courier
from vikingpi.takeover.delivery import Link
from vikingpi.takeover.engine import Engine, archive_now
from vikingpi.takeover.hooks import TakeoverHooks
from vikingpi.takeover.identity import http_identity
from vikingpi.takeover.mirror import Mirror, SessionRef
from vikingpi.takeover.ordinary import SUFFIX, OrdinaryHooks
from vikingpi.values import NamedTuple
from vikingpi.viking.base import SessionStore
from vikingpi.viking.embedded_sessions import EmbeddedSessions, OverviewWriter
from vikingpi.viking.http import HttpApi
from vikingpi.viking.http_sessions import HttpSessions
from vikingpi.viking.ledger import Ledger, open_ledger

Kind = Literal["openviking", "embedded", "off"]
BYPASSED = "this folder is excluded by bypassPatterns"


class StoreChoice(NamedTuple):
    """The store of a run; `why` says why it is off, or is empty."""

    kind: Kind
    endpoint: Endpoint | None
    why: str = ""


class OpenStore(NamedTuple):
    """An open store and ledger, shared by all sessions of the process."""

    choice: StoreChoice
    store: SessionStore
    ledger: Ledger
    link: Link
    redactor: Redactor
    mode: Literal["repl", "print"]


class Takeover(NamedTuple):
    """`generation` gives the name of the session in the store that mirrors the branch."""

    hooks: AgentHooks
    control: Control
    generation: Callable[[], str]


def now_ms() -> int:
    """Give the ms since the epoch."""
    return time.time_ns() // 1_000_000


def steady_clock() -> Callable[[], int]:
    """Give a clock of ms since the epoch that goes on evenly, whatever is done to the machine's own meanwhile."""
    kind = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    offset = time.time_ns() - time.clock_gettime_ns(kind)
    return lambda: (time.clock_gettime_ns(kind) + offset) // 1_000_000


def choose_store(flag: str | None, settings: Settings, endpoint: Endpoint | None, *, bypassed: bool) -> StoreChoice:
    """Decide between server, embedded store and none; a configured server that is down stays the choice."""
    wanted = flag or settings.store
    if wanted == "off":
        return StoreChoice("off", None)
    if bypassed and flag is None:
        return StoreChoice("off", None, BYPASSED)
    if not settings.enabled or not settings.sync_turns:
        return StoreChoice("off", None, f"{'enabled' if not settings.enabled else 'syncTurns'} is false")
    if wanted == "openviking" or (wanted == "auto" and endpoint is not None):
        return StoreChoice("openviking", endpoint)
    return StoreChoice("embedded", None)


def open_store(
    choice: StoreChoice,
    settings: Settings,
    paths: Paths,
    transport: Transport,
    log: Log,
    redactor: Redactor,
    mode: Literal["repl", "print"],
    writer: OverviewWriter | None = None,
) -> OpenStore:
    """Open the ledger and the chosen store; StoreRejected when the ledger cannot be used.

    `writer` writes the embedded store's overviews where the process has the time for it.
    """
    try:
        private_dir(paths.data)
    except OSError as error:
        text = f"the data folder {paths.data} cannot be used: {error.strerror or error}"
        raise StoreRejected(text, hint="make it writable", status=0) from error
    ledger = open_ledger(paths.outbox)
    provisional = False
    endpoint = choice.endpoint
    if endpoint is not None:
        api = HttpApi(
            transport, endpoint.url, api_key=endpoint.api_key, account=endpoint.account, user=endpoint.user, log=log
        )
        store: SessionStore = HttpSessions(api)
        cache = paths.data / "identities.json"
        identity, provisional = http_identity(endpoint.url, endpoint.api_key, endpoint.account, endpoint.user, cache)
    else:
        budget = settings.takeover.overview_budget
        store = EmbeddedSessions(paths.store_db, now_ms, overview_budget=budget, writer=writer)
        identity = f"embedded:{paths.store_db}".encode("utf-8", "replace").decode()

    def notices() -> tuple[str, ...]:
        return store.file.notices if isinstance(store, EmbeddedSessions) else ()

    try:
        link = Link(
            ledger,
            store,
            identity,
            data=paths.data,
            now=steady_clock(),
            log=log,
            provisional=provisional,
            notices=notices,
        )
    except sqlite3.Error as error:
        ledger.database.close()
        hint = "nothing is lost: the next run captures it"
        raise StoreRejected(f"the outbox {paths.outbox} cannot be written: {error}", hint=hint, status=0) from error
    return OpenStore(choice, store, ledger, link, redactor, mode)


def peer_for(redactor: Redactor, settings: Settings, cwd: Path, env: Mapping[str, str]) -> str:
    """Give the peer id to work under; a secret in the folder's name stays out of it."""
    return peer_of(Path(mask_of(redactor, settings)(str(cwd))), settings, env)


def build_takeover(
    opened: OpenStore,
    ctx: HookContext,
    session: SessionRef,
    cwd: Path,
    env: Mapping[str, str],
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
) -> Takeover:
    """Put takeover of one session together."""
    settings = ctx.settings
    counted = _Counter(opened.redactor)
    options = CaptureOptions(
        settings.capture_max_length,
        settings.capture_tool_max_chars,
        peer_for(opened.redactor, settings, cwd, env),
        *((counted.mask, counted.mask_json) if settings.capture_redact else (str, as_dict)),
    )
    takes_over = settings.takeover.enabled
    ref = session if takes_over else session._replace(suffix=SUFFIX)
    courier = Courier(opened.link, ctx, Mirror(opened.link, ctx, ref, options), settings.takeover.token_threshold)
    where = opened.choice.endpoint.url if opened.choice.endpoint is not None else "(in this data folder)"
    if takes_over:
        engine = Engine(courier, ctx, settings.takeover)
        hooks: AgentHooks = TakeoverHooks(engine, settings.takeover, opened.mode, spawn)
        capture, archive = engine.mirror.capture, partial(archive_now, engine)
    else:
        hooks = ordinary = OrdinaryHooks(courier, options, (session.id, session.file), opened.mode, spawn)
        capture, archive = partial(ordinary.capture, ctx), partial(ordinary.commit, ctx)

    def generation() -> str:
        known = courier.mirror.generation()
        return known.name if known is not None else f"pi-{session.id}"

    return Takeover(hooks, Control(courier, ctx, where, counted.count, capture, archive), generation)


class _Counter:
    """Masks and counts."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._count = 0

    def mask(self, text: str) -> str:
        masked, count = self._redactor.mask(text)
        self._count += count
        return masked

    def mask_json(self, value: Json) -> Json:
        masked, count = self._redactor.mask_json(value)
        self._count += count
        return masked

    def count(self) -> int:
        return self._count
