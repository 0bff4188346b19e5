from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from llm_server import answering, free_port, serving

from vikingpi.app.listing import list_models
from vikingpi.decode import Json
from vikingpi.errors import ConfigError
from vikingpi.llm.catalog import PROVIDERS, LocalServer
from vikingpi.llm.local import with_local_servers
from vikingpi.llm.openai_wire import OpenAIWire
from vikingpi.llm.registry import (
    Catalog,
    Choice,
    default_model,
    find_provider,
    first_of,
    load_catalog,
    resolve,
)
from vikingpi.net import HttpTransport

OPENAI = {"OPENAI_API_KEY": "sk-openai"}


def load(tmp_path: Path, env: dict[str, str], models: object = None, auth: object = None) -> Catalog:
    files: list[Path] = []
    for name, value in (("models.json", models), ("auth.json", auth)):
        path = tmp_path / name
        if value is not None:
            path.write_text(value if isinstance(value, str) else json.dumps(value))
        files.append(path)
    return load_catalog(files[0], files[1], env)


def own(base_url: str = "http://127.0.0.1:9/v1", **more: object) -> Json:
    return {"providers": {"lab": {"baseUrl": base_url, "models": [{"id": "fake"}], **more}}}


def test_a_key_in_the_environment_makes_its_provider_usable(tmp_path: Path) -> None:
    catalog = load(tmp_path, {"DEEPSEEK_API_KEY": " sk-deep\n"})
    assert {model.provider for model in catalog.usable} == {"deepseek"}
    choice = default_model(catalog, "", None)
    assert (choice.model.provider, choice.model.api_key, choice.model.key_source) == (
        "deepseek",
        "sk-deep",
        "$DEEPSEEK_API_KEY",
    )


def test_keys_come_from_models_json_then_auth_json_then_the_environment(tmp_path: Path) -> None:
    env = {**OPENAI, "MINE": "sk-mine"}
    auth = {"openai": {"apiKey": "sk-auth"}}
    models = {"providers": {"openai": {"apiKey": "$MINE"}}}
    first = resolve(load(tmp_path, env, models, auth), "gpt-4o").model
    assert (first.api_key, first.key_source) == ("sk-mine", "$MINE")
    assert resolve(load(tmp_path, env, {}, auth), "gpt-4o").model.api_key == "sk-auth"
    assert resolve(load(tmp_path, env, {}, {}), "gpt-4o").model.api_key == "sk-openai"


def test_models_json_defines_an_endpoint_of_its_own(tmp_path: Path) -> None:
    models = own(
        apiKey="${LAB_KEY}",
        headers={"X-Team": "$TEAM", "X-Plain": "p"},
        compat={"maxTokensField": "max_completion_tokens"},
        models=[
            {
                "id": "fake",
                "contextWindow": 8000,
                "maxTokens": 1000,
                "reasoning": True,
                "input": ["text", "image"],
                "cost": {"input": 1, "output": 2, "cacheRead": 0.5, "cacheWrite": 0},
                "compat": {"reasoningField": "thoughts"},
            }
        ],
    )
    model = resolve(load(tmp_path, {"LAB_KEY": "k", "TEAM": "blue"}, models), "lab/fake").model
    assert (model.api, model.base_url, model.api_key) == ("openai-completions", "http://127.0.0.1:9/v1", "k")
    assert model.headers == {"X-Team": "blue", "X-Plain": "p"}
    assert (model.context_window, model.max_tokens, model.reasoning, model.images) == (8000, 1000, True, True)
    assert (model.price.input, model.price.output, model.price.cache_read) == (1, 2, 0.5)
    assert model.compat == {"maxTokensField": "max_completion_tokens", "reasoningField": "thoughts"}


def test_an_endpoint_of_its_own_needs_no_key_and_comes_first(tmp_path: Path) -> None:
    choice = default_model(load(tmp_path, OPENAI, own()), "", None)
    assert (choice.model.provider, choice.model.id, choice.model.api_key) == ("lab", "fake", "")


def test_models_json_can_redirect_a_known_provider(tmp_path: Path) -> None:
    models = {"providers": {"openai": {"baseUrl": "http://127.0.0.1:9/v1/", "models": [{"id": "mine"}]}}}
    catalog = load(tmp_path, {}, models)
    assert resolve(catalog, "openai/mine").model.base_url == "http://127.0.0.1:9/v1"
    known = resolve(catalog, "openai/gpt-4o").model
    assert known.base_url == "http://127.0.0.1:9/v1"
    assert "promptCacheKey" not in known.compat


