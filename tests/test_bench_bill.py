import asyncio
import json
from pathlib import Path

import pytest
from cache_model import Caches, blocks_of
from long_session import overview_text, summary_text, user_turns
from session_files import KEPT_TURNS, Ending, entry_id, write_session
from token_bill import replay

from vikingpi.decode import Json
from vikingpi.llm.base import Price
from vikingpi.memory.overview_writer import checked
from vikingpi.session.file import open_session
from vikingpi.takeover.state import view
from vikingpi.tokens import estimate


def said(*texts: str) -> list[Json]:
    return [{"role": "user", "content": text * 400} for text in texts]


def marked(*texts: str) -> list[tuple[str, bool]]:
    """Blocks of 1,000 tokens and more; a text that ends in `!` carries a mark."""
    return [(text.rstrip("!") * 5000, text.endswith("!")) for text in texts]


def test_a_longer_prompt_is_served_up_to_the_end_of_the_one_before_in_whole_blocks() -> None:
    caches = Caches()
    first = caches.serve(said("a", "b"), [])
    second = caches.serve(said("a", "b", "c"), [])
    assert (first.prefix, first.extends) == (0, True)
    assert second.extends
    assert second.prefix == first.tokens - first.tokens % 64
    assert second.prefix % 64 == 0 < second.tokens - second.prefix


def test_a_change_in_front_is_a_break_and_a_summary_in_between_is_none() -> None:
    caches = Caches()
    caches.serve(said("a", "b"), [])
    assert caches.serve(said("x", "b"), [], apart=True).prefix == 0
    assert caches.serve(said("a", "b", "c"), []).extends
    broken = caches.serve(said("z", "b", "c"), [])
    assert not broken.extends
    assert broken.prefix == 0


def test_marks_are_read_where_they_were_written_or_up_to_20_blocks_before() -> None:
    caches = Caches()
    first = caches.serve(said("a"), marked("a!", "b", "c!"))
    assert (first.read, first.written) == (0, 3750)
    again = caches.serve(said("a"), marked("a!", "b", "c", "d!"))
    assert (again.read, again.written) == (3750, 1250)
    far = marked("a", "b", "c", "d", *"efghijklmnopqrstuvwxy", "z!")
    assert caches.serve(said("a"), far).read == 0
    assert Caches().serve(said("a"), [("short", True)]).written == 0


def test_blocks_are_compared_without_their_marks() -> None:
    text = {"type": "text", "text": "hello"}
    body: Json = {
        "system": [{**text, "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [text]}],
    }
    (system, on), (user, off) = blocks_of(body)
    assert (on, off) == (True, False)
    assert json.loads(system) == json.loads(user.removeprefix("user")) == text


@pytest.mark.parametrize("ending", ["takeover", "compaction", ""])
def test_a_made_session_is_one_that_the_program_reads(tmp_path: Path, ending: Ending) -> None:
    made = write_session(tmp_path / "sessions", 20, tmp_path, ending)
    log = open_session(made.path, tmp_path / "locks")
    try:
        assert log.notices == ()
        branch = log.branch()
        assert branch[-1].id == entry_id({"takeover": 21, "compaction": 22, "": 20}[ending])
        kept = branch[view(branch).first :] if ending == "takeover" else branch
        users = [entry for entry in kept if entry.raw.get("message", {}).get("role") == "user"]
        assert len(users) == (KEPT_TURNS if ending == "takeover" else len(users))
    finally:
        log.close()
    with made.path.open("a") as file:
        file.write("more\n")
    made.reset()
    assert made.path.stat().st_size == made.size


def test_takeover_breaks_the_prefix_once_for_each_advance_and_sends_less(tmp_path: Path) -> None:
    turns = user_turns(13)
    full = asyncio.run(replay(tmp_path / "full", "full history", turns))
    taken = asyncio.run(replay(tmp_path / "taken", "takeover", turns))
    assert (full.moves, full.breaks) == (0, 0)
    assert taken.moves >= 1
    assert taken.breaks == taken.moves
    assert len(taken.turns) == len(full.turns)
    assert taken.input < full.input
    assert taken.agent_input < taken.input
    price = Price(1.0, 2.0, 0.1, 1.25)
    assert 0 < taken.cost(price, marks=True) < full.cost(price, marks=True) * 2
    assert taken.cost(Price(1.0, 0.0, 1.0, 1.0), marks=False) == pytest.approx(taken.input / 1e6)


def test_what_is_asked_for_an_overview_answers_with_one_that_is_taken() -> None:
    text = overview_text(1)
    assert checked(text, 3000) == text + "\n"
    assert 1200 < estimate(text) < 1800
    assert 700 < estimate(summary_text(1)) < 1100
