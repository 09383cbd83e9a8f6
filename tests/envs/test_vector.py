"""The vector environment plays the episodes of the single ones, with one retrieval call a step."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from ssp_env.envs.solver import SolverScenario
from ssp_env.envs.vector import TextVectorEnv
from ssp_env.errors import ConfigError, RetrievalError, SpaceError
from tests.fakes import BrokenRetriever, FakeRetriever, tiny_game

ENV_IDS = ("SearchSolver-v0", "SearchProposer-v0", "SearchSelfPlay-v0")


def tiny_vector(n=3, *, autoreset_mode="NextStep", **parts):
    return TextVectorEnv(SolverScenario(), tiny_game(**parts), num_envs=n, autoreset_mode=autoreset_mode)


def unbatched(infos, i):
    """The info of one episode out of the arrays."""
    info = {}
    for key, value in infos.items():
        if key.startswith("_") or not infos[f"_{key}"][i]:
            continue
        info[key] = unbatched(value, i) if isinstance(value, dict) else value[i]
    return info


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_sixty_four_at_once(env_id):
    env = gym.make_vec(env_id, num_envs=64)
    assert isinstance(env, TextVectorEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    observations, _ = env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(8):
        assert observations in env.observation_space
        observations, rewards, terminations, truncations, _ = env.step(env.action_space.sample())
        assert rewards.dtype == np.float64 and rewards.shape == (64,)
        assert terminations.dtype == truncations.dtype == np.bool_
    env.close()


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_episodes_equal_those_of_single_environments(env_id):
    n, seed = 6, 40
    vector = gym.make_vec(env_id, num_envs=n)
    singles = [gym.make(env_id) for _ in range(n)]
    vector.action_space.seed(2)
    observations, infos = vector.reset(seed=seed)
    ended = [False] * n
    for i, env in enumerate(singles):
        observation, info = env.reset(seed=seed + i)
        assert (observation, info) == (observations[i], unbatched(infos, i))
    for _ in range(40):
        actions = vector.action_space.sample()
        observations, rewards, terminations, truncations, infos = vector.step(actions)
        for i, env in enumerate(singles):
            if ended[i]:
                reply = (*env.reset(), 0.0, False, False)
                observation, info, reward, terminated, truncated = reply
            else:
                observation, reward, terminated, truncated, info = env.step(actions[i])
            ended[i] = terminated or truncated
            assert observation == observations[i]
            assert (reward, terminated, truncated) == (rewards[i], terminations[i], truncations[i])
            assert info == unbatched(infos, i)
    assert gym.make_vec(env_id, num_envs=1).num_envs == 1


def plain(infos):
    """Infos that can be compared: arrays as lists."""
    return {k: plain(v) if isinstance(v, dict) else np.asarray(v).tolist() for k, v in infos.items()}


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("env_id", ENV_IDS)
def test_all_replies_equal_those_of_gymnasiums_own_vector_environment(env_id, limit, mode):
    """Autoreset, final observations and infos, and ``max_episode_steps``, which there is a wrapper."""
    spec = gym.make(env_id, rules={"preset": "world", "max_turns": 4}, max_episode_steps=limit).spec
    ours = gym.make_vec(spec, num_envs=4, autoreset_mode=mode)
    theirs = gym.make_vec(spec, num_envs=4, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})
    assert ours.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"] is mode
    ours.action_space.seed(3)
    replies = [env.reset(seed=5) for env in (ours, theirs)]
    n_ended = 0
    for _ in range(15):
        actions = [text if i % 2 else "hello" for i, text in enumerate(ours.action_space.sample())]
        (obs, *numbers, infos), (their_obs, *their_numbers, their_infos) = (env.step(actions) for env in (ours, theirs))
        assert obs == their_obs
        assert [n.tolist() for n in numbers] == [n.tolist() for n in their_numbers]
        assert plain(infos) == plain(their_infos)
        ended = numbers[1] | numbers[2]
        n_ended += ended.sum()
        assert ("final_obs" in infos) == (mode is AutoresetMode.SAME_STEP and ended.any())
        if mode is AutoresetMode.DISABLED and ended.any():
            replies = [env.reset(options={"reset_mask": ended}) for env in (ours, theirs)]
            assert replies[0][0] == replies[1][0] and plain(replies[0][1]) == plain(replies[1][1])
    assert n_ended
    theirs.close()


def test_a_step_limit_leaves_the_episode_as_it_is():
    env = gym.make_vec("SearchSolver-v0", num_envs=1, max_episode_steps=2, render_mode="ansi")
    env.reset(seed=0)
    env.step(["<search>town</search>"])
    observations, rewards, terminations, truncations, infos = env.step(["<search>town</search>"])
    assert "<information>" in observations[0] and "rewards" not in infos and rewards.tolist() == [0.0]
    assert (terminations.tolist(), truncations.tolist()) == ([False], [True])
    assert env.render()[0].count("[assistant]") == 2
    unlimited = gym.make_vec(gym.make("SearchSolver-v0", max_episode_steps=1).spec, max_episode_steps=-1)
    unlimited.reset(seed=0)
    assert not unlimited.step(["<search>town</search>"])[3].any()


@pytest.mark.parametrize("mode", ["SameStep", AutoresetMode.DISABLED])
def test_a_vector_spec_makes_the_same_environment_again(mode):
    env = gym.make_vec("SearchSolver-v0", num_envs=3, autoreset_mode=mode, max_episode_steps=2)
    again = gym.make_vec(env.spec)
    assert (again.num_envs, again.metadata) == (3, env.metadata)
    assert mode is AutoresetMode.DISABLED or EnvSpec.from_json(env.spec.to_json()) == env.spec
    assert again.reset(seed=1)[0] == env.reset(seed=1)[0]


@pytest.mark.parametrize("options", [5, 0, "task", ["task"], {"task": False}, {"task": [0, 0, False]}, {"tsk": 0}])
def test_bad_options_are_refused(options):
    env = tiny_vector()
    with pytest.raises(ConfigError, match="expected"):
        env.reset(options=options)
    assert len(env.reset(options={"task": 0})[0]) == 3


@pytest.mark.parametrize("seed", [None, 77])
def test_a_refused_reset_leaves_all_generators_and_episodes(seed):
    env, whole = tiny_vector(), tiny_vector()
    assert env.reset(seed=5)[0] == whole.reset(seed=5)[0]
    before = env.states
    with pytest.raises(ConfigError):
        env.reset(seed=seed, options={"task": [0, 0, 10**6]})
    assert env.states == before
    env.reset()
    whole.reset()
    assert [state.key for state in env.states] == [state.key for state in whole.states]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_an_autoreset_with_nothing_to_draw_from_is_refused_at_the_reset(mode):
    options = {"task": {"question": "Why?", "answers": ["x"]}}
    game = replace(tiny_game(), tasks=())
    env = TextVectorEnv(SolverScenario(), game, num_envs=2, autoreset_mode=mode)
    for given in (options, None):
        with pytest.raises(ConfigError, match="tasks='file.jsonl', or autoreset_mode='Disabled'"):
            env.reset(seed=1, options=given)
    by_hand = TextVectorEnv(SolverScenario(), game, num_envs=2, autoreset_mode="Disabled")
    by_hand.reset(seed=1, options=options)
    assert by_hand.step(["<answer>x</answer>", "<answer>y</answer>"])[1].tolist() == [1.0, 0.0]


def test_a_step_makes_one_retrieval_call():
    retriever = FakeRetriever()
    env = tiny_vector(4, retriever=retriever)
    env.reset(seed=0)
    env.step(["<search>Elm</search>"] * 3 + ["<answer>x</answer>"])
    assert retriever.batches == [["Elm"] * 3]


def test_a_failure_changes_no_episode():
    env = tiny_vector(2, retriever=BrokenRetriever("Ash"))
    env.reset(seed=0)
    before = env.states
    with pytest.raises(RetrievalError):
        env.step(["<search>Elm</search>", "<search>Ash</search>"])
    assert env.states == before
    assert env.step(["<search>Elm</search>", "<search>Elm</search>"])[1].tolist() == [0.0, 0.0]


def test_the_step_after_an_end_resets():
    env = tiny_vector(2)
    env.reset(seed=0)
    _, rewards, terminations, _, infos = env.step(["<answer>Lake Tarn</answer>", "<search>Elm</search>"])
    assert rewards.tolist() == [1.0, 0.0] and terminations.tolist() == [True, False]
    assert infos["rewards"]["solver"][0] == [1.0] and infos["_rewards"].tolist() == [True, False]
    observations, rewards, terminations, _, _ = env.step(["<answer>Lake Tarn</answer>"] * 2)
    assert "Question" in observations[0]
    assert rewards.tolist() == [0.0, 1.0] and terminations.tolist() == [False, True]


def test_without_autoreset_masked_episodes_are_reset_by_hand():
    env = tiny_vector(3, autoreset_mode="Disabled")
    env.reset(seed=0)
    _, _, terminations, _, _ = env.step(["<answer>x</answer>", "hello", "hello"])
    with pytest.raises(ResetNeeded):
        env.step(["hello"] * 3)
    going = env.states[1]
    options = {"reset_mask": terminations}
    observations, infos = env.reset(options=options)
    assert "reset_mask" in options
    assert infos["_role"].tolist() == [True, False, False]
    assert env.states[1] is going and "Invalid" in observations[1]
    env.step(["hello"] * 3)


def test_options_are_shared_or_one_each():
    env = tiny_vector(2)
    tasks = [{"question": f"Question {i}?", "answer": "x"} for i in range(2)]
    observations, _ = env.reset(options={"task": tasks[1]})
    assert all("Question 1?" in text for text in observations)
    observations, _ = env.reset(options={"task": tasks})
    assert ["Question 0?" in observations[0], "Question 1?" in observations[1]] == [True, True]


def test_one_seed_each():
    env = gym.make_vec("SearchSolver-v0", num_envs=3)
    first, _ = env.reset(seed=[5, 5, 6])
    assert first[0] == first[1]
    assert env.reset(seed=[None, 5, None])[0][1] == first[1]
    assert env.reset(seed=np.array([5, 5, 6]))[0] == first


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda env: env.reset(seed=[1]), ValueError),
        (lambda env: env.reset(seed=1.5), ValueError),
        (lambda env: env.reset(seed="12"), ValueError),
        (lambda env: env.reset(seed=True), ValueError),
        (lambda env: env.reset(seed=[1, 1.5]), ValueError),
        (lambda env: env.reset(seed=np.array([1.0, 2.0])), ValueError),
        (lambda env: env.reset(options={"task": [0]}), ValueError),
        (lambda env: env.reset(options={"tsak": 0}), ConfigError),
        (lambda env: env.reset(options={"reset_mask": [True, False]}), ValueError),
        (lambda env: env.reset(options={"reset_mask": np.array([True, False])}), ResetNeeded),
        (lambda env: env.step(["x", "y"]), ResetNeeded),
        (lambda env: (env.reset(seed=0), env.step(["x"])), ValueError),
        (lambda env: (env.reset(seed=0), env.step("xy")), ValueError),
        (lambda env: (env.reset(seed=0), env.step(None)), ValueError),
        (lambda env: (env.reset(seed=0), env.step({0: "x", 1: "y"})), ValueError),
        (lambda env: (env.reset(seed=0), env.step(iter("xy"))), ValueError),
        (lambda env: (env.reset(seed=0), env.step(np.array("x"))), ValueError),
        (lambda env: (env.reset(seed=0), env.step(["x", 3])), TypeError),
    ],
)
def test_misuse_is_refused(call, error):
    with pytest.raises(error, match="expected"):
        call(tiny_vector(2))


@pytest.mark.parametrize(
    "parts",
    [
        {"num_envs": 0},
        {"num_envs": True},
        {"max_episode_steps": 0},
        {"max_episode_steps": True},
        {"max_episode_steps": "2"},
        {"autoreset_mode": "Never"},
    ],
)
def test_bad_construction_is_refused(parts):
    with pytest.raises(ValueError, match="expected .* got (0|True|'2'|'Never'); (change it|name one)"):
        TextVectorEnv(SolverScenario(), tiny_game(), **parts)


def test_render_gives_one_transcript_each():
    env = gym.make_vec("SearchSolver-v0", num_envs=2, render_mode="ansi")
    env.reset(seed=0)
    assert [text.startswith("--- solver") for text in env.render()] == [True, True]
    assert tiny_vector(2).render() is None


def test_infos_are_fresh():
    env = tiny_vector(2)
    _, first = env.reset(seed=0)
    kept = repr(first)
    env.step(["<search>Elm</search>"] * 2)[-1]["messages"][0].clear()
    assert repr(first) == kept


def test_gymnasium_vectorisation_works_too():
    sync = gym.make_vec("SearchSolver-v0", num_envs=2, vectorization_mode="sync")
    ours = gym.make_vec("SearchSolver-v0", num_envs=2)
    assert sync.reset(seed=3)[0] == ours.reset(seed=3)[0]
    sync.close()
    with pytest.raises(SpaceError, match="shared_memory"):
        gym.make_vec("SearchSolver-v0", num_envs=2, vectorization_mode="async")


def test_worker_processes_carry_the_text():
    env = gym.make_vec(
        "SearchSolver-v0", num_envs=2, vectorization_mode="async", vector_kwargs={"shared_memory": False}
    )
    try:
        observations, _ = env.reset(seed=3)
        assert observations == gym.make_vec("SearchSolver-v0", num_envs=2).reset(seed=3)[0]
        assert "No passage was found" in env.step(("<search>zzz</search>",) * 2)[0][1]
    finally:
        env.close()


def test_a_second_reset_goes_on_with_the_generators():
    vector = gym.make_vec("SearchSolver-v0", num_envs=2)
    vector.reset(seed=8)
    single = gym.make("SearchSolver-v0")
    single.reset(seed=9)
    assert vector.reset()[0][1] == single.reset()[0]