def test_openai_base_url_replaces_the_endpoint_also_without_a_key(tmp_path: Path) -> None:
    catalog = load(tmp_path, {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1/"})
    model = resolve(catalog, "openai/whatever").model
    assert (model.base_url, model.api_key) == ("http://127.0.0.1:9/v1", "")
    assert resolve(load(tmp_path, OPENAI), "gpt-4o").model.base_url == "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("pattern", "expected", "level"),
    [
        ("openai/gpt-4o", "openai/gpt-4o", None),
        ("gpt-4o", "openai/gpt-4o", None),
        ("gpt-4o:high", "openai/gpt-4o", "high"),
        ("GPT-5.4-N", "openai/gpt-5.4-nano", None),
        ("astra:xhigh", "openai/gpt-6-astra", "xhigh"),
        ("openai/brand-new-1", "openai/brand-new-1", None),
        ("openai/ft:brand:new", "openai/ft:brand:new", None),
        ("openrouter/x/y:free", "openrouter/x/y:free", None),
        ("openai/brand-new:low", "openai/brand-new", "low"),
        ("litellm/bedrock/some.model", "litellm/bedrock/some.model", None),
    ],
)
def test_what_model_patterns_mean(tmp_path: Path, pattern: str, expected: str, level: str | None) -> None:
    choice = resolve(load(tmp_path, {**OPENAI, "OPENROUTER_API_KEY": "k"}), pattern)
    assert (f"{choice.model.provider}/{choice.model.id}", choice.thinking_level) == (expected, level)


def test_an_id_is_looked_for_where_there_is_a_key(tmp_path: Path) -> None:
    choice = resolve(load(tmp_path, {"GROQ_API_KEY": "k"}), "openai/gpt-oss-120b")
    assert choice.model.provider == "groq"


def test_of_several_models_of_one_provider_the_newest_is_taken_with_a_note(tmp_path: Path) -> None:
    catalog = load(tmp_path, {"ANTHROPIC_API_KEY": "k"})
    choice = resolve(catalog, "sonnet:low")
    assert (choice.model.id, choice.thinking_level) == ("claude-sonnet-5-5", "low")
    assert choice.note == "'sonnet' fits 3 models; using anthropic/claude-sonnet-5-5"
    assert resolve(catalog, "opus 5") == Choice(resolve(catalog, "claude-opus-5").model)
    assert resolve(catalog, "Haiku4.5").model.id == "claude-haiku-4-5"


def test_models_of_several_providers_are_not_chosen_between(tmp_path: Path) -> None:
    catalog = load(tmp_path, {**OPENAI, "OPENROUTER_API_KEY": "k"})
    with pytest.raises(ConfigError, match="'gpt' fits several models") as caught:
        resolve(catalog, "gpt")
    assert caught.value.hint.count("openai/") == 8
    assert "more" in caught.value.hint
    assert resolve(catalog, "gpt", provider="openai").model.provider == "openai"


def test_a_provider_alone_means_its_first_model(tmp_path: Path) -> None:
    catalog = load(tmp_path, {"ANTHROPIC_API_KEY": "k"})
    assert first_of(catalog, "anthropic").id == "claude-sonnet-5-5"
    assert first_of(catalog, "openai", api_key="mine").key_source == "--api-key"
    with pytest.raises(ConfigError, match="no key for openai"):
        first_of(catalog, "openai")
    with pytest.raises(ConfigError, match="unknown provider 'nope'"):
        first_of(catalog, "nope")
    with pytest.raises(ConfigError, match="no model of together"):
        first_of(catalog, "together")


def test_models_json_in_all_of_its_parts(tmp_path: Path) -> None:
    models: Json = {
        "providers": {
            "gateway": {
                "api": "anthropic-messages",
                "authHeader": True,
                "apiKey": "k",
                "models": [
                    {"id": "a", "baseUrl": "http://127.0.0.1:9/a/", "thinkingLevelMap": {"high": "most"}},
                    {
                        "id": "b",
                        "api": "openai-completions",
                        "baseUrl": "http://127.0.0.1:9/b",
                        "headers": {"X-Of": "$TEAM"},
                    },
                ],
            },
            "anthropic": {
                "modelOverrides": {
                    "claude-sonnet-5-5": {"contextWindow": 5000, "cost": {"input": 9}, "compat": {"x": 1}},
                    "unknown": {"contextWindow": 1},
                }
            },
        }
    }
    catalog = load(tmp_path, {"TEAM": "blue", "ANTHROPIC_API_KEY": "k"}, models)
    a, b = resolve(catalog, "gateway/a").model, resolve(catalog, "gateway/b").model
    assert (a.api, a.base_url, a.headers) == ("anthropic-messages", "http://127.0.0.1:9/a", {})
    assert a.compat == {"authHeader": True, "reasoningEffortMap": {"high": "most"}}
    assert (b.api, b.base_url, b.headers) == ("openai-completions", "http://127.0.0.1:9/b", {"X-Of": "blue"})
    changed, other = (resolve(catalog, f"claude-{name}").model for name in ("sonnet-5-5", "sonnet-5"))
    assert (changed.context_window, changed.max_tokens, changed.images) == (5000, other.max_tokens, True)
    assert (changed.price.input, changed.price.output) == (9, 10)
    assert changed.compat["x"] == 1 and changed.compat["forceAdaptiveThinking"]
    assert (other.context_window, other.price.input) == (1_000_000, 2)


def test_what_an_override_gets_wrong_is_named(tmp_path: Path) -> None:
    models = {"providers": {"openai": {"modelOverrides": {"gpt-4o": {"contextWindow": -1}}}}}
    with pytest.raises(ConfigError, match=r"modelOverrides\.gpt-4o\.contextWindow must be"):
        load(tmp_path, OPENAI, models)


def test_an_unknown_model_or_provider_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no model fits 'zzz'"):
        resolve(load(tmp_path, OPENAI), "zzz")
    with pytest.raises(ConfigError, match="unknown provider 'nope'"):
        resolve(load(tmp_path, OPENAI), "gpt-4o", provider="nope")


def test_the_provider_flag_narrows_and_accepts_new_ids(tmp_path: Path) -> None:
    catalog = load(tmp_path, {**OPENAI, "CEREBRAS_API_KEY": "k"})
    assert resolve(catalog, "gpt-oss-120b", provider="cerebras").model.provider == "cerebras"
    new = resolve(catalog, "openai/fresh", provider="openai").model
    assert (new.provider, new.id) == ("openai", "fresh")


def test_a_missing_key_is_named_with_its_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no key for anthropic") as caught:
        resolve(load(tmp_path, OPENAI), "claude-sonnet-5")
    assert "ANTHROPIC_API_KEY" in caught.value.hint
    with pytest.raises(ConfigError, match="'sonnet' fits anthropic/claude-sonnet-5-5: no key for anthropic") as caught:
        resolve(load(tmp_path, OPENAI), "sonnet")
    assert "ANTHROPIC_API_KEY" in caught.value.hint
    assert "using" in resolve(load(tmp_path, {}), "sonnet", api_key="k").note
    with pytest.raises(ConfigError, match=r"\$LAB_KEY, which is not set"):
        resolve(load(tmp_path, {}, own(apiKey="$LAB_KEY")), "lab/fake")


def test_a_key_on_the_command_line_wins(tmp_path: Path) -> None:
    model = resolve(load(tmp_path, OPENAI), "claude-sonnet-5", api_key=" sk-flag ").model
    assert (model.api_key, model.key_source) == ("sk-flag", "--api-key")


def test_default_is_the_setting_then_the_session_then_the_first_key(tmp_path: Path) -> None:
    catalog = load(tmp_path, {**OPENAI, "GROQ_API_KEY": "k"})
    assert default_model(catalog, "groq/openai/gpt-oss-20b", ("openai", "gpt-4o")).model.provider == "groq"
    assert default_model(catalog, "", ("openai", "gpt-4o")).model.id == "gpt-4o"
    assert default_model(catalog, "", None).model.provider == "openai"
    gone = default_model(catalog, "", ("lab", "fake"))
    assert gone.model.provider == "openai"
    assert "lab/fake is not available" in gone.note


def test_without_any_model_one_screen_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no model is configured") as caught:
        default_model(load(tmp_path, {}), "", None)
    lines = caught.value.hint.splitlines()
    assert len(lines) < 12
    assert max(map(len, lines)) < 200
    for needed in ("ANTHROPIC_API_KEY", "models.json", "auth.json", "Ollama", "vpi demo"):
        assert needed in caught.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"providers": {\n "a": {,}}}', r"models\.json:2: .*column 8"),
        ("[]", "must hold a JSON object"),
        ('{"providers": []}', "providers must be an object"),
        ('{"providers": {"a": 1}}', r"providers\.a must be an object"),
        ('{"providers": {"a": {"baseUrl": 1}}}', r"providers\.a\.baseUrl must be a text"),
        ('{"providers": {"a": {"baseUrl": "localhost"}}}', "must begin with http"),
        ('{"providers": {"a": {"models": [{"id": "m"}]}}}', r"providers\.a\.baseUrl is missing"),
        ('{"providers": {"a": {"baseUrl": "http://x", "models": {}}}}', "models must be a list"),
        ('{"providers": {"a": {"baseUrl": "http://x", "models": [{}]}}}', r"models\[0\] has no id"),
        (
            '{"providers": {"a": {"baseUrl": "http://x", "models": [{"id": "m", "maxTokens": 0}]}}}',
            r"models\[0\]\.maxTokens must be a whole number above 0, not 0$",
        ),
        ('{"providers": {"a": {"baseUrl": "http://x", "apiKey": "!pass show"}}}', "cannot be a command"),
        ('{"providers": {"a": {"baseUrl": "http://x", "apiKey": "two words"}}}', "blank or a line break"),
    ],
)
def test_a_broken_models_json_is_named_with_what_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        load(tmp_path, {}, text)
    assert "two words" not in str(caught.value)


