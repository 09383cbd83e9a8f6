"""What is mixed into the evidence of a proposal; the gate's use of it is tested with the validator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ssp_env.errors import ConfigError
from ssp_env.game.distractors import BUNDLE_CALLS, CORPUS_DRAWS, passage_distractors, shuffled, with_distractors
from ssp_env.game.rollout import rollout
from ssp_env.game.rules import GameRules
from ssp_env.types import Passage, Sampling, Task
from tests.fakes import PASSAGES, PROPOSAL, SEED, FakeRetriever, ScriptedAgent, tiny_game


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def proposal():
    game = tiny_game()
    (trajectory,) = rollout([game.episode("proposer", SEED)], ScriptedAgent(PROPOSAL), sampling=Sampling(), rng=rng())
    return trajectory


def test_preferred_passages_come_first_in_their_order_without_evidence_repeats_and_answers(proposal):
    own = proposal.evidence[0]
    good = [Passage(f"x{i}", "Mill", f"The mill has {i} wheels.") for i in range(2)]
    telling = Passage("y", "Guide", "It lies by Tarn Lake.")
    game = tiny_game(GameRules(n_distractors=3))
    found = passage_distractors(game, proposal, (), rng(), first=[own, good[1], telling, good[1], good[0]])
    assert found[:2] == [good[1], good[0]] and len(found) == 3
    assert found[2] in PASSAGES and found[2] not in proposal.evidence


def test_no_more_than_the_rules_say_is_taken(proposal):
    assert passage_distractors(tiny_game(GameRules(n_distractors=0)), proposal, (), rng(), first=PASSAGES) == []


def test_shuffling_keeps_every_passage_and_is_seeded():
    assert sorted(p.id for p in shuffled(PASSAGES, rng())) == [p.id for p in PASSAGES]
    assert shuffled(PASSAGES, rng()) == shuffled(PASSAGES, rng()) != PASSAGES


def test_only_proposals_have_noise(proposal):
    solve = replace(proposal, item=Task("t", "q", ("a",)), role="solver")
    with pytest.raises(TypeError, match="proposer's trajectory"):
        passage_distractors(tiny_game(), solve, (), rng())


MANY = tuple(Passage(f"m{i}", f"Town{i:03}", f"Town{i:03} lies on Hill{i // 3}.") for i in range(60))


def bundle_game(n_distractors=3, passages=(*PASSAGES, *MANY), **changes):
    retriever = FakeRetriever(passages)
    return tiny_game(
        GameRules(distractor_unit="bundle", n_distractors=n_distractors), retriever=retriever, passages=passages
    ), retriever


def test_bundles_that_the_others_do_not_offer_are_searches_for_titles_in_one_call(proposal):
    game, retriever = bundle_game()
    shown = with_distractors(game, proposal, (), rng())
    ((first, *rest),) = retriever.batches
    assert len({first, *rest}) == 3 and {first, *rest} <= {p.title for p in (*PASSAGES, *MANY)}
    found = {r.passage for results in FakeRetriever((*PASSAGES, *MANY)).search([first, *rest], 3) for r in results}
    assert set(shown) == {*proposal.evidence} | found and len(shown) > len(proposal.evidence)
    assert with_distractors(game, proposal, (), rng()) == shown
    other = replace(proposal.conversation.turns[0].results[0], passage=Passage("n", "N", "noise"))
    turns = (replace(proposal.conversation.turns[0], results=(other,)),)
    with_distractors(
        game, proposal, [replace(proposal, conversation=replace(proposal.conversation, turns=turns))], rng()
    )
    assert [len(batch) for batch in retriever.batches] == [3, 3, 2]


def test_a_corpus_without_bundles_to_offer_is_not_searched_for_ever(proposal):
    telling = tuple(Passage(f"y{i}", f"Guide{i}", f"Guide{i}: it lies by Tarn Lake.") for i in range(500))
    game, retriever = bundle_game(passages=telling)
    assert set(with_distractors(game, proposal, (), rng())) == set(proposal.evidence)
    assert len(retriever.batches) <= BUNDLE_CALLS


def test_more_bundles_than_can_be_drawn_are_not_drawn(proposal):
    game, retriever = bundle_game(n_distractors=3_000_000)
    shown = with_distractors(game, proposal, (), rng())
    assert len(retriever.batches) <= BUNDLE_CALLS and max(map(len, retriever.batches)) <= CORPUS_DRAWS
    assert len(shown) > len(proposal.evidence)


def test_passages_without_titles_are_searched_for_by_their_text(proposal):
    game, retriever = bundle_game(passages=tuple(replace(p, title="") for p in MANY))
    assert len(with_distractors(game, proposal, (), rng())) > len(proposal.evidence)
    assert all(query.startswith("Town") for query in retriever.batches[0])


def test_single_passages_need_no_retriever_and_made_up_bundles_do(proposal):
    game, retriever = bundle_game()
    with_distractors(replace(game, rules=GameRules()), proposal, (), rng())
    assert retriever.batches == []
    with pytest.raises(ConfigError, match="expected a retriever for bundles of distractors"):
        with_distractors(replace(game, retriever=None), proposal, (), rng())
