"""Scripted players of the generated world: proposer, solver and reader in one ``Agent``.

They see what any agent sees, the prompt and the observations, and never the world: questions are parsed, facts are
read out of the shown passages. They work with every prompt set that has a line ``Question: ...`` (solver, reader) or
the lines ``Answer: ...`` and ``Searches: n`` (proposer) and shows passages as ``Doc i (Title: T) text``. Their play
is the teacher of the tiny policy's warm start.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np

from ssp_env.types import Completion, Conversation, Passage, Sampling
from ssp_env.world.facts import Fact, ShownFacts
from ssp_env.world.language import Clause, Comparison, Description, Name, Noun, Question, parse, phrases, render
from ssp_env.world.names import display
from ssp_env.world.oracle import UNKNOWN, answer_set, n_clauses
from ssp_env.world.relations import RELATION, VALUES, Sought

_DOC: Final = re.compile(r"^\s*doc \d+ \(title: (.*?)\) (.*)$", re.IGNORECASE | re.MULTILINE)
_SEARCH: Final = re.compile(r"<search>([^<>]*)</search>")
_AMBIGUOUS: Final = ("lies", "studied")
PATIENCE_SPREAD: Final = 0.3
"""How far the patience for one kind of fact may lie from its mean."""


def shown_passages(text: str) -> list[Passage]:
    """Return the passages shown in a prompt or an observation; their ids are empty."""
    return [Passage("", title, body) for title, body in _DOC.findall(text)]


class ExpertAgent:
    """Plays whatever role the prompt asks for, by script (an ``Agent``)."""

    def __init__(
        self,
        *,
        seed: int = 0,
        max_hops: int = 8,
        max_searches: int = 12,
        patience: float | None = None,
        proposer_patience: float | None = None,
    ) -> None:
        """Set the seed and the skill.

        Args:
            seed: Decides all free choices, together with the prompt and the seed of the call.
            max_hops: A question of more facts is answered with ``unknown``, and longer chains are not proposed.
            max_searches: After so many searches the solver gives up.
            patience: Mean probability that a solver who has searched in vain or has one more fact to find searches
                again instead of giving up; it differs by up to ``PATIENCE_SPREAD`` between the kinds of fact to be
                found. None: the solver always goes on.
            proposer_patience: Probability, after each search, that a proposer who owes further ones makes them instead
                of asking about what it has seen. None: it makes as many as it was told.

        Raises:
            ValueError: If a patience is not in 0 .. 1.
        """
        for given in (patience, proposer_patience):
            if given is not None and not 0 <= given <= 1:
                raise ValueError(f"expected a patience in 0 .. 1, or None, got {given!r}")
        self._seed = seed
        self._max_hops = max_hops
        self._max_searches = max_searches
        self._patience = patience
        self._proposer_patience = proposer_patience

    def complete(self, conversations: Sequence[Conversation], *, sampling: Sampling) -> list[Completion]:
        """Return one completion per conversation, in order; temperature and length limits do not apply."""
        return [Completion(self._reply(conversation, sampling.seed)) for conversation in conversations]

    def _reply(self, conversation: Conversation, seed: int | None) -> str:
        prompt = conversation.prompt[-1]["content"]
        queries = tuple(q.strip().lower() for turn in conversation.turns for q in _SEARCH.findall(turn.completion.text))
        seen = [p for turn in conversation.turns for p in shown_passages(turn.observation)]
        n_searches, answer = _line("searches", prompt), _line("answer", prompt)
        rng = _rng(f"{self._seed} {seed} {prompt} {queries} {len(conversation.turns)}")
        if n_searches.isdigit() and answer:
            links = min(int(n_searches), self._max_hops)
            if queries and self._proposer_patience is not None and rng.random() >= self._proposer_patience:
                links = min(links, len(queries))
            return _propose(answer.lower(), links, queries, ShownFacts(seen), rng)
        question = parse(_line("question", prompt))
        if question is None or n_clauses(question) > self._max_hops:
            return _answer(UNKNOWN)
        if given := shown_passages(prompt):
            found = answer_set(question, ShownFacts(given))
            return _answer(found[0] if len(found) == 1 else UNKNOWN)
        try:
            return _answer(_work_out(question, ShownFacts(seen)))
        except _Missing as missing:
            fresh = [query for query in missing.queries if query not in queries]
            go_on = len(queries) < self._max_searches and (not queries or self._goes_on(missing.fact, rng))
            return _search(fresh[0]) if fresh and go_on else _answer(UNKNOWN)

    def _goes_on(self, fact: str, rng: np.random.Generator) -> bool:
        """Draw whether the solver searches once more, for this kind of fact."""
        if self._patience is None:
            return True
        return rng.random() < self._patience + PATIENCE_SPREAD * (2 * _rng(fact).random() - 1)


def _rng(key: str) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "little"))


def _line(label: str, text: str) -> str:
    """Return what follows the label on its last line in the text, or an empty string."""
    found = re.findall(rf"^[ \t]*{label}:[ \t]*(.+?)[ \t]*$", text, re.IGNORECASE | re.MULTILINE)
    return found[-1] if found else ""


def _answer(name: str) -> str:
    return f"<answer> {display(name)} </answer>"


def _search(query: str) -> str:
    return f"<search> {query} </search>"


class _Missing(Exception):
    """Raised while a question is worked out: a fact of this kind is missing; these queries, best first, may find it."""

    def __init__(self, fact: str, queries: Sequence[str]) -> None:
        super().__init__(fact, *queries)
        self.fact = fact
        self.queries = tuple(queries)


def _work_out(question: Noun | Question, facts: ShownFacts) -> str:
    """Return the name that answers; of several the first, as far as the facts go."""
    if isinstance(question, Name):
        return facts.resolve(question.text)
    if isinstance(question, Comparison):
        return _compare(question, facts)
    names = [_work_out(clause.noun, facts) for clause in question.clauses]
    sets = [facts.find(c.relation, c.sought, name) for c, name in zip(question.clauses, names, strict=True)]
    both = [name for name in sets[0] if all(name in others for others in sets[1:])]
    if not both:
        kind = " ".join(f"{clause.relation} {clause.sought}" for clause in question.clauses)
        raise _Missing(kind, _queries(question, names))
    return both[0]


def _queries(description: Description, names: Sequence[str]) -> list[str]:
    """Return queries for a description whose nouns are worked out: type and names alone, then in each wording.

    The type and the names find the passage among the first two in 99 of 100 cases, the full wording in 87 to 99.
    """
    wordings = zip(*(phrases(clause) for clause in description.clauses), strict=True)
    said = [
        " ".join([description.type, *(f"{words} {name}" for words, name in zip(wording, names, strict=True))])
        for wording in wordings
    ]
    return [" ".join([description.type, *names]), *said, *names]


def _compare(question: Comparison, facts: ShownFacts) -> str:
    sides = []
    for noun in (question.left, question.right):
        name = _work_out(noun, facts)
        numbers = facts.find(question.relation, "object", name)
        if not numbers:
            raise _Missing(f"{question.relation} object", [f"{RELATION[question.relation].subject} {name}", name])
        sides.append((int(numbers[0]), name))
    pick = max if question.larger else min
    return pick(sides)[1]


@dataclass(frozen=True, slots=True)
class _Link:
    """A fact that describes one thing, the sought one, by another."""

    fact: Fact
    sought: Sought

    @property
    def other(self) -> str:
        return self.fact.object if self.sought == "subject" else self.fact.subject

    @property
    def type(self) -> str:
        relation = RELATION[self.fact.relation]
        return relation.subject if self.sought == "subject" else relation.object

    @property
    def weight(self) -> float:
        """How much a link is liked: those that usually fit one thing only are preferred."""
        relation = RELATION[self.fact.relation]
        if self.sought == "object":
            return 2.0
        return 0.1 if relation.object in VALUES or relation.name in _AMBIGUOUS else 0.7


def _propose(answer: str, n_links: int, queries: Sequence[str], facts: ShownFacts, rng: np.random.Generator) -> str:
    """Search the answer, then follow one fact a search, and ask for the chain read backwards.

    On the way facts are preferred that lead on to a thing whose own passage is still to be seen.
    """
    if not queries:
        return _search(display(answer))
    things = [facts.resolve(answer), *queries[1:]]
    chain: list[_Link] = []
    for thing, other in zip(things, things[1:], strict=False):
        chain += [link for link in _links(thing, chain, facts) if link.other == other][:1]
    is_last = len(things) >= n_links
    open_links = [
        link
        for link in _links(things[-1], chain, facts)
        if link.other not in things and (is_last or not link.other.isdigit())
    ]
    if open_links:
        weights = np.array([link.weight * (1.0 if is_last or link.sought == "subject" else 0.3) for link in open_links])
        chain.append(open_links[int(rng.choice(len(open_links), p=weights / weights.sum()))])
        if not is_last:
            return _search(display(chain[-1].other))
    return f"<question> {_chain_question(chain, rng)} </question>"


def _links(thing: str, chain: Sequence[_Link], facts: ShownFacts) -> list[_Link]:
    """Return the facts about a thing that fit nothing else shown, best first; new passages only, if there are any."""
    facts_said = [fact for said in facts.entities.values() for fact in said.facts]
    links = [_Link(fact, "subject") for fact in facts_said if fact.subject == thing]
    links += [_Link(fact, "object") for fact in facts_said if fact.object == thing]
    links = [x for x in links if facts.find(x.fact.relation, x.sought, x.other) == (thing,)]
    used = {link.fact.subject for link in chain}
    links = [link for link in links if link.fact.subject not in used] or links
    return sorted(links, key=lambda link: (-link.weight, link.fact.relation, link.other))


def _chain_question(chain: Sequence[_Link], rng: np.random.Generator) -> str:
    if not chain:
        return UNKNOWN
    noun: Noun = Name(chain[-1].other)
    for link in reversed(chain):
        noun = Description(link.type, (Clause(link.fact.relation, link.sought, noun),))
    assert isinstance(noun, Description)
    return render(noun, rng)
