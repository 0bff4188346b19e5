from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from vikingpi.agent.validate import NO_BEGINNING, NO_RESULT, repair
from vikingpi.llm.scripted import scripted_model
from vikingpi.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    StopReason,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    user_text,
)

MODEL = scripted_model()


def assistant(
    *parts: TextPart | ThinkingPart | ToolCall, reason: StopReason = "stop", model: str = MODEL.id
) -> AssistantMessage:
    return AssistantMessage(parts, MODEL.api, MODEL.provider, model, Usage(), reason, 2)


def answers(*ids: str) -> AssistantMessage:
    return assistant(*(ToolCall(id, "work", {}) for id in ids), reason="toolUse")


def result(id: str, text: str = "out") -> ToolResultMessage:
    return ToolResultMessage(id, "work", (TextPart(text),), False, 3)


U = user_text("hi", 1)
DONE = assistant(TextPart("done"))


def test_a_valid_list_stays_the_same_objects() -> None:
    messages = (U, answers("a", "b"), result("b"), result("a"), DONE, U, DONE)
    repaired = repair(messages, MODEL)
    assert all(one is other for one, other in zip(repaired, messages, strict=True))


def test_failed_and_aborted_answers_are_left_out_with_their_text() -> None:
    broken = assistant(TextPart("half"), reason="aborted")
    assert repair((U, broken, U, assistant(TextPart("no"), reason="error")), MODEL) == (U, U)


def test_a_result_whose_call_is_gone_is_left_out() -> None:
    assert repair((U, result("a"), DONE), MODEL) == (U, DONE)
    failed = answers("a")._replace(stop_reason="error")
    assert repair((U, failed, result("a"), U), MODEL) == (U, U)


def test_a_call_without_result_gets_one_before_the_next_message() -> None:
    repaired = repair((U, answers("a", "b"), result("b"), U), MODEL)
    assert repaired[:3] == (U, answers("a", "b"), result("b"))
    made = repaired[3]
    assert isinstance(made, ToolResultMessage) and made.tool_call_id == "a" and made.is_error
    assert made.content == (TextPart(NO_RESULT),) and repaired[4] is U


def test_a_result_behind_another_message_moves_to_its_call() -> None:
    note = user_text("ran ls", 2)._replace(kind="bash")
    assert repair((U, answers("a"), note, result("a"), DONE), MODEL) == (U, answers("a"), result("a"), note, DONE)


def test_the_second_result_of_a_call_is_left_out() -> None:
    repaired = repair((U, answers("a"), result("a", "one"), result("a", "two"), DONE), MODEL)
    assert repaired == (U, answers("a"), result("a", "one"), DONE)


def test_an_id_that_is_used_again_goes_to_the_newest_call() -> None:
    messages = (U, answers("a"), result("a", "one"), answers("a"), result("a", "two"))
    assert repair(messages, MODEL) == messages


def test_thinking_of_another_model_is_dropped_and_an_answer_of_nothing_else_too() -> None:
    own = assistant(ThinkingPart("hm"), TextPart("yes"))
    assert repair((U, own), MODEL) == (U, own)
    foreign = own._replace(model="other")
    assert repair((U, foreign), MODEL) == (U, foreign._replace(content=(TextPart("yes"),)))
    assert repair((U, assistant(ThinkingPart("hm")), U), MODEL) == (U, U)


def test_empty_messages_are_left_out() -> None:
    assert repair((U, assistant(TextPart(" \n")), user_text("", 4), assistant(), U), MODEL) == (U, U)


def test_lone_surrogates_are_replaced_everywhere() -> None:
    call = ToolCall("a", "work", {"path": ["bad\udcff"], "k\udcff": "\ud83d\ude00"})
    repaired = repair((user_text("x\udcff", 1), assistant(call, reason="toolUse"), result("a", "\ud83d")), MODEL)
    assert repaired[0].content == (TextPart("x\ufffd"),)
    assert repaired[1].content == (ToolCall("a", "work", {"path": ["bad\ufffd"], "k\ufffd": "\U0001f600"}),)
    assert repaired[2].content == (TextPart("\ufffd"),)


