"""Search file contents."""

from __future__ import annotations

import base64
import binascii
import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from vikingpi.decode import Json, as_dict, as_int, as_list, as_str
from vikingpi.errors import ToolError
from vikingpi.messages import ToolSpec
from vikingpi.tools import truncate
from vikingpi.tools.base import ToolContext, ToolOutcome, text_outcome, whole_number
from vikingpi.tools.helper import Helper, program
from vikingpi.tools.paths import mode_of, resolve, scrub, shown
from vikingpi.values import NamedTuple

_LIMIT = 100
_LINE = 500
_STEP = 25
_MOST_CONTEXT = 100
_LONGEST = 60.0

_SPEC = ToolSpec(
    "grep",
    "Search the contents of files for a regular expression, or for plain text with `literal`. Hidden files are "
    "searched, binary files and what gitignore files exclude are not. Matches come as file:line: text. "
    f"At most {_LIMIT} matches unless `limit` says otherwise; long lines come as {_LINE} characters around the match.",
    {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "Regular expression or, with literal, plain text"},
            "path": {"type": "string", "description": "File or folder; the working directory if left out"},
            "glob": {"type": "string", "description": "Search only files that match, such as *.py or src/**/*.ts"},
            "ignoreCase": {"type": "boolean", "description": "Upper and lower case are the same"},
            "literal": {"type": "boolean", "description": "The pattern is plain text"},
            "context": {"type": "number", "description": f"Lines around each match, at most {_MOST_CONTEXT}"},
            "limit": {"type": "number", "description": f"Most matches to give, {_LIMIT} if left out"},
        },
        "required": ["pattern"],
    },
)


class _Span(NamedTuple):
    start: int
    end: int


class _Result(NamedTuple):
    lines: list[str]
    limited: bool
    cut_lines: bool
    timed_out: bool
    error: str


class GrepTool:
    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    async def run(self, arguments: Json, context: ToolContext) -> ToolOutcome:
        """Search; raise ToolError for a path or a pattern that cannot be used."""
        path = resolve(as_str(arguments.get("path")) or ".", context)
        is_folder = stat.S_ISDIR(mode := mode_of(path))
        if not is_folder and not stat.S_ISREG(mode):
            raise ToolError(f"Not a regular file: {scrub(str(path))}")
        limit = whole_number(arguments, "limit", _LIMIT, least=1)
        folder, target = (path, ".") if is_folder else (path.parent, f"./{path.name}")
        command, env = _command(arguments, target, context)
        async with Helper(command, folder, env, _LONGEST) as helper:
            result = await _collect(helper, limit, context.mask)
        return _report(result, limit)


