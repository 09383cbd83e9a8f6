"""Readers: who answers the validator's question from given passages alone.

A reader may be an agent, which may not search and answers once, or the oracle of a generated world. The policy itself
(the paper) and an external model (the released code) use the same role and prompt. A reading without an answer tag is
an empty response, which no judge accepts. A new reader is one factory here and one line in ``READERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ssp_env.errors import ConfigError
from ssp_env.game.game import Episode, Limits
from ssp_env.game.roles import ROLES
from ssp_env.game.rollout import rollout
from ssp_env.protocols import Agent, AgentOf, Reader
from ssp_env.types import Reading, ReadingCase, Sampling, Trajectory
from ssp_env.world.reader import OracleReader


def read_with(
    agent: Agent, cases: Sequence[ReadingCase], *, prompt_set: str, sampling: Sampling, rng: np.random.Generator
) -> list[Reading]:
    """Let an agent read all cases in one batch and return its readings in order."""
    episodes = [Episode(ROLES["reader"], case, prompt_set=prompt_set, tools={}, limits=Limits()) for case in cases]
    return [reading(trajectory) for trajectory in rollout(episodes, agent, sampling=sampling, rng=rng)]


def reading(trajectory: Trajectory) -> Reading:
    """Return what a reader's episode says: its answer, "" without one, or the error that ended it."""
    if trajectory.status == "failed":
        return Reading("", trajectory.error or "the reader's episode failed")
    return Reading(trajectory.final or "")


class AgentReader:
    """An external agent as reader; the same cases get the same readings from an agent that honours seeds."""

    def __init__(self, agent: Agent, *, prompt_set: str = "paper", sampling: Sampling | None = None) -> None:
        """Wrap an agent; the default sampling is greedy with 256 tokens."""
        self._agent = agent
        self._prompt_set = prompt_set
        self._sampling = sampling or Sampling(max_tokens=256, temperature=0.0)

    def read(self, cases: Sequence[ReadingCase]) -> list[Reading]:
        """Return one reading per case, in order; an outage is a reading with ``error`` set."""
        rng = np.random.default_rng(self._sampling.seed or 0)
        return read_with(self._agent, cases, prompt_set=self._prompt_set, sampling=self._sampling, rng=rng)


def make_policy(config: Mapping[str, object]) -> Callable[[AgentOf], None]:
    """Return what makes no reader: the playing agent reads (the paper's text)."""
    return lambda agent_of: None


def make_agent(config: Mapping[str, object], *, agent: object) -> Callable[[AgentOf], AgentReader]:
    """Return what makes a reader of the agent that ``agent`` describes."""
    return lambda agent_of: AgentReader(agent_of(agent), prompt_set=str(config["prompt_set"]))


def make_judge(config: Mapping[str, object]) -> Callable[[AgentOf], AgentReader]:
    """Return what makes a reader of the agent that judges, as one service does both in the released SSP code.

    Raises:
        ConfigError: If the judge asks no agent.
    """
    judge = config["judge"]
    if not isinstance(judge, Mapping) or "agent" not in judge:
        raise ConfigError(
            f"expected a judge with an agent for reader 'judge', the default with rules='code', got judge {judge!r}; "
            "use judge={'name': 'model', 'agent': ...}, or another reader: reader='policy' or reader={'agent': ...}"
        )
    return make_agent(config, agent=judge["agent"])


def make_oracle(
    config: Mapping[str, object], *, error: float = 0.0, seed: int = 0
) -> Callable[[AgentOf], OracleReader]:
    """Check the settings of reader ``oracle`` and return what makes it.

    Raises:
        ConfigError: If the corpus is no generated world.
        TypeError: If a setting is no number.
        ValueError: If ``error`` is out of range.
    """
    if not isinstance(error, int | float) or not isinstance(seed, int):
        raise TypeError(f"error must be a number and seed a whole number, not {error!r} and {seed!r}")
    reader = OracleReader(error=error, seed=seed)
    corpus = config["corpus"]
    if not isinstance(corpus, Mapping) or "world" not in corpus:
        raise ConfigError(
            "expected a reader that knows the corpus, got 'oracle', which only knows generated worlds; "
            "use reader='policy' or reader={'agent': ...}"
        )
    return lambda agent_of: reader


ReaderFactory = Callable[..., Callable[[AgentOf], Reader | None]]

READERS: dict[str, ReaderFactory] = {
    "agent": make_agent,
    "judge": make_judge,
    "oracle": make_oracle,
    "policy": make_policy,
}
"""Name to factory. A factory takes the completed configuration of the game, and the settings as keywords; it refuses
wrong ones with ``ConfigError``, ``TypeError`` or ``ValueError`` before anything is loaded, and returns what makes the
reader, or None where the policy itself reads."""
