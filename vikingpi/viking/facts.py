"""Find the sentences of a text that state something worth keeping. Pure and deterministic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise

from vikingpi.values import NamedTuple

LINE = 300
_WINDOW = 90
_MAX_STRONG = 60
_MAX_WEAK = 12
_SAME_SHAPE = 2
_MAX_PASTED = 5

# Compiled at first use: most runs archive nothing.
_regex = cache(re.compile)

_END = r"[.!?](?=\s)|[。！？；\n]"
_BULLET = r"^\s*(?:[-*+•]\s+|#{1,6}\s+|>\s+)"

# What makes a value: a digit, code, an identifier, a path.
_VALUE = (
    r"(?:[\w.~/@:-]*\d[\w./:%-]*|`[^`\n]{1,80}`|\"[^\"\n]{1,80}\"|[A-Z][A-Za-z0-9]*[-_A-Z][\w-]*"
    r"|[a-z]+_\w+|[\w.~-]*/[\w./-]+)"
)
_COPULA = r"(?:is|are|was|were|equals|means|becomes|contains|called|named|uses?|set to|defaults to|listens on|runs on)"

_VALUED = (
    rf"\b\w[\w.-]{{0,60}}\s+{_COPULA}\s+(?:(?:now|at|the|a|an|on|in|called|named|not|set to)\s+){{0,6}}{_VALUE}"
    r"|\b[A-Za-z_][\w.-]{0,60}\s*(?::=|=|->|→)\s*[^\s=>]"
    r"|\b[a-z][a-z0-9-]{2,30} is [A-Z0-9]"
    r"|[\u4e00-\u9fff]\s*(?:是|为|叫|等于|改为|设为|：)\s*[^\s，。；、！？是不]"
)
_ORDERS = (
    r"\b(?:use|prefer|always|never|must|remember|note that|decided|decision|agreed|chose|deadline|instead of)\b"
    r"|\b(?:don't|do not)\b"
    r"|必须|不要|不能|记住|使用|采用|决定|总是|改用"
)
# What has none of these holds no statement; looking for pieces of text is much quicker than the patterns above.
_COPULA_WORDS = frozenset(
    re.findall(r"\w+", "is are was were equals means becomes contains called named use uses set defaults listens runs")
)
_VALUE_SIGNS = ("→", "是", "为", "叫", "：", "等于")
_ORDER_SIGNS = (
    *("use", "prefer", "always", "never", "must", "remember", "note that", "decided", "decision", "agreed", "chose"),
    *("deadline", "instead of", "don't", "do not"),
    *("必须", "不要", "不能", "记住", "使用", "采用", "决定", "总是", "改用"),
)
_STATED = rf"(?i){_VALUED}|\b[\w'-]{{1,60}}\s+{_COPULA}\s+\w|{_ORDERS}"
# Lines of code and of logs give values by the dozen; a few of them show what was pasted.
_CODE = (
    r"[;{}]\s*$|^\s*(?:if|for|while|from|return)\b.*[:(]\s*$|^\s*(?:const|let|var)\s+\w+\s*[:=]"
    r"|^\s*(?:import|def|class|export|public|private|func|fn|async)\b.*[:(=]"
)
_LOGGED = r"^\W?(?:\d{4}-\d\d-\d\d[T ]\d|\d\d:\d\d:\d\d|(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b)"
_ADDRESS = r"https?://\S{1,200}"
_WEAK = r"\d|[\w.-]{1,80}+/[\w./-]|`[^`\n]+`|\b\w{1,80}?_\w"
_WEAK_SIGNS = r"\d|[\w.-]/[\w./-]|`[^`\n]+`|\w_\w"
_TOOL_FACT = r"\b[a-z][a-z0-9-]{2,30} is [A-Z0-9][\w:/.-]{1,60}|[\u4e00-\u9fff]{2,6}是[^\s，。；、]{1,30}"
_CORRECTION = (
    r"(?i)\s*(?:(?:hmm+|oh|ah|嗯|哎)[,.…， ]*)?(?:no\b[,. ]|wait\b"
    r"|nope\b|wrong\b|stop\b|actually\b|instead\b|not that\b|that's (?:not|wrong)|undo\b"
    r"|revert\b|不对|不是|错了|别|停|等等|等一下)"
)
_CHANGE = (
    r"(?i)\b(?:now|no longer|instead|after all|actually|change of plan|from now on|renamed|replaced"
    r"|(?:move|switch|change|migrate)d? (?:\w+ ){0,4}?(?:to|from))\b"
    r"|改成|改为|改用|改到|换成|换为|移到|现在|不再|推迟到|提前到"
)
# Said of what is so from now on, not asked for: "move it to x" is a task.
_SWITCH = (
    r"(?i)\b(?:(?:moved|switched|changed|migrated|went over) (?:\w+ ){0,4}?(?:to|from)|change of plan|after all)\b"
    r"|改成|改为|改用|改到|换成|换为|移到|推迟到|提前到"
)
_ACKNOWLEDGEMENT = (
    r"(?i)\W*(?:(?:okay|ok|thanks?|thank you|great|good|fine|yes|yeah|yep|yup|y|sure|perfect|cool|nice|go on|continue"
    r"|done|noted|understood|got it|谢谢|好的?|可以|行|继续|嗯|是的|收到|明白|已记录|记住了)(?![a-z])\W*)+"
)
# A whole sentence that gives one thing one value: with a digit in it or written like a name, perhaps with its unit.
_VALUE_OF = (
    r"(?i:(?:(?:now|so|ok|okay|actually|change of plan|and|the|our|a|an)[:, ]+)*)([\w./-]+(?: [\w./-]+){0,5}?)"
    r" (?i:is|are|=|:=|listens on|runs on|is set to|is called|(?:(?:has|was|is) )?(?:moved|changed) to)"
    r"(?i:(?: (?:now|at|on|port|the))*)"
    r" [`\"']?(?:[^\s]*\d[^\s]*|[A-Z][\w.-]*)[`\"']?(?: (?:[a-zA-Z%]+|\d+:\d\d))?(?: now)?[.!]?"
)
_VALUE_OF_CJK = (
    r"(?:现在)?([^是为，。！？]{2,40}?)(?:现在)?(?:是|改为|改成|改到|换成|移到|设为)([^，。！？；]{1,30})[。！]?"
)
_POINTING = frozenset(("it", "this", "that", "there", "they", "these", "those", "which", "what", "here", "he", "she"))
_OPEN_END = (
    r"(?i)\b(?:todo|fixme|next step|still (?:need|to do|open|missing|fail)|remaining|not (?:\w+ ){0,3}yet|unresolved"
    r"|blocked)\b|\bopen:"
    r"|待办|下一步|尚未|还没|未解决"
)
_OPEN_SIGNS = (
    *("todo", "fixme", "next step", "still ", "remaining", " yet", "unresolved", "blocked", "open:"),
    *("待办", "下一步", "尚未", "还没", "未解决"),
)


class Condensed(NamedTuple):
    """`head` is how the text begins, `facts` the sentences after that which state something."""

    head: str
    facts: tuple[str, ...]


def one_line(text: str, limit: int = LINE) -> str:
    """Collapse white space outside of code in backticks and cut to `limit` characters, at a blank where one is near."""
    return cut_line(_flat(text), limit)


def _flat(text: str) -> str:
    """Collapse white space; in code in backticks only what is no blank, as indentation may be what it is about."""
    if "`" not in text:
        return " ".join(text.split())
    pieces = _regex(r"(`[^`]+`)").split(text)
    kept = (_regex(r"[^\S ]+").sub(" ", one) if one[:1] == "`" else _regex(r"\s+").sub(" ", one) for one in pieces)
    return "".join(kept).strip()


def cut_line(flat: str, limit: int) -> str:
    """Cut one line to `limit` characters, at a blank where one is near."""
    if len(flat) <= limit:
        return flat
    cut = flat[: limit - 1]
    blank = cut.rfind(" ")
    return (cut[:blank] if blank > limit * 2 // 3 else cut).rstrip() + "…"


@lru_cache(4)
def sentences(text: str) -> tuple[str, ...]:
    """Split into sentences and lines, without bullets and blanks."""
    ends = [0, *(match.end() for match in _regex(_END).finditer(text)), len(text)]
    pieces = (text[start:stop] for start, stop in pairwise(ends))
    found = (_flat(_regex(_BULLET).sub("", piece)) for piece in pieces)
    return tuple(piece for piece in found if piece)


def condense(text: str, whole: int = 400) -> Condensed:
    """Keep a short text whole; of a longer one its first sentences and each sentence that states a fact."""
    if len(text) <= whole:
        return Condensed(one_line(text, whole), ())
    pieces = sentences(text)
    head: list[str] = []
    for piece in pieces:
        if sum(map(len, head)) + len(piece) > 240:
            break
        head.append(piece)
    rest = pieces[len(head) :]
    if not head:
        head = [one_line(pieces[0], 240)] if pieces else []
    return Condensed(" ".join(head) + " …" if head else "", _telling(rest))


def stated(text: str) -> bool:
    """Whether each sentence of a user's text states something and none asks."""
    pieces = sentences(text)
    return bool(pieces) and all(_found(_STATED, one) and not one.endswith(("?", "？")) for one in pieces)


