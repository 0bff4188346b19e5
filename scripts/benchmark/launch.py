"""Run one command and print what it took as JSON: python -I -S launch.py REQUEST (see `Request` in paired.py).

Linux counts the memory of the process that forks as the least a child ever had. That process is this one, so it
imports little. Times are ms, memory is MiB.
"""

from __future__ import annotations

import json
import os
import sys
import time

KEYS = ("argv", "cwd", "env", "output", "marker", "seconds")


def plain(argv: list[str], cwd: str, env: dict[str, str], output: str) -> tuple[float, float, int, float, int]:
    """Run to the end with no standard input and all output in the file `output`.

    Gives start and end (s), the wait status, CPU (s) and peak memory in the system's unit.
    """
    os.chdir(cwd)
    wanted = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, output, wanted, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    start = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    return start, time.perf_counter(), status, used.ru_utime + used.ru_stime, used.ru_maxrss


def on_terminal(
    argv: list[str], cwd: str, env: dict[str, str], output: str, marker: str, seconds: float
) -> tuple[float, float, int, float, int]:
    """Run on a terminal of its own until `marker` is on it, then end the process."""
    import fcntl
    import pty
    import select
    import signal
    import struct
    import termios

    start = time.perf_counter()
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(cwd)
        os.execve(argv[0], argv, env)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
    seen, shown = b"", 0.0
    while not shown and time.perf_counter() - start < seconds:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError:
                break
            if marker.encode() in seen:
                shown = time.perf_counter()
    file = os.open(output, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(file, seen)
    os.close(file)
    os.kill(pid, signal.SIGKILL)
    _, _, used = os.wait4(pid, 0)
    return start, shown or start, 0 if shown else 256, used.ru_utime + used.ru_stime, used.ru_maxrss


def main() -> None:
    request = json.loads(sys.argv[1])
    argv, cwd, env, output, marker, seconds = (request[key] for key in KEYS)
    start, end, status, cpu, memory = (
        on_terminal(argv, cwd, env, output, marker, seconds) if marker else plain(argv, cwd, env, output)
    )
    per_mib = 1 << 20 if sys.platform == "darwin" else 1 << 10
    result = {
        "wall": (end - start) * 1000,
        "cpu": cpu * 1000,
        "memory": memory / per_mib,
        "code": os.waitstatus_to_exitcode(status),
    }
    print(json.dumps(result))


main()
