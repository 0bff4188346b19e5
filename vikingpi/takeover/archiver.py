"""Commit and confirmation: when the store's overview may stand for covered history.

An overview speaks for its predecessors only along an unbroken chain of archives in the same incarnation of the
store-side session. Every doubt leaves the boundary where it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from vikingpi.errors import StoreError, StoreRejected, StoreUnreachable
from vikingpi.takeover.delivery import SETTLE_MS, Delivery, Link, sole_writer
from vikingpi.takeover.plan import Plan
from vikingpi.values import NamedTuple
from vikingpi.viking.base import Archive, SessionStatus, archive_name, archive_number
from vikingpi.viking.ledger import LONGEST_WAIT_MS, CommitRow, Generation
from vikingpi.viking.overview import acceptable

BACK_OFF_MS = 60_000
PRECONDITION_FAILED = 412
_GRACE = (0.25, 0.5, 0.5, 0.75)


class Accepted(NamedTuple):
    """The archive is good: the boundary may move."""

    archive: int
    overview: str


class Committed(NamedTuple):
    """The store has accepted the commit; its overview is in the making."""


class Pending(NamedTuple):
    """Not known or not possible yet; nothing has changed."""

    reason: str


class Refused(NamedTuple):
    """The commit was not accepted; the pressure stays."""

    reason: str


class Broken(NamedTuple):
    """The chain of this generation is broken: it was given up, the next one will be seeded."""

    reason: str
    archive: int = 0


class _Fault(Exception):
    """Carries a verdict out of nested checks."""

    def __init__(self, verdict: Pending | Broken, *, failed: bool = False) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict
        self.failed = failed


class Archiver:
    """Commits and confirms for the generations of one store."""

    def __init__(
        self, link: Link, delivery: Delivery, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._link = link
        self._delivery = delivery
        self._sleep = sleep

    async def commit(self, generation: Generation, plan: Plan) -> Committed | Pending | Refused | Broken:
        """Check the chain and ask the store to archive all but the last `plan.keep` messages."""
        with sole_writer(self._link.locks, generation.name) as mine:
            if not mine:
                return Pending("another process is sending")
            if self._link.ledger.generations.figures(generation.id).outbox:
                return Pending("messages are still undelivered")
            try:
                status = await self._checked_status(generation)
                return await self._ask(generation, plan, status)
            except _Fault as fault:
                return self._verdict(generation, fault)
            except StoreError as error:
                self._delivery.failed(error)
                return Pending(str(error))

    async def confirm(self, generation: Generation, row: CommitRow, mark: str) -> Accepted | Pending | Refused | Broken:
        """Look once whether the open commit has become an acceptable overview."""
        try:
            if not row.archive_id:
                with sole_writer(self._link.locks, generation.name) as mine:
                    found = await self._find(generation, row) if mine else Pending("another process is committing")
                if isinstance(found, (Pending, Refused)):
                    return found
                row = found
            archive = await self._finished(generation, row)
            await self._chain(generation, archive.number - 1)
            await self._has_mark(generation, archive, mark)
            await self._same_birth(generation)
        except _Fault as fault:
            return self._verdict(generation, fault)
        except StoreError as error:
            self._delivery.failed(error)
            return Pending(str(error))
        self._delivery.worked()
        self._link.ledger.generations.accept(generation.id, archive.number)
        self._link.log({"event": "accepted", "generation": generation.name, "archive": archive.number})
        return Accepted(archive.number, archive.overview)

    async def _ask(
        self, generation: Generation, plan: Plan, status: SessionStatus
    ) -> Committed | Pending | Refused | Broken:
        link, commits = self._link, self._link.ledger.commits
        row = CommitRow(
            plan.target_entry_id,
            plan.user_turns,
            plan.keep,
            plan.pressure,
            started_at=link.now(),
            gave_up_at=None,
            count_before=status.commit_count,
            task_id="",
            archive_id="",
        )
        commits.begin(generation.id, row)
        try:
            receipt = await link.store.commit(generation.name, min(plan.keep, 10_000))
        except StoreUnreachable as error:
            self._delivery.failed(error)
            if error.may_have_stored:
                commits.give_up(generation.id, link.now())
                return Pending(str(error))
            commits.cancel(generation.id)
            return Refused(str(error))
        except StoreRejected as error:
            commits.cancel(generation.id)
            if error.status == PRECONDITION_FAILED:
                raise _Fault(Broken(f"the store commits no more of this session: {error}"), failed=True) from error
            self._delivery.failed(error)
            link.ledger.generations.postpone(generation.id, link.now() + BACK_OFF_MS)
            return Refused(str(error))
        except asyncio.CancelledError:
            commits.give_up(generation.id, link.now())
            raise
        if receipt is None:
            raise _Fault(Broken("the store-side session is gone"))
        link.log({"event": "commit", "generation": generation.name, "keep": plan.keep, "accepted": receipt.accepted})
        if receipt.accepted:
            commits.answered(generation.id, receipt.task_id, archive_name(receipt.archive))
            return Committed()
        newest = await link.store.archive(generation.name, status.commit_count) if status.commit_count else None
        if newest is not None and plan.mark in newest.marks:
            commits.answered(generation.id, "", archive_name(newest.number))
            return Committed()
        commits.cancel(generation.id)
        return Refused("the store has nothing to archive")

    async def _checked_status(self, generation: Generation) -> SessionStatus:
        """The session is the one we know and every archive of it is ours or good."""
        status = await self._same_birth(generation)
        stored = self._link.ledger.generations.figures(generation.id).stored
        if status.total_messages is not None and status.total_messages < stored:
            raise _Fault(Broken("the store-side session has lost messages"))
        if status.commit_count < generation.accepted_archive:
            raise _Fault(Broken("the store-side session was made anew"))
        if status.commit_count > generation.accepted_archive:
            await self._chain(generation, status.commit_count)
            self._link.ledger.generations.accept(generation.id, status.commit_count)
        return status

    async def _same_birth(self, generation: Generation) -> SessionStatus:
        status = await self._link.store.session_status(generation.name)
        if status is None or status.created_at != generation.created_at:
            raise _Fault(Broken("the store-side session was deleted or made anew"))
        return status

    async def _chain(self, generation: Generation, upto: int) -> None:
        """Every archive after the last accepted one up to `upto` has an acceptable overview."""
        for number in range(generation.accepted_archive + 1, upto + 1):
            archive = await self._made(generation, number)
            if archive is None or not acceptable(archive.overview):
                raise _Fault(Broken("an archive made by somebody else has no usable overview", number))

    async def _made(self, generation: Generation, number: int) -> Archive | None:
        """The archive, None when it will never be there; without a task id only the list of tasks can tell."""
        store = self._link.store
        archive = await store.archive(generation.name, number)
        if archive is None:
            if await store.unfinished_task(generation.name):
                raise _Fault(Pending("an archive is still in the making"))
            archive = await store.archive(generation.name, number)
        return archive

    async def _finished(self, generation: Generation, row: CommitRow) -> Archive:
        number = archive_number(row.archive_id)
        state = await self._link.store.task(row.task_id) if row.task_id else "gone"
        if state == "pending":
            raise _Fault(Pending("the overview is still in the making"))
        if state == "failed":
            raise _Fault(Broken("the store could not make the overview", number), failed=True)
        archive = await self._made(generation, number)
        for pause in _GRACE if archive is None and state == "completed" else ():
            await self._sleep(pause)
            archive = archive or await self._link.store.archive(generation.name, number)
        if archive is None:
            await self._same_birth(generation)
        if archive is None or not acceptable(archive.overview):
            raise _Fault(Broken("the store made no usable overview", number), failed=True)
        return archive

    async def _find(self, generation: Generation, row: CommitRow) -> CommitRow | Pending | Refused:
        """A commit without an answer: did the store take it?"""
        link, commits = self._link, self._link.ledger.commits
        now = link.now()
        status = await self._same_birth(generation)
        self._delivery.worked()
        if status.commit_count > row.count_before:
            name = archive_name(status.commit_count)
            commits.answered(generation.id, "", name)
            return row._replace(archive_id=name)
        if row.gave_up_at is not None and now - row.gave_up_at >= SETTLE_MS:
            commits.cancel(generation.id)
            return Refused("the store did not take the commit")
        commits.give_up(generation.id, now)
        return Pending("nobody knows yet whether the store took the commit")

    async def _has_mark(self, generation: Generation, archive: Archive, mark: str) -> None:
        """Some archive of the chain holds the last captured entry of the target."""
        if mark in archive.marks:
            return
        for number in range(archive.number - 1, 0, -1):
            earlier = await self._link.store.archive(generation.name, number)
            if earlier is not None and mark in earlier.marks:
                return
        raise _Fault(Broken("the archive does not hold the history it should cover", archive.number), failed=True)

    def _verdict(self, generation: Generation, fault: _Fault) -> Pending | Broken:
        verdict = fault.verdict
        self._delivery.worked()
        if isinstance(verdict, Broken):
            retry_at = self._link.now() + (_back_off(generation) if fault.failed else 0)
            self._link.ledger.generations.close(generation.id, retry_at, failed=fault.failed)
            self._link.log({"event": "broken", "generation": generation.name, "reason": verdict.reason})
        return verdict


def _back_off(generation: Generation) -> int:
    return min(LONGEST_WAIT_MS, BACK_OFF_MS * 2 ** min(generation.failures, 10))
