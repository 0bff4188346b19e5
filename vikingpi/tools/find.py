"""Find files by name."""

from __future__ import annotations

import asyncio
import os
import re
import stat
import threading
import time
from pathlib import Path

from vikingpi.decode import Json, as_str
from vikingpi.errors import ToolError
from vikingpi.messages import ToolSpec
from vikingpi.tools import truncate
from vikingpi.tools.base import ToolContext, ToolOutcome, text_outcome, whole_number
from vikingpi.tools.globs import to_regex, walk
from vikingpi.tools.helper import Helper, program
from vikingpi.tools.paths import mode_of, resolve, scrub, shown

_LIMIT = 1000
_LONGEST = 60.0

_SPEC = ToolSpec(
    "find",
    "Find files and folders by a glob pattern such as *.py, src/**/test_*.py or {a,b}.txt. A pattern without a slash "
    "matches names at any depth. Hidden files are searched, what gitignore files exclude is not. Paths are relative "
    f"to the folder that was searched. At most {_LIMIT} results unless `limit` says otherwise.",
    {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "Glob pattern; lower case only means any case"},
            "path": {"type": "string", "description": "Folder to search; the working directory if left out"},
            "limit": {"type": "number", "description": f"Most results to give, {_LIMIT} if left out"},
        },
        "required": ["pattern"],
    },
)


class FindTool:
    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    async def run(self, arguments: Json, context: ToolContext) -> ToolOutcome:
        """Find; raise ToolError for a folder or a pattern that cannot be used."""
        pattern = scrub(as_str(arguments.get("pattern")))
        root = resolve(as_str(arguments.get("path")) or ".", context)
        limit = whole_number(arguments, "limit", _LIMIT, least=1)
        if not stat.S_ISDIR(mode_of(root)):
            raise ToolError(f"Not a directory: {scrub(str(root))}")
        found = await _by_fd(pattern, root, limit, context)
        if found is None:
            found = await _by_walk(pattern, root, limit)
        return _report(found, limit)


async def _by_fd(pattern: str, root: Path, limit: int, context: ToolContext) -> list[str] | None:
    """Let fd do it where it can: names only, and a version that knows the options. None says that it did not."""
    fd = program(context.env, "fd", "fdfind")
    if fd is None or "/" in pattern:
        return None
    command = [fd, "--glob", "--hidden", "--no-require-git", "--color=never", "--print0", "--exclude=.git"]
    command += [f"--max-results={limit + 1}", "--", pattern, "."]
    async with Helper(command, root, context.env, _LONGEST) as helper:
        data = b"".join([piece async for piece in helper.pieces()])
        if helper.code not in (0, 1):
            return None
    names = [os.fsdecode(name).removeprefix("./") for name in data.split(b"\0") if name]
    return sorted(map(shown, names))


async def _by_walk(pattern: str, root: Path, limit: int) -> list[str]:
    try:
        wanted = to_regex(pattern, ignore_case=pattern == pattern.lower())
    except re.error as error:
        raise ToolError(f"Invalid pattern: {error}") from error
    given_up = threading.Event()
    until = time.monotonic() + _LONGEST

    def search() -> list[str]:
        found: list[str] = []
        for path, is_folder in walk(root, lambda: given_up.is_set() or time.monotonic() > until):
            if wanted.fullmatch(path):
                found.append(shown(path) + ("/" if is_folder else ""))
                if len(found) > limit:
                    break
        return found

    try:
        return await asyncio.to_thread(search)
    finally:
        given_up.set()


def _report(found: list[str], limit: int) -> ToolOutcome:
    if not found:
        return text_outcome("No files found matching pattern")
    cut = truncate.head("\n".join(found[:limit]), max_lines=limit)
    details: Json = {}
    notices: list[str] = []
    if len(found) > limit:
        notices.append(f"{limit} results limit reached. Use limit={2 * limit} for more, or a narrower pattern")
        details["resultLimitReached"] = limit
    if cut.by is not None:
        notices.append(f"{truncate.size_text(truncate.MAX_BYTES)} limit reached")
        details["truncation"] = cut.details()
    note = f"\n\n[{'. '.join(notices)}]" if notices else ""
    return text_outcome(cut.text + note, details=details or None)
