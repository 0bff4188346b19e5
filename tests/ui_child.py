"""Run the interactive program over a fake application; what the user sent goes to the file named by UI_TEST_LOG.

The first word of a prompt says what the model does: SAY the rest, SLOW n words, PROSE or ITEMS or LINES n words in one
paragraph, list or code block, HANG, TOOL, EDIT, LONG n lines of output, CODE n lines, THINK, FAIL, MD a document.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from ui_fake import (
    FakeApp,
    FakeShell,
    FakeStore,
    Figures,
    answer,
    session_in,
    text_answer,
    text_events,
    tool_events,
    user_events,
)
from ui_lists import show

from vikingpi.command import Command
from vikingpi.commands.misc import all_commands
from vikingpi.errors import AuthFailed
from vikingpi.events import (
    Event,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    StoreState,
    ToolStart,
    ToolUpdate,
    TurnEnd,
    TurnStart,
)
from vikingpi.messages import ToolCall, UserMessage, text_of
from vikingpi.ui.actions import Places
from vikingpi.ui.interrupts import SIGNALS, Interrupts
from vikingpi.ui.repl import run_repl

DOCUMENT = """# Überblick 界面

Some *text* with `code` and 漢字 and 🎉 emoji that is long enough to be wrapped at forty columns.

| name | 値 |
|------|----|
| 項目 | 12 |

```python
def f(x):

    return x
```

- one
- two
"""


def log(kind: str, text: str) -> None:
    with Path(os.environ["UI_TEST_LOG"]).open("a") as file:
        file.write(json.dumps([kind, text]) + "\n")


LINES = {"SLOW": "\n\n", "PROSE": "", "ITEMS": "\n- ", "LINES": "\n"}


async def words(app: FakeApp, count: int, kind: str) -> AsyncIterator[Event]:
    yield MessageStart(text_answer(""))
    said = ""
    for number in range(count):
        piece = f"w{number} " if number % 8 else f"{LINES[kind]}w{number} "
        if kind == "LINES" and not number:
            piece = f"```text{piece}"
        said += piece
        yield MessageUpdate("text_delta", 0, piece)
        await asyncio.sleep(0.01)
        if app.aborted.is_set():
            yield MessageEnd(text_answer(said, "aborted"))
            return
    yield MessageUpdate("text_end", 0)
    yield MessageEnd(text_answer(said))


async def tool(app: FakeApp) -> AsyncIterator[Event]:
    call = ToolCall("c1", "bash", {"command": "for i in 1 2 3; do echo row $i; done"})
    yield MessageEnd(answer(call, reason="toolUse"))
    yield ToolStart(call)
    output = ""
    for number in range(9):
        output += f"row {number}\n"
        yield ToolUpdate(call, output)
        await asyncio.sleep(0.02)
    if app.figures.cwd.endswith("wait"):
        await app.aborted.wait()
    for event in tool_events(call, output)[1:]:
        yield event
    for event in text_events(text_answer("tool done"), ["tool ", "done"]):
        yield event


def edit() -> list[Event]:
    call = ToolCall("c2", "edit", {"path": "src/main.py", "edits": [{"oldText": "x = 1", "newText": "x = 2"}]})
    diff = " 1 def f():\n-2     x = 1\n+2     x = 2\n 3     return x"
    return [*tool_events(call, "ok", details={"diff": diff}), *text_events(text_answer("edited"), ["edited"])]


def long(count: int) -> list[Event]:
    call = ToolCall("c3", "bash", {"command": f"seq {count}"})
    return tool_events(call, "".join(f"line {n}\n" for n in range(count)))


async def code(count: int) -> AsyncIterator[Event]:
    text = "```python\n" + "".join(f"value_{n} = {n}\n" for n in range(count)) + "```\n"
    pieces = [text[at : at + 400] for at in range(0, len(text), 400)]
    yield MessageStart(text_answer(""))
    for piece in pieces:
        yield MessageUpdate("text_delta", 0, piece)
        await asyncio.sleep(0.004)
    yield MessageUpdate("text_end", 0)
    yield MessageEnd(text_answer(text))


def thinking() -> list[Event]:
    thought = "\n".join(f"thinking line {n}" for n in range(1, 10))
    pieces = [MessageUpdate("thinking_delta", 0, thought[n : n + 20]) for n in range(0, len(thought), 20)]
    return [MessageStart(text_answer("")), *pieces, *text_events(text_answer("so it is"), ["so it is"])[1:]]


async def respond(app: FakeApp, text: str) -> AsyncIterator[Event]:
    word, _, rest = text.partition(" ")
    if word in LINES:
        async for event in words(app, int(rest.split()[0]), word):
            yield event
    elif word == "TOOL":
        async for event in tool(app):
            yield event
    elif word == "CODE":
        async for event in code(int(rest)):
            yield event
    elif word in ("EDIT", "LONG"):
        for event in edit() if word == "EDIT" else long(int(rest)):
            yield event
    elif word == "THINK":
        for event in thinking():
            yield event
    elif word == "HANG":
        await app.aborted.wait()
        yield MessageEnd(text_answer("", "aborted"))
    elif word == "FAIL":
        app.parts.agent.last_error = AuthFailed("401", hint="check the key \x1b[2Jof lab")
        yield MessageEnd(text_answer("", "error", "401: bad key \x1b]0;owned\x07"))
    else:
        said = {"MD": DOCUMENT, "SAY": rest}.get(word, "ok")
        for event in text_events(text_answer(said), [said[n : n + 7] for n in range(0, len(said), 7)]):
            yield event


async def play(app: FakeApp, text: str) -> AsyncIterator[Event]:
    inbox = app.parts.agent.inbox
    while True:
        yield TurnStart()
        log("user", text)
        for event in user_events(text):
            yield event
        last = None
        async for event in respond(app, text):
            yield event
            last = event.message if isinstance(event, MessageEnd) else last
        yield TurnEnd(text_answer(""), ())
        heard: UserMessage | None = None
        if not app.aborted.is_set():
            heard = inbox.take_steering(lambda message: message) or inbox.take_follow_up(lambda message: message)
        if heard is None:
            return
        text = text_of(heard)


async def main(folder: Path, options: set[str]) -> int:
    session = session_in(folder / "sessions", "what was\nbefore") if "resume" in options else None
    app = FakeApp(play, session=session)
    app.parts.takeover = FakeStore()

    async def show_list(name: str) -> str:
        return await show(app, app.chooser, name) if app.chooser is not None else ""

    app.commands = (*all_commands(app), Command("list", "show a list over fixed data", show_list))
    if "reasoning" in options:
        app.parts.agent.use_model(app.parts.model._replace(reasoning=True), "off")
    app.figures = Figures(
        cwd="/srv/项目-🎉👨‍👩‍👧/app/wait" if "wait" in options else "/srv/项目-🎉👨‍👩‍👧/app",
        store=StoreState("openviking", True, 2, 420, 600),
    )
    app.parts.notices = ("a notice",)
    prompts = [("SAY from the command line", ())] if "initial" in options else []
    app.shell = FakeShell(folder)
    if "project" in options:
        app.parts.session.cwd = str(folder)
    places, interrupts = Places(folder / "history", folder / "images"), Interrupts()
    interrupts.watch()
    try:
        return await run_repl(app, prompts, places, interrupts)
    except asyncio.CancelledError:
        if interrupts.caught is None:
            raise
        return SIGNALS[interrupts.caught]


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), set(sys.argv[2:]))))
