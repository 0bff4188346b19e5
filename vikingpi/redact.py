"""Mask secrets in text that is kept: `[masked:<kind>:<4 hex>]`, the same mask for the same secret and salt.

A secret is known by its own shape (keys of providers, JWT, PEM), by where it stands (Authorization header, password
in a URL, cookie) or by the name it is given to (`DB_PASSWORD=`, `"token": `, `--api-key `). Hashes, UUIDs,
placeholders and prose stay. Every pattern takes time in proportion to the text: what it may repeat is bounded or
cannot begin again inside itself.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from vikingpi.errors import ConfigError
from vikingpi.secret_known import KnownSecrets
from vikingpi.secret_pem import cut_blocks, whole_blocks
from vikingpi.secret_shapes import NAMED, Shape, shapes

_MOST_DEPTH = 200
_WITHIN = r"\x1b\[[0-?]{0,48}[ -/]{0,8}[@-~]|[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]"
_LEAST_IN_ENVIRONMENT = 12

_HINTS = ("pass", "pwd", "secret", "token", "key", "credential")
_ASSIGNED = (
    rf"(?i)(?P<name>{NAMED})(?:\\{{0,3}}[\"'])?\]?"
    r"(?P<mark>(?:[ \t]{0,4}:[ \t]{0,4}[A-Za-z_][A-Za-z0-9_.\[\]|?]{0,40})?[ \t]{0,8}(?::=|=>|=(?![=>]))[ \t]{0,8}"
    r"|[ \t]{0,8}:(?![=:])[ \t]{0,8}|[ \t]{1,4}(?=\S))"
    r"[brfu]?(?:\\{1,3}[\"'](?P<escaped>[^\"'\\\r\n]{1,128})"
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
_PLACEHOLDER = (
    r"(?i)\A(?:<.*>\Z|\$\{?[a-z_(]|%(?:s|d|\(|[a-z_]+%)|\[.*\]\Z|process\.env|os\.environ|(.)\1*\Z)"
    r"|\{[a-z_(]|\{\}|x{4}|\*{3}|\.{3}|your[_-]|change[_-]?me|placeholder|redacted|example|dummy|insert[_-]|replace[_-]|_here\Z"
)
_SAMPLE = r"(?i)x{6}|\*{3}|your[_-]|placeholder"
_REFERENCE = (
    r"[A-Za-z][A-Za-z0-9+.-]{0,20}://|arn:|(?![^\s]*[A-Z])[~.]{0,2}(?:/[a-z0-9_.-]+)+/?\Z|[a-z_.-]+(?:/[a-z_.-]+)+/?\Z"
)
_PLAIN_WORDS = (
    " password passwd pass passphrase secret token key string text true false null none undefined optional required"
    " hidden bearer basic auth bool boolean integer number float object bytes unknown void never default input value"
    " prompt file empty missing invalid user login include omit same-origin inherit type username "
)
_TYPE = r"(?i)(?:u?int|[iuf]|float|(?:var)?n?char|bytes?|bool|str|string|decimal|uuid|base|sha|utf|v)[0-9.]{1,5}"
_DOTTED = r"[A-Za-z_]\w*(?:(?:\??\.|::|->)[A-Za-z_]\w*)+[!?]?"
_MIXED = r"(?=.*[0-9])(?=.*[A-Za-z])|(?=.*[A-Za-z0-9])(?=.*[!@#^*~+$%])"
_COUNTED = r"(?i)(?:max|min|num|count|total|avg|pad|eos|bos|unk|sep|cls|mask|per|image|input|output|by|com|sur)[_-]?\Z"
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
        for shape in shapes():
            if any(hint in lower for hint in shape.hints):
                work.shape(shape, escapes=escapes)
        if any(hint in lower for hint in _HINTS):
            for pattern in (_LISTED, _ELEMENT):
                work.sub("password", pattern, "value", _is_given)
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
        if not is_secret_name(name) or not _is_quoted(value):
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
        if is_secret_name(name) and _is_given(value) and not any(map(str.isspace, value)):
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
        check = _CHECKS.get(shape.check or shape.kind, _is_real)
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
    spans: list[tuple[int, int, str]] = []
    at = 0
    while match := _regex(_ASSIGNED).search(text, at):
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
    if form != "bare":
        good = _is_quoted(value)
    elif text[end : end + 1] in ("(", "[", "{") and not text.startswith("[masked:", end):
        good = False
    elif env or (flag and match["mark"] == "="):
        good = _is_given(value)
    else:
        good = _is_bare(value, match["name"]) and not (len(value) < 12 and _in_sentence(text, end, match["mark"]))
    if not good:
        return None
    more = _regex(_MORE["env" if env else form]).match(text, end)
    return start, more.end() if more is not None else end


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


def _is_real(value: str) -> bool:
    return _regex(_SAMPLE).search(value) is None


def _is_credential(value: str) -> bool:
    """Tell a header's value from the words of a sentence."""
    if _regex(_PLACEHOLDER).search(value):
        return False
    mixed = value.lower() != value and value.upper() != value and len(value) >= 16
    return mixed or any(char.isdigit() or char == "=" for char in value)


def _is_plain_word(value: str) -> bool:
    return f" {value.lower()} " in _PLAIN_WORDS


def _is_given(value: str) -> bool:
    """Check a value that stands where only a value can stand."""
    if len(value) < 4 or _is_plain_word(value) or _regex(_REFERENCE).match(value):
        return False
    return _regex(_PLACEHOLDER).search(value) is None


def _is_url_password(value: str) -> bool:
    return not _is_plain_word(value) and _regex(_PLACEHOLDER).search(value) is None


def _is_quoted(value: str) -> bool:
    if not _is_given(value) or _regex(_TYPE).fullmatch(value):
        return False
    if any(char.isspace() for char in value):
        words = value.split()
        return len(words) <= 3 and any(char in "!@#$%^&*" for char in value) and any(map(str.isdigit, value))
    if value.isalpha() and (value.istitle() or len(value) < 6):
        return False
    return not (_regex(r"[A-Za-z_-]+").fullmatch(value) and any(hint in value.lower() for hint in _HINTS))


def _is_said(value: str) -> bool:
    """Check a value that a sentence or a table gives to a name."""
    return _is_bare(value.rstrip(".!?)"), "")


def _is_basic(value: str) -> bool:
    """Check for `user:password` in base64."""
    try:
        text = base64.b64decode(value, validate=True).decode("ascii")
    except ValueError:
        return False
    return ":" in text and text.isprintable()


def _is_bare(value: str, name: str) -> bool:
    """Check a value that may as well be code, a type or a word."""
    if len(value) < 6 or value.isalpha():
        return False
    if value.isdigit():
        return name.lower().startswith("pass") and _is_given(value)
    if _regex(_MIXED).match(value) is None or not _is_given(value):
        return False
    if _regex(_TYPE).fullmatch(value) or _regex(_DOTTED).fullmatch(value):
        return False
    return not (value.isidentifier() and any(hint in value.lower() for hint in _HINTS))


_CHECKS: dict[str, Callable[[str], bool]] = {
    "header": _is_credential,
    "url": _is_url_password,
    "password": _is_url_password,
    "hash": bool,
    "jwt": bool,
    "said": _is_said,
    "basic": _is_basic,
}
