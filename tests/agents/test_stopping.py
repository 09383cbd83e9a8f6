from __future__ import annotations

import pytest

from ssp_agents.stopping import cut_at_stop, missing_stop

STOP = ("</search>", "</answer>")


@pytest.mark.parametrize(
    ("text", "kept", "stopped"),
    [
        ("no tag", "no tag", False),
        ("<search>a</search> and more", "<search>a</search>", True),
        ("<answer>x</answer><search>y</search>", "<answer>x</answer>", True),
        ("</search>", "</search>", True),
        ("", "", False),
    ],
)
def test_text_is_kept_up_to_and_with_the_first_stop_string(text: str, kept: str, stopped: bool) -> None:
    assert cut_at_stop(text, STOP) == (kept, stopped)


def test_an_empty_stop_string_stops_nothing() -> None:
    assert cut_at_stop("abc", ("",)) == ("abc", False)


@pytest.mark.parametrize(
    ("text", "closing"),
    [
        ("<search>who", "</search>"),
        ("<answer>42", "</answer>"),
        ("<search>a <answer>b", "</answer>"),
        ("<answer>a <search>b", "</search>"),
        ("<think>hm", ""),
        ("nothing", ""),
    ],
)
def test_the_closing_tag_of_the_tag_opened_last_is_missing(text: str, closing: str) -> None:
    assert missing_stop(text, STOP) == closing


def test_stop_strings_that_are_no_tags_are_never_put_back() -> None:
    assert missing_stop("<search>a", ("\n", "###")) == ""
