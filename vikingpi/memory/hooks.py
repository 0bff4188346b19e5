"""Memory as a customer of the hook protocol: the profile, recall, and the guard of addresses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from vikingpi.agent.hooks import AgentHooks, Block, HookContext, PromptPatch
from vikingpi.errors import StoreError
from vikingpi.memory.guard import barred
from vikingpi.memory.profile import pinned_profile, profile_block
from vikingpi.memory.recall import block_of, budget_left, pinned_blocks, query_of, with_blocks
from vikingpi.memory.scope import Memory
from vikingpi.messages import Message, ToolCall, UserMessage, text_of
from vikingpi.viking.base import PROFILE_ENTRY, RECALL_ENTRY, RecallQuery

SECONDS = 2.0
REST_SECONDS = 60.0


class MemoryHooks(AgentHooks):
    """`shown` gives the messages that the next request would have without recall. `clock` gives seconds.
    `seal` marks the profile, which goes into the system prompt: one that came in a stranger's file is not used.

    After a failure memory rests for a minute: a store that hangs costs one prompt its time, not every prompt.
    """

    def __init__(
        self,
        memory: Memory,
        shown: Callable[[], tuple[Message, ...]],
        *,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
        seal: Callable[[str], str] = lambda block: "",
    ) -> None:
        self._memory = memory
        self._shown = shown
        self._seconds = seconds
        self._clock = clock
        self._seal = seal
        self._profile: str | None = None
        self._rests_until = 0.0

    async def before_agent_start(self, ctx: HookContext, prompt: UserMessage) -> PromptPatch | None:
        if self._profile is None:
            self._profile = pinned_profile(ctx.branch(), self._seal)
        if self._clock() >= self._rests_until and not self._memory.resting():
            try:
                async with asyncio.timeout(self._seconds):
                    await self._pin(ctx, prompt)
            except (StoreError, TimeoutError):
                self._rests_until = self._clock() + REST_SECONDS
        return PromptPatch(self._profile) if self._profile else None

    def context(self, ctx: HookContext, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return with_blocks(messages, pinned_blocks(ctx.branch(), messages))

    async def tool_call(self, ctx: HookContext, call: ToolCall) -> Block | None:
        reason = barred(call)
        return Block(reason) if reason else None

    async def _pin(self, ctx: HookContext, prompt: UserMessage) -> None:
        work = (self._pin_profile(ctx), self._pin_recall(ctx, prompt))
        for fault in await asyncio.gather(*work, return_exceptions=True):
            if fault is not None:
                raise fault

    async def _pin_profile(self, ctx: HookContext) -> None:
        """Fetch the profile once in a session's life; that there is none is kept too, so that prompts stay the same."""
        if self._profile is not None:
            return
        text = await self._memory.store.profile(ctx.settings.profile_token_budget, peer=self._memory.peer)
        self._profile = profile_block(text)
        ctx.append_custom(PROFILE_ENTRY, {"block": self._profile, "seal": self._seal(self._profile)})

    async def _pin_recall(self, ctx: HookContext, prompt: UserMessage) -> None:
        settings, text = ctx.settings, query_of(prompt, self._memory.mask)
        if not settings.recall_enabled or len(text) < settings.min_query_length or prompt.entry_id is None:
            return
        messages = self._shown()
        earlier = pinned_blocks(ctx.branch(), messages)
        query = RecallQuery(
            text,
            budget_left(settings.recall_token_budget, earlier.values()),
            settings.recall_limit,
            settings.score_threshold,
            frozenset(message.entry_id for message in messages if message.entry_id),
            frozenset(uri for pinned in earlier.values() for uri in pinned.uris),
            self._memory.peer,
        )
        hits = await self._memory.store.search_context(query)
        if not hits:
            return
        shown = "\n".join([*map(text_of, messages), *(pinned.block for pinned in earlier.values())])
        block = block_of(hits, shown)
        if block:
            uris = [hit.uri for hit in hits if hit.uri and hit.uri in block]
            ctx.append_custom(RECALL_ENTRY, {"userEntryId": prompt.entry_id, "block": block, "uris": uris})
