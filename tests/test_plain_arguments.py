from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vpi_lab import lab

from vikingpi.app.arguments import parse, parse_any
from vikingpi.app.options import RunOptions, Words
from vikingpi.app.plain_arguments import read_plain
from vikingpi.errors import ConfigError

NAMES = sorted(
    name
    for hint in RunOptions.__annotations__.values()
    for flag in hint.__metadata__[0].names
    for name in flag.split("/")
)
VALUES = [
    "hello",
    "",
    "low",
    "json",
    "off",
    "embedded",
    "-",
    "--",
    "-h",
    "--help",
    "-pc",
    "--model=x",
    "-x",
    "@file",
    "7",
]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(NAMES), st.sampled_from(VALUES), st.text(max_size=5)), max_size=6))
def test_what_is_read_plainly_means_the_same_to_typer(argv: list[str]) -> None:
    plain = read_plain(argv)
    if plain is not None:
        assert plain == parse_any(argv)


@pytest.mark.parametrize(
    ("argv", "options"),
    [
        ([], RunOptions()),
        (["-p", "hello"], RunOptions(words=("hello",), print_answer=True)),
        (
            ["-c", "@notes.md", "--model", "opus", "-p", "go on"],
            RunOptions(words=("@notes.md", "go on"), continue_session=True, model="opus", print_answer=True),
        ),
        (["--no-trust", "--thinking", "high"], RunOptions(thinking="high", trust=False)),
        (["--mode", "json", "--store", "off", "hi"], RunOptions(words=("hi",), mode="json", store="off")),
    ],
)
def test_common_lines_are_read_plainly(argv: list[str], options: RunOptions) -> None:
    assert read_plain(argv) == options
    assert parse(argv) == options


@pytest.mark.parametrize(
    "argv",
    [
        ["-h"],
        ["--model=x", "hi"],
        ["-pc", "hi"],
        ["--model"],
        ["--model", "-p"],
        ["--mode", "xml"],
        ["--unknown", "hi"],
        ["--", "-p"],
        ["-"],
    ],
)
def test_anything_else_is_left_to_typer(argv: list[str]) -> None:
    assert read_plain(argv) is None


def test_a_line_that_is_not_plain_still_gets_its_options_or_its_error() -> None:
    assert parse(["--model=x", "-p", "--", "-hi"]) == RunOptions(words=("-hi",), model="x", print_answer=True)
    with pytest.raises(ConfigError, match="xml"):
        parse(["--mode", "xml"])


TAKING_TEXT = [
    name
    for hint in RunOptions.__annotations__.values()
    for name in hint.__metadata__[0].names
    if hint.__origin__ in (str, Words)
]


@pytest.mark.parametrize("value", ["", " ", "\t\n"], ids=repr)
@pytest.mark.parametrize("name", TAKING_TEXT)
def test_an_option_whose_value_is_empty_is_refused_by_name(name: str, value: str) -> None:
    for argv in ([name, value], [f"{name}={value}"] if name.startswith("--") else [name, value, "hi"]):
        with pytest.raises(ConfigError, match="needs a value") as caught:
            parse(["-p", *argv])
        assert name in (str(caught.value).split()[0], "-e", "-n", "-t")
        assert caught.value.hint


@pytest.mark.parametrize("name", ["--approve", "--max-cost", "--max-tokens", "--max-turns", "--mode", "--thinking"])
def test_an_option_that_takes_no_text_refuses_an_empty_value_too(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        parse(["-p", name, ""])


def test_an_empty_value_ends_the_program_before_anything_is_made(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        done = made.run("--store", "off", "--session-dir", "", "-p", "SAY: hi")
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr == (
            b"error: --session-dir needs a value, and '' is none\n"
            b"hint: vpi --help lists what can be given; -- ends the options\n"
        )
        assert not (made.home / "sessions").exists() and not made.requests()
