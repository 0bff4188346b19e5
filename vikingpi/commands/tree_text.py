"""Entries of a session as lines of a tree."""

from __future__ import annotations

from vikingpi.decode import Json, as_dict, as_str
from vikingpi.messages import AssistantMessage, TextPart, ToolResultMessage, UserMessage, text_of
from vikingpi.safetext import one_line
from vikingpi.session.entries import Entry, content_from_json, message_from_json
from vikingpi.session.navigate import TreeRow

FILTERS = ("talk", "prompts", "labelled", "everything")
LINE = 200


def shows(row: TreeRow, kind: str) -> bool:
    """Tell whether a filter shows a row."""
    entry = row.entry
    role = as_str(as_dict(entry.raw.get("message")).get("role")) if entry.type == "message" else ""
    match kind:
        case "prompts":
            return role == "user"
        case "labelled":
            return bool(row.label)
        case "talk":
            return role in ("user", "assistant", "bashExecution") or entry.type in (
                "branch_summary",
                "compaction",
                "custom_message",
            )
        case _:
            return entry.type not in ("label", "session_info")


def text_of_row(row: TreeRow, here: str) -> str:
    """Write a row: depth, whether it is on the branch or `here`, its label, what it says."""
    mark = "*" if row.entry.id == here else "|" if row.on_branch else " "
    label = f"[{row.label}] " if row.label else ""
    return f"{'  ' * min(row.depth, 12)}{mark} {one_line(label + line_of_entry(row.entry), LINE)}"


def line_of_entry(entry: Entry) -> str:
    """Say in one line what an entry is."""
    raw = entry.raw
    match entry.type:
        case "message":
            return _message_line(as_dict(raw.get("message")))
        case "compaction":
            return f"(compaction) {as_str(raw.get('summary'))[:LINE]}"
        case "branch_summary":
            return f"(summary of a branch) {as_str(raw.get('summary'))[:LINE]}"
        case "model_change":
            return f"(model {as_str(raw.get('provider'))}/{as_str(raw.get('modelId'))})"
        case "thinking_level_change":
            return f"(thinking {as_str(raw.get('thinkingLevel'))})"
        case "custom" | "custom_message":
            return f"({as_str(raw.get('customType')) or entry.type})"
        case _:
            return f"({entry.type})"


def whole_text(entry: Entry) -> str:
    """Return what an entry says in full."""
    raw = entry.raw
    if entry.type != "message":
        return as_str(raw.get("summary")) or line_of_entry(entry)
    message = as_dict(raw.get("message"))
    if message.get("role") == "bashExecution":
        return f"$ {as_str(message.get('command'))}\n{as_str(message.get('output'))}"
    decoded = message_from_json(message, entry.id)
    if isinstance(decoded, AssistantMessage):
        calls = [f"[{_call(call.name, call.arguments)}]" for call in decoded.calls]
        return "\n\n".join(part for part in (decoded.text.strip(), *calls) if part)
    return text_of(decoded) if decoded is not None else line_of_entry(entry)


def _message_line(message: Json) -> str:
    if message.get("role") == "bashExecution":
        return f"! {as_str(message.get('command'))}"
    decoded = message_from_json(message, None)
    match decoded:
        case UserMessage():
            return f"> {text_of(decoded) or '(image)'}"
        case AssistantMessage():
            calls = [f"[{_call(call.name, call.arguments)}]" for call in decoded.calls]
            text = " ".join(part for part in (decoded.text.strip(), *calls) if part)
            return text or f"({decoded.stop_reason})"
        case ToolResultMessage():
            return f"({decoded.tool_name}) {text_of(decoded)}"
        case _:
            parts = content_from_json(message.get("content"))
            return " ".join(part.text for part in parts if isinstance(part, TextPart)) or f"({message.get('role')})"


def _call(name: str, arguments: Json) -> str:
    what = next((value for value in arguments.values() if isinstance(value, str)), "")
    return f"{name}: {what}" if what else name
