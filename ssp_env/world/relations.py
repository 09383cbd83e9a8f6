"""What exists in a generated world: types, relations, and the words for them.

Every relation maps a subject to exactly one object; its fact stands in the subject's passage and nowhere else. Years,
lengths and populations are objects like any other, so a number can be asked for, be a condition, or join two facts.
``find_subject`` phrases follow the subject's type in a question ("book *was written by* X"), ``find_object`` phrases
follow the object's type ("person *wrote* X"). Sentences name the subject ``{s}`` before the object ``{o}``, and but for
capitals no two relations join the same two types: a policy of 0.36 million weights learns little else at first. Adding
a relation is one entry in ``RELATIONS``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Sought = Literal["subject", "object"]
"""The end of a fact that is asked for."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A kind of fact and its wordings; the comparatives (smaller, larger) exist for numbers only."""

    name: str
    subject: str
    object: str
    find_subject: tuple[str, ...]
    find_object: tuple[str, ...]
    sentences: tuple[str, ...]
    comparatives: tuple[str, str] | None = None


ENTITY_SHARES: Final[dict[str, int]] = {
    "country": 20,
    "city": 40,
    "person": 44,
    "book": 30,
    "company": 22,
    "river": 14,
    "school": 14,
    "film": 16,
}
"""Entities of each type per 200."""

VALUES: Final[dict[str, tuple[str, ...]]] = {
    "year": tuple(str(year) for year in range(1900, 1950)),
    "length": tuple(str(km) for km in range(110, 710, 20)),
    "population": tuple(str(10_000 * n + 5_000) for n in range(1, 31)),
}
"""All number objects by type, in increasing order."""

INTROS: Final = ("{s} is a {t}", "{s} is the name of a {t}")
ALIASES: Final = ("{s} is also called {o}", "another name of {s} is {o}")

RELATIONS: Final[tuple[Relation, ...]] = (
    Relation(
        "capital", "country", "city",
        ("has the capital", "is governed from"),
        ("is the capital of", "is the seat of government of"),
        ("the capital of {s} is {o}", "{s} is governed from {o}", "{s} has its capital in {o}"),
    ),
    Relation(
        "leader", "country", "person",
        ("is led by", "has the president"),
        ("leads", "is the president of"),
        ("the president of {s} is {o}", "{s} is led by {o}", "{s} has the president {o}"),
    ),
    Relation(
        "lies", "city", "country",
        ("lies in", "belongs to"),
        ("contains", "includes"),
        ("{s} lies in {o}", "{s} belongs to {o}", "{s} is a part of {o}"),
    ),
    Relation(
        "population", "city", "population",
        ("has a population of", "counts"),
        ("is the population of", "was counted in"),
        ("the population of {s} is {o}", "{s} has a population of {o}", "{s} has {o} people"),
        ("has fewer people", "has more people"),
    ),
    Relation(
        "born", "person", "city",
        ("was born in", "comes from"),
        ("is the birthplace of", "is the home town of"),
        ("{s} was born in {o}", "the birthplace of {s} is {o}", "{s} comes from {o}"),
    ),
    Relation(
        "birth_year", "person", "year",
        ("was born during", "entered the world in"),
        ("saw the birth of", "is the birth year of"),
        ("{s} was born during {o}", "the birth year of {s} is {o}", "{s} entered the world in {o}"),
        ("was born earlier", "was born later"),
    ),
    Relation(
        "studied", "person", "school",
        ("studied at", "is a graduate of"),
        ("educated", "is the old school of"),
        ("{s} studied at {o}", "{s} is a graduate of {o}", "the old school of {s} is {o}"),
    ),
    Relation(
        "wrote", "book", "person",
        ("was written by", "has the author"),
        ("wrote", "is the author of"),
        ("{s} was written by {o}", "the author of {s} is {o}", "{s} has the author {o}"),
    ),
    Relation(
        "set", "book", "city",
        ("is set in", "tells of"),
        ("is the scene of", "is described in"),
        ("{s} is set in {o}", "the scene of {s} is {o}", "{s} tells of {o}"),
    ),
    Relation(
        "publication", "book", "year",
        ("was published in", "appeared in"),
        ("saw the publication of", "is the publication year of"),
        ("{s} was published in {o}", "the publication year of {s} is {o}", "{s} appeared in {o}"),
        ("was published earlier", "was published later"),
    ),
    Relation(
        "founded", "company", "person",
        ("was founded by", "has the founder"),
        ("founded", "is the founder of"),
        ("{s} was founded by {o}", "the founder of {s} is {o}", "{s} has the founder {o}"),
    ),
    Relation(
        "based", "company", "city",
        ("is based in", "has its office in"),
        ("is the base of", "houses the office of"),
        ("{s} is based in {o}", "the base of {s} is {o}", "the office of {s} is in {o}"),
    ),
    Relation(
        "founding", "company", "year",
        ("was founded in", "dates from"),
        ("saw the founding of", "is the founding year of"),
        ("{s} was founded in {o}", "the founding year of {s} is {o}", "{s} dates from {o}"),
        ("was founded earlier", "was founded later"),
    ),
    Relation(
        "flows", "river", "city",
        ("flows through", "crosses"),
        ("is crossed by", "lies on"),
        ("{s} flows through {o}", "{s} crosses {o}", "{s} runs through {o}"),
    ),
    Relation(
        "length", "river", "length",
        ("has a length of", "measures"),
        ("is the length of", "was measured for"),
        ("the length of {s} is {o}", "{s} has a length of {o}", "{s} measures {o}"),
        ("is shorter", "is longer"),
    ),
    Relation(
        "site", "school", "city",
        ("stands in", "has its campus in"),
        ("is the site of", "has the campus of"),
        ("{s} stands in {o}", "the campus of {s} is in {o}", "{s} has its campus in {o}"),
    ),
    Relation(
        "opening", "school", "year",
        ("was opened in", "exists since"),
        ("saw the opening of", "is the opening year of"),
        ("{s} was opened in {o}", "the opening year of {s} is {o}", "{s} exists since {o}"),
        ("was opened earlier", "was opened later"),
    ),
    Relation(
        "directed", "film", "person",
        ("was directed by", "has the director"),
        ("directed", "is the director of"),
        ("{s} was directed by {o}", "the director of {s} is {o}", "{s} has the director {o}"),
    ),
    Relation(
        "adapted", "film", "book",
        ("is based on", "adapts"),
        ("inspired", "is the source of"),
        ("{s} is based on {o}", "the source of {s} is {o}", "{s} adapts {o}"),
    ),
    Relation(
        "release", "film", "year",
        ("was released in", "came out in"),
        ("saw the release of", "is the release year of"),
        ("{s} was released in {o}", "the release year of {s} is {o}", "{s} came out in {o}"),
        ("was released earlier", "was released later"),
    ),
)  # fmt: skip

RELATION: Final[dict[str, Relation]] = {relation.name: relation for relation in RELATIONS}
BY_SUBJECT: Final[dict[str, tuple[Relation, ...]]] = {
    kind: tuple(relation for relation in RELATIONS if relation.subject == kind) for kind in ENTITY_SHARES
}
TYPES: Final[tuple[str, ...]] = (*ENTITY_SHARES, *VALUES)
