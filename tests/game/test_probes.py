"""Questions that pass the gate and should not: known by heart, not multi-hop, not unique."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from ssp_env.corpus import MemoryCorpus
from ssp_env.errors import ConfigError, RetrievalError
from ssp_env.game.game import Game
from ssp_env.game.probes import MAX_SUBSETS, Proposal, find_rivals, probe_checks
from ssp_env.game.rollout import rollout
from ssp_env.game.rules import GameRules, rules
from ssp_env.game.validator import decide, validate_batch
from ssp_env.retrieval.bm25 import Bm25Retriever
from ssp_env.types import Answer, Passage, Reading, ReadingCase, Sampling, SearchResult, Trajectory, Validation
from ssp_env.world import OracleReader, World, WorldConfig
from ssp_env.world.names import display
from ssp_env.world.relations import BY_SUBJECT
from tests.fakes import (
    PROPOSAL,
    QUESTION,
    SEED,
    BrokenAgent,
    BrokenJudge,
    BrokenRetriever,
    FakeRetriever,
    FixedReader,
    ScriptedAgent,
    tiny_game,
)


@dataclass
class SpyReader:
    """Answers by a function of the passages and keeps the cases."""

    answer: object = lambda case: "Lake Tarn"
    seen: list[ReadingCase] = field(default_factory=list)

    def read(self, cases):
        self.seen += cases
        return [Reading(self.answer(case)) for case in cases]


def propose(game: Game, answer: Answer = SEED, script=PROPOSAL) -> Trajectory:
    (trajectory,) = rollout(
        [game.episode("proposer", answer)], ScriptedAgent(script), sampling=Sampling(), rng=np.random.default_rng(0)
    )
    return trajectory


def game_with(reader, retriever=None, **changes) -> Game:
    return replace(
        tiny_game(GameRules(n_distractors=2, **changes), reader=reader), retriever=retriever or FakeRetriever()
    )


def check(game: Game, answer: Answer = SEED, script=PROPOSAL, n: int = 1) -> list[Validation]:
    proposals = [(game, propose(game, answer, script))] * n
    return validate_batch(proposals, policy=BrokenAgent(), sampling=Sampling(), rng=np.random.default_rng(0))


def evidence_ids(game: Game) -> set[str]:
    return {p.id for p in propose(game).evidence}


def test_without_probes_a_question_is_read_once_and_the_generator_is_left_as_it_was() -> None:
    reader = SpyReader()
    check(game_with(reader))
    assert len(reader.seen) == 1
    states = []
    for changes in ({}, {"closed_book_probe": True}):
        rng, game = np.random.default_rng(0), game_with(SpyReader(), **changes)
        validate_batch([(game, propose(game))], policy=BrokenAgent(), sampling=Sampling(), rng=rng)
        states.append(rng.bit_generator.state["state"]["state"])
    assert states[0] != states[1]


def test_a_question_that_is_answered_without_its_evidence_is_rejected() -> None:
    reader = SpyReader()
    game = game_with(reader, closed_book_probe=True)
    assert check(game) == [Validation("closed_book", "Lake Tarn")]
    assert not {p.id for p in reader.seen[1].passages} & evidence_ids(game)
    honest = SpyReader(lambda case: "Lake Tarn" if {p.id for p in case.passages} >= {"p2"} else "unknown")
    assert check(game_with(honest, closed_book_probe=True))[0].ok


@pytest.mark.parametrize(("needed", "reason"), [({"p0", "p2"}, "ok"), ({"p2"}, "ok"), ({"p0"}, "ok"), (set(), "bad")])
def test_a_question_that_one_search_suffices_for_is_rejected(needed, reason) -> None:
    game = game_with(SpyReader(lambda case: "Lake Tarn"), chain="searches")
    searches = [{r.passage.id for r in turn.results} for turn in propose(game).conversation.turns if turn.results]
    assert len(searches) == 2
    reader = SpyReader(lambda case: "Lake Tarn" if needed <= {p.id for p in case.passages} else "unknown")
    (found,) = check(game_with(reader, chain="searches"))
    alone = [needed <= searches[i] for i in range(2)]
    assert found.reason == ("not_multi_hop" if any(alone) else "ok")


@pytest.mark.parametrize(("demanded", "needed", "reason"), [
    (2, {"p0", "p1"}, "ok"), (2, {"p2"}, "not_multi_hop"), (3, {"p0", "p1"}, "not_multi_hop"),
    (3, {"p0", "p1", "p2"}, "ok"), (1, {"p2"}, "ok"), (9, {"p0", "p1", "p2"}, "not_multi_hop"),
])  # fmt: skip
def test_a_question_needs_as_many_passages_as_searches_were_demanded(demanded, needed, reason) -> None:
    reader = SpyReader(lambda case: "Lake Tarn" if needed <= {p.id for p in case.passages} else "unknown")
    game = game_with(reader, chain="passages")
    assert needed <= evidence_ids(game)
    assert [v.reason for v in check(game, replace(SEED, n_searches=demanded))] == [reason]


def test_large_evidence_is_sampled() -> None:
    reader = SpyReader(lambda case: "Lake Tarn" if len(reader.seen) <= 1 else "unknown")
    script = [f"<search>town river Lake {word} poet</search>" for word in "Elm Ash Zinc Chess Oxley Marlow".split()]
    game = replace(game_with(reader, chain="passages"), tools=tiny_game(GameRules(top_k=8)).tools)
    trajectory = propose(game, replace(SEED, n_searches=5), [*script, PROPOSAL[-1]])
    assert len(trajectory.evidence) >= 6
    found = probed(game, trajectory)
    assert all(finding == Validation("ok", "unknown") or finding.reason == "not_multi_hop" for finding in found)
    assert 0 < len(reader.seen) <= MAX_SUBSETS


def probed(game: Game, trajectory: Trajectory) -> list[Validation]:
    """What the probes alone say of a proposal."""
    (checks,) = probe_checks([proposal_of(game, trajectory)])
    return decide(checks, game.reader.read([check.case for check in checks]))


def proposal_of(game: Game, trajectory: Trajectory) -> Proposal:
    rng = np.random.default_rng(0)
    return Proposal(game, trajectory, rng, rng)


def test_an_answer_that_changes_with_order_and_noise_is_not_unique() -> None:
    answers = iter(["Lake Tarn", "Lake Tarn", "Lake Mere"])
    reader = SpyReader(lambda case: next(answers))
    assert check(game_with(reader, n_unique_probes=2)) == [Validation("not_unique", "Lake Mere")]
    assert all({p.id for p in case.passages} >= evidence_ids(game_with(reader)) for case in reader.seen)
    assert check(game_with(SpyReader(), n_unique_probes=3))[0].ok


@pytest.mark.parametrize(("listed", "reason"), [
    ("Lake Tarn", "ok"), ("Lake Tarn; Tarn Lake", "ok"), ("Lake Tarn; Lake Mere", "not_unique"),
    ("Lake Mere\nLake Tarn", "not_unique"), ("", "not_unique"), (" ; ", "not_unique"), ("unknown", "not_unique"),
])  # fmt: skip
def test_every_listed_answer_must_be_the_seeds(listed, reason) -> None:
    reader = SpyReader(lambda case: listed if case.ask_for_all else "Lake Tarn")
    assert [v.reason for v in check(game_with(reader, ask_for_all=True))] == [reason]


def test_passages_that_the_question_finds_are_shown_first_but_never_those_with_the_answer() -> None:
    reader = SpyReader()
    check(game_with(reader, n_unique_probes=1))
    extra = [p.id for p in reader.seen[1].passages if p.id not in evidence_ids(game_with(reader))]
    found = [r.passage.id for r in FakeRetriever().search([QUESTION], 10)[0]]
    assert extra and set(extra) <= set(found)
    assert not any("Lake Tarn" in p.text for p in reader.seen[1].passages if p.id in extra)


def test_rejections_by_the_gate_are_not_probed() -> None:
    reader = SpyReader(lambda case: "Lake Mere")
    assert check(game_with(reader, closed_book_probe=True, n_unique_probes=2))[0].reason == "not_answerable"
    assert len(reader.seen) == 1


def test_outages_of_reader_judge_and_retriever_are_our_failures() -> None:
    class Tires:
        calls = 0

        def read(self, cases):
            Tires.calls += 1
            return [Reading("Lake Tarn") if Tires.calls == 1 else Reading("", "down") for _ in cases]

    assert check(game_with(Tires(), ask_for_all=True)) == [Validation("failed", error="reader: down")]
    (found,) = check(game_with(SpyReader(), BrokenRetriever(), n_unique_probes=1))
    assert found == Validation("failed", error="retriever: the retriever is down")
    game = replace(game_with(SpyReader(), closed_book_probe=True), judge=BrokenJudge())
    (found,) = probed(replace(game, reader=FixedReader()), propose(game))
    assert found == Validation("failed", "Lake Tarn", "judge: the judge is down")


def test_all_probes_of_a_batch_are_read_and_searched_for_at_once() -> None:
    calls = []

    class Counts(SpyReader):
        def read(self, cases):
            calls.append(len(cases))
            return super().read(cases)

    retriever = FakeRetriever()
    reader = Counts(lambda case: "Lake Tarn" if case.passages and len(calls) < 3 else "")
    check(game_with(reader, retriever, n_unique_probes=2, ask_for_all=True), n=3)
    assert calls == [3, 9] and len(retriever.batches) == 1


class Mentions(FakeRetriever):
    """Finds what names the query, word for word."""

    def _best(self, query, k):
        found = [p for p in self.passages if query in f"{p.title} {p.text}"][:k]
        return [SearchResult(passage, 1.0, rank) for rank, passage in enumerate(found)]


LINKS = tuple(
    Passage(f"r{n}", title, text)
    for n, (title, text) in enumerate([
        ("Birch", "Birch is the town Oxley poet Finch writes of."),
        ("Cedar", "Cedar knows Birch and Lake Tarn."),
        ("Dale", "Dale knows Birch."),
        ("Elder", "Elder knows Dale."),
        ("Fern", "Fern knows Elder."),
    ])
)  # fmt: skip


@pytest.mark.parametrize(("hops", "most", "shown"), [
    (1, 9, ["Birch"]), (2, 9, ["Birch", "Dale"]), (3, 9, ["Birch", "Dale", "Elder"]), (3, 2, ["Birch", "Dale"]),
])  # fmt: skip
def test_rivals_are_followed_link_by_link_and_shown_without_those_that_have_the_answer(hops, most, shown) -> None:
    reader, retriever = SpyReader(), Mentions(LINKS)
    game = game_with(reader, retriever, ask_for_all=True, n_rivals=most, rival_hops=hops)
    assert check(game)[0].ok
    assert sorted(p.title for p in reader.seen[-1].passages if p in LINKS) == shown
    assert {p.id for p in reader.seen[-1].passages} == evidence_ids(game) | {p.id for p in LINKS if p.title in shown}
    assert len(retriever.batches) == hops and retriever.batches[0] == [QUESTION, *propose(game).queries]
    asked = [query for batch in retriever.batches for query in batch]
    assert len(asked) == len(set(asked))


def test_games_of_several_rules_share_each_step_of_the_search() -> None:
    retriever = Mentions(LINKS)
    near, far, none = (
        game_with(SpyReader(), retriever, **changes)
        for changes in ({"n_unique_probes": 1}, {"ask_for_all": True, "rival_hops": 2}, {"closed_book_probe": True})
    )
    found = find_rivals([proposal_of(game, propose(game)) for game in (near, far, none, near)])
    assert [[p.title for p in passages] for passages in found] == [["Birch"], ["Birch", "Cedar", "Dale"], [], ["Birch"]]
    assert [len(batch) for batch in retriever.batches] == [3 * (1 + len(propose(near).queries)), 1]


def test_a_retriever_that_breaks_at_a_later_step_is_our_failure() -> None:
    class Breaks(Mentions):
        def search(self, queries, k):
            if "Birch" in queries:
                raise RetrievalError("the retriever is down")
            return super().search(queries, k)

    game = game_with(SpyReader(), Breaks(LINKS), ask_for_all=True, rival_hops=2)
    assert check(game) == [Validation("failed", error="retriever: the retriever is down")]


@pytest.mark.parametrize("changes", [{"n_rivals": 4}, {"rival_hops": 2}, {"n_rivals": 4, "n_unique_probes": 1}])
def test_rules_about_rivals_need_a_probe_that_uses_them(changes) -> None:
    with pytest.raises(ConfigError, match="ask_for_all=true"):
        rules("world", **changes)
    with pytest.raises(ConfigError, match="a whole number from 1 to 3 for 'rival_hops' of the rules, got 4"):
        rules("world", ask_for_all=True, rival_hops=4)


def test_uniqueness_needs_a_retriever_and_probes_need_the_gate() -> None:
    with pytest.raises(ConfigError, match="retriever"):
        check(replace(game_with(SpyReader(), n_unique_probes=1), retriever=None))
    with pytest.raises(ConfigError, match="gate"):
        rules("world", gate=False, chain="passages")
    assert not GameRules().probes


@pytest.fixture(scope="module")
def world() -> World:
    return World(WorldConfig(seed=3))


def world_game(world: World, **changes) -> Game:
    corpus = MemoryCorpus(world.passages)
    base = tiny_game(rules("world", **changes), reader=OracleReader(), passages=world.passages)
    return replace(base, corpus=corpus, retriever=Bm25Retriever(corpus))


def test_in_a_world_questions_with_a_hidden_second_answer_are_caught(world) -> None:
    relation = next(r for r in BY_SUBJECT["city"] if r.name == "lies")
    country = next(
        name
        for i in range(len(world))
        if world.type_of(i) == "country" and len(world.find("lies", "subject", name := world.names_of(i)[0])) > 1
    )
    city, *_ = world.find("lies", "subject", country)
    script = (
        f"<search>{city}</search>",
        f"<question>Which city {relation.find_subject[0]} {display(country)}?</question>",
    )
    answer = Answer("s", display(city), n_searches=1)
    assert check(world_game(world), answer, script)[0].ok, "the published gate lets it pass"
    for changes in ({"n_unique_probes": 1}, {"ask_for_all": True}):
        assert check(world_game(world, **changes), answer, script)[0].reason == "not_unique"


def test_in_a_world_second_answers_several_links_away_are_caught(world) -> None:
    """One person comes from the city, but one more from another city of the country, where no query leads."""
    missed, n = {1: 0, 2: 0}, 0
    for person in (world.names_of(i)[0] for i in range(len(world)) if world.type_of(i) == "person"):
        (city,) = world.find("born", "object", person)
        (country,) = world.find("lies", "object", city)
        cities = [c for c in world.find("lies", "subject", country) if world.find("born", "subject", c)]
        if len(cities) < 2 or len(world.find("born", "subject", city)) > 1:
            continue
        question = f"<question>Which person comes from the city that lies in {display(country)}?</question>"
        script = (f"<search>{display(person)}</search>", f"<search>{display(city)}</search>", question)
        for hops in missed:
            game = world_game(world, ask_for_all=True, n_rivals=60, rival_hops=hops)
            missed[hops] += check(game, Answer("s", display(person), n_searches=2), script)[0].ok
        n += 1
    assert missed[1] > n / 2 > 5 and missed[2] == 0


def test_in_a_world_honest_chains_pass_all_probes(world) -> None:
    strict = {"chain": "passages", "closed_book_probe": True, "n_unique_probes": 2, "ask_for_all": True}
    strict |= {"n_rivals": 60, "rival_hops": 2}
    game = world_game(world, **strict)
    tasks = world.tasks("2-hop", 12, np.random.default_rng(0))
    passed = 0
    for task in tasks:
        proofs = [p for p in world.passages if p.title in world_names(world, task)]
        script = (*(f"<search>{p.title}</search>" for p in proofs), f"<question>{task.question}</question>")
        answer = Answer("s", task.answers[0], task.answers[1:], n_searches=2)
        passed += check(game, answer, script)[0].ok if len(proofs) == 2 else 0
    assert passed >= 6


def world_names(world: World, task) -> set[str]:
    from ssp_env.world.language import parse
    from ssp_env.world.oracle import proofs

    (sets,) = proofs(parse(task.question), world).values()
    return {display(name) for name in min(sets, key=len)}
