"""An answer in, a question out."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from ssp_env.envs.base import TextEnv
from ssp_env.envs.proposer import ProposerScenario
from ssp_env.envs.vector import TextVectorEnv
from ssp_env.errors import AgentError, ConfigError, JudgeError, ReaderError, RetrievalError
from ssp_env.game.judges import ExactJudge
from ssp_env.game.rules import GameRules
from ssp_env.registry import build_agent
from ssp_env.types import Completion, Reading, Sampling
from tests.fakes import (
    PROPOSAL,
    BrokenAgent,
    BrokenJudge,
    BrokenRetriever,
    FakeRetriever,
    FixedReader,
    FunctionAgent,
    ScriptedAgent,
    tiny_game,
)


def opened(game=None, opponent=None):
    game = game or tiny_game(reader=FixedReader())
    env = TextEnv(ProposerScenario(game, opponent, sampling=Sampling()), game)
    env.reset(seed=0)
    return env


def propose(env, replies=PROPOSAL):
    for text in replies[:-1]:
        assert env.step(text)[1:4] == (0.0, False, False)
    return env.step(replies[-1])


def test_an_accepted_question_pays_one():
    observation, reward, terminated, truncated, info = propose(opened())
    assert (observation, reward, terminated, truncated) == ("", 1.0, True, False)
    assert (info["validation"], info["rewards"], info["verdicts"]) == ("ok", {"proposer": [1.0]}, [])


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        (("<question>Why?</question>",), "too_short"),
        ((PROPOSAL[-1],), "no_evidence"),
        ((PROPOSAL[0], PROPOSAL[0], PROPOSAL[-1]), "repeated_search"),
        ((PROPOSAL[0], PROPOSAL[-1].replace("which lake", "which lake tarn or lake")), "answer_leak"),
    ],
)
def test_a_rejected_question_pays_the_invalid_reward(replies, reason):
    rules = GameRules(invalid_reward=-0.5, distinct_queries=True)
    _, reward, terminated, _, info = propose(opened(tiny_game(rules, reader=FixedReader())), replies)
    assert (reward, terminated, info["validation"]) == (-0.5, True, reason)


def test_an_unanswerable_question_is_rejected_by_the_gate():
    info = propose(opened(tiny_game(reader=FixedReader("Lake Mere"))))[-1]
    assert (info["validation"], info["rewards"]) == ("not_answerable", {"proposer": [0.0]})


def test_rules_that_read_again_reject_in_the_environment_too():
    rules = GameRules(closed_book_probe=True)
    info = propose(opened(tiny_game(rules, reader=FixedReader())))[-1]
    assert (info["validation"], info["rewards"]) == ("closed_book", {"proposer": [0.0]})


def test_an_outage_of_a_second_reading_is_raised():
    readings = iter([[Reading("Lake Tarn")], [Reading("", "down")]])

    class Tires:
        def read(self, cases):
            return next(readings)

    with pytest.raises(ReaderError, match="down"):
        propose(opened(tiny_game(GameRules(closed_book_probe=True), reader=Tires())))


def test_bundles_of_noise_are_made_up_and_an_outage_of_their_search_is_raised():
    shown = []

    class Notes:
        def read(self, cases):
            shown.extend(cases)
            return [Reading("Lake Tarn")] * len(cases)

    rules = GameRules(distractor_unit="bundle")
    retriever = BrokenRetriever()
    game = replace(tiny_game(rules, reader=Notes()), retriever=retriever)
    env = opened(game)
    with pytest.raises(RetrievalError, match="down"):
        propose(env)
    assert shown == []
    retriever.word = "no such word"
    assert env.step(PROPOSAL[-1])[1:3] == (1.0, True)
    evidence = env.state.ended[0].evidence
    assert len(shown[0].passages) > len(evidence) > 0


def test_running_out_of_turns_truncates_and_rejects():
    env = opened(tiny_game(GameRules(max_turns=1), reader=FixedReader()))
    _, reward, terminated, truncated, info = env.step("<search>Elm</search>")
    assert (reward, terminated, truncated, info["validation"]) == (0.0, False, True, "no_question")


def test_an_opponent_decides_the_reward():
    answers = iter(["Lake Tarn", "Lake Mere", "Lake Tarn", "", "Lake Tarn"])
    opponent = FunctionAgent(lambda conversation: f"<answer>{next(answers)}</answer>")
    _, reward, _, _, info = propose(opened(opponent=opponent))
    assert reward == pytest.approx(0.4)
    assert info["rewards"]["solver"] == [1.0, 0.0, 1.0, 0.0, 1.0]
    assert info["rewards"]["proposer"] == [reward]
    assert [verdict.partition(":")[0] for verdict in info["verdicts"]].count("correct") == 3


def test_a_rejected_question_is_not_played_by_the_opponent():
    opponent = ScriptedAgent(["<answer>Lake Tarn</answer>"])
    info = propose(opened(opponent=opponent), ("<question>Why?</question>",))[-1]
    assert opponent.calls == [] and "solver" not in info["rewards"]


def test_the_opponent_reads_where_no_reader_is_named():
    opponent = ScriptedAgent(["<answer>Lake Tarn</answer>"])
    assert propose(opened(tiny_game(), opponent=opponent))[-1]["validation"] == "ok"
    assert len(opponent.calls) == 2


def test_nobody_to_read_is_a_configuration_error():
    with pytest.raises(ConfigError, match="SearchSelfPlay-v0"):
        opened(tiny_game())
    assert propose(opened(tiny_game(GameRules(gate=False))))[1] == 1.0


@pytest.mark.parametrize(
    ("game", "opponent", "error"),
    [
        (tiny_game(reader=FixedReader(error="down")), None, ReaderError),
        (tiny_game(reader=FixedReader(), judge=BrokenJudge()), None, JudgeError),
        (tiny_game(reader=FixedReader()), BrokenAgent(), AgentError),
        (tiny_game(), BrokenAgent(), ReaderError),
    ],
)
def test_our_failures_are_raised_and_the_step_may_be_repeated(game, opponent, error):
    env = opened(game, opponent)
    for text in PROPOSAL[:-1]:
        env.step(text)
    before = env.state
    for _ in range(2):
        with pytest.raises(error):
            env.step(PROPOSAL[-1])
    assert env.state is before and before.episode.running


class Dice:
    """Searches once; what it asks and answers depends on the call's seed and the place in the call."""

    def complete(self, conversations, *, sampling):
        rng = np.random.default_rng(sampling.seed)
        words = [("<search>Elm</search>", "<search>Ash</search>"), ("<answer>Lake Tarn</answer>", "<answer>x</answer>")]
        return [Completion(words[min(len(c.turns), 1)][rng.integers(2)]) for c in conversations]


