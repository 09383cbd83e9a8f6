"""A server that goes away while a game is played: the game goes on or stops with an error, and nobody is paid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import ssp_env
from ssp_env.errors import RetrievalError
from ssp_env.game.pool import QuestionPool
from ssp_env.game.selfplay import Agents, run_rounds
from ssp_env.retrieval.remote import RemoteRetriever, RemoteSettings
from ssp_env.types import Conversation, Sampling
from tests.fakes import PASSAGES, PROPOSAL, SEED, FunctionAgent, ScriptedAgent, tiny_game
from tests.serve.live import Live, running

QUESTION = {"question": "Into which lake flows the Elm?", "answers": ["Lake Tarn"]}
SEARCH, ANSWER = "<search>river</search>", "<answer>Lake Tarn</answer>"


class Outage:
    """A server that can be stopped and started again at the same port."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self.live: Live = self._open.enter_context(running())

    def stop(self) -> None:
        self._open.close()

    def start(self) -> None:
        self._open.enter_context(running(port=self.live.port))


@contextmanager
def outage() -> Iterator[Outage]:
    server = Outage()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    path = tmp_path / "passages.jsonl"
    path.write_text("".join(json.dumps({"id": p.id, "title": p.title, "text": p.text}) + "\n" for p in PASSAGES))
    return str(path)


def solver(corpus: str, server: Outage) -> gymnasium.Env[str, str]:
    assert ssp_env
    retriever = {"name": "remote", "url": server.live.url, "timeout_s": 0.3}
    env: gymnasium.Env[str, str] = gymnasium.make("SearchSolver-v0", corpus=corpus, retriever=retriever)
    env.reset(seed=0, options={"task": QUESTION})
    return env


def test_step_during_an_outage_raises_and_can_be_repeated_when_the_server_is_back(corpus: str) -> None:
    with outage() as server:
        env = solver(corpus, server)
        first = env.step(SEARCH)
        assert first[4]["n_searches"] == 1
        server.stop()
        for _ in range(2):
            with pytest.raises(RetrievalError, match="is the server running"):
                env.step(SEARCH)
        server.start()
        again = env.step(SEARCH)
        assert again[:4] == first[:4]
        assert again[4]["n_searches"] == 2
        assert env.step(ANSWER)[1:4] == (1.0, True, False)


def test_round_played_through_an_outage_pays_nobody_for_it() -> None:
    with outage() as server:
        remote = RemoteRetriever(RemoteSettings(url=server.live.url, timeout_s=0.3))
        game = tiny_game(retriever=remote)  # type: ignore[arg-type]

        def solve(conversation: Conversation) -> str:
            if len(conversation.turns) == 1:
                server.stop()
            return ANSWER if len(conversation.turns) == 2 else f"<search>town {len(conversation.turns)}</search>"

        players = Agents(ScriptedAgent(PROPOSAL), FunctionAgent(solve), ScriptedAgent([ANSWER]))
        rng = np.random.default_rng(0)
        (played,) = run_rounds([(game, SEED)], players, pool=QuestionPool(), rng=rng, sampling=Sampling())
    assert played.validation.ok
    assert {solve.status for solve in played.solves} == {"failed"}
    assert all("RetrievalError" in solve.error for solve in played.solves)
    assert [solve.reward for solve in played.solves] == [None] * len(played.solves)
    assert (played.success_rate, played.proposer_reward) == (None, None)


def test_proposal_that_meets_an_outage_is_neither_valid_nor_paid() -> None:
    with outage() as server:
        remote = RemoteRetriever(RemoteSettings(url=server.live.url, timeout_s=0.3))
        server.stop()
        game = tiny_game(retriever=remote)  # type: ignore[arg-type]
        players = Agents(ScriptedAgent(PROPOSAL), ScriptedAgent([ANSWER]), ScriptedAgent([ANSWER]))
        rng = np.random.default_rng(0)
        (played,) = run_rounds([(game, SEED)], players, pool=QuestionPool(), rng=rng, sampling=Sampling())
    assert (played.validation.reason, played.proposal.status) == ("failed", "failed")
    assert (played.proposal.reward, played.proposer_reward) == (None, None)
