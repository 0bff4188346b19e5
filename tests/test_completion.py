from __future__ import annotations

import io
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import PATIENCE
from session_kit import HEADER, answer, session_file, user
from vpi_lab import PROJECT

from vikingpi.app.arguments import SUBCOMMANDS, subcommand
from vikingpi.app.completion import completed_options, run_completion
from vikingpi.app.options import RunOptions
from vikingpi.app.plain_arguments import choices_of
from vikingpi.cli import run
from vikingpi.errors import ConfigError
from vikingpi.session.catalog import default_directory

MODELS = """{"providers": {"my": {"baseUrl": "http://127.0.0.1:9/v1",
  "models": [{"id": "llama3:8b"}, {"id": "llama3:70b"}, {"id": "$(touch hacked)"}]}}}"""


class Place:
    """A `vpi` on PATH, a folder with files to name, a model and two sessions."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        for name in ("work/src/inner", "work/docs", "bin", "home/config"):
            (folder / name).mkdir(parents=True)
        (self.work / "src" / "main.py").write_text("")
        (folder / "home" / "models.json").write_text(MODELS)
        program = folder / "bin" / "vpi"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -B -m vikingpi "$@"\n')
        program.chmod(0o755)
        self.env = {
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "VPI_HOME": str(folder / "home"),
            "PYTHONPATH": str(PROJECT),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
        }
        sessions = default_directory(folder / "home" / "sessions", str(self.work))
        sessions.mkdir(parents=True)
        session_file(sessions, user("u1", None), answer("a1", "u1"))

    def script(self, shell: str) -> Path:
        out = io.StringIO()
        assert run_completion([shell], self.env, self.work, out) == 0
        path = self.work.parent / f"_{shell}"
        path.write_text(out.getvalue())
        return path

    def run(self, *command: str) -> list[str]:
        done = subprocess.run(
            command, cwd=self.work, env=self.env, capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stderr == ""
        return done.stdout.splitlines()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed (apt-get install {shell})")


def bash(place: Place, line: str) -> list[str]:
    """What bash offers for the end of a line; it splits the line as readline does."""
    words = [*re.findall(r"[=:@]|[^\s=:@]+", line), *([""] if line[-1] in " =:@" else [])]
    script = f"""
        COMP_WORDBREAKS=$' \\t\\n"\\'@><=;|&(:'
        compopt() {{ :; }}
        source {shlex.quote(str(place.script("bash")))}
        COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_CWORD={len(words) - 1}
        COMP_WORDS=({" ".join(map(shlex.quote, words))})
        _vpi vpi
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return [word for word in place.run("bash", "--norc", "--noprofile", "-c", script) if word]


def fish(place: Place, line: str) -> list[str]:
    script = place.script("fish")
    command = f"source {shlex.quote(str(script))}; complete -C {shlex.quote(line)}"
    return [offered.partition("\t")[0] for offered in place.run("fish", "--no-config", "-c", command)]


ASKED = [
    ("vpi --mo", {"--mode", "--model"}),
    ("vpi -p hello --no-to", {"--no-tools"}),
    ("vpi --mode ", {"text", "json"}),
    ("vpi --approve re", {"read-only"}),
    ("vpi --thinking m", {"minimal", "medium", "max"}),
    ("vpi --store ", {"auto", "openviking", "embedded", "off"}),
    ("vpi mem", {"memory"}),
    (
        "vpi memory ",
        {"add", "forget", "list", "search", "show"}
        | {"--category", "--level", "--limit", "--project", "--store", "--text", "--help"},
    ),
    ("vpi sessions --a", {"--all"}),
    ("vpi completion z", {"zsh"}),
]


@needs("bash")
@pytest.mark.parametrize(("line", "offered"), ASKED)
def test_bash_offers_options_subcommands_and_words(place: Place, line: str, offered: set[str]) -> None:
    assert set(bash(place, line)) == offered


@needs("bash")
def test_bash_offers_what_there_is(place: Place) -> None:
    assert bash(place, "vpi --model my/lla") == ["my/llama3:8b", "my/llama3:70b"]
    assert bash(place, "vpi --model lla") == ["my/llama3:8b", "my/llama3:70b"]
    assert bash(place, "vpi --model my/llama3:7") == ["70b"]
    assert bash(place, "vpi --model=my/llama3:7") == ["70b"]
    assert bash(place, "vpi --mode=js") == ["json"]
    assert bash(place, "vpi --session ") == [HEADER["id"]]
    assert bash(place, "vpi -c --session-dir s") == ["src"]
    assert bash(place, "vpi --tools read,gr") == ["read,grep"]
    assert bash(place, "vpi read @src/ma") == ["@src/main.py"]
    assert bash(place, "vpi read @s") == ["@src/"]
    assert "my" in bash(place, "vpi --provider ")
    assert not (place.work / "hacked").exists()


@needs("fish")
@pytest.mark.parametrize(("line", "offered"), ASKED)
def test_fish_offers_options_subcommands_and_words(place: Place, line: str, offered: set[str]) -> None:
    assert set(fish(place, line)) >= offered


@needs("fish")
def test_fish_offers_what_there_is(place: Place) -> None:
    assert {"my/llama3:8b", "my/llama3:70b"} <= set(fish(place, "vpi --model my/lla"))
    assert HEADER["id"] in fish(place, "vpi --session ")
    assert "src/" in fish(place, "vpi -c --session-dir s")
    assert "read,grep" in fish(place, "vpi --tools read,gr")
    assert "@src/main.py" in fish(place, "vpi read @src/ma")
    assert not (place.work / "hacked").exists()


class Shell:
    """An interactive shell on a terminal."""

    def __init__(self, place: Place, *command: str) -> None:
        self.text = ""
        pid, self._terminal = pty.fork()
        if pid == 0:
            os.chdir(place.work)
            os.execvpe(command[0], list(command), place.env)
        self._pid = pid

    def type(self, text: str, until: str) -> str:
        """Type, and wait until what comes after that holds a text."""
        before = len(self.text)
        os.write(self._terminal, text.encode())
        end = time.monotonic() + PATIENCE
        while until not in self.text[before:]:
            assert time.monotonic() < end, self.text[before:]
            if select.select([self._terminal], [], [], 0.1)[0]:
                shown = os.read(self._terminal, 65536).decode(errors="replace")
                self.text += re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown)
        return self.text[before:]

    def close(self) -> None:
        os.close(self._terminal)
        os.waitpid(self._pid, 0)


