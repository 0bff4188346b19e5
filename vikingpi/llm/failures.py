"""From what a provider or the network said to the errors of the program.

Wordings and codes are those that providers document or are known to send; an unknown text is told by its status.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from vikingpi.decode import Json, as_dict, as_float, as_int, as_list, as_str
from vikingpi.errors import (
    AuthFailed,
    BadResponse,
    ContextTooLong,
    NetError,
    NotConnected,
    ProviderError,
    RateLimited,
    Unreachable,
)
from vikingpi.http_thread import is_loopback
from vikingpi.llm.base import Model
from vikingpi.values import NamedTuple

LONGEST_WAIT = 60.0

_TEXT_LIMIT = 400
_TOO_LONG = (
    r"context[ _]?(length|window|size)[ _]?exceeded|(maximum|max) context|context (window|size|length) (exceeds|of)"
    r"|exceed\w* the (available |model'?s? )?(context|maximum number of tokens|maximum allowed|model token limit)"
    r"|exceed\w* (the )?(context|model token) ?(limit|window|size|_size)?|exceed_context_size"
    r"|(prompt|input|request|conversation) (is |was )?too (long|large)|request_too_large"
    r"|maximum (prompt|model|input) length|input token count.{0,40}exceeds|longer than the model'?s context"
    r"|reduce (the length|your (message|prompt))|greater than the context length|too large for model"
    r"|larger than the context|range of input length|(prompt|input) exceeds (the )?max|configured context (size|length)"
)
# Said of the window, and by others of what may be sent in a minute, or of something that is no text at all.
_TOO_MANY = r"too many (input )?tokens|token limit exceeded|token count.{0,40}exceeds the limit of \d"
_PACED = (
    r"(per|a|this|each)[ _-](second|min|minute|hour|day|month)\b|/ ?(s|sec|m|min|minute|h|hour|d|day)\b"
    r"|\b[TR]P[SMHD]\b|daily|hourly|monthly|\bwait\b|\bagain\b|retry|quota|\brate\b|throttl|output[ _]token"
)
_USED_UP = (
    r"insufficient[_ ](quota|balance|credit)|exceeded your (current )?quota|quota (is )?exceeded|billing"
    r"|credit balance|usage[_ ]limit|payment required|out of credits|spend(ing)? limit"
)
_LIMITED = r"rate[_ -]?limit|too many requests|throttl|resource_exhausted"
_OVERLOADED = r"overloaded|server[_ ]error|unavailable|internal|timed? ?out|temporarily|try again"
_REFUSED = r"invalid_request|invalid request|not_found|invalid_api|unsupported"
_WAIT_TEXT = r"(?:try again|retry|reset\w*) in (?:(\d+)h)?\s*(?:(\d+)m(?!s))?\s*(?:(\d+(?:\.\d+)?)(ms|s)\b)?"
_WAIT_KEYS = ("retry_after_seconds", "resets_in_seconds", "retry_after", "retryDelay")
_RESETS = ("x-ratelimit-reset", "anthropic-ratelimit-unified-reset", "resets_at")
_HIDDEN_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


def _found(pattern: str, text: str) -> re.Match[str] | None:
    """Search without regard to case; patterns are compiled by the first failure, not by every start."""
    return re.search(pattern, text, re.IGNORECASE)


class Said(NamedTuple):
    """An error answer: `status` 0 where there was none (an error inside a stream)."""

    status: int
    text: str
    headers: Mapping[str, str]
    body: Json


def read_error(status: int, headers: Mapping[str, str], body: bytes) -> Said:
    """Read an error body, JSON or a web page, into one line of text."""
    raw = body.decode("utf-8", "replace")
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError):
        return Said(status, _page_text(raw), headers, {})
    items = as_list(value)
    return said_by(as_dict(items[0] if items else value), status, headers)


def said_by(body: Json, status: int = 0, headers: Mapping[str, str] | None = None) -> Said:
    """Read a decoded error object; its own numeric code stands in for a missing status."""
    error = as_dict(body.get("error"))
    code = error.get("code")
    status = status or as_int(code) or as_int(error.get("status"))
    words = [
        as_str(error.get("message")),
        as_str(body.get("error")),
        as_str(body.get("message")),
        as_str(body.get("detail")),
    ]
    text = next((word for word in words if word), "")
    extra = [as_str(code), as_str(error.get("type")), as_str(as_dict(error.get("metadata")).get("raw"))]
    marks = " ".join(word for word in dict.fromkeys(extra) if word and word.lower() not in text.lower())
    return Said(status, _one_line(f"{text} ({marks})" if text and marks else text or marks), headers or {}, body)


def provider_error(model: Model, said: Said, now: float) -> ProviderError:
    """Choose the error for an answer; `now` is the time in s for HTTP dates."""
    status, where = said.status, model.provider
    text = masked(said.text, model)
    told = f"{where} answered {status}" if status else f"{where} reported an error"
    told = f"{told}: {text}" if text else told
    wait = retry_after(said, now)
    limited = status == 429 or (not status and _is_limit(text))
    if status == 413 or (not limited and status not in (401, 403) and _is_overflow(text)):
        return ContextTooLong(told, status=status or 400, hint="run /compact or start a new session")
    if status in (401, 403):
        return AuthFailed(told, status=status, hint=_key_hint(model))
    if limited:
        return _rate_limited(model, told, status or 429, wait)
    if status == 402 or (status in (0, 400) and _found(_USED_UP, text)):
        return BadResponse(told, status=status, hint=f"check the plan and the credit at {where}")
    if status in (408, 409, 425) or status >= 500:
        # A server that names a wait while it is overloaded is waited for like a rate limit.
        if wait is not None:
            return RateLimited(_with_wait(told, wait), status=status, retry_after=wait)
        return BadResponse(told, status=status, retryable=status != 501)
    if not status:
        again = _found(_OVERLOADED, text) is not None or not _found(_REFUSED, text)
        return BadResponse(told, retryable=again)
    hint = f"check the base URL {model.base_url} and the model id {model.id}" if status in (404, 405) else ""
    return BadResponse(told, status=status, hint=hint)


def _is_limit(text: str) -> bool:
    return bool(_found(_LIMITED, text) or (_found(_TOO_MANY, text) and _found(_PACED, text)))


def _is_overflow(text: str) -> bool:
    return bool(_found(_TOO_LONG, text) or (_found(_TOO_MANY, text) and not _found(_PACED, text)))


def net_error(model: Model, error: NetError, *, answered: bool = False) -> ProviderError:
    """Choose the error for a request without a whole answer; `answered` when it broke inside the answer."""
    text = masked(str(error), model)
    if answered:
        return BadResponse(f"the answer of {model.provider} broke off: {text}", retryable=True)
    if not isinstance(error, NotConnected):
        return Unreachable(f"{model.provider} did not answer: {text}", retryable=True)
    local = is_loopback(model.base_url)
    if local:
        hint = f"start the model server at {model.base_url}, or choose another model with --model"
    else:
        hint = "check the network, the proxy settings and the base URL"
    return Unreachable(f"{model.provider} cannot be reached: {text}", hint=hint, retryable=not local)


def retry_after(said: Said, now: float) -> float | None:
    """Return how many seconds the provider asks to wait, None where it names no time."""
    named = [_header_wait(said.headers, now), *(_seconds(value) for value in _wait_values(said.body))]
    found = [wait for wait in named if wait is not None]
    if found:
        return max(0.0, *found)
    match = _found(_WAIT_TEXT, said.text)
    if match is None or not any(match.groups()):
        return _reset_wait(said, now) if said.status == 429 else None
    hours, minutes, number, unit = match.groups()
    seconds = float(number or 0) / (1000 if unit == "ms" else 1)
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + seconds


def masked(text: str, model: Model) -> str:
    """Take the model's key out of a text."""
    secrets = [value for name, value in model.headers.items() if name.lower() in _HIDDEN_HEADERS]
    for secret in (model.api_key, *secrets, *(value.rpartition(" ")[2] for value in secrets)):
        if len(secret) >= 6:
            text = _without_end(text.replace(secret, "***"), secret)
    return text


