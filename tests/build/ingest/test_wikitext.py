"""Cleaning: what is read stays, what is markup goes, and nothing malformed raises or swallows the article."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mwparserfromhell")

from ssp_env.build.ingest.wikitext import clean_page, link_title, redirect_target  # noqa: E402

RESIDUE = re.compile(r"\{\{|\}\}|\[\[|\]\]|\{\||'''|</?ref|<br|thumb\||Category:|__[A-Z]+__|&nbsp;|https?://")


def text_of(wikitext: str) -> str:
    return "\n".join(section.text for section in clean_page(wikitext).sections)


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("'''Bold''' and ''italic''.", "Bold and italic."),
        ("A [[Page|label]] and [[other page]]s.", "A label and other pages."),
        ("A [[Mercury (planet)|]] trick.", "A Mercury trick."),
        ("See [[:Category:Physics]].", "See Category:Physics."),
        ("Text.[[Category:Physics|*]]\n[[fr:Texte]]", "Text."),
        ("[[File:A.jpg|thumb|A caption with a [[link]] and {{nowrap|x y}}.]]Text.", "Text."),
        ("[[Image:A.jpg|thumb|left\n|A caption\nover lines]]\nText.", "Text."),
        (
            'Text.<ref name="a">{{cite web|url=http://x.org|title=[[T]]}}</ref> More.<ref name="a" /> End.',
            "Text. More. End.",
        ),
        ("A<!-- hidden\n [[x]] -->B", "AB"),
        ("A<!-- never closed", "A"),
        ('Before.\n{| class="wikitable"\n|-\n! H || I\n|-\n| a || {|\n| b\n|}\n|}\nAfter.', "Before.\nAfter."),
        ("{{Infobox person\n| name = A\n| born = {{birth date|1900|1|2}}\n}}\n'''A''' was born.", "A was born."),
        ("{{Main|Other}}\nText {{citation needed|date=May 2016}}.", "Text."),
        ("It is {{convert|10|km|mi}} long.", "It is 10 km long."),
        ("From {{convert|2|to|3|ft|m|abbr=on}} deep.", "From 2 to 3 ft deep."),
        ("Called {{lang|fr|liberté}} ({{lang-de|Freiheit}}).", "Called liberté (Freiheit)."),
        ("Named ({{IPA-en|x}}; {{lang-el|Ἑλλάς}}) so.", "Named (Ἑλλάς) so."),
        ("Named ({{IPA-en|x}}) so.", "Named so."),
        ("{{quote|First line.\n\nSecond line.|Author}}", "“First line.\nSecond line.”"),
        ("H<sub>2</sub>O and x<sup>2</sup>", "H2O and x2"),
        ("The formula <math>a < b</math> holds.", "The formula holds."),
        ("<nowiki>[[not a link]]</nowiki> stays", "[[not a link]] stays"),
        ("A [http://x.org/a_b label] and [http://x.org] and http://x.org/c.", "A label and and."),
        ("* one\n* two\n# three\n: four", "one\ntwo\nthree\nfour"),
        ("a line\nwrapped in the source\n\nnext paragraph", "a line wrapped in the source\nnext paragraph"),
        ("one<br />two", "one\ntwo"),
        ("5&nbsp;km &ndash; &lt;b&gt; &amp;c", "5 km – <b> &c"),
        ("__NOTOC__Text", "Text"),
        ("{{unclosed|x and text", "x and text"),
        ("text [[unclosed and text", "text unclosed and text"),
        ("{| \n| never closed\n== H ==\nText.", "\nText."),
        ("{{a|{{b|{{c}}}}", ""),
        ("}} ]] |} text", "text"),
    ],
)
def test_readable_text_stays_and_markup_goes(wikitext: str, expected: str) -> None:
    assert text_of(wikitext) == expected


def test_headings_links_and_kinds_are_data() -> None:
    page = clean_page(
        "Lead [[Alpha]], [[alpha]], [[Beta gamma#Part|b]].\n== History ==\nIt [[delta|d]].\n"
        "=== ''Early'' times ===\nx y\n== See also ==\n* [[Epsilon]]\n== References ==\n{{reflist}}\n"
        "=== Notes on them ===\nsome words\n== After ==\nz z"
    )
    assert [(s.heading, s.level, s.text) for s in page.sections] == [
        ("", 1, "Lead Alpha, alpha, b."),
        ("History", 2, "It d."),
        ("Early times", 3, "x y"),
        ("After", 2, "z z"),
    ]
    assert list(page.links) == ["Alpha", "Beta gamma", "Delta", "Epsilon"]
    assert page.removed["source sections"] == 3
    assert not page.is_disambiguation
    assert clean_page("'''A''' may be:\n* [[B]]\n{{disambiguation|geo}}").is_disambiguation
    assert clean_page("x\n{{hndis|A}}").is_disambiguation


@pytest.mark.parametrize(
    ("wikitext", "target"),
    [
        ("#REDIRECT [[Computer accessibility]]", "Computer accessibility"),
        ("#redirect: [[a_b#c]] {{R}}", "A b"),
        ("Text #REDIRECT [[A]]", None),
        ("#REDIRECT A", None),
    ],
)
def test_redirects_are_told_from_text(wikitext: str, target: str | None) -> None:
    assert redirect_target(wikitext) == target


def test_link_titles_are_page_titles() -> None:
    assert link_title(" new_York#History ") == "New York"
    assert link_title("éclair") == "Éclair"


PIECES = [
    "{{",
    "}}",
    "[[",
    "]]",
    "{|",
    "|}",
    "|",
    "\n",
    "== a ==",
    "<ref>",
    "</ref>",
    "<!--",
    "-->",
    "File:",
    "word ",
    "''",
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_markup_soup_is_cleaned_without_an_exception(soup: str) -> None:
    page = clean_page(soup)
    assert page.sections[0].level == 1
    assert not re.search(r"\{\{|\}\}|\[\[|\]\]|\{\|", "".join(section.text for section in page.sections))


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_an_article_after_a_heading_survives_what_is_unclosed_before_it(soup: str) -> None:
    if "<!--" in soup or "<ref>" in soup or "{{" in soup or "[[" in soup:
        return
    assert "the article goes on" in text_of(f"{soup}\n\n== Section ==\nthe article goes on.\n")


def test_deeply_nested_templates_do_not_exhaust_the_stack() -> None:
    assert text_of("a " + "{{x|" * 5000 + "}}" * 5000 + " b") == "a b"
    assert "b" in text_of("a " + "{{nowrap|" * 300 + "x" + "}}" * 300 + " b")


@pytest.mark.parametrize(
    "piece", ["<ref>", "<math>", "<nowiki>", "{|\n", "[http://x ", "{{x|", "{{lang|fr|", "[[a|", "{{x}}"]
)
def test_hostile_input_takes_linear_time(piece: str) -> None:
    before_s = time.process_time()
    text_of(piece * 20_000)
    assert time.process_time() - before_s < 5  # a quadratic scan takes minutes
