from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssp_env.text import join_contents, split_contents, title_key


@given(st.text().filter(lambda title: "\n" not in title), st.text())
def test_contents_give_back_title_and_text(title: str, text: str) -> None:
    assert split_contents(join_contents(title, text)) == (title, text)


def test_line_break_in_a_title_becomes_a_space() -> None:
    assert split_contents(join_contents("a\nb", "text\nmore")) == ("a b", "text\nmore")


def test_contents_of_one_line_are_text() -> None:
    assert split_contents('"only text"') == ("", '"only text"')


def test_title_without_quotes_is_taken_as_it_is() -> None:
    assert split_contents("Oxley\nA town.") == ("Oxley", "A town.")


def test_spellings_of_one_title_share_a_key() -> None:
    assert {title_key(t) for t in ("New_York  City", "new york city", "NEW YORK\u00a0CITY ")} == {"new york city"}
    assert title_key("Stra\u00dfe") == title_key("STRASSE")
