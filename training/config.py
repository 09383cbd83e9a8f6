"""The configuration of a training run: one record of records, every field a flag of ``run_ssp.py``.

``solver.beta`` is ``--solver.beta 0.01`` on the command line, and ``beta = 0.01`` below ``[solver]`` in a file. A field
left at None takes its value from what is played (generated worlds or passages from files) or from the model.
``resolved`` fills these in; the resolved record is what a run folder keeps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from ssp_env.errors import ConfigError
from ssp_env.game.pool import POOLED
from ssp_env.game.rules import rules
from ssp_env.schema import Count, Natural, parse, says, within
from ssp_env.types import RoleName
from training.settings import (
    CheckpointSettings,
    EvalSettings,
    GameSettings,
    OptimizerSettings,
    RoleSettings,
    SamplingSettings,
    WorldSettings,
)

SHIPPED_MODEL = str(Path(__file__).resolve().parent / "tiny" / "weights")

T = TypeVar("T")
PathT = TypeVar("PathT", str, str | None)
Seed = Annotated[int, says("a seed from 0 to 2**32 - 1"), within(0, 2**32 - 1)]


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Train one language model by search self-play: it sets itself questions over a corpus and learns to solve them."""

    out: str = "runs/ssp"
    """Folder of the run."""
    seed: Seed = 0
    """Decides everything random."""
    model: str = SHIPPED_MODEL
    """Folder of a transformers model with a chat template; default: the small policy shipped with this repository."""
    corpus: tuple[str, ...] = ()
    """JSON Lines files of passages; none: generated worlds."""
    answers: str | None = None
    """JSON Lines file of answers that questions are written for; None: the worlds', or titles of passages."""
    demanded_searches: tuple[int, ...] = ()
    """Play only answers that demand these numbers of searches; 1 1 1 2: three of 1 for each of 2; none: all."""
    n_rounds: Count = 60
    """Rounds of self-play; each is followed by one update."""
    answers_per_round: Count = 32
    """Proposals in a round."""
    proposals_per_answer: Count = 1
    """Proposals for one answer in a round; they are one group, which grpo, mean and rloo need to be above 1."""
    warm_up_rounds: Natural = 0
    """First rounds in which only proposals are learned from."""
    sample_every: Natural = 10
    """Rounds between games that are shown on the screen; 0: none."""
    on_collapse: Literal["warn", "stop"] = "warn"
    """What follows when training collapses; the last checkpoint before it stays on disk either way."""

    world: WorldSettings = WorldSettings()
    game: GameSettings = GameSettings()
    sampling: SamplingSettings = SamplingSettings()
    proposer: RoleSettings = RoleSettings(advantage="batch")
    """How the policy learns to ask."""
    solver: RoleSettings = RoleSettings()
    """How the policy learns to answer."""
    optimizer: OptimizerSettings = OptimizerSettings()
    eval: EvalSettings = EvalSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()

    def role(self, name: RoleName) -> RoleSettings:
        """Return how one of the trained roles learns."""
        return self.proposer if name == "proposer" else self.solver


_AFTER_PAPER = OptimizerSettings(lr=1e-6, warmup_steps=5, weight_decay=0.01, updates="sequential")
Preset = Literal["world", "paper", "code"]
PRESETS: Mapping[str, RunConfig] = {
    "world": RunConfig(),
    "paper": RunConfig(
        # The proposer's loss of the paper (equation 5) has neither KL nor clipping.
        proposer=RoleSettings(advantage="raw", aggregation="token_sum", clip_low=0.0, clip_high=0.0),
        solver=RoleSettings(advantage="mean", aggregation="row_mean", beta=0.01, clip_high=0.285),
        optimizer=_AFTER_PAPER,
    ),
    "code": RunConfig(
        # The released code's mini-batches scale the whole gradient of the proposer, KL of .01 and all, by 256/640.
        proposer=RoleSettings(advantage="raw", aggregation="row_mean", weight=0.4, beta=0.004, clip_high=0.285),
        solver=RoleSettings(advantage="grpo", aggregation="row_mean", beta=0.01, clip_high=0.285),
        optimizer=_AFTER_PAPER,
    ),
}
"""How to learn: for the shipped policies, after the paper, after its released code."""