def propose_all(env, n_accepted):
    """Let the first environments propose and the others end with a question that is rejected."""
    env.reset(seed=3)
    replies = [PROPOSAL] * n_accepted + [(*PROPOSAL[:2], "<question>Why?</question>")] * (env.num_envs - n_accepted)
    for texts in zip(*replies, strict=True):
        _, rewards, _, _, infos = env.step(texts)
    return rewards.tolist(), infos


def vector(game, opponent, n):
    return TextVectorEnv(ProposerScenario(game, opponent, sampling=Sampling()), game, num_envs=n)


def test_the_opponent_of_all_environments_searches_and_is_judged_in_one_call_a_step():
    class CountingJudge(ExactJudge):
        sizes = []

        def judge(self, cases):
            self.sizes.append(len(cases))
            return super().judge(cases)

    retriever = FakeRetriever()
    game = tiny_game(GameRules(n_solves=2), retriever=retriever, reader=FixedReader(), judge=CountingJudge())
    rewards, infos = propose_all(vector(game, Dice(), 6), 4)
    assert [len(batch) for batch in retriever.batches] == [6, 6, 8]
    assert CountingJudge.sizes == [4, 8]  # the readings, then the solves
    assert rewards[4:] == [0.0, 0.0] and infos["validation"].tolist() == ["ok"] * 4 + ["too_short"] * 2


def test_an_opponent_states_the_same_in_single_and_vector_environments():
    game = tiny_game(reader=FixedReader())
    rewards, infos = propose_all(vector(game, Dice(), 4), 4)
    for i in range(4):
        env = TextEnv(ProposerScenario(game, Dice(), sampling=Sampling()), game)
        env.reset(seed=3 + i)
        _, reward, _, _, info = propose(env)
        assert (reward, info["verdicts"]) == (rewards[i], infos["verdicts"][i])
        assert info["rewards"]["solver"] == infos["rewards"]["solver"][i]
    assert len(set(map(tuple, infos["verdicts"]))) > 1


def test_an_outage_while_the_opponent_solves_changes_no_environment():
    retriever = BrokenRetriever("Ash")
    env = vector(tiny_game(retriever=retriever, reader=FixedReader()), Dice(), 4)
    with pytest.raises(AgentError, match="retriever is down"):
        propose_all(env, 3)
    assert not any(state.over or state.ended for state in env.states)
    retriever.word = "no such word"
    texts = [PROPOSAL[-1]] * 3 + ["<question>Why?</question>"]
    repeated = env.step(texts)[1].tolist()
    assert repeated == propose_all(vector(tiny_game(reader=FixedReader()), Dice(), 4), 3)[0]


def test_the_opponent_repeats_for_a_seed():
    env = gym.make("SearchProposer-v0", opponent={"name": "world-expert", "kwargs": {"max_hops": 1}})
    expert = build_agent("world-expert")
    outcomes = []
    for _ in range(2):
        env.reset(seed=5)
        done = False
        while not done:
            text = expert.complete([env.unwrapped.state.episode.conversation], sampling=Sampling())[0].text
            _, reward, terminated, truncated, info = env.step(text)
            done = terminated or truncated
        outcomes.append((reward, info))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1]["validation"] == "ok"
