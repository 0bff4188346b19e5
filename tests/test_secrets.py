from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest
from openviking_fake import openviking
from vpi_lab import Lab, lab

from vikingpi.app.options import RunOptions
from vikingpi.app.secrets import REDACT_OFF, make_redactor
from vikingpi.app.wiring import Seams, build_app, prepare
from vikingpi.config.model import Redact, Settings
from vikingpi.config.paths import locate
from vikingpi.debuglog import open_log, silent
from vikingpi.llm.base import Model, Price
from vikingpi.llm.registry import load_catalog
from vikingpi.llm.scripted import ScriptedProvider, Step
from vikingpi.net import HttpTransport
from vikingpi.private import kept_random
from vikingpi.redact import Redactor, secrets_in


def redactor_in(folder: Path, *given: str, keep: bool = True, **env: str) -> Redactor:
    paths = locate({"VPI_HOME": str(folder)})
    catalog = load_catalog(paths.models_file, paths.auth_file, env)
    return make_redactor(Settings(redact=Redact((r"ACME-\d+",))), paths, catalog, env, given, keep=keep)


def test_equal_secrets_are_masked_alike_in_every_process_over_one_folder(tmp_path: Path) -> None:
    text = "password = 'hunter2x'"
    first, second = (redactor_in(tmp_path / "a").mask(text)[0] for _ in range(2))
    assert first == second
    others = {redactor_in(tmp_path / str(n)).mask(text)[0] for n in range(4)}
    assert others != {first}
    assert stat.S_IMODE((tmp_path / "a" / "mask.salt").stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["mask.salt"]


def test_a_run_that_keeps_nothing_writes_no_salt(tmp_path: Path) -> None:
    redactor = redactor_in(tmp_path / "a", keep=False)
    assert redactor.mask("ACME-1")[1] == 1
    assert not (tmp_path / "a").exists()


def test_random_bytes_are_made_once_and_private_under_any_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        first = kept_random(tmp_path / "x" / "salt")
    finally:
        os.umask(old)
    assert len(first) == 16
    assert kept_random(tmp_path / "x" / "salt") == first
    assert [stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "x", tmp_path / "x" / "salt")] == [0o700, 0o600]
    (tmp_path / "file").touch()
    assert len(kept_random(tmp_path / "file" / "salt")) == 16


def test_the_keys_of_the_run_are_known_wherever_they_come_from(tmp_path: Path) -> None:
    provider = {
        "baseUrl": "http://127.0.0.1:1/v1",
        "apiKey": "plainkeyonefile",
        "headers": {"X-Custom-Auth-Token": "plainheadervalue", "Authorization": "Bearer plainbearervalue"},
        "models": [{"id": "m"}],
    }
    (tmp_path / "models.json").write_text(json.dumps({"providers": {"own": provider}}))
    (tmp_path / "auth.json").write_text(json.dumps({"openai": {"apiKey": "plainauthfilekey"}}))
    redactor = redactor_in(tmp_path, "plainflagkey", "", ANTHROPIC_API_KEY="plainanthropickey", WORDS="nothing secret")
    for secret in (
        "plainkeyonefile",
        "plainheadervalue",
        "plainbearervalue",
        "plainauthfilekey",
        "plainflagkey",
        "plainanthropickey",
    ):
        masked, count = redactor.mask(f"it is {secret}!")
        assert count == 1, secret
        assert secret not in masked
    assert redactor.mask("nothing secret") == ("nothing secret", 0)


def test_only_variables_that_are_secrets_by_name_and_look_are_known() -> None:
    env = {
        "MY_TOKEN": "abcdefghijkl",
        "DB_PASSWORD": "longpassword1",
        "API_KEY": "short",
        "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/Some/Key.json",
        "MAX_TOKEN": "123456789012345",
        "SECRET_NOTE": "these are several words",
        "GPG_KEY": "A035C8C19219BA821ECEA86B64E628F8D684696D",
        "PWD": "/somewhere/else",
        "HOME": "/home/somebody",
        "DUMMY_TOKEN": "your_token_here",
    }
    assert sorted(secrets_in(env)) == ["abcdefghijkl", "longpassword1"]


