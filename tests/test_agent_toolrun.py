from __future__ import annotations

import asyncio

import pytest
from agent_lab import Lab, Work, call, calls, outline, says
from patience import eventually

from vikingpi.agent.hooks import AgentHooks, Block, HookContext
from vikingpi.decode import Json
from vikingpi.errors import ToolError
from vikingpi.events import MessageEnd, ToolEnd, ToolStart, ToolUpdate
from vikingpi.llm.scripted import Step
from vikingpi.messages import ToolCall, ToolResultMessage
from vikingpi.tools.base import ToolContext, ToolOutcome, text_outcome


def results(lab: Lab) -> list[ToolResultMessage]:
    return [one for one in lab.stored() if isinstance(one, ToolResultMessage)]


def test_calls_run_side_by_side_and_their_results_are_stored_in_call_order() -> None:
    running: list[object] = []
    most: list[int] = []
    ended = [asyncio.Event() for _ in range(4)]

    async def work(arguments: Json, context: ToolContext) -> ToolOutcome:
        running.append(arguments["n"])
        most.append(len(running))
        number = int(arguments["n"])
        await ended[number + 1].wait()
        running.remove(number)
        ended[number].set()
        return text_outcome(f"n={arguments['n']}")

    ended[3].set()
    lab = Lab([calls(call(id="a", n=0), call(id="b", n=1), call(id="c", n=2)), Step("ok")], tools=[Work(work)])
    lab.run("go")
    assert max(most) == 3
    assert [outline(one) for one in results(lab)] == ["r[a]:n=0", "r[b]:n=1", "r[c]:n=2"]
    assert [event.call.id for event in lab.events if isinstance(event, ToolEnd)] == ["c", "b", "a"]


def test_a_result_is_stored_as_soon_as_those_before_it_are() -> None:
    release = asyncio.Event()
    seen: list[str] = []

    async def work(arguments: Json, context: ToolContext) -> ToolOutcome:
        if arguments["n"]:
            await release.wait()
        return text_outcome("out")

    lab = Lab([calls(call(id="a", n=0), call(id="b", n=1)), Step("ok")], tools=[Work(work)])

    async def main() -> None:
        task = asyncio.ensure_future(lab.ask("go"))
        await asyncio.to_thread(eventually, lambda: results(lab))
        seen.extend(one.tool_call_id for one in results(lab))
        release.set()
        await task

    asyncio.run(main())
    assert seen == ["a"]


def test_calls_with_the_same_key_run_one_after_the_other() -> None:
    log: list[str] = []

    async def work(arguments: Json, context: ToolContext) -> ToolOutcome:
        log.append(f"begin {arguments['n']}")
        await asyncio.sleep(0.005)
        log.append(f"end {arguments['n']}")
        return text_outcome("out")

    edit = Work(work, name="edit", key=lambda arguments: "/a")
    write = Work(work, name="write", key=lambda arguments: "/a")
    lab = Lab([calls(call("edit", n=1), call("write", n=2), call("edit", n=3)), Step("ok")], tools=[edit, write])
    lab.run("go")
    assert log == ["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"]


def test_an_unknown_tool_and_bad_arguments_become_error_results() -> None:
    tool = says("out")
    lab = Lab([calls(call("wrok", id="a"), call(id="b", n="many")), Step("ok")], tools=[tool])
    lab.run("go")
    unknown, bad = results(lab)
    assert outline(unknown) == "r[a]:Tool wrok not found" and unknown.is_error
    assert outline(bad).startswith('r[b]:Validation failed for tool "work":\n  - n:') and bad.is_error
    assert tool.ran == []


def test_arguments_are_mended_before_the_tool_gets_them() -> None:
    tool = says("out")
    Lab([calls(call(n="3")), Step("ok")], tools=[tool]).run("go")
    assert tool.ran == [{"n": 3}]


class Guard(AgentHooks):
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def tool_call(self, ctx: HookContext, call: ToolCall) -> Block | None:
        self.asked.append(call.id)
        await asyncio.sleep(0)
        return Block("not today") if call.id == "a" else None


def test_a_hook_may_block_a_call_and_its_reason_is_the_result() -> None:
    guard, tool = Guard(), says("out")
    lab = Lab([calls(call(id="a"), call(id="b")), Step("ok")], tools=[tool], hooks=[guard])
    lab.run("go")
    assert [(outline(one), one.is_error) for one in results(lab)] == [("r[a]:not today", True), ("r[b]:out", False)]
    assert guard.asked == ["a", "b"] and len(tool.ran) == 1


@pytest.mark.parametrize("block", [None, Block("no")])
def test_what_a_user_took_to_decide_is_no_time_of_the_call(block: Block | None) -> None:
    class Asked(AgentHooks):
        async def tool_call(self, ctx: HookContext, call: ToolCall) -> Block | None:
            lab.now += 60_000
            return block

    lab = Lab([calls(call(id="a")), Step("ok")], tools=[says("out")], hooks=[Asked()])
    lab.run("go")
    (result,) = results(lab)
    assert result.duration_ms is not None and result.duration_ms < 100


def test_whatever_a_tool_raises_becomes_an_error_result() -> None:
    async def refuses(arguments: Json, context: ToolContext) -> ToolOutcome:
        raise ToolError("ENOENT: no such file")

    async def breaks(arguments: Json, context: ToolContext) -> ToolOutcome:
        raise KeyError("path")

    lab = Lab(
        [calls(call("refuses", id="a"), call("breaks", id="b")), Step("ok")],
        tools=[Work(refuses, name="refuses"), Work(breaks, name="breaks")],
    )
    lab.run("go")
    assert [outline(one) for one in results(lab)] == ["r[a]:ENOENT: no such file", "r[b]:KeyError: 'path'"]
    assert all(one.is_error for one in results(lab))


def test_output_is_shown_while_a_tool_runs_and_durations_are_kept() -> None:
    async def work(arguments: Json, context: ToolContext) -> ToolOutcome:
        context.update("")
        context.update("line 1\n")
        return text_outcome("line 1\nline 2\n", details={"lines": 2})

    lab = Lab([calls(call(id="a")), Step("ok")], tools=[Work(work)])
    lab.run("go")
    kinds = (ToolStart, ToolUpdate, ToolEnd, MessageEnd)
    shown = [event for event in lab.events if isinstance(event, kinds)][2:6]
    assert [type(event).__name__ for event in shown] == ["ToolStart", "ToolUpdate", "ToolUpdate", "ToolEnd"]
    assert [event.text for event in shown if isinstance(event, ToolUpdate)] == ["", "line 1\n"]
    (result,) = results(lab)
    assert result.details == {"lines": 2} and result.duration_ms is not None and result.duration_ms > 0


def test_lone_surrogates_in_output_are_replaced_before_anybody_sees_them() -> None:
    lab = Lab([calls(call(id="a")), Step("ok")], tools=[says("bad\udcff.txt")])
    lab.run("go")
    ended = [event.result for event in lab.events if isinstance(event, ToolEnd)]
    assert outline(ended[0]) == "r[a]:bad\ufffd.txt" == lab.sent()[-1]
