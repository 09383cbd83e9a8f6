import json
from collections import Counter

import pytest

from ssp_env.errors import ConfigError
from ssp_env.game.pool import QuestionPool
from ssp_env.types import Answer
from training.config import RunConfig, resolved
from training.games import build_games, demanding, fill_pool, plan_of_round
from training.settings import EvalSettings, GameSettings, WorldSettings


@pytest.fixture(scope="module")
def worlds():
    return build_games(resolved(RunConfig(world=WorldSettings(2), eval=EvalSettings(questions=4))))


def test_a_seed_may_be_proposed_for_several_times_in_a_row(worlds):
    config = resolved(RunConfig(answers_per_round=8, proposals_per_answer=4))
    plan = plan_of_round(worlds.training, config, 2)
    assert len(plan) == 8 and plan[0] == plan[3] != plan[4] == plan[7]


def test_the_worlds_of_the_games_are_known_and_their_numbers_chosen():
    games = build_games(resolved(RunConfig(world=WorldSettings(1, first=7), eval=EvalSettings(questions=0))))
    assert [world.config.seed for world in games.worlds] == [7]
    assert games.worlds[0].passages == tuple(games.training[0].corpus.at(i) for i in range(200))


def test_every_seed_comes_once_before_any_comes_again(worlds):
    config = resolved(RunConfig(answers_per_round=50))
    n = sum(len(game.answers) for game in worlds.training)
    plan = [pair for i in range(n // 50) for pair in plan_of_round(worlds.training, config, i)]
    assert len({(game.corpus.fingerprint, answer.id, answer.n_searches) for game, answer in plan}) == n == len(plan)


def test_a_plan_depends_on_seed_and_round_alone(worlds):
    config, other = resolved(RunConfig()), resolved(RunConfig(seed=1))
    assert plan_of_round(worlds.training, config, 3) == plan_of_round(worlds.training, config, 3)
    assert plan_of_round(worlds.training, config, 3) != plan_of_round(worlds.training, config, 4)
    assert plan_of_round(worlds.training, config, 3) != plan_of_round(worlds.training, other, 3)


def test_held_out_questions_are_of_every_kind_and_of_another_world(worlds):
    counts = {}
    for task in worlds.tasks:
        counts[task.kind] = counts.get(task.kind, 0) + 1
    assert set(counts.values()) == {4}
    assert len(counts) == 6
    assert worlds.held_out.corpus.fingerprint not in {game.corpus.fingerprint for game in worlds.training}


def jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_titles_stand_in_for_missing_seeds_and_files_for_held_out_questions(tmp_path):
    corpus = jsonl(tmp_path / "c.jsonl", [{"id": str(i), "title": f"T{i}", "text": "text"} for i in range(9)])
    questions = [{"question": f"Q{i}?", "answers": ["a"], "kind": "x"} for i in range(5)]
    tasks = jsonl(tmp_path / "t.jsonl", questions)
    config = resolved(
        RunConfig(
            corpus=(corpus,),
            model=str(tmp_path),
            eval=EvalSettings(tasks=tasks, questions=3),
            game=GameSettings(pool_tasks=tasks),
        )
    )
    games = build_games(config)
    assert sorted(answer.text for answer in games.training[0].answers) == [f"T{i}" for i in range(9)]
    assert {answer.n_searches for answer in games.training[0].answers} == {1, 2}
    assert [task.question for task in games.tasks] == ["Q0?", "Q1?", "Q2?"]
    pool = QuestionPool()
    fill_pool(pool, games.training, config)
    assert len(pool) == 5


def test_a_corpus_without_titles_needs_seeds(tmp_path):
    corpus = jsonl(tmp_path / "c.jsonl", [{"id": "1", "title": "", "text": "text"}])
    with pytest.raises(ConfigError, match="--answers"):
        build_games(resolved(RunConfig(corpus=(corpus,), model=str(tmp_path))))


def test_seeds_are_chosen_by_the_searches_they_demand(worlds):
    chosen = demanding(worlds.training[0].answers, (2,))
    assert chosen and {answer.n_searches for answer in chosen} == {2}
    with pytest.raises(ConfigError, match="change demanded_searches"):
        demanding(chosen, (3,))


def test_demanded_searches_named_more_often_are_played_more_often(worlds):
    answers = worlds.training[0].answers
    chosen = demanding(answers, (1, 1, 1, 2))
    counts = Counter(answer.n_searches for answer in chosen)
    assert set(counts) == {1, 2}
    assert abs(counts[1] - 3 * counts[2]) < 3 and counts[1] + 2 > sum(answer.n_searches == 1 for answer in answers)
    assert [answer for answer in answers if answer in chosen] == list(chosen)


def test_scarce_seeds_are_all_kept_in_their_proportion():
    answers = [Answer(str(i), "x", n_searches=1 if i < 15 else 2) for i in range(100)]
    assert Counter(answer.n_searches for answer in demanding(answers, (1,) * 11 + (2,))) == {1: 15, 2: 1}
