"""Look at and change single settings by their dotted key, as they stand in config.json."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin

from vikingpi.config.apply import field_name, fields_of, from_text, other_names
from vikingpi.config.jsonfile import read_object, write_object
from vikingpi.config.model import Settings
from vikingpi.decode import Json, as_dict
from vikingpi.errors import ConfigError
from vikingpi.values import NamedTuple


class Kind(NamedTuple):
    """What a value may be: one of `words`, a number from `low` to `high`, or a text where there is neither."""

    annotation: Any
    words: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None


def kind_of(key: str) -> Kind:
    """Return what a setting may be."""
    group: Any = Settings
    *groups, last = key.split(".")
    for name in groups:
        group = fields_of(group)[field_name(name)]
    annotation = fields_of(group)[field_name(last)]
    if annotation is bool:
        return Kind(bool, ("on", "off"))
    if get_origin(annotation) is Annotated:
        number, low, high = get_args(annotation)
        return Kind(number, (), low, high)
    if get_origin(annotation) is Literal:
        return Kind(annotation, cast("tuple[str, ...]", get_args(annotation)))
    return Kind(annotation)


def value_in(settings: Settings, key: str) -> object:
    """Return the value of a setting."""
    value: object = settings
    for name in key.split("."):
        value = getattr(value, field_name(name))
    return value


def written(value: object) -> str:
    """Write a value as `read_value` takes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def read_value(key: str, text: str) -> object:
    """Read a value that was typed; ConfigError says what it may be."""
    kind, text = kind_of(key), text.strip()
    if kind.annotation is bool:
        value = from_text(bool, text)
        if isinstance(value, bool):
            return value
    elif kind.words and text in kind.words:
        return text
    elif kind.low is not None and kind.high is not None:
        try:
            number = kind.annotation(text)
        except ValueError:
            number = None
        if number is not None and kind.low <= number <= kind.high:
            return number
        raise ConfigError(f"{key} must be a {_number(kind)}, not {text[:40]!r}")
    elif not kind.words:
        return text
    raise ConfigError(f"{key} must be one of {', '.join(kind.words)}, not {text[:40]!r}")


def meaning(key: str) -> str:
    """Say what a setting may be."""
    kind = kind_of(key)
    if kind.words:
        return f"one of {', '.join(kind.words)}"
    return f"a {_number(kind)}" if kind.low is not None else "a text"


def change(path: Path, key: str, value: object | None) -> None:
    """Put a value into a config.json, or take it out with None; everything else in the file stays.

    ConfigError when the file is broken or cannot be written.
    """
    values: Json = dict(read_object(path) or {})
    *groups, last = key.split(".")
    place = values
    for name in groups:
        place[name] = place = dict(as_dict(place.get(name)))
    if value is not None:
        place[last] = value
    else:
        place.pop(last, None)
        for name in other_names(key):
            values.pop(name, None)
        if groups and not place:
            values.pop(groups[0], None)
    write_object(path, values)


def _number(kind: Kind) -> str:
    whole = "whole number" if kind.annotation is int else "number"
    return f"{whole} from {kind.low:g} to {int(kind.high or 0)}"
