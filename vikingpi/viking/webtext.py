"""What a web page or a file says, as readable text."""

from __future__ import annotations

import re
from functools import cache

from vikingpi.errors import StoreRejected

_compiled = cache(re.compile)

_HIDDEN = r"(?is)<(script|style|noscript|template|svg|head|nav|footer|iframe)\b.*?</\1\s*>|<!--.*?-->|<!doctype[^>]*>"
_TITLE = r"(?is)<title[^>]*>(.*?)</title>"
_HEADING = r"(?is)<h([1-6])\b[^>]*>(.*?)</h\1\s*>"
_ITEM = r"(?i)<li\b[^>]*>"
_CELL = r"(?i)</t[dh]\s*>"
_PARAGRAPH = r"(?i)</?(?:p|ul|ol|table|section|article|header|main|aside|blockquote|dl|form|hr)\b[^>]*>"
_LINE = r"(?i)</?(?:div|br|tr|dt|dd)\b[^>]*>"
_PRE = r"(?is)(<pre\b[^>]*>.*?</pre\s*>)"
_TAG = r"<[a-zA-Z/!?][^>]*>"
_CHARSET = r"(?i)charset\s*=\s*[\"']?([\w.:-]+)"


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
    named = _compiled(_CHARSET).search(content_type) or _compiled(_CHARSET).search(
        body[:2048].decode("ascii", "replace")
    )
    try:
        return body.decode(named[1] if named else "utf-8", "replace").removeprefix("\ufeff")
    except LookupError:
        return body.decode("utf-8", "replace")


def _page(text: str) -> str:
    from html import unescape

    title = _compiled(_TITLE).search(text)
    shown = _compiled(_HIDDEN).sub(" ", text)
    parts = _compiled(_PRE).split(shown)
    pieces = [_code(part) if index % 2 else _prose(part) for index, part in enumerate(parts)]
    body = _compiled(r"\n{3,}").sub("\n\n", unescape("\n\n".join(filter(None, pieces)))).strip()
    name = " ".join(unescape(_compiled(_TAG).sub("", title[1])).split()) if title else ""
    return f"# {name}\n\n{body}" if name and not body.startswith(f"# {name}") else body


def _prose(text: str) -> str:
    flat = _compiled(r"\s+").sub(" ", text)
    flat = _compiled(_HEADING).sub(lambda found: f"\n\n{'#' * int(found[1])} {found[2].strip()}\n\n", flat)
    flat = _compiled(_ITEM).sub("\n- ", flat)
    flat = _compiled(_CELL).sub(" | ", flat)
    flat = _compiled(_PARAGRAPH).sub("\n\n", flat)
    flat = _compiled(_TAG).sub("", _compiled(_LINE).sub("\n", flat))
    return "\n".join(line.strip() for line in flat.splitlines()).strip()


def _code(text: str) -> str:
    code = _compiled(_TAG).sub("", text).strip("\n")
    return f"```\n{code}\n```" if code.strip() else ""
