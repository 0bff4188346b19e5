"""Overviews: the text of one archive and all before it, in seven sections under `## ` headings.

`extract` writes one without a model: what was asked and decided in the user's own words, values, files, commands and
how they ended. It never adds anything of its own, and the same input gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vikingpi.tokens import cut, estimate
from vikingpi.values import NamedTuple
from vikingpi.viking.base import SEED_TITLE, StoreMessage
from vikingpi.viking.digest import FAILED_LAST, NOT_ANSWERED, Lines, digest
from vikingpi.viking.facts import fact_subject, is_change

TITLE = "# Working Memory"
SECTIONS = (
    "Session Title",
    "Current State",
    "Task & Goals",
    "Key Facts & Decisions",
    "Files & Context",
    "Errors & Corrections",
    "Open Issues",
)
TRUNCATED = "...(truncated)"
SEED_MARK = "seed:"

_NONE = "(none)"
_OLD_LINE = 600
_PLACEHOLDER = re.compile(r"\s*# Session Summary\s+\*\*Overview\*\*:")
_KNOWN = re.compile(rf"^## +(?:{'|'.join(map(re.escape, SECTIONS))})\s*$", re.MULTILINE)
_HEADING = re.compile(r"^## ")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_BULLET = re.compile(r"^\s*[-*+]\s+")
_LOOSE_ENDS = (NOT_ANSWERED, FAILED_LAST)
_FACTS = "Key Facts & Decisions"
_USER, _LATER = "User: ", "User, later: "
_NAME = re.compile(r"\b\w*[A-Z]\w*\b|\b[a-z]+_\w+\b")
_NO_NAMES = frozenset(
    ("We", "I", "You", "It", "The", "This", "OK", "Ok", "Actually", "Now", "No", "Our", "My", "A", "Change", "So")
)
_BY_USER, _BY_OTHERS = "value by the user: ", "value by others: "


def acceptable(text: str) -> bool:
    """Whether this is an overview to stand in for history: it has a known section and is no server's placeholder."""
    return _KNOWN.search(text) is not None and _PLACEHOLDER.match(text) is None


def well_formed(text: str) -> bool:
    """Whether a text has every section once, in order, and something in one of them."""
    headings = tuple(line[3:].strip() for line in text.splitlines() if _KNOWN.match(line))
    return headings == SECTIONS and any(_parse(text)[section] for section in SECTIONS)


def fitted(text: str, budget_tokens: int) -> str:
    """Leave the least valuable lines out of a well-formed overview that is over its budget."""
    return _render(_fit(_parse(text), budget_tokens), budget_tokens)


def cut_sections(text: str, budget_tokens: int) -> str:
    """Cut an overview to a budget so that each `## ` heading survives, with a mark at the end when cut.

    Sections that are short stay whole; the long ones share what is left, each cut after its last line that fits.
    Headings that alone are over the budget are cut like plain text.
    """
    if estimate(text) <= budget_tokens:
        return text
    pieces = _split(text)
    room = budget_tokens - estimate(TRUNCATED) - 1
    room -= sum(estimate(piece.heading) + 1 for piece in pieces)
    if room < 0:
        return cut(text, max(0, budget_tokens - estimate("\n" + TRUNCATED))).rstrip() + "\n" + TRUNCATED
    shares = _shares([estimate(piece.body) for piece in pieces], room)
    kept = [piece.heading + _cut_lines(piece.body, share) for piece, share in zip(pieces, shares, strict=True)]
    return "".join(one if one.endswith("\n") else one + "\n" for one in kept) + TRUNCATED


def extract(previous: str, messages: Sequence[StoreMessage], budget_tokens: int) -> str:
    """Write the overview of `messages` on top of the previous one, within `budget_tokens`.

    A seed (a message with a "seed:" mark) is an earlier overview and taken over like the previous one. When the
    budget is short, lines go in this order, oldest first: commands, earlier answers, files read, failures, the agent's
    facts, files changed, and last what the user said.
    """
    lines = _parse(previous)
    seeds = [one for one in messages if _is_seed(one)]
    for seed in seeds:
        lines = _merge(lines, _parse(_seed_text(seed)), replace=False)
    fresh = [one for one in messages if not _is_seed(one)]
    known = "\n".join(line for section in SECTIONS for line in lines[section])
    waiting = [line for line in lines["Open Issues"] if line.startswith(NOT_ANSWERED)]
    still_open = [line for line in lines["Open Issues"] if not line.startswith(_LOOSE_ENDS)] if fresh else []
    new = digest(fresh, known, waiting[-1].removeprefix(NOT_ANSWERED) if waiting else "", still_open)
    return _render(_fit(_merge(lines, new, replace=bool(fresh)), budget_tokens), budget_tokens)


class _Piece(NamedTuple):
    """A section of a text: its heading line ("" for what stands before the first) and the text under it."""

    heading: str
    body: str


def _split(text: str) -> list[_Piece]:
    """Split at `## ` headings that stand outside of code fences."""
    heading, body, fenced = "", "", False
    pieces: list[_Piece] = []
    for line in text.splitlines(keepends=True):
        fenced ^= _FENCE.match(line) is not None
        if not fenced and _HEADING.match(line):
            pieces.append(_Piece(heading, body))
            heading, body = line, ""
        else:
            body += line
    pieces.append(_Piece(heading, body))
    return [piece for piece in pieces if piece.heading or piece.body]


