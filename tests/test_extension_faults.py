import asyncio
import contextlib
import signal
import threading
import time
from pathlib import Path

import pytest
from patience import PATIENCE, eventually
from test_extensions import Bench, said, told
from vpi_lab import Lab, lab

from vikingpi.agent.hooks import HookChain
from vikingpi.agent.toolrun import ABORTED
from vikingpi.app.app import App
from vikingpi.config.model import Settings
from vikingpi.decode import Json
from vikingpi.events import AgentStart, Event, HookFailed, Notice
from vikingpi.extensions.bridge import ANSWERED, TOLD, Handler, HookBridge
from vikingpi.extensions.loader import load_extensions
from vikingpi.llm.scripted import ScriptedCall, Step
from vikingpi.messages import ToolCall, UserMessage
from vikingpi.session.entries import Entry

HANDLED = ("session_start", "before_agent_start", "tool_call", "turn_end", "session_shutdown")
AT_ONCE = ("context", "agent_start", "message_end", "tool_execution_end", "agent_settled")
RAISED = ("SystemExit(0)", "KeyboardInterrupt()", "asyncio.CancelledError()", "GeneratorExit()", "BaseException('odd')")
LEAVES = """
import asyncio
def leave(*_):
    raise {error}
async def leave_later(*_):
    raise {error}
def setup(vpi):
    for name in {events!r}:
        vpi.on(name, {handler})
    vpi.register_tool("leaver", "Leaves.", {{}}, {handler})
    vpi.register_command("leaver", "leaves", {handler})
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def install(made: Lab, text: str, name: str = "mine") -> None:
    folder = made.home / "extensions"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(text)


@pytest.mark.parametrize("error", RAISED)
@pytest.mark.parametrize(("handler", "events"), [("leave", (*HANDLED, *AT_ONCE)), ("leave_later", HANDLED)])
def test_whatever_a_function_of_an_extension_raises_it_is_named_and_ends_nothing(
    bench: Bench, error: str, handler: str, events: tuple[str, ...]
) -> None:
    bench.extension(LEAVES.format(error=error, events=events, handler=handler), "leaver")
    kind = error.partition("(")[0].removeprefix("asyncio.")

    async def work(app: App) -> None:
        answer = await app.submit("go")
        assert answer is not None and answer.text == "the end"
        assert f"failed (ExtensionError: it raised {kind}" in said(app)[2]
        (command,) = (command for command in app.commands if command.name == "leaver")
        assert f"The extension leaver failed: ExtensionError: it raised {kind}" in await command.run("")

    bench.run([Step(calls=(ScriptedCall("leaver", {}),)), Step(text="the end")], work, store="off")
    failed = [event for event in bench.events if isinstance(event, HookFailed)]
    assert {event.method for event in failed} == set(events)
    assert all(event.hook == "leaver" and f"it raised {kind}" in event.error for event in failed)


@pytest.mark.parametrize("error", RAISED)
@pytest.mark.parametrize("handler", ["leave", "leave_later"])
def test_a_tool_that_raises_no_exception_gives_a_failed_result(bench: Bench, error: str, handler: str) -> None:
    bench.extension(LEAVES.format(error=error, events=(), handler=handler), "leaver")

    async def work(app: App) -> None:
        answer = await app.submit("go")
        assert answer is not None and answer.text == "the end"
        assert "it raised " + error.partition("(")[0].removeprefix("asyncio.") in said(app)[2]

    bench.run([Step(calls=(ScriptedCall("leaver", {}),)), Step(text="the end")], work, store="off")


@pytest.mark.parametrize("error", RAISED)
def test_whatever_setup_raises_only_the_extension_is_left_out(bench: Bench, error: str) -> None:
    bench.extension(f"import asyncio\ndef setup(vpi):\n    raise {error}", "a")
    bench.extension(f"import asyncio\nraise {error}", "b")

    async def work(app: App) -> None:
        await app.submit("go")

    bench.run([Step(text="x")], work, store="off")
    named = [notice for notice in bench.notices if "is left out" in notice]
    assert len(named) == 2 and all(f"it raised {error.partition('(')[0][-9:]}"[-9:] in notice for notice in named)


SWALLOWS = """async def wait(*_):
    MARK.touch()
    try:
        await asyncio.sleep(100)
    except BaseException:
        return None"""
WAITS = (
    "async def wait(*_):\n    MARK.touch()\n    await asyncio.sleep(100)",
    "def wait(*_):\n    MARK.touch()\n    time.sleep(100)",
    SWALLOWS,
)


@pytest.mark.parametrize("waits", WAITS, ids=["async", "plain", "swallows"])
@pytest.mark.parametrize("where", ["before_agent_start", "tool_call", "turn_end", "tool"])
def test_an_abort_ends_whatever_an_extension_waits_for(bench: Bench, waits: str, where: str) -> None:
    registered = 'vpi.register_tool("waiter", "Waits.", {}, wait)' if where == "tool" else f"vpi.on({where!r}, wait)"
    mark = bench.folder / "waits"
    begin = f"import asyncio, time\nfrom pathlib import Path\nMARK = Path({str(mark)!r})"
    bench.extension(f"{begin}\n{waits}\ndef setup(vpi):\n    {registered}", "waiter")
    call = ScriptedCall("waiter", {}) if where == "tool" else ScriptedCall("bash", {"command": "true"})

    async def work(app: App) -> None:
        prompt = asyncio.create_task(app.submit("go"))
        assert await asyncio.to_thread(eventually, mark.exists)
        begun = time.monotonic()
        app.abort()
        answer = await prompt
        assert answer is not None and answer.stop_reason == "aborted"
        assert time.monotonic() - begun < PATIENCE
        if where == "tool":
            assert ABORTED in said(app)[2]
        if waits.startswith("def"):
            what = "tool waiter" if where == "tool" else where
            assert f"the extension waiter: its {what} does not return and is left behind" in told(bench)

    bench.run([Step(calls=(call,)), Step(text="x")], work, store="off")


def test_a_run_whose_extension_leaves_at_the_end_of_a_turn_gives_its_answer(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        install(made, 'import sys\ndef setup(v): v.on("turn_end", lambda e, c: sys.exit(0))')
        done = made.run("-p", "--store", "off", "SAY: hello")
    assert (done.returncode, done.stdout) == (0, b"hello\n")
    assert b"mine.turn_end failed and was skipped: ExtensionError: it raised SystemExit: 0" in done.stderr


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('vpi.register_tool("t", None, {}, str)', "the tool t: its description is no text: None"),
        ('vpi.register_tool(5, "d", {}, str)', "a tool cannot be called 5"),
        ('vpi.register_tool("", "d", {}, str)', "a tool cannot be called ''"),
        ('vpi.register_tool("a b", "d", {}, str)', "a tool cannot be called 'a b'"),
        ('vpi.register_tool("t" * 65, "d", {}, str)', "a tool cannot be called 'ttt"),
        ('vpi.register_tool("t", "d", None, str)', "are no JSON Schema of an object: None"),
        ('vpi.register_tool("t", "d", {"type": "string"}, str)', "are no JSON Schema of an object"),
        ('vpi.register_tool("t", "d", {"properties": {"a": {"enum": {1}}}}, str)', "are no JSON: "),
        ('vpi.register_tool("t", "d", {"properties": []}, str)', '"properties" are no object: []'),
        ('vpi.register_tool("t", "d", {}, None)', "the tool t needs a function: None"),
        ('vpi.register_command(5, "d", str)', "a command cannot be called 5"),
        ('vpi.register_command("a b", "d", str)', "a command cannot be called 'a b'"),
        ('vpi.register_command("c", None, str)', "the command c: its description is no text: None"),
        ('vpi.register_command("c", "d", "text")', "the command c needs a function: 'text'"),
        ('vpi.on("turn_end", None)', "a handler of turn_end needs a function: None"),
        ("return asyncio.sleep(1)", "setup must be a plain function"),
    ],
)
def test_what_cannot_be_registered_leaves_the_extension_out_by_name(bench: Bench, line: str, why: str) -> None:
    path = bench.extension(f"import asyncio\ndef setup(vpi):\n    {line}")

    async def work(app: App) -> None:
        answer = await app.submit("go")
        assert answer is not None and answer.text == "x"

    bench.run([Step(text="x")], work, store="off")
    (notice,) = (notice for notice in bench.notices if "is left out" in notice)
    assert str(path) in notice and why in notice


@pytest.mark.parametrize("text", ["def setup(vpi):\n    time.sleep(99)", "time.sleep(99)", "while True: time.sleep(0)"])
def test_a_file_that_does_not_return_is_left_out(tmp_path: Path, text: str) -> None:
    path, begun = tmp_path / "slow.py", time.monotonic()
    path.write_text(f"import time\n{text}")
    loaded = load_extensions([path], 0.1)
    late = f"the extension {path} is left out: TooLate: it did not return within 0.1 s"
    assert (loaded.extensions, loaded.notices) == ((), (late,))
    assert time.monotonic() - begun < PATIENCE


def test_an_async_setup_is_refused(bench: Bench) -> None:
    path = bench.extension("async def setup(vpi): pass")

    async def work(app: App) -> None:
        await app.submit("go")

    bench.run([Step(text="x")], work, store="off")
    assert [notice for notice in bench.notices if str(path) in notice and "setup must be a plain function" in notice]


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("5", "5"),
        ("None", ""),
        ("ToolOutcome('text')", "it returned ToolOutcome(content='text'"),
        ("ToolOutcome((5,))", "it returned ToolOutcome(content=(5,)"),
        ("ToolOutcome((TextPart(5),))", "it returned ToolOutcome("),
        ("ToolOutcome((), False, {'a': {1}})", "it returned ToolOutcome("),
        ("ToolOutcome([TextPart('fine')], 1, {'a': 1})", "fine"),
    ],
)
def test_what_a_tool_or_a_command_returns_becomes_a_text_or_a_failure(bench: Bench, answer: str, shown: str) -> None:
    bench.extension(
        f"""