def test_a_broken_auth_json_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"auth\.json:1: "):
        load(tmp_path, {}, None, "{")
    (tmp_path / "auth.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ConfigError, match=r"auth\.json is not UTF-8"):
        load(tmp_path, {})


def test_pi_s_auth_entries_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    auth = '\ufeff{"openai": {"type": "api_key", "key": "sk-pi"}}'
    assert resolve(load(tmp_path, {}, None, auth), "gpt-4o").model.api_key == "sk-pi"


def test_the_list_shows_models_with_a_key_first(tmp_path: Path) -> None:
    catalog = load(tmp_path, OPENAI, own())
    rows = list_models(catalog).splitlines()
    assert rows[0].split() == ["provider", "model", "context", "output", "thinking", "images", "key"]
    assert rows[1].split() == ["lab", "fake", "128k", "16k", "-", "-", "yes"]
    keys = [row.split()[-1] for row in rows[1:]]
    assert keys == sorted(keys, reverse=True)
    assert len(list_models(catalog, "GPT-4o").splitlines()) == 3
    assert list_models(catalog, "zzz") == "no model fits 'zzz'"


def listed(catalog: Catalog, query: str) -> list[str]:
    return ["/".join(row.split()[:2]) for row in list_models(catalog, query).splitlines()[1:]]


def test_a_search_lists_what_fits_best_first(tmp_path: Path) -> None:
    catalog = load(tmp_path, OPENAI, own())
    assert listed(catalog, "h/") == []
    assert listed(catalog, "lab/") == listed(catalog, "la/fa") == listed(catalog, "FAKE") == ["lab/fake"]
    assert listed(catalog, "anth/son 4") == listed(catalog, "anth/sonnet-4") == ["anthropic/claude-sonnet-4-6"]
    assert listed(catalog, "4.6 sonnet") == ["anthropic/claude-sonnet-4-6", "openrouter/anthropic/claude-sonnet-4.6"]
    assert listed(catalog, "gpt-4o") == ["openai/gpt-4o", "openai/gpt-4o-mini"]
    found = listed(catalog, "gpt-5.4")
    assert found[0] == "openai/gpt-5.4" and found[-1].startswith("openrouter/openai/gpt-5.4")
    assert {one.partition("/")[0] for one in listed(catalog, "deepseek")} == {"deepseek", "openrouter"}


@pytest.mark.parametrize("pattern", ["h/", "/", "e", "a/e", "zz/sonnet", "snnt", "--", "claude zzz"])
def test_a_hopeless_pattern_chooses_nothing(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ConfigError, match=f"no model fits '{pattern}'"):
        resolve(load(tmp_path, {"ANTHROPIC_API_KEY": "k"}), pattern)


@pytest.mark.parametrize(
    ("pattern", "id", "note"),
    [
        ("anth/haiku-4", "claude-haiku-4-5", ""),
        ("haiku", "claude-haiku-5-5", "'haiku' fits 2 models; using anthropic/claude-haiku-5-5"),
        ("aiku-4", "claude-haiku-4-5", "'aiku-4' is taken for anthropic/claude-haiku-4-5"),
        ("4.5 claude", "claude-haiku-4-5", "'4.5 claude' is taken for anthropic/claude-haiku-4-5"),
        ("CLAUDE-OPUS-5", "claude-opus-5", ""),
    ],
)
def test_a_pattern_that_fits_loosely_says_what_it_is_taken_for(
    tmp_path: Path, pattern: str, id: str, note: str
) -> None:
    choice = resolve(load(tmp_path, {"ANTHROPIC_API_KEY": "k"}), pattern)
    assert (choice.model.id, choice.note) == (id, note)


def test_each_api_has_its_wire(tmp_path: Path) -> None:
    find = find_provider(HttpTransport())
    catalog = load(tmp_path, OPENAI, own(api="telepathy"))
    assert isinstance(find(resolve(catalog, "gpt-4o").model), OpenAIWire)
    for model in catalog.models:
        if model.provider != "lab":
            assert find(model) is not None
    with pytest.raises(ConfigError, match="unknown api 'telepathy'"):
        find(resolve(catalog, "lab/fake").model)


def test_the_built_in_table_is_sound() -> None:
    assert len({provider.name for provider in PROVIDERS}) == len(PROVIDERS)
    for provider in PROVIDERS:
        ids = [model.id for model in provider.models]
        assert len(set(ids)) == len(ids)
        assert (provider.base_url != "") is (provider.api in ("openai-completions", "anthropic-messages"))
        assert all(0 < model.max_tokens <= model.context_window for model in provider.models)


def with_local(catalog: Catalog, *servers: LocalServer, named: Sequence[str] = ()) -> Catalog:
    async def main() -> Catalog:
        transport = HttpTransport()
        try:
            return await with_local_servers(catalog, transport, servers, named)
        finally:
            await transport.close()

    return asyncio.run(main())


def test_a_model_server_on_this_machine_is_found(tmp_path: Path) -> None:
    listed = {"data": [{"id": "nomic-embed"}, {"id": "qwen", "meta": {"n_ctx_train": 9000}}, {"id": "phi"}, 3]}
    with serving(answering(200, json.dumps(listed).encode())) as server:
        catalog = with_local(load(tmp_path, {}), LocalServer("x", free_port()), LocalServer("here", server.port))
    model = default_model(catalog, "", None).model
    assert (model.provider, model.id, model.base_url) == ("here", "qwen", f"{server.url}/v1")
    assert (model.context_window, model.max_tokens) == (9000, 4500)
    assert [m.id for m in catalog.usable] == ["qwen", "phi"]
    assert "authorization" not in server.seen[0].headers


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"[1]", b'{"data": 3}', b"\xff"])
def test_another_server_on_that_port_is_passed_over(tmp_path: Path, body: bytes) -> None:
    with serving(answering(200, body)) as server:
        assert with_local(load(tmp_path, {}), LocalServer("x", server.port)).usable == ()


