"""Delivery: bring the ledger's rows to the store, in order, each at most once.

Only a refused connection and a 4xx answer prove that nothing was stored. After anything else the rows stay
`sending` and are settled by their marks: `done` as soon as the store shows them, `new` again only when it does not
`SETTLE_MS` after the attempt was given up.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import random
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from vikingpi.decode import Json, as_dict
from vikingpi.errors import StoreError, StoreRejected, StoreUnreachable
from vikingpi.private import private_dir
from vikingpi.takeover.capture import refusal_mark, refused_message
from vikingpi.viking.base import SessionStore, StoreMessage
from vikingpi.viking.ledger import Generation, Ledger, Messages, Row, StoreRow

SETTLE_MS = 35_000
REST_MS, LONG_REST_MS = 10_000, 60_000
LONGEST_ASKED_MS = 300_000
BATCH = 100
BATCH_BYTES = 8_000_000

Outcome = Literal["empty", "busy", "waiting", "anew", "unreachable", "denied", "stopped"]


class Link:
    """What delivery and the archiver work on.

    `now` gives ms since the epoch, `log` takes one record a decision. `provisional` is True while `row` stands for a
    key whose owner the server has not named yet; `identities` is the file that remembers owners by a hash of the key.
    `notices` gives what the store has to say about itself.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: SessionStore,
        identity: str,
        *,
        data: Path,
        now: Callable[[], int],
        log: Callable[[Json], None],
        provisional: bool = False,
        notices: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self.ledger = ledger
        self.store = store
        self.row: StoreRow = ledger.stores.get(identity)
        self.locks = data / "locks"
        self.identities = data / "identities.json"
        self.now = now
        self.log = log
        self.provisional = provisional
        self.notices = notices


