from __future__ import annotations

import asyncio

import pytest

from vikingpi.errors import BadResponse, ContextTooLong, RateLimited
from vikingpi.llm.assemble import MessageBuilder
from vikingpi.llm.base import Request, TextDelta
from vikingpi.llm.scripted import ScriptedCall, ScriptedProvider, Step, scripted_model
from vikingpi.messages import AssistantMessage, Message, ToolCall, Usage, text_of, user_text

MODEL = scripted_model()


def request(*messages: Message) -> Request:
    return Request("be short", messages or (user_text("hello", 1),), ())


def ask(provider: ScriptedProvider, asked: Request | None = None) -> AssistantMessage:
    async def main() -> AssistantMessage:
        builder = MessageBuilder(MODEL, "off", lambda: 0)
        async for delta in provider.stream(MODEL, asked or request()):
            builder.feed(delta)
        return builder.finish()

    return asyncio.run(main())


def test_steps_are_played_in_order_and_requests_kept() -> None:
    provider = ScriptedProvider([Step("one two"), Step("", calls=(ScriptedCall("bash", {"command": "ls"}),))])
    assert ask(provider).text == "one two"
    message = ask(provider, request(user_text("again", 2)))
    assert message.calls == (ToolCall("call_2_1", "bash", {"command": "ls"}),)
    assert message.stop_reason == "toolUse"
    assert [body["messages"][-1]["content"] for body in provider.bodies] == ["hello", "again"]
    assert text_of(provider.requests[1].messages[0]) == "again"


def test_text_comes_word_by_word_and_is_kept_exactly() -> None:
    text = "  two  spaces\n\n- a list\tand more \n"

    async def main() -> list[str]:
        stream = ScriptedProvider([Step(text)]).stream(MODEL, request())
        return [delta.text async for delta in stream if isinstance(delta, TextDelta)]

    pieces = asyncio.run(main())
    assert "".join(pieces) == text
    assert len(pieces) == 8


def test_a_callable_answers_from_the_request() -> None:
    provider = ScriptedProvider(lambda asked: Step(f"you said {text_of(asked.messages[-1])}"))
    assert ask(provider).text == "you said hello"


def test_usage_counts_what_was_sent_before_as_cached() -> None:
    provider = ScriptedProvider(lambda _: Step("answer"))
    first = ask(provider).usage
    second = ask(provider, request(user_text("hello", 1), user_text("more", 2))).usage
    assert (first.cache_read, first.output) == (0, 2)
    assert second.cache_read == first.input
    assert second.input > 0
    assert second.cost.total > 0
    assert ask(ScriptedProvider([Step("x", usage=Usage(7))])).usage == Usage(7)


def test_errors_come_after_the_pieces_of_their_step() -> None:
    async def main(step: Step) -> list[str]:
        got: list[str] = []
        with pytest.raises((BadResponse, RateLimited)):
            async for delta in ScriptedProvider([step]).stream(MODEL, request()):
                assert isinstance(delta, TextDelta)
                got.append(delta.text)
        return got

    assert asyncio.run(main(Step("half", error=RateLimited("slow")))) == ["half"]
    assert asyncio.run(main(Step("half", cut=True))) == ["half"]


def test_a_script_that_is_over_says_so() -> None:
    provider = ScriptedProvider([Step("x")])
    ask(provider)
    with pytest.raises(BadResponse, match="the script has 1 steps, this is request 2"):
        ask(provider)


def test_a_request_over_the_window_fails_when_asked_to() -> None:
    provider = ScriptedProvider([Step("x"), Step("y")], enforce_window=True)
    small = scripted_model(context_window=20)

    async def main() -> None:
        async for _ in provider.stream(small, request(user_text("word " * 50, 1))):
            pass

    with pytest.raises(ContextTooLong):
        asyncio.run(main())
    assert ask(provider).text == "y"


def test_raw_arguments_need_not_be_json() -> None:
    step = Step(calls=(ScriptedCall("bash", {}, id="c", raw='{"comm'),), reason="length")
    message = ask(ScriptedProvider([step]))
    assert (message.stop_reason, message.calls[0].broken) == ("length", '{"comm')
