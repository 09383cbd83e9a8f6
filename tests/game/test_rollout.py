"""The lock-step loop."""

from __future__ import annotations

import numpy as np
import pytest

from ssp_env.errors import AgentError
from ssp_env.game.rollout import rollout, rollout_apart
from ssp_env.types import Completion, ReadingCase, Sampling, Task
from tests.fakes import (
    PASSAGES,
    PROPOSAL,
    SEED,
    BrokenRetriever,
    FakeRetriever,
    FunctionAgent,
    ScriptedAgent,
    tiny_game,
)

TASK = Task("t", "Which lake?", ("Lake Tarn",))
SOLVE = ("<search>Elm</search>", "<answer>Lake Tarn</answer>")


def played(episodes, agent, seed: int = 0):
    return rollout(episodes, agent, sampling=Sampling(max_tokens=7), rng=np.random.default_rng(seed))


def test_records_come_in_the_order_of_the_episodes() -> None:
    game = tiny_game()
    tasks = [Task(str(i), f"Which lake {i}?", ("x",)) for i in range(4)]
    agent = FunctionAgent(lambda c: f"<answer>{c.prompt[-1]['content'].split('Question: ')[1]}</answer>")
    records = played([game.episode("solver", task) for task in tasks], agent)
    assert [r.final for r in records] == [task.question for task in tasks]
    assert {r.reward for r in records} == {None}


def test_only_live_episodes_are_sent_and_each_role_with_its_own_stop_strings() -> None:
    game = tiny_game()
    agent = FunctionAgent(lambda c: (PROPOSAL if "Searches: 2" in c.prompt[-1]["content"] else SOLVE)[len(c.turns)])
    episodes = [game.episode("proposer", SEED), game.episode("solver", TASK), game.episode("proposer", SEED)]
    assert [r.status for r in played(episodes, agent)] == ["finished"] * 3
    sent = [(len(conversations), sampling.stop) for conversations, sampling in agent.calls]
    assert sent == [
        (2, ("</search>", "</question>")),
        (1, ("</search>", "</answer>")),
        (2, ("</search>", "</question>")),
        (1, ("</search>", "</answer>")),
        (2, ("</search>", "</question>")),
    ]


def test_every_call_has_its_own_seed_drawn_from_the_generator() -> None:
    seeds = []
    for seed in (0, 0, 1):
        agent = ScriptedAgent(SOLVE)
        played([tiny_game().episode("solver", TASK)], agent, seed)
        seeds.append([sampling.seed for _, sampling in agent.calls])
        assert {sampling.max_tokens for _, sampling in agent.calls} == {7}
    assert seeds[0] == seeds[1] != seeds[2]
    assert len(set(seeds[0])) == 2


def test_agent_outage_fails_the_episodes_still_live_in_that_call() -> None:
    class DownForSolvers(ScriptedAgent):
        def complete(self, conversations, *, sampling):
            if "</answer>" in sampling.stop and conversations[0].turns:
                raise AgentError("down")
            return super().complete(conversations, sampling=sampling)

    game = tiny_game()
    agent = DownForSolvers(("<search>Elm</search>", "<question>which?</question>"))
    solve, propose = played([game.episode("solver", TASK), game.episode("proposer", SEED)], agent)
    assert (solve.status, solve.error, solve.reward) == ("failed", "AgentError: down", None)
    assert len(solve.conversation.turns) == 1
    assert propose.status == "finished"


def test_tool_outage_fails_only_the_callers() -> None:
    game = tiny_game(retriever=BrokenRetriever())
    agent = FunctionAgent(lambda c: SOLVE[0] if "lake 0" in c.prompt[-1]["content"] else SOLVE[1])
    episodes = [game.episode("solver", Task(str(i), f"Which lake {i}?", ("x",))) for i in range(2)]
    assert [r.status for r in played(episodes, agent)] == ["failed", "finished"]


def test_parties_play_as_if_alone_and_search_together() -> None:
    retriever = FakeRetriever()
    game = tiny_game(retriever=retriever)
    agent = ScriptedAgent(SOLVE)
    parties = [([game.episode("solver", TASK)], np.random.default_rng(seed)) for seed in (4, 5)]
    together = rollout_apart(parties, agent, sampling=Sampling())
    assert [len(batch) for batch in retriever.batches] == [2]
    seeds = [sampling.seed for _, sampling in agent.calls]
    alone = ScriptedAgent(SOLVE)
    for seed, records in zip((4, 5), together, strict=True):
        assert played([game.episode("solver", TASK)], alone, seed) == records
    assert [sampling.seed for _, sampling in alone.calls] == [seeds[i] for i in (0, 2, 1, 3)]


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt()])
def test_anything_else_propagates(error: BaseException) -> None:
    def fail(_) -> str:
        raise error

    with pytest.raises(type(error)):
        played([tiny_game().episode("solver", TASK)], FunctionAgent(fail))


def test_too_few_completions_are_a_bug() -> None:
    class Short:
        def complete(self, conversations, *, sampling):
            return [Completion("x")]

    with pytest.raises(ValueError, match="one completion for each conversation"):
        played([tiny_game().episode("solver", TASK) for _ in range(2)], Short())


def test_endless_talk_ends_at_the_turn_limit() -> None:
    (record,) = played([tiny_game().episode("solver", TASK)], ScriptedAgent(["talk"]))
    assert (record.truncation, len(record.conversation.turns)) == ("turn_limit", 10)


def test_nothing_to_play() -> None:
    agent = ScriptedAgent(SOLVE)
    assert played([], agent) == [] and agent.calls == []
    ended = tiny_game().episode("reader", ReadingCase("q", PASSAGES[:1]))
    ended.fail("broken before")
    assert played([ended], agent)[0].error == "broken before" and agent.calls == []
