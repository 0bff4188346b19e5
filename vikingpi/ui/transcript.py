"""Events as a transcript: what is complete is printed once, what still changes is the live part below it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from vikingpi import events, safetext
from vikingpi.commands.host import ShellResult
from vikingpi.messages import (
    AssistantMessage,
    Message,
    ThinkingPart,
    ToolCall,
    ToolResultMessage,
    UserKind,
    UserMessage,
)
from vikingpi.ui.arriving import Arriving
from vikingpi.ui.blocks import Block, blocks_of
from vikingpi.ui.input import UserCommand
from vikingpi.ui.lines import failure_of, line_of, seconds
from vikingpi.ui.printer import HANG, Printer, user_rows
from vikingpi.ui.rows import FOLDED, FULL, Limits, Row, command_rows, left_out, results, running
from vikingpi.values import NamedTuple

THOUGHT_LINES = 3
LIVE_THOUGHT = 4000
PAST_LINES = 20
KEPT_RESULTS = 100
_RESULTS_KEY = "ctrl+o shows them"
_SHELL = "!"
T = TypeVar("T")


class _Running(NamedTuple):
    call: ToolCall
    tail: str
    since: float


class _Recent(Generic[T]):
    """What the last prompt that has any left behind."""

    def __init__(self) -> None:
        self._these: list[T] = []
        self._before: list[T] = []

    def add(self, one: T) -> None:
        self._these = [*self._these[-KEPT_RESULTS:], one]

    def prompted(self) -> None:
        self._before, self._these = self.last(), []

    def last(self) -> list[T]:
        return self._these or self._before


class _Answer:
    """The text and the thought that arrive; `shows_thoughts()` says whether a thought is shown in full."""

    def __init__(self, printer: Printer, shows_thoughts: Callable[[], bool]) -> None:
        self.arriving = Arriving(printer)
        self._thoughts = _Recent[str]()
        self._shows_thoughts = shows_thoughts
        self._printer = printer
        self._thought: list[str] = []
        self._since = 0.0
        self._later: list[Callable[[], None]] = []

    def text(self, piece: str) -> None:
        self.thought_ends()
        self.arriving.feed(piece)
        if self.arriving.idle:
            self._show_later()

    def between_blocks(self, show: Callable[[], None]) -> None:
        """Print something now, or once the block that arrives is whole."""
        self._later.append(show)
        if self.arriving.idle:
            self._show_later()

    def update(self, event: events.MessageUpdate) -> None:
        match event.kind:
            case "text_delta":
                self.text(event.text)
            case "text_end":
                self.ends()
            case "thinking_delta":
                self._since = self._since or time.monotonic()
                self._thought.append(event.text)
            case "thinking_end":
                self.thought_ends()
            case _:
                pass

    def thought_ends(self) -> None:
        if not self._thought:
            return
        took, thought = seconds(1000 * (time.monotonic() - self._since)), "".join(self._thought)
        self._thought, self._since = [], 0.0
        self._thoughts.add(thought)
        if shown := self._shows_thoughts():
            self._printer.prose(_thought_rows(thought))
        self._printer.rows([Row(f"thought for {took}", "dim")], gap=not shown)

    def prompted(self) -> None:
        self._thoughts.prompted()

    def print_thoughts(self) -> None:
        for thought in self._thoughts.last():
            self._printer.prose(_thought_rows(thought))

    def forget(self) -> None:
        self._thoughts = _Recent[str]()

    def past(self, message: AssistantMessage) -> None:
        """Print the end of an answer that was given before."""
        for part in message.content:
            if isinstance(part, ThinkingPart) and part.thinking.strip():
                self._thoughts.add(part.thinking)
                if self._shows_thoughts():
                    self._printer.prose(_thought_rows(part.thinking))
        left, blocks = _last_blocks(safetext.plain(message.text), PAST_LINES)
        if left:
            self._printer.rows([Row(left_out(left, "earlier"), "dim")])
        for block in blocks:
            self._printer.block(block)

    def ends(self) -> None:
        """Print what is left."""
        self.thought_ends()
        self.arriving.ends()
        self._show_later()

    def _show_later(self) -> None:
        later, self._later = self._later, []
        for show in later:
            show()

    def live(self, columns: int) -> list[str]:
        lines: list[str] = []
        if self._thought:
            rows = _thought_rows("".join(self._thought[-LIVE_THOUGHT:])[-LIVE_THOUGHT:])
            lines += self._printer.painted(rows if self._shows_thoughts() else rows[-THOUGHT_LINES:], columns)
        return lines + self.arriving.live(columns)


def _last_blocks(text: str, lines: int) -> tuple[int, list[Block]]:
    """Return the last blocks with about so many lines, and how many lines are before them."""
    kept: list[Block] = []
    left = 0
    for block in reversed(blocks_of(text)):
        size = block.text.count("\n") + 1
        if left or (kept and size > lines):
            left += size
            continue
        lines -= size
        kept.insert(0, block)
    return left, [block._replace(begins=block.begins or at == 0) for at, block in enumerate(kept)]


def _thought_rows(thought: str) -> list[Row]:
    return [Row(line, "thought") for line in safetext.plain(thought).strip().split("\n")]


def _last_turns(messages: Sequence[Message], user_turns: int) -> tuple[int, int]:
    """Return where the last user turns begin, with the user's commands right before, and how many are before them."""
    starts = [at for at, message in enumerate(messages) if _is(message, "user")]
    first = starts[-user_turns:][0] if starts else len(messages)
    left = sum(at < first for at in starts)
    while first and _is(messages[first - 1], "bash"):
        first -= 1
    return first, left