from vikingpi.messages import TextPart
from vikingpi.tools.base import ToolOutcome
def setup(vpi):
    vpi.register_tool("t", "d", {{"required": [["a"]]}}, lambda arguments, context: context.update(5) or {answer})
    vpi.register_command("c", "d", lambda argument: {answer})
"""
    )

    async def work(app: App) -> None:
        reply = await app.submit("go")
        assert reply is not None and reply.text == "x"
        assert shown in said(app)[2] and bool(shown) == bool(said(app)[2])
        (command,) = (command for command in app.commands if command.name == "c")
        assert isinstance(await command.run(""), str)

    bench.run([Step(calls=(ScriptedCall("t", {}),)), Step(text="x")], work, store="off")


@pytest.mark.parametrize(
    ("event", "line", "why"),
    [
        ("session_start", 'vpi.register_tool("t", "d", {}, str)', "a tool is registered in setup"),
        ("session_start", 'vpi.register_command("c", "d", str)', "a command is registered in setup"),
        ("session_start", "ctx.emit('text')", "'text' is no event"),
        ("turn_start", "asyncio.sleep(0)", "it must be a plain function"),
        ("turn_end", "vpi.append_entry('kind', {1})", "not JSON serializable"),
        ("context", "{'messages': [UserMessage('text', 0)]}", "it answered"),
        ("context", "{'messages': [UserMessage((TextPart(5),), 0)]}", "it answered"),
    ],
)
def test_what_a_handler_does_wrong_is_named(bench: Bench, event: str, line: str, why: str) -> None:
    bench.extension(
        f"""
