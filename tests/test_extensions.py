import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from vikingpi.app.app import App
from vikingpi.app.options import RunOptions
from vikingpi.app.wiring import Seams, build_app, prepare
from vikingpi.config.paths import Paths
from vikingpi.config.trust import remember
from vikingpi.errors import ConfigError
from vikingpi.events import Event, HookFailed, Notice
from vikingpi.extensions.loader import load_extensions
from vikingpi.llm.scripted import Script, ScriptedCall, ScriptedProvider, Step, scripted_model
from vikingpi.messages import text_of
from vikingpi.net import HttpTransport
from vikingpi.session.tree import build_context

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


class Bench:
    """A program over a scripted model; `events` are those of the last run, `systems` the prompts that it sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.notices: tuple[str, ...] = ()
        self.systems: list[str] = []
        self.project = folder / "project"
        self.project.mkdir(parents=True)

    def extension(self, text: str, name: str = "mine") -> Path:
        path = self.folder / "home" / "extensions" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, script: Script, work: Callable[[App], Awaitable[None]], **options: object) -> None:
        env = {"VPI_HOME": str(self.folder / "home"), "HOME": str(self.folder), "PATH": "/usr/bin:/bin"}
        chosen = RunOptions(store="embedded")._replace(**options)
        provider = ScriptedProvider(script)

        async def play() -> None:
            prepared = prepare(chosen, env, self.project)
            async with asyncio.TaskGroup() as group:
                app = build_app(prepared, "repl", group.create_task, Seams(HttpTransport(), provider, scripted_model()))
                app.subscribe(self.events.append)
                await app.start()
                self.notices = app.parts.notices
                try:
                    await work(app)
                finally:
                    await app.close("quit")

        asyncio.run(play())
        self.systems = [request.system for request in provider.requests]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def say_go(app: App) -> None:
    await app.submit("go")


def told(bench: Bench) -> list[str]:
    return [event.text for event in bench.events if isinstance(event, Notice)]


def said(app: App) -> list[str]:
    return [text_of(message) for message in build_context(app.parts.session.branch())]


def test_the_first_example_blocks_protected_files(bench: Bench) -> None:
    (bench.project / ".env").write_text("KEY=1")
    (bench.project / "open.txt").write_text("free")
    calls = (ScriptedCall("read", {"path": ".env"}), ScriptedCall("read", {"path": "open.txt"}))

    async def work(app: App) -> None:
        await app.submit("go")
        assert said(app)[2:4] == [".env is protected. Ask the user for what you need from it.", "free"]

    bench.run([Step(calls=calls), Step(text="done")], work, extensions=(str(EXAMPLES / "protect.py"),))


def test_the_second_example_keeps_a_list_over_processes(bench: Bench) -> None:
    files = (str(EXAMPLES / "todo.py"),)

    async def first(app: App) -> None:
        await app.submit("go")
        assert said(app)[2] == "- tests\n- docs"

    async def second(app: App) -> None:
        (command,) = (command for command in app.commands if command.name == "todos")
        assert await command.run("") == "- tests\n- docs"
        await app.submit("go on")

    bench.run(
        [Step(calls=(ScriptedCall("todo", {"add": ["tests", "docs"]}),)), Step(text="x")], first, extensions=files
    )
    bench.run([Step(text="y")], second, extensions=files, continue_session=True)
    assert bench.systems[-1].endswith("<todo>\n- tests\n- docs\n</todo>")


def test_every_event_reaches_its_handlers_in_order(bench: Bench) -> None:
    names = (
        "session_start before_agent_start agent_start turn_start message_start message_end tool_call"
        " tool_execution_start tool_execution_end turn_end agent_end agent_settled session_shutdown"
    )
    bench.extension(
        f"""
seen = []
def setup(vpi):
    for name in {names.split()!r}:
        vpi.on(name, lambda event, ctx, name=name: seen.append(name))
    vpi.register_command("seen", "", lambda argument: " ".join(dict.fromkeys(seen)))
"""
    )
    found: list[str] = []

    async def work(app: App) -> None:
        await app.submit("go")
        (command,) = (command for command in app.commands if command.name == "seen")
        found.extend((await command.run("")).split())

    bench.run([Step(calls=(ScriptedCall("bash", {"command": "true"}),)), Step(text="x")], work)
    assert set(names.split()) - set(found) == {"session_shutdown"}
    assert found[:2] == ["session_start", "agent_start"]
    assert found[-2:] == ["agent_end", "agent_settled"]


def test_what_is_sent_can_be_changed(bench: Bench) -> None:
    bench.extension(
        """
