"""Markdown files with a head: lines `key: value` between two lines `---`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vikingpi.regular import read_regular
from vikingpi.values import NamedTuple

LIMIT = 200_000


class Page(NamedTuple):
    """`head` has the plain values; lists and nested values are left out."""

    head: Mapping[str, str]
    text: str


def read_page(path: Path) -> Page | None:
    """Read a file of at most LIMIT bytes; None if it cannot be read."""
    try:
        text = read_regular(path, LIMIT).decode("utf-8", "replace").removeprefix("\ufeff")
    except OSError:
        return None
    return parse_page(text.replace("\r\n", "\n"))


def parse_page(text: str) -> Page:
    """Split a text; one without a head is all text."""
    if not text.startswith("---\n"):
        return Page({}, text.strip())
    head, end, rest = text[4:].partition("\n---")
    if not end or (rest and not rest.startswith("\n")):
        return Page({}, text.strip())
    return Page(_values(head.split("\n")), rest.strip())


def _values(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    key = ""
    for line in lines:
        if line[:1].isspace():
            if key and line.strip():
                found[key] = f"{found[key]} {line.strip()}".strip()
            continue
        key, colon, value = line.partition(":")
        key, value = key.strip(), value.strip()
        if not colon or not key or key.startswith(("#", "-")):
            key = ""
            continue
        if value in (">", "|", ">-", "|-", ">+", "|+"):
            value = ""
        elif len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        found[key] = value
    return found
