from __future__ import annotations

import asyncio
import random

import pytest
from agent_lab import Lab, call, calls, outline, says, sleeps

from vikingpi.agent.hooks import AgentHooks, HookContext, PromptPatch, TurnEnd
from vikingpi.errors import BadResponse
from vikingpi.events import AgentSettled, MessageUpdate, RetryEnd, RetryStart, ToolEnd, ToolUpdate
from vikingpi.llm.scripted import Step
from vikingpi.messages import AssistantMessage, ToolResultMessage, UserMessage, text_of


def cancelled(lab: Lab, text: str = "go") -> None:
    """Run a prompt in a task that the end of a tool or a piece of text cancels from outside."""

    async def main() -> None:
        task = asyncio.ensure_future(lab.ask(text))
        for kind in (ToolUpdate, MessageUpdate):
            lab.when[kind] = task.cancel
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_an_abort_in_the_stream_leaves_one_message_with_the_partial_text() -> None:
    lab = Lab([Step("one two three", pause=0.01)])
    lab.when[MessageUpdate] = lab.agent.abort
    answer = lab.run("go")
    assert answer is not None and answer.stop_reason == "aborted"
    assert answer.error_message == "Operation aborted" and answer.text == "one"
    assert lab.stored()[1:] == (answer,)
    assert lab.names()[-4:] == ["MessageEnd", "TurnEnd", "AgentEnd", "AgentSettled"]
    assert lab.of(AgentSettled) == [AgentSettled(aborted=True)]


def test_an_abort_of_tools_answers_every_call_and_adds_an_empty_aborted_message() -> None:
    done = says("quick", name="quick")
    lab = Lab(
        [calls(call("quick", id="a"), call("slow", id="b"), call("slow", id="c"))],
        tools=[done, sleeps(name="slow", tail="so far\n")],
    )
    lab.when[ToolUpdate] = lab.agent.abort
    answer = lab.run("go")
    assert [outline(one) for one in lab.stored()[2:]] == [
        "r[a]:quick",
        "r[b]:so far\n\nCommand aborted",
        "r[c]:so far\n\nCommand aborted",
        "a:",
    ]
    results = [one for one in lab.stored() if isinstance(one, ToolResultMessage)]
    assert [one.is_error for one in results] == [False, True, True]
    assert answer is not None and (answer.stop_reason, answer.content) == ("aborted", ())
    assert answer.error_message == "Operation aborted" and answer.usage.total == 0
    assert len(lab.of(ToolEnd)) == 3


def test_a_cancellation_from_outside_leaves_the_same_and_passes() -> None:
    lab = Lab([calls(call("slow", id="a"))], tools=[sleeps(name="slow", tail="x")])

    async def main() -> None:
        task = asyncio.ensure_future(lab.ask("go"))
        lab.when[ToolUpdate] = task.cancel
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert [outline(one) for one in lab.stored()] == ["u:go", "a:(a)", "r[a]:x\n\nCommand aborted", "a:"]
    assert lab.names()[-2:] == ["AgentEnd", "AgentSettled"]
    assert lab.events[-1] == AgentSettled(aborted=True)

    text = Lab([Step("one two", pause=0.01)])
    cancelled(text)
    last = text.stored()[-1]
    assert isinstance(last, AssistantMessage) and (last.text, last.stop_reason) == ("one", "aborted")


def test_a_cancellation_wins_over_an_abort_of_the_same_moment() -> None:
    lab = Lab([Step("one two", pause=0.01)])

    async def main() -> None:
        task = asyncio.ensure_future(lab.ask("go"))

        def both() -> None:
            lab.agent.abort()
            task.cancel()

        lab.when[MessageUpdate] = both
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_after_an_abort_the_next_prompt_is_sent_without_the_aborted_text() -> None:
    lab = Lab([Step("one two", pause=0.01), Step("fine")])
    lab.when[MessageUpdate] = lab.agent.abort

    async def main() -> None:
        await lab.ask("first")
        lab.when.clear()
        await lab.ask("second")

    asyncio.run(main())
    assert lab.sent() == ["u:first", "u:second"]


def test_an_abort_while_waiting_for_a_retry_ends_the_wait() -> None:
    lab = Lab([Step(error=BadResponse("503", status=503, retryable=True))])
    lab.when[RetryStart] = lab.agent.abort
    answer = lab.run("go")
    assert answer is not None and answer.stop_reason == "aborted"
    assert lab.of(RetryEnd) == [RetryEnd(False, 1, "Operation aborted")]
    assert len(lab.provider.requests) == 1
    assert [outline(one) for one in lab.stored()] == ["u:go", "a:"]


class Slow(AgentHooks):
    """Blocks where it is told to; `turns` are the turn ends that it saw."""

    def __init__(self) -> None:
        self.turns: list[TurnEnd] = []

    async def before_agent_start(self, ctx: HookContext, prompt: UserMessage) -> PromptPatch | None:
        if text_of(prompt) == "block":
            await asyncio.sleep(60)
        return None

    async def turn_end(self, ctx: HookContext, turn: TurnEnd) -> None:
        self.turns.append(turn)


def test_an_abort_before_the_first_request_keeps_the_prompt() -> None:
    hook = Slow()
    lab = Lab([], hooks=[hook])

    async def main() -> AssistantMessage | None:
        task = asyncio.ensure_future(lab.ask("block"))
        await asyncio.sleep(0.01)
        lab.agent.abort()
        return await task

    answer = asyncio.run(main())
    assert answer is not None and answer.stop_reason == "aborted"
    assert [outline(one) for one in lab.stored()] == ["u:block", "a:"]
    assert [(turn.message, turn.last) for turn in hook.turns] == [(answer, True)]


def test_an_abort_at_the_very_end_does_not_hit_the_caller() -> None:
    lab = Lab([Step("done"), Step("more")])
    lab.when[AgentSettled] = lab.agent.abort

    async def main() -> list[AssistantMessage | None]:
        first = await lab.ask("one")
        await asyncio.sleep(0)
        return [first, await lab.ask("two")]

    assert [one.text for one in asyncio.run(main()) if one] == ["done", "more"]


def test_what_was_typed_during_a_tool_survives_an_abort_at_any_moment() -> None:
    chance = random.Random(5)
    for _ in range(30):
        lab = Lab(
            [calls(call(id="a"), call(id="b")), Step("x y z", pause=0.001), Step("x", pause=0.001)],
            tools=[says("out")],
        )

        async def main(lab: Lab = lab) -> None:
            task = asyncio.ensure_future(lab.ask("go"))
            steps = chance.randrange(12)
            for step in range(steps + chance.randrange(12)):
                if step == steps:
                    lab.agent.steer("use tabs")
                await asyncio.sleep(0)
            if not lab.agent.inbox and "u:use tabs" not in map(outline, lab.stored()):
                lab.agent.steer("use tabs")
            lab.agent.abort()
            await task

        asyncio.run(main())
        stored = [outline(one) for one in lab.stored()].count("u:use tabs")
        assert stored + len(lab.agent.inbox.drain()) == 1
        asked = [one.id for message in lab.stored() if isinstance(message, AssistantMessage) for one in message.calls]
        answered = [one.tool_call_id for one in lab.stored() if isinstance(one, ToolResultMessage)]
        assert asked == answered
