import json
from pathlib import Path

import pytest
from test_config_load import loaded

from vikingpi.config.endpoint import Endpoint
from vikingpi.config.load import Loaded


def own_files(home: Path, *, cli: object = None, server: object = None) -> dict[str, str]:
    folder = home / "user" / ".openviking"
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in (("ovcli.conf", cli), ("ov.conf", server)):
        if values is not None:
            (folder / name).write_text(values if isinstance(values, str) else json.dumps(values))
    return {"HOME": str(home / "user")}


def endpoint(result: Loaded) -> Endpoint:
    assert result.endpoint is not None
    assert result.problems == ()
    return result.endpoint


def test_the_order_is_environment_config_ovcli_ov(tmp_path: Path) -> None:
    cli = {"url": "http://cli:1", "api_key": "ck", "account": "ca", "user": "cu", "actor_peer_id": "cp"}
    env = own_files(tmp_path, cli=cli, server={"server": {"host": "0.0.0.0", "port": 4}})
    config = {"openviking": {"url": "http://conf:2/", "apiKey": "k", "account": "a", "user": "u"}}
    variables = {"OPENVIKING_URL": "http://env:3", "OPENVIKING_API_KEY": "ek"}
    folder = tmp_path / "user" / ".openviking"

    assert endpoint(loaded(tmp_path, config, env=env | variables)) == ("http://env:3", "ek", "", "", "OPENVIKING_URL")
    file = str(tmp_path / "config" / "config.json")
    result = loaded(tmp_path, config, env=env)
    assert endpoint(result) == ("http://conf:2", "k", "a", "u", file)
    assert tuple(result.settings.openviking) == ("a", "k", "http://conf:2", "u")
    assert result.settings.peer_id == ""
    result = loaded(tmp_path, {}, env=env)
    assert endpoint(result) == ("http://cli:1", "ck", "ca", "cu", str(folder / "ovcli.conf"))
    assert result.settings.peer_id == "cp"
    (folder / "ovcli.conf").unlink()
    assert endpoint(loaded(tmp_path, {}, env=env)) == ("http://127.0.0.1:4", "", "", "", str(folder / "ov.conf"))


def test_the_other_names_of_the_variables_are_read(tmp_path: Path) -> None:
    env = {
        "OPENVIKING_BASE_URL": "ov.example:99/",
        "OPENVIKING_BEARER_TOKEN": "t",
        "OPENVIKING_ACCOUNT": "a",
        "OPENVIKING_USER": "u",
    }
    assert endpoint(loaded(tmp_path, env=env)) == ("http://ov.example:99", "t", "a", "u", "OPENVIKING_BASE_URL")


def test_a_key_goes_only_where_it_was_written_for(tmp_path: Path) -> None:
    env = own_files(tmp_path, cli={"url": "http://cli:1", "api_key": "ck", "user": "cu"})
    elsewhere = endpoint(loaded(tmp_path, env=env | {"OPENVIKING_URL": "http://other:1"}))
    assert (elsewhere.api_key, elsewhere.user) == ("", "")
    same = endpoint(loaded(tmp_path, env=env | {"OPENVIKING_URL": "http://CLI:1/"}))
    assert (same.api_key, same.user) == ("ck", "cu")
    own_key = endpoint(loaded(tmp_path, env=env | {"OPENVIKING_API_KEY": "ek"}))
    assert (own_key.url, own_key.api_key, own_key.user) == ("http://cli:1", "ek", "cu")


def test_the_key_of_the_user_does_not_go_to_the_host_of_a_project(tmp_path: Path) -> None:
    project = {"openviking": {"url": "http://project:1"}}
    for config, env, source in (
        ({"openviking": {"apiKey": "k"}}, {}, "config.json"),
        ({}, {"OPENVIKING_API_KEY": "ek", "OPENVIKING_ACCOUNT": "a"}, "OPENVIKING_API_KEY"),
    ):
        result = loaded(tmp_path, config, env=env, project=project, trusted=True)
        assert result.endpoint is not None
        assert result.endpoint[:4] == ("http://project:1", "", "", "")
        (problem,) = result.problems
        assert source in problem and "http://project:1" in problem


