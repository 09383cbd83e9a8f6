"""Asking each part once."""

from __future__ import annotations

import pytest

from ssp_env.game.batching import in_groups, judge_all
from ssp_env.types import JudgeCase, Verdict


def test_each_key_is_asked_once_in_order_of_first_sight_and_results_keep_their_places() -> None:
    asked: list[list[str]] = []

    def ask(words: list[str]) -> list[str]:
        asked.append(words)
        return [word.upper() for word in words]

    words = ["bee", "ant", "bat", "ape", "cat"]
    assert in_groups(words, lambda word: word[0], ask) == ["BEE", "ANT", "BAT", "APE", "CAT"]
    assert asked == [["bee", "bat"], ["ant", "ape"], ["cat"]]


def test_nothing_is_asked_about_nothing() -> None:
    assert in_groups([], len, lambda items: pytest.fail("asked")) == []


def test_a_part_that_answers_too_little_is_a_bug() -> None:
    with pytest.raises(ValueError, match="shorter"):
        in_groups(["a", "b", "a"], str, lambda items: items[:1])


def test_judges_that_are_equal_are_still_asked_apart() -> None:
    class Judge:
        def __init__(self) -> None:
            self.calls = 0

        def __eq__(self, other) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

        def judge(self, cases):
            self.calls += 1
            return [Verdict("correct", case.response) for case in cases]

    one, two = Judge(), Judge()
    cases = [JudgeCase(question="q", answers=("a",), response=str(i)) for i in range(3)]
    verdicts = judge_all([(one, cases[0]), (two, cases[1]), (one, cases[2])])
    assert [verdict.method for verdict in verdicts] == ["0", "1", "2"]
    assert (one.calls, two.calls) == (1, 1)
