"""Rivals: passages that may hold another answer to a proposed question, for the probes of uniqueness.

The first step searches for the question and for the proposer's own queries. A second answer to a question of several
hops often stands where neither leads: it needs another way through the chain. Each further step (``rival_hops``)
searches for the titles of the passages found so far, and so follows those ways link by link.

Not covered: second answers whose passages no such search brings up, or that do not name what links them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest

from ssp_env.errors import ConfigError, RetrievalError
from ssp_env.game import Game
from ssp_env.protocols import Retriever
from ssp_env.rules import proposed_question
from ssp_env.types import Passage, Trajectory

N_FOUND = 10
"""Passages that the question and each query of the proposer fetch."""
N_LINKED = 5
"""Passages that each title fetches."""

Proposal = tuple[Game, Trajectory]


def find_rivals(proposals: Sequence[Proposal]) -> list[list[Passage] | str]:
    """Return, for each proposal, passages that may hold another answer, or what broke the search for them.

    Nearest first: what question and queries find, one passage of each in turn, then what the titles of those find. One
    retrieval call per retriever and step. Empty where no rule asks for them.

    Raises:
        ConfigError: If a game has no retriever and its rules ask for other answers.
    """
    rivals: list[list[Passage] | str] = [[] for _ in proposals]
    by_retriever: dict[int, tuple[Retriever, list[int]]] = {}
    for i, (game, _) in enumerate(proposals):
        if not game.rules.looks_for_rivals:
            continue
        if game.retriever is None:
            raise ConfigError("expected a retriever for the uniqueness probes, got a game without; give Game one")
        by_retriever.setdefault(id(game.retriever), (game.retriever, []))[1].append(i)
    for retriever, members in by_retriever.values():
        try:
            found = _search(retriever, [proposals[i] for i in members])
        except RetrievalError as error:
            found = [str(error)] * len(members)
        for i, passages in zip(members, found, strict=True):
            rivals[i] = passages
    return rivals


def _search(retriever: Retriever, proposals: Sequence[Proposal]) -> list[list[Passage] | str]:
    found: list[dict[str, Passage]] = [{} for _ in proposals]
    asked: list[set[str]] = [set() for _ in proposals]
    for step in range(max(game.rules.rival_hops for game, _ in proposals)):
        queries: list[list[str]] = []
        for (game, trajectory), passages, before in zip(proposals, found, asked, strict=True):
            first = [proposed_question(trajectory), *trajectory.queries]
            wanted = first if step == 0 else [p.title for p in passages.values() if p.title]
            queries.append(
                [q for q in dict.fromkeys(wanted) if q not in before] if step < game.rules.rival_hops else []
            )
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
