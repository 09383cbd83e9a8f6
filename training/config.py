"""The configuration of a training run: one flat record, every field a flag of ``run_ssp.py``.

A field left at None takes its value from the optimiser preset, or from what is played (generated worlds or passages
from files). ``resolved`` fills these in; the resolved record is what a run folder keeps.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

from ssp_env.errors import ConfigError
from ssp_env.game.pool import POOLED
from ssp_env.game.rules import rules
from training.advantages import ESTIMATORS, Aggregation
from training.presets import OPTIMIZERS, OptimizerPreset
from training.update import Schedule

SHIPPED_MODEL = str(Path(__file__).resolve().parent / "tiny" / "weights")


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Train one language model by search self-play: it sets itself questions over a corpus and learns to solve them."""

    out: str = "runs/ssp"
    """Folder of the run."""
    resume: bool = False
    """Continue the run in ``out`` from its last checkpoint; flags not given keep the values of that run."""
    seed: int = 0
    """Decides everything random."""

    model: str = SHIPPED_MODEL
    """Folder of a transformers model with a chat template; default: the small policy shipped with this repository."""
    corpus: tuple[str, ...] = ()
    """JSON Lines files of passages; none: generated worlds."""
    answers: str | None = None
    """JSON Lines file of answers that questions are written for; None: the worlds', or titles of passages."""
    demanded_searches: tuple[int, ...] = ()
    """Play only answers that demand these numbers of searches; 1 1 1 2: three of 1 for each of 2; none: all."""
    train_worlds: int = 8
    """Number of generated worlds to play in."""
    first_world: int = 0
    """Seed of the first of these worlds; the others follow."""
    world_entities: int = 200
    """Passages of each generated world."""
    retriever: str = "bm25"
    """How passages are found: bm25, rank-bm25, or JSON such as '{"name": "dense", "model": "path"}'."""
    index_dir: str | None = None
    """Folder for indexes; None: beside the corpus."""
    prompt_set: str | None = None
    """Prompts: paper, worked (examples, for small models) or compact; None: compact for models with the words of the
    shipped policies, paper for others."""
    max_context: int | None = None
    """Longest episode in tokens; None: what the model allows."""
    max_new_tokens: int | None = None
    """Longest completion in tokens; None: 48 for the shipped policies and their like, 512 for others."""
    temperature: float = 1.0
    """Sampling temperature in training; evaluation is greedy."""

    rules: str | None = None
    """Preset of the game's rules: world, paper or code."""
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
    pool_tasks: str | None = None
    """JSON Lines file of questions that fill the pool at the start, for models whose first proposals are all invalid;
    use it with --rule filling=reuse."""

    n_rounds: int = 60
    """Rounds of self-play; each is followed by one update."""
    answers_per_round: int = 32
    """Proposals in a round."""
    proposals_per_answer: int = 1
    """Proposals for one answer in a round; they are one group, which grpo, mean and rloo need to be above 1."""
    train_proposer: bool = True
    """Whether to learn from proposals; otherwise the initial policy proposes."""
    train_solver: bool = True
    """Whether to learn from solves; otherwise the initial policy solves."""
    warm_up_rounds: int = 0
    """First rounds in which only proposals are learned from."""

    optimizer: Literal["world", "paper", "code"] = "world"
    """Preset of the settings below: for the shipped policy, or after the paper or its released code."""
    lr: float | None = None
    """Learning rate of AdamW."""
    lr_schedule: Schedule = "constant"
    """Whether the learning rate stays after the warm-up, or falls to 0 along a line or a cosine."""
    warmup_steps: int | None = None
    """Optimiser steps of linear warm-up."""
    weight_decay: float | None = None
    """Weight decay."""
    solver_beta: float | None = None
    """Weight of the solver's KL divergence to the initial model."""
    proposer_beta: float | None = None
    """Weight of the proposer's KL divergence to the initial model."""
    solver_clip_low: float | None = None
    """How far below 1 the probability ratio of solves may move; 0: without limit."""
    solver_clip_high: float | None = None
    """How far above 1 the probability ratio of solves may move; 0: without limit."""
    proposer_clip_low: float | None = None
    """How far below 1 the probability ratio of proposals may move; 0: without limit."""
    proposer_clip_high: float | None = None
    """How far above 1 the probability ratio of proposals may move; 0: without limit."""
    solver_advantage: str | None = None
    """Advantage of solves: grpo, mean, rloo, batch, hop or raw."""
    proposer_advantage: str | None = None
    """Advantage of proposals: raw, batch, hop (within the same demanded searches), mean, grpo or rloo."""
    solver_aggregation: Aggregation | None = None
    """How the losses of the solver's tokens are averaged."""
    proposer_aggregation: Aggregation | None = None
    """How the losses of the proposer's tokens are averaged."""
    proposer_weight: float | None = None
    """Weight of the proposer's loss; the solver's is 1."""
    updates: Literal["joint", "sequential"] | None = None
    """One optimiser step a round for both roles, or one each in the order of the rules."""
    lora_rank: int = 0
    """Train LoRA adapters of this rank; 0: all weights."""
    gradient_checkpointing: bool = False
    """Compute activations twice to save memory."""
    max_batch_tokens: int = 16_384
    """Tokens in one forward and backward pass."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights."""
    threads: int = 0
    """Processor threads of PyTorch; 0: one for models under 5 million weights, else PyTorch's choice."""

    eval_tasks: str | None = None
    """JSON Lines file of held-out questions; None: those of a world that is not trained in."""
    eval_world: int = 1000
    """Seed of the held-out world."""
    eval_questions: int = 50
    """Most held-out questions of each kind; 0: no evaluation."""
    eval_every: int = 10
    """Rounds between evaluations."""
    eval_samples: int = 0
    """Sampled solves of each held-out question before the first and after the last round, for pass@k; 0: none."""
    sample_every: int = 10
    """Rounds between games that are shown on the screen; 0: none."""
    checkpoint_every: int = 20
    """Rounds between checkpoints."""
    keep_checkpoints: int = 2
    """How many checkpoints stay on disk; besides them the best by held-out accuracy stays."""
    on_collapse: Literal["warn", "stop"] = "warn"
    """What follows when training collapses; the last checkpoint before it stays on disk either way."""


