"""The shared state machine: steps make new states, batches equal singles."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from ssp_env.envs.settle import SelfPlayScenario
from ssp_env.envs.solver import SolverScenario
from ssp_env.envs.state import items, start, step
from ssp_env.errors import RetrievalError
from tests.fakes import BrokenRetriever, FakeRetriever, tiny_game


def test_a_step_leaves_its_state_as_it_was():
    game = tiny_game()
    first = start(SolverScenario(), game, game.tasks[0], key=1)
    (second,) = step(SolverScenario(), [first], ["<search>Elm</search>"])
    assert first.episode.turns_left == second.episode.turns_left + 1
    assert step(SolverScenario(), [first], ["<search>Elm</search>"])[0].observation == second.observation
    with pytest.raises(FrozenInstanceError):
        first.reward = 1.0


def test_one_retrieval_call_answers_all_searches_of_a_step():
    retriever = FakeRetriever()
    game = tiny_game(retriever=retriever)
    states = [start(SolverScenario(), game, game.tasks[0], key=i) for i in range(5)]
    texts = ["<search>Elm</search>", "hello", "<search>Oxley</search>", "<answer>x</answer>", "<search>Ash</search>"]
    moved = step(SolverScenario(), states, texts)
    assert retriever.batches == [["Elm", "Oxley", "Ash"]]
    singles = [step(SolverScenario(), [state], [text])[0] for state, text in zip(states, texts, strict=True)]
    assert [(m.observation, m.reward, m.over) for m in moved] == [(s.observation, s.reward, s.over) for s in singles]


def test_one_broken_search_stops_the_whole_step():
    game = tiny_game(retriever=BrokenRetriever("Ash"))
    states = [start(SolverScenario(), game, game.tasks[0], key=i) for i in range(2)]
    with pytest.raises(RetrievalError):
        step(SolverScenario(), states, ["<search>Elm</search>", "<search>Ash</search>"])
    assert all(state.episode.turns_left == 10 for state in states)


def test_scenarios_draw_tasks_or_seeds():
    game = tiny_game()
    assert items(SolverScenario(), game) == game.tasks
    assert items(SelfPlayScenario(), game) == game.answers
