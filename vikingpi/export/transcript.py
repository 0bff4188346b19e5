"""Entries of a session as a transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from vikingpi.decode import Json, as_dict, as_int, as_str
from vikingpi.export.calls import Pictures, show_call, show_command, show_json, show_result
from vikingpi.export.figures import Advance
from vikingpi.export.ink import Ink
from vikingpi.export.markdown import to_html
from vikingpi.export.markup import Html, tag
from vikingpi.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from vikingpi.session.entries import Entry, content_from_json, message_from_json, usage_from_json
from vikingpi.session.ids import ms_of
from vikingpi.takeover.state import OFF, STATE
from vikingpi.values import NamedTuple
from vikingpi.viking.base import PROFILE_ENTRY, RECALL_ENTRY

_STOPPED = {"aborted": "aborted", "length": "cut at the model's output limit"}


class Scene(NamedTuple):
    """What the entries of a page share. `anchors` names the place of each entry in the page; `after` gives what stands
    below an entry, such as links to branches; `boundary` is the first entry that the model still sees as it was."""

    ink: Ink
    pictures: Pictures
    anchors: Mapping[str, str]
    labels: Mapping[str, str]
    advances: Mapping[str, Advance]
    after: Callable[[str], Html | None]
    boundary: str = ""


def show_entries(scene: Scene, entries: Sequence[Entry], turn: int = 0) -> Iterator[Html]:
    """Show entries of one path in their order; `turn` is the number of the last user turn before them."""
    results: dict[str, dict[str, ToolResultMessage]] = {}
    placed: set[str] = set()
    for answer, result in results_in(entries):
        results.setdefault(answer, {})[result.tool_call_id] = result
        placed.add(result.entry_id or "")
    for entry in entries:
        if entry.id == scene.boundary:
            note = "From here on the next request shows everything as it was said; above, an overview stands for it."
            yield tag("p", note, cls="boundary", role="note")
        if entry.id not in placed:
            decoded = message_from_json(_message(entry), entry.id)
            turn += isinstance(decoded, UserMessage)
            shown = _shown(scene, entry, decoded, turn, results.get(entry.id, {}))
            if shown is not None:
                yield shown
        below = scene.after(entry.id)
        if below is not None:
            yield below


def _message(entry: Entry) -> Json:
    return as_dict(entry.raw.get("message")) if entry.type == "message" else {}


def results_in(entries: Sequence[Entry]) -> Iterator[tuple[str, ToolResultMessage]]:
    """Find the results that are shown with their calls, each with the entry of the answer that made the call."""
    answer, waiting = "", set[str]()
    for entry in entries:
        decoded = message_from_json(_message(entry), entry.id)
        if isinstance(decoded, AssistantMessage):
            answer, waiting = entry.id, {call.id for call in decoded.calls}
        elif isinstance(decoded, ToolResultMessage) and decoded.tool_call_id in waiting:
            waiting.remove(decoded.tool_call_id)
            yield answer, decoded


def _shown(
    scene: Scene, entry: Entry, decoded: Message | None, turn: int, results: Mapping[str, ToolResultMessage]
) -> Html | None:
    match decoded:
        case UserMessage():
            return _article(scene, entry, "user", tag("h3", f"User turn {turn}"), *_content(scene, decoded.content))
        case AssistantMessage():
            return _answer(scene, entry, decoded, results)
        case ToolResultMessage():
            shown = show_result(decoded, scene.ink, scene.pictures)
            return _article(scene, entry, "tool", shown, foot=tag("span"))
        case None if entry.type == "message":
            return _foreign(scene, entry, _message(entry))
        case None:
            return _other(scene, entry)


def _article(scene: Scene, entry: Entry, kind: str, *body: Html | str, foot: Html | None = None) -> Html:
    """Put an entry into its place, with its time and label beside what it says or, with a `foot`, below it."""
    anchor = scene.anchors.get(entry.id, "")
    label = scene.labels.get(entry.id, "")
    marks = [tag("span", scene.ink.line(label, 80), cls="label")] if label else []
    when = ms_of(entry.timestamp)
    if when:
        written = datetime.fromtimestamp(when / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        time = tag("time", written, datetime=f"{written.replace(' ', 'T')}Z")
        marks.append(tag("a", time, href=f"#{anchor}") if anchor else time)
    beside = tag("div", *marks, cls="marks")
    parts = [beside, *body] if foot is None else [*body, tag("div", foot, beside, cls="foot")]
    return tag("article", *parts, cls=kind, id=anchor or False)


def _content(scene: Scene, content: Sequence[TextPart | ImagePart]) -> Iterator[Html]:
    for part in content:
        if isinstance(part, ImagePart):
            yield scene.pictures.show(part, scene.ink)
        elif part.text.strip():
            yield tag("div", scene.ink.text(part.text), cls="text")


def _answer(scene: Scene, entry: Entry, answer: AssistantMessage, results: Mapping[str, ToolResultMessage]) -> Html:
    ink = scene.ink
    body: list[Html] = []
    for part in answer.content:
        match part:
            case TextPart():
                body.append(to_html(part.text, ink))
            case ThinkingPart():
                body.append(_thought(part, ink))
            case ToolCall():
                body.append(show_call(part, results.get(part.id), ink, scene.pictures))
    if answer.error_message or answer.stop_reason in ("error", *_STOPPED):
        told = answer.error_message or _STOPPED.get(answer.stop_reason, "the request failed")
        body.append(tag("p", ink.text(told), cls="failed"))
    usage = answer.usage
    spent = [ink.line(f"{answer.provider}/{answer.model}", 100)]
    if usage.total:
        spent.append(f"{usage.input + usage.cache_read + usage.cache_write:,} tokens in ({usage.cache_read:,} cached)")
        spent.append(f"{usage.output:,} out")
    if usage.cost.total:
        spent.append(f"${usage.cost.total:.4f}")
    return _article(scene, entry, "assistant", *body, foot=tag("span", " · ".join(spent), cls="quiet"))


def _thought(part: ThinkingPart, ink: Ink) -> Html:
    if part.redacted or not part.thinking.strip():
        return tag("p", "(a thought that the provider keeps to itself)", cls="quiet")
    text = ink.text(part.thinking)
    return tag("details", tag("summary", f"Thought ({len(part.thinking):,} characters)"), _text(text), cls="thought")


def _foreign(scene: Scene, entry: Entry, message: Json) -> Html | None:
    """Show a message of a role that no model has."""
    ink = scene.ink
    match message.get("role"):
        case "bashExecution":
            return _article(scene, entry, "tool", show_command(message, ink), foot=tag("span"))
        case "compactionSummary" | "branchSummary":
            return _article(scene, entry, "place", _folded("Summary", to_html(as_str(message.get("summary")), ink)))
        case role:
            title = "System prompt" if role == "system" else ink.line(f"Message of the role {as_str(role) or '?'}", 80)
            parts = content_from_json(message.get("content"))
            return _article(scene, entry, "quiet", _folded(title, *_content(scene, parts)))


def _other(scene: Scene, entry: Entry) -> Html | None:
    """Show an entry that is no message; None for one that says nothing to a reader."""
    ink, raw = scene.ink, entry.raw
    match entry.type:
        case "compaction":
            before = as_int(raw.get("tokensBefore"))
            title = (
                f"Compacted here{f' ({before:,} tokens before)' if before else ''}: a summary stands for what is above"
            )
            return _article(scene, entry, "place", _folded(title, to_html(as_str(raw.get("summary")), ink)))
        case "branch_summary":
            title = "Summary of another branch that was left"
            return _article(scene, entry, "place", _folded(title, to_html(as_str(raw.get("summary")), ink)))
        case "custom_message":
            title = ink.line(f"Message of an extension ({as_str(raw.get('customType'))})", 120)
            return _article(
                scene, entry, "quiet", _folded(title, *_content(scene, content_from_json(raw.get("content"))))
            )
        case "custom":
            return _custom(scene, entry, as_str(raw.get("customType")), as_dict(raw.get("data")))
        case "context_edit":
            anchor = scene.anchors.get(as_str(raw.get("targetId")), "")
            what = tag("a", "an earlier message", href=f"#{anchor}") if anchor else "an earlier message"
            return _article(scene, entry, "quiet", tag("p", "From here on the model sees another text for ", what, "."))
        case "label":
            return None
        case _:
            line = _line(entry)
            return _article(scene, entry, "quiet", tag("p", ink.line(line))) if line else None


def _line(entry: Entry) -> str:
    """Say in one line what an entry changes."""
    raw = entry.raw
    match entry.type:
        case "model_change":
            return f"Model: {as_str(raw.get('provider'))}/{as_str(raw.get('modelId'))}"
        case "thinking_level_change":
            return f"Thinking level: {as_str(raw.get('thinkingLevel'))}"
        case "session_info":
            return f"Session name: {as_str(raw.get('name'))}"
        case "usage":
            spent = usage_from_json(raw.get("usage"))
            return f"{spent.total:,} tokens for something else ({as_str(raw.get('source')) or 'not said'})"
        case other:
            return f"Entry of the type {other}"


def _custom(scene: Scene, entry: Entry, kind: str, data: Json) -> Html | None:
    match kind:
        case _ if kind == STATE:
            advance = scene.advances.get(entry.id)
            return _article(scene, entry, "place advance", *_advance(advance, scene.ink)) if advance else None
        case _ if kind == OFF:
            said = "on again" if data.get("on") is True else "off: the context store does not get what follows"
            return _article(scene, entry, "place", tag("p", f"Capturing was switched {said}."))
        case _ if kind in (PROFILE_ENTRY, RECALL_ENTRY):
            block = as_str(data.get("block"))
            title = "Remembered for this prompt" if kind == RECALL_ENTRY else "Profile in the system prompt"
            return _article(scene, entry, "quiet", _folded(title, _text(scene.ink.text(block)))) if block else None
        case _:
            title = scene.ink.line(f"Data of an extension ({kind})", 120)
            return _article(scene, entry, "quiet", _folded(title, show_json(data, scene.ink)))


def _advance(advance: Advance, ink: Ink) -> Iterator[Html]:
    first, last = advance.turns
    turns = f"User turn {last} is" if first >= last else f"User turns {first}-{last} are"
    change = ""
    if advance.tokens_before:
        change = (
            f" The messages of the next request went from {advance.tokens_before:,} to {advance.tokens_after:,} tokens."
        )
    archive = f" ({ink.line(advance.archive_id, 60)})" if advance.archive_id else ""
    yield tag("p", tag("strong", "Takeover. "), f"{turns} now part of the overview{archive}.{change}")
    yield _folded("The overview", to_html(advance.overview, ink))


def _folded(title: str, *body: Html) -> Html:
    return tag("details", tag("summary", title), *body)


def _text(text: str) -> Html:
    return tag("div", text, cls="text")
