"""What is mixed into the evidence of a proposal; the gate's use of it is tested with the validator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ssp_env.noise import passage_noise, shuffled
from ssp_env.presets import GameRules
from ssp_env.rollout import play
from ssp_env.types import Passage, Sampling, Task
from tests.fakes import PASSAGES, PROPOSAL, SEED, ScriptedAgent, tiny_game


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def proposal():
    game = tiny_game()
    (trajectory,) = play([game.episode("proposer", SEED)], ScriptedAgent(PROPOSAL), sampling=Sampling(), rng=rng())
    return trajectory


def test_preferred_passages_come_first_in_their_order_without_evidence_repeats_and_answers(proposal):
    own = proposal.evidence[0]
    good = [Passage(f"x{i}", "Mill", f"The mill has {i} wheels.") for i in range(2)]
    telling = Passage("y", "Guide", "It lies by Tarn Lake.")
    game = tiny_game(GameRules(n_noise=3))
    found = passage_noise(game, proposal, (), rng(), first=[own, good[1], telling, good[1], good[0]])
    assert found[:2] == [good[1], good[0]] and len(found) == 3
    assert found[2] in PASSAGES and found[2] not in proposal.evidence


def test_no_more_than_the_rules_say_is_taken(proposal):
    assert passage_noise(tiny_game(GameRules(n_noise=0)), proposal, (), rng(), first=PASSAGES) == []


def test_shuffling_keeps_every_passage_and_is_seeded():
    assert sorted(p.id for p in shuffled(PASSAGES, rng())) == [p.id for p in PASSAGES]
    assert shuffled(PASSAGES, rng()) == shuffled(PASSAGES, rng()) != PASSAGES


def test_only_proposals_have_noise(proposal):
    solve = replace(proposal, item=Task("t", "q", ("a",)), role="solver")
    with pytest.raises(TypeError, match="proposer's trajectory"):
        passage_noise(tiny_game(), solve, (), rng())
