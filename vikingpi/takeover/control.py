"""What a user may ask of takeover: look, commit, reconnect, switch capturing off and on."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable

from vikingpi.agent.hooks import HookContext
from vikingpi.errors import StoreError
from vikingpi.events import Notice, StoreState
from vikingpi.takeover.courier import Courier
from vikingpi.takeover.plan import stopped, uncaptured
from vikingpi.takeover.replaced import Replaced, replaced
from vikingpi.takeover.state import OFF, is_off, is_user, turns_before
from vikingpi.viking.ledger import CommitRow

REPORT_SECONDS = 2.0


class Control:
    """Every text is ready to be shown.

    `masked` gives how many secrets were hidden so far, `capture` brings what is complete into the ledger, `archive`
    commits now and says what was done.
    """

    def __init__(
        self,
        courier: Courier,
        ctx: HookContext,
        endpoint: str,
        masked: Callable[[], int],
        capture: Callable[[], int],
        archive: Callable[[], Awaitable[str]],
    ) -> None:
        self._courier = courier
        self._ctx = ctx
        self._endpoint = endpoint
        self._masked = masked
        self._capture = capture
        self._archive = archive

    def state(self) -> StoreState:
        """The figures of the status bar."""
        return self._courier.state()

    def overview(self) -> str:
        """The overview that stands for the covered history, or empty."""
        shown = self._courier.mirror.view()
        return shown.summary if shown.covered >= 0 else ""

    def replaced(self) -> Replaced:
        """What the model is shown in place of older history, and what it was shown before that.

        Reads the whole session; SessionError if that is impossible.
        """
        mirror = self._courier.mirror
        mirror.session.load()
        return replaced(self._ctx.branch(), mirror.view(), self._ctx.settings.takeover.overview_budget)

    async def report(self) -> str:
        """Everything about the store and this session's place in it."""
        courier, state = self._courier, self.state()
        link, generation = courier.link, courier.mirror.generation()
        row = link.ledger.stores.get(link.row.identity)
        try:
            async with asyncio.timeout(REPORT_SECONDS):
                answers = f"answers (version {(await link.store.health()).version})"
        except StoreError as error:
            answers = f"does not answer: {error}"
        except TimeoutError:
            answers = f"has not answered within {REPORT_SECONDS:g} s"
        branch = self._ctx.branch()
        users = sum(1 for entry in branch if is_user(entry)) + turns_before(branch, courier.mirror.view())
        lines = [
            f"store        {state.kind} {self._endpoint}: {answers}",
            f"identity     {row.identity}{' (the owner of the key is not known yet)' if link.provisional else ''}",
            f"session      {self._ctx.session_id}",
            f"generation   {generation.name if generation else '(opens with the first capture)'}"
            f"{', given up; the next one opens with the next advance' if generation and generation.closed else ''}",
            f"user turns   {state.covered_user_turns} covered of {users}",
            f"pending      ~{state.pending_tokens} of {state.token_threshold} tokens",
            f"outbox       {state.outbox} undelivered, {state.dead} refused by the store",
            f"masked       {self._masked()} secrets",
            f"last success {_ago(row.last_success, link.now())}",
        ]
        if generation is not None and not courier.mirror.session.suffix:
            stored = courier.mirror.stored(generation)
            if missing := uncaptured(stored):
                lines.append(f"capture      {missing} messages are not in the outbox yet")
            if reason := stopped(stored):
                lines.append(f"stopped      {reason}")
        if courier.fault:
            lines.append(f"fault        {courier.fault}")
        commit = link.ledger.commits.get(generation.id) if generation else None
        if commit is not None:
            lines.append(f"commit       {_commit_line(commit, link.now())}")
        if row.last_error:
            lines.append(f"last error   {row.last_error}")
        for identity, count in link.ledger.stores.elsewhere(link.row.id):
            lines.append(f"waiting      {count} messages for {identity}")
        if is_off(self._ctx.branch()):
            lines.append("capturing    off on this branch (/viking on)")
        return "\n".join(lines)

    async def commit(self) -> str:
        """Archive now, whatever the pressure; say what was done or why not."""
        if is_off(self._ctx.branch()):
            return "capturing is off on this branch; /viking on first"
        self._ctx.emit(Notice("asking the context store ..."))
        try:
            return await self._archive()
        except (StoreError, sqlite3.Error) as error:
            return f"not done: {error}"

    async def reconnect(self) -> str:
        """Forget the back-off and try the store again."""
        courier = self._courier
        courier.delivery.forget_faults()
        try:
            health = await courier.link.store.health()
        except StoreError as error:
            courier.delivery.failed(error)
            courier.tell_state()
            return f"the store does not answer: {error}"
        courier.delivery.worked()
        await courier.deliver_own()
        return f"connected to {health.endpoint} (version {health.version}); {self.state().outbox} messages undelivered"

    async def switch(self, on: bool) -> str:
        """Stop or resume capturing on this branch; the session file says so at once.

        What is still undelivered is taken out of the outbox; it is captured again when capturing is resumed.
        """
        if on == (not is_off(self._ctx.branch())):
            return f"capturing is already {'on' if on else 'off'}"
        link = self._courier.link
        try:
            self._capture()
            generation = self._courier.mirror.generation()
            if generation is not None and not on:
                link.ledger.messages.withdraw(generation.id)
        except sqlite3.Error as error:
            return f"not done: the outbox cannot be written: {error}"
        self._ctx.append_custom(OFF, {"on": on})
        link.log({"event": "capturing", "on": on})
        self._courier.tell_state()
        if on:
            return "capturing is on again; what was said while it was off stays out of the store"
        return "capturing is off: nothing said from here on reaches the store, and the boundary stays where it is"


def _ago(moment: int, now: int) -> str:
    if not moment:
        return "never"
    seconds = max(0, now - moment) // 1000
    return f"{seconds} s ago" if seconds < 120 else f"{seconds // 60} min ago"


def _commit_line(commit: CommitRow, now: int) -> str:
    age = max(0, now - commit.started_at) // 1000
    stage = commit.archive_id or "not confirmed by the store"
    return f"open for {age} s ({stage}), up to user turn {commit.target_user_turns}"
