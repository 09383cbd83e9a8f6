"""Playing episodes with an agent: all that await the same stop strings advance together, one completion a step.

A failure of ours is recorded where it happened: a broken tool fails the episodes that called it, an ``AgentError``
fails the episodes of that call. Any other exception is a bug and propagates. Nothing is scored here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ssp_env.episode import Episode, advance
from ssp_env.errors import AgentError
from ssp_env.protocols import Agent
from ssp_env.types import Sampling, Trajectory


def play(
    episodes: Sequence[Episode], agent: Agent, *, sampling: Sampling, rng: np.random.Generator
) -> list[Trajectory]:
    """Play all episodes to their end and return their unscored records, in order.

    Args:
        episodes: Distinct episodes of any roles; those that have ended already are only recorded.
        agent: Completes every conversation.
        sampling: As given, but for ``stop``, which the role decides, and ``seed``, drawn from ``rng`` for each call.
        rng: Advanced by one draw per call of the agent.
    """
    while live := [episode for episode in episodes if episode.running]:
        groups: dict[tuple[str, ...], list[Episode]] = {}
        for episode in live:
            groups.setdefault(episode.stop, []).append(episode)
        for stop, members in groups.items():
            _step(members, agent, replace(sampling, stop=stop, seed=int(rng.integers(2**31))))
    return [episode.record() for episode in episodes]


def _step(episodes: Sequence[Episode], agent: Agent, sampling: Sampling) -> None:
    try:
        completions = agent.complete([episode.conversation for episode in episodes], sampling=sampling)
    except AgentError as error:
        for episode in episodes:
            episode.fail(f"AgentError: {error}")
        return
    advance(episodes, completions, isolate=True)
