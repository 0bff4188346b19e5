"""The question that a folder with settings or code of its own raises once, before anything of it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from vikingpi.app.options import RunOptions
from vikingpi.config.load import described
from vikingpi.config.paths import home_of, locate
from vikingpi.config.trust import needs_trust, remember, remembered
from vikingpi.errors import Stopped
from vikingpi.safetext import literal
from vikingpi.ui.plain import write

_QUESTION = """\
{folder} brings settings or code of its own:
{names}
Trusted, they can choose servers, keys and prompts, and run as you.
Trust this folder? [y]es, [n]o (both are remembered), Enter for not now: """


def ask_trust(options: RunOptions, env: Mapping[str, str], cwd: Path, source: TextIO, out: TextIO) -> RunOptions:
    """Ask unless a flag, an earlier answer or the lack of such files decides.

    ConfigError for a broken trust.json, Stopped at the end of the input.
    """
    paths = locate(env)
    if options.trust is not None or remembered(paths, cwd) is not None:
        return options
    names = needs_trust(cwd, paths, home_of(env))
    if not names:
        return options
    listed = "\n".join(f"  {literal(name)}" for name in described(cwd, names))
    write(out, _QUESTION.format(folder=literal(str(cwd)), names=listed))
    line = source.readline()
    if not line:
        write(out, "\n")
        raise Stopped(0)
    answer = line.strip().lower()
    if answer in ("y", "yes", "n", "no"):
        remember(paths, cwd, answer[0] == "y")
    return options._replace(trust=answer in ("y", "yes"))
