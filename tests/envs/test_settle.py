"""From a proposal to its validation, and from solves to the proposer's reward."""

from __future__ import annotations

import numpy as np
import pytest

from ssp_env.envs.settle import SelfPlayScenario, accept, pay_proposer, proposal
from ssp_env.envs.solver import SolverScenario
from ssp_env.envs.state import start, step
from ssp_env.game.rules import GameRules
from ssp_env.game.validator import open_gate
from ssp_env.types import ReadingCase, Validation
from tests.fakes import PROPOSAL, FixedReader, tiny_game


def proposed(game, key=0):
    """The state whose proposer has just ended, before anything was made of it."""
    ended = []

    class Catch(SelfPlayScenario):
        def settle(self, states):
            ended.extend(states)
            return list(states)

    state = start(Catch(), game, game.answers[0], key=key)
    for text in PROPOSAL:
        (state,) = step(Catch(), [state], [text])
    return ended[-1] if ended else state


def test_the_key_decides_noise_and_order():
    game = tiny_game()
    cases = [open_gate(proposal(proposed(game, key))).case for key in (1, 1, 2, 3)]
    assert all(isinstance(case, ReadingCase) for case in cases)
    assert cases[0] == cases[1]
    assert len({case.passages for case in cases}) > 1


def test_an_accepted_proposal_becomes_a_task_with_the_seed_answers():
    state = accept(proposed(tiny_game()), Validation("ok"))
    assert state.task.answers == ("Lake Tarn", "Tarn Lake")
    assert accept(proposed(tiny_game()), Validation("too_short")).task is None


@pytest.mark.parametrize(("n_right", "reward"), [(0, 0.0), (1, 0.5), (2, 0.0)])
def test_the_proposer_is_paid_by_the_rule_on_the_success_rate(n_right, reward):
    game = tiny_game(GameRules(n_solves=2, proposer_reward="zero_sum_solved"), reader=FixedReader())
    state = start(SelfPlayScenario(), game, game.answers[0], key=0)
    answers = ["<answer>Lake Tarn</answer>"] * n_right + ["<answer>no</answer>"] * (2 - n_right)
    for text in (*PROPOSAL, *answers):
        (state,) = step(SelfPlayScenario(), [state], [text])
    assert state.over and state.ended[0].reward == reward


def test_a_rejected_proposal_is_paid_the_invalid_reward():
    game = tiny_game(GameRules(invalid_reward=-0.1))
    state = pay_proposer(accept(proposed(game), Validation("not_answerable")))
    assert state.ended[0].reward == -0.1


def test_a_solver_play_cannot_pass_the_gate():
    game = tiny_game()
    state = start(SolverScenario(), game, game.tasks[0], key=0)
    with pytest.raises(TypeError):
        accept(state, Validation("ok"))
    assert isinstance(state.rng(), np.random.Generator)
