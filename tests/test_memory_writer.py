from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from store_kit import assistant, call, user

from vikingpi.errors import BadResponse, VpiError
from vikingpi.llm.base import Delta, Finish, Model, Request, TextDelta, UsageDelta
from vikingpi.llm.scripted import scripted_model
from vikingpi.memory.overview_writer import ModelInUse, ModelWriter, checked
from vikingpi.messages import Usage, text_of
from vikingpi.tokens import estimate
from vikingpi.viking.base import StoreMessage
from vikingpi.viking.embedded_sessions import EmbeddedSessions, OverviewWriter
from vikingpi.viking.overview import SECTIONS, acceptable

BODY = "\n\n".join(f"## {section}\n- about {section.lower()}" for section in SECTIONS)
GOOD = f"# Working Memory\n\n{BODY}\n"


class FakeModel:
    """Answers each request with the next text and keeps the requests."""

    def __init__(self, *answers: str, finish: Delta | None = None) -> None:
        self.requests: list[Request] = []
        self.spent: list[Usage] = []
        self.model: Model = scripted_model("m")
        self._answers = list(answers)
        self._finish = finish or Finish("stop", "stop")

    def in_use(self) -> ModelInUse:
        return ModelInUse(self.model, self.provider_for, self.spent.append)

    def provider_for(self, model: Model) -> FakeModel:
        return self

    async def stream(self, model: Model, request: Request) -> AsyncIterator[Delta]:
        self.requests.append(request)
        yield TextDelta(self._answers.pop(0))
        yield UsageDelta(Usage(input=7, output=3))
        yield self._finish


def write(fake: FakeModel, previous: str, messages: list[StoreMessage], budget: int = 3000) -> str:
    return asyncio.run(ModelWriter(fake.in_use, budget)(previous, messages))


def test_the_model_gets_the_old_overview_and_the_new_messages_and_no_tools() -> None:
    fake = FakeModel(GOOD)
    run = call("bash", {"command": "make"}, "42 passed")
    assert (
        write(fake, "# Working Memory\nold facts", [user("The port is 8443.", "e1"), assistant("ok", "e2", run)])
        == GOOD
    )
    request = fake.requests[0]
    asked = text_of(request.messages[0])
    assert request.tools == ()
    assert "old facts" in asked
    assert "[user]\nThe port is 8443." in asked
    assert '[calls bash {"command": "make"}]\n[result] 42 passed' in asked
    assert all(f"## {section}" in asked for section in SECTIONS)
    assert fake.spent == [Usage(input=7, output=3)]


EMPTY = "\n\n".join(f"## {section}\n(none)" for section in SECTIONS)
BACKWARDS = "\n\n".join(f"## {section}\n- x" for section in reversed(SECTIONS))


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot do that.",
        "# Working Memory\n\n## Session Title\n- x",
        GOOD.replace("## Open Issues", "## Other"),
        GOOD + GOOD,
        EMPTY,
        BACKWARDS,
    ],
)
def test_an_answer_without_the_shape_is_refused(answer: str) -> None:
    assert checked(answer, 3000) == ""


@pytest.mark.parametrize("answer", [GOOD, f"Here it is:\n\n{GOOD}", f"```markdown\n{GOOD}```", BODY, f"\n\n{GOOD}\n\n"])
def test_an_answer_with_something_around_it_is_taken(answer: str) -> None:
    assert checked(answer, 3000) == GOOD


def test_an_answer_over_the_budget_loses_its_least_valuable_lines() -> None:
    commands = "\n".join(f"- ran: `make target{n}` -> ok and some more words about it" for n in range(40))
    text = GOOD.replace("- about files & context", commands)
    kept = checked(text, 500)
    assert estimate(kept) <= 500
    assert "about key facts & decisions" in kept
    assert acceptable(kept)
    assert checked(GOOD.replace("- about files & context", commands * 3), 500) == "", "far too long"


def test_an_answer_that_was_cut_off_is_no_overview() -> None:
    fake = FakeModel(GOOD, finish=Finish("length", "length"))
    with pytest.raises(BadResponse):
        write(fake, "", [user("hello", "e1")])
    assert fake.spent


def test_long_messages_are_shortened_to_the_window_and_never_left_out() -> None:
    fake = FakeModel(GOOD)
    fake.model = fake.model._replace(context_window=20_000)
    said = [user(f"fact {n}: {'word ' * 3000}end {n}", f"e{n}") for n in range(20)]
    assert write(fake, "", said) == GOOD
    asked = text_of(fake.requests[0].messages[0])
    assert all(f"fact {n}:" in asked and f"end {n}" in asked for n in range(20))
    assert estimate(asked) < 20_000


def test_messages_that_do_not_fit_at_all_are_not_sent() -> None:
    fake = FakeModel(GOOD)
    fake.model = fake.model._replace(context_window=10_000)
    assert write(fake, "", [user("x" * 900, f"e{n}") for n in range(200)]) == ""
    assert fake.requests == []


def test_without_a_model_nothing_is_written() -> None:
    assert asyncio.run(ModelWriter(lambda: None, 3000)("", [user("hello", "e1")])) == ""


def committed(folder: Path, writer: OverviewWriter) -> str:
    async def act() -> str:
        store = EmbeddedSessions(folder / "store.db", lambda: 0, writer=writer)
        await store.ensure_session("s")
        await store.add_messages("s", [user("The port is 8443.", "e1"), assistant("noted", "e2")])
        await store.commit("s", 0)
        archive = await store.archive("s", 1)
        await store.close()
        assert archive is not None
        return archive.overview

    return asyncio.run(act())


def test_the_store_takes_a_good_overview_and_extracts_one_otherwise(tmp_path: Path) -> None:
    assert committed(tmp_path / "a", ModelWriter(FakeModel(GOOD).in_use, 3000)) == GOOD
    for name, fake in (("b", FakeModel("no")), ("c", FakeModel(GOOD, finish=Finish("length", "length")))):
        overview = committed(tmp_path / name, ModelWriter(fake.in_use, 3000))
        assert acceptable(overview)
        assert "8443" in overview


def test_a_model_that_fails_costs_no_archive(tmp_path: Path) -> None:
    async def fails(previous: str, messages: Sequence[StoreMessage]) -> str:
        raise VpiError("no answer")

    assert "8443" in committed(tmp_path, fails)
