"""What a branch of a session file means: the messages for the model, the model, the name, the totals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vikingpi.decode import Json, as_dict, as_int, as_str
from vikingpi.messages import (
    OVERVIEW_MARKER,
    AssistantMessage,
    Cost,
    ImagePart,
    Message,
    TextPart,
    ToolResultMessage,
    Usage,
    UserKind,
    UserMessage,
)
from vikingpi.session.entries import NO_USAGE, Entry, content_from_json, message_from_json, usage_from_json
from vikingpi.session.ids import ms_of
from vikingpi.session.lines import uncollected

STATE_TYPE = "ov-takeover"
COMPACTION_LEAD = "The conversation before this point was condensed into this summary:"
BRANCH_LEAD = "Before this point another line of the conversation was tried and left. Its summary:"


def build_context(branch: Sequence[Entry]) -> tuple[Message, ...]:
    """Turn a branch into messages, each with its entry's id.

    A compaction stands for what it swallowed, context edits are applied, system messages and unknown roles are left
    out. Failed answers and tool calls without results are still there.
    """
    return _memo.context(tuple(branch))


def grew(branch: Sequence[Entry], before: Sequence[Entry]) -> bool:
    """Whether a branch is what it was before, perhaps with more at its end."""
    return branch[: len(before)] == before


class Contexts:
    """Remembers the last branch: it is asked for several times a turn, and between two times it only grows.

    For one thread.
    """

    def __init__(self) -> None:
        self._branch: tuple[Entry, ...] = ()
        self._messages: tuple[Message, ...] = ()

    def context(self, branch: tuple[Entry, ...]) -> tuple[Message, ...]:
        """Do what `build_context` does."""
        known = len(self._branch)
        added = branch[known:]
        grown = grew(branch, self._branch) and not any(entry.type in _REACHES_BACK for entry in added)
        if grown and known:
            messages = (*self._messages, *_messages_of(added))
        else:
            messages = uncollected(lambda: _messages_of(_after_compaction(branch)))
        self._branch, self._messages = branch, messages
        return messages


_REACHES_BACK = ("compaction", "context_edit")
_memo = Contexts()


def records(branch: Sequence[Entry]) -> tuple[tuple[int, Entry], ...]:
    """Give the entries of a branch that are not of type `message`, each with its index, oldest first.

    They are few, and asked for several times a turn.
    """
    return _records.of(tuple(branch))


class Records:
    """Remembers the last branch, as `Contexts` does. For one thread."""

    def __init__(self) -> None:
        self._branch: tuple[Entry, ...] = ()
        self._found: tuple[tuple[int, Entry], ...] = ()

    def of(self, branch: tuple[Entry, ...]) -> tuple[tuple[int, Entry], ...]:
        """Do what `records` does."""
        known, found = len(self._branch), self._found
        if not grew(branch, self._branch):
            known, found = 0, ()
        added = [(index, entry) for index, entry in enumerate(branch[known:], known) if entry.type != "message"]
        self._branch, self._found = branch, (*found, *added)
        return self._found


_records = Records()


def _messages_of(entries: Sequence[Entry]) -> tuple[Message, ...]:
    edits = {as_str(entry.raw.get("targetId")): entry.raw for entry in entries if entry.type == "context_edit"}
    messages: list[Message] = []
    for entry in entries:
        edit = edits.get(entry.id)
        message = _message_of(entry) if edit is None else _edited(entry, edit)
        if message is not None:
            messages.append(message)
    return tuple(messages)


def model_of(branch: Sequence[Entry]) -> tuple[str, str] | None:
    """Return provider and model id in use at the end of the branch; None if it names none."""
    for entry in reversed(branch):
        found = model_named_by(entry)
        if all(found):
            return found
    return None


def thinking_of(branch: Sequence[Entry]) -> str | None:
    """Return the thinking level in use at the end of the branch; None if it names none."""
    for entry in reversed(branch):
        level = level_named_by(entry)
        if level:
            return level
    return None


def model_named_by(entry: Entry) -> tuple[str, str]:
    """Return provider and model id that an entry puts into use, empty where it says nothing of it."""
    if entry.type == "model_change":
        return as_str(entry.raw.get("provider")), as_str(entry.raw.get("modelId"))
    message = as_dict(entry.raw.get("message")) if entry.type == "message" else {}
    if message.get("role") == "assistant":
        return as_str(message.get("provider")), as_str(message.get("model"))
    model = as_dict(state_data(entry).get("model"))
    return as_str(model.get("provider")), as_str(model.get("id"))


def level_named_by(entry: Entry) -> str:
    """Return the thinking level that an entry puts into use, empty where it says nothing of it."""
    if entry.type == "thinking_level_change":
        return as_str(entry.raw.get("thinkingLevel"))
    level = as_str(state_data(entry).get("thinkingLevel"))
    return level or as_str(as_dict(entry.raw.get("message")).get("thinkingLevel"))


def state_data(entry: Entry) -> Json:
    """Return the data of a takeover state; empty for any other entry."""
    if entry.type != "custom" or entry.raw.get("customType") != STATE_TYPE:
        return {}
    return as_dict(entry.raw.get("data"))


def name_of(entries: Sequence[Entry]) -> str:
    """Return the session's name: the newest in the file counts, whatever its branch; empty if there is none."""
    for entry in reversed(entries):
        if entry.type == "session_info":
            return as_str(entry.raw.get("name")).strip()
        state = state_data(entry)
        if "name" in state:
            return as_str(state["name"]).strip()
    return ""


