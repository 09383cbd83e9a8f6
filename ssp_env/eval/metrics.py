"""Measures of retrieval that are watched, never trained on."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def recall_at(retrieved: Sequence[str], relevant: Collection[str], *, k: int) -> float:
    """Return the share (0 .. 1) of relevant ids among the first ``k`` retrieved ids.

    Raises:
        ValueError: If nothing is relevant or ``k`` is not positive.
    """
    if not relevant or k <= 0:
        raise ValueError(f"expected relevant ids and a positive k, got {len(relevant)} and {k!r}; leave the query out")
    return len(set(retrieved[:k]) & set(relevant)) / len(set(relevant))


def reciprocal_rank(retrieved: Sequence[str], relevant: Collection[str]) -> float:
    """Return 1 / rank (from 1) of the first relevant id, or 0 when there is none; its mean over queries is MRR."""
    return next((1 / rank for rank, name in enumerate(retrieved, start=1) if name in relevant), 0.0)
