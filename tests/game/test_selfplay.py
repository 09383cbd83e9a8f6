"""The whole round over scripted agents."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ssp_env.errors import ConfigError
from ssp_env.game.pool import QuestionPool
from ssp_env.game.records import round_record
from ssp_env.game.rules import GameRules
from ssp_env.game.selfplay import Agents, run_rounds
from ssp_env.protocols import Agent
from ssp_env.registry import build_game
from ssp_env.types import Answer, Conversation, Round, Sampling, Task
from ssp_env.world.experts import ExpertAgent
from tests.fakes import (
    PROPOSAL,
    QUESTION,
    SEED,
    BrokenAgent,
    BrokenJudge,
    BrokenRetriever,
    FixedReader,
    FunctionAgent,
    ScriptedAgent,
    last_user,
    tiny_game,
)

SOLVE = ("<search>Ada Finch</search>", "<answer>Lake Tarn</answer>")
WRONG = ("<answer>Lake Mere</answer>",)
READ = ("<answer>Lake Tarn</answer>",)
SHORT = (*PROPOSAL[:2], "<question>Which lake?</question>")


def agents(proposer=PROPOSAL, solver=SOLVE, reader=READ) -> Agents:
    """Agents from scripts or ready-made ones."""
    return Agents(*(a if isinstance(a, Agent) else ScriptedAgent(a) for a in (proposer, solver, reader)))


def run(players: Agents, game=None, *, answers=(SEED,), pool=None, seed=0, games=(), **rules) -> list[Round]:
    game = game or tiny_game(GameRules(**rules))
    plan = [(game, s) for s in answers]
    rng = np.random.default_rng(seed)
    pool = QuestionPool() if pool is None else pool
    return run_rounds(plan, players, pool=pool, rng=rng, sampling=Sampling(), games=games)


def by_seed(valid: set[str]) -> FunctionAgent:
    """A proposer that is accepted for these answers only."""

    def reply(conversation: Conversation) -> str:
        good = any(f"Answer: {answer}\n" in conversation.prompt[-1]["content"] for answer in valid)
        return (PROPOSAL if good else SHORT)[min(len(conversation.turns), 2)]

    return FunctionAgent(reply)


OTHER = Answer("s1", "Lake Mere", n_searches=2)


def alternating(n_correct: int) -> FunctionAgent:
    """A solver whose first ``n_correct`` episodes are right."""
    count = iter(range(1000))
    return FunctionAgent(lambda _: READ[0] if next(count) < n_correct else WRONG[0])


def test_one_round_from_seed_to_rewards() -> None:
    (played,) = run(agents(solver=alternating(2)))
    assert played.validation.ok and played.validation.response == "Lake Tarn"
    assert played.origin == "fresh"
    assert played.task == Task("s0", QUESTION, ("Lake Tarn", "Tarn Lake"))
    assert [solve.reward for solve in played.solves] == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert [verdict.correct for verdict in played.verdicts] == [True, True, False, False, False]
    assert played.success_rate == pytest.approx(0.4)
    assert played.proposer_reward == played.proposal.reward == pytest.approx(0.6)


def test_solver_sees_the_question_and_no_answer() -> None:
    solver = ScriptedAgent(SOLVE)
    run(agents(solver=solver))
    text = "".join(m["content"] for m in solver.calls[0][0][0].messages())
    assert f"Question: {QUESTION}" in text
    assert "Lake Tarn" not in text.replace("<answer> Lake Tarn </answer>", "")


def test_all_solves_of_all_games_go_to_the_solver_in_one_batch() -> None:
    solver = ScriptedAgent(SOLVE)
    worlds = [tiny_game(fingerprint=f"w{i}") for i in range(3)]
    players = agents(solver=solver)
    run_rounds(
        [(w, SEED) for w in worlds], players, pool=QuestionPool(), rng=np.random.default_rng(0), sampling=Sampling()
    )
    assert [len(conversations) for conversations, _ in solver.calls] == [15, 15]


@pytest.mark.parametrize(
    ("proposal", "reason"),
    [
        (SHORT, "too_short"),
        (("<question>" + QUESTION + "</question>",), "no_evidence"),
        (
            (*PROPOSAL[:2], "<question>Which lake is Lake Tarn, known to all the people of Oxley town?</question>"),
            "answer_leak",
        ),
        (("nothing",), "no_question"),
    ],
)
def test_rejected_proposal_pays_the_invalid_reward_and_is_not_played(proposal, reason: str) -> None:
    (played,) = run(agents(proposer=proposal), filling="none", invalid_reward=-0.5)
    assert played.validation.reason == reason
    assert (played.origin, played.task, played.solves, played.success_rate) == ("none", None, (), None)
    assert played.proposer_reward == -0.5


def test_reader_that_finds_another_answer_rejects() -> None:
    (played,) = run(agents(reader=WRONG), filling="none")
    assert (played.validation.reason, played.validation.response) == ("not_answerable", "Lake Mere")
    assert played.proposer_reward == 0.0


def test_gate_can_be_switched_off() -> None:
    (played,) = run(agents(reader=BrokenAgent()), gate=False)
    assert played.validation.ok


def test_policy_reads_greedily_with_noise_and_a_games_own_reader_comes_first() -> None:
    reader = ScriptedAgent(READ)
    run(agents(reader=reader))
    conversations, sampling = reader.calls[0]
    assert sampling.temperature == 0.0 and sampling.stop == ("</answer>",)
    assert conversations[0].messages()[-1]["content"].count("\nDoc ") >= 5
    (played,) = run(agents(reader=BrokenAgent()), tiny_game(reader=FixedReader()))
    assert played.validation.ok


@pytest.mark.parametrize("filling", ["none", "dummy", "reset"])
@pytest.mark.parametrize(
    ("players", "game", "error"),
    [
        (agents(reader=BrokenAgent()), tiny_game(), "reader: AgentError: the agent is down"),
        (agents(), tiny_game(judge=BrokenJudge()), "judge: the judge is down"),
        (agents(), tiny_game(reader=FixedReader("", "no reader")), "reader: no reader"),
        (agents(proposer=BrokenAgent()), tiny_game(), "AgentError: the agent is down"),
        (agents(), tiny_game(retriever=BrokenRetriever("Elm")), "RetrievalError: the retriever is down"),
    ],
)
def test_our_failure_before_the_solves_pays_no_proposer(players: Agents, game, error: str, filling: str) -> None:
    (played,) = run(players, replace(game, rules=GameRules(filling=filling, invalid_reward=-1.0)))  # type: ignore[arg-type]
    assert (played.validation.reason, played.validation.error) == ("failed", error)
    assert played.proposer_reward is None and played.proposal.reward is None


def test_made_up_bundles_are_read_and_an_outage_of_their_search_pays_nobody() -> None:
    game, reader = tiny_game(GameRules(distractor_unit="bundle", filling="none")), ScriptedAgent(READ)
    (played,) = run(agents(reader=reader), game)
    assert played.validation.ok
    assert reader.calls[0][0][0].messages()[-1]["content"].count("\nDoc ") > len(played.proposal.evidence)
    (played,) = run(agents(), replace(game, retriever=BrokenRetriever()))
    assert (played.validation.reason, played.validation.error) == ("failed", "retriever: the retriever is down")
    assert played.proposer_reward is None and played.solves == ()


def test_solver_outage_pays_nobody() -> None:
    (played,) = run(agents(solver=BrokenAgent()))
    assert {solve.status for solve in played.solves} == {"failed"}
    assert {solve.reward for solve in played.solves} == {None}
    assert played.success_rate is None and played.proposer_reward is None


def test_failed_solves_are_left_out_of_the_success_rate() -> None:
    count = iter(range(1000))
    replies = ("<search>crash</search>", READ[0], WRONG[0], READ[0], READ[0])
    solver = FunctionAgent(lambda _: replies[next(count) % 5])
    (played,) = run(agents(solver=solver), tiny_game(retriever=BrokenRetriever("crash")))
    assert [solve.reward for solve in played.solves] == [None, 1.0, 0.0, 1.0, 1.0]
    assert played.success_rate == 0.75 and played.proposer_reward == 0.25


def test_truncated_solve_is_scored_wrong() -> None:
    (played,) = run(agents(solver=("<search>Elm</search>",)), max_turns=3)
    assert {(s.status, s.truncation, s.reward) for s in played.solves} == {("truncated", "turn_limit", 0.0)}
    assert {v.method for v in played.verdicts} == {"truncated"}
    assert played.proposer_reward == 1.0


def test_dummy_is_played_for_the_seeds_answer_and_not_pooled() -> None:
    pool = QuestionPool()
    (played,) = run(agents(proposer=SHORT, solver=WRONG), pool=pool, filling="dummy")
    assert played.origin == "dummy" and played.task is not None
    assert played.task.kind == "dummy" and played.task.answers == SEED.accepted
    assert "lake" not in played.task.question.lower()
    assert len(played.solves) == 5 and played.success_rate == 0.0
    assert played.proposer_reward == 0.0 and len(pool) == 0


def test_reuse_draws_from_the_pool_and_pays_the_rejected_proposer_nothing() -> None:
    pool = QuestionPool()
    run(agents(), pool=pool, filling="reuse")
    (played,) = run(agents(proposer=SHORT, solver=WRONG), pool=pool, filling="reuse")
    assert played.origin == "reused" and played.task is not None and played.task.question == QUESTION
    assert played.success_rate == 0.0 and played.proposer_reward == 0.0
    assert len(pool) == 2


@pytest.mark.parametrize("filling", ["none", "dummy", "resample"])
def test_a_pool_that_is_never_drawn_from_does_not_grow(filling: str) -> None:
    pool = QuestionPool()
    assert run(agents(), pool=pool, filling=filling)[0].success_rate == 1.0
    assert (len(pool), pool.round) == (0, 2)


def test_reset_falls_back_to_dummies_right_after_the_pool_was_emptied() -> None:
    pool = QuestionPool()
    origins = []
    for i in range(4):
        proposer = PROPOSAL if i % 2 == 0 else SHORT
        origins.append(run(agents(proposer=proposer), pool=pool, filling="reset", reset_every=3)[0].origin)
    assert origins == ["fresh", "reused", "fresh", "reused"]
    assert pool.round == 5
    run(agents(proposer=SHORT), pool=pool, filling="reset", reset_every=3)
    assert len(pool) == 0
    assert run(agents(proposer=SHORT), pool=pool, filling="reset", reset_every=3)[0].origin == "dummy"


def test_pooled_tasks_are_played_in_their_own_game() -> None:
    old, new = tiny_game(GameRules(filling="reuse"), fingerprint="old"), tiny_game(GameRules(filling="reuse"))
    pool = QuestionPool()
    run(agents(), old, pool=pool)
    assert run(agents(proposer=SHORT), new, pool=pool)[0].origin == "dummy"
    assert run(agents(proposer=SHORT), new, pool=pool, games=[old])[0].origin == "reused"


def test_resample_proposes_for_further_seeds_until_the_plan_is_full() -> None:
    rules = GameRules(filling="resample", max_resamples=20)
    further = (SEED, Answer("s2", "Elm"), Answer("s3", "Oxley"))
    game = replace(tiny_game(rules), answers=further)
    rounds = run(agents(proposer=by_seed({"Lake Tarn"})), game, answers=(OTHER, SEED))
    assert [r.answer for r in rounds[:2]] == [OTHER, SEED]
    assert {r.answer for r in rounds[2:]} <= set(further)
    assert [r.origin for r in rounds] == ["none", "fresh", *["none"] * (len(rounds) - 3), "fresh"]
    assert rounds[-1].answer == SEED
    assert [len(r.solves) for r in rounds] == [5 if r.origin == "fresh" else 0 for r in rounds]
    assert {r.proposer_reward for r in rounds} == {0.0}
    assert rounds == run(agents(proposer=by_seed({"Lake Tarn"})), game, answers=(OTHER, SEED))
    others = {tuple(r.answer.id for r in run(agents(proposer=SHORT), game, seed=s)) for s in range(3)}
    assert len(others) == 3


def test_resample_copies_accepted_tasks_when_its_tries_are_used_up() -> None:
    game = replace(tiny_game(GameRules(filling="resample", max_resamples=2)), answers=(OTHER,))
    rounds = run(agents(proposer=by_seed({"Lake Tarn"})), game, answers=(SEED, OTHER))
    assert [r.origin for r in rounds] == ["fresh", "reused", "none", "none"]
    assert rounds[1].task == rounds[0].task and rounds[1].answer == OTHER
    assert rounds[1].proposer_reward == 0.0


def test_resample_leaves_slots_open_when_nothing_was_accepted() -> None:
    rounds = run(agents(proposer=SHORT), filling="resample", max_resamples=1)
    assert [r.origin for r in rounds] == ["none", "none"]


def test_same_generator_same_rounds() -> None:
    """The reader copies the titles it is shown, so noise and order can be seen in the rounds."""
    titles = FunctionAgent(lambda c: "<answer>" + " ".join(last_user(c).split("(Title: ")[1:]) + "</answer>")
    outcomes = [run(agents(reader=titles), answers=(SEED,) * 6, seed=s) for s in (1, 1, 2)]
    assert outcomes[0] == outcomes[1]
    assert [r.validation for r in outcomes[0]] != [r.validation for r in outcomes[2]]
    assert len({r.validation.response for r in outcomes[0]}) > 1


def world_digest() -> str:
    """Digest of two batches of rounds between scripted experts in the default world."""
    game, pool, rng = build_game({}), QuestionPool(), np.random.default_rng(0)
    players = Agents.shared(ExpertAgent())
    plan = [(game, answer) for answer in game.answers[:12]]
    rounds = [r for _ in range(2) for r in run_rounds(plan, players, pool=pool, rng=rng, sampling=Sampling())]
    assert sum(r.validation.ok for r in rounds) > 12
    return hashlib.sha256(json.dumps([round_record(r, with_prompts=True) for r in rounds]).encode()).hexdigest()


def test_rounds_over_the_world_are_the_same_in_another_process() -> None:
    other = subprocess.run(
        [sys.executable, "-c", "from tests.game.test_selfplay import world_digest; print(world_digest(), end='')"],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        check=True,
        text=True,
    )
    assert other.stdout == world_digest()


def test_shared_agents_are_one_policy() -> None:
    policy = ScriptedAgent(PROPOSAL)
    players = Agents.shared(policy)
    assert players.proposer is players.solver is players.reader is policy


def test_plans_with_different_rules_are_refused() -> None:
    games = [tiny_game(GameRules(n_solves=n)) for n in (1, 2)]
    with pytest.raises(ConfigError, match="one set of rules"):
        run_rounds(
            [(g, SEED) for g in games],
            agents(),
            pool=QuestionPool(),
            rng=np.random.default_rng(0),
            sampling=Sampling(),
        )


def test_empty_plan_is_no_round() -> None:
    pool = QuestionPool()
    assert run_rounds([], agents(), pool=pool, rng=np.random.default_rng(0), sampling=Sampling()) == []
    assert pool.round == 1
