"""Mask secrets in text that is kept: `[masked:<kind>:<4 hex>]`, the same mask for the same secret and salt.

A secret is known by its own shape (keys of providers, JWT, PEM), by where it stands (Authorization header, password
in a URL, cookie) or by the name it is given to (`DB_PASSWORD=`, `"token": `, `--api-key `). Hashes, UUIDs,
placeholders and prose stay. Every pattern takes time in proportion to the text: what it may repeat is bounded or
cannot begin again inside itself.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from vikingpi.errors import ConfigError
from vikingpi.secret_known import KnownSecrets
from vikingpi.secret_shapes import BEGINNINGS, HINTS, NAMED, Shape, cut_blocks, shape_hints, shapes, whole_blocks
from vikingpi.secret_values import CHECKS, is_bare, is_colour, is_given, is_line, is_quoted, is_real, is_setting

_MOST_DEPTH = 200
_WITHIN = r"\x1b\[[0-?]{0,48}[ -/]{0,8}[@-~]|[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]"
_LEAST_IN_ENVIRONMENT = 12

_ASSIGNED = (
    rf"(?i)(?P<name>{NAMED})(?:\\{{0,3}}[\"'])?\]?"
    r"(?P<mark>(?:[ \t]{0,4}:[ \t]{0,4}[A-Za-z_][A-Za-z0-9_.\[\]|?]{0,40})?[ \t]{0,8}(?::=|=>|=(?![=>]))[ \t]{0,8}"
    r"|[ \t\u00a0\u202f]{0,8}[:\uff1a](?![=:])[ \t]{0,8}|[ \t]{1,4}(?=\S))"
    r"(?:[brfu]{1,2}(?=\\{0,3}[\"'`]))?(?:\\{1,3}[\"'](?P<escaped>[^\"'\\\r\n]{1,128})"
    r"|(?P<quote>[\"'`])(?P<quoted>(?:(?!(?P=quote))[^\\\r\n]|\\.){1,128})"
    r"|(?P<bare>[^\s\"'`;,<>()\[\]{}|&\\]{1,128}))"
)
_MORE = {
    "escaped": r"[^\"'\\\r\n]*",
    "quoted": r"[^\"'`\\\r\n]*",
    "bare": r"[^\s\"'`;,<>()\[\]{}|&\\]*",
    "env": r"[^\s\"'`\\]*",
}
_LISTED = (
    rf"(?i)\b(?:name|key)[\"']?[ \t]{{0,4}}[:=][ \t]{{0,4}}[\"']?[A-Za-z0-9_.-]{{0,48}}?{NAMED}[\"']?,?\s{{1,48}}"
    r"[\"']?value[\"']?[ \t]{0,4}[:=][ \t]{0,4}(?P<quote>[\"']?)(?P<value>[^\s\"'<>]{4,4096})"
)
_ELEMENT = (
    rf"(?i)<[a-z0-9_.:-]{{0,40}}?{NAMED}>(?P<value>(?!@[\w.-]{{1,253}}(?:/|\Z))[^<>\s]{{4,4096}}?)"
    r"(?:</|\.{3}|\u2026|\Z)"
)
_COOKIE = r"(?i)\b(?:set-)?cookie[\"']?:[ \t]{0,4}[\"']?(?P<value>[^\r\n\"']{1,8192})"
_CRUMB = r"(?P<name>[^\s=;,]{1,128})=(?P<value>[^\s;,]{8,4096})"
_ATTRIBUTES = frozenset(("path", "domain", "expires", "max-age", "samesite", "version", "priority"))

_MASK = r"\[masked:[a-z]+:[0-9a-f]{4}\]"
_COUNTED = r"(?i)(?:max|min|num|count|total|avg|pad|eos|bos|unk|sep|cls|mask|per|image|input|output|by|com|sur)[_-]?\Z"
_UNEXPECTED = r"(?i)\b(?:un)?(?:expected|known|recognized|recognised|illegal|stray|next)[ \t]\Z"
_LINE_END = r"[ \t]{0,8}(?:\Z|[\r\n]|\\[nr]|#)"
_BELOW = (
    rf"(?i){NAMED}[\"']?[ \t\u00a0]{{0,4}}[:\uff1a][ \t]{{0,4}}(?:[>|][-+0-9]{{0,2}}[ \t]{{0,4}})?(?:\r?\n|\\n)"
    r"[ \t]{0,40}(?P<value>[^\s\"'\\]{4,128})" + _LINE_END
)
_LINE_BEGIN = r"(?:\A|[\r\n]|\\[nr]|(?P<inside>[\"']))(?P<indent>[ \t]*)(?:export[ \t]{1,4}|[-+>][ \t]{0,8})?\Z"
_NAME_END = rf"(?i){NAMED}\Z"
_NAME_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"


@functools.cache
def _regex(pattern: str) -> re.Pattern[str]:
    """Compile when first used: most texts need few of the patterns, and a start needs none."""
    return re.compile(pattern)


class Redactor:
    """Masks by the built-in shapes, by extra `rules` and by `known` secrets such as the program's own keys.

    A rule is a regular expression; its group named `secret`, else its first group, else the whole match is masked.
    Equal secrets get equal masks while `salt` is the same. Raise ConfigError for a rule that does not compile.
    """

    def __init__(self, rules: Sequence[str] = (), salt: bytes = b"", known: Iterable[str] = ()) -> None:
        self._salt = (salt or os.urandom(16))[:32]
        self._known = KnownSecrets(known)
        self._rules = tuple(_compile(rule) for rule in rules)

    def mask(self, text: str) -> tuple[str, int]:
        """Return the text with its secrets masked, and how many there were.

        Colours and invisible characters inside of a secret do not hide it: where one is found without them, the text
        is returned without them.
        """
        found = self._mask(text)
        within = _regex(_WITHIN)
        if within.search(text) is None:
            return found
        bare = self._mask(within.sub("", text))
        return found if within.sub("", found[0]) == bare[0] else bare

    def _mask(self, text: str) -> tuple[str, int]:
        work = _Work(text, self._salt)
        work.spans("key", self._known.spans(text))
        lower = text.lower()
        if "private key" in lower:
            work.spans("pem", whole_blocks(work.text))
            work.spans("pem", cut_blocks(work.text))
        escapes = "\\" in lower or "%" in lower
        hinted = {hint for hint in shape_hints() if hint in lower}
        for shape in shapes() if hinted else ():
            if not hinted.isdisjoint(shape.hints):
                work.shape(shape, escapes=escapes)
        if any(hint in lower for hint in HINTS):
            for pattern in (_LISTED, _ELEMENT):
                work.sub("password", pattern, "value", is_given)
            _mask_assigned(work)
        if "cookie" in lower:
            _mask_cookies(work)
        for rule in self._rules:
            work.sub("rule", rule.pattern, _group_of(rule), bool)
        return work.text, work.count

    def mask_json(self, value: Any) -> tuple[Any, int]:
        """Return a JSON value with the secrets in its texts, and the texts under secret names, masked."""
        return self._mask_value(value, "", 0)

    def _mask_value(self, value: Any, name: str, depth: int) -> tuple[Any, int]:
        if isinstance(value, str):
            return self._mask_named(value, name)
        if depth > _MOST_DEPTH and isinstance(value, (dict, list)):
            return "[nested too deep to be checked]", 0
        total = 0
        if isinstance(value, dict):
            masked: dict[str, Any] = {}
            fields = cast("dict[str, Any]", value)
            called = fields.get("name", fields.get("key"))
            for key, item in fields.items():
                given = called if key == "value" and isinstance(called, str) else key
                masked_key, in_key = self.mask(key)
                masked[masked_key], count = self._mask_value(item, given, depth + 1)
                total += count + in_key
            return masked, total
        if isinstance(value, list):
            items = [self._mask_value(item, name, depth + 1) for item in cast("list[Any]", value)]
            return [item for item, _ in items], sum(count for _, count in items)
        return value, 0

    def _mask_named(self, value: str, name: str) -> tuple[str, int]:
        if name.lower().endswith("authorization"):
            prefix = f"{name}: "
            masked, count = self.mask(prefix + value)
            return (masked.removeprefix(prefix), count) if masked.startswith(prefix) else self.mask(value)
        masked, count = self.mask(value)
        if count or not name:
            return masked, count
        if not is_secret_name(name) or not is_quoted(value):
            return masked, count
        work = _Work(value, self._salt)
        return work.mask_of(_kind(name), value), 1


def count_masks(text: str) -> int:
    """Count the different secrets that are masked in a text."""
    return len(set(_regex(_MASK).findall(text)))


def is_secret_name(name: str) -> bool:
    """Tell whether what is called so is a secret: DB_PASSWORD, x-api-key."""
    found = _regex(_NAME_END).search(name)
    return found is not None and _regex(_COUNTED).search(name[: found.start()]) is None


def secrets_in(env: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of environment variables that are secrets by name, long enough to be told from words."""
    for name, value in env.items():
        if len(value) < _LEAST_IN_ENVIRONMENT or value.startswith(("/", "~", ".")) or name in ("PWD", "OLDPWD"):
            continue
        if is_secret_name(name) and is_given(value) and not any(map(str.isspace, value)):
            yield value