def _command(arguments: Json, target: str, context: ToolContext) -> tuple[list[str], dict[str, str]]:
    env = dict(context.env)
    found = program(env, "rg")
    if found is not None:
        command = [found, "--json", "--no-config", "--hidden", "--no-require-git", "--sort=path"]
    else:
        # A process of its own, because a regular expression of the model may take for ever and cannot be interrupted.
        command = [sys.executable, "-P", "-m", "vikingpi.tools.search"]
        env["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
    around = max(0, min(whole_number(arguments, "context", 0), _MOST_CONTEXT))
    command += ["--ignore-case"] if arguments.get("ignoreCase") else []
    command += ["--fixed-strings"] if arguments.get("literal") else []
    command += [f"--context={around}"] if around else []
    glob = scrub(as_str(arguments.get("glob")))
    command += [f"--glob={glob}"] if glob else []
    return [*command, "--glob=!.git", f"--regexp={scrub(as_str(arguments.get('pattern')))}", "--", target], env


async def _collect(helper: Helper, limit: int, mask: Callable[[str], str]) -> _Result:
    lines: list[str] = []
    matches = 0
    limited = cut_lines = False
    error = ""
    async for line in helper.lines():
        event = _decode(line)
        kind = as_str(event.get("type"))
        data = as_dict(event.get("data"))
        if kind == "error":
            error = as_str(data.get("text"))
        if kind not in ("match", "context"):
            continue
        if kind == "match" and matches == limit:
            limited = True
            break
        matches += kind == "match"
        texts, cut = _format(kind, data, mask)
        lines += texts
        cut_lines = cut_lines or cut
    if not lines and not error and helper.code not in (0, 1, None):
        error = "the regular expression or the glob is not valid"
    return _Result(lines, limited, cut_lines, helper.timed_out, error)


def _format(kind: str, data: Json, mask: Callable[[str], str]) -> tuple[list[str], bool]:
    name = shown(os.fsdecode(_bytes(data.get("path"))).removeprefix("./"))
    number = as_int(data.get("line_number"))
    mark = ":" if kind == "match" else "-"
    texts: list[str] = []
    cut = False
    for offset, line in enumerate(_text(data.get("lines")).removesuffix("\n").split("\n")):
        line = line.removesuffix("\r")
        if len(line) > _LINE:
            line = _part(line, _match(data) if offset == 0 else _Span(0, 0), mask)
            cut = True
        texts.append(f"{name}{mark}{number + offset}{mark} {line}")
    return texts, cut


def _match(data: Json) -> _Span:
    """Find the first match of a line, in characters; ripgrep counts bytes."""
    first = as_dict(next(iter(as_list(data.get("submatches"))), None))
    raw = _bytes(data.get("lines"))
    start, end = (max(0, as_int(first.get(name))) for name in ("start", "end"))
    at = len(raw[:start].decode("utf-8", "replace"))
    return _Span(at, at + len(raw[start:end].decode("utf-8", "replace")))


def _part(line: str, match: _Span, mask: Callable[[str], str]) -> str:
    """Cut a long line to its beginning or, where the match is behind that, to what is around the match."""
    shown = min(match.end - match.start, _LINE)
    first = max(0, min(match.start - (_LINE - shown) // 2, len(line) - _LINE)) if match.end > _LINE else 0
    start = _cut(line, range(first, match.start + 1, _STEP), truncate.whole_from, mask) if first else 0
    last = _cut(line, range(first + _LINE, match.start + shown - 1, -_STEP), truncate.whole_until, mask)
    end = max(start, last)
    if not start:
        return f"{line[:end]}... [truncated]"
    after = f"... [{len(line) - end} characters cut]" if end < len(line) else ""
    return f"[{start} characters cut] ...{line[start:end]}{after}"


def _cut(
    line: str, places: range, otherwise: Callable[[str, int, Callable[[str], str]], int], mask: Callable[[str], str]
) -> int:
    """Choose the first of some places that goes through no secret."""
    free = (at for at in places if not truncate.divides(line, at, mask))
    at = next(free, None)
    return otherwise(line, places[0], mask) if at is None else at


def _decode(line: bytes) -> Json:
    try:
        return as_dict(json.loads(line))
    except ValueError:
        return {}


def _text(value: object) -> str:
    return _bytes(value).decode("utf-8", "replace")


def _bytes(value: object) -> bytes:
    """Read a text as ripgrep writes it: as it is or, when it is no UTF-8, in base64."""
    given = as_dict(value)
    if "bytes" not in given:
        return as_str(given.get("text")).encode("utf-8", "replace")
    try:
        return base64.b64decode(as_str(given["bytes"]))
    except binascii.Error:
        return b""


def _report(result: _Result, limit: int) -> ToolOutcome:
    if result.error:
        raise ToolError(f"The search failed: {result.error}")
    notices: list[str] = []
    details: Json = {}
    cut = truncate.head("\n".join(result.lines), max_lines=1 << 30)
    if result.limited:
        notices.append(f"{limit} matches limit reached. Use limit={2 * limit} for more, or a narrower pattern")
        details["matchLimitReached"] = limit
    if cut.by is not None:
        notices.append(f"{truncate.size_text(truncate.MAX_BYTES)} limit reached")
        details["truncation"] = cut.details()
    if result.cut_lines:
        notices.append(f"Some lines cut to {_LINE} characters. Use read to see them whole")
        details["linesTruncated"] = True
    if result.timed_out:
        notices.append(f"Stopped after {_LONGEST:g} seconds")
    text = cut.text if result.lines else "No matches found"
    note = f"\n\n[{'. '.join(notices)}]" if notices else ""
    return text_outcome(text + note, details=details or None)