def test_the_debug_log_is_private_masked_and_stays_json(tmp_path: Path) -> None:
    path = tmp_path / "debug.log"
    redactor = Redactor()
    old = os.umask(0)
    try:
        log, _ = open_log({"OV_DEBUG_LOG": str(path)}, lambda record: redactor.mask_json(record)[0])
        log({"event": "x", "error": 'said "password": "hunter2x" and -----BEGIN PRIVATE KEY-----\nAAAA', "n": 3})
        log({"event": "y", "deep": [{"token": "abcd1234efgh"}], "path": Path("/x")})
    finally:
        os.umask(old)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["event"] for record in records] == ["x", "y"]
    assert records[0]["n"] == 3
    assert records[1]["path"] == "/x"
    assert not any(word in path.read_text() for word in ("hunter2x", "AAAA", "abcd1234efgh"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("value", ["", "0", "off", "No"])
def test_no_debug_log_unless_asked_for(value: str) -> None:
    assert open_log({"OV_DEBUG_LOG": value}, dict) == (silent, "")


def test_a_log_that_cannot_be_written_harms_nothing_and_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("no/such/log", "pipe", "folder", "a\0b", "~nobody-of-that-name/log"):
        place = name if name.startswith("~") else str(tmp_path / name)
        log, problem = open_log({"OV_DEBUG_LOG": place}, dict)
        log({"event": "x"})
        assert log is silent and problem.startswith("no debug log is written: ") and name.partition("/")[0] in problem
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_log_that_goes_away_later_harms_nothing(tmp_path: Path) -> None:
    log, problem = open_log({"OV_DEBUG_LOG": str(tmp_path / "log")}, dict)
    (tmp_path / "log").unlink()
    os.mkfifo(tmp_path / "log")
    log({"event": "x"})
    assert problem == ""


@pytest.fixture
def runs(tmp_path: Path) -> Lab:
    return Lab(tmp_path, "http://127.0.0.1:9")


def test_masking_that_is_off_is_said_at_the_start_and_only_where_something_is_stored(runs: Lab) -> None:
    runs.config(captureRedact=False)
    env = {"VPI_HOME": str(runs.home), "HOME": str(runs.folder)}
    assert REDACT_OFF in prepare(RunOptions(), env, runs.work).notices
    assert REDACT_OFF not in prepare(RunOptions(store="off"), env, runs.work).notices
    assert REDACT_OFF not in prepare(RunOptions(no_session=True), env, runs.work).notices
    runs.config()
    assert REDACT_OFF not in prepare(RunOptions(), env, runs.work).notices


def test_masking_that_is_off_stores_what_was_said(tmp_path: Path) -> None:
    with lab(tmp_path) as runs, openviking() as server:
        runs.config(captureRedact=False)
        done = runs.run("-p", "DB_PASSWORD=hunter2x", OPENVIKING_URL=server.url)
        assert REDACT_OFF in done.stderr.decode()
        assert "DB_PASSWORD=hunter2x" in server.text()


def test_the_report_counts_what_was_masked(runs: Lab) -> None:
    model = Model("p", "m", "scripted", "", "", {}, 1000, 100, False, False, Price(), {})
    env = {"VPI_HOME": str(runs.home), "HOME": str(runs.folder)}

    async def run() -> str:
        prepared = prepare(RunOptions(store="embedded"), env, runs.work)
        provider = ScriptedProvider([Step("token: abcd1234efgh")])
        transport = HttpTransport()
        app = build_app(prepared, "print", asyncio.ensure_future, Seams(transport, provider, model))
        await app.start()
        await app.submit("DB_PASSWORD=hunter2x and DB_PASSWORD=other3y")
        control = app.parts.takeover
        assert control is not None
        report = await control.report()
        await app.close("quit")
        return report

    assert "masked       3 secrets" in asyncio.run(run())
