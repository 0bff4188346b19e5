import io
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from vpi_lab import Lab, lab

from vikingpi.app.arguments import subcommand
from vikingpi.app.doctor import run_doctor
from vikingpi.app.doctor_packages import check_packages
from vikingpi.errors import ConfigError


def doctor(runs: Lab, **env: str) -> tuple[int, str]:
    out = io.StringIO()
    code = run_doctor((), runs.environment({"TERM": "xterm", **env}), runs.work, out)
    return code, out.getvalue()


def test_a_working_setup_is_well_and_nothing_is_written(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        before = sorted(runs.home.rglob("*"))
        code, text = doctor(runs)
        assert sorted(runs.home.rglob("*")) == before
    assert code == 0, text
    assert "local/scripted: answers" in text
    assert "embedded" in text
    assert "nothing waits" in text
    assert text.endswith("all is well\n")


def test_installed_packages_are_named_and_a_compromised_one_is_bad() -> None:
    assert re.search(r"httpx \d[\d.]+, litellm \d[\d.]+, .*typer", check_packages().text)
    for version in ("1.82.7", "1.82.8", "1.107.0"):
        found = check_packages(lambda name: ["litellm>=1.108,<2", 'pytest; extra == "dev"'], lambda name, v=version: v)
        assert found.bad
        assert found.text == f"litellm {version} is a compromised release that steals keys"
    assert not check_packages(lambda name: ["litellm>=1"], lambda name: "1.108.0").bad


def test_a_missing_package_is_bad() -> None:
    found = check_packages(lambda name: ["no-such-package-at-all>=1"])
    assert (found.bad, found.text) == (True, "no-such-package-at-all is missing")


def test_without_a_model_it_says_what_to_do(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        (runs.home / "models.json").unlink()
        code, text = doctor(runs)
    assert code == 1
    assert "BAD   model      no model is configured" in text
    assert "ANTHROPIC_API_KEY" in text
    assert "1 to mend" in text


def test_a_model_and_a_server_that_do_not_answer_are_named_with_a_hint(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        runs.models("http://127.0.0.1:9")
        code, text = doctor(runs, OPENVIKING_URL="http://127.0.0.1:9")
    assert code == 1
    assert "local/scripted: does not answer" in text
    assert "OpenViking http://127.0.0.1:9 (from OPENVIKING_URL): does not answer" in text
    assert "2 to mend" in text


def test_broken_files_hide_nothing_else(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        (runs.home / "config.json").write_text("{")
        (runs.home / "outbox.db").write_text("this is no database, and long enough to be looked at as one")
        code, text = doctor(runs)
        assert "BAD   settings" in text
        assert "local/scripted" not in text
        runs.write("config.json", {"nosuch": 1})
        code, text = doctor(runs)
    assert code == 1
    assert "note  settings" in text
    assert "nosuch" in text
    assert "BAD   outbox" in text
    assert "local/scripted: answers" in text


@pytest.mark.parametrize(("name", "subject"), [("store.db", "store"), ("outbox.db", "outbox")])
@pytest.mark.parametrize("harm", ["newer", "damaged"])
def test_a_file_that_every_run_refuses_is_not_called_well(tmp_path: Path, name: str, subject: str, harm: str) -> None:
    with lab(tmp_path) as runs:
        runs.config()
        assert runs.run("-p", "SAY hello").returncode == 0
        path = runs.home / name
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode = DELETE")
            if harm == "newer":
                database.execute("PRAGMA user_version = 99")
        if harm == "damaged":
            body = path.read_bytes()
            path.write_bytes(body[:4096] + b"\xa5" * (len(body) - 4096))
        before = path.read_bytes()
        code, text = doctor(runs)
        assert path.read_bytes() == before
    assert code == 1
    line = next(line for line in text.splitlines() if line.startswith(f"BAD   {subject}"))
    assert harm in line
    assert "1 to mend" in text


def test_what_waits_and_what_others_can_read_is_said(tmp_path: Path) -> None:
    with lab(tmp_path) as runs:
        runs.config()
        assert runs.run("-p", "SAY hello").returncode == 0
        with sqlite3.connect(runs.home / "outbox.db") as database:
            database.execute("UPDATE message SET state = 'new'")
        (runs.home / "outbox.db").chmod(0o644)
        code, text = doctor(runs)
    assert code == 0
    assert "messages wait for embedded:" in text
    assert re.search(r"\nnothing to mend; pending: \d+ messages wait for embedded:.*\n\Z", text)
    assert "chmod 600" in text
    assert "1 of this folder" in text


def test_its_words() -> None:
    out = io.StringIO()
    assert run_doctor(("--help",), {}, Path(), out) == 0
    assert out.getvalue().startswith("vpi doctor")
    with pytest.raises(ConfigError, match="does not know now"):
        run_doctor(("now",), {}, Path(), out)
    assert subcommand(["doctor"]) == "doctor"
    assert subcommand(["doctor", "my code"]) == ""
    assert subcommand(["help"]) == "help"
    assert subcommand(["help", "me", "out"]) == ""