import asyncio
from vikingpi.messages import TextPart, UserMessage
def setup(vpi):
    vpi.on({event!r}, lambda event, ctx: {line})
    vpi.on({event!r}, lambda event, ctx: vpi.notify(5))
""",
        "odd",
    )

    async def work(app: App) -> None:
        reply = await app.submit("go")
        assert reply is not None and reply.text == "x"

    bench.run([Step(text="x")], work, store="off")
    failed = [one for one in bench.events if isinstance(one, HookFailed)]
    assert failed and all((one.hook, one.method) == ("odd", event) and why in one.error for one in failed)
    assert "5" in told(bench)


class Context:
    """The hook context of no session; `events` are those that were emitted."""

    session_id = "none"
    settings = Settings()

    def __init__(self) -> None:
        self.events: list[Event] = []

    def branch(self) -> tuple[Entry, ...]:
        return ()

    def append_custom(self, custom_type: str, data: Json) -> Entry:
        return Entry("1", None, custom_type, "", data)

    def emit(self, event: Event) -> None:
        self.events.append(event)


LIMIT = 0.4


def limited(handlers: dict[str, Handler]) -> tuple[HookBridge, Context]:
    bridge, ctx = HookBridge("slow", dict.fromkeys((*ANSWERED, *TOLD), LIMIT)), Context()
    for name, handler in handlers.items():
        bridge.handlers[name] = [handler, lambda event, seen: ctx.emit(Notice("heard"))]
    bridge.attach(ctx, ctx.branch)
    return bridge, ctx


def block(event: object, ctx: object) -> None:
    time.sleep(100)


async def wait(event: object, ctx: object) -> None:
    await asyncio.sleep(100)


def spin(event: object, ctx: object) -> None:
    while True:
        with contextlib.suppress(Exception):
            time.sleep(0.001)


@pytest.mark.parametrize("handler", [block, wait])
@pytest.mark.parametrize("name", ["session_start", "before_agent_start", "session_compact", "session_shutdown"])
def test_a_handler_that_does_not_return_is_named_after_its_limit(handler: Handler, name: str) -> None:
    async def play() -> Context:
        bridge, ctx = limited({name: handler})
        match name:
            case "session_start":
                await bridge.session_start(ctx, "startup")
            case "before_agent_start":
                await bridge.before_agent_start(ctx, UserMessage((), 0))
            case "session_compact":
                await bridge.session_compact(ctx, "1")
            case _:
                await bridge.session_shutdown(ctx, "quit")
        return ctx

    begun = time.monotonic()
    assert asyncio.run(play()).events == [
        HookFailed("slow", name, f"TooLate: it did not return within {LIMIT} s"),
        Notice("heard"),
    ]
    assert time.monotonic() - begun < PATIENCE


@pytest.mark.parametrize("handler", [block, wait])
def test_a_gate_that_does_not_return_blocks(handler: Handler) -> None:
    async def play() -> None:
        bridge, ctx = limited({"tool_call": handler})
        await HookChain([bridge], ctx).session_compact("1")
        block = await HookChain([bridge], ctx).tool_call(ToolCall("1", "bash", {}))
        assert block is not None and f"did not return within {LIMIT} s" in block.reason

    asyncio.run(play())


@pytest.mark.parametrize("handler", [block, spin])
def test_a_handler_that_must_answer_at_once_is_broken_off_and_not_called_again(handler: Handler) -> None:
    async def play() -> Context:
        bridge, ctx = limited({"context": handler, "agent_start": handler})
        for _ in range(2):
            assert bridge.context(ctx, ()) == ()
            bridge.tell(AgentStart())
        return ctx

    begun = time.monotonic()
    late = f"TooLate: it did not return within {LIMIT} s"
    first = [HookFailed("slow", "context", late), Notice("heard"), HookFailed("slow", "agent_start", late)]
    assert asyncio.run(play()).events == [*first, Notice("heard"), Notice("heard"), Notice("heard")]
    assert time.monotonic() - begun < PATIENCE
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_plain_function_in_its_thread_speaks_to_the_loop(bench: Bench) -> None:
    bench.extension(
        """
