"""The one exception tree of the program.

VpiError                     has `hint`: what the reader can do
|- ConfigError               the user: a configuration file or a flag is wrong (exit code 2)
|  `- NoModel                the chat, which lets the user choose one; the user elsewhere
|- SessionError              the user: a session file cannot be used (exit code 2)
|  `- SessionLocked          the user: another process writes this session
|- ToolError                 the model: becomes the text of a failed tool result
|- ExtensionError            the user: an extension is broken, the others go on
|- NetError                  developers: wires and stores translate it, nobody else sees it
|  |- NotConnected           nothing was sent
|  `- Interrupted            the request may have been received
|- ProviderError             the user: the model could not answer (exit code 1)
|  |- RateLimited
|  |- ContextTooLong
|  |- AuthFailed
|  |- Unreachable
|  `- BadResponse
`- StoreError                takeover and memory: the agent works on without the store
   |- StoreUnreachable
   |  `- RouteMissing        an old server has no such route, or another program answers
   `- StoreRejected

Stopped is a SystemExit beside it: the user's second signal, which nothing may catch.
"""

from __future__ import annotations


class Stopped(SystemExit):
    """Break off code that does not return; the program ends with this code."""


class VpiError(Exception):
    """Say what happened; `hint` says what to do about it, or is empty."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(VpiError):
    """A configuration file, a flag or a model name is wrong."""


class NoModel(ConfigError):
    """No flag names a model, and what the session, the settings and the environment give cannot be used."""


class SessionError(VpiError):
    """A session file cannot be found, read, locked or written."""


class SessionLocked(SessionError):
    """Another process holds the session; `pid` is 0 where it is unknown."""

    def __init__(self, message: str, *, hint: str = "", pid: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.pid = pid


class ToolError(VpiError):
    """A tool refuses or fails; the text is for the model."""


class ExtensionError(VpiError):
    """An extension cannot be loaded or broke."""


class NetError(VpiError):
    """A request got no answer."""


class NotConnected(NetError):
    """No connection: the other side has received nothing."""


class Interrupted(NetError):
    """Time-out or broken connection: the other side may have received the request."""


class ProviderError(VpiError):
    """The model could not answer.

    `status` is the HTTP status or 0; `retryable` says whether the same request may succeed later.
    """

    def __init__(self, message: str, *, hint: str = "", status: int = 0, retryable: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retryable = retryable


class RateLimited(ProviderError):
    """Too many requests; `retry_after` is in seconds, None where the provider named none."""

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        status: int = 429,
        retryable: bool = True,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint, status=status, retryable=retryable)
        self.retry_after = retry_after


class ContextTooLong(ProviderError):
    """The request does not fit the model's context window."""


class AuthFailed(ProviderError):
    """The provider refuses the key."""


class Unreachable(ProviderError):
    """No answer from the provider's endpoint."""


class BadResponse(ProviderError):
    """The provider answered something that is no answer, or the stream ended early."""


class StoreError(VpiError):
    """The context store did not do what was asked."""


class StoreUnreachable(StoreError):
    """No usable answer (connection, time-out, 408, 429, 5xx, retryable 409).

    `may_have_stored` is True when the request may have taken effect all the same; `retry_after` in seconds; `refused`
    is True when nobody listens there, which costs no time to find out.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        may_have_stored: bool,
        retry_after: float | None = None,
        refused: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.may_have_stored = may_have_stored
        self.retry_after = retry_after
        self.refused = refused


class RouteMissing(StoreUnreachable):
    """The server has no such route: it is too old, or no OpenViking server."""


class StoreRejected(StoreError):
    """The store refuses the request as it is (4xx); nothing was stored. 401 and 403 are `denied`."""

    def __init__(self, message: str, *, hint: str = "", status: int, code: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code

    @property
    def denied(self) -> bool:
        return self.status in (401, 403)
