import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent


def run_floors(root: Path, files: dict[str, str]) -> tuple[int, list[str]]:
    package = root / "vikingpi"
    for name, text in {"__init__.py": "", **files}.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", str(PROJECT / "scripts" / "floors.py"), str(package)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def lines_of(count: int) -> str:
    return "x = 1\n" * count


def function_of(count: int) -> str:
    return "def long() -> None:\n" + "    x = 1\n" * (count - 1)


def class_of(count: int) -> str:
    return "class Wide:\n" + "".join(f"    def m{n}(self) -> None: ...\n" for n in range(count))


def test_the_project_keeps_its_floors() -> None:
    done = subprocess.run(
        [sys.executable, "-I", str(PROJECT / "scripts" / "floors.py")],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


ALLOWED: dict[str, dict[str, str]] = {
    "downwards": {"agent/loop.py": "from vikingpi.llm import base\n", "llm/base.py": "", "llm/__init__.py": ""},
    "own package": {"llm/a.py": "import vikingpi.llm.b\n", "llm/b.py": ""},
    "own package, lazily": {"llm/a.py": "def f() -> None:\n    import vikingpi.llm.b\n", "llm/b.py": ""},
    "root modules of one floor": {"events.py": "from vikingpi.messages import X\n", "messages.py": "X = 1\n"},
    "root package from anywhere": {"net.py": "from vikingpi import __version__\n"},
    "app to commands": {"app/wiring.py": "from vikingpi.commands.misc import f\n", "commands/misc.py": "f = 1\n"},
    "cli to ui": {"cli.py": "from vikingpi.ui.repl import f\n", "ui/repl.py": "f = 1\n"},
    "main to cli": {"__main__.py": "from vikingpi.cli import f\n", "cli.py": "f = 1\n"},
    "command.py from above": {"commands/misc.py": "import vikingpi.command\n", "command.py": ""},
    "a lazy import of what is below": {
        "cli.py": "def f() -> None:\n    from vikingpi.app import wiring\n",
        "app/wiring.py": "",
    },
    "400 lines": {"net.py": lines_of(400)},
    "60 lines": {"net.py": function_of(60)},
    "12 methods": {"net.py": class_of(12)},
}


@pytest.mark.parametrize("files", ALLOWED.values(), ids=ALLOWED)
def test_allowed(tmp_path: Path, files: dict[str, str]) -> None:
    assert run_floors(tmp_path, files) == (0, [])


FORBIDDEN: dict[str, tuple[dict[str, str], str]] = {
    "upwards": (
        {"llm/a.py": "\nfrom vikingpi.agent import loop\n", "agent/loop.py": "", "agent/__init__.py": ""},
        "vikingpi/llm/a.py:2: vikingpi.llm.a (floor 1) imports vikingpi.agent.loop (floor 2): a higher floor",
    ),
    "upwards from a root module": (
        {"net.py": "import vikingpi.config.load\n", "config/load.py": ""},
        "vikingpi/net.py:1: vikingpi.net (floor 0) imports vikingpi.config.load (floor 1): a higher floor",
    ),
    "upwards inside a function": (
        {"llm/a.py": "def f() -> None:\n    import vikingpi.cli\n", "cli.py": ""},
        "vikingpi/llm/a.py:2: vikingpi.llm.a (floor 1) imports vikingpi.cli (floor 5): a higher floor",
    ),
    "upwards for types only": (
        {
            "llm/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import vikingpi.agent.loop\n",
            "agent/loop.py": "",
        },
        "vikingpi/llm/a.py:3: vikingpi.llm.a (floor 1) imports vikingpi.agent.loop (floor 2): a higher floor",
    ),
    "upwards by name": (
        {"llm/a.py": "import importlib\nimportlib.import_module('vikingpi.cli')\n", "cli.py": ""},
        "vikingpi/llm/a.py:2: vikingpi.llm.a (floor 1) imports vikingpi.cli (floor 5): a higher floor",
    ),
    "siblings on floor 1": (
        {"tools/a.py": "import vikingpi.llm.b\n", "llm/b.py": ""},
        "vikingpi/tools/a.py:1: vikingpi.tools.a (floor 1) imports vikingpi.llm.b (floor 1): "
        "another package of the same floor",
    ),
    "command.py and a floor 1 package": (
        {"tools/a.py": "import vikingpi.command\n", "command.py": ""},
        "vikingpi/tools/a.py:1: vikingpi.tools.a (floor 1) imports vikingpi.command (floor 1): "
        "another package of the same floor",
    ),
    "takeover and memory": (
        {"takeover/a.py": "from vikingpi.memory.b import c\n", "memory/b.py": "c = 1\n"},
        "vikingpi/takeover/a.py:1: vikingpi.takeover.a (floor 3) imports vikingpi.memory.b (floor 3): "
        "another package of the same floor",
    ),
    "commands to app": (
        {"commands/a.py": "import vikingpi.app.b\n", "app/b.py": ""},
        "vikingpi/commands/a.py:1: vikingpi.commands.a (floor 4) imports vikingpi.app.b (floor 4): "
        "another package of the same floor",
    ),
    "ui to cli": (
        {"ui/a.py": "import vikingpi.cli\n", "cli.py": ""},
        "vikingpi/ui/a.py:1: vikingpi.ui.a (floor 5) imports vikingpi.cli (floor 5): another package of the same floor",
    ),
    "cycle": (
        {"llm/a.py": "import vikingpi.llm.b\n", "llm/b.py": "\nimport vikingpi.llm.a\n"},
        "vikingpi/llm/a.py:1: import cycle: vikingpi.llm.a -> vikingpi.llm.b -> vikingpi.llm.a",
    ),
    "cycle through a lazy import": (
        {
            "llm/a.py": "from vikingpi.llm import b\n",
            "llm/b.py": "import vikingpi.llm.c\n",
            "llm/c.py": "def f() -> None:\n    from vikingpi.llm.a import g\n",
            "llm/__init__.py": "",
        },
        "vikingpi/llm/a.py:1: import cycle: vikingpi.llm.a -> vikingpi.llm.b -> vikingpi.llm.c -> vikingpi.llm.a",
    ),
    "cycle of one": (
        {"llm/a.py": "import vikingpi.llm.a\n"},
        "vikingpi/llm/a.py:1: import cycle: vikingpi.llm.a -> vikingpi.llm.a",
    ),
    "long file": ({"net.py": lines_of(401)}, "vikingpi/net.py:401: file has 401 lines, at most 400"),
    "long function": (
        {"net.py": "\n" + function_of(61)},
        "vikingpi/net.py:2: function long has 61 lines, at most 60",
    ),
    "long method of a nested class": (
        {"net.py": "class A:\n    class B:\n" + "".join("        " + x for x in function_of(61).splitlines(True))},
        "vikingpi/net.py:3: function long has 61 lines, at most 60",
    ),
    "long coroutine": (
        {"net.py": "async " + function_of(61)},
        "vikingpi/net.py:1: function long has 61 lines, at most 60",
    ),
    "wide class": ({"net.py": class_of(13)}, "vikingpi/net.py:1: class Wide has 13 methods, at most 12"),
    "wide class with properties and dunders": (
        {
            "net.py": class_of(10)
            + "    def __init__(self) -> None: ...\n"
            + "    @property\n    def p(self) -> int: ...\n"
            + "    if True:\n        async def q(self) -> None: ...\n"
        },
        "vikingpi/net.py:1: class Wide has 13 methods, at most 12",
    ),
    "relative import": (
        {"llm/a.py": "from . import b\n", "llm/b.py": ""},
        "vikingpi/llm/a.py:1: relative import; write the full name",
    ),
    "unknown package": ({"helpers/a.py": ""}, "vikingpi/helpers/a.py:1: helpers is on no floor"),
    "missing module": (
        {"llm/a.py": "import vikingpi.llm.gone\n"},
        "vikingpi/llm/a.py:1: imports vikingpi.llm.gone, which does not exist",
    ),
    "broken file": ({"net.py": "def (\n"}, "vikingpi/net.py:1: cannot be parsed: invalid syntax"),
}


@pytest.mark.parametrize(("files", "line"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_forbidden(tmp_path: Path, files: dict[str, str], line: str) -> None:
    assert run_floors(tmp_path, files) == (1, [line])


def test_every_violation_is_reported(tmp_path: Path) -> None:
    code, lines = run_floors(
        tmp_path,
        {"llm/a.py": "import vikingpi.cli\nfrom . import b\n", "llm/b.py": class_of(13), "cli.py": ""},
    )
    assert code == 1
    assert [line.split(":")[:2] for line in lines] == [
        ["vikingpi/llm/a.py", "1"],
        ["vikingpi/llm/a.py", "2"],
        ["vikingpi/llm/b.py", "1"],
    ]
