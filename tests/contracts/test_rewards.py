"""What every reward promises; a new reward is covered by being in its dict."""

from __future__ import annotations

import math

import pytest

from ssp_env.game.rewards import PROPOSER_REWARDS, SOLVER_REWARDS
from ssp_env.types import Conversation, Task, Trajectory, Verdict

RATES = [i / 12 for i in range(13)]


@pytest.mark.parametrize("name", sorted(PROPOSER_REWARDS))
class TestProposerReward:
    def test_is_finite_and_between_0_and_1(self, name: str) -> None:
        for rate in RATES:
            reward = PROPOSER_REWARDS[name](rate)
            assert isinstance(reward, float) and math.isfinite(reward) and 0.0 <= reward <= 1.0

    def test_none_stays_none(self, name: str) -> None:
        assert PROPOSER_REWARDS[name](None) is None

    @pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
    def test_refuses_what_is_no_rate(self, name: str, rate: float) -> None:
        with pytest.raises(ValueError, match="between 0 and 1"):
            PROPOSER_REWARDS[name](rate)


@pytest.mark.parametrize("name", sorted(SOLVER_REWARDS))
def test_solver_reward_is_between_0_and_1_and_monotone(name: str) -> None:
    trajectory = Trajectory("solver", Task("t", "q", ("x",)), Conversation(()), "finished")
    wrong, correct = (SOLVER_REWARDS[name](Verdict(label, "exact"), trajectory) for label in ("wrong", "correct"))
    assert wrong is not None and correct is not None and 0.0 <= wrong < correct <= 1.0
    assert SOLVER_REWARDS[name](Verdict("error", "model"), trajectory) is None
