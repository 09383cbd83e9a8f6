"""What passes between the trainer and the side that knows the game: rows, settings, and the duties of a driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from ssp_agents.hf import HFAgent
from ssp_env.types import RoleName
from training.rows import TrainingRow

Updates = Literal["joint", "solver_first", "proposer_first"]
Schedule = Literal["constant", "linear", "cosine"]
UPDATES: dict[Updates, tuple[tuple[RoleName, ...], ...]] = {
    "joint": (("proposer", "solver"),),
    "solver_first": (("solver",), ("proposer",)),
    "proposer_first": (("proposer",), ("solver",)),
}


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


@dataclass(frozen=True, slots=True)
class RoleLoss:
    """What belongs to the loss of one role besides its coefficients.

    Attributes:
        beta: Weight of the KL to the initial model; needs a model loaded from a path.
        clip: How far the ratio may move below and above 1; infinity: without limit.
    """

    beta: float = 0.0
    clip: tuple[float, float] = (0.2, 0.2)


@dataclass(frozen=True, slots=True)
class UpdateSettings:
    """Settings of the optimiser.

    Attributes:
        output_dir: Where transformers writes a checkpoint before it is published.
        n_rounds: Rounds to play, including those before a resume.
        updates: One optimiser step a round on both roles, or one for each role in this order.
        lr: Highest learning rate, reached after ``warmup_steps`` optimiser steps.
        lr_schedule: Whether it stays there or falls to 0 at the last round.
        warmup_steps: Steps of linear warm-up.
        weight_decay: AdamW weight decay.
        max_grad_norm: Gradient clipping.
        solver: KL and clipping of solves.
        proposer: KL and clipping of proposals.
        temperature: Temperature at which the rows were sampled.
        max_batch_tokens: Rows times longest row of one forward and backward pass.
        gradient_checkpointing: Whether to trade time for memory.
        seed: Seed of transformers' random states.
    """

    output_dir: Path
    n_rounds: int
    updates: Updates = "joint"
    lr: float = 1e-6
    lr_schedule: Schedule = "constant"
    warmup_steps: int = 0
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    solver: RoleLoss = RoleLoss()
    proposer: RoleLoss = RoleLoss()
    temperature: float = 1.0
    max_batch_tokens: int = 16_384
    gradient_checkpointing: bool = False
    seed: int = 0

    @property
    def max_beta(self) -> float:
        """The greater weight of the KL; 0 if no role has any."""
        return max(self.solver.beta, self.proposer.beta)

    def loss(self, role: RoleName) -> RoleLoss:
        """Return what belongs to the loss of a role."""
        return self.proposer if role == "proposer" else self.solver