def _without_end(text: str, secret: str) -> str:
    """Take out the beginning of a secret that stands where the text was cut."""
    for length in range(len(secret) - 1, 5, -1):
        for cut in ("", "..."):
            if text.endswith(secret[:length] + cut):
                return f"{text[: -length - len(cut)]}***{cut}"
    return text


def span(seconds: float) -> str:
    """Say a length of time for people: `45 s`, `12 min`, `3 h 51 min`."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    hours, minutes = divmod(-(-whole // 60), 60)
    return " ".join(part for part in (f"{hours} h" * bool(hours), f"{minutes} min" * bool(minutes)) if part)


def _rate_limited(model: Model, told: str, status: int, wait: float | None) -> RateLimited:
    """Quota words with a short wait are a limit per minute (Gemini words it so), without one the quota is used up."""
    used_up = _found(_USED_UP, told) is not None and (wait is None or wait > LONGEST_WAIT)
    hint = f"check the plan and the limits at {model.provider}, or choose another model" if used_up else ""
    if not hint and wait is not None and wait > LONGEST_WAIT:
        hint = "go on with `vpi -c` then, or choose another model"
    return RateLimited(_with_wait(told, wait), hint=hint, status=status, retryable=not used_up, retry_after=wait)


def _with_wait(told: str, wait: float | None) -> str:
    return f"{told}; it asks to wait {span(wait)}" if wait is not None and wait > LONGEST_WAIT else told


def _key_hint(model: Model) -> str:
    if not model.api_key:
        return f"no key for {model.provider} was found: set its environment variable or add it to auth.json"
    source = model.key_source or "the configuration"
    return f"the key came from {source}; correct it there or pass --api-key"


def _header_wait(headers: Mapping[str, str], now: float) -> float | None:
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    seconds = _number(value)
    if seconds is not None:
        return seconds
    until = _moment(value)
    # The date is one of the server's clock, which may differ from ours.
    return max(0.0, until - (_moment(headers.get("date", "")) or now)) if until is not None else None


def _moment(date: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None


def _reset_wait(said: Said, now: float) -> float | None:
    """Return how long it is until the moment, in s or ms since the epoch, at which a limit ends that is used up."""
    error = as_dict(said.body.get("error"))
    relayed = as_dict(as_dict(error.get("metadata")).get("headers"))
    places: tuple[Mapping[str, object], ...] = (said.headers, error, said.body, relayed)
    named = {name.lower(): _number(str(value)) or 0.0 for place in places for name, value in place.items()}
    moment = max(named.get(name, 0.0) for name in _RESETS)
    if moment < 1e9 or named.get("x-ratelimit-remaining", 0.0) > 0:
        return None
    return max(0.0, (moment / 1000 if moment > 1e11 else moment) - now)


def _wait_values(body: Json) -> Iterator[object]:
    error = as_dict(body.get("error"))
    details = [as_dict(item) for item in as_list(error.get("details"))]
    for place in (body, error, as_dict(error.get("metadata")), *details):
        for key in _WAIT_KEYS:
            if key in place:
                yield place[key]


def _seconds(value: object) -> float | None:
    if isinstance(value, str):
        return _number(value.removesuffix("s"))
    seconds = as_float(value, -1.0)
    return seconds if seconds >= 0 else None


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\s*\d{1,15}(\.\d{1,15})?\s*", text) else None


def _page_text(raw: str) -> str:
    """Reduce a web page to its title, or to its text."""
    title = re.search(r"<title[^<>]*>([^<]*)", raw[:100_000], re.IGNORECASE)
    if title is not None and title[1].strip():
        return _one_line(title[1])
    if "<" in raw:
        # An unclosed script takes all the rest, and a tag ends before the next: nothing is looked at twice.
        hidden = r"<(script|style)\b(?:.*?</\1>|.*)|<[^<>]*>"
        raw = re.sub(hidden, " ", raw[:100_000], flags=re.IGNORECASE | re.DOTALL)
    return _one_line(raw)


def _one_line(text: str) -> str:
    text = " ".join(text[: 4 * _TEXT_LIMIT].split())
    return text if len(text) <= _TEXT_LIMIT else text[:_TEXT_LIMIT] + "..."
