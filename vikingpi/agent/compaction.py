"""Compaction: the older part of the context becomes a summary."""

from __future__ import annotations

from collections.abc import Callable

from vikingpi.agent import summary as texts
from vikingpi.agent.answer import listen
from vikingpi.agent.context import Meter, build_request, project
from vikingpi.agent.cutting import Plan, Reason, plan_cut, token_limit
from vikingpi.agent.deps import AgentDeps
from vikingpi.agent.hooks import CompactionPrep, CompactionResult
from vikingpi.decode import Json
from vikingpi.errors import BadResponse, ContextTooLong, ProviderError
from vikingpi.events import CompactionEnd, CompactionStart
from vikingpi.llm.assemble import MessageBuilder
from vikingpi.llm.base import Request
from vikingpi.llm.retry import decide
from vikingpi.messages import AssistantMessage, Cost, Usage, user_text
from vikingpi.session.entries import usage_to_json
from vikingpi.tokens import estimate
from vikingpi.values import NamedTuple

NOTHING = "Nothing to compact (session too small)"
_UNKNOWN = 32_000
_SHORTENINGS = 3
_SHORTEST = 256


class Summary(NamedTuple):
    """What the model wrote, and what it cost."""

    text: str
    usage: Usage


class Compactor:
    """Compacts on demand or when a request is too large.

    A threshold compaction that failed, or did not help, is tried again only after the context has grown on, by its own
    estimate: what a server counts may grow by itself, or never change. Each one in vain makes the next one later.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._limit = 0
        self._in_vain = 0
        self._next_size = 0

    async def make_room(self, deps: AgentDeps, request: Request, system_append: str) -> bool:
        """Compact if `request` is over the threshold; return whether the context changed."""
        window, settings = deps.model.context_window, deps.settings.compaction
        if not settings.enabled or window <= 0:
            return False
        limit = token_limit(window, settings)
        if self._meter.measure(request, deps.session.branch()) <= limit:
            return False
        if limit != self._limit:
            self._limit, self._in_vain, self._next_size = limit, 0, 0
        if self._next_size and self._meter.size(request).tokens <= self._next_size:
            return False
        if _plan(deps, "threshold") is None:
            return False
        problem = await self.compact(deps, "threshold", system_append)
        left = build_request(deps, system_append)
        if problem or self._meter.measure(left, deps.session.branch()) > limit:
            growth = min(limit // 4 << self._in_vain, limit)
            self._in_vain, self._next_size = self._in_vain + 1, self._meter.size(left).tokens + growth
        else:
            self._in_vain, self._next_size = 0, 0
        return not problem

    async def compact(self, deps: AgentDeps, reason: Reason, system_append: str, instructions: str = "") -> str:
        """Compact now; return an empty text, or why the history stays as it is."""
        tokens = self._measure(deps, system_append)
        plan = _plan(deps, reason)
        if plan is None:
            return NOTHING
        deps.emit(CompactionStart(reason))
        from_hook, problem = False, "aborted"
        try:
            prep = CompactionPrep(plan.first_kept_entry_id, tokens, reason, instructions)
            result = await deps.hooks.session_before_compact(prep)
            from_hook = result is not None and deps.session.get(result.first_kept_entry_id) is not None
            if result is None or not from_hook:
                problem = await self._by_default(deps, prep)
            else:
                problem = await self._store(deps, _fields(result, from_hook=True))
        finally:
            after = tokens if problem else self._measure(deps, system_append)
            deps.emit(CompactionEnd(reason, tokens, after, from_hook, problem))
        return problem

    async def _by_default(self, deps: AgentDeps, prep: CompactionPrep) -> str:
        # A hook that gave up may have moved the boundary while it tried.
        plan = _plan(deps, prep.reason)
        if plan is None:
            return ""
        try:
            summary = await _summarise(deps, plan, prep.instructions)
        except ProviderError as error:
            return f"The summary failed: {error}"
        details = texts.file_lists((*plan.history, *plan.turn_prefix), plan.previous_details)
        text = texts.with_files(summary.text, details)
        result = CompactionResult(text, plan.first_kept_entry_id, prep.tokens_before, details)
        return await self._store(deps, {**_fields(result, from_hook=False), "usage": usage_to_json(summary.usage)})

    async def _store(self, deps: AgentDeps, fields: Json) -> str:
        entry = deps.session.append("compaction", fields)
        deps.session.sync()
        await deps.hooks.session_compact(entry.id)
        return ""

    def _measure(self, deps: AgentDeps, system_append: str) -> int:
        return self._meter.measure(build_request(deps, system_append), deps.session.branch())


def _plan(deps: AgentDeps, reason: Reason) -> Plan | None:
    """Plan the cut so that the result is not over the threshold again, and smaller in any case after an overflow."""
    settings, window = deps.settings.compaction, deps.model.context_window
    keep = settings.keep_recent_tokens
    if window > 0:
        keep = min(keep, token_limit(window, settings) // 2)
    return plan_cut(deps.session.branch(), project(deps), keep, reason)


async def _summarise(deps: AgentDeps, plan: Plan, instructions: str) -> Summary:
    """Have the model write the summary; raise ProviderError."""
    previous = texts.without_files(plan.previous)
    summary = Summary(previous or texts.NO_HISTORY, Usage())
    if plan.history:
        summary = await ask(deps, lambda budget: texts.history_task(plan.history, previous, instructions, budget))
    if plan.turn_prefix:
        turn = await ask(deps, lambda budget: texts.turn_task(plan.turn_prefix, budget))
        summary = Summary(texts.join_turn(summary.text, turn.text), _add(summary.usage, turn.usage))
    return summary


async def ask(deps: AgentDeps, task: Callable[[int], str]) -> Summary:
    """Make one summary; `task` writes the request for a number of tokens. Shorten it where it does not fit."""
    longest = _longest_answer(deps)
    budget = max(deps.model.context_window - longest, longest) if deps.model.context_window > 0 else _UNKNOWN
    attempt = 1
    while True:
        text = task(budget - estimate(texts.SYSTEM))
        request = Request(
            system=texts.SYSTEM,
            messages=(user_text(text, deps.clock()),),
            tools=(),
            max_tokens=longest,
            session_id=deps.session.id,
        )
        try:
            return _checked(await _answer(deps, request))
        except ContextTooLong:
            # The window may be smaller than the model's entry says: what was refused is what counts.
            budget, longest = min(budget, estimate(text)) // 2, max(longest // 2, _SHORTEST)
            if attempt > _SHORTENINGS:
                raise
        except ProviderError as error:
            delay = decide(error, attempt, deps.clock())
            if delay is None:
                raise
            await deps.sleep(delay)
        attempt += 1


async def _answer(deps: AgentDeps, request: Request) -> AssistantMessage:
    builder = MessageBuilder(deps.model, "off", deps.clock)
    await listen(deps, request, builder, lambda update: None)
    return builder.finish()


def _checked(answer: AssistantMessage) -> Summary:
    if answer.stop_reason != "stop":
        raise BadResponse(f"it ended with {answer.raw_stop_reason or answer.stop_reason}")
    if not answer.text.strip():
        raise BadResponse("it is empty")
    return Summary(answer.text.strip(), answer.usage)


def _longest_answer(deps: AgentDeps) -> int:
    """Return the output limit of a summary: most of the reserve, and no large part of a small window."""
    limits = [deps.settings.compaction.reserve_tokens * 4 // 5, deps.model.max_tokens, _UNKNOWN]
    if deps.model.context_window > 0:
        limits.append(deps.model.context_window // 4)
    return min(limit for limit in limits if limit > 0)


def _fields(result: CompactionResult, *, from_hook: bool) -> Json:
    return {
        "summary": result.summary,
        "firstKeptEntryId": result.first_kept_entry_id,
        "tokensBefore": result.tokens_before,
        "details": result.details,
        "fromHook": from_hook,
    }


def _add(one: Usage, other: Usage) -> Usage:
    cost = Cost(*(a + b for a, b in zip(one.cost, other.cost, strict=True)))
    counts = (a + b for a, b in zip(one[:5], other[:5], strict=True))
    return Usage(*counts, cost=cost)
