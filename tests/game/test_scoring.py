"""From ended episodes to rewards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ssp_env.game.rules import GameRules
from ssp_env.game.scoring import pay_proposer, score_solves, success_rate
from ssp_env.types import Answer, Completion, Conversation, Final, Task, Trajectory, Turn, Validation, Verdict
from tests.fakes import BrokenJudge, tiny_game

TASK = Task("t", "Which lake?", ("Lake Tarn",))


def solve(response: str = "Lake Tarn", status="finished", error: str = "") -> Trajectory:
    turns = (Turn(Completion(response), Final(response)),) if status == "finished" else ()
    return Trajectory("solver", TASK, Conversation((), turns), status, error=error)


def test_each_judge_is_asked_once_and_order_is_kept() -> None:
    class Counting(BrokenJudge):
        calls = 0

        def judge(self, cases):
            self.calls += 1
            return [Verdict("correct" if c.response == "a" else "wrong", "count") for c in cases]

    judge = Counting()
    one, two = tiny_game(judge=judge), tiny_game()
    scored = score_solves([(one, solve("a")), (two, solve()), (one, solve("b")), (two, solve("x"))])
    assert [(t.reward, v.method) for t, v in scored] == [(1.0, "count"), (1.0, "exact"), (0.0, "count"), (0.0, "exact")]
    assert judge.calls == 1


@pytest.mark.parametrize(
    ("trajectory", "judge", "reward", "verdict", "error"),
    [
        (solve(""), None, 0.0, Verdict("wrong", "empty"), ""),
        (solve(status="truncated"), None, 0.0, Verdict("wrong", "truncated"), ""),
        (solve(status="failed", error="down"), None, None, Verdict("error", "failed", "down"), "down"),
        (solve(), BrokenJudge(), None, Verdict("error", "model", "the judge is down"), "judge: the judge is down"),
    ],
)
def test_what_is_not_simply_judged(trajectory, judge, reward, verdict, error) -> None:
    ((scored, found),) = score_solves([(tiny_game(judge=judge), trajectory)])
    assert (scored.reward, found, scored.error) == (reward, verdict, error)


def test_only_solves_are_scored() -> None:
    with pytest.raises(TypeError, match="expected a solver's trajectory"):
        score_solves([(tiny_game(), replace(solve(), item=Answer("s", "a"), role="proposer"))])


@pytest.mark.parametrize(
    ("rewards", "rate"),
    [((1.0, 0.0), 0.5), ((0.25, 0.0, 0.0, 0.0), 0.25), ((None, 1.0), 1.0), ((None, None), None), ((), None)],
)
def test_success_rate_is_over_scored_solves_with_positive_reward(rewards, rate) -> None:
    assert success_rate([replace(solve(), reward=reward) for reward in rewards]) == rate


@pytest.mark.parametrize(
    ("reason", "rate", "reward"),
    [
        ("ok", 0.25, 0.75),
        ("ok", None, None),
        ("too_short", 0.25, -0.1),
        ("too_short", None, -0.1),
        ("failed", 0.25, None),
    ],
)
def test_proposers_pay(reason, rate, reward) -> None:
    assert pay_proposer(GameRules(invalid_reward=-0.1), Validation(reason), rate) == reward
