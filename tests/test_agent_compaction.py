from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from agent_lab import Lab, call, calls, outline, says

from vikingpi.agent.context import message_size, overhead
from vikingpi.agent.hooks import AgentHooks, CompactionPrep, CompactionResult, HookContext
from vikingpi.agent.summary import SYSTEM
from vikingpi.config.model import Compaction
from vikingpi.errors import BadResponse, ContextTooLong
from vikingpi.events import CompactionEnd, CompactionStart
from vikingpi.llm.base import Request
from vikingpi.llm.scripted import Step, scripted_model
from vikingpi.messages import (
    OVERVIEW_MARKER,
    AssistantMessage,
    Message,
    TextPart,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
    user_text,
)
from vikingpi.session.file import SessionLog, memory_session

SMALL = scripted_model(context_window=8000, max_tokens=2000)
SETTINGS = Compaction(reserve_tokens=2000, keep_recent_tokens=1000)


def is_summary(request: Request) -> bool:
    return request.system == SYSTEM


def tokens_of(request: Request) -> int:
    return overhead(request.system, request.tools).tokens + sum(message_size(one).tokens for one in request.messages)


def script(answer: Callable[[Request], Step], summary: str | Step = "## Goal\nsummed up") -> Callable[[Request], Step]:
    """Answer summaries with `summary` and all else with `answer`."""
    made = Step(summary) if isinstance(summary, str) else summary
    return lambda request: made if is_summary(request) else answer(request)


def in_order(*steps: Step) -> Callable[[Request], Step]:
    left = iter(steps)
    return lambda request: next(left)


def small(answer: Callable[[Request], Step], summary: str | Step = "## Goal\nsummed up", **options: object) -> Lab:
    return Lab(
        script(answer, summary),
        model=SMALL,
        compaction=SETTINGS,
        tools=[says("r" * 8000)],
        enforce_window=True,
        session=session if isinstance(session := options.get("session"), SessionLog) else None,
        hooks=[hook] if isinstance(hook := options.get("hook"), AgentHooks) else [],
    )


def summaries(lab: Lab) -> list[str]:
    return [text_of(request.messages[0]) for request in lab.provider.requests if is_summary(request)]


def ends(lab: Lab) -> list[CompactionEnd]:
    return [event for event in lab.events if isinstance(event, CompactionEnd)]


def words(count: int, word: str = "blah") -> str:
    return f"{word} " * count


def test_a_large_history_becomes_a_summary_before_the_next_request() -> None:
    lab = small(lambda request: Step(words(760)))
    lab.run(*(f"{name} {words(200)}" for name in ("ALPHA", "BETA", "GAMMA", "DELTA", "EPSILON", "ZETA")))
    (entry,) = lab.entries("compaction")
    assert entry.raw["summary"] == "## Goal\nsummed up" and entry.raw["fromHook"] is False
    assert entry.raw["details"] == {"readFiles": [], "modifiedFiles": []}
    assert entry.raw["usage"]["output"] > 0 and entry.raw["tokensBefore"] > 6000
    kept = lab.session.get(entry.raw["firstKeptEntryId"])
    assert kept is not None and kept.type == "message"
    (end,) = ends(lab)
    assert end.reason == "threshold" and not end.error and end.tokens_after < 3000 < end.tokens_before
    assert "## Goal\nsummed up" in lab.sent()[0] and "ALPHA" not in " ".join(lab.sent())
    assert "ALPHA" in summaries(lab)[0]


def test_a_summary_request_has_no_tools_and_a_limited_answer() -> None:
    lab = small(lambda request: Step(words(760)))
    lab.run(*(words(200) for _ in range(6)))
    (request,) = [request for request in lab.provider.requests if is_summary(request)]
    assert request.tools == () and request.max_tokens == 1600 and len(request.messages) == 1


