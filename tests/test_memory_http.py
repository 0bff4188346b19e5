from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from store_kit import Answer, ScriptedTransport, Sent, failed, ok

from vikingpi.decode import Json, as_dict, as_str
from vikingpi.errors import StoreRejected, StoreUnreachable
from vikingpi.viking.base import RecallQuery
from vikingpi.viking.http import HttpApi
from vikingpi.viking.http_memory import HttpMemory
from vikingpi.viking.remembered import KEPT_MS, Remembered

QUERY = RecallQuery("gateway port", 2000, 10, 0.35)


class Lab:
    """A memory over a server that plays a script."""

    def __init__(self, folder: Path, *answers: Answer, peer: str = "") -> None:
        self.now = 1_000_000
        self.transport = ScriptedTransport(answers)
        self.remembered = Remembered(folder / "routes.json", lambda: self.now)
        api = HttpApi(self.transport, "http://ov", user="ada", peer=peer)
        self.memory = HttpMemory(api, self.remembered)

    @property
    def asked(self) -> list[str]:
        return [f"{sent.method} {sent.url.removeprefix('http://ov')}" for sent in self.transport.sent]


def entry(uri: str, score: float, text: str) -> Json:
    return {"uri": uri, "category": "entities", "score": score, "detail": "abstract", "text": text, "origin": "self"}


def health(sent: Sent) -> Any:
    assert sent.url.endswith("/health")
    reply = ok(None)
    return reply._replace(body=b'{"status": "ok", "healthy": true, "version": "0.5.2", "auth_mode": "dev"}')


def missing() -> Any:
    return failed(404, "NOT_FOUND", "Not Found")


