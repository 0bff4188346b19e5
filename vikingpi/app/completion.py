"""`vpi completion SHELL`: a script for bash, zsh or fish that completes options, subcommands and their values.

A script is made once. What changes (models, providers, sessions) it asks for when Tab is pressed: `vpi completion
models` prints one value a line, and after a tab what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from vikingpi.app.arguments import SUBCOMMANDS
from vikingpi.app.completion_scripts import SCRIPTS, Completed, Takes
from vikingpi.app.completion_values import VALUES
from vikingpi.app.options import Flag, RunOptions, Words
from vikingpi.app.plain_arguments import choices_of, is_switch
from vikingpi.errors import ConfigError

USAGE = """\
vpi completion bash|zsh|fish: print a script that completes what is typed after `vpi`
  bash: vpi completion bash > ~/.local/share/bash-completion/completions/vpi
  zsh:  vpi completion zsh > "${fpath[1]}/_vpi"
  fish: vpi completion fish > ~/.config/fish/completions/vpi.fish
vpi completion models|providers|sessions: print the values that the scripts offer
"""
_TAKES: dict[str, Takes] = {
    "append_system_prompt": "files",
    "extensions": "files",
    "export": "sessions",
    "fork": "sessions",
    "model": "models",
    "provider": "providers",
    "session": "sessions",
    "session_dir": "folders",
    "system_prompt": "files",
    "tools": "list",
}
_TOOLS = ("read", "bash", "edit", "write", "grep", "find", "ls")


def run_completion(rest: Sequence[str], env: Mapping[str, str], cwd: Path, out: TextIO) -> int:
    """Print a script or values; ConfigError for anything else."""
    word = rest[0] if len(rest) == 1 else ""
    if word in ("--help", "-h"):
        out.write(USAGE)
    elif word in SCRIPTS:
        out.write(SCRIPTS[word](completed_options(), SUBCOMMANDS))
    elif word in VALUES:
        out.writelines(f"{value}\t{about}\n" for value, about in VALUES[word](env, cwd))
    else:
        raise ConfigError("vpi completion makes a script for one shell", hint="vpi completion bash, zsh or fish")
    return 0


def completed_options() -> tuple[Completed, ...]:
    """Return every option of the command line."""
    found = [Completed(("--help", "-h"), "Show all options and exit")]
    for field, hint in RunOptions.__annotations__.items():
        kind, flag = hint.__origin__, hint.__metadata__[0]
        assert isinstance(flag, Flag)
        about = flag.help.rstrip(".")
        if is_switch(kind):
            found.append(Completed(tuple(name for pair in flag.names for name in pair.split("/")), about))
        elif words := choices_of(kind):
            found.append(Completed(flag.names, about, "words", words))
        elif flag.names:
            words = _TOOLS if field == "tools" else ()
            found.append(Completed(flag.names, about, _TAKES.get(field, "text"), words, kind == Words))
    return tuple(sorted(found, key=lambda one: one.names))
