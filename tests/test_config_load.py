import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vikingpi.config.apply import apply, json_key
from vikingpi.config.load import Loaded, bypassed, load, peer_of
from vikingpi.config.model import Settings, Takeover
from vikingpi.config.paths import Paths
from vikingpi.decode import Json
from vikingpi.errors import ConfigError


def loaded(
    home: Path,
    config: object = None,
    *,
    project: object = None,
    env: dict[str, str] | None = None,
    trusted: bool = True,
    flags: Json | None = None,
) -> Loaded:
    for folder, values in ((home / "config", config), (home / "cwd" / ".vpi", project)):
        folder.mkdir(parents=True, exist_ok=True)
        if values is not None:
            text = values if isinstance(values, str) else json.dumps(values)
            (folder / "config.json").write_text(text, encoding="utf-8")
    paths = Paths(home / "config", home / "data", home / "state")
    full_env = {"HOME": str(home / "nobody"), **(env or {})}
    return load(paths, home / "cwd", full_env, trusted=trusted, overrides=flags)


def test_without_any_file_everything_has_its_default(tmp_path: Path) -> None:
    assert loaded(tmp_path) == Loaded(Settings(), None, ())


def test_every_key_can_be_set_by_its_camel_case_name(tmp_path: Path) -> None:
    result = loaded(
        tmp_path,
        {
            "approval": "edits",
            "bypassPatterns": ["/tmp"],
            "compaction": {"enabled": False, "keepRecentTokens": 5, "reserveTokens": 6},
            "defaultModel": " lab/m1 ",
            "defaultThinkingLevel": "high",
            "minQueryLength": 9,
            "redact": {"rules": ["x+"]},
            "scoreThreshold": 0.5,
            "takeover": {"tokenThreshold": 600, "keepRecentTurns": 1, "wait": "overview"},
            "tools": {"bashTimeout": 2.5},
            "workspacePeer": False,
        },
    )
    assert result.problems == ()
    values = result.settings
    assert (values.approval, values.bypass_patterns, values.default_model) == ("edits", ("/tmp",), "lab/m1")
    assert tuple(values.compaction) == (False, 5, 6)
    assert values.takeover == Takeover(token_threshold=600, keep_recent_turns=1, wait="overview")
    assert (values.tools.bash_timeout, values.redact.rules, values.score_threshold) == (2.5, ("x+",), 0.5)
    assert (values.workspace_peer, values.min_query_length, values.default_thinking_level) == (False, 9, "high")


def test_the_later_source_wins(tmp_path: Path) -> None:
    result = loaded(
        tmp_path,
        {"takeover": {"tokenThreshold": 1000, "overviewBudget": 200}, "peerId": "a", "recallPeerScope": "actor"},
        project={"takeover": {"tokenThreshold": 2000}, "peerId": "b", "sessionDir": "/p"},
        env={"OPENVIKING_PEER_ID": "c", "OPENVIKING_WORKSPACE_PEER": "off", "VPI_SESSION_DIR": "/e"},
        flags={"sessionDir": "/f", "takeover": {"wait": "none"}},
    )
    values = result.settings
    assert (values.takeover.token_threshold, values.takeover.overview_budget, values.takeover.wait) == (
        2000,
        200,
        "none",
    )
    assert (values.peer_id, values.session_dir, values.workspace_peer) == ("c", "/f", False)
    assert values.recall_peer_scope == "actor"
    assert result.problems == ()


@pytest.mark.parametrize(
    ("written", "used", "said"),
    [
        (0, 1, "is 0, below 1; 1 is used"),
        (2_000_000, 1_000_000, "is 2000000, above 1000000; 1000000 is used"),
        (600.5, 601, ""),
        (600.4, 600, ""),
        ("600", 30_000, "must be a number, not '600'; it is ignored"),
        (True, 30_000, "must be a number, not 'True'; it is ignored"),
        (None, 30_000, "must be a number; it is ignored"),
    ],
)
def test_numbers_are_rounded_and_clamped(tmp_path: Path, written: object, used: int, said: str) -> None:
    result = loaded(tmp_path, {"takeover": {"tokenThreshold": written}})
    assert result.settings.takeover.token_threshold == used
    assert type(result.settings.takeover.token_threshold) is int
    file = tmp_path / "config" / "config.json"
    assert result.problems == ((f"{file}: takeover.tokenThreshold {said}",) if said else ())


