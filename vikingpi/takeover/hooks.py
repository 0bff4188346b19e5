"""Takeover as a customer of the hook protocol: when to capture, when to run a pass, who waits for it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from vikingpi.agent.hooks import (
    AgentHooks,
    CompactionPrep,
    CompactionResult,
    HookContext,
    PromptPatch,
    StartReason,
    TurnEnd,
)
from vikingpi.config.model import Takeover
from vikingpi.errors import StoreError
from vikingpi.events import BoundaryReset, Notice
from vikingpi.messages import Message, UserMessage
from vikingpi.takeover.background import UNANSWERED_WAIT, Background, Spawn
from vikingpi.takeover.boundary import project
from vikingpi.takeover.engine import Engine
from vikingpi.takeover.mirror import Mirror
from vikingpi.takeover.state import is_off

COMMIT_WAIT = 10.0
# A session that the store does not know may have a long backlog: no turn waits for more messages of it than a
# portion, no end of a run for more than LAST portions, no compaction for more than COMPACTED: the model makes that one.
PORTION, LAST, COMPACTED = 200, 5, 25
BREATH = 0.01


class TakeoverHooks(AgentHooks):
    """In the REPL one background task does all that talks to the store; a one-shot run does it before it ends.

    `portion` is how many messages of a backlog are captured at once.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Takeover,
        mode: Literal["repl", "print"],
        spawn: Spawn,
        portion: int = PORTION,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._mode = mode
        self._background = Background(engine.courier, spawn, self._round)
        self._portion = portion
        self._reset_told = ""

    async def session_start(self, ctx: HookContext, reason: StartReason) -> None:
        mirror = self._engine.mirror
        shown = mirror.view()
        if shown.adopt:
            text = "pi wrote this session's newest takeover state; it goes on in a session of its own in the store"
            ctx.emit(Notice(text))
        if shown.reset:
            mirror.session.load()
        if mirror.generation() is not None:
            self._capture()
        if is_off(ctx.branch()):
            ctx.emit(Notice("capturing is off on this branch", hint="/viking on"))
        self._engine.courier.tell_state()
        if self._mode == "repl":
            self._background.start()
        elif reason in ("resume", "fork"):
            await _confirm_first(self._engine, ctx, self._settings)

    async def before_agent_start(self, ctx: HookContext, prompt: UserMessage) -> PromptPatch | None:
        self._engine.running_turn = True
        return None

    def context(self, ctx: HookContext, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        reset = self._engine.mirror.view().reset
        if reset and reset != self._reset_told:
            self._reset_told = reset
            self._engine.link.log({"event": "boundary_reset", "reason": reset})
            ctx.emit(BoundaryReset(reset))
        return project(messages, self._engine.mirror.boundary())

    async def turn_end(self, ctx: HookContext, turn: TurnEnd) -> None:
        if turn.last:
            self._engine.running_turn = False
        if self._capture() or turn.last:
            self._engine.courier.tell_state()
            self._background.wake()

    def _capture(self, portions: int = 1) -> int:
        """Capture; a ledger that cannot be written is told once, and what is missing is captured later."""
        courier = self._engine.courier
        try:
            captured = self._engine.mirror.capture(portions * self._portion)
        except sqlite3.Error as error:
            hint = "make room or mend the file; nothing is lost, it is captured later"
            self._engine.mirror.behind = True
            courier.failed("the outbox cannot be written", error, hint)
            return 0
        if captured:
            courier.fault = ""
            courier.link.log({"event": "captured", "messages": captured})
        return captured

    async def session_before_compact(self, ctx: HookContext, prep: CompactionPrep) -> CompactionResult | None:
        if is_off(ctx.branch()):
            return None
        self._capture()
        await _catch_up(self._engine.mirror, self._capture, COMPACTED)
        if self._engine.mirror.behind:
            self._engine.link.log({"event": "compaction", "left": "to the model: too much is still to be captured"})
            return None
        try:
            summary = await self._engine.compact(prep.first_kept_entry_id)
        except StoreError as error:
            self._engine.courier.delivery.failed(error)
            return None
        if summary is None:
            return None
        return CompactionResult(summary, prep.first_kept_entry_id, prep.tokens_before, {"source": "openviking"})

    async def session_compact(self, ctx: HookContext, entry_id: str) -> None:
        self._engine.swallowed()

    async def session_shutdown(self, ctx: HookContext, reason: str) -> None:
        engine = self._engine
        engine.running_turn = False
        await self._background.stop()
        if not is_off(ctx.branch()):
            self._capture(LAST)
        try:
            if self._mode == "print" and reason == "quit" and self._settings.wait != "none":
                await self._final_pass()
        except sqlite3.Error as error:
            engine.courier.failed("the outbox cannot be written", error, "what is missing is captured by the next run")
        finally:
            engine.mirror.write_state()

    async def _final_pass(self) -> None:
        """What a one-shot run waits for after its answer was printed: its own commit first, then other sessions."""
        polls = self._settings.wait == "overview"
        engine, courier = self._engine, self._engine.courier
        begun = engine.link.now()
        if not courier.delivery.connected:
            await _within(engine, UNANSWERED_WAIT, courier.deliver_own())
        if courier.delivery.connected is False:
            return
        limit = COMMIT_WAIT if courier.delivery.connected else UNANSWERED_WAIT
        if polls:
            limit += self._settings.overview_poll_ms * self._settings.overview_poll_max / 1000

        async def work() -> None:
            await courier.deliver_own()
            await engine.advance(poll=polls, poll_open=polls)
            await courier.deliver_others()

        await _within(engine, limit - (engine.link.now() - begun) / 1000, work())

    async def _round(self) -> None:
        engine = self._engine
        await _catch_up(engine.mirror, self._capture)
        if await engine.courier.deliver_own() not in ("unreachable", "denied"):
            await engine.advance()
            await engine.courier.deliver_others()


async def _catch_up(mirror: Mirror, capture: Callable[[], int], most: int = 0) -> None:
    """Capture what is left of a backlog, at most `most` portions of it (0: all), and let the user type in between."""
    done = 0
    while mirror.behind and capture():
        done += 1
        if done == most:
            return
        await asyncio.sleep(BREATH)


async def _confirm_first(engine: Engine, ctx: HookContext, settings: Takeover) -> None:
    """A one-shot run that finds an open commit looks at it before its first request, and waits only for an overview
    that a store which answers is making."""
    courier = engine.courier
    if not courier.state().open_commit or is_off(ctx.branch()) or courier.delivery.resting():
        return
    if not await _within(engine, UNANSWERED_WAIT, engine.advance()):
        return
    if settings.wait != "none" and courier.delivery.connected and courier.state().open_commit:
        ctx.emit(Notice("waiting for the overview of the last commit"))
        limit = settings.overview_poll_ms * settings.overview_poll_max / 1000
        await _within(engine, limit, engine.advance(poll_open=True))


async def _within(engine: Engine, limit: float, work: Coroutine[Any, Any, object]) -> bool:
    """Do the work for at most `limit` seconds; True when it was done."""
    try:
        async with asyncio.timeout(limit):
            await work
    except TimeoutError:
        engine.courier.gave_up(limit)
        return False
    return True
