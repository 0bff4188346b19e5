"""/viking overview: what the model is shown in place of older history, and how that differs from the one before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from vikingpi.commands.viking_memory import quoted
from vikingpi.takeover.replaced import Replaced, Replacement
from vikingpi.tokens import estimate
from vikingpi.tools.diff import Change, compare

NOTHING = "Nothing is covered by an overview yet: the model is shown everything as it was said."


def overview_text(replaced: Replaced) -> str:
    """Write the text that replaced history, whole, and below it what changed since the one before."""
    now, before = replaced.now, replaced.before
    if now is None:
        return f"{NOTHING} The last overview was withdrawn: {replaced.reset}." if replaced.reset else NOTHING
    parts = [f"The model is shown this in place of {_replaces(now)}:", now.text, "---"]
    if before is None:
        parts.append("No other text stood for history on this branch before: there is none to compare it with.")
    else:
        parts += [f"What changed since the one before, for {_replaces(before)}:", _difference(before.text, now.text)]
    return "\n\n".join(parts)


def _replaces(one: Replacement) -> str:
    if one.turns:
        what = "user turn 1" if one.turns == 1 else f"user turns 1-{one.turns}"
    else:
        what = "what was said before a compaction"
    size = f"about {estimate(one.text)} tokens"
    return f"{what} ({', '.join(part for part in (size, one.archive, _local(one.timestamp)) if part)})"


def _local(timestamp: str) -> str:
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return ""


def _difference(old: str, new: str) -> str:
    old_lines, new_lines = old.split("\n"), new.split("\n")
    return quoted("\n".join(_changed(old_lines, new_lines, compare(old_lines, new_lines))), "diff")


def _changed(old: list[str], new: list[str], changes: list[Change]) -> Iterator[str]:
    """Give the lines that went and came, each group below the heading that it belongs to."""
    told = ""
    for change in changes:
        heading = next((line for line in reversed(new[: change.new_from]) if line.startswith("#")), "")
        if heading != told:
            yield f" {heading}"
            told = heading
        yield from (f"-{line}" for line in old[change.old_from : change.old_to] if line.strip())
        yield from (f"+{line}" for line in new[change.new_from : change.new_to] if line.strip())
