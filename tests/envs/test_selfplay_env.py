"""One agent plays the whole round by stepping."""

from __future__ import annotations

import gymnasium as gym
import pytest

from ssp_env.envs.base import TextEnv
from ssp_env.envs.settle import SelfPlayScenario
from ssp_env.errors import ConfigError, ReaderError
from ssp_env.game.rules import GameRules
from ssp_env.registry import build_agent
from ssp_env.types import Sampling
from tests.fakes import PROPOSAL, QUESTION, FixedReader, tiny_game

RIGHT, WRONG = "<answer>Lake Tarn</answer>", "<answer>Lake Mere</answer>"


def opened(**parts):
    env = TextEnv(SelfPlayScenario(), tiny_game(GameRules(n_solves=2, invalid_reward=-0.1), **parts))
    env.reset(seed=0)
    return env


def roles_and_rewards(env, texts):
    steps = [env.step(text) for text in texts]
    return [(info["role"], reward) for _, reward, _, _, info in steps], steps[-1]


def test_a_round_with_an_external_reader():
    told, last = roles_and_rewards(opened(reader=FixedReader()), [*PROPOSAL, RIGHT, "<search>Elm</search>", WRONG])
    expected = [("proposer", 0.0)] * 2 + [("solver", 0.0), ("solver", 1.0), ("solver", 0.0), ("solver", 0.0)]
    assert told == expected
    _, _, terminated, truncated, info = last
    assert (terminated, truncated, info["validation"]) == (True, False, "ok")
    assert info["rewards"] == {"proposer": [0.5], "solver": [1.0, 0.0]}
    assert info["verdicts"] == ["correct:exact", "wrong:exact"]


def test_a_round_in_which_the_policy_reads():
    told, last = roles_and_rewards(opened(), [*PROPOSAL, RIGHT, RIGHT, RIGHT])
    assert [role for role, _ in told] == ["proposer", "proposer", "reader", "solver", "solver", "solver"]
    assert [reward for _, reward in told] == [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    assert last[-1]["rewards"] == {"proposer": [0.0], "reader": [1.0], "solver": [1.0, 1.0]}


def test_each_role_sees_its_own_prompt_and_nothing_of_the_others():
    env = opened()
    env.step("<think>a secret plan</think><search>river Elm Lake Tarn</search>")
    env.step(PROPOSAL[1])
    reader_prompt, _, _, _, info = env.step(PROPOSAL[2])
    assert QUESTION in reader_prompt and "flows into Lake Tarn" in reader_prompt
    assert "secret plan" not in reader_prompt and len(info["messages"]) <= 2
    solver_prompt = env.step(RIGHT)[0]
    assert QUESTION in solver_prompt
    assert "Doc 1 (Title: Elm)" not in solver_prompt and "secret plan" not in solver_prompt


def test_a_rejected_question_ends_the_round():
    _, reward, terminated, truncated, info = opened().step("<question>Why?</question>")
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert (info["validation"], info["rewards"]) == ("too_short", {"proposer": [-0.1]})


def test_a_wrong_reading_rejects_the_question():
    _, last = roles_and_rewards(opened(), [*PROPOSAL, WRONG])
    assert last[2] is True
    assert last[-1]["rewards"] == {"proposer": [-0.1], "reader": [0.0]}
    assert last[-1]["validation"] == "not_answerable"


def test_a_reader_without_an_answer_rejects_the_question():
    _, last = roles_and_rewards(opened(), [*PROPOSAL, "I do not know"])
    assert last[-1]["validation"] == "not_answerable"
    assert (last[2], last[3]) == (False, True)


def test_a_broken_reader_can_be_asked_again():
    reader = FixedReader(error="down")
    env = opened(reader=reader)
    for text in PROPOSAL[:-1]:
        env.step(text)
    with pytest.raises(ReaderError):
        env.step(PROPOSAL[-1])
    reader.error = ""
    assert env.step(PROPOSAL[-1])[-1]["role"] == "solver"


def test_every_solve_starts_from_the_same_prompt():
    env = opened(reader=FixedReader())
    env.step(PROPOSAL[0])
    env.step(PROPOSAL[1])
    first = env.step(PROPOSAL[2])[0]
    assert env.step(RIGHT)[0] == first


@pytest.mark.parametrize("reader", ["oracle", "policy"])
def test_the_expert_states_rounds_over_the_world(reader):
    env, expert = gym.make("SearchSelfPlay-v0", reader=reader), build_agent("world-expert")
    outcomes = []
    for seed in range(5):
        env.reset(seed=seed)
        total, done = 0.0, False
        while not done:
            text = expert.complete([env.unwrapped.state.episode.conversation], sampling=Sampling(seed=seed))[0].text
            _, reward, terminated, truncated, info = env.step(text)
            total, done = total + reward, terminated or truncated
        outcomes.append(info["validation"])
        assert total == sum(info["rewards"].get("solver", []))
    assert outcomes.count("ok") >= 4


@pytest.mark.parametrize("make", [gym.make, gym.make_vec])
def test_a_policy_that_reads_once_cannot_be_probed(make):
    rules = {"preset": "world", "closed_book_probe": True}
    with pytest.raises(ConfigError, match="acts once"):
        make("SearchSelfPlay-v0", rules=rules, reader="policy")
    make("SearchSelfPlay-v0", rules=rules).close()
