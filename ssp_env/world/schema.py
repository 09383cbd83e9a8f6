"""What exists in a generated world: types, relations, and the words for them.

Every relation maps a subject to exactly one object; its fact stands in the subject's passage and nowhere else. Years,
lengths and populations are objects like any other, so a number can be asked for, be a condition, or join two facts.
``find_subject`` phrases follow the subject's type in a question ("book *was written by* X"), ``find_object`` phrases
follow the object's type ("person *wrote* X"). Sentences use ``{it}`` and ``{its}`` for the subject, ``{o}`` for the
object. Adding a relation is one entry in ``RELATIONS``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


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
ALIASES: Final = ("{it} is also called {o}", "another name of {s} is {o}")

RELATIONS: Final[tuple[Relation, ...]] = (
    Relation(
        "capital", "country", "city",
        ("has the capital", "is governed from"),
        ("is the capital of", "is the seat of government of"),
        ("{its} capital is {o}", "{it} is governed from {o}", "{o} is the capital"),
    ),
    Relation(
        "leader", "country", "person",
        ("is led by", "has the president"),
        ("leads", "is the president of"),
        ("{its} president is {o}", "{it} is led by {o}", "{o} leads the country"),
    ),
    Relation(
        "lies", "city", "country",
        ("lies in", "belongs to"),
        ("contains", "includes"),
        ("{it} lies in {o}", "{it} belongs to {o}", "{it} is a part of {o}"),
    ),
    Relation(
        "population", "city", "population",
        ("has a population of", "counts"),
        ("is the population of", "was counted in"),
        ("{its} population is {o}", "{it} has a population of {o}", "{o} people live there"),
        ("has fewer people", "has more people"),
    ),
    Relation(
        "born", "person", "city",
        ("was born in", "comes from"),
        ("is the birthplace of", "is the home town of"),
        ("{it} was born in {o}", "{its} birthplace is {o}", "{it} comes from {o}"),
    ),
    Relation(
        "birth_year", "person", "year",
        ("was born during", "entered the world in"),
        ("saw the birth of", "is the birth year of"),
        ("{it} was born during {o}", "{its} birth year is {o}", "{it} entered the world in {o}"),
        ("was born earlier", "was born later"),
    ),
    Relation(
        "studied", "person", "school",
        ("studied at", "is a graduate of"),
        ("educated", "is the old school of"),
        ("{it} studied at {o}", "{it} is a graduate of {o}", "{its} old school is {o}"),
    ),
    Relation(
        "taught", "person", "person",
        ("was taught by", "is a pupil of"),
        ("taught", "was the teacher of"),
        ("{it} was taught by {o}", "{its} teacher was {o}", "{it} is a pupil of {o}"),
    ),
    Relation(
        "wrote", "book", "person",
        ("was written by", "has the author"),
        ("wrote", "is the author of"),
        ("{it} was written by {o}", "{its} author is {o}", "{o} wrote {it}"),
    ),
    Relation(
        "set", "book", "city",
        ("is set in", "tells of"),
        ("is the scene of", "is described in"),
        ("{it} is set in {o}", "{its} scene is {o}", "{it} tells of {o}"),
    ),
    Relation(
        "publication", "book", "year",
        ("was published in", "appeared in"),
        ("saw the publication of", "is the publication year of"),
        ("{it} was published in {o}", "{its} publication year is {o}", "{it} appeared in {o}"),
        ("was published earlier", "was published later"),
    ),
    Relation(
        "founded", "company", "person",
        ("was founded by", "has the founder"),
        ("founded", "is the founder of"),
        ("{it} was founded by {o}", "{its} founder is {o}", "{o} founded {it}"),
    ),
    Relation(
        "based", "company", "city",
        ("is based in", "has its office in"),
        ("is the base of", "houses the office of"),
        ("{it} is based in {o}", "{its} base is {o}", "{its} office is in {o}"),
    ),
    Relation(
        "founding", "company", "year",
        ("was founded in", "dates from"),
        ("saw the founding of", "is the founding year of"),
        ("{it} was founded in {o}", "{its} founding year is {o}", "{it} dates from {o}"),
        ("was founded earlier", "was founded later"),
    ),
    Relation(
        "flows", "river", "city",
        ("flows through", "crosses"),
        ("is crossed by", "lies on"),
        ("{it} flows through {o}", "{it} crosses {o}", "{o} lies on {it}"),
    ),
    Relation(
        "length", "river", "length",
        ("has a length of", "measures"),
        ("is the length of", "was measured for"),
        ("{its} length is {o}", "{it} has a length of {o}", "{it} measures {o}"),
        ("is shorter", "is longer"),
    ),
    Relation(
        "site", "school", "city",
        ("stands in", "has its campus in"),
        ("is the site of", "has the campus of"),
        ("{it} stands in {o}", "{its} campus is in {o}", "{o} is {its} site"),
    ),
    Relation(
        "opening", "school", "year",
        ("was opened in", "exists since"),
        ("saw the opening of", "is the opening year of"),
        ("{it} was opened in {o}", "{its} opening year is {o}", "{it} exists since {o}"),
        ("was opened earlier", "was opened later"),
    ),
    Relation(
        "directed", "film", "person",
        ("was directed by", "has the director"),
        ("directed", "is the director of"),
        ("{it} was directed by {o}", "{its} director is {o}", "{o} directed {it}"),
    ),
    Relation(
        "adapted", "film", "book",
        ("is based on", "adapts"),
        ("inspired", "is the source of"),
        ("{it} is based on {o}", "{its} source is {o}", "{it} adapts {o}"),
    ),
    Relation(
        "release", "film", "year",
        ("was released in", "came out in"),
        ("saw the release of", "is the release year of"),
        ("{it} was released in {o}", "{its} release year is {o}", "{it} came out in {o}"),
        ("was released earlier", "was released later"),
    ),
)  # fmt: skip

RELATION: Final[dict[str, Relation]] = {relation.name: relation for relation in RELATIONS}
BY_SUBJECT: Final[dict[str, tuple[Relation, ...]]] = {
    kind: tuple(relation for relation in RELATIONS if relation.subject == kind) for kind in ENTITY_SHARES
}
TYPES: Final[tuple[str, ...]] = (*ENTITY_SHARES, *VALUES)
