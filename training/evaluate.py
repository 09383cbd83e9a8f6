"""Held-out evaluation: greedy play of fixed questions, accuracy by kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ssp_env.game import Game
from ssp_env.protocols import Agent
from ssp_env.rollout import play
from ssp_env.scoring import score_solves
from ssp_env.types import Sampling, Task


def evaluate(game: Game, tasks: Sequence[Task], agent: Agent, *, max_new_tokens: int) -> dict[str, float]:
    """Return the share of correct answers by kind of task, in the order of first sight; ``all`` comes last.

    Episodes that failed on our side are left out; a kind of which all failed has no entry.
    """
    episodes = [game.episode("solver", task) for task in tasks]
    sampling = Sampling(max_tokens=max_new_tokens, temperature=0.0)
    trajectories = play(episodes, agent, sampling=sampling, rng=np.random.default_rng(0))
    scored = score_solves([(game, trajectory) for trajectory in trajectories])
    correct: dict[str, list[bool]] = {}
    for task, (_, verdict) in zip(tasks, scored, strict=True):
        if verdict.label != "error":
            correct.setdefault(task.kind or "question", []).append(verdict.correct)
            correct.setdefault("all", []).append(verdict.correct)
    accuracy = {kind: sum(marks) / len(marks) for kind, marks in correct.items()}
    return dict(sorted(accuracy.items(), key=lambda item: item[0] == "all"))
