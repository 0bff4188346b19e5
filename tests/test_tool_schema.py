from __future__ import annotations

import math
from typing import Any

import pytest

from vikingpi.decode import Json
from vikingpi.messages import ToolSpec
from vikingpi.tools.builtin import builtin_tools
from vikingpi.tools.schema import validate

SPECS = {tool.spec.name: tool.spec for tool in builtin_tools()}
EDITS = [{"oldText": "a", "newText": "b"}]


def spec(properties: Json, *required: str, **more: Any) -> ToolSpec:
    return ToolSpec("t", "", {"type": "object", "properties": properties, "required": list(required), **more})


@pytest.mark.parametrize(
    ("rule", "given", "mended"),
    [
        ({"type": "number"}, "5", 5),
        ({"type": "number"}, "5.5", 5.5),
        pytest.param({"type": "number"}, 10**400, 10**400, id="huge"),
        ({"type": "number"}, 1e300, 1e300),
        ({"type": "number"}, "1e300", int(1e300)),
        ({"type": "integer"}, 5.0, 5),
        ({"type": "integer"}, "5", 5),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": "string"}, 5, "5"),
        ({"type": "string"}, True, "true"),
        ({"type": "array"}, "[1, 2]", [1, 2]),
        ({"type": "array"}, '{"a": 1}', [{"a": 1}]),
        ({"type": "array"}, {"a": 1}, [{"a": 1}]),
        ({"type": "array", "items": {"type": "string"}}, "one", ["one"]),
        ({"type": "array", "items": {"type": "number"}}, ["1", 2], [1, 2]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"type": ["string", "null"]}, None, None),
        ({"type": ["number", "string"]}, "x", "x"),
        ({}, [1], [1]),
    ],
)
def test_near_misses_are_mended(rule: Json, given: Any, mended: Any) -> None:
    arguments, error = validate(spec({"x": rule}, "x"), {"x": given})
    assert error == ""
    assert arguments == {"x": mended}
    assert type(arguments["x"]) is type(mended)


@pytest.mark.parametrize(
    ("rule", "given", "problem"),
    [
        ({"type": "number"}, "five", "x: expected number, got string"),
        ({"type": "number"}, True, "x: expected number, got boolean"),
        ({"type": "number"}, "nan", "x: expected number, got string"),
        ({"type": "number"}, math.nan, "x: expected number, got nan"),
        ({"type": "number"}, -math.inf, "x: expected number, got -inf"),
        ({"type": "integer"}, math.inf, "x: expected integer, got inf"),
        ({"type": "integer"}, 1.5, "x: expected integer, got number"),
        ({"type": "string"}, {"a": 1}, "x: expected string, got object"),
        ({"type": "string"}, None, "x: expected string, got null"),
        ({"type": "object"}, "[1]", "x: expected object, got string"),
        ({"enum": ["a", "b"]}, "c", 'x: must be one of "a", "b"'),
        ({"type": "number", "minimum": 1, "maximum": 3}, 0, "x: must be at least 1"),
        ({"type": "number", "minimum": 1, "maximum": 3}, 4, "x: must be at most 3"),
        ({"type": "array", "minItems": 1}, [], "x: expected at least 1 item(s), got 0"),
        ({"type": "array", "items": {"type": "number"}}, [1, "a"], "x[1]: expected number, got string"),
    ],
)
def test_what_cannot_be_mended_is_named(rule: Json, given: Any, problem: str) -> None:
    arguments, error = validate(spec({"x": rule}, "x"), {"x": given})
    assert arguments == {"x": given}
    assert error.startswith(f'Validation failed for tool "t":\n  - {problem}\n\nReceived arguments:\n{{')


def test_every_problem_is_named_once() -> None:
    _, error = validate(SPECS["edit"], {"edits": [{"oldText": "a"}, {"oldText": 1.5, "newText": []}]})
    assert error.split("\n\nReceived")[0] == (
        'Validation failed for tool "edit":\n  - path: missing\n  - edits[0].newText: missing\n'
        "  - edits[1].newText: expected string, got array"
    )


def test_unknown_properties_pass_unless_forbidden() -> None:
    assert validate(spec({}), {"y": 1}) == ({"y": 1}, "")
    assert "y: unknown property" in validate(spec({}, additionalProperties=False), {"y": 1})[1]


def test_null_for_an_optional_property_is_as_if_absent() -> None:
    assert validate(SPECS["read"], {"path": "a", "limit": None}) == ({"path": "a"}, "")


@pytest.mark.parametrize(
    "given",
    [
        {"edits": EDITS},
        {"edits": EDITS[0]},
        {"edits": '[{"oldText": "a", "newText": "b"}]'},
        {"oldText": "a", "newText": "b"},
    ],
)
def test_edit_takes_its_older_and_looser_forms(given: Json) -> None:
    assert validate(SPECS["edit"], {"path": "f", **given}) == ({"path": "f", "edits": EDITS}, "")


def test_a_long_argument_is_not_echoed_whole() -> None:
    _, error = validate(SPECS["write"], {"content": "x" * 100_000})
    assert len(error) < 3000
    assert "more characters" in error
