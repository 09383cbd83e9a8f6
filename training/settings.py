"""What the parts of a run are built from, out of its configuration: the games and the optimiser."""

from __future__ import annotations

import math
from pathlib import Path

from ssp_env.game.judges import JUDGES
from ssp_env.game.readers import READERS
from training.config import RunConfig, described, parse_rule, rule_value
from training.update import RoleLoss, Updates, UpdateSettings


def game_settings(config: RunConfig, *, world: int | None = None) -> dict[str, object]:
    """Return what ``ssp_env.registry.build_game`` takes, for the files of the run or one generated world."""
    corpus = list(config.corpus) or {"world": {"seed": world, "n_entities": config.world_entities}}
    reader, judge = described(config, "reader"), described(config, "judge")
    if isinstance(reader, str) and reader not in READERS:
        reader = {"agent": reader}
    if isinstance(judge, str) and judge not in JUDGES:
        judge = {"name": "model", "agent": judge}
    rules = {"preset": config.rules, **dict(map(parse_rule, config.rule))}
    if config.n_solves is not None:
        rules["n_solves"] = config.n_solves
    return {
        "corpus": corpus,
        "retriever": described(config, "retriever"),
        "index_dir": config.index_dir,
        "rules": rules,
        "prompt_set": config.prompt_set,
        "reader": reader,
        "judge": judge,
        "answers": config.answers,
    }


def update_settings(config: RunConfig, output_dir: Path) -> UpdateSettings:
    """Return the optimiser's settings of a resolved configuration."""
    order: Updates = "proposer_first" if rule_value(config, "update_order") == "proposer_first" else "solver_first"
    return UpdateSettings(
        output_dir=output_dir,
        n_rounds=config.n_rounds,
        updates="joint" if config.updates == "joint" else order,
        lr=config.lr or 0.0,
        lr_schedule=config.lr_schedule,
        warmup_steps=config.warmup_steps or 0,
        weight_decay=config.weight_decay or 0.0,
        solver=_role_loss(config.solver_beta, config.solver_clip_low, config.solver_clip_high),
        proposer=_role_loss(config.proposer_beta, config.proposer_clip_low, config.proposer_clip_high),
        temperature=config.temperature,
        max_batch_tokens=config.max_batch_tokens,
        gradient_checkpointing=config.gradient_checkpointing,
        seed=config.seed,
    )


def _role_loss(beta: float | None, clip_low: float | None, clip_high: float | None) -> RoleLoss:
    return RoleLoss(beta or 0.0, (clip_low or math.inf, clip_high or math.inf))