def test_ids_and_names_that_a_provider_would_refuse_are_made_safe_alike_on_both_sides() -> None:
    long = "call|" + "x" * 100
    messages = (U, assistant(ToolCall(long, "a.b", {}), reason="toolUse"), result(long)._replace(tool_name="a.b"))
    _, asked, answered = repair(messages, MODEL)
    assert isinstance(asked, AssistantMessage) and isinstance(answered, ToolResultMessage)
    assert asked.calls[0].id == answered.tool_call_id and len(answered.tool_call_id) == 64
    assert asked.calls[0].name == answered.tool_name == "a_b" and "|" not in answered.tool_call_id


def test_a_history_that_begins_with_an_answer_gets_a_first_message() -> None:
    assert repair((DONE, U), MODEL)[0].content == (TextPart(NO_BEGINNING),)


def test_images_become_notes_for_a_model_without_sight() -> None:
    shown = U._replace(content=(TextPart("see"), ImagePart("AAAA", "image/png")))
    assert repair((shown,), MODEL) == (shown,)
    blind = repair((shown,), scripted_model(images=False))
    assert blind[0].content == (TextPart("see"), TextPart("[image image/png left out]"))


def test_images_that_no_provider_takes_become_notes() -> None:
    shown = U._replace(
        content=(ImagePart("AAAA", "image/bmp"), ImagePart("", "image/png"), ImagePart("A", "image/gif"))
    )
    (sent,) = repair((shown,), MODEL)
    notes = TextPart("[image image/bmp left out]"), TextPart("[image image/png left out]")
    assert sent.content == (*notes, ImagePart("A", "image/gif"))


def test_the_oldest_of_too_many_images_become_notes_in_steps() -> None:
    shown = [U._replace(content=(ImagePart(str(n), "image/png"),)) for n in range(60)]
    kept = [sum(isinstance(one.content[0], ImagePart) for one in repair(shown[:n], MODEL)) for n in (20, 21, 30, 31)]
    assert kept == [20, 11, 20, 11]


def test_images_that_are_too_heavy_together_become_notes_but_for_the_newest() -> None:
    heavy = [U._replace(content=(ImagePart("A" * 4_700_000, "image/png"),)) for _ in range(6)]
    kept = [sum(isinstance(one.content[0], ImagePart) for one in repair(heavy[:n], MODEL)) for n in (3, 4, 5, 6)]
    assert kept == [3, 4, 4, 4]


def is_valid(messages: Sequence[Message]) -> bool:
    """Every call is answered at once and exactly once, nothing else is answered, the first message is a user's."""
    waiting: set[str] = set()
    for place, message in enumerate(messages):
        if isinstance(message, ToolResultMessage):
            if message.tool_call_id not in waiting:
                return False
            waiting.discard(message.tool_call_id)
            continue
        if waiting or not message.content or (place == 0 and not isinstance(message, UserMessage)):
            return False
        if isinstance(message, AssistantMessage):
            if message.stop_reason in ("error", "aborted"):
                return False
            waiting = {call.id for call in message.calls}
    return not waiting


ids = st.sampled_from(["a", "b", "c|", ""])
texts = st.sampled_from(["", "x", "\udcff"])
parts = st.one_of(
    texts.map(TextPart), texts.map(ThinkingPart), ids.map(lambda id: ToolCall(id, "work", {"v": "\ud800"}))
)
reasons: st.SearchStrategy[StopReason] = st.sampled_from(["stop", "toolUse", "length", "error", "aborted"])


def made_up(content: list[TextPart | ThinkingPart | ToolCall], reason: StopReason, model: str) -> Message:
    return assistant(*content, reason=reason, model=model)


messages = st.lists(
    st.one_of(
        texts.map(lambda text: user_text(text, 1)),
        ids.map(result),
        st.builds(made_up, st.lists(parts, max_size=3), reasons, st.sampled_from([MODEL.id, "other"])),
    ),
    max_size=12,
)
turns = st.lists(
    st.one_of(
        st.just((U, DONE)),
        st.sampled_from([("a",), ("a", "y")]).map(lambda ids: (U, answers(*ids), *map(result, ids), DONE)),
    ),
    max_size=3,
)


@given(messages)
def test_any_list_becomes_valid_and_then_stays_as_it_is(given: list[Message]) -> None:
    repaired = repair(given, MODEL)
    assert is_valid(repaired)
    assert repair(repaired, MODEL) == repaired


@given(messages, turns)
def test_complete_turns_at_the_end_change_nothing_before_them(
    given: list[Message], more: list[tuple[Message, ...]]
) -> None:
    tail = [message for turn in more for message in turn]
    assert repair([*given, *tail], MODEL) == (*repair(given, MODEL), *tail)
