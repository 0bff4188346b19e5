"""Markdown of models as HTML: no HTML of theirs, no images, links only to the web and to mail."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from vikingpi.export.ink import Ink
from vikingpi.export.markup import Html, join, link, tag

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# The parser takes time in the square of unclosed brackets and stars.
_MOST_TEXT = 40_000
_MOST_MARKS = 3000
# The parser leaves out what lies deeper; a list makes two levels.
_DEEPEST = 100
_MARKS = r"[\[\]*_~`<&!]"
_DEEP = r"(?m)^(?:[ \t]*(?:>|[-+*][ \t]|[0-9]{1,9}[.)][ \t])){12}|^[ \t]{64}"
_SIDES = ("left", "center", "right")
_ELEMENTS = {
    "blockquote": "blockquote",
    "bullet_list": "ul",
    "em": "em",
    "list_item": "li",
    "paragraph": "p",
    "s": "del",
    "strong": "strong",
    "tbody": "tbody",
    "thead": "thead",
    "tr": "tr",
}


def to_html(text: str, ink: Ink) -> Html:
    """Render Markdown; a text that is too long or too twisted to be parsed stays as it was written."""
    shown = ink.text(text)
    twisted = len(_regex(_MARKS).findall(shown)) > _MOST_MARKS or _regex(_DEEP).search(shown) is not None
    if len(shown) > _MOST_TEXT or twisted:
        return tag("div", shown, cls="text")
    renderer = _Renderer(shown, ink)
    return tag("div", renderer.render(_parser().parse(shown)), cls="markdown")


_regex = functools.cache(re.compile)


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST}).enable(["table", "strikethrough"])


class _Renderer:
    """Turns the tokens of a text into elements, from the inside out."""

    def __init__(self, source: str, ink: Ink) -> None:
        self._source = source
        self._ink = ink

    def render(self, tokens: Sequence[Token]) -> Html:
        """Render tokens, which open and close in pairs."""
        open_: list[tuple[Token | None, list[Html | str]]] = [(None, [])]
        for token in tokens:
            if token.nesting > 0:
                open_.append((token, []))
            elif token.nesting < 0:
                start, inner = open_.pop()
                open_[-1][1].append(self._element(start or token, inner))
            else:
                open_[-1][1].append(self._leaf(token))
        return join(open_[0][1])

    def _element(self, token: Token, inner: list[Html | str]) -> Html:
        match token.type.removesuffix("_open"):
            case "heading":
                # The page's own headings stand above those of an answer.
                return tag(f"h{min(6, int(token.tag[1:]) + 3)}", *inner)
            case "link":
                return self._link(str(token.attrs.get("href", "")), inner)
            case "ordered_list":
                return tag("ol", *inner, start=int(token.attrs.get("start", 1)))
            case "paragraph" if token.hidden:
                return join(inner)
            case "table":
                return tag("div", tag("table", *inner), cls="wide", tabindex=0)
            case "td" | "th" as name:
                side = str(token.attrs.get("style", "")).removeprefix("text-align:")
                return tag(name, *inner, cls=side if side in _SIDES else False)
            case kind:
                return tag(_ELEMENTS.get(kind, "span"), *inner)

    def _leaf(self, token: Token) -> Html | str:
        match token.type:
            case "inline":
                children = token.children or []
                said = "".join(_said(child) for child in children)
                return self._unless_secret(said) or self.render(children)
            case "fence" | "code_block":
                return tag("pre", tag("code", self._unless_secret(token.content) or token.content), tabindex=0)
            case "code_inline":
                return tag("code", token.content)
            case "hardbreak" | "softbreak":
                return tag("br")
            case "hr":
                return tag("hr")
            case "image":
                shown = f"[image: {token.content or 'without a description'}]"
                return self._link(str(token.attrs.get("src", "")), [shown])
            case _:
                return token.content

    def _unless_secret(self, said: str) -> str:
        """Return a text masked where it shows a secret that escapes or emphasis had hidden from the mask, else ""."""
        if said in self._source or not self._ink.holds_secret(said):
            return ""
        return self._ink.text(said)

    def _link(self, address: str, inner: list[Html | str]) -> Html:
        hidden = self._ink.holds_secret(address) or self._ink.holds_secret(unquote(address))
        return link("" if hidden else address, *inner)


def _said(token: Token) -> str:
    return "\n" if token.type in ("softbreak", "hardbreak") else token.content
