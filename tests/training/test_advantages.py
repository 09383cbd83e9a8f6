import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.advantages import ESTIMATORS, coefficients, estimate

rewards = st.lists(st.none() | st.floats(-5, 5), min_size=0, max_size=6)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grpo", [[1.5, -0.5, -0.5, -0.5], [0.0, 0.0], [0.0]]),
        ("mean", [[0.75, -0.25, -0.25, -0.25], [0.0, 0.0], [0.0]]),
        ("rloo", [[1.0, -1 / 3, -1 / 3, -1 / 3], [0.0, 0.0], [0.0]]),
        ("raw", [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0], [0.5]]),
        ("batch", [[0.5, -0.5, -0.5, -0.5], [0.5, 0.5], [0.0]]),
    ],
)
def test_estimators_by_hand(name, expected):
    for got, want in zip(estimate(name, [[1, 0, 0, 0], [1, 1], [0.5]]), expected, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
@given(groups=st.lists(rewards, max_size=4))
def test_unscored_rows_have_no_weight_and_do_not_move_the_others(name, groups):
    full = estimate(name, groups)
    assert [len(a) for a in full] == [len(g) for g in groups]
    without = estimate(name, [[r for r in group if r is not None] for group in groups])
    kept = [
        [a for a, r in zip(row, group, strict=True) if r is not None] for row, group in zip(full, groups, strict=True)
    ]
    assert kept == without
    assert all(
        a == 0 for row, group in zip(full, groups, strict=True) for a, r in zip(row, group, strict=True) if r is None
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_rewards_that_are_not_finite_are_refused(bad):
    with pytest.raises(ValueError, match="finite"):
        estimate("grpo", [[bad, 0.0]])


def test_an_unknown_estimator_is_refused():
    with pytest.raises(ValueError, match="'ppo'"):
        estimate("ppo", [[1.0]])


@pytest.mark.parametrize("aggregation", ["token_mean", "row_mean", "token_sum"])
def test_aggregations_equal_their_definition(aggregation):
    # Three rows of 1, 2 and 7 tokens whose tokens each cost the row's advantage.
    advantages, tokens = [1.0, 1.0, 2.4285714285714284], [1, 2, 7]
    losses = [[a] * n for a, n in zip(advantages, tokens, strict=True)]
    by_definition = {
        "token_mean": sum(map(sum, losses)) / 10,
        "row_mean": sum(np.mean(row) for row in losses) / 3,
        "token_sum": sum(map(sum, losses)) / 3,
    }
    weights = coefficients(advantages, tokens, aggregation=aggregation)
    total = sum(w * n for w, n in zip(weights, tokens, strict=True))
    assert total == pytest.approx(by_definition[aggregation])


def test_hop_compares_rewards_of_the_same_label_over_all_groups():
    got = estimate("hop", [[1.0], [0.0], [None], [0.5], [3.0], [0.0]], labels=[1, 2, 1, 1, 2, 3])
    joined = estimate("grpo", [[1.0, 0.5], [0.0, 3.0], [0.0]])
    assert got == [[joined[0][0]], [joined[1][0]], [0.0], [joined[0][1]], [joined[1][1]], [0.0]]
    assert estimate("hop", [[1.0, 0.0]]) == estimate("grpo", [[1.0, 0.0]])
    with pytest.raises(ValueError):
        estimate("hop", [[1.0]], labels=[1, 2])


def test_the_role_weight_scales_every_row():
    assert coefficients([1.0, -1.0], [2, 2], aggregation="token_mean", weight=0.5) == [0.125, -0.125]
    assert coefficients([], [], aggregation="row_mean") == []
