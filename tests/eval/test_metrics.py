from __future__ import annotations

import pytest

from ssp_env.eval.metrics import recall_at, reciprocal_rank


def test_recall_and_reciprocal_rank() -> None:
    assert recall_at(["a", "b", "c"], {"b", "z"}, k=2) == 0.5
    assert recall_at(["a", "b", "c"], {"b", "z"}, k=1) == 0.0
    assert recall_at([], ["z"], k=1) == 0.0
    assert reciprocal_rank(["a", "b", "c"], {"c", "b"}) == 0.5
    assert reciprocal_rank(["a"], {"z"}) == 0.0
    for relevant, k in ((set(), 1), ({"a"}, 0)):
        with pytest.raises(ValueError, match="expected relevant ids and a positive k"):
            recall_at(["a"], relevant, k=k)


def test_what_is_found_twice_counts_once() -> None:
    assert recall_at(["a", "a", "b"], ["a", "b", "b"], k=2) == 0.5
    assert recall_at(["a", "b"], ["b", "a", "a"], k=9) == 1.0
