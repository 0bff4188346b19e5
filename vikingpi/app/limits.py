"""Limits of an unattended run: turns, tokens, cost, time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator
from contextlib import contextmanager

from vikingpi.agent.context import answer_tokens
from vikingpi.app.options import RunOptions
from vikingpi.commands.host import Host
from vikingpi.errors import ConfigError
from vikingpi.events import CompactionEnd, Event, LimitReached, MessageEnd, Notice, TurnEnd
from vikingpi.llm.cost import priced
from vikingpi.messages import AssistantMessage, Usage
from vikingpi.session.tree import add_usage, usage_of
from vikingpi.values import NamedTuple

EXIT_CODE = 3

_SPAN = re.compile(r"(?=.)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")


class Limits(NamedTuple):
    """0 is no limit; `cost` in US dollars, `tokens` in and out, cached ones too."""

    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0


def limits_of(options: RunOptions) -> Limits:
    """Read the flags; ConfigError for a limit that is none."""
    given = {"--max-turns": options.max_turns, "--max-tokens": options.max_tokens, "--max-cost": options.max_cost}
    for name, value in given.items():
        if value is not None and not 0 < value < 1e15:
            raise ConfigError(f"{name} must be a number above 0")
    return Limits(
        options.max_turns or 0,
        options.max_tokens or 0,
        options.max_cost or 0.0,
        _seconds(options.time_limit) if options.time_limit else 0.0,
    )


class Limiter:
    """Counts what a run does and stops it where it would go on beyond a limit.

    `reached` is what stopped it, `last_text` the newest answer that says something.
    """

    def __init__(self, app: Host, limits: Limits) -> None:
        self.reached: LimitReached | None = None
        self.last_text: AssistantMessage | None = None
        self._app = app
        self._limits = limits
        self._turns = 0
        self._tokens = 0
        self._cost = 0.0

    @contextmanager
    def watching(self) -> Generator[None]:
        """Count, and let the time run, for the block."""
        if not any(self._limits):
            yield
            return
        self._app.subscribe(self._event)
        model = self._app.parts.model
        if self._limits.cost and not any(model.price):
            told = f"no price of {model.provider}/{model.id} is known: --max-cost counts only what the provider reports"
            self._app.emit(Notice(told, "warning", "give its cost in models.json"))
        timer = None
        if self._limits.seconds:
            timer = asyncio.get_running_loop().call_later(self._limits.seconds, self._time_is_up)
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def exhausted(self) -> bool:
        """Whether another request would go beyond a limit."""
        if self.reached is None:
            over = self._over()
            if over is not None:
                self._reach(over)
        return self.reached is not None

    def _event(self, event: Event) -> None:
        match event:
            case MessageEnd(AssistantMessage() as answer):
                self._spend(self._usage(answer))
                if answer.text.strip():
                    self.last_text = answer
            case CompactionEnd(error=""):
                branch = reversed(self._app.parts.session.branch())
                newest = next((entry for entry in branch if entry.type == "compaction"), None)
                self._spend(usage_of(newest) if newest is not None else Usage())
            case TurnEnd(answer, results):
                self._turns += answer.stop_reason not in ("error", "aborted")
                if results and self.exhausted():
                    self._app.parts.agent.stop()
            case _:
                pass

    def _usage(self, answer: AssistantMessage) -> Usage:
        """Return the usage of an answer, with what is missing where the provider told less than there can have been."""
        told = answer.usage
        if answer.stop_reason in ("error", "aborted"):
            return told
        said = answer_tokens(answer)
        asked = self._app.status().context_tokens - said
        missing = Usage(max(0, asked - told.input - told.cache_read - told.cache_write), max(0, said - told.output))
        return add_usage(told, priced(missing, self._app.parts.model.price))

    def _spend(self, usage: Usage) -> None:
        self._tokens += usage.total
        self._cost += usage.cost.total

    def _over(self) -> LimitReached | None:
        limits = self._limits
        if limits.turns and self._turns >= limits.turns:
            turns = "1 turn" if limits.turns == 1 else f"{limits.turns} turns"
            return LimitReached("turns", f"the limit of {turns} is reached")
        if limits.tokens and self._tokens >= limits.tokens:
            return LimitReached("tokens", f"the limit of {limits.tokens} tokens is reached ({self._tokens} used)")
        if limits.cost and self._cost >= limits.cost:
            return LimitReached("cost", f"the limit of ${limits.cost:g} is reached (${self._cost:.4f} spent)")
        return None

    def _time_is_up(self) -> None:
        if self.reached is None:
            self._reach(LimitReached("time", f"the time limit of {self._limits.seconds:g} s is reached"))
            self._app.abort()

    def _reach(self, limit: LimitReached) -> None:
        self.reached = limit._replace(kept=self._app.parts.session.path is not None)
        self._app.emit(self.reached)


def _seconds(text: str) -> float:
    """Read `90`, `90s`, `15m` or `1h30m`."""
    match = _SPAN.fullmatch(text.strip().lower())
    hours, minutes, seconds = match.groups() if match is not None else (None, None, None)
    found = int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)
    if not 0 < found < 1e9:
        raise ConfigError(f"--time-limit must be a time above 0, not {text!r}", hint="such as 90, 15m or 1h30m")
    return found
