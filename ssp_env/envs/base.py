"""The Gymnasium side that the three environments share: spaces, reset options, render, and errors in its terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from ssp_env.datasets import answer_from_row, task_from_row
from ssp_env.envs.info import describe, transcript
from ssp_env.envs.state import Scenario, State, items, start, step
from ssp_env.errors import ConfigError
from ssp_env.game.game import Game, Limits
from ssp_env.schema import shown
from ssp_env.spaces import FreeText
from ssp_env.types import Answer, Task

MAX_OBSERVATION_CHARS = 10_000_000
RENDER_MODES = ("ansi",)


def action_space() -> FreeText:
    """Return the space of completions: longer ones are answered as invalid."""
    return FreeText(Limits().max_action_chars)


def observation_space() -> FreeText:
    """Return the space of prompts and replies."""
    return FreeText(MAX_OBSERVATION_CHARS)


def check_render_mode(render_mode: str | None) -> str | None:
    """Return the render mode; raises ``ValueError`` for any other than None and ``ansi``."""
    if render_mode not in (None, *RENDER_MODES):
        raise ValueError(f"expected render_mode None or 'ansi', got {render_mode!r}; choose one of these")
    return render_mode


class TextEnv(gymnasium.Env[str, str]):
    """An environment over a scenario and a game; the public classes only choose these."""

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 1}

    def __init__(self, scenario: Scenario, game: Game, *, render_mode: str | None = None) -> None:
        """Wrap the parts; nothing is drawn before the first reset."""
        self.action_space = action_space()
        self.observation_space = observation_space()
        self.render_mode = check_render_mode(render_mode)
        self.game = game
        self._scenario = scenario
        self._state: State | None = None

    @property
    def state(self) -> State:
        """The state of the running episode, a frozen record; raises ``ResetNeeded`` before the first reset."""
        if self._state is None:
            raise ResetNeeded("expected a running episode, got none; call reset first")
        return self._state

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Draw an item and show its prompt.

        Args:
            seed: Seeds the environment's generator.
            options: ``{"task": ...}`` (solver) or ``{"answer": ...}`` (the others) chooses the item: its index, a
                record, or its plain JSON row; records are checked as rows are.

        Raises:
            ConfigError: If the options are no mapping, one is unknown, or its item cannot be used.
        """
        item = chosen(self._scenario, self.game, options)
        super().reset(seed=seed)
        self._state = opening(self._scenario, self.game, rng=self.np_random, item=item)
        return self._state.observation, dict(describe(self._state))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Take one completion.

        Raises:
            ResetNeeded: If there is no running episode.
            TypeError: If the action is not a string.
            SSPError: If something on our side failed; nothing has happened and the same step may be repeated.
        """
        check_step(self.state, action)
        (self._state,) = step(self._scenario, [self.state], [action])
        now = self._state
        return now.observation, now.reward, now.terminated, now.truncated, dict(describe(now))

    def render(self) -> str | None:
        """Return the transcript so far in mode ``ansi``, else None."""
        return transcript(self.state) if self.render_mode == "ansi" else None


def check_step(state: State, action: object) -> None:
    """Refuse a step that makes no sense."""
    if state.over:
        raise ResetNeeded("expected a running episode, got one that is over; call reset first")
    if not isinstance(action, str):
        raise TypeError(f"expected a string as action, got {type(action).__name__}; pass the completion's text")


def opening(scenario: Scenario, game: Game, *, rng: np.random.Generator, item: Answer | Task | None) -> State:
    """Draw the key of an episode, and its item if there is none yet, and return its opening state."""
    key = int(rng.integers(2**63))
    if item is None:
        drawn = items(scenario, game)
        item = drawn[int(rng.integers(len(drawn)))]
    return start(scenario, game, item, key=key)


def read_options(options: Mapping[str, object] | None) -> Mapping[str, object]:
    """Return the options of a reset; raises ``ConfigError`` for anything but a mapping and None."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise ConfigError(f"expected reset options as a mapping, got {shown(options)}; pass a dict, or leave them out")
    return options


def chosen(scenario: Scenario, game: Game, options: Mapping[str, object] | None) -> Answer | Task | None:
    """Return the item that reset options choose, None where it is to be drawn; no generator is touched."""
    kind, convert = (Task, task_from_row) if scenario.role == "solver" else (Answer, answer_from_row)
    name = kind.__name__.lower()
    given = read_options(options)
    if unknown := sorted(set(given) - {name}, key=str):
        raise ConfigError(f"expected reset options out of [{name!r}], got {unknown}; correct the name")
    drawn, value = items(scenario, game), given.get(name)
    if value is None and not drawn:
        raise ConfigError(f"expected {name}s to draw from, got none; pass {name}s='file.jsonl', or one in options")
    if value is None:
        return None
    if isinstance(value, kind | Mapping):
        return convert(_row(value) if isinstance(value, Task | Answer) else value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= value < len(drawn):
        return drawn[int(value)]
    wanted = f"an index below {len(drawn)}, a {kind.__name__} or its row"
    raise ConfigError(f"expected {wanted} for {name!r}, got {shown(value)}; pass one of these")


def _row(item: Task | Answer) -> dict[str, object]:
    """Return a record as the row it would be read from, so that records are checked as rows are."""
    row = asdict(item)
    return row if isinstance(item, Task) else {"answer": row.pop("text"), **row}