MAY_CHANGE = (
    "out", "resume", "n_rounds", "eval_every", "sample_every", "checkpoint_every", "keep_checkpoints", "on_collapse",
    "threads",
)  # fmt: skip
"""Fields that a resumed run may give anew."""

_POSITIVE = (
    "n_rounds", "answers_per_round", "max_new_tokens", "max_batch_tokens", "eval_every", "checkpoint_every",
    "keep_checkpoints", "train_worlds", "temperature", "proposals_per_answer", "max_context",
)  # fmt: skip
_NOT_NEGATIVE = (
    "seed", "warm_up_rounds", "lr", "warmup_steps", "weight_decay", "proposer_weight", "lora_rank", "threads",
    "eval_samples", "eval_questions", "sample_every", "solver_beta", "solver_clip_low", "solver_clip_high",
    "proposer_beta", "proposer_clip_low", "proposer_clip_high",
)  # fmt: skip


def resolved(config: RunConfig) -> RunConfig:
    """Return the configuration with every default filled in and paths made absolute.

    Raises:
        ConfigError: If a value is out of range or values contradict each other.
    """
    preset = OPTIMIZERS[config.optimizer]
    given = {f.name: getattr(config, f.name) for f in fields(OptimizerPreset)}
    changes: dict[str, object] = {name: getattr(preset, name) for name, value in given.items() if value is None}
    defaults: dict[str, object] = {"rules": "world", "reader": "oracle"}
    if config.corpus:
        defaults = {"rules": "paper", "reader": "judge" if config.rules == "code" else "policy"}
    is_tiny = speaks_of_worlds_only(config.model)
    defaults |= (
        {"prompt_set": "compact", "max_new_tokens": 48} if is_tiny else {"prompt_set": "paper", "max_new_tokens": 512}
    )
    changes |= {name: value for name, value in defaults.items() if getattr(config, name) is None}
    for name in ("out", "model", "answers", "pool_tasks", "eval_tasks", "index_dir"):
        if (value := getattr(config, name)) is not None:
            changes[name] = str(Path(value).expanduser().absolute())
    changes["corpus"] = tuple(str(Path(path).expanduser().absolute()) for path in config.corpus)
    full = replace(config, **changes)  # type: ignore[arg-type]
    _check(full)
    return full


