"""The vector environment of all three ids: every step answers the searches of all its episodes in one retrieval call.

Episode ``i`` of a reset with seed ``s`` is the episode of the single environment with seed ``s + i``. All of them share
one game and live in this process; there is nothing to copy, and text of any length is returned as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

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
from ssp_env.envs.state import Scenario, State, items, step
from ssp_env.errors import ConfigError
from ssp_env.game.game import Game
from ssp_env.types import Answer, Task

Texts = tuple[str, ...]
Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class TextVectorEnv(VectorEnv[Texts, Sequence[str], npt.NDArray[Any]]):
    """Many episodes of one scenario over one game.

    ``autoreset_mode`` ``"NextStep"``: the step after an episode's end ignores its action, resets it and pays 0.
    ``"SameStep"``: the step that ends an episode resets it too; its last observation and info are in
    ``infos["final_obs"]`` and ``infos["final_info"]``. ``"Disabled"``: ended episodes are reset by hand with
    ``options={"reset_mask": flags}``; the other episodes stay as they are. ``infos`` hold arrays with ``_key`` masks,
    as Gymnasium's own vector environments make them.
    """

    def __init__(
        self,
        scenario: Scenario,
        game: Game,
        *,
        num_envs: int = 1,
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
    ) -> None:
        """Prepare the episodes; nothing is drawn before the first reset.

        ``max_episode_steps`` truncates as Gymnasium's ``TimeLimit`` does for a single environment: the episode is left
        as it is, unjudged and unpaid; -1 is no limit. The game's own limit is the rule ``max_turns``, which settles it.
        ``autoreset_mode`` may be the enum too, but only a spec with its text can be written as JSON.

        Raises:
            ValueError: If a number is not positive or the mode is unknown.
        """
        mode = _mode(autoreset_mode)
        limit = None if max_episode_steps == -1 else max_episode_steps
        for name, number in (("num_envs", num_envs), ("max_episode_steps", 1 if limit is None else limit)):
            if not _is_whole(number) or number < 1:
                raise ValueError(f"expected a positive whole number as {name}, got {number!r}; change it")
        self.num_envs = num_envs
        self.render_mode = check_render_mode(render_mode)
        self.metadata = {"render_modes": list(RENDER_MODES), "render_fps": 1, "autoreset_mode": mode}
        self.single_action_space = action_space()
        self.single_observation_space = observation_space()
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.game = game
        self._scenario = scenario
        self._mode = mode
        self._max_steps = limit
        self._steps = [0] * num_envs
        self._rngs = [np_random()[0] for _ in range(num_envs)]
        self._states: list[State] = []

    @property
    def states(self) -> tuple[State, ...]:
        """The states of all episodes; raises ``ResetNeeded`` before the first reset."""
        if not self._states:
            raise ResetNeeded("expected running episodes, got none; call reset first")
        return tuple(self._states)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[Texts, dict[str, Any]]:
        """Open all episodes, or those of a mask.

        Args:
            seed: None, one seed per episode, or ``s`` for ``s, s + 1, ...``.
            options: As for the single environment, where a list holds one value per episode; and ``"reset_mask"``,
                a boolean array, shape ``(num_envs,)``.

        Raises:
            ValueError: If seeds are no whole numbers, or if not ``num_envs`` seeds, options or flags are given.
            ConfigError: As ``TextEnv.reset``, and if nothing can be drawn when an ended episode is to be reset.
        """
        given = dict(read_options(options))
        members = np.flatnonzero(self._mask(given.pop("reset_mask", None))).tolist()
        seeds, choices = self._seeds(seed), self._options(given)
        self._check_autoreset()
        opened = self._open({i: chosen(self._scenario, self.game, choices[i]) for i in members}, seeds)
        self._states = [opened[i] if i in opened else self._states[i] for i in range(self.num_envs)]
        self._steps = [0 if i in opened else self._steps[i] for i in range(self.num_envs)]
        return self._texts(), self._infos({}, opened)

    def step(self, actions: Sequence[str]) -> tuple[Texts, Numbers, Flags, Flags, dict[str, Any]]:
        """Take one completion per episode.

        Returns:
            Texts, rewards (float64), terminations and truncations (bool), each of shape ``(num_envs,)``, and infos.

        Raises:
            ValueError: If the actions are no sequence, or their number is not ``num_envs``. Else as ``TextEnv.step``.
        """
        states = self.states
        if not _is_list(actions) or len(actions) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} actions, got {actions!r:.80}; pass one string per episode")
        over = [i for i, state in enumerate(states) if state.over and self._mode is AutoresetMode.NEXT_STEP]
        going = [i for i in range(self.num_envs) if i not in over]
        for i in going:
            check_step(states[i], actions[i])
        moved = step(self._scenario, [states[i] for i in going], [actions[i] for i in going])
        now = {i: self._limited(i, state) for i, state in zip(going, moved, strict=True)}
        ended = [i for i in going if now[i].over] if self._mode is AutoresetMode.SAME_STEP else []
        again = self._open(dict.fromkeys([*over, *ended]), [None] * self.num_envs)
        now |= {i: again[i] for i in over}
        self._states = [again.get(i, now[i]) for i in range(self.num_envs)]
        self._steps = [0 if i in again else self._steps[i] + 1 for i in range(self.num_envs)]
        infos: dict[str, Any] = {}
        for i in ended:
            final = {"final_obs": now[i].observation, "final_info": dict(describe(now[i]))}
            infos = self._add_info(infos, final, i)
        rewards = np.array([now[i].reward for i in range(self.num_envs)], dtype=np.float64)
        terminations = np.array([now[i].terminated for i in range(self.num_envs)], dtype=np.bool_)
        truncations = np.array([now[i].truncated for i in range(self.num_envs)], dtype=np.bool_)
        return self._texts(), rewards, terminations, truncations, self._infos(infos, range(self.num_envs))

    def render(self) -> tuple[str, ...] | None:
        """Return one transcript per episode in mode ``ansi``, else None."""
        return tuple(map(transcript, self.states)) if self.render_mode == "ansi" else None

    def _texts(self) -> Texts:
        return tuple(state.observation for state in self._states)

    def _limited(self, i: int, state: State) -> State:
        """Return the state, truncated if it has had its last step."""
        last = self._max_steps is not None and self._steps[i] + 1 >= self._max_steps
        return replace(state, truncated=True) if last else state

    def _check_autoreset(self) -> None:
        if self._mode is not AutoresetMode.DISABLED and not items(self._scenario, self.game):
            kind = "tasks" if self._scenario.role == "solver" else "answers"
            raise ConfigError(
                f"expected {kind} to draw from when an episode ends, got none; pass {kind}='file.jsonl', or "
                "autoreset_mode='Disabled' and options at every reset"
            )

    def _open(self, picked: Mapping[int, Answer | Task | None], seeds: Sequence[int | None]) -> dict[int, State]:
        """Open episodes, all or none: only when all could be opened do their generators move on."""
        rngs = {i: deepcopy(self._rngs[i]) if seeds[i] is None else np_random(seeds[i])[0] for i in picked}
        opened = {i: opening(self._scenario, self.game, rng=rngs[i], item=item) for i, item in picked.items()}
        self._rngs = [rngs.get(i, rng) for i, rng in enumerate(self._rngs)]
        return opened

    def _infos(self, infos: dict[str, Any], members: Iterable[int]) -> dict[str, Any]:
        """Return the infos with those of members added."""
        for i in members:
            infos = self._add_info(infos, dict(describe(self._states[i])), i)
        return infos

    def _mask(self, flags: object) -> Flags:
        if flags is None:
            return np.ones(self.num_envs, dtype=np.bool_)
        if not isinstance(flags, np.ndarray) or flags.dtype != np.bool_ or flags.shape != (self.num_envs,):
            raise ValueError(f"expected a boolean array of shape ({self.num_envs},) as reset_mask, got {flags!r}")
        if not self._states and not flags.all():
            raise ResetNeeded("expected a full reset first, got a reset_mask; call reset without it")
        return flags

    def _seeds(self, seed: object) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        seeds = [int(seed) + i for i in range(self.num_envs)] if _is_whole(seed) else seed
        if not _is_list(seeds) or not all(s is None or _is_whole(s) for s in seeds):
            raise ValueError(f"expected whole numbers as seed, got {seed!r:.80}; pass one, or one per episode")
        if len(seeds) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} seeds, got {len(seeds)}; pass one per episode")
        return [int(s) if _is_whole(s) else None for s in seeds]

    def _options(self, given: Mapping[str, object]) -> list[dict[str, object]]:
        for name, value in given.items():
            if isinstance(value, list) and len(value) != self.num_envs:
                raise ValueError(
                    f"expected {self.num_envs} values for {name!r}, got {len(value)}; pass one per episode"
                )
        return [
            {name: value[i] if isinstance(value, list) else value for name, value in given.items()}
            for i in range(self.num_envs)
        ]


def make_text_vector(
    parts: Callable[..., tuple[Scenario, Game]],
    num_envs: int = 1,
    *,
    render_mode: str | None = None,
    autoreset_mode: str | AutoresetMode = "NextStep",
    max_episode_steps: int | None = None,
    **config: Any,
) -> TextVectorEnv:
    """Return the vector environment of the parts that a configuration describes, for ``gymnasium.make_vec``."""
    return TextVectorEnv(
        *parts(**config),
        num_envs=num_envs,
        render_mode=render_mode,
        autoreset_mode=autoreset_mode,
        max_episode_steps=max_episode_steps,
    )


def _is_whole(value: object) -> TypeGuard[int | np.integer]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_list(values: object) -> TypeGuard[Sequence[object]]:
    """Whether these are values in order, and no text."""
    one_axis = isinstance(values, np.ndarray) and values.ndim == 1
    return one_axis or (isinstance(values, Sequence) and not isinstance(values, str | bytes))


def _mode(value: str | AutoresetMode) -> AutoresetMode:
    try:
        return AutoresetMode(value)
    except ValueError as error:
        names = [mode.value for mode in AutoresetMode]
        raise ValueError(f"expected an autoreset_mode out of {names}, got {value!r}; name one of these") from error
