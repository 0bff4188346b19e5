from __future__ import annotations

import json
from pathlib import Path

import pytest

from vikingpi.decode import Json
from vikingpi.errors import ConfigError
from vikingpi.llm.models_file import read_auth, read_models
from vikingpi.llm.registry import find_provider, load_catalog, resolve
from vikingpi.net import HttpTransport


def written(folder: Path, value: object, name: str = "models.json") -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def lab(**more: object) -> Json:
    return {"providers": {"lab": {"baseUrl": "http://127.0.0.1:9/v1", **more}}}


def refused(folder: Path, value: object, env: dict[str, str] | None = None) -> str:
    path = written(folder, value)
    with pytest.raises(ConfigError) as caught:
        read_models(path, env or {})
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


WHOLE = "a whole number above 0"
DOLLARS = "a number of dollars, 0 or more"
FLAG = "true or false"
MODEL_FAULTS: list[tuple[str, str, str]] = [
    ('"contextWindow": "8000"', "contextWindow", f'{WHOLE}, not "8000"'),
    ('"contextWindow": true', "contextWindow", f"{WHOLE}, not true"),
    ('"contextWindow": 1e400', "contextWindow", f"{WHOLE}, not Infinity"),
    ('"contextWindow": NaN', "contextWindow", f"{WHOLE}, not NaN"),
    (f'"contextWindow": 1{"0" * 400}', "contextWindow", f"{WHOLE}, not 1{'0' * 39}"),
    ('"contextWindow": null', "contextWindow", f"{WHOLE}, not null"),
    ('"contextWindow": 0.5', "contextWindow", f"{WHOLE}, not 0.5"),
    ('"contextWindow": -1', "contextWindow", f"{WHOLE}, not -1"),
    ('"maxTokens": "x"', "maxTokens", f'{WHOLE}, not "x"'),
    ('"reasoning": "yes"', "reasoning", f'{FLAG}, not "yes"'),
    ('"reasoning": 1', "reasoning", f"{FLAG}, not 1"),
    ('"input": "text"', "input", 'a list, not "text"'),
    ('"input": ["text", 5]', "input", 'a list such as ["text", "image"], not a list'),
    ('"cost": 3', "cost", "an object, not 3"),
    ('"cost": {"input": "300"}', "cost.input", f'{DOLLARS}, not "300"'),
    ('"cost": {"output": -1}', "cost.output", f"{DOLLARS}, not -1"),
    ('"cost": {"cacheRead": 1e400}', "cost.cacheRead", f"{DOLLARS}, not Infinity"),
    ('"cost": {"cacheWrite": false}', "cost.cacheWrite", f"{DOLLARS}, not false"),
    ('"name": 5', "name", "a text, not 5"),
    ('"api": {}', "api", "a text, not an object"),
    ('"headers": []', "headers", "an object, not a list"),
    ('"headers": {"X": 5}', "headers.X", "a text, not a number, true, false or null"),
    ('"compat": "none"', "compat", 'an object, not "none"'),
    ('"compat": {"maxTokensField": 5}', "compat.maxTokensField", "a text, not 5"),
    ('"compat": {"supportsUsage": "no"}', "compat.supportsUsage", f'{FLAG}, not "no"'),
    ('"compat": {"callIdLength": "9"}', "compat.callIdLength", f'{WHOLE}, not "9"'),
    ('"compat": {"reasoningEffortMap": {"high": 3}}', "compat.reasoningEffortMap.high", "a text, not 3"),
    ('"thinkingLevelMap": {"high": true}', "thinkingLevelMap.high", "a text, not true"),
    ('"thinkingLevelMap": "high"', "thinkingLevelMap", 'an object, not "high"'),
]


