from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_rules import chat_faults, messages_faults

from vikingpi.agent.validate import repair
from vikingpi.decode import Json, as_dict, as_str
from vikingpi.llm.anthropic_body import build_messages_body
from vikingpi.llm.base import Model, Request
from vikingpi.llm.openai_body import build_body, encode
from vikingpi.llm.scripted import scripted_model
from vikingpi.messages import ToolSpec, user_text
from vikingpi.session.entries import Entry
from vikingpi.session.tree import build_context
from vikingpi.takeover.boundary import boundary_of, project
from vikingpi.takeover.state import STATE, view

TOOL = ToolSpec("bash", "run", {"type": "object", "properties": {}})

texts = st.sampled_from(["", " \n", "plain", "[OpenViking Session Context]\nold", "\ud83d", "你好 \ud83d\ude00", "\0"])
call_ids = st.sampled_from(["a", "b", "call_0", "", "c|d/é", "x" * 90, "y" * 64, "a_2", "toolu_01A"])
names = st.sampled_from(["bash", "read", "", "a.b", "n" * 80, "查"])
numbers = st.integers(0, 200_000)


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def image(data: str, kind: str) -> Json:
    return {"type": "image", "data": data, "mimeType": kind}


def answered(content: Any, maker: tuple[str, str, str], reason: str | None, tokens: int) -> Json:
    api, provider, model = maker
    usage = {"input": tokens, "output": 1, "totalTokens": tokens + 1}
    given = {"role": "assistant", "content": content, "api": api, "provider": provider, "model": model, "usage": usage}
    return {"type": "message", "message": {**given, "stopReason": reason}}


def message(role: str, **fields: Any) -> Json:
    return {"type": "message", "message": {"role": role, **fields}}


def user_line(content: Any) -> Json:
    return message("user", content=content)


def result_line(id: str, name: str, content: Any, failed: bool) -> Json:
    return message("toolResult", toolCallId=id, toolName=name, content=content, isError=failed)


def bash_line(command: str, output: str, flags: Json) -> Json:
    return message("bashExecution", command=command, output=output, **flags)


def custom_line(content: Any) -> Json:
    return {"type": "custom_message", "customType": "t", "content": content}


def branch_line(summary: str) -> Json:
    return {"type": "branch_summary", "summary": summary, "fromId": "root"}


def compaction_line(summary: str, kept: int, more: Json) -> Json:
    return {"type": "compaction", "summary": summary, "firstKeptEntryId": str(kept), **more}


def state_line(covered: int, turns: int, overview: str, generation: str) -> Json:
    """A takeover state of ours, or without a generation one of pi's."""
    counts = {"coveredUserTurns": turns, "lastSeenUserTurns": turns + 1, "overview": overview, "fingerprint": None}
    data = {**counts, "lastCoveredEntryId": str(covered), "generation": generation}
    return {"type": "custom", "customType": STATE, "data": data}


def edit_line(target: int, replacement: Any) -> Json:
    return {"type": "context_edit", "targetId": str(target), "replacement": replacement}


def replaced(content: Any) -> Json:
    return {"content": content}


