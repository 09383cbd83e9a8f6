"""Advantages, and the weight that each token's loss gets: pure functions over lists.

The policy-gradient loss is ``-sum over rows of coefficient * sum over sampled tokens of ratio``. ``estimate`` turns
rewards into advantages; ``coefficients`` folds the way in which tokens and rows are averaged into one number per row.
A reward of None (our own failure) takes no part in any statistic and its row has no weight.

Estimators (SSP sections 3 and 4, dossier of the released code):

========== ============================================================================================
``grpo``   reward minus group mean, divided by the sample standard deviation + 1e-6 (released code)
``mean``   reward minus group mean (paper, equation 4)
``rloo``   reward minus the mean of the group's other rewards
``raw``    the reward itself: REINFORCE without a baseline (proposer of paper and code)
``batch``  reward minus the mean of the whole batch: REINFORCE with a baseline
``hop``    as ``grpo`` over all groups of the same label, the demanded number of searches (HRPO, arXiv 2601.07055)
========== ============================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from statistics import fmean, stdev
from typing import Literal

Aggregation = Literal["token_mean", "row_mean", "token_sum"]
Estimator = Literal["grpo", "mean", "rloo", "raw", "batch", "hop"]
Rewards = Sequence[float | None]


def estimate(name: str, groups: Sequence[Rewards], *, labels: Sequence[int] | None = None) -> list[list[float]]:
    """Return one advantage per reward, in the shape of ``groups``; 0 where the reward is None.

    ``labels``, one per group, tell the estimator ``hop`` which groups are judged together; None: all of them.

    Raises:
        ValueError: If the estimator is unknown, a reward is not finite, or groups and labels differ in number.
    """
    if name not in ESTIMATORS:
        raise ValueError(f"expected an estimator out of {sorted(ESTIMATORS)}, got {name!r}; name one of these")
    present = [[reward for reward in group if reward is not None] for group in groups]
    if not all(map(math.isfinite, chain.from_iterable(present))):
        raise ValueError(f"expected finite rewards, got {groups!r}; a failure of ours is None")
    labels = labels or [0] * len(groups)
    values = [iter(group) for group in (_hop(present, labels) if name == "hop" else ESTIMATORS[name](present))]
    return [
        [0.0 if reward is None else next(value) for reward in group]
        for group, value in zip(groups, values, strict=True)
    ]


def coefficients(
    advantages: Sequence[float], tokens: Sequence[int], *, aggregation: Aggregation, weight: float = 1.0
) -> list[float]:
    """Return what each sampled token of a row weighs in the loss of one role.

    Args:
        advantages: One per row; rows that were not scored are left out by the caller.
        tokens: Sampled tokens of each row.
        aggregation: ``token_mean``: mean over all tokens of the role. ``row_mean``: mean over rows of the mean over a
            row's tokens. ``token_sum``: mean over rows of the sum over a row's tokens.
        weight: Factor of the role.
    """
    n_rows, n_tokens = len(tokens), sum(tokens)
    divisors: Mapping[str, Callable[[int], int]] = {
        "token_mean": lambda _: n_tokens,
        "row_mean": lambda own: n_rows * own,
        "token_sum": lambda _: n_rows,
    }
    divisor = divisors[aggregation]
    return [weight * a / divisor(own) for a, own in zip(advantages, tokens, strict=True)]


def _centred(group: list[float]) -> list[float]:
    return [reward - fmean(group) for reward in group] if group else []


def _grpo(group: list[float]) -> list[float]:
    scale = stdev(group) + 1e-6 if len(group) > 1 else 1.0
    return [value / scale for value in _centred(group)]


def _rloo(group: list[float]) -> list[float]:
    n = len(group)
    return [value * n / (n - 1) for value in _centred(group)] if n > 1 else [0.0] * n


def _batch(groups: list[list[float]]) -> list[list[float]]:
    rewards = list(chain.from_iterable(groups))
    return [[reward - fmean(rewards) for reward in group] for group in groups]


def _hop(groups: list[list[float]], labels: Sequence[int]) -> list[list[float]]:
    joined: dict[int, list[float]] = {}
    for group, label in zip(groups, labels, strict=True):
        joined.setdefault(label, []).extend(group)
    left = {label: iter(_grpo(rewards)) for label, rewards in joined.items()}
    return [[next(left[label]) for _ in group] for group, label in zip(groups, labels, strict=True)]


ESTIMATORS: dict[str, Callable[[list[list[float]]], list[list[float]]]] = {
    "grpo": lambda groups: [_grpo(group) for group in groups],
    "mean": lambda groups: [_centred(group) for group in groups],
    "rloo": lambda groups: [_rloo(group) for group in groups],
    "raw": lambda groups: groups,
    "batch": _batch,
    "hop": lambda groups: _hop(groups, [0] * len(groups)),
}
