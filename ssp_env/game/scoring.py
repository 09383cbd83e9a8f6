"""From ended episodes to rewards: verdicts and pay of solves, the success rate, and the proposer's pay.

A failure of ours has no reward: a failed episode or judge leaves a solve unscored, and a question of which no solve
was scored leaves its proposer unpaid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ssp_env.game.batching import judge_all
from ssp_env.game.game import Game
from ssp_env.game.rewards import proposer_reward, solver_reward
from ssp_env.game.rules import GameRules
from ssp_env.types import JudgeCase, Round, Task, Trajectory, Validation, Verdict


def score_solves(solves: Sequence[tuple[Game, Trajectory]]) -> list[tuple[Trajectory, Verdict]]:
    """Judge and pay ended solver episodes; each judge is asked once for all its cases.

    A truncated episode is wrong without being judged. Where judge or episode failed the reward stays None and the
    trajectory's ``error`` says why.
    """
    verdicts = _verdicts(solves)
    scored = []
    for (game, trajectory), verdict in zip(solves, verdicts, strict=True):
        reward = solver_reward(game.rules.solver_reward)(verdict, trajectory)
        error = trajectory.error or (f"judge: {verdict.detail}" if verdict.label == "error" else "")
        scored.append((replace(trajectory, reward=reward, error=error), verdict))
    return scored


def _verdicts(solves: Sequence[tuple[Game, Trajectory]]) -> list[Verdict]:
    cases = {i: (game.judge, _case(solve)) for i, (game, solve) in enumerate(solves) if solve.status == "finished"}
    judged = dict(zip(cases, judge_all(list(cases.values())), strict=True))
    return [judged.get(i) or _unjudged(solve) for i, (_, solve) in enumerate(solves)]


def _unjudged(solve: Trajectory) -> Verdict:
    return Verdict("error", "failed", solve.error) if solve.status == "failed" else Verdict("wrong", "truncated")


def _case(trajectory: Trajectory) -> JudgeCase:
    task = trajectory.item
    if not isinstance(task, Task):
        raise TypeError(f"expected a solver's trajectory, got one of role {trajectory.role!r}")
    return JudgeCase(question=task.question, answers=task.answers, response=trajectory.final or "")


def success_rate(solves: Sequence[Trajectory]) -> float | None:
    """Return the share of scored solves with a positive reward; None when none was scored."""
    rewards = [solve.reward for solve in solves if solve.reward is not None]
    return sum(reward > 0 for reward in rewards) / len(rewards) if rewards else None


def scored_round(rules: GameRules, played: Round, solves: Sequence[tuple[Trajectory, Verdict]]) -> Round:
    """Return a round with its scored solves, its success rate and its proposer's pay."""
    rate = success_rate([solve for solve, _ in solves])
    reward = pay_proposer(rules, played.validation, rate)
    return replace(
        played,
        proposal=replace(played.proposal, reward=reward),
        solves=tuple(solve for solve, _ in solves),
        verdicts=tuple(verdict for _, verdict in solves),
        success_rate=rate,
        proposer_reward=reward,
    )


def pay_proposer(rules: GameRules, validation: Validation, rate: float | None) -> float | None:
    """Return a proposer's reward: by success rate if accepted, ``invalid_reward`` if rejected, None if we failed.

    ``rate`` is the success rate on the proposer's own question; what filled the slot of a rejected one is ignored.
    """
    if validation.reason == "failed":
        return None
    return proposer_reward(rules.proposer_reward)(rate) if validation.ok else rules.invalid_reward