def setup(vpi):
    def shorten(event, ctx):
        return {"messages": event["messages"][-1:]}
    async def greet(event, ctx):
        return f"The prompt was {event['prompt']}."
    vpi.on("context", shorten)
    vpi.on("before_agent_start", greet)
"""
    )

    async def work(app: App) -> None:
        await app.submit("one")
        await app.submit("two")

    bench.run([Step(text="a"), Step(text="b")], work)
    assert [system.rpartition("\n")[2] for system in bench.systems] == ["The prompt was one.", "The prompt was two."]


def test_an_extension_sees_the_whole_branch_of_a_session_that_was_read_from_its_end(bench: Bench) -> None:
    script: Script = lambda request: Step(text="noted " * 3000)  # noqa: E731 - a line is enough
    bench.extension(
        """
def setup(vpi):
    vpi.on("session_start", lambda event, ctx: vpi.notify(f"{len(ctx.branch())} entries"))
"""
    )
    home = bench.folder / "home"
    home.mkdir(exist_ok=True)
    (home / "config.json").write_text(
        '{"takeover": {"tokenThreshold": 2000, "keepRecentTurns": 1, "overviewPollMs": 1}}'
    )
    found: list[tuple[int, int | None]] = []

    async def talk(app: App) -> None:
        for number in range(18):
            await app.submit(f"turn {number}")
            await asyncio.sleep(0.02)

    async def look(app: App) -> None:
        found.append((len(app.parts.session.branch()), app.parts.session.known.skipped))

    bench.run(script, talk)
    bench.events.clear()
    bench.run(script, look, continue_session=True, no_extensions=True)
    bench.run(script, look, continue_session=True)
    (part, skipped), (whole, nothing) = found
    assert (bool(skipped), nothing) == (True, 0)
    assert part < whole
    assert f"{whole} entries" in told(bench)


def test_a_compaction_can_be_answered(bench: Bench) -> None:
    bench.extension(
        """
def setup(vpi):
    vpi.on("session_before_compact", lambda event, ctx: {"compaction": {"summary": "MINE", "details": {"by": "me"}}})
"""
    )

    async def work(app: App) -> None:
        for text in ("one", "two"):
            await app.submit(text * 40_000)
        assert await app.compact() == ""
        assert "MINE" in said(app)[0]

    bench.run([Step(text="a"), Step(text="b")], work, store="off")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def setup(vpi): 1/0", "ZeroDivisionError: division by zero"),
        ("def setup(:", "SyntaxError"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("x = 1", "it has no function setup(vpi)"),
        ("def setup(vpi): vpi.on('sesion_start', print)", "there is no event sesion_start"),
        ("async def f(e, c): pass\ndef setup(vpi): vpi.on('agent_end', f)", "must be a plain function"),
    ],
)
def test_a_broken_extension_is_named_and_the_others_go_on(bench: Bench, text: str, why: str) -> None:
    broken = bench.extension(text, "a-broken")
    bench.extension("def setup(vpi):\n    vpi.on('turn_end', lambda event, ctx: vpi.notify('fine'))", "b-good")
    bench.run([Step(text="x")], say_go)
    (notice,) = (notice for notice in bench.notices if "extension" in notice)
    assert str(broken) in notice
    assert why in notice
    assert told(bench).count("fine") == 1


def test_a_handler_that_fails_is_named_and_ends_nothing(bench: Bench) -> None:
    bench.extension(
        """
def fail(event, ctx):
    raise ValueError("no")
def setup(vpi):
    for name in ("context", "before_agent_start", "tool_call", "turn_end", "message_end", "session_start"):
        vpi.on(name, fail)
    vpi.register_tool("broken", "Fails.", {"type": "object"}, lambda arguments, context: fail(None, None))
    vpi.register_command("broken", "fails", lambda argument: fail(None, None))
""",
        "faulty",
    )

    async def work(app: App) -> None:
        await app.submit("go")
        assert said(app)[2:] == [
            "This call did not run: faulty, which judges tool calls, failed (ValueError: no).",
            "x",
        ]
        (command,) = (command for command in app.commands if command.name == "broken")
        assert await command.run("") == "The extension faulty failed: ValueError: no"

    bench.run([Step(calls=(ScriptedCall("broken", {}),)), Step(text="x")], work)
    failed = {event.method for event in bench.events if isinstance(event, HookFailed) and event.hook == "faulty"}
    assert failed == {"context", "before_agent_start", "tool_call", "turn_end", "message_end", "session_start"}


GATES = """
def fail(event, ctx):
    raise ValueError("no")
async def fail_later(event, ctx):
    fail(event, ctx)
def setup(vpi):
    for handler in {handlers}:
        vpi.on("tool_call", handler)