def labels_of(entries: Iterable[Entry]) -> Mapping[str, str]:
    """Return the labels by the id of the entry that bears them."""
    labels: dict[str, str] = {}
    for entry in entries:
        if entry.type == "label":
            labels[as_str(entry.raw.get("targetId"))] = as_str(entry.raw.get("label")).strip()
    return {target: label for target, label in labels.items() if label}


def totals_of(entries: Iterable[Entry]) -> Usage:
    """Add up the usage of every entry, on all branches."""
    used = [usage for entry in entries if (usage := usage_of(entry)) is not NO_USAGE]
    costs = [usage.cost for usage in used]
    return Usage(
        sum(usage.input for usage in used),
        sum(usage.output for usage in used),
        sum(usage.cache_read for usage in used),
        sum(usage.cache_write for usage in used),
        sum(usage.reasoning for usage in used),
        Cost(
            sum(cost.input for cost in costs),
            sum(cost.output for cost in costs),
            sum(cost.cache_read for cost in costs),
            sum(cost.cache_write for cost in costs),
        ),
    )


def add_usage(one: Usage, other: Usage) -> Usage:
    """Add two usages."""
    if other == NO_USAGE:
        return one
    cost, more = one.cost, other.cost
    return Usage(
        one.input + other.input,
        one.output + other.output,
        one.cache_read + other.cache_read,
        one.cache_write + other.cache_write,
        one.reasoning + other.reasoning,
        Cost(
            cost.input + more.input,
            cost.output + more.output,
            cost.cache_read + more.cache_read,
            cost.cache_write + more.cache_write,
        ),
    )


def totals_to_json(usage: Usage) -> Json:
    """Write the totals that a takeover state keeps of everything before it."""
    return {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "cost": usage.cost.total,
    }


def totals_from_json(value: object) -> Usage:
    """Read the totals of a takeover state."""
    return usage_from_json({**as_dict(value), "cost": {"total": as_dict(value).get("cost")}})


def usage_of(entry: Entry) -> Usage:
    """Return what an entry cost: an answer, a summary, a tool that asked a model."""
    holder = as_dict(entry.raw.get("message")) if entry.type == "message" else entry.raw
    return usage_from_json(holder.get("usage"))


