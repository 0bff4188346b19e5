"""Command lines that need no parser: known flags, their values, and words.

typer and what it imports take 25 ms, a tenth of a one-shot run. Whatever is not plain here is left to it, and a
property test holds both to the same RunOptions.
"""

from typing import Any, get_args

from vikingpi.app.options import Flag, RunOptions, Switch


def read_plain(argv: list[str]) -> RunOptions | None:
    """Give the options of a plain command line, None when typer has to look at it."""
    switches, values = _known_flags()
    given: dict[str, Any] = {}
    words: list[str] = []
    left = iter(argv)
    for argument in left:
        if argument in switches:
            field, value = switches[argument]
            given[field] = value
        elif argument in values:
            field, choices = values[argument]
            value = next(left, "-")
            if not value.strip() or value.startswith("-") or (choices and value not in choices):
                return None
            given[field] = value
        elif argument.startswith("-"):
            return None
        else:
            words.append(argument)
    return RunOptions(words=tuple(words), **given)


def _known_flags() -> tuple[dict[str, tuple[str, bool]], dict[str, tuple[str, tuple[str, ...]]]]:
    """Give the flags that stand alone with what they set, and those with a value with what it may be."""
    switches: dict[str, tuple[str, bool]] = {}
    values: dict[str, tuple[str, tuple[str, ...]]] = {}
    for field, hint in RunOptions.__annotations__.items():
        kind, flag = hint.__origin__, hint.__metadata__[0]
        assert isinstance(flag, Flag)
        if is_switch(kind):
            for name in flag.names:
                on, _, off = name.partition("/")
                switches[on] = field, True
                if off:
                    switches[off] = field, False
        elif kind is str:
            values.update((name, (field, ())) for name in flag.names)
        elif choices := choices_of(kind):
            values.update((name, (field, choices)) for name in flag.names)
    return switches, values


def is_switch(kind: Any) -> bool:
    """Tell whether a flag of this type stands alone."""
    return kind is bool or kind == Switch


def choices_of(kind: Any) -> tuple[str, ...]:
    """Give the values of a Literal, alone or with None; nothing for any other type."""
    parts = get_args(kind)
    texts = tuple(part for part in parts if isinstance(part, str))
    return texts or tuple(text for part in parts for text in get_args(part) if isinstance(text, str))