def speaks_of_worlds_only(model: str) -> bool:
    """Return whether a model has the vocabulary of the shipped policies, the words of generated worlds."""
    return _vocabulary(model) == _vocabulary(SHIPPED_MODEL)


def _vocabulary(model: str) -> object:
    """Return the words of a model's tokenizer file; None where there is none, which the loading of the model tells."""
    try:
        return json.loads((Path(model).expanduser() / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _check(config: RunConfig) -> None:
    """Refuse values out of range, then values that contradict each other."""
    _check_values(config)
    _check_together(config)


def _check_values(config: RunConfig) -> None:
    for name in (*_POSITIVE, *_NOT_NEGATIVE):
        value, bound = getattr(config, name), "above 0" if name in _POSITIVE else "of 0 or more"
        if value is not None and not (0 <= value < math.inf and (value > 0 or name in _NOT_NEGATIVE)):
            raise ConfigError(f"expected {name} {bound}, got {value!r}; correct it")
    if config.seed >= 2**32:
        raise ConfigError(f"expected a seed below 2**32, got {config.seed}; choose a smaller one")
    for name in ("solver_advantage", "proposer_advantage"):
        if getattr(config, name) not in ESTIMATORS:
            raise ConfigError(f"expected {name} out of {sorted(ESTIMATORS)}, got {getattr(config, name)!r}; name one")
    for name in ("retriever", "reader", "judge"):
        described(config, name)
    for text in config.rule:
        parse_rule(text)


def _check_together(config: RunConfig) -> None:
    if config.answers_per_round % config.proposals_per_answer:
        got = f"{config.answers_per_round} and {config.proposals_per_answer}"
        raise ConfigError(f"expected answers_per_round to be a multiple of proposals_per_answer, got {got}; change one")
    if not (config.train_proposer or config.train_solver):
        raise ConfigError("expected a role to train, got train_proposer and train_solver False; allow one")
    worlds = range(config.first_world, config.first_world + config.train_worlds)
    if not config.corpus and config.eval_tasks is None and config.eval_questions and config.eval_world in worlds:
        got = f"{config.eval_world} among worlds {worlds[0]} to {worlds[-1]}"
        raise ConfigError(f"expected an eval_world that is not trained in, got {got}; change it or first_world")
    if config.pool_tasks is not None and not (config.corpus and rule_value(config, "filling") in POOLED):
        got = f"filling {rule_value(config, 'filling')!r} over {config.corpus or 'generated worlds'}"
        raise ConfigError(
            f"expected pool_tasks together with corpus and a filling out of {POOLED}, got {got}; change it"
        )


def described(config: RunConfig, name: str) -> object:
    """Return a field that is a name or a JSON object.

    Raises:
        ConfigError: If it begins like an object and is none.
    """
    text = getattr(config, name)
    try:
        return json.loads(text) if text and text.startswith("{") else text
    except ValueError as error:
        raise ConfigError(f"expected a name or a JSON object as {name}, got {text!r} ({error}); correct it") from error


def rule_value(config: RunConfig, name: str) -> object:
    """Return a rule of the game: as given, else as in the preset."""
    return dict(map(parse_rule, config.rule)).get(name, getattr(rules(config.rules or "world"), name))


def parse_rule(text: str) -> tuple[str, object]:
    """Return name and value of ``name=value``; what is no JSON is text.

    Raises:
        ConfigError: If there is no equals sign, or a preset is named.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"expected a rule as name=value, got {text!r}; write for example n_distractors=4")
    if name == "preset":
        raise ConfigError(f"expected a single rule, got {text!r}; name the preset with --rules")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