Anything = st.SearchStrategy[Any]
images: Anything = st.builds(
    image, st.sampled_from(["QUJD", "", "no base64!"]), st.sampled_from(["image/png", "image/bmp", "image/webp", ""])
)
odd: Anything = st.sampled_from([{"type": "document"}, 3, None, {"type": "text"}])
user_content: Anything = st.one_of(texts, st.none(), st.lists(st.one_of(texts.map(text), images, odd), max_size=3))
arguments: Anything = st.sampled_from([{}, {"n": 1, "k\udcff": ["\ud800"]}, '{"a": 1}', "{broken", None, [1]])
thoughts: Anything = st.fixed_dictionaries(
    {"type": st.just("thinking"), "thinking": texts},
    optional={
        "thinkingSignature": st.sampled_from(["", "proof", "reasoning_content", "reasoning"]),
        "redacted": st.booleans(),
    },
)
calls: Anything = st.fixed_dictionaries(
    {"type": st.just("toolCall"), "id": call_ids, "name": names, "arguments": arguments}
)
parts: Anything = st.one_of(texts.map(text), thoughts, calls, calls, odd)
answer_content: Anything = st.one_of(texts, st.none(), st.lists(parts, max_size=5))
makers = st.sampled_from(
    [
        ("scripted", "scripted", "scripted"),
        ("openai-completions", "openai", "gpt"),
        ("anthropic-messages", "anthropic", "c"),
    ]
)
reasons = st.sampled_from(["stop", "toolUse", "toolUse", "length", "error", "aborted", "deferred", None])
replacements: Anything = st.one_of(st.none(), st.just({}), answer_content.map(replaced), user_content.map(replaced))
shell_flags: Anything = st.fixed_dictionaries(
    {},
    optional={
        "excludeFromContext": st.booleans(),
        "cancelled": st.booleans(),
        "truncated": st.booleans(),
        "exitCode": st.sampled_from([0, 3, None]),
        "fullOutputPath": st.just("/tmp/x\udcff"),
    },
)
compaction_more: Anything = st.sampled_from(
    [{}, {"fromHook": True, "details": {"source": "openviking"}}, {"systemMessage": {"role": "system", "content": "x"}}]
)
SILENT: list[Json] = [
    {"type": "model_change", "provider": "openai", "modelId": "gpt"},
    {"type": "thinking_level_change", "thinkingLevel": "high"},
    {"type": "session_info", "name": "n"},
    {"type": "usage", "kind": "cache_warm", "usage": {"input": 5}},
    {"type": "label", "targetId": "0", "label": "here"},
    {"type": "custom", "customType": "ov-off", "data": {"on": False}},
    {"type": "custom", "customType": "ov-recall", "data": {"userEntryId": "0", "block": "<b>"}},
    {"type": "news"},
    {"type": "leaf"},
]
ODD_ROLES: list[Json] = [
    message("system", content="x"),
    message("branchSummary", summary="s"),
    message("compactionSummary", summary="s"),
    message("custom", customType="t", content="hook"),
    message("custom", customType="t", content=[image("QUJD", "image/png")]),
    message("odd"),
    {"type": "message"},
]
lines: Anything = st.one_of(
    user_content.map(user_line),
    st.builds(answered, answer_content, makers, reasons, numbers),
    st.builds(answered, answer_content, makers, reasons, numbers),
    st.builds(result_line, call_ids, names, user_content, st.booleans()),
    st.builds(bash_line, texts, texts, shell_flags),
    st.sampled_from(ODD_ROLES),
    user_content.map(custom_line),
    texts.map(branch_line),
    st.builds(compaction_line, texts, st.integers(0, 12), compaction_more),
    st.builds(state_line, st.integers(0, 12), st.integers(0, 3), texts, st.sampled_from(["pi-x", ""])),
    st.builds(edit_line, st.integers(0, 12), replacements),
    st.sampled_from(SILENT),
)


class Setting(NamedTuple):
    """A model and how it is asked."""

    model: Model
    level: str
    tools: tuple[ToolSpec, ...]


def setting(
    maker: tuple[str, str, str], reasoning: bool, sight: bool, compat: Json, level: str, with_tools: bool
) -> Setting:
    api, provider, id = maker
    model = scripted_model(id, reasoning=reasoning, images=sight)
    return Setting(model._replace(api=api, provider=provider, compat=compat), level, (TOOL,) if with_tools else ())


asked = st.builds(
    setting,
    makers,
    st.booleans(),
    st.booleans(),
    st.sampled_from([{}, {"forceAdaptiveThinking": True}, {"maxTokensField": "max_tokens"}]),
    st.sampled_from(["off", "minimal", "low", "medium", "high", "xhigh", "max"]),
    st.booleans(),
)


def branch_of(given: list[Json]) -> tuple[Entry, ...]:
    stamp = "2026-11-30T12:00:00.000Z"
    return tuple(
        Entry(str(place), str(place - 1) if place else None, line["type"], stamp, line)
        for place, line in enumerate(given)
    )


def faults(given: list[Json], asked: Setting) -> tuple[list[str], list[str]]:
    """Make the request for a prompt behind the branch, on both wires, as it goes over the line."""
    branch = branch_of(given)
    shown = project(build_context(branch), boundary_of(branch, view(branch), 500))
    context = (*shown, user_text("the prompt", 9))
    request = Request("You are a test.", repair(context, asked.model), asked.tools, asked.level)
    bodies = [json.loads(encode(build(asked.model, request))) for build in (build_body, build_messages_body)]
    return chat_faults(bodies[0]), messages_faults(bodies[1])


