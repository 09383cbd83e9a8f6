"""The groups of settings of a run: where it plays, how it samples, learns, is examined and saved.

Every field is a flag of ``run_ssp.py`` and its docstring the flag's help; ``training.config.RunConfig`` holds one
record of each group, and one for each of the two roles.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from ssp_env.schema import Count, Natural, says, within
from training.advantages import Aggregation, Estimator

NotNegative = Annotated[float, says("a number of 0 or more"), within(0.0, sys.float_info.max)]
Positive = Annotated[float, says("a number above 0"), within(sys.float_info.min, sys.float_info.max)]


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """Generated worlds, which are played in when no corpus is given."""

    number: Count = 8
    """Number of worlds to train in."""
    first: int = 0
    """Seed of the first of these worlds; the others follow."""
    entities: int = 200
    """Passages of each world."""


@dataclass(frozen=True, slots=True)
class GameSettings:
    """The rules, and who searches, reads and judges."""

    rules: str | None = None
    """Preset of the rules: world, paper or code; None: world in generated worlds, else paper."""
    rule: tuple[str, ...] = ()
    """Changes to the rules, as name=value."""
    n_solves: int | None = None
    """Solver episodes per question; None: as the rules say."""
    reader: str | None = None
    """Who checks a question: oracle or '{"name": "oracle", "error": 0.2}' (worlds only), policy, module:factory of an
    agent, or judge (the agent of the judge); None: oracle in worlds, judge with the rules code, else policy."""
    judge: str = "exact"
    """Who compares answers: exact, or module:factory of an agent that is asked when rules do not decide, or
    '{"name": "model", "agent": {"name": "module:factory", "kwargs": {}}}'."""
    retriever: str = "bm25"
    """How passages are found: bm25, rank-bm25, or JSON such as '{"name": "dense", "model": "path"}'."""
    index_dir: str | None = None
    """Folder for indexes; None: beside the corpus."""
    prompt_set: str | None = None
    """Prompts: paper, worked (examples, for small models) or compact; None: compact for models with the words of the
    shipped policies, paper for others."""
    pool_tasks: str | None = None
    """JSON Lines file of questions that fill the pool at the start, for models whose first proposals are all invalid;
    use it with --game.rule filling=reuse."""


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """How the policy writes in training; evaluation is greedy."""

    temperature: Positive = 1.0
    """Sampling temperature."""
    max_new_tokens: Count | None = None
    """Longest completion in tokens; None: 48 for the shipped policies and their like, 512 for others."""
    max_context: Count | None = None
    """Longest episode in tokens; None: what the model allows."""


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """How the policy learns in one of its two roles."""

    train: bool = True
    """Whether to learn from this role; otherwise the initial policy plays it."""
    advantage: Estimator = "grpo"
    """What a reward is compared with: grpo, mean or rloo (its group), batch, hop (those of the same demanded searches),
    or raw (nothing)."""
    aggregation: Aggregation = "token_mean"
    """How the losses of the role's tokens are averaged."""
    weight: NotNegative = 1.0
    """Weight of the role's loss."""
    beta: NotNegative = 0.0
    """Weight of the KL divergence to the initial model."""
    clip_low: NotNegative = 0.2
    """How far below 1 the probability ratio may move; 0: without limit."""
    clip_high: NotNegative = 0.2
    """How far above 1 the probability ratio may move; 0: without limit."""


@dataclass(frozen=True, slots=True)
class OptimizerSettings:
    """AdamW, and what fits an update into memory."""

    lr: NotNegative = 1e-4
    """Learning rate."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Whether the learning rate stays after the warm-up, or falls to 0 along a line or a cosine."""
    warmup_steps: Natural = 0
    """Optimiser steps of linear warm-up."""
    weight_decay: NotNegative = 0.0
    """Weight decay."""
    updates: Literal["joint", "sequential"] = "joint"
    """One optimiser step a round for both roles, or one each in the order of the rules."""
    lora_rank: Natural = 0
    """Train LoRA adapters of this rank; 0: all weights."""
    max_batch_tokens: Count = 16_384
    """Tokens in one forward and backward pass."""
    gradient_checkpointing: bool = False
    """Compute activations twice to save memory."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights."""
    threads: Natural = 0
    """Processor threads of PyTorch; 0: one for models under 5 million weights, else PyTorch's choice."""


@dataclass(frozen=True, slots=True)
class EvalSettings:
    """Held-out questions."""

    every: Count = 10
    """Rounds between evaluations."""
    questions: Natural = 50
    """Most held-out questions of each kind; 0: no evaluation."""
    samples: Natural = 0
    """Sampled solves of each question before the first and after the last round, for pass@k; 0: none."""
    tasks: str | None = None
    """JSON Lines file of held-out questions; None: those of a world that is not trained in."""
    world: int = 1000
    """Seed of the held-out world."""


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """What stays on disk."""

    every: Count = 20
    """Rounds between checkpoints."""
    keep: Count = 2
    """How many checkpoints stay."""