def test_numbers_that_are_none_fall_back(tmp_path: Path) -> None:
    result = loaded(tmp_path, '{"scoreThreshold": 1e999, "recallLimit": NaN, "minQueryLength": 1' + "0" * 400 + "}")
    assert (result.settings.score_threshold, result.settings.recall_limit) == (0.35, 10)
    assert len(result.problems) == 3


def test_bad_values_are_named_with_file_and_key_and_the_rest_counts(tmp_path: Path) -> None:
    result = loaded(
        tmp_path,
        {
            "approval": "maybe",
            "enabled": "false",
            "bypassPatterns": "/tmp",
            "takeover": 7,
            "redact": {"rules": ["a", 5]},
            "openviking": {"apiKey": 12345678},
            "peerId": "kept",
        },
    )
    file = tmp_path / "config" / "config.json"
    assert result.problems == (
        f"{file}: approval must be one of off, ask, edits, read-only, not 'maybe'; it is ignored",
        f"{file}: enabled must be true or false, not 'false'; it is ignored",
        f"{file}: bypassPatterns must be a list of texts; it is ignored",
        f"{file}: takeover must be an object",
        f"{file}: redact.rules holds something that is no text; that is left out",
        f"{file}: openviking.apiKey must be a text; it is ignored",
    )
    assert result.settings == Settings(peer_id="kept")._replace(redact=result.settings.redact)
    assert result.settings.redact.rules == ("a",)


def test_unknown_keys_are_named_with_what_was_meant(tmp_path: Path) -> None:
    result = loaded(
        tmp_path, {"takeover": {"tokenTreshold": 5}, "recall_limit": 3, "wholly": 1, "$schema": "x", "TakeOver": {}}
    )
    file = tmp_path / "config" / "config.json"
    assert result.problems == (
        f"{file}: unknown key takeover.tokenTreshold (did you mean tokenThreshold?)",
        f"{file}: unknown key recall_limit (did you mean recallLimit?)",
        f"{file}: unknown key wholly",
        f"{file}: unknown key TakeOver (did you mean takeover?)",
    )
    assert result.settings == Settings()


def test_flat_keys_of_the_extension_are_fallbacks(tmp_path: Path) -> None:
    result = loaded(
        tmp_path,
        {
            "takeoverTokenThreshold": 700,
            "takeoverOverviewPollMs": 5,
            "takeoverKeepRecentTurns": 9,
            "takeover": {"keepRecentTurns": 2},
            "recallBudget": 300,
            "profileBudget": 600,
            "profileTokenBudget": 700,
            "bypassSessionPatterns": ["/x/**"],
        },
    )
    assert result.problems == ()
    assert result.settings.takeover == Takeover(token_threshold=700, overview_poll_ms=5, keep_recent_turns=2)
    assert (result.settings.recall_token_budget, result.settings.profile_token_budget) == (300, 700)
    assert result.settings.bypass_patterns == ("/x/**",)


def test_a_flat_key_of_a_later_file_beats_the_earlier_file(tmp_path: Path) -> None:
    result = loaded(tmp_path, {"takeover": {"tokenThreshold": 700}}, project={"takeoverTokenThreshold": 800})
    assert result.settings.takeover.token_threshold == 800


def test_keys_that_only_the_extension_has_are_named_once(tmp_path: Path) -> None:
    result = loaded(tmp_path, {"captureMode": "semantic", "faithfulCapture": True, "recallLedger": True})
    file = tmp_path / "config" / "config.json"
    assert result.problems == (
        f"{file}: captureMode, faithfulCapture, recallLedger are keys of the OpenViking extension for pi"
        " that vpi does not have",
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [('{\n  "a": 1,\n  oops\n}', ":3:3: "), ("[1]", ":1:1: "), ("", ":1:1: "), ("[" * 100_000, ":1:1: ")],
)
def test_a_broken_file_is_an_error_that_names_the_place(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'config' / 'config.json'}{place}")
    assert caught.value.hint


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config" / "config.json").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"cannot read .*config.json") as caught:
        loaded(tmp_path)
    assert caught.value.hint


