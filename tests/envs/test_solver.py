"""A question in, an answer out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ssp_env.envs.base import TextEnv
from ssp_env.envs.solver import SolverScenario
from ssp_env.errors import JudgeError, RetrievalError
from ssp_env.game.rules import GameRules
from ssp_env.types import Verdict
from tests.fakes import BrokenRetriever, tiny_game


def opened(game=None):
    env = TextEnv(SolverScenario(), game or tiny_game())
    env.reset(seed=0)
    return env


def test_a_correct_answer_pays_one():
    env = opened()
    observation, reward, terminated, truncated, info = env.step("<answer>Lake Tarn</answer>")
    assert (observation, reward, terminated, truncated) == ("", 1.0, True, False)
    assert info["verdicts"] == ["correct:exact"]
    assert info["rewards"] == {"solver": [1.0]}


@pytest.mark.parametrize("answer", ["Lake Mere", "", "Lake Tarn or Lake Mere"])
def test_a_wrong_answer_pays_nothing(answer):
    assert opened().step(f"<answer>{answer}</answer>")[1:4] == (0.0, True, False)


def test_a_search_shows_passages_and_pays_nothing():
    observation, reward, terminated, truncated, info = opened().step("<search>Elm lake</search>")
    assert "<information>" in observation and "flows into Lake Tarn" in observation
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert (info["n_searches"], info["searches_left"], info["turns_left"]) == (1, 8, 9)


def test_the_turn_limit_truncates_without_a_verdict():
    env = opened(tiny_game(GameRules(max_turns=2)))
    assert env.step("<search>Elm</search>")[3] is False
    observation, reward, terminated, truncated, info = env.step("<search>Elm</search>")
    assert (observation, reward, terminated, truncated) == ("", 0.0, False, True)
    assert (info["truncation"], info["n_searches"], info["rewards"]) == ("turn_limit", 1, {"solver": [0.0]})
    assert info["verdicts"] == ["wrong:truncated"]


def test_an_invalid_action_ends_only_under_the_rule():
    assert opened().step("hello")[2:4] == (False, False)
    assert opened(tiny_game(GameRules(end_on_invalid=True))).step("hello")[2:4] == (True, False)


def test_a_broken_retriever_changes_nothing_and_the_step_may_be_repeated():
    retriever = BrokenRetriever("Elm")
    env = opened(tiny_game(retriever=retriever))
    before = env.state
    for _ in range(3):
        with pytest.raises(RetrievalError):
            env.step("<search>Elm</search>")
    assert env.state is before
    retriever.word = "no such word"
    assert "Lake Tarn" in env.step("<search>Elm</search>")[0]


class FlakyJudge:
    """Fails once, then decides."""

    def __init__(self):
        self.labels = ["error", "correct"]

    def judge(self, cases):
        label = self.labels.pop(0)
        return [Verdict(label, "model") for _ in cases]


def test_a_broken_judge_pays_nobody_and_the_step_may_be_repeated():
    env = opened(tiny_game(judge=FlakyJudge()))
    with pytest.raises(JudgeError):
        env.step("<answer>x</answer>")
    assert not env.state.over and env.state.episode.running
    assert env.step("<answer>x</answer>")[1] == 1.0


def test_the_reward_follows_the_rules():
    listing = "<answer>x" * 11 + "</answer>"
    game = tiny_game(replace(GameRules(), solver_reward="overlisting"))
    text = "<think>" + listing[:-9] + "</think><answer>Lake Tarn</answer>"
    assert opened(game).step(text)[1] == 0.25
