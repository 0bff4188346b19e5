"""Capture without takeover: the store collects and summarises, the request keeps its full history.

Small talk stays out, tool output comes along only when asked for, and a commit is made when enough was captured and at
the end. The generation is one of its own, so that takeover, switched on later, never builds on what was left out here.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import Literal

from vikingpi.agent.hooks import AgentHooks, HookContext, StartReason, TurnEnd
from vikingpi.config.model import Settings
from vikingpi.decode import as_str
from vikingpi.errors import StoreError
from vikingpi.messages import Message, TextPart, UserMessage
from vikingpi.session.entries import Entry
from vikingpi.takeover.background import UNANSWERED_WAIT, Background, Spawn
from vikingpi.takeover.boundary import overview_text
from vikingpi.takeover.capture import CaptureOptions, message_of, row_from, units
from vikingpi.takeover.courier import Courier
from vikingpi.takeover.state import is_off, off_entries
from vikingpi.viking.base import StoreMessage
from vikingpi.viking.ledger import CommitRow, Generation, NewRow
from vikingpi.viking.overview import acceptable

SUFFIX = "__00000000"
SHORTEST = 3
_SMALL_TALK = re.compile(
    r"(?:ok(?:ay)?|k|yes|yep|yeah|no|nope|sure|thanks?|thank you|thx|ty|great|good|nice|cool|got it|done|continue|"
    r"go on|go ahead|please|hi|hello|hey|好的?|是的?|谢谢|嗯+|继续|可以|はい|ありがとう|네|감사합니다)"
    r"[\s.!?,。！？，~]*",
    re.IGNORECASE,
)


def worth_keeping(text: str) -> bool:
    """Tell whether a text says more than an acknowledgement, punctuation or a slash command."""
    bare = text.strip()
    if len(bare) < SHORTEST or not any(char.isalnum() for char in bare):
        return False
    return _SMALL_TALK.fullmatch(bare) is None and re.fullmatch(r"/[a-z][a-z-]*", bare) is None


def _rows(branch: Sequence[Entry], first: int, options: CaptureOptions, settings: Settings) -> list[NewRow]:
    rows: list[NewRow] = []
    for unit in units(branch, first, off_entries(branch)):
        if not unit.complete:
            break
        message = _filtered(message_of(branch, unit, options), settings)
        if message is not None:
            rows.append(row_from(message))
    return rows


def _filtered(message: StoreMessage, settings: Settings) -> StoreMessage | None:
    """Give what of a message is captured, None where that is nothing."""
    if message.role == "assistant" and not settings.capture_assistant_turns:
        return None
    tools = settings.capture_tool_results
    parts = tuple(
        part
        for part in message.parts
        if (tools if part.get("type") == "tool" else worth_keeping(as_str(part.get("text"))))
    )
    return message._replace(parts=parts) if parts else None


class OrdinaryHooks(AgentHooks):
    """Captures at turn end and commits by `commitTokenThreshold`; a commit that fails is made with a later one."""

    def __init__(
        self,
        courier: Courier,
        options: CaptureOptions,
        session: tuple[str, str],
        mode: Literal["repl", "print"],
        spawn: Spawn,
    ) -> None:
        self._courier = courier
        self._link = courier.link
        self._options = options
        self._session = session
        self._mode = mode
        self._spawn = spawn
        self._background: Background | None = None
        self._overview = ""
        self._overview_due = False

    async def session_start(self, ctx: HookContext, reason: StartReason) -> None:
        resumed = reason in ("resume", "fork")
        self._courier.tell_state()
        if self._mode == "repl":
            self._overview_due = resumed
            self._background = Background(self._courier, self._spawn, partial(self._round, ctx))
            self._background.start()
        elif resumed:
            self._overview = await self._archived(ctx)

    def context(self, ctx: HookContext, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        if not self._overview:
            return messages
        stamp = messages[0].timestamp - 1 if messages else 0
        return (UserMessage((TextPart(self._overview),), stamp, kind="custom"), *messages)

    async def turn_end(self, ctx: HookContext, turn: TurnEnd) -> None:
        if self.capture(ctx):
            self._courier.tell_state()
            if self._background is not None:
                self._background.wake()

    async def session_shutdown(self, ctx: HookContext, reason: str) -> None:
        if self._background is not None:
            await self._background.stop()
        self.capture(ctx)
        if reason == "quit" and not is_off(ctx.branch()):
            try:
                async with asyncio.timeout(UNANSWERED_WAIT):
                    await self._pass(ctx, ending=True)
            except TimeoutError:
                self._courier.gave_up(UNANSWERED_WAIT)
            except (StoreError, sqlite3.Error) as error:
                self._link.log({"event": "shutdown_commit", "error": str(error)})

    def capture(self, ctx: HookContext) -> int:
        """Bring what is worth keeping into the ledger; return how many messages were new."""
        branch = ctx.branch()
        if is_off(branch):
            return 0
        ledger, generation = self._link.ledger, self._courier.mirror.generation()
        known = {row.entry_id for row in ledger.messages.all(generation.id)} if generation is not None else set[str]()
        first = max((i for i, entry in enumerate(branch) if entry.id in known), default=0)
        rows = _rows(branch, first, self._options, ctx.settings)
        if not rows:
            return 0
        try:
            with ledger.database.transaction():
                name = f"pi-{self._session[0]}{SUFFIX}"
                made = generation or ledger.generations.open(self._link.row.id, name, *self._session, 0)
                captured = ledger.messages.insert(made.id, rows)
        except sqlite3.Error as error:
            self._courier.failed("the outbox cannot be written", error, "nothing is lost, it is captured later")
            return 0
        self._courier.fault = ""
        self._link.log({"event": "captured", "messages": captured})
        return captured

    async def commit(self, ctx: HookContext) -> str:
        """Commit now; say what was done or why not."""
        self.capture(ctx)
        await self._pass(ctx, ending=True)
        generation = self._courier.mirror.generation()
        owed = generation is not None and self._link.ledger.commits.get(generation.id) is not None
        return "the commit is owed and made when the store answers" if owed else "committed what was captured"

    async def _round(self, ctx: HookContext) -> None:
        if self._overview_due:
            self._overview_due = False
            self._overview = await self._archived(ctx)
        await self._pass(ctx)

    async def _pass(self, ctx: HookContext, *, ending: bool = False) -> None:
        """Deliver, then commit when enough is stored, when one is owed, or at the end."""
        outcome, generation = await self._courier.deliver_own(), self._courier.mirror.generation()
        if outcome not in ("unreachable", "denied"):
            await self._courier.deliver_others()
        if generation is None or outcome != "empty":
            return
        try:
            await self._commit(ctx, generation, ending=ending)
        except StoreError as error:
            self._courier.delivery.failed(error)

    async def _commit(self, ctx: HookContext, generation: Generation, *, ending: bool) -> None:
        ledger, settings, store = self._link.ledger, ctx.settings, self._link.store
        pressure = ledger.generations.figures(generation.id).pressure
        keep = settings.commit_keep_recent_count
        if ledger.commits.get(generation.id) is None:
            if not pressure:
                return
            if not ending and await self._pending(generation, pressure) < settings.commit_token_threshold:
                return
            row = CommitRow("", 0, keep, pressure, self._link.now(), None, 0, "", "")
            ledger.commits.begin(generation.id, row)
        if self._courier.delivery.resting():
            return
        if await store.commit(generation.name, keep) is None:
            ledger.commits.cancel(generation.id)
            return
        ledger.commits.finish(generation.id, 0)
        self._link.log({"event": "ordinary_commit", "generation": generation.name, "keep": keep})

    async def _pending(self, generation: Generation, pressure: int) -> int:
        """The tokens that a commit would archive: the store's own figure where it has one."""
        if self._courier.delivery.resting():
            return 0
        status = await self._link.store.session_status(generation.name)
        said = status.pending_tokens if status is not None else None
        return pressure if said is None else said

    async def _archived(self, ctx: HookContext) -> str:
        """The newest archive's overview, for a session that is resumed; empty when it is not there at once."""
        generation = self._courier.mirror.generation()
        if generation is None or self._courier.delivery.resting():
            return ""
        try:
            async with asyncio.timeout(UNANSWERED_WAIT):
                status = await self._link.store.session_status(generation.name)
                number = status.commit_count if status is not None else 0
                archive = await self._link.store.archive(generation.name, number) if number else None
        except TimeoutError:
            self._courier.gave_up(UNANSWERED_WAIT)
            return ""
        except StoreError as error:
            self._courier.delivery.failed(error)
            return ""
        if archive is None or not acceptable(archive.overview):
            return ""
        return overview_text(archive.overview, ctx.settings.resume_context_budget)
