"""Parsing of completions and rendering of results."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssp_env.tags import (
    RESERVED_TAGS,
    closing_tags,
    explain_invalid,
    first_block,
    information,
    neutralise,
    parse_action,
    render_results,
    strip_tags,
)
from ssp_env.types import Action, Final, Invalid, Passage, SearchResult, ToolCall


def parse(text: str, *, tools: tuple[str, ...] = ("search",), final: str = "answer", max_chars: int = 1000) -> Action:
    return parse_action(text, tools=tools, final=final, max_chars=max_chars)[0]


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<search>lake</search>", ToolCall("search", "lake")),
        ("<think>hm</think> <search>\n lake \n</search> and so on", ToolCall("search", "lake")),
        ("<answer>Lake Tarn</answer>", Final("Lake Tarn")),
        ("<answer></answer>", Final("")),
        ("<answer>one</answer><answer>two</answer>", Final("one")),
        ("<answer>one</answer><search>two</search>", Final("one")),
        ("<search>two</search><answer>one</answer>", ToolCall("search", "two")),
        ("<search>a <search>b</search>", ToolCall("search", "b")),
        ("<search>a <answer>b</answer></search>", Final("b")),
        ("</answer> <answer>b</answer>", Final("b")),
        ("<information>Doc 1</information><answer>b</answer>", Final("b")),
        ("<search>a < b & c > d</search>", ToolCall("search", "a < b & c > d")),
        ("<search>  </search>", Invalid("empty_argument")),
        ("<search>lake", Invalid("unclosed")),
        ("<answer>lake</search>", Invalid("unclosed")),
        ("lake", Invalid("no_action")),
        ("", Invalid("no_action")),
        ("<think>lake</think>", Invalid("no_action")),
        ("<information>lake</information>", Invalid("no_action")),
        ("<question>lake?</question>", Invalid("not_allowed")),
        ("<browse>lake</browse>", Invalid("not_allowed")),
        ("<ANSWER>x</ANSWER>", Invalid("no_action")),
        ("< answer>x</ answer>", Invalid("no_action")),
        ("x" * 1001, Invalid("too_long")),
    ],
)
def test_first_completed_block_is_the_action(text: str, action: Action) -> None:
    assert parse(text) == action


def test_action_ends_where_a_sampler_would_stop() -> None:
    text = "<think>a</think><search>lake</search> tail"
    _, end = parse_action(text, tools=("search",), final="answer", max_chars=100)
    assert text[:end].endswith("</search>")
    assert closing_tags(("search",), "answer") == ("</search>", "</answer>")


def test_a_role_without_tools_may_not_search() -> None:
    assert parse("<search>lake</search>", tools=()) == Invalid("not_allowed")


@given(st.text(), st.sampled_from([f"<{s}{t}>" for t in RESERVED_TAGS for s in ("", "/")]), st.text())
def test_any_text_parses_to_an_action(before: str, tag: str, after: str) -> None:
    action, end = parse_action(before + tag + after, tools=("search",), final="answer", max_chars=10_000)
    assert isinstance(action, ToolCall | Final | Invalid) and 0 <= end <= len(before + tag + after)


@pytest.mark.parametrize(
    "text",
    [
        "<answer>x</answer>",
        "</ information >",
        "<Search >",
        "<|im_start|>",
        "<|im_end|>",
        "</s>",
        "<answer attr='1'>",
        "<start_of_turn>",
        "<<SYS>>",
        "<</SYS>>",
        "<\uff5cUser\uff5c>",
        "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
    ],
)
def test_tags_and_chat_markers_are_neutralised(text: str) -> None:
    assert "<" not in neutralise(text) and ">" not in neutralise(text)


@pytest.mark.parametrize("tag", ["INST", "/INST", "SYSTEM_PROMPT", "TOOL_RESULTS"])
def test_chat_markers_in_square_brackets_are_neutralised(tag: str) -> None:
    assert neutralise(f"[1] [{tag}] a[0]") == f"[1] ‹{tag}› a[0]"
    assert strip_tags(f"Which [{tag}] lake?") == "Which lake?"
    assert neutralise(f"<answer [{tag}]>") == f"‹answer [{tag}]›"


@pytest.mark.parametrize("text", ["a < b > c", "<<x>>", "[instance]", "<b>bold</b>", "x <- y", "<answering>", "2 <3"])
def test_other_angle_brackets_stay(text: str) -> None:
    assert neutralise(text) == text


@given(st.lists(st.sampled_from(["<", ">", "/", " ", "answer", "search", "|", "x"]), max_size=30).map("".join))
def test_no_block_survives_neutralising(text: str) -> None:
    assert first_block(neutralise(text), RESERVED_TAGS) is None


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("Which <answer>lake</answer>  is\nit?", "Which lake is it?"),
        ("Pa<answer>ris", "Paris"),
        ("Pa<ans<answer>wer>ris", "Paris"),
        ("<|im_end|>Which?", "Which?"),
        ("a < b", "a < b"),
    ],
)
def test_stray_tags_are_stripped_from_questions(text: str, stripped: str) -> None:
    assert strip_tags(text) == stripped


def test_what_nests_too_deep_is_neutralised() -> None:
    text = "<answer" * 50 + ">" * 50
    assert first_block(strip_tags(text) + "</answer>", ("answer",)) is None


@pytest.mark.parametrize("text", ["<" + " " * 30_000, "<answer" * 4_000, "<search>" * 4_000, "</answer" + "x" * 30_000])
def test_hostile_texts_are_read_in_linear_time(text: str) -> None:
    start = time.perf_counter()
    parse(text, max_chars=100_000)
    neutralise(text)
    strip_tags(text)
    assert time.perf_counter() - start < 1.0


def test_results_are_numbered_neutralised_and_cut_visibly() -> None:
    results = [
        SearchResult(Passage("a", "Ta\nrn", "deep <answer>x</answer>"), 2.0, 0),
        SearchResult(Passage("b", "Elm", "y" * 50), 1.0, 1),
    ]
    assert render_results(results, 24) == (
        "Doc 1 (Title: Ta rn) deep ‹answer›x‹/answer›\n" + "Doc 2 (Title: Elm) " + "y" * 24 + " [...]"
    )
    assert information("x") == "\n<information>\nx\n</information>\n\n"


@pytest.mark.parametrize("reason", ["no_action", "unclosed", "empty_argument", "not_allowed", "too_long"])
def test_invalid_actions_are_explained_with_what_may_be_written(reason) -> None:
    text = explain_invalid(Invalid(reason), tools=("search",), final="answer")
    assert text.startswith("\n<information>\nInvalid: ")
    assert "<search> ... </search> or <answer> ... </answer>" in text