def _shares(sizes: list[int], room: int) -> list[int]:
    """Divide `room`: what needs less than an even share gets what it needs, the rest goes to the others."""
    shares = [0] * len(sizes)
    order = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for position, index in enumerate(order):
        shares[index] = min(sizes[index], room // (len(order) - position))
        room -= shares[index]
    return shares


def _cut_lines(body: str, budget: int) -> str:
    if estimate(body) <= budget:
        return body
    head = cut(body, budget)
    end = head.rfind("\n") + 1
    return head[:end] if end > len(head) // 2 else head


def _is_seed(message: StoreMessage) -> bool:
    return any(mark.startswith(SEED_MARK) for mark in message.marks)


def _seed_text(message: StoreMessage) -> str:
    text = "\n".join(str(part.get("text") or "") for part in message.parts)
    return text.removeprefix(SEED_TITLE)


def _parse(text: str) -> Lines:
    """Read the lines of each section; what stands under no known heading counts as facts."""
    lines: Lines = {section: [] for section in SECTIONS}
    current = "Key Facts & Decisions"
    for raw in text.splitlines():
        if _KNOWN.match(raw):
            current = raw[3:].strip()
            continue
        line = _BULLET.sub("", raw).strip()
        if line and line != TITLE and line.lower().strip("().") != "none":
            lines[current].append(line if len(line) <= _OLD_LINE else line[: _OLD_LINE - 1] + "…")
    return lines


def _merge(old: Lines, new: Lines, *, replace: bool) -> Lines:
    """Append the new lines to each section, without doubles; the newest place of a line holds.

    With `replace`, the new lines say all that is open. The first title stays. Of two values of one thing the newer one
    holds, unless the user said the older one and somebody else the newer.
    """
    merged: Lines = {}
    for section in SECTIONS:
        kept = [] if replace and section == "Open Issues" else old[section]
        subjects = {_subject(line): line for line in kept}
        for line in new[section]:
            subject = _subject(line)
            subjects.pop(subject, None)
            if subject.startswith(_BY_USER):
                subjects.pop(_BY_OTHERS + subject.removeprefix(_BY_USER), None)
            subjects[subject] = line
        merged[section] = list(subjects.values())
        if section == _FACTS:
            merged[section] = _beside_the_old(merged[section], new[section])
    title = old["Session Title"] or new["Session Title"]
    merged["Session Title"] = title
    return merged


def _beside_the_old(lines: list[str], new: Sequence[str]) -> list[str]:
    """Put each new line that tells of a change behind the last line with the same names, marked as later."""
    for line in new:
        said = line.removeprefix(_USER)
        if said == line or line not in lines or fact_subject(said) or not is_change(said):
            continue
        at = lines.index(line)
        related = [index for index in range(at) if _names(lines[index]) & _names(line)]
        if related:
            del lines[at]
            lines.insert(related[-1] + 1, _LATER + said)
    return lines


def _names(line: str) -> frozenset[str]:
    """Give the words of a line, behind who said it, that are written like names."""
    return frozenset(_NAME.findall(line.partition(": ")[2])) - _NO_NAMES


def _subject(line: str) -> str:
    """What a line is about: of a file, a command or a value only the newest line is kept."""
    if line.startswith(_LATER):
        line = _USER + line.removeprefix(_LATER)
    for prefix, end in (("ran: ", " -> "), ("changed: ", " ("), ("read: ", " (")):
        if line.startswith(prefix):
            return line.partition(end)[0]
    who, colon, said = line.partition(": ")
    if colon and who in ("User", "Agent", "Output") and (subject := fact_subject(said)):
        return (_BY_USER if who == "User" else _BY_OTHERS) + subject
    return " ".join(line.split()).casefold()


def _fit(lines: Lines, budget: int) -> Lines:
    """Leave out the least valuable lines, oldest first, until the rest is within the budget."""
    frame = estimate(TITLE) + sum(estimate(f"\n\n## {section}\n{_NONE}") for section in SECTIONS)
    total = frame + sum(estimate(f"- {line}\n") for section in SECTIONS for line in lines[section])
    candidates = sorted(
        (_value(section, line, len(lines[section]) - index), order, index, section)
        for order, section in enumerate(SECTIONS)
        for index, line in enumerate(lines[section])
    )
    gone: set[tuple[str, int]] = set()
    for _, _, index, section in candidates:
        if total <= budget:
            break
        total -= estimate(f"- {lines[section][index]}\n")
        gone.add((section, index))
    return {
        section: [line for index, line in enumerate(lines[section]) if (section, index) not in gone]
        for section in SECTIONS
    }


def _value(section: str, line: str, from_end: int) -> int:
    """Rank a line: the lower, the sooner it is left out."""
    if line.startswith(("ran: ", "noted: ")):
        return 0
    match section:
        case "Current State":
            return 6 if from_end <= 2 else 1
        case "Files & Context":
            return 2 if line.startswith("read: ") else 5
        case "Errors & Corrections":
            return 7 if line.startswith("User: ") else 3
        case "Open Issues":
            return 6 if from_end <= 2 else 3
        case "Key Facts & Decisions":
            return 4 if line.startswith(("Agent: ", "Output: ")) else 7
        case "Task & Goals" if line.endswith(("?", "？")):
            return 4
        case _:
            return 8 if section == "Session Title" else 7


def _render(lines: Lines, budget: int) -> str:
    parts = [TITLE]
    for section in SECTIONS:
        body = "\n".join(f"- {line}" for line in lines[section]) or _NONE
        parts.append(f"## {section}\n{body}")
    return cut_sections("\n\n".join(parts) + "\n", budget)
