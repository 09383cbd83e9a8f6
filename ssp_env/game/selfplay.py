"""The round of search self-play: propose, validate, fill the slots, solve, judge, reward (SSP section 3, algorithm 1).

Every phase is one batch over all games of the plan. Whose weights are trained on the resulting rounds, and how, is
the trainer's part. Failures of ours are recorded, score nobody and never stop a round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from ssp_env.errors import ConfigError
from ssp_env.game.game import Game
from ssp_env.game.pool import POOLED, QuestionPool, Slot, fill_slots
from ssp_env.game.rollout import rollout
from ssp_env.game.rules import GameRules
from ssp_env.game.scoring import score_solves, scored_round
from ssp_env.game.validator import validate_batch
from ssp_env.protocols import Agent
from ssp_env.types import Answer, Round, Sampling

Plan = Sequence[tuple[Game, Answer]]


@dataclass(frozen=True, slots=True)
class Agents:
    """Who plays which part; a frozen proposer or solver is simply another agent.

    ``reader`` answers the gate's cases where a game names no reader of its own.
    """

    proposer: Agent
    solver: Agent
    reader: Agent

    @classmethod
    def shared(cls, policy: Agent) -> Agents:
        """One policy in all parts, as in the paper."""
        return cls(policy, policy, policy)


def run_rounds(
    plan: Plan,
    agents: Agents,
    *,
    pool: QuestionPool,
    rng: np.random.Generator,
    sampling: Sampling,
    games: Iterable[Game] = (),
) -> list[Round]:
    """Play one round for every game and answer of the plan and return the rounds in that order.

    Under ``resample`` further answers of the plan's games are drawn, with repetition, until as many proposals are
    accepted as the plan is long, up to ``max_resamples`` times and each time as many as are missing. Their rounds
    follow those of the plan; a rejected proposal that needs no copy has the origin ``none`` and no solves. (The
    released code draws whole batches and drops what is too much.)

    Args:
        plan: Games and answers; all games share their rules.
        agents: Who plays.
        pool: Tasks to reuse. The round is counted, and its scored tasks are added under ``reuse`` and ``reset``.
        rng: The only source of randomness: distractors, pool draws and sampling seeds.
        sampling: For proposer and solver; readings by the policy are greedy.
        games: Further games whose pooled tasks may be reused. Give all of them for a resumed run to equal an
            uninterrupted one.

    Raises:
        ConfigError: If the games of the plan differ in their rules.
    """
    if not plan:
        return []
    rules = _common_rules(plan)
    proposed = _propose(plan, agents, rules, sampling=sampling, rng=rng)
    known = {game.corpus.fingerprint: game for game in (*games, *(game for game, _ in plan))}
    slots = fill_slots(proposed, rules.filling, n_tasks=len(plan), pool=pool, games=known, rng=rng)
    rounds = _solve(slots, agents.solver, rules, sampling=sampling, rng=rng)
    for played in rounds if rules.filling in POOLED else ():
        if played.task is not None and played.origin != "dummy" and played.success_rate is not None:
            pool.add(played.task_corpus, played.task, success_rate=played.success_rate)
    pool.end_round(reset_every=rules.reset_every if rules.filling == "reset" else None)
    return rounds


def _common_rules(plan: Plan) -> GameRules:
    rules = plan[0][0].rules
    for game, _ in plan:
        if game.rules != rules:
            raise ConfigError(f"expected one set of rules in a plan, got {rules} and {game.rules}; play them apart")
    return rules


def _propose(
    plan: Plan, agents: Agents, rules: GameRules, *, sampling: Sampling, rng: np.random.Generator
) -> list[Slot]:
    """The proposals of the plan, and under ``resample`` those for further answers after them."""
    proposed = _propose_once(plan, agents, sampling=sampling, rng=rng)
    if rules.filling != "resample":
        return proposed
    pairs = [(game, answer) for game in {id(game): game for game, _ in plan}.values() for answer in game.answers]
    for _ in range(rules.max_resamples if pairs else 0):
        n_missing = len(plan) - sum(made.validation.ok for _, made in proposed)
        if not n_missing:
            break
        drawn = [pairs[int(i)] for i in rng.integers(len(pairs), size=n_missing)]
        proposed += _propose_once(drawn, agents, sampling=sampling, rng=rng)
    return proposed


def _propose_once(plan: Plan, agents: Agents, *, sampling: Sampling, rng: np.random.Generator) -> list[Slot]:
    episodes = [game.episode("proposer", answer) for game, answer in plan]
    trajectories = rollout(episodes, agents.proposer, sampling=sampling, rng=rng)
    pairs = [(game, trajectory) for (game, _), trajectory in zip(plan, trajectories, strict=True)]
    validations = validate_batch(pairs, policy=agents.reader, sampling=replace(sampling, temperature=0.0), rng=rng)
    return [
        (game, Round(answer, trajectory, validation, corpus=game.corpus.fingerprint))
        for (game, answer), trajectory, validation in zip(plan, trajectories, validations, strict=True)
    ]


def _solve(
    slots: Sequence[Slot], solver: Agent, rules: GameRules, *, sampling: Sampling, rng: np.random.Generator
) -> list[Round]:
    """Play and score all solves of all slots in one batch."""
    entries = [(game, played.task) for game, played in slots if played.task for _ in range(rules.n_solves)]
    episodes = [game.episode("solver", task) for game, task in entries]
    trajectories = rollout(episodes, solver, sampling=sampling, rng=rng)
    solves = iter(score_solves([(game, t) for (game, _), t in zip(entries, trajectories, strict=True)]))
    return [
        scored_round(rules, played, list(islice(solves, rules.n_solves if played.task else 0))) for _, played in slots
    ]
