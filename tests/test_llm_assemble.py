from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from vikingpi.errors import BadResponse
from vikingpi.events import MessageUpdate
from vikingpi.llm.assemble import MOST_CHARACTERS, MessageBuilder, parse_arguments
from vikingpi.llm.base import CallDelta, Delta, Finish, TextDelta, ThinkingDelta, UsageDelta
from vikingpi.llm.scripted import scripted_model
from vikingpi.messages import TextPart, ThinkingPart, ToolCall, Usage

STOP = Finish("stop", "stop", "r1")


def fed(deltas: Sequence[Delta]) -> tuple[MessageBuilder, list[MessageUpdate]]:
    clock = iter(range(1000, 9000, 500))
    builder = MessageBuilder(scripted_model("m"), "low", lambda: next(clock))
    return builder, [update for delta in deltas for update in builder.feed(delta)]


def brief(updates: Sequence[MessageUpdate]) -> list[tuple[str, int, str]]:
    return [(update.kind, update.index, update.text) for update in updates]


def test_text_and_thinking_become_blocks_in_order() -> None:
    builder, updates = fed(
        [ThinkingDelta("a", "reasoning"), ThinkingDelta("b", "reasoning"), TextDelta("c"), TextDelta("d"), STOP]
    )
    assert brief(updates) == [
        ("thinking_start", 0, ""),
        ("thinking_delta", 0, "a"),
        ("thinking_delta", 0, "b"),
        ("thinking_end", 0, "ab"),
        ("text_start", 1, ""),
        ("text_delta", 1, "c"),
        ("text_delta", 1, "d"),
        ("text_end", 1, "cd"),
    ]
    message = builder.finish()
    assert message.content == (ThinkingPart("ab", "reasoning"), TextPart("cd"))
    assert (message.stop_reason, message.response_id, message.raw_stop_reason) == ("stop", "r1", "stop")
    assert (message.timestamp, message.duration_ms, message.thinking_level) == (1000, 500, "low")
    assert (message.provider, message.model, message.api) == ("scripted", "m", "scripted")


def test_calls_may_alternate_and_end_with_the_answer() -> None:
    builder, updates = fed(
        [
            TextDelta("x"),
            CallDelta("0", "a", "bash"),
            CallDelta("1", "b", "read", '{"p'),
            CallDelta("0", arguments='{"c":1}'),
            CallDelta("1", arguments='":2}'),
            Finish("toolUse", "tool_calls"),
        ]
    )
    assert [(kind, index) for kind, index, _ in brief(updates)] == [
        ("text_start", 0),
        ("text_delta", 0),
        ("text_end", 0),
        ("toolcall_start", 1),
        ("toolcall_start", 2),
        ("toolcall_delta", 2),
        ("toolcall_delta", 1),
        ("toolcall_delta", 2),
        ("toolcall_end", 1),
        ("toolcall_end", 2),
    ]
    calls = (ToolCall("a", "bash", {"c": 1}), ToolCall("b", "read", {"p": 2}))
    assert tuple(update.call for update in updates[-2:]) == calls
    assert builder.finish().calls == calls


def test_a_call_starts_when_its_name_is_known() -> None:
    _, updates = fed([CallDelta("0", "a", "", '{"x"'), CallDelta("0", "", "bash", ":1}"), STOP])
    assert brief(updates) == [
        ("toolcall_start", 0, ""),
        ("toolcall_delta", 0, '{"x":1}'),
        ("toolcall_end", 0, ""),
    ]


def test_calls_make_the_reason_tool_use_and_their_absence_takes_it_away() -> None:
    builder, _ = fed([CallDelta("0", "a", "bash"), STOP])
    assert builder.finish().stop_reason == "toolUse"
    builder, _ = fed([TextDelta("x"), Finish("toolUse", "tool_calls")])
    assert builder.finish().stop_reason == "stop"
    builder, _ = fed([CallDelta("0", "a", "bash"), Finish("length", "length")])
    assert builder.finish().stop_reason == "length"


def test_missing_and_doubled_ids_are_replaced() -> None:
    builder, updates = fed([CallDelta("0", "", "a"), CallDelta("1", "same", "b"), CallDelta("2", "same", "c"), STOP])
    ids = [call.id for call in builder.finish().calls]
    assert len(set(ids)) == 3
    assert all(ids)
    assert [update.call.id for update in updates if update.kind == "toolcall_start" and update.call] == ids


def test_a_call_without_a_name_is_still_a_call() -> None:
    builder, updates = fed([CallDelta("0", "a", "", "{}"), STOP])
    assert builder.finish().calls == (ToolCall("a", "", {}),)
    assert [update.kind for update in updates] == ["toolcall_start", "toolcall_delta", "toolcall_end"]


def test_the_newest_usage_counts_also_after_the_finish() -> None:
    builder, updates = fed(
        [UsageDelta(Usage(1)), TextDelta("x"), STOP, UsageDelta(Usage(5, 2))],
    )
    assert updates[1].usage == Usage(1)
    assert builder.finish().usage == Usage(5, 2)


def test_empty_pieces_make_no_blocks() -> None:
    builder, updates = fed([TextDelta(""), ThinkingDelta(""), STOP])
    assert updates == []
    assert builder.finish().content == ()


def test_a_proof_ends_its_thinking_block() -> None:
    builder, _ = fed([ThinkingDelta("a"), ThinkingDelta("", "proof"), ThinkingDelta("b"), STOP])
    assert builder.finish().content == (ThinkingPart("a", "proof"), ThinkingPart("b"))


def test_without_a_finish_marker_there_is_no_message() -> None:
    builder, _ = fed([TextDelta("half")])
    with pytest.raises(BadResponse):
        builder.finish()


def test_a_partial_message_has_no_calls() -> None:
    builder, _ = fed([TextDelta("half"), UsageDelta(Usage(3)), CallDelta("0", "a", "bash", '{"c')])
    message = builder.partial("aborted", "Operation aborted")
    assert message.content == (TextPart("half"),)
    assert (message.stop_reason, message.error_message) == ("aborted", "Operation aborted")
    assert message.usage == Usage(3)


@pytest.mark.parametrize("text", ["", "  ", "null"])
def test_no_arguments_are_an_empty_object(text: str) -> None:
    assert parse_arguments(text) == ({}, "")


@pytest.mark.parametrize("text", ["[]", "0", '{"a": NaN}', '{"a"', "[" * 100_000])
def test_arguments_that_are_no_object_are_kept_as_text(text: str) -> None:
    assert parse_arguments(text) == ({}, text)


def test_arguments_are_decoded() -> None:
    assert parse_arguments('{"a": [1]}') == ({"a": [1]}, "")


PIECES: dict[str, Callable[[str], Delta]] = {
    "text": TextDelta,
    "thinking": lambda text: ThinkingDelta(text, None),
    "arguments": lambda text: CallDelta("0", "c", "read", text),
}


@pytest.mark.parametrize("size", [200, 20_000])
@pytest.mark.parametrize("kind", PIECES)
def test_an_answer_without_end_is_an_error(kind: str, size: int) -> None:
    builder = MessageBuilder(scripted_model("m"), "low", lambda: 0)
    piece, fed_pieces = PIECES[kind]("x" * size), 0
    with pytest.raises(BadResponse, match="does not end: it is larger than 16 MiB") as caught:
        while fed_pieces * size <= MOST_CHARACTERS:
            builder.feed(piece)
            fed_pieces += 1
    assert not caught.value.retryable
    assert fed_pieces * (size + 8) > MOST_CHARACTERS - size - 8
    assert len(builder.partial("error", "x").text) in (0, fed_pieces * size)
