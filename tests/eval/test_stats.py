"""Intervals: known tables, coverage, resampling, and the figures of published cards."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ssp_env.eval.stats import Interval, bootstrap, interval, paired

pytest.importorskip("scipy")


def test_intervals_of_known_cases() -> None:
    assert interval([2.0]) == Interval(2.0, 2.0, 2.0, 2.0, 2.0, 1)
    assert interval([0.25] * 9, n_resamples=50) == Interval(*[0.25] * 5, 9)
    found = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.776445 * np.sqrt(2.5) / np.sqrt(5)
    assert (found.mean, found.t_low, found.t_high) == pytest.approx((3.0, 3 - half, 3 + half))
    assert interval([0.0, 1.0]).low == 0.0 and interval([0.0, 1.0]).high == 1.0  # a quarter of the resamples each
    assert 1.6 <= found.low <= 2.0 and 4.0 <= found.high <= 4.4
    with pytest.raises(ValueError, match="run the arm"):
        interval([])


@pytest.mark.parametrize(("n", "quantile"), [(2, 12.7062), (3, 4.30265), (5, 2.77645), (11, 2.22814), (121, 1.97993)])
def test_students_quantiles_are_those_of_the_table(n: int, quantile: float) -> None:
    values = np.arange(float(n))
    found = interval(values.tolist(), n_resamples=10)
    assert (found.t_high - found.mean) * n**0.5 / values.std(ddof=1) == pytest.approx(quantile, rel=1e-5)


def test_the_bootstrap_is_that_of_the_mean_by_percentiles() -> None:
    values = np.random.default_rng(3).normal(size=7)
    drawn = np.random.default_rng(0).integers(0, 7, size=(10_000, 7))
    expected = np.percentile(values[drawn].mean(axis=1), [2.5, 97.5])
    found = interval(values.tolist(), seed=0)
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=1e-12)


def test_the_bootstrap_of_many_normal_values_is_the_textbook_interval() -> None:
    values = np.random.default_rng(0).normal(1.0, 2.0, size=400)
    found = interval(values.tolist())
    half = 1.96 * values.std(ddof=1) / 20
    assert found.low == pytest.approx(values.mean() - half, abs=0.02)
    assert found.high == pytest.approx(values.mean() + half, abs=0.02)
    assert found.t_high == pytest.approx(values.mean() + 1.966 * values.std(ddof=1) / 20, abs=1e-3)


def test_students_interval_of_five_seeds_covers_the_truth_in_95_of_100_cases() -> None:
    rng = np.random.default_rng(1)
    found = [interval(rng.normal(size=5).tolist(), n_resamples=300) for _ in range(600)]
    assert 0.93 <= np.mean([f.t_low <= 0 <= f.t_high for f in found]) <= 0.97
    assert np.mean([f.low <= 0 <= f.high for f in found]) < 0.92


def test_pairing_takes_out_what_the_seeds_share() -> None:
    first = {0: 0.9, 1: 0.1, 2: 0.5}
    second = {2: 0.4, 0: 0.8, 1: 0.0, 9: 1.0}
    found = paired(first, second)
    assert (found.mean, found.low, found.high, found.n) == pytest.approx((0.1, 0.1, 0.1, 3))
    assert found.off_zero() and not interval([-1.0, 1.0, 0.3]).off_zero()
    assert not interval([0.1, 0.2]).off_zero(), "Student's interval of two seeds is wide"
    with pytest.raises(ValueError):
        paired({0: 1.0}, {1: 1.0})


def test_a_generator_goes_on_after_a_bootstrap() -> None:
    first, again = (np.random.default_rng(0) for _ in range(2))
    values = np.arange(100.0)
    low, high = bootstrap(values, rng=first, n_resamples=2000)
    assert 40 < low < 46 and 53 < high < 59
    assert bootstrap(values, rng=again, n_resamples=2000) == (low, high) != bootstrap(values, rng=first)


def test_the_intervals_of_a_published_card_are_found_again(repository: Path) -> None:
    arms = json.loads((repository / "benchmarks" / "results" / "ablation_main.json").read_bytes())["figures"]["arms"]
    for arm in arms.values():
        found = interval([arm["accuracy_by_seed"][seed] for seed in sorted(arm["accuracy_by_seed"], key=int)])
        published = arm["accuracy"]
        assert {name: getattr(found, name) for name in published} == pytest.approx(published, abs=1.1e-4)


def test_scipy_is_asked_for_by_the_name_of_its_extra_and_only_when_needed() -> None:
    code = (
        "import sys; from ssp_env.eval.stats import interval; print('scipy' in sys.modules)\n"
        "sys.modules['scipy'] = None\ntry: interval([1.0, 2.0])\nexcept ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False\n") and "pip install 'ssp-env[eval]'" in done.stdout
