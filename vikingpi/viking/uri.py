"""Names and addresses in a context store: what is allowed, and how it is written into a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote, urlencode

from vikingpi.errors import StoreRejected

SCHEME = "viking://"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]")


def check_session_name(name: str) -> str:
    """Return `name`; raise StoreRejected unless it is 1 to 200 of `A-Za-z0-9._-` and not "." or ".."."""
    if _NAME.fullmatch(name) is None or name in (".", ".."):
        raise StoreRejected(
            f"{name[:60]!r} cannot name a session",
            hint="use 1 to 200 letters, digits, dots, underscores and hyphens",
            status=400,
            code="INVALID_ARGUMENT",
        )
    return name


def check_uri(uri: str) -> str:
    """Return a viking:// URI without a slash at its end; raise StoreRejected for any other text.

    Empty, "." and ".." segments and a "~" that is not the first are refused, also percent-encoded ones.
    """
    text = uri.strip()
    if not text.startswith(SCHEME) or _UNSAFE.search(text):
        raise _bad_uri(uri, "an address starts with viking:// and has no control characters")
    path = text[len(SCHEME) :].rstrip("/")
    for index, part in enumerate(path.split("/") if path else ()):
        plain = unquote(part)
        barred = ("", ".", "..", "~") if index else ("", ".", "..")
        if plain.strip() in barred or "/" in plain or _UNSAFE.search(plain):
            raise _bad_uri(uri, 'a path has no empty, "." or ".." segments, and "~" is only its first')
    return SCHEME + path


def session_of(uri: str) -> str:
    """Give the name of the session that an address is, or is in, "" for any other."""
    match uri.strip().removeprefix(SCHEME).rstrip("/").split("/"):
        case ["user", _, "sessions", name, *_] | ["~", "sessions", name, *_] | ["session", name, *_]:
            return unquote(name)
        case _:
            return ""


def check_deletable(uri: str) -> str:
    """Return a checked URI that names one thing; raise StoreRejected for a root or a folder of everything.

    Refused are the roots, a user's space, its memories and sessions, and a whole kind of memories.
    """
    text = check_uri(uri)
    segments = text[len(SCHEME) :].split("/")
    if segments[0] == "~":
        segments[0:1] = ["user", "~"]
    if not _names_one_thing(segments):
        raise StoreRejected(
            f"{text[:200]} is too much to delete at once",
            hint="name a single memory, resource or session",
            status=403,
            code="SHALLOW_URI",
        )
    return text


def _names_one_thing(segments: list[str]) -> bool:
    match segments:
        case ["resources", _, *_]:
            return True
        case ["user" | "agent", _, "memories", *rest]:
            return len(rest) > 1 or (len(rest) == 1 and "." in rest[0])
        case _:
            return segments[0] in ("user", "agent") and len(segments) > 3


def _bad_uri(uri: str, hint: str) -> StoreRejected:
    return StoreRejected(f"{uri[:200]!r} is no address in the context store", hint=hint, status=400, code="INVALID_URI")


def segment(text: str) -> str:
    """Percent-encode one path segment."""
    return quote(text, safe="")


def with_query(path: str, query: Mapping[str, str | int]) -> str:
    """Append a percent-encoded query."""
    return f"{path}?{urlencode(query)}" if query else path