def valued(text: str, limit: int = 12) -> tuple[str, ...]:
    """Return the sentences that give a value, each within a line."""
    pieces = (piece for piece in sentences(text) if not _regex(_CODE).search(piece))
    found = [clause for piece in pieces for clause in _clauses(piece, _VALUED)]
    return tuple(dict.fromkeys(found))[:limit]


def tool_facts(text: str, limit: int = 3) -> tuple[str, ...]:
    """Return plain statements ("name is Value") in the output of a tool."""
    found = (one_line(match.group(0)) for match in _regex(_TOOL_FACT).finditer(text))
    return tuple(dict.fromkeys(found))[:limit]


def is_correction(text: str) -> bool:
    """Whether a user's text begins by rejecting what was done."""
    return _regex(_CORRECTION).match(text) is not None


def is_change(text: str) -> bool:
    """Whether a text says that something is otherwise than before."""
    return _regex(_CHANGE).search(text) is not None


def is_switch(text: str) -> bool:
    """Whether a user's text tells, and does not ask for, something that is otherwise from now on."""
    return _regex(_SWITCH).search(text) is not None and not asks(text)


def asks(text: str) -> bool:
    """Whether a text ends as a question."""
    return text.rstrip().endswith(("?", "？"))


def open_ends(text: str, limit: int = 3) -> tuple[str, ...]:
    """Return the sentences that say something is still to be done."""
    if not _holds(text, _OPEN_SIGNS):
        return ()
    return tuple(one_line(one) for one in sentences(text) if is_open(one))[:limit]