def run(call: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(call)


def test_recall_asks_for_context_without_a_model_call(tmp_path: Path) -> None:
    lab = Lab(tmp_path, ok({"entries": [entry("viking://user/ada/memories/entities/a.md", 0.8, "port 8443")]}))
    hits = run(lab.memory.search_context(QUERY._replace(uris=frozenset({"viking://user/ada/memories/events/b.md"}))))
    assert [(hit.uri, hit.text) for hit in hits] == [("viking://user/ada/memories/entities/a.md", "port 8443")]
    sent = lab.transport.sent[0]
    assert lab.asked == ["POST /api/v1/search/search"]
    assert sent.body == {
        "query": "gateway port",
        "mode": "context",
        "purpose": "coding",
        "max_tokens": 2000,
        "score_threshold": 0.35,
        "query_expansion": "off",
        "peer_scope": "all",
        "exclude_uris": ["viking://user/ada/memories/events/b.md"],
    }


def test_a_search_is_waited_for_like_a_read(tmp_path: Path) -> None:
    found = {
        "memories": [],
        "resources": [{"uri": "viking://resources/.overview.md", "score": 1, "abstract": "what it is"}],
    }
    lab = Lab(tmp_path, ok(found), ok({"entries": []}))
    assert run(lab.memory.find("gateway")) == ()
    run(lab.memory.search_context(QUERY))
    assert {sent.timeout for sent in lab.transport.sent} == {10}


def test_one_project_is_asked_as_its_peer(tmp_path: Path) -> None:
    lab = Lab(tmp_path, ok({"entries": []}), peer="-work-mine")
    assert run(lab.memory.search_context(QUERY._replace(peer="-work-mine"))) == ()
    assert lab.transport.sent[0].body["peer_scope"] == "actor"
    assert lab.transport.sent[0].headers["x-openviking-actor-peer"] == "-work-mine"


def test_recall_leaves_out_low_scores_listings_overviews_and_what_is_over_the_budget(tmp_path: Path) -> None:
    entries = [
        entry("viking://user/ada/memories/entities", 0.9, "# Entities Overview"),
        entry("viking://user/ada/skills", 0.9, "Where skills are kept"),
        entry("viking://user/ada/resources", 0.9, "Where resources are kept"),
        entry("viking://resources", 0.9, "Where everybody's resources are kept"),
        entry("viking://user/ada/memories/entities/a.md", 0.8, "port 8443"),
        entry("viking://user/ada/memories/entities/b.md", 0.7, "x" * 9000),
        entry("viking://user/ada/memories/entities/c.md", 0.2, "port 9090"),
        entry("viking://user/ada/sessions/s/messages/1", 0.9, "[earlier overview]\n- the port is 1111"),
        entry("viking://user/ada/sessions/s/messages/2", 0.9, "user: [earlier overview]\n- the port is 1111"),
        entry("viking://user/ada/memories/entities/d.md", 0.6, "port 7070"),
    ]
    lab = Lab(tmp_path, ok({"entries": entries}))
    hits = run(lab.memory.search_context(QUERY))
    assert [hit.text for hit in hits] == ["port 8443", "port 7070"]


def test_a_digest_stands_for_its_entries(tmp_path: Path) -> None:
    entries = [entry("viking://user/ada/memories/entities/a.md", 0.8, "port 8443")]
    lab = Lab(tmp_path, ok({"entries": entries, "digest": "The port is 8443."}))
    assert [hit.text for hit in run(lab.memory.search_context(QUERY))] == ["The port is 8443."]


def test_an_older_server_is_asked_the_older_way_and_remembered(tmp_path: Path) -> None:
    refused = failed(400, "INVALID_ARGUMENT", "extra fields not permitted: mode")
    answer = ok({"entries": [], "rendered": "<memory>port 8443</memory>"})
    lab = Lab(tmp_path, refused, answer, answer)
    for _ in range(2):
        assert [hit.text for hit in run(lab.memory.search_context(QUERY))] == ["<memory>port 8443</memory>"]
    assert lab.asked == ["POST /api/v1/search/search", *["POST /api/v1/search/recall"] * 2]
    again = Lab(tmp_path, answer)
    assert run(again.memory.search_context(QUERY))
    assert again.asked == ["POST /api/v1/search/recall"]


def test_a_server_with_neither_route_is_searched_and_remembered(tmp_path: Path) -> None:
    found = ok({"memories": [{"uri": "viking://user/ada/memories/entities/a.md", "score": 0.8, "abstract": "8443"}]})
    lab = Lab(tmp_path, missing(), missing(), found, found)
    for _ in range(2):
        assert [hit.text for hit in run(lab.memory.search_context(QUERY))] == ["8443"]
    assert lab.asked[-2:] == ["POST /api/v1/search/find"] * 2
    assert len(lab.asked) == 4


def test_a_server_with_no_such_route_at_all_is_asked_no_more(tmp_path: Path) -> None:
    lab = Lab(tmp_path, missing(), missing(), missing())
    for _ in range(3):
        assert run(lab.memory.search_context(QUERY)) == ()
    assert len(lab.asked) == 3
    assert run(Lab(tmp_path).memory.search_context(QUERY)) == (), "another process knows it too"


def test_a_plain_search_brings_one_project_nothing_of_the_others(tmp_path: Path) -> None:
    places = ("", "/peers/-work-mine", "/peers/-work-other")
    found = [
        {"uri": f"viking://user/ada{place}/memories/entities/a.md", "score": 0.8, "abstract": f"8443{place}"}
        for place in places
    ]
    lab = Lab(tmp_path, missing(), missing(), ok({"memories": found}), peer="-work-mine")
    hits = run(lab.memory.search_context(QUERY._replace(peer="-work-mine")))
    assert {hit.text for hit in hits} == {"8443", "8443/peers/-work-mine"}


def test_one_project_reads_and_lists_nothing_of_the_others(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    for ask in (lab.memory.read, lab.memory.list, lab.memory.stat):
        with pytest.raises(StoreRejected) as caught:
            run(ask("viking://user/ada/peers/-work-other/memories/entities", peer="-work-mine"))
        assert caught.value.status == 404
    assert lab.transport.sent == []


def test_what_was_remembered_is_forgotten_after_some_hours(tmp_path: Path) -> None:
    lab = Lab(tmp_path, ok({"entries": []}))
    lab.remembered.put("http://ov", "find")
    lab.now += KEPT_MS
    run(lab.memory.search_context(QUERY))
    assert lab.asked == ["POST /api/v1/search/search"]


@pytest.mark.parametrize(
    "answer", [failed(503, "UNAVAILABLE", "no embeddings"), failed(400, "INVALID_ARGUMENT", "bad query")]
)
def test_another_failure_is_no_missing_route(tmp_path: Path, answer: Any) -> None:
    lab = Lab(tmp_path, answer)
    with pytest.raises((StoreUnreachable, StoreRejected)):
        run(lab.memory.search_context(QUERY))
    assert lab.asked == ["POST /api/v1/search/search"]
    assert lab.remembered.get("http://ov") == ""


def test_own_space_is_written_out_for_older_servers(tmp_path: Path) -> None:
    lab = Lab(tmp_path, health, ok("text"), ok("more"))
    assert run(lab.memory.read("viking://~/memories/profile.md")) == "text"
    assert run(lab.memory.read("viking://~/memories/profile.md")) == "more"
    place = "uri=viking%3A%2F%2Fuser%2Fada%2Fmemories%2Fprofile.md"
    assert lab.asked == ["GET /health", *[f"GET /api/v1/content/read?{place}"] * 2]


def test_a_folder_without_a_summary_shows_what_is_in_it(tmp_path: Path) -> None:
    listed = [{"uri": "viking://resources/a/x.md", "isDir": False, "size": 3, "abstract": "An x."}]
    lab = Lab(tmp_path, ok({"isDir": True}), ok("# viking://resources/a [Directory overview is not ready]"), ok(listed))
    assert run(lab.memory.read("viking://resources/a", "overview")) == "- viking://resources/a/x.md An x."


def test_an_overview_of_a_file_is_its_own_and_not_its_folders(tmp_path: Path) -> None:
    lab = Lab(tmp_path, ok({"isDir": False}), ok("# Title\n\nbody"))
    assert run(lab.memory.read("viking://resources/a/x.md", "abstract")) == "Title"


def test_forgetting_asks_first_whether_it_is_there(tmp_path: Path) -> None:
    lab = Lab(tmp_path, failed(404, "NOT_FOUND", "File not found"))
    with pytest.raises(StoreRejected):
        run(lab.memory.delete("viking://resources/a/x.md"))
    assert all(not line.startswith("DELETE") for line in lab.asked)


def test_a_folder_is_forgotten_with_what_is_in_it(tmp_path: Path) -> None:
    lab = Lab(tmp_path, ok({"isDir": True}), ok({"estimated_deleted_count": 7}))
    assert run(lab.memory.delete("viking://resources/a")) == 7
    assert lab.asked[1].endswith("recursive=true")


def test_adding_a_page_says_what_the_server_said(tmp_path: Path) -> None:
    lab = Lab(tmp_path, ok({"root_uri": "viking://resources/x", "status": "queued"}))
    written = run(lab.memory.add_resource("https://example.org/x", "to read"))
    assert written == ("viking://resources/x", "queued")
    assert lab.transport.sent[0].body == {"path": "https://example.org/x", "reason": "to read"}
    private = Lab(tmp_path, failed(403, "PERMISSION_DENIED", "only public targets"))
    with pytest.raises(StoreRejected, match="only public targets") as caught:
        run(private.memory.add_resource("http://10.0.0.1/"))
    assert "save the page" in caught.value.hint


def test_a_local_file_is_sent_as_text(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("port 8443")
    lab = Lab(tmp_path, ok({}))
    uri = run(lab.memory.add_resource(str(tmp_path / "note.md"))).uri
    assert uri.startswith("viking://resources/note-")
    assert lab.transport.sent[0].body == {"uri": uri, "content": "port 8443", "mode": "create", "wait": False}


def test_a_folder_is_sent_file_by_file_and_what_is_no_longer_in_it_goes(tmp_path: Path) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    for name in ("a b.md", "a-b.md"):
        (source / name).write_text(name)

    def listing(_: Sent) -> Any:
        uris = [as_str(as_dict(sent.body)["uri"]) for sent in lab.transport.sent if sent.method == "POST"]
        top = uris[0].rpartition("/")[0]
        kept = [{"isDir": False, "uri": uri} for uri in (*uris, f"{top}/.overview.md")]
        return ok([*kept, {"isDir": False, "uri": f"{top}/old.md"}, {"isDir": True, "uri": f"{top}/sub"}])

    lab = Lab(tmp_path, ok({}), ok({}), listing, ok({}))
    uri = run(lab.memory.add_resource(str(source))).uri
    written = {as_str(as_dict(sent.body)["uri"]) for sent in lab.transport.sent if sent.method == "POST"}
    assert len(written) == 2 and all(one.startswith(f"{uri}/") for one in written)
    deleted = [line for line in lab.asked if line.startswith("DELETE")]
    assert len(deleted) == 1 and "old.md" in deleted[0]


def profile_of(folder: Path, budget: int) -> str:
    def answer(sent: Sent) -> Any:
        if "/health" in sent.url:
            return health(sent)
        if "content/read" in sent.url:
            return ok("Name: Ada")
        name = "preferences" if "preferences" in sent.url else "entities"
        nodes = [{"isDir": False, "uri": f"viking://x/{name}-{n}.md", "rel_path": f"{name}-{n}.md"} for n in range(200)]
        return ok([*nodes, {"isDir": True, "uri": "viking://x/sub", "rel_path": "sub"}])

    return run(Lab(folder, *[answer] * 4).memory.profile(budget))


def test_the_profile_is_read_in_three_pieces_within_its_budget(tmp_path: Path) -> None:
    block = profile_of(tmp_path, 500)
    assert block.startswith("## Profile\nName: Ada\n\n## Preferences\n- preferences-0\n")
    assert len(block) <= 2000
    assert "- sub" not in profile_of(tmp_path, 10_000)
    assert "- entities-199" in profile_of(tmp_path, 10_000)


def test_a_user_without_memories_has_no_profile(tmp_path: Path) -> None:
    gone = failed(404, "NOT_FOUND", "File not found")
    lab = Lab(tmp_path, health, gone, gone, gone)
    assert run(lab.memory.profile(500)) == ""


def test_an_unwritable_folder_forgets_and_does_no_harm(tmp_path: Path) -> None:
    remembered = Remembered(tmp_path / "missing" / "routes.json", lambda: 5)
    remembered.put("http://ov", "find")
    assert remembered.get("http://ov") == "find"
    assert Remembered(tmp_path / "missing" / "routes.json", lambda: 5).get("http://ov") == ""
