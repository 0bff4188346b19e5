"""Exported pages as a reader sees them, and the rules that each of them must keep."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

from session_kit import answer, entry, session_file, user

from vikingpi.decode import Json
from vikingpi.export.page import Options, Pending, Rendered, render, snapshot
from vikingpi.redact import Redactor
from vikingpi.session.file import SessionLog
from vikingpi.session.reader import read_session

HOSTILE = (
    "</pre></summary></title></style></script><script>alert(1)</script><img src=x onerror=alert(2)>"
    '"\'><svg/onload=alert(3)><iframe src=//evil.test></iframe><a href="javascript:alert(4)">x</a> ]]>'
    "<!-- --><?php ?>&lt;b&gt; \x1b]0;title\x07\x1b[2J\u202ereversed\u202c \x00 \ud800 `x` **y**"
    " [z](javascript:alert(5)) ![i](https://evil.test/pixel.png) <https://evil.test/> <javascript:alert(6)>"
)
STRUCTURE = {"type", "role", "id", "parentId", "timestamp", "stopReason", "toolCallId", "customType"}
IDS = {"id", "parentId", "toolCallId", "targetId", "userEntryId", "firstKeptEntryId", "lastCoveredEntryId", "fromId"}
SALT = b"0123456789abcdef"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_ELEMENTS = (
    "a article blockquote body br code dd del details div dl dt em h1 h2 h3 h4 h5 h6 head header hr html img input"
    " label li main meta nav ol p pre section span strong style summary table tbody td tfoot th thead time title tr ul"
    " svg path rect line text"
)
_KEYS = (
    "alt aria-label charset class content d datetime for height href http-equiv id lang name open rel role scope src"
    " start tabindex text-anchor type viewbox width x x1 x2 y y1 y2"
)
_TAGS = frozenset(_ELEMENTS.split())
_ATTRIBUTES = frozenset(_KEYS.split())
_EMPTY = {"br", "hr", "img", "input", "meta"}
_HREF = re.compile(r"#[a-z][a-z0-9-]*|https?://[!-~]+|mailto:[!-~]+")
_SRC = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*")


class Page(HTMLParser):
    """Reads a page and fails for anything that no page may have. `text` is all that is shown, `ids` and `links` those
    of the page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html = html
        self.text = ""
        self.style = ""
        self.policy = ""
        self.ids: list[str] = []
        self.links: list[str] = []
        self.images: list[str] = []
        self.tags: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, f"left open: {self._open}"
        assert len(set(self.ids)) == len(self.ids), "an id stands twice"
        inside = {link[1:] for link in self.links if link.startswith("#")}
        assert inside <= set(self.ids), f"lead nowhere: {sorted(inside - set(self.ids))[:5]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, f"<{tag}>"
        self.tags.append(tag)
        given = {name: value or "" for name, value in attrs}
        assert set(given) <= _ATTRIBUTES, f"<{tag}> has {set(given) - _ATTRIBUTES}"
        if "id" in given:
            self.ids.append(given["id"])
        if "href" in given:
            assert _HREF.fullmatch(given["href"]), given["href"]
            assert given["href"].startswith("#") or "noreferrer" in given["rel"].split()
            self.links.append(given["href"])
        if "src" in given:
            assert _SRC.fullmatch(given["src"]), given["src"][:80]
            self.images.append(given["src"])
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag not in _EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.style += data
        else:
            self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data[:80]}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data[:80]}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data[:80]}")


def log_of(path: Path) -> SessionLog:
    data = read_session(path)
    return SessionLog(data.id, data.cwd, data.entries, path=path)


def rendered(path: Path, redactor: Redactor | None = None, pending: Sequence[Pending] = ()) -> Rendered:
    options = Options(3000, "2026-11-30 10:00", pending)
    return render(snapshot(log_of(path)), redactor or Redactor((), SALT), options)


def unmasked(path: Path, most_entries: int = 1000) -> Page:
    options = Options(3000, "2026-11-30 10:00", most_entries=most_entries)
    return Page(render(snapshot(log_of(path)), None, options).html)


def page(path: Path) -> Page:
    return Page(rendered(path).html)


def page_of(folder: Path, *entries: Json) -> Page:
    """Render the page of a session of these entries."""
    return page(session_file(folder, *entries))


def tool(name: str, call: str, arguments: Json) -> Json:
    return {"type": "toolCall", "id": call, "name": name, "arguments": arguments}


