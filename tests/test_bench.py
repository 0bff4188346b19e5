import json
import subprocess
import sys
from pathlib import Path

import bench
import pytest
from figures import Compared, Failed, Single, Skipped, Spread, as_json, table
from lab import KEPT_VARIABLES, PROJECT, Lab, find_pi
from paired import BenchError, Command, Unavailable, compare, run, spread
from patience import PATIENCE

HALF = Spread(0.5, 0.4, 0.7)


def compared(*, wall: float = 0.5, memory: float = 0.3) -> Compared:
    ratio, of_memory = HALF._replace(middle=wall), HALF._replace(middle=memory)
    return Compared("row", ("vpi", "pi"), 5, (100.0, 200.0), ratio, 0.6, HALF, (30.0, 100.0), of_memory, 0.45, HALF)


def python(folder: Path, code: str, says: str = "") -> Command:
    return Command((sys.executable, "-I", "-S", "-c", code), folder, {}, says)


def test_a_budget_holds_for_time_and_for_memory() -> None:
    assert compared().kept
    assert not compared(wall=0.61).kept
    assert not compared(memory=0.46).kept
    assert Single("figure", 1.0, "ms", 1.0).kept
    assert not Single("figure", 1.1, "ms", 1.0).kept
    assert Single("share", 0.98, "", 0.97, at_least=True).kept
    assert not Single("share", 0.96, "", 0.97, at_least=True).kept


def test_the_table_shows_what_was_missed_and_what_was_skipped() -> None:
    broken = Failed("other", "it ended with 1")
    text = table([compared(wall=0.7), Single("commit", 3.25, "ms", 2.0, "embedded"), Skipped("row", "no pi"), broken])
    lines = text.splitlines()
    assert "0.700 (0.400 - 0.700)" in lines[2]
    assert lines[2].endswith("| MISSED |")
    assert "3.25 ms" in lines[-3]
    assert "MISSED" in lines[-3]
    assert lines[-2:] == ["skipped: row: no pi", "FAILED: other: it ended with 1"]
    assert not broken.kept


def test_figures_can_be_read_by_programs() -> None:
    data = json.loads(json.dumps(as_json(compared())))
    assert (data["kind"], data["kept"], data["wall"]["middle"]) == ("compared", True, 0.5)


def test_median_and_quartiles() -> None:
    assert spread([5.0, 1.0, 3.0, 2.0, 4.0]) == Spread(3.0, 2.0, 4.0)
    assert spread([2.0]) == Spread(2.0, 2.0, 2.0)


def test_a_run_is_timed_and_its_memory_counted(tmp_path: Path) -> None:
    small = run(python(tmp_path, "print('done')", "done"))
    large = run(python(tmp_path, "import time; x = bytearray(60 << 20); x[::4096] = x[::4096]; time.sleep(0.1)"))
    assert large.wall > 100
    assert large.memory > small.memory + 50
    assert small.memory < 25


def test_a_run_that_fails_or_is_silent_does_not_count(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="ended with 3"):
        run(python(tmp_path, "raise SystemExit(3)"))
    with pytest.raises(BenchError, match="said 'something else"):
        run(python(tmp_path, "print('something else')", "done"))


def test_the_first_prompt_is_looked_for_on_a_terminal(tmp_path: Path) -> None:
    code = "import os, time; print('tty' if os.isatty(0) else 'pipe', flush=True); time.sleep(60)"
    shown = run(python(tmp_path, code, "tty")._replace(on_terminal=True))
    assert shown.wall < 1000 * PATIENCE
    with pytest.raises(BenchError):
        run(python(tmp_path, "print('no prompt')", "tty")._replace(on_terminal=True))


def test_two_commands_are_run_by_turns_and_more_often_where_they_scatter(tmp_path: Path) -> None:
    order = tmp_path / "order"
    sides = [python(tmp_path, f"open({str(order)!r}, 'a').write({side!r})") for side in "AB"]
    found = compare("row", sides[0], sides[1], 2, budget=None)
    assert order.read_text().startswith("AB" + "BA" + "AB")
    assert len(order.read_text()) == 2 + 2 * found.pairs
    assert 2 <= found.pairs <= 6
    assert found.wall.low <= found.wall.middle <= found.wall.high


def test_each_row_file_can_be_loaded_and_named_with_or_without_its_number() -> None:
    names = bench.names()
    assert names == sorted(names)
    assert all(callable(bench.load(name)) for name in names)
    assert bench.chosen(["one-shot", names[0]]) == [names[0], "20-one-shot"]
    with pytest.raises(BenchError, match="there are"):
        bench.chosen(["nothing"])


def test_no_key_of_the_users_reaches_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-users-own")
    monkeypatch.setenv("OPENVIKING_URL", "https://users.own")
    lab = Lab(tmp_path, tmp_path, tmp_path, "http://127.0.0.1:1", 1)
    ours, theirs = lab.vpi("-p", "hi"), lab.real_pi("-p", "hi")
    for command in (ours, theirs):
        own = {name for name in command.env if name.startswith(("VPI_", "PI_", "PYTHONPATH"))}
        assert set(command.env) - own <= {*KEPT_VARIABLES, "HOME", "TERM"}
        assert "users-own" not in json.dumps(command.env)
        assert "users.own" not in json.dumps(command.env)
    assert (
        Path(ours.env["VPI_HOME"], "models.json").read_text()
        == Path(theirs.env["PI_CODING_AGENT_DIR"], "models.json").read_text()
    )


def test_a_row_that_needs_pi_is_skipped_where_there_is_none_and_keeps_what_it_found_before(tmp_path: Path) -> None:
    lab = Lab(tmp_path, tmp_path, None, "http://127.0.0.1:1", 1)
    with pytest.raises(Unavailable, match="cannot be had"):
        lab.real_pi("--version")
    figures = bench.measure(["10-version", "80-takeover"], lab)
    assert [type(figure) for figure in figures] == [Skipped, Single, Single]
    assert "cannot be had" in figures[0]._asdict()["why"]


def test_pi_is_looked_for_where_it_was_named_and_needs_npm_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("VPI_BENCH_PI", raising=False)
    with pytest.raises(Unavailable, match="npm is needed"):
        find_pi(tmp_path)
    monkeypatch.setenv("VPI_BENCH_PI", str(tmp_path))
    with pytest.raises(Unavailable, match="has no node_modules"):
        find_pi(tmp_path)


def test_the_whole_command_runs_without_npm_and_skips_what_needs_pi(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path), "VPI_BENCH_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, str(PROJECT / "scripts" / "benchmark" / "bench.py"), "version", "takeover"]
    env["PYTHONPATH"] = str(PROJECT)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "npm is needed" in done.stderr
    assert "skipped: 10-version: pi 1.6.0 cannot be had" in done.stdout
    kinds = [figure["kind"] for figure in json.loads((tmp_path / "cache" / "last.json").read_text())["figures"]]
    assert kinds == ["skipped", "single", "single"]