@needs("bash")
def test_bash_completes_at_the_prompt(place: Place) -> None:
    shell = Shell(place, "bash", "--norc", "--noprofile")
    try:
        shell.type(f"PS1='%% '; source {shlex.quote(str(place.script('bash')))}; echo rea''dy\r", "ready")
        shell.type("vpi --mod\t\t\t", "--model")
        shell.type("\x15vpi --model my/llama3:7\t", "70b ")
        shell.type("read @src/ma\t", "main.py")
    finally:
        shell.close()


@needs("zsh")
def test_zsh_completes_at_the_prompt(place: Place) -> None:
    script = place.script("zsh")
    functions = place.work.parent / "functions"
    functions.mkdir()
    script.rename(functions / "_vpi")
    shell = Shell(place, "zsh", "-f")
    try:
        begin = f"fpath=({shlex.quote(str(functions))} $fpath); autoload -U compinit; compinit -u -D; echo rea''dy\r"
        shell.type(begin, "ready")
        shell.type("vpi --mod\t\t", "Print the answer")
        shell.type("\x15vpi --appr\t", "approve=")
        shell.type("re\t", "ad-only")
        shell.type("\x15vpi --model my/llama3:7\t", "0b ")
        shell.type("\x15vpi --session \t", f"{HEADER['id']} ")
        shell.type("\x15vpi --tools read,gr\t", "ep")
        shell.type("\x15vpi read @src/ma\t", "in.py")
        shell.type("\x15vpi mem\t", "ory ")
        shell.type("se\t", "arch ")
        shell.type("\x15vpi -\t\t", "Go on with this folder")
    finally:
        shell.close()
    assert not (place.work / "hacked").exists()


def test_every_flag_is_offered_with_its_words() -> None:
    options = {name: option for option in completed_options() for name in option.names}
    for field, hint in RunOptions.__annotations__.items():
        for name in (part for names in hint.__metadata__[0].names for part in names.split("/")):
            assert options[name].help
            assert field in ("tools", "words") or options[name].words == choices_of(hint.__origin__)


def test_values_come_with_a_word_on_each(place: Place) -> None:
    out = io.StringIO()
    run_completion(["sessions"], place.env, place.work, out)
    assert re.fullmatch(rf"{HEADER['id']}\t(now|\d+ \w+): hi\n", out.getvalue())
    out = io.StringIO()
    run_completion(["models"], {"VPI_HOME": str(place.work), "HOME": str(place.work)}, place.work, out)
    assert any(line.startswith("anthropic/claude") for line in out.getvalue().splitlines())


def test_other_words_are_refused_with_what_there_is(place: Place) -> None:
    with pytest.raises(ConfigError) as caught:
        run_completion(["powershell"], place.env, place.work, io.StringIO())
    assert "bash, zsh or fish" in caught.value.hint
    out = io.StringIO()
    assert run_completion(["--help"], place.env, place.work, out) == 0
    assert "completions/vpi.fish" in out.getvalue()


def test_completion_is_a_subcommand_only_with_its_own_words() -> None:
    assert subcommand(["completion", "bash"]) == subcommand(["completion"]) == "completion"
    assert subcommand(["completion", "of", "the", "work"]) == ""
    assert all(one.about for one in SUBCOMMANDS.values())


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_one_wrong_word_after_a_subcommand_is_told_and_no_prompt(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "nope"]) == 2
    told = capsys.readouterr().err
    assert f"vpi {name} does not know nope" in told
    assert f'vpi "{name} nope" asks the model' in told
    assert all(word in told for word in SUBCOMMANDS[name].words)
    assert subcommand([name, "of the work"]) == ""
    if name != "memory":
        assert subcommand([name, "nope", "at", "all"]) == ""
    assert subcommand([name, "-p"]) == subcommand([name, "@file"]) == ""
    assert run([name, ""]) == 2
    assert f"vpi {name} does not know ''" in capsys.readouterr().err
