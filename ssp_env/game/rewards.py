"""The rewards of both roles as pure functions, by name (SSP section 3, equations 1 and 7; other settings noted).

Rules about the text look at all that a model wrote, also after its action. None stands for a failure of ours: it is
never turned into a number, so an outage pays nobody and charges nobody.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import TypeVar

from ssp_env.errors import ConfigError
from ssp_env.tags import holds_tag
from ssp_env.types import Invalid, Trajectory, Verdict

SolverReward = Callable[[Verdict, Trajectory], float | None]
ProposerReward = Callable[[float | None], float | None]
_F = TypeVar("_F")

OVERLISTING_TAGS = 10


def binary(verdict: Verdict, trajectory: Trajectory) -> float | None:
    """Return 1 for a correct response and 0 for a wrong one; None when judge or episode failed on our side."""
    if verdict.label == "error" or trajectory.status == "failed":
        return None
    return 1.0 if verdict.correct else 0.0


def strict(verdict: Verdict, trajectory: Trajectory) -> float | None:
    """Return the binary reward, but 0 for an episode that deviates from the format (SSP: it earns nothing).

    The paper does not say what deviates. Here it is a turn without a well-formed action, or with an ``<information>``
    tag of the model's own, however it is spaced: only the environment writes these.
    """
    reward = binary(verdict, trajectory)
    deviates = any(
        isinstance(turn.action, Invalid) or holds_tag(turn.written, ("information",))
        for turn in trajectory.conversation.turns
    )
    return 0.0 if reward is not None and deviates else reward


def overlisting(verdict: Verdict, trajectory: Trajectory) -> float | None:
    """Return the binary reward, divided by 4 for more than 10 opening or closing answer tags (SSP's released code)."""
    reward = binary(verdict, trajectory)
    text = "".join(turn.written for turn in trajectory.conversation.turns)
    listed = max(text.count("<answer>"), text.count("</answer>")) > OVERLISTING_TAGS
    return reward / 4 if reward is not None and listed else reward


def zero_sum(success_rate: float | None) -> float | None:
    """Return ``1 - p``."""
    return None if success_rate is None else 1.0 - _rate(success_rate)


def zero_sum_solved(success_rate: float | None) -> float | None:
    """Return ``1 - p``, but 0 for a question that nobody solved (Absolute Zero, Dr. Zero)."""
    return 0.0 if success_rate == 0 else zero_sum(success_rate)


def learnability(success_rate: float | None) -> float | None:
    """Return ``4 p (1 - p)``: most for a question solved half the time, 0 at both ends."""
    return None if success_rate is None else 4.0 * _rate(success_rate) * (1.0 - success_rate)


def format_only(success_rate: float | None) -> float | None:
    """Return 1 for any question that was played."""
    return None if success_rate is None else float(_rate(success_rate) >= 0)


def _rate(success_rate: float) -> float:
    if not 0.0 <= success_rate <= 1.0:
        raise ValueError(f"expected a success rate between 0 and 1, got {success_rate!r}")
    return success_rate


SOLVER_REWARDS: dict[str, SolverReward] = {"binary": binary, "strict": strict, "overlisting": overlisting}
PROPOSER_REWARDS: dict[str, ProposerReward] = {
    "zero_sum": zero_sum,
    "zero_sum_solved": zero_sum_solved,
    "learnability": learnability,
    "format": format_only,
}


def solver_reward(name: str) -> SolverReward:
    """Return the solver reward of this name; raises ``ConfigError`` when there is none."""
    return _find(SOLVER_REWARDS, name)


def proposer_reward(name: str) -> ProposerReward:
    """Return the proposer reward of this name; raises ``ConfigError`` when there is none."""
    return _find(PROPOSER_REWARDS, name)


def _find(table: Mapping[str, _F], name: str) -> _F:
    if name in table:
        return table[name]
    close = difflib.get_close_matches(name, table, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "name one of these"
    raise ConfigError(f"expected a reward out of {sorted(table)}, got {name!r}; {hint}")
