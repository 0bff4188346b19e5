"""File name patterns: those of gitignore files and those of the find and grep tools."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_MOST_IGNORE = 1_000_000


class _Rule(NamedTuple):
    """`pattern` is matched against the path below `base`; `only_folders` for a pattern that ended with a slash."""

    base: str
    pattern: re.Pattern[str]
    again: bool
    only_folders: bool


@cache
def to_regex(glob: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """Translate a pattern with `*`, `?`, `[...]`, `{a,b}` and `**`; without a slash it is matched against names."""
    anchored = "/" in glob.rstrip("/")
    pattern = _translate(glob.strip("/"))
    prefix = "" if anchored else "(?:.*/)?"
    return re.compile(f"{prefix}{pattern}", re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def walk(root: Path, stop: Callable[[], bool]) -> Iterator[tuple[str, bool]]:
    """Yield the paths below `root`, relative to it and sorted, with True for a folder; until `stop()` is true.

    Hidden ones are there; `.git` and what gitignore files exclude, also those above up to the repository's root, are
    not. Links are not followed. Folders that cannot be read are left out.
    """
    rules = [*_rules_above(root)]
    yield from _walk(str(root).rstrip("/"), "", rules, stop)


def _walk(root: str, below: str, rules: list[_Rule], stop: Callable[[], bool]) -> Iterator[tuple[str, bool]]:
    folder = f"{root}/{below}"
    rules = [*rules, *_rules_in(folder.rstrip("/") or "/")]
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError:
        return
    for name, is_folder in found:
        if stop():
            return
        path = f"{below}/{name}" if below else name
        if name == ".git" or _is_ignored(f"{root}/{path}", is_folder, rules):
            continue
        yield path, is_folder
        if is_folder:
            yield from _walk(root, path, rules, stop)


def _is_ignored(path: str, is_folder: bool, rules: list[_Rule]) -> bool:
    for rule in reversed(rules):
        if rule.only_folders and not is_folder:
            continue
        if rule.pattern.fullmatch(path[len(rule.base) + 1 :]):
            return not rule.again
    return False


def _rules_above(root: Path) -> Iterator[_Rule]:
    folders = [root, *root.parents]
    top = next((index for index, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    if (folders[top] / ".git").is_dir():
        yield from _rules(folders[top] / ".git/info/exclude", str(folders[top]))
    for folder in reversed(folders[1 : top + 1]):
        yield from _rules_in(str(folder))


def _rules_in(folder: str) -> Iterator[_Rule]:
    for name in (".gitignore", ".ignore"):
        yield from _rules(Path(folder, name), folder)


def _rules(path: Path, base: str) -> Iterator[_Rule]:
    try:
        if not path.is_file():
            return
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(_MOST_IGNORE).splitlines()
    except OSError:
        return
    base = base.rstrip("/")
    for line in lines:
        text = line.rstrip() if not line.endswith("\\ ") else line
        if not text or text.startswith("#"):
            continue
        again = text.startswith("!")
        text = text[1:] if again else text.removeprefix("\\") if text[:2] in ("\\#", "\\!") else text
        body = text.rstrip("/")
        if not body.strip("/"):
            continue
        try:
            pattern = to_regex(body)
        except re.error:
            continue
        yield _Rule(base, pattern, again, text.endswith("/"))


def _translate(glob: str) -> str:
    out: list[str] = []
    at = depth = 0
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "*":
            piece, at = _star(glob, at)
            out.append(piece)
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (end := glob.find("]", at + 2 if glob[at : at + 1] in ("!", "^") else at + 1)) > 0:
            body = glob[at:end].replace("\\", "\\\\").replace("[", "\\[")
            out.append(f"(?!/)[^{body[1:]}]" if body[0] in "!^" else f"(?!/)[{body}]")
            at = end + 1
        elif char == "{" and "}" in glob[at:]:
            depth += 1
            out.append("(?:")
        elif char == "}" and depth:
            depth -= 1
            out.append(")")
        elif char == "," and depth:
            out.append("|")
        elif char == "\\" and at < len(glob):
            out.append(re.escape(glob[at]))
            at += 1
        else:
            out.append(re.escape(char))
    return "".join(out) + ")" * depth


def _star(glob: str, at: int) -> tuple[str, int]:
    """Translate the star before `at` and those that follow it."""
    begin = at - 1
    while glob[at : at + 1] == "*":
        at += 1
    if at - begin < 2:
        return "[^/]*", at
    starts = begin == 0 or glob[begin - 1] == "/"
    if starts and glob[at : at + 1] == "/":
        return "(?:.*/)?", at + 1
    return (".+" if at == len(glob) and starts else ".*"), at
