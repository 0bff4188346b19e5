"""The command `vpi`.

A lone `--version` is answered with what is imported here. Everything else is imported where it is needed: the time
to the first prompt is made of imports.
"""

from __future__ import annotations

import gc
import sys

from vikingpi import __version__


def main() -> None:
    """Run the command line and exit with its code.

    What imports make stays, and so does what is left at the end: looking through it for garbage takes a sixth of
    a one-shot run. In between the collector works as ever.
    """
    gc.disable()
    _have_streams()
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except OSError as error:
        code = _unwritable(error)
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 1
    finally:
        gc.disable()
        gc.freeze()
    if "vikingpi.extensions.api" in sys.modules:
        from vikingpi.extensions.ending import leave_within

        leave_within(code)
    sys.exit(code)


def _have_streams() -> None:
    """End here without a standard output; without a standard error, nobody hears what would go there.

    A closed stream is None, and the next file that is opened would get its number.
    """
    if sys.stderr is None or sys.stdout is None:
        import os

        if sys.stderr is None:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 2)
            sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for the life of the process
        if sys.stdout is None:
            sys.stderr.write("error: standard output is closed\n")
            sys.exit(1)


def run(argv: list[str]) -> int:
    """Run with these arguments and return the exit code."""
    if argv in (["--version"], ["-v"]):
        print(f"vpi {__version__}")  # noqa: T201 - the answer itself
        return 0
    from vikingpi.app.arguments import parse, subcommand
    from vikingpi.errors import VpiError

    try:
        name = subcommand(argv)
        if name:
            return _subcommand(name, argv[1:])
        options = parse(argv)
        if options is None:
            return 0
        if options.version:
            print(f"vpi {__version__}")  # noqa: T201 - the answer itself
            return 0
        from vikingpi.ui.run import run_options

        return run_options(options)
    except VpiError as error:
        return _fail(error)
    except KeyboardInterrupt:
        return 130


def _subcommand(name: str, rest: list[str]) -> int:
    if name == "sessions":
        from vikingpi.app.listing import run_sessions

        return run_sessions(rest, sys.stdout)
    if name == "help":
        return run(["--help"])
    if name == "completion":
        import os
        from pathlib import Path

        from vikingpi.app.completion import run_completion

        return run_completion(rest, os.environ, Path.cwd(), sys.stdout)
    if name == "doctor":
        import os
        from pathlib import Path

        from vikingpi.app.doctor import run_doctor

        return run_doctor(rest, os.environ, Path.cwd(), sys.stdout)
    if name == "memory":
        import os
        from pathlib import Path

        from vikingpi.app.memory_cmd import run_memory

        return run_memory(rest, os.environ, Path.cwd(), sys.stdout)
    from vikingpi.ui.demo_view import run_demo

    return run_demo(rest, sys.stdout)


def _unwritable(error: OSError) -> int:
    """Say that an output or file cannot be used; the interpreter's last flush must be quiet about it."""
    import os

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    if isinstance(error, BrokenPipeError):
        return 1
    from vikingpi.errors import VpiError

    what = f"{error.filename}: " if error.filename else "cannot write the output: "
    return _fail(VpiError(f"{what}{error.strerror or error}", hint="make room, or write to another place"))


def _fail(error: Exception) -> int:
    from vikingpi.errors import ConfigError, SessionError
    from vikingpi.safetext import plain

    sys.stderr.write(f"error: {plain(str(error))}\n")
    hint = getattr(error, "hint", "")
    if hint:
        sys.stderr.write(f"hint: {plain(hint)}\n")
    return 2 if isinstance(error, (ConfigError, SessionError)) else 1