MAY_CHANGE = ("out", "n_rounds", "on_collapse", "sample_every", "eval.every", "checkpoints.every", "checkpoints.keep",
              "optimizer.threads")  # fmt: skip
"""Fields that a resumed run may give anew."""


def to_json(config: RunConfig) -> dict[str, object]:
    """Return the record as plain JSON, a group of settings as an object."""
    values: dict[str, object] = json.loads(json.dumps(asdict(config)))
    return values


def resolved(config: RunConfig) -> RunConfig:
    """Return the configuration with every default filled in and paths made absolute.

    Raises:
        ConfigError: If a value is out of range or values contradict each other.
    """
    game, sampling, eval_ = config.game, config.sampling, config.eval
    is_tiny = speaks_of_worlds_only(config.model)
    reader = "oracle" if not config.corpus else "judge" if game.rules == "code" else "policy"
    full = replace(
        config,
        out=_absolute(config.out),
        model=_absolute(config.model),
        corpus=tuple(map(_absolute, config.corpus)),
        answers=_absolute(config.answers),
        game=replace(
            game,
            rules=_given(game.rules, "paper" if config.corpus else "world"),
            reader=_given(game.reader, reader),
            prompt_set=_given(game.prompt_set, "compact" if is_tiny else "paper"),
            index_dir=_absolute(game.index_dir),
            pool_tasks=_absolute(game.pool_tasks),
        ),
        sampling=replace(sampling, max_new_tokens=_given(sampling.max_new_tokens, 48 if is_tiny else 512)),
        eval=replace(eval_, tasks=_absolute(eval_.tasks)),
    )
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


def _given(value: T | None, default: T) -> T:
    return default if value is None else value


def _absolute(path: PathT) -> PathT:
    return path if path is None else str(Path(path).expanduser().absolute())


def _check(config: RunConfig) -> None:
    """Refuse values out of range, then values that contradict each other."""
    parse(RunConfig, asdict(config), what="the training")
    for name in ("retriever", "reader", "judge"):
        described(config, name)
    for text in config.game.rule:
        parse_rule(text)
    if config.answers_per_round % config.proposals_per_answer:
        got = f"{config.answers_per_round} and {config.proposals_per_answer}"
        raise ConfigError(f"expected answers_per_round to be a multiple of proposals_per_answer, got {got}; change one")
    if not (config.proposer.train or config.solver.train):
        raise ConfigError("expected a role to train, got proposer.train and solver.train False; allow one")
    worlds = range(config.world.first, config.world.first + config.world.number)
    if not config.corpus and config.eval.tasks is None and config.eval.questions and config.eval.world in worlds:
        got = f"{config.eval.world} among worlds {worlds[0]} to {worlds[-1]}"
        raise ConfigError(f"expected an eval.world that is not trained in, got {got}; change it or world.first")
    if config.game.pool_tasks is not None and not (config.corpus and rule_value(config, "filling") in POOLED):
        got = f"filling {rule_value(config, 'filling')!r} over {config.corpus or 'generated worlds'}"
        raise ConfigError(
            f"expected game.pool_tasks together with corpus and a filling out of {POOLED}, got {got}; change it"
        )


def described(config: RunConfig, name: str) -> object:
    """Return a setting of the game that is a name or a JSON object.

    Raises:
        ConfigError: If it begins like an object and is none.
    """
    text = getattr(config.game, name)
    try:
        return json.loads(text) if text and text.startswith("{") else text
    except ValueError as error:
        raise ConfigError(f"expected a name or a JSON object as {name}, got {text!r} ({error}); correct it") from error


def rule_value(config: RunConfig, name: str) -> object:
    """Return a rule of the game: as given, else as in the preset."""
    return dict(map(parse_rule, config.game.rule)).get(name, getattr(rules(config.game.rules or "world"), name))


def parse_rule(text: str) -> tuple[str, object]:
    """Return name and value of ``name=value``; what is no JSON is text.

    Raises:
        ConfigError: If there is no equals sign, or a preset is named.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"expected a rule as name=value, got {text!r}; write for example n_distractors=4")
    if name == "preset":
        raise ConfigError(f"expected a single rule, got {text!r}; name the preset with --game.rules")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
