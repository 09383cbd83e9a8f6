"""Probes: further readings of a question that passed the gate, each of which can only reject it.

They close holes that the published gate leaves open: a question that needs no passage (``closed_book``), one that
needs fewer passages than were searched for (``not_multi_hop``), and one with several answers (``not_unique``). Every
reading is of the same reader and judged by the same judge as the gate's (``validator``).

*Rivals* are passages that may hold another answer. The first step searches for the question and for the proposer's own
queries. A second answer to a question of several hops often stands where neither leads. So each further step
(``rival_hops``) searches for the titles of the passages found so far, and follows other ways through the chain link by
link. Not found: second answers whose passages no such search brings up, or that do not name what links them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations, islice, zip_longest
from math import comb
from typing import Literal

import numpy as np

from ssp_env.errors import ConfigError, RetrievalError
from ssp_env.game.batching import in_groups
from ssp_env.game.distractors import passage_distractors, shuffled, without_answer
from ssp_env.game.game import Game
from ssp_env.game.proposal import proposed_from, proposed_question
from ssp_env.protocols import Retriever
from ssp_env.types import (
    Answer,
    Passage,
    ReadingCase,
    ReadingKind,
    Reason,
    Trajectory,
    Validation,
)

N_FOUND = 10
"""Passages that the question and each query of the proposer fetch."""
N_LINKED = 5
"""Passages that each title fetches."""

MAX_SUBSETS = 64
"""Most sets of passages that the rule ``chain="passages"`` tries for one question; more are drawn at random."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An ended proposer episode that is to be validated.

    Attributes:
        game: Where it was played.
        trajectory: The episode.
        rng: Draws the gate's distractors and their order.
        probe_rng: Draws those of the probes; it may be the same generator.
        others: Other proposals over the same corpus, from whose evidence distractors are drawn.
    """

    game: Game
    trajectory: Trajectory
    rng: np.random.Generator
    probe_rng: np.random.Generator
    others: Sequence[Trajectory] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """A case to be read for a game and answer, which verdict speaks against the question, and what is wrong then."""

    game: Game
    answer: Answer
    case: ReadingCase
    kind: ReadingKind
    rejects: Literal["correct", "wrong"]
    reason: Reason


def probe_checks(proposals: Sequence[Proposal]) -> list[list[Check] | Validation]:
    """Return the checks that the rules want of what passed the gate; ``failed`` if the search for rivals did."""
    return [
        Validation("failed", error=f"retriever: {found}") if isinstance(found, str) else list(_checks(proposal, found))
        for proposal, found in zip(proposals, find_rivals(proposals), strict=True)
    ]


def find_rivals(proposals: Sequence[Proposal]) -> list[list[Passage] | str]:
    """Return, for each proposal, passages that may hold another answer, or what broke the search for them.

    Nearest first: what question and queries find, one passage of each in turn, then what the titles of those find. One
    retrieval call per retriever and step. Empty where no rule asks for them.
    """
    looking = [i for i, proposal in enumerate(proposals) if proposal.game.rules.looks_for_rivals]
    found = in_groups([proposals[i] for i in looking], lambda proposal: id(proposal.game.retriever), _search_or_say)
    rivals = dict(zip(looking, found, strict=True))
    return [rivals.get(i, []) for i in range(len(proposals))]


def _search_or_say(proposals: Sequence[Proposal]) -> Sequence[list[Passage] | str]:
    retriever = proposals[0].game.retriever
    if retriever is None:
        raise ConfigError("expected a retriever for the uniqueness probes, got a game without; give Game one")
    try:
        return _search(retriever, proposals)
    except RetrievalError as error:
        return [str(error)] * len(proposals)


def _search(retriever: Retriever, proposals: Sequence[Proposal]) -> list[list[Passage]]:
    found: list[dict[str, Passage]] = [{} for _ in proposals]
    asked: list[set[str]] = [set() for _ in proposals]
    for step in range(max(proposal.game.rules.rival_hops for proposal in proposals)):
        queries: list[list[str]] = []
        for proposal, passages, before in zip(proposals, found, asked, strict=True):
            first = [proposed_question(proposal.trajectory), *proposal.trajectory.queries]
            wanted = first if step == 0 else [p.title for p in passages.values() if p.title]
            going = step < proposal.game.rules.rival_hops
            queries.append([q for q in dict.fromkeys(wanted) if q not in before] if going else [])
            before.update(queries[-1])
        if flat := [query for wanted in queries for query in wanted]:
            results = iter(retriever.search(flat, N_LINKED if step else N_FOUND))
            for passages, wanted in zip(found, queries, strict=True):
                ranked = [[result.passage for result in next(results)] for _ in wanted]
                passages.update({p.id: p for p in _in_turn(ranked) if p.id not in passages})
    return [list(passages.values()) for passages in found]


def _in_turn(ranked: Sequence[Sequence[Passage]]) -> Iterable[Passage]:
    """Yield the best of each list, then the second of each, and so on."""
    return (passage for passage in chain.from_iterable(zip_longest(*ranked)) if passage is not None)


def _checks(proposal: Proposal, rivals: Sequence[Passage]) -> Iterator[Check]:
    game, trajectory, rng = proposal.game, proposal.trajectory, proposal.probe_rng
    check = partial(Check, game, proposed_from(trajectory))
    rules = game.rules

    def case(evidence: Sequence[Passage], first: Iterable[Passage] = ()) -> ReadingCase:
        distractors = passage_distractors(game, trajectory, proposal.others, rng, first=first)
        return ReadingCase(proposed_question(trajectory), shuffled([*evidence, *distractors], rng))

    if rules.closed_book_probe:
        yield check(case(()), "closed_book", "correct", "closed_book")
    for part in _parts(game, trajectory, rng):
        yield check(case(part), "chain", "correct", "not_multi_hop")
    for i in range(rules.n_unique_probes):
        turned = [*rivals[i * rules.n_distractors :], *rivals[: i * rules.n_distractors]]
        yield check(case(trajectory.evidence, turned), "unique", "wrong", "not_unique")
    if rules.ask_for_all:
        asking = (
            case(trajectory.evidence, rivals) if not rules.n_rivals else _over_rivals(game, trajectory, rivals, rng)
        )
        yield check(replace(asking, ask_for_all=True), "ask_for_all", "wrong", "not_unique")


def _over_rivals(
    game: Game, trajectory: Trajectory, rivals: Sequence[Passage], rng: np.random.Generator
) -> ReadingCase:
    shown = islice(without_answer(rivals, trajectory), game.rules.n_rivals)
    return ReadingCase(proposed_question(trajectory), shuffled([*trajectory.evidence, *shown], rng))


def _parts(game: Game, trajectory: Trajectory, rng: np.random.Generator) -> list[list[Passage]]:
    """Return the parts of the evidence from which the question must not be answerable."""
    evidence, demanded = trajectory.evidence, proposed_from(trajectory).n_searches
    if game.rules.chain == "searches":
        turns = trajectory.conversation.turns
        found = [{result.passage.id for result in turn.results} for turn in turns if turn.results]
        others = [set().union(*found[:i], *found[i + 1 :]) for i in range(len(found))]
        return [[p for p in evidence if p.id in ids] for ids in others] if len(found) > 1 else []
    if game.rules.chain == "any" or demanded < 2:
        return []
    size = min(demanded - 1, len(evidence))
    if comb(len(evidence), size) <= MAX_SUBSETS:
        return [list(part) for part in combinations(evidence, size)]
    drawn = {tuple(sorted(rng.permutation(len(evidence))[:size].tolist())) for _ in range(MAX_SUBSETS)}
    return [[evidence[i] for i in part] for part in sorted(drawn)]