import threading
def setup(vpi):
    def look(event, ctx):
        ctx.append_custom("mine", {"in": threading.current_thread().name})
        vpi.notify(f"{len(ctx.branch())} entries in {threading.current_thread().name}")
    vpi.on("turn_end", look)
"""
    )

    async def work(app: App) -> None:
        threads: list[str] = []
        app.subscribe(lambda event: threads.append(threading.current_thread().name))
        await app.submit("go")
        assert set(threads) == {"MainThread"}

    bench.run([Step(text="x")], work, store="off")
    assert any(text.endswith("entries in vpi-extension") for text in told(bench))


def test_plain_tools_of_an_extension_run_one_after_the_other_and_the_loop_goes_on(bench: Bench) -> None:
    bench.extension(
        f"""
import time
from pathlib import Path
FOLDER = Path({str(bench.folder)!r})
inside, calls = [], []
def slow(arguments, context):
    inside.append(1)
    most = len(inside)
    calls.append(1)
    number = len(calls)
    (FOLDER / f"asked-{{number}}").touch()
    until = time.monotonic() + {PATIENCE}
    while not (heard := (FOLDER / f"heard-{{number}}").exists()) and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.05)
    inside.pop()
    return str(most) if heard else "the loop stood still"
def setup(vpi):
    vpi.register_tool("slow", "Is slow.", {{}}, slow)
"""
    )

    async def work(app: App) -> None:
        async def hear() -> None:
            while True:
                await asyncio.sleep(0.01)
                for asked in bench.folder.glob("asked-*"):
                    asked.rename(asked.with_name(asked.name.replace("asked", "heard")))

        hearing = asyncio.create_task(hear())
        await app.submit("go")
        hearing.cancel()
        assert said(app)[2:5] == ["1", "1", "1"]

    bench.run([Step(calls=(ScriptedCall("slow", {}),) * 3), Step(text="x")], work, store="off")
