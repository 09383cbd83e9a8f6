"""Held-out evaluation: fixed questions, played greedily or sampled; accuracy by kind, its mean, the best round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from statistics import fmean

import numpy as np

from ssp_env.game.game import Game
from ssp_env.game.rollout import rollout
from ssp_env.game.scoring import score_solves
from ssp_env.protocols import Agent
from ssp_env.types import Sampling, Task

MEAN_KINDS = ("1-hop", "2-hop", "3-hop", "4-hop", "intersection")
"""Kinds whose mean is the result of a run, as in README.md and benchmarks/arms.toml; comparisons are left out."""

Marks = dict[str, list[list[bool]]]
"""Per kind of task, in the order of first sight, the verdicts on each question; ``all`` comes last."""


def held_out(line: Mapping[str, object]) -> dict[str, float]:
    """Return the held-out accuracy by kind of one line of ``metrics.jsonl``; empty where nothing was examined."""
    shares = {key.partition("/")[2]: value for key, value in line.items() if key.startswith("held_out/")}
    return {kind: float(str(share)) for kind, share in shares.items() if kind != "all"}


def mean_accuracy(line: Mapping[str, object]) -> float | None:
    """Return the mean of the held-out accuracy over ``MEAN_KINDS``, or over all kinds where there are none of them.

    Every kind counts the same, however many questions it has (``held_out/all`` counts every question the same).
    """
    by_kind = held_out(line)
    shares = [share for kind, share in by_kind.items() if kind in MEAN_KINDS] or list(by_kind.values())
    return fmean(shares) if shares else None


def best_round(lines: Sequence[Mapping[str, object]]) -> int | None:
    """Return the first of the rounds of training with the highest mean accuracy; None before one was examined."""
    means = [(mean, int(str(line["round"]))) for line in lines if (mean := mean_accuracy(line)) is not None]
    trained = [(mean, number) for mean, number in means if number]
    return max(trained, key=lambda pair: pair[0])[1] if trained else None


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
