"""Tell a secret's value from code, types, words and placeholders, by where it stands."""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Callable

from vikingpi.secret_shapes import HINTS

_regex = functools.cache(re.compile)

_PLACEHOLDER = (
    r"(?i)\A(?:<.*>\Z|-?\$\{?[a-z_(]|%(?:s|d|\(|[a-z_]+%)|\[.*\]\Z|process\.env|os\.environ|(.)\1*\Z"
    r"|change[_-]?(?:me|it)[0-9!]{0,4}\Z|(?:example|dummy|placeholder|redacted|sample)[_-]?[0-9]{0,3}\Z)"
    r"|\A(?-i:[A-Za-z0-9/+]{12,}EXAMPLE(?:KEY)?={0,2})\Z|\{[a-z_(][^{}]*\}|\{\}|\*{3}|\.{3}|(?<![a-z])(?:your|insert|replace)[_-]|_here\Z"
)
_SAYS_PLACEHOLDER = r"(?i)example|dummy|placeholder|redacted|change[_-]?me"
_NO_WORDS = r"[0-9!@#$%^&*+?~]"
_CROSSED_OUT = r"(?i)x{4,}"
_SAMPLE = r"(?i)x{6}|\*{3}|your[_-]|placeholder"
_REFERENCE = (
    r"[A-Za-z][A-Za-z0-9+.-]{0,20}://|arn:|(?![^\s]*[A-Z])[~.]{0,2}(?:/[a-z0-9_.-]+)+/?\Z|[a-z_.-]+(?:/[a-z_.-]+)+/?\Z"
)
_PLAIN_WORDS = (
    " password passwd pass passphrase secret token key string text true false null none undefined optional required"
    " hidden bearer basic auth bool boolean integer number float object bytes unknown void never default input value"
    " prompt file empty missing invalid user login include omit same-origin inherit type username "
)
_TYPES = r"(?:u?int|[iuf]|float|(?:var)?n?char|bytes?|bool|str|string|decimal|uuid|base|sha|utf|v)[0-9.]{1,5}"
_TYPE = rf"(?i){_TYPES}"
_COMPOUND = rf"(?i)(?:{_TYPES}|[0-9]{{1,4}})(?:-[a-z]+)+"
_DOTTED = r"[A-Za-z_]\w*(?:(?:\??\.|::|->)[A-Za-z_]\w*)+[!?]?"
_MIXED = r"(?=.*[0-9])(?=.*[A-Za-z])|(?=.*[A-Za-z0-9])(?=.*[!@#^*~+$%])"
_COLOUR = r"(?i)#(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})"
_APP_PASSWORD = r"[a-z]{4}(?: [a-z]{4}){3}"
_SWITCHES = r"[A-Za-z](?=[0-9!@#$%^&*])|[0-9!@#$%^&*](?=[A-Za-z])"
# Digits that names in code have: sha256, oauth2, k8s, x509, id2token, and one or two at the end of a part.
_CODE_DIGITS = (
    r"(?i:oauth|sha|md|aes|rsa|base|utf|hmac|int|float|str|bit|ipv|http|tls|pbkdf|argon|curve|secp|python|py|ed)[0-9]{1,5}(?![0-9])"
    r"|(?<![A-Za-z])(?i:v|s|p|h|b|k|x|ec|id|hs|rs|es)[0-9]{1,4}(?:n|s|y)?(?![A-Za-z0-9])"
    r"|(?<![A-Za-z])(?i:k8s|i18n|l10n|a11y|e2e|p2p|b2b|s2s|m2m)(?![a-z0-9])"
    r"|(?<=[a-z])2(?=[A-Za-z])"
    r"|(?<![0-9])[0-9]{1,2}(?=_|[A-Z][a-z]|\Z)"
)


def is_real(value: str) -> bool:
    """Check a value that has the shape of a provider's key."""
    return _regex(_SAMPLE).search(value) is None


def is_given(value: str) -> bool:
    """Check a value that stands where only a value can stand."""
    if len(value) < 4 or _is_plain_word(value) or _regex(_REFERENCE).match(value):
        return False
    return not _is_placeholder(value)


def is_quoted(value: str) -> bool:
    """Check a text in quotes under a secret name."""
    if not is_given(value) or _regex(_TYPE).fullmatch(value):
        return False
    if any(char.isspace() for char in value):
        return _is_phrase(value)
    if value.isalpha() and (value.istitle() or len(value) < 6):
        return False
    return not (_regex(r"[A-Za-z_-]+").fullmatch(value) and any(hint in value.lower() for hint in HINTS))


