"""The status bar: figures in the order they are read, the least important dropped first where room is short."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from vikingpi import safetext
from vikingpi.commands.host import Figures
from vikingpi.events import StoreState
from vikingpi.regular import read_regular
from vikingpi.safetext import cells, cut_cells
from vikingpi.ui.lines import tokens
from vikingpi.ui.theme import UNICODE, Glyphs
from vikingpi.values import NamedTuple

SEPARATOR = " · "
PART_CELLS = 300
_MOST_HEAD = 4096
_JOINERS: dict[int, None] = dict.fromkeys((0x200C, 0x200D, 0xFE0E, 0xFE0F))


class Part(NamedTuple):
    """A piece of the bar. The one with the smallest `weight` goes first; one that has shorter forms takes the next of
    them when pieces of half its weight go."""

    text: str
    weight: int
    style: str = "class:status"
    shorter: tuple[str, ...] = ()


def parts_of(figures: Figures, branch: str = "", home: str = "", glyphs: Glyphs = UNICODE) -> tuple[Part, ...]:
    """Return the pieces of the bar in reading order; empty ones are left out."""
    folder, name = _folder(figures.cwd, home), Path(figures.cwd).name
    model = figures.model
    if figures.thinking_level not in ("", "off"):
        model = f"{model} {figures.thinking_level}"
    up, down = glyphs.tokens
    pieces = (
        Part(f"{folder} ({branch})", 60, shorter=(f"{name} ({branch})", name))
        if branch
        else Part(folder, 60, shorter=(name,)),
        Part(figures.session_name, 30),
        Part(model, 50, shorter=(model.rpartition("/")[2],)),
        Part(f"{up}{_known(figures.tokens_in)} {down}{_known(figures.tokens_out)}", 40),
        Part(_cached(figures), 10),
        Part(f"${figures.cost:.3f}" if figures.cost > 0 else "", 20),
        Part(figures.approval if figures.approval != "off" else "", 95, "class:status.warning"),
        _context(figures),
        _store(figures.store, glyphs),
    )
    return tuple(_cleaned(part) for part in pieces if part.text)


def _cleaned(part: Part) -> Part:
    return part._replace(text=_clean(part.text), shorter=tuple(_clean(form) for form in part.shorter if form))


def _known(count: int) -> str:
    return tokens(count) if count >= 0 else "?"


def store_text(state: StoreState, glyphs: Glyphs = UNICODE) -> str:
    """Write the state of the context store: `OV ✓ · ctx 3 · ~1.2k/30k`; `-` is off, `mem` is embedded."""
    return SEPARATOR.join(_store_parts(state, glyphs))


def _store(state: StoreState, glyphs: Glyphs) -> Part:
    parts = _store_parts(state, glyphs)
    shorter = tuple(SEPARATOR.join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
    return Part(SEPARATOR.join(parts), 180, _store_style(state), shorter)


def _store_parts(state: StoreState, glyphs: Glyphs) -> tuple[str, ...]:
    if state.kind == "off":
        return ("OV -",)
    name = "mem" if state.kind == "embedded" else "OV"
    yes, no, not_yet = glyphs.marks
    mark = {True: yes, False: no, None: not_yet}[state.connected]
    pressure = f"~{tokens(state.pending_tokens)}/{tokens(state.token_threshold)}"
    return f"{name} {mark}", f"ctx {state.covered_user_turns}", pressure


def fit(parts: Iterable[Part], columns: int) -> tuple[Part, ...]:
    """Return the pieces that fit into `columns` cells with their separators."""
    left = list(parts)
    while (len(left) > 1 or left[0].shorter) and _width(left) > columns:
        weakest = min(left, key=lambda part: part.weight / 2 if part.shorter else part.weight)
        at = left.index(weakest)
        if weakest.shorter:
            left[at] = weakest._replace(text=weakest.shorter[0], shorter=weakest.shorter[1:])
        else:
            del left[at]
    return tuple(part._replace(text=cut_cells(part.text, columns)) for part in left)


def git_branch(folder: str) -> str:
    """Return the branch that is checked out in `folder`, a short commit id, or nothing."""
    for parent in (Path(folder), *Path(folder).parents):
        try:
            head = _git_head(parent / ".git")
        except OSError:
            continue
        name = head.removeprefix("ref: refs/heads/")
        return name if name != head else head[:7]
    return ""


def _git_head(place: Path) -> str:
    if place.is_file():
        target = _start_of(place).removeprefix("gitdir:").strip()
        place = place.parent / target
    return _start_of(place / "HEAD").strip()


def _start_of(path: Path) -> str:
    return read_regular(path, _MOST_HEAD).decode("utf-8", "replace")


def _clean(text: str) -> str:
    return unjoined(safetext.one_line(text, PART_CELLS))


def unjoined(text: str) -> str:
    """Leave out what joins characters: terminals do not agree on how wide the joined ones are."""
    return text.translate(_JOINERS)


def _folder(cwd: str, home: str) -> str:
    home = home or os.environ.get("HOME", "")
    if home not in ("", "/") and (cwd == home or cwd.startswith(home + "/")):
        return "~" + cwd[len(home) :]
    return cwd


def _cached(figures: Figures) -> str:
    """Say how much of what was sent came from the provider's cache."""
    if figures.cache_read <= 0 or figures.tokens_in < 0:
        return ""
    return f"cached {round(100 * figures.cache_read / (figures.tokens_in + figures.cache_read))}%"


def _store_style(state: StoreState) -> str:
    return "class:status.error" if state.kind != "off" and state.connected is False else "class:status"


def _context(figures: Figures) -> Part:
    window = figures.context_window
    if figures.context_tokens < 0:
        return Part(f"?/{tokens(window)}", 80)
    used = tokens(figures.context_tokens)
    if window <= 0:
        return Part(used, 80)
    share = round(100 * figures.context_tokens / window)
    level = ".error" if share >= 90 else ".warning" if share >= 70 else ""
    return Part(f"{used}/{tokens(window)} ({share}%)", 80, f"class:status{level}", (f"{share}%",))


def _width(parts: list[Part]) -> int:
    return sum(cells(part.text) for part in parts) + len(SEPARATOR) * (len(parts) - 1)
