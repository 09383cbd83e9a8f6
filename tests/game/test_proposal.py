"""The rule filter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ssp_env.game.proposal import check_proposal, proposed_question, proposed_task
from ssp_env.game.rules import PRESETS, GameRules, rules
from ssp_env.types import (
    Answer,
    Completion,
    Conversation,
    Final,
    Invalid,
    Passage,
    SearchResult,
    Task,
    ToolCall,
    Trajectory,
    Turn,
)

SEED = Answer("s", "Lake Tarn", ("Tarnsee",), n_searches=2)
QUESTION = "Into which lake flows the river that passes the birthplace of Finch?"
FOUND = (SearchResult(Passage("p", "Elm", "text"), 1.0, 0),)


def proposal(question: str | None = QUESTION, queries=("river Elm", "Oxley"), *, found=FOUND, status="finished"):
    turns = [Turn(Completion(""), ToolCall("search", q), found, "shown") for q in queries]
    closing = Invalid("no_action") if question is None else Final(question)
    turns.append(Turn(Completion(""), closing))
    return Trajectory("proposer", SEED, Conversation((), tuple(turns)), status)


@pytest.mark.parametrize(
    ("trajectory", "changes", "reason"),
    [
        (proposal(), {}, "ok"),
        (proposal(status="failed"), {}, "failed"),
        (proposal(status="truncated"), {}, "no_question"),
        (proposal(None), {}, "no_question"),
        (proposal(""), {}, "no_question"),
        (proposal("<answer></answer> </think>"), {}, "no_question"),
        (proposal("\u200b " * 12), {}, "no_question"),
        (proposal("\u3164 " * 12), {}, "no_question"),
        (proposal("? . , ; : - ! ? . , ; :"), {}, "no_question"),
        (proposal("Which lake?"), {}, "too_short"),
        (proposal("Which lake?"), {"min_words": 2}, "ok"),
        (proposal("Which?"), {"min_words": 1}, "too_short"),
        (proposal("word " * 201), {"max_chars": 1000}, "too_long"),
        (proposal(QUESTION + " Is it LAKE TÀRN?"), {}, "answer_leak"),
        (proposal(QUESTION + " Is it the Tarnsee?"), {}, "answer_leak"),
        (proposal(QUESTION + " Is it La\u3164ke Ta\uffa0rn?"), {}, "answer_leak"),
        (proposal(QUESTION + " Is it the Tarnsee?"), {"leak": "substring"}, "ok"),
        (proposal(QUESTION + " Is it lake tarn?"), {"leak": "substring"}, "answer_leak"),
        (proposal(QUESTION + " Is it Lake <answer>Tarn?"), {}, "answer_leak"),
        (proposal(queries=()), {}, "no_evidence"),
        (proposal(found=()), {}, "no_evidence"),
        (proposal(queries=("one",)), {}, "ok"),
        (proposal(queries=("one",)), {"min_searches": 2}, "too_few_searches"),
        (proposal(queries=("one", "one")), {"distinct_queries": True}, "repeated_search"),
        (proposal(queries=("one", " The  ONE.")), {"distinct_queries": True}, "repeated_search"),
        (proposal(queries=("one", "one")), {}, "ok"),
        (proposal(queries=("lake tarn", "b")), {}, "ok"),
        (proposal(queries=("lake tarn", "b")), {"answer_in_query": False}, "answer_in_query"),
        (proposal(queries=("a", "b", "c")), {}, "ok"),
        (proposal(queries=("a", "b", "c")), {"exact_search_count": True}, "wrong_search_count"),
    ],
)
def test_first_reason_counts(trajectory: Trajectory, changes: dict[str, object], reason: str) -> None:
    assert check_proposal(replace(GameRules(), **changes), trajectory) == reason


def test_reasons_come_in_the_order_of_the_released_code() -> None:
    strict = rules("code", min_searches=3, answer_in_query=False, exact_search_count=True)
    bad = ("lake tarn", "lake tarn")
    steps = [
        (proposal(None, ()), "no_question"),
        (proposal("Lake Tarn?", ()), "too_short"),
        (proposal("Lake Tarn " * 150, ()), "too_long"),
        (proposal(QUESTION + " Lake Tarn?", ()), "answer_leak"),
        (proposal(QUESTION, ()), "no_evidence"),
        (proposal(QUESTION, bad), "too_few_searches"),
        (proposal(QUESTION, (*bad, "x")), "repeated_search"),
        (proposal(QUESTION, ("lake tarn", "x", "y")), "answer_in_query"),
        (proposal(QUESTION, ("z", "x", "y")), "wrong_search_count"),
    ]
    assert [check_proposal(strict, trajectory) for trajectory, _ in steps] == [reason for _, reason in steps]


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_a_good_proposal_passes_every_preset(preset: str) -> None:
    assert check_proposal(PRESETS[preset], proposal()) == "ok"


def test_task_has_the_cleaned_question_and_all_answers() -> None:
    trajectory = proposal("Which  <think>lake</think>\nis it?")
    assert proposed_question(trajectory) == "Which lake is it?"
    assert proposed_task(trajectory) == Task("s", "Which lake is it?", ("Lake Tarn", "Tarnsee"))
