"""The PettingZoo adapter: turns, per-role rewards, reproducible rounds."""

from __future__ import annotations

import importlib
import sys

import pytest

pytest.importorskip("pettingzoo", reason="needs ssp-env[pettingzoo]")

from gymnasium.error import ResetNeeded  # noqa: E402
from pettingzoo.test import api_test, seed_test  # noqa: E402

from ssp_env.envs.aec import SearchSelfPlayAEC  # noqa: E402
from ssp_env.errors import ConfigError, RetrievalError  # noqa: E402
from ssp_env.game.rules import GameRules  # noqa: E402
from ssp_env.spaces import FreeText  # noqa: E402
from tests.fakes import PROPOSAL, BrokenRetriever, FixedReader, tiny_game  # noqa: E402

RIGHT, WRONG = "<answer>Lake Tarn</answer>", "<answer>Lake Mere</answer>"


def opened(monkeypatch, **parts):
    game = tiny_game(GameRules(n_solves=2, invalid_reward=-0.1), **parts)
    monkeypatch.setattr("ssp_env.envs.aec.build_game", lambda config: game)
    env = SearchSelfPlayAEC(render_mode="ansi")
    env.reset(seed=0)
    return env


def rollout(env, texts):
    """Step through a round as PettingZoo has it; return the order of actors and the summed rewards."""
    order, totals, texts = [], dict.fromkeys(env.possible_agents, 0.0), iter(texts)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, _ = env.last()
        assert observation in env.observation_space(agent)
        totals[agent] += reward
        if terminated or truncated:
            env.step(None)
        else:
            order.append(agent)
            env.step(next(texts))
    assert env.agents == []
    return order, totals


def test_the_round_with_per_role_rewards(monkeypatch):
    order, totals = rollout(opened(monkeypatch), [*PROPOSAL, RIGHT, RIGHT, "<search>Elm</search>", WRONG])
    assert order == ["proposer_0"] * 3 + ["reader_0", "solver_0", "solver_1", "solver_1"]
    assert totals == {"proposer_0": 0.5, "reader_0": 1.0, "solver_0": 1.0, "solver_1": 0.0}


def test_an_external_reader_is_no_agent(monkeypatch):
    order, totals = rollout(opened(monkeypatch, reader=FixedReader()), [*PROPOSAL, RIGHT, RIGHT])
    assert set(order) == set(totals) == {"proposer_0", "solver_0", "solver_1"}
    assert totals["proposer_0"] == 0.0


def test_a_refused_reset_leaves_the_generator(monkeypatch):
    env, whole = opened(monkeypatch), opened(monkeypatch)
    with pytest.raises(ConfigError):
        env.reset(options={"answer": 10**6})
    env.reset()
    whole.reset()
    assert env._state.key == whole._state.key


def test_a_rejected_question_ends_all_agents(monkeypatch):
    order, totals = rollout(opened(monkeypatch), ["<question>Why?</question>"])
    assert order == ["proposer_0"]
    assert totals == {"proposer_0": -0.1, "reader_0": 0.0, "solver_0": 0.0, "solver_1": 0.0}


def test_only_the_acting_agent_sees_something(monkeypatch):
    env = opened(monkeypatch)
    assert env.observe("proposer_0") and not env.observe("solver_0")
    assert env.infos["solver_0"] == {} and env.infos["proposer_0"]["role"] == "proposer"


def test_our_failure_changes_nothing(monkeypatch):
    env = opened(monkeypatch, retriever=BrokenRetriever("Elm"))
    with pytest.raises(RetrievalError):
        env.step("<search>Elm</search>")
    assert env.agent_selection == "proposer_0"
    assert env.infos["proposer_0"]["turns_left"] == 10


def test_spaces_are_the_same_objects_and_render_is_a_transcript(monkeypatch):
    env = opened(monkeypatch)
    assert env.action_space("solver_0") is env.action_space("solver_0")
    assert env.render().startswith("--- proposer")
    assert env.num_agents == env.max_num_agents == 4


def test_before_the_reset_nothing_can_be_done():
    env = SearchSelfPlayAEC(render_mode="ansi")
    for call in (lambda: env.step("x"), lambda: env.observe("proposer_0"), env.render):
        with pytest.raises(ResetNeeded, match="call reset first"):
            call()


def test_pettingzoo_seed_test():
    seed_test(SearchSelfPlayAEC, num_cycles=30)


class Labelled(str):
    """Text with the one attribute of an array that ``api_test`` reads."""

    dtype = FreeText(1).dtype


class WithLabels(SearchSelfPlayAEC):
    def observe(self, agent):
        return Labelled(super().observe(agent))


@pytest.mark.parametrize("config", [{}, {"reader": "policy"}])
def test_pettingzoo_api_test_passes_but_for_its_wish_for_arrays(config):
    """Its limit: it compares ``observation.dtype``, which text has not, and warns of spaces that are not of numbers."""
    with pytest.raises(AttributeError, match="'str' object has no attribute 'dtype'"), pytest.warns(UserWarning):
        api_test(SearchSelfPlayAEC(**config), num_cycles=30)
    with pytest.warns(UserWarning) as told:
        api_test(WithLabels(**config), num_cycles=30)
    assert {str(warning.message) for warning in told} == {
        "Observation is not a NumPy array",
        "Observation space for each agent probably should be gymnasium.spaces.box or gymnasium.spaces.discrete",
        "Action space for each agent probably should be gymnasium.spaces.box or gymnasium.spaces.discrete",
    }


def test_options_that_are_not_known_are_ignored(monkeypatch):
    env = opened(monkeypatch)
    env.reset(seed=1, options={"options": 1, "answer": 0})
    first = env.observe("proposer_0")
    env.reset(seed=1, options={"answer": 0})
    assert env.observe("proposer_0") == first
    with pytest.raises(ConfigError, match="reset options as a mapping"):
        env.reset(options=[1])


def test_random_play_ends():
    env = SearchSelfPlayAEC(reader="policy")
    for seed in range(10):
        env.reset(seed=seed)
        for agent in env.agent_iter(max_iter=500):
            _, _, terminated, truncated, _ = env.last()
            env.step(None if terminated or truncated else env.action_space(agent).sample())
        assert env.agents == []


def test_without_pettingzoo_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.delitem(sys.modules, "ssp_env.envs.aec")
    with pytest.raises(ImportError, match=r"ssp-env\[pettingzoo\]"):
        importlib.import_module("ssp_env.envs.aec")


def test_rules_that_read_again_are_refused_with_the_policy_as_reader():
    """As in ``SearchSelfPlay-v0``: the policy reads once here, so these rules would silently not be applied."""
    with pytest.raises(ConfigError, match="read a question again"):
        SearchSelfPlayAEC(reader="policy", rules={"preset": "world", "ask_for_all": True})
