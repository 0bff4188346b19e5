from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any, cast

import pytest

from vikingpi.values import NamedTuple

PROJECT = Path(__file__).resolve().parent.parent


class Place(NamedTuple):
    """Where something is."""

    path: str
    line: int = 1
    marks: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        return f"{self.path}:{self.line}"

    def after(self, lines: int) -> Place:
        return self._replace(line=self.line + lines)

    @classmethod
    def of(cls, shown: str) -> Place:
        path, _, line = shown.partition(":")
        return cls(path, int(line))


class Nothing(NamedTuple):
    pass


class Marked(Place):
    @property
    def shown(self) -> str:
        return "!" + super().shown


class Typed(typing.NamedTuple):
    path: str
    line: int = 1
    marks: tuple[str, ...] = ()


def test_a_value_is_a_tuple_with_named_fields_and_defaults() -> None:
    place = Place("a.py", marks=("x",))
    assert (place.path, place.line, place.marks) == ("a.py", 1, ("x",))
    assert place == ("a.py", 1, ("x",)) == Typed("a.py", 1, ("x",))
    assert hash(place) == hash(Typed("a.py", 1, ("x",)))
    path, line, _ = place
    assert (path, line, place[-1], len(place)) == ("a.py", 1, ("x",), 3)
    assert Place.__doc__ == "Where something is."


def test_the_first_value_and_the_later_ones_are_made_alike() -> None:
    class Fresh(NamedTuple):
        one: int
        two: int = 2

    assert [Fresh(1), Fresh(one=1), Fresh(1, two=3)] == [(1, 2), (1, 2), (1, 3)]
    assert isinstance(Fresh(1), Fresh)


@pytest.mark.parametrize("made", [0, 1])
def test_wrong_arguments_are_refused_as_by_any_function(made: int) -> None:
    class Fresh(NamedTuple):
        one: int
        two: int = 2

    for _ in range(made):
        Fresh(1)
    make = cast("Any", Fresh)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'one'"):
        make()
    with pytest.raises(TypeError, match="unexpected keyword argument 'three'"):
        make(1, three=3)
    with pytest.raises(TypeError, match="multiple values for argument 'one'"):
        make(1, one=1)
    with pytest.raises(TypeError, match="takes from 2 to 3 positional arguments but 4 were given"):
        make(1, 2, 3)


def test_values_can_be_changed_shown_copied_and_pickled() -> None:
    place = Place("a.py", 3)
    assert place._replace(line=4) == ("a.py", 4, ())
    assert type(place._replace(line=4)) is Place
    with pytest.raises(ValueError, match="Place has no fields column"):
        place._replace(column=1)
    assert place._asdict() == {"path": "a.py", "line": 3, "marks": ()}
    assert Place._make(["b.py", 1, ()]) == Place("b.py")
    assert repr(place) == "Place(path='a.py', line=3, marks=())"
    assert (Place._fields, Place._field_defaults) == (("path", "line", "marks"), {"line": 1, "marks": ()})
    for twin in (copy.deepcopy(place), pickle.loads(pickle.dumps(place))):
        assert (type(twin), twin) == (Place, place)
    with pytest.raises(AttributeError):
        setattr(place, "line", 2)  # noqa: B010 - a checked assignment would not pass the type checker
    with pytest.raises(AttributeError):
        setattr(place, "column", 2)  # noqa: B010 - as above


def test_methods_properties_patterns_and_subclasses_work() -> None:
    place = Place.of("a.py:7")
    assert (place.shown, place.after(2).line) == ("a.py:7", 9)
    match place:
        case Place(path, 7):
            assert path == "a.py"
        case _:
            pytest.fail("the pattern did not match")
    marked = Marked("a.py", 2)
    assert (Nothing(), repr(Nothing())) == ((), "Nothing()")
    assert (marked.shown, type(marked.after(1)), Marked("a.py").line) == ("!a.py:2", Marked, 1)


def class_of(name: str, body: dict[str, object]) -> object:
    """Do what a class statement does."""
    maker: Any = type(NamedTuple)
    return maker(name, (NamedTuple,), body)


def test_a_field_without_a_default_cannot_follow_one_with_a_default() -> None:
    with pytest.raises(TypeError, match="Late: a field without a default follows one with a default"):
        class_of("Late", {"__annotations__": {"one": "int", "two": "int"}, "one": 1})


@pytest.mark.parametrize("body", [{"__annotations__": {"one": int}}, {"__annotate_func__": len}])
def test_annotations_that_are_no_text_are_refused_before_newer_pythons_lose_them(body: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="Early: needs from __future__ import annotations"):
        class_of("Early", body)


def test_every_value_on_the_way_to_the_first_answer_is_made_this_way() -> None:
    exceptions = {"config/model.py", "app/options.py"}  # their annotations are read at run time
    package = PROJECT / "vikingpi"
    of_typing = re.compile(r"^from typing import (?:\([^)]*|.*)\bNamedTuple\b", re.MULTILINE)
    found = {str(path.relative_to(package)) for path in package.rglob("*.py") if of_typing.search(path.read_text())}
    assert found == exceptions


def test_no_constructor_is_generated_before_the_first_value_is_made() -> None:
    code = (
        "from __future__ import annotations\n"
        "import builtins, vikingpi.values as values\n"
        "class Place(values.NamedTuple):\n"
        "    path: no.such.type\n"
        "before = Place.__new__\n"
        "Place('a'), Place('b')\n"
        "print(before.__name__, Place.__new__.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["<lambda>", "__new__"]
