from __future__ import annotations

import itertools
import json

import pytest
from wire_rules import messages_faults

from vikingpi.decode import Json
from vikingpi.llm.anthropic_body import build_messages_body
from vikingpi.llm.base import Model, Request
from vikingpi.llm.openai_body import encode
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

BASH = ToolSpec("bash", "run", {"properties": {"command": {"type": "string"}}})
PNG = ImagePart("QUJD", "image/png")
COVERED = "[OpenViking Session Context]\nold"
OVERVIEW = user_text(COVERED, 1)._replace(kind="overview")
ADAPTIVE: Json = {"forceAdaptiveThinking": True}


def model(**changes: object) -> Model:
    return scripted_model("m")._replace(**changes)  # pyright: ignore[reportArgumentType] - any field


def request(*messages: Message, level: str = "off", system: str = "be short") -> Request:
    return Request(system, messages, (BASH,), level, None, "s1")


def assistant(*content: TextPart | ThinkingPart | ToolCall, provider: str = "scripted") -> AssistantMessage:
    return AssistantMessage(content, "scripted", provider, "m", Usage(), "stop", 1)


def result(id: str, *content: TextPart | ImagePart, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(id, "bash", content, is_error, 1)


def call(id: str, **arguments: object) -> ToolCall:
    return ToolCall(id, "bash", dict(arguments))


def body(*messages: Message, level: str = "off", **changes: object) -> Json:
    made = build_messages_body(model(**changes), request(*messages, level=level))
    assert messages_faults(made) == []
    return made


def unmarked(made: Json) -> list[Json]:
    messages: list[Json] = json.loads(json.dumps(made["messages"]))
    for message in messages:
        for block in message["content"]:
            block.pop("cache_control", None)
    return messages


def marks(made: Json) -> list[str]:
    """Name the marked blocks by what they say."""
    blocks = [*made.get("tools", []), *made.get("system", [])]
    blocks += [block for message in made["messages"] for block in message["content"]]
    marked = [block for block in blocks if "cache_control" in block]
    assert all(block["cache_control"] == {"type": "ephemeral"} for block in marked)
    return [block.get("text") or block.get("tool_use_id") or block.get("name") or block["type"] for block in marked]


def test_a_whole_conversation_in_its_wire_shape() -> None:
    made = body(
        UserMessage((TextPart("look"), PNG), 1),
        assistant(ThinkingPart("hm", "proof"), TextPart("I look."), call("a", command="ls"), call("b")),
        result("a", TextPart("x"), PNG),
        result("b", is_error=True),
        user_text("and now?", 2),
    )
    assert made["system"][0]["text"] == "be short"
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    assert made["tools"] == [{"name": "bash", "description": "run", "input_schema": schema}]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    assert unmarked(made) == [
        {"role": "user", "content": [{"type": "text", "text": "look"}, image]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "proof"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "b", "name": "bash", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}, image]},
                {
                    "type": "tool_result",
                    "tool_use_id": "b",
                    "content": [{"type": "text", "text": "(no output)"}],
                    "is_error": True,
                },
                {"type": "text", "text": "and now?"},
            ],
        },
    ]


def test_the_marks_stand_where_the_prefix_stays_the_same_for_longest() -> None:
    assert marks(body(user_text("one", 1))) == ["be short", "one"]
    turn = (user_text("one", 1), assistant(TextPart("yes"), call("a")), result("a", TextPart("out")))
    assert marks(body(*turn)) == ["be short", "one", "a"]
    later = (OVERVIEW, *turn, assistant(TextPart("done")), user_text("two", 3))
    assert marks(body(*later)) == ["be short", COVERED, "a", "two"]
    only = body(OVERVIEW, user_text("go on", 2))
    assert marks(only) == ["be short", COVERED, "go on"]


def test_each_request_marks_the_end_of_the_one_before_it() -> None:
    history: tuple[Message, ...] = (user_text("0", 1),)
    before = body(*history)
    for turn in range(1, 6):
        calls = [call(f"c{turn}_{n}") for n in range(25)]
        history += (assistant(*calls), *(result(one.id, TextPart(one.id)) for one in calls))
        now = body(*history)
        end = before["messages"][-1]["content"][-1]
        assert now["messages"][len(before["messages"]) - 1]["content"][-1] == end
        assert "cache_control" in end
        before = now


def test_a_longer_conversation_begins_with_the_blocks_of_the_shorter_one() -> None:
    turn = (assistant(ThinkingPart("t", "p"), call("a")), result("a", TextPart("1")), user_text("steer", 2))
    history = (user_text("0", 1), *turn, *turn, assistant(TextPart("end")), user_text("1", 3))
    flat = [
        [block for message in unmarked(body(*history[:count])) for block in message["content"]]
        for count in range(1, len(history) + 1)
        if not isinstance(history[count - 1], AssistantMessage)
    ]
    for shorter, longer in itertools.pairwise(flat):
        assert longer[: len(shorter)] == shorter


def test_without_a_system_prompt_the_tools_are_marked() -> None:
    made = build_messages_body(model(), request(user_text("hi", 1), system=" "))
    assert marks(made) == ["bash", "hi"] and "system" not in made


def test_a_server_that_takes_no_marks_gets_none() -> None:
    assert marks(body(user_text("hi", 1), compat={"supportsPromptCache": False})) == []


