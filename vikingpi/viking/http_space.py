"""A user's own space on an OpenViking server: addresses and plain reads and writes in it."""

from __future__ import annotations

from collections.abc import Set

from vikingpi.decode import as_dict, as_list, as_str
from vikingpi.errors import StoreRejected
from vikingpi.viking.http import HttpApi
from vikingpi.viking.http_sessions import HttpSessions
from vikingpi.viking.uri import check_uri, segment

_MOST_NODES = 2000


class Space:
    """`viking://user/<user>`; whose it is, the server is asked once."""

    def __init__(self, api: HttpApi) -> None:
        self._api = api
        self._user = ""

    async def home(self) -> str:
        """Give the root of the user's space."""
        if not self._user:
            self._user = (await HttpSessions(self._api).health()).user
        return f"viking://user/{segment(self._user)}"

    async def canonical(self, uri: str) -> str:
        """Check an address and write the user's own space out in full: older servers know no `~`."""
        text = check_uri(uri)
        if text == "viking://~" or text.startswith("viking://~/"):
            return await self.home() + text.removeprefix("viking://~")
        return text

    async def below(self, scope: str, peer: str) -> str:
        """Give the address to search below, "" for everything."""
        if scope == "resources":
            return "viking://resources"
        if scope not in ("", "memories"):
            return await self.canonical(scope)
        if peer:
            return f"{await self.home()}/peers/{peer}/memories"
        return f"{await self.home()}/memories" if scope else ""

    async def text(self, uri: str) -> str:
        """Read a file, "" where there is none."""
        try:
            return as_str(await self._api.get("/api/v1/content/read", {"uri": uri}))
        except StoreRejected as error:
            if error.status != 404:
                raise
            return ""

    async def names(self, folder: str) -> list[str]:
        """List the Markdown files below a folder with their abstracts, nothing where there is no folder."""
        query = {"uri": folder, "output": "agent", "recursive": "true", "abs_limit": 512, "node_limit": 512}
        try:
            nodes = [as_dict(one) for one in as_list(await self._api.get("/api/v1/fs/ls", query))]
        except StoreRejected as error:
            if error.status != 404:
                raise
            return []
        files = [node for node in nodes if node.get("isDir") is False and as_str(node.get("uri")).endswith(".md")]
        names = [as_str(node.get("rel_path")) or as_str(node.get("uri")).rpartition("/")[2] for node in files]
        abstracts = [" ".join(as_str(node.get("abstract")).split()) for node in files]
        return [
            f"{name.removesuffix('.md')}: {said}" if said else name.removesuffix(".md")
            for name, said in zip(names, abstracts, strict=True)
        ]

    async def put(self, uri: str, text: str, mode: str = "create") -> None:
        """Write a file; `mode` "append" adds to one."""
        await self._api.post("/api/v1/content/write", {"uri": uri, "content": text, "mode": mode, "wait": False})

    async def delete_below(self, folder: str, but: Set[str]) -> None:
        """Delete the files below a folder that are not among `but`, and leave what the server itself keeps there."""
        query: dict[str, str | int] = {"uri": folder, "recursive": "true", "node_limit": _MOST_NODES}
        nodes = [as_dict(one) for one in as_list(await self._api.get("/api/v1/fs/ls", query))]
        for uri in (as_str(node.get("uri")) for node in nodes if node.get("isDir") is False):
            below = uri.startswith(f"{folder}/") and not uri.rpartition("/")[2].startswith(".")
            if below and uri not in but:
                await self._api.delete("/api/v1/fs", {"uri": uri})
