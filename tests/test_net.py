from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from llm_server import Peer, answering, free_port, serving
from patience import PATIENCE, eventually

from vikingpi.errors import Interrupted, NetError, NotConnected
from vikingpi.http_thread import is_loopback, origin_of
from vikingpi.net import HttpTransport, Transport

T = TypeVar("T")


def run(work: Callable[[Transport], Awaitable[T]]) -> T:
    async def main() -> T:
        transport = HttpTransport()
        try:
            return await work(transport)
        finally:
            await transport.close()

    return asyncio.run(main())


def http_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "vpi-http"]


def gone(threads: Callable[[], list[threading.Thread]] = http_threads) -> bool:
    return eventually(lambda: not threads())


def test_a_request_is_sent_and_its_answer_read() -> None:
    with serving(answering(201, b"hello", "X-Thing: a\r\nX-Thing: b\r\n")) as server:
        reply = run(lambda t: t.send("POST", server.url + "/p?q=1", headers={"X-User": "zoë"}, body=b"\x00body"))
    assert (reply.status, reply.body, reply.headers["x-thing"]) == (201, b"hello", "a, b")
    seen = server.seen[0]
    assert (seen.method, seen.path, seen.body) == ("POST", "/p?q=1", b"\x00body")
    assert seen.headers["x-user"] == "zoë"


def test_connections_are_reused_one_after_the_other_and_cookies_are_not_kept() -> None:
    async def work(transport: Transport) -> None:
        for _ in range(3):
            await transport.send("GET", server.url)

    with serving(answering(200, b"x", "Set-Cookie: a=b\r\n")) as server:
        run(work)
        assert server.connections == 1
        assert all("cookie" not in seen.headers for seen in server.seen)


def test_an_idle_connection_is_dropped_after_three_seconds() -> None:
    now = [0.0]

    async def main() -> None:
        transport = HttpTransport(lambda: now[0])
        for pause in (0.0, 2.9, 3.1):
            now[0] += pause
            await transport.send("GET", server.url)
        await transport.close()

    with serving(answering(200, b"x")) as server:
        asyncio.run(main())
        assert server.connections == 2


def test_calls_at_the_same_time_have_a_connection_each() -> None:
    async def work(transport: Transport) -> list[int]:
        return [r.status for r in await asyncio.gather(*(transport.send("GET", server.url) for _ in range(4)))]

    together = threading.Barrier(4, timeout=PATIENCE)

    def handle(peer: Peer) -> None:
        peer.request()
        together.wait()
        peer.answer(200, b"")

    with serving(handle) as server:
        assert run(work) == [200] * 4


def test_refused_connections_say_that_nothing_was_sent() -> None:
    url = f"http://127.0.0.1:{free_port()}/path?key=secret"
    with pytest.raises(NotConnected, match=r"cannot connect to http://127\.0\.0\.1:\d+: Connection refused") as e:
        run(lambda t: t.send("GET", url))
    assert "secret" not in str(e.value)


def test_an_unknown_host_says_that_nothing_was_sent() -> None:
    with pytest.raises(NotConnected, match=r"cannot connect to http://no-such-host\.invalid"):
        run(lambda t: t.send("GET", "http://no-such-host.invalid/", timeout=5))


@pytest.mark.parametrize("url", ["localhost:80/x", "ftp://127.0.0.1/x", "http://", "http://[::1", "http://a:b:c/"])
def test_a_url_that_is_none_is_not_connected(url: str) -> None:
    with pytest.raises(NotConnected):
        run(lambda t: t.send("GET", url))


def test_a_server_that_hangs_up_after_the_request_may_have_received_it() -> None:
    with serving(lambda peer: (peer.request(), None)[1]) as server, pytest.raises(Interrupted, match="broke"):
        run(lambda t: t.send("POST", server.url, body=b"x"))


