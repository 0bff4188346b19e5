"""The one line that an event is to a reader, the same words in every user interface."""

from __future__ import annotations

from typing import Literal

from vikingpi import safetext
from vikingpi.agent.answer import ABORTED
from vikingpi.events import (
    BoundaryAdvanced,
    BoundaryReset,
    CommitFailed,
    CompactionEnd,
    CompactionStart,
    Event,
    HookFailed,
    LimitReached,
    Notice,
    RetryEnd,
    RetryStart,
)
from vikingpi.messages import AssistantMessage
from vikingpi.values import NamedTuple

LINE_CELLS = 1000


class Line(NamedTuple):
    """`hint` says what the reader can do, or is empty."""

    text: str
    level: Literal["info", "warning", "error"] = "info"
    hint: str = ""


def tokens(count: int) -> str:
    """Write a number of tokens as people read it: 950, 12.3k, 128k, 1.2M."""
    for least, size, unit in ((999_500, 1_000_000, "M"), (1000, 1000, "k")):
        if count >= least:
            figure = count / size
            text = f"{figure:.1f}" if figure < 100 else f"{figure:.0f}"
            return text.removesuffix(".0") + unit
    return str(count)


def seconds(milliseconds: float) -> str:
    """Write a duration: 0.4 s, 12 s, 3 min 05 s."""
    value = milliseconds / 1000
    if value < 9.95:
        return f"{value:.1f} s"
    if value < 119.5:
        return f"{value:.0f} s"
    return f"{int(value) // 60} min {int(value) % 60:02d} s"


def line_of(event: Event) -> Line | None:
    """Return the line for an event that is a line, None for all others."""
    match event:
        case Notice():
            return Line(event.text, event.level, event.hint)
        case BoundaryAdvanced(covered, before, after):
            turns = "turn 1 is" if covered == 1 else f"turns 1-{covered} are"
            return Line(f"context: {turns} now an overview ({tokens(before)} -> {tokens(after)} tokens)")
        case BoundaryReset(reason):
            return Line(f"context: the overview was withdrawn, the full history is visible again ({reason})")
        case CommitFailed(reason):
            return Line(f"context store: not archived: {reason}", "warning", "the full history stays in the request")
        case CompactionEnd() if event.error:
            return Line(f"context: not compacted: {event.error}", "error")
        case CompactionEnd():
            sizes = f"{tokens(event.tokens_before)} -> {tokens(event.tokens_after)} tokens"
            return Line(f"context: compacted ({sizes})")
        case CompactionStart():
            return Line("context: compacting")
        case HookFailed(hook, method, error):
            effect = "so the tool did not run" if method == "tool_call" else "and was skipped"
            return Line(f"{hook}.{method} failed {effect}: {error}", "warning")
        case LimitReached(_, text, kept):
            return Line(text, "error", "what is there is kept: `vpi -c` goes on from it" if kept else "")
        case RetryStart():
            wait = seconds(event.delay_ms)
            return Line(f"retry {event.attempt}/{event.max_attempts} in {wait}: {event.error}", "warning")
        case RetryEnd(success=False) if event.error == ABORTED:
            return Line("aborted")
        case RetryEnd(success=False):
            times = "1 retry" if event.attempt == 1 else f"{event.attempt} retries"
            return Line(f"gave up after {times}", "warning")
        case _:
            return None


def failure_of(answer: AssistantMessage | None, hint: str = "") -> Line | None:
    """Return what is wrong with the last answer of a prompt, None when it is whole; `hint` is for a failed request."""
    if answer is None:
        return Line("there was no answer", "error")
    if answer.stop_reason == "error":
        return Line(answer.error_message or "the request failed", "error", hint)
    if answer.stop_reason == "aborted":
        return Line(answer.error_message or "aborted", "error")
    says_nothing = not (answer.text.strip() or answer.calls)
    if answer.stop_reason == "length" and answer.raw_stop_reason == "model_context_window_exceeded":
        return Line(
            "the answer was cut because the model's context window is full",
            "error",
            "run /compact and go on, start a new session, or choose a model with a larger window",
        )
    if answer.stop_reason == "length" and says_nothing:
        return Line(
            "the model reached its output limit before it answered",
            "error",
            "raise maxTokens of this model, or let it think less (--thinking, /thinking)",
        )
    if answer.stop_reason == "length":
        return Line(
            "the answer was cut at the model's output limit",
            "error",
            "go on with `vpi -c`, or raise maxTokens of this model",
        )
    if answer.stop_reason == "stop" and says_nothing:
        return Line("the model's answer is empty", "error", "ask again, or choose another model")
    return None


def written(line: Line) -> str:
    """Write a line for a stream without colour, the hint on a line of its own; ends with a newline."""
    prefix = "" if line.level == "info" else f"{line.level}: "
    text = f"{prefix}{safetext.one_line(line.text, LINE_CELLS)}\n"
    return f"{text}hint: {safetext.one_line(line.hint, LINE_CELLS)}\n" if line.hint else text
