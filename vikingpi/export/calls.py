"""Tool calls and what came of them, folded, with edits as diffs; and the commands of the user."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from vikingpi.decode import Json, as_dict, as_int, as_list, as_str
from vikingpi.export.ink import Ink
from vikingpi.export.markup import Html, image_source, join, tag
from vikingpi.messages import ImagePart, TextPart, ToolCall, ToolResultMessage

# A short change is shown unfolded.
_OPEN_LINES = 40
MOST_IMAGES = 24_000_000


class Pictures:
    """Hands out images until they are `most` characters together: those that are asked for first."""

    def __init__(self, most: int = MOST_IMAGES) -> None:
        self._left = most
        self.left_out = 0

    def show(self, image: ImagePart, ink: Ink) -> Html:
        """Return an image, or a note in its place where it is none or too much."""
        kind = ink.line(image.mime_type, 40)
        if len(image.data) > self._left:
            self.left_out += 1
            return tag("p", f"[image {kind}, {len(image.data) * 3 // 4096:,} kB: left out of this page]", cls="note")
        source = image_source(image)
        if not source:
            return tag("p", f"[image {kind}: not an image that can be shown]", cls="note")
        self._left -= len(image.data)
        return tag("p", tag("img", src=source, alt="image in the conversation"))


def show_call(call: ToolCall, result: ToolResultMessage | None, ink: Ink, pictures: Pictures) -> Html:
    """Show a call: its head, and folded its arguments and what came of it."""
    arguments = as_dict(ink.json(call.arguments))
    change = _change(call.name, arguments, result)
    body = [_diff(change, ink)] if change else list(_arguments(call, arguments, ink))
    state, failed = "", result is None or result.is_error
    if result is None:
        state = "no result"
    else:
        state = "failed" if result.is_error else ""
        if not change or result.is_error:
            body.append(_output(result, ink))
        body += [pictures.show(part, ink) for part in result.content if isinstance(part, ImagePart)]
    head = [tag("code", _head(call, arguments, ink))]
    if state:
        head.append(tag("span", state, cls="failed"))
    if result is not None and result.duration_ms and result.duration_ms >= 1000:
        head.append(tag("span", f"{result.duration_ms / 1000:.1f} s", cls="quiet"))
    opened = bool(change) and change.count("\n") < _OPEN_LINES
    return tag("details", tag("summary", join(head, " ")), *body, open=opened, cls="call failing" if failed else "call")


def show_result(result: ToolResultMessage, ink: Ink, pictures: Pictures) -> Html:
    """Show a result whose call is not there."""
    images = [pictures.show(part, ink) for part in result.content if isinstance(part, ImagePart)]
    head = tag("summary", tag("code", ink.line(result.tool_name)), " (a result whose call is not here)")
    return tag("details", head, _output(result, ink), *images, cls="call")


def show_command(message: Json, ink: Ink) -> Html:
    """Show a command that the user ran with `!`."""
    hidden = message.get("excludeFromContext") is True
    notes = ["not shown to the model"] if hidden else []
    if message.get("cancelled") is True:
        notes.append("cancelled")
    elif code := as_int(message.get("exitCode")):
        notes.append(f"exit {code}")
    head = [tag("code", f"{'!!' if hidden else '!'} {ink.line(ink.literal(as_str(message.get('command'))))}")]
    head += [tag("span", note, cls="quiet") for note in notes]
    output = ink.text(as_str(message.get("output")))
    command = ink.literal(as_str(message.get("command")))
    body = [_pre(command)] if "\n" in command else []
    return tag("details", tag("summary", join(head, " ")), *body, _pre(output or "(no output)"), cls="call")


def show_json(value: Json, ink: Ink) -> Html:
    """Show a JSON object as it is."""
    return _pre(ink.text(json.dumps(ink.json(value), ensure_ascii=False, indent=1)))


def _head(call: ToolCall, arguments: Json, ink: Ink) -> str:
    name = ink.line(call.name, 100)
    if call.broken:
        return f"{name} {ink.line(call.broken)}"
    if call.name == "bash":
        return f"$ {ink.line(ink.literal(as_str(arguments.get('command'))))}"
    what = arguments.get("path")
    if not isinstance(what, str):
        what = " ".join(f"{key}={value}" for key, value in arguments.items())
    return f"{name} {ink.line(ink.literal(what))}".rstrip()


def _arguments(call: ToolCall, arguments: Json, ink: Ink) -> Iterator[Html]:
    if call.broken:
        yield _pre(ink.text(call.broken))
    elif call.name == "bash" and set(arguments) <= {"command", "timeout"}:
        yield _pre(ink.literal(as_str(arguments.get("command"))))
    elif set(arguments) - {"path"}:
        yield show_json(arguments, ink)


def _output(result: ToolResultMessage, ink: Ink) -> Html:
    text = "".join(part.text for part in result.content if isinstance(part, TextPart))
    return _pre(ink.text(text) or "(empty)", "output")


def _change(name: str, arguments: Json, result: ToolResultMessage | None) -> str:
    """Return the change that a call made as a diff, "" for a call that changes nothing."""
    if name == "edit":
        written = as_str(as_dict(result.details).get("diff")) if result is not None else ""
        return written or "\n".join(_edits(arguments))
    if name == "write":
        return "\n".join(f"+{line}" for line in as_str(arguments.get("content")).split("\n"))
    return ""


def _edits(arguments: Json) -> Iterator[str]:
    edits = [*map(as_dict, as_list(arguments.get("edits"))), arguments]
    for edit in edits:
        for sign, key in (("-", "oldText"), ("+", "newText")):
            if text := as_str(edit.get(key)):
                yield from (f"{sign}{line}" for line in text.split("\n"))


def _diff(change: str, ink: Ink) -> Html:
    """Colour the lines of a diff; lines of one kind that follow each other are one element."""
    kinds = {"+": "added", "-": "removed"}
    runs: list[tuple[str, list[str]]] = []
    for line in ink.text(change).split("\n"):
        kind = kinds.get(line[:1], "same")
        if not runs or runs[-1][0] != kind:
            runs.append((kind, []))
        runs[-1][1].append(line)
    return tag("pre", *_lines(runs), cls="diff", tabindex=0)


def _lines(runs: Sequence[tuple[str, list[str]]]) -> Iterator[Html]:
    for kind, lines in runs:
        yield tag("span", "\n".join(lines) + "\n", cls=kind)


def _pre(text: str, kind: str = "") -> Html:
    return tag("pre", text, tabindex=0, cls=kind or False)
