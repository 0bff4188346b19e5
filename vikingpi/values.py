"""NamedTuple for a program whose start is made of class statements.

The values are those of `typing.NamedTuple`: tuples with named fields, defaults, `_fields`, `_replace`, `_asdict`,
`_make`. That one checks and compiles every annotation and generates the constructor when the class is made (0.14 ms
each); here the constructor is generated when the first value is made, and annotations are left alone. With some 200
classes on the way to the first answer it buys 20 ms, 0.05 of pi's time (`scripts/bench one-shot`). Annotations must
be text (`from __future__ import annotations`); classes whose annotations are read at run time use typing's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from _collections import _tuplegetter  # what collections.namedtuple reads its fields with

    class _Value(tuple):
        __slots__ = ()

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, /, **changes):
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"{type(self).__name__} has no fields {', '.join(changes)}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            shown = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self):
            return tuple(self)

    class _ValueClass(type):
        """Turns a class statement with NamedTuple as its base into a subclass of tuple."""

        def __new__(cls, name, _bases, body):
            annotations = body.get("__annotations__", {})
            if "__annotate_func__" in body or not all(isinstance(one, str) for one in annotations.values()):
                raise TypeError(f"{name}: needs from __future__ import annotations")
            fields = tuple(annotations)
            defaults = {field: body[field] for field in fields if field in body}
            if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                raise TypeError(f"{name}: a field without a default follows one with a default")
            made = type(
                name,
                (_Value,),
                {
                    **body,
                    **{field: _tuplegetter(place, "") for place, field in enumerate(fields)},
                    "__slots__": (),
                    "__match_args__": fields,
                    "__new__": lambda *args, **named: _constructor(made, fields, defaults)(*args, **named),
                    "_fields": fields,
                    "_field_defaults": defaults,
                },
            )
            return made

    def _constructor(made, fields, defaults):
        """Generate `__new__` of the class `made` and put it in the place of the one that asked for it."""
        names = ", ".join(fields)
        code = f"lambda _cls, {names}: _new(_cls, ({names}{',' if names else ''}))"
        new = eval(code, {"_new": tuple.__new__})
        new.__defaults__ = tuple(defaults.values())
        new.__name__, new.__qualname__, new.__module__ = "__new__", f"{made.__qualname__}.__new__", made.__module__
        made.__new__ = staticmethod(new)
        return new

    NamedTuple = type.__new__(_ValueClass, "NamedTuple", (), {})