def test_the_next_summary_continues_the_one_before_and_carries_its_files() -> None:
    lab = small(
        in_order(
            calls(call("read", path="a.txt"), call("write", path="b.txt"), call("read", path="b.txt")),
            *(Step(words(760)) for _ in range(12)),
        )
    )
    lab.run(*(f"n{n} {words(200)}" for n in range(12)))
    first, second = lab.entries("compaction")[:2]
    files = "<read-files>\na.txt\n</read-files>\n\n<modified-files>\nb.txt\n</modified-files>"
    assert first.raw["details"] == second.raw["details"] == {"readFiles": ["a.txt"], "modifiedFiles": ["b.txt"]}
    assert first.raw["summary"] == second.raw["summary"] == f"## Goal\nsummed up\n\n{files}"
    assert "<previous-summary>\n## Goal\nsummed up\n</previous-summary>" in summaries(lab)[1]
    assert "[User]: n0 " in summaries(lab)[0] and "[User]: n0 " not in summaries(lab)[1]


def test_a_large_first_message_and_little_behind_it_are_compacted_too() -> None:
    lab = small(lambda request: Step("ok"))
    lab.run(words(4500), words(300), words(300))
    assert [(end.reason, end.error) for end in ends(lab)] == [("threshold", "")]
    assert words(4500).strip() not in "".join(lab.sent())


def test_many_tool_calls_in_one_turn_compact_between_turns_and_the_work_goes_on() -> None:
    lab = small(in_order(*(calls(call(id=f"c{n}")) for n in range(6)), Step("finished")))
    answer = lab.run("do six things")
    assert answer is not None and (answer.text, answer.stop_reason) == ("finished", "stop")
    assert lab.entries("compaction") and all(end.reason == "threshold" for end in ends(lab))
    assert "**Turn Context (split turn):**" in lab.entries("compaction")[0].raw["summary"]
    assert not any(isinstance(one, AssistantMessage) and one.stop_reason == "error" for one in lab.stored())


def test_no_cut_separates_a_call_from_its_result() -> None:
    lab = small(in_order(*(calls(call(id=f"c{n}")) for n in range(6)), Step("finished")))
    lab.run("go")
    for request in lab.provider.requests:
        asked: set[str] = set()
        for message in request.messages:
            if isinstance(message, AssistantMessage):
                asked = {one.id for one in message.calls}
            elif isinstance(message, ToolResultMessage):
                assert message.tool_call_id in asked
    for line in (line for request in range(len(lab.provider.requests)) for line in lab.sent(request)):
        assert "No result provided" not in line


def test_an_overflow_is_compacted_and_the_request_made_again_once() -> None:
    told = ContextTooLong("400: context_length_exceeded", status=400)
    lab = Lab(script(in_order(Step(words(40)), Step(words(40)), Step(error=told), Step("recovered"))), model=SMALL)
    answer = lab.run("one", "two", "three")
    assert answer is not None and answer.text == "recovered"
    assert lab.types()[-4:] == ["message", "context_edit", "compaction", "message"]
    assert [end.reason for end in ends(lab)] == ["overflow"]
    edit = lab.entries("context_edit")[0]
    assert lab.session.branch()[-4].id == edit.raw["targetId"]
    assert lab.sent()[-1] == "u:three"


def test_an_answer_that_filled_the_window_counts_as_overflow() -> None:
    full = Step("cut off", reason="length", usage=Usage(input=7990, output=10))
    lab = Lab(script(in_order(Step(words(40)), full, Step("recovered"))), model=SMALL)
    answer = lab.run(words(900), "two")
    assert answer is not None and answer.text == "recovered"
    assert lab.sent()[-1] == "u:two" and len(lab.entries("compaction")) == 1


def test_a_prompt_that_never_fits_ends_in_one_plain_error() -> None:
    lab = small(lambda request: Step("never"))
    answer = lab.run(f"huge {words(9000)}")
    assert answer is not None and answer.stop_reason == "error"
    text = answer.error_message or ""
    assert "does not fit the context window of scripted (8000 tokens) and nothing can be compacted." in text
    assert "the newest prompt about 11252" in text
    assert len(lab.provider.requests) == 1 and lab.entries("compaction") == []


