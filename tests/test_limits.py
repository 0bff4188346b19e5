from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from ui_fake import FakeApp, answer, replay, text_answer, text_events, tool_events
from vpi_lab import lab

from vikingpi.app.limits import Limits, limits_of
from vikingpi.app.options import RunOptions
from vikingpi.decode import as_dict
from vikingpi.errors import ConfigError
from vikingpi.events import Event, RetryEnd, RetryStart, TurnEnd
from vikingpi.llm.base import Price
from vikingpi.messages import Cost, TextPart, ToolCall, ToolResultMessage, Usage
from vikingpi.ui.plain import run_print

CALL = ToolCall("c1", "bash", {"command": "ls"})
RESULT = ToolResultMessage("c1", "bash", (TextPart("out"),), False, 0)


def run(app: FakeApp, limits: Limits, *texts: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = asyncio.run(run_print(app, [(text, ()) for text in texts], out, err, None, limits))
    return code, out.getvalue(), err.getvalue()


def turns(*usages: Usage) -> list[Event]:
    """Turns that each say something and run a tool, so that another turn would follow."""
    events: list[Event] = []
    for number, usage in enumerate(usages, 1):
        message = answer(TextPart(f"step {number}"), CALL, reason="toolUse")._replace(usage=usage)
        events += [*text_events(message, []), *tool_events(CALL, "out"), TurnEnd(message, (RESULT,))]
    return events


CHEAP = Usage(100, 10, cost=Cost(0.1))


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(turns=1), "the limit of 1 turn is reached"),
        (Limits(turns=2), "the limit of 2 turns is reached"),
        (Limits(tokens=220), "the limit of 220 tokens is reached (220 used)"),
        (Limits(cost=0.15), "the limit of $0.15 is reached ($0.2000 spent)"),
    ],
)
def test_a_run_ends_at_its_limit_with_what_there_is(limits: Limits, reason: str) -> None:
    app = FakeApp(replay(turns(CHEAP, CHEAP)))
    app.figures = app.figures._replace(context_tokens=CHEAP.total)
    app.parts.model = app.parts.model._replace(price=Price(1, 1))
    code, out, err = run(app, limits, "go")
    assert (code, out.rstrip("12\n")) == (3, "step ")
    assert err.splitlines()[0] == f"error: {reason}"
    assert app.parts.agent.stopped


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(tokens=12_300), "the limit of 12300 tokens is reached (12300 used)"),
        (Limits(cost=0.01), "the limit of $0.01 is reached ($0.0123 spent)"),
    ],
)
@pytest.mark.parametrize("told", [Usage(), Usage(1, 1, cost=Cost(1e-6, 1e-6)), Usage(0, 1, 1)])
def test_what_a_provider_does_not_count_is_estimated(limits: Limits, reason: str, told: Usage) -> None:
    app = FakeApp(replay(turns(told)))
    app.parts.model = app.parts.model._replace(price=Price(1, 1))
    code, out, err = run(app, limits, "go")
    assert (code, out, app.parts.agent.stopped) == (3, "step 1\n", True)
    assert err.splitlines()[0] == f"error: {reason}"


def test_a_limit_of_cost_without_a_price_is_pointed_out() -> None:
    code, out, err = run(FakeApp(replay(text_answer("done"))), Limits(cost=1), "go")
    assert (code, out) == (0, "done\n")
    assert err.startswith("warning: no price of lab/fake is known: --max-cost counts only what")
    app = FakeApp(replay(text_answer("done")))
    app.parts.model = app.parts.model._replace(price=Price(1, 1))
    assert run(app, Limits(cost=1), "go") == (0, "done\n", "")


def test_a_run_that_ends_by_itself_at_its_limit_is_whole() -> None:
    app = FakeApp(replay(text_answer("done")))
    assert run(app, Limits(turns=1), "go") == (0, "done\n", "")


def test_no_further_prompt_is_given_beyond_a_limit() -> None:
    app = FakeApp(replay(text_answer("one"), text_answer("two")))
    code, out, _ = run(app, Limits(turns=1), "first", "second")
    assert (code, out, app.submitted) == (3, "one\n", ["first"])


