"""HTML that can hold nothing but what this module knows: elements, attributes and addresses outside of it are refused.

`Html` is finished markup; any other text is escaped where it is put in.
"""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Iterable
from html import escape

from vikingpi.messages import ImagePart
from vikingpi.tools.images import kind_of

_ELEMENTS = (
    "a article blockquote body br code dd del details div dl dt em footer h1 h2 h3 h4 h5 h6 head header hr html img"
    " input label li main meta nav ol p pre section span strong style summary table tbody td tfoot th thead time title"
    " tr ul svg g path rect line text"
)
_EMPTY = "br hr img input meta"
_KEYS = (
    "alt aria-label charset class content d datetime for height href http-equiv id lang name open rel role scope src"
    " start tabindex text-anchor type viewBox width x x1 x2 y y1 y2"
)
TAGS = frozenset(_ELEMENTS.split())
EMPTY_TAGS = frozenset(_EMPTY.split())
ATTRIBUTES = frozenset(_KEYS.split())
LINK_REL = "noreferrer noopener nofollow"

_NAMES = {"cls": "class", "for_": "for", "type_": "type"}
_ADDRESS = r"\A(?:https?://|mailto:)[!#-;=?-~]+\Z"
_INSIDE = r"\A#[a-z][a-z0-9-]*\Z"
_IMAGE = r"\Adata:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}\Z"
_SCHEMES = {"href": (_ADDRESS, _INSIDE), "src": (_IMAGE,)}
_regex = functools.cache(re.compile)


class Html(str):
    """Markup that may stand in a page as it is."""

    __slots__ = ()


def join(parts: Iterable[Html | str], between: str = "") -> Html:
    """Put pieces one after the other; what is no markup is escaped."""
    return Html(between.join(part if isinstance(part, Html) else escape(part) for part in parts))


def tag(name: str, /, *children: Html | str, **attributes: str | float | bool) -> Html:
    """Make an element. ValueError for an element, attribute or address that no page may have."""
    if name not in TAGS:
        raise ValueError(f"no page has <{name}>")
    start = "".join(_attribute(key, value) for key, value in attributes.items() if value is not False)
    if name in EMPTY_TAGS:
        return Html(f"<{name}{start}>")
    return Html(f"<{name}{start}>{join(children)}</{name}>")


def link(address: str, *children: Html | str) -> Html:
    """Link to an address of the web or of mail; without a link where it is any other."""
    if _regex(_ADDRESS).match(address) is None:
        return tag("span", *children)
    return tag("a", *children, href=address, rel=LINK_REL)


def counted(count: int, word: str) -> str:
    """Write a number of things: `1 prompt`, `1,200 prompts`."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def image_source(image: ImagePart) -> str:
    """Return an image as an address that holds it, "" when its data are not an image of one of the four kinds."""
    try:
        data = base64.b64decode(image.data, validate=True)
    except (binascii.Error, ValueError):
        return ""
    kind = kind_of(data)
    return f"data:{kind};base64,{base64.b64encode(data).decode()}" if kind else ""


def _attribute(key: str, value: str | float | bool) -> str:
    name = _NAMES.get(key, key if key == "viewBox" else key.replace("_", "-"))
    if name not in ATTRIBUTES:
        raise ValueError(f"no element has the attribute {name}")
    if value is True:
        return f" {name}"
    text = str(value)
    if name in _SCHEMES and all(_regex(scheme).match(text) is None for scheme in _SCHEMES[name]):
        raise ValueError(f"{name} may not lead to {text[:80]}")
    return f' {name}="{escape(text)}"'
