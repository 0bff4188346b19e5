import os
import subprocess
import sys
from pathlib import Path

import pytest
from session_kit import HEADER, opened, session_file, user

from vikingpi.errors import SessionError, SessionLocked
from vikingpi.messages import user_text
from vikingpi.session.file import create_session
from vikingpi.session.lock import lock_session

HOLDER = """
import sys
from pathlib import Path
from vikingpi.session.file import open_session
path = Path(sys.argv[1])
log = open_session(path, path.parent / "locks")
print("open", flush=True)
sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[bytes]:
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"open\n"
    return process


def test_a_second_process_is_told_who_has_the_session_and_a_killed_one_frees_it(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("u1", None))
    with holder(path) as process:
        try:
            with pytest.raises(SessionLocked, match=f"in use by process {process.pid}") as caught:
                opened(path)
            assert caught.value.pid == process.pid
            assert f"vpi --fork {HEADER['id']}" in caught.value.hint
        finally:
            process.kill()
    assert (tmp_path / "locks" / f"{HEADER['id']}.lock").exists()
    log = opened(path)
    log.append_message(user_text("hi", 1))
    log.close()
    assert list((tmp_path / "locks").iterdir()) == []


def test_closing_frees_the_session_in_the_same_process(tmp_path: Path) -> None:
    path = session_file(tmp_path, user("u1", None))
    first = opened(path)
    with pytest.raises(SessionLocked, match=str(os.getpid())):
        opened(path)
    first.close()
    opened(path).close()


def test_a_given_id_is_locked_before_its_file_exists(tmp_path: Path) -> None:
    first = create_session(tmp_path, "/", tmp_path / "locks", session_id="mine")
    with pytest.raises(SessionLocked):
        create_session(tmp_path, "/", tmp_path / "locks", session_id="mine")
    first.close()


def test_a_lock_file_that_was_removed_is_not_mistaken_for_the_lock(tmp_path: Path) -> None:
    first = lock_session(tmp_path, "s")
    stale = os.open(tmp_path / "s.lock", os.O_RDWR)
    first.release()
    second = lock_session(tmp_path, "s")
    with pytest.raises(SessionLocked):
        lock_session(tmp_path, "s")
    os.close(stale)
    second.release()
    first.release()
    assert not (tmp_path / "s.lock").exists()


def test_a_lock_folder_that_cannot_be_made_is_a_session_error(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("in the way")
    with pytest.raises(SessionError, match="cannot lock session s") as caught:
        lock_session(tmp_path / "locks", "s")
    assert not isinstance(caught.value, SessionLocked)
