"""Markdown files with a head: lines `key: value` between two lines `---`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from vikingpi.regular import read_regular
from vikingpi.values import NamedTuple

LIMIT = 200_000
_LINE = "---"


class Page(NamedTuple):
    """`head` has the plain values; lists and nested values are left out."""

    head: Mapping[str, str]
    text: str


def read_page(path: Path) -> Page | str:
    """Read a text file of at most LIMIT bytes; return why where it is of no use."""
    try:
        data = read_regular(path, LIMIT + 1)
    except OSError as error:
        return f"it cannot be read ({error.strerror or error})"
    if len(data) > LIMIT:
        return f"it is larger than {LIMIT // 1000} kB"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return "it is not UTF-8"
    return "it is no text" if "\0" in text else parse_page(text.removeprefix("\ufeff").replace("\r\n", "\n"))


def parse_page(text: str) -> Page | str:
    """Split a text; one without a head is all text. Return why where its head cannot be read."""
    lines = text.split("\n")
    if lines[0].rstrip() != _LINE:
        return Page({}, text.strip())
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() == _LINE), 0)
    if not end:
        return f"its head has no closing line {_LINE}"
    head = _values(lines[1:end])
    return head if isinstance(head, str) else Page(head, "\n".join(lines[end + 1 :]).strip())


def _values(lines: Sequence[str]) -> dict[str, str] | str:
    found: dict[str, str] = {}
    key = ""
    for number, line in enumerate(lines, 2):
        text = line.strip()
        if not text or line.startswith(("#", "-")):
            continue
        if line[0].isspace():
            if key:
                found[key] = f"{found[key]} {text}".strip()
            continue
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or not key:
            return f"line {number} of it is not `key: value`, as a head has it"
        found[key] = "" if re.fullmatch(r"[>|][+-]?", value) else value
    for key, value in found.items():
        if value[:1] in ("'", '"'):
            quoted = re.fullmatch(r"""(["'])(.*)\1(?:\s*#.*)?""", value)
            if quoted is None:
                return f"the quote of {key} in its head is not closed"
            found[key] = quoted[2].replace('\\"', '"') if quoted[1] == '"' else quoted[2].replace("''", "'")
    return found
