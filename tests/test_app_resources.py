import asyncio
from pathlib import Path

import pytest
from vpi_lab import Tty, lab

from vikingpi.app.options import RunOptions
from vikingpi.app.resources import Places, find_library, system_file
from vikingpi.app.wiring import Seams, build_app, prepare
from vikingpi.config.paths import Paths
from vikingpi.llm.scripted import ScriptedProvider, Step, scripted_model
from vikingpi.messages import UserMessage, text_of
from vikingpi.net import HttpTransport
from vikingpi.session.tree import build_context

SKILL = "---\nname: {0}\ndescription: does {0}\n---\nbody of {0}"


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "home" / "repo" / ".git").mkdir(parents=True)
    folder = tmp_path / "home" / "repo" / "part"
    folder.mkdir()
    return folder


def places(project: Path, *, trusted: bool) -> Places:
    home = project.parent.parent
    return Places(Paths(home / "config", home / "data", home / "state"), project, home, trusted)


def test_a_project_brings_templates_and_skills_only_when_it_is_trusted(project: Path) -> None:
    home, repo = project.parent.parent, project.parent
    put(home / "config" / "prompts" / "fix.md", "user fix")
    put(home / "config" / "skills" / "a" / "SKILL.md", SKILL.format("user"))
    put(home / ".agents" / "skills" / "b" / "SKILL.md", SKILL.format("agents"))
    put(project / ".vpi" / "prompts" / "fix.md", "project fix")
    put(project / ".vpi" / "skills" / "c" / "SKILL.md", SKILL.format("project"))
    put(repo / ".agents" / "skills" / "d" / "SKILL.md", SKILL.format("repo"))
    closed, opened = find_library(places(project, trusted=False)), find_library(places(project, trusted=True))
    assert closed.expand("/fix") == "user fix"
    assert list(closed.skills) == ["user", "agents"]
    assert opened.expand("/fix") == "project fix"
    assert list(opened.skills) == ["project", "repo", "user", "agents"]


def test_the_nearest_system_file_counts_alone(project: Path) -> None:
    home = project.parent.parent
    assert system_file(places(project, trusted=True), "SYSTEM.md") == ""
    put(home / "config" / "SYSTEM.md", "user")
    put(project / ".vpi" / "SYSTEM.md", "project")
    assert system_file(places(project, trusted=False), "SYSTEM.md") == "user"
    assert system_file(places(project, trusted=True), "SYSTEM.md") == "project"


@pytest.mark.parametrize("steering", [False, True], ids=["follow-up", "steering"])
def test_what_is_typed_while_it_works_calls_them_too(project: Path, steering: bool) -> None:
    home = project.parent.parent
    put(home / "vpi" / "prompts" / "greet.md", "Say hello to $1.")
    put(home / "vpi" / "skills" / "pdf" / "SKILL.md", SKILL.format("pdf"))
    env = {"VPI_HOME": str(home / "vpi"), "HOME": str(home), "PATH": "/usr/bin:/bin"}
    provider = ScriptedProvider([Step(text="a"), Step(text="b"), Step(text="c")])

    async def run() -> tuple[tuple[str, ...], list[str]]:
        async with asyncio.TaskGroup() as group:
            seams = Seams(HttpTransport(), provider, scripted_model())
            app = build_app(prepare(RunOptions(store="off"), env, project), "repl", group.create_task, seams)
            await app.start()
            agent = app.parts.agent
            for typed in ("/greet Ada", "/skill:pdf now"):
                (agent.steer if steering else agent.follow_up)(typed)
            queued = agent.inbox.steering + agent.inbox.follow_ups
            await app.submit("begin")
            said = [one for one in build_context(app.parts.session.branch()) if isinstance(one, UserMessage)]
            await app.close("quit")
            return queued, [text_of(message) for message in said]

    queued, said = asyncio.run(run())
    assert queued == ("/greet Ada", "/skill:pdf now")
    assert said[:2] == ["begin", "Say hello to Ada."]
    assert said[2].startswith('<skill name="pdf"') and said[2].endswith("</skill>\n\nnow")


def test_a_run_uses_them(project: Path) -> None:
    home = project.parent.parent
    put(home / "vpi" / "prompts" / "greet.md", "Say hello to $1.")
    path = put(home / "vpi" / "skills" / "pdf" / "SKILL.md", SKILL.format("pdf"))
    put(home / "vpi" / "SYSTEM.md", "You are terse.")
    put(home / "vpi" / "APPEND_SYSTEM.md", "Speak French.")
    env = {"VPI_HOME": str(home / "vpi"), "HOME": str(home), "PATH": "/usr/bin:/bin"}
    provider = ScriptedProvider([Step(text="a"), Step(text="b")])

    async def run(options: RunOptions) -> str:
        async with asyncio.TaskGroup() as group:
            seams = Seams(HttpTransport(), provider, scripted_model())
            app = build_app(prepare(options, env, project), "print", group.create_task, seams)
            await app.start()
            await app.submit("/greet Ada")
            sent = text_of(build_context(app.parts.session.branch())[0])
            await app.close("quit")
            return sent

    assert asyncio.run(run(RunOptions(store="off"))) == "Say hello to Ada."
    assert asyncio.run(run(RunOptions(store="off", system_prompt="Mine.", no_tools=True)))
    first, second = (request.system for request in provider.requests)
    assert first.startswith("You are terse.\n\n<addendum>\nSpeak French.\n</addendum>")
    assert f"- pdf: does pdf ({path})\n</skills>" in first
    assert second.startswith("Mine.\n\n<addendum>\nSpeak French.")
    assert "<skills>" not in second, "without a tool that reads nobody can follow a skill"


def test_files_that_are_left_out_are_told_once_at_the_start(tmp_path: Path) -> None:
    with lab(tmp_path) as made:
        path = put(made.home / "skills" / "pdf" / "SKILL.md", "---\nname: pdf\nno end")
        for number in range(7):
            put(made.home / "prompts" / f"p{number}.md", "")
        told = f"{path} is left out: its head has no closing line ---"
        done = made.run("-p", "--store", "off", "SAY: hello")
        lines = done.stderr.decode().splitlines()
        assert done.stdout == b"hello\n" and len(lines) == 6
        assert lines[0].endswith("p0.md is left out: it is empty")
        assert lines[5] == "so it is with 3 more prompts and skills"
        for number in range(7):
            (made.home / "prompts" / f"p{number}.md").unlink()
        assert made.run("-p", "--store", "off", "-c", "SAY: hello").stderr.decode() == f"{told}\n"
        tty = Tty(made, "--store", "off", "SAY: hello", columns=400)
        try:
            tty.wait(told)
            tty.wait("OV -")
            tty.read(0.3)
            tty.send("/new\r")
            tty.read(0.5)
            assert tty.text().count(told) == 1
        finally:
            tty.close()
