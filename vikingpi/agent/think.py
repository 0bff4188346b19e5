"""Gets one answer from the model, through failures that pass and windows that are too small."""

from __future__ import annotations

import asyncio

from vikingpi.agent.answer import (
    ABORTED,
    error_answer,
    finished,
    listen,
    overflowed,
    too_big,
)
from vikingpi.agent.compaction import NOTHING, Compactor
from vikingpi.agent.context import Meter, build_request
from vikingpi.agent.deps import AgentDeps
from vikingpi.agent.transcript import Transcript
from vikingpi.errors import ContextTooLong, ProviderError
from vikingpi.events import MessageStart, RetryEnd, RetryStart
from vikingpi.llm.assemble import MessageBuilder
from vikingpi.llm.base import Request
from vikingpi.llm.retry import MAX_RETRIES, decide
from vikingpi.messages import AssistantMessage


class Thinker:
    """Every attempt is a turn of its own and stays in the file; only the last one stays in the context.

    `error` is what the last request failed with.
    """

    def __init__(self, transcript: Transcript, meter: Meter, compactor: Compactor) -> None:
        self.error: ProviderError | None = None
        self._transcript = transcript
        self._meter = meter
        self._compactor = compactor
        self._recovered = False

    async def think(self, deps: AgentDeps, system_append: str) -> AssistantMessage:
        """Make the next request, again where that helps, and return the stored answer."""
        request = await self.make_room(deps, system_append)
        retries = 0
        while True:
            answer, counted = await self._ask(deps, request)
            if overflowed(answer, self.error, deps.model, counted) and self._may_recover(deps):
                answer, again = await self._recover(deps, answer, system_append)
                if again is None:
                    break
                request = again
                continue
            delay = decide(self.error, retries + 1, deps.clock()) if self.error is not None else None
            if delay is None:
                break
            retries += 1
            await self._wait(deps, answer, retries, delay)
        if retries:
            deps.emit(RetryEnd(self.error is None, retries, answer.error_message or ""))
        return answer

    async def make_room(self, deps: AgentDeps, system_append: str) -> Request:
        """Compact if the next request would be over the threshold, and return it."""
        request = build_request(deps, system_append)
        if await self._compactor.make_room(deps, request, system_append):
            request = build_request(deps, system_append)
        return request

    async def _ask(self, deps: AgentDeps, request: Request) -> tuple[AssistantMessage, int]:
        """Make one request and store what comes, also when it fails or is cancelled; return it and its tokens."""
        builder = MessageBuilder(deps.model, deps.thinking_level, deps.clock)
        deps.emit(MessageStart(builder.partial("stop", None)))
        self.error = None
        try:
            await listen(deps, request, builder, deps.emit)
            answer = finished(builder)
        except ProviderError as error:
            lost = self._recovered and isinstance(error, ContextTooLong)
            self.error = too_big(deps.model, request, "even after a compaction", error) if lost else error
            answer = builder.partial("error", str(self.error))
        except asyncio.CancelledError:
            self._transcript.keep(builder.partial("aborted", ABORTED))
            raise
        counted = 0

        def note(stored: AssistantMessage) -> None:
            nonlocal counted
            counted = self._meter.note(request, stored)

        answer = self._transcript.keep(answer, note if self.error is None else None)
        if answer.stop_reason in ("stop", "toolUse"):
            self._recovered = False
        return answer, counted

    def _may_recover(self, deps: AgentDeps) -> bool:
        return deps.settings.compaction.enabled and not self._recovered

    async def _recover(
        self, deps: AgentDeps, answer: AssistantMessage, system_append: str
    ) -> tuple[AssistantMessage, Request | None]:
        """Compact once; return the request to be made again, or None and the answer that is final."""
        self._recovered = True
        if self.error is not None:
            self._transcript.leave_out(answer)
            self._transcript.end_turn(answer)
        problem = await self._compactor.compact(deps, "overflow", system_append)
        if self.error is None:
            if problem:
                return answer, None
            self._transcript.leave_out(answer)
            self._transcript.end_turn(answer)
        self._transcript.begin_turn()
        request = build_request(deps, system_append)
        if problem and self.error is not None:
            why = "and nothing can be compacted" if problem == NOTHING else f"and compacting failed: {problem}"
            self.error = too_big(deps.model, request, why, self.error)
            return self._transcript.say(error_answer(deps, str(self.error))), None
        return answer, request

    async def _wait(self, deps: AgentDeps, failed: AssistantMessage, retry: int, delay: float) -> None:
        """Take the failed answer out of the context and wait before the next attempt."""
        text = failed.error_message or ""
        self._transcript.leave_out(failed)
        self._transcript.end_turn(failed)
        deps.emit(RetryStart(retry, MAX_RETRIES, round(delay * 1000), text))
        try:
            await deps.sleep(delay)
        except asyncio.CancelledError:
            deps.emit(RetryEnd(False, retry, ABORTED))
            raise
        self._transcript.begin_turn()
