"""A loopback proxy that holds back whatever a client sends for a while."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Generator
from urllib.parse import urlsplit


@contextlib.contextmanager
def slowed(url: str, delay: float) -> Generator[str]:
    """Give an address that reaches `url` with `delay` seconds added to each piece of a request."""
    target = urlsplit(url)
    loop = asyncio.new_event_loop()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait: float) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await asyncio.sleep(wait)
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(target.hostname, target.port)
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, back, delay))
            group.create_task(pump(there, writer, 0))

    server = loop.run_until_complete(asyncio.start_server(connected, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
