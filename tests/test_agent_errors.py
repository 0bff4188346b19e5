from __future__ import annotations

from agent_lab import Lab, call, calls, outline, says

from vikingpi.agent.answer import overflowed
from vikingpi.agent.hooks import AgentHooks, HookContext, TurnEnd
from vikingpi.errors import AuthFailed, BadResponse, RateLimited
from vikingpi.events import RetryEnd, RetryStart
from vikingpi.llm.scripted import ScriptedCall, Step, scripted_model
from vikingpi.messages import AssistantMessage, Usage

BUSY = BadResponse("503: overloaded", status=503, retryable=True)


def test_a_failed_request_is_made_again_and_its_answer_edited_out() -> None:
    lab = Lab([Step(error=BUSY), Step(error=BUSY), Step("fine")])
    answer = lab.run("go")
    assert answer is not None and answer.text == "fine"
    assert lab.slept == [2.0, 4.0]
    assert lab.types()[2:] == ["message", "message", "context_edit", "message", "context_edit", "message"]
    edits = [(edit.raw["targetId"], edit.raw["replacement"]) for edit in lab.entries("context_edit")]
    failed = [entry.id for entry in lab.entries("message")[1:3]]
    assert edits == [(one, None) for one in failed]
    assert lab.of(RetryStart) == [
        RetryStart(1, 3, 2000, "503: overloaded"),
        RetryStart(2, 3, 4000, "503: overloaded"),
    ]
    assert lab.of(RetryEnd) == [RetryEnd(True, 2)]


def test_the_last_failure_stays_and_is_the_answer() -> None:
    lab = Lab([Step(error=BUSY)] * 4)
    answer = lab.run("go")
    assert answer is not None and (answer.stop_reason, answer.error_message) == ("error", "503: overloaded")
    assert lab.agent.last_error is BUSY
    assert len(lab.entries("context_edit")) == 3 and lab.types()[-1] == "message"
    assert lab.of(RetryEnd) == [RetryEnd(False, 3, "503: overloaded")]


def test_what_will_not_pass_is_not_tried_again() -> None:
    lab = Lab([Step(error=AuthFailed("401: wrong key", status=401, hint="check the key"))])
    answer = lab.run("go")
    assert answer is not None and answer.error_message == "401: wrong key" and lab.slept == []
    assert lab.agent.last_error is not None and lab.agent.last_error.hint == "check the key"
    assert lab.names().count("TurnStart") == 1 and lab.names()[-2:] == ["AgentEnd", "AgentSettled"]


def test_the_wait_is_never_shorter_than_the_provider_asked_for() -> None:
    lab = Lab([Step(error=RateLimited("429", retry_after=7.0)), Step("fine")])
    lab.run("go")
    assert 7.0 <= lab.slept[0] < 8.0


def test_a_stream_that_ends_early_is_no_answer_and_its_calls_never_run() -> None:
    tool = says("out")
    cut = Step("I will run", calls=(call(id="a"),), cut=True)
    lab = Lab([cut, Step("whole")], tools=[tool])
    answer = lab.run("go")
    assert answer is not None and answer.text == "whole" and tool.ran == []
    assert lab.sent() == ["u:go"]


def test_a_stream_that_never_gets_whole_is_an_error_in_the_end() -> None:
    lab = Lab([Step("half", cut=True)] * 4)
    answer = lab.run("go")
    assert answer is not None and answer.stop_reason == "error" and answer.text == "half"
    assert answer.error_message == "the answer ended before its finish marker"


def test_calls_of_an_answer_that_was_cut_by_length_fail_unexecuted() -> None:
    tool = says("out")
    lab = Lab([Step(calls=(call(id="a"), call(id="b")), reason="length"), Step("ok")], tools=[tool])
    answer = lab.run("go")
    assert answer is not None and answer.text == "ok" and tool.ran == []
    assert [line.partition(":")[2][:22] for line in lab.sent()[2:]] == ["This call did not run:"] * 2


def test_a_model_that_only_makes_calls_too_long_for_it_is_not_asked_for_ever() -> None:
    lab = Lab([Step(calls=(call(),), reason="length")] * 9, tools=[says("out")])
    answer = lab.run("go")
    assert answer is not None and answer.stop_reason == "length" and len(lab.provider.requests) == 3


def test_a_text_that_was_cut_by_length_is_shown_as_such() -> None:
    answer = Lab([Step("to be continued", reason="length")]).run("go")
    assert answer is not None and (answer.stop_reason, answer.text) == ("length", "to be continued")


def test_an_answer_that_the_provider_ended_as_an_error_says_so() -> None:
    answer = Lab([Step("I", reason="error")]).run("go")
    assert answer is not None and answer.error_message == "The provider ended the answer with 'error'"


def test_hooks_see_only_attempts_that_stay() -> None:
    class Watch(AgentHooks):
        turns: list[TurnEnd]

        async def turn_end(self, ctx: HookContext, turn: TurnEnd) -> None:
            self.turns.append(turn)

    watch = Watch()
    watch.turns = []
    Lab([Step(error=BUSY), Step("fine")], hooks=[watch]).run("go")
    assert [(turn.message.text, turn.last) for turn in watch.turns] == [("fine", True)]


def test_arguments_that_are_no_json_become_an_error_result() -> None:
    tool = says("out")
    lab = Lab([calls(ScriptedCall("work", {}, "a", '{"n": ')), Step("sorry")], tools=[tool])
    lab.run("go")
    assert tool.ran == [] and "arguments: not a JSON object" in outline(lab.stored()[2])


def test_a_full_window_that_the_provider_names_is_an_overflow_whatever_the_figures_say() -> None:
    model = scripted_model(context_window=1_000_000)
    cut = AssistantMessage((), "scripted", "scripted", "m", Usage(200_000, 10), "length", 1)
    assert not overflowed(cut._replace(raw_stop_reason="max_tokens"), None, model, 200_010)
    assert overflowed(cut._replace(raw_stop_reason="model_context_window_exceeded"), None, model, 0)
