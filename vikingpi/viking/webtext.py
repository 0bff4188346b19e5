"""What a web page or a file says, as readable text.

Pages come from strangers: each step takes time in proportion to the page, whatever is repeated or left open in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from vikingpi.errors import StoreRejected

_regex = cache(re.compile)

_HIDDEN = frozenset(("script", "style", "noscript", "template", "svg", "head", "title", "nav", "footer", "iframe"))
# What an unclosed one hides, it hides to the end, as in a browser.
_RAW = frozenset(("script", "style"))
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_PARAGRAPH = _HEADINGS | frozenset(
    (
        "p",
        "ul",
        "ol",
        "table",
        "section",
        "article",
        "header",
        "main",
        "aside",
        "blockquote",
        "dl",
        "form",
        "hr",
        "body",
    )
)
_LINE = frozenset(("div", "br", "tr", "dt", "dd"))
_NAME = r"/?[a-zA-Z][^\s/>]{0,30}"
# A "<" ends a tag's search for its ">": many openers without an end are each looked at once.
_TITLE = r"(?i)<title(?:\s[^<>]*)?>([^<]{0,2000})"
_CHARSET = r"(?i)charset\s{0,9}=\s{0,9}[\"']?([\w.:-]+)"
# Python refuses to read numbers of thousands of digits.
_ENDLESS = r"&#(?:[0-9]{20,}|[xX][0-9a-fA-F]{20,});?"


def readable(body: bytes, content_type: str) -> str:
    """Return the text of a document; raise StoreRejected for a kind that has none, such as an image."""
    kind = content_type.partition(";")[0].strip().lower()
    text_like = kind.startswith("text/") or kind.endswith(("json", "xml", "yaml", "javascript", "toml")) or not kind
    if not text_like or b"\0" in body[:8192]:
        raise StoreRejected(
            f"{kind or 'binary data'} cannot be read as text",
            hint="text, Markdown, HTML, JSON and source code can be added",
            status=415,
            code="UNSUPPORTED",
        )
    text = _decoded(body, content_type)
    is_page = "html" in kind or (not kind and text[:1000].lstrip().lower().startswith(("<!doctype", "<html")))
    return _page(text) if is_page else text.strip()


def _decoded(body: bytes, content_type: str) -> str:
    named = _regex(_CHARSET).search(content_type) or _regex(_CHARSET).search(body[:2048].decode("ascii", "replace"))
    try:
        return body.decode(named[1] if named else "utf-8", "replace").removeprefix("\ufeff")
    except (LookupError, ValueError):
        return body.decode("utf-8", "replace")


def _page(text: str) -> str:
    title = _regex(_TITLE).search(text)
    lines = (line.rstrip() for line in _written(text).split("\n"))
    shown = "\n".join(line for line in lines if line.strip("#") or not line)
    body = _regex(r"\n{3,}").sub("\n\n", shown).strip()
    name = " ".join(_unescaped(title[1]).split()) if title else ""
    return f"# {name}\n\n{body}" if name and not body.startswith(f"# {name}") else body


def _unescaped(text: str) -> str:
    from html import unescape

    return unescape(_regex(_ENDLESS).sub("\ufffd", text)) if "&" in text else text


def _written(text: str) -> str:
    """Write the pieces of a page one after the other, with the breaks of its tags between them."""
    out: list[str] = []
    in_heading = False
    for name, piece in _pieces(text):
        if name == "pre" and piece:
            out.append(_code(piece))
        elif not name:
            words = _regex(r"\s+").sub(" ", _unescaped(piece))
            out.append(words.lstrip() if not out or out[-1][-1:].isspace() else words)
        elif name in _HEADINGS:
            in_heading = True
            out.append(f"\n\n{'#' * int(name[1])} ")
        elif name.removeprefix("/") in _PARAGRAPH:
            in_heading = False
            out.append("\n\n")
        elif name == "li":
            out.append("\n- ")
        elif name in ("/td", "/th"):
            out.append(" | ")
        elif name.removeprefix("/") in _LINE:
            out.append(" " if in_heading else "\n")
    return "".join(filter(None, out))


def _code(text: str) -> str:
    lines = ("\n" if name == "br" else "" if name else _unescaped(piece) for name, piece in _pieces(text))
    code = "".join(lines).strip("\n")
    return f"\n\n```\n{code}\n```\n\n" if code.strip() else ""


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Give text as ("", text), tags as (name, "") or ("/name", ""), and a block of code as ("pre", what is in it).

    What is not shown is left out. Every search goes on from where the one before it ended or ends all of its kind.
    """
    at, unclosed = 0, set[str]()
    while at < len(text):
        start = text.find("<", at)
        end = text.find(">", start) if start >= 0 else -1
        if end < 0:
            yield "", text[at:]
            return
        if start > at:
            yield "", text[at:start]
        if text.startswith("<!--", start):
            end = text.find("-->", start + 2)
            at = len(text) if end < 0 else end + 3
            continue
        found = _regex(_NAME).match(text, start + 1)
        if found is None:
            # A declaration, or a "<" that means "less".
            at = end + 1 if text[start + 1] in "!?/" else start + 1
            if at == start + 1:
                yield "", "<"
            continue
        name, at = found[0].lower(), end + 1
        if (name in _HIDDEN or name == "pre") and name not in unclosed and text[end - 1] != "/":
            closed = _regex(rf"(?i)</{name}(?=[\s/>])[^<>]*>").search(text, at)
            if closed is not None:
                yield ("pre", text[at : closed.start()]) if name == "pre" else (" ", "")
                at = closed.end()
                continue
            if name in _RAW:
                return
            unclosed.add(name)
        yield name, ""
