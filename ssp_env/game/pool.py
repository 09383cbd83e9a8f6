"""The pool of solved tasks, and what fills the slot of a rejected proposal (SSP appendix B.1).

A pooled task remembers the corpus it belongs to, since games may differ in their worlds. The state is plain JSON and
part of a checkpoint. Rounds are counted from 1; under ``reset`` the pool empties when the new count is a multiple of
the interval, as in the released code (with 10: after rounds 9, 19, 29 ...).

Strategies, with the names of ``GameRules.filling``. ``dummy``: a content-free task. ``reuse`` and ``reset``: a random
pooled task per slot, a dummy while the pool has none. ``resample``: further answers are proposed for (``selfplay``);
what is still missing then is a copy of a random accepted task of the same batch. ``none``: nothing, so that a round may
have fewer solves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from ssp_env.errors import RunError
from ssp_env.game.game import Game
from ssp_env.game.proposal import proposed_task
from ssp_env.types import Answer, Round, Task

STATE_VERSION = 1


@dataclass(frozen=True, slots=True)
class PooledTask:
    """A task that was played.

    Attributes:
        corpus: Fingerprint of the corpus that the task was made from.
        task: The task.
        success_rate: Share of its scored solves that were correct.
        added_at: The round in which it was played.
    """

    corpus: str
    task: Task
    success_rate: float
    added_at: int


class QuestionPool:
    """Played tasks in the order of their arrival, and the count of rounds."""

    def __init__(self) -> None:
        """Start empty, in round 1."""
        self.round = 1
        self._tasks: list[PooledTask] = []

    def __len__(self) -> int:
        """Return the number of tasks; a task played twice counts twice."""
        return len(self._tasks)

    @property
    def mean_age(self) -> float:
        """Mean age of the tasks in rounds; 0 for an empty pool."""
        return sum(self.round - t.added_at for t in self._tasks) / len(self._tasks) if self._tasks else 0.0

    def add(self, corpus: str, task: Task, *, success_rate: float) -> None:
        """Add a task played in this round; one that was itself drawn from the pool is added again."""
        self._tasks.append(PooledTask(corpus, task, success_rate, self.round))

    def draw(self, n: int, corpora: Collection[str], *, rng: np.random.Generator) -> list[PooledTask]:
        """Return ``n`` uniform draws with repetition among the tasks of these corpora; none when there are no such."""
        candidates = [task for task in self._tasks if task.corpus in corpora]
        if not candidates:
            return []
        return [candidates[int(i)] for i in rng.integers(len(candidates), size=n)]

    def end_round(self, *, reset_every: int | None) -> None:
        """Count the round; empty the pool when the new count is a multiple of ``reset_every`` (None: never)."""
        if reset_every is not None and reset_every < 1:
            raise ValueError(f"expected a positive interval, got {reset_every!r}")
        self.round += 1
        if reset_every is not None and self.round % reset_every == 0:
            self._tasks.clear()

    def state_dict(self) -> dict[str, object]:
        """Return the whole state as plain JSON."""
        return {"version": STATE_VERSION, "round": self.round, "tasks": [asdict(task) for task in self._tasks]}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Take over a saved state; a state that cannot be read leaves the pool as it was.

        Raises:
            RunError: If the state is not one that ``state_dict`` returned.
        """
        try:
            if state["version"] != STATE_VERSION:
                raise ValueError(f"version {state['version']!r}")
            count, rows = state["round"], state["tasks"]
            if not isinstance(count, int) or not isinstance(rows, list):
                raise TypeError(f"round {count!r}")
            tasks = [_pooled(row) for row in rows]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(
                f"expected the state of a pool (version {STATE_VERSION}), got {error!r}; start without this checkpoint"
            ) from error
        self.round, self._tasks = count, tasks


def _pooled(row: Mapping[str, object]) -> PooledTask:
    task = row["task"]
    if not isinstance(task, Mapping):
        raise TypeError(f"task {task!r}")
    return PooledTask(
        corpus=str(row["corpus"]),
        task=Task(str(task["id"]), str(task["question"]), tuple(map(str, task["answers"])), str(task["kind"])),
        success_rate=float(str(row["success_rate"])),
        added_at=int(str(row["added_at"])),
    )


DUMMY_QUESTION = "There is no question this time. Close with an answer tag."
POOLED = ("reuse", "reset")
"""The strategies that draw from the pool, and so the only ones that add to it."""
Slot = tuple[Game, Round]
"""A round so far, and the game that its task is played in."""


def fill_slots(
    proposed: Sequence[Slot],
    filling: str,
    *,
    n_tasks: int,
    pool: QuestionPool,
    games: Mapping[str, Game],
    rng: np.random.Generator,
) -> list[Slot]:
    """Return the rounds with what is played in each: its own task if it was accepted, else what the strategy gives.

    Args:
        proposed: The validated proposals of the batch, with the games they were made in.
        filling: A strategy.
        n_tasks: Tasks to be played; the last slots of rejected proposals that go beyond it stay open.
        pool: The tasks to reuse; only those of corpora in ``games`` can be played.
        games: The games by corpus fingerprint.
        rng: Draws one task per slot, so that repeats within a batch happen.
    """
    fresh = [_filled(slot, slot[0], proposed_task(slot[1].proposal), "fresh") for slot in proposed if _accepted(slot)]
    rejected = [slot for slot in proposed if not _accepted(slot)]
    n_missing = n_tasks - len(fresh)
    filled = _fill(rejected[:n_missing], filling, fresh, pool=pool, games=games, rng=rng) + rejected[n_missing:]
    accepted, fillers = iter(fresh), iter(filled)
    return [next(accepted if _accepted(slot) else fillers) for slot in proposed]


def _fill(
    rejected: Sequence[Slot],
    filling: str,
    fresh: Sequence[Slot],
    *,
    pool: QuestionPool,
    games: Mapping[str, Game],
    rng: np.random.Generator,
) -> list[Slot]:
    if filling in POOLED and (drawn := pool.draw(len(rejected), games, rng=rng)):
        return [_filled(s, games[d.corpus], d.task, "reused") for s, d in zip(rejected, drawn, strict=True)]
    if filling in ("dummy", *POOLED):
        return [_filled(slot, slot[0], _dummy(slot[1].answer), "dummy") for slot in rejected]
    if filling == "resample" and fresh:
        copies = [fresh[int(i)] for i in rng.integers(len(fresh), size=len(rejected))]
        return [_filled(slot, game, copy.task, "reused") for slot, (game, copy) in zip(rejected, copies, strict=True)]
    return list(rejected)


def _accepted(slot: Slot) -> bool:
    return slot[1].validation.ok


def _filled(slot: Slot, game: Game, task: Task | None, origin: Literal["fresh", "reused", "dummy"]) -> Slot:
    return game, replace(slot[1], origin=origin, task=task, task_corpus=game.corpus.fingerprint)


def _dummy(answer: Answer) -> Task:
    return Task(answer.id, DUMMY_QUESTION, answer.accepted, "dummy")