@pytest.mark.parametrize(("fault", "place", "said"), MODEL_FAULTS)
def test_a_wrong_value_of_a_model_is_refused_with_its_place(tmp_path: Path, fault: str, place: str, said: str) -> None:
    good, bad = '{"id": "m"}', f'{{"id": "i", {fault}}}'
    listed = f'{{"providers": {{"x": {{"baseUrl": "http://h", "models": [{good}, {good}, {bad}]}}}}}}'
    assert refused(tmp_path, listed) == f"providers.x.models[2].{place} must be {said}"
    if place == "api":
        return  # an override has none
    changed = f'{{"providers": {{"x": {{"baseUrl": "http://h", "modelOverrides": {{"i": {bad}}}}}}}}}'
    assert refused(tmp_path, changed) == f"providers.x.modelOverrides.i.{place} must be {said}"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"authHeader": "yes"}, f'authHeader must be {FLAG}, not "yes"'),
        ({"modelOverrides": {"i": 5}}, "modelOverrides.i must be an object, not 5"),
        ({"modelOverrides": []}, "modelOverrides must be an object, not a list"),
        ({"models": ["m"]}, 'models[0] must be an object, not "m"'),
        ({"apiKey": 12345}, "apiKey must be a text, not a number, true, false or null"),
        ({"compat": {"thinkingFormat": []}}, "compat.thinkingFormat must be a text, not a list"),
        ({"baseUrl": "http://[::bad/"}, 'baseUrl must be an address such as http://127.0.0.1:8080/v1, not "http://['),
        ({"baseUrl": "http://host:99999/"}, "baseUrl must be an address such as"),
        ({"baseUrl": "http://:80/"}, "baseUrl must be an address such as"),
        ({"headers": {"X-A": "one\ntwo"}}, "the value of providers.lab.headers.X-A has a character that HTTP does not"),
        ({"headers": {"X-A": "$BAD"}}, "the value of providers.lab.headers.X-A has a character that HTTP does not"),
        ({"headers": {"X A": "v"}}, "headers has a name that HTTP does not allow: 'X A'"),
    ],
)
def test_a_wrong_value_of_a_provider_is_refused_with_its_place(tmp_path: Path, fault: Json, said: str) -> None:
    text = refused(tmp_path, lab(**fault), {"BAD": "se\x01cret"})
    assert said in text and "providers.lab." in text.replace("providers.lab has", "providers.lab.")
    assert "12345" not in text and "cret" not in text and "two" not in text


def test_unknown_keys_are_told_and_left_alone(tmp_path: Path) -> None:
    value = {
        "$schema": "x",
        "provider": {},
        "providers": {
            "lab": {
                "baseUrl": "http://h",
                "name": "Lab",
                "nosuch": 1,
                "compat": {"supportsStore": False},
                "models": [{"id": "m", "contextWindows": 5, "cost": {"inputs": 3}}],
            }
        },
    }
    path = written(tmp_path, value)
    catalog = load_catalog(path, tmp_path / "auth.json", {})
    assert catalog.notices == (
        f"{path}: unknown key provider (did you mean providers?)",
        f"{path}: unknown key providers.lab.nosuch",
        f"{path}: unknown key providers.lab.models[0].contextWindows (did you mean contextWindow?)",
        f"{path}: unknown key providers.lab.models[0].cost.inputs (did you mean input?)",
    )
    assert resolve(catalog, "lab/m").model.compat == {"supportsStore": False}


def test_a_number_that_is_whole_may_be_written_with_a_point(tmp_path: Path) -> None:
    path = written(tmp_path, lab(models=[{"id": "m", "contextWindow": 8000.0, "cost": {"input": 0.25}}]))
    (model,) = read_models(path, {}).providers["lab"].models
    assert (model.context_window, model.price.input) == (8000, 0.25)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"openai": "sk-secret"}, 'openai must be an object, not "sk-secret"'),
        ({"openai": {"apiKey": ["sk-secret"]}}, "openai.apiKey must be a text, not a list"),
        ({"openai": {"key": 5}}, "openai.key must be a text, not a number"),
        (f'{{"openai": {{"apiKey": {"9" * 5000}}}}}', "4300"),
    ],
)
def test_a_wrong_value_in_auth_json_is_refused_and_no_key_is_shown(tmp_path: Path, value: object, said: str) -> None:
    path = written(tmp_path, value, "auth.json")
    with pytest.raises(ConfigError) as caught:
        read_auth(path, {})
    assert "sk-secret" not in str(caught.value)
    assert said.replace('"sk-secret"', "a text") in str(caught.value)


def test_other_entries_of_pi_in_auth_json_are_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path, {"anthropic": {"type": "oauth", "access": "a", "expires": 5}}, "auth.json")
    assert read_auth(path, {}) == {}


def test_an_address_that_is_none_is_refused_wherever_it_comes_from(tmp_path: Path) -> None:
    catalog = load_catalog(tmp_path / "models.json", tmp_path / "auth.json", {"OPENAI_BASE_URL": "http://[::bad/"})
    with pytest.raises(ConfigError, match="is no address of a server"):
        find_provider(HttpTransport())(resolve(catalog, "openai/gpt-4o").model)