class _Work:
    """A text while it is being masked."""

    def __init__(self, text: str, salt: bytes) -> None:
        self.text = text
        self.count = 0
        self._salt = salt

    def mask_of(self, kind: str, secret: str) -> str:
        digest = hashlib.blake2s(secret.encode("utf-8", "surrogatepass"), key=self._salt, digest_size=2)
        return f"[masked:{kind}:{digest.hexdigest()}]"

    def shape(self, shape: Shape, *, escapes: bool) -> None:
        check = CHECKS.get(shape.check or shape.kind, is_real)
        self.sub(shape.kind, shape.pattern, shape.group, check)
        if escapes and shape.escaped:
            self.sub(shape.kind, shape.escaped, 1, check)

    def sub(self, kind: str, pattern: str, group: int | str, check: Callable[[str], bool]) -> None:
        """Mask `group` of every match whose text passes the check."""
        spans = [
            match.span(group)
            for match in _regex(pattern).finditer(self.text)
            if match.group(group) and _regex(_MASK).search(match.group(group)) is None and check(match.group(group))
        ]
        self.spans(kind, spans)

    def spans(self, kind: str, spans: Sequence[tuple[int, int]]) -> None:
        """Mask these parts; they are in order and do not overlap."""
        self.named_spans([(start, end, kind) for start, end in spans])

    def named_spans(self, spans: Sequence[tuple[int, int, str]]) -> None:
        if not spans:
            return
        pieces: list[str] = []
        at = 0
        for start, end, kind in spans:
            pieces += (self.text[at:start], self.mask_of(kind, self.text[start:end]))
            at = end
        self.text = "".join((*pieces, self.text[at:]))
        self.count += len(spans)


