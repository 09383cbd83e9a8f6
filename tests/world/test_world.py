import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

from ssp_env.types import ReadingCase
from ssp_env.world import KINDS, OracleReader, World, WorldConfig
from ssp_env.world.facts import read_passage
from ssp_env.world.language import parse, render
from ssp_env.world.names import WORDS
from ssp_env.world.relations import BY_SUBJECT

_DIGEST = """
import hashlib, numpy as np
from ssp_env.world import KINDS, World, WorldConfig
world = World(WorldConfig(seed=7))
rng = np.random.default_rng(1)
told = [list(world), [world.tasks(kind, 20, rng) for kind in KINDS], world.answers(20, rng, n_searches=(1, 2, 3))]
print(hashlib.sha256(repr(told).encode()).hexdigest())
"""


@pytest.fixture(scope="module")
def world() -> World:
    return World(WorldConfig(seed=3))


def test_a_seed_gives_the_same_world_tasks_and_seeds_in_every_process():
    runs = [
        subprocess.run([sys.executable, "-c", _DIGEST], capture_output=True, text=True, check=True, env=env).stdout
        for env in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2"})
    ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    "seed, n, digest",
    [(0, 200, "3d02c91670774297"), (1, 1000, "7b30489b10939f5e"), (2, 400_000, "75f7ce95731f4b61")],
)
def test_passages_are_bit_identical_on_every_platform(seed, n, digest):
    world = World(WorldConfig(seed=seed, n_entities=n))
    texts = [repr(world.passage(index)) for index in range(0, n, max(1, n // 500))]
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] == digest


def test_worlds_of_different_seeds_share_no_fact_about_a_name(world):
    other = World(WorldConfig(seed=4))
    same = sum(world.names_of(index) == other.names_of(index) for index in range(len(world)))
    assert same < 10
    assert [p.text for p in world.passages] != [p.text for p in other.passages]


@pytest.mark.parametrize("n", [100, 200, 1000])
def test_every_passage_states_all_facts_of_its_entity_and_nothing_else(n):
    world = World(WorldConfig(seed=1, n_entities=n))
    for index, passage in enumerate(world):
        said = read_passage(passage.text)
        assert said is not None
        assert (said.subject, *said.aliases) == world.names_of(index)
        assert said.type == world.type_of(index)
        assert {f.relation for f in said.facts} == {r.name for r in BY_SUBJECT[said.type]}
        for fact in said.facts:
            assert world.find(fact.relation, "object", fact.subject) == (fact.object,)
            assert fact.subject in world.find(fact.relation, "subject", fact.object)


@pytest.mark.parametrize("n_words, n", [(1, 200), (2, 5000), (3, 250_000)])
def test_names_are_distinct_and_found_again(n_words, n):
    world = World(WorldConfig(seed=5, n_entities=n))
    indices = range(0, n, 97)
    names = [world.names_of(index)[0] for index in indices]
    assert len(set(names)) == len(names)
    assert {len(name.split()) for name in names} == {n_words}
    assert [world.index_of(name) for name in names] == list(indices)
    assert world.index_of("bel") is None


def test_an_alias_resolves_to_its_entity(world):
    index = next(i for i in range(len(world)) if len(world.names_of(i)) == 2)
    name, alias = world.names_of(index)
    assert world.resolve(alias) == name
    assert world.index_of(alias) == index


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_have_one_answer_and_the_depth_their_kind_promises(world, kind):
    oracle = world.oracle
    tasks = world.tasks(kind, 60, np.random.default_rng(0))
    assert len({task.question for task in tasks}) == len({task.id for task in tasks}) == 60
    for task in tasks:
        found = oracle.answers(task.question)
        assert found == (task.answers[0].lower(),)
        assert oracle.suffices(task.question, world.passages)
        assert not any(answer.lower() in task.question.lower().split() for answer in task.answers)
        if kind.endswith("hop"):
            assert oracle.n_hops(task.question) == int(kind[0])


def test_tasks_cover_many_shapes(world):
    tasks = world.tasks("2-hop", 300, np.random.default_rng(0))

    def shape(text):
        outer = parse(text)
        inner = outer.clauses[0].noun
        return outer.clauses[0].relation, outer.clauses[0].sought, inner.clauses[0].relation, inner.clauses[0].sought

    assert len({shape(task.question) for task in tasks}) > 80


def test_more_tasks_than_the_world_holds_are_refused(world):
    with pytest.raises(ValueError, match="ask for fewer"):
        world.tasks("1-hop", 2000, np.random.default_rng(0))
    with pytest.raises(ValueError, match="expected a kind"):
        world.tasks("5-hop", 1, np.random.default_rng(0))


def test_seeds_name_entities_with_their_aliases_and_a_demanded_depth(world):
    seeds = world.answers(100, np.random.default_rng(0), n_searches=(1, 2, 3, 4))
    assert {seed.n_searches for seed in seeds} == {1, 2, 3, 4}
    assert len({seed.text for seed in seeds}) == 100
    for seed in seeds:
        index = world.index_of(seed.text.lower())
        assert tuple(name.lower() for name in seed.accepted) == world.names_of(index)
    with pytest.raises(ValueError, match="1 .. 4"):
        world.answers(1, np.random.default_rng(0), n_searches=(5,))


@pytest.mark.parametrize("kind", KINDS)
def test_the_oracle_reader_answers_from_proof_and_six_noise_passages_change_nothing(world, kind):
    rng = np.random.default_rng(2)
    reader = OracleReader()
    for task in world.tasks(kind, 30, rng):
        full = [ReadingCase(task.question, world.passages)]
        assert reader.read(full)[0].response == task.answers[0]
        noise = tuple(world.passages[int(i)] for i in rng.choice(len(world), 6, replace=False))
        alone = reader.read([ReadingCase(task.question, noise)])[0].response
        assert alone in ("unknown", task.answers[0])


def test_the_oracle_reader_gives_no_answer_to_ambiguous_or_foreign_questions(world):
    country = next(name for name in world.passages if "country" in name.text).title
    question = f"Which city lies in {country}?"
    cities = world.oracle.answers(question)
    if len(cities) > 1:
        case = ReadingCase(question, world.passages)
        assert OracleReader().read([case])[0].response == "unknown"
        assert OracleReader(ambiguous="first").read([case])[0].response.lower() == cities[0]
    assert OracleReader().read([ReadingCase("Who wrote Hamlet?", world.passages)])[0].response == "unknown"


def test_a_written_world_equals_the_world_and_appears_whole(world, tmp_path):
    path = tmp_path / "world.jsonl"
    world.write_jsonl(path)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [(row["id"], row["title"], row["text"]) for row in rows] == [(p.id, p.title, p.text) for p in world]
    assert [entry.name for entry in tmp_path.iterdir()] == ["world.jsonl"]


@pytest.mark.parametrize("config", [{"n_entities": 10}, {"one_to_one": 1.5}, {"aliases": -0.1}])
def test_a_config_out_of_range_is_refused(config):
    with pytest.raises(ValueError, match="expected"):
        WorldConfig(**config)


def test_no_name_word_occurs_in_the_language(world):
    said = {word for p in world.passages for word in p.text.lower().replace(".", " ").split()}
    tasks = [t.question for kind in KINDS for t in world.tasks(kind, 30, np.random.default_rng(0))]
    said |= {word for text in tasks for word in text.lower().replace("?", "").replace(",", "").split()}
    words = {word for word in said if not word.isdigit()} - {n for i in range(len(world)) for n in world.names_of(i)}
    assert len(set(WORDS)) == 600
    assert not words & set(WORDS)
    assert all(parse(render(parse(text))) == parse(text) for text in tasks)
