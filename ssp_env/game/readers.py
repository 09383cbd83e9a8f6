"""Readers: who answers the validator's question from given passages alone.

A reader may be an agent, which may not search and answers once, or the oracle of a generated world. The policy itself
(the paper) and an external model (the released code) use the same role and prompt. A reading without an answer tag is
an empty response, which no judge accepts. A new reader is one record of settings here and one line in ``READERS``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from ssp_env.game.game import Episode, Limits
from ssp_env.game.roles import ROLES
from ssp_env.game.rollout import rollout
from ssp_env.protocols import Agent, AgentOf, Reader
from ssp_env.schema import Share
from ssp_env.types import Reading, ReadingCase, Sampling, Trajectory
from ssp_env.world.oracle import OracleReader


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


GameSettings = Mapping[str, object]
"""The completed configuration of a game."""


class ReaderSettings(Protocol):
    """A frozen dataclass whose fields are what a configuration may set; see ``schema.parse``."""

    def build(self, agent_of: AgentOf, game: GameSettings) -> Reader | None:
        """Return the reader, or None where the playing agent itself reads."""
        ...


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The playing agent reads (the paper's text)."""

    def build(self, agent_of: AgentOf, game: GameSettings) -> None:
        """Return no reader."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The agent that ``agent`` describes reads."""

    agent: str | Mapping[str, object]

    def build(self, agent_of: AgentOf, game: GameSettings) -> AgentReader:
        """Return the reader."""
        return AgentReader(agent_of(self.agent), prompt_set=str(game["prompt_set"]))


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """The agent that judges reads, as one service does both in the released SSP code."""

    def build(self, agent_of: AgentOf, game: GameSettings) -> AgentReader:
        """Return the reader."""
        judge = cast("Mapping[str, str]", game["judge"])
        return AgentSettings(judge["agent"]).build(agent_of, game)


@dataclass(frozen=True, slots=True)
class OracleSettings:
    """The oracle of a generated world reads; see ``OracleReader``."""

    error: Share = 0.0
    seed: int = 0

    def build(self, agent_of: AgentOf, game: GameSettings) -> OracleReader:
        """Return the reader."""
        return OracleReader(error=self.error, seed=self.seed)


READERS: dict[str, type[ReaderSettings]] = {
    "agent": AgentSettings,
    "judge": JudgeSettings,
    "oracle": OracleSettings,
    "policy": PolicySettings,
}
"""Name to settings."""