def test_an_id_that_was_used_before_is_replaced_on_both_sides() -> None:
    again = (assistant(call("call_0")), result("call_0", TextPart("x")))
    blocks = [
        block for message in body(user_text("0", 1), *again, *again, *again)["messages"] for block in message["content"]
    ]
    assert [block["id"] for block in blocks if "id" in block] == ["call_0", "call_0_2", "call_0_3"]
    assert [block["tool_use_id"] for block in blocks if "tool_use_id" in block] == ["call_0", "call_0_2", "call_0_3"]


def test_hidden_thoughts_go_back_as_they_came_and_unproven_ones_do_not() -> None:
    own = assistant(
        ThinkingPart("", "sealed", redacted=True), ThinkingPart("", "short"), ThinkingPart("x"), TextPart("y")
    )
    blocks = unmarked(body(user_text("0", 1), own, user_text("1", 2)))[1]["content"]
    assert blocks == [
        {"type": "redacted_thinking", "data": "sealed"},
        {"type": "thinking", "thinking": "", "signature": "short"},
        {"type": "text", "text": "y"},
    ]
    lax = build_messages_body(
        model(compat={"allowEmptySignature": True}),
        request(user_text("0", 1), assistant(ThinkingPart("x"), TextPart("y"))),
    )
    assert lax["messages"][1]["content"][0] == {"type": "thinking", "thinking": "x", "signature": ""}


def test_thoughts_of_another_model_stay_out_and_thoughts_alone_are_no_answer() -> None:
    foreign = assistant(ThinkingPart("hm", "p"), TextPart("yes"), provider="other")
    assert unmarked(body(user_text("0", 1), foreign, user_text("1", 2)))[1]["content"] == [
        {"type": "text", "text": "yes"}
    ]
    alone = body(user_text("0", 1), assistant(ThinkingPart("hm", "p")), user_text("1", 2))
    assert [message["role"] for message in alone["messages"]] == ["user"]


def test_calls_of_earlier_turns_are_declared_when_there_are_no_tools_any_more() -> None:
    history = (user_text("0", 1), assistant(call("a")), result("a", TextPart("x")), user_text("1", 2))
    made = build_messages_body(model(), Request("", history, ()))
    assert messages_faults(made) == []
    assert [tool["name"] for tool in made["tools"]] == ["bash"] and made["tool_choice"] == {"type": "none"}
    assert "tools" not in build_messages_body(model(), Request("", history[:1], ()))


def test_images_of_other_kinds_are_named_instead() -> None:
    blocks = body(UserMessage((ImagePart("QUJD", "image/bmp"),), 1))["messages"][0]["content"]
    assert blocks[0]["text"] == "[image image/bmp left out: this provider takes no such images]"


@pytest.mark.parametrize(
    ("compat", "level", "expected"),
    [
        ({}, "off", {}),
        ({}, "low", {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
        ({}, "max", {"thinking": {"type": "enabled", "budget_tokens": 15_360}}),
        (ADAPTIVE, "off", {"thinking": {"type": "disabled"}}),
        ({**ADAPTIVE, "reasoningEffortMap": {"off": None}}, "off", {}),
        (ADAPTIVE, "minimal", {"output_config": {"effort": "low"}}),
        (ADAPTIVE, "xhigh", {"output_config": {"effort": "high"}}),
        ({**ADAPTIVE, "reasoningEffortMap": {"xhigh": "xhigh"}}, "xhigh", {"output_config": {"effort": "xhigh"}}),
    ],
)
def test_how_thinking_is_asked_for(compat: Json, level: str, expected: Json) -> None:
    made = body(user_text("hi", 1), level=level, compat=compat)
    if "output_config" in expected:
        expected = {"thinking": {"type": "adaptive", "display": "summarized"}, **expected}
    assert {key: made[key] for key in ("thinking", "output_config") if key in made} == expected


def test_a_model_without_thinking_is_never_asked_for_it() -> None:
    assert "thinking" not in body(user_text("hi", 1), level="high", reasoning=False)


def test_thinking_is_not_turned_on_inside_a_tool_loop() -> None:
    loop = (user_text("hi", 1), assistant(call("a")), result("a", TextPart("x")))
    assert "thinking" not in body(*loop, level="high")
    assert body(*loop, assistant(TextPart("done")), user_text("on", 2), level="high")["thinking"]["type"] == "enabled"
    thought = (user_text("hi", 1), assistant(ThinkingPart("t", "p"), call("a")), result("a", TextPart("x")))
    assert body(*thought, level="high")["thinking"]["type"] == "enabled"


def test_the_output_limit_is_always_there_and_shrinks_with_the_window() -> None:
    assert body(user_text("hi", 1), max_tokens=0)["max_tokens"] == 8192
    assert body(user_text("hi", 1), max_tokens=4000)["max_tokens"] == 4000
    full = body(UserMessage((TextPart("word " * 4000), PNG), 1), max_tokens=6000, context_window=10_000)
    assert 1024 <= full["max_tokens"] < 4000
    tight = body(user_text("word " * 4000, 1), level="high", max_tokens=1500, context_window=10_000)
    assert "thinking" not in tight


def test_the_same_request_gives_the_same_bytes() -> None:
    history = (OVERVIEW, user_text("\ud83d", 1), assistant(TextPart("yes")), user_text("2", 3))
    first, second = (encode(build_messages_body(model(), request(*history))) for _ in range(2))
    assert first == second and "\ufffd".encode() in first