def _compile(rule: str) -> re.Pattern[str]:
    try:
        return re.compile(rule)
    except re.error as error:
        raise ConfigError(f"redact.rules: {rule!r} is no regular expression: {error}") from error


def _group_of(rule: re.Pattern[str]) -> int | str:
    return "secret" if "secret" in rule.groupindex else min(1, rule.groups)


def _mask_assigned(work: _Work) -> None:
    text = work.text
    lower = text.replace("\u0130", "I").lower()
    spans: list[tuple[int, int, str]] = []
    at = 0
    while begin := _regex(BEGINNINGS).search(lower, at):
        match = _regex(_ASSIGNED).match(text, begin.start())
        if match is None:
            span = _value_below(text, begin.start())
            at = span[1] if span is not None else begin.start() + 1
            spans += [(*span, "password")] if span is not None else []
            continue
        span = _assigned_value(text, match)
        if span is None:
            at = match.end("name")
        else:
            spans.append((*span, _kind(match["name"])))
            at = span[1]
    work.named_spans(spans)


def _assigned_value(text: str, match: re.Match[str]) -> tuple[int, int] | None:
    if text.startswith("[masked:", match.start() - 1):
        return None
    prefix = text[max(0, match.start() - 48) : match.start()]
    before = prefix[len(prefix.rstrip(_NAME_CHARS)) :]
    full = before + match["name"]
    form = next(name for name in ("escaped", "quoted", "bare") if match[name] is not None)
    value = match[form]
    flag = before.startswith("--")
    spaced = not match["mark"].strip()
    if (spaced and not flag) or _regex(_COUNTED).search(before) or full in ("PWD", "OLDPWD") or "[masked:" in value:
        return None
    start, end = match.span(form)
    env = form == "bare" and match["mark"] == "=" and full.isupper()
    if is_colour(value) and not match["name"].lower().startswith("p"):
        good = False
    elif form != "bare":
        good = is_quoted(value)
    elif text[end : end + 1] in ("(", "[", "{") and not text.startswith("[masked:", end):
        good = False
    elif env or (flag and match["mark"] == "="):
        good = is_given(value)
    else:
        good = _is_unquoted(text, match, prefix[: len(prefix) - len(before)], full)
    if not good:
        return None
    more = _regex(_MORE["env" if env else form]).match(text, end)
    return start, more.end() if more is not None else end


def _value_below(text: str, at: int) -> tuple[int, int] | None:
    """Find the value of a name that ends its line, also with YAML's signs for a block."""
    match = _regex(_BELOW).match(text, at)
    if match is None or not is_line(match["value"]):
        return None
    in_front = text[max(0, at - 48) : at].rstrip(_NAME_CHARS)
    return match.span("value") if _regex(_LINE_BEGIN).search(in_front) is not None else None


def _is_unquoted(text: str, match: re.Match[str], in_front: str, full: str) -> bool:
    value, mark, name = match["bare"], match["mark"], match["name"]
    if len(value) < 12 and (_in_sentence(text, match.end(), mark) or _regex(_UNEXPECTED).search(in_front)):
        return False
    if is_bare(value, name):
        return True
    assigned = mark == "="
    if not (assigned or mark.strip() in (":", "\uff1a")) or _regex(_LINE_END).match(text, match.end()) is None:
        return False
    begins = _regex(_LINE_BEGIN).search(in_front)
    if begins is None:
        return False
    is_variable = full.isupper() and "_" in full and value.islower()
    return is_setting(value, name, words=is_variable or (assigned and not begins["indent"] and not begins["inside"]))


def _in_sentence(text: str, end: int, mark: str) -> bool:
    return "=" not in mark and text[end : end + 1] == " " and text[end + 1 : end + 2].isalpha()


def _mask_cookies(work: _Work) -> None:
    spans: list[tuple[int, int]] = []
    for header in _regex(_COOKIE).finditer(work.text):
        for crumb in _regex(_CRUMB).finditer(work.text, *header.span("value")):
            if crumb["name"].lower() not in _ATTRIBUTES and _regex(_MASK).search(crumb["value"]) is None:
                spans.append(crumb.span("value"))
    work.spans("cookie", spans)


def _kind(name: str) -> str:
    lower = name.lower()
    return next((kind for kind in ("token", "secret", "key") if kind in lower), "password")
