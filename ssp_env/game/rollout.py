"""Playing episodes with an agent: all advance together, one completion a step, and search in one batch.

Those that await the same stop strings are completed in one call.

A failure of ours is recorded where it happened: a broken tool fails the episodes that called it, an ``AgentError``
fails the episodes of that call. Any other exception is a bug and propagates. Nothing is scored here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ssp_env.errors import AgentError
from ssp_env.game.batching import in_groups
from ssp_env.game.game import Episode, advance
from ssp_env.protocols import Agent, check_completions
from ssp_env.types import Completion, Sampling, Trajectory


def rollout(
    episodes: Sequence[Episode], agent: Agent, *, sampling: Sampling, rng: np.random.Generator
) -> list[Trajectory]:
    """Play all episodes to their end and return their unscored records, in order.

    Args:
        episodes: Distinct episodes of any roles; those that have ended already are only recorded.
        agent: Completes every conversation.
        sampling: As given, but for ``stop``, which the role decides, and ``seed``, drawn from ``rng`` for each call.
        rng: Advanced by one draw per call of the agent.
    """
    (records,) = rollout_apart([(episodes, rng)], agent, sampling=sampling)
    return records


def rollout_apart(
    parties: Sequence[tuple[Sequence[Episode], np.random.Generator]], agent: Agent, *, sampling: Sampling
) -> list[list[Trajectory]]:
    """Play several parties side by side and return their records: those that each would have if played alone.

    The agent is called for each party by itself, with a seed from the party's own generator; the tool calls of all
    parties are answered together, one batch per tool and step. A broken tool fails all episodes of its batch.
    """
    while any(episode.running for episodes, _ in parties for episode in episodes):
        moves: list[tuple[Episode, Completion]] = []
        for episodes, rng in parties:
            running = [episode for episode in episodes if episode.running]
            complete = partial(_complete, agent=agent, sampling=sampling, rng=rng)
            completed = in_groups(running, lambda episode: episode.stop, complete)
            moves += [(episode, made) for episode, made in zip(running, completed, strict=True) if made is not None]
        advance([episode for episode, _ in moves], [completion for _, completion in moves], isolate=True)
    return [[episode.record() for episode in episodes] for episodes, _ in parties]


def _complete(
    episodes: Sequence[Episode], *, agent: Agent, sampling: Sampling, rng: np.random.Generator
) -> Sequence[Completion | None]:
    """Return the completions of episodes that await the same stop strings; an outage fails them all."""
    drawn = replace(sampling, stop=episodes[0].stop, seed=int(rng.integers(2**31)))
    try:
        completions = agent.complete([episode.conversation for episode in episodes], sampling=drawn)
    except AgentError as error:
        for episode in episodes:
            episode.fail(f"AgentError: {error}")
        return [None] * len(episodes)
    check_completions(completions, len(episodes))
    return completions
