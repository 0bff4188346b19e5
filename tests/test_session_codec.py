import base64
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vikingpi.decode import Json
from vikingpi.messages import (
    AssistantMessage,
    Cost,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from vikingpi.session.entries import encode_line, message_from_json, message_to_json, usage_from_json
from vikingpi.session.lines import parse_line

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
counts = st.integers(0, 2**53)
dollars = st.floats(0, 1000, allow_nan=False)
scalars = st.none() | st.booleans() | counts | st.floats(allow_nan=False, allow_infinity=False) | texts
values = scalars | st.lists(scalars, max_size=3) | st.dictionaries(texts, scalars, max_size=3)
objects = st.dictionaries(texts, values, max_size=3)
pictures = st.binary(max_size=12).map(lambda data: base64.b64encode(data).decode())
content = st.lists(st.builds(TextPart, texts) | st.builds(ImagePart, pictures, texts), max_size=4).map(tuple)
costs = st.builds(Cost, dollars, dollars, dollars, dollars)
usages = st.builds(Usage, counts, counts, counts, counts, counts, costs)
optional_texts = st.none() | texts
answers = st.builds(
    AssistantMessage,
    content=st.lists(
        st.builds(TextPart, texts)
        | st.builds(ThinkingPart, texts, optional_texts, st.booleans())
        | st.builds(ToolCall, texts, texts, objects, st.just("")),
        max_size=4,
    ).map(tuple),
    api=texts,
    provider=texts,
    model=texts,
    usage=usages,
    stop_reason=st.sampled_from(["stop", "length", "toolUse", "error", "aborted"]),
    timestamp=counts,
    error_message=optional_texts,
    response_id=optional_texts,
    raw_stop_reason=optional_texts,
    duration_ms=st.none() | counts,
    thinking_level=optional_texts,
    entry_id=st.none(),
)
results = st.builds(
    ToolResultMessage,
    tool_call_id=texts,
    tool_name=texts,
    content=content,
    is_error=st.booleans(),
    timestamp=counts,
    details=st.none() | objects,
    duration_ms=st.none() | counts,
    entry_id=st.none(),
)
users = st.builds(UserMessage, content=content, timestamp=counts, entry_id=st.none(), kind=st.just("user"))
anything = values | st.lists(values, max_size=3)
usual_keys = ("role", "content", "timestamp", "usage", "stopReason", "api", "provider", "model", "toolCallId")
other_keys = ("toolName", "isError", "details", "durationMs", "thinkingLevel", "errorMessage", "responseId")
message_keys = st.sampled_from((*usual_keys, *other_keys, "rawStopReason"))
part_keys = ("text", "data", "mimeType", "thinking", "thinkingSignature", "redacted", "id", "name", "arguments")
parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "thinking", "toolCall", "new"])},
    optional=dict.fromkeys(part_keys, anything),
)
strange_messages = st.dictionaries(message_keys, anything | st.lists(parts), max_size=8).flatmap(
    lambda fields: st.sampled_from(["user", "assistant", "toolResult", "other"]).map(
        lambda role: {**fields, "role": role}
    )
)


@settings(max_examples=80, deadline=None)
@given(users | answers | results)
def test_a_message_survives_the_file(message: Message) -> None:
    line = encode_line({"message": message_to_json(message)})
    assert line.count(b"\n") == 1
    read = parse_line(line)
    assert read is not None
    assert message_from_json(read["message"], None) == message


@settings(max_examples=150, deadline=None)
@given(strange_messages)
def test_no_message_of_another_writer_raises(value: Json) -> None:
    message = message_from_json(value, "e1")
    assert (message is None) == (value["role"] == "other")
    if message is not None:
        assert message.entry_id == "e1"
        encode_line({"message": message_to_json(message)})


