"""What the solver plays in the slot of a rejected proposal (SSP appendix B.1; names as in ``GameRules.filling``).

``dummy``: a content-free task. ``reuse`` and ``reset``: a random pooled task per slot, a dummy while the pool has
none. ``resample``: further seeds are proposed for (``selfplay``); a random accepted task of the same batch is copied
for what is still missing then.
``none``: nothing, so that a round may have fewer solves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ssp_env.game import Game
from ssp_env.pool import QuestionPool
from ssp_env.rules import proposed_task
from ssp_env.types import Seed, Task, Trajectory, Validation

DUMMY_QUESTION = "There is no question this time. Close with an answer tag."
POOLED = ("reuse", "reset")
"""The strategies that draw from the pool, and so the only ones that add to it."""
Origin = Literal["fresh", "reused", "dummy", "none"]


@dataclass(frozen=True, slots=True)
class Proposed:
    """A validated proposal and the game it was made in."""

    game: Game
    seed: Seed
    trajectory: Trajectory
    validation: Validation


@dataclass(frozen=True, slots=True)
class Slot:
    """What is played in a slot: the task, the game it belongs to, and where it came from."""

    game: Game
    task: Task | None
    origin: Origin


def fill_slots(
    proposals: Sequence[Proposed],
    filling: str,
    *,
    n_tasks: int,
    pool: QuestionPool,
    games: Mapping[str, Game],
    rng: np.random.Generator,
) -> list[Slot]:
    """Return one slot per proposal: its own task if it was accepted, otherwise what the strategy gives.

    Args:
        proposals: The batch.
        filling: A strategy.
        n_tasks: Tasks to be played; the last slots of rejected proposals that go beyond it stay open.
        pool: The tasks to reuse; only those of corpora in ``games`` can be played.
        games: The games by corpus fingerprint.
        rng: Draws one task per slot, so that repeats within a batch happen.
    """
    fresh = [Slot(p.game, proposed_task(p.seed, p.trajectory), "fresh") for p in proposals if p.validation.ok]
    rejected = [p for p in proposals if not p.validation.ok]
    accepted = iter(fresh)
    n_missing = n_tasks - len(fresh)
    filled = _fillers(rejected[:n_missing], filling, fresh, pool=pool, games=games, rng=rng)
    fillers = iter([*filled, *(Slot(p.game, None, "none") for p in rejected[n_missing:])])
    return [next(accepted) if p.validation.ok else next(fillers) for p in proposals]


def _fillers(
    rejected: Sequence[Proposed],
    filling: str,
    fresh: Sequence[Slot],
    *,
    pool: QuestionPool,
    games: Mapping[str, Game],
    rng: np.random.Generator,
) -> list[Slot]:
    if filling in POOLED:
        drawn = pool.draw(len(rejected), games, rng=rng)
        return [Slot(games[d.corpus], d.task, "reused") for d in drawn] or [_dummy(p) for p in rejected]
    if filling == "dummy":
        return [_dummy(p) for p in rejected]
    if filling == "resample" and fresh:
        copies = [fresh[int(i)] for i in rng.integers(len(fresh), size=len(rejected))]
        return [Slot(copy.game, copy.task, "reused") for copy in copies]
    return [Slot(p.game, None, "none") for p in rejected]


def _dummy(proposed: Proposed) -> Slot:
    seed = proposed.seed
    return Slot(proposed.game, Task(seed.id, DUMMY_QUESTION, seed.answers, "dummy"), "dummy")
