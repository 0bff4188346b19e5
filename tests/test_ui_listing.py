from collections.abc import Sequence

import pytest

from vikingpi.commands.chooser import Act, Choices, Option
from vikingpi.errors import SessionError
from vikingpi.ui.listing import Listing, matching
from vikingpi.ui.picker_view import PickerView
from vikingpi.ui.theme import UNICODE

NAMES = [
    Option("1", "work three", more="2 apples"),
    Option("2", "the work of 2"),
    Option("3", "work 2", more="pears"),
    Option("4", "other"),
]


def keys(options: Sequence[Option]) -> str:
    return "".join(option.key for option in options)


def test_a_search_finds_every_word_and_puts_what_the_label_holds_first() -> None:
    assert keys(matching(NAMES, "")) == "1234"
    assert keys(matching(NAMES, "work 2")) == "321"
    assert keys(matching(NAMES, "work 2", ordered=True)) == "123"
    assert keys(matching(NAMES, "PEARS")) == "3"


def test_letters_in_order_match_where_no_word_does() -> None:
    assert keys(matching(NAMES, "wrkthr")) == "1"
    assert keys(matching(NAMES, "zzz")) == ""


def listing(options: list[Option], *acts: Act, at: str = "", ordered: bool = False) -> Listing:
    return Listing(Choices(lambda: "list", lambda: options, acts, at, ordered=ordered))


def test_the_selection_moves_within_the_list_and_follows_the_search() -> None:
    one = listing(list(NAMES), at="2")
    assert one.at == 1
    one.move(-5)
    assert one.at == 0
    one.move(99)
    assert one.selected == NAMES[3]
    one.write("work 2")
    assert one.selected == NAMES[2]
    one.write("")
    assert one.selected == NAMES[2]


def test_an_ordered_list_keeps_the_selection_where_it_still_matches() -> None:
    one = listing(list(NAMES), at="2", ordered=True)
    one.write("work")
    assert one.selected == NAMES[1]
    one.write("work 2 apples")
    assert one.selected == NAMES[0]


def test_deletion_asks_first_and_selects_the_next() -> None:
    options = list(NAMES)

    def delete(key: str, text: str) -> str:
        options[:] = [option for option in options if option.key != key]
        return "deleted"

    act = Act("c-d", "delete", delete, confirms="really?")
    one = listing(options, act, at="2")
    one.begin(act)
    assert (one.stage, keys(one.shown)) == ("confirm", "1234")
    one.write("work")
    assert one.query == ""
    assert one.cancel()
    assert (one.stage, keys(one.shown)) == ("list", "1234")
    one.begin(act)
    one.finish()
    assert (keys(one.shown), one.message) == ("134", "deleted")
    assert one.selected == NAMES[2]


def test_a_new_name_begins_with_the_old_one() -> None:
    given: list[tuple[str, str]] = []

    def rename(key: str, text: str) -> str:
        given.append((key, text))
        return ""

    act = Act("c-r", "rename", rename, asks="name", preset="old {}".format)
    one = listing(list(NAMES), act)
    one.begin(act)
    one.write(one.typed[:-1] + "one")
    assert one.typed == "old one"
    one.finish()
    assert given == [("1", "old one")]


def test_what_an_act_fails_with_is_said_and_the_list_stays() -> None:
    def fail(key: str, text: str) -> str:
        raise SessionError("locked by process 12")

    act = Act("c-d", "delete", fail, confirms="really?")
    one = listing(list(NAMES), act)
    one.begin(act)
    one.finish()
    assert one.message == "locked by process 12"
    assert keys(one.shown) == "1234"


def test_leaving_first_empties_the_search() -> None:
    one = listing(list(NAMES))
    one.write("pears")
    assert one.cancel()
    assert keys(one.shown) == "1234"
    assert not one.cancel()


def done(key: str, text: str) -> str:
    return "done"


def test_an_empty_list_selects_nothing_and_acts_on_nothing() -> None:
    act = Act("c-d", "delete", done, confirms="really?")
    one = listing([], act)
    one.move(1)
    one.begin(act)
    assert (one.selected, one.stage) == (None, "list")


@pytest.mark.parametrize(("shows_end", "seen"), [(True, "line 99"), (False, "line 0")])
def test_a_long_preview_shows_its_beginning_or_its_end(shows_end: bool, seen: str) -> None:
    text = "\n".join(f"line {n}" for n in range(100))
    choices = Choices(lambda: "list", lambda: [Option("1", "one", preview=lambda: text)], shows_end=shows_end)
    screen = "".join(part[1] for part in PickerView(Listing(choices), lambda: (24, 80), UNICODE).fragments())
    assert seen in screen and "line 50" not in screen
