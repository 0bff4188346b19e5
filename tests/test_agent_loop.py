from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest
from agent_lab import Lab, call, calls, outline, says

from vikingpi.agent.hooks import AgentHooks, HookContext, PromptPatch
from vikingpi.agent.hooks import TurnEnd as HookTurnEnd
from vikingpi.agent.inbox import Inbox
from vikingpi.errors import AuthFailed, SessionError, VpiError
from vikingpi.events import MessageEnd, ToolStart, TurnStart
from vikingpi.llm.scripted import Step, scripted_model
from vikingpi.messages import (
    AssistantMessage,
    Message,
    TextPart,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
    user_text,
)
from vikingpi.session.file import create_session, memory_session, open_session


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


def test_texts_are_cleaned_of_lone_surrogates_before_they_are_stored() -> None:
    lab = Lab([Step("ok")])
    lab.run("x\udcff")
    assert lab.sent() == ["u:x\ufffd"] and outline(lab.stored()[0]) == "u:x\ufffd"


def test_a_steering_message_comes_after_all_results_of_the_running_answer() -> None:
    lab = Lab([calls(call(id="a"), call(id="b")), Step("noted")], tools=[says("out")])
    lab.when[ToolStart] = lambda: lab.agent.steer("use tabs") if not lab.agent.inbox else None
    lab.run("go")
    assert lab.sent() == ["u:go", "a:(a,b)", "r[a]:out", "r[b]:out", "u:use tabs"]
    assert lab.agent.inbox.drain() == ()


def test_steering_messages_are_delivered_one_per_request() -> None:
    lab = Lab([Step("one"), Step("two"), Step("three")])
    lab.when[TurnStart] = lambda: steer_twice(lab)
    lab.run("go")
    assert lab.sent() == ["u:go", "a:one", "u:first", "a:two", "u:second"]


def steer_twice(lab: Lab) -> None:
    lab.when.clear()
    lab.agent.steer("first")
    lab.agent.steer("second")


def test_a_follow_up_waits_until_the_run_would_end() -> None:
    lab = Lab([calls(call(id="a")), Step("done"), Step("next")], tools=[says("out")])
    lab.when[ToolStart] = lambda: lab.agent.follow_up("and then")
    answer = lab.run("go")
    assert answer is not None and answer.text == "next"
    assert lab.sent() == ["u:go", "a:(a)", "r[a]:out", "a:done", "u:and then"]
    assert lab.names().count("AgentStart") == 1


def test_queued_texts_come_back_in_order_and_leave_nothing_behind() -> None:
    lab = Lab([])
    lab.agent.follow_up("later")
    lab.agent.steer("now")
    assert (lab.agent.inbox.steering, lab.agent.inbox.follow_ups) == (("now",), ("later",))
    assert lab.agent.inbox.drain() == ("now", "later")
    assert not lab.agent.inbox


def test_a_message_that_cannot_be_stored_stays_queued() -> None:
    inbox = Inbox()
    inbox.steer(user_text("keep me", 1))

    def refuse(message: UserMessage) -> None:
        raise SessionError("disk full")

    with pytest.raises(SessionError):
        inbox.take_steering(refuse)
    assert inbox.drain() == ("keep me",)


def test_open_calls_of_a_killed_process_get_results_before_the_prompt() -> None:
    killed = Lab([calls(call(id="a"), call(id="b"))])
    killed.session.append_message(user_text("go", 1))
    killed.session.append_message(open_answer("a", "b"))
    killed.session.append_message(ToolResultMessage("a", "work", (TextPart("out"),), False, 3))
    tool = says("again")
    lab = Lab([Step("ok")], session=killed.session, tools=[tool])
    lab.run("continue")
    assert [line.partition(":")[0] for line in lab.sent()] == ["u", "a", "r[a]", "r[b]", "u"]
    assert lab.sent()[3].startswith("r[b]:The run was interrupted") and lab.sent()[4] == "u:continue"
    assert outline(lab.stored()[3]) == lab.sent()[3]
    assert tool.ran == []


def test_an_open_call_in_the_middle_is_answered_in_the_request_only() -> None:
    session = memory_session("/work")
    session.append_message(user_text("go", 1))
    session.append_message(open_answer("a"))
    session.append_message(user_text("hello", 3))
    lab = Lab([Step("ok")], session=session)
    lab.run("continue")
    assert lab.sent() == ["u:go", "a:(a)", "r[a]:No result provided", "u:hello", "u:continue"]
    assert not any(isinstance(one, ToolResultMessage) for one in lab.stored())


def open_answer(*ids: str) -> AssistantMessage:
    made = tuple(ToolCall(id, "work", {}) for id in ids)
    return AssistantMessage(made, "scripted", "scripted", "scripted", Usage(), "toolUse", 2)


def test_model_and_level_are_recorded_once_and_when_they_change() -> None:
    lab = Lab([Step("one"), Step("two")])
    lab.run("a")
    lab.agent.use_model(scripted_model("other"), "high")
    lab.run("b")
    changes = [entry.raw.get("modelId") or entry.raw.get("thinkingLevel") for entry in lab.session.branch()]
    assert [one for one in changes if one] == ["scripted", "off", "other", "high"]
    last = lab.stored()[-1]
    assert isinstance(last, AssistantMessage) and (last.model, last.thinking_level) == ("other", "high")


