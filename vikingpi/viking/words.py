"""Words as the embedded store finds them. Index and query go through the same code, so that both agree.

Identifiers and paths are found whole and by their parts (`maxRetryCount`, `max_retry_count` and "retry count" meet),
English words by a stem, Chinese, Japanese and Korean by pairs of neighbouring characters.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

MAX_QUERY_TERMS = 32
PASSAGE = 1000

_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_LONGEST = 64
_KNOWN_WORDS = 20_000
_ENDS = ("\n", "。", "！", "？", ". ", "! ", "? ", "; ", "；", " ")

# Compiled at first use: a one-shot run may search nothing.
_regex = cache(re.compile)
_RUN = rf"[{_CJK}]+|[^\W{_CJK}]+"
_ACCENTED = r"[\u0080-\u058f\u1e00-\u1fff]+"
_PIECE = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+"

_STOP_WORDS = (
    "a about after again all also am an and any are as at be been before but by can could did do does doing done"
    " for from get give had has have he her here him his how i if in into is it its itself just let like make may"
    " me more most much many my no nor not now of off on one only or other our out over own please she should so"
    " some such tell than that the their them then there these they thing this those through to too under until up"
    " us use very was we were what when where which while who why will with would yes you your"
    " 什么 怎么 我们 你们 他们 这个 那个 是什 的是 请问 一下 了吗 是否 可以 如何 哪个 多少 多久 多大 多长"
    " 几个 几次 何时 哪里 哪些"
)


def terms(text: str) -> list[str]:
    """Return the terms of a text in order, with repetitions."""
    found: list[str] = []
    for run in _runs(text):
        # Most runs are of letters before the first of those scripts, and a call for each is dear.
        found += _pairs(run) if run[0] >= "\u3040" and is_cjk(run[0]) else _parts(run)
    return found


def query_terms(text: str) -> tuple[str, ...]:
    """Return what to look for: each term once, without words that say nothing unless there are no others."""
    found: list[str] = []
    for run in _runs(text):
        pieces = _pairs(run)[:-1] or [run] if is_cjk(run[0]) else _asked_parts(run)
        found += [one for one in pieces if run.lower() not in _stop()]
    rest = [one for one in found if one not in _stop()]
    return tuple(dict.fromkeys(rest or terms(text)))[:MAX_QUERY_TERMS]


def matches(term: str, present: frozenset[str]) -> bool:
    """Whether a query's term is among a passage's; one CJK character is found in any pair that begins with it."""
    if len(term) == 1 and is_cjk(term):
        return any(one.startswith(term) for one in present)
    return term in present


def folded(text: str) -> str:
    """Write a text as its terms are written, so that nearly all of a term is a piece of it."""
    return _plain(text).lower()


def is_cjk(char: str) -> bool:
    """Whether a character is searched in pairs."""
    return char >= "\u3040" and _regex(f"[{_CJK}]").match(char) is not None


def passages(text: str) -> list[tuple[int, int]]:
    """Split a text into pieces of about a thousand characters, at the ends of lines and sentences where possible."""
    pieces: list[tuple[int, int]] = []
    start = 0
    while len(text) - start > PASSAGE:
        stop = _break(text, start)
        pieces.append((start, stop))
        start = stop
    if text[start:].strip():
        pieces.append((start, len(text)))
    return pieces


def _break(text: str, start: int) -> int:
    for end in _ENDS:
        at = text.rfind(end, start + PASSAGE * 3 // 5, start + PASSAGE)
        if at >= 0:
            return at + len(end)
    return start + PASSAGE


def _runs(text: str) -> list[str]:
    """Return what stands between spaces and punctuation. The pattern for all scripts takes 4 ms to compile."""
    plain = _plain(text)
    return _regex(r"\w+" if plain.isascii() else _RUN).findall(plain)


def _plain(text: str) -> str:
    """Fold full-width forms and take accents off; Hangul stays composed."""
    if text.isascii():
        return text
    return _regex(_ACCENTED).sub(_bare, unicodedata.normalize("NFKC", text))


def _bare(found: re.Match[str]) -> str:
    split = unicodedata.normalize("NFKD", found[0])
    return "".join(char for char in split if not unicodedata.combining(char))


def _pairs(run: str) -> list[str]:
    """Return each pair of neighbours and, so that a single character is found at the end too, the last character."""
    return [run[i : i + 2] for i in range(len(run) - 1)] + [run[-1]]


@lru_cache(_KNOWN_WORDS)
def _parts(run: str) -> tuple[str, ...]:
    """Return the parts of a word, from two characters on, and a word of several parts as a whole."""
    pieces = _pieces(run)
    if len(pieces) < 2:
        return pieces
    return (*(piece for piece in pieces if len(piece) > 1), "".join(pieces)[:_LONGEST])


def _asked_parts(run: str) -> tuple[str, ...]:
    """Return what a word of a query asks for: its parts, and the whole where a part alone says too little."""
    pieces = _pieces(run)
    return pieces if len(pieces) < 2 or all(len(piece) > 1 for piece in pieces) else _parts(run)


def _pieces(run: str) -> tuple[str, ...]:
    return tuple(_stem(piece.lower())[:_LONGEST] for piece in _regex(_PIECE).findall(run))


def telling(found: frozenset[str]) -> frozenset[str]:
    """Leave out the terms that say nothing."""
    return found - _stop()


@cache
def _stop() -> frozenset[str]:
    words = _STOP_WORDS.split()
    return frozenset(words) | {_stem(word) for word in words}


def _stem(word: str) -> str:
    """Take English endings off: deploys, deployed, deploying -> deploy."""
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    base = word
    if base.endswith("ies") and len(base) > 4:
        base = base[:-3] + "y"
    elif base.endswith("s") and not base.endswith(("ss", "us", "is")):
        base = base[:-1]
    for ending in ("ing", "ed"):
        if base.endswith(ending) and len(base) - len(ending) >= 3:
            base = base.removesuffix(ending)
            if base[-1] == base[-2] and base[-1] not in "lsz":
                base = base[:-1]
            break
    return base.removesuffix("e") if len(base) > 3 else base