def test_nothing_is_looked_for_when_a_model_is_configured(tmp_path: Path) -> None:
    with serving(answering(200, b'{"data": [{"id": "m"}]}')) as server:
        catalog = load(tmp_path, OPENAI)
        assert with_local(catalog, LocalServer("x", server.port)) is catalog
        assert server.connections == 0


def test_a_named_server_is_looked_for_although_another_model_is_configured(tmp_path: Path) -> None:
    with serving(answering(200, b'{"data": [{"id": "qwen"}]}')) as server:
        servers = (LocalServer("here", server.port), LocalServer("there", free_port()))
        catalog = with_local(load(tmp_path, OPENAI), *servers, named=["here"])
        assert resolve(catalog, "here/qwen").model.base_url == f"{server.url}/v1"
        assert default_model(catalog, "", ("here", "qwen")).model.id == "qwen"
        assert with_local(catalog, *servers, named=["here"]) is catalog


def test_a_server_that_was_named_and_does_not_run_is_named(tmp_path: Path) -> None:
    told = "no model of ollama was found at 127.0.0.1:11434"
    with pytest.raises(ConfigError, match=told):
        resolve(load(tmp_path, OPENAI), "ollama/qwen3:8b")
    with pytest.raises(ConfigError, match=told):
        first_of(load(tmp_path, OPENAI), "ollama")


def test_a_session_whose_model_is_gone_says_which(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the session's model here/qwen is not available, and no other"):
        default_model(load(tmp_path, {}), "", ("here", "qwen"))


def test_a_configured_provider_whose_variable_is_not_set_is_named(tmp_path: Path) -> None:
    models = tmp_path / "models.json"
    provider = {"baseUrl": "http://127.0.0.1:1/v1", "apiKey": "$MY_KEY", "models": [{"id": "mine"}]}
    models.write_text(json.dumps({"providers": {"local": provider}}))
    catalog = load_catalog(models, tmp_path / "auth.json", {})
    with pytest.raises(ConfigError, match=r"the key of local is \$MY_KEY, which is not set") as caught:
        default_model(catalog, "", None)
    assert caught.value.hint == "export MY_KEY=..."