def test_failed_attempts_are_no_turns() -> None:
    failed = text_answer("", "error", "boom")
    app = FakeApp(replay([TurnEnd(failed, ()), *turns(CHEAP)]))
    assert run(app, Limits(turns=2), "go") == (0, "step 1\n", "")
    assert not app.parts.agent.stopped


def test_time_runs_out_in_the_middle_of_an_answer() -> None:
    async def play(app: FakeApp, text: str) -> AsyncIterator[Event]:
        await app.aborted.wait()
        for event in text_events(text_answer("half an ans", "aborted", "Operation aborted"), []):
            yield event

    code, out, err = run(FakeApp(play), Limits(seconds=0.05), "go")
    assert (code, out) == (3, "half an ans\n")
    assert err.startswith("error: the time limit of 0.05 s is reached\n") and "aborted" not in err


def test_a_limit_that_ends_a_wait_is_said_once() -> None:
    async def play(app: FakeApp, text: str) -> AsyncIterator[Event]:
        yield RetryStart(1, 3, 2000, "busy")
        await app.aborted.wait()
        yield RetryEnd(False, 1, "Operation aborted")
        for event in text_events(text_answer("", "aborted", "Operation aborted"), []):
            yield event

    code, out, err = run(FakeApp(play), Limits(seconds=0.05), "go")
    assert (code, out) == (3, "")
    assert err == "warning: retry 1/3 in 2.0 s: busy\nerror: the time limit of 0.05 s is reached\n"


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("1h30m", 5400), ("0.5", 0.5)])
def test_times_as_people_write_them(text: str, seconds: float) -> None:
    assert limits_of(RunOptions(time_limit=text)).seconds == seconds


@pytest.mark.parametrize(
    "options",
    [
        RunOptions(time_limit="soon"),
        RunOptions(time_limit="0"),
        RunOptions(max_turns=0),
        RunOptions(max_tokens=-1),
        RunOptions(max_cost=float("nan")),
    ],
)
def test_a_limit_that_is_none_is_refused(options: RunOptions) -> None:
    with pytest.raises(ConfigError, match="must be"):
        limits_of(options)


PROMPT = "RUN: echo first\nRUN: echo second\nRUN: echo third\nSAY: all done"
PRICED = {"models": [{"id": "scripted", "cost": {"input": 1000, "output": 1000}}]}


def test_a_real_run_stops_after_its_turns_and_goes_on_later(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        done = made.run("-p", "--store", "off", "--max-turns", "2", PROMPT)
        assert (done.returncode, done.stdout) == (3, b"")
        told = b"error: the limit of 2 turns is reached\n"
        assert done.stderr == told + b"hint: what is there is kept: `vpi -c` goes on from it\n"
        assert made.run("-p", "--store", "off", "--no-session", "--max-turns", "2", PROMPT).stderr == told
        roles = [as_dict(entry.get("message")).get("role") for entry in made.entries() if entry["type"] == "message"]
        assert roles == ["user", "assistant", "toolResult", "assistant", "toolResult"]
        more = made.run("-p", "--store", "off", "-c", "SAY: on it goes")
        assert (more.returncode, more.stdout) == (0, b"on it goes\n")


def test_a_real_run_in_json_mode_says_what_stopped_it(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        made.models(made.model_url, **PRICED)
        done = made.run("--mode", "json", "--store", "off", "--max-cost", "0.000001", PROMPT)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    reached = [event for event in events if event["type"] == "limit_reached"]
    assert done.returncode == 3 and [event["limit"] for event in reached] == ["cost"]
    assert reached[0]["reason"] in done.stderr.decode()
    assert events[-1]["type"] == "agent_settled"
    assert sum(event["type"] == "turn_end" for event in events) == 1


def test_a_real_run_ends_a_command_when_its_time_is_up(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        done = made.run("-p", "--store", "off", "--time-limit", "1.5", "RUN: echo here; sleep 77")
    assert (done.returncode, done.stderr.splitlines()[0]) == (3, b"error: the time limit of 1.5 s is reached")
    results = [entry["message"] for entry in made.entries() if entry.get("message", {}).get("role") == "toolResult"]
    assert results[0]["content"][0]["text"] == "here\n\nCommand aborted"
