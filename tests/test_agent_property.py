"""Whatever model, network and user do: every request is one that both wires accept, the session stays whole."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from agent_lab import Lab, Work, says
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_rules import chat_faults, messages_faults

from vikingpi.agent.toolrun import open_calls
from vikingpi.config.model import Compaction
from vikingpi.decode import Json
from vikingpi.errors import BadResponse, ContextTooLong, RateLimited, ToolError, Unreachable, VpiError
from vikingpi.events import AgentEnd, AgentSettled, AgentStart, Event, TurnEnd, TurnStart
from vikingpi.llm.anthropic_body import build_messages_body
from vikingpi.llm.base import Request
from vikingpi.llm.openai_body import build_body, encode
from vikingpi.llm.scripted import ScriptedCall, Step, scripted_model
from vikingpi.messages import AssistantMessage, Usage, user_text
from vikingpi.session.file import create_session, open_session
from vikingpi.session.tree import build_context
from vikingpi.tools.base import ToolContext, ToolOutcome

MODEL = scripted_model(context_window=4000, max_tokens=500)
SMALL = Compaction(reserve_tokens=1000, keep_recent_tokens=300)
PROMPTS = 4
EXAMPLES = int(os.environ.get("VPI_TEST_SCHEDULES", "60"))

texts = st.sampled_from(["", "ok", "word " * 40, "word " * 900, "half \ud83d", "\n"])
errors: st.SearchStrategy[VpiError | None] = st.sampled_from(
    [
        None,
        None,
        None,
        ContextTooLong("400: too long", status=400),
        RateLimited("429: slow down", retry_after=1.0),
        RateLimited("429: used up", retryable=False),
        BadResponse("500: oops", status=500, retryable=True),
        BadResponse("400: no", status=400),
        Unreachable("nobody there", retryable=True),
    ]
)
calls = st.builds(
    ScriptedCall,
    st.sampled_from(["work", "work", "fails", "nowhere", "", "big"]),
    st.sampled_from([{}, {"n": 1}, {"n": "x"}]),
    st.sampled_from(["", "a", "a", "b|c"]),
    st.sampled_from(["", "", "{broken"]),
)
usages = st.sampled_from([None, None, Usage(), Usage(input=3500, output=10), Usage(output=5)])
steps = st.builds(
    Step,
    text=texts,
    thinking=st.sampled_from(["", "hm"]),
    calls=st.lists(calls, max_size=3).map(tuple),
    error=errors,
    usage=usages,
    delay=st.just(0.0),
    pause=st.just(0.0),
    reason=st.sampled_from([None, None, None, "length", "error"]),
    cut=st.sampled_from([False, False, False, True]),
)


class Doing(NamedTuple):
    """At the event of this number the user does something."""

    at: int
    what: str


doings = st.lists(
    st.builds(Doing, st.integers(0, 60), st.sampled_from(["abort", "steer", "follow up", "stop"])), max_size=4
)


def failing() -> Work:
    async def work(arguments: Json, context: ToolContext) -> ToolOutcome:
        raise ToolError("it failed")

    return Work(work, name="fails")


class World(Lab):
    """A lab whose user acts at numbered events; what is asked after the script is answered plainly."""

    def __init__(self, script: list[Step], doings: list[Doing], folder: Path) -> None:
        self._left = iter(script)
        self._doings = doings
        self._seen = 0
        session = create_session(folder, "/work", folder / "locks")
        tools = [says("out"), says("r" * 9000, name="big"), failing()]
        super().__init__(self._answer, tools=tools, model=MODEL, compaction=SMALL, session=session)

    def _answer(self, request: Request) -> Step:
        return next(self._left, Step("done"))

    def emit(self, event: Event) -> None:
        super().emit(event)
        for doing in [one for one in self._doings if one.at == self._seen]:
            match doing.what:
                case "abort":
                    self.agent.abort()
                case "steer":
                    self.agent.steer("steered")
                case "follow up":
                    self.agent.follow_up("followed")
                case _:
                    self.agent.stop()
        self._seen += 1


def faults(request: Request) -> list[str]:
    chat, messages = (json.loads(encode(build(MODEL, request))) for build in (build_body, build_messages_body))
    return [*chat_faults(chat), *messages_faults(messages)]


@settings(max_examples=EXAMPLES)
@given(st.lists(steps, max_size=14), doings)
def test_whatever_happens_every_request_is_valid_and_the_session_whole(script: list[Step], doings: list[Doing]) -> None:
    with TemporaryDirectory() as name:
        world = World(script, doings, Path(name))
        answers = asyncio.run(ask(world))
        world.session.close()
        assert [faults(request) for request in world.provider.requests] == [[]] * len(world.provider.requests)
        assert [answer is None or isinstance(answer, AssistantMessage) for answer in answers] == [True] * PROMPTS
        for opened, closed in ((AgentStart, AgentEnd), (AgentStart, AgentSettled), (TurnStart, TurnEnd)):
            assert len(world.of(opened)) == len(world.of(closed)), (opened, closed)
        assert open_calls(build_context(world.session.branch())) == ()
        if world.session.path is not None and world.session.path.exists():
            again = open_session(world.session.path, Path(name) / "locks")
            again.close()
            assert again.notices == ()
            assert build_context(again.branch()) == build_context(world.session.branch())


async def ask(world: World) -> list[AssistantMessage | None]:
    answers: list[AssistantMessage | None] = []
    for number in range(PROMPTS):
        answers.append(await asyncio.wait_for(world.agent.prompt(user_text(f"prompt {number}", number)), 30))
    return answers
