import hashlib
from base64 import b64encode
from pathlib import Path

import pytest
from export_kit import (
    HOSTILE,
    IDS,
    PIXEL,
    SALT,
    STRUCTURE,
    Page,
    changed,
    every_kind,
    hostile,
    page,
    page_of,
    picture,
    rendered,
    result,
    state,
    tool,
    unmasked,
)
from hypothesis import given
from hypothesis import strategies as st
from session_kit import SAMPLES, answer, entry, session_file, user

from vikingpi.decode import Json
from vikingpi.export.calls import Pictures
from vikingpi.export.ink import Ink, fair_limit
from vikingpi.export.markdown import to_html
from vikingpi.export.markup import tag
from vikingpi.messages import ImagePart
from vikingpi.redact import Redactor


def test_every_kind_of_entry_is_shown(tmp_path: Path) -> None:
    shown = page_of(tmp_path, *every_kind())
    said = """a prompt|a profile|a memory|a thought|an answer with code|$ ls|listed|edit a.py|-1 old|+1 new|write b.py
        |+text|other key=value list=['item']|refused|of no call|it broke|! make|built|exit 2|by an extension|told|kind
        |mine|switched off|on again|(archive_001)|The overview|the next prompt|tried it|what was
        |1,234 tokens before|a label|the name
        |Entry of the type odd|on another branch|there|the end|be good|lab/m1|Thinking level: high
        |6 tokens for something"""
    assert [text for text in said.split("|") if text.strip() not in shown.text] == []
    assert shown.images == [f"data:image/png;base64,{PIXEL}"]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_sessions_that_pi_wrote_become_pages(sample: Path) -> None:
    shown = page(sample)
    assert "Transcript" in shown.text
    assert "User turn 1" in shown.text


def test_hostile_text_in_every_field_is_text(tmp_path: Path) -> None:
    shown = page_of(tmp_path, *hostile())
    assert "<script>alert(1)</script>" in shown.text
    assert not {"script", "iframe"} & set(shown.tags)
    assert not any("\x1b" in part or "\u202e" in part or "\x00" in part for part in (shown.text, shown.html))
    assert "<U+202E>" in shown.text


def test_hostile_names_ids_and_types_are_text(tmp_path: Path) -> None:
    entries = every_kind()
    ids = [changed(one, lambda key, text: f"{text}{HOSTILE}" if key in IDS else text) for one in entries]
    page_of(tmp_path, *ids)
    kinds = [changed(one, lambda key, text: f"{text}{HOSTILE}" if key == "customType" else text) for one in entries]
    page_of(tmp_path, *kinds)
    odd = [changed(one, lambda key, text: HOSTILE if key in ("role", "stopReason") else text) for one in entries]
    page_of(tmp_path, *odd)


def test_values_of_wrong_types_cost_nothing_but_themselves(tmp_path: Path) -> None:
    for wrong in (None, 7, -1.5, True, [], {}, ["x", {"y": [None]}], {"type": "text"}):
        entries = [{**one, **{key: wrong for key in one if key not in STRUCTURE}} for one in every_kind()]
        page_of(tmp_path, *entries, user("40", "33", "still here"))
        messages = [
            {**one, "message": {**one["message"], **{key: wrong for key in one["message"] if key != "role"}}}
            for one in every_kind()
            if one["type"] == "message"
        ]
        assert "still here" in page_of(tmp_path, *messages, user("40", None, "still here")).text


def test_secrets_in_every_field_are_masked(tmp_path: Path) -> None:
    planted: list[str] = []

    def plant(key: str, text: str) -> str:
        if key in STRUCTURE | IDS or key in ("data", "mimeType"):
            return text
        planted.append(f"sk-ant-api03-AbCdEf123456-789_xyz{len(planted):04}")
        return f"{text} {planted[-1]}"

    path = session_file(tmp_path, *(changed(one, plant) for one in every_kind()))
    done = rendered(path)
    assert len(planted) > 40
    assert [secret for secret in planted if secret in done.html or secret[-12:] in done.html] == []
    assert "[masked:" in done.html
    assert done.masked >= 30
    assert f"{done.masked:,} masked" in Page(done.html).text


