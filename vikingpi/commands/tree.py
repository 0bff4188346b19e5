"""/tree, /fork and /clone: other branches of the session, and copies of it."""

from __future__ import annotations

from collections.abc import Sequence

from vikingpi.command import Command
from vikingpi.commands.chooser import Act, Choices, Option
from vikingpi.commands.controls import Controls
from vikingpi.commands.host import Host
from vikingpi.commands.session import BUSY
from vikingpi.commands.tree_text import FILTERS, shows, text_of_row, whole_text
from vikingpi.safetext import one_line
from vikingpi.session.entries import Entry
from vikingpi.session.navigate import TreeRow, text_of_entry

LISTED = 40
SUMMARIES = (
    Option("none", "no summary", "what is left stays in the tree"),
    Option("short", "summarise", "the model sums up what is left; the summary goes on with the conversation"),
    Option("asked", "summarise with instructions", "say what matters"),
)


def tree_commands(app: Host, controls: Controls) -> tuple[Command, ...]:
    """Return /clone, /fork and /tree."""

    async def tree(argument: str) -> str:
        if app.running:
            return BUSY
        chosen: str | None = argument
        if not argument and app.chooser is None:
            return listed_rows(controls.tree.rows(), "tree")
        if app.chooser is not None and not _is_entry(controls, argument):
            chosen = await app.chooser.choose(tree_choices(controls)._replace(query=argument))
        return await _move(app, controls, chosen) if chosen else ""

    async def fork(argument: str) -> str:
        if app.running:
            return BUSY
        chosen: str | None = argument
        if not argument and app.chooser is None:
            return listed_prompts(controls.tree.prompts())
        if app.chooser is not None and not _is_entry(controls, argument):
            chosen = await app.chooser.choose(fork_choices(controls)._replace(query=argument))
        if not chosen:
            return ""
        _arrive(app, await controls.tree.fork(chosen))
        return f"A fork: session {app.parts.session.id}."

    async def clone(argument: str) -> str:
        if app.running:
            return BUSY
        await controls.tree.clone()
        return f"A copy: session {app.parts.session.id}."

    return (
        Command("clone", "go on in a copy of this session", clone),
        Command("fork", "[entry or words] - go on in a new session from an earlier prompt", fork),
        Command("tree", "[entry or words] - go to another place in this session", tree),
    )


def _is_entry(controls: Controls, argument: str) -> bool:
    return any(row.entry.id == argument for row in controls.tree.rows())


async def _move(app: Host, controls: Controls, chosen: str) -> str:
    """Go to an entry; offer a summary of what is left, where that is something."""
    if chosen == place(controls.tree.rows()):
        return "You are there already."
    summary: str | None = None
    if app.chooser is not None and controls.tree.leaves(chosen):
        how = await app.chooser.confirm("What about the messages that are left behind?", "", SUMMARIES)
        if how is None:
            return ""
        if how == "asked" and (summary := await app.chooser.text("What shall the summary keep?")) is None:
            return ""
        summary = "" if how == "short" else summary
    if app.running:
        return BUSY
    text = await controls.tree.go_to(chosen, summary)
    _arrive(app, text)
    if not text:
        return "Your next prompt goes on from here."
    return (
        "Your prompt is in the editor." if app.chooser is not None else f"Your next prompt stands in place of: {text}"
    )


def place(rows: Sequence[TreeRow]) -> str:
    """Return the newest entry of the branch that a user knows of, empty where there is none."""
    parents = {row.entry.id: row for row in rows}
    row = next((row for row in rows if row.is_leaf), None)
    while row is not None and not shows(row, FILTERS[0]):
        row = parents.get(row.entry.parent_id or "")
    return row.entry.id if row is not None else ""


def _arrive(app: Host, text: str) -> None:
    if app.chooser is not None:
        app.chooser.show_past()
        if text:
            app.chooser.edit(text)


def tree_choices(controls: Controls) -> Choices:
    """Return the tree as a list; Ctrl+O shows more or less of it, Ctrl+L labels."""
    kind = 0

    def options() -> list[Option]:
        rows = controls.tree.rows()
        here = place(rows)
        return [_row_option(row, here) for row in rows if row.entry.id == here or shows(row, FILTERS[kind])]

    def cycle(key: str, text: str) -> str:
        nonlocal kind
        kind = (kind + 1) % len(FILTERS)
        return f"shown: {FILTERS[kind]}"

    def label(key: str, text: str) -> str:
        controls.tree.label(key, text)
        return f"labelled {text}" if text.strip() else "the label is gone"

    def preset(key: str) -> str:
        return next((row.label for row in controls.tree.rows() if row.entry.id == key), "")

    acts = (
        Act("c-o", "show more or less", cycle),
        Act("c-l", "label", label, asks="label", preset=preset),
    )
    return Choices(
        lambda: f"Session tree ({FILTERS[kind]})",
        options,
        acts,
        at=place(controls.tree.rows()),
        empty="nothing was said yet",
        ordered=True,
    )


def fork_choices(controls: Controls) -> Choices:
    """Return the prompts of this branch, the newest selected."""
    options = [_prompt_option(entry) for entry in controls.tree.prompts()]
    at = options[-1].key if options else ""
    return Choices(lambda: "Fork before a prompt", lambda: options, at=at, empty="nothing was said yet")


def listed_rows(rows: Sequence[TreeRow], name: str) -> str:
    """Write the end of the tree for a terminal without lists."""
    here = place(rows)
    shown = [row for row in rows if shows(row, FILTERS[0])][-LISTED:]
    lines = [f"`/{name} {row.entry.id}` {text_of_row(row, here)}" for row in shown]
    return "\n".join(f"- {line}" for line in lines) or "Nothing was said yet."


def listed_prompts(entries: Sequence[Entry]) -> str:
    """Write the prompts for a terminal without lists."""
    lines = [f"- `/fork {entry.id}` {one_line(text_of_entry(entry), 80)}" for entry in entries[-LISTED:]]
    return "\n".join(lines) or "Nothing was said yet."


def _row_option(row: TreeRow, here: str) -> Option:
    return Option(row.entry.id, text_of_row(row, here), "", row.label, lambda: whole_text(row.entry))


def _prompt_option(entry: Entry) -> Option:
    text = text_of_entry(entry)
    return Option(entry.id, one_line(text, 200) or "(image)", "", text[:2000], lambda: text)
