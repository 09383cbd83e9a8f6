import time
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssp_env.types import Passage
from ssp_env.world import KINDS, Oracle, World, WorldConfig
from ssp_env.world.facts import ShownFacts, read_passage
from ssp_env.world.language import Clause, Comparison, Description, Name, parse, render
from ssp_env.world.oracle import answer_set, n_clauses, proofs
from ssp_env.world.relations import RELATION, RELATIONS, VALUES

WORLD = World(WorldConfig(seed=11, n_entities=100))
NAMES = [WORLD.names_of(index)[0] for index in range(len(WORLD))]
FACTS = defaultdict(set)
for passage in WORLD.passages:
    for fact in read_passage(passage.text).facts:
        FACTS[fact.relation, "object", fact.subject].add(fact.object)
        FACTS[fact.relation, "subject", fact.object].add(fact.subject)


def ends(kind):
    return [(r, "subject") for r in RELATIONS if r.subject == kind] + [
        (r, "object") for r in RELATIONS if r.object == kind
    ]


@st.composite
def descriptions(draw, kind=None, depth=3, inner=False):
    kind = kind or draw(st.sampled_from(["person", "city", "book", "year", "country", "film"]))
    clauses = []
    for place in range(draw(st.integers(1, 2))):
        relation, sought = draw(st.sampled_from(ends(kind)))
        other = relation.object if sought == "subject" else relation.subject
        plain = depth == 0 or (inner and place == 0 and draw(st.booleans()))
        noun = Name(draw(st.sampled_from(NAMES))) if plain else draw(descriptions(other, depth - 1, True))
        clauses.append(Clause(relation.name, sought, noun, draw(st.integers(0, 1))))
        if inner and not isinstance(noun, Name):
            break
    return Description(kind, tuple(clauses))


@st.composite
def questions(draw):
    if draw(st.booleans()):
        return draw(descriptions())
    relation = draw(st.sampled_from([r for r in RELATIONS if r.comparatives]))
    left, right = (draw(descriptions(relation.subject, 1, True)) for _ in range(2))
    return Comparison(relation.name, draw(st.booleans()), left, right)


@given(questions(), st.integers(0, 1000))
@settings(max_examples=300, deadline=None)
def test_what_is_rendered_parses_back(question, seed):
    assert parse(render(question)) == question
    assert parse(render(question, np.random.default_rng(seed))) == question


@given(questions())
@settings(max_examples=100, deadline=None)
def test_case_and_spacing_do_not_matter(question):
    text = render(question)
    spaced = " ".join(text.lower().replace("?", " ? ").replace(",", " , ").split())
    assert parse(spaced) == parse(text.upper()) == parse(text[:-1]) == parse(f"\n{spaced}\t") == question


@given(questions())
@settings(max_examples=200, deadline=None)
def test_the_oracle_agrees_with_trying_every_entity(question):
    def things(noun):
        if isinstance(noun, Name):
            return [noun.text]
        found = set(VALUES.get(noun.type, NAMES))
        for clause in noun.clauses:
            others = things(clause.noun)
            found = {x for x in found if any(x in FACTS[clause.relation, clause.sought, other] for other in others)}
        return sorted(found)

    def number(name):
        return int(min(FACTS[question.relation, "object", name]))

    if isinstance(question, Description):
        expected = set(things(question))
    else:
        sides = [things(question.left), things(question.right)]
        expected = set()
        if [len(side) for side in sides] == [1, 1] and number(sides[0][0]) != number(sides[1][0]):
            expected = {(max if question.larger else min)(sides[0][0], sides[1][0], key=number)}
    assert set(answer_set(question, WORLD)) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_true_hops_are_the_fewest_passages_that_suffice(kind):
    by_name = {passage.title.lower(): passage for passage in WORLD.passages}
    for task in WORLD.tasks(kind, 15, np.random.default_rng(0)):
        (sets,) = proofs(parse(task.question), WORLD).values()
        n_hops = WORLD.oracle.n_hops(task.question)
        for proof in sets:
            shown = [by_name[name] for name in sorted(proof)]
            if len(proof) == n_hops:
                assert WORLD.oracle.suffices(task.question, shown)
                for left_out in shown:
                    rest = [passage for passage in shown if passage is not left_out]
                    assert not WORLD.oracle.suffices(task.question, rest)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?",
        "Which",
        "Which book",
        "Which book was written by?",
        "Which book was written by nobody?",
        "Which book was written by Beladu Doreko Fenima Galoth?",
        "Which book was written by Beladu. Yes?",
        "Which book was written by Beladu and and was published in 1905?",
        "Which river was written by Beladu?",
        "Which book was published in 1890?",
        "Which book was published earlier, Beladu?",
        "Wer schrieb Beladu?",
        "Which book was written by Beladu\u0130?",
    ],
)
def test_other_text_is_no_question(text):
    assert parse(text) is None
    assert WORLD.oracle.answers(text) is None
    assert not WORLD.oracle.is_unique(text)
    assert WORLD.oracle.n_hops(text) is None
    assert not WORLD.oracle.suffices(text, WORLD.passages)


@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(
    "which what book person the that and or , ? was written by wrote beladu doreko 1905 is longer".split()
)).map(" ".join)))  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_no_text_raises_and_what_parses_can_be_rendered(text):
    question = parse(text)
    assert question is None or parse(render(question)) == question


def test_hostile_text_is_refused_at_once():
    chain = "Which city " + "lies in the country that contains the city that " * 4000 + "lies in Beladu?"
    start = time.perf_counter()
    for text in ("x" * 100_000, "which " * 20_000, chain, chain[:1900], "(" * 100_000, "\u0130" * 100_000):
        assert parse(text) is None
        assert read_passage(text) is None
    assert time.perf_counter() - start < 2.0


def test_a_noun_that_cannot_be_said_clearly_is_refused():
    inner = Description("company", (Clause("founded", "subject", Name("beladu")),))
    noun = Description("person", (Clause("founded", "object", inner), Clause("founded", "object", Name("doreko"))))
    with pytest.raises(ValueError, match="swap"):
        render(Description("book", (Clause("wrote", "subject", noun),)))


def test_an_alias_needs_the_passage_that_tells_it():
    index = next(i for i in range(len(WORLD)) if len(WORLD.names_of(i)) == 2 and WORLD.type_of(i) == "city")
    name, alias = WORLD.names_of(index)
    born = WORLD.find("born", "subject", name)
    question = Description("person", (Clause("born", "subject", Name(alias)),))
    assert born and answer_set(question, WORLD) == born
    people = [passage for passage in WORLD.passages if passage.title.lower() in born]
    assert answer_set(question, ShownFacts(people)) == ()
    assert answer_set(question, ShownFacts([*people, WORLD.passages[index]])) == born


def test_passages_of_no_world_hold_no_facts():
    facts = ShownFacts([Passage("1", "Paris", "Paris is the capital of France. It lies on the Seine.")])
    assert facts.entities == {}
    assert Oracle(facts).answers("Which city is the capital of Beladu?") == ()


def test_every_clause_counts_as_one_fact():
    task = WORLD.tasks("3-hop", 1, np.random.default_rng(0))[0]
    assert n_clauses(parse(task.question)) == 3
    assert {relation.name for relation in RELATIONS} == set(RELATION)
