from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from vpi_lab import lab

from vikingpi.app.leftovers import KEPT_SECONDS, sweep
from vikingpi.session.lock import lock_session

NOW = 2_000_000_000.0


def output(folder: Path, name: str, age: float) -> Path:
    path = folder / name / "bash-1.log"
    path.parent.mkdir(parents=True)
    path.write_text("x")
    for each in (path, path.parent):
        os.utime(each, (NOW - age, NOW - age))
    return path.parent


def test_output_goes_seven_days_after_its_last_use(tmp_path: Path) -> None:
    old = output(tmp_path / "tmp", "old", KEPT_SECONDS + 60)
    new = output(tmp_path / "tmp", "new", KEPT_SECONDS - 60)
    used = output(tmp_path / "tmp", "used", KEPT_SECONDS + 60)
    os.utime(used / "bash-1.log", (NOW, NOW))
    assert sweep(tmp_path / "tmp", tmp_path / "locks", NOW) == 1
    assert (old.exists(), new.exists(), used.exists()) == (False, True, True)
    assert list((tmp_path / "locks").iterdir()) == []


def test_output_of_a_session_that_is_open_stays(tmp_path: Path) -> None:
    old = output(tmp_path / "tmp", "open", KEPT_SECONDS * 2)
    lock = lock_session(tmp_path / "locks", "open")
    assert sweep(tmp_path / "tmp", tmp_path / "locks", NOW) == 0
    assert old.exists()
    lock.release()
    assert sweep(tmp_path / "tmp", tmp_path / "locks", NOW) == 1


def test_links_and_what_lies_behind_them_are_left_alone(tmp_path: Path) -> None:
    elsewhere = output(tmp_path, "elsewhere", KEPT_SECONDS * 2)
    old = output(tmp_path / "tmp", "old", KEPT_SECONDS * 2)
    (tmp_path / "tmp" / "link").symlink_to(elsewhere)
    (old / "inner").symlink_to(elsewhere)
    for each in (old / "inner", old):
        os.utime(each, (NOW - KEPT_SECONDS * 2, NOW - KEPT_SECONDS * 2), follow_symlinks=False)
    assert sweep(tmp_path / "tmp", tmp_path / "locks", NOW) == 1
    assert (elsewhere / "bash-1.log").exists()


def test_nothing_to_sweep_is_no_error(tmp_path: Path) -> None:
    assert sweep(tmp_path / "tmp", tmp_path / "locks", NOW) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("days", [6, 8])
def test_a_run_sweeps_at_its_end_and_keeps_its_own(tmp_path: Path, days: int) -> None:
    with lab(tmp_path) as runs:
        old = output(runs.home / "tmp", "old", NOW - time.time() + days * 86_400)
        done = runs.run("-p", "RUN: seq 1 30000")
        assert done.returncode == 0, done.stderr
        assert old.exists() is (days == 6)
        (kept,) = [path for path in (runs.home / "tmp").rglob("*.log") if path.parent != old]
        assert kept.read_text().endswith("29999\n30000\n")
