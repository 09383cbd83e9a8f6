import numpy as np
import pytest

from ssp_env.types import Conversation, Message, ReadingCase, Sampling
from ssp_env.world import KINDS, World, WorldConfig
from ssp_env.world.experts import ExpertAgent, shown_passages
from training.tiny.traces import rollout, world_tool

WORLD = World(WorldConfig(seed=21))
TOOL = world_tool(WORLD)


def accuracy(kind, agent, n=60, prompt_set="compact"):
    tasks = WORLD.tasks(kind, n, np.random.default_rng(0))
    records = rollout(agent, "solver", tasks, TOOL, sampling=Sampling(), prompt_set=prompt_set, max_turns=12)
    return np.mean([record.final in record.item.answers for record in records])


@pytest.mark.parametrize("prompt_set", ["compact", "paper"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_expert_solves_95_percent_over_bm25(kind, prompt_set):
    assert accuracy(kind, ExpertAgent(), prompt_set=prompt_set) >= 0.95


def test_an_expert_of_less_skill_fails_at_longer_questions_only():
    weak = ExpertAgent(max_hops=1)
    assert accuracy("1-hop", weak, n=30) >= 0.95
    assert accuracy("2-hop", weak, n=30) == 0.0


def test_an_impatient_expert_often_gives_up_after_its_first_search_and_is_right_otherwise():
    impatient = ExpertAgent(patience=0.4)
    assert accuracy("1-hop", impatient) >= 0.95
    assert 0.25 <= accuracy("2-hop", impatient, n=100) <= 0.55
    assert accuracy("3-hop", impatient, n=100) <= 0.35
    assert accuracy("2-hop", ExpertAgent(patience=1.0)) > accuracy("2-hop", impatient)


@pytest.mark.parametrize("name", ["patience", "proposer_patience"])
def test_a_patience_that_is_no_share_is_refused(name):
    with pytest.raises(ValueError, match=r"patience in 0 \.\. 1"):
        ExpertAgent(**{name: 1.5})


@pytest.mark.parametrize("patience, least, most", [(0.0, 0.0, 0.0), (0.3, 0.15, 0.45), (1.0, 0.8, 1.0)])
def test_an_impatient_proposer_asks_after_fewer_searches_than_it_was_told_to_make(patience, least, most):
    answers = WORLD.answers(80, np.random.default_rng(0), n_searches=(3,))
    records = rollout(ExpertAgent(proposer_patience=patience), "proposer", answers, TOOL, sampling=Sampling())
    n_searches = np.array([len(record.queries) for record in records])
    assert least <= np.mean(n_searches > 1) <= most and n_searches.max() <= 3
    hops = [WORLD.oracle.n_hops(record.final or "") for record in records]
    assert np.mean(hops == n_searches) >= (0.7 if patience < 1 else 0.3)


@pytest.mark.parametrize("prompt_set", ["compact", "paper"])
@pytest.mark.parametrize("n_searches, at_least", [(1, 0.7), (2, 0.6), (3, 0.5), (4, 0.3)])
def test_most_proposals_have_the_demanded_searches_and_the_one_right_answer(prompt_set, n_searches, at_least):
    answers = WORLD.answers(60, np.random.default_rng(1), n_searches=(n_searches,))
    records = rollout(ExpertAgent(), "proposer", answers, TOOL, sampling=Sampling(), prompt_set=prompt_set)
    good = [
        WORLD.oracle.answers(record.final or "") == (record.item.text.lower(),)
        and WORLD.oracle.suffices(record.final, record.evidence)
        and len(record.queries) == n_searches
        for record in records
    ]
    assert np.mean(good) >= at_least
    assert all(len(set(record.queries)) == len(record.queries) for record in records)


@pytest.mark.parametrize("prompt_set", ["compact", "paper"])
def test_the_reader_answers_what_the_passages_settle_and_unknown_otherwise(prompt_set):
    tasks = WORLD.tasks("2-hop", 30, np.random.default_rng(2))
    full = [ReadingCase(task.question, WORLD.passages[::2] + WORLD.passages[1::2]) for task in tasks]
    empty = [ReadingCase(task.question, WORLD.passages[:1]) for task in tasks]
    settings = {"sampling": Sampling(), "prompt_set": prompt_set}
    for record, task in zip(rollout(ExpertAgent(), "reader", full, TOOL, **settings), tasks, strict=True):
        assert record.final == task.answers[0]
    assert {record.final for record in rollout(ExpertAgent(), "reader", empty, TOOL, **settings)} == {"Unknown"}


def test_the_same_seed_gives_the_same_proposals_and_another_seed_others():
    answers = WORLD.answers(40, np.random.default_rng(3), n_searches=(2,))

    def finals(agent, seed=None):
        return [r.final for r in rollout(agent, "proposer", answers, TOOL, sampling=Sampling(seed=seed))]

    assert finals(ExpertAgent(seed=5)) == finals(ExpertAgent(seed=5))
    assert finals(ExpertAgent(seed=5)) != finals(ExpertAgent(seed=6))
    assert finals(ExpertAgent(seed=5), seed=1) != finals(ExpertAgent(seed=5), seed=2)


def test_a_prompt_that_asks_nothing_is_answered_with_unknown():
    prompt = (Message(role="user", content="Tell me a joke"),)
    assert ExpertAgent().complete([Conversation(prompt)], sampling=Sampling())[0].text == "<answer> Unknown </answer>"


def test_shown_passages_are_read_whatever_their_case_and_content():
    text = "\n<information>\nDoc 1 (Title: A (b)) Text one.\nDOC 2 (TITLE: C) two\n</information>\n"
    found = [(passage.title, passage.text) for passage in shown_passages(text)]
    assert found == [("A (b)", "Text one."), ("C", "two")]