def is_open(sentence: str) -> bool:
    """Whether a sentence says that something is still to be done, and does not ask."""
    return _regex(_OPEN_END).search(sentence) is not None and not sentence.endswith(("?", "？"))


def is_acknowledgement(text: str) -> bool:
    """Whether a user's text says no more than that it was read."""
    return len(text) < 60 and _regex(_ACKNOWLEDGEMENT).fullmatch(text) is not None


def fact_subject(sentence: str) -> str:
    """Give what a sentence gives a value for ("the gateway port is 8443": "gateway port"), "" for any other."""
    match = _regex(_VALUE_OF).fullmatch(sentence) or _regex(_VALUE_OF_CJK).fullmatch(sentence)
    if match is None:
        return ""
    words = match[1].casefold().split()
    named = len(words) > 1 or re.search(r"[^\W_][-_.]\w", match[1]) or not match[1].isascii()
    return " ".join(words) if named and words[0] not in _POINTING else ""


def _found(pattern: str, text: str) -> bool:
    """Search for a pattern; those that begin with a word of any length are slow and have a cheap stand-in."""
    if pattern is _WEAK:
        return _regex(_WEAK_SIGNS).search(text) is not None
    if pattern in (_VALUED, _STATED) and not _has_value_signs(text):
        ordered = pattern is _STATED and _holds(text, _ORDER_SIGNS)
        return ordered and _regex(f"(?i){_ORDERS}").search(text) is not None
    return _regex(pattern).search(text) is not None


def _has_value_signs(text: str) -> bool:
    if not text.isascii() and any(sign in text for sign in _VALUE_SIGNS):
        return True
    return "=" in text or "->" in text or not _COPULA_WORDS.isdisjoint(text.lower().split())


def _holds(text: str, signs: Sequence[str]) -> bool:
    folded = text.lower()
    return any(sign in folded for sign in signs)


def _telling(pieces: Sequence[str]) -> tuple[str, ...]:
    """Choose, in order: statements, and a few of each shape of sentences with numbers, paths or code."""
    chosen: list[str] = []
    shapes: dict[str, int] = {}
    strong = weak = pasted = 0
    for piece in pieces:
        shape = _regex(r"\d+").sub("#", piece)
        shapes[shape] = shapes.get(shape, 0) + 1
        pattern = next((one for one in (_VALUED, _ADDRESS, _STATED) if _found(one, piece)), None)
        if _regex(_CODE).search(piece) or _regex(_LOGGED).match(piece):
            if pattern is not None and pasted < _MAX_PASTED and shapes[shape] <= _SAME_SHAPE:
                chosen += _clauses(piece, pattern)
                pasted += 1
        elif pattern is not None:
            if strong < _MAX_STRONG and (shapes[shape] <= _SAME_SHAPE or pattern is not _STATED):
                chosen += _clauses(piece, pattern)
                strong += 1
        elif weak < _MAX_WEAK and shapes[shape] <= _SAME_SHAPE and _found(_WEAK, piece):
            chosen += _clauses(piece, _WEAK)[:2]
            weak += 1
    return tuple(dict.fromkeys(chosen))


def _clauses(sentence: str, pattern: str) -> list[str]:
    """Return the sentence, or, of one that is too long for a line, the places around each match."""
    if not _found(pattern, sentence):
        return []
    if len(sentence) <= LINE:
        return [sentence]
    spans: list[tuple[int, int]] = []
    for match in _regex(pattern).finditer(sentence):
        start, end = max(0, match.start() - _WINDOW), min(len(sentence), match.end() + _WINDOW)
        if spans and start <= spans[-1][1] and end - spans[-1][0] <= LINE:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return [_trimmed(sentence, start, end) for start, end in spans[:_MAX_WEAK]]


def _trimmed(sentence: str, start: int, end: int) -> str:
    """Cut out a span, from blank to blank where there is one near."""
    if start > 0:
        blank = sentence.find(" ", start, start + 30)
        start = blank + 1 if blank >= 0 else start
    if end < len(sentence):
        blank = sentence.rfind(" ", end - 30, end)
        end = blank if blank > start else end
    return ("… " if start > 0 else "") + sentence[start:end].strip() + (" …" if end < len(sentence) else "")
