"""Exact truths about accepted questions, and their shares."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from ssp_env.types import (
    Answer,
    Completion,
    Conversation,
    Final,
    ReadingCase,
    Round,
    SearchResult,
    ToolCall,
    Trajectory,
    Turn,
    Validation,
)
from ssp_env.world import OracleReader, World, WorldConfig
from ssp_env.world.language import parse
from ssp_env.world.names import display
from ssp_env.world.oracle import proofs
from ssp_env.world.quality import Quality, quality_statistics, question_quality, round_quality


@pytest.fixture(scope="module")
def world() -> World:
    return World(WorldConfig(seed=3))


def evidence(world, question):
    names = set().union(*(min(sets, key=len) for sets in proofs(parse(question), world).values()))
    return [p for p in world.passages if p.title.lower() in names]


@pytest.mark.parametrize(("kind", "form"), [("1-hop", "1"), ("3-hop", "3"), ("comparison", "compare(1,1)")])
def test_tasks_of_the_world_are_right_over_their_own_evidence(world, kind, form):
    for task in world.tasks(kind, 10, np.random.default_rng(0)):
        shown = evidence(world, task.question)
        quality = question_quality(world, task.question, answers=task.answers, evidence=shown)
        assert quality.parseable and quality.unique and quality.right and quality.answerable
        assert quality.form == form and quality.relations
        if kind.endswith("hop"):
            assert quality.n_hops == int(kind[0]) == len(shown)
        lacking = question_quality(world, task.question, answers=task.answers, evidence=shown[1:])
        assert lacking.unique and not lacking.answerable and not lacking.right
        wrong = question_quality(world, task.question, answers=["Nobody"], evidence=shown)
        assert wrong.unique and not wrong.right


def test_intersections_show_both_of_their_sides(world):
    forms = {
        question_quality(world, task.question, answers=task.answers, evidence=()).form
        for task in world.tasks("intersection", 20, np.random.default_rng(0))
    }
    assert forms == {"and(1,1)", "and(1,2)", "and(2,1)"} & forms and len(forms) > 1


def test_an_ambiguous_question_is_not_right_even_if_the_evidence_hides_it(world):
    country = next(
        name
        for i in range(len(world))
        if world.type_of(i) == "country" and len(world.find("lies", "subject", name := world.names_of(i)[0])) > 1
    )
    city = world.find("lies", "subject", country)[0]
    shown = [p for p in world.passages if p.title.lower() == city]
    quality = question_quality(world, f"Which city lies in {country}?", answers=[display(city)], evidence=shown)
    assert quality == Quality(True, False, False, True, None, "lies<", "1")


def test_other_text_is_not_parseable(world):
    assert question_quality(world, "Who am I?", answers=["x"], evidence=()) == Quality()


def played(reason, n_searches=2, question="Who?") -> Round:
    turns = (Turn(Completion(question), Final(question)),)
    answer = Answer("s", "Bel", n_searches=n_searches)
    return Round(answer, Trajectory("proposer", answer, Conversation((), turns), "finished"), Validation(reason))


def test_the_evidence_of_a_round_is_that_of_its_tools(world):
    task = world.tasks("1-hop", 1, np.random.default_rng(0))[0]
    (passage,) = evidence(world, task.question)
    answer = Answer("s", task.answers[0], n_searches=1)
    turns = (
        Turn(Completion("x"), ToolCall("search", "x"), (SearchResult(passage, 1.0, 0),), "shown"),
        Turn(Completion("x"), Final(task.question)),
    )
    proposal = Trajectory("proposer", answer, Conversation((), turns), "finished")
    assert round_quality(world, Round(answer, proposal, Validation("ok"))).right
    assert round_quality(world, Round(answer, proposal, Validation("answer_leak"))) is None
    assert round_quality(world, Round(answer, proposal, Validation("failed"))) is None


def test_shares_by_hand():
    right2 = Quality(True, True, True, True, 2, "a<(b<)", "2")
    right1 = Quality(True, True, True, True, 1, "a<", "1")
    loose = Quality(True, False, False, True, None, "a<", "1")
    rounds = [
        (played("ok"), right2),
        (played("ok"), right1),
        (played("ok"), loose),
        (played("ok"), Quality()),
        (played("not_answerable"), right2),  # wrongly rejected
        (played("not_multi_hop"), right1),  # rightly rejected
        (played("not_multi_hop"), right2),  # wrongly rejected
        (played("not_unique"), loose),
        (played("too_short"), None),
    ]
    figures = quality_statistics(rounds)
    assert (figures["n_accepted"], figures["parseable"], figures["unique"], figures["precision"]) == (4, 0.75, 0.5, 0.5)
    assert figures["recall"] == 0.5
    assert (figures["multi_hop"], figures["hops_as_demanded"], figures["hops_1"]) == (0.25, 0.25, 0.25)
    assert (figures["distinct_relations"], figures["distinct_forms"]) == (2, 2)
    third = -(1 / 3 * log(1 / 3) + 2 / 3 * log(2 / 3))
    assert figures["entropy_forms"] == pytest.approx(third) == figures["entropy_relations"]


def test_nothing_counted_is_none():
    assert quality_statistics([])["precision"] is None
    assert quality_statistics([(played("ok"), Quality())])["entropy_forms"] is None


def test_an_oracle_that_errs_guesses_in_that_share_of_cases_whatever_their_order(world):
    tasks = world.tasks("1-hop", 200, np.random.default_rng(0))
    cases = [ReadingCase(task.question, world.passages[:40] + tuple(evidence(world, task.question))) for task in tasks]
    truth = [reading.response for reading in OracleReader().read(cases)]
    said = [reading.response for reading in OracleReader(error=0.3, seed=5).read(cases)]
    assert 0.2 < sum(a != b for a, b in zip(said, truth, strict=True)) / len(cases) < 0.4
    turned = [ReadingCase(case.question, case.passages[::-1]) for case in cases]
    assert [reading.response for reading in OracleReader(error=0.3, seed=5).read(turned)] == said
    assert [reading.response for reading in OracleReader(error=0.3, seed=6).read(cases)] != said
    with pytest.raises(ValueError, match="0 .. 1"):
        OracleReader(error=2)