@contextmanager
def sole_writer(locks: Path, name: str) -> Generator[bool]:
    """Hold the generation's OS lock for the block; False where another process has it."""
    private_dir(locks)
    handle = os.open(locks / f"{name}.send.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(handle)


class _Withdrawn(Exception):
    """Rows of this batch were taken out of the outbox while it was being made."""


class Delivery:
    """Sends the rows of any generation of one store."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._met: set[str] = set()
        self.denied = ""
        self.refused: list[str] = []
        self.connected: bool | None = None

    async def deliver(self, generation: Generation, *, deadline: int, batches: int = 200, own: bool = True) -> Outcome:
        """Send what is undelivered until it is `empty` or why not. `deadline` in ms since the epoch.

        A generation of the open session (`own`) whose store-side session was made anew is given up instead.
        """
        if not self._link.ledger.generations.figures(generation.id).outbox:
            return "empty"
        if self.denied:
            return "denied"
        if self.resting():
            return "unreachable"
        with sole_writer(self._link.locks, generation.name) as mine:
            if not mine:
                return "busy"
            try:
                if not await self._meet(generation) and own:
                    return "anew"
                return await self._drain(generation, deadline, batches)
            except _Withdrawn:
                return "waiting"
            except StoreError as error:
                return self.failed(error) if own else _other_failed(self, self._link, generation, error)

    def resting(self) -> bool:
        """Whether the store has just failed, in this process or another, and is left alone for a moment."""
        return self._link.ledger.stores.get(self._link.row.identity).rests(self._link.now())

    def failed(self, error: StoreError) -> Outcome:
        """Note a fault of the store and say what it means for the sender."""
        link = self._link
        link.log({"event": "store_failed", "error": str(error)})
        if isinstance(error, StoreRejected):
            if error.denied:
                self.denied, self.connected = str(error), False
                link.ledger.stores.failed(link.row.id, str(error), 0)
                return "denied"
            link.ledger.stores.failed(link.row.id, str(error), 0)
            return "stopped"
        self.connected = False
        wait = 0.0
        if isinstance(error, StoreUnreachable) and not error.refused:
            wait = max(
                min((error.retry_after or 0.0) * 1000, LONGEST_ASKED_MS),
                _rest(link.ledger.stores.get(link.row.identity), link.now()) * random.uniform(0.8, 1.2),
            )
        link.ledger.stores.failed(link.row.id, str(error), link.now() + int(wait))
        return "unreachable"

    def worked(self) -> None:
        """Note that the store answers."""
        self.connected, self.denied = True, ""
        self._link.ledger.stores.worked(self._link.row.id, self._link.now())

    def forget_faults(self) -> None:
        """Try again at once, also after a refused key."""
        self.denied = ""
        self._link.ledger.stores.failed(self._link.row.id, "", 0)

    async def _drain(self, generation: Generation, deadline: int, batches: int) -> Outcome:
        link, messages = self._link, self._link.ledger.messages
        for _ in range(batches):
            if not await self._settle(generation):
                return "waiting"
            found = messages.next(generation.id, "new", BATCH)
            messages.remove(generation.id, [row for row in found if not row.body])
            rows = _batch([row for row in found if row.body])
            if not rows:
                return "empty"
            if link.now() >= deadline:
                return "waiting"
            await self._send(generation, rows)
        return "waiting"

    async def _meet(self, generation: Generation) -> bool:
        """Before the first message of a process: record the session's birth, recognise what is there already.

        False where the session is not the one that this generation knows.
        """
        if generation.name in self._met:
            return True
        link = self._link
        status = await link.store.ensure_session(generation.name, memories=generation.failures < 2)
        if generation.created_at not in ("", status.created_at):
            link.log({"event": "made_anew", "generation": generation.name})
            link.ledger.generations.close(generation.id, link.now(), failed=False)
            return False
        if not generation.created_at:
            link.ledger.generations.born(generation.id, status.created_at)
        elif status.live_messages or status.commit_count:
            rows = link.ledger.messages.next(generation.id, "new", 1_000_000)
            marks = await link.store.marks(generation.name, generation.accepted_archive)
            _stored(link.ledger.messages, generation, [row for row in rows if row.entry_id in marks], marks)
        self._met.add(generation.name)
        return True

    async def _settle(self, generation: Generation) -> bool:
        """Decide about attempts whose end nobody saw; True where none is left."""
        link, messages = self._link, self._link.ledger.messages
        rows = messages.next(generation.id, "sending", 1_000_000)
        if not rows:
            return True
        now = link.now()
        messages.give_up(generation.id, rows, now)
        marks = await link.store.marks(generation.name, generation.accepted_archive)
        shown = [row for row in rows if row.entry_id in marks]
        hidden = [row for row in rows if row.entry_id not in marks]
        late = [row for row in hidden if now - (row.gave_up_at or now) >= SETTLE_MS]
        _stored(messages, generation, shown, marks)
        messages.renew(generation.id, [row for row in late if row.body])
        messages.remove(generation.id, [row for row in late if not row.body])
        self.worked()
        link.log({"event": "settled", "done": len(shown), "again": len(late), "open": len(hidden) - len(late)})
        return len(late) == len(hidden)

    async def _send(self, generation: Generation, rows: Sequence[Row]) -> None:
        """Send one batch; on a refusal find the message that is meant."""
        messages = self._link.ledger.messages
        try:
            await self._post(generation, rows, [_message(row) for row in rows])
        except StoreRejected as error:
            if error.denied or error.status in (0, 404):
                raise
            if len(rows) > 1:
                half = len(rows) // 2
                await self._send(generation, rows[:half])
                await self._send(generation, rows[half:])
                return
            await self._substitute(generation, rows[0], error)
            return
        messages.done(generation.id, rows)
        self.worked()
        self._link.log({"event": "delivered", "generation": generation.name, "messages": len(rows)})

    async def _substitute(self, generation: Generation, row: Row, refusal: StoreRejected) -> None:
        """Try a refused message as plain text, then a placeholder; the refusal of that is not the message's fault."""
        message = _message(row)
        try:
            await self._post(generation, (row,), [refused_message(message, placeholder=False)])
        except StoreRejected as error:
            if error.denied:
                raise
            await self._post(generation, (row,), [refused_message(message, placeholder=True)])
            self._link.ledger.messages.dead(generation.id, row)
            self.refused.append(f"entry {row.entry_id}: {refusal}")
            self._link.log({"event": "refused", "entry": row.entry_id, "error": str(refusal)})
            return
        self._link.ledger.messages.done(generation.id, (row,))

    async def _post(self, generation: Generation, rows: Sequence[Row], bodies: Sequence[StoreMessage]) -> None:
        link, messages = self._link, self._link.ledger.messages
        if messages.sending(generation.id, rows, link.now()) < len(rows):
            messages.renew(generation.id, rows)
            raise _Withdrawn
        try:
            await link.store.add_messages(generation.name, bodies)
        except StoreUnreachable as error:
            if error.may_have_stored:
                messages.give_up(generation.id, rows, link.now())
            else:
                messages.renew(generation.id, rows)
            raise
        except StoreRejected:
            messages.renew(generation.id, rows)
            raise
        except asyncio.CancelledError:
            messages.give_up(generation.id, rows, link.now())
            raise


def _other_failed(delivery: Delivery, link: Link, generation: Generation, error: StoreError) -> Outcome:
    """A fault with what another session left behind is its own, unless nobody listens or the key is refused."""
    denied = isinstance(error, StoreRejected) and error.denied
    if denied or (isinstance(error, StoreUnreachable) and error.refused):
        return delivery.failed(error)
    link.log({"event": "other_failed", "generation": generation.name, "error": str(error)})
    link.ledger.generations.postpone(generation.id, link.now() + LONG_REST_MS)
    return "waiting"


def _stored(messages: Messages, generation: Generation, rows: Sequence[Row], marks: frozenset[str]) -> None:
    """The store shows these; where it shows a placeholder, the message itself was refused."""
    messages.done(generation.id, [row for row in rows if refusal_mark(row.entry_id) not in marks])
    for row in rows:
        if refusal_mark(row.entry_id) in marks:
            messages.dead(generation.id, row)


def _rest(row: StoreRow, now: int) -> int:
    """How long (ms) a store that hangs is left alone, by every process: half as long as it has been silent."""
    return min(LONG_REST_MS, max(REST_MS, (now - row.last_success) // 2)) if row.last_success else REST_MS


def _batch(rows: Sequence[Row]) -> Sequence[Row]:
    size = 0
    for count, row in enumerate(rows):
        size += len(row.body.encode())
        if count and size > BATCH_BYTES:
            return rows[:count]
    return rows


def _message(row: Row) -> StoreMessage:
    return StoreMessage.from_json(as_dict(json.loads(row.body)))
