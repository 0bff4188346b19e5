from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tool_kit import context_in, run, text_of

from vikingpi.tools.bash import BashTool
from vikingpi.tools.output import Output

MIB = 1 << 20


def filled(output: Output, pieces: int) -> Path | None:
    for _ in range(pieces):
        output.feed(b"x" * 65_535 + b"\n")
    output.close()
    return output.path


def shrinking(room: int) -> Callable[[int], int]:
    return lambda file: room - os.fstat(file).st_size


def full(number: int, after: int) -> Callable[[int], int]:
    """A disk that says it has room, until it has not."""

    def room(file: int) -> int:
        if os.fstat(file).st_size >= after:
            raise OSError(number, os.strerror(number))
        return after

    return room


def test_an_output_ends_where_the_disk_keeps_no_more_than_its_reserve(tmp_path: Path) -> None:
    output = Output(tmp_path, shrinking(MIB))
    path = filled(output, 40)
    assert path is not None and path.stat().st_size == MIB
    assert output.problem == "the disk is nearly full"
    assert output.total_lines == 40


def test_an_output_for_which_there_is_no_room_leaves_no_file(tmp_path: Path) -> None:
    output = Output(tmp_path, shrinking(-1))
    assert filled(output, 3) is None
    assert list(tmp_path.iterdir()) == []
    assert output.problem == "the disk is nearly full"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_an_output_that_took_the_last_of_the_disk_gives_some_back(tmp_path: Path, number: int) -> None:
    output = Output(tmp_path, full(number, 4 * MIB))
    path = filled(output, 100)
    assert path is not None and 2.9 * MIB < path.stat().st_size <= 3 * MIB + 65_536
    assert output.problem == os.strerror(number)


def test_what_is_too_little_to_give_back_goes_as_a_whole(tmp_path: Path) -> None:
    output = Output(tmp_path, full(errno.ENOSPC, 500_000))
    assert filled(output, 100) is None
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_another_kind_leaves_what_was_written(tmp_path: Path) -> None:
    output = Output(tmp_path, full(errno.EIO, 500_000))
    path = filled(output, 100)
    assert path is not None and path.stat().st_size >= 500_000


IN_SMALL_DISK = """
import os, sys
from pathlib import Path
from tool_kit import context_in, run, text_of
from vikingpi.tools.bash import BashTool
disk = Path(sys.argv[1])
for _ in range(3):
    print(text_of(run(BashTool(), context_in(disk), command="head -c 20000000 /dev/zero | tr '\\\\0' x"))[-100:])
left = os.statvfs(disk)
print(left.f_bavail * left.f_frsize)
"""


IN_FULL_DISK = """
import sys
from pathlib import Path
from vikingpi.app.options import RunOptions
from vikingpi.app.sessions import open_chosen, session_folder
from vikingpi.config.paths import Paths
from vikingpi.errors import SessionError
from vikingpi.messages import user_text
disk = Path(sys.argv[1])
paths = Paths(disk, disk, disk)
folder = session_folder("", paths, disk)
session = open_chosen(RunOptions(), folder).session
session.append_message(user_text("hello", 1))
session.close()
paths.outputs.mkdir()
try:
    with open(paths.outputs / "log", "wb", buffering=0) as log:
        while log.write(bytes(4096)) == 4096:
            pass
except OSError:
    pass
try:
    open_chosen(RunOptions(continue_session=True), folder)
except SessionError as error:
    print(error, error.hint, sep="\\n")
(paths.outputs / "log").unlink()
print(len(open_chosen(RunOptions(continue_session=True), folder).session.branch()))
"""


def in_small_disk(folder: Path, code: str) -> list[str]:
    """Run code with a file system of 6 MB at the folder, which it has as its argument; return what it prints."""
    mount = 'mount -t tmpfs -o size=6m none "$1" && shift && exec "$@"'
    mounted = ["unshare", "-rm", "sh", "-c", mount, "sh", str(folder)]
    if subprocess.run([*mounted, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted")
    done = subprocess.run(
        [*mounted, sys.executable, "-c", code, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_commands_on_a_small_disk_leave_room_for_the_session(tmp_path: Path) -> None:
    *told, left = in_small_disk(tmp_path, IN_SMALL_DISK)
    assert "the disk is nearly full" in "".join(told)
    assert int(left) >= 900_000


def test_a_lock_on_a_full_disk_says_what_can_be_freed(tmp_path: Path) -> None:
    said, hint, branch = in_small_disk(tmp_path, IN_FULL_DISK)
    assert "cannot lock session" in said and "No space left" in said
    assert str(tmp_path / "locks") in hint and str(tmp_path / "tmp") in hint
    assert int(branch) == 1


def test_the_result_says_that_the_whole_was_not_kept(tmp_path: Path) -> None:
    context = context_in(tmp_path)
    context.temp_dir.write_text("in the way")
    text = text_of(run(BashTool(), context, command="seq 100000"))
    assert "The rest could not be kept: " in text
