"""The tasks and answers that a game over a world offers, drawn when they are first asked for.

Drawing takes about a second, and who only solves needs no answers, who only proposes no tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TypeVar, overload

import numpy as np

from ssp_env.types import Answer, Task
from ssp_env.world.sampling import KINDS, sample_answers, sample_tasks
from ssp_env.world.world import World

TASKS_PER_KIND = 30
SEEDS = 200

ItemT = TypeVar("ItemT")


class Drawn(Sequence[ItemT]):
    """A sequence whose items come from one call of ``draw``, made at the first look at them."""

    def __init__(self, draw: Callable[[], Sequence[ItemT]]) -> None:
        """Keep how to draw; ``draw`` must give the same items whenever it is called, and be picklable."""
        self._draw = draw

    @cached_property
    def _items(self) -> tuple[ItemT, ...]:
        return tuple(self._draw())

    @overload
    def __getitem__(self, index: int) -> ItemT: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[ItemT, ...]: ...

    def __getitem__(self, index: int | slice) -> ItemT | tuple[ItemT, ...]:
        """Return one item, or a tuple of some."""
        return self._items[index]

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._items)


def world_tasks(world: World) -> Sequence[Task]:
    """Return 30 tasks of each kind, the same for every world of these settings."""
    return Drawn(partial(_tasks, world))


def world_answers(world: World) -> Sequence[Answer]:
    """Return 200 answers that demand one to three searches, the same for every world of these settings."""
    return Drawn(partial(_answers, world))


def _tasks(world: World) -> list[Task]:
    rng = np.random.default_rng([world.config.seed, 1])
    return [task for kind in KINDS for task in sample_tasks(world, kind, TASKS_PER_KIND, rng)]


def _answers(world: World) -> list[Answer]:
    return sample_answers(world, SEEDS, np.random.default_rng([world.config.seed, 2]), n_searches=(1, 2, 3))
