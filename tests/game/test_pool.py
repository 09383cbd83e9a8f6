"""The pool of played tasks."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ssp_env.errors import RunError
from ssp_env.game.pool import QuestionPool
from ssp_env.types import Task


def task(i: int) -> Task:
    return Task(f"t{i}", f"Question {i}?", (f"answer {i}", "alias"), "2-hop")


def filled(n: int = 4) -> QuestionPool:
    pool = QuestionPool()
    for i in range(n):
        pool.add("even" if i % 2 == 0 else "odd", task(i), success_rate=i / n)
    return pool


def draws(pool: QuestionPool, n: int, corpora, seed: int = 0) -> list[str]:
    return [d.task.id for d in pool.draw(n, corpora, rng=np.random.default_rng(seed))]


def test_draws_are_seeded_repeat_and_stay_within_the_corpora() -> None:
    pool = filled()
    many = draws(pool, 50, {"even"})
    assert set(many) == {"t0", "t2"}
    assert many == draws(pool, 50, {"even"}) != draws(pool, 50, {"even"}, seed=1)
    assert set(draws(pool, 50, {"even", "odd"})) == {"t0", "t1", "t2", "t3"}


def test_nothing_to_draw() -> None:
    assert draws(QuestionPool(), 3, {"even"}) == [] == draws(filled(), 3, {"other"})


def test_pool_empties_when_the_new_count_is_a_multiple_of_the_interval() -> None:
    pool = QuestionPool()
    emptied = []
    for _ in range(30):
        current = pool.round
        pool.add("c", task(0), success_rate=1.0)
        pool.end_round(reset_every=10)
        if len(pool) == 0:
            emptied.append(current)
    assert emptied == [9, 19, 29]


def test_without_interval_nothing_is_lost_and_age_grows() -> None:
    pool = filled()
    assert pool.mean_age == 0.0
    for _ in range(20):
        pool.end_round(reset_every=None)
    assert (len(pool), pool.mean_age) == (4, 20.0)
    with pytest.raises(ValueError, match="positive interval"):
        pool.end_round(reset_every=0)


def test_state_survives_json_and_draws_go_on_alike() -> None:
    pool = filled()
    pool.end_round(reset_every=None)
    state = json.loads(json.dumps(pool.state_dict()))
    copy = QuestionPool()
    copy.load_state_dict(state)
    assert copy.state_dict() == pool.state_dict()
    assert draws(copy, 20, {"even", "odd"}) == draws(pool, 20, {"even", "odd"})


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"version": 2, "round": 1, "tasks": []},
        {"version": 1, "round": "x", "tasks": []},
        {"version": 1, "round": 1, "tasks": [{}]},
        {"version": 1, "round": 1, "tasks": ["x"]},
        {"version": 1, "round": 1, "tasks": None},
        {"version": 1, "round": 1, "tasks": [{"task": {"id": "x"}}]},
    ],
)
def test_unreadable_state_is_refused_and_changes_nothing(state) -> None:
    pool = filled()
    before = pool.state_dict()
    with pytest.raises(RunError, match="expected the state of a pool"):
        pool.load_state_dict(state)
    assert pool.state_dict() == before