def test_the_same_secret_has_the_mask_that_it_has_elsewhere(tmp_path: Path) -> None:
    secret = "sk-ant-api03-AbCdEf123456-789_xyzABCD"
    redactor = Redactor((), SALT)
    done = rendered(session_file(tmp_path, user("01", None, f"use {secret}"), answer("02", "01", secret)), redactor)
    assert done.html.count(redactor.mask(secret)[0]) >= 2


@pytest.mark.parametrize(
    "text",
    [
        "AKIA**Q3EGRN4V**XSAMPL2T",
        "AKIAQ3EGRN4V\\XSAMPL2T AKIAQ3EG&#82;N4VXSAMPL2T",
        "> ```\n> AKIAQ3EGRN4VXSAMPL2T\n> ```",
        "[here](https://x.test/?q=AKIAQ3EG%52N4VXSAMPL2T&k=AKIAQ3EGRN4VXSAMPL2T)",
        "AKIAQ3EG\x1b(BRN4VXSAMPL2T",
        "| a |\n|---|\n| AKIA*Q3EGRN4VXSAM*PL2T |",
    ],
)
def test_markdown_does_not_bring_a_secret_back(tmp_path: Path, text: str) -> None:
    shown = page_of(tmp_path, user("01", None), answer("02", "01", text))
    assert "AKIAQ3EGRN4VXSAMPL2T" not in shown.text
    assert not any("Q3EG" in link for link in shown.links)


def test_what_is_not_shown_does_not_hide_a_secret_in_a_heading(tmp_path: Path) -> None:
    broken = "AKIAQ3EG\x1b(BRN4VXSAMPL2T"
    calls = [tool("bash", "c", {"command": broken}), tool(broken, "d", {"path": broken}), tool("x", "e", {"y": broken})]
    named = entry("session_info", "03", "02", name=broken)
    shown = page_of(tmp_path, user("01", None, broken), answer("02", "01", content=calls), named)
    assert "AKIAQ3EGRN4VXSAMPL2T" not in shown.text


def test_a_secret_at_the_end_of_a_shortened_text_is_masked(tmp_path: Path) -> None:
    secret = "AKIAQ3EGRN4VXSAMPL2T"
    for before in range(59_975, 60_001, 5):
        shown = page_of(tmp_path, user("01", None, f"{'x ' * (before // 2)} {secret} {'y ' * 30_000}"))
        assert "AKIAQ3" not in shown.text
        assert "more characters are in the session file" in shown.text


def test_without_masks_the_page_says_so(tmp_path: Path) -> None:
    shown = unmasked(session_file(tmp_path, user("01", None, "AKIAQ3EGRN4VXSAMPL2T")))
    assert "AKIAQ3EGRN4VXSAMPL2T" in shown.text
    assert "captureRedact is false" in shown.text


