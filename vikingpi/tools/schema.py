"""Check a call's arguments against the tool's JSON Schema and mend what models commonly get slightly wrong.

Understood: type (also a list of types), properties, required, additionalProperties: false, items, enum, minimum,
maximum, minItems. Other keywords are not checked. Mended: numbers, booleans, arrays and objects given as text, a
single value where an array is wanted, null for an optional property, and the fields of the only item of a required
array of objects written beside the other properties.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, cast

from vikingpi.decode import Json, as_dict, as_list, as_str
from vikingpi.messages import ToolSpec

_ECHO = 2000


def validate(spec: ToolSpec, arguments: Json) -> tuple[Json, str]:
    """Return the mended arguments and "", or what was given and the error text for the model."""
    problems: list[str] = []
    mended = _object(_lift(arguments, spec.parameters), spec.parameters, "", problems)
    if not problems:
        return mended, ""
    lines = "\n".join(f"  - {problem}" for problem in problems)
    echo = json.dumps(arguments, indent=2, ensure_ascii=False, default=str)
    if len(echo) > _ECHO:
        echo = f"{echo[:_ECHO]}\n... ({len(echo) - _ECHO} more characters)"
    return arguments, f'Validation failed for tool "{spec.name}":\n{lines}\n\nReceived arguments:\n{echo}'


def _lift(arguments: Json, schema: Json) -> Json:
    properties = as_dict(schema.get("properties"))
    missing = [name for name in _required(schema) if name not in arguments]
    if len(missing) != 1:
        return arguments
    items = as_dict(as_dict(properties.get(missing[0])).get("items"))
    fields = _required(items)
    if not fields or any(name not in arguments or name in properties for name in fields):
        return arguments
    rest = {name: value for name, value in arguments.items() if name not in fields}
    return {**rest, missing[0]: [{name: arguments[name] for name in fields}]}


def _object(value: Json, schema: Json, path: str, problems: list[str]) -> Json:
    properties = as_dict(schema.get("properties"))
    required = _required(schema)
    result: Json = {}
    for name in required:
        if name not in value:
            problems.append(f"{_join(path, name)}: missing")
    for name, given in value.items():
        rule = as_dict(properties.get(name))
        where = _join(path, name)
        if name not in properties:
            if schema.get("additionalProperties") is False:
                problems.append(f"{where}: unknown property")
            result[name] = given
        elif given is None and name not in required and "null" not in _types(rule):
            continue
        else:
            result[name] = _value(given, rule, where, problems)
    return result


def _value(given: Any, schema: Json, path: str, problems: list[str]) -> Any:
    value: object = given
    types = _types(schema)
    if types and not any(_FITS[name](value) for name in types):
        for name in types:
            mended = _MEND[name](value)
            if mended is not None:
                value = mended
                break
        else:
            problems.append(f"{path}: expected {' or '.join(types)}, got {_name(value)}")
            return value
    if _FITS["object"](value) and "properties" in schema:
        return _object(as_dict(value), schema, path, problems)
    if _FITS["array"](value):
        return _array(as_list(value), schema, path, problems)
    _limits(value, schema, path, problems)
    return value


def _array(values: list[Any], schema: Json, path: str, problems: list[str]) -> list[Any]:
    least = schema.get("minItems")
    if isinstance(least, int) and len(values) < least:
        problems.append(f"{path}: expected at least {least} item(s), got {len(values)}")
    items = as_dict(schema.get("items"))
    return [_value(item, items, f"{path}[{index}]", problems) for index, item in enumerate(values)]


def _limits(value: object, schema: Json, path: str, problems: list[str]) -> None:
    allowed = as_list(schema.get("enum"))
    if allowed and value not in allowed:
        problems.append(f"{path}: must be one of {', '.join(json.dumps(item) for item in allowed)}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if isinstance(low, (int, float)) and value < low:
            problems.append(f"{path}: must be at least {low}")
        if isinstance(high, (int, float)) and value > high:
            problems.append(f"{path}: must be at most {high}")


def _types(schema: Json) -> tuple[str, ...]:
    given = schema.get("type")
    names = [given] if isinstance(given, str) else [as_str(name) for name in as_list(given)]
    return tuple(name for name in names if name in _FITS)


def _required(schema: Json) -> list[str]:
    return [name for name in as_list(schema.get("required")) if isinstance(name, str)]


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _name(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    names: dict[type, str] = {
        bool: "boolean",
        int: "number",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return names.get(type(value), type(value).__name__)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -math.inf < value < math.inf


_FITS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def _to_string(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else None


def _to_number(value: Any) -> float | None:
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number


def _to_integer(value: Any) -> int | None:
    number = float(value) if _is_number(value) else _to_number(value)
    return int(number) if number is not None and float(number).is_integer() else None


def _to_boolean(value: Any) -> bool | None:
    return {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None


def _from_json(value: Any) -> object:
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _to_array(value: Any) -> list[Any] | None:
    decoded = _from_json(value)
    if isinstance(decoded, list):
        return as_list(cast("object", decoded))
    if isinstance(decoded, dict):
        return [decoded]
    return None if value is None else [value]


def _to_object(value: Any) -> Json | None:
    decoded = _from_json(value)
    return as_dict(cast("object", decoded)) if isinstance(decoded, dict) else None


def _to_null(value: Any) -> None:
    return None


_MEND: dict[str, Callable[[Any], Any]] = {
    "string": _to_string,
    "number": _to_number,
    "integer": _to_integer,
    "boolean": _to_boolean,
    "array": _to_array,
    "object": _to_object,
    "null": _to_null,
}