def test_a_file_that_is_no_utf8_is_an_error_and_a_byte_order_mark_is_none(tmp_path: Path) -> None:
    loaded(tmp_path)
    file = tmp_path / "config" / "config.json"
    file.write_bytes(b'\xef\xbb\xbf{"peerId": "x"}')
    assert loaded(tmp_path).settings.peer_id == "x"
    file.write_bytes(b'{"peerId": "\xff"}')
    with pytest.raises(ConfigError, match="not UTF-8"):
        loaded(tmp_path)


def test_a_bad_flag_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="command line: store must be one of"):
        loaded(tmp_path, flags={"store": "cloud"})


def test_bad_environment_values_are_named(tmp_path: Path) -> None:
    result = loaded(tmp_path, env={"OPENVIKING_RECALL_PEER_SCOPE": "x", "OPENVIKING_WORKSPACE_PEER": "perhaps"})
    assert result.problems == (
        "OPENVIKING_WORKSPACE_PEER: workspacePeer must be true or false, not 'perhaps'; it is ignored",
        "OPENVIKING_RECALL_PEER_SCOPE: recallPeerScope must be one of all, actor, not 'x'; it is ignored",
    )
    assert result.settings == Settings()


def test_takeover_captures_answers_and_results_whatever_is_set(tmp_path: Path) -> None:
    result = loaded(tmp_path, {"captureToolResults": False, "captureAssistantTurns": False})
    assert (result.settings.capture_tool_results, result.settings.capture_assistant_turns) == (True, True)
    assert result.problems == (
        "captureAssistantTurns is true while takeover is on; false is ignored",
        "captureToolResults is true while takeover is on; false is ignored",
    )


def test_without_takeover_tool_results_are_captured_on_request(tmp_path: Path) -> None:
    off: Json = {"takeover": {"enabled": False}}
    assert not loaded(tmp_path, off).settings.capture_tool_results
    assert loaded(tmp_path, {**off, "captureToolResults": True}).settings.capture_tool_results
    assert not loaded(tmp_path, {**off, "captureAssistantTurns": False}).settings.capture_assistant_turns


def test_an_untrusted_project_changes_nothing_and_is_named_with_its_keys(tmp_path: Path) -> None:
    project: Json = {"openviking": {"url": "http://evil.example"}, "approval": "off", "takeover": {"wait": "none"}}
    result = loaded(tmp_path, {"openviking": {"url": "http://good", "apiKey": "k"}}, project=project, trusted=False)
    assert result.endpoint is not None
    assert (result.endpoint.url, result.endpoint.api_key) == ("http://good", "k")
    assert result.settings.takeover == Takeover()
    assert result.problems == (
        f"{tmp_path / 'cwd'} is not trusted; ignored: .vpi/config.json (openviking.url, approval, takeover.wait)"
        " (--trust uses them)",
    )


def test_a_broken_file_of_an_untrusted_project_stops_nobody(tmp_path: Path) -> None:
    result = loaded(tmp_path, project="{", trusted=False)
    assert result.problems == (f"{tmp_path / 'cwd'} is not trusted; ignored: .vpi/config.json (--trust uses them)",)
    with pytest.raises(ConfigError):
        loaded(tmp_path, project="{", trusted=True)


def test_the_own_configuration_folder_is_no_project(tmp_path: Path) -> None:
    own = tmp_path / ".vpi"
    own.mkdir()
    (own / "config.json").write_text('{"peerId": "mine"}')
    result = load(Paths(own, own, own), tmp_path, {"HOME": str(tmp_path)}, trusted=False)
    assert (result.settings.peer_id, result.problems) == ("mine", ())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
