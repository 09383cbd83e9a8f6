"""What passes between the trainer and the side that knows the game: rows, and the duties of a driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ssp_agents.hf import HFAgent
from training.rows import TrainingRow


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A row and what each of its sampled tokens weighs in the loss (``advantages.coefficients``)."""

    row: TrainingRow
    coefficient: float


@dataclass(frozen=True, slots=True)
class RoundEnd:
    """What a driver wants after a round."""

    save: bool = False
    stop: bool = False


class Driver(Protocol):
    """The side of the trainer that knows the game."""

    def run_round(self, agent: HFAgent) -> Sequence[ScoredRow]:
        """Play one round with the current policy and return its rows; rows may be few or none."""
        ...

    def finish_round(self, agent: HFAgent, metrics: Mapping[str, float]) -> RoundEnd:
        """Take note of the update that followed the round."""
        ...

    def publish(self, checkpoint: Path) -> None:
        """Add own state to a freshly written checkpoint folder and move it to its final place."""
        ...
