"""Pages in a real browser. Needs the program of a Chromium in VPI_TEST_CHROMIUM."""

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from export_kit import Page, every_kind, hostile, rendered
from session_kit import session_file

from vikingpi.decode import Json

CHROMIUM = os.environ.get("VPI_TEST_CHROMIUM", "")
pytestmark = [pytest.mark.live, pytest.mark.skipif(not CHROMIUM, reason="VPI_TEST_CHROMIUM names no Chromium")]
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync --enable-logging=stderr --proxy-bypass-list=<-loopback>"
)


class Proxy:
    """Takes every connection that the browser would make to the network, and keeps what a page asks for: what the
    browser asks of its maker's hosts, whatever it shows, is left out."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
                with connection:
                    connection.settimeout(2)
                    asked = connection.recv(4096).partition(b"\r\n")[0]
                    if b"google" not in asked:
                        self.asked.append(asked)
            except TimeoutError:
                continue
            except OSError:
                return

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(5)


class Browser:
    """Opens pages with the network behind a proxy that answers nothing."""

    def __init__(self, folder: Path, proxy: Proxy) -> None:
        self.proxy = proxy
        self._folder = folder

    def dom(self, path: Path) -> tuple[str, list[str]]:
        """Return a page as it is after it was loaded, and what the browser says about it."""
        out, err = self._run("--dump-dom", path.absolute().as_uri())
        return out, [line for line in err.splitlines() if "CONSOLE" in line]

    def printed(self, path: Path) -> bytes:
        made = self._folder / "page.pdf"
        self._run(f"--print-to-pdf={made}", path.absolute().as_uri())
        return made.read_bytes()

    def _run(self, *words: str) -> tuple[str, str]:
        profile = f"--user-data-dir={self._folder / 'profile'}"
        done = subprocess.run(
            [CHROMIUM, *FLAGS.split(), f"--proxy-server={self.proxy.address}", profile, *words],
            capture_output=True,
            text=True,
            timeout=90,
            check=True,
        )
        return done.stdout, done.stderr


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    proxy = Proxy()
    yield Browser(tmp_path, proxy)
    proxy.close()


def saved(folder: Path, entries: list[Json]) -> Path:
    path = folder / "page.html"
    path.write_text(rendered(session_file(folder, *entries)).html)
    return path


def test_what_the_browser_would_load_or_run_is_seen(tmp_path: Path, browser: Browser) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<p>x<img src=http://evil.test/a.png><script>console.log('ran'); document.title = 'ran'</script>")
    dom, told = browser.dom(bad)
    assert "<title>ran</title>" in dom
    assert "ran" in told[0]
    assert [line.split()[1] for line in browser.proxy.asked] == [b"http://evil.test/a.png"]


@pytest.mark.parametrize("entries", [every_kind(), hostile()], ids=["every kind", "hostile"])
def test_a_page_loads_whole_and_asks_the_network_for_nothing(
    tmp_path: Path, browser: Browser, entries: list[Json]
) -> None:
    path = saved(tmp_path, entries)
    dom, told = browser.dom(path)
    assert told == []
    assert browser.proxy.asked == []
    loaded, written = Page(dom), Page(path.read_text())
    assert loaded.tags == written.tags
    assert loaded.text.split() == written.text.split()


def test_a_page_prints(tmp_path: Path, browser: Browser) -> None:
    assert browser.printed(saved(tmp_path, every_kind())).startswith(b"%PDF-")
    assert browser.proxy.asked == []
