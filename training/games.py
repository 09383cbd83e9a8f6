"""What a run plays: its games, the order of its answers, its held-out questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ssp_env.datasets import read_tasks
from ssp_env.errors import ConfigError
from ssp_env.game.game import Game
from ssp_env.game.judges import JUDGES
from ssp_env.game.pool import QuestionPool
from ssp_env.game.readers import READERS
from ssp_env.registry import build_game
from ssp_env.types import Answer, Task
from ssp_env.world import KINDS, World, WorldConfig
from training.config import RunConfig, described, parse_rule

N_TITLES = 1000
MAX_SEARCHES = 2


@dataclass(frozen=True, slots=True)
class Games:
    """The games that are trained on, and the game and questions of the evaluation.

    ``worlds`` are those of the training games, in order; empty where answers or passages come from files.
    ``world_seeds`` are the seeds of their worlds by fingerprint; empty where passages come from files.
    """

    training: tuple[Game, ...]
    held_out: Game
    tasks: tuple[Task, ...]
    worlds: tuple[World, ...] = ()
    world_seeds: Mapping[str, int] = field(default_factory=dict)


def build_games(config: RunConfig) -> Games:
    """Build all games of a run.

    Raises:
        SSPError: If the configuration or a file cannot be used.
    """
    worlds: tuple[World, ...] = ()
    world_seeds: dict[str, int] = {}
    if config.corpus:
        game = build_game(game_settings(config))
        training: tuple[Game, ...] = (
            game if game.answers else replace(game, answers=title_answers(game, config.seed)),
        )
        held_out = game
    else:
        numbers = range(config.world.first, config.world.first + config.world.number)
        training = tuple(build_game(game_settings(config, world=world)) for world in numbers)
        world_seeds = {game.corpus.fingerprint: number for game, number in zip(training, numbers, strict=True)}
        if config.answers is None:
            worlds = tuple(World(WorldConfig(seed=n, n_entities=config.world.entities)) for n in numbers)
        held_out = build_game(game_settings(config, world=config.eval.world))
    if config.demanded_searches:
        training = tuple(replace(game, answers=demanding(game.answers, config.demanded_searches)) for game in training)
    return Games(training, held_out, tuple(_held_out_tasks(config)), worlds, world_seeds)


def game_settings(config: RunConfig, *, world: int | None = None) -> dict[str, object]:
    """Return what ``ssp_env.registry.build_game`` takes, for the files of the run or one generated world."""
    game = config.game
    reader, judge = described(config, "reader"), described(config, "judge")
    if isinstance(reader, str) and reader not in READERS:
        reader = {"agent": reader}
    if isinstance(judge, str) and judge not in JUDGES:
        judge = {"name": "model", "agent": judge}
    rules = {"preset": game.rules, **dict(map(parse_rule, game.rule))}
    if game.n_solves is not None:
        rules["n_solves"] = game.n_solves
    return {
        "corpus": list(config.corpus) or {"world": {"seed": world, "n_entities": config.world.entities}},
        "retriever": described(config, "retriever"),
        "index_dir": game.index_dir,
        "rules": rules,
        "prompt_set": game.prompt_set,
        "reader": reader,
        "judge": judge,
        "answers": config.answers,
    }


def demanding(answers: Sequence[Answer], n_searches: Sequence[int]) -> tuple[Answer, ...]:
    """Return the first answers that demand these numbers of searches, each as often as it is named beside the others.

    ``(1, 1, 1, 2)`` keeps three answers that demand one search for each that demands two, and at least one of each
    where there are too few; numbers that are all named once keep every answer, however many there are of each.

    Raises:
        ConfigError: If one of the numbers is demanded by no answer.
    """
    named, held = Counter(n_searches), Counter(answer.n_searches for answer in answers)
    if missing := sorted(set(named) - set(held)):
        raise ConfigError(
            f"expected answers that demand {missing} searches, got {sorted(held)}; change demanded_searches"
        )
    if set(named.values()) == {1}:
        return tuple(answer for answer in answers if answer.n_searches in named)
    scarce = min(named, key=lambda n: held[n] / named[n])
    left = {n: max(1, held[scarce] * times // named[scarce]) for n, times in named.items()}
    kept: list[Answer] = []
    for answer in answers:
        if left.get(answer.n_searches, 0):
            left[answer.n_searches] -= 1
            kept.append(answer)
    return tuple(kept)


def title_answers(game: Game, seed: int) -> tuple[Answer, ...]:
    """Return titles of random passages as answers to start from, demanding one or two searches in turn."""
    rng = np.random.default_rng([seed, 3])
    positions = rng.permutation(len(game.corpus))[:N_TITLES]
    passages = {p.title: p for p in map(game.corpus.at, positions.tolist()) if p.title}
    if not passages:
        raise ConfigError("expected answers, got a corpus without titles; give a file of answers with --answers")
    return tuple(
        Answer(id=passage.id, text=title, n_searches=1 + i % MAX_SEARCHES)
        for i, (title, passage) in enumerate(passages.items())
    )


def plan_of_round(games: Sequence[Game], config: RunConfig, round_index: int) -> list[tuple[Game, Answer]]:
    """Return the games and answers of a round: every pair is drawn once before any is drawn again.

    A drawn pair stands in the plan ``proposals_per_answer`` times.

    A function of its arguments alone, so that a resumed run goes on with the same answers.
    """
    pairs = [(game, answer) for game in games for answer in game.answers]
    plan: list[tuple[Game, Answer]] = []
    n_drawn = config.answers_per_round // config.proposals_per_answer
    for i in range(round_index * n_drawn, (round_index + 1) * n_drawn):
        epoch, place = divmod(i, len(pairs))
        order = np.random.default_rng([config.seed, 4, epoch]).permutation(len(pairs))
        plan += [pairs[int(order[place])]] * config.proposals_per_answer
    return plan


def fill_pool(pool: QuestionPool, games: Sequence[Game], config: RunConfig) -> None:
    """Put the questions of ``game.pool_tasks`` into a new pool."""
    if config.game.pool_tasks is not None:
        for task in read_tasks(Path(config.game.pool_tasks)):
            pool.add(games[0].corpus.fingerprint, task, success_rate=0.0)


def _held_out_tasks(config: RunConfig) -> list[Task]:
    if config.eval.questions <= 0:
        return []
    if config.eval.tasks is not None:
        tasks = read_tasks(Path(config.eval.tasks))
        by_kind: dict[str, list[Task]] = {}
        for task in tasks:
            by_kind.setdefault(task.kind, []).append(task)
        return [task for members in by_kind.values() for task in members[: config.eval.questions]]
    if config.corpus:
        return []
    world = World(WorldConfig(seed=config.eval.world, n_entities=config.world.entities))
    rng = np.random.default_rng([config.eval.world, 5])
    return [task for kind in KINDS for task in world.tasks(kind, config.eval.questions, rng)]
