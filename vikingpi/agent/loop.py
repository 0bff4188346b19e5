"""The agent: hear, think, act, settle, until nothing is left to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from vikingpi.agent.compaction import Compactor, ask
from vikingpi.agent.context import Meter, build_request
from vikingpi.agent.deps import AgentDeps
from vikingpi.agent.inbox import Inbox
from vikingpi.agent.operation import Operation
from vikingpi.agent.run import Run
from vikingpi.agent.summary import branch_task, file_lists, with_files
from vikingpi.decode import Json
from vikingpi.errors import ProviderError, SessionError, VpiError
from vikingpi.events import AgentEnd, AgentSettled, AgentStart
from vikingpi.llm.base import Model
from vikingpi.messages import AssistantMessage, ImagePart, TextPart, UserMessage
from vikingpi.session.entries import Entry, usage_to_json
from vikingpi.session.tree import build_context, model_of, thinking_of

__all__ = ["Agent", "AgentDeps"]


class Agent:
    """Works on one session, one operation at a time. `last_error` is what the last prompt failed with."""

    def __init__(self, deps: AgentDeps) -> None:
        self.deps = deps
        self.inbox = Inbox(deps.expand)
        self.last_error: ProviderError | None = None
        self._meter = Meter()
        self._compactor = Compactor(self._meter)
        self._operation: Operation | None = None
        self._run: Run | None = None
        self._append = ""

    async def prompt(self, message: UserMessage) -> AssistantMessage | None:
        """Store `message`, work on it to the end and return the last answer; SessionError when it cannot be stored.

        An abort is an answer with stop reason aborted. On cancellation the file is left in the same shape.
        """
        async with self._begin() as operation:
            _record_choice(self.deps)
            self._run = run = Run(self.deps, self.inbox, self._meter, self._compactor, operation)
            run.append = self._append
            self.deps.emit(AgentStart())
            try:
                answer = await run.go(message)
            except asyncio.CancelledError:
                run.close_aborted()
                if not operation.absorb():
                    raise
                answer = await run.after_abort()
            finally:
                self._run, self._append, self.last_error = None, run.append, run.error
                self.deps.emit(AgentEnd(run.said))
            return answer

    async def compact(self, instructions: str = "") -> str:
        """Compact now; return an empty text or why it was not done."""
        async with self._begin(settles=False) as operation:
            try:
                return await self._compactor.compact(self.deps, "manual", self._append, instructions)
            except asyncio.CancelledError:
                if not operation.absorb():
                    raise
                return "Compaction aborted"

    async def summarise(self, entries: Sequence[Entry], instructions: str = "") -> tuple[str, Json] | None:
        """Have the model sum up a branch that is being left; None when it says nothing. Return text and fields.

        ProviderError when the model could not; SessionError when it was aborted.
        """
        messages = build_context(entries)
        if not messages:
            return None
        async with self._begin(settles=False) as operation:
            try:
                made = await ask(self.deps, lambda budget: branch_task(messages, instructions, budget))
            except asyncio.CancelledError:
                if not operation.absorb():
                    raise
                raise SessionError("the summary was aborted; nothing has moved") from None
        details = file_lists(messages, {})
        return with_files(made.text, details), {"details": details, "usage": usage_to_json(made.usage)}

    def abort(self) -> None:
        """End what runs; what was queued stays in the inbox."""
        if self._operation is not None:
            self._operation.abort()

    def stop(self) -> None:
        """Let the running turn finish and make no further request."""
        if self._run is not None:
            self._run.stopped = True

    def steer(self, text: str, images: Sequence[ImagePart] = ()) -> None:
        """Queue a message for the next request of the running prompt."""
        self.inbox.steer(_message(text, images, self.deps.clock()))

    def follow_up(self, text: str, images: Sequence[ImagePart] = ()) -> None:
        """Queue a message for when the running prompt would end."""
        self.inbox.follow_up(_message(text, images, self.deps.clock()))

    def use_model(self, model: Model, thinking_level: str) -> None:
        """Use another model or thinking level from the next request on, and record it in the session."""
        session, before = self.deps.session, self.deps
        self.deps = before._replace(model=model, thinking_level=thinking_level)
        if self._run is not None:
            self._run.deps = self.deps
        if session.moved or model_of(session.branch()) is None:
            return  # the next prompt records it
        if (model.provider, model.id) != (before.model.provider, before.model.id):
            session.append("model_change", {"provider": model.provider, "modelId": model.id})
        if thinking_level != before.thinking_level:
            session.append("thinking_level_change", {"thinkingLevel": thinking_level})

    def context_tokens(self) -> int:
        """Return the tokens that the next request would have."""
        return self._meter.measure(build_request(self.deps, self._append), self.deps.session.branch())

    def now_ms(self) -> int:
        return self.deps.clock()

    @asynccontextmanager
    async def _begin(self, *, settles: bool = True) -> AsyncGenerator[Operation]:
        if self._operation is not None:
            raise VpiError("the agent is busy", hint="wait for it or abort it")
        self._operation = operation = Operation()
        cancelled = False
        try:
            yield operation
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            self._operation = None
            await operation.close()
            if settles:
                self.deps.emit(AgentSettled(operation.aborted or cancelled))


def _message(text: str, images: Sequence[ImagePart], now: int) -> UserMessage:
    return UserMessage((TextPart(text), *images), now)


def _record_choice(deps: AgentDeps) -> None:
    """Write model and thinking level where the branch names none, or another level; after a move another model."""
    branch = deps.session.branch()
    used = model_of(branch)
    if used is None or (deps.session.moved and used != (deps.model.provider, deps.model.id)):
        deps.session.append("model_change", {"provider": deps.model.provider, "modelId": deps.model.id})
    if thinking_of(branch) != deps.thinking_level:
        deps.session.append("thinking_level_change", {"thinkingLevel": deps.thinking_level})
