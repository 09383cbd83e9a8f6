"""The round as a PettingZoo AEC environment: one agent per part, each with its own reward.

Needs the optional package ``pettingzoo``. The agents are ``proposer_0``, ``reader_0`` (with ``reader="policy"``) and
``solver_0 .. solver_{n-1}``; they act in this order, each until its part is over. A solver is paid when its answer is
judged, proposer and reader when the round is over. PettingZoo's ``api_test`` reads ``observation.dtype``, which text
has not; but for that it passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils.seeding import np_random

from ssp_env.envs.base import (
    RENDER_MODES,
    action_space,
    check_render_mode,
    check_step,
    chosen,
    observation_space,
    opening,
    read_options,
)
from ssp_env.envs.info import describe, transcript
from ssp_env.envs.settle import SelfPlayScenario, playable
from ssp_env.envs.state import State, step
from ssp_env.registry import GameConfig, build_game
from ssp_env.spaces import FreeText

try:
    from pettingzoo import AECEnv
except ImportError as error:
    raise ImportError("expected the package pettingzoo, got none; install ssp-env[pettingzoo]") from error


class SearchSelfPlayAEC(AECEnv[str, str, str | None]):  # type: ignore[misc]
    """A round of search self-play in PettingZoo's agent-environment cycle.

    Options of ``reset``, rules and rewards are those of ``SearchSelfPlay-v0``. An agent sees its own prompt and
    replies, and "" while another one acts.
    """

    def __init__(self, *, render_mode: str | None = None, **config: Unpack[GameConfig]) -> None:
        """Build the game, or take it from the process-wide cache."""
        super().__init__()
        self.metadata = {"name": "search_self_play_v0", "render_modes": list(RENDER_MODES), "is_parallelizable": False}
        self.render_mode = check_render_mode(render_mode)
        self.game = playable(build_game(config))
        readers = ["reader_0"] if self.game.reader is None else []
        self.possible_agents = ["proposer_0", *readers, *(f"solver_{i}" for i in range(self.game.rules.n_solves))]
        self.agents: list[str] = []
        self._actions = {agent: action_space() for agent in self.possible_agents}
        self._observations = {agent: observation_space() for agent in self.possible_agents}
        self._scenario = SelfPlayScenario()
        self._rng: np.random.Generator = np_random()[0]
        self._state: State | None = None

    def observation_space(self, agent: str) -> FreeText:
        """Return the space of an agent's observations, always the same object."""
        return self._observations[agent]

    def action_space(self, agent: str) -> FreeText:
        """Return the space of an agent's actions, always the same object."""
        return self._actions[agent]

    def reset(self, seed: int | None = None, options: Mapping[str, object] | None = None) -> None:
        """Start a round; a seed makes it and all following ones reproducible.

        The option ``answer`` chooses the answer. Others are ignored, as PettingZoo wants it.
        """
        answer = {name: value for name, value in read_options(options).items() if name == "answer"}
        item = chosen(self._scenario, self.game, answer)
        self._rng = self._rng if seed is None else np_random(seed)[0]
        self._state = opening(self._scenario, self.game, rng=self._rng, item=item)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._skip_agent_selection = None
        self._select()

    def observe(self, agent: str) -> str:
        """Return what an agent sees: the prompt or reply if it acts next, else ""."""
        state = self._current()
        return state.observation if agent == self.agent_selection else ""

    def step(self, action: str | None) -> None:
        """Take one completion of the acting agent, as ``TextEnv.step`` does; None removes one whose round is over."""
        state, agent = self._current(), self.agent_selection
        if self.terminations.get(agent) or self.truncations.get(agent):
            self._was_dead_step(action)
            return
        check_step(state, action)
        (now,) = step(self._scenario, [state], [str(action)])
        self._state = now
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        if len(now.verdicts) > len(state.verdicts):
            self.rewards[agent] = now.reward
        if now.over:
            self._end(now)
        self._accumulate_rewards()
        self._select()

    def render(self) -> str | None:
        """Return the transcript so far in mode ``ansi``, else None."""
        return transcript(self._current()) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Do nothing: the game is shared."""

    def _current(self) -> State:
        if self._state is None:
            raise ResetNeeded("expected a running round, got none; call reset first")
        return self._state

    def _end(self, now: State) -> None:
        """Pay the parts that are settled last, and end all agents."""
        for trajectory in now.ended:
            if trajectory.role != "solver":
                self.rewards[f"{trajectory.role}_0"] = trajectory.reward or 0.0
        self.terminations = dict.fromkeys(self.agents, now.terminated)
        self.truncations = dict.fromkeys(self.agents, now.truncated)

    def _select(self) -> None:
        state = self._current()
        number = min(len(state.verdicts), self.game.rules.n_solves - 1) if state.episode.role.name == "solver" else 0
        self.agent_selection = f"{state.episode.role.name}_{number}"
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self.infos[self.agent_selection] = dict(describe(state))