def result(entry_id: str, parent: str, call: str, text: str, **fields: object) -> Json:
    message: Json = {
        "role": "toolResult",
        "toolCallId": call,
        "toolName": "bash",
        "content": [{"type": "text", "text": text}],
        "isError": False,
        "timestamp": 2500,
    }
    return entry("message", entry_id, parent, message={**message, **fields})


def picture(data: str = PIXEL, kind: str = "image/png") -> Json:
    return {"type": "image", "data": data, "mimeType": kind}


def state(entry_id: str, parent: str, covered: str, turns: int = 1, **fields: object) -> Json:
    data: Json = {
        "coveredUserTurns": turns,
        "overview": "## Session Title\nThe overview",
        "fingerprint": None,
        "lastCoveredEntryId": covered,
        "generation": "pi-x",
        "archiveId": "archive_001",
    }
    return entry("custom", entry_id, parent, customType="ov-takeover", data={**data, **fields})


def every_kind() -> list[Json]:
    """One entry of each kind, with every field that a page may show; two branches."""
    calls = [
        {"type": "thinking", "thinking": "a thought"},
        {"type": "text", "text": "an *answer* with `code`"},
        tool("bash", "c1", {"command": "ls"}),
        tool("edit", "c2", {"path": "a.py", "edits": [{"oldText": "old", "newText": "new"}]}),
        tool("write", "c3", {"path": "b.py", "content": "text"}),
        tool("other", "c4", {"key": "value", "list": ["item"]}),
    ]
    bash: Json = {"role": "bashExecution", "command": "make", "output": "built", "exitCode": 2, "timestamp": 1}
    return [
        entry("model_change", "01", None, provider="lab", modelId="m1"),
        entry("thinking_level_change", "02", "01", thinkingLevel="high"),
        entry("message", "03", "02", message={"role": "system", "content": "be good", "timestamp": 1}),
        user("04", "03", "a prompt"),
        entry("custom", "05", "04", customType="ov-profile", data={"block": "a profile"}),
        entry("custom", "06", "05", customType="ov-recall", data={"userEntryId": "04", "block": "a memory"}),
        answer("07", "06", content=calls, stopReason="toolUse"),
        result("08", "07", "c1", "listed", content=[{"type": "text", "text": "listed"}, picture()]),
        result("09", "08", "c2", "edited", toolName="edit", details={"diff": "-1 old\n+1 new\n 2 same"}),
        result("10", "09", "c3", "refused", isError=True),
        result("11", "10", "c9", "of no call"),
        answer("12", "11", "", stopReason="error", errorMessage="it broke"),
        entry("message", "13", "12", message=bash),
        entry("message", "14", "13", message={"role": "custom", "content": "by an extension", "timestamp": 1}),
        entry("custom_message", "15", "14", customType="kind", content="told", display=True),
        entry("custom", "16", "15", customType="mine", data={"key": "value"}),
        entry("custom", "17", "16", customType="ov-off", data={"on": False}),
        entry("custom", "18", "17", customType="ov-off", data={"on": True}),
        state("19", "18", "15"),
        user("20", "19", "the next prompt"),
        answer("21", "20", "done", stopReason="aborted"),
        entry("branch_summary", "22", "21", fromId="30", summary="tried **it**"),
        entry("compaction", "23", "22", summary="# what was", firstKeptEntryId="20", tokensBefore=1234),
        entry("context_edit", "24", "23", targetId="20", replacement=None),
        entry("session_info", "25", "24", name="the name"),
        entry("label", "26", "25", targetId="04", label="a label"),
        entry("usage", "27", "26", usage={"input": 5, "output": 1}, source="overview"),
        entry("odd", "28", "27", field="odd"),
        user("30", "07", "on another branch"),
        answer("31", "30", "there"),
        user("32", "28", "last"),
        answer("33", "32", "the end"),
    ]


def changed(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """Return a JSON value with every text in it given to `change`, with the key that it stands under."""
    if isinstance(value, dict):
        return {name: changed(part, change, name) for name, part in cast(Json, value).items()}
    if isinstance(value, list):
        return [changed(part, change, key) for part in cast("list[Any]", value)]
    return change(key, value) if isinstance(value, str) else value


def hostile() -> list[Json]:
    """One entry of each kind with hostile text in every field that is text."""
    return [changed(one, lambda key, text: text if key in STRUCTURE | IDS else HOSTILE) for one in every_kind()]
