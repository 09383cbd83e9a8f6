"""The oracle: what is exactly true about a question, in a world or in some passages; never part of what a policy sees.

``OracleReader`` reads the facts of the given passages alone. Without errors it is the strongest gate an experiment can
have. Since more passages can only add facts, distractors never change the answer of a question that has one answer in
its world. With errors it stands for a weaker reader whose strength is known exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import product
from typing import Final, Literal

import numpy as np

from ssp_env.types import Passage, Reading, ReadingCase
from ssp_env.world.facts import FactBase, ShownFacts
from ssp_env.world.language import Clause, Comparison, Description, Name, Noun, Question, parse
from ssp_env.world.names import display

UNKNOWN = "unknown"
Proofs = dict[str, frozenset[frozenset[str]]]
"""Per answer the sets of entities whose passages together prove it."""

_MAX_PROOFS: Final = 64


def answer_set(question: Question, facts: FactBase) -> tuple[str, ...]:
    """Return all lower-case answers that the facts give, sorted.

    A comparison has an answer only if both sides name exactly one thing each, the things differ and so do their
    numbers.
    """
    return tuple(sorted(proofs(question, facts)))


def proofs(question: Question, facts: FactBase) -> Proofs:
    """Return every answer with its proofs, each a set of entities whose passages suffice for it.

    At most the 64 smallest proofs of each intermediate answer are followed, far more than unique questions have.
    """
    if isinstance(question, Comparison):
        return _comparison(question, facts)
    return _description(question, facts)


def _noun(noun: Noun, facts: FactBase) -> Proofs:
    if isinstance(noun, Description):
        return _description(noun, facts)
    name = facts.resolve(noun.text)
    return {name: frozenset({frozenset({name} if name != noun.text else ())})}


def _description(description: Description, facts: FactBase) -> Proofs:
    found = _clause(description.clauses[0], facts)
    for clause in description.clauses[1:]:
        other = _clause(clause, facts)
        found = {name: _join(found[name], other[name]) for name in found if name in other}
    return found


def _clause(clause: Clause, facts: FactBase) -> Proofs:
    found: dict[str, list[frozenset[str]]] = {}
    for name, sets in _noun(clause.noun, facts).items():
        for answer in facts.find(clause.relation, clause.sought, name):
            subject = answer if clause.sought == "subject" else name
            found.setdefault(answer, []).extend(proof | {subject} for proof in sets)
    return {name: _smallest(sets) for name, sets in found.items()}


def _comparison(question: Comparison, facts: FactBase) -> Proofs:
    sides = []
    for noun in (question.left, question.right):
        found = _noun(noun, facts)
        if len(found) != 1:
            return {}
        ((name, sets),) = found.items()
        numbers = facts.find(question.relation, "object", name)
        if len(numbers) != 1:
            return {}
        sides.append((int(numbers[0]), name, _smallest(proof | {name} for proof in sets)))
    sides.sort(key=lambda side: side[0], reverse=question.larger)
    (first, name, left), (second, _, right) = sides
    return {} if first == second else {name: _join(left, right)}


def _join(left: frozenset[frozenset[str]], right: frozenset[frozenset[str]]) -> frozenset[frozenset[str]]:
    return _smallest(one | other for one, other in product(left, right))


def _smallest(sets: Iterable[frozenset[str]]) -> frozenset[frozenset[str]]:
    return frozenset(sorted(set(sets), key=lambda proof: (len(proof), sorted(proof)))[:_MAX_PROOFS])


def leaves(question: Question) -> tuple[str, ...]:
    """Return the names and numbers a question mentions, lower-case, in reading order."""
    nouns: tuple[Noun, ...]
    if isinstance(question, Comparison):
        nouns = (question.left, question.right)
    else:
        nouns = tuple(clause.noun for clause in question.clauses)
    return tuple(name for noun in nouns for name in ((noun.text,) if isinstance(noun, Name) else leaves(noun)))


def n_clauses(question: Noun | Question) -> int:
    """Return how many facts a question chains together; the two numbers of a comparison count one each."""
    if isinstance(question, Name):
        return 0
    if isinstance(question, Comparison):
        return 2 + n_clauses(question.left) + n_clauses(question.right)
    return sum(1 + n_clauses(clause.noun) for clause in question.clauses)


class Oracle:
    """Exact truths about question texts in one world."""

    def __init__(self, facts: FactBase) -> None:
        """Answer from ``facts``, usually a ``World``."""
        self._facts = facts

    def answers(self, question: str) -> tuple[str, ...] | None:
        """Return all answers, lower-case and sorted, or None when the text is no question of the language."""
        parsed = parse(question)
        return None if parsed is None else answer_set(parsed, self._facts)

    def is_unique(self, question: str) -> bool:
        """Return whether the question has exactly one answer."""
        return len(self.answers(question) or ()) == 1

    def n_hops(self, question: str) -> int | None:
        """Return the fewest passages that prove the answer; None unless the question has exactly one answer."""
        parsed = parse(question)
        found = {} if parsed is None else proofs(parsed, self._facts)
        return min(len(proof) for sets in found.values() for proof in sets) if len(found) == 1 else None

    def implied(self, question: str, passages: Iterable[Passage]) -> tuple[str, ...]:
        """Return the answers that the passages alone give, lower-case and sorted."""
        parsed = parse(question)
        return () if parsed is None else answer_set(parsed, ShownFacts(passages))

    def suffices(self, question: str, passages: Iterable[Passage]) -> bool:
        """Return whether the passages alone give exactly the one true answer."""
        truth = self.answers(question)
        return truth is not None and len(truth) == 1 and self.implied(question, passages) == truth


class OracleReader:
    """Answers what the passages prove, and ``unknown`` otherwise (a ``Reader``)."""

    def __init__(
        self, *, ambiguous: Literal["unknown", "first"] = "unknown", error: float = 0.0, seed: int = 0
    ) -> None:
        """Choose a reader.

        Args:
            ambiguous: What happens when the passages prove several answers: none is given, or the first by name.
            error: Share of cases in 0 .. 1 in which a random name out of the passages is given instead, whatever they
                prove. Question and passages, in any order, decide which cases these are.
            seed: Another seed, other cases.

        Raises:
            ValueError: If ``error`` is out of range.
        """
        if not 0.0 <= error <= 1.0:
            raise ValueError(f"expected an error rate in 0 .. 1, got {error!r}")
        self._ambiguous = ambiguous
        self._error = error
        self._seed = seed

    def read(self, cases: Sequence[ReadingCase]) -> list[Reading]:
        """Return one reading per case, in order."""
        return [Reading(self._answer(case)) for case in cases]

    def _answer(self, case: ReadingCase) -> str:
        shown = ShownFacts(case.passages)
        if self._error:
            key = repr((self._seed, case.question, case.ask_for_all, sorted(p.id for p in case.passages)))
            rng = np.random.default_rng(list(blake2b(key.encode(errors="replace"), digest_size=16).digest()))
            if rng.random() < self._error:
                return _guess(shown, rng)
        question = parse(case.question)
        answers = () if question is None else answer_set(question, shown)
        if case.ask_for_all and answers:
            return "; ".join(map(display, answers))
        if not answers or (len(answers) > 1 and self._ambiguous == "unknown"):
            return UNKNOWN
        return display(answers[0])


def _guess(shown: ShownFacts, rng: np.random.Generator) -> str:
    facts = [fact for entity in shown.entities.values() for fact in entity.facts]
    names = sorted({*shown.entities, *(fact.object for fact in facts)})
    return display(names[int(rng.integers(len(names)))]) if names else UNKNOWN