def _after_compaction(branch: Sequence[Entry]) -> list[Entry]:
    place = next((i for i in range(len(branch) - 1, -1, -1) if branch[i].type == "compaction"), -1)
    if place < 0:
        return list(branch)
    first = as_str(branch[place].raw.get("firstKeptEntryId"))
    start = next((i for i in range(place) if branch[i].id == first), place)
    kept = [entry for entry in branch[start:place] if entry.type != "compaction"]
    return [branch[place], *kept, *branch[place + 1 :]]


def _edited(entry: Entry, edit: Json) -> Message | None:
    """Apply a context edit: null drops the message, `content` replaces what it says, anything else is ignored."""
    replacement = edit.get("replacement", {})
    if replacement is None:
        return None
    message = _message_of(entry)
    if message is None or "content" not in as_dict(replacement):
        return message
    content = as_dict(replacement)["content"]
    match message:
        case UserMessage():
            return message._replace(content=content_from_json(content))
        case ToolResultMessage():
            return message._replace(content=content_from_json(content))
        case AssistantMessage():
            raw = {**as_dict(entry.raw.get("message")), "content": content}
            return message_from_json(raw, entry.id)


def _message_of(entry: Entry) -> Message | None:
    match entry.type:
        case "message":
            message = as_dict(entry.raw.get("message"))
            return message_from_json(message, entry.id) or _context_message(message, entry)
        case "custom_message":
            return _user(content_from_json(entry.raw.get("content")), entry, "custom")
        case "branch_summary":
            return _summary(as_str(entry.raw.get("summary")), entry, "branch")
        case "compaction":
            return _summary(as_str(entry.raw.get("summary")), entry, "compaction")
        case _:
            return None


def _context_message(message: Json, entry: Entry) -> UserMessage | None:
    """Read the roles that only pi's context knows, for files that hold them as messages."""
    match message.get("role"):
        case "bashExecution" if message.get("excludeFromContext") is not True:
            return _user((TextPart(_bash_text(message)),), entry, "bash")
        case "custom":
            return _user(content_from_json(message.get("content")), entry, "custom")
        case "branchSummary":
            return _summary(as_str(message.get("summary")), entry, "branch")
        case "compactionSummary":
            return _summary(as_str(message.get("summary")), entry, "compaction")
        case _:
            return None


def _user(content: tuple[TextPart | ImagePart, ...], entry: Entry, kind: UserKind) -> UserMessage | None:
    if not content:
        return None
    written = as_int(as_dict(entry.raw.get("message")).get("timestamp"))
    return UserMessage(content, written or ms_of(entry.timestamp), entry.id, kind)


def _summary(summary: str, entry: Entry, kind: UserKind) -> UserMessage | None:
    """Frame a summary. An overview of the context store keeps its marker in front."""
    if not summary.strip():
        return None
    lead = COMPACTION_LEAD if kind == "compaction" else BRANCH_LEAD
    marker = ""
    if summary.startswith(OVERVIEW_MARKER):
        marker, summary = f"{OVERVIEW_MARKER}\n", summary.removeprefix(OVERVIEW_MARKER).lstrip("\n")
    return _user((TextPart(f"{marker}{lead}\n\n<summary>\n{summary}\n</summary>"),), entry, kind)


def _bash_text(message: Json) -> str:
    """Say what a command of the user gave, in the words that pi sends for it."""
    output = as_str(message.get("output"))
    fence = "```"
    while fence in output:
        fence += "`"
    text = f"Ran `{as_str(message.get('command'))}`\n"
    text += f"{fence}\n{output}\n{fence}" if output.strip() else "(no output)"
    code = message.get("exitCode")
    if message.get("cancelled") is True:
        text += "\n\n(command cancelled)"
    elif isinstance(code, int) and code != 0:
        text += f"\n\nCommand exited with code {code}"
    if message.get("truncated") is True:
        where = as_str(message.get("fullOutputPath"))
        text += f"\n\n[Output truncated. Full output: {where}]" if where else "\n\n[Output truncated.]"
    return text