keys = st.sampled_from([json_key(name) for name in (*Settings._fields, *Takeover._fields)]) | st.text(max_size=8)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(keys, json_values | st.dictionaries(keys, json_values, max_size=4), max_size=6))
def test_no_value_raises_and_what_is_used_is_in_range(values: Json) -> None:
    outcome = apply(Settings(), values, "f")
    again = apply(Settings(), values, "f")
    assert again == outcome
    assert 1 <= outcome.settings.takeover.token_threshold <= 1_000_000
    assert 0 <= outcome.settings.score_threshold <= 1
    assert all(problem.startswith("f: ") for problem in outcome.problems)


@pytest.mark.parametrize(
    ("cwd", "peer"),
    [("/home/ada/my.proj_1", "-home-ada-my-proj-1"), ("/项目/🎉x", "-----x"), ("/" + "a" * 400, "-" + "a" * 254)],
)
def test_the_peer_is_the_folder_as_a_word(cwd: str, peer: str) -> None:
    assert peer_of(Path(cwd), Settings(), {}) == peer


def test_a_named_peer_comes_first_and_is_made_acceptable() -> None:
    cwd = Path("/srv/app")
    assert peer_of(cwd, Settings(peer_id="me@home"), {}) == "me@home"
    assert peer_of(cwd, Settings(peer_id="me"), {"OPENVIKING_PEER_ID": "you"}) == "you"
    assert peer_of(cwd, Settings(peer_id="a b/c"), {}) == "a-b-c"
    assert peer_of(cwd, Settings(peer_id=".."), {}) == "--"
    assert peer_of(cwd, Settings(workspace_peer=False), {}) == ""


@pytest.mark.parametrize(
    ("pattern", "cwd", "covered"),
    [
        ("/tmp", "/tmp", True),
        ("/tmp", "/tmp/a/b", True),
        ("/tmp/", "/tmp/a", True),
        ("/tmp", "/tmpfile", False),
        ("/tmp/**", "/tmp", True),
        ("/tmp/**", "/tmp/a/b", True),
        ("/srv/*/secret", "/srv/x/secret/deep", True),
        ("/srv/*/secret", "/srv/x/y/secret", False),
        ("/srv/**/secret", "/srv/x/y/secret", True),
        ("/srv/**/secret", "/srv/secret", True),
        ("**/scratch/**", "/a/scratch/b", True),
        ("scratch", "/a/scratch/b", True),
        ("scratch", "/a/scratchy", False),
        ("/a?c", "/abc", True),
        ("/a.c", "/abc", False),
        ("/", "/anything", True),
        ("", "/anything", False),
    ],
)
def test_bypass_patterns_cover_what_is_below(pattern: str, cwd: str, covered: bool) -> None:
    assert bypassed(Path(cwd), [pattern]) is covered


def test_bypass_patterns_know_the_home_folder_and_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    real = tmp_path / "private" / "x"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    assert bypassed(real, ["~/private"])
    assert bypassed(tmp_path / "link", ["~/private"])
    assert not bypassed(tmp_path, ["~/private"])


@pytest.mark.parametrize("trusted", [False, True])
def test_models_of_a_project_are_never_promised(tmp_path: Path, trusted: bool) -> None:
    folder = tmp_path / "cwd" / ".vpi"
    folder.mkdir(parents=True)
    (folder / "models.json").write_text("{}")
    said = f"{tmp_path / 'cwd'}: vpi does not read .vpi/models.json; they count in {tmp_path / 'config'}"
    assert loaded(tmp_path, trusted=trusted).problems == (said,)


@pytest.mark.parametrize("trusted", [False, True])
def test_skills_that_are_ignored_are_named(tmp_path: Path, trusted: bool) -> None:
    (tmp_path / "cwd" / ".agents" / "skills" / "one").mkdir(parents=True)
    said = f"{tmp_path / 'cwd'} is not trusted; ignored: .agents/skills/ (--trust uses them)"
    assert loaded(tmp_path, trusted=trusted).problems == (() if trusted else (said,))