def test_a_project_that_brings_its_own_key_gets_that_one(tmp_path: Path) -> None:
    project = {"openviking": {"url": "http://project:1", "apiKey": "pk", "user": "pu"}}
    env = {"OPENVIKING_ACCOUNT": "a"}
    assert endpoint(loaded(tmp_path, env=env, project=project, trusted=True))[:4] == (
        "http://project:1",
        "pk",
        "",
        "pu",
    )


def test_the_root_key_of_a_server_is_never_used(tmp_path: Path) -> None:
    env = own_files(tmp_path, server={"server": {"root_api_key": "root", "host": "::", "port": "1944"}})
    assert endpoint(loaded(tmp_path, env=env))[:2] == ("http://[::1]:1944", "")


@pytest.mark.parametrize("server", [{"embedding": {}}, {"server": None}, {}])
def test_a_server_file_without_a_server_names_no_endpoint(tmp_path: Path, server: object) -> None:
    assert loaded(tmp_path, env=own_files(tmp_path, server=server)).endpoint is None


def test_a_server_section_without_address_means_the_usual_port(tmp_path: Path) -> None:
    env = own_files(tmp_path, server={"server": {"auth_mode": "api_key"}})
    assert endpoint(loaded(tmp_path, env=env)).url == "http://127.0.0.1:1933"


def test_the_environment_names_other_files(tmp_path: Path) -> None:
    (tmp_path / "mine.conf").write_text('{"url": "https://mine", "account_id": "a", "user_id": "u", "peer_id": "p"}')
    result = loaded(tmp_path, env={"OPENVIKING_CLI_CONFIG_FILE": str(tmp_path / "mine.conf")})
    assert endpoint(result)[:4] == ("https://mine", "", "a", "u")
    assert result.settings.peer_id == "p"
    client_file_as_server_file = loaded(tmp_path, env={"OPENVIKING_CONFIG_FILE": str(tmp_path / "mine.conf")})
    assert endpoint(client_file_as_server_file).account == "a"


def test_a_named_file_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    result = loaded(tmp_path, env={"OPENVIKING_CONFIG_FILE": str(tmp_path / "none")})
    assert result.problems == (f"OPENVIKING_CONFIG_FILE: {tmp_path / 'none'} does not exist",)


def test_a_broken_file_of_openviking_is_a_problem_and_no_error(tmp_path: Path) -> None:
    result = loaded(tmp_path, env=own_files(tmp_path, cli="{oops", server={"server": {"port": 5}}))
    assert result.endpoint is not None
    assert result.endpoint.url == "http://127.0.0.1:5"
    (problem,) = result.problems
    assert "ovcli.conf:1:2" in problem


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:99999", "http://[bad", "file:///etc/passwd"])
def test_an_address_that_is_none_is_named_and_ignored(tmp_path: Path, url: str) -> None:
    result = loaded(tmp_path, env={"OPENVIKING_URL": url})
    assert result.endpoint is None
    assert result.problems == ("OPENVIKING_URL: this is not an address of a server; it is ignored",)


@pytest.mark.parametrize("name", ["OPENVIKING_API_KEY", "OPENVIKING_BEARER_TOKEN"])
def test_a_key_that_is_held_back_is_named_by_its_variable(tmp_path: Path, name: str) -> None:
    project = {"openviking": {"url": "http://elsewhere:1"}}
    result = loaded(tmp_path, project=project, trusted=True, env={name: "k"})
    said = f"the OpenViking key of {name} is not sent to http://elsewhere:1: a project names it"
    assert result.endpoint is not None and result.endpoint.api_key == ""
    assert result.problems == (said,)
