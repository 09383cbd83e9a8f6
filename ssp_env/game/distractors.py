"""Passages that are mixed into what a reader is shown.

They are evidence of other proposals of the same batch and corpus: ``n_distractors`` passages (paper) or whole
evidence bundles (released code). Single passages that fall short are drawn from the corpus at random; bundles are made
up of what a search for the title of a random passage finds. A passage of the proposal's own evidence is never a
distractor, and neither is one that contains the answer: it has to come out of the evidence, not out of luck.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np

from ssp_env.errors import ConfigError
from ssp_env.game.game import Game
from ssp_env.text import leaks
from ssp_env.types import Answer, Passage, Trajectory

CORPUS_DRAWS = 64
"""Most random passages that single distractors are taken from, and bundles of one retrieval call."""
BUNDLE_CALLS = 4
"""Most retrieval calls that bundles are made up with."""
QUERY_CHARS = 100
"""How much of a passage without a title is searched for."""


def with_distractors(
    game: Game, trajectory: Trajectory, others: Sequence[Trajectory], rng: np.random.Generator
) -> tuple[Passage, ...]:
    """Return the evidence of a proposal and distractors, by the rules of the game, in random order."""
    if game.rules.distractor_unit == "bundle":
        return _with_bundles(game, trajectory, others, rng)
    return shuffled([*trajectory.evidence, *passage_distractors(game, trajectory, others, rng)], rng)


def passage_distractors(
    game: Game,
    trajectory: Trajectory,
    others: Sequence[Trajectory],
    rng: np.random.Generator,
    *,
    first: Iterable[Passage] = (),
) -> list[Passage]:
    """Return up to ``n_distractors`` passages: of ``first``, then of the others' evidence, then of the corpus."""
    candidates = chain(first, _evidence_of(others, rng), _random_passages(game, rng))
    return list(islice(without_answer(candidates, trajectory), game.rules.n_distractors))


def shuffled(passages: Sequence[Passage], rng: np.random.Generator) -> tuple[Passage, ...]:
    """Return the passages in random order."""
    return tuple(passages[i] for i in rng.permutation(len(passages)))


def _with_bundles(
    game: Game, trajectory: Trajectory, others: Sequence[Trajectory], rng: np.random.Generator
) -> tuple[Passage, ...]:
    bundles = [trajectory.evidence]
    for i in rng.permutation(len(others)):
        if len(bundles) > game.rules.n_distractors:
            break
        if bundle := tuple(without_answer(others[i].evidence, trajectory)):
            bundles.append(bundle)
    bundles += _random_bundles(game, trajectory, game.rules.n_distractors + 1 - len(bundles), rng)
    ordered = chain.from_iterable(bundles[i] for i in rng.permutation(len(bundles)))
    return tuple({p.id: p for p in ordered}.values())


def without_answer(passages: Iterable[Passage], trajectory: Trajectory) -> Iterator[Passage]:
    """Yield the distinct passages that are neither evidence of the proposal nor contain its answer."""
    if not isinstance(trajectory.item, Answer):
        raise TypeError(f"expected a proposer's trajectory, got one of role {trajectory.role!r}")
    seen = {p.id for p in trajectory.evidence}
    for passage in passages:
        if passage.id not in seen and not leaks(f"{passage.title} {passage.text}", trajectory.item.accepted):
            seen.add(passage.id)
            yield passage


def _evidence_of(others: Sequence[Trajectory], rng: np.random.Generator) -> Iterator[Passage]:
    """All evidence of the others in random order, one passage of each before the second of any."""
    order = [int(i) for i in rng.permutation(len(others))]
    left: dict[int, list[Passage]] = {}
    while order:
        for i in order:
            if i not in left:
                evidence = others[i].evidence
                left[i] = [evidence[j] for j in rng.permutation(len(evidence))]
            if left[i]:
                yield left[i].pop()
        order = [i for i in order if left[i]]


def _random_passages(game: Game, rng: np.random.Generator) -> Iterator[Passage]:
    """A limited number of random passages, so that a corpus that has none to offer cannot hold up a round."""
    for _ in range(CORPUS_DRAWS if len(game.corpus) else 0):
        yield game.corpus.at(int(rng.integers(len(game.corpus))))


def _random_bundles(
    game: Game, trajectory: Trajectory, n_missing: int, rng: np.random.Generator
) -> list[tuple[Passage, ...]]:
    """Return up to ``n_missing`` bundles; what one retrieval call leaves missing is asked for in the next."""
    bundles: list[tuple[Passage, ...]] = []
    asked: set[str] = set()
    for _ in range(BUNDLE_CALLS if len(game.corpus) else 0):
        n_drawn = min(n_missing - len(bundles), CORPUS_DRAWS)
        drawn = [game.corpus.at(int(rng.integers(len(game.corpus)))) for _ in range(n_drawn)]
        queries = [q for q in dict.fromkeys(p.title or p.text[:QUERY_CHARS] for p in drawn) if q not in asked]
        asked.update(queries)
        if queries and game.retriever is None:
            raise ConfigError("expected a retriever for bundles of distractors, got a game without; give Game one")
        if queries and game.retriever is not None:
            found = game.retriever.search(queries, game.rules.top_k)
            made = (tuple(without_answer((r.passage for r in results), trajectory)) for results in found)
            bundles += filter(None, made)
    return bundles