def test_a_body_that_breaks_off_is_interrupted() -> None:
    def handle(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")

    with serving(handle) as server, pytest.raises(Interrupted, match="broke"):
        run(lambda t: t.send("GET", server.url))


def test_a_silent_server_is_interrupted_at_the_time_out() -> None:
    def handle(peer: Peer) -> None:
        peer.request()
        peer.wait_closed(2 * PATIENCE)

    with serving(handle) as server:
        started = time.monotonic()
        with pytest.raises(Interrupted, match=r"no answer|silent"):
            run(lambda t: t.send("GET", server.url, timeout=0.15))
        assert time.monotonic() - started < PATIENCE


def test_a_server_that_drips_is_bounded_by_the_whole_time_out() -> None:
    def handle(peer: Peer) -> None:
        peer.request()
        peer.begin_stream()
        while not peer.wait_closed(0.02):
            peer.chunk(b".")

    with serving(handle) as server, pytest.raises(Interrupted, match=r"no answer from .* within 0\.2 s"):
        run(lambda t: t.send("GET", server.url, timeout=0.2))


def test_a_stream_is_bounded_by_the_silence_between_two_pieces() -> None:
    async def work(transport: Transport) -> bytes:
        got = b""
        async with transport.stream("GET", server.url, timeout=1) as reply:
            try:
                async for piece in reply.chunks():
                    got += piece
            except Interrupted as error:
                assert "silent" in str(error)
        return got

    def handle(peer: Peer) -> None:
        peer.request()
        peer.begin_stream()
        for _ in range(4):
            peer.chunk(b".")
            time.sleep(0.3)
        peer.wait_closed()

    with serving(handle) as server:
        assert run(work) == b"...."


def test_an_answer_over_the_limit_is_not_read() -> None:
    with serving(answering(200, b"x" * 100_000)) as server, pytest.raises(Interrupted, match="larger than 1 KiB"):
        run(lambda t: t.send("GET", server.url, limit=1024))


def test_redirects_are_not_followed() -> None:
    with serving(answering(302, b"", "Location: http://127.0.0.1:1/\r\n")) as server:
        assert run(lambda t: t.send("GET", server.url)).status == 302


def test_cancelling_before_the_first_byte_closes_the_socket_at_once() -> None:
    asked, closed = threading.Event(), threading.Event()

    def handle(peer: Peer) -> None:
        peer.request()
        asked.set()
        if peer.wait_closed():
            closed.set()

    async def work(transport: Transport) -> None:
        task = asyncio.create_task(transport.send("GET", server.url))
        assert await asyncio.to_thread(asked.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with serving(handle) as server:
        run(work)
        assert closed.wait(PATIENCE)
        assert gone()


def test_cancelling_on_a_reused_connection_closes_the_socket_too() -> None:
    asked, closed = threading.Event(), threading.Event()

    def handle(peer: Peer) -> None:
        peer.request()
        peer.answer(200, b"first")
        peer.request()
        asked.set()
        if peer.wait_closed():
            closed.set()

    async def work(transport: Transport) -> None:
        await transport.send("GET", server.url)
        task = asyncio.create_task(transport.send("GET", server.url))
        assert await asyncio.to_thread(asked.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with serving(handle) as server:
        run(work)
        assert closed.wait(PATIENCE)
        assert server.connections == 1


def test_leaving_a_stream_in_the_middle_closes_the_socket() -> None:
    closed = threading.Event()

    def handle(peer: Peer) -> None:
        peer.request()
        peer.begin_stream()
        peer.chunk(b"one")
        if peer.wait_closed():
            closed.set()

    async def work(transport: Transport) -> bytes:
        async with transport.stream("GET", server.url) as reply:
            assert reply.status == 200
            async for piece in reply.chunks():
                return piece
        return b""

    with serving(handle) as server:
        assert run(work) == b"one"
        assert closed.wait(PATIENCE)
        assert gone()


def test_a_stream_left_at_its_last_piece_keeps_the_connection() -> None:
    def handle(peer: Peer) -> None:
        while peer.request() is not None:
            peer.begin_stream()
            peer.chunk(b"one")
            peer.end_stream()

    async def work(transport: Transport) -> None:
        for _ in range(2):
            async with transport.stream("GET", server.url) as reply:
                async for _ in reply.chunks():
                    break

    with serving(handle) as server:
        run(work)
        assert server.connections == 1


def test_a_fast_stream_waits_for_a_slow_reader() -> None:
    size = 400

    def handle(peer: Peer) -> None:
        peer.request()
        peer.begin_stream()
        for _ in range(size):
            peer.chunk(b"x" * 20_000)
        peer.end_stream()

    async def work(transport: Transport) -> int:
        got = 0
        async with transport.stream("GET", server.url) as reply:
            await asyncio.sleep(0.1)
            async for piece in reply.chunks():
                got += len(piece)
        return got

    with serving(handle) as server:
        assert run(work) == size * 20_000


def test_closing_the_transport_ends_what_is_running() -> None:
    async def main() -> None:
        transport = HttpTransport()
        task = asyncio.create_task(transport.send("GET", server.url, timeout=30))
        assert await asyncio.to_thread(asked.wait, PATIENCE)
        await transport.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with pytest.raises(NotConnected, match="shutting down"):
            await transport.send("GET", server.url)

    asked = threading.Event()

    def handle(peer: Peer) -> None:
        peer.request()
        asked.set()
        peer.wait_closed()

    with serving(handle) as server:
        asyncio.run(main())
        assert gone()


def test_a_header_with_a_line_break_is_refused_without_showing_it() -> None:
    with pytest.raises(NotConnected, match="'authorization' has a character") as e:
        run(lambda t: t.send("GET", "http://127.0.0.1:9", headers={"authorization": "Bearer se\ncret"}))
    assert "cret" not in str(e.value)


def test_proxies_of_the_environment_are_used_but_never_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(answering(200, b"proxy")) as proxy, serving(answering(200, b"direct")) as server:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        assert run(lambda t: t.send("GET", "http://models.invalid/x")).body == b"proxy"
        assert run(lambda t: t.send("GET", server.url)).body == b"direct"
        assert proxy.seen[0].path == "http://models.invalid/x"


def test_a_proxy_setting_that_cannot_be_used_is_not_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "nonsense://x")
    with pytest.raises(NotConnected, match=r"models\.invalid"):
        run(lambda t: t.send("GET", "http://models.invalid/x"))


def test_an_https_server_that_speaks_plain_http_is_not_connected() -> None:
    # Such a server answers once it has read a line; whether a hello of TLS has the end of one is chance.
    with serving(answering(200, b"x")) as server, pytest.raises(NotConnected, match=r"cannot connect|no answer"):
        run(lambda t: t.send("GET", server.url.replace("http:", "https:"), timeout=1))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, str]:
    folder = tmp_path_factory.mktemp("tls")
    key, file = str(folder / "k"), str(folder / "c")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost"
        " -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    )
    made = subprocess.run(
        [*command.split(), "-keyout", key, "-out", file],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("openssl cannot make a certificate here")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    return context, file


def test_a_certificate_nobody_signed_is_refused(certificate: tuple[ssl.SSLContext, str]) -> None:
    with serving(answering(200, b"x"), certificate[0]) as server:
        with pytest.raises(NotConnected, match="CERTIFICATE"):
            run(lambda t: t.send("GET", server.url.replace("http:", "https:"), timeout=5))
        assert server.seen == []


def test_cancelling_an_https_request_closes_the_socket(
    certificate: tuple[ssl.SSLContext, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificate[1])
    asked, closed = threading.Event(), threading.Event()

    def handle(peer: Peer) -> None:
        peer.request()
        asked.set()
        if peer.wait_closed():
            closed.set()

    async def work(transport: Transport) -> None:
        task = asyncio.create_task(transport.send("GET", server.url.replace("http:", "https:")))
        assert await asyncio.to_thread(asked.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with serving(handle, certificate[0]) as server:
        run(work)
        assert closed.wait(PATIENCE)
        assert gone()


def test_a_hanging_server_does_not_hold_the_process_at_its_exit() -> None:
    script = """
import asyncio, sys
from vikingpi.net import HttpTransport
async def main():
    transport = HttpTransport()
    task = asyncio.create_task(transport.send("GET", sys.argv[1], timeout=60))
    await asyncio.sleep(0.3)
    assert not task.done()
asyncio.run(main())
"""

    def handle(peer: Peer) -> None:
        peer.request()
        peer.wait_closed(2 * PATIENCE)

    with serving(handle) as server:
        started = time.monotonic()
        done = subprocess.run([sys.executable, "-c", script, server.url], capture_output=True, timeout=60, check=False)
        assert time.monotonic() - started < PATIENCE
    assert (done.returncode, done.stderr) == (0, b"")


def test_httpx_comes_without_its_command_line_and_only_with_the_first_request() -> None:
    script = """
import asyncio, sys
from vikingpi.net import HttpTransport
assert "httpx" not in sys.modules
async def main():
    transport = HttpTransport()
    print((await transport.send("GET", sys.argv[1])).status)
    await transport.close()
asyncio.run(main())
heavy = ("httpx._main", "click", "rich", "pygments", "pydantic", "dataclasses_json", "typer")
print([name for name in heavy if name in sys.modules], "httpx" in sys.modules)
"""
    with serving(answering(204, b"")) as server:
        done = subprocess.run([sys.executable, "-c", script, server.url], capture_output=True, timeout=60, check=True)
    assert done.stdout.decode().split("\n")[:2] == ["204", "[] True"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:1/x", True),
        ("https://127.9.0.1", True),
        ("http://[::1]:8080/v1", True),
        ("http://a.localhost", True),
        ("http://127.0.0.1.evil.com", False),
        ("https://api.openai.com", False),
        ("http://[", False),
    ],
)
def test_loopback_is_told_by_the_host(url: str, expected: bool) -> None:
    assert is_loopback(url) is expected


def test_an_origin_shows_no_credentials_and_no_path() -> None:
    assert origin_of("HTTPS://user:pw@host:8443/v1?key=1") == "https://host:8443"


def test_errors_of_both_kinds_are_net_errors() -> None:
    with pytest.raises(NetError):
        run(lambda t: t.send("GET", f"http://127.0.0.1:{free_port()}"))