def test_a_session_that_names_its_model_gets_no_second_entry() -> None:
    session = memory_session("/work")
    session.append("model_change", {"provider": "x", "modelId": "y"})
    session.append("thinking_level_change", {"thinkingLevel": "off"})
    lab = Lab([Step("one")], session=session)
    lab.run("a")
    assert lab.types() == ["model_change", "thinking_level_change", "message", "message"]


def test_stop_ends_the_run_after_the_turn_that_is_running() -> None:
    lab = Lab([calls(call(id="a"))], tools=[says("out")])
    lab.when[ToolStart] = lab.agent.stop
    answer = lab.run("go")
    assert answer is not None and answer.stop_reason == "toolUse"
    assert [outline(one) for one in lab.stored()] == ["u:go", "a:(a)", "r[a]:out"]


class Recall(AgentHooks):
    """Adds to the system prompt and to what is sent; `seen` is what it was told."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def before_agent_start(self, ctx: HookContext, prompt: UserMessage) -> PromptPatch | None:
        self.seen.append(f"{text_of(prompt)} {prompt.entry_id == ctx.branch()[-1].id}")
        return PromptPatch("Remember ALPHA.") if len(self.seen) == 1 else None

    def context(self, ctx: HookContext, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return (*messages, user_text("injected", 9))

    async def turn_end(self, ctx: HookContext, turn: HookTurnEnd) -> None:
        self.seen.append(f"end {turn.message.text} {len(turn.results)} {turn.last}")


def test_hooks_take_part_in_every_request_and_every_turn() -> None:
    hook = Recall()
    lab = Lab([calls(call(id="a"), text="one"), Step("two"), Step("three")], tools=[says("out")], hooks=[hook])
    lab.when[ToolStart] = lambda: lab.agent.follow_up("more")
    lab.run("go")
    assert hook.seen == ["go True", "end one 1 False", "end two 0 False", "more True", "end three 0 True"]
    assert {request.system for request in lab.provider.requests} == {"You are a test.\n\nRemember ALPHA."}
    assert all(lab.sent(request)[-1] == "u:injected" for request in range(3))
    assert "injected" not in " ".join(map(outline, lab.stored()))


def test_a_second_prompt_while_one_runs_is_refused() -> None:
    lab = Lab([Step("slow", delay=0.05)])

    async def main() -> None:
        task = asyncio.ensure_future(lab.ask("one"))
        await asyncio.sleep(0)
        with pytest.raises(VpiError, match="busy"):
            await lab.ask("two")
        await task

    asyncio.run(main())
    assert [outline(one) for one in lab.stored()] == ["u:one", "a:slow"]


def test_each_request_begins_with_the_one_before_it() -> None:
    lab = Lab([calls(call(id="a")), calls(call(id="b")), Step("ok"), Step("bye")], tools=[says("out")])
    lab.run("go", "again")
    bodies = [body["messages"] for body in lab.provider.bodies]
    assert all(after[: len(before)] == before for before, after in pairwise(bodies))
    assert len({request.system for request in lab.provider.requests}) == 1


def test_a_compaction_between_a_call_and_its_result_does_not_break_the_session() -> None:
    session = memory_session("/work")
    first = session.append_message(user_text("go", 1))
    session.append_message(open_answer("a", "b"))
    kept = {"summary": "S1", "firstKeptEntryId": first.id, "tokensBefore": 1, "fromHook": False}
    session.append("compaction", kept)
    session.append_message(ToolResultMessage("a", "work", (TextPart("out"),), False, 3))
    session.append_custom("ov-takeover", {"coveredUserTurns": 0})
    session.append("compaction", {**kept, "summary": "S2"})
    lab = Lab([Step("ok")], session=session)
    lab.run("next")
    kinds = [line.partition(":")[0] for line in lab.sent()]
    assert kinds == ["u", "u", "a", "r[a]", "r[b]", "u"] and "S2" in lab.sent()[0]


def test_a_result_whose_call_was_compacted_away_is_not_sent() -> None:
    session = memory_session("/work")
    session.append_message(user_text("go", 1))
    session.append_message(open_answer("a"))
    result = session.append_message(ToolResultMessage("a", "work", (TextPart("out"),), False, 3))
    session.append("compaction", {"summary": "S", "firstKeptEntryId": result.id, "tokensBefore": 1})
    lab = Lab([Step("ok")], session=session)
    lab.run("next")
    assert [line.partition(":")[0] for line in lab.sent()] == ["u", "u"]


def test_what_a_run_leaves_in_the_file_is_what_the_next_process_reads(tmp_path: Path) -> None:
    session = create_session(tmp_path, "/work", tmp_path / "locks")
    lab = Lab([calls(call(id="a")), Step("done"), Step(error=AuthFailed("401"))], tools=[says("out")], session=session)
    lab.run("go", "again")
    session.close()
    assert session.path is not None
    again = open_session(session.path, tmp_path / "locks")
    resumed = Lab([Step("hello")], session=again)
    resumed.run("third")
    again.close()
    assert resumed.sent() == ["u:go", "a:(a)", "r[a]:out", "a:done", "u:again", "u:third"]
    assert again.branch()[: len(session.branch())] == session.branch()
