"""Sessions on an OpenViking server, from 0.4.16 on.

- An archive's overview is read from the archive itself: the context route goes on giving the previous one.
- Working memory is asked for twice, when the session is made and with each commit: 0.5 has it off by default.
- A POST to a session that is gone makes a new one without a policy, so `add_messages` raises no 404 here; the chain
  check of `session_status` finds it out.
- The policy about long-term memories is fixed when a session is made: see `ensure_session`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from vikingpi.decode import Json, as_dict, as_list, as_str
from vikingpi.errors import StoreRejected, StoreUnreachable
from vikingpi.viking.base import (
    Archive,
    CommitReceipt,
    Health,
    SessionStatus,
    StoreMessage,
    TaskState,
    archive_name,
    archive_number,
)
from vikingpi.viking.http import HttpApi
from vikingpi.viking.outgoing import check_batch
from vikingpi.viking.uri import check_session_name, segment

MAX_KEEP = 10_000
WHOLE_CONTEXT = 10_000_000
MAX_ARCHIVES = 200

_FINISHED: dict[str, TaskState] = {"completed": "completed", "failed": "failed", "cancelled": "failed"}


class HttpSessions:
    """The SessionStore over HTTP. Closing it leaves the transport to its owner."""

    def __init__(self, api: HttpApi) -> None:
        self._api = api

    @property
    def kind(self) -> Literal["openviking"]:
        return "openviking"

    async def health(self) -> Health:
        """Ask for version and identity; raise StoreRejected for a key that cannot use sessions."""
        answer = await self._api.plain("/health")
        if answer.get("healthy") is False or as_str(answer.get("status"), "ok") != "ok":
            raise self._api.unusable("GET", "/health", "that it is not healthy")
        version, mode = as_str(answer.get("version")), as_str(answer.get("auth_mode"))
        account, user = as_str(answer.get("account_id")), as_str(answer.get("user_id"))
        if mode == "dev":
            account, user = self._api.account, self._api.user
        elif mode == "api_key" and as_str(answer.get("role")).lower() == "root":
            raise StoreRejected(
                "the root key of an OpenViking server cannot use sessions",
                hint="make a user key with it and configure that one",
                status=403,
                code="PERMISSION_DENIED",
            )
        elif not user:
            status = as_dict(await self._api.get("/api/v1/system/status"))
            account, user = self._api.account, as_str(status.get("user")) or self._api.user
        return Health(version, account or "default", user or "default", self._api.endpoint)

    async def ensure_session(self, name: str, *, memories: bool = True) -> SessionStatus:
        policy: Json = {"working_memory": {"enabled": True}}
        if not memories:
            policy["memory_types"] = []
        body: Json = {
            "session_id": check_session_name(name),
            "memory_policy": policy,
            "auto_commit_policy": None,
        }
        try:
            await self._api.post("/api/v1/sessions", body)
        except StoreRejected as error:
            if error.status != 409:
                raise
        status = await self.session_status(name)
        if status is None:
            raise StoreUnreachable(f"session {name} is gone right after it was made", may_have_stored=False)
        return status

    async def add_messages(self, name: str, messages: Sequence[StoreMessage]) -> None:
        check_batch(messages)
        path = f"{_path(name)}/messages/batch"
        if not messages:
            return
        answer = as_dict(await self._api.post(path, {"messages": [message.to_json() for message in messages]}))
        added = answer.get("added")
        if not isinstance(added, int) or added < len(messages):
            raise self._api.unusable("POST", path, f"{added!r:.20} messages added instead of {len(messages)}")

    async def session_status(self, name: str) -> SessionStatus | None:
        path = _path(name)
        try:
            answer = as_dict(await self._api.get(path))
        except StoreRejected as error:
            if _missing(error):
                return None
            raise
        created, total = as_str(answer.get("created_at")), _count(answer.get("total_message_count"))
        live, commits = _count(answer.get("message_count")), _count(answer.get("commit_count"))
        if not created or live is None or commits is None:
            raise self._api.unusable("GET", path, "no session's figures")
        return SessionStatus(created, total, live, commits, _count(answer.get("pending_tokens")))

    async def marks(self, name: str, since_archive: int) -> frozenset[str]:
        path = f"{_path(name)}/context"
        try:
            context = as_dict(await self._api.get(path, {"token_budget": WHOLE_CONTEXT}))
        except StoreRejected as error:
            if _missing(error):
                return frozenset()
            raise
        if not isinstance(context.get("messages"), list):
            raise self._api.unusable("GET", path, "no messages")
        found = {mark for message in _messages(context) for mark in message.marks}
        # Counted after the context was read: what was archived in between shows up in one of both.
        status = await self.session_status(name)
        newest = status.commit_count if status else 0
        for number in range(max(since_archive + 1, newest - MAX_ARCHIVES + 1), newest + 1):
            archive = await self.archive(name, number)
            found |= archive.marks if archive else frozenset()
        return frozenset(found)

    async def commit(self, name: str, keep: int) -> CommitReceipt | None:
        path = f"{_path(name)}/commit"
        body: Json = {"keep_recent_count": min(max(0, keep), MAX_KEEP), "enable_working_memory": True}
        try:
            answer = as_dict(await self._api.post(path, body))
        except StoreRejected as error:
            if _missing(error):
                return None
            raise
        if answer.get("status") == "skipped":
            return CommitReceipt(False)
        number = archive_number(as_str(answer.get("archive_uri")))
        if answer.get("status") != "accepted" or not number:
            raise self._api.unusable("POST", path, "neither an archive nor that there is nothing to archive")
        makes_overview = answer.get("effective_enable_working_memory") is not False
        return CommitReceipt(True, as_str(answer.get("task_id")), number, makes_overview)

    async def unfinished_task(self, name: str) -> bool:
        query = {"resource_id": check_session_name(name), "task_type": "session_commit"}
        answer = await self._api.get("/api/v1/tasks", query)
        tasks = as_list(answer)
        if not tasks and answer != []:
            raise self._api.unusable("GET", "/api/v1/tasks", "no list of tasks")
        return any(as_str(as_dict(task).get("status")) not in _FINISHED for task in tasks)

    async def task(self, task_id: str) -> TaskState:
        if not task_id or segment(task_id) != task_id:
            return "gone"
        try:
            answer = as_dict(await self._api.get(f"/api/v1/tasks/{task_id}"))
        except StoreRejected as error:
            if _missing(error):
                return "gone"
            raise
        return _FINISHED.get(as_str(answer.get("status")), "pending")

    async def archive(self, name: str, number: int) -> Archive | None:
        path = f"{_path(name)}/archives/{archive_name(number)}"
        try:
            answer = as_dict(await self._api.get(path))
        except StoreRejected as error:
            if _missing(error):
                return None
            raise
        if archive_number(as_str(answer.get("archive_id"))) != number:
            raise self._api.unusable("GET", path, "another archive")
        messages = _messages(answer)
        marks = frozenset(mark for message in messages for mark in message.marks)
        return Archive(number, as_str(answer.get("overview")), marks, messages)

    async def close(self) -> None:
        return None


def _path(name: str) -> str:
    return f"/api/v1/sessions/{segment(check_session_name(name))}"


def _missing(error: StoreRejected) -> bool:
    """Whether the server itself says so; a proxy's 404 never gets here as NOT_FOUND."""
    return error.status == 404 and error.code == "NOT_FOUND"


def _messages(answer: Json) -> tuple[StoreMessage, ...]:
    return tuple(StoreMessage.from_json(as_dict(message)) for message in as_list(answer.get("messages")))


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
