"""File name patterns: those of gitignore files and those of the find and grep tools."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vikingpi.values import NamedTuple

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_MOST_IGNORE = 1_000_000


class _Ignore(NamedTuple):
    """What a gitignore file says about the paths below `base`."""

    base: str
    spec: GitIgnoreSpec


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
    not, unless `root` itself is excluded: then it was meant. Links are not followed. Folders that cannot be read are
    left out.
    """
    folder = str(root).rstrip("/")
    above = [*_ignores_above(root)]
    yield from _walk(folder, "", [] if _is_ignored(folder, True, above) else above, stop)


def _walk(root: str, below: str, ignores: list[_Ignore], stop: Callable[[], bool]) -> Iterator[tuple[str, bool]]:
    folder = f"{root}/{below}"
    ignores = [*ignores, *_ignores_in(folder.rstrip("/") or "/")]
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError:
        return
    for name, is_folder in found:
        if stop():
            return
        path = f"{below}/{name}" if below else name
        if name == ".git" or _is_ignored(f"{root}/{path}", is_folder, ignores):
            continue
        yield path, is_folder
        if is_folder:
            yield from _walk(root, path, ignores, stop)


def _is_ignored(path: str, is_folder: bool, ignores: list[_Ignore]) -> bool:
    """The nearest file that says anything about the path decides."""
    for ignore in reversed(ignores):
        below = path[len(ignore.base) + 1 :]
        found = ignore.spec.check_file(f"{below}/" if is_folder else below).include if below else None
        if found is not None:
            return found
    return False


def _ignores_above(root: Path) -> Iterator[_Ignore]:
    folders = [root, *root.parents]
    top = next((index for index, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    if (folders[top] / ".git").is_dir():
        yield from _ignore(folders[top] / ".git/info/exclude", str(folders[top]))
    for folder in reversed(folders[1 : top + 1]):
        yield from _ignores_in(str(folder))


def _ignores_in(folder: str) -> Iterator[_Ignore]:
    for name in (".gitignore", ".ignore"):
        yield from _ignore(Path(folder, name), folder)


def _ignore(path: Path, base: str) -> Iterator[_Ignore]:
    try:
        if not path.is_file():
            return
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(_MOST_IGNORE).splitlines()
    except OSError:
        return
    yield _Ignore(base.rstrip("/"), _spec(lines))


def _spec(lines: list[str]) -> GitIgnoreSpec:
    """Read the lines of a gitignore file; those that are no pattern are left out, as git does."""
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:
        if len(lines) == 1:
            return GitIgnoreSpec.from_lines([])
        return GitIgnoreSpec.from_lines([line for line in lines if len(_spec([line]).patterns)])


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
