"""Narrow untrusted JSON values: what has the wrong type becomes the default, never an exception."""

from __future__ import annotations

from typing import Any, cast

Json = dict[str, Any]


def as_str(value: object, default: str = "") -> str:
    return value if isinstance(value, str) else default


def as_int(value: object, default: int = 0) -> int:
    """Accept whole and broken numbers, never a bool."""
    if type(value) is int and -(2**63) < value < 2**63:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return default
    return int(value) if abs(value) < 2**63 else default


def as_float(value: object, default: float = 0.0) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return default
    try:
        return float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return default


def as_dict(value: object) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
