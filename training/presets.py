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
    solver_beta: float
    proposer_beta: float
    solver_clip_low: float
    solver_clip_high: float
    proposer_clip_low: float
    proposer_clip_high: float
    solver_advantage: str
    proposer_advantage: str
    solver_aggregation: Aggregation
    proposer_aggregation: Aggregation
    proposer_weight: float
    updates: Literal["joint", "sequential"]


OPTIMIZERS = {
    "world": OptimizerPreset(
        lr=1e-4,
        warmup_steps=0,
        weight_decay=0.0,
        solver_beta=0.0,
        proposer_beta=0.0,
        solver_clip_low=0.2,
        solver_clip_high=0.2,
        proposer_clip_low=0.2,
        proposer_clip_high=0.2,
        solver_advantage="grpo",
        proposer_advantage="batch",
        solver_aggregation="token_mean",
        proposer_aggregation="token_mean",
        proposer_weight=1.0,
        updates="joint",
    ),
    # The proposer's loss of the paper (equation 5) has neither KL nor clipping.
    "paper": OptimizerPreset(
        lr=1e-6,
        warmup_steps=5,
        weight_decay=0.01,
        solver_beta=0.01,
        proposer_beta=0.0,
        solver_clip_low=0.2,
        solver_clip_high=0.285,
        proposer_clip_low=0.0,
        proposer_clip_high=0.0,
        solver_advantage="mean",
        proposer_advantage="raw",
        solver_aggregation="row_mean",
        proposer_aggregation="token_sum",
        proposer_weight=1.0,
        updates="sequential",
    ),
    # The released code's mini-batches scale the whole gradient of the proposer, KL of .01 and all, by 256/640.
    "code": OptimizerPreset(
        lr=1e-6,
        warmup_steps=5,
        weight_decay=0.01,
        solver_beta=0.01,
        proposer_beta=0.004,
        solver_clip_low=0.2,
        solver_clip_high=0.285,
        proposer_clip_low=0.2,
        proposer_clip_high=0.285,
        solver_advantage="grpo",
        proposer_advantage="raw",
        solver_aggregation="row_mean",
        proposer_aggregation="row_mean",
        proposer_weight=0.4,
        updates="sequential",
    ),
}
