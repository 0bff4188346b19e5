"""Run a shell command and give the end of its output."""

from __future__ import annotations

import asyncio
import math
import re

from vikingpi.decode import Json, as_float, as_str
from vikingpi.errors import ToolError
from vikingpi.messages import ToolSpec
from vikingpi.tools import shell, truncate
from vikingpi.tools.base import ToolContext, ToolOutcome, text_outcome
from vikingpi.tools.output import Output
from vikingpi.values import NamedTuple

_LONGEST = 86_400.0
_MOST_NAMED = 5
_SEQUENCE = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[()*+][0-9A-Z]|[78=>cDEHMNOZ])"

_SPEC = ToolSpec(
    "bash",
    "Run a command with bash -c in the working directory. Standard input is empty; both outputs come together. "
    f"The last {truncate.MAX_LINES} lines or {truncate.MAX_BYTES // 1024} KB are given; "
    "a note names the file with the whole. "
    "A command that takes longer than `timeout` is ended with all its children. "
    "Processes left in the background end when the session's program ends, unless they have a session of their own "
    "(setsid).",
    {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command"},
            "timeout": {"type": "number", "description": "Seconds that it may take; a default applies without it"},
        },
        "required": ["command"],
    },
)


class Execution(NamedTuple):
    """What a command left.

    `output` is cut to the limits and has no notes, `left` says what is still running, `problem` why the file with the
    full output is missing or incomplete.
    """

    output: str
    truncation: truncate.Truncation
    exit_code: int | None
    timed_out: bool = False
    left: str = ""
    full_output_path: str = ""
    problem: str = ""
    last_line_bytes: int = 0


class BashTool:
    def __init__(self) -> None:
        self._groups = shell.Groups()

    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    def close(self) -> None:
        """End the processes that commands have left in the background."""
        self._groups.end_all()

    async def run(self, arguments: Json, context: ToolContext) -> ToolOutcome:
        """Run it; a time-out or a code other than 0 is an error outcome. Raise ToolError when it cannot start."""
        timeout = as_float(arguments["timeout"], -1) if "timeout" in arguments else context.bash_timeout
        if timeout <= 0 or not math.isfinite(timeout):
            raise ToolError("Invalid timeout: must be a finite number of seconds above 0")
        timeout = min(timeout, _LONGEST)
        done = await self.execute(as_str(arguments.get("command")), context, timeout)
        text = _report(done)
        details: Json | None = None
        if done.truncation.by is not None:
            details = {"truncation": done.truncation.details()}
            if done.full_output_path:
                details["fullOutputPath"] = done.full_output_path
        if done.timed_out:
            text = f"{text}\n\nCommand timed out after {timeout:g} seconds"
        elif done.exit_code:
            text = f"{text}\n\nCommand exited with code {done.exit_code}"
        return text_outcome(text, is_error=done.timed_out or bool(done.exit_code), details=details)

    async def execute(self, command: str, context: ToolContext, timeout: float) -> Execution:
        """Run a command for whoever asks, with live output to `context.update`.

        On cancellation its processes are ended, what there was is given to `context.update`, and the error passes.
        """
        output = Output(context.temp_dir)
        prefix = context.sandbox.prefix(context.cwd, context.temp_dir) if context.sandbox is not None else ()

        def update() -> None:
            context.update(_clean(truncate.tail(output.text(final=False), mask=context.mask).text))

        try:
            ending = await shell.run(
                shell.Command(command, context.cwd, context.env, timeout, update, prefix), output, self._groups
            )
            cut = truncate.tail(output.text(final=True), mask=context.mask)
            if cut.by is not None:
                output.keep()
        except asyncio.CancelledError:
            update()
            raise
        finally:
            output.close()
        return _execution(output, cut, ending)


def _execution(output: Output, cut: truncate.Truncation, ending: shell.Ending) -> Execution:
    text = _clean(cut.text)
    kept_at = str(output.path) if output.path is not None and cut.by is not None else ""
    return Execution(
        text,
        cut._replace(text=text, total_lines=output.total_lines, total_bytes=output.total_bytes),
        None if ending.how == "timeout" else ending.code,
        ending.how == "timeout",
        _left(ending),
        kept_at,
        output.problem if cut.by is not None else "",
        output.last_line_bytes,
    )


def _report(done: Execution) -> str:
    text = done.output or "(no output)"
    cut = done.truncation
    if cut.by is not None:
        text = f"{text}\n\n[{_shown(done)}. {_where(done)}]"
    return f"{text}\n\n[{done.left}]" if done.left else text


def _left(ending: shell.Ending) -> str:
    """Say what a command has left running, and how that is ended."""
    left: list[str] = []
    if ending.group is not None:
        left.append(
            f"A process of this command is still running in the background, process group {ending.group}; "
            f"its later output is not kept. End it with: kill -- -{ending.group}"
        )
    if ending.strays:
        named = ", ".join(f"{one.pid} ({one.name})" for one in ending.strays[:_MOST_NAMED])
        more = f" and {len(ending.strays) - _MOST_NAMED} more" if len(ending.strays) > _MOST_NAMED else ""
        numbers = " ".join(str(one.pid) for one in ending.strays[:_MOST_NAMED])
        left.append(
            f"This command has started processes that run on their own, also after this session: {named}{more}; "
            f"their later output is not kept. End them with: kill {numbers}"
        )
    if ending.held and not left:
        left.append("A process that this command started still holds its output open; what it writes later is not kept")
    return ". ".join(left)


def _shown(done: Execution) -> str:
    cut = done.truncation
    if cut.last_line_partial:
        size, whole = truncate.size_text(cut.output_bytes), truncate.size_text(done.last_line_bytes)
        return f"Showing last {size} of line {cut.total_lines} (line is {whole})"
    first = cut.total_lines - cut.output_lines + 1
    limit = f" ({truncate.size_text(truncate.MAX_BYTES)} limit)" if cut.by == "bytes" else ""
    return f"Showing lines {first}-{cut.total_lines} of {cut.total_lines}{limit}"


def _where(done: Execution) -> str:
    if not done.full_output_path:
        return f"The rest could not be kept: {done.problem}"
    incomplete = f" (incomplete: {done.problem})" if done.problem else ""
    return f"Full output: {done.full_output_path}{incomplete}"


def _clean(text: str) -> str:
    """Leave out what only steers a terminal, and NUL, which some providers refuse."""
    text = text.replace("\r\n", "\n").replace("\0", "\ufffd")
    return re.sub(_SEQUENCE, "", text) if "\x1b" in text else text
