"""One round after the other: play, turn trajectories into weighted rows, note figures, evaluate, keep checkpoints.

Everything random in a round is drawn from a generator made of the run's seed and the round's number. What has to be
remembered from round to round is the weights, the optimiser and the pool of questions: that is what a checkpoint holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from ssp_agents.hf import HFAgent
from ssp_env.errors import RunError
from ssp_env.game.pool import QuestionPool
from ssp_env.game.records import round_record, round_statistics
from ssp_env.game.selfplay import Agents, run_rounds
from ssp_env.protocols import Agent
from ssp_env.types import Round, Sampling, Trajectory
from training import monitor
from training.advantages import Aggregation, coefficients, estimate
from training.config import RunConfig
from training.display import game_text, sample_game
from training.evaluate import best_round, evaluate, pass_at_k
from training.games import Games, fill_pool, plan_of_round
from training.monitor import Alarm, alarms, good_before, role_entropy
from training.progress import Progress
from training.rows import RowCounts, TrainingRow, training_rows
from training.run_folder import RunFolder
from training.settings import RoleSettings
from training.update import RoundEnd, ScoredRow

Figures = dict[str, float | None]
Groups = list[tuple[int, list[Trajectory]]]
"""Trajectories whose rewards are compared, with the number of searches that was demanded of their question."""


class SelfPlayDriver:
    """Plays the rounds of a run and keeps its folder."""

    def __init__(
        self, config: RunConfig, games: Games, folder: RunFolder, *, progress: Progress, frozen: HFAgent | None = None
    ) -> None:
        """Start a run, or go on where the folder's checkpoint was made.

        Args:
            config: Resolved.
            games: What is played.
            folder: Where everything is written.
            progress: What is shown.
            frozen: The initial policy, for the role that is not trained.
        """
        self.config, self.folder, self.progress, self.frozen = config, folder, progress, frozen
        readers = {id(g.reader): progress.watched_reader(g.reader) for g in games.training if g.reader}
        watched = tuple(replace(game, reader=readers.get(id(game.reader))) for game in games.training)
        self.games = replace(games, training=watched)
        self.pool = QuestionPool()
        self.round = 0
        if folder.checkpoint is None:
            fill_pool(self.pool, games.training, config)
        else:
            pool = folder.checkpoint.state.get("pool")
            if not isinstance(pool, Mapping):
                raise RunError(f"expected a pool in {folder.checkpoint.path}, got {pool!r}; delete this checkpoint")
            self.pool.load_state_dict(pool)
            self.round = folder.checkpoint.round
        self._max_new_tokens = config.sampling.max_new_tokens or 0
        self._played: list[Round] = []
        self._figures: Figures = {}
        self._lines: list[Mapping[str, object]] = [*folder.metrics()]
        self._alarms: list[Alarm] = alarms(self._lines)
        self._told = {alarm.name for alarm in self._alarms if alarm.remedy}

    def run_round(self, agent: HFAgent) -> list[ScoredRow]:
        """Play one round; before the first one, evaluate."""
        if self.round == 0 and (before := self._evaluation(agent)):
            self._note({"round": 0, **before}, [])
        config = self.config
        other = self.frozen or agent
        agents = Agents(
            proposer=self.progress.watched(agent if config.proposer.train else other, "proposing"),
            solver=self.progress.watched(agent if config.solver.train else other, "solving"),
            reader=self.progress.watched(agent, "checking"),
        )
        self._played = run_rounds(
            plan_of_round(self.games.training, config, self.round),
            agents,
            pool=self.pool,
            rng=np.random.default_rng([config.seed, 6, self.round]),
            sampling=Sampling(max_tokens=self._max_new_tokens, temperature=config.sampling.temperature),
            games=self.games.training,
        )
        rows, counts = scored_rows(self._played, config, learn_solver=self.round >= config.warm_up_rounds)
        self._figures = {**round_statistics(self._played, self.pool), **_figures(counts), **role_entropy(rows)}
        self.progress.at("updating")
        return rows

    def finish_round(self, agent: HFAgent, metrics: Mapping[str, float]) -> RoundEnd:
        """Write the round down, evaluate when it is due, say whether to save (always the best round) and to stop."""
        self.round += 1
        last = self.round >= self.config.n_rounds
        due = last or self.round % self.config.eval.every == 0
        evaluation = self._evaluation(agent) if due else {}
        known = self._closed_book(agent) if due else None
        self._note({"round": self.round, **self._figures, **metrics, **evaluation}, self._played, known)
        self._show_game(last=last)
        collapsed = self.config.on_collapse == "stop" and any(alarm.stops for alarm in self._alarms)
        stop = self.progress.interrupted or collapsed
        best = bool(evaluation) and best_round(self._lines) == self.round
        return RoundEnd(save=last or stop or best or self.round % self.config.checkpoints.every == 0, stop=stop)

    def publish(self, checkpoint: Path) -> None:
        """Complete a checkpoint with the pool and move it to its place in the run's folder."""
        state = {"pool": self.pool.state_dict()}
        keep, good = self.config.checkpoints.keep, good_before(self._lines)
        best = best_round(self._lines)
        self.folder.publish(checkpoint, self.round, state, keep=keep, good_before=good, best=best)

    def _evaluation(self, agent: Agent) -> Figures:
        if not self.games.tasks:
            return {}
        config, games, agent = self.config, self.games, self.progress.watched(agent, "examining")
        accuracy = evaluate(games.held_out, games.tasks, agent, max_new_tokens=self._max_new_tokens)
        figures: Figures = {f"held_out/{kind}": share for kind, share in accuracy.items()}
        if config.eval.samples and self.round in (0, config.n_rounds):
            sampled = pass_at_k(
                games.held_out,
                games.tasks,
                agent,
                n_samples=config.eval.samples,
                max_new_tokens=self._max_new_tokens,
                temperature=config.sampling.temperature,
                seed=config.eval.world,
            )
            figures |= {f"pass@{name}": share for name, share in sampled.items()}
        return figures

    def _closed_book(self, agent: Agent) -> monitor.ClosedBook:
        watched = self.progress.watched(agent, "examining")
        return monitor.closed_book(self._played, self.games, watched, max_new_tokens=self._max_new_tokens)

    def _show_game(self, *, last: bool) -> None:
        """Show a game now and then, so that a person sees what the figures are about."""
        every, game = self.config.sample_every, sample_game(self._played)
        if every and game and (last or self.round % every == 0):
            self.progress.say(f"  A game of round {self.round}\n{game_text(game, width=self.progress.width)}")

    def _note(
        self, figures: Mapping[str, float | None], played: Sequence[Round], known: monitor.ClosedBook | None = None
    ) -> None:
        """Write a round down, show it, and warn of what has begun to collapse."""
        found = monitor.measure(played, self.games)
        world = self.games.world_seeds.get
        records = [
            {
                **{"round": figures["round"], "world": world(r.corpus), "task_world": world(r.task_corpus)},
                **round_record(r),
                **monitor.record(q, (known or {}).get(i)),
            }
            for i, (r, q) in enumerate(zip(played, found, strict=True))
        ]
        line = {**figures, **monitor.figures(played, found, known)}
        self._alarms = alarms([*self._lines, line])
        line |= {f"collapse/{alarm.name}": float(alarm.since) for alarm in self._alarms}
        self._lines.append(line)
        self.folder.append("rounds.jsonl", records)
        self.folder.append("metrics.jsonl", [line])
        self.progress.show(line)
        for alarm in self._alarms:
            if alarm.remedy and alarm.name not in self._told:
                self._told.add(alarm.name)
                self._warn(alarm)

    def _warn(self, alarm: Alarm) -> None:
        good = self.folder.last_before(alarm.since) if monitor.DETECTORS[alarm.name].spoils else None
        kept = f" Last checkpoint before that: {good.name}." if good else ""
        self.progress.say(
            f"Warning: since round {alarm.since}, {alarm.text} ({alarm.name}).\n  What to do: {alarm.remedy}.{kept}"
        )


