"""The command line: RunOptions from argv, and which words make a subcommand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vikingpi.app.options import Flag, RunOptions, Words
from vikingpi.app.plain_arguments import read_plain
from vikingpi.errors import ConfigError
from vikingpi.values import NamedTuple

EPILOG = (
    "Subcommands: vpi demo [--keep DIR] shows a takeover without any model or network; vpi sessions lists sessions; "
    "vpi memory shows and changes what is remembered; vpi doctor says what is configured and what answers; "
    "vpi completion bash|zsh|fish prints a script for that shell. "
    "Without -p, and on a terminal, vpi is a chat."
)


class Subcommand(NamedTuple):
    """`words` are those that may follow it. One that `acts` is told by a word what to do: no other can follow it."""

    about: str
    words: tuple[str, ...] = ()
    acts: bool = False


_COMPLETED = ("bash", "fish", "zsh", "models", "providers", "sessions", "--help")
_MEMORY = (
    *("add", "forget", "list", "search", "show"),
    *("--category", "--level", "--limit", "--project", "--store", "--text", "--help"),
)
SUBCOMMANDS: dict[str, Subcommand] = {
    "completion": Subcommand("print a script that completes the command line", _COMPLETED),
    "demo": Subcommand("show a takeover without any model or network", ("--keep", "--help")),
    "doctor": Subcommand("say what is configured and what answers", ("--help",)),
    "help": Subcommand("show all options"),
    "memory": Subcommand("show and change what is remembered", _MEMORY, acts=True),
    "sessions": Subcommand("list the sessions of this folder", ("--all", "--help")),
}


def subcommand(argv: Sequence[str]) -> str:
    """Give the subcommand that argv means, empty when its first word is a message.

    A name is a subcommand only if nothing or one of its own words or flags follows. ConfigError for one other word,
    and for any other after a name that `acts`: that is a slip, and not worth asking a model.
    """
    if not argv or argv[0] not in SUBCOMMANDS:
        return ""
    name, known = argv[0], SUBCOMMANDS[argv[0]]
    if len(argv) == 1 or argv[1].partition("=")[0] in known.words:
        return name
    if (known.acts or len(argv) == 2) and len(argv[1].split()) <= 1 and not argv[1].startswith(("-", "@")):
        raise unknown_word(argv, known.words)
    return ""


def unknown_word(argv: Sequence[str], words: Sequence[str]) -> ConfigError:
    """Say that a subcommand knows no such word as follows it in argv, and which of its own is the nearest."""
    import difflib

    name, word = argv[:2]
    near = difflib.get_close_matches(word, words, n=1)
    asked = f"did you mean vpi {name} {near[0]}? " if near else ""
    takes = f"vpi {name} takes {', '.join(words) if words else 'no words'}"
    more = " ..." if len(argv) > 2 else ""
    asks = f'vpi "{name} {word}{more}" asks the model'
    said = word if word.strip() else repr(word)
    return ConfigError(f"vpi {name} does not know {said}", hint=f"{asked}{takes}; {asks}")


def parse(argv: Sequence[str]) -> RunOptions | None:
    """Read flags and words; None when help was printed. ConfigError for what is wrong with them."""
    return read_plain(list(argv)) or parse_any(argv)


def parse_any(argv: Sequence[str]) -> RunOptions | None:
    """Do what `parse` does, for any command line."""
    import typer

    taken: list[RunOptions] = []

    def vpi(**values: Any) -> None:
        lists: dict[str, Words] = {name: tuple(values.pop(name) or ()) for name in ("words", "extensions")}
        given = {name: value for name, value in values.items() if value is not None}
        _refuse_blanks([*given.items(), *(("extensions", file) for file in lists["extensions"])])
        taken.append(RunOptions(**lists, **given))

    _declare(vpi)
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    settings = {"help_option_names": ["--help", "-h"]}
    app.command(epilog=EPILOG, help="A terminal coding agent with a memory.", context_settings=settings)(vpi)
    try:
        app(args=list(argv), prog_name="vpi", standalone_mode=False)
    except typer.BadParameter as error:
        raise _wrong(error.format_message()) from error
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        raise _wrong(str(error)) from error
    return taken[0] if taken else None


def _declare(command: Any) -> None:
    """Give the command one parameter a field of RunOptions, as typer reads them from a signature."""
    import inspect
    from typing import Annotated, Optional

    import typer

    parameters: list[inspect.Parameter] = []
    for field, hint in RunOptions.__annotations__.items():
        kind, flag = hint.__origin__, hint.__metadata__[0]
        assert isinstance(flag, Flag)
        default = RunOptions._field_defaults[field]
        shown: dict[str, Any] = {"help": flag.help, "show_default": False, "metavar": flag.metavar or None}
        if not flag.names:
            shown["metavar"] = "[@FILE...] [MESSAGE...]"
            annotation: Any = Annotated[Optional[list[str]], typer.Argument(**shown)]  # noqa: UP045 - read by typer
            default = None
        elif kind == Words:
            annotation = Annotated[Optional[list[str]], typer.Option(*flag.names, **shown)]  # noqa: UP045 - as above
            default = None
        else:
            default = default if default != "" else None  # what was not given differs from what was given empty
            annotation = Annotated[kind, typer.Option(*flag.names, **shown)]
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(field, keyword, default=default, annotation=annotation))
    command.__signature__ = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def _refuse_blanks(given: Iterable[tuple[str, Any]]) -> None:
    """Raise ConfigError for an option whose value is empty or blank: a variable of a script that was never set."""
    for field, value in given:
        if isinstance(value, str) and not value.strip():
            name = RunOptions.__annotations__[field].__metadata__[0].names[0]
            raise _wrong(f"{name} needs a value, and {value!r} is none")


def _wrong(text: str) -> ConfigError:
    return ConfigError(text.strip().rstrip("."), hint="vpi --help lists what can be given; -- ends the options")
