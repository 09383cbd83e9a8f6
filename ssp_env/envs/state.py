"""What all environments share, without Gymnasium: the state of one environment episode and the batched step.

A state is frozen and a step makes new ones, so a step that raises has changed nothing and can be repeated. The single
environments step one state, the vector environments all of theirs at once; both therefore play identical episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ssp_env.game.game import Episode, Game, advance
from ssp_env.types import (
    Answer,
    Completion,
    RoleName,
    Task,
    Trajectory,
    Turn,
    Validation,
    Verdict,
)


@dataclass(frozen=True, slots=True)
class State:
    """The state of one environment episode.

    Attributes:
        game: The parts it is played with.
        item: What it was opened with.
        key: Decides everything random after the reset.
        episode: The role's episode that awaits a completion, or the last one; replaced, never changed.
        task: What is being solved, once there is something to solve.
        turn: The last turn taken.
        observation: What the agent is shown next.
        reward: What the last step paid.
        terminated: Whether the rules ended it.
        truncated: Whether a limit ended it.
        ended: The finished roles' episodes, scored where the rules score them.
        verdicts: The verdicts of the solves among them, in order.
        validation: Whether the proposal was accepted, once that is known.
    """

    game: Game
    item: Answer | Task
    key: int
    episode: Episode
    task: Task | None = None
    turn: Turn | None = None
    observation: str = ""
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    ended: tuple[Trajectory, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    validation: Validation | None = None

    @property
    def over(self) -> bool:
        """Whether nothing may follow but a reset."""
        return self.terminated or self.truncated

    def rng(self) -> np.random.Generator:
        """Return the generator for what follows the acting episode; the same one when a step is repeated."""
        return np.random.default_rng([self.key, len(self.ended)])

    def opens(self, episode: Episode) -> State:
        """Return the state in which another role's episode begins."""
        return replace(self, episode=episode, observation=prompt_text(episode))

    def closes(self) -> State:
        """Return the state in which it is over: truncated when a limit ended the last episode, else terminated.

        An episode that the rule ``end_on_invalid`` ended is terminated: a rule is no limit.
        """
        truncated = self.episode.status == "truncated" and self.episode.truncation != "invalid_action"
        return replace(self, observation="", terminated=not truncated, truncated=truncated)


class Scenario(Protocol):
    """What makes an environment: what it starts from and what follows when a role's episode has ended."""

    @property
    def role(self) -> RoleName:
        """The role that starts."""
        ...

    def settle(self, states: Sequence[State]) -> list[State]:
        """Return the next state of states whose acting episode has just ended.

        Raises:
            SSPError: If something on our side failed; then nothing has happened.
        """
        ...


def items(scenario: Scenario, game: Game) -> Sequence[Answer] | Sequence[Task]:
    """Return what episodes of a scenario are drawn from."""
    return game.tasks if scenario.role == "solver" else game.answers


def start(scenario: Scenario, game: Game, item: Answer | Task, *, key: int) -> State:
    """Return the opening state."""
    episode = game.episode(scenario.role, item)
    task = item if isinstance(item, Task) else None
    return State(game, item, key, episode, task=task, observation=prompt_text(episode))


def step(scenario: Scenario, states: Sequence[State], texts: Sequence[str]) -> list[State]:
    """Return the states after one completion each; all searches are answered by one retrieval call."""
    episodes = [copy(state.episode) for state in states]
    advance(episodes, [Completion(_well_formed(text)) for text in texts])
    moved = [_moved(state, episode) for state, episode in zip(states, episodes, strict=True)]
    if ended := [i for i, episode in enumerate(episodes) if not episode.running]:
        for i, state in zip(ended, scenario.settle([moved[i] for i in ended]), strict=True):
            moved[i] = state
    return moved


def prompt_text(episode: Episode) -> str:
    """Return the opening messages of an episode as one text."""
    return "\n\n".join(message["content"] for message in episode.conversation.prompt)


def _moved(state: State, episode: Episode) -> State:
    turn = episode.conversation.turns[-1]
    return replace(state, episode=episode, turn=turn, observation=turn.observation, reward=0.0)


def _well_formed(text: str) -> str:
    """Return the text with lone surrogates replaced by U+FFFD, so that it can be shown, stored and tokenized."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
