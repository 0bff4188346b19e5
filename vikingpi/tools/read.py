"""Show a text file in pieces, or an image."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path

from vikingpi.decode import Json, as_str
from vikingpi.errors import ToolError
from vikingpi.messages import ImagePart, TextPart, ToolSpec
from vikingpi.tools import images, truncate
from vikingpi.tools.base import ToolContext, ToolOutcome, figure, text_outcome, whole_number
from vikingpi.tools.paths import explain, open_regular, resolve, scrub
from vikingpi.values import NamedTuple

_CHUNK = 1 << 20
_SNIFF = 8192

_SPEC = ToolSpec(
    "read",
    "Read a file. Text is given from the start or from `offset`, at most "
    f"{truncate.MAX_LINES} lines or {truncate.MAX_BYTES // 1024} KB at once; a note says how to go on. "
    "PNG, JPEG, GIF and WebP images are shown as images. Prefer this to cat or sed for looking at files.",
    {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "File to read, absolute or relative to the working directory"},
            "offset": {"type": "number", "description": "First line to show, counted from 1"},
            "limit": {"type": "number", "description": "Number of lines to show"},
        },
        "required": ["path"],
    },
)


class _Window(NamedTuple):
    """The lines from the wanted one on, as many as may be shown and a little more, of `total` lines in the file."""

    text: str
    total: int
    total_bytes: int
    first_line_bytes: int


class ReadTool:
    @property
    def spec(self) -> ToolSpec:
        return _SPEC

    async def run(self, arguments: Json, context: ToolContext) -> ToolOutcome:
        """Read; raise ToolError for what is no readable file."""
        path = as_str(arguments.get("path"))
        offset = max(1, whole_number(arguments, "offset", 1))
        limit = whole_number(arguments, "limit", 0, least=1) or None
        full = resolve(path, context)
        return await asyncio.to_thread(_read, path, full, offset, limit)


def _read(name: str, path: Path, offset: int, limit: int | None) -> ToolOutcome:
    try:
        handle, status = open_regular(path)
        with os.fdopen(handle, "rb", buffering=0) as file:
            start = file.read(_SNIFF)
            if images.kind_of(start):
                return _image(start, handle, status.st_size)
            _refuse_binary(start, name, path)
            os.lseek(handle, 0, os.SEEK_SET)
            window = _scan(handle, offset, limit)
    except OSError as error:
        raise ToolError(explain(error, path)) from error
    return _show(name, window, offset, limit)


def _image(start: bytes, handle: int, size: int) -> ToolOutcome:
    if not images.fits(size):
        raise ToolError(
            f"The image cannot be shown: {truncate.size_text(size)} are over the limit of model providers "
            f"({truncate.size_text(images.MAX_ENCODED // 4 * 3)}). Make a smaller copy and read that."
        )
    with os.fdopen(handle, "rb", closefd=False) as file:
        data = start + file.read(size)
    image = images.inspect(data)
    note = TextPart(f"Read image file [{image.mime_type}], {image.width}x{image.height} pixels")
    return ToolOutcome((note, ImagePart(base64.b64encode(data).decode("ascii"), image.mime_type)))


def _refuse_binary(start: bytes, name: str, path: Path) -> None:
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ToolError(f"{scrub(name)} is text in UTF-16. Read it with bash: iconv -f UTF-16 -t UTF-8 FILE")
    if b"\0" in start:
        size = truncate.size_text(path.stat().st_size)
        raise ToolError(f"{scrub(name)} is a binary file ({size}). Look at it with bash, for example file or xxd.")


def _scan(handle: int, offset: int, limit: int | None) -> _Window:
    lines_wanted = min(limit or truncate.MAX_LINES, truncate.MAX_LINES) + 1
    keep = truncate.MAX_BYTES + 4
    kept = bytearray()
    newlines = total_bytes = first_line = 0
    skip = offset - 1
    first_open = True
    while chunk := os.read(handle, _CHUNK):
        total_bytes += len(chunk)
        count = chunk.count(b"\n")
        at = 0
        if newlines < skip:
            at = _after(chunk, skip - newlines) if newlines + count >= skip else len(chunk)
        newlines += count
        if newlines < skip:
            continue
        if first_open:
            end = chunk.find(b"\n", at)
            first_open = end < 0
            first_line += (len(chunk) if first_open else end) - at
        if len(kept) < keep and kept.count(b"\n") < lines_wanted:
            kept += chunk[at : at + keep - len(kept)]
    text = kept.decode("utf-8", "replace")
    return _Window(text.removeprefix("\ufeff") if offset == 1 else text, newlines + 1, total_bytes, first_line)


def _after(chunk: bytes, count: int) -> int:
    at = 0
    for _ in range(count):
        at = chunk.index(b"\n", at) + 1
    return at


def _show(name: str, window: _Window, offset: int, limit: int | None) -> ToolOutcome:
    if offset > window.total:
        raise ToolError(f"Offset {figure(offset)} is beyond end of file ({window.total} lines total)")
    left = window.total - offset + 1
    wanted = min(left, limit or left)
    if window.first_line_bytes > truncate.MAX_BYTES:
        size, most = truncate.size_text(window.first_line_bytes), truncate.MAX_BYTES
        note = (
            f"[Line {offset} is {size}, over the limit of {truncate.size_text(most)}. "
            f"Use bash: sed -n '{offset}p' {_quote(name)} | head -c {most}]"
        )
        cut = truncate.Truncation("", "bytes", window.total, window.total_bytes, 0, 0, False, True)
        return text_outcome(note, details={"truncation": cut.details()})
    lines = window.text.split("\n")[: min(wanted, truncate.MAX_LINES + 1)]
    cut = truncate.head("\n".join(lines))
    shown = cut.output_lines
    last = offset + shown - 1
    if shown < wanted:
        by_bytes = "" if cut.by == "lines" else f" ({truncate.size_text(truncate.MAX_BYTES)} limit)"
        total = window.total
        note = f"\n\n[Showing lines {offset}-{last} of {total}{by_bytes}. Use offset={last + 1} to continue.]"
        kept = cut._replace(total_lines=total, total_bytes=window.total_bytes, by=cut.by or "bytes")
        return text_outcome(cut.text + note, details={"truncation": kept.details()})
    if last < window.total:
        rest = window.total - last
        return text_outcome(f"{cut.text}\n\n[{rest} more lines in file. Use offset={last + 1} to continue.]")
    return text_outcome(cut.text or "[The file is empty]" if window.total == 1 else cut.text)


def _quote(name: str) -> str:
    return "'" + scrub(name).replace("'", "'\\''") + "'"