"""


@pytest.mark.parametrize(
    ("handlers", "reason"),
    [
        ("[fail]", "failed (ValueError: no)"),
        ("[fail_later]", "failed (ValueError: no)"),
        ("[lambda e, c: {'block': True, 'reason': 'mine'}, fail]", "mine"),
        ("[lambda e, c: None, fail, lambda e, c: None]", "failed (ValueError: no)"),
        ("[lambda e, c: {'block': 1, 'reason': 5}]", "blocked by the extension gate"),
        ("[lambda e, c: 'yes']", "it answered 'yes'"),
        ("[lambda e, c: True]", "it answered True"),
        ("[lambda e, c: False]", "it answered False"),
        ("[lambda e, c: {'blocked': True}]", "it answered {'blocked': True}"),
    ],
)
def test_only_a_gate_that_says_so_lets_a_tool_run(bench: Bench, handlers: str, reason: str) -> None:
    bench.extension(GATES.format(handlers=handlers), "gate")
    ran = bench.project / "ran"

    async def work(app: App) -> None:
        await app.submit("go")
        assert reason in said(app)[2]

    bench.run([Step(calls=(ScriptedCall("bash", {"command": f"touch {ran}"}),)), Step(text="x")], work)
    assert not ran.exists()


@pytest.mark.parametrize("handlers", ["[lambda e, c: None]", "[lambda e, c: {}]", "[lambda e, c: {'block': False}]"])
def test_a_gate_that_has_no_objection_is_no_fault(bench: Bench, handlers: str) -> None:
    bench.extension(GATES.format(handlers=handlers), "gate")
    ran = bench.project / "ran"
    bench.run([Step(calls=(ScriptedCall("bash", {"command": f"touch {ran}"}),)), Step(text="x")], say_go)
    assert ran.exists() and not [event for event in bench.events if isinstance(event, HookFailed)]


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        ("context", "{'messages': 5}"),
        ("context", "{'messages': [5]}"),
        ("context", "'yes'"),
        ("before_agent_start", "{'systemAppend': 5}"),
        ("before_agent_start", "5"),
        ("before_agent_start", "{'systemPrompt': 'x'}"),
        ("session_before_compact", "{'compaction': {'summary': ''}}"),
        ("session_before_compact", "'yes'"),
    ],
)
def test_an_answer_that_means_nothing_is_named_and_the_other_handlers_are_heard(
    bench: Bench, event: str, answer: str
) -> None:
    bench.extension(
        f"""
def setup(vpi):
    vpi.on({event!r}, lambda event, ctx: {answer})
    vpi.on({event!r}, lambda event, ctx: vpi.notify("heard"))
""",
        "odd",
    )

    async def work(app: App) -> None:
        for _ in range(2):
            reply = await app.submit("go" * 40_000)
            assert reply is not None and reply.text == "x"
        await app.compact()

    bench.run([Step(text="x")] * 3, work, store="off")
    failed = [one for one in bench.events if isinstance(one, HookFailed)]
    assert failed and {(one.hook, one.method) for one in failed} == {("odd", event)}
    assert "it answered" in failed[0].error and told(bench).count("heard") == len(failed)


def test_project_extensions_need_trust_and_flags_choose(bench: Bench) -> None:
    bench.extension("def setup(vpi):\n    vpi.on('agent_start', lambda event, ctx: vpi.notify('user'))")
    mine = bench.project / ".vpi" / "extensions" / "theirs.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("def setup(vpi):\n    vpi.on('agent_start', lambda event, ctx: vpi.notify('project'))")
    script = [Step(text="x")]
    bench.run(script, say_go)
    assert {"user", "project"} & set(told(bench)) == {"user"}
    home = bench.folder / "home"
    remember(Paths(home, home, home), bench.project, True)
    bench.events.clear()
    bench.run(script, say_go)
    assert {"user", "project"} & set(told(bench)) == {"user", "project"}
    bench.events.clear()
    bench.run(script, say_go, no_extensions=True, extensions=(str(mine),))
    assert {"user", "project"} & set(told(bench)) == {"project"}
    with pytest.raises(ConfigError, match="extension not found"):
        bench.run(script, say_go, extensions=("nowhere.py",))


def test_a_command_never_takes_the_name_of_another(tmp_path: Path) -> None:
    for name in ("one", "two"):
        add = "    vpi.register_command"
        text = f"def setup(vpi):\n{add}('/hello', '{name}', str)\n{add}('quit', '', str)"
        (tmp_path / f"{name}.py").write_text(text)
    loaded = load_extensions(sorted(tmp_path.glob("*.py")))
    taken = [command for command in loaded.extensions[0].commands if command.name == "quit"]
    assert [(command.name, command.description) for command in loaded.commands(taken)] == [("hello", "one")]
