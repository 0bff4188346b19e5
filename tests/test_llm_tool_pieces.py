from __future__ import annotations

import json
import time

import pytest

from vikingpi.decode import Json
from vikingpi.llm.tool_pieces import CallPieces


def piece(text: str, name: str = "", **more: object) -> Json:
    return {**more, "function": {"name": name, "arguments": text}}


def keys(*pieces: Json) -> list[str]:
    calls = CallPieces()
    return [calls.take(one).key for one in pieces]


def seconds(pieces: list[Json]) -> float:
    calls = CallPieces()
    begun = time.process_time()
    for one in pieces:
        calls.take(one)
    return time.process_time() - begun


@pytest.mark.parametrize("name", ["", "write"], ids=["named once", "named in every piece"])
@pytest.mark.parametrize("text", ["some words} of a file\\n", "{}", '\\"'], ids=["words", "braces", "quotes"])
def test_the_work_grows_with_the_length_of_the_arguments(name: str, text: str) -> None:
    def pieces(count: int) -> list[Json]:
        return [piece('{"content": "', "write", index=0), *([piece(text, name, index=0)] * count)]

    small, large = pieces(1_500), pieces(24_000)
    ratio = min(seconds(large) / max(seconds(small), 1e-5) for _ in range(3))
    assert ratio < 60  # 16 times as many pieces; a cost that grows with the square would be 256 times as much


@pytest.mark.parametrize(
    "text",
    [r'{"a": "} \\ \"{"}', r'{"b": [{}, "]"]}', "{}", r'{"c": "\\\\"}', r'{"d": {"e": "\u00e9{"}}'],
)
def test_a_name_that_is_said_again_begins_a_call_only_after_a_whole_object(text: str) -> None:
    json.loads(text)
    for cut in range(1, len(text)):
        first = [piece(text[:cut], "write"), piece(text[cut:], "write")]
        assert keys(*first, piece("{}", "write")) == ["0", "0", "1"]
    letters = [piece(letter, "write") for letter in text]
    assert keys(*letters, piece(" "), piece("{}", "write"))[-1] == "1"


@pytest.mark.parametrize("text", ["[1]", "{]", "{a}", "{} {", '"x"', ""])
def test_what_is_no_object_is_never_whole(text: str) -> None:
    assert keys(piece(text, "write"), piece("", "write"), piece("{}", "write")) == ["0", "0", "0"]