def _is(message: Message, kind: UserKind) -> bool:
    return isinstance(message, UserMessage) and message.kind == kind


def _limits(of: str = "", *, unfolded: bool) -> Limits:
    if unfolded:
        return FULL
    return FOLDED.longer() if of == _SHELL else FOLDED._replace(key=_RESULTS_KEY)


def _print_command(run: ShellResult, printer: Printer, *, unfolded: bool) -> None:
    limits = _limits(_SHELL, unfolded=unfolded)
    (printer.text if limits.full else printer.rows)(command_rows(run, limits))


class Transcript:
    """`version` changes whenever the live part would look different. Results are folded unless `unfolded`,
    thoughts unless `shows_thoughts`.
    """

    def __init__(self, printer: Printer) -> None:
        self.version = 0
        self.unfolded = False
        self.shows_thoughts = False
        self._printer = printer
        self._answer = _Answer(printer, lambda: self.shows_thoughts)
        self.arriving = self._answer.arriving
        self._preparing = ""
        self._tools: dict[str, _Running] = {}
        self._folded = _Recent[tuple[ToolCall, ToolResultMessage]]()

    def event(self, event: events.Event) -> None:
        """Take the next event."""
        self.version += 1
        match event:
            case events.MessageUpdate():
                self._answer.update(event)
                if event.kind in ("toolcall_start", "toolcall_end"):
                    self._preparing = f"{safetext.one_line(event.call.name, 100)} ..." if event.call else ""
            case events.MessageEnd(message):
                self._message(message)
            case events.ToolStart(call):
                self._tools[call.id] = _Running(call, "", time.monotonic())
            case events.ToolUpdate(call, text):
                if call.id in self._tools:
                    self._tools[call.id] = self._tools[call.id]._replace(tail=text)
            case events.ToolEnd(call, result):
                self._tools.pop(call.id, None)
                self._result(call, result)
            case events.AgentSettled():
                self._answer.ends()
                self._preparing = ""
                self._tools = {name: tool for name, tool in self._tools.items() if name == _SHELL}
            case _:
                self._line(event)

    def live(self, columns: int) -> list[str]:
        """Return the lines of what still changes, ready for the terminal."""
        rows = [Row(self._preparing, "dim")] if self._preparing else []
        for tool in self._tools.values():
            elapsed = 1000 * (time.monotonic() - tool.since)
            rows += running(tool.call, tool.tail, elapsed, _limits(tool.call.id, unfolded=self.unfolded))
        return self._answer.live(columns) + self._printer.painted(rows, columns)

    def toggle_results(self) -> bool:
        """Show results in full from now on, and the folded ones of the last prompt that has any; or fold them."""
        self.unfolded = not self.unfolded
        self.version += 1
        if self.unfolded:
            for call, result in self._folded.last():
                self._printer.text(results(call, result, FULL))
        return self.unfolded

    def toggle_thoughts(self) -> bool:
        """Show thoughts in full from now on, and those of the last prompt that has any; or fold them."""
        self.shows_thoughts = not self.shows_thoughts
        self.version += 1
        if self.shows_thoughts:
            self._answer.print_thoughts()
        return self.shows_thoughts

    def shell_runs(self, run: UserCommand, tail: str = "") -> None:
        """Show the command that the user runs, and the end of its output."""
        self.version += 1
        call = ToolCall(_SHELL, "!!" if run.excluded else "!", {"command": run.command})
        since = self._tools[_SHELL].since if _SHELL in self._tools else time.monotonic()
        self._tools[_SHELL] = _Running(call, tail, since)

    def shell_ended(self, run: ShellResult | None) -> None:
        """Show what came of the user's command."""
        self.version += 1
        self._tools.pop(_SHELL, None)
        if run is not None:
            self._answer.between_blocks(lambda: _print_command(run, self._printer, unfolded=self.unfolded))

    @property
    def ticking(self) -> bool:
        """Whether the live part changes by the mere passing of time."""
        return bool(self._tools)

    def past(self, messages: Sequence[Message], user_turns: int, runs: Mapping[str, ShellResult]) -> None:
        """Show the last user turns of a session, as they were seen, in place of the one that was open before.

        `runs` has the commands of the user's own by the entries of their messages.
        """
        self._folded = _Recent[tuple[ToolCall, ToolResultMessage]]()
        self._answer.forget()
        first, left = _last_turns(messages, user_turns)
        if left:
            self._printer.rows([Row(f"... ({left} earlier turn{'' if left == 1 else 's'})", "dim")])
        calls: dict[str, ToolCall] = {}
        for message in messages[first:]:
            match message:
                case AssistantMessage():
                    calls |= {call.id: call for call in message.calls}
                    self._answer.past(message)
                    failure = failure_of(message) if message.stop_reason == "error" else None
                    if failure is not None:
                        self._printer.line(failure)
                case ToolResultMessage():
                    self._result(calls.get(message.tool_call_id, ToolCall("", message.tool_name, {})), message)
                case UserMessage() if (run := runs.get(message.entry_id or "")) is not None:
                    _print_command(run, self._printer, unfolded=self.unfolded)
                case UserMessage():
                    pass
            self._message(message)

    def _result(self, call: ToolCall, result: ToolResultMessage) -> None:
        if self._printer.cuts(whole := results(call, result, FULL)) or whole != results(call, result):
            self._folded.add((call, result))
        rows = results(call, result, _limits(unfolded=self.unfolded))
        (self._printer.text if self.unfolded else self._printer.rows)(rows)

    def _line(self, event: events.Event) -> None:
        line = None if isinstance(event, events.CompactionStart) else line_of(event)
        if line is None:
            return
        if isinstance(event, events.RetryStart):
            self._answer.ends()
        self._answer.between_blocks(lambda: self._printer.line(line))

    def _message(self, message: Message) -> None:
        self._answer.ends()
        self._preparing = ""
        if isinstance(message, UserMessage) and message.kind == "user":
            self._folded.prompted()
            self._answer.prompted()
            self._printer.prose(user_rows(message, "user"), hang=HANG)
        elif isinstance(message, AssistantMessage) and message.stop_reason != "error":
            failure = failure_of(message)
            if failure is not None:
                level = "info" if message.stop_reason == "aborted" else failure.level
                self._printer.line(failure._replace(level=level))
