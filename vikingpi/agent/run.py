"""One prompt at work: hear, think, act, settle."""

from __future__ import annotations

from vikingpi.agent.answer import aborted_answer
from vikingpi.agent.compaction import Compactor
from vikingpi.agent.context import Meter
from vikingpi.agent.deps import AgentDeps
from vikingpi.agent.hooks import TurnEnd
from vikingpi.agent.inbox import Inbox
from vikingpi.agent.operation import Operation
from vikingpi.agent.think import Thinker
from vikingpi.agent.toolrun import ToolRun, interrupted, open_calls
from vikingpi.agent.transcript import Transcript
from vikingpi.errors import ProviderError, SessionError
from vikingpi.events import Notice
from vikingpi.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from vikingpi.session.tree import build_context

# A model that cannot say what it wants within its output limit does not learn it from the third refusal.
_CUT_ANSWERS = 3


class Run:
    """`append` is what hooks add to the system prompt, `stopped` ends the run after its present turn."""

    def __init__(self, deps: AgentDeps, inbox: Inbox, meter: Meter, compactor: Compactor, operation: Operation) -> None:
        self.deps = deps
        self.append = ""
        self.stopped = False
        self._inbox = inbox
        self._operation = operation
        self._transcript = Transcript(deps)
        self._thinker = Thinker(self._transcript, meter, compactor)
        self._prompt: UserMessage | None = None
        self._final: AssistantMessage | None = None
        self._cut_answers = 0

    async def go(self, prompt: UserMessage) -> AssistantMessage:
        """Work until nothing is left to do and return the last answer."""
        for call in open_calls(build_context(self.deps.session.branch())):
            self._transcript.say(interrupted(call, self.deps.clock()))
        self._prompt = prompt
        results: tuple[ToolResultMessage, ...] = ()
        while True:
            await self._hear(between_tools=bool(results))
            answer = await self._thinker.think(self.deps, self.append)
            results = await self._act(answer)
            if not await self._settle(answer) and not await self._tidy(answer):
                return answer

    @property
    def said(self) -> tuple[Message, ...]:
        return tuple(self._transcript.said)

    @property
    def error(self) -> ProviderError | None:
        return self._thinker.error

    def close_aborted(self) -> None:
        """Leave the file as every abort does: an answer that says so, behind whatever was stored. Does not wait."""
        if self._final is not None:
            return
        try:
            answer = self._transcript.answer()
            if answer is None or answer.stop_reason != "aborted":
                if answer is not None:
                    self._transcript.end_turn(answer)
                if not self._transcript.turn_open:
                    self._transcript.begin_turn()
                answer = self._transcript.say(aborted_answer(self.deps))
            self._transcript.end_turn(answer)
            self._final = answer
            self.deps.session.sync()
        except SessionError as error:
            self.deps.emit(Notice(f"the abort was not recorded: {error}", "error", error.hint))

    async def after_abort(self) -> AssistantMessage | None:
        """Tell the hooks about the aborted turn and return its answer."""
        if self._final is not None and self._final.stop_reason == "aborted":
            await self.deps.hooks.turn_end(TurnEnd(self._final, (), last=True))
        return self._final

    async def _hear(self, *, between_tools: bool) -> None:
        """Begin a turn with the message that is due, if there is one."""
        await self._operation.check()
        self._transcript.begin_turn()
        heard = self._next(between_tools)
        if heard is not None:
            self.append = await self.deps.hooks.before_agent_start(heard) or self.append

    def _next(self, between_tools: bool) -> UserMessage | None:
        prompt, self._prompt = self._prompt, None
        if prompt is not None:
            return self._transcript.say(prompt)
        heard = self._inbox.take_steering(self._transcript.say)
        if heard is None and not between_tools:
            heard = self._inbox.take_follow_up(self._transcript.say)
        return heard

    async def _act(self, answer: AssistantMessage) -> tuple[ToolResultMessage, ...]:
        """Run the calls of the answer; those of an answer that was cut off fail unread."""
        tools = ToolRun(self.deps, self._transcript.say)
        return tools.refuse(answer.calls) if answer.stop_reason == "length" else await tools.run(answer.calls)

    async def _settle(self, answer: AssistantMessage) -> bool:
        """End the turn; return whether another one follows."""
        results = self._transcript.end_turn(answer)
        self._cut_answers = self._cut_answers + 1 if answer.stop_reason == "length" else 0
        ended = answer.stop_reason in ("error", "aborted") or self._cut_answers == _CUT_ANSWERS
        goes_on = not (ended or self.stopped) and bool(results or self._inbox)
        self._final = None if goes_on else answer
        self.deps.session.sync()
        await self.deps.hooks.turn_end(TurnEnd(answer, results, last=not goes_on))
        if self._inbox and not (ended or self.stopped):
            goes_on, self._final = True, None
        return goes_on

    async def _tidy(self, answer: AssistantMessage) -> bool:
        """Compact after the last turn, so that the next prompt need not wait; return whether a message came in."""
        if self.stopped or answer.stop_reason in ("error", "aborted"):
            return False
        await self._thinker.make_room(self.deps, self.append)
        if self.stopped or not self._inbox:
            return False
        self._final = None
        return True
