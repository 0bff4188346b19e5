"""One-shot output: the answer to stdout, everything else to stderr, one line each."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TextIO

from vikingpi import safetext
from vikingpi.app.limits import EXIT_CODE, Limiter, Limits
from vikingpi.commands.host import Host
from vikingpi.errors import VpiError
from vikingpi.events import Event, LimitReached, Notice, RetryEnd
from vikingpi.messages import AssistantMessage, ImagePart, TextPart
from vikingpi.ui.lines import Line, failure_of, line_of, written

NO_LIMITS = Limits()
Prompt = tuple[str, tuple[ImagePart, ...]]
Start = Callable[[], Awaitable[None]]


class Reporter:
    """Writes what is not the answer; a reader that went away is no error. A wait that a limit ends is said once."""

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._said: set[str] = set()
        self._limited = False

    def event(self, event: Event) -> None:
        self._limited = self._limited or isinstance(event, LimitReached)
        line = line_of(event)
        if line is not None and not (self._limited and isinstance(event, RetryEnd)):
            self.line(line)

    def line(self, line: Line) -> None:
        """Write a line; an error that was already written is not repeated."""
        if line.level == "error":
            if line.text in self._said:
                return
            self._said.add(line.text)
        write(self._err, written(line))


def write(stream: TextIO, text: str) -> bool:
    """Write and flush; return False when nobody reads any more.

    A broken pipe or a terminal that is gone is pointed at the null device, so that the last flush is quiet too.
    """
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            stream.write(_encodable(text, stream.encoding or "utf-8"))
        stream.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        return False
    return True


def _encodable(text: str, coding: str) -> str:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return whole.encode(coding, "replace").decode(coding)


def write_answer(answer: AssistantMessage, out: TextIO) -> None:
    """Write each text block and a newline: byte for byte, but without control sequences on a terminal."""
    show: Callable[[str], str] = safetext.plain if out.isatty() else str
    for part in answer.content:
        if isinstance(part, TextPart) and not write(out, show(part.text) + "\n"):
            return


async def run_prompts(app: Host, prompts: Sequence[Prompt], limiter: Limiter) -> AssistantMessage | None:
    """Submit the prompts in order, up to a failed request or a limit, and return the last answer; warn of others."""
    answer = None
    for number, (text, images) in enumerate(prompts, 1):
        if limiter.exhausted():
            break
        answer = await app.submit(text, images)
        if answer is None or answer.stop_reason in ("error", "aborted"):
            break
        failure = failure_of(answer)
        if failure is not None and number < len(prompts):
            app.emit(Notice(failure.text, "warning", failure.hint))
    return answer


def hint_of(app: Host) -> str:
    """Return what the user can do about the last failed request."""
    failure = app.parts.agent.last_error
    return failure.hint if failure is not None else ""


async def run_print(
    app: Host,
    prompts: Sequence[Prompt],
    out: TextIO,
    err: TextIO,
    start: Start | None = None,
    limits: Limits = NO_LIMITS,
) -> int:
    """Answer the prompts and return the exit code; `start` opens the session, with its events reported."""
    limiter = Limiter(app, limits)
    report = Reporter(err)
    app.subscribe(report.event)
    if start is not None:
        await start()
    for notice in app.parts.notices:
        report.line(Line(notice))
    try:
        with limiter.watching():
            answer = await run_prompts(app, prompts, limiter)
    except VpiError as error:
        report.line(Line(str(error), "error", error.hint))
        return 1
    if limiter.reached is not None:
        if limiter.last_text is not None:
            write_answer(limiter.last_text, out)
        return EXIT_CODE
    failure = failure_of(answer, hint_of(app))
    if answer is not None:
        write_answer(answer, out)
    if failure is not None:
        report.line(failure)
    return 0 if failure is None else 1
