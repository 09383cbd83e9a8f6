"""Info is fresh, complete, deterministic, and never gives the answer away."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from ssp_env.envs.base import TextEnv
from ssp_env.envs.info import Info
from ssp_env.envs.solver import SolverScenario
from tests.fakes import tiny_game

END_KEYS = {"item_id", "truncation", "validation", "verdicts", "rewards"}
ALWAYS = set(Info.__annotations__) - END_KEYS
SECRET = {"task": {"question": "Which lake?", "answers": ["Xyzzyland", "Xyzzy"]}}


def played(actions, options=None):
    env = TextEnv(SolverScenario(), tiny_game())
    return [env.reset(seed=0, options=options), *(env.step(action) for action in actions)]


def test_the_schema_is_complete():
    replies = played(["hello", "<search>Elm</search>", "<answer>x</answer>"])
    assert all(set(reply[-1]) == ALWAYS for reply in replies[:-1])
    assert set(replies[-1][-1]) == ALWAYS | END_KEYS - {"validation"}


def test_no_key_is_taken_from_gymnasium():
    assert "episode" not in Info.__annotations__


def test_validity_of_the_last_action_is_told():
    replies = played(["hello", "<search> </search>", "<search>Elm", "<browse>x</browse>", "<search>Elm</search>"])
    told = [(reply[-1]["valid_action"], reply[-1]["invalid_reason"]) for reply in replies]
    assert told == [
        (True, ""),
        (False, "no_action"),
        (False, "empty_argument"),
        (False, "unclosed"),
        (False, "not_allowed"),
        (True, ""),
    ]


def test_messages_are_the_conversation():
    info = played(["<think>hm</think><search>Elm</search> and more"])[-1][-1]
    assert [m["role"] for m in info["messages"][-3:]] == ["user", "assistant", "user"]
    assert info["messages"][-2]["content"] == "<think>hm</think><search>Elm</search>"
    assert info["stop"] == ["</search>", "</answer>"]


def test_answers_appear_nowhere_while_the_episode_runs_nor_after_it():
    for reply in played(["hello", "<search>lake</search>", "<answer>no</answer>"], SECRET):
        assert "xyzzy" not in repr(reply).lower()


@pytest.mark.parametrize("env_id", ["SearchSolver-v0", "SearchProposer-v0", "SearchSelfPlay-v0"])
def test_infos_are_fresh_objects(env_id):
    env = gym.make(env_id)
    _, first = env.reset(seed=0)
    kept = repr(first)
    _, _, _, _, second = env.step("<search>town</search>")
    second["messages"][0]["content"] = "changed"
    second["stop"].clear()
    assert repr(first) == kept
    assert env.step("hello")[-1]["messages"][0]["content"] != "changed"


def test_messages_grow_by_two_a_turn():
    replies = played(["hello", "<search>Elm</search>"])
    lengths = [len(reply[-1]["messages"]) for reply in replies]
    assert lengths == [lengths[0], lengths[0] + 2, lengths[0] + 4]


WHOLE = {"n_searches", "searches_left", "turns_left"}


def check_vector(infos, single, n):
    """Check that infos hold what the single infos do, as documented: arrays and masks by key, nested for a dict."""
    for key in {key for info in single for key in info}:
        has = [key in info for info in single]
        assert infos[f"_{key}"].dtype == np.bool_ and infos[f"_{key}"].tolist() == has
        if isinstance(infos[key], dict):
            check_vector(infos[key], [info.get(key, {}) for info in single], n)
            continue
        kind = np.int64 if key in WHOLE else np.bool_ if key == "valid_action" else np.object_
        assert (infos[key].dtype, infos[key].shape) == (kind, (n,))
        assert [value for value, there in zip(infos[key].tolist(), has, strict=True) if there] == [
            info[key] for info in single if key in info
        ]


def test_infos_of_a_vector_have_the_documented_types_and_the_values_of_single_ones():
    config = {"rules": {"preset": "world", "n_solves": 1, "gate": False, "min_words": 1}}
    actions = ["<search>town</search>", "<question>Why?</question>", "hello"]
    envs = gym.make_vec("SearchSelfPlay-v0", num_envs=3, autoreset_mode="SameStep", **config)
    singles = [gym.make("SearchSelfPlay-v0", **config) for _ in actions]
    reset = [env.reset(seed=4 + i)[1] for i, env in enumerate(singles)]
    check_vector(envs.reset(seed=4)[1], reset, 3)
    stepped = [env.step(action)[-1] for env, action in zip(singles, actions, strict=True)]
    assert set(stepped[1]) == ALWAYS | END_KEYS and "rewards" not in stepped[0]
    infos = envs.step(actions)[-1]
    assert infos["final_obs"].dtype == np.object_ and infos["_final_info"].tolist() == [False, True, False]
    check_vector(infos["final_info"], [{}, stepped[1], {}], 3)
    assert infos["final_info"]["rewards"]["proposer"].tolist() == [None, stepped[1]["rewards"]["proposer"], None]
    check_vector(infos, [stepped[0], singles[1].reset()[1], stepped[2]], 3)
