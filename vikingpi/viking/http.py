"""Requests to an OpenViking server: headers, the answer's envelope, and what each failure means.

Failures by what they say about a request that would store something:

    no connection, 4xx, 429, 409 with `retryable`       nothing was stored
    time-out, broken answer, 408, 5xx, 3xx, no envelope  it may have been stored
    (a GET stores nothing, whatever happens to it)

A 4xx in the server's form is a StoreRejected; everything else is a StoreUnreachable. Texts are one short line and hold
no header value.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

from vikingpi.decode import Json, as_dict, as_str
from vikingpi.errors import (
    ConfigError,
    NetError,
    NotConnected,
    RouteMissing,
    StoreError,
    StoreRejected,
    StoreUnreachable,
)
from vikingpi.net import Reply, Transport
from vikingpi.values import NamedTuple
from vikingpi.viking.outgoing import dump
from vikingpi.viking.uri import with_query

POST_SECONDS = 40.0
QUICK_SECONDS = 1.0
GET_SECONDS = 10.0
MAX_WAIT = 86_400.0

# A POST that changes nothing: there is no lock that it would have to wait for.
_ASKING = "/api/v1/search/"
_CONTROL = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+")
_USERINFO = re.compile(r"//[^/@\s]*@")
_HTTP_DATE = re.compile(r"(\d{1,2}) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d)")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FOREIGN = "check the address; this needs an OpenViking server from 0.4.16 on"


class _Asked(NamedTuple):
    """A request as failures speak of it; `where` is the server, `stores` whether it can change anything there."""

    where: str
    method: str
    path: str
    stores: bool


class HttpApi:
    """One server as one account and user; `log` gets a record per request, without query, header or body.

    The transport belongs to the caller.
    """

    def __init__(
        self,
        transport: Transport,
        url: str,
        *,
        api_key: str = "",
        account: str = "",
        user: str = "",
        peer: str = "",
        version: str = "0.1.0",
        log: Callable[[Json], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Raise ConfigError for an address or a header value that cannot be used."""
        self.endpoint = normalise_endpoint(url)
        self.account = _header("account", account)
        self.user = _header("user", user)
        self._key = _header("API key", api_key.strip().removeprefix("Bearer ").strip())
        self._where = f"OpenViking at {self.endpoint}"
        self._transport = transport
        self._log = log
        self._clock = clock
        headers = {
            "user-agent": f"openviking-memory-vpi/{version}",
            "accept": "application/json",
            "authorization": f"Bearer {self._key}" if self._key else "",
            "x-openviking-account": self.account,
            "x-openviking-user": self.user,
            "x-openviking-actor-peer": _header("peer", peer),
        }
        self._headers = {name: value for name, value in headers.items() if value}

    async def get(self, path: str, query: Mapping[str, str | int] | None = None) -> object:
        """Return the result of a GET."""
        asked, reply = await self._send("GET", path, query, None)
        return self._result(asked, reply)

    async def post(self, path: str, body: Json) -> object:
        """Return the result of a POST."""
        asked, reply = await self._send("POST", path, None, body)
        return self._result(asked, reply)

    async def delete(self, path: str, query: Mapping[str, str | int] | None = None) -> object:
        """Return the result of a DELETE."""
        asked, reply = await self._send("DELETE", path, query, None)
        return self._result(asked, reply)

    async def plain(self, path: str) -> Json:
        """Return the object that a GET outside of the envelope answers."""
        asked, reply = await self._send("GET", path, None, None)
        answer = as_dict(_decoded(reply.body))
        if 200 <= reply.status < 300 and answer:
            return answer
        raise self._failure(asked, reply)

    def unusable(self, method: str, path: str, why: str) -> StoreUnreachable:
        """Make the failure of a request that was answered with what cannot be used."""
        return _unusable(_Asked(self._where, method, path, method != "GET"), why)

    async def _send(
        self, method: str, path: str, query: Mapping[str, str | int] | None, body: Json | None
    ) -> tuple[_Asked, Reply]:
        asked = _Asked(self._where, method, path, method != "GET")
        headers, data = self._headers, None
        if body is not None:
            headers, data = {**headers, "content-type": "application/json"}, dump(body).encode()
        started, status, note, request_id = time.monotonic(), 0, "", ""
        try:
            reply = await self._transport.send(
                method,
                self.endpoint + with_query(path, query or {}),
                headers=headers,
                body=data,
                timeout=GET_SECONDS if method == "GET" or path.startswith(_ASKING) else POST_SECONDS,
            )
            status, request_id = reply.status, reply.headers.get("x-request-id", "")
        except NetError as error:
            note = _line(str(error), self._key)
            lost = not isinstance(error, NotConnected)
            refused = not lost and time.monotonic() - started < QUICK_SECONDS
            text = f"OpenViking: {note}"
            raise StoreUnreachable(
                text, hint=error.hint, may_have_stored=asked.stores and lost, refused=refused
            ) from error
        except asyncio.CancelledError:
            note = "given up before an answer came"
            raise
        finally:
            if self._log is not None:
                ms = round(1000 * (time.monotonic() - started))
                record: Json = {"method": method, "path": path, "status": status, "ms": ms}
                self._log({**record, "request_id": _line(request_id, self._key, 80), "error": note})
        return asked, reply

    def _result(self, asked: _Asked, reply: Reply) -> object:
        if 200 <= reply.status < 300:
            answer = as_dict(_decoded(reply.body))
            if answer.get("status") == "ok" and "result" in answer:
                return answer["result"]
        raise self._failure(asked, reply)

    def _failure(self, asked: _Asked, reply: Reply) -> StoreError:
        answer = _decoded(reply.body)
        wait = retry_after(reply.headers.get("retry-after", ""), self._clock())
        fault = _Fault.read(as_dict(answer))
        fault = fault._replace(message=_line(fault.message, self._key))
        status = reply.status
        said = f"{asked.where} answered {status} to {asked.method} {asked.path}"
        text = f"{said}: {fault.message}" if fault.message else said
        if status >= 500 or status == 408:
            return StoreUnreachable(text, may_have_stored=asked.stores, retry_after=wait)
        if status in (407, 421, 425, 429) or (status == 409 and fault.retryable):
            return StoreUnreachable(text, may_have_stored=False, retry_after=wait)
        if status >= 400:
            if _is_foreign(status, answer, fault):
                kind = StoreUnreachable if status == 400 else RouteMissing
                return kind(f"{said}, not as an OpenViking server does", hint=_FOREIGN, may_have_stored=False)
            return StoreRejected(text, hint=_hint(status), status=status, code=fault.code)
        if status >= 300:
            target = _USERINFO.sub("//", reply.headers.get("location", "").partition("?")[0])
            return _unusable(asked, f"a redirect to {_line(target, self._key) or 'nowhere'}", _FOREIGN)
        if fault.message:
            return _unusable(asked, f"an error: {fault.message}")
        kind = _line(reply.headers.get("content-type", ""), self._key, 60) or "no content type"
        return _unusable(asked, f"no OpenViking answer ({kind}, {len(reply.body)} bytes)", _FOREIGN)


