"""Brings messages to the store and tells the user what the store says."""

from __future__ import annotations

from vikingpi.agent.hooks import HookContext
from vikingpi.errors import StoreError, StoreUnreachable
from vikingpi.events import Notice, StoreState
from vikingpi.takeover.delivery import Delivery, Link, Outcome
from vikingpi.takeover.identity import identify
from vikingpi.takeover.mirror import Mirror
from vikingpi.takeover.state import covered_turns, is_off
from vikingpi.viking.ledger import Generation

BARRIER_MS = 20_000
HUNG_MS = 2_000
SLOW_MS = 3_000
_OUTCOMES: dict[Outcome, str] = {
    "busy": "they are being sent",
    "waiting": "nobody knows yet what has arrived",
    "unreachable": "the store cannot be reached",
    "denied": "the store refuses the key",
    "stopped": "the store does not take them",
    "anew": "the session in the store was made anew",
}
_HINTS: dict[Outcome, tuple[str, str]] = {
    "denied": ("the context store refuses the key", "check the OpenViking key, then /viking reconnect"),
    "stopped": ("the context store does not take this session", "see /viking"),
    "unreachable": (
        "the context store cannot be reached",
        "nothing is lost: what is said here is delivered when it is back",
    ),
}


def undelivered(outcome: Outcome) -> str:
    """Say why not everything is delivered."""
    return f"messages are still undelivered: {_OUTCOMES.get(outcome, outcome)}"


class Courier:
    """Delivers for the open session first, then what other sessions left behind.

    `fault` says what keeps this process from capturing or delivering, or is empty.
    """

    def __init__(self, link: Link, ctx: HookContext, mirror: Mirror, token_threshold: int) -> None:
        self.link = link
        self.mirror = mirror
        self.delivery = Delivery(link)
        self._ctx = ctx
        self._token_threshold = token_threshold
        self.fault = ""
        self._waiting = False
        self._told: set[str] = set()
        self._state: StoreState | None = None

    async def deliver_own(self) -> Outcome:
        """Deliver what the open session has captured."""
        if (refusal := await self._identified()) is not None:
            self.tell_state()
            return refusal
        own = self.mirror.generation()
        outcome: Outcome = "empty"
        if own is not None and not is_off(self._ctx.branch()):
            outcome = await self.deliver(own)
            if is_off(self._ctx.branch()):
                self.link.ledger.messages.withdraw(own.id)
        self.tell_state()
        return outcome

    async def deliver_others(self) -> None:
        """Deliver what other sessions left behind for this store."""
        own = self.mirror.generation()
        for other in self.link.ledger.generations.unfinished(self.link.row.id, self.link.now()):
            if own is not None and other.id == own.id:
                continue
            if await self.deliver(other, own=False) in ("unreachable", "denied"):
                break
        self.tell_state()

    async def deliver(self, generation: Generation, *, own: bool = True) -> Outcome:
        """Deliver one generation."""
        outcome = await self.delivery.deliver(generation, deadline=self.link.now() + BARRIER_MS, own=own)
        for refusal in self.delivery.refused:
            self.tell_once(refusal, f"the context store refused a message: {refusal}", "see /viking")
        self.delivery.refused.clear()
        return self._tell_outcome(outcome)

    def state(self) -> StoreState:
        """What the status bar shows."""
        generation, shown = self.mirror.generation(), self.mirror.view()
        kind, covered = self.link.store.kind, covered_turns(shown)
        connected = False if self.fault else None if self._waiting else self.delivery.connected
        state = StoreState(kind, connected, covered, token_threshold=self._token_threshold, detail=self.fault)
        if generation is None:
            return state
        figures = self.link.ledger.generations.figures(generation.id)
        return state._replace(
            pending_tokens=figures.pressure,
            outbox=figures.outbox,
            dead=figures.dead,
            open_commit=self.link.ledger.commits.get(generation.id) is not None,
            detail=self.fault or self.link.ledger.stores.get(self.link.row.identity).last_error,
        )

    def failed(self, what: str, error: Exception, hint: str) -> None:
        """Something other than the store does not work: say it once and show it until it works again."""
        self.link.log({"event": "failed", "what": what, "error": str(error)})
        self.fault = f"{what}: {error}"
        self.tell_once(what, self.fault, hint)

    def overdue(self, since: int | None) -> None:
        """Show that the store owes an answer when it has been silent for a while; `since` when work with it began, None
        when none is under way."""
        worked = self.link.ledger.stores.get(self.link.row.identity).last_success
        self._waiting = since is not None and self.link.now() - max(since, worked) >= SLOW_MS
        self.tell_state()

    def gave_up(self, seconds: float) -> None:
        """A store that does not answer within what a run waits for is left alone for a while, and it is said."""
        self.link.log({"event": "gave_up_waiting", "seconds": seconds})
        silent = self.link.now() - self.link.ledger.stores.get(self.link.row.identity).last_success
        if not self.delivery.connected or silent >= HUNG_MS:
            text = f"no answer within {seconds:g} s"
            self._tell_outcome(self.delivery.failed(StoreUnreachable(text, may_have_stored=True)))
            self.tell_state()

    def tell_state(self) -> None:
        """Emit the state when it changed, and what the store has to say about itself."""
        for line in self.link.notices():
            self.tell_once(line, line, "")
        state = self.state()
        if state != self._state:
            self._state = state
            self._ctx.emit(state)

    async def _identified(self) -> Outcome | None:
        """Learn whose space a key opens before the first message goes there; None when that is known."""
        if not self.link.provisional:
            return None
        if self.delivery.resting():
            return "unreachable"
        try:
            await identify(self.link)
        except StoreError as error:
            return self._tell_outcome(self.delivery.failed(error))
        return None

    def _tell_outcome(self, outcome: Outcome) -> Outcome:
        if outcome in _HINTS:
            text, hint = _HINTS[outcome]
            error = self.link.ledger.stores.get(self.link.row.identity).last_error
            self.tell_once(outcome, f"{text}: {error}", hint)
        return outcome

    def tell_once(self, key: str, text: str, hint: str) -> None:
        """Give a notice that is said once per process."""
        if key not in self._told:
            self._told.add(key)
            self._ctx.emit(Notice(text, "warning", hint))
