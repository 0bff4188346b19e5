"""Calls the functions of an extension, so that nothing they do ends the program or holds it up without end.

An async function runs on the event loop, in a task of its own. A plain one runs in a daemon thread of its own, but
those that must answer at once (`at_once`) run on the loop's thread and are broken off by an alarm.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType, MappingProxyType
from typing import Any, TypeVar

from vikingpi.errors import ExtensionError, Stopped
from vikingpi.extensions.naming import is_extension

T = TypeVar("T")

# Seconds. Tools and commands have no limit: who waits for them ends them by Esc, or by --max-time.
LIMITS: Mapping[str, float] = MappingProxyType(
    {
        "session_start": 10.0,
        "before_agent_start": 30.0,
        "tool_call": 120.0,
        "turn_end": 30.0,
        "turn_end after an abort": 1.0,
        "session_before_compact": 300.0,
        "session_compact": 30.0,
        "session_shutdown": 5.0,
    }
)
AT_ONCE = 5.0
ENDING = 2.0
_ALARM_AGAIN = 0.05


class TooLate(ExtensionError):
    """A function did not return within its limit."""


class Calls:
    """Calls the functions of one extension; `left` is told what goes on after nobody waits for it any more."""

    def __init__(self, left: Callable[[str], None], limits: Mapping[str, float] = LIMITS) -> None:
        self.limits = limits
        self._left = left
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def attach(self) -> None:
        """Take the running event loop for the one that `on_loop` means."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    async def ask(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Wait for the answer, as long as the limit of `what`, a name in `limits`, allows.

        Whatever the function raises arrives as an Exception. CancelledError is always the caller's own.
        """
        call, limit = _Call(function, arguments), self.limits.get(what)
        try:
            await asyncio.wait([call.task], timeout=limit)
        except asyncio.CancelledError:
            if await call.end():
                self._left(f"{what} does not return and is left behind")
            raise
        if call.task.done():
            return call.result()
        await call.end()
        raise TooLate(f"it did not return within {limit:g} s")

    def at_once(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that must not wait; raise as `ask` does."""
        return within(self.limits.get(what, AT_ONCE), function, *arguments)

    def on_loop(self, work: Callable[[], T]) -> T:
        """Do something on the thread of the event loop, wherever this is called, and return what it gave."""
        if self._loop is None or threading.get_ident() == self._thread:
            return work()
        done: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            try:
                done.set_result(work())
            except Exception as error:  # noqa: BLE001 - it is raised where it was asked for
                done.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return done.result()


class _Call:
    """One call that runs."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._in_thread = False
        self.task = asyncio.create_task(self._run(function, arguments))
        self.task.add_done_callback(_heed)

    def result(self) -> Any:
        """Return what it gave; raise an Exception for what it raised."""
        if self.task.cancelled():
            raise ExtensionError("it raised CancelledError")
        error = self.task.exception()
        if error is not None:
            raise named(error)
        return self.task.result()

    async def end(self) -> bool:
        """Cancel it and wait a moment; return whether it goes on all the same."""
        self.task.cancel()
        await asyncio.wait([self.task], timeout=ENDING)
        return self._in_thread or not self.task.done()

    async def _run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        try:
            if inspect.iscoroutinefunction(function):
                return await function(*arguments)
            said = await self._threaded(function, arguments)
            return await said if inspect.isawaitable(said) else said
        except Stopped:
            raise
        except (SystemExit, KeyboardInterrupt) as error:  # these two would end the event loop
            raise named(error) from error

    async def _threaded(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def work() -> None:
            try:
                said, error = context.run(function, *arguments), None
            except BaseException as raised:  # noqa: BLE001 - it is raised where the answer is waited for
                said, error = None, raised
            self._in_thread = False
            if not loop.is_closed():
                loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result((said, error)))

        self._in_thread = True
        threading.Thread(target=work, name="vpi-extension", daemon=True).start()
        said, error = await done
        if error is not None:
            raise error
        return said


def within(seconds: float, function: Callable[..., T], *arguments: Any) -> T:
    """Call a plain function now; raise an Exception for whatever it raises, and when it does not return in time.

    Only on the main thread is it broken off, and never within the program's own code.
    """
    try:
        if threading.current_thread() is threading.main_thread():
            return _alarmed(seconds, function, *arguments)
        return function(*arguments)
    except (_Expired, Stopped) as error:
        if isinstance(error, Stopped):
            raise
        raise TooLate(f"it did not return within {seconds:g} s") from None
    except BaseException as error:
        raise named(error) from error


def _alarmed(seconds: float, function: Callable[..., T], *arguments: Any) -> T:
    armed = [True]

    def expired(_number: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code is not _alarmed.__code__ and not is_extension(frame):
            if str(frame.f_globals.get("__name__")).startswith("vikingpi."):
                return  # the next alarm comes soon
            frame = frame.f_back
        if armed:
            raise _Expired

    before = signal.signal(signal.SIGALRM, expired)
    outer = signal.setitimer(signal.ITIMER_REAL, seconds, _ALARM_AGAIN)
    try:
        return function(*arguments)
    finally:
        armed.clear()
        signal.setitimer(signal.ITIMER_REAL, *outer)
        signal.signal(signal.SIGALRM, before)


class _Expired(BaseException):
    """The time of a function is over; no Exception, so that it passes what catches those."""


def named(error: BaseException) -> Exception:
    """Make an Exception that has a text of whatever was raised."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - its author may have got that wrong as well
        return ExtensionError(f"it raised {type(error).__name__}")
    if isinstance(error, Exception):
        return error
    return ExtensionError(f"it raised {type(error).__name__}" + (f": {text}" if text else ""))


def _heed(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
