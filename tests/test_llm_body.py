from __future__ import annotations

import itertools
import json

import pytest

from vikingpi.decode import Json
from vikingpi.llm.base import Model, Request
from vikingpi.llm.openai_body import build_body, encode
from vikingpi.llm.scripted import scripted_model
from vikingpi.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    Usage,
    UserMessage,
    user_text,
)

BASH = ToolSpec("bash", "run", {"type": "object", "properties": {"command": {"type": "string"}}})
PNG = ImagePart("QUJD", "image/png")


def model(**changes: object) -> Model:
    return scripted_model("m")._replace(**changes)  # pyright: ignore[reportArgumentType] - any field


def request(*messages: Message, level: str = "off", max_tokens: int | None = None) -> Request:
    return Request("be short", messages, (BASH,), level, max_tokens, "s1")


def assistant(*content: TextPart | ThinkingPart | ToolCall, provider: str = "scripted") -> AssistantMessage:
    return AssistantMessage(content, "scripted", provider, "m", Usage(), "stop", 1)


def result(id: str, *content: TextPart | ImagePart) -> ToolResultMessage:
    return ToolResultMessage(id, "bash", content, False, 1)


def messages(*given: Message, **changes: object) -> list[Json]:
    return build_body(model(**changes), request(*given))["messages"]


def test_a_whole_conversation_in_its_wire_shape() -> None:
    body = build_body(
        model(),
        request(
            user_text("go", 1),
            assistant(TextPart("running"), ToolCall("c1", "bash", {"command": "ls"})),
            result("c1", TextPart("a"), TextPart("b")),
            assistant(TextPart("done")),
        ),
    )
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be short"},
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": "running",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "bash", "arguments": '{"command":"ls"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "a\nb"},
            {"role": "assistant", "content": "done"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 16_384,
        "tools": [
            {
                "type": "function",
                "function": {"name": "bash", "description": "run", "parameters": BASH.parameters},
            }
        ],
    }


def test_a_longer_conversation_begins_with_the_bytes_of_the_shorter_one() -> None:
    talk: list[Message] = [
        user_text("go", 1),
        assistant(ThinkingPart("hm", "reasoning_content"), ToolCall("c1", "bash", {"z": 1, "a": 2})),
        result("c1", TextPart("x"), PNG),
        assistant(TextPart("done")),
        user_text("more", 2),
    ]
    encoded = [encode({"messages": messages(*talk[:count])})[:-2] for count in range(1, len(talk) + 1)]
    for shorter, longer in itertools.pairwise(encoded):
        assert longer.startswith(shorter)
    assert encode(build_body(model(), request(*talk))) == encode(build_body(model(), request(*talk)))


def test_images_are_sent_to_models_that_take_them() -> None:
    given = UserMessage((TextPart("see"), PNG), 1)
    assert messages(given)[1]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
    ]
    assert messages(given, images=False)[1]["content"] == (
        "see\n[image image/png left out: this model takes no images]"
    )


def test_images_of_results_follow_the_whole_batch() -> None:
    sent = messages(
        assistant(ToolCall("a", "read", {}), ToolCall("b", "read", {})),
        result("a", PNG),
        result("b", TextPart("text")),
        user_text("next", 1),
    )
    assert [message["role"] for message in sent] == ["system", "assistant", "tool", "tool", "user", "user"]
    assert sent[2]["content"] == "(image attached below)"
    assert sent[4]["content"][1]["type"] == "image_url"


def test_an_empty_result_is_said_to_be_empty() -> None:
    assert messages(assistant(ToolCall("a", "bash", {})), result("a"))[-1]["content"] == "(no output)"


def test_an_answer_without_text_and_calls_is_left_out() -> None:
    assert [m["role"] for m in messages(user_text("x", 1), assistant(), assistant(ThinkingPart("hm")))] == [
        "system",
        "user",
    ]


def test_thinking_goes_back_in_its_field_to_the_same_model_only() -> None:
    thought = (ThinkingPart("hm", "reasoning"), TextPart("x"))
    assert messages(assistant(*thought))[1] == {"role": "assistant", "content": "x", "reasoning": "hm"}
    assert "reasoning" not in messages(assistant(*thought, provider="other"))[1]
    proof = assistant(ThinkingPart("hm", "c2lnbmF0dXJl"), TextPart("x"))
    assert messages(proof)[1] == {"role": "assistant", "content": "x"}
    own = assistant(ThinkingPart("hm", "thoughts"), TextPart("x"))
    assert messages(own, compat={"reasoningField": "thoughts"})[1]["thoughts"] == "hm"


