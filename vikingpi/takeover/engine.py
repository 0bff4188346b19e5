"""Advance and compaction: when to commit, when the boundary moves.

The session file and the ledger are written in the foreground (`Mirror`); what talks to the store happens here, one
operation at a time, so that a prompt never waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from vikingpi.agent.hooks import HookContext
from vikingpi.config.model import Takeover
from vikingpi.events import BoundaryAdvanced, CommitFailed
from vikingpi.messages import OVERVIEW_MARKER
from vikingpi.takeover.archiver import Accepted, Archiver, Broken, Committed, Pending, Refused
from vikingpi.takeover.boundary import overview_text
from vikingpi.takeover.courier import Courier, undelivered
from vikingpi.takeover.mirror import Mirror
from vikingpi.takeover.plan import Plan, ends, mark_of, place, plan_advance, plan_before
from vikingpi.takeover.state import is_off
from vikingpi.tokens import estimate
from vikingpi.untrusted import harmless
from vikingpi.viking.ledger import CommitRow, Generation
from vikingpi.viking.overview import cut_sections

UNDER_WAY = "the overview of the last commit is in the making; the boundary moves by itself when it is there"
FIRST_COVERED = "the first user turn is now an overview"


class Engine:
    """Advances the boundary of the open session."""

    def __init__(
        self,
        courier: Courier,
        ctx: HookContext,
        settings: Takeover,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.courier = courier
        self.link = courier.link
        self.mirror = courier.mirror
        self.running_turn = False
        self._archiver = Archiver(courier.link, courier.delivery, sleep)
        self._ctx = ctx
        self._settings = settings
        self._sleep = sleep
        self._operation = asyncio.Lock()
        self._told = ""

    async def advance(self, *, force: bool = False, poll: bool = True, poll_open: bool = False) -> str:
        """Look at the open commit, or commit when it is due; return a line that says what was done or why not.

        `poll` waits for the overview of a new commit within the limits of the settings, `poll_open` also for that of
        an earlier one; otherwise one look is taken.
        """
        if self._operation.locked():
            return UNDER_WAY if self.courier.state().open_commit else "another advance or compaction is under way"
        async with self._operation:
            line = await self._advance(force=force, poll=poll, poll_open=poll_open)
        self.link.log({"event": "advance", "said": line})
        self.courier.tell_state()
        return line

    async def compact(self, first_kept: str) -> str | None:
        """Archive everything before `first_kept` and return the summary text, None for the default compaction."""
        if self._operation.locked() or self.mirror.generation() is None:
            return None
        async with self._operation:
            overview = await self._archive_before(first_kept)
        self.courier.tell_state()
        if overview is None:
            return None
        return f"{OVERVIEW_MARKER}\n{cut_sections(harmless(overview), self._settings.overview_budget)}"

    def swallowed(self) -> None:
        """A compaction entry stands on the branch: an open commit whose target it took is closed unused."""
        generation = self.mirror.generation()
        commit = self.link.ledger.commits.get(generation.id) if generation is not None else None
        if generation is not None and commit is not None:
            kept = self._ctx.branch()[self.mirror.view().first :]
            if all(entry.id != commit.target_entry_id for entry in kept):
                self.mirror.apply(generation, commit, "", 0)
        self.mirror.write_state()
        self.courier.tell_state()

    async def _advance(self, *, force: bool, poll: bool, poll_open: bool) -> str:
        generation = self.mirror.generation()
        if generation is None:
            return "nothing was captured yet"
        if is_off(self._ctx.branch()):
            return "capturing is off on this branch"
        if self.link.ledger.commits.get(generation.id) is not None:
            return await self._confirm(generation, poll=poll_open)
        if generation.closed:
            if generation.waits(self.link.now()) and not force:
                return "waiting after a failed commit"
            self.mirror.begin(generation)
            generation = self.mirror.generation() or generation
        pressure = self.link.ledger.generations.figures(generation.id).pressure
        if not force and pressure < self._settings.token_threshold:
            return f"not due: ~{pressure} of {self._settings.token_threshold} tokens"
        plan = self._plan(generation)
        if isinstance(plan, str):
            return plan
        if generation.waits(self.link.now()) and not force:
            return "waiting after a refused commit"
        if (outcome := await self.courier.deliver(generation)) != "empty":
            return undelivered(outcome)
        plan = self._plan(generation)
        return plan if isinstance(plan, str) else await self._commit(generation, plan, poll=poll)

    async def _commit(self, generation: Generation, plan: Plan, *, poll: bool) -> str:
        fresh = self.mirror.generation() or generation
        verdict = await self._archiver.commit(fresh, plan)
        self.courier.tell_state()
        if isinstance(verdict, Committed):
            return await self._confirm(fresh, poll=poll) if poll else "committed; the overview is in the making"
        if isinstance(verdict, (Broken, Refused)):
            self._failed(verdict)
        return verdict.reason

    async def _confirm(self, generation: Generation, *, poll: bool) -> str:
        verdict = await self._polled(generation, poll=poll)
        commit = self.link.ledger.commits.get(generation.id)
        if isinstance(verdict, Accepted):
            if commit is not None and self._apply(generation, commit, verdict):
                turns = commit.target_user_turns
                return f"the first {turns} user turns are now an overview" if turns > 1 else FIRST_COVERED
            return "the overview waits until this branch shows its history again"
        if isinstance(verdict, (Broken, Refused)):
            self._failed(verdict)
        return verdict.reason

    async def _polled(self, generation: Generation, *, poll: bool) -> Accepted | Pending | Refused | Broken:
        """Look at the open commit until it is decided or the limit is reached."""
        verdict: Accepted | Pending | Refused | Broken = Pending("no commit is open")
        for attempt in range(self._settings.overview_poll_max if poll else 1):
            if self.courier.delivery.resting():
                return Pending("the store is left alone for a moment")
            if attempt:
                await self._sleep(self._settings.overview_poll_ms / 1000)
            now = self.link.ledger.generations.get(self.link.row.id, generation.name)
            commit = self.link.ledger.commits.get(generation.id)
            mark = _mark(self.mirror, generation, commit) if commit is not None else None
            if now is None or commit is None or mark is None:
                return Pending("the commit belongs to another branch")
            verdict = await self._archiver.confirm(now, commit, mark)
            if not isinstance(verdict, Pending) or self.courier.delivery.connected is False:
                break
        if isinstance(verdict, Accepted):
            return verdict._replace(overview=self.mirror.mask(verdict.overview))
        return verdict

    def _apply(self, generation: Generation, commit: CommitRow, accepted: Accepted) -> bool:
        stored = self.mirror.stored(generation)
        at = place(stored.branch, commit.target_entry_id)
        covered = sum(row.tokens for row, end in ends(stored.branch, stored.rows) if stored.shown.covered < end <= at)
        moved = self.mirror.apply(generation, commit, accepted.overview, accepted.archive)
        if moved:
            self._told = ""
            text = overview_text(accepted.overview, self._settings.overview_budget)
            before = covered + estimate(stored.shown.summary)
            self._ctx.emit(BoundaryAdvanced(commit.target_user_turns, before, estimate(text)))
        return moved

    async def _archive_before(self, first_kept: str) -> str | None:
        generation = self.mirror.generation()
        if generation is None:
            return None
        if self.link.ledger.commits.get(generation.id) is not None:
            await self._confirm(generation, poll=True)
        fresh = self.mirror.generation()
        if fresh is None or fresh.closed or self.link.ledger.commits.get(fresh.id) is not None:
            return None
        if await self.courier.deliver(fresh) != "empty":
            return None
        plan = plan_before(self.mirror.stored(fresh), first_kept)
        if isinstance(plan, str):
            return None
        verdict = await self._archiver.commit(self.mirror.generation() or fresh, plan)
        if not isinstance(verdict, Committed):
            if isinstance(verdict, (Broken, Refused)):
                self._failed(verdict)
            return None
        outcome = await self._polled(fresh, poll=True)
        if isinstance(outcome, (Broken, Refused)):
            self._failed(outcome)
        return outcome.overview if isinstance(outcome, Accepted) else None

    def _plan(self, generation: Generation) -> Plan | str:
        stored = self.mirror.stored(generation)
        return plan_advance(stored, self._settings.keep_recent_turns, running=self.running_turn)

    def _failed(self, verdict: Broken | Refused) -> None:
        archive = f" (archive {verdict.archive})" if isinstance(verdict, Broken) and verdict.archive else ""
        reason = f"{verdict.reason}{archive}"
        if reason != self._told:
            self._told = reason
            self._ctx.emit(CommitFailed(reason))


def _mark(mirror: Mirror, generation: Generation, commit: CommitRow) -> str | None:
    """The mark that the archive must show; what lies before a resumed session's tail is loaded for it."""
    mark = mark_of(mirror.stored(generation), commit.target_entry_id)
    if mark is None and mirror.session.skipped():
        mirror.session.load()
        mark = mark_of(mirror.stored(generation), commit.target_entry_id)
    return mark


async def archive_now(engine: Engine) -> str:
    """Capture, deliver and commit whatever the pressure; say what was done or why not."""
    engine.mirror.capture()
    await engine.courier.deliver_own()
    return await engine.advance(force=True)
