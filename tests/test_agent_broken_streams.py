"""Answers that break off, over both wires as servers and proxies leave them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from agent_lab import Lab, outline, over_http, says
from llm_server import Peer, serving

from vikingpi.llm.base import Model, Price
from vikingpi.messages import AssistantMessage
from vikingpi.ui.lines import failure_of


def sse(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def delta(finish: str | None = None, **fields: object) -> object:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def block(kind: str, **fields: object) -> tuple[object, object]:
    begun = {"type": "content_block_start", "index": 0, "content_block": {"type": kind, **fields}}
    return {"type": "message_start", "message": {"usage": {"input_tokens": 9}}}, begun


CALL = {"index": 0, "id": "c1", "function": {"name": "work", "arguments": '{"n": '}}
TEXT, TOOL = block("text", text="half "), block("tool_use", id="c1", name="work", input={})
JSON_PIECE = {
    "type": "content_block_delta",
    "index": 0,
    "delta": {"type": "input_json_delta", "partial_json": '{"n": '},
}
BUSY = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
# What comes of an answer, and whether the connection is left in order behind it.
BROKEN: dict[str, tuple[bytes, bool]] = {
    "openai/closed": (sse(delta(content="half "), delta(content="an answer")), False),
    "openai/ended": (sse(delta(content="half "), delta(content="an answer")), True),
    "openai/closed-in-a-call": (sse(delta(content="half "), delta(tool_calls=[CALL])), False),
    "openai/ended-in-a-call": (sse(delta(tool_calls=[CALL])), True),
    "openai/error": (sse(delta(content="half "), {"error": {"message": "The server is overloaded"}}), True),
    "openai/no-reason": (sse(delta(content="half ")) + b"data: [DONE]\n\n", True),
    "openai/cut-line": (sse(delta(content="half ")) + b'data: {"choices": [{"del', False),
    "openai/nothing": (b"", True),
    "anthropic/closed": (sse(*TEXT), False),
    "anthropic/ended": (sse(*TEXT), True),
    "anthropic/closed-in-a-call": (sse(*TOOL, JSON_PIECE), False),
    "anthropic/ended-in-a-call": (sse(*TOOL, JSON_PIECE, {"type": "content_block_stop", "index": 0}), True),
    "anthropic/error": (sse(*TEXT, BUSY), True),
    "anthropic/no-reason": (sse(*TEXT, {"type": "message_stop"}), True),
    "anthropic/nothing": (b"", True),
}
WHOLE = {
    "openai": sse(delta("stop", content="whole")) + b"data: [DONE]\n\n",
    "anthropic": sse(
        *block("text", text="whole"),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ),
}


def answering(name: str, times: int) -> Callable[[Peer], None]:
    """Break so many answers off, then give whole ones."""
    left = [BROKEN[name]] * times

    def handle(peer: Peer) -> None:
        while peer.request() is not None:
            data, in_order = left.pop() if left else (WHOLE[name.partition("/")[0]], True)
            peer.begin_stream()
            if data:
                peer.chunk(data)
            if not in_order:
                return
            peer.end_stream()

    return handle


def ask(name: str, times: int) -> tuple[Lab, AssistantMessage, list[dict[str, object]]]:
    """Ask once; return the answer, and the messages of each request that was made."""
    api = {"openai": "openai-completions", "anthropic": "anthropic-messages"}[name.partition("/")[0]]
    tool = says("out")
    with serving(answering(name, times)) as server:
        lab = Lab(
            [], tools=[tool], model=Model("p", "m", api, server.url, "k", {}, 9999, 99, False, False, Price(), {})
        )
        answer = asyncio.run(over_http(lab, "go"))
        assert answer is not None and tool.ran == []
        return lab, answer, [json.loads(seen.body)["messages"] for seen in server.seen]


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_that_breaks_off_is_asked_for_again_and_leaves_nothing_behind(name: str) -> None:
    lab, answer, requests = ask(name, 2)
    assert (answer.text, answer.stop_reason, failure_of(answer)) == ("whole", "stop", None)
    assert lab.slept == [2.0, 4.0]
    assert requests[0] == requests[1] == requests[2]
    assert [outline(one) for one in lab.stored()] == ["u:go", "a:whole"]


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_that_never_gets_whole_is_an_error_without_its_calls(name: str) -> None:
    lab, answer, requests = ask(name, 9)
    assert (answer.stop_reason, answer.calls) == ("error", ())
    assert lab.slept == [2.0, 4.0, 8.0] and len(requests) == 4
    told = failure_of(answer)
    assert told is not None and told.level == "error"


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_half_an_answer_is_not_sent_back_with_the_next_prompt(name: str) -> None:
    lab, _, _ = ask(f"{name}/closed", 9)
    assert outline(lab.stored()[0]) == "u:go"
    with serving(answering(f"{name}/closed", 0)) as server:
        lab.agent.deps = lab.agent.deps._replace(model=lab.agent.deps.model._replace(base_url=server.url))
        asyncio.run(over_http(lab, "and now?"))
        assert b"half" not in server.seen[-1].body and b"and now?" in server.seen[-1].body
