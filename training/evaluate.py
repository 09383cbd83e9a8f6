"""Held-out evaluation: fixed questions played greedily, or sampled several times, accuracy by kind."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from ssp_env.game.game import Game
from ssp_env.game.rollout import rollout
from ssp_env.game.scoring import score_solves
from ssp_env.protocols import Agent
from ssp_env.types import Sampling, Task

Marks = dict[str, list[list[bool]]]
"""Per kind of task, in the order of first sight, the verdicts on each question; ``all`` comes last."""


def evaluate(game: Game, tasks: Sequence[Task], agent: Agent, *, max_new_tokens: int) -> dict[str, float]:
    """Return the share of correct greedy answers by kind of task, in the order of first sight; ``all`` comes last.

    Episodes that failed on our side are left out; a kind of which all failed has no entry.
    """
    marks = _marks(game, tasks, agent, Sampling(max_tokens=max_new_tokens, temperature=0.0), 1, seed=0)
    return {kind: float(np.mean([m for question in questions for m in question])) for kind, questions in marks.items()}


def pass_at_k(
    game: Game,
    tasks: Sequence[Task],
    agent: Agent,
    *,
    n_samples: int,
    max_new_tokens: int,
    temperature: float,
    seed: int,
) -> dict[str, float]:
    """Return by ``k/kind`` the probability that one of k sampled solves is correct, for k = 1, 2, 4 .. ``n_samples``.

    Estimated without bias from ``n_samples`` solves of each question (Chen et al. 2021, arXiv 2107.03374, section
    2.1); a question of which more than ``n_samples - k`` solves failed on our side does not count for k.
    """
    sampling = Sampling(max_tokens=max_new_tokens, temperature=temperature)
    marks = _marks(game, tasks, agent, sampling, n_samples, seed=seed)
    figures = {}
    for k in (2**i for i in range(n_samples.bit_length())):
        for kind, questions in marks.items():
            if known := [_pass(len(m), sum(m), k) for m in questions if len(m) >= k]:
                figures[f"{k}/{kind}"] = float(np.mean(known))
    return figures


def _pass(n: int, n_correct: int, k: int) -> float:
    return 1.0 - comb(n - n_correct, k) / comb(n, k)


def _marks(game: Game, tasks: Sequence[Task], agent: Agent, sampling: Sampling, n_samples: int, *, seed: int) -> Marks:
    episodes = [game.episode("solver", task) for task in tasks for _ in range(n_samples)]
    trajectories = rollout(episodes, agent, sampling=sampling, rng=np.random.default_rng(seed))
    verdicts = [verdict for _, verdict in score_solves([(game, trajectory) for trajectory in trajectories])]
    marks: Marks = {}
    every: list[list[bool]] = []
    for i, task in enumerate(tasks):
        own = [v.correct for v in verdicts[i * n_samples : (i + 1) * n_samples] if v.label != "error"]
        if own:
            marks.setdefault(task.kind or "question", []).append(own)
            every.append(own)
    return {**marks, "all": every} if every else {}
