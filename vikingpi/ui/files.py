"""What `@` and Tab complete: files of the project that no gitignore file excludes, and any path by its beginning."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from vikingpi.safetext import is_seen
from vikingpi.tools.globs import walk
from vikingpi.tools.helper import program
from vikingpi.tools.paths import is_folder
from vikingpi.ui.menu import NOTHING, Item, Offer, Source
from vikingpi.values import NamedTuple

MOST_FILES = 50_000
MOST_ITEMS = 50
LIST_SECONDS = 5.0
FRESH_SECONDS = 5.0
_AT = re.compile(r'(?:^|(?<=[\s("\'=]))@("[^"\n]*|[^\s"]*)\Z')
_WORD = re.compile(r'(?:^|(?<=[\s(=]))(@?"[^"\n]*|[^\s"]*)\Z')
_LOOK_BACK = 500


class _Path(NamedTuple):
    text: str
    lower: str
    name_at: int


class FileIndex:
    """The paths below a folder, listed in a thread when they are first wanted and again when they may be stale.

    `changed` is called, in that thread, when there is a new list.
    """

    def __init__(self, folder: Callable[[], Path], changed: Callable[[], None]) -> None:
        self._folder = folder
        self._changed = changed
        self._paths: tuple[_Path, ...] = ()
        self._of: Path | None = None
        self._listed = 0.0
        self._busy = False

    @property
    def loading(self) -> bool:
        return self._busy and not self._paths

    def match(self, query: str, most: int = MOST_ITEMS) -> tuple[str, ...]:
        """Return the best paths for a query: in the name, in the path, with all letters in this order."""
        self._renew()
        wanted = query.lower()
        if not wanted:
            return tuple(path.text for path in self._paths if path.name_at == 0)[:most]
        named = [path for path in self._paths if path.lower.find(wanted, path.name_at) >= 0]
        named.sort(key=lambda path: (not path.lower.startswith(wanted, path.name_at), len(path.text)))
        found = named[:most]
        if len(found) < most:
            seen = set(found)
            inside = (path for path in self._paths if path not in seen and wanted in path.lower)
            found += sorted(inside, key=lambda path: len(path.text))[: most - len(found)]
        if len(found) < most:
            seen = set(found)
            letters = re.compile(".*?".join(map(re.escape, wanted)), re.DOTALL)
            loose = (path for path in self._paths if path not in seen and letters.search(path.lower))
            found += sorted(loose, key=lambda path: len(path.text))[: most - len(found)]
        return tuple(path.text for path in found)

    def _renew(self) -> None:
        folder = self._folder()
        if folder != self._of:
            self._of, self._paths, self._listed = folder, (), 0.0
        if self._busy or (self._listed and time.monotonic() - self._listed < FRESH_SECONDS):
            return
        self._busy = True
        threading.Thread(target=self._list, args=(folder,), name="files", daemon=True).start()

    def _list(self, folder: Path) -> None:
        paths = _list(folder)
        if folder == self._of:
            self._paths, self._listed = paths, time.monotonic()
        self._busy = False
        self._changed()


def at_source(index: FileIndex, folder: Callable[[], Path]) -> Source:
    """Offer files for a word that begins with `@`; a path that leaves the project is completed by its beginning."""

    def offer(text: str) -> Offer:
        match = _AT.search(text[-_LOOK_BACK:])
        if match is None:
            return NOTHING
        word = match[1].removeprefix('"')
        start = len(text) - len(match[0])
        if word.startswith(("/", "~", "../")):
            paths = listed(word, folder())
        else:
            paths = index.match(word.removeprefix("./"))
            if index.loading:
                return Offer(start, (Item("(listing files)", "", f"@{word}"),), after="")
        return Offer(start, tuple(Item(path, "", f"@{_quoted(path)}") for path in paths))

    return offer


def path_source(folder: Callable[[], Path], text: str) -> Source:
    """Offer the paths that begin with the last word of `text`, as long as only that word changes."""
    match = _WORD.search(text[-_LOOK_BACK:])
    word = match[1] if match is not None else ""
    begin, kept = len(text) - len(word), text[: len(text) - len(word)]
    sign = "@" if word.startswith("@") else ""

    def offer(now: str) -> Offer:
        typed = now[begin:].removeprefix(sign).removeprefix('"')
        if not now.startswith(kept) or (" " in typed and '"' not in now[begin:]):
            return NOTHING
        paths = listed(typed, folder())
        return Offer(begin, tuple(Item(path, "", sign + _quoted(path)) for path in paths)) if paths else NOTHING

    return offer


def listed(beginning: str, folder: Path, most: int = 500) -> tuple[str, ...]:
    """Return the paths that begin like this, a folder with a slash at its end; hidden ones only where asked for.

    What would not be seen as it is, such as a name with a text direction mark, is left out.
    """
    head, _, name = beginning.rpartition("/")
    place = f"{head}/" if "/" in beginning else ""
    try:
        with os.scandir(folder / os.path.expanduser(place)) as entries:  # noqa: PTH111 - Path's raises for ~nobody
            found = [(entry.name, is_folder(entry)) for entry in entries if entry.name.startswith(name)]
    except (OSError, ValueError):
        return ()
    wanted = (entry for entry in found if name.startswith(".") or not entry[0].startswith("."))
    shown = sorted(entry for entry in wanted if is_seen(entry[0]))
    return tuple(f"{place}{entry}{'/' if slash else ''}" for entry, slash in shown[:most])


def common_beginning(offer: Offer) -> str:
    """Return what all items would insert."""
    first, last = (choose(item.insert for item in offer.items) for choose in (min, max))
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:length]


def _quoted(path: str) -> str:
    if " " not in path:
        return path
    return f'"{path}' if path.endswith("/") else f'"{path}"'


def _list(folder: Path) -> tuple[_Path, ...]:
    files = _from_git(folder)
    if files is None:
        until = time.monotonic() + LIST_SECONDS
        found = walk(folder, lambda: time.monotonic() > until)
        names = _first(f"{path}/" if is_folder else path for path, is_folder in found)
    else:
        names = _with_folders(_first(files))
    return tuple(_Path(name, name.lower(), name.rstrip("/").rfind("/") + 1) for name in filter(is_seen, names))


def _first(names: Iterable[str]) -> list[str]:
    taken: list[str] = []
    for name in names:
        taken.append(name)
        if len(taken) == MOST_FILES:
            break
    return taken


def _from_git(folder: Path) -> list[str] | None:
    """Ask git, which is fast in big repositories; None where there is no git or no repository.

    The settings of a repository are its author's: those that would run something are switched off.
    """
    git = program(os.environ, "git")
    if git is None:
        return None
    command = [
        git,
        "-c",
        "core.fsmonitor=false",
        "-c",
        "core.sshCommand=false",
        "-c",
        "protocol.allow=never",
        "-C",
        str(folder),
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--deduplicate",
    ]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LIST_SECONDS,
            check=False,
            env={**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return os.fsdecode(done.stdout).split("\0")[:-1] if done.returncode == 0 else None


def _with_folders(files: list[str]) -> list[str]:
    names: dict[str, None] = {}
    for file in files:
        at = file.find("/")
        while at >= 0:
            names.setdefault(file[: at + 1])
            at = file.find("/", at + 1)
        names[file] = None
    return sorted(names)