def test_a_request_that_overflows_again_after_compaction_ends_in_one_plain_error() -> None:
    told = ContextTooLong("400: context_length_exceeded", status=400)
    lab = Lab(script(in_order(Step("ok"), Step(error=told), Step(error=told))), model=SMALL)
    answer = lab.run("one", "two")
    assert answer is not None and answer.stop_reason == "error"
    assert "(8000 tokens) even after a compaction." in (answer.error_message or "")
    assert len(lab.entries("compaction")) == 1 and len(lab.provider.requests) == 4


def test_a_prompt_that_is_too_big_for_the_window_is_not_compacted_over_and_over() -> None:
    heavy = Lab(
        script(lambda request: Step(words(100))),
        model=SMALL,
        compaction=SETTINGS,
    )
    heavy.agent.deps = heavy.agent.deps._replace(system=lambda: words(6000, "rule"))
    heavy.run(*(f"n{n} {words(300)}" for n in range(8)))
    assert 1 <= len(heavy.of(CompactionStart)) <= 3


def test_one_large_result_is_survived_by_compaction_or_named_in_an_error() -> None:
    lab = small(in_order(Step("hi"), calls(call(id="a")), Step("unreached")))
    lab.agent.deps = lab.agent.deps._replace(tools=(says("x" * 120_000),))
    answer = lab.run(words(500), "read it")
    assert answer is not None and answer.stop_reason == "error"
    assert "the largest tool result about 30000" in (answer.error_message or "")
    assert len(lab.entries("compaction")) <= 2


@pytest.mark.parametrize(
    "summary",
    [Step("  "), Step("half", reason="length"), Step(error=BadResponse("400: no", status=400))],
    ids=["empty", "cut by length", "refused"],
)
def test_a_summary_that_fails_leaves_the_history_and_the_prompt_goes_on(summary: Step) -> None:
    lab = small(lambda request: Step(words(700)), summary)
    answer = lab.run(*(f"n{n} {words(200)}" for n in range(6)))
    assert answer is not None and answer.stop_reason == "stop"
    assert lab.entries("compaction") == []
    assert ends(lab)[0].error.startswith("The summary failed: ") and ends(lab)[0].reason == "threshold"
    assert lab.sent(3)[0].startswith("u:n0 ")


def test_a_failed_summary_is_not_tried_again_at_once() -> None:
    lab = small(lambda request: Step("ok"), Step(""))
    for _ in range(8):
        lab.session.append_message(user_text(words(700), 1))
    lab.run("a", "b", "c")
    assert len(ends(lab)) == 1


def test_a_summary_request_that_fails_in_passing_is_made_again() -> None:
    tries = iter([Step(error=BadResponse("503", status=503, retryable=True)), Step("good")])
    lab = Lab(
        lambda request: next(tries) if is_summary(request) else Step(words(700)), model=SMALL, compaction=SETTINGS
    )
    lab.run(*(words(200) for _ in range(6)))
    assert lab.entries("compaction")[0].raw["summary"] == "good" and lab.slept == [2.0]


def test_a_history_larger_than_the_window_is_shortened_for_its_own_summary() -> None:
    session = memory_session("/work")
    for n in range(30):
        session.append_message(user_text(f"n{n} {words(1500)}", 1))
    lab = small(lambda request: Step("ok"), session=session)
    answer = lab.run("go on")
    assert answer is not None and answer.text == "ok"
    assert "n0 blah" in summaries(lab)[0] and "more characters]" in summaries(lab)[0]


def manual(lab: Lab, instructions: str = "") -> str:
    return asyncio.run(lab.agent.compact(instructions))


def test_compacting_on_request_takes_instructions() -> None:
    lab = Lab(script(lambda request: Step("ok")), compaction=Compaction(keep_recent_tokens=10))
    lab.run(words(50), words(50))
    assert manual(lab, "keep the port") == ""
    assert "Also: keep the port" in summaries(lab)[0]
    assert [(end.reason, end.error) for end in ends(lab)] == [("manual", "")]
    assert lab.types()[-1] == "compaction"
    assert manual(lab) == "Nothing to compact (session too small)"