@settings(max_examples=int(os.environ.get("VPI_TEST_SCHEDULES", "300")), deadline=None)
@given(st.lists(lines, max_size=13), asked)
def test_any_branch_gives_a_request_that_both_wires_accept(given: list[Json], asked: Setting) -> None:
    assert faults(given, asked) == ([], [])


def test_every_type_of_entry_and_every_role_is_drawn() -> None:
    drawn: set[str] = set()

    @settings(max_examples=400, deadline=None, database=None)
    @given(lines)
    def draw(line: Json) -> None:
        drawn.add(line["type"])
        drawn.add(as_str(as_dict(line.get("message")).get("role")))

    draw()
    assert drawn >= {"message", "model_change", "thinking_level_change", "compaction", "branch_summary", "context_edit"}
    assert drawn >= {"usage", "custom", "custom_message", "label", "session_info"}
    assert drawn >= {"system", "user", "assistant", "toolResult", "bashExecution", "custom"}
    assert drawn >= {"branchSummary", "compactionSummary"}


def user(content: object = "x") -> Json:
    return {"role": "user", "content": content}


def chat(*messages: Json, **more: object) -> Json:
    return {"model": "m", "stream": True, "max_tokens": 9, "messages": list(messages), **more}


CALL: Json = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
RESULT: Json = {"role": "tool", "tool_call_id": "a", "content": "x"}
ASKED: Json = {"role": "assistant", "content": None, "tool_calls": [CALL]}


@pytest.mark.parametrize(
    "body",
    [
        chat(),
        chat(user("\ud800")),
        chat(user(" ")),
        chat(user(), ASKED),
        chat(user(), ASKED, user(), RESULT),
        chat(user(), RESULT),
        chat(user(), {"role": "assistant", "content": ""}),
        chat(user(), {**ASKED, "tool_calls": [CALL, CALL]}, RESULT, RESULT),
        chat(user(), {**ASKED, "tool_calls": [{**CALL, "id": "a b"}]}, {**RESULT, "tool_call_id": "a b"}),
        chat(user(), tools=[]),
        {**chat(user()), "max_tokens": 0},
    ],
)
def test_the_chat_checker_sees_what_is_wrong(body: Json) -> None:
    assert chat_faults(chat(user(), ASKED, RESULT, user())) == []
    assert chat_faults(body) != []


def blocks(*given: Json, role: str = "user") -> Json:
    return {"role": role, "content": list(given)}


def turns(*messages: Json, **more: object) -> Json:
    tools = [{"name": "bash", "input_schema": {"type": "object"}}]
    return {**chat(*messages), "tools": tools, "max_tokens": 4096, **more}


WORD = text("x")
USE: Json = {"type": "tool_use", "id": "a", "name": "bash", "input": {}}
OUT: Json = {"type": "tool_result", "tool_use_id": "a", "content": [WORD]}
BUDGET: Json = {"type": "enabled", "budget_tokens": 1024}
ANSWER = blocks(USE, role="assistant")


@pytest.mark.parametrize(
    "body",
    [
        turns(blocks(WORD), blocks(WORD)),
        turns(blocks(WORD, role="assistant")),
        turns(blocks(WORD), blocks(WORD, role="assistant")),
        turns(blocks(text(" "))),
        turns(blocks()),
        turns(blocks(WORD), ANSWER, blocks(WORD)),
        turns(blocks(WORD), ANSWER, blocks(WORD, OUT)),
        turns(blocks(WORD), ANSWER, blocks(OUT), ANSWER, blocks(OUT)),
        turns(blocks(WORD), ANSWER, blocks(OUT), tools=[]),
        turns(blocks(WORD), ANSWER, blocks({**OUT, "content": []})),
        turns(blocks(WORD), ANSWER, blocks(OUT), thinking=BUDGET),
        turns(blocks(WORD), thinking={**BUDGET, "budget_tokens": 4096}),
        turns(blocks(*[{**WORD, "cache_control": {"type": "ephemeral"}}] * 5)),
        turns(
            blocks(WORD),
            blocks({"type": "thinking", "thinking": "x", "signature": ""}, WORD, role="assistant"),
            blocks(WORD),
        ),
        turns(blocks({"type": "image", "source": {"media_type": "image/bmp", "data": "QUJD"}})),
    ],
)
def test_the_messages_checker_sees_what_is_wrong(body: Json) -> None:
    assert messages_faults(turns(blocks(WORD), ANSWER, blocks(OUT, WORD))) == []
    assert messages_faults(body) != []
