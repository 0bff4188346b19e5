"""Put JSON values into settings, guided by the annotations of the settings classes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, cast, get_args, get_origin

from vikingpi.config.model import Settings, Takeover
from vikingpi.decode import Json, as_dict, as_list
from vikingpi.values import NamedTuple

# Keys of the published OpenViking extension for pi: its other names for keys that vpi has, and what vpi lacks.
_OTHER_NAMES = {
    "recallBudget": "recallTokenBudget",
    "recallScoreThreshold": "scoreThreshold",
    "recallMinQueryLength": "minQueryLength",
    "profileBudget": "profileTokenBudget",
    "bypassSessionPatterns": "bypassPatterns",
}
_EXTENSION_ONLY = frozenset(
    {
        "account",
        "apiKey",
        "authMode",
        "autoCapture",
        "autoRecall",
        "bypassSession",
        "captureMode",
        "debugLogPath",
        "endpoint",
        "faithfulCapture",
        "harness",
        "healthTimeoutMs",
        "legacyPeerId",
        "recallCompress",
        "recallLedger",
        "recallMaxContentChars",
        "recallPreferAbstract",
        "recallQueryExpansion",
        "recallQueryFilters",
        "sendIdentityHeaders",
        "skillCatalog",
        "skillCatalogTokenBudget",
        "statusBar",
        "statusBarEnabled",
        "takeoverRetainedTokenBudget",
        "timeoutMs",
        "url",
        "user",
        "userAgent",
    }
)


class Outcome(NamedTuple):
    """New settings, what was wrong with the values, and the dotted keys that had a good one."""

    settings: Settings
    problems: tuple[str, ...]
    given: frozenset[str]


class _Fit(NamedTuple):
    """What became of one value; `problem` is empty if it was right, `good` is False if it was not used."""

    value: Any
    problem: str = ""
    good: bool = True


def apply(settings: Settings, values: Json, source: str) -> Outcome:
    """Put the values of one file over `settings`; problems name `source` and the key."""
    known, problems = _sorted_out(values, source)
    given: set[str] = set()
    merged = _merge(settings, known, "", source, problems, given)
    return Outcome(merged, tuple(problems), frozenset(given))


def field_name(key: str) -> str:
    """Turn a JSON key into a field name: tokenThreshold -> token_threshold."""
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in key)


def json_key(field: str) -> str:
    """Turn a field name into a JSON key: token_threshold -> tokenThreshold."""
    head, *rest = field.split("_")
    return head + "".join(word.capitalize() for word in rest)


def fields_of(group: Any) -> Mapping[str, Any]:
    """Return the annotations of a settings class or of its instance."""
    return cast("Mapping[str, Any]", group.__annotations__)


def is_group(annotation: Any) -> bool:
    """Tell whether an annotation is a settings class."""
    return isinstance(annotation, type) and hasattr(cast(Any, annotation), "_fields")


def other_names(key: str) -> tuple[str, ...]:
    """Return the flat keys of the extension that stand for a dotted key."""
    same = [flat for flat, (group, inner) in _flat_keys() if f"{group}.{inner}" == key]
    return (*same, *(flat for flat, inner in _OTHER_NAMES.items() if inner == key))


def from_text(annotation: Any, text: str) -> Any:
    """Read the text of an environment variable as a JSON value for the annotation."""
    if annotation is bool:
        words = {
            "1": True,
            "true": True,
            "yes": True,
            "on": True,
            "0": False,
            "false": False,
            "no": False,
            "off": False,
        }
        return words.get(text.strip().lower(), text)
    return text.strip()


def _sorted_out(values: Json, source: str) -> tuple[Json, list[str]]:
    """Rename and unfold the extension's flat keys where the key itself is not given, and name those vpi lacks."""
    flat = dict(_flat_keys())
    known: Json = {}
    lost: list[str] = []
    fallbacks: list[tuple[str, str, Any]] = []
    for key, value in values.items():
        if key in flat:
            fallbacks.append((*flat[key], value))
        elif key in _OTHER_NAMES:
            fallbacks.append(("", _OTHER_NAMES[key], value))
        elif key in _EXTENSION_ONLY:
            lost.append(key)
        elif not key.startswith("$"):
            known[key] = value
    for group, key, value in fallbacks:
        if not group:
            known.setdefault(key, value)
        elif isinstance(known.get(group, {}), dict):
            known[group] = {key: value, **as_dict(known.get(group))}
    problems: list[str] = []
    if lost:
        verb = "is a key" if len(lost) == 1 else "are keys"
        problems.append(f"{source}: {', '.join(lost)} {verb} of the OpenViking extension for pi that vpi does not have")
    return known, problems


def _flat_keys() -> Iterator[tuple[str, tuple[str, str]]]:
    for field in fields_of(Takeover):
        key = json_key(field)
        yield f"takeover{key[0].upper()}{key[1:]}", ("takeover", key)


def _merge(group: Any, values: Json, prefix: str, source: str, problems: list[str], given: set[str]) -> Any:
    fields = fields_of(group)
    changes: dict[str, Any] = {}
    for key, value in values.items():
        name = field_name(key)
        if name not in fields or json_key(name) != key:
            problems.append(f"{source}: unknown key {prefix}{key}{_suggestion(key, fields)}")
            continue
        annotation = fields[name]
        if is_group(annotation):
            if isinstance(value, dict):
                inner = f"{prefix}{key}."
                changes[name] = _merge(getattr(group, name), cast(Json, value), inner, source, problems, given)
            else:
                problems.append(f"{source}: {prefix}{key} must be an object")
            continue
        fit = _fit(annotation, value)
        if fit.problem:
            problems.append(f"{source}: {prefix}{key} {fit.problem}")
        if fit.good:
            changes[name] = fit.value
            given.add(prefix + key)
    return group._replace(**changes)


def _suggestion(key: str, fields: Mapping[str, Any]) -> str:
    import difflib

    close = difflib.get_close_matches(key, [json_key(name) for name in fields], n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _fit(annotation: Any, value: Any) -> _Fit:
    origin = get_origin(annotation)
    if origin is Annotated:
        kind, low, high = get_args(annotation)
        return _number(kind, low, high, value)
    if origin is Literal:
        words = get_args(annotation)
        return _Fit(value) if value in words else _bad(f"must be one of {', '.join(words)}", value)
    if annotation is bool:
        return _Fit(value) if isinstance(value, bool) else _bad("must be true or false", value)
    if annotation is str:
        return _Fit(value.strip()) if isinstance(value, str) else _bad("must be a text")
    if not isinstance(value, list):
        return _bad("must be a list of texts")
    items = as_list(cast(Any, value))
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) < len(items):
        return _Fit(tuple(texts), "holds something that is no text; that is left out")
    return _Fit(tuple(texts))


def _number(kind: type, low: float, high: float, value: object) -> _Fit:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        return _bad("must be a number", value)
    number = math.floor(value + 0.5) if kind is int else float(value)
    if number < low:
        return _Fit(kind(low), f"is {value}, below {low}; {low} is used")
    if number > high:
        return _Fit(kind(high), f"is {value}, above {high}; {high} is used")
    return _Fit(number)


def _bad(what: str, value: object = None) -> _Fit:
    """Refuse a value; it is shown only where it cannot be a secret."""
    shown = "" if value is None else f", not {str(value)[:40]!r}"
    return _Fit(None, f"{what}{shown}; it is ignored", good=False)
