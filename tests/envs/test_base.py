"""What the environments share on the Gymnasium side: options, errors in its terms, seeds, render."""

from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from ssp_env.envs.base import TextEnv
from ssp_env.envs.settle import SelfPlayScenario
from ssp_env.envs.solver import SolverScenario
from ssp_env.errors import ConfigError
from ssp_env.types import Answer, Task
from tests.fakes import tiny_game

ENV_IDS = ("SearchSolver-v0", "SearchProposer-v0", "SearchSelfPlay-v0")


def tiny_solver(**parts):
    return TextEnv(SolverScenario(), tiny_game(**parts), render_mode="ansi")


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_a_seed_fixes_this_reset_and_the_following_ones(env_id):
    env = gym.make(env_id)
    first = [env.reset(seed=3)[0], env.reset()[0], env.reset()[0]]
    assert [env.reset(seed=3)[0], env.reset()[0], env.reset()[0]] == first
    assert len(set(first)) > 1


def test_seeds_are_kept_apart_between_environments():
    left, right = gym.make("SearchSolver-v0"), gym.make("SearchSolver-v0")
    expected = [left.reset(seed=1)[0], left.reset()[0]]
    first = left.reset(seed=1)[0]
    right.reset(seed=99)
    assert [first, left.reset()[0]] == expected


@pytest.mark.parametrize(
    "task",
    [
        Task("x", "Which one is it?", ("that",)),
        {"question": "Which one is it?", "answers": ["that"]},
        {"question": "Which one is it?", "answer": "that"},
    ],
)
def test_options_choose_the_task(task):
    assert "Which one is it?" in tiny_solver().reset(options={"task": task})[0]


def test_options_choose_by_index():
    env = gym.make("SearchSolver-v0").unwrapped
    for index in (0, np.int64(7)):
        assert env.game.tasks[index].question in env.reset(options={"task": index})[0]


@pytest.mark.parametrize(
    "options",
    [
        {"tsak": 0},
        {"tsak": 0, 1: 0},
        {"task": 5000},
        {"task": -1},
        {"task": "0"},
        {"task": False},
        {"task": np.True_},
        {"task": {"question": "q"}},
        {"task": 10**5000},
        {"task": Task("1", None, ("x",))},
        {"task": Task("1", "q \ud800", ("x",))},
        {"task": Task("1", "q", ())},
        {"task": Task("1", "q", (3,))},
        {"task": Task(float("nan"), "q", ("x",))},
        {"task": Answer("1", "x")},
        {"seed": 1},
        5,
        0,
        "task",
        ["task"],
        [],
    ],
)
def test_bad_options_are_refused(options):
    env = tiny_solver()
    with pytest.raises(ConfigError, match="expected"):
        env.reset(options=options)
    env.reset(options={"task": 0})


@pytest.mark.parametrize(
    "seed",
    [
        Answer("1", None),
        Answer("1", ""),
        Answer("1", "x", ("",)),
        Answer("1", "x", (), 0),
        Answer("1", "x", (), 10**5000),
    ],
)
def test_bad_seed_records_are_refused(seed):
    with pytest.raises(ConfigError, match="expected"):
        TextEnv(SelfPlayScenario(), tiny_game()).reset(options={"answer": seed})


def test_one_text_in_a_record_is_one_answer():
    env = tiny_solver()
    env.reset(options={"task": Task("1", "q", "Paris")})
    assert env.state.item == Task("1", "q", ("Paris",))
    assert env.step("<answer>Paris</answer>")[1] == 1.0


@pytest.mark.parametrize("seed", [None, 77])
def test_a_refused_reset_leaves_generator_and_episode(seed):
    env, whole = tiny_solver(), tiny_solver()
    assert env.reset(seed=5) == whole.reset(seed=5)
    with pytest.raises(ConfigError):
        env.reset(seed=seed, options={"task": 10**6})
    assert env.state.key == whole.state.key
    env.reset()
    whole.reset()
    assert env.state.key == whole.state.key


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_a_failed_first_reset_does_no_lasting_harm(env_id):
    env = gym.make(env_id, prompt_set="compact", render_mode="ansi")
    with pytest.raises(ConfigError, match="reset options"):
        env.reset(seed=0, options={"tsk": 1})
    with pytest.raises(ResetNeeded, match="call reset first"):
        env.step("<search>town</search>")
    with pytest.raises(ResetNeeded, match="call reset first"):
        env.render()
    whole = gym.make(env_id, prompt_set="compact", render_mode="ansi")
    assert env.reset(seed=0) == whole.reset(seed=0)
    assert env.step("<search>town</search>") == whole.step("<search>town</search>")
    assert env.render() == whole.render()


def test_a_game_without_tasks_says_what_to_give(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text(json.dumps({"id": "1", "title": "T", "text": "Blue things."}) + "\n")
    env = gym.make("SearchSolver-v0", corpus=str(path))
    with pytest.raises(ConfigError, match="pass tasks='file.jsonl'"):
        env.reset()
    assert "Why?" in env.reset(options={"task": {"question": "Why?", "answer": "so"}})[0]


def test_steps_before_the_reset_and_after_the_end_are_refused():
    env = tiny_solver()
    with pytest.raises(ResetNeeded):
        env.step("<search>Elm</search>")
    env.reset(seed=0)
    env.step("<answer>x</answer>")
    with pytest.raises(ResetNeeded):
        env.step("<search>Elm</search>")


@pytest.mark.parametrize("action", [None, 3, b"<answer>x</answer>", ["x"]])
def test_only_strings_are_actions(action):
    env = tiny_solver()
    env.reset(seed=0)
    with pytest.raises(TypeError, match="expected a string"):
        env.step(action)
    assert env.step("<answer>Lake Tarn</answer>")[1] == 1.0
    made = gym.make("SearchSolver-v0")
    made.reset(seed=0)
    with pytest.raises(TypeError, match="expected a string"):
        made.step(action)


def test_a_text_beyond_the_space_is_answered():
    env = tiny_solver()
    env.reset(seed=0)
    text = "x" * 40_000
    assert text not in env.action_space
    observation, reward, terminated, truncated, info = env.step(text)
    assert (reward, terminated, truncated, info["invalid_reason"]) == (0.0, False, False, "too_long")
    assert "too long" in observation


def test_lone_surrogates_are_replaced():
    env = tiny_solver()
    env.reset(seed=0)
    env.step("<search>Elm \ud800</search>")
    assert env.state.turn.action.argument == "Elm \ufffd"


def test_render_is_a_transcript():
    env = tiny_solver()
    env.reset(seed=0)
    env.step("<search>Oxley</search>")
    env.step("<answer>Lake Tarn</answer>")
    shown = env.render()
    assert shown.startswith("--- solver: finished, reward 1")
    assert "<search>Oxley</search>" in shown and "town on the river Elm" in shown


def test_render_without_a_mode_is_none_and_other_modes_are_refused():
    env = gym.make("SearchSolver-v0")
    env.reset(seed=0)
    assert env.render() is None
    with pytest.raises(ValueError, match="'ansi'"):
        TextEnv(SolverScenario(), tiny_game(), render_mode="human")


def test_close_twice():
    env = tiny_solver()
    env.close()
    env.close()
