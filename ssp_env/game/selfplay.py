"""The round of search self-play: propose, validate, fill the slots, solve, judge, reward (SSP section 3, algorithm 1).

Every phase is one batch over all games of the plan. Whose weights are trained on the resulting rounds, and how, is
the trainer's part. Failures of ours are recorded, score nobody and never stop a round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ssp_env.errors import ConfigError
from ssp_env.game.game import Game
from ssp_env.game.pool import POOLED, Proposed, QuestionPool, Slot, fill_slots
from ssp_env.game.rollout import rollout
from ssp_env.game.rules import GameRules
from ssp_env.game.scoring import pay_proposer, score_solves, success_rate
from ssp_env.game.validator import validate
from ssp_env.protocols import Agent
from ssp_env.types import Answer, Round, Sampling, Trajectory, Verdict

Plan = Sequence[tuple[Game, Answer]]
Solves = list[tuple[Trajectory, Verdict]]


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
    proposals = _propose(plan, agents, rules, sampling=sampling, rng=rng)
    known = {game.corpus.fingerprint: game for game in (*games, *(game for game, _ in plan))}
    slots = fill_slots(proposals, rules.filling, n_tasks=len(plan), pool=pool, games=known, rng=rng)
    solved = _solve(slots, agents.solver, rules, sampling=sampling, rng=rng)
    rounds = [_round(rules, *parts) for parts in zip(proposals, slots, solved, strict=True)]
    for slot, played in zip(slots, rounds, strict=True) if rules.filling in POOLED else ():
        if slot.origin != "dummy" and played.task is not None and played.success_rate is not None:
            pool.add(slot.game.corpus.fingerprint, played.task, success_rate=played.success_rate)
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
) -> list[Proposed]:
    """The proposals of the plan, and under ``resample`` those for further answers after them."""
    proposals = _propose_once(plan, agents, sampling=sampling, rng=rng)
    if rules.filling != "resample":
        return proposals
    pairs = [(game, answer) for game in {id(game): game for game, _ in plan}.values() for answer in game.answers]
    for _ in range(rules.max_resamples if pairs else 0):
        n_missing = len(plan) - sum(proposed.validation.ok for proposed in proposals)
        if not n_missing:
            break
        drawn = [pairs[int(i)] for i in rng.integers(len(pairs), size=n_missing)]
        proposals += _propose_once(drawn, agents, sampling=sampling, rng=rng)
    return proposals


def _propose_once(plan: Plan, agents: Agents, *, sampling: Sampling, rng: np.random.Generator) -> list[Proposed]:
    episodes = [game.episode("proposer", answer) for game, answer in plan]
    trajectories = rollout(episodes, agents.proposer, sampling=sampling, rng=rng)
    pairs = [(game, trajectory) for (game, _), trajectory in zip(plan, trajectories, strict=True)]
    validations = validate(pairs, policy=agents.reader, sampling=replace(sampling, temperature=0.0), rng=rng)
    return [
        Proposed(game, answer, trajectory, validation)
        for (game, answer), trajectory, validation in zip(plan, trajectories, validations, strict=True)
    ]


def _solve(
    slots: Sequence[Slot], solver: Agent, rules: GameRules, *, sampling: Sampling, rng: np.random.Generator
) -> list[Solves]:
    """All solves of all slots in one batch."""
    entries = [(i, slot.game, slot.task) for i, slot in enumerate(slots) if slot.task for _ in range(rules.n_solves)]
    episodes = [game.episode("solver", task) for _, game, task in entries]
    trajectories = rollout(episodes, solver, sampling=sampling, rng=rng)
    scored = score_solves([(game, t) for (_, game, _), t in zip(entries, trajectories, strict=True)])
    solved: list[Solves] = [[] for _ in slots]
    for (i, _, _), result in zip(entries, scored, strict=True):
        solved[i].append(result)
    return solved


def _round(rules: GameRules, proposed: Proposed, slot: Slot, solved: Solves) -> Round:
    solves = tuple(trajectory for trajectory, _ in solved)
    rate = success_rate(solves)
    reward = pay_proposer(rules, proposed.validation, rate)
    return Round(
        answer=proposed.answer,
        proposal=replace(proposed.trajectory, reward=reward),
        validation=proposed.validation,
        origin=slot.origin,
        task=slot.task,
        solves=solves,
        verdicts=tuple(verdict for _, verdict in solved),
        success_rate=rate,
        proposer_reward=reward,
        corpus=proposed.game.corpus.fingerprint,
        task_corpus=slot.game.corpus.fingerprint if slot.task else "",
    )
