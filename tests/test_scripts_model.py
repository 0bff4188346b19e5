import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from patience import PATIENCE

LIVE = Path(__file__).resolve().parent.parent / "scripts" / "live"

Json = dict[str, Any]


class Endpoint(NamedTuple):
    host: str
    port: int

    def send(self, method: str, path: str, body: object = None, headers: Json | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, raw, headers or {})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, body: object = None) -> Any:
        return json.loads(self.send(method, path, body)[1])

    def chat(self, *messages: Json, **more: object) -> Json:
        return self.json("POST", "/v1/chat/completions", {"model": "m", "messages": messages, **more})


class Running(NamedTuple):
    model: Endpoint
    proxy: Endpoint
    log: Path

    def recorded(self) -> list[Json]:
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


def start(*arguments: str) -> tuple[subprocess.Popen[str], Endpoint]:
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    host, _, port = process.stdout.readline().strip().removeprefix("http://").rpartition(":")
    return process, Endpoint(host, int(port))


def stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("proxy") / "requests.jsonl"
    server, model = start(str(LIVE / "model_server.py"))
    upstream = f"http://{model.host}:{model.port}/v1"
    between, proxy = start(str(LIVE / "proxy.py"), "--upstream", upstream, "--log", str(log))
    yield Running(model, proxy, log)
    stop(between)
    stop(server)


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def tool(name: str) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def message_of(answer: Json) -> Json:
    return answer["choices"][0]["message"]


@pytest.mark.parametrize(
    ("fact", "question", "value"),
    [
        ("Remember: the harbour-code is KESTREL-7731.", "What is harbour-code?", "KESTREL-7731"),
        ("请记住:港口暗号是青龙八八。", "现在港口暗号?", "青龙八八"),
        ("Запомни: пароль is ЖУРАВЛЬ-5.", "Какой пароль?", "ЖУРАВЛЬ-5"),
        ("تذكر: السر is نخلة٧.", "ما السر؟", "نخلة٧"),
        ("lamp-count is 4\nand lamp-count is 5", "lamp-count?", "5"),
    ],
)
def test_answers_a_question_with_the_newest_value(running: Running, fact: str, question: str, value: str) -> None:
    told = running.model.chat(user(fact))
    assert value in message_of(told)["content"]
    asked = running.model.chat(user(fact), {"role": "assistant", "content": "ok"}, user(question))
    assert message_of(asked)["content"] == value
    assert message_of(running.model.chat(user(question)))["content"] == "UNKNOWN"


def test_runs_commands_one_after_the_other(running: Running) -> None:
    messages = [user("Do this.\nRUN: echo one\nRUN: echo two\nThen stop.")]
    commands: list[str] = []
    while calls := message_of(running.model.chat(*messages, tools=[tool("bash")])).get("tool_calls"):
        assert len(calls) == 1
        commands.append(json.loads(calls[0]["function"]["arguments"])["command"])
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": calls[0]["id"], "content": "done"})
    assert commands == ["echo one", "echo two"]


