"""The gate: noise, readings, verdicts, outages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ssp_env.game.probes import Check, Proposal
from ssp_env.game.rollout import rollout
from ssp_env.game.rules import GameRules
from ssp_env.game.validator import decide, gate_check, open_gate, validate_batch
from ssp_env.types import Answer, Passage, Reading, ReadingCase, Sampling, Task, Trajectory, Validation
from tests.fakes import (
    PASSAGES,
    PROPOSAL,
    QUESTION,
    SEED,
    BrokenAgent,
    BrokenJudge,
    FixedReader,
    FunctionAgent,
    ScriptedAgent,
    tiny_game,
)

MERE = Answer("s1", "Lake Mere", n_searches=2)
MERE_PROPOSAL = (
    "<search>river Ash Lake Mere</search>",
    "<search>metal Zn symbol</search>",
    "<question>Into which lake flows the river that passes through the birthplace of Bo Reed?</question>",
)
OFFLINE = BrokenAgent()
CASE = ReadingCase(QUESTION, ())


def propose(answer: Answer = SEED, script=PROPOSAL, game=None) -> Trajectory:
    game = game or tiny_game()
    (trajectory,) = rollout(
        [game.episode("proposer", answer)], ScriptedAgent(script), sampling=Sampling(), rng=np.random.default_rng(0)
    )
    return trajectory


def gate(game, trajectory=None, others=(), seed: int = 0) -> ReadingCase | Validation:
    rng = np.random.default_rng(seed)
    opened = open_gate(Proposal(game, trajectory or propose(), rng, rng, others))
    return opened.case if isinstance(opened, Check) else opened


def check(items, policy=OFFLINE, seed: int = 0):
    return validate_batch(items, policy=policy, sampling=Sampling(temperature=0.0), rng=np.random.default_rng(seed))


def test_case_holds_the_whole_evidence_and_n_noise_other_passages_shuffled() -> None:
    trajectory = propose()
    own = {p.id for p in trajectory.evidence}
    orders = set()
    for seed in range(5):
        case = gate(tiny_game(GameRules(n_distractors=2)), trajectory, seed=seed)
        assert isinstance(case, ReadingCase) and case.question == QUESTION
        ids = [p.id for p in case.passages]
        assert own <= set(ids) and len(ids) == len(set(ids)) == len(own) + 2
        orders.add(tuple(ids))
    assert len(orders) == 5


def test_same_generator_same_case() -> None:
    assert gate(tiny_game()) == gate(tiny_game())


def test_noise_is_the_evidence_of_others_before_the_corpus() -> None:
    trajectory, other = propose(), propose(MERE, MERE_PROPOSAL)
    fresh = {p.id for p in other.evidence} - {p.id for p in trajectory.evidence}
    assert fresh
    for seed in range(5):
        case = gate(tiny_game(GameRules(n_distractors=1)), trajectory, [other], seed)
        assert isinstance(case, ReadingCase)
        (noise,) = {p.id for p in case.passages} - {p.id for p in trajectory.evidence}
        assert noise in fresh


def test_noise_never_contains_the_answer_or_an_alias() -> None:
    rich = (*PASSAGES, *(Passage(f"x{i}", "Guide", f"Visit LAKE TÀRN {i}, or Tarn Lake.") for i in range(40)))
    game = tiny_game(GameRules(n_distractors=3), passages=rich)
    trajectory = propose()
    for seed in range(5):
        case = gate(game, trajectory, seed=seed)
        assert isinstance(case, ReadingCase)
        assert not any(p.id.startswith("x") for p in case.passages)


def test_a_corpus_without_noise_to_offer_does_not_hang() -> None:
    trajectory = propose()
    case = gate(tiny_game(GameRules(n_distractors=50)), trajectory)
    assert isinstance(case, ReadingCase) and len(case.passages) <= len(PASSAGES)


@pytest.mark.parametrize(("n_distractors", "bundles"), [(0, 0), (1, 1), (2, 2)])
def test_bundle_noise_adds_whole_evidence_of_others_as_blocks(n_distractors: int, bundles: int) -> None:
    one = Passage("n1", "N1", "first"), Passage("n2", "N2", "second")
    two = Passage("n3", "N3", "third"), Passage("n4", "N4", "fourth")
    base = propose()
    others = [_with_evidence(base, one), _with_evidence(base, two)]
    rules = GameRules(distractor_unit="bundle", n_distractors=n_distractors)
    for seed in range(4):
        case = gate(tiny_game(rules), base, others, seed)
        assert isinstance(case, ReadingCase)
        text = " ".join(p.id for p in case.passages)
        assert ("n1 n2" in text) + ("n3 n4" in text) == bundles
        assert len(case.passages) == len(base.evidence) + 2 * bundles


def _with_evidence(trajectory: Trajectory, passages) -> Trajectory:
    turns = trajectory.conversation.turns
    results = tuple(replace(turns[0].results[0], passage=p, rank=i) for i, p in enumerate(passages))
    turns = (replace(turns[0], results=results), *(replace(turn, results=()) for turn in turns[1:]))
    return replace(trajectory, conversation=replace(trajectory.conversation, turns=turns))


def test_rules_decide_before_anybody_reads() -> None:
    bad = propose(script=("<question>short?</question>",))
    assert gate(tiny_game(), bad) == Validation("too_short")
    assert gate(tiny_game(GameRules(gate=False))) == Validation("ok")
    assert check([(tiny_game(), bad)]) == [Validation("too_short")]


@pytest.mark.parametrize(
    ("reading", "validation"),
    [
        (Reading("lake tarn"), Validation("ok", "lake tarn")),
        (Reading("Tarn Lake"), Validation("ok", "Tarn Lake")),
        (Reading("Lake Mere"), Validation("not_answerable", "Lake Mere")),
        (Reading(""), Validation("not_answerable")),
        (Reading("", "down"), Validation("failed", error="reader: down")),
    ],
)
def test_reading_is_judged_against_the_seed(reading: Reading, validation: Validation) -> None:
    assert decide([gate_check(tiny_game(), propose(), CASE)], [reading]) == [validation]


def test_judge_outage_is_our_failure() -> None:
    (found,) = check([(tiny_game(reader=FixedReader("Tarn"), judge=BrokenJudge()), propose())])
    assert found == Validation("failed", "Tarn", "judge: the judge is down")


def test_batch_keeps_its_order_over_readers_judges_and_corpora() -> None:
    reader = ScriptedAgent(["<answer>Lake Tarn</answer>"])
    items = [
        (tiny_game(), propose()),
        (tiny_game(reader=FixedReader("Lake Mere"), fingerprint="b"), propose(MERE, MERE_PROPOSAL)),
        (tiny_game(), propose(script=("talk",))),
        (tiny_game(fingerprint="c"), propose()),
        (tiny_game(reader=FixedReader("", "down")), propose()),
    ]
    assert [v.reason for v in check(items, reader)] == ["ok", "ok", "no_question", "ok", "failed"]
    assert [len(conversations) for conversations, _ in reader.calls] == [2]


def test_noise_is_not_taken_from_other_corpora() -> None:
    elsewhere = tuple(Passage(f"w{i}", "Elsewhere", f"strange metal Zn symbol {i}") for i in range(9))
    world = tiny_game(fingerprint="w", passages=elsewhere)
    foreign = propose(MERE, MERE_PROPOSAL, world)
    assert foreign.evidence
    reader = FunctionAgent(lambda c: "<answer>Lake Tarn</answer>")
    check([(tiny_game(), propose()), (world, foreign)], reader)
    shown = reader.calls[0][0][0].messages()[-1]["content"]
    assert "Ada Finch" in shown and "Elsewhere" not in shown


def test_only_proposals_are_validated() -> None:
    solve = replace(propose(), item=Task("t", "q", ("a",)), role="solver")
    with pytest.raises(TypeError, match="expected a proposer's trajectory"):
        gate(tiny_game(), solve)
