"""The question language: a small syntax tree, rendered to English in several wordings and parsed back.

Grammar (``|`` alternatives, ``[]`` optional)::

    question    = ("which" | "what") type (clause [[","] "and" clause] | comparative "," noun "or" noun) ["?"]
    noun        = name | "the" type "that" clause ["and" clause]
    clause      = phrase noun

A plain "and" adds a condition to the innermost noun, so its first condition must end in a name; ", and" adds one to
the question itself. Both together make every question readable in one way only. Text that is not a question of this
language parses to None, quickly, whatever it is. No claim to understand English is made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ssp_env.world.names import WORDS, display
from ssp_env.world.relations import RELATION, RELATIONS, TYPES, VALUES, Sought

MAX_CHARS: Final = 2000
MAX_DEPTH: Final = 8


@dataclass(frozen=True, slots=True)
class Name:
    """A name or number, lower-case."""

    text: str


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition: the sought thing is the ``sought`` end of ``relation`` whose other end is ``noun``.

    ``wording`` says which of the phrases was read or is to be written; it does not count in comparisons.
    """

    relation: str
    sought: Sought
    noun: Noun
    wording: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Description:
    """The things of a type that meet one or two conditions."""

    type: str
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The one of two things whose number is smaller, or larger."""

    relation: str
    larger: bool
    left: Noun
    right: Noun


Noun = Name | Description
Question = Description | Comparison

_Phrase = tuple[list[str], str, Sought, int]
_Comparative = tuple[list[str], str, bool]
_WORDS: Final = frozenset(WORDS)
_NUMBERS: Final = frozenset(value for values in VALUES.values() for value in values)
_ALLOWED: Final = re.compile(r"[A-Za-z0-9?,\s]+", re.ASCII)
_TOKEN: Final = re.compile(r"[a-z0-9]+|[?,]")


def _phrase_tables() -> tuple[dict[str, list[_Phrase]], dict[str, list[_Comparative]]]:
    phrases: dict[str, list[_Phrase]] = {kind: [] for kind in TYPES}
    comparatives: dict[str, list[_Comparative]] = {kind: [] for kind in TYPES}
    for relation in RELATIONS:
        for wording, text in enumerate(relation.find_subject):
            phrases[relation.subject].append((text.split(), relation.name, "subject", wording))
        for wording, text in enumerate(relation.find_object):
            phrases[relation.object].append((text.split(), relation.name, "object", wording))
        for larger, text in enumerate(relation.comparatives or ()):
            comparatives[relation.subject].append((text.split(), relation.name, bool(larger)))
    for table in phrases.values():
        table.sort(key=lambda entry: -len(entry[0]))
    return phrases, comparatives


_PHRASES, _COMPARATIVES = _phrase_tables()


def parse(text: str) -> Question | None:
    """Return the question that a text asks, or None when it is no question of this language.

    Case and the spacing of punctuation do not matter; the final question mark may be missing. Texts of more than
    2,000 characters and nestings deeper than 8 are refused, so that hostile input costs next to nothing.
    """
    if len(text) > MAX_CHARS or not _ALLOWED.fullmatch(text):
        return None
    tokens = _TOKEN.findall(text.lower())
    if tokens and tokens[-1] == "?":
        tokens.pop()
    try:
        return _Parser(tokens).question()
    except _NoParse:
        return None


class _NoParse(Exception):
    """Raised inside the parser only."""


class _Parser:
    """Recursive descent over the tokens; every method consumes what it returns or raises."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0

    def question(self) -> Question:
        self.one_of("which", "what")
        kind = self.one_of(*TYPES)
        question: Question
        for words, relation, larger in _COMPARATIVES[kind]:
            if self.accept([*words, ","]):
                left = self.noun(1)
                self.one_of("or")
                question = Comparison(relation, larger, left, self.noun(1))
                break
        else:
            clauses = self.clauses(kind, 0)
            if len(clauses) == 1 and self.accept([",", "and"]):
                clauses = (*clauses, self.clause(kind, 0))
            question = Description(kind, clauses)
        if self.position != len(self.tokens):
            raise _NoParse
        return question

    def clauses(self, kind: str, depth: int) -> tuple[Clause, ...]:
        first = self.clause(kind, depth)
        if isinstance(first.noun, Name) and self.accept(["and"]):
            return (first, self.clause(kind, depth))
        return (first,)

    def clause(self, kind: str, depth: int) -> Clause:
        for words, relation, sought, wording in _PHRASES[kind]:
            if self.accept(words):
                return Clause(relation, sought, self.noun(depth + 1), wording)
        raise _NoParse

    def noun(self, depth: int) -> Noun:
        if self.accept(["the"]):
            if depth >= MAX_DEPTH:
                raise _NoParse
            kind = self.one_of(*TYPES)
            self.one_of("that")
            return Description(kind, self.clauses(kind, depth))
        if self.peek() in _NUMBERS:
            return Name(self.one_of(self.peek()))
        words: list[str] = []
        while len(words) < 3 and self.peek() in _WORDS:
            words.append(self.one_of(self.peek()))
        if not words:
            raise _NoParse
        return Name(" ".join(words))

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def accept(self, words: list[str]) -> bool:
        end = self.position + len(words)
        if self.tokens[self.position : end] != words:
            return False
        self.position = end
        return True

    def one_of(self, *words: str) -> str:
        token = self.peek()
        if token not in words:
            raise _NoParse
        self.position += 1
        return token


def render(question: Question, rng: np.random.Generator | None = None) -> str:
    """Return a question in English, in the wordings its clauses name or in wordings drawn with ``rng``.

    Raises:
        ValueError: If the question cannot be said unambiguously (a noun with two conditions of which the first is
            nested).
    """
    opener = _pick(("Which", "What"), rng)
    if isinstance(question, Comparison):
        relation = RELATION[question.relation]
        phrase = (relation.comparatives or ("", ""))[question.larger]
        left, right = (_noun(noun, rng) for noun in (question.left, question.right))
        return f"{opener} {relation.subject} {phrase}, {left} or {right}?"
    clauses = [_clause(clause, rng) for clause in question.clauses]
    joint = " and " if isinstance(question.clauses[0].noun, Name) else ", and "
    return f"{opener} {question.type} {joint.join(clauses)}?"


def phrases(clause: Clause) -> tuple[str, ...]:
    """Return all wordings of a clause without its noun, the clause's own first."""
    relation = RELATION[clause.relation]
    options = relation.find_subject if clause.sought == "subject" else relation.find_object
    return (options[clause.wording], *options[: clause.wording], *options[clause.wording + 1 :])


def _clause(clause: Clause, rng: np.random.Generator | None) -> str:
    return f"{_pick(phrases(clause), rng)} {_noun(clause.noun, rng)}"


def _noun(noun: Noun, rng: np.random.Generator | None) -> str:
    if isinstance(noun, Name):
        return display(noun.text)
    if len(noun.clauses) == 2 and not isinstance(noun.clauses[0].noun, Name):
        raise ValueError(f"expected a plain name in the first of two conditions, got {noun!r}; swap the conditions")
    return f"the {noun.type} that {' and '.join(_clause(clause, rng) for clause in noun.clauses)}"


def _pick(options: tuple[str, ...], rng: np.random.Generator | None) -> str:
    return options[0] if rng is None else options[int(rng.integers(len(options)))]
