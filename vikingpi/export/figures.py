"""What each request of a branch had in tokens, and would have had without takeover, found by playing the branch again.

The messages of a request are projected by the same code that projects those which are sent, and are counted by the
same estimate; where an answer tells its usage, that is what was sent, and the estimate only says what was left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from vikingpi.agent.context import message_tokens
from vikingpi.agent.validate import repair
from vikingpi.decode import as_dict
from vikingpi.llm.base import Model, Price
from vikingpi.memory.recall import Pinned, pinned_blocks, with_blocks
from vikingpi.messages import AssistantMessage, Message, UserMessage
from vikingpi.session.entries import Entry, message_from_json
from vikingpi.session.ids import ms_of
from vikingpi.session.tree import Contexts
from vikingpi.takeover.boundary import boundary_of, project
from vikingpi.takeover.state import STATE, TakeoverState, View, is_message, is_user, view
from vikingpi.values import NamedTuple

# So many messages are looked at one by one to measure requests: some seconds.
MOST_WORK = 300_000


class Point(NamedTuple):
    """A request: `number` counts from 1 on the branch; tokens as `sent` and as it would have been `whole`.

    With `recorded` they hold the system prompt and tools too, else they are estimates of the messages alone.
    """

    entry_id: str
    number: int
    user_turn: int
    sent: int
    whole: int
    recorded: bool


class Advance(NamedTuple):
    """A move of the boundary after the first `at` requests. Its archive holds the user turns and the requests that
    are named, both ends included; tokens are estimates of the messages that the next request has."""

    entry_id: str
    at: int
    turns: tuple[int, int]
    requests: tuple[int, int]
    tokens_before: int
    tokens_after: int
    overview: str
    archive_id: str


class Figures(NamedTuple):
    """`answers` are the places of all answers on the branch; `points` leaves out those that failed before they were
    counted, and what was too much to measure; `failed` says how many failed; `shown`
    is what the branch says at its end; `compactions` has how many requests were made before each."""

    answers: tuple[int, ...]
    failed: int
    points: tuple[Point, ...]
    advances: tuple[Advance, ...]
    compactions: tuple[int, ...]
    shown: View


class _Asked(NamedTuple):
    """A request of the branch: its answer stands at index `at`; `shown` is what the branch said when it was made;
    `context` is the same as long as the context only grows."""

    at: int
    answer: AssistantMessage
    user_turn: int
    turn_size: int
    shown: View
    context: tuple[object, ...]

    @property
    def key(self) -> tuple[object, ...]:
        """The same for two requests that takeover leaves the same out of."""
        return (*self.context, self.shown.first, self.shown.covered)

    @property
    def recorded(self) -> int:
        usage = self.answer.usage
        return usage.input + usage.cache_read + usage.cache_write

    @property
    def comes_to_nothing(self) -> bool:
        """Whether it failed before anybody counted: it says nothing beside those that were counted."""
        return not self.recorded and self.answer.stop_reason in ("error", "aborted")


def replay(branch: Sequence[Entry], budget: int, most_work: int = MOST_WORK) -> Figures:
    """Find the figures of a branch that was read from its root; `budget` is that of the overview in tokens."""
    views = _Views(branch)
    asked = _requests(branch, views)
    found = _Replay(branch, budget, views, asked, _chosen(asked, most_work))
    found.play()
    compactions = [at for at, entry in enumerate(branch) if entry.type == "compaction"]
    return Figures(
        tuple(one.at for one in asked),
        sum(one.comes_to_nothing for one in asked),
        tuple(found.points),
        tuple(found.advances),
        tuple(sum(1 for one in asked if one.at < at) for at in compactions),
        view(branch),
    )


class _Views:
    """What the branch says at different places."""

    def __init__(self, branch: Sequence[Entry]) -> None:
        self._branch = branch
        self._known: dict[tuple[int, int], View] = {}

    def behind(self, state: int, compaction: int) -> View:
        """What it says behind these two entries, -1 for one that is not there."""
        place = (state, compaction)
        if place not in self._known:
            self._known[place] = view(self._branch[: max(place) + 1])
        return self._known[place]


def _requests(branch: Sequence[Entry], views: _Views) -> list[_Asked]:
    """Find the requests of a branch by their answers."""
    asked: list[_Asked] = []
    users = edits = turn_start = 0
    compaction = asking = -1
    states: list[int] = []
    for at, entry in enumerate(branch):
        message = as_dict(entry.raw.get("message")) if entry.type == "message" else {}
        if is_user(entry):
            users, turn_start = users + 1, at
        edits += entry.type == "context_edit"
        compaction = at if entry.type == "compaction" else compaction
        if _is_state(entry):
            states.append(at)
        answer = message_from_json(message, entry.id) if message.get("role") == "assistant" else None
        if isinstance(answer, AssistantMessage):
            # A state that was written while the answer came is not one that the request knew.
            since, started = states, answer.timestamp
            while since and since[-1] > asking and 0 < started < ms_of(branch[since[-1]].timestamp):
                since = since[:-1]
            shown = views.behind(since[-1] if since else -1, compaction)
            context = (compaction, edits, *_model(answer))
            asked.append(_Asked(at, answer, users, at - turn_start, shown, context))
        if is_message(entry):
            asking = at
    return asked


def _chosen(asked: Sequence[_Asked], most_work: int) -> frozenset[int]:
    """Choose the requests to be measured: those without a usage that did not fail, and one of each kind that something
    is left out of; where that is too much, every so many of them."""
    keys: set[tuple[object, ...]] = set()
    contexts: set[tuple[object, ...]] = set()
    needed: list[_Asked] = []
    work = 0
    for one in asked:
        if not one.comes_to_nothing and (not one.recorded or (one.shown.covered >= 0 and one.key not in keys)):
            needed.append(one)
            work += one.turn_size if one.context in contexts else one.at
            keys.add(one.key)
            contexts.add(one.context)
    return frozenset(one.at for one in needed[:: max(1, -(-work // most_work))])


class _Replay:
    """Goes along a branch and measures."""

    def __init__(
        self, branch: Sequence[Entry], budget: int, views: _Views, asked: Sequence[_Asked], chosen: frozenset[int]
    ) -> None:
        self.points: list[Point] = []
        self.advances: list[Advance] = []
        self._branch = tuple(branch)
        self._budget = budget
        self._views = views
        self._asked = asked
        self._chosen = chosen
        self._contexts = Contexts()
        self._sums: dict[tuple[object, ...], _Sums] = {}
        prompts = tuple(UserMessage((), 0, entry.id) for entry in branch if is_user(entry))
        self._blocks = pinned_blocks(branch, prompts)

    def play(self) -> None:
        """Find all points and advances."""
        numbers = {one.at: number for number, one in enumerate(self._asked, 1)}
        left_out: dict[tuple[object, ...], int] = {}
        compaction, edits, done = -1, 0, 0
        before = View()
        for at, entry in enumerate(self._branch):
            edits += entry.type == "context_edit"
            if entry.type == "compaction":
                compaction, before = at, self._views.behind(at, at)
            elif at in numbers:
                done = numbers[at]
                self._point(done, left_out)
            elif _is_state(entry):
                shown = self._views.behind(at, compaction)
                if shown.covered >= before.first:
                    model = _model(self._asked[done - 1].answer if done else None)
                    sums = self._sums_of((compaction, edits, *model), self._branch[: at + 1])
                    self._advance(at, done, before, shown, sums)
                before = shown

    def _point(self, number: int, left_out: dict[tuple[object, ...], int]) -> None:
        one = self._asked[number - 1]
        sent, missing = one.recorded, 0 if one.shown.covered < 0 else left_out.get(one.key)
        if one.at in self._chosen:
            sums = self._sums_of(one.context, self._branch[: one.at])
            estimate, whole = self._sent(self._branch[: one.at], one.shown, sums), sums.tokens(0)
            left_out[one.key] = missing = whole - estimate
            sent = sent or estimate
        if sent and missing is not None:
            entry_id, recorded = self._branch[one.at].id, one.recorded > 0
            self.points.append(Point(entry_id, number, one.user_turn, sent, sent + missing, recorded))

    def _advance(self, at: int, done: int, before: View, shown: View, sums: _Sums) -> None:
        turns = [index for index in range(shown.covered + 1) if is_user(self._branch[index])]
        inside = [n for n, one in enumerate(self._asked, 1) if before.first <= one.at <= shown.covered]
        prefix, state = self._branch[: at + 1], shown.state or TakeoverState()
        self.advances.append(
            Advance(
                self._branch[at].id,
                done,
                (min(len(turns), 1 + sum(index < before.first for index in turns)), len(turns)),
                (inside[0], inside[-1]) if inside else (0, 0),
                self._sent(prefix, before, sums),
                self._sent(prefix, shown, sums),
                state.overview,
                state.archive_id,
            )
        )

    def _sent(self, prefix: tuple[Entry, ...], shown: View, sums: _Sums) -> int:
        """Estimate the messages that takeover makes of the context that `sums` has."""
        boundary = boundary_of(prefix, shown, self._budget)
        if boundary is None:
            return sums.tokens(0)
        overview, *kept = project(sums.messages, boundary)
        return message_tokens(overview) + sums.tokens(len(sums.messages) - len(kept))

    def _sums_of(self, context: tuple[object, ...], prefix: tuple[Entry, ...]) -> _Sums:
        """Give the sums of a context; those of other models go on being used until it changes at its beginning."""
        if self._sums and next(iter(self._sums))[:2] != context[:2]:
            self._sums.clear()
        sums = self._sums.setdefault(context, _Sums(context, self._blocks))
        sums.read(self._contexts.context(prefix))
        return sums


class _Sums:
    """Adds up the tokens of a context that only grows, user turn by user turn: a turn has all results of its calls."""

    def __init__(self, context: tuple[object, ...], blocks: dict[str, Pinned]) -> None:
        self.context = context
        self.messages: tuple[Message, ...] = ()
        self._blocks = blocks
        provider, name, api = map(str, context[-3:])
        self._model = Model(provider, name, api, "", "", {}, 0, 0, False, True, Price(), {})
        self._starts: list[int] = []
        self._before: list[int] = []

    def read(self, messages: tuple[Message, ...]) -> None:
        """Take the context as it is now."""
        known, self.messages = len(self.messages), messages
        for at in range(known, len(messages)):
            message = messages[at]
            if isinstance(message, UserMessage) and message.kind == "user":
                start, before = (self._starts[-1], self._before[-1]) if self._starts else (0, 0)
                self._starts.append(at)
                self._before.append(before + self._count(start, at))

    def tokens(self, start: int) -> int:
        """Estimate the messages from index `start` on."""
        end = len(self.messages)
        turn = bisect_left(self._starts, start)
        if turn == len(self._starts):
            return self._count(start, end)
        whole_turns = self._before[-1] - self._before[turn]
        return self._count(start, self._starts[turn]) + whole_turns + self._count(self._starts[-1], end)

    def _count(self, start: int, end: int) -> int:
        """Estimate messages as they are sent."""
        messages = with_blocks(self.messages[start:end], self._blocks)
        return sum(map(message_tokens, repair(messages, self._model)))


def _is_state(entry: Entry) -> bool:
    return entry.type == "custom" and entry.raw.get("customType") == STATE


def _model(answer: AssistantMessage | None) -> tuple[str, str, str]:
    """Provider, name and interface of the model that answered: what decides about thoughts in a request."""
    return (answer.provider, answer.model, answer.api) if answer is not None else ("", "", "")