def test_makes_all_calls_at_once_when_told(running: Running) -> None:
    prompt = user('TOGETHER\nRUN: echo one\nCALL: read {"path": "x"}\nCALL: gone {}')
    calls = message_of(running.model.chat(prompt, tools=[tool("bash"), tool("read")]))["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["bash", "read"]


def test_calls_no_tool_that_was_not_declared(running: Running) -> None:
    assert "tool_calls" not in message_of(running.model.chat(user("RUN: echo one")))


def test_fails_as_often_as_told(running: Running) -> None:
    body = {"model": "m", "messages": [user("FAIL: 529 x2 please")]}
    statuses = [running.model.send("POST", "/v1/chat/completions", body)[0] for _ in range(3)]
    assert statuses == [529, 529, 200]


def test_streams_text_and_tool_calls(running: Running) -> None:
    prompt = user("RUN: printf '%s' héllo-wörld")
    body = {"model": "m", "stream": True, "messages": [prompt], "tools": [tool("bash")]}
    _, raw = running.model.send("POST", "/v1/chat/completions", body)
    events = [line.removeprefix("data: ") for line in raw.decode().splitlines() if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    pieces = [call["function"]["arguments"] for delta in deltas for call in delta.get("tool_calls", [])]
    assert json.loads("".join(pieces)) == {"command": "printf '%s' héllo-wörld"}
    assert len(pieces) > 2
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert chunks[-1]["usage"]["prompt_tokens"] > 0


def test_speaks_the_anthropic_wire(running: Running) -> None:
    tools: list[Json] = [{"name": "bash", "input_schema": {}}]
    result = [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "one"}]}]
    call: list[Json] = [{"type": "tool_use", "id": "t", "name": "bash", "input": {}}]
    prompt = user("RUN: echo one\nRUN: echo two")
    body: Json = {"model": "m", "max_tokens": 9, "tools": tools, "messages": [prompt]}
    first = running.model.json("POST", "/v1/messages", body)
    body["messages"] = [prompt, {"role": "assistant", "content": call}, {"role": "user", "content": result}]
    second = running.model.json("POST", "/v1/messages", body)
    assert [each["content"][0]["input"]["command"] for each in (first, second)] == ["echo one", "echo two"]
    assert (first["stop_reason"], first["type"]) == ("tool_use", "message")
    _, raw = running.model.send("POST", "/v1/messages", {**body, "stream": True})
    names = [line.removeprefix("event: ") for line in raw.decode().splitlines() if line.startswith("event: ")]
    assert names[:2] == ["message_start", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert running.model.send("POST", "/v1/messages", {"model": "m", "messages": [user("FAIL: 429")]})[0] == 429


def test_breaks_off_when_told(running: Running) -> None:
    body = {"model": "m", "stream": True, "messages": [user("CUT SAY: one two three four")]}
    for endpoint, path in ((running.model, "/v1/chat/completions"), (running.proxy, "/chat/completions")):
        with pytest.raises(http.client.IncompleteRead):
            endpoint.send("POST", path, body)


SUMMARY = "Write it using the 7-section structure.\n<session_content>\n[user]: {}\n</session_content>"
UPDATE_TOOL = tool("update_working_memory")
UPDATE = (
    "<current_wm>\n- harbour-code is KESTREL\n</current_wm>\n<new_content>\n[user]: {}\n</new_content>\n"
    "Keep what <current_wm> holds and <new_content> does not contradict."
)


def test_writes_the_servers_overviews(running: Running) -> None:
    text = "Remember: die Losung lautet Zaunkönig.\nharbour-code is KESTREL. Much filler that nobody needs."
    created = message_of(running.model.chat(user(SUMMARY.format(text))))["content"]
    assert created.startswith("# Working Memory\n\n## Session Title\n")
    assert "- die Losung lautet Zaunkönig." in created
    assert "- harbour-code is KESTREL" in created
    assert "filler" not in created
    answer = message_of(running.model.chat(user(UPDATE.format(text)), tools=[UPDATE_TOOL]))
    sections = json.loads(answer["tool_calls"][0]["function"]["arguments"])["sections"]
    assert len(sections) == 7
    assert sections["Key Facts & Decisions"] == {"op": "APPEND", "items": ["die Losung lautet Zaunkönig."]}
    assert sections["Session Title"] == {"op": "KEEP"}


def test_a_section_that_the_server_calls_too_long_is_written_anew_in_fewer_lines(running: Running) -> None:
    facts = [f"port-{number} is {7000 + number}" for number in range(60)]
    known = "".join(f"- {fact}\n" for fact in facts[:50])
    prompt = (
        f"<current_wm># Working Memory\n\n## Key Facts & Decisions\n{known}\n## Open Issues\n- none\n</current_wm>\n"
        f"<new_content>{'. '.join(facts[50:])}</new_content>\n"
        'WARNING: "Key Facts & Decisions" has 50 bullets.\nThis section MUST be consolidated via UPDATE.'
    )
    answer = message_of(running.model.chat(user(prompt), tools=[UPDATE_TOOL]))
    sections = json.loads(answer["tool_calls"][0]["function"]["arguments"])["sections"]
    written = sections["Key Facts & Decisions"]
    assert written["op"] == "UPDATE"
    assert [fact for fact in facts if fact not in written["content"]] == []
    assert 10 <= len(written["content"].splitlines()) <= 20
    assert "none" not in written["content"]


def test_overviews_go_wrong_when_told(running: Running) -> None:
    body = {"model": "m", "messages": [user(SUMMARY.format("harbour-code is KESTREL"))]}
    outcomes: list[tuple[int, str]] = []
    for mode in ("fail", "blank", "garbage", "ok"):
        running.model.json("POST", "/control", {"summaryMode": mode, "failStatus": 503})
        status, raw = running.model.send("POST", "/v1/chat/completions", body)
        outcomes.append((status, message_of(json.loads(raw))["content"][:16] if status == 200 else ""))
    assert outcomes == [(503, ""), (200, ""), (200, "no overview toda"), (200, "# Working Memory")]


def test_refuses_a_setting_that_is_none(running: Running) -> None:
    assert running.model.send("POST", "/control", {"summaryDelai": 1})[0] == 400
    assert running.model.send("POST", "/control", {"summaryDelay": "1"})[0] == 400
    assert running.model.send("POST", "/control", {"summaryMode": "perhaps"})[0] == 400
    assert running.model.json("GET", "/control")["summaryDelay"] == 0


def test_keeps_every_request_by_kind(running: Running) -> None:
    before = len(running.model.json("GET", "/requests?kind=summary"))
    running.model.chat(user(SUMMARY.format("x")))
    running.model.chat(user("only the agent says this"))
    kept = running.model.json("GET", "/requests?kind=summary")
    assert len(kept) == before + 1
    last = running.model.json("GET", "/requests")[-1]
    assert last["kind"] == "agent"
    assert last["body"]["messages"] == [user("only the agent says this")]


def test_embeds_alike_texts_near_each_other(running: Running) -> None:
    texts = ["port gateway window", "the gateway of the port", "zebra", "港口暗号", "暗号"]
    data = running.model.json("POST", "/v1/embeddings", {"model": "e", "input": texts})["data"]
    one, two, three, four, five = [each["embedding"] for each in data]
    assert len(one) == 256

    def near(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert near(one, two) > near(one, three)
    assert near(four, five) > near(one, five)


def test_the_proxy_records_bytes_and_hides_keys(running: Running) -> None:
    raw = b'{"model": "m",  "messages": [{"role": "user", "content": "SAY: h\xc3\xa9"}]}'
    headers = {"Authorization": "Bearer sk-secret", "x-api-key": "sk-other", "X-Mine": "kept"}
    status, answer = running.proxy.send("POST", "/chat/completions?a=1", raw, headers)
    assert (status, message_of(json.loads(answer))["content"]) == (200, "hé")
    entry = running.recorded()[-1]
    assert (entry["body"].encode(), entry["encoding"], entry["path"]) == (raw, "utf-8", "/chat/completions?a=1")
    assert (entry["status"], entry["headers"]["X-Mine"]) == (200, "kept")
    assert "sk-" not in running.log.read_text()


def test_the_proxy_passes_streams_and_errors_on(running: Running) -> None:
    body = {"model": "m", "stream": True, "messages": [user("SAY: one two")]}
    status, raw = running.proxy.send("POST", "/chat/completions", body)
    assert (status, raw.endswith(b"data: [DONE]\n\n")) == (200, True)
    assert running.proxy.send("POST", "/chat/completions", {"messages": [user("FAIL: 401 now")]})[0] == 401
    assert running.recorded()[-1]["status"] == 401
    assert running.proxy.send("GET", "/nothing")[0] == 404


def test_the_proxy_says_when_nobody_is_behind_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process, proxy = start(str(LIVE / "proxy.py"), "--upstream", "http://127.0.0.1:9", "--log", str(log))
    status, raw = proxy.send("POST", "/chat/completions", {})
    stop(process)
    assert status == 502
    assert "refused" in json.loads(raw)["error"]["message"]
    assert json.loads(log.read_text())["status"] == 0
