"""Events as a transcript: what is complete is printed once, what still changes is the live part below it."""

from __future__ import annotations

import time
from typing import NamedTuple

from vikingpi import events, safetext
from vikingpi.messages import AssistantMessage, Message, ToolCall, UserMessage
from vikingpi.ui.blocks import Splitter
from vikingpi.ui.lines import failure_of, line_of, seconds
from vikingpi.ui.printer import Printer, user_rows
from vikingpi.ui.rows import Row, results, running

THOUGHT_LINES = 3


class _Running(NamedTuple):
    call: ToolCall
    tail: str
    since: float


class _Answer:
    """The text and the thought that arrive."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._clean = safetext.Cleaner()
        self._splitter = Splitter()
        self._thought = ""
        self._since = 0.0

    def text(self, piece: str) -> None:
        self.thought_ends()
        for block in self._splitter.feed(self._clean.feed(piece)):
            self._printer.block(block)

    def think(self, piece: str) -> None:
        self._since = self._since or time.monotonic()
        self._thought += piece

    def thought_ends(self) -> None:
        if self._thought:
            took = seconds(1000 * (time.monotonic() - self._since))
            self._thought, self._since = "", 0.0
            self._printer.rows([Row(f"thought for {took}", "dim")])

    def ends(self) -> None:
        """Print what is left."""
        self.thought_ends()
        rest = self._clean.close()
        self._clean = safetext.Cleaner()
        for block in (*self._splitter.feed(rest), *self._splitter.close()):
            self._printer.block(block)

    def live(self, columns: int) -> list[str]:
        lines: list[str] = []
        if self._thought:
            thought = safetext.plain(self._thought[-4000:]).strip().split("\n")
            lines += self._printer.painted([Row(line, "dim") for line in thought[-THOUGHT_LINES:]], columns)
        if (block := self._splitter.open) is not None:
            lines += self._printer.painter.block(block, columns)
        return lines


class Transcript:
    """`version` changes whenever the live part would look different."""

    def __init__(self, printer: Printer) -> None:
        self.version = 0
        self._printer = printer
        self._answer = _Answer(printer)
        self._preparing = ""
        self._tools: dict[str, _Running] = {}

    def event(self, event: events.Event) -> None:
        """Take the next event."""
        self.version += 1
        match event:
            case events.MessageUpdate():
                self._update(event)
            case events.MessageEnd(message):
                self._message(message)
            case events.ToolStart(call):
                self._tools[call.id] = _Running(call, "", time.monotonic())
            case events.ToolUpdate(call, text):
                if call.id in self._tools:
                    self._tools[call.id] = self._tools[call.id]._replace(tail=text)
            case events.ToolEnd(call, result):
                self._tools.pop(call.id, None)
                self._printer.rows(results(call, result))
            case events.AgentSettled():
                self._answer.ends()
                self._preparing = ""
                self._tools.clear()
            case _:
                self._line(event)

    def live(self, columns: int) -> list[str]:
        """Return the lines of what still changes, ready for the terminal."""
        rows = [Row(self._preparing, "dim")] if self._preparing else []
        for tool in self._tools.values():
            rows += running(tool.call, tool.tail, 1000 * (time.monotonic() - tool.since))
        return self._answer.live(columns) + self._printer.painted(rows, columns)

    @property
    def ticking(self) -> bool:
        """Whether the live part changes by the mere passing of time."""
        return bool(self._tools)

    def _line(self, event: events.Event) -> None:
        line = None if isinstance(event, events.CompactionStart) else line_of(event)
        if line is None:
            return
        self._answer.ends()
        self._printer.line(line)

    def _update(self, event: events.MessageUpdate) -> None:
        match event.kind:
            case "text_delta":
                self._answer.text(event.text)
            case "text_end":
                self._answer.ends()
            case "thinking_delta":
                self._answer.think(event.text)
            case "thinking_end":
                self._answer.thought_ends()
            case "toolcall_start" | "toolcall_end":
                self._preparing = f"{safetext.one_line(event.call.name, 100)} ..." if event.call else ""
            case _:
                pass

    def _message(self, message: Message) -> None:
        self._answer.ends()
        self._preparing = ""
        if isinstance(message, UserMessage) and message.kind == "user":
            self._printer.text(user_rows(message, "user"))
        elif isinstance(message, AssistantMessage) and message.stop_reason in ("aborted", "length"):
            failure = failure_of(message)
            if failure is not None:
                level = "info" if message.stop_reason == "aborted" else failure.level
                self._printer.line(failure._replace(level=level), gap=True)