def test_broken_arguments_are_never_sent() -> None:
    sent = messages(assistant(ToolCall("a", "bash", {}, '{"comm')), result("a", TextPart("no JSON")))
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == "{}"


@pytest.mark.parametrize(
    ("compat", "level", "expected"),
    [
        ({}, "off", {}),
        ({}, "minimal", {"reasoning_effort": "low"}),
        ({}, "max", {"reasoning_effort": "high"}),
        ({"reasoningEffortMap": {"max": "xhigh"}}, "max", {"reasoning_effort": "xhigh"}),
        ({"reasoningEffortMap": {"off": "none"}}, "off", {"reasoning_effort": "none"}),
        ({"supportsReasoningEffort": False}, "high", {}),
        ({"thinkingFormat": "openrouter"}, "high", {"reasoning": {"effort": "high"}}),
        ({"thinkingFormat": "switch"}, "high", {"thinking": {"type": "enabled"}}),
        ({"thinkingFormat": "switch"}, "off", {"thinking": {"type": "disabled"}}),
    ],
)
def test_how_thinking_is_asked_for(compat: Json, level: str, expected: Json) -> None:
    keys = ("reasoning_effort", "reasoning", "thinking")
    body = build_body(model(compat=compat), request(user_text("x", 1), level=level))
    assert {key: body[key] for key in keys if key in body} == expected
    plain = build_body(model(compat=compat, reasoning=False), request(user_text("x", 1), level=level))
    assert not any(key in plain for key in keys)


def test_quirks_of_endpoints() -> None:
    compat: Json = {
        "maxTokensField": "max_completion_tokens",
        "supportsUsage": False,
        "promptCacheKey": True,
    }
    body = build_body(model(compat=compat), request(user_text("x", 1), max_tokens=7))
    assert body["max_completion_tokens"] == 7
    assert body["prompt_cache_key"] == "s1"
    assert "max_tokens" not in body
    assert "stream_options" not in body


def test_the_output_limit_shrinks_with_what_the_window_leaves() -> None:
    long = user_text("word " * 16_000, 1)
    limits = [
        build_body(model(context_window=window, max_tokens=8000), request(long))["max_tokens"]
        for window in (200_000, 26_000, 20_000)
    ]
    assert limits[0] == 8000
    assert 1024 < limits[1] < 6000
    assert limits[2] == 1024
    assert build_body(model(context_window=0), request(long))["max_tokens"] == 16_384


@pytest.mark.parametrize("length", [0, 9])
def test_ids_of_other_providers_are_made_to_fit_and_stay_paired(length: int) -> None:
    ids = ("call|with|bars", "x" * 80, "okok12345")
    talk: list[Message] = []
    for id in ids:
        talk += [assistant(ToolCall(id, "bash", {})), result(id, TextPart("r"))]
    sent = messages(*talk, compat={"callIdLength": length})[1:]
    asked = [message["tool_calls"][0]["id"] for message in sent[::2]]
    assert asked == [message["tool_call_id"] for message in sent[1::2]]
    assert asked[2] == "okok12345"
    assert len(set(asked)) == 3
    assert all(id.isalnum() and len(id) <= (length or 40) for id in asked)


def test_lone_surrogates_are_replaced_and_halves_of_a_pair_joined() -> None:
    body: Json = {"a": "x\udcffy\ud83d", "b": "\ud83d\ude00", "c": "ü\u2028"}
    assert json.loads(encode(body)) == {"a": "x\ufffdy\ufffd", "b": "😀", "c": "ü\u2028"}


def test_a_surrogate_anywhere_in_a_request_can_be_sent() -> None:
    bad = "\ud800"
    talk = (
        user_text(bad, 1),
        assistant(TextPart(bad), ToolCall("a" + bad, "bash", {"k" + bad: [bad]})),
        result("a" + bad, TextPart(bad)),
    )
    assert b"\xef\xbf\xbd" in encode(build_body(model(), request(*talk)))
