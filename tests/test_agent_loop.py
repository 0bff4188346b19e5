from __future__ import annotations

from agent_lab import Lab, call, calls, says

from vikingpi.events import MessageEnd
from vikingpi.llm.scripted import Step


def test_a_prompt_is_answered_and_stored() -> None:
    lab = Lab([Step("Hello there.")])
    answer = lab.run("hi")
    assert answer is not None and answer.text == "Hello there." and answer.stop_reason == "stop"
    assert [message.entry_id for message in lab.stored()] == [entry.id for entry in lab.entries("message")]
    assert lab.types() == ["model_change", "thinking_level_change", "message", "message"]


def test_tool_results_go_back_to_the_model_in_call_order() -> None:
    lab = Lab([calls(call(id="a"), call(id="b")), Step("done")], tools=[says("out")])
    lab.run("go")
    assert lab.sent() == ["u:go", "a:(a,b)", "r[a]:out", "r[b]:out"]


def test_events_come_in_the_documented_order() -> None:
    lab = Lab([calls(call(id="a")), Step("done")], tools=[says("out")])
    lab.run("go")
    assert lab.names() == [
        "AgentStart",
        "TurnStart",
        "MessageStart",
        "MessageEnd",
        "MessageStart",
        "MessageEnd",
        "ToolStart",
        "ToolEnd",
        "MessageStart",
        "MessageEnd",
        "TurnEnd",
        "TurnStart",
        "MessageStart",
        "MessageEnd",
        "TurnEnd",
        "AgentEnd",
        "AgentSettled",
    ]
    ends = [event.message for event in lab.events if isinstance(event, MessageEnd)]
    assert [one.entry_id for one in ends] == [one.entry_id for one in lab.stored()]
