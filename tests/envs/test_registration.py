"""What Gymnasium and other processes see: ids, checker, specs, and the same episodes everywhere."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import pickle
import re
import subprocess
import sys

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

import ssp_env
from ssp_env.envs import ENV_IDS, register_envs
from ssp_env.errors import ConfigError

REPLAY = """
import hashlib, gymnasium, ssp_env
digest = hashlib.sha256()
for env_id in {ids!r}:
    env = gymnasium.make(env_id)
    env.action_space.seed(11)
    reply = env.reset(seed=4)
    for _ in range(60):
        digest.update(repr(reply).encode())
        over = len(reply) == 5 and (reply[2] or reply[3])
        reply = env.reset() if over else env.step(env.action_space.sample())
print(digest.hexdigest())
"""


@pytest.mark.parametrize("env_id", sorted(ENV_IDS))
def test_check_env_passes_without_a_warning(env_id):
    env = gym.make(env_id).unwrapped
    check_env(env)


@pytest.mark.parametrize("config", [{"reader": "policy"}, {"rules": "code"}, {"prompt_set": "compact"}])
def test_check_env_passes_under_other_rules(config):
    check_env(gym.make("SearchSelfPlay-v0", **config).unwrapped)


@pytest.mark.parametrize("env_id", sorted(ENV_IDS))
def test_a_spec_survives_json(env_id):
    env = gym.make(env_id, corpus={"world": {"seed": 3}}, rules={"preset": "world", "max_turns": 3})
    rebuilt = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert rebuilt.spec == env.spec == EnvSpec.from_json(env.spec.to_json())
    assert rebuilt.reset(seed=1) == env.reset(seed=1)
    assert rebuilt.unwrapped.game is env.unwrapped.game


@pytest.mark.parametrize("env_id", sorted(ENV_IDS))
def test_an_environment_can_be_pickled_in_mid_episode(env_id):
    env = gym.make(env_id)
    env.reset(seed=1)
    again = pickle.loads(pickle.dumps(env))
    assert again.step("<search>lake</search>") == env.step("<search>lake</search>")
    assert again.reset() == env.reset()


@pytest.mark.parametrize("env_id", sorted(ENV_IDS))
def test_docstrings_have_the_headings_of_gymnasium_in_its_order(env_id):
    module, name = ENV_IDS[env_id].split(":")
    documented = inspect.getdoc(getattr(importlib.import_module(module), name))
    assert re.findall(r"^## (.*)$", documented, re.MULTILINE) == [
        "Description",
        "Action Space",
        "Observation Space",
        "Starting State",
        "Rewards",
        "Episode End",
        "Information",
        "Arguments",
        "Version History",
    ]


@pytest.mark.parametrize("env_id", sorted(ENV_IDS))
def test_transcripts_can_be_collected(env_id):
    env = gym.make(env_id, render_mode="ansi_list")
    env.reset(seed=0)
    env.step("<search>town</search>")
    assert [frame.count("[assistant]") for frame in env.render()] == [0, 1]


def test_registering_again_changes_nothing():
    before = {env_id: gym.registry[env_id] for env_id in ENV_IDS}
    register_envs()
    importlib.reload(ssp_env)
    assert {env_id: gym.registry[env_id] for env_id in ENV_IDS} == before


def test_unknown_arguments_are_named():
    with pytest.raises(ConfigError, match="did you mean 'retriever'"):
        gym.make("SearchSolver-v0", retreiver="bm25")


def test_gymnasium_wrappers_work():
    env = gym.wrappers.RecordEpisodeStatistics(gym.make("SearchSolver-v0", max_episode_steps=2))
    env.reset(seed=0)
    env.step("<search>town</search>")
    _, _, terminated, truncated, info = env.step("<search>town</search>")
    assert (terminated, truncated, info["episode"]["l"]) == (False, True, 2)
    vector = gym.make_vec("SearchSolver-v0", num_envs=2, autoreset_mode="SameStep", max_episode_steps=1)
    vector = gym.wrappers.vector.DictInfoToList(gym.wrappers.vector.RecordEpisodeStatistics(vector))
    _, infos = vector.reset(seed=0)
    assert [info["role"] for info in infos] == ["solver", "solver"]
    *_, infos = vector.step(["<search>town</search>", "<answer>x</answer>"])
    assert [info["final_info"]["n_searches"] for info in infos] == [1, 0]
    assert [info["episode"]["l"] for info in infos] == [1, 1]


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    return done.stdout.strip()


def test_the_module_form_of_an_id_needs_no_import():
    code = "import gymnasium; print(gymnasium.make('ssp_env:SearchSelfPlay-v0').reset(seed=0)[1]['role'])"
    assert run(code) == "proposer"


def test_the_same_seed_gives_the_same_episode_in_every_process():
    code = REPLAY.format(ids=sorted(ENV_IDS))
    digests = {run(code, PYTHONHASHSEED=seed) for seed in ("0", "1")}
    assert len(digests) == 1
    assert len(digests.pop()) == hashlib.sha256().digest_size * 2