def is_bare(value: str, name: str) -> bool:
    """Check a value without quotes that may as well be code, a type or a word."""
    if len(value) < 6 or value.isalpha():
        return False
    if value.isdigit():
        return name.lower().startswith("pass") and is_given(value)
    if _regex(_MIXED).match(value) is None or not is_given(value):
        return False
    if _regex(_TYPE).fullmatch(value) or _regex(_DOTTED).fullmatch(value):
        return False
    return not is_code(value)


def is_setting(value: str, name: str, *, words: bool) -> bool:
    """Check a value without quotes that is all there is after `name:` or `name=` in its line, as in settings.

    With `words` it may be one that has nothing but letters.
    """
    if not is_given(value) or _regex(_TYPE).fullmatch(value):
        return False
    if value.isdigit():
        return name.lower().startswith("pass")
    if _regex(_DOTTED).fullmatch(value):
        return _has_other_digits(value)
    if not any(map(str.isdigit, value)) and value.isidentifier():
        return words and not any(hint in value.lower() for hint in HINTS)
    if not words and (len(value) < 6 or _regex(_MIXED).match(value) is None):
        return False
    is_numbered = "_" not in value and _regex(r"[A-Za-z]+[0-9]+").fullmatch(value) is not None
    return not is_code(value) or (is_numbered and name.lower().startswith(("pass", "pw", "kenn", "contra", "mot")))


def is_line(value: str) -> bool:
    """Check a line that has nothing but a value, below its name."""
    return (
        not value.endswith(":")
        and not _regex(r"[\w.]+[(=].*|[-#/*].*").match(value)
        and is_setting(value, "", words=False)
    )


def is_code(value: str) -> bool:
    """Tell a name in code that speaks of a secret, secret_key or oauth2_token, from a value as Passw0rd1."""
    if not value.isidentifier() or not any(hint in value.lower() for hint in HINTS):
        return False
    return not _has_other_digits(value)


def is_colour(value: str) -> bool:
    """Tell a colour of a style sheet or a theme."""
    return _regex(_COLOUR).fullmatch(value) is not None


def _is_credential(value: str) -> bool:
    """Tell a header's value from the words of a sentence."""
    if _is_placeholder(value):
        return False
    mixed = value.lower() != value and value.upper() != value and len(value) >= 16
    return mixed or any(char.isdigit() or char == "=" for char in value)


def _has_other_digits(value: str) -> bool:
    return any(map(str.isdigit, _regex(_CODE_DIGITS).sub("", value)))


def _is_plain_word(value: str) -> bool:
    return f" {value.lower()} " in _PLAIN_WORDS


def _is_placeholder(value: str) -> bool:
    """Tell what stands for a value; one that only has such a word in it is a value."""
    if _regex(_PLACEHOLDER).search(value):
        return True
    if _regex(_SAYS_PLACEHOLDER).search(value) and not _regex(_NO_WORDS).search(value):
        return True
    return 2 * sum(map(len, _regex(_CROSSED_OUT).findall(value))) >= len(value)


def _is_phrase(value: str) -> bool:
    """Tell a password with blanks from a sentence about one."""
    if _regex(_APP_PASSWORD).fullmatch(value):
        return True
    words = value.split()
    if len(words) <= 3 and any(char in "!@#$%^&*" for char in value) and any(map(str.isdigit, value)):
        return True
    return len(words) <= 4 and any(
        len(word) >= 6 and len(_regex(_SWITCHES).findall(word)) >= 2 and not is_code(word) for word in words
    )


def _is_url_password(value: str) -> bool:
    return not _is_plain_word(value) and not _is_placeholder(value)


def _is_said(value: str) -> bool:
    """Check a value that a sentence or a table gives to a name."""
    value = value.rstrip(".!?)")
    return is_bare(value, "") and _regex(_COMPOUND).fullmatch(value) is None


def _is_basic(value: str) -> bool:
    """Check for `user:password` in base64."""
    try:
        text = base64.b64decode(value, validate=True).decode("ascii")
    except ValueError:
        return False
    return ":" in text and text.isprintable()


def _is_random(value: str) -> bool:
    """Check for a generated key: letters and digits without an order."""
    return len(_regex(_SWITCHES).findall(value)) >= 4 and is_given(value)


CHECKS: dict[str, Callable[[str], bool]] = {
    "header": _is_credential,
    "url": _is_url_password,
    "password": _is_url_password,
    "hash": bool,
    "jwt": bool,
    "said": _is_said,
    "basic": _is_basic,
    "quoted": is_quoted,
    "given": is_given,
    "random": _is_random,
}