def test_an_answer_has_exactly_the_keys_that_pi_reads() -> None:
    message = AssistantMessage(
        (ThinkingPart("hm", "reasoning_content"), TextPart("hi"), ToolCall("c1", "bash", {"command": "ls"})),
        "openai-completions",
        "lab",
        "m1",
        Usage(10, 2, 3, 4, 1, Cost(0.1, 0.2, 0.3, 0.4)),
        "toolUse",
        7,
        response_id="r",
        raw_stop_reason="tool_calls",
        duration_ms=5,
        thinking_level="high",
        entry_id="never written",
    )
    assert message_to_json(message) == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning_content"},
            {"type": "text", "text": "hi"},
            {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}},
        ],
        "api": "openai-completions",
        "provider": "lab",
        "model": "m1",
        "usage": {
            "input": 10,
            "output": 2,
            "cacheRead": 3,
            "cacheWrite": 4,
            "reasoning": 1,
            "totalTokens": 19,
            "cost": {"input": 0.1, "output": 0.2, "cacheRead": 0.3, "cacheWrite": 0.4, "total": 1.0},
        },
        "stopReason": "toolUse",
        "timestamp": 7,
        "responseId": "r",
        "rawStopReason": "tool_calls",
        "durationMs": 5,
        "thinkingLevel": "high",
    }


def test_a_failed_answer_still_has_usage_with_its_cost() -> None:
    message = AssistantMessage((), "a", "p", "m", Usage(), "error", 1, error_message="503")
    written = message_to_json(message)
    assert written["usage"]["cost"] == {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    assert written["errorMessage"] == "503"
    assert "responseId" not in written


def test_a_tool_result_keeps_details_and_duration() -> None:
    message = ToolResultMessage("c1", "bash", (TextPart("out"),), True, 3, {}, 9)
    assert message_to_json(message) == {
        "role": "toolResult",
        "toolCallId": "c1",
        "toolName": "bash",
        "content": [{"type": "text", "text": "out"}],
        "details": {},
        "isError": True,
        "durationMs": 9,
        "timestamp": 3,
    }


@pytest.mark.parametrize("role", ["user", "assistant", "toolResult"])
def test_content_may_be_a_string(role: str) -> None:
    message = message_from_json({"role": role, "content": "plain"}, None)
    assert message is not None
    assert message.content == (TextPart("plain"),)


def test_an_answer_without_usage_or_reason_is_read() -> None:
    message = message_from_json(
        {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "ls", "arguments": {}}]}, None
    )
    assert isinstance(message, AssistantMessage)
    assert message.usage == Usage()
    assert message.stop_reason == "toolUse"


@pytest.mark.parametrize("data", ["no base64!", "QUJ", "QUJ\ud83dQ", "=QUJD==="])
def test_an_image_that_cannot_be_decoded_has_no_data(data: str) -> None:
    message = message_from_json({"role": "user", "content": [image("QUJD"), image(data)]}, None)
    assert message is not None
    assert message.content == (ImagePart("QUJD", "image/png"), ImagePart("", "image/png"))


def image(data: str) -> Json:
    return {"type": "image", "data": data, "mimeType": "image/png"}


def test_unknown_parts_are_dropped_and_the_others_stay() -> None:
    message = message_from_json(
        {"role": "user", "content": [{"type": "video"}, {"type": "text", "text": 5}, {"type": "text", "text": "a"}, 1]},
        None,
    )
    assert message == UserMessage((TextPart("a"),), 0)


@pytest.mark.parametrize(
    ("written", "arguments", "broken"),
    [({"a": 1}, {"a": 1}, ""), ('{"a": 1}', {"a": 1}, ""), ("{a", {}, "{a"), ("[1]", {}, "[1]"), (None, {}, "")],
)
def test_call_arguments_that_are_no_object_are_kept_as_text(written: object, arguments: Json, broken: str) -> None:
    message = message_from_json(
        {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "x", "arguments": written}]}, None
    )
    assert isinstance(message, AssistantMessage)
    assert message.calls == (ToolCall("c", "x", arguments, broken),)


def test_usage_with_a_bare_total_counts() -> None:
    assert usage_from_json({"totalTokens": 50, "cost": {"total": 0.5}}) == Usage(input=50, cost=Cost(input=0.5))


def test_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    line = encode_line({"a\udcff": "x\ud83d y\ud83d\ude00"})
    assert json.loads(line.decode()) == {"a\ufffd": "x\ufffd y\U0001f600"}


def test_escaped_surrogates_of_another_writer_are_replaced() -> None:
    assert parse_line(b'{"a":"x\\ud83d","b":"\\uD83D\\uDE00"}') == {"a": "x\ufffd", "b": "\U0001f600"}


def test_numbers_that_json_does_not_have_become_null() -> None:
    assert json.loads(encode_line({"a": float("nan"), "b": [float("inf"), 1.5]})) == {"a": None, "b": [None, 1.5]}