class _Fault(NamedTuple):
    """The error of an answer in the server's form; `code` "" where it has another form."""

    code: str = ""
    message: str = ""
    retryable: bool = False

    @staticmethod
    def read(answer: Json) -> _Fault:
        error = as_dict(answer.get("error"))
        message = as_str(error.get("message")) or as_str(answer.get("error")) or as_str(answer.get("detail"))
        retryable = as_dict(error.get("details")).get("retryable") is True
        return _Fault(_line(as_str(error.get("code")), "", 60), message, retryable)


def normalise_endpoint(url: str) -> str:
    """Return scheme, host, port and path of a server's address; raise ConfigError when it is none.

    Without a scheme it is http. User names, default ports, a slash at the end and /api/v1 are dropped.
    """
    text = url.strip()
    try:
        split = urlsplit(text if "://" in text else f"http://{text}")
        host, port = split.hostname or "", split.port
    except ValueError as error:
        raise _bad_address(url) from error
    if split.scheme not in ("http", "https") or not host or _CONTROL.search(text):
        raise _bad_address(url)
    place = f"[{host}]" if ":" in host else host
    default = 443 if split.scheme == "https" else 80
    path = split.path.rstrip("/").removesuffix("/api/v1").rstrip("/")
    return f"{split.scheme}://{place}{'' if port in (None, default) else f':{port}'}{path}"


def retry_after(value: str, now: float) -> float | None:
    """Read a Retry-After header, seconds or a date, as seconds from `now`; None where it says nothing."""
    text = value.strip()
    if re.fullmatch(r"\d{1,12}(?:\.\d{1,9})?", text):
        return min(float(text), MAX_WAIT)
    found = _HTTP_DATE.search(text)
    if found is None or found[2] not in _MONTHS:
        return None
    day, year, hour, minute, second = (int(found[index]) for index in (1, 3, 4, 5, 6))
    try:
        moment = datetime(year, _MONTHS.index(found[2]) + 1, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return min(max(0.0, moment.timestamp() - now), MAX_WAIT)


def _is_foreign(status: int, answer: object, fault: _Fault) -> bool:
    """Whether a refusal is not about the request: another program answers, or the server has no such route."""
    if status not in (400, 404, 405):
        return False
    return not isinstance(answer, dict) or (status != 400 and not fault.code) or fault.message == "Not Found"


def _unusable(asked: _Asked, why: str, hint: str = "") -> StoreUnreachable:
    text = f"{asked.where} answered {asked.method} {asked.path} with {why}"
    return StoreUnreachable(text, hint=hint, may_have_stored=asked.stores)


def _decoded(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _line(text: str, secret: str, limit: int = 240) -> str:
    """Make one short line of a text from outside, without the key."""
    # Hidden before it is cut: half a key is still half a key.
    plain = (text.replace(secret, "***") if secret else text)[: 4 * limit]
    plain = _CONTROL.sub(" ", plain).strip()
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def _hint(status: int) -> str:
    if status == 401:
        return "check the API key of the OpenViking server"
    return "check whose key this is; a root key cannot use sessions" if status == 403 else ""


def _header(what: str, value: str) -> str:
    text = value.strip()
    if not (text.isascii() and (text.isprintable() or not text)):
        raise ConfigError(
            f"the OpenViking {what} has characters that cannot be sent",
            hint="only printable ASCII can stand in a header",
        )
    return text


def _bad_address(url: str) -> ConfigError:
    shown = _line(_USERINFO.sub("//", url), "", 80)
    return ConfigError(f"{shown!r} is no OpenViking address", hint="write it like http://127.0.0.1:1933")
