"""Settings of the optimiser by name: for the shipped policy, after the paper, after its released code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from training.advantages import Aggregation


@dataclass(frozen=True, slots=True)
class OptimizerPreset:
    """The settings of the optimiser that a preset names; see the fields of ``training.config.RunConfig``."""

    lr: float
    warmup_steps: int
    weight_decay: float
    beta: float
    clip_low: float
    clip_high: float
    solver_advantage: str
    proposer_advantage: str
    solver_aggregation: Aggregation
    proposer_aggregation: Aggregation
    proposer_weight: float
    updates: Literal["joint", "sequential"]


OPTIMIZERS = {
    "world": OptimizerPreset(
        1e-4, 0, 0.0, 0.0, 0.2, 0.2, "grpo", "batch", "token_mean", "token_mean", 1.0, "joint"
    ),
    "paper": OptimizerPreset(
        1e-6, 5, 0.01, 0.01, 0.2, 0.285, "mean", "raw", "row_mean", "token_sum", 1.0, "sequential"
    ),
    # The released code's mini-batches scale the proposer's gradient by 256/640.
    "code": OptimizerPreset(
        1e-6, 5, 0.01, 0.01, 0.2, 0.285, "grpo", "raw", "row_mean", "row_mean", 0.4, "sequential"
    ),
}  # fmt: skip