def test_a_small_session_has_nothing_to_compact() -> None:
    lab = Lab(script(lambda request: Step("ok")))
    lab.run("hi")
    assert manual(lab) == "Nothing to compact (session too small)"
    assert ends(lab) == []


def test_an_abort_ends_a_compaction_and_keeps_the_history() -> None:
    lab = Lab(script(lambda request: Step("ok"), Step("slow", delay=30)), compaction=Compaction(keep_recent_tokens=10))
    lab.run(words(50), words(50))
    lab.when[CompactionStart] = lab.agent.abort
    assert manual(lab) == "Compaction aborted"
    assert lab.entries("compaction") == [] and ends(lab)[0].error == "aborted"


def test_labels_and_states_right_before_the_cut_stay_with_it() -> None:
    lab = Lab(script(lambda request: Step("ok")), compaction=Compaction(keep_recent_tokens=60))
    lab.run(words(100))
    state = lab.session.append_custom("ov-takeover", {})
    lab.session.append("label", {"targetId": state.id, "label": "here"})
    lab.run(words(50))
    assert manual(lab) == ""
    assert lab.entries("compaction")[0].raw["firstKeptEntryId"] == state.id


class Boundary(AgentHooks):
    """Shows the first user turns as an overview, as takeover does."""

    def __init__(self, covered: int, result: Callable[[CompactionPrep], CompactionResult] | None = None) -> None:
        self.preps: list[CompactionPrep] = []
        self.stored: list[str] = []
        self.covered = covered
        self._result = result

    def context(self, ctx: HookContext, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        if not self.covered or (isinstance(messages[0], UserMessage) and messages[0].kind == "compaction"):
            return messages
        overview = UserMessage(
            (TextPart(f"{OVERVIEW_MARKER}\nEarlier conversation.\n\n## Key Facts\nport 7071"),), 1, None, "overview"
        )
        kept = messages[2 * self.covered :]
        shown = kept[0]._replace(content=(TextPart("<recall>secret</recall>"), *kept[0].content))
        return (overview, shown, *kept[1:])

    async def session_before_compact(self, ctx: HookContext, prep: CompactionPrep) -> CompactionResult | None:
        self.preps.append(prep)
        return self._result(prep) if self._result else None

    async def session_compact(self, ctx: HookContext, entry_id: str) -> None:
        self.stored.append(entry_id)


def behind_a_boundary(hook: Boundary) -> Lab:
    lab = Lab(script(lambda request: Step("ok")), hooks=[hook], compaction=Compaction(keep_recent_tokens=60))
    hook.covered, covered = 0, hook.covered
    lab.run(f"ALPHA {words(100)}", f"BETA {words(100)}", f"GAMMA {words(100)}", f"DELTA {words(50)}")
    hook.covered = covered
    return lab


def test_behind_a_boundary_the_overview_is_the_previous_summary_and_the_range_begins_after_it() -> None:
    hook = Boundary(2)
    lab = behind_a_boundary(hook)
    assert manual(lab) == ""
    (asked,) = summaries(lab)
    assert "<previous-summary>\n## Key Facts\nport 7071\n</previous-summary>" in asked
    assert "GAMMA" in asked and "BETA" not in asked and "secret" not in asked
    (entry,) = lab.entries("compaction")
    kept = lab.session.get(entry.raw["firstKeptEntryId"])
    assert kept is not None and "DELTA" in str(kept.raw)
    assert hook.stored == [entry.id]


def test_kept_turns_that_are_too_large_together_are_compacted_behind_a_boundary() -> None:
    hook = Boundary(0)
    lab = small(lambda request: Step("ok"), hook=hook)
    lab.run(*(f"{name} {words(1300)}" for name in ("ALPHA", "BETA", "GAMMA")))
    hook.covered = 1
    lab.run(f"DELTA {words(1300)}", f"EPSILON {words(1300)}")
    assert [(end.reason, end.error) for end in ends(lab)] == [("threshold", "")]
    (asked,) = summaries(lab)
    assert "port 7071" in asked and "BETA" in asked and "ALPHA" not in asked
    assert lab.sent()[-1].startswith("u:EPSILON") and tokens_of(lab.provider.requests[-1]) < 6000


def test_a_hook_may_give_the_summary() -> None:
    hook = Boundary(
        2, lambda prep: CompactionResult("from the store", prep.first_kept_entry_id, 7, {"source": "openviking"})
    )
    lab = behind_a_boundary(hook)
    assert manual(lab, "be short") == ""
    (entry,) = lab.entries("compaction")
    assert (entry.raw["summary"], entry.raw["fromHook"]) == ("from the store", True)
    assert (entry.raw["tokensBefore"], entry.raw["details"]) == (7, {"source": "openviking"})
    assert summaries(lab) == [] and ends(lab)[0].from_hook
    assert (hook.preps[0].reason, hook.preps[0].instructions) == ("manual", "be short")


def test_a_hook_result_that_names_an_unknown_entry_is_not_used() -> None:
    lab = behind_a_boundary(Boundary(2, lambda prep: CompactionResult("x", "nowhere", 7, {})))
    assert manual(lab) == ""
    assert lab.entries("compaction")[0].raw["fromHook"] is False


def test_tokens_are_the_real_usage_plus_an_estimate_of_what_follows() -> None:
    lab = Lab([Step("ok", usage=Usage(input=900, output=100))])
    lab.run("hi")
    assert lab.agent.context_tokens() == 1000
    lab.session.append_message(user_text("x" * 400, 1))
    assert lab.agent.context_tokens() == 1100


def test_without_usage_the_last_good_usage_and_an_estimate_are_used() -> None:
    lab = Lab([Step("ok", usage=Usage(input=900, output=100)), Step("y" * 400, usage=Usage())])
    lab.run("hi", "x" * 400)
    assert lab.agent.context_tokens() == 1200
    never = Lab([Step("ok", usage=Usage())])
    never.run("x" * 4000)
    assert 1000 <= never.agent.context_tokens() <= 1100


def test_system_prompt_and_tools_count_where_no_usage_is_known() -> None:
    lab = Lab([])
    bare = lab.agent.context_tokens()
    lab.agent.deps = lab.agent.deps._replace(tools=(says("out"),), system=lambda: "s" * 4000)
    assert lab.agent.context_tokens() > bare + 1000


def test_usage_from_before_a_compaction_or_a_move_of_the_boundary_is_not_trusted() -> None:
    hook = Boundary(0)
    lab = Lab(
        script(lambda request: Step("ok", usage=Usage(input=4000))),
        hooks=[hook],
        compaction=Compaction(keep_recent_tokens=60),
    )
    lab.run(words(100), words(100))
    assert lab.agent.context_tokens() == 4000
    hook.covered = 1
    assert lab.agent.context_tokens() < 1000
    hook.covered = 0
    assert lab.agent.context_tokens() == 4000
    assert manual(lab) == ""
    assert lab.agent.context_tokens() < 1000


def test_a_resumed_session_shows_its_usage_before_the_first_request() -> None:
    first = Lab([Step("ok", usage=Usage(input=3900, output=100))])
    first.run("hi")
    again = Lab([], session=first.session)
    assert again.agent.context_tokens() == 4000


WRONG: dict[str, Callable[[int], Usage]] = {
    "too little": lambda tokens: Usage(121, 10),
    "too much": lambda tokens: Usage(10**9, 10),
    "too much from the cache": lambda tokens: Usage(10, 10, 10**9),
    "too long an answer": lambda tokens: Usage(tokens, 10**9),
}


@pytest.mark.parametrize("name", WRONG)
def test_usage_that_cannot_be_right_decides_nothing(name: str) -> None:
    wrong = small(lambda request: Step(words(760), usage=WRONG[name](tokens_of(request))))
    right = small(lambda request: Step(words(760)))
    for lab in (wrong, right):
        lab.run(*(f"n{n} {words(200)}" for n in range(6)))
    (end,), (expected,) = ends(wrong), ends(right)
    assert (end.reason, end.error) == ("threshold", "")
    assert end.tokens_before == pytest.approx(expected.tokens_before, rel=0.2)
    assert end.tokens_after == pytest.approx(expected.tokens_after, rel=0.2)
    assert wrong.agent.context_tokens() == pytest.approx(right.agent.context_tokens(), rel=0.2)


def test_usage_that_cannot_be_right_fills_no_window() -> None:
    lab = Lab([Step("cut off", reason="length", usage=Usage(10**9))])
    answer = lab.run("hi")
    assert answer is not None and (answer.text, answer.stop_reason) == ("cut off", "length")
    assert len(lab.provider.requests) == 1


def test_the_figures_of_a_compaction_are_on_the_scale_of_the_server() -> None:
    shares: list[float] = []
    for factor in (0.4, 1.0, 2.5):

        def counts(request: Request, factor: float = factor) -> Step:
            return Step(words(100), usage=Usage(round(factor * tokens_of(request)), round(factor * 125)))

        lab = Lab(script(counts), compaction=Compaction(keep_recent_tokens=200))
        lab.run(*(words(100) for _ in range(5)))
        assert manual(lab) == ""
        (end,) = ends(lab)
        assert end.tokens_after == lab.agent.context_tokens() < end.tokens_before
        shares.append(end.tokens_after / end.tokens_before)
    assert shares == pytest.approx([shares[1]] * 3, rel=0.1)


def test_thoughts_need_not_count_for_the_server() -> None:
    lab = Lab([Step("ok", thinking=words(4000), usage=Usage(20, 5)), Step("fine", usage=Usage(60, 5))])
    lab.run("hi", "more")
    assert lab.agent.context_tokens() == 65


def test_wide_characters_count_more_than_others() -> None:
    lab = Lab([])
    lab.session.append_message(user_text("字" * 4000, 1))
    assert lab.agent.context_tokens() >= 6000


def test_switched_off_it_neither_compacts_nor_retries_an_overflow() -> None:
    told = ContextTooLong("400: too long", status=400)
    lab = Lab([Step(error=told)], model=SMALL, compaction=Compaction(enabled=False))
    answer = lab.run(words(9000))
    assert answer is not None and answer.error_message == "400: too long"
    assert ends(lab) == [] and [outline(one)[:2] for one in lab.stored()] == ["u:", "a:"]


def test_what_is_typed_while_a_run_is_compacted_is_still_answered() -> None:
    lab = small(lambda request: Step(words(760)))
    lab.when[CompactionStart] = lambda: lab.agent.steer("one more")
    lab.run(*(words(200) for _ in range(5)))
    assert lab.sent()[-1] == "u:one more" and not lab.agent.inbox
    assert lab.names()[-2:] == ["AgentEnd", "AgentSettled"]


def full_window(prompts: int) -> Lab:
    """A server that says after every answer that the window is full."""
    small = scripted_model()._replace(context_window=30_000, max_tokens=4096)
    lab = Lab([Step(words(300), usage=Usage(28_900, 100)) for _ in range(60)], model=small)
    lab.run(*(words(300) for _ in range(prompts)))
    return lab


def test_a_compaction_in_vain_is_not_repeated_after_every_prompt() -> None:
    lab = full_window(14)
    (end,) = ends(lab)
    assert end.tokens_after > 30_000 - 16_384


def test_a_compaction_in_vain_says_nothing_of_another_window() -> None:
    lab = full_window(12)
    lab.agent.use_model(lab.agent.deps.model._replace(context_window=29_000), "off")
    lab.run(words(300))
    assert len(ends(lab)) == 2