def scored_rows(
    played: Sequence[Round], config: RunConfig, *, learn_solver: bool = True
) -> tuple[list[ScoredRow], RowCounts]:
    """Return the weighted rows of the roles that are trained, and what became of all their trajectories.

    ``config`` is resolved. Trajectories without a reward have no row.
    """
    proposed = _by_answer(played, config.proposals_per_answer) if config.proposer.train else []
    proposals = [(rounds[0].answer.n_searches, [r.proposal for r in rounds]) for rounds in proposed]
    learned = played if config.solver.train and learn_solver else ()
    solves = [(r.answer.n_searches, list(r.solves)) for r in learned]
    roles: list[tuple[Groups, RoleSettings]] = [(proposals, config.proposer), (solves, config.solver)]
    rows, counts = training_rows([t for groups, _ in roles for _, group in groups for t in group])
    remaining = iter(rows)
    scored: list[ScoredRow] = []
    for groups, role in roles:
        rewards = [[t.reward for t in group] for _, group in groups]
        estimated = estimate(role.advantage, rewards, labels=[demanded for demanded, _ in groups])
        advantages = [a for group in estimated for a in group]
        flat = [reward for group in rewards for reward in group]
        scored += _weighted(
            [
                (row, a)
                for row, reward, a in zip([next(remaining) for _ in flat], flat, advantages, strict=True)
                if row is not None and reward is not None
            ],
            aggregation=role.aggregation,
            weight=role.weight,
        )
    return scored, counts


def _by_answer(played: Sequence[Round], per_answer: int) -> list[list[Round]]:
    """Return the rounds in groups of one answer, or each alone where an answer is drawn once."""
    groups: dict[object, list[Round]] = {}
    for i, r in enumerate(played):
        groups.setdefault(r.answer if per_answer > 1 else i, []).append(r)
    return list(groups.values())


def _weighted(kept: list[tuple[TrainingRow, float]], *, aggregation: Aggregation, weight: float) -> list[ScoredRow]:
    tokens = [row.n_sampled for row, _ in kept]
    values = coefficients([a for _, a in kept], tokens, aggregation=aggregation, weight=weight)
    return [ScoredRow(row, value) for (row, _), value in zip(kept, values, strict=True)]


def _figures(counts: RowCounts) -> Figures:
    return {f"rows/{name}": value for name, value in asdict(counts).items()}