def test_nothing_may_be_fetched_or_run(tmp_path: Path) -> None:
    shown = page_of(tmp_path, *every_kind())
    digest = b64encode(hashlib.sha256(shown.style.encode()).digest()).decode()
    assert [rule.strip() for rule in shown.policy.split(";")] == [
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert not any(word in shown.style for word in ("url(", "@import", "http", "expression"))
    assert not any(f" {name}=" in shown.html for name in ("style", "onclick", "onload", "srcset", "action"))


@pytest.mark.parametrize(
    ("address", "works"),
    [
        ("https://example.test/a?b=c#d", True),
        ("http://example.test", True),
        ("mailto:a@example.test", True),
        ("javascript:alert(1)", False),
        ("JaVaScRiPt:alert(1)", False),
        ("data:text/html,x", False),
        ("file:///etc/passwd", False),
        ("vbscript:x", False),
        ("//evil.test", False),
        ("/etc/passwd", False),
        ("#e1", False),
        ("viking://user/x", False),
    ],
)
def test_links_of_models_lead_to_the_web_or_nowhere(tmp_path: Path, address: str, works: bool) -> None:
    shown = page_of(tmp_path, user("01", None), answer("02", "01", f"[a link]({address}) and ![an image]({address})"))
    assert "a link" in shown.text
    assert shown.images == []
    outside = [link for link in shown.links if not link.startswith("#")]
    assert outside == ([address] * 2 if works else [])


@pytest.mark.parametrize(
    ("data", "kind", "shown"),
    [
        (PIXEL, "image/png", True),
        (PIXEL, "text/html", True),
        (b64encode(b"<svg onload=alert(1)>").decode(), "image/svg+xml", False),
        (b64encode(b"<svg onload=alert(1)>").decode(), "image/png", False),
        ('"><script>alert(1)</script>', "image/png", False),
        ("not base64!", "image/png", False),
        ("", "image/png", False),
    ],
)
def test_only_images_are_shown_as_images(tmp_path: Path, data: str, kind: str, shown: bool) -> None:
    prompt = entry("message", "01", None, message={"role": "user", "content": [picture(data, kind)], "timestamp": 1})
    done = page_of(tmp_path, prompt)
    assert [image.partition(";")[0] for image in done.images] == (["data:image/png"] if shown else [])
    assert ("not an image that can be shown" in done.text) is not shown


def test_images_are_shown_until_they_are_too_much() -> None:
    pictures, image = Pictures(most=len(PIXEL) + 10), ImagePart(PIXEL, "image/png")
    shown = [Page(pictures.show(image, Ink(None))) for _ in range(3)]
    assert [len(page.images) for page in shown] == [1, 0, 0]
    assert "left out of this page" in shown[1].text
    assert pictures.left_out == 2


def test_many_long_texts_are_shortened_alike() -> None:
    assert fair_limit([100, 50_000]) == 60_000
    assert fair_limit([30_000] * 1000) == 8000
    assert fair_limit([30_000] * 1000, most=10) == 150


@pytest.mark.parametrize(
    ("name", "given"),
    [("script", {}), ("p", {"onclick": "x"}), ("a", {"href": "javascript:x"}), ("img", {"src": "https://evil.test/x"})],
)
def test_an_element_an_attribute_or_an_address_that_no_page_may_have_is_refused(name: str, given: Json) -> None:
    with pytest.raises(ValueError, match=r"no page|no element|may not lead"):
        tag(name, **given)


def test_markdown_is_rendered(tmp_path: Path) -> None:
    text = "# Title\n\n1. one\n2. two\n\n> quote\n\n| a | b |\n|--:|:-:|\n| 1 | ~~2~~ |\n\n"
    text += "```py\nx < 1\n```\n\n---\n**bold**<br>"
    shown = page_of(tmp_path, user("01", None), answer("02", "01", text))
    assert {"h4", "ol", "blockquote", "table", "del", "pre", "hr", "strong"} <= set(shown.tags)
    assert '<td class="right">1</td>' in shown.html
    assert "x < 1" in shown.text
    assert "bold<br>" in shown.text


@given(st.text(alphabet="<>&\"'`*_[]()!#|-~\\ \nab:/0.+=\t\r", max_size=120))
def test_any_markdown_becomes_elements_that_a_page_may_have(text: str) -> None:
    shown = Page(to_html(text, Ink(None)))
    assert not {"img", "input", "label", "meta", "style", "title"} & set(shown.tags)


@pytest.mark.parametrize(
    "deep",
    [
        "> " * 200 + "x",
        "- " * 200 + "x",
        "1. " * 99 + "x",
        "> - " * 11 + "x",
        "\n".join(" " * 2 * n + "- x" for n in range(150)),
        "\n".join(" " * 2 * n + "- x" for n in range(30)),
    ],
)
def test_deep_markdown_loses_nothing(deep: str) -> None:
    shown = Page(to_html(f"before\n\n{deep}\n\nafter", Ink(None)))
    assert shown.text.count("x") == deep.count("x")
    assert "after" in shown.text


def test_twisted_markdown_stays_text_and_costs_no_time(tmp_path: Path) -> None:
    twisted = ["[" * 30_000, "*a **a " * 5000, "> " * 5000, "`" * 9000, "| a " * 3000, "&" * 9000, "- " * 9000]
    entries = [answer(f"{n:02}", f"{n - 1:02}" if n else None, text) for n, text in enumerate(twisted)]
    shown = page_of(tmp_path, *entries)
    assert "[" * 30_000 in shown.text


def test_a_call_stands_with_its_own_result_where_ids_repeat(tmp_path: Path) -> None:
    shown = page_of(
        tmp_path,
        user("01", None),
        answer("02", "01", content=[tool("bash", "c", {"command": "first"})]),
        result("03", "02", "c", "result one"),
        answer("04", "03", content=[tool("bash", "c", {"command": "second"})]),
        result("05", "04", "c", "result two"),
        answer("06", "05", content=[tool("bash", "c", {"command": "third"})]),
    )
    order = [
        shown.text.index(text) for text in ("$ first", "result one", "$ second", "result two", "$ third", "no result")
    ]
    assert order == sorted(order)
    assert "whose call is not here" not in shown.text


def test_a_state_that_moves_nothing_is_not_shown(tmp_path: Path) -> None:
    shown = page_of(
        tmp_path,
        user("01", None, "one"),
        answer("02", "01"),
        state("03", "02", "02"),
        state("04", "03", "02"),
        user("05", "04", "two"),
        answer("06", "05"),
    )
    assert shown.text.count("now part of the overview") == 1
    assert shown.text.index("now part of the overview") < shown.text.index("From here on the next request")


def test_branches_can_be_reached_and_lead_back(tmp_path: Path) -> None:
    shown = page_of(
        tmp_path,
        user("01", None, "root"),
        answer("02", "01", "at the root"),
        user("03", "02", "left"),
        answer("04", "03", "on the left"),
        user("05", "04", "left left"),
        user("06", "04", "left right"),
        user("07", None, "another root"),
        user("08", "02", "right"),
        answer("09", "08", "on the right"),
    )
    assert shown.text.count("Another branch goes off here") == 3
    assert {"#b1", "#b2", "#b3", "#f1", "#f2", "#f3"} <= set(shown.links)
    assert shown.text.index("on the right") < shown.text.index("Other branches") < shown.text.index("on the left")


def test_a_branch_goes_off_where_its_parent_stands_also_where_that_is_not_shown(tmp_path: Path) -> None:
    shown = page_of(
        tmp_path,
        user("01", None, "root"),
        answer("02", "01", "the answer"),
        state("03", "02", "02"),
        state("04", "03", "02"),
        user("05", "04", "left"),
        user("06", "04", "right"),
    )
    order = [shown.text.rindex(text) for text in ("the answer", "now part of the overview", "goes off here", "right")]
    assert order == sorted(order)


def test_of_a_very_long_session_the_end_is_shown(tmp_path: Path) -> None:
    entries = [user("0", None, "the first")]
    entries += [entry("custom", str(n), str(n - 1), customType="x", data={}) for n in range(1, 30)]
    entries += [user("side", "0", "a side"), user("end", "29", "the last")]
    shown = unmasked(session_file(tmp_path, *entries), most_entries=10)
    assert "22 older entries are left out" in shown.text
    assert "User turn 2the last" in shown.text.replace("\n", "")
    assert "User turn 1" not in shown.text
    assert "a side" not in shown.text


def test_a_session_that_hardly_exists_becomes_a_page(tmp_path: Path) -> None:
    assert "No request was made" in page_of(tmp_path).text
    assert "only" in page_of(tmp_path, user("01", None, "only")).text
    loop = [user("01", "02", "one"), user("02", "01", "two")]
    assert "two" in page_of(tmp_path, *loop).text


def test_usage_is_that_of_the_file_and_of_the_branch(tmp_path: Path) -> None:
    shown = page_of(
        tmp_path,
        user("01", None),
        answer("02", "01"),
        answer("03", "01", model="m2", usage={"input": 1000, "output": 5, "cost": {"total": 1.5}}),
    )
    assert "lab/m2110000" in shown.text.replace(",", "").replace("\n", "")
    assert "whole file, all branches21,010007$2.2500" in shown.text
    assert "current branch11,000005$1.5000" in shown.text
